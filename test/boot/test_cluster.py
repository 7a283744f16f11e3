# SPDX-License-Identifier: MIT
"""Several processors: programs on each, one that is lost, one that is cut off; a cluster that
stays.
"""

import contextlib
import hashlib
import signal
import socket
import threading
import time

import pytest
from boot import LaunchError, Running, on_host, total, wait_for, wait_for_credits
from tessera_launcher import account, frames, packages, run
from tessera_launcher.streams import Capture, feed
from test_net import BLOB, a_free_port, answering, fetch, serving, until_fetched

LIMIT_S = 120.0
BUSYBOX = packages.require("busybox")[0]
# Shorter leases than the usual 15 s, but no shorter than a loaded host bears.
LEASE_S = 8
HEARS_S = 5.0  # for what a busy host takes beyond the lease
SHAPE = ("--processors", "3", "--memories", "2", "--vregion", "2M", "--excache", "8M",
         "--append", "cluster.heartbeat_ms=500",
         "--append", f"storage:cluster.lease_ms={LEASE_S * 1000}")  # fmt: skip
# Gauges of a memory node: the state that it keeps for a processor's programs.
OWNED = ("memory.frames_used", "memory.committed", "memory.spaces", "memory.aspaces",
         "memory.vregions", "memory.vmas", "memory.frames_pinned")  # fmt: skip
# Sorts what it can in memory, tells so, and goes on when told.
STEADY = (
    "sort text.small > $T/sorted; echo ready; read x; sha256sum < $T/sorted; seq 1 20000 | wc -c"
)
# Children of a shell that has memory of its own to share, each with a heap several times the
# ExCache.
HUNGRY = (
    "x=$(seq 1 20000); for i in 1 2 3; do sort -r /data/text.big > /dev/null & done; echo $x | wc"
    " -w; wait"
)


@pytest.fixture(scope="module")
def several(disk):
    """Not from the pool: two of the processors will be lost. Port 7010 is published, by the first
    processor's card.
    """
    port = a_free_port(socket.SOCK_STREAM)
    running = Running((*SHAPE, "--publish", f"{port}:7010"), disk, "processors").up()
    running.published = port
    yield running
    running.close()
    assert not running.complaints(), "\n".join(running.complaints())


def start(running: Running, node: str, script: str):
    """A shell on a node: the program, and what it writes."""
    capture = Capture()
    argv = [BUSYBOX, "sh", "-c", script]
    what = frames.Run(argv[0], argv, run.environment(["T=/tmp"]), "/data")
    program = running.cluster.start_program(what, capture.sink, node)
    capture.attach(program)
    return program, capture


def counters(running: Running, *nodes: str) -> dict[str, dict[str, float]]:
    return {n: account.flatten(s or {}) for n, s in running.cluster.stats(nodes).items()}


def owned(running: Running) -> dict[str, float]:
    stats = counters(running, "m0", "m1")
    return {name: total(stats, name) for name in OWNED}


def steady(running: Running) -> dict[str, float]:
    """What is owned once that does not change any more: write-backs under way have come to an end.
    """
    before = owned(running)

    def same():
        nonlocal before
        now, last = owned(running), before
        before = now
        return now == last and now

    return wait_for(same)


def check_steady_ends_well(program, capture, texts, tmp_path):
    feed(program, b"go\n")
    assert program.wait(time.monotonic() + LIMIT_S)
    assert program.exit.status == 0
    there = on_host([BUSYBOX, "sh", "-c", STEADY], stdin=b"go\n", cwd=texts, env=[f"T={tmp_path}"])
    assert bytes(capture.data[1]) == there.checked()


def test_programs_on_each_processor(several):
    """Process ids are apart; one space, file or credit of one is not taken for another's."""
    nodes = ("p0", "p1", "p2", "p1")
    programs = [start(several, node, "echo $$; sort text.small | sha256sum") for node in nodes]
    pids, sums = [], set()
    for program, capture in programs:
        assert program.wait(time.monotonic() + LIMIT_S)
        pid, text = bytes(capture.data[1]).splitlines()
        assert program.exit.status == 0 and int(pid) == program.started.pid
        pids.append(int(pid))
        sums.add(text)
    assert len(set(pids)) == 4 and len(sums) == 1
    assert [pid // (4194304 // 3) for pid in pids] == [0, 1, 2, 1]


def across(running: Running, programs, node: str, *args: str):
    program, capture = start(running, node, f"exec {programs}/glibc-static/across {' '.join(args)}")
    assert program.wait(time.monotonic() + LIMIT_S, "start")
    return program, capture


def output(program, capture) -> str:
    assert program.wait(time.monotonic() + LIMIT_S)
    assert program.exit.status == 0, bytes(capture.data[2])
    return bytes(capture.data[1]).decode()


def test_ports_are_the_vnodes(several, programs):
    """A port at which a program on one processor listens is in use on the others until it ends."""
    first, capture = across(several, programs, "p1", "hold", "7001")
    wait_for(lambda: b"ready" in capture.data[1])
    assert output(*across(several, programs, "p0", "bind", "7001")) == (
        "bind: Address already in use\n"
    )
    first.signal(signal.SIGKILL)
    assert first.wait(time.monotonic() + LIMIT_S)
    wait_for(lambda: several.stats()["s0"]["names.entries"] == 0)
    assert output(*across(several, programs, "p0", "bind", "7001")) == "listens\n"


def test_programs_on_two_processors_talk(several, programs):
    """Through 127.0.0.1: the bytes travel over RDMA, and the ends are told."""
    size = 3000000
    before = counters(several, "p0", "p1")
    echo, heard = across(several, programs, "p1", "echo", "7002")
    wait_for(lambda: b"ready" in heard.data[1])
    asked = output(*across(several, programs, "p0", "ask", "7002", str(size)))
    assert asked == f"{size} bytes, 0 wrong, the end\n"
    assert output(echo, heard) == f"ready\n{size} bytes, the end\n"
    after = counters(several, "p0", "p1")
    for node in ("p0", "p1"):
        sent = {n: after[node][f"socket.remote.{n}"] - before[node][f"socket.remote.{n}"]
                for n in ("bytes", "messages", "bulks")}  # fmt: skip
        assert sent["bytes"] == size and 10 < sent["bulks"] <= sent["messages"] < size / 1000
    # A program that is killed closes its connections.
    hold, held = across(several, programs, "p1", "hold", "7003")
    wait_for(lambda: b"ready" in held.data[1])
    wait, told = across(several, programs, "p0", "wait", "7003")
    wait_for(lambda: b"ready" in told.data[1])
    hold.signal(signal.SIGKILL)
    assert output(wait, told).startswith("ready\nSuccess: 1 0 0\nrecv 0,")
    wait_for(lambda: total(counters(several, "p0", "p1"), "socket.remote.connections") == 0)


def test_datagrams_between_two_processors(several, programs):
    """UDP at 127.0.0.1: their bytes and borders, and the answer of a port without a socket."""
    before = counters(several, "p0", "p1")
    echo, heard = across(several, programs, "p1", "udp", "7008")
    wait_for(lambda: b"ready" in heard.data[1])
    asked = output(*across(several, programs, "p0", "asks", "7008"))
    assert asked == "10 datagrams, then Connection refused\n"
    assert output(echo, heard) == "ready\nthe end\n"
    after = counters(several, "p0", "p1")
    sent = {n: after[n]["socket.remote.datagrams"] - before[n]["socket.remote.datagrams"]
            for n in after}  # fmt: skip
    assert sent["p0"] >= 11 and sent["p1"] == 10


def test_unix_sockets_are_the_vnodes(several, programs):
    """By an abstract name."""
    check_unix_sockets(several, programs, "@across")


@pytest.mark.long
def test_unix_sockets_at_a_path_are_the_vnodes(pool, programs):
    """Of the disk, which both processors have."""
    running = pool.get("--processors", "2", "--writable")
    check_unix_sockets(running, programs, "/data/across")
    # A path that another processor has taken, and one without its socket.
    hold, held = across(running, programs, "p1", "hold", "/data/across")
    wait_for(lambda: b"ready" in held.data[1])
    argv = [f"{programs}/glibc-static/across", "taken", "/data/across"]
    assert running.run(argv).out == b"bind: Address already in use\n"
    assert running.run([BUSYBOX, "rm", "/data/across"]).status == 0
    hold.signal(signal.SIGKILL)
    assert hold.wait(time.monotonic() + LIMIT_S)
    assert b"errno 2)" in running.run([argv[0], "wait", argv[2]]).err


def check_unix_sockets(several, programs, name) -> None:
    """Bytes, borders of packets, datagrams, who the peer is."""
    size = 1000000
    echo, heard = across(several, programs, "p1", "echo", name)
    wait_for(lambda: b"ready" in heard.data[1])
    ask, asked = across(several, programs, "p0", "ask", name, str(size))
    assert output(ask, asked) == f"peer {echo.started.pid} 0 0\n{size} bytes, 0 wrong, the end\n"
    assert output(echo, heard) == f"ready\npeer {ask.started.pid} 0 0\n{size} bytes, the end\n"
    mirror, seen = across(several, programs, "p1", "mirror", name)
    wait_for(lambda: b"ready" in seen.data[1])
    assert output(*across(several, programs, "p0", "packets", name)).endswith(
        "10 datagrams, 11 packets, 0\n"
    )
    assert output(mirror, seen).endswith("the end\n")
    # A program that is killed closes its connections, and its names are gone.
    hold, held = across(several, programs, "p1", "hold", name)
    wait_for(lambda: b"ready" in held.data[1])
    wait, told = across(several, programs, "p0", "wait", name)
    wait_for(lambda: b"ready" in told.data[1])
    hold.signal(signal.SIGKILL)
    assert "\nready\nSuccess: 1 0 1\nrecv 0, send -1 " in output(wait, told)
    wait_for(lambda: total(counters(several, "p0", "p1"), "socket.remote.connections") == 0)
    wait_for(lambda: several.stats()["s0"]["names.entries"] == 0)
    program, capture = across(several, programs, "p0", "wait", name)
    assert program.wait(time.monotonic() + LIMIT_S)
    assert b"errno 111" in capture.data[2]


def test_a_processor_without_a_card_reaches_the_outside(several, programs):
    """Or with one on standby. By the gateway, p0: p1 fetches from the host, serves it, and
    exchanges a datagram with it.
    """
    with serving() as port:
        script = (
            f"i=0; until {BUSYBOX} wget -q -O /tmp/b http://10.0.2.2:{port}/b; do"
            " i=$((i+1)); [ $i -lt 50 ] || exit 9; sleep 0.1; done 2> /dev/null;"
            f" sha256sum < /tmp/b; {BUSYBOX} ip -4 -o addr show eth0;"
            f" exec {BUSYBOX} httpd -f -p 7010 -h /tmp"
        )
        server, said = start(several, "p1", script)
        wait_for(lambda: bytes(said.data[1]).count(b"\n") == 2)
    digest = hashlib.sha256(BLOB).hexdigest()
    lines = bytes(said.data[1]).decode().splitlines()
    assert lines[0].split()[0] == digest and "10.0.2.15/24" in lines[1]
    assert until_fetched(several.published, "b") == digest
    assert [fetch(several.published, "b") for _ in range(10)] == [digest] * 10
    server.signal(signal.SIGKILL)
    assert server.wait(time.monotonic() + LIMIT_S)
    # A file of tmpfs is a space at a memory node: the next cases count them.
    assert output(*start(several, "p1", f"{BUSYBOX} rm /tmp/b; echo gone")) == "gone\n"
    with answering() as asked:
        ask = f"exec {programs}/glibc-static/serves asks 10.0.2.2 {asked}"
        assert output(*start(several, "p1", ask)) == "answer to question\n"
    stats = counters(several, "p0", "p1")
    assert stats["p0"]["gateway.opened"] >= 1 and stats["p0"]["gateway.accepted"] >= 11
    wait_for(lambda: counters(several, "p0")["p0"]["gateway.connections"] == 0)


def test_gpm_places_where_there_is_least_to_do(several):
    """With one processor busy, what nobody has placed goes to the others, by turns."""
    busy, _ = start(several, "p0", "while :; do :; done")
    assert busy.wait(time.monotonic() + LIMIT_S, "start")
    placed = []

    def place():
        placed.append(several.cluster.place())
        return placed[-1]

    wait_for(lambda: place() != "p0")
    for _ in range(3):
        # longer than between heartbeats: reports decide, not how many were placed since
        time.sleep(0.7)
        assert place() != "p0"
    busy.signal(signal.SIGKILL)
    busy.wait(time.monotonic() + LIMIT_S)
    assert {place() for _ in range(12)} == {"p0", "p1", "p2"}
    assert several.stats()["s0"]["gpm.placed"] == len(placed)


@pytest.mark.long
@pytest.mark.parametrize("node", ["p0", "p1"], ids=["asks", "echoes"])
def test_a_processor_is_silent_amid_a_transfer(pool, programs, node):
    """For 12 s, which is less than the lease: messages that were on their way, and those lent to a
    queue, come to their end, and every byte is right.
    """
    running, size = pool.get("--processors", "2"), 60_000_000
    echo, heard = across(running, programs, "p1", "echo", "7009")
    wait_for(lambda: b"ready" in heard.data[1])
    sent = lambda n: counters(running, n)[n]["socket.remote.bytes"]  # noqa: E731
    before, other = {n: sent(n) for n in ("p0", "p1")}, {"p0": "p1", "p1": "p0"}[node]
    fenced = fences(running)
    ask, asked = across(running, programs, "p0", "ask", "7009", str(size))
    wait_for(lambda: sent("p1") > before["p1"] + size / 20)
    running.cluster.kill_node(node, signal.SIGSTOP)
    time.sleep(12)
    assert sent(other) < before[other] + size and not ask.over
    running.cluster.kill_node(node, signal.SIGCONT)
    assert output(ask, asked) == f"{size} bytes, 0 wrong, the end\n"
    assert output(echo, heard) == f"ready\n{size} bytes, the end\n"
    wait_for(lambda: total(counters(running, "p0", "p1"), "socket.remote.connections") == 0)
    assert fences(running) == fenced


@contextlib.contextmanager
def echoing():
    """A port of the host that echoes one byte and keeps the connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        kept = []

        def echo():
            kept.append(listener.accept()[0])
            kept[0].sendall(kept[0].recv(1))

        thread = threading.Thread(target=echo)
        thread.start()
        yield listener.getsockname()[1]
        thread.join()
        kept[0].close()


def test_lost_processors_are_given_back(several, programs, texts, tmp_path):
    """p0 is killed, and with it connections by it as the gateway. p2 stops for longer than its
    lease: when it goes on it may do nothing more.
    """
    # The spaces of programs that have ended go a little later.
    wait_for(lambda: owned(several)["memory.aspaces"] == 0)
    wait_for_credits("credit.held", several.stats)
    program, capture = start(several, "p1", STEADY)
    wait_for(lambda: b"ready" in capture.data[1])
    alone = steady(several)
    # Idle processors keep a store of credits, which goes with them.
    nodes = ("p0", "p1", "p2", "m0", "m1")
    wait_for_credits("credit.total", lambda: counters(several, *nodes))
    killed, _ = start(several, "p0", HUNGRY)
    stopped, _ = start(several, "p2", HUNGRY)
    wait_for(lambda: owned(several)["memory.frames_used"] > alone["memory.frames_used"] + 8000)
    assert owned(several)["memory.aspaces"] >= alone["memory.aspaces"] + 8
    hold, held = across(several, programs, "p0", "hold", "7004")
    silent, kept = across(several, programs, "p2", "hold", "7005")
    wait_for(lambda: b"ready" in held.data[1] and b"ready" in kept.data[1])
    wait, told = across(several, programs, "p1", "wait", "7004")
    fenced, learns = across(several, programs, "p1", "wait", "7005")
    with echoing() as port:
        outside, heard = across(several, programs, "p1", "wait", f"10.0.2.2:{port}")
        wait_for(lambda: all(b"ready" in c.data[1] for c in (told, heard, learns)))
        begin = time.monotonic()
        several.cluster.kill_node("p0")
        several.cluster.kill_node("p2", signal.SIGSTOP)
        for lost in (killed, hold):
            with pytest.raises(LaunchError, match="node p0 was killed by signal 9"):
                lost.wait(time.monotonic() + LIMIT_S)
        assert several.alive
        # The launcher tells of the one, the other's lease runs out: within it all peers hear.
        for ended in (output(wait, told), output(outside, heard), output(fenced, learns)):
            assert ended.startswith("ready\nConnection reset by peer: 1 1 1\nrecv 0,")
        took = time.monotonic() - begin
        assert took < LEASE_S + HEARS_S, f"the last peer heard after {took:.1f} s"
    # The launcher has told the managers of the machine that ended; the other's lease runs out.
    wait_for(lambda: "node 1 has ended: fenced" in several.log("s0"))
    wait_for(lambda: "node 3 was silent for 8000 ms: fenced" in several.log("s0"))
    try:
        wait_for(lambda: owned(several) == alone, 30)
    except AssertionError:
        assert owned(several) == alone
    # Frames are promised to p1 alone, for its store and its lines.
    wait_for_credits("credit.total", lambda: counters(several, "p1", "m0", "m1"))
    several.cluster.kill_node("p2", signal.SIGCONT)
    for lost in (stopped, silent):
        with pytest.raises(LaunchError, match="node p2: this node was fenced"):
            lost.wait(time.monotonic() + LIMIT_S)
    # The other's output is right, and nothing stands in the way of what comes next.
    feed(program, b"go\n")
    assert program.wait(time.monotonic() + LIMIT_S)
    assert program.exit.status == 0
    there = on_host([BUSYBOX, "sh", "-c", STEADY], stdin=b"go\n", cwd=texts, env=[f"T={tmp_path}"])
    assert bytes(capture.data[1]) == there.checked()
    after, _ = start(several, "p1", "exit 3")
    assert after.wait(time.monotonic() + LIMIT_S) and run.exit_status(after.exit.status) == 3


def test_another_processor_is_the_gateway(several, programs, texts):
    """p1, since p0 has gone: from the host by the published port, and to the host."""
    assert "gateway: this node is the gateway" in several.log("p1")
    server, _ = start(several, "p1", f"exec {BUSYBOX} httpd -f -p 7010 -h /data")
    text = hashlib.sha256((texts / "text.small").read_bytes()).hexdigest()
    assert until_fetched(several.published, "text.small") == text
    server.signal(signal.SIGKILL)
    assert server.wait(time.monotonic() + LIMIT_S)
    with answering() as asked:
        ask = f"exec {programs}/glibc-static/serves asks 10.0.2.2 {asked}"
        assert output(*start(several, "p1", ask)) == "answer to question\n"


# Memory of more than two vRegions, wherever they begin: some of it is on each of two nodes.
EVERYWHERE = "x=$(seq 1 600000)"
SORT = "echo ready; for i in 1 2 3 4; do sort -r text.small | sha256sum; done"


def stop_for(running: Running, seconds: float, *nodes: str) -> None:
    for node in nodes:
        running.cluster.kill_node(node, signal.SIGSTOP)
    time.sleep(seconds)
    for node in nodes:
        running.cluster.kill_node(node, signal.SIGCONT)


def test_a_memory_that_is_silent_for_less_than_a_lease(several, texts):
    """Programs wait for it, and are right."""
    program, capture = start(several, "p1", SORT)
    wait_for(lambda: b"ready" in capture.data[1])
    time.sleep(0.5)
    stop_for(several, 5, "m1")
    assert program.wait(time.monotonic() + LIMIT_S)
    assert program.exit.status == 0
    there = on_host([BUSYBOX, "sh", "-c", SORT], cwd=texts)
    assert bytes(capture.data[1]) == there.checked()


def test_programs_of_a_lost_memory_end_with_a_line(several):
    """Not by a signal: the system ends them, and says which component is gone. New ones run."""
    programs = [start(several, "p1", f"{EVERYWHERE}; echo ready; read x") for _ in range(2)]
    for _, capture in programs:
        wait_for(lambda capture=capture: b"ready" in capture.data[1])
    several.cluster.kill_node("m1", signal.SIGSTOP)
    for program, _ in programs:
        lost = rf"m1 is gone, and with it memory of busybox \(pid {program.started.pid}\)"
        with pytest.raises(LaunchError, match=lost):
            program.wait(time.monotonic() + LIMIT_S)
    after, capture = start(several, "p1", "seq 1 20000 | wc -l; ls | wc -l")
    assert after.wait(time.monotonic() + LIMIT_S) and after.exit.status == 0
    assert capture.data[1].startswith(b"20000")


def test_a_program_without_memory_at_a_lost_node_goes_on(disk):
    """The others end, each with its line."""
    running = Running(("--memories", "2"), disk, "without").up()
    at_m1 = lambda: counters(running, "m1")["m1"]["memory.vregions"]  # noqa: E731
    programs = []
    try:
        # The first program makes what all share, which may lie at m1: it is left out.
        _, capture = start(running, "p0", "echo ready; read x")
        wait_for(lambda capture=capture: b"ready" in capture.data[1])
        goes_on = None
        # Every second home is m0; where the stack lies, and so at which node, is random.
        while goes_on is None and len(programs) < 60:
            before = at_m1()
            program, capture = start(running, "p0", "echo ready; read x; seq 1 20000 | wc -l")
            wait_for(lambda capture=capture: b"ready" in capture.data[1])
            if at_m1() == before:
                goes_on = program, capture
            else:
                programs.append(program)
        running.cluster.kill_node("m1")
        for program in programs:
            lost = rf"m1 is gone, and with it memory of busybox \(pid {program.started.pid}\)"
            with pytest.raises(LaunchError, match=lost):
                program.wait(time.monotonic() + LIMIT_S)
        program, capture = goes_on
        feed(program, b"go\n")
        assert program.wait(time.monotonic() + LIMIT_S) and program.exit.status == 0
        assert bytes(capture.data[1]) == b"ready\n20000\n"
    finally:
        running.close()


# Nodes come and go.


@pytest.fixture(scope="module")
def lasting(disk):
    """A cluster that stays: of one processor, two memories and the managers. Port 7011 is
    published.
    """
    port = a_free_port(socket.SOCK_STREAM)
    args = ("--memories", "2", "--vregion", "2M", "--excache", "8M", "--publish", f"{port}:7011",
            "--append", "cluster.heartbeat_ms=500", "--append", "storage:cluster.lease_ms=5000")
    running = Running(args, disk, "lasting", stays=True).up()
    running.published = port
    yield running
    running.close()
    assert not running.complaints(), "\n".join(running.complaints())


def check_programs(running, texts, count=2):
    """The homes of their spaces take turns over the memories."""
    argv = [BUSYBOX, "sh", "-c", "sort text.small | sha256sum"]
    there = on_host(argv, cwd=texts)
    for _ in range(count):
        assert running.run(argv, cwd="/data") == there


def test_nodes_come_and_go(lasting, texts):
    """A memory is killed, and fenced at once; started again, it takes new programs."""
    cluster = lasting.cluster
    check_programs(lasting, texts)
    cluster.kill_node("m1")
    wait_for(lambda: "node 3 has ended: fenced" in lasting.log("s0"), 4)
    assert cluster.state("m1") == "node m1 was killed by signal 9"
    check_programs(lasting, texts)
    cluster.restart("m1")
    assert cluster.state("m1") == "up"
    check_programs(lasting, texts, 3)
    assert counters(lasting, "m1")["m1"]["memory.exec"] > 0


@pytest.mark.parametrize("rounds", [3, pytest.param(50, marks=pytest.mark.long)])
def test_members_join_and_leave_under_load(lasting, texts, rounds):
    """A program that began while m1 was away reads files, which either memory keeps: it sees
    nothing of the coming and going.
    """
    cluster = lasting.cluster
    cluster.kill_node("m1")
    news = lambda what: lasting.log("p0").count(f"node 3 (memory) is {what}")  # noqa: E731
    wait_for(lambda: news("gone") == news("here"))
    line = on_host([BUSYBOX, "sha256sum", "text.big"], cwd=texts).checked()
    capture = Capture()
    argv = [BUSYBOX, "sha256sum", *["text.big"] * 10000]
    # Of a terminal, so that each line comes at once.
    what = frames.Run(argv[0], argv, run.environment([]), "/data", tty=True)
    program = cluster.start_program(what, capture.sink, "p0")
    capture.attach(program)
    try:
        for _ in range(rounds):
            for change in (cluster.restart, cluster.kill_node):
                change("m1")
                seen = capture.data[1].count(b"\n")
                wait_for(lambda seen=seen: capture.data[1].count(b"\n") > seen)
                assert not program.over, capture.data[2]
    finally:
        program.signal(signal.SIGTERM)
        assert program.wait(time.monotonic() + LIMIT_S)
    got = bytes(capture.data[1]).replace(b"\r\n", b"\n")
    assert got.startswith(line) and not got.replace(line, b""), got[-200:]
    assert run.exit_status(program.exit.status) == 128 + signal.SIGTERM
    cluster.restart("m1")


def test_a_fenced_node_joins_anew(lasting, texts):
    """m1 stops for longer than its lease; it hears that it is fenced, and is started again."""
    cluster = lasting.cluster
    old = cluster.pids["m1"]
    cluster.kill_node("m1", signal.SIGSTOP)
    wait_for(lambda: cluster.state("m1") != "up", 30)
    assert cluster.state("m1") == "node m1: this node was fenced: its lease had ended"
    check_programs(lasting, texts)
    cluster.kill_node("m1", signal.SIGCONT)
    wait_for(lambda: cluster.state("m1") == "up", 30)
    assert cluster.pids["m1"] != old
    check_programs(lasting, texts, 3)


def test_a_processor_that_is_cut_off(lasting, texts):
    """Its port is silent: it notices by itself, not only the managers, and joins anew."""
    cluster = lasting.cluster
    lid = next(n.lid for n in cluster.plan.nodes if n.name == "p0")
    program, capture = start(lasting, "p0", "x=$(seq 1 20000); echo ready; read x")
    wait_for(lambda: b"ready" in capture.data[1])
    cluster.inject(f"kill {lid}")
    with pytest.raises(LaunchError, match="node p0: this node was (fenced|cut off)"):
        program.wait(time.monotonic() + 30)
    wait_for(lambda: "this node was cut off: no member has answered" in lasting.log("p0"), 30)
    cluster.inject(f"revive {lid}")
    wait_for(lambda: cluster.state("p0") == "up", 30)
    check_programs(lasting, texts)


def fences(running: Running) -> int:
    """How many nodes the managers have fenced, and how many ended by themselves."""
    logs = [running.log(node) for node in running.cluster.pids if node != "hca"]
    return sum(log.count(": fenced") + log.count("was cut off") for log in logs)


def check_all_stand_still(running: Running, seconds: float, texts) -> None:
    """Every machine at once, as on a host that was suspended: nobody was silent."""
    program, capture = start(running, "p0", SORT)
    wait_for(lambda: b"ready" in capture.data[1])
    before = fences(running)
    stop_for(running, seconds, *(n.name for n in running.cluster.plan.nodes))
    assert program.wait(time.monotonic() + LIMIT_S)
    assert program.exit.status == 0
    assert bytes(capture.data[1]) == on_host([BUSYBOX, "sh", "-c", SORT], cwd=texts).checked()
    assert fences(running) == before
    assert {running.cluster.state(n.name) for n in running.cluster.plan.nodes} == {"up"}


def test_all_stand_still_together(lasting, texts):
    """For longer than a lease."""
    check_all_stand_still(lasting, 7, texts)


@pytest.mark.long
def test_the_managers_node_is_cut_off(lasting, texts):
    """For longer than a lease: it fences nobody, as it hears nobody."""
    cluster = lasting.cluster
    lid = next(n.lid for n in cluster.plan.nodes if n.name == "s0")
    program, capture = start(lasting, "p0", f"{EVERYWHERE}; echo ready; read y; echo $x | wc -c")
    wait_for(lambda: b"ready" in capture.data[1])
    before = fences(lasting)
    cluster.inject(f"kill {lid}")
    time.sleep(8)  # the lease is 5 s
    cluster.inject(f"revive {lid}")
    feed(program, b"go\n")
    assert program.wait(time.monotonic() + LIMIT_S) and program.exit.status == 0
    assert bytes(capture.data[1]) == b"ready\n4088895\n"
    check_programs(lasting, texts)
    assert fences(lasting) == before


def check_comes_back(running: Running, node: str, seconds: float, texts) -> None:
    """It stands still for longer than its lease: fenced, and as soon as it hears that, started
    again.
    """
    cluster = running.cluster
    old = cluster.pids[node]
    stop_for(running, seconds, node)
    wait_for(lambda: cluster.pids[node] != old and cluster.state(node) == "up", 30)
    check_programs(running, texts, 3)


@pytest.mark.long
def test_signs_of_life_with_the_usual_lease(disk, texts):
    """All stand still for 30 s; one for 12 s, and for a minute."""
    args = ("--memories", "2", "--vregion", "2M", "--excache", "8M")
    running = Running(args, disk, "usual", stays=True).up()
    try:
        check_all_stand_still(running, 30, texts)
        program, capture = start(running, "p0", SORT)
        wait_for(lambda: b"ready" in capture.data[1])
        before = fences(running)
        stop_for(running, 12, "m1")
        assert program.wait(time.monotonic() + LIMIT_S) and program.exit.status == 0
        assert bytes(capture.data[1]) == on_host([BUSYBOX, "sh", "-c", SORT], cwd=texts).checked()
        assert fences(running) == before
        for node in ("m1", "p0"):
            check_comes_back(running, node, 60, texts)
    finally:
        running.close()


def test_the_managers_node_comes_back(lasting, texts):
    """Away for longer than a lease: no member is lost, and what waits for files goes on."""
    cluster = lasting.cluster
    gone = {node: lasting.log(node).count("is gone") for node in ("p0", "m0")}
    program, capture = start(lasting, "p0", "echo ready; read x; sort text.small | sha256sum")
    wait_for(lambda: b"ready" in capture.data[1])
    cluster.kill_node("s0")
    wait_for(lambda: cluster.state("s0") != "up", 5)
    feed(program, b"go\n")
    assert not program.wait(time.monotonic() + 7.0) or program.exit.status == 0
    assert lasting.log("p0").count("is gone") == gone["p0"]
    cluster.restart("s0")
    assert program.wait(time.monotonic() + LIMIT_S)
    assert program.exit.status == 0
    there = on_host([BUSYBOX, "sh", "-c", "sort text.small | sha256sum"], cwd=texts)
    assert (bytes(capture.data[1]), bytes(capture.data[2])) == (b"ready\n" + there.checked(), b"")
    for node in ("p0", "m0"):
        wait_for(lambda node=node: "managers' node was started again" in lasting.log(node), 10)
        assert lasting.log(node).count("is gone") == gone[node] + 1  # the managers' node itself
    assert {cluster.state(n) for n in ("p0", "m0", "m1", "s0")} == {"up"}
    check_programs(lasting, texts)


def test_a_published_port_answers_again(lasting, texts):
    """The only processor, and so the gateway, is started again: so is the server, by hand."""
    text = hashlib.sha256((texts / "text.small").read_bytes()).hexdigest()
    serve = f"exec {BUSYBOX} httpd -f -p 7011 -h /data"
    before, _ = start(lasting, "p0", serve)
    assert until_fetched(lasting.published, "text.small") == text
    lasting.cluster.restart("p0")
    with pytest.raises(LaunchError):
        before.wait(time.monotonic() + LIMIT_S)
    server, _ = start(lasting, "p0", serve)
    assert until_fetched(lasting.published, "text.small") == text
    told = lasting.cluster.network()
    assert told["gateway"] == "p0" and told["addresses"][0] == "10.0.2.15"
    assert told["published"] == [f"127.0.0.1:{lasting.published} -> 7011/tcp"]
    server.signal(signal.SIGKILL)
    assert server.wait(time.monotonic() + LIMIT_S)
