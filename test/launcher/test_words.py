# SPDX-License-Identifier: MIT
"""What the launcher says, and where: traces, progress, early interrupts, ps, doctor."""

import os
import pty
import signal
import subprocess
import time

import pytest
from conftest import ROOT
from tessera_launcher import client, progress, strace
from tessera_launcher.errors import LaunchError, escaped

LOG = (
    "[    0.1] node1 info: strace: 2 write(1, \"hi\\n\", 3) = 3 <594 us> local\n"
    "[    0.2] node1 info: other: 2 strange(1) = -1 ENOSYS <1 us> local\n"
    "[    0.2] node1 info: strace: 2 call_334(0x0) = -1 ENOSYS <1 us> local\n"
    "[    0.3] node1 info: strace: 3 call_334(0x0) = -1 ENOSYS <1 us> local\n"
    "[    0.3] node1 info: strace: 3 fallocate(3, 0, 0, 1) = -1 EOPNOTSUPP <1 us> local\n"
    "[    0.4] node1 info: strace: 3 open(\"a) = -1 ENOSYS <1 us>\") = -1 ENOENT <1 us> local\n"
    "[    0.5] node1 info: strace: 3 x(\x1b[2J) = 0 <1 us> local\n"
    "[    0.6] node1 info: strace: 3 exit_gro"
)


def traced(tmp_path, monkeypatch, **logs) -> tuple[list[str], str]:
    said = []
    monkeypatch.setattr(strace, "warn", said.append)
    out = tmp_path / "calls"
    paths = {}
    for name, text in logs.items():
        paths[name] = str(tmp_path / f"{name}.log")
        (tmp_path / f"{name}.log").write_text(text)
    follower = strace.Follower(paths, str(out))
    with open(paths["p0"], "a") as f:
        f.write("up(0) = ?\n")
    follower.close()
    return out.read_text().splitlines(), said[0]


def test_a_trace_has_the_calls_and_a_summary(tmp_path, monkeypatch):
    lines, said = traced(tmp_path, monkeypatch, p0=LOG)
    assert lines[0] == '2 write(1, "hi\\n", 3) = 3 <594 us> local'
    assert lines[-1] == "3 exit_group(0) = ?" and len(lines) == 7
    assert "\x1b" not in "".join(lines)
    assert said == ("strace: calls that are missing here: call_334 2x (ENOSYS),"
                    " fallocate 1x (EOPNOTSUPP)")  # fmt: skip


def test_a_trace_of_two_processors_names_them(tmp_path, monkeypatch):
    lines, said = traced(tmp_path, monkeypatch, p0="[ 0.1] node1 info: strace: 1 ", p1=LOG)
    assert "p0 1 up(0) = ?" in lines and lines[-1].startswith("p")
    assert any(line.startswith("p1 2 write(") for line in lines)


def test_no_refused_call_is_said_too(tmp_path, monkeypatch):
    said = traced(tmp_path, monkeypatch, p0="[ 0.1] node1 info: strace: 1 ")[1]
    assert said == "strace: no call was refused as missing"


def test_a_trace_that_cannot_be_written(launcher, tmp_path):
    done = launcher.run(f"--strace={tmp_path}/no/where", "/bin/true")
    assert done.returncode == 125 and b"--strace=" in done.stderr
    with pytest.raises(LaunchError, match="No such file"):
        strace.Follower({}, str(tmp_path / "no" / "where"))


def test_run_with_a_trace(launcher, tmp_path):
    done = launcher.run("--strace", "/bin/echo", "hi")
    assert (done.returncode, done.stdout) == (0, b"hi\n")
    assert done.stderr == b"tessera: strace: no call was refused as missing\n"
    assert launcher.run(f"--strace={tmp_path}/t", "/bin/true").returncode == 0
    assert (tmp_path / "t").read_text() == ""


def on_terminal(body) -> bytes:
    """What the body of a child writes to its stderr, a terminal."""
    pid, fd = pty.fork()
    if pid == 0:
        try:
            body()
        finally:
            os._exit(0)
    out = b""
    while True:
        try:
            data = os.read(fd, 4096)
        except OSError:
            data = b""
        if not data:
            break
        out += data
    os.waitpid(pid, 0)
    os.close(fd)
    return out


def test_progress_after_a_while_and_only_on_a_terminal(monkeypatch, capfd):
    monkeypatch.setattr(progress, "AFTER_S", 0.05)
    monkeypatch.setattr(progress, "EVERY_S", 0.05)

    def slow():
        with progress.shown("a\nlong work"):
            time.sleep(0.3)

    text = on_terminal(slow)
    assert b"tessera: a long work ... 0 s" in text and text.endswith(b"\r\x1b[K")
    monkeypatch.setattr(progress, "AFTER_S", 5.0)
    assert on_terminal(slow) == b""
    slow()
    assert capfd.readouterr().err == ""


def test_an_interrupt_in_the_first_second_says_nothing(tmp_path):
    for i in range(6):
        child = subprocess.Popen(
            [ROOT / "tessera", "run", "--no-build", "--build-dir", tmp_path / "none", "true"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )  # fmt: skip
        time.sleep(0.03 * i)
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=60)
        assert b"Traceback" not in err and b"KeyboardInterrupt" not in err, err


def test_ps_escapes_arguments():
    assert escaped("a\nb\x1b[2J\u202eü") == "a\\nb\\x1b[2J\\u202eü"
    state = {"name": "c", "started": 0, "logs": "/l", "nodes": [], "network": {"net": "none"},
             "programs": [{"node": "p0", "pid": 4, "seconds": 1, "argv": ["sh", "-c", "x\ny"]}],
             }  # fmt: skip
    assert client.describe(state).splitlines()[-1].endswith("sh -c x\\ny")
    del state["network"]  # as a cluster tells that was up before
    assert client.describe(state).splitlines()[1].startswith("  NODE")


def test_doctor_says_what_works(launcher, monkeypatch):
    monkeypatch.setenv("TESSERA_BUILD", str(launcher.build))
    done = subprocess.run([ROOT / "tessera", "doctor"], capture_output=True, timeout=60, text=True)
    lines = done.stdout.splitlines()
    assert done.returncode in (0, 1) and done.stderr == ""
    assert all(line[:4] in ("ok  ", "no  ", "NO  ") for line in lines[:-1])
    assert any(line.startswith("ok  Python 3.") for line in lines)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert ("works" in lines[-1]) == (done.returncode == 0) or "does not work" in lines[-1]
