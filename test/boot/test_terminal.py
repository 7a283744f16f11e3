# SPDX-License-Identifier: MIT
"""An interactive shell under ./tessera run -t: pexpect types, and sees what a user would see."""

import os
import re
import time

import pexpect
import pytest
from boot import BUILD, ROOT, WORK

LIMIT = 90
PROMPT = "tessera> "


@pytest.fixture(scope="module")
def shell():
    """One shell for all cases; each leaves it at its prompt."""
    command = ["run", "--no-build", "--build-dir", str(BUILD), "--log-dir",
               str(WORK / "log" / "terminal"),
               "-t", "--env", "PS1=tessera> ", "--", "/bin/busybox", "sh"]  # fmt: skip
    child = pexpect.spawn(str(ROOT / "tessera"), command, dimensions=(30, 100), timeout=LIMIT,
                          env={**os.environ, "TERM": "vt100"}, encoding="utf-8")  # fmt: skip
    child.expect(PROMPT)
    yield child
    child.close(force=True)


def answer(shell, line: str) -> str:
    """What a command prints, without its echo and escape sequences."""
    shell.send(line + "\r")
    shell.expect(r"\r\n")  # the end of the echo
    shell.expect(PROMPT)
    return re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", shell.before).replace("\r\n", "\n")


# Keys count once the shell has given the terminal to its job, some time after the echo. So the job
# says that it is there: a child is given the terminal before it becomes the job, and a job that fg
# continues before it is continued.
JOB = """sh -c 'trap "echo on" CONT; echo up; while :; do sleep 1; done'"""


def start_job(shell) -> None:
    shell.send(JOB + "\r")
    shell.expect(r"\r\nup\r\n")


def synchronize(shell) -> None:
    """To the last prompt, when what came before it may have been mixed with a job's output."""
    shell.send("echo toge''ther\r")
    shell.expect(r"\r\ntogether\r\n")
    shell.expect(PROMPT)


def test_commands_and_status(shell):
    assert answer(shell, "echo hello").strip() == "hello"
    assert answer(shell, "false; echo $?").strip() == "1"
    assert answer(shell, "seq 3 | tr 123 abc").split() == ["a", "b", "c"]


def test_it_is_a_terminal(shell):
    assert answer(shell, "test -t 0 && test -t 1 && test -t 2 && echo all").strip() == "all"
    assert answer(shell, "tty").strip() == "/dev/pts/0"
    assert answer(shell, "ls /dev/pts").strip() == "0"
    assert answer(shell, "echo $TERM").strip() == "vt100"


def test_size(shell):
    assert answer(shell, "stty size").strip() == "30 100"
    shell.setwinsize(41, 122)
    deadline = time.monotonic() + LIMIT
    while answer(shell, "stty size").strip() != "41 122":
        assert time.monotonic() < deadline


def test_arrow_keys_edit_and_recall(shell):
    assert answer(shell, "echo bc\x1b[D\x1b[Da").strip() == "abc"
    assert answer(shell, "\x1b[A").strip() == "abc"


def test_interrupt(shell):
    start_job(shell)
    shell.send("\x03")
    shell.expect(PROMPT)
    assert answer(shell, "echo $?").strip() == "130"


def test_interrupt_stops_output_without_end(shell):
    shell.send("yes\r")
    shell.expect("y\r\ny\r\ny\r\n")
    shell.send("\x03")
    shell.expect(r"\^C")  # and perhaps what was on its way
    shell.expect(r"\r\n" + PROMPT)
    assert answer(shell, "echo $?").strip() == "130"


def test_suspend_and_go_on(shell):
    start_job(shell)
    shell.send("\x1a")
    shell.expect("Stopped")
    shell.expect(PROMPT)
    assert re.search(r"\[1\]\+?\s+Stopped.*sleep 1", answer(shell, "jobs"))
    shell.send("bg\r")
    shell.expect(r"\r\n\[1\] sh -c .*sleep 1")
    shell.expect(r"on\r\n")
    synchronize(shell)
    assert re.search(r"\[1\]\+?\s+Running.*sleep 1", answer(shell, "jobs"))
    shell.send("fg\r")
    shell.expect(r"\r\nsh -c .*sleep 1")
    shell.expect(r"\r\non\r\n")
    shell.send("\x03")
    shell.expect(PROMPT)
    assert answer(shell, "jobs").strip() == ""


def test_background_reader_stops(shell):
    shell.send("cat &\r")
    shell.expect(PROMPT)
    for _ in range(20):
        if "Stopped" in answer(shell, "jobs"):
            break
    shell.send("fg\r")
    shell.expect("cat\r\n")
    shell.send("typed\r")
    shell.expect("typed\r\ntyped\r\n")
    shell.send("\x04")
    shell.expect(PROMPT)
    assert answer(shell, "echo $?").strip() == "0"


def test_end_of_file_ends_the_shell(shell):
    """The last case: it uses the shell up."""
    shell.send("exit 5\r")
    shell.expect(pexpect.EOF)
    shell.close()
    assert shell.exitstatus == 5
