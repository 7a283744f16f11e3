# SPDX-License-Identifier: MIT
"""Processes and threads as Linux has them: the same program prints the same text on the host."""

import random
import time

import pytest
from boot import delta, exec_files, on_host, settled_stats, stops_growing

SLACK_FRAMES = 64
GAUGES = ("process.processes", "process.tasks", "process.zombies", "process.pids")
SHELL = "/usr/bin/busybox"
FOUR_CPUS = ("--cpus", "processor=4")


def same(cluster, argv, host_argv=None):
    got, want = cluster.run(argv), on_host(host_argv or argv)
    assert (got.status, got.err) == (want.status, want.err) and want.status == 0
    assert got.out.decode() == want.out.decode()


@pytest.mark.parametrize("name", [
    "glibc-static/waits", "musl-static/waits", "glibc-static/groups", "glibc-static/clones",
    "glibc-static/pidfds", "glibc-static/realtimes", "glibc-static/inherits",
    "glibc-static/fifos", "glibc-static/textbusy", "glibc-static/smallcalls",
])  # fmt: skip
def test_the_same_as_on_linux(cluster, programs, name):
    same(cluster, [programs / name])


def test_pid_namespaces(plain, programs):
    """Numbers at every level, number 1 and its end, /proc of a namespace."""
    same(plain, [programs / "glibc-static/pidspaces"])


USER_LIMIT = "/proc/sys/user/max_user_namespaces"


@pytest.mark.parametrize("name", ["userspaces", "usermounts"])
def test_user_namespaces(plain, programs, name):
    """Maps, capabilities and what they do not reach; mounts that users make and cannot undo. Off
    until the administrator allows them.
    """
    assert plain.run([SHELL, "cat", USER_LIMIT]).checked() in (b"0\n", b"1000\n")
    plain.run([SHELL, "sh", "-c", f"echo 1000 > {USER_LIMIT}"]).checked()
    same(plain, [programs / "glibc-static" / name])


NAMESPACES_OF_A_USER = """\
unshare(CLONE_NEWUSER) = 0
unshare(CLONE_NEWUSER) = -1 No space left on device
open("/proc/sys/user/max_user_namespaces", O_WRONLY) = -1 Permission denied
"""


def test_namespaces_of_a_user(plain, programs):
    """The limit holds for the user that has made the namespace around, too."""
    plain.run([SHELL, "sh", "-c", f"echo 1000 > {USER_LIMIT}"]).checked()
    got = plain.run([programs / "glibc-static/userspaces", "--limits"])
    assert got.checked().decode() == NAMESPACES_OF_A_USER


CPU_TIMES = """\
counting: user
reading zeroes: system
a thread in the kernel: system
the process, by its thread that is gone: system
user time is part of it: 1, of the thread's: 1
resolution: 0
a child, by wait4: system
children: system
children, by times: system
they agree
ITIMER_VIRTUAL: counting 1, reading zeroes 0
ITIMER_PROF: counting 1, reading zeroes 1
"""


def test_cpu_times(cluster, programs):
    """What Linux prints on an idle machine; on a loaded one its ticks may hit the wrong half, so
    it is not asked.
    """
    got = cluster.run([programs / "glibc-static/cputimes"])
    assert got.checked().decode() == CPU_TIMES


@pytest.mark.parametrize("kind", ["glibc-static", "musl-static", "glibc-dyn"])
@pytest.mark.parametrize("mode", [["mutex"], ["many", "200"], ["churn", "300"], ["exits"],
                                  ["fork"]],
                         ids=lambda m: m[0])  # fmt: skip
def test_threads(plain, programs, kind, mode):
    same(plain, [programs / kind / "threads", *mode])


# exec.


def test_exec(cluster, programs):
    program = programs / "glibc-static/execs"
    same(cluster, [program, "run", "/exec"], [program, "run", exec_files(programs)])


def test_a_script_as_a_program(plain):
    """The launcher's RUN follows #! as well."""
    got = plain.run(["/exec/script-arg", "more"], cwd="/exec")
    assert got.out == b"  argc 4: [./interp] [one argument] [/exec/script-arg] [more]\n"
    assert got.status == 42


# Nothing is left.


def frames_gone(cluster, before) -> int:
    """The gauges of processes are back; what is left over otherwise by node and counter: frames of
    p0.
    """
    after = settled_stats(cluster, before)
    for gauge in GAUGES:
        assert delta(before, after, "p0", gauge) == 0, gauge
    for node in [n for n in after if n[0] == "m"]:
        for counter in ("memory.frames_used", "memory.spaces", "memory.vmas", "memory.committed"):
            assert delta(before, after, node, counter) == 0, f"{node} {counter}"
    return before["p0"]["frame.free"] - after["p0"]["frame.free"]


def settled(cluster, before):
    assert frames_gone(cluster, before) < SLACK_FRAMES


LOOP = "i=0; while [ $i -lt {n} ]; do {what}; i=$((i+1)); done; echo $i"


@pytest.mark.parametrize("what, n", [
    ("/usr/bin/busybox true", 200), ("(:)", 200),
    pytest.param("/usr/bin/busybox true", 2000, marks=pytest.mark.long),
])  # fmt: skip
def test_fork_and_exec_leave_nothing(cluster, what, n):
    argv = [SHELL, "sh", "-c", LOOP.format(n=30, what=what)]
    cluster.run(argv)
    before = cluster.stats()
    argv[3] = LOOP.format(n=n, what=what)
    assert cluster.run(argv, limit=900.0).checked() == b"%d\n" % n
    settled(cluster, before)


def test_a_program_takes_all_of_it_along(plain):
    """What a program has left behind ends with its first process, before the launcher hears of the
    end.
    """
    argv = [SHELL, "sh", "-c", "for i in 1 2 3 4 5; do {what} & done; exit 3"]
    what = ["(trap '' HUP TERM INT; while :; do :; done)",
            "/usr/bin/busybox setsid /usr/bin/busybox sleep 1000",
            "(/usr/bin/busybox sleep 1000 & wait)"]  # fmt: skip
    for w in what:
        this = [*argv[:3], argv[3].replace("{what}", w)]
        assert plain.run(this).status == 3  # caches of the kernel have grown by now
        before = plain.stats()
        assert plain.run(this).status == 3
        settled(plain, before)


@pytest.mark.parametrize("shape", [(), FOUR_CPUS], ids=["one-cpu", "four-cpus"])
def test_killed_at_any_moment(pool, programs, request, shape):
    """SIGKILL for a program in the middle of forks, execs, threads and ends; nothing is left."""
    plain = pool.get(*shape)
    rounds = 200 if request.config.getoption("--long") else 12
    dice = random.Random(7)
    scripts = [
        [
            SHELL,
            "sh",
            "-c",
            LOOP.format(n=100000, what="/usr/bin/busybox true | /usr/bin/busybox cat"),
        ],
        [SHELL, "sh", "-c", LOOP.format(n=100000, what="(:) & (:)")],
        [str(programs / "glibc-static/threads"), "churn", "1000000"],
        [str(programs / "glibc-static/bomb"), "user", "30"],
    ]

    def kill_some(count):
        for i in range(count):
            program, _ = plain.start(scripts[i % len(scripts)])
            assert program.wait(time.monotonic() + 60, what="start") or program.over
            time.sleep(dice.uniform(0, 0.6))
            program.signal(9)
            assert program.wait(time.monotonic() + 120), f"round {i}: not gone"
            assert program.exit.status in (9, 0)

    def one_round():
        before = plain.stats()
        kill_some(rounds)
        return frames_gone(plain, before)

    kill_some(2 * len(scripts))  # caches of the kernel grow
    stops_growing(one_round, SLACK_FRAMES)


# Bombs.


def test_a_fork_bomb_of_a_user(plain, programs):
    argv = [programs / "glibc-static/bomb", "user", "40"]
    got = plain.run(argv)
    assert got.out == b"39 children, then Resource temporarily unavailable\n" * 3
    assert got.status == 0, got.err


@pytest.mark.long
def test_a_fork_bomb_of_root(plain, programs):
    """There is an end to it before there is an end of the kernel's memory."""
    plain.run([programs / "glibc-static/bomb", "all"], limit=900.0)
    before = plain.stats()
    got = plain.run([programs / "glibc-static/bomb", "all"], limit=900.0)
    assert got.out == b"many children, then Resource temporarily unavailable\n" * 3
    assert got.status == 0, got.err
    settled(plain, before)


# Several CPUs.


def test_cpus_of_tasks(pool, programs):
    cluster = pool.get(*FOUR_CPUS)
    same(cluster, [programs / "glibc-static/affinity"])
    same(cluster, [programs / "glibc-static/rseqs"])
    same(
        cluster,
        [
            SHELL,
            "sh",
            "-c",
            (
                f"{SHELL} taskset 2 {SHELL} nproc; {SHELL} taskset 2 {SHELL} taskset 1 "
                f"{SHELL} nproc; {SHELL} taskset 100000000 {SHELL} nproc || echo $?"
            ),
        ],
    )


@pytest.mark.parametrize("argv", [
    ["waits"], ["groups"], ["clones"], ["pidfds"], ["realtimes"], ["inherits"],
    ["threads", "mutex"],
    ["threads", "many", "100"],
    ["threads", "churn", "300"], ["threads", "exits"], ["threads", "fork"], ["bomb", "user", "40"],
], ids=" ".join)  # fmt: skip
def test_on_four_cpus(pool, programs, argv):
    same(pool.get(*FOUR_CPUS), [programs / "glibc-static" / argv[0], *argv[1:]])


def test_exec_on_four_cpus(pool, programs):
    program = programs / "glibc-static/execs"
    same(pool.get(*FOUR_CPUS), [program, "run", "/exec"], [program, "run", exec_files(programs)])


def test_forks_on_four_cpus_leave_nothing(pool):
    cluster = pool.get(*FOUR_CPUS)
    argv = [
        SHELL,
        "sh",
        "-c",
        LOOP.format(n=50, what="/usr/bin/busybox true | /usr/bin/busybox cat & (:)") + "; wait",
    ]
    cluster.run(argv)
    before = cluster.stats()
    assert cluster.run(argv).checked() == b"50\n"
    settled(cluster, before)
