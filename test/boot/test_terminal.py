# SPDX-License-Identifier: MIT
"""An interactive shell under ./tessera run -t: pexpect types, and sees what a user would see."""

import os
import re

import pexpect
import pytest
from boot import BUILD, ROOT, WORK

LIMIT = 90
PROMPT = "tessera> "


@pytest.fixture(scope="module")
def shell():
    """One shell for all cases; each leaves it at its prompt."""
    command = ["run", "--no-build", "--build-dir", str(BUILD), "--log-dir", str(WORK / "log" / "terminal"),
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


def press(shell, key: str, shown: str) -> None:
    """Until it is @shown: the shell gives a job the terminal at some moment after its echo, and ignores keys before."""
    for _ in range(LIMIT // 5):
        shell.send(key)
        if shell.expect([shown, pexpect.TIMEOUT], timeout=5) == 0:
            return
    raise AssertionError(f"no {shown!r} after {key!r}: {shell.before!r}")


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
    for _ in range(50):
        if answer(shell, "stty size").strip() == "41 122":
            break
    assert answer(shell, "stty size").strip() == "41 122"


def test_arrow_keys_edit_and_recall(shell):
    assert answer(shell, "echo bc\x1b[D\x1b[Da").strip() == "abc"
    assert answer(shell, "\x1b[A").strip() == "abc"


def test_interrupt(shell):
    shell.send("sleep 1000\r")
    shell.expect("sleep 1000\r\n")
    press(shell, "\x03", PROMPT)
    assert answer(shell, "echo $?").strip() == "130"


def test_interrupt_stops_output_without_end(shell):
    shell.send("yes\r")
    shell.expect("y\r\ny\r\ny\r\n")
    shell.send("\x03")
    shell.expect(r"\^C")  # and perhaps what was on its way
    shell.expect(r"\r\n" + PROMPT)
    assert answer(shell, "echo $?").strip() == "130"


def test_suspend_and_go_on(shell):
    shell.send("sleep 1000\r")
    shell.expect("sleep 1000\r\n")
    press(shell, "\x1a", "Stopped")
    shell.expect(PROMPT)
    assert re.search(r"\[1\]\+?\s+Stopped.*sleep 1000", answer(shell, "jobs"))
    assert answer(shell, "bg").strip() == "[1] sleep 1000"
    assert "Running" in answer(shell, "jobs")
    shell.send("fg\r")
    shell.expect("sleep 1000\r\n")
    press(shell, "\x03", PROMPT)
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
