# SPDX-License-Identifier: MIT
"""./tessera run from outside: streams, statuses, failures, and that nothing is left behind."""

import json
import os
import random
import signal
import subprocess
import threading
import time

import pytest
from conftest import fakes_of


@pytest.fixture(autouse=True)
def nothing_left(launcher):
    yield
    assert wait_for(lambda: not list(launcher.run_dir.iterdir()))
    assert fakes_of(launcher.build) == []


def sh(script: str) -> list[str]:
    return ["/bin/sh", "-c", script]


def wait_for(what, limit=15.0):
    end = time.monotonic() + limit
    while time.monotonic() < end:
        if what():
            return True
        time.sleep(0.02)
    return False


def started(launcher, *args, **how) -> subprocess.Popen:
    how.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.Popen(
        launcher.command(*args), stdout=subprocess.PIPE, stderr=subprocess.PIPE, **how
    )


def test_an_interrupt_before_anything_runs(launcher, tmp_path):
    # The fabric's trial and make come before the first machine: here a make that takes its time.
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "make").write_text(f"#!/bin/sh\necho > {tmp_path}/begun\nexec sleep 60\n")
    (tools / "make").chmod(0o755)
    command = [word for word in launcher.command("true") if word != "--no-build"]
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, start_new_session=True,
                             env=os.environ | {"PATH": f"{tools}:{os.environ['PATH']}"},
                             )  # fmt: skip
    assert wait_for((tmp_path / "begun").exists)
    os.killpg(child.pid, signal.SIGINT)
    assert child.communicate(timeout=30) == (b"", b"")
    assert child.returncode == 130


def test_streams_are_exact_and_apart(launcher):
    data = random.Random(1).randbytes(3_000_000)
    done = launcher.run(*sh("cat; echo to stderr >&2"), input=data)
    assert done.returncode == 0
    assert done.stdout == data
    assert done.stderr == b"to stderr\n"


def test_standard_input_from_a_file(launcher, tmp_path):
    path = tmp_path / "in"
    path.write_bytes(b"line\n" * 100_000)
    with open(path) as f:
        assert launcher.run("wc", "-l", stdin=f).stdout == b"100000\n"


@pytest.mark.parametrize("code", [0, 1, 42, 255])
def test_exit_status_is_the_programs(launcher, code):
    assert launcher.run(*sh(f"exit {code}")).returncode == code


@pytest.mark.parametrize("signo", [signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT, signal.SIGTERM])
def test_death_by_signal_is_128_plus_n(launcher, signo):
    assert launcher.run(*sh(f"kill -{int(signo)} $$")).returncode == 128 + signo


def test_arguments_and_environment_arrive_unchanged(launcher):
    done = launcher.run("--env", "X=a b", "--env", "PATH=/bin", "--cwd", "/usr",
                        *sh('printf "%s|" "$@" "$X" "$PATH" "$PWD"'), "zero", "", "a  b", "ü")
    assert done.stdout.decode() == "|a  b|ü|a b|/bin|/usr|"


def test_input_that_the_program_does_not_read_is_left(launcher, tmp_path):
    path = tmp_path / "in"
    path.write_bytes(b"first\n" + b"x" * 300_000)
    with open(path) as f:
        launcher.run(*sh("exit 0"), stdin=f)
        # The fake grants 64 KiB at once, and again what the program's pipe (64 KiB) has taken.
        assert os.lseek(f.fileno(), 0, os.SEEK_CUR) <= 65536 + 65536


def test_reader_that_goes_away_ends_the_program(launcher):
    line = " ".join(launcher.command("yes")) + " | head -n 3"
    done = subprocess.run(
        line, shell=True, capture_output=True, timeout=60, stdin=subprocess.DEVNULL
    )
    assert done.stdout == b"y\ny\ny\n"


def test_slow_reader_loses_nothing(launcher):
    child = started(launcher, *sh("head -c 2000000 /dev/zero"))
    time.sleep(1)
    got = 0
    while data := child.stdout.read(100_000):
        got += len(data)
    assert child.wait(30) == 0 and got == 2_000_000


@pytest.mark.parametrize("signo", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1])
def test_signals_are_passed_on(launcher, signo):
    name = signo.name.removeprefix("SIG")
    child = started(
        launcher, *sh(f"trap 'echo got; exit 7' {name}; echo ready; while :; do sleep .05; done")
    )
    assert child.stdout.readline() == b"ready\n"
    child.send_signal(signo)
    assert child.communicate(timeout=30)[0] == b"got\n"
    assert child.returncode == 7


def test_second_interrupt_forces(launcher):
    child = started(launcher, *sh("trap '' INT; echo ready; while :; do sleep .05; done"))
    child.stdout.readline()
    child.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert child.poll() is None
    child.send_signal(signal.SIGINT)
    assert child.wait(30) == 130
    child.communicate()


def test_interrupt_while_booting(launcher):
    child = started(launcher, "--append", "p0:fake=silent", "/bin/true")
    assert wait_for(lambda: len(fakes_of(launcher.build)) >= 5)
    time.sleep(0.3)
    child.send_signal(signal.SIGTERM)
    assert child.wait(30) == 143
    child.communicate()


@pytest.mark.parametrize("when", ["boot", "run"])
def test_sigkill_of_the_launcher_leaves_nothing(launcher, when):
    args = ["--append", "p0:fake=silent"] if when == "boot" else []
    child = started(launcher, *args, *sh("echo ready; sleep 1000"))
    if when == "run":
        child.stdout.readline()
    else:
        assert wait_for(lambda: len(fakes_of(launcher.build)) >= 5)
    child.kill()
    child.communicate()
    assert wait_for(lambda: not fakes_of(launcher.build))
    assert wait_for(lambda: not list((launcher.build / "log").glob("*")))


def test_sigkill_at_any_moment_leaves_nothing(launcher):
    for i in range(8):
        child = started(launcher, "/bin/true")
        time.sleep(0.05 * i)
        child.kill()
        child.communicate()
    assert wait_for(lambda: not fakes_of(launcher.build))
    time.sleep(0.3)


def failing(launcher, *args):
    done = launcher.run(*args)
    lines = done.stderr.decode().splitlines()
    assert done.returncode == 125, done
    assert len(lines) == 1 and lines[0].startswith("tessera: "), lines
    return lines[0]


@pytest.mark.parametrize("fault, text", [
    ("m0:fake=panic", r"node m0 ended with status 3: panic: the fake was told to"),
    ("s0:fake=error", r"node s0: the disk is not ext4"),
    ("p0:fake=garbage", r"node p0 broke the control protocol: bad magic"),
    ("m0:fake=stray", r"node m0 broke the control protocol: PLACED 1, which was not asked"),
    ("p0:fake=late-exit-data", None),
])  # fmt: skip
def test_failures_are_one_line_that_names_the_logs(launcher, fault, text):
    if text is None:
        # After the last byte and the status there is nothing that could fail the run any more.
        assert launcher.run("--append", fault, "/bin/true").returncode in (0, 125)
        return
    line = failing(launcher, "--append", fault, "/bin/sleep", "100")
    assert text in line
    log_dir = line.rsplit("logs: ", 1)[1]
    assert str(launcher.build) in log_dir
    assert os.path.exists(f"{log_dir}/p0.host.log")


@pytest.mark.parametrize("node", ["s0", "s1"])
def test_the_end_of_a_storage_node_ends_a_run_at_once(launcher, tmp_path, node):
    disk = tmp_path / "disk.img"
    subprocess.run(["mke2fs", "-q", "-F", "-t", "ext4", str(disk), "2M"], check=True)
    child = started(launcher, "--writable", "--mount", f"/data={disk}", *sh("echo up; sleep 100"))
    assert child.stdout.readline() == b"up\n"
    machine = [pid for pid in fakes_of(launcher.build)
               if f"tessera-{node}" in words_of(pid)]  # fmt: skip
    start = time.monotonic()
    os.kill(machine[0], signal.SIGKILL)
    out, err = child.communicate(timeout=30)
    lines = [line for line in err.decode().splitlines() if "changed in place" not in line]
    assert child.returncode == 125 and out == b"" and time.monotonic() - start < 10
    assert len(lines) == 1 and lines[0].startswith(f"tessera: node {node} was killed by signal 9")
    assert "logs: " in lines[0]


def words_of(pid: int) -> list[str]:
    with open(f"/proc/{pid}/cmdline") as f:
        return f.read().split("\0")


def test_a_node_that_never_comes_up_is_named(launcher):
    line = failing(launcher, "--boot-timeout", "8", "--append", "p0:fake=unready", "/bin/true")
    assert "not ready after 8 s (p0: waiting for nobody)" in line


def test_a_late_node_is_waited_for(launcher):
    assert launcher.run("--delay", "p0=1.5", "/bin/true").returncode == 0


def test_timeout(launcher):
    start = time.monotonic()
    done = launcher.run("--timeout", "10", *sh("echo partial; sleep 1000"))
    assert done.returncode == 124 and done.stdout == b"partial\n"
    assert b"still running after 10 s" in done.stderr and time.monotonic() - start < 40


@pytest.mark.parametrize(
    "program, status", [("/nonexistent/x", 127), ("no-such-command", 127), ("/tmp", 126)]
)
def test_programs_that_are_not_there(launcher, program, status):
    done = launcher.run(program)
    assert done.returncode == status and done.stderr.count(b"\n") == 1


def test_not_an_executable_is_the_nodes_word(launcher, tmp_path):
    path = tmp_path / "text"
    path.write_text("not a program\n")
    path.chmod(0o755)
    done = launcher.run(str(path))
    assert done.returncode == 126
    assert b"Exec format error" in done.stderr


def test_missing_kernel_is_named(launcher):
    (launcher.build / "memory" / "kernel.elf").unlink()
    assert "memory/kernel.elf is missing" in failing(launcher, "/bin/true")


def test_qemu_that_cannot_run_is_named(launcher, tmp_path):
    bad = tmp_path / "qemu"
    bad.write_text("#!/bin/sh\necho no such machine >&2\nexit 1\n")
    bad.chmod(0o755)
    done = launcher.run("--qemu", str(bad), "/bin/true")
    assert done.returncode == 125
    assert b"ended with status 1: no such machine" in done.stderr


def test_stats_and_injected_commands(launcher, tmp_path):
    path = tmp_path / "stats.json"
    done = launcher.run(
        "--stats", str(path), "--inject", "delay all 50", "--inject", "break random", "/bin/true"
    )
    assert done.returncode == 0
    got = json.loads(path.read_text())
    assert sorted(got["nodes"]) == ["m0", "p0", "s0"]
    assert got["nodes"]["p0"]["counters"]["excache.misses"] == 3
    assert got["hca"]["said"][:2] == ["delay all 50", "break random"]
    assert "no such command" in failing(launcher, "--inject", "bad one", "/bin/true")


def test_logs_are_kept_only_when_asked_for(launcher, tmp_path):
    logs = tmp_path / "logs"
    assert launcher.run("--log-dir", str(logs), "/bin/true").returncode == 0
    assert (logs / "p0.log").read_text() == "fake node p0\n"
    launcher.run("/bin/true")
    assert not (launcher.build / "log").exists()


def test_the_model_completes_its_files(launcher, tmp_path, monkeypatch):
    """It may be capturing. One that does not end when it is asked is killed."""
    path = tmp_path / "capture"
    monkeypatch.setenv("FAKE_HCA_FILE", str(path))
    assert launcher.run("/bin/true").returncode == 0
    assert wait_for(path.exists) and path.read_text() == "complete\n"
    monkeypatch.setenv("FAKE_HCA_FILE", "never")
    assert launcher.run("/bin/true").returncode == 0


def test_two_runs_at_once(launcher):
    results = []
    threads = [threading.Thread(target=lambda n=n: results.append(launcher.run("/bin/echo",
                                                                               str(n)).stdout))
               for n in range(3)]  # fmt: skip
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(results) == [b"0\n", b"1\n", b"2\n"]
