# SPDX-License-Identifier: MIT
"""Random system calls, and SIGKILL at random moments: nothing hangs, nothing is left on any node.

A finding of the fuzzer is repeated by the line `sysfuzz SEED FIRST COUNT ...` that it prints
(test/user/sysfuzz).
"""

import contextlib
import random
import re
import socketserver
import threading
import time

import pytest
from boot import delta, on_host, settled_stats, stops_growing, wait_for
from test_faults import grown, injected

TWO = ("--memories", "2", "--vregion", "2M")
FOUR_CPUS = ("--cpus", "processor=4")
LONG_S = 600.0
# Exactly as before; excache.file_objects and lines of files may stay, they are a cache.
ON_PROCESSOR = ("process.processes", "process.tasks", "process.zombies", "process.pids",
                "file.open", "file.locks",
                "pipe.slots", "epoll.items", "signal.queued", "signal.timers", "tmpfs.inodes",
                "tty.terminals", "socket.open", "socket.remote.connections",
                "excache.space_objects", "lease.spaces")  # fmt: skip
ON_MEMORY = (
    "memory.frames_used",
    "memory.spaces",
    "memory.aspaces",
    "memory.vmas",
    "memory.committed",
)
ON_MANAGERS = ("names.entries",)
# These go a little later: another node is told first, a worker finds a cycle, or a server's
# process for a connection ends when that does.
LATER = ("socket.open", "socket.remote.connections", "names.entries", "process.processes")
LATER_S = 60.0
STACK_FORGETS_S = 180.0  # lwIP keeps what has ended for two minutes
SLACK_FRAMES = 96  # slabs and thread stacks that are kept
SLOW_MS = 100
SLOW_END_S = 60.0


def ends_are_told(cluster):
    """The end of a program is reported before a slow home has heard of all its spaces; processors
    know whether there are such. Anything that a home then still has is lost.
    """

    def all_told():
        stats = cluster.stats()
        return not any(stats[n]["process.ends_left"] for n in stats if n[0] == "p")

    wait_for(all_told, SLOW_END_S)


def sockets_are_gone(cluster, before):
    def gone():
        now = cluster.stats()
        return not any(delta(before, now, n, name) for n in now for name in LATER
                       if name in now[n])  # fmt: skip

    with contextlib.suppress(AssertionError):  # settled() says what is left
        wait_for(gone, LATER_S)


def settled(cluster, before):
    """Whatever ran is gone from every node, by counters."""
    sockets_are_gone(cluster, before)
    ends_are_told(cluster)
    after = settled_stats(cluster, before)
    kinds = {"p": ON_PROCESSOR, "m": ON_MEMORY, "s": ON_MANAGERS}
    for node, names in [(n, kinds[n[0]]) for n in after]:
        left = {name: delta(before, after, node, name) for name in names}
        assert not any(left.values()), f"{node}: left {({k: v for k, v in left.items() if v})}"
    assert not cluster.complaints()
    return before["p0"]["frame.free"] - after["p0"]["frame.free"]


def leaves_nothing(cluster, what):
    """Frames must stop growing; the rest is exact."""

    def one_round():
        ends_are_told(cluster)  # of what ran before
        before = cluster.stats()
        what()
        return settled(cluster, before)

    cluster.run(["/usr/bin/busybox", "true"])  # mounts what the processor serves
    stops_growing(one_round, SLACK_FRAMES)


def fuzz(cluster, programs, seed, first, count, calls):
    """Processes first to first + count, four at once, each of so many calls."""
    argv = [programs / "glibc-static/sysfuzz", str(seed), str(first), str(count), "4", str(calls)]
    got = cluster.run(argv, limit=600)
    assert got.status == 0, got.err.decode(errors="replace")
    share, distinct = re.search(rb"(\d+)% succeeded, (\d+) of", got.err).groups()
    return int(share), int(distinct)


def seed_of_the_day():
    return int(time.strftime("%Y%m%d"))


def test_fuzz_system_calls(pool, programs):
    cluster = pool.get(*FOUR_CPUS, *TWO)
    for seed in (1, seed_of_the_day()):
        print(f"seed {seed}")
        leaves_nothing(cluster, lambda seed=seed: fuzz(cluster, programs, seed, 0, 4, 100))


@pytest.mark.long
@pytest.mark.parametrize("shape", [TWO, (*FOUR_CPUS, *TWO), (*FOUR_CPUS, "--excache", "16M")],
                         ids=["one-cpu", "four-cpus", "small-cache"])  # fmt: skip
def test_fuzz_system_calls_long(pool, programs, shape):
    cluster = pool.get(*shape)
    end = time.monotonic() + LONG_S
    seed, first = seed_of_the_day(), 0

    def one_round():
        share, distinct = fuzz(cluster, programs, seed, first, 20, 300)
        assert share > 15 and distinct > 120, "the arguments are too wild to reach anything"

    while time.monotonic() < end:
        print(f"seed {seed} from {first}")
        leaves_nothing(cluster, one_round)
        first += 20


@pytest.mark.parametrize("shape", [TWO, (*FOUR_CPUS, *TWO)], ids=["one-cpu", "four-cpus"])
def test_killed_at_random_moments(pool, programs, request, shape):
    """Programs with threads, with children and shared memory, in the middle of exec, waiting, and
    with connections, from one driver.
    """
    cluster = pool.get(*shape)
    rounds = 200 if request.config.getoption("--long") else 20
    seed = random.randrange(1 << 30)
    print(f"killsoak {seed} {rounds}")
    argv = [programs / "glibc-static/killsoak", str(seed), str(rounds)]

    leaves_nothing(cluster, lambda: check_killed(cluster, argv, rounds))


def killed_with_connections(cluster, programs, rounds, *server):
    """The driver alone, and connections to a server that is no part of it."""
    seed = random.randrange(1 << 30)
    print(f"killsoak {seed} {rounds}")
    argv = [programs / "glibc-static/killsoak", str(seed), str(rounds), *map(str, server)]
    leaves_nothing(cluster, lambda: check_killed(cluster, argv, rounds))


def check_killed(cluster, argv, rounds):
    assert cluster.run(argv, limit=1800).checked() == b"%d killed\n" % rounds


def test_killed_with_connections_to_another_processor(pool, programs, request):
    """A server on p1 echoes: after the end of its clients neither processor has a socket or a
    connection of theirs.
    """
    cluster = pool.get("--processors", "2", *TWO)
    argv = [f"{programs}/glibc-static/across", "serve", "7005"]
    server, said = cluster.start(argv, node="p1")
    try:
        wait_for(lambda: b"ready" in said.data[1])
        before = cluster.stats()
        rounds = 100 if request.config.getoption("--long") else 10
        killed_with_connections(cluster, programs, rounds, 7005)
        assert delta(before, cluster.stats(), "p0", "socket.remote.connects") > rounds / 2
    finally:
        server.signal(9)
        assert server.wait(time.monotonic() + SLOW_END_S)


@contextlib.contextmanager
def echoing():
    """A port of the host that echoes."""

    class Echo(socketserver.BaseRequestHandler):
        def handle(self):
            with contextlib.suppress(OSError):
                while data := self.request.recv(1 << 16):
                    self.request.sendall(data)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), Echo) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()


@pytest.mark.long
def test_killed_with_connections_to_the_host(pool, programs):
    """Through lwIP: its memory comes back, with the connections that it forgets last."""
    cluster = pool.get("--net", "user")
    with echoing() as port:
        until = f"until echo x | nc -w 5 10.0.2.2 {port} | grep -q x; do sleep 0.2; done"
        assert cluster.run(["/usr/bin/busybox", "sh", "-c", until]).status == 0
        memory = lambda: cluster.stats()["p0"]["tcpip.memory"]  # noqa: E731
        before = memory()
        killed_with_connections(cluster, programs, 100, port, "10.0.2.2")
        assert cluster.stats()["p0"]["tcpip.no_memory"] == 0
        wait_for(lambda: memory() <= before, STACK_FORGETS_S)


@pytest.mark.parametrize("shape", [
    pytest.param(TWO, marks=pytest.mark.long, id="one-cpu"), pytest.param((*FOUR_CPUS, *TWO),
                                                                          id="four-cpus"),
])  # fmt: skip
def test_what_the_fuzzer_found(pool, programs, shape):
    argv = [programs / "glibc-static/corners"]
    assert pool.get(*shape).run(argv) == on_host(argv)


# Signals while memory nodes are slow.


@pytest.mark.long
@pytest.mark.parametrize(
    "name", ["sigrestart", "sigthread", "sigqueue", "sigframe", "sigstop", "sigstorm"]
)
def test_signals_while_pages_are_slow(pool, programs, name):
    """Blocking calls and page faults take their signals as ever when each message takes 5 ms
    longer.
    """
    cluster = pool.get(*FOUR_CPUS, *TWO)
    argv = [programs / "glibc-static" / name]
    want = on_host(argv)
    with injected(cluster, "delay all 5", "delay off") as seen:
        leaves_nothing(cluster, lambda: check(cluster.run(argv, limit=600), want))
    assert grown(seen, "delayed") > 0


def check(got, want):
    assert got == want


@pytest.mark.parametrize("signo, what", [
    (9, ["killsoak", "7", "100000"]),
    pytest.param(9, ["cowtree", "12", "100000", "3"], marks=pytest.mark.long),
    pytest.param(3, ["cowtree", "12", "100000", "3"], marks=pytest.mark.long),
     # waits for the answer
], ids=["killsoak", "cowtree", "cowtree-core"])  # fmt: skip
def test_killed_while_requests_are_slow(pool, programs, signo, what):
    """SIGKILL ends a wait for another node at once; what is left to tell the nodes takes a few
    messages.
    """
    cluster = pool.get(*FOUR_CPUS, *TWO)

    def one_round():
        program, _ = cluster.start([str(programs / "glibc-static" / what[0]), *what[1:]])
        assert program.wait(time.monotonic() + 60, what="start") or program.over
        time.sleep(random.uniform(0.5, 1.5))
        program.signal(signo)
        begin = time.monotonic()
        assert program.wait(begin + SLOW_END_S), f"not gone {SLOW_END_S} s after the signal"
        print(f"gone after {time.monotonic() - begin:.1f} s")
        assert program.exit.status & 0x7F == signo

    with injected(cluster, f"delay all {SLOW_MS}", "delay off"):
        leaves_nothing(cluster, one_round)


@pytest.mark.long
@pytest.mark.parametrize("what", [["tree"], ["threads", "8"]], ids=["tree", "threads"])
def test_forks_in_a_small_cache_on_four_cpus(pool, programs, what):
    """50 processes, and 8 threads that write while one forks, where lines are evicted all the
    time.
    """
    cluster = pool.get("--excache", "2M", *FOUR_CPUS, *TWO)
    argv = [programs / "glibc-static/forks", *what]
    want = on_host(argv)
    leaves_nothing(cluster, lambda: check(cluster.run(argv, limit=1800), want))
