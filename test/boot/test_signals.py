# SPDX-License-Identifier: MIT
"""Signals as Linux has them: each guest program prints the same on Tessera as on the host."""

import time

import pytest
from boot import on_host

PROGRAMS = [
    "sigqueue",  # what is pending: order, limits, siginfo, rt_sigtimedwait, signalfd
    "sigframe",  # handlers: faults, nesting, stacks, FPU, frames that a program has changed
    "sigtimer",  # alarm, setitimer, timer_*, timerfd, CPU clocks
    "sigrestart",  # EINTR, SA_RESTART, stop and continue in every blocking call
    "sigstop",  # default actions, WUNTRACED and WCONTINUED, SIGCHLD, orphaned groups
    "sigthread",  # which thread takes what; ends and stops of all
    "sigstorm",  # an alarm every other millisecond, and nothing lost or changed
    "traces",  # ptrace: stops at calls, signals and events, waits, ends of tracers and tracees
    "debugs",  # ptrace: breakpoints, steps, watchpoints, registers, memory
]


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_on_linux(plain, programs, name):
    argv = [programs / "glibc-static" / name]
    got, want = plain.run(argv), on_host(argv)
    assert got.out.decode() == want.out.decode()
    assert got.status == want.status == 0, got.err


def test_the_limit_of_cpu_time(plain, programs):
    argv = [programs / "glibc-static" / "sigtimer", "limit"]
    assert plain.run(argv).checked().endswith(b"SIGXCPU: code 128\nthen 9\n")


@pytest.mark.parametrize("signo", [9, 15])
def test_a_blocked_program_ends_at_once(plain, programs, signo):
    """Whatever its tasks wait for: here a read, children of it, and threads that sleep and spin."""
    program, capture = plain.start([str(programs / "glibc-static" / "sigthread"), "wait"])
    while b"all there\n" not in capture.data[1]:
        assert not program.over
        time.sleep(0.01)
    program.signal(signo)
    assert program.wait(time.monotonic() + 30)
    assert program.exit.status == signo
    assert plain.run(["/usr/bin/busybox", "true"]).status == 0


def test_nothing_is_left(plain):
    node = plain.stats()["p0"]
    assert node["signal.queued"] == 0 and node["signal.timers"] == 0


def test_strace_tells_of_signals(pool):
    cluster = pool.get("--strace")
    script = "trap 'exit 3' USR1; kill -USR1 $$; exit 4"
    assert cluster.run(["/usr/bin/busybox", "sh", "-c", script]).status == 3
    assert "--- SIGUSR1, code 0: handler ---" in cluster.log("p0")
