# SPDX-License-Identifier: MIT
"""./tessera top: what its numbers mean, one frame as text, the live picture on a terminal."""

import os
import pathlib
import re
import signal

import pexpect
import pytest
from conftest import HOSTILE_STATS, Launcher, looked_at
from test_up import keeper_pid, log_dir, pid_of
from tessera_launcher import top


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """A cluster that is up."""
    tmp = tmp_path_factory.mktemp("running")
    launcher = Launcher(tmp)
    launcher.env = os.environ | {
        "TESSERA_RUN_DIR": str(launcher.run_dir),
        "XDG_RUNTIME_DIR": str(tmp),
    }
    done = launcher.call("up", "sh", "sleep")
    assert done.returncode == 0, done.stderr
    yield launcher
    assert launcher.call("down").returncode == 0


def test_rates_are_of_the_time_between():
    took = {"buckets": [[2047, 90], [12287, 10]]}
    old = {"fault.count": 100, "excache.fetches": 10, "excache.file_fetches": 0, "rpc.bytes": 5,
           "rpc.bulk_bytes": 5, "sched.busy_ns": 0, "rpc.latency_ns.demand": {"buckets": []}}
    new = {"fault.count": 300, "excache.fetches": 60, "excache.file_fetches": 10,
           "rpc.bytes": 2053, "rpc.bulk_bytes": 5, "sched.busy_ns": 3_000_000_000,
           "rpc.latency_ns.demand": took, "frame.free": 256, "sched.queued": 3,
           "rpc.outstanding": 4}  # fmt: skip
    row = top.row(looked_at(counters=old), looked_at(counters=new, at=12.0))
    assert row == top.Row("p0", "processor", None, 75.0, 70.0, 30.0, 1024.0, 2047, 12287,
                          1 << 20, 3, 4)  # fmt: skip
    assert row.cells() == ("p0", "processor", "75%", "70%", "30", "1.0K", "2.0 us", "12.3 us",
                           "1.0M", "3", "4")  # fmt: skip
    # No rates over a restart, or from a look without time between.
    for change in ({"incarnation": 2}, {"at": 10.0}):
        after = looked_at(counters=new, at=12.0) | change
        assert top.row(looked_at(counters=old), after) == top.Row("p0", "processor")
    assert top.row(None, looked_at(counters=new)) == top.Row("p0", "processor")
    gone = top.row(looked_at(counters=old), looked_at(up=False, state="was killed", counters=None))
    assert gone.gone == "was killed"


def test_once_prints_a_frame(running):
    done = running.call("top", "--once", "--interval", "0.3")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.decode().splitlines()
    assert re.match(r"cluster default, up for 0:00:\d\d; 3 of 3 nodes up; 0 programs$", lines[0])
    assert lines[1].split() == list(top.TITLES)
    cells = lines[2].split()
    assert cells[:4] == ["p0", "processor", "0%", "75%"]
    assert "2.0 us" in lines[2] and "12.3 us" in lines[2] and "100M" in lines[2]
    assert [line.split()[:2] for line in lines[3:]] == [["m0", "memory"], ["s0", "storage"]]
    assert b"\x1b" not in done.stdout


@pytest.mark.parametrize("what", ["empty histograms", "a list", "a bucket of text", "deep"])
def test_a_hostile_node_tells_nothing(running, what):
    logs = log_dir(running)
    (logs / "p0.says").write_text(HOSTILE_STATS[what])
    try:
        done = running.call("top", "--once", "--interval", "0.3")
    finally:
        (logs / "p0.says").unlink()
    assert (done.returncode, done.stderr) == (0, b"")
    lines = done.stdout.decode().splitlines()
    assert lines[2].split(maxsplit=2) == ["p0", "processor", "gone: up, but tells nothing"]
    assert [line.split()[:2] for line in lines[3:]] == [["m0", "memory"], ["s0", "storage"]]
    assert "2.0 us" in lines[3]


def test_a_counter_that_was_a_histogram():
    old = {"rpc.bytes": {"buckets": []}}
    row = top.row(looked_at(counters=old), looked_at(counters={"rpc.bytes": 8}, at=12.0))
    assert row.sent == 4.0


@pytest.mark.parametrize("args, why", [
    (["--interval", "0"], "from 0.25 to 3600 seconds"), (["--interval", "nan"], "out of range"),
    (["--interval", "x"], "not a number"), (["--twice"], "not an option"),
    ([], "needs a terminal"), (["--once", "--name", "other"], "no cluster other is up"),
])  # fmt: skip
def test_top_refuses(running, args, why):
    done = running.call("top", *args)
    assert done.returncode == 125
    assert re.fullmatch(rf"tessera: [^\n]*{why}[^\n]*\n", done.stderr.decode())


def screen(launcher, *args) -> pexpect.spawn:
    """A shell on a terminal that tells the terminal's settings before and after top."""
    words = " ".join(launcher.words("top", *args))
    script = f"trap : INT; stty -g; {words}; echo status $?; stty -g"
    env = {**launcher.env, "TERM": "xterm"}
    return pexpect.spawn("/bin/sh", ["-c", script], dimensions=(24, 100), timeout=30, env=env,
                         encoding="utf-8")  # fmt: skip


def check_end(child: pexpect.spawn, status: int) -> None:
    """Off the alternate screen, the cursor seen, the terminal as it was."""
    child.expect_exact("\x1b[?25h")
    child.expect_exact("\x1b[?1049l")
    child.expect(rf"status {status}\r\n([0-9a-f:]+)\r\n")
    assert child.match[1] == child.settings
    child.expect(pexpect.EOF)


def begun(child: pexpect.spawn) -> pexpect.spawn:
    child.expect(r"([0-9a-f:]+)\r\n")
    child.settings = child.match[1]
    child.expect_exact("\x1b[?1049h")
    child.expect("CALLS")
    child.expect("75%")  # the second frame has rates
    return child


@pytest.mark.parametrize("key", ["q", "\x03"])
def test_live_until_a_key(running, key):
    child = begun(screen(running, "--interval", "0.25"))
    child.setwinsize(24, 60)
    child.expect("CALLS|FREE|P99")
    child.send(key)
    check_end(child, 0)


def test_a_node_that_is_gone(launcher, tmp_path):
    launcher.env = os.environ | {"COLUMNS": "150"}
    assert launcher.call("up", "--memories", "2", "sh").returncode == 0
    try:
        child = begun(screen(launcher, "--interval", "0.25"))
        os.kill(pid_of(launcher, "m1"), signal.SIGKILL)
        child.expect("m1: node m1 was killed by signal 9")
        child.send("q")
        check_end(child, 0)
        done = launcher.call("top", "--once", "--interval", "0.25")
        assert re.search(rb"m1 +memory +gone: node m1 was killed by signal 9", done.stdout)
        assert b"3 of 4 nodes up" in done.stdout
        child = begun(screen(launcher))
        os.kill(keeper_pid(pathlib.Path(tmp_path / "tessera")), signal.SIGTERM)
        check_end(child, 125)
    finally:
        launcher.call("down", "--all")
