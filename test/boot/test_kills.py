# SPDX-License-Identifier: MIT
"""All memories are silent: SIGKILL and SIGINT end programs at once, whatever they wait for."""

import contextlib
import signal
import time

import pytest
from boot import Running, total, wait_for
from tessera_launcher import account, frames, packages, run
from tessera_launcher.streams import Capture

BUSYBOX = packages.require("busybox")[0]
LEASE_S = 60.0
# No node is declared dead while the test waits. Two CPUs: threads of one space wait for each other.
SHAPE = ("--memories", "2", "--vregion", "2M", "--excache", "4M", "--cpus", "processor=2",
         "--append", f"storage:cluster.lease_ms={int(LEASE_S * 1000)}")  # fmt: skip
START_S = 120.0
# The promise is 1 s; a host that runs other tests meanwhile gets some more.
END_S = 2.0
SHELLS = {
    "sort": "echo ready; while :; do sort -r text.small > /dev/null; done",
    "copy": "echo ready; while :; do dd if=text.big of=/dev/null bs=8M 2> /dev/null; done",
    "into-tmp": "echo ready; while :; do dd if=text.small of=/tmp/$$ bs=1M 2> /dev/null; done",
}
# The ways in which `busy` uses memory, and the file that it uses.
BUSY = {
    "maps": (),
    "forks": (),
    "tmpfs": ("/tmp/busy",),
    "reads": ("/data/text.big",),
    "pipes": (),
    "sockets": (),
}


@pytest.fixture(scope="module")
def silent(disk):
    running = Running(SHAPE, disk, "silent").up()
    yield running
    running.close()
    assert not running.complaints(), "\n".join(running.complaints())


def start(running, argv):
    capture = Capture()
    what = frames.Run(argv[0], argv, run.environment([]), "/data")
    program = running.cluster.start_program(what, capture.sink, "p0")
    capture.attach(program)
    return program, capture


def counters(running, *nodes):
    return {n: account.flatten(s or {}) for n, s in running.cluster.stats(nodes).items()}


def all_told(running):
    """No home has a space that the processor does not have, and that has none of a program."""
    now = counters(running, "p0", "m0", "m1")
    objects = now["p0"]["excache.space_objects"]
    return (not now["p0"]["process.ends_left"] and objects <= 2
            and total(now, "memory.spaces") <= objects)  # fmt: skip


@contextlib.contextmanager
def memories_silent(running):
    for node in ("m0", "m1"):
        running.cluster.kill_node(node, signal.SIGSTOP)
    try:
        yield
    finally:
        for node in ("m0", "m1"):
            running.cluster.kill_node(node, signal.SIGCONT)


@pytest.mark.parametrize(
    "signo",
    [
        pytest.param(signal.SIGKILL, id="kill"),
        pytest.param(signal.SIGINT, id="int", marks=pytest.mark.long),
    ],
)
def test_programs_end_whatever_is_silent(silent, programs, signo):
    """A shell catches INT, so that one is for programs that do not."""
    busy = str(programs / "glibc-static/busy")
    argvs = {name: [busy, name, *args] for name, args in BUSY.items()}
    if signo == signal.SIGKILL:
        argvs |= {name: [BUSYBOX, "sh", "-c", text] for name, text in SHELLS.items()}
    running = {name: start(silent, argv) for name, argv in argvs.items()}
    for name, (program, capture) in running.items():
        wait_for(lambda capture=capture: b"ready" in capture.data[1], START_S)
    with memories_silent(silent):
        time.sleep(2)  # all wait for an answer, or for one that does
        begin = time.monotonic()
        for program, _ in running.values():
            program.signal(signo)
        took = {}
        while len(took) < len(running) and time.monotonic() < begin + LEASE_S / 3:
            for name, (program, _) in running.items():
                if name not in took and program.over:
                    took[name] = time.monotonic() - begin
            time.sleep(0.01)
        print({name: f"{s:.2f} s" for name, s in took.items()})
        late = [name for name in running if took.get(name, LEASE_S) > END_S]
        assert not late, f"not gone {END_S:g} s after the signal: {late}"
    for program, _ in running.values():
        assert program.exit.status & 0x7F == signo
    # The work that was left to workers comes to its end. Two files in /tmp may stay.
    wait_for(lambda: all_told(silent), START_S)
