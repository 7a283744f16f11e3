# SPDX-License-Identifier: MIT
"""./tessera run -t against the fake node, whose program has a terminal of the host: pexpect is the
user.
"""

import os
import signal

import pexpect
import pytest

LIMIT = 30


@pytest.fixture
def terminal(launcher):
    spawned = []

    def spawn(*args, size=(30, 100)):
        command = launcher.command("-t", *args)
        child = pexpect.spawn(command[0], command[1:], dimensions=size, timeout=LIMIT,
                              env={**os.environ, "TERM": "vt100"}, echo=True)  # fmt: skip
        spawned.append(child)
        return child

    yield spawn
    for child in spawned:
        child.close(force=True)


def ended(child) -> int:
    child.expect(pexpect.EOF)
    child.close()
    return child.exitstatus


def test_keys_reach_the_program_and_its_output_the_screen(terminal):
    child = terminal("/bin/cat")
    child.send("one\r")
    child.expect_exact("one\r\none\r\n")
    child.send("twp\x7fo\r")
    child.expect_exact("two\r\n")
    child.send("\x04")
    assert ended(child) == 0


def test_interrupt_is_a_key(terminal):
    child = terminal("/bin/sh", "-c", "trap 'echo caught; exit 7' INT; echo ready; read x")
    child.expect_exact("ready")
    child.send("\x03")
    child.expect_exact("caught")
    assert ended(child) == 7


def test_size_and_its_changes(terminal):
    child = terminal(
        "/bin/sh", "-c", "trap 'stty size; exit 0' WINCH; stty size; read x; read y", size=(33, 111)
    )
    child.expect_exact("33 111")
    child.setwinsize(22, 77)
    child.expect_exact("22 77")
    assert ended(child) == 0


def test_term_is_the_users(terminal):
    child = terminal("/bin/sh", "-c", "echo [$TERM]; test -t 0 -a -t 1 -a -t 2 && echo all")
    child.expect_exact("[vt100]\r\nall\r\n")
    assert ended(child) == 0


def test_the_terminal_is_put_back(launcher, tmp_path):
    """The settings before and after are the same, also when the program fails and has changed its
    own.
    """
    script = tmp_path / "settings.sh"
    script.write_text(
        'a=$(stty -g)\n"$@"\ns=$?\nb=$(stty -g)\n[ "$a" = "$b" ] && echo same $s || echo changed\n'
    )
    command = launcher.command("-t", "/bin/sh", "-c", "stty raw -echo; exit 3")
    child = pexpect.spawn("/bin/sh", [str(script), *command], timeout=LIMIT)
    child.expect_exact("same 3")
    child.close(force=True)


def test_termination_from_outside(terminal):
    child = terminal("/bin/sh", "-c", "echo ready; exec sleep 1000")
    child.expect_exact("ready")
    child.kill(signal.SIGTERM)
    assert ended(child) == 128 + signal.SIGTERM


def test_without_a_terminal_it_is_refused(launcher):
    done = launcher.run("-t", "/bin/true")
    assert done.returncode == 125
    assert b"standard input is not a terminal" in done.stderr and done.stderr.count(b"\n") == 1
