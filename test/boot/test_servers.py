# SPDX-License-Identifier: MIT
"""
Servers and clients that people have, unmodified, in one vNode: over loopback and AF_UNIX they say
what they say on the host, and the host is served by published ports. Each is left out by name where
the host does not have it.
"""

import glob
import hashlib
import os
import random
import shutil
import socket
import subprocess
import time

import pytest
from boot import WORK, Running, image, wait_for
from test_real_programs import (
    BASH,
    PYTHON_LEFT_OUT,
    _running,
    add_directory,
    build_image,
    compare,
    python_libraries,
    require,
    where,  # noqa: F401 (a fixture)
)

pytestmark = pytest.mark.long

PROGRAMS = ["redis-server", "redis-cli", "redis-benchmark", "memcached", "socat", "nc", "iperf3",
            "nginx", "curl", "wget", "ip", "python3", "grep", "kill", "timeout"]  # fmt: skip

# Until the server answers: a command that succeeds then.
UNTIL = r"""
until_up() { local i=0; until "$@" > /dev/null 2>&1; do i=$((i + 1)); [ $i -lt 200 ] || exit 9
    sleep 0.2; done; }
port=$1
"""

REDIS = UNTIL + r"""
redis-server --port $port --unixsocket $PWD/r.sock --save "" --appendonly no > log 2>&1 & p=$!
until_up redis-cli -p $port ping
redis-cli -p $port set a b; redis-cli -s $PWD/r.sock get a
seq 500 | sed 's/.*/lpush list &/' | redis-cli -s $PWD/r.sock | tail -n 1
redis-cli -p $port lrange list 0 2
redis-cli -p $port -n 1 eval 'return redis.call("incrby", KEYS[1], 41) + 1' 1 n
redis-benchmark -q -p $port -n 500 -c 10 -t get,set --csv | cut -d, -f1
redis-benchmark -q -s $PWD/r.sock -n 500 -c 10 -t get,set,lpush --csv | cut -d, -f1
redis-cli -p $port save; ls; redis-cli -p $port shutdown nosave; wait $p; echo "status $?"
"""

MEMCACHED = UNTIL + r"""
answers() { printf 'version\r\nquit\r\n' | nc -w 9 127.0.0.1 $port | grep -q VERSION; }
memcached -u root -l 127.0.0.1 -p $port -U 0 -t 2 & p=$!
until_up answers
printf 'set a 0 0 5\r\nhello\r\nget a\r\nincr n 1\r\nset n 0 0 2\r\n41\r\nincr n 1\r\nquit\r\n' |
    nc -w 9 127.0.0.1 $port
memcached -u root -s $PWD/m.sock -t 1 & q=$!
until_up test -S m.sock
printf 'set b 0 0 3\r\nxyz\r\nget b\r\nquit\r\n' | nc -w 9 -U m.sock
kill $p $q; wait $p; echo "status $?"; wait $q; echo "status $?"
"""

SOCAT = UNTIL + r"""
socat TCP-LISTEN:$port,bind=127.0.0.1,fork,reuseaddr EXEC:'tr a-z A-Z' & p=$!
until_up nc -z 127.0.0.1 $port
for i in 1 2 3; do echo hello $i | socat -t60 - TCP:127.0.0.1:$port; done
kill $p; wait $p; echo "status $?"
socat -u UNIX-LISTEN:s.sock - > got & p=$!
until_up test -S s.sock
seq 20000 | socat -u - UNIX-CONNECT:s.sock; wait $p; md5sum < got
nc -l 127.0.0.1 $port > got & p=$!
seq 50000 > many; until_up nc -N 127.0.0.1 $port < many; wait $p; cmp many got; echo "same $?"
nc -l ::1 $port > got & p=$!
until_up nc -N ::1 $port < many; wait $p; cmp many got; echo "same $?"
nc -l -U u.sock > got & p=$!
until_up nc -N -U u.sock < many; wait $p; cmp many got; echo "same $?"
nc -z 127.0.0.1 $port; echo "refused $?"
"""

IPERF3 = UNTIL + r"""
serve() { iperf3 -s -1 -p $port > slog 2>&1 & p=$!; sleep 0.2; }
measure() { local i=0; until iperf3 -c 127.0.0.1 -p $port "$@" > clog 2>&1; do i=$((i + 1))
    [ $i -lt 50 ] || { cat clog; exit 9; }; sleep 0.2; done
    wait $p; echo "server $?"; grep -c -i error slog clog; }
serve; measure -n 4M -J
serve; measure -R -P 3 -n 2M
serve; measure -u -b 5M -t 1
"""

# Fetches from a server of Python's, by both clients.
FETCH = UNTIL + r"""
mkdir html; for i in 1 2 3; do seq $((i * 3000)) > html/$i; done
python3 -m http.server -b 127.0.0.1 -d html $port 2> /dev/null & p=$!
until_up curl -s http://127.0.0.1:$port/1
for i in 1 2 3; do curl -s http://127.0.0.1:$port/$i; done | md5sum
wget -q -O - http://127.0.0.1:$port/2 http://127.0.0.1:$port/3 | md5sum
curl -s -o /dev/null -w '%{http_code}\n' http://127.0.0.1:$port/none
wget -q -O /dev/null http://127.0.0.1:$port/none; echo "status $?"
kill $p; wait $p; curl -s http://127.0.0.1:$port/1; echo "status $?"
"""

# A server of files by two workers, in the present directory; $1: where it listens.
NGINX_SETUP = r"""
mkdir -p html; for i in 1 2 3; do seq $((i * 3000)) > html/$i; done
cat > conf <<END
daemon off; worker_processes 2; pid n.pid; user root root; events {}
http { access_log off; client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3;
    uwsgi_temp_path t4; scgi_temp_path t5; server { listen $1; root $PWD/html; } }
END
"""

NGINX = UNTIL + "set -- 127.0.0.1:$port\n" + NGINX_SETUP + r"""
nginx -p $PWD -e elog -c $PWD/conf & p=$!
until_up curl -s http://127.0.0.1:$port/1
for i in 1 2 3; do curl -s http://127.0.0.1:$port/$i; done | md5sum
curl -s http://127.0.0.1:$port/1 http://127.0.0.1:$port/2 http://127.0.0.1:$port/3 | md5sum
curl -s -r 100-4999 http://127.0.0.1:$port/3 | md5sum
curl -s -o /dev/null -w '%{http_code}\n' http://127.0.0.1:$port/none
for i in 1 2 3 4 5 6 7 8; do curl -s http://127.0.0.1:$port/3 > got$i & c="$c $!"; done; wait $c
md5sum got*; kill -QUIT $p; wait $p; echo "status $?"; cut -d: -f5- < elog | cut -d, -f1
"""


# Servers of Python's own modules; cert.pem and key.pem are there.
PYTHON = r"""
import asyncio, multiprocessing.managers as managers, socket, socketserver, ssl, threading

class Upper(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            self.wfile.write(line.upper())

class Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    daemon_threads = True

class Secure(Server):
    def get_request(self):
        conn, peer = self.socket.accept()
        return context.wrap_socket(conn, server_side=True), peer

def ask(sock, nr):
    with sock, sock.makefile("rwb") as f:
        f.write(b"".join(b"line %d\n" % i for i in range(nr)))
        f.flush()
        return [f.readline() for _ in range(nr)][-1]

context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("cert.pem", "key.pem")
trust = ssl.create_default_context(cafile="cert.pem")
for kind in Server, Secure:
    with kind(("127.0.0.1", 0), Upper) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for nr in 1, 10, 300:
            sock = socket.create_connection(server.server_address)
            if kind is Secure:
                sock = trust.wrap_socket(sock, server_hostname="127.0.0.1")
                print(sock.version())
            print(kind.__name__, ask(sock, nr))
        server.shutdown()

def echo(start, connect):
    async def serve(reader, writer):
        while line := await reader.readline():
            writer.write(line[::-1])
        writer.close()

    async def client(i):
        reader, writer = await connect()
        writer.write(b"%d\n" % i * 100)
        writer.write_eof()
        return len(await reader.read())

    async def main():
        async with await start(serve) as server:
            address[:] = server.sockets[0].getsockname()
            print(await asyncio.gather(*map(client, range(20))))

    asyncio.run(main())

address = []
echo(lambda serve: asyncio.start_unix_server(serve, "a.sock"),
     lambda: asyncio.open_unix_connection("a.sock"))
for host in "127.0.0.1", "::1":
    echo(lambda serve: asyncio.start_server(serve, host, 0),
         lambda: asyncio.open_connection(host, address[1]))

class Counter:
    def __init__(self):
        self.n = 0
    def add(self, k):
        self.n += k
        return self.n

class Manager(managers.BaseManager):
    pass

if __name__ == "__main__":
    Manager.register("Counter", Counter)
    for where in ("127.0.0.1", 0), "m.sock":
        with Manager(address=where, authkey=b"secret") as manager:
            counter = manager.Counter()
            print([counter.add(i) for i in range(10)])
"""


def certificate(folder) -> tuple[str, str]:
    """Of 127.0.0.1, and its key."""
    require("openssl")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-days",
         "30", "-keyout", "key.pem", "-out", "cert.pem"],
        cwd=folder, check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    return (folder / "cert.pem").read_text(), (folder / "key.pem").read_text()


def pem_files(folder) -> str:
    cert, key = certificate(folder)
    return f"cat > cert.pem <<'END'\n{cert}END\ncat > key.pem <<'END'\n{key}END\n"


@pytest.fixture(scope="module")
def servers(texts):
    tree = image.Tree()
    for top in python_libraries():
        add_directory(tree, top, PYTHON_LEFT_OUT)
    for path in glob.glob("/lib/x86_64-linux-gnu/libnss_*"):
        tree.add_host_path(path)
    for path in ("/etc/nsswitch.conf", "/etc/protocols", "/etc/services", "/etc/hosts"):
        if os.path.exists(path):
            tree.files[path] = path
    yield from _running(build_image("servers", tree, PROGRAMS, texts), "servers")


def a_free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


@pytest.mark.parametrize("script, needs", [
    (REDIS, ["redis-server", "redis-cli", "redis-benchmark"]), (MEMCACHED, ["memcached", "nc"]),
    (SOCAT, ["socat", "nc"]), (IPERF3, ["iperf3"]), (FETCH, ["curl", "wget", "python3"]),
    (NGINX, ["nginx", "curl"]),
], ids=["redis", "memcached", "socat", "iperf3", "fetch", "nginx"])  # fmt: skip
def test_a_server(servers, texts, where, script, needs):  # noqa: F811
    for program in needs:
        require(program)
    compare(servers, texts, [*BASH, script, "script", str(a_free_port())], where, 300)


def test_pythons_servers(servers, texts, where, tmp_path):  # noqa: F811
    """socketserver, ssl, asyncio streams, managers of multiprocessing."""
    require("python3")
    script = f"{pem_files(tmp_path)}cat > s.py <<'END'\n{PYTHON}END\npython3 s.py"
    compare(servers, texts, [*BASH, script], where, 300)


def test_ip_shows_the_loopback(servers):
    """`ip` of Debian, by AF_NETLINK alone."""
    require("ip")
    got = servers.run([*BASH, "ip -br addr; ip link show lo; ip route; ip route get 127.0.0.1;"
                       "ip link show nothing; ip addr add 10.9.9.9/8 dev lo"])  # fmt: skip
    assert got.out.decode().split("\n") == [
        "lo               UNKNOWN        127.0.0.1/8 ::1/128 ",
        "1: lo: <LOOPBACK,UP,LOWER_UP> mtu 65536 qdisc noqueue state UNKNOWN mode DEFAULT "
        "group default qlen 1000",
        "    link/loopback 00:00:00:00:00:00 brd 00:00:00:00:00:00",
        "local 127.0.0.1 dev lo table local src 127.0.0.1 ",
        "    cache ",
        "",
    ]
    assert got.err.decode().split("\n")[:2] == [
        'Device "nothing" does not exist.',
        "RTNETLINK answers: Operation not supported",
    ]


@pytest.fixture
def published(servers):
    """The same disk with a network card; the ports of the host that lead to 7001 and 7002."""
    ports = a_free_port(), a_free_port()
    args = [w for i, p in enumerate(ports) for w in ("--publish", f"{p}:{7001 + i}")]
    running = Running(tuple(args), servers.disk, "published").up()
    try:
        yield running, *ports
    finally:
        running.close()
    assert not running.complaints()


def on_the_host(*argv: str) -> str:
    return subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False).stdout


def end(server) -> int:
    server.signal(15)
    assert server.wait(time.monotonic() + 60)
    return server.exit.status


def test_nginx_at_a_published_port(published):
    for program in ("nginx", "curl"):
        require(program)
    running, port, _ = published
    script = f"set -- 7001; {NGINX_SETUP} exec nginx -p $PWD -e elog -c $PWD/conf"
    server, _ = running.start([*BASH, script], cwd="/tmp", env=["PATH=/usr/bin:/bin:/usr/sbin"])
    url = f"http://127.0.0.1:{port}"
    want = ["".join(f"{n}\n" for n in range(1, i * 3000 + 1)) for i in (1, 2, 3)]
    wait_for(lambda: on_the_host("curl", "-s", f"{url}/1") == want[0])
    urls = [f"{url}/{i}" for i in (1, 2, 3)]
    assert on_the_host("curl", "-s", *urls * 5) == "".join(want * 5)
    assert on_the_host("curl", "-s", "-r", "100-4999", f"{url}/3") == want[2][100:5000]
    got = on_the_host("curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", f"{url}/none")
    assert got == "404"
    assert end(server) == 0


def test_nginx_with_tls_at_a_published_port(published, tmp_path):
    for program in ("nginx", "curl", "ab"):
        require(program)
    running, port, _ = published
    script = (
        f"cd /tmp; {pem_files(tmp_path)}"
        "set -- \"7001 ssl; ssl_certificate $PWD/cert.pem; ssl_certificate_key $PWD/key.pem\"\n"
        f"{NGINX_SETUP} exec nginx -p $PWD -e elog -c $PWD/conf"
    )
    server, _ = running.start([*BASH, script], cwd="/tmp", env=["PATH=/usr/bin:/bin:/usr/sbin"])
    fetch = ("curl", "-s", "--cacert", str(tmp_path / "cert.pem"))
    url = f"https://127.0.0.1:{port}"
    want = ["".join(f"{n}\n" for n in range(1, i * 3000 + 1)) for i in (1, 2, 3)]
    wait_for(lambda: on_the_host(*fetch, f"{url}/1") == want[0])
    urls = [f"{url}/{i}" for i in (1, 2, 3)]
    assert on_the_host(*fetch, *urls * 3) == "".join(want * 3)
    # The file of a server that is not trusted is not fetched.
    assert on_the_host("curl", "-s", f"{url}/1") == ""
    under_ab(f"{url}/1", len(want[0]), "-n", "200", "-c", "10")
    under_ab(f"{url}/3", len(want[2]), "-n", "400", "-c", "10", "-k")
    assert end(server) == 0


def under_ab(url: str, size: int, *options: str) -> None:
    """As many requests as -n, the second option, says, each answered by so many bytes."""
    got = on_the_host("ab", "-q", "-s", "120", *options, url)
    lines = dict(line.split(":", 1) for line in got.splitlines() if ":" in line)
    assert lines["Complete requests"].split() == [options[1]], got
    assert lines["Failed requests"].split() == ["0"], got
    assert lines["HTML transferred"].split()[0] == str(int(options[1]) * size), got


NR_FILES = 10_000


@pytest.fixture(scope="module")
def many_files(texts):
    """A disk with 10,000 files for a web server; what each has, by its name."""
    require("nginx")
    rng = random.Random(14)
    text = (texts / "text.big").read_bytes()
    top = WORK / "many"
    shutil.rmtree(top, ignore_errors=True)
    digests = {}
    for i in range(NR_FILES):
        size = rng.randrange(300_000) if i % 100 == 99 else rng.randrange(5000)
        data = text[(at := rng.randrange(len(text) - size)) : at + size]
        path = top / str(i // 100) / str(i)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        digests[f"{i // 100}/{i}"] = hashlib.sha256(data).digest()
    tree = image.Tree()
    tree.add_volume(str(top), "/srv/many")
    for path in glob.glob("/lib/x86_64-linux-gnu/libnss_*"):
        tree.add_host_path(path)
    disk = build_image("many", tree, ["nginx"], texts)
    shutil.rmtree(top)
    return disk, digests


def test_nginx_with_ten_thousand_files(many_files, tmp_path):
    """Every byte of each is right, twice, the second time by 16 clients at once; then ab."""
    for program in ("nginx", "curl", "ab"):
        require(program)
    disk, digests = many_files
    port = a_free_port()
    running = Running(("--publish", f"{port}:7001"), disk, "many").up()
    try:
        script = (f"set -- 7001; {NGINX_SETUP} rm -r html; ln -s /srv/many html;"
                  " exec nginx -p $PWD -e elog -c $PWD/conf")  # fmt: skip
        server, _ = running.start([*BASH, script], cwd="/tmp", env=["PATH=/usr/bin:/bin:/usr/sbin"])
        url = f"http://127.0.0.1:{port}"
        wait_for(lambda: on_the_host("curl", "-s", "-I", f"{url}/0/0").startswith("HTTP/1.1 200"))
        for i, options in enumerate(([], ["--parallel", "--parallel-max", "16"])):
            out, config = tmp_path / str(i), tmp_path / f"{i}.conf"
            config.write_text("".join(
                f'url = "{url}/{name}"\noutput = "{out}/{name}"\n' for name in digests
            ))
            subprocess.run(["curl", "-sS", "--fail", "--create-dirs", *options, "-K", config],
                           check=True, timeout=1200)  # fmt: skip
            wrong = [name for name, digest in digests.items()
                     if hashlib.sha256((out / name).read_bytes()).digest() != digest]
            assert not wrong
            size = (out / "0" / "99").stat().st_size
            shutil.rmtree(out)
        under_ab(f"{url}/0/99", size, "-n", "1000", "-c", "20", "-k")
        under_ab(f"{url}/0/99", size, "-n", "300", "-c", "10")
        assert running.stats()["p0"]["tcpip.no_memory"] == 0
        assert end(server) == 0
    finally:
        running.close()
    assert not running.complaints()


def test_redis_at_a_published_port(published):
    for program in ("redis-server", "redis-cli", "redis-benchmark"):
        require(program)
    running, _, port = published
    server, _ = running.start(
        [shutil.which("redis-server"), "--port", "7002", "--protected-mode", "no", "--save", "",
         "--appendonly", "no"], cwd="/tmp")  # fmt: skip
    cli = ("redis-cli", "-p", str(port))
    wait_for(lambda: on_the_host(*cli, "ping") == "PONG\n")
    assert on_the_host(*cli, "set", "a", "b" * 100_000) == "OK\n"
    assert on_the_host(*cli, "get", "a") == "b" * 100_000 + "\n"
    got = on_the_host("redis-benchmark", "-p", str(port), "-n", "500", "-c", "10", "-t", "get,set",
                      "--csv")  # fmt: skip
    assert [line.split(",")[0] for line in got.splitlines()[1:]] == ['"SET"', '"GET"']
    assert end(server) == 0
