# SPDX-License-Identifier: MIT
"""Published ports move between machines, whose monitors are fakes."""

import contextlib
import json
import socket
import threading

import pytest
from tessera_launcher.options import Published
from tessera_launcher.plan import Command, again
from tessera_launcher.publish import Monitor, Publisher, monitor_path

WEB = Published("127.0.0.1", 8080, 80)
NAMES = Published("0.0.0.0", 53, 5353, "udp")
WAIT_S = 20


class FakeQemu:
    """The monitor of one machine: remembers the human commands, and answers as it is told to."""

    def __init__(self, run_dir, name, answers=None, greeting=b'{"QMP": {"version": {}}}\n'):
        self.commands = []
        self._answers = answers or {}
        self._greeting = greeting
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(monitor_path(str(run_dir), name))
        self._listener.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def end(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self):
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            with contextlib.suppress(OSError), sock, sock.makefile("rb") as lines:
                sock.sendall(self._greeting)
                for line in lines:
                    sock.sendall(self._reply(json.loads(line)))

    def _reply(self, order):
        if order["execute"] == "qmp_capabilities":
            return b'{"return": {}}\n{"event": "RTC_CHANGE", "data": {}}\n'
        line = order["arguments"]["command-line"]
        self.commands.append(line)
        return json.dumps({"return": self._answers.get(line, "")}).encode() + b"\n"


def publisher(run_dir, said, ended=None):
    ended = [] if ended is None else ended
    return Publisher(str(run_dir), [WEB, NAMES], "p0", ended.append, said.append)


def moved(ports, name):
    ports.moved(name)
    for thread in threading.enumerate():
        if thread.name.endswith("(_move)"):
            thread.join(WAIT_S)
            assert not thread.is_alive()


def test_ports_leave_the_old_machine_and_come_to_the_new_one(tmp_path):
    old, new, said = FakeQemu(tmp_path, "p0"), FakeQemu(tmp_path, "p1"), []
    ports = publisher(tmp_path, said)
    moved(ports, "p0")  # it has them
    assert old.commands == []
    moved(ports, "p1")
    assert old.commands == [
        "hostfwd_remove net0 tcp:127.0.0.1:8080", "hostfwd_remove net0 udp:0.0.0.0:53",
    ]  # fmt: skip
    assert new.commands == [
        "hostfwd_add net0 tcp:127.0.0.1:8080-:80", "hostfwd_add net0 udp:0.0.0.0:53-:5353",
    ]  # fmt: skip
    assert said == []
    assert ports.state() == ["127.0.0.1:8080 -> 80/tcp", "0.0.0.0:53 -> 5353/udp"]


def test_a_machine_that_has_ended_keeps_none(tmp_path):
    said, ended = [], []
    old, new = FakeQemu(tmp_path, "p0"), FakeQemu(tmp_path, "p1")
    old.end()
    moved(publisher(tmp_path, said, ended), "p1")
    assert len(new.commands) == 2 and said == [] and ended == []


def test_ports_come_back_to_a_machine_that_is_started_again(tmp_path):
    argv = ["qemu", "-netdev", "user,id=net0,hostfwd=tcp:127.0.0.1:8080-:80"]
    command = again(Command("p0", argv, []), str(tmp_path), 2)
    assert command.argv[2] == "user,id=net0"  # so it has none
    said, ended = [], []
    machine = FakeQemu(tmp_path, "p0")
    ports = publisher(tmp_path, said, ended)
    ports.started_again("p0")
    moved(ports, "p0")
    assert machine.commands == [
        "hostfwd_add net0 tcp:127.0.0.1:8080-:80", "hostfwd_add net0 udp:0.0.0.0:53-:5353",
    ]  # fmt: skip
    ports.started_again("p1")  # another one: nothing is lost
    moved(ports, "p0")
    assert len(machine.commands) == 2 and said == [] and ended == []


def test_a_machine_that_does_not_answer_ends(tmp_path, monkeypatch):
    monkeypatch.setattr("tessera_launcher.publish.MONITOR_S", 0.2)
    said, ended = [], []
    FakeQemu(tmp_path, "p0", greeting=b"")
    new = FakeQemu(tmp_path, "p1")
    moved(publisher(tmp_path, said, ended), "p1")
    assert ended == ["p0"] and len(new.commands) == 2
    assert said == ["--publish: p0: timed out"]


def test_a_port_that_is_taken_meanwhile_is_named(tmp_path):
    said = []
    FakeQemu(tmp_path, "p0")
    line = "hostfwd_add net0 tcp:127.0.0.1:8080-:80"
    FakeQemu(tmp_path, "p1", {line: "could not set up host forwarding rule\r\n"})
    ports = publisher(tmp_path, said)
    moved(ports, "p1")
    assert said == ["--publish: 127.0.0.1:8080 -> 80/tcp: could not set up host forwarding rule"]
    assert ports.state() == [
        "127.0.0.1:8080 -> 80/tcp (lost: could not set up host forwarding rule)",
        "0.0.0.0:53 -> 5353/udp",
    ]  # fmt: skip
    moved(ports, "p2")  # which is not there
    assert [text.partition(" (")[2][:9] for text in ports.state()] == ["lost: p2:"] * 2


@pytest.mark.parametrize("greeting", [b"no json\n", b"[]\n", b'{"error": 1}\n', b"x" * 70000])
def test_what_is_no_monitor_is_refused(tmp_path, greeting):
    FakeQemu(tmp_path, "p0", greeting=greeting)
    with pytest.raises(OSError, match="monitor"):
        Monitor(monitor_path(str(tmp_path), "p0"))


def test_without_published_ports_nothing_happens(tmp_path):
    Publisher(str(tmp_path), [], "", lambda _: None, lambda _: None).moved("p1")
    assert not any(t.name.endswith("(_move)") for t in threading.enumerate())
