# SPDX-License-Identifier: MIT
"""The mlx4 driver and the connection manager on the HCA model: two VMs test each other.

The kernel's own self-test (drivers/rdma/selftest.c) does the work; its cases are cases here.
"""

import contextlib
import ctypes
import itertools
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time

import capture
import pytest
from boot import BROKEN, BUILD, ROOT, WORK, packages

from tessera_launcher import accel

LIMIT_S = 90.0
CAPTURE = WORK / "rdma-pair" / "capture"
PASS_STATUS = 1  # machine_poweroff(0) through isa-debug-exit
CASES = [
    "sa_own_gid", "sa_unknown_gid", "no_listener", "connect", "send", "write", "write_imm", "read",
    "atomics", "chain_one_doorbell", "wrap", "event", "ping_pong_64", "ping_pong_4096", "bad_rkey",
    "flush_after_error", "out_of_bounds", "bad_lkey", "quit",
]  # fmt: skip

UP_AFTER = r"mlx4_0 is up after (\d+) ms"
MAD_IFC = 0x24  # the command that reads the state of a port
LOCAL_CASES = ["vectors", "hammer", "send_imm_inline", "many_reads", "deferred"]


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class Pair:
    """VMs on one HCA model; VM i has LID i + 1. Those from @now on wait for start()."""

    def __init__(self, name, *appends, now=None, smp=1, thread="multi", model=()):
        self.dir = WORK / f"rdma-{name}"
        self.smp, self.thread = smp, thread
        self.dir.mkdir(parents=True, exist_ok=True)
        for old in self.dir.iterdir():
            old.unlink()
        self.control = self.dir / "control"
        sockets = [socket.socketpair() for _ in appends]
        args = [
            BUILD / "tools/hca/tessera-hca",
            "--control",
            self.control,
            "--log",
            self.dir / "hca.log",
            *model,
        ]
        for i, (ours, _) in enumerate(sockets):
            args += ["--vm", f"fd={ours.fileno()},qtest={self.dir}/qtest{i}"]
        self.model = subprocess.Popen(
            list(map(str, args)),
            pass_fds=[ours.fileno() for ours, _ in sockets],
            preexec_fn=die_with_parent,
        )
        self.waiting = [(i, s[1], words) for i, (s, words) in enumerate(zip(sockets, appends))]
        self.vms = []
        for ours, _ in sockets:
            ours.close()
        self.start(len(appends) if now is None else now)

    def start(self, count=1):
        for _ in range(count):
            i, device, words = self.waiting.pop(0)
            self.vms.append(self.boot(i, device, words))
            device.close()

    def boot(self, i, device, words):
        qemu = packages.require("qemu-system-x86_64")[0]
        command = [
            qemu, "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
            "-accel", f"tcg,thread={self.thread}", "-cpu", accel.TCG_CPU, "-smp", str(self.smp),
            "-m", "256M",
            "-object", "memory-backend-memfd,id=ram0,size=256M,share=on",
            "-M", "pc,memory-backend=ram0",
            "-qtest", f"unix:{self.dir}/qtest{i},server=on,wait=off", "-qtest-log", "none",
            "-device", f"x-pci-proxy-dev,id=hca,fd={device.fileno()}",
            "-serial", f"file:{self.log_path(i)}",
            "-device", "isa-debug-exit,iobase=0xf4,iosize=4",
            "-kernel", str(BUILD / "memory/kernel.elf"), "-append", f"node={i + 1} {words}",
        ]  # fmt: skip
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            pass_fds=[device.fileno()],
            preexec_fn=die_with_parent,
        )

    def log_path(self, i):
        return self.dir / f"serial{i}.log"

    def log(self, i):
        path = self.log_path(i)
        return path.read_text(errors="replace") if path.exists() else ""

    def wait(self, limit=LIMIT_S):
        """Exit statuses; None for a VM that did not end in time."""
        end = time.monotonic() + limit
        statuses = []
        for vm in self.vms:
            try:
                statuses.append(vm.wait(max(0.1, end - time.monotonic())))
            except subprocess.TimeoutExpired:
                statuses.append(None)
        return statuses

    def wait_log(self, i, pattern, count=1, limit=LIMIT_S):
        end = time.monotonic() + limit
        while len(re.findall(pattern, self.log(i))) < count:
            assert time.monotonic() < end, f"no {pattern!r} in:\n{self.log(i)}"
            time.sleep(0.02)

    def ask(self, command):
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(10)
            s.connect(str(self.control))
            s.sendall(command.encode() + b"\n")
            with s.makefile() as lines:
                answer = json.loads(lines.readline())
        assert answer["ok"], answer
        return answer

    def close(self):
        for _, device, _ in self.waiting:
            device.close()
        for process in [*self.vms, self.model]:
            if process.poll() is None:
                process.kill()
            process.wait()


@pytest.fixture(scope="module")
def selftest():
    pair = Pair("pair", "rdma.selftest=serve", "rdma.selftest=lid:1", model=["--pcap", CAPTURE])
    try:
        statuses = pair.wait(300)  # polled ping-pongs take long on a loaded host
        with contextlib.suppress(subprocess.TimeoutExpired):
            pair.model.wait(10)  # its capture is whole then
        yield statuses, pair.log(0), pair.log(1)
    finally:
        pair.close()


@pytest.mark.parametrize("case", CASES)
def test_two_vms(selftest, case):
    _, server, client = selftest
    assert re.search(rf"^ok \d+ rdma\.selftest\.{case}$", client, re.MULTILINE), client + server


def test_two_vms_end_well(selftest):
    statuses, server, client = selftest
    assert statuses == [PASS_STATUS, PASS_STATUS], client + server
    assert not BROKEN.search(server + client)


def test_two_vms_are_captured(selftest):
    """Queue pairs and sequence numbers of all packets are those that the connections' management
    agreed on.
    """
    crossed = capture.follow(CAPTURE)
    assert len(crossed.made) >= 3 and crossed.messages > 1000 and crossed.answers > 1000, vars(
        crossed
    )
    roce = pytest.importorskip("scapy.contrib.roce")
    from scapy.layers.l2 import Ether  # pylint: disable=import-outside-toplevel
    for frame in itertools.islice(capture.frames(CAPTURE), 200):
        ours, theirs = capture.packet(frame), Ether(frame)
        assert (
            theirs["IP"].dst == f"10.0.{ours.target >> 8}.{ours.target & 255}"
            and theirs["UDP"].dport == capture.ROCE
        )
        bth = theirs[roce.BTH]
        assert (bth.opcode, bth.dqpn, bth.psn) == (ours.opcode, ours.qpn, ours.psn)


def test_port_is_active_soon(selftest):
    """From the driver's first probe to an ACTIVE port: goal 100 ms, in the best of some boots: the
    machine loses time.
    """
    _, server, client = selftest
    took = [int(ms) for ms in re.findall(UP_AFTER, server + client)]
    assert len(took) == 2
    for n in range(8):
        if min(took) < 100:
            break
        pair = Pair(f"soon{n}", "rdma.selftest=serve")
        try:
            pair.wait_log(0, UP_AFTER)
            took.append(int(re.search(UP_AFTER, pair.log(0))[1]))
        finally:
            pair.close()
    assert min(took) < 100, took


def test_port_goes_down_and_comes_back():
    pair = Pair("link", "rdma.selftest=serve")
    try:
        pair.wait_log(0, "PORT_ACTIVE")
        pair.ask("link 1 down")
        pair.wait_log(0, "port 1: down")
        pair.ask("link 1 up")
        pair.wait_log(0, "PORT_ACTIVE", count=2)
        assert not BROKEN.search(pair.log(0))
    finally:
        pair.close()


def test_driver_goes_and_comes_back():
    """Removed and probed again five times: everything is given back each time, and the port comes
    up.
    """
    pair = Pair("reprobe", "rdma.selftest=serve pci.reprobe=5")
    try:
        pair.wait_log(0, "PORT_ACTIVE", count=6)
        text = pair.log(0)
        heap = re.findall(r"removed, (\d+) bytes of heap in use", text)
        assert len(heap) == 5 and len(set(heap)) == 1, text
        assert not BROKEN.search(text), text
    finally:
        pair.close()


# The driver's patience with the one command that hangs. All others end in time, also on a loaded
# host, which may keep the model from running for a while.
HANG_MS = 5000


def test_device_recovers():
    """Catastrophes, a command that never ends, lost completions: a reset each time, and then all
    verbs work again.
    """
    pair = Pair("recover", f"rdma.selftest=serve mlx4.cmd_timeout={HANG_MS}", "rdma.selftest=lid:1",
                now=1, model=["--stay"])  # fmt: skip
    try:
        pair.wait_log(0, "selftest: serving")
        for n in (1, 2):
            pair.ask("catas 1")
            pair.wait_log(0, "recovered, up again", count=n)
            pair.wait_log(0, "PORT_ACTIVE", count=1 + n)
        pair.ask("fail 1 0x24 hang")
        pair.ask("link 1 down")  # the driver looks at its port
        pair.wait_log(0, "command 0x24: no answer")
        pair.ask("link 1 up")
        pair.wait_log(0, "recovered, up again", count=3)
        pair.wait_log(0, "PORT_ACTIVE", count=4)
        pair.ask("overrun 1")  # by the first datagram that the client sends
        pair.ask("duplicate all 100")  # and every management datagram comes twice
        pair.start()
        statuses = pair.wait(300)  # polled ping-pongs take long on a loaded host
        injected = pair.ask("stats")["injected"]
        assert injected["overruns"] == 1 and injected["duplicates"] > 5, injected
        log = pair.log(0) + pair.log(1)
        assert statuses == [PASS_STATUS, PASS_STATUS], log
        assert re.findall(r"^ok \d+ rdma\.selftest\.(\w+)$", log, re.MULTILINE) == CASES, log
        assert len(re.findall(r"CQ 0x[0-9a-f]+: overrun", log)) == 1, log
        assert len(re.findall("device failed: ", log)) == 4 and not BROKEN.search(log), log
    finally:
        pair.close()


def test_device_that_fails_for_good():
    """No command is answered any more: the device is given up, and nothing says that it is up.
    Nor of one that fails at the last step of its start, when the state of its port is read."""
    words = "rdma.selftest=serve mlx4.cmd_timeout="
    pair = Pair("for-good", words + "200", words + "5000", now=1)
    try:
        pair.wait_log(0, "selftest: serving")
        pair.ask("fail 1 any hang 1000000")
        pair.ask("link 1 down")  # the driver looks at its port
        pair.wait_log(0, "given up: it cannot be brought up again")
        log = pair.log(0)
        after = log[log.index("device failed: "):]
        assert not re.search(r"is up after|recovered, up again|PORT_ACTIVE", after), log
        assert not BROKEN.search(log), log
        pair.ask(f"fail 2 {MAD_IFC} hang 1000000 1")  # the first one opens the port
        pair.start()
        pair.wait_log(1, "failed while it came up")
        log = pair.log(1)
        assert "is up after" not in log and not BROKEN.search(log), log
    finally:
        pair.close()


@pytest.mark.parametrize("smp, words, vectors", [
    (1, "", 1), (4, "", 4), (4, "mlx4.vectors=3", 3), pytest.param(16, "", 16,
                                                                   marks=pytest.mark.long),
])  # fmt: skip
def test_local(smp, words, vectors):
    """Events on the CPU of each vector; doorbells of all CPUs at once, of which none is lost."""
    pair = Pair(f"local{smp}-{vectors}", f"rdma.selftest=local {words}", smp=smp)
    try:
        statuses, log = pair.wait(), pair.log(0)
        assert statuses == [PASS_STATUS], log
        assert f"{vectors} completion vectors on {smp} CPUs" in log
        # The model behind the multi-process protocol asks for the lock; with one CPU nobody needs
        # it.
        assert ("quirk: one device register access at a time, for pci" in log) == (smp > 1)
        assert re.findall(r"^ok \d+ rdma\.selftest\.(\w+)$", log, re.MULTILINE) == LOCAL_CASES, log
        assert not BROKEN.search(log), log
    finally:
        pair.close()


def test_local_without_the_lock():
    """With one thread for all its CPUs QEMU loses nothing, so the lock can be left out."""
    pair = Pair("local-unlocked", "rdma.selftest=local mmio.lock=off", smp=4, thread="single")
    try:
        statuses, log = pair.wait(), pair.log(0)
        assert statuses == [PASS_STATUS] and "quirk: one device register access" not in log, log
        assert re.findall(r"^ok \d+ rdma\.selftest\.(\w+)$", log, re.MULTILINE) == LOCAL_CASES, log
    finally:
        pair.close()


@pytest.mark.long
def test_blueflame():
    """Doorbells that bring their entry along: all verbs, from all CPUs; what they bring is what is
    in the queue.
    """
    pair = Pair(
        "flame",
        "rdma.selftest=serve mlx4.blueflame=on",
        "rdma.selftest=lid:1 mlx4.blueflame=on",
        "rdma.selftest=local mlx4.blueflame=on",
        smp=2,
        model=["--blueflame", "--stay"],
    )
    try:
        statuses, logs = pair.wait(300), [pair.log(i) for i in range(3)]
        assert statuses == [PASS_STATUS] * 3, logs
        assert all("BlueFlame: 8 registers of 512 bytes" in log for log in logs), logs
        assert re.findall(r"^ok \d+ rdma\.selftest\.(\w+)$", logs[1], re.MULTILINE) == CASES, logs
        for port in pair.ask("stats")["ports"]:
            assert port["blueflames"] > 100 and port["bad_blueflames"] == 0, port
    finally:
        pair.close()


def test_no_blueflame_where_it_does_not_pay():
    pair = Pair(
        "no-flame",
        "rdma.selftest=local",
        "rdma.selftest=local mlx4.blueflame=on mlx4.vectors=1",
        model=["--stay", "--blueflame"],
    )
    try:
        assert pair.wait() == [PASS_STATUS] * 2, pair.log(0) + pair.log(1)
        stats = pair.ask("stats")["ports"]
        assert stats[0]["blueflames"] == 0 and stats[1]["blueflames"] > 0
    finally:
        pair.close()


def test_blueflame_that_is_not_there():
    pair = Pair("cold", "rdma.selftest=local mlx4.blueflame=on")
    try:
        assert pair.wait() == [PASS_STATUS], pair.log(0)
        assert "the device has no BlueFlame" in pair.log(0)
    finally:
        pair.close()


def test_events_out_of_the_blue():
    """Unknown types, queues and ports are told of; lost completions and overrun queues mean a new
    start.
    """
    pair = Pair("events", "rdma.selftest=serve")
    try:
        pair.wait_log(0, "selftest: serving")
        pair.ask("event 1 0 0 0xfffff")  # a completion, of nothing
        pair.ask("event 1 0xa 0 0xffff")  # the end of a command that nobody gave
        for event, odd in (
            ("0x77 3 5", "0x77.0x3, number 0x5"),
            ("4 0 0x999", "0x4.0, number 0x999"),
            ("5 0 0x999", "0x5.0, number 0x999"),
            ("9 1", "0x9.0x1, number 0"),
        ):
            pair.ask(f"event 1 {event}")
            pair.wait_log(0, f"odd event {odd}: ignored")
            time.sleep(1.1)  # one such line a second
        assert "device failed" not in pair.log(0)
        pair.ask("event 1 0xf")
        pair.wait_log(0, "device failed: event queue overflow")
        pair.wait_log(0, "recovered, up again")
        pair.ask("event 1 0x1b 0")
        pair.wait_log(0, "hardware warning, event 0x1b")
        assert not BROKEN.search(pair.log(0)), pair.log(0)
    finally:
        pair.close()


def test_device_that_fails_all_the_time_is_given_up():
    pair = Pair("hopeless", "rdma.selftest=serve")
    try:
        pair.wait_log(0, "selftest: serving")
        pair.ask("fail 1 7 1 100")  # INIT_HCA: internal error
        pair.ask("catas 1")
        pair.wait_log(0, "given up: it cannot be brought up again")
        assert len(re.findall("command 0x7, .*internal error", pair.log(0))) == 5, pair.log(0)
        assert pair.vms[0].poll() is None
        assert not BROKEN.search(pair.log(0)), pair.log(0)
    finally:
        pair.close()


def test_commands_are_listed():
    """The table in docs/drivers/mlx4.md has the commands that the driver's files give, no more and
    no less.
    """
    files = {
        f.name: f.read_text()
        for f in (ROOT / "drivers/rdma/mlx4").glob("*.c")
        if not f.name.endswith("_test.c")
    }
    known = re.findall(
        r"^\tCMD_(\w+) = 0x", (ROOT / "drivers/rdma/mlx4/regs.h").read_text(), re.MULTILINE
    )
    listed = {}
    for row in (
        (ROOT / "docs/drivers/mlx4.md")
        .read_text()
        .split("| commands | file |")[1]
        .split("\n\n")[0]
        .splitlines()[2:]
    ):
        commands, name = re.fullmatch(r"\| (.*) \| `(.*)` \|", row).groups()
        listed |= dict.fromkeys(commands.split(", "), name)
    assert sorted(listed) == sorted(known)
    assert [c for c, name in listed.items() if f"CMD_{c}" not in files[name]] == []


def test_by_hand_as_documented(tmp_path):
    """The script of docs/tools/hca.md does what the text around it says."""
    text = (ROOT / "docs/tools/hca.md").read_text()
    script = re.search(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)[1]
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd=tmp_path, env={**os.environ, "BUILD": str(BUILD)},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    ) as process:  # fmt: skip
        try:
            log = process.communicate(timeout=LIMIT_S)[0]
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    assert re.findall(r"^ok \d+ rdma\.selftest\.(\w+)$", log, re.MULTILINE) == LOCAL_CASES, log
    assert not BROKEN.search(log), log


def test_model_dies_under_the_driver():
    """The device goes away: one clear line, and the kernel goes on."""
    pair = Pair("gone", "rdma.selftest=serve")
    try:
        pair.wait_log(0, "selftest: serving")
        os.kill(pair.model.pid, signal.SIGKILL)
        pair.wait_log(0, "device failed: ", limit=20)
        pair.wait_log(0, "it has gone from the bus")
        pair.wait_log(0, "given up: ")
        assert pair.vms[0].poll() is None
        assert not BROKEN.search(pair.log(0)), pair.log(0)
    finally:
        pair.close()
