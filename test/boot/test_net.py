# SPDX-License-Identifier: MIT
"""Programs reach servers outside of the cluster, and serve the outside, over a network card and
lwIP.
"""

import concurrent.futures
import contextlib
import hashlib
import http.server
import random
import shutil
import socket
import threading
import time
import urllib.request

import pytest
from boot import Running, wait_for
from tessera_launcher.streams import feed

BUSYBOX = shutil.which("busybox")
BLOB = random.Random(14).randbytes(300_000)


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", str(len(BLOB)))
        self.end_headers()
        self.wfile.write(BLOB)

    def log_message(self, *args):
        pass


@contextlib.contextmanager
def serving(address="127.0.0.1"):
    class Server(http.server.ThreadingHTTPServer):
        address_family = socket.AF_INET6 if ":" in address else socket.AF_INET

    server = Server((address, 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()


@contextlib.contextmanager
def answering():
    """A port of the host that answers one datagram."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
        peer.bind(("127.0.0.1", 0))
        peer.settimeout(60)

        def answer():
            data, source = peer.recvfrom(100)
            peer.sendto(b"answer to " + data, source)

        thread = threading.Thread(target=answer)
        thread.start()
        yield peer.getsockname()[1]
        thread.join()


def closed_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


def test_a_program_fetches_from_the_host(pool):
    """QEMU's user network has the host at 10.0.2.2. The address comes within a moment of the start:
    the program asks until it is there.
    """
    with serving() as port:
        script = (
            f"i=0; until wget -q -O /tmp/b http://10.0.2.2:{port}/b; do"
            " i=$((i+1)); [ $i -lt 50 ] || exit 9; sleep 0.1; done 2> /dev/null;"
            f" sha256sum < /tmp/b; wget -q -O - http://10.0.2.2:{closed_port()}/; echo $?"
        )
        got = pool.get().run([BUSYBOX, "sh", "-c", script])
    assert got.out.decode().split() == [hashlib.sha256(BLOB).hexdigest(), "-", "1"]
    assert b"Connection refused" in got.err
    assert got.status == 0


@pytest.mark.parametrize("driver", ["e1000", "e1000e"])
def test_other_cards(pool, driver):
    """Intel's cards, by interrupt line and by MSI-X: a fetch from the host, over that card."""
    with serving() as port:
        script = (
            f"i=0; until wget -q -O /tmp/b http://10.0.2.2:{port}/b; do"
            " i=$((i+1)); [ $i -lt 50 ] || exit 9; sleep 0.1; done 2> /dev/null;"
            " sha256sum < /tmp/b; rm /tmp/b"
        )
        cluster = pool.get("--net", "user", "--net-driver", driver)
        got = cluster.run([BUSYBOX, "sh", "-c", script])
    assert got.out.decode().split() == [hashlib.sha256(BLOB).hexdigest(), "-"], got.err
    assert got.status == 0
    assert f"eth0: {driver}, " in cluster.log("p0")
    # Frames came by interrupts, not by chance of a timer.
    assert cluster.stats()["p0"]["irq.device"] > 20


def test_a_program_fetches_by_ipv6(pool):
    """The host is at fec0::2; the address, from a router advertisement, is there after seconds."""
    with serving("::1") as port:
        script = (
            f"i=0; until wget -q -O /tmp/b 'http://[fec0::2]:{port}/b'; do"
            " i=$((i+1)); [ $i -lt 100 ] || exit 9; sleep 0.1; done 2> /dev/null;"
            " sha256sum < /tmp/b; rm /tmp/b; ip -6 route"
        )
        cluster = pool.get()
        got = cluster.run([BUSYBOX, "sh", "-c", script])
    assert got.out.decode().split()[:2] == [hashlib.sha256(BLOB).hexdigest(), "-"], got.err
    assert got.status == 0 and b"default via fe80::2 dev eth0" in got.out
    told = cluster.cluster.network()
    assert told["gateway"] == "p0" and told["addresses"][0] == "10.0.2.15"
    assert [a for a in told["addresses"] if a.startswith("fec0::")]


def test_the_first_connection_waits_for_the_address(disk):
    """Of a program that runs as soon as the cluster is there: no try is in vain."""
    running = Running((), disk, "first-connection").up()
    try:
        with serving() as port:
            got = running.run([BUSYBOX, "wget", "-q", "-O", "-", f"http://10.0.2.2:{port}/b"])
        assert (got.status, got.err) == (0, b"") and got.out == BLOB
    finally:
        running.close()


def test_the_clock_is_right(plain):
    before = int(time.time())
    inside = int(plain.run([BUSYBOX, "date", "+%s"]).checked())
    assert before - 1 <= inside <= int(time.time()) + 1


def pings(got):
    """What ping says about each answer, but for its time."""
    return [line.rsplit(b" time=")[0] for line in got.out.splitlines() if b" time=" in line]


def answers(address, ttl):
    return [b"64 bytes from %s: seq=%d ttl=%d" % (address, i, ttl) for i in range(2)]


def test_ping(pool):
    """Busybox's ping, which has a raw socket, at the loopbacks, the own address and the router,
    which QEMU answers for.
    """
    cluster = pool.get()
    script = (
        "i=0; until ip -4 addr show eth0 | grep -q 10.0.2.15; do"
        " i=$((i+1)); [ $i -lt 50 ] || exit 9; sleep 0.1; done;"
        " for a in 127.0.0.1 10.0.2.15 10.0.2.2 ::1; do ping -c 2 -W 10 $a || exit 1; done"
    )
    got = cluster.run([BUSYBOX, "sh", "-c", script])
    assert got.status == 0, got
    want = answers(b"127.0.0.1", 64) + answers(b"10.0.2.15", 64) + answers(b"10.0.2.2", 255)
    # Of IPv6 it asks for the hops by RFC 2292's option, which there is none of.
    assert pings(got) == want + answers(b"::1", -1)
    long = cluster.run([BUSYBOX, "ping", "-c", "1", "-W", "10", "-s", "5000", "10.0.2.2"])
    assert pings(long) == [b"5008 bytes from 10.0.2.2: seq=0 ttl=255"]  # in fragments


def test_without_a_card_the_outside_is_unreachable(pool):
    got = pool.get("--net", "none").run([BUSYBOX, "wget", "-q", "-O", "-", "http://10.0.2.2:1/"])
    assert got.status == 1 and b"Network is unreachable" in got.err


def a_free_port(kind=socket.SOCK_STREAM):
    with socket.socket(socket.AF_INET, kind) as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def published(pool, guest, kind=socket.SOCK_STREAM):
    """A cluster, and the port of the host that leads to its port @guest."""
    port = a_free_port(kind)
    suffix = "/udp" if kind == socket.SOCK_DGRAM else ""
    return pool.get("--publish", f"{port}:{guest}{suffix}"), port


def fetch(port, name):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/{name}", timeout=60) as answer:
        return hashlib.sha256(answer.read()).hexdigest()


def until_fetched(port, name):
    def attempt():
        with contextlib.suppress(OSError):
            return fetch(port, name)

    return wait_for(attempt, 60)


def test_the_host_fetches_from_a_program(pool):
    """Eight clients at a time, 40 requests: every byte is right."""
    cluster, port = published(pool, 8080)
    size = 300_000
    make = f"dd if=/data/text.small of=/tmp/b bs={size} count=1 2> /dev/null && sha256sum /tmp/b"
    want = cluster.run([BUSYBOX, "sh", "-c", make]).checked().split()[0].decode()
    server, _ = cluster.start([BUSYBOX, "httpd", "-f", "-p", "8080", "-h", "/tmp"])
    assert until_fetched(port, "b") == want
    with concurrent.futures.ThreadPoolExecutor(8) as clients:
        got = list(clients.map(lambda _: fetch(port, "b"), range(40)))
    assert got == [want] * 40
    server.signal(15)
    assert server.wait(time.monotonic() + 20)
    assert cluster.stats()["p0"]["tcpip.no_memory"] == 0


def test_connections_wait_in_the_backlog(pool, programs):
    """Twelve clients of a listener with a backlog of 4 that does not accept yet: all are served in
    the end, none is reset. (QEMU itself resets a client that half-closes before the guest has
    answered.)
    """
    cluster, port = published(pool, 7000)
    server, said = cluster.start([f"{programs}/glibc-static/serves", "late", "7000", "4", "12"])
    wait_for(lambda: b"ready" in said.data[1])
    own = cluster.run([programs / "glibc-static/serves", "own", "10.0.2.2", "7001"])
    assert own.checked() == (
        b"10.0.2.15: peer 10.0.2.15\nfrom loopback: Invalid argument\n"
        b"not ours: Cannot assign requested address\n"
    )

    def client(i):
        text = bytes([65 + i]) * 20_000
        with socket.create_connection(("127.0.0.1", port), timeout=60) as s:
            s.sendall(text)
            got = b""
            while len(got) < len(text) and (piece := s.recv(65536)):
                got += piece
        return got == text

    with concurrent.futures.ThreadPoolExecutor(12) as clients:
        answers = [clients.submit(client, i) for i in range(12)]
        time.sleep(0.5)
        feed(server, b"x")
        assert [a.result() for a in answers] == [True] * 12
    assert server.wait(time.monotonic() + 60)
    assert bytes(said.data[1]) == b"ready\n12 served\n" and server.exit.status == 0


def test_datagrams_from_and_to_the_host(pool, programs):
    cluster, port = published(pool, 7, socket.SOCK_DGRAM)
    with answering() as asked:
        ask = [programs / "glibc-static/serves", "asks", "10.0.2.2", asked]
        assert cluster.run(ask).checked() == b"answer to question\n"
    server, said = cluster.start([f"{programs}/glibc-static/serves", "udp", "7", "50"])
    wait_for(lambda: b"ready" in said.data[1])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(60)
        total = 0
        for i in range(50):
            data = bytes([i]) * (i * 80)  # beyond a frame: in fragments
            s.sendto(data, ("127.0.0.1", port))
            assert s.recv(70000) == data
            total += len(data)
    assert server.wait(time.monotonic() + 60)
    assert bytes(said.data[1]) == b"ready\n%d bytes\n" % total
