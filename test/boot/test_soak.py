# SPDX-License-Identifier: MIT
"""Random system calls, and SIGKILL at random moments: nothing hangs, nothing is left on any node.

A finding of the fuzzer is repeated by the line `sysfuzz SEED FIRST COUNT ...` that it prints
(test/user/sysfuzz).
"""

import random
import re
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
                "tty.terminals",
                "excache.space_objects", "lease.spaces")  # fmt: skip
ON_MEMORY = (
    "memory.frames_used",
    "memory.spaces",
    "memory.aspaces",
    "memory.vmas",
    "memory.committed",
)
SLACK_FRAMES = 96  # slabs and thread stacks that are kept
SLOW_MS = 100
SLOW_END_S = 60.0


def ends_are_told(cluster):
    """The end of a program is reported before a slow home has heard of all its spaces; p0 knows
    whether there are such. Anything that a home then still has is lost.
    """
    wait_for(lambda: not cluster.stats()["p0"]["process.ends_left"], SLOW_END_S)


def settled(cluster, before):
    """Whatever ran is gone from every node, by counters."""
    ends_are_told(cluster)
    after = settled_stats(cluster, before)
    for node, names in [("p0", ON_PROCESSOR)] + [(n, ON_MEMORY) for n in after if n[0] == "m"]:
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
    """Programs with threads, with children and shared memory, in the middle of exec, and waiting,
    from one driver.
    """
    cluster = pool.get(*shape)
    rounds = 200 if request.config.getoption("--long") else 20
    seed = random.randrange(1 << 30)
    print(f"killsoak {seed} {rounds}")
    argv = [programs / "glibc-static/killsoak", str(seed), str(rounds)]

    def one_round():
        assert cluster.run(argv, limit=1800).checked() == b"%d killed\n" % rounds

    leaves_nothing(cluster, one_round)


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
