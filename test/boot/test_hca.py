# SPDX-License-Identifier: MIT
"""The HCA model as a process: its front end, control socket, and how it ends. No VM is booted."""
import array
import json
import mmap
import os
import shutil
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest
import hca_guest as vfio
from boot import ROOT
from tessera_launcher import fabric
from hca_guest import FAA, KEY, READ, SEND, SEND_IMM, VA, WRITE, Guest, VfioClient

MODEL = Path(os.environ.get("O", ROOT / "build")).resolve() / "tools" / "hca" / "tessera-hca"
SYSMEM, RET, CFG_WRITE, CFG_READ, BAR_WRITE, BAR_READ, RESET = 0, 1, 2, 3, 4, 5, 7
BAR0, BAR2 = 0xE0000000, 0xE1000000


class FakeQemu:
    """QEMU's end of the multi-process protocol."""

    def __init__(self):
        self.sock, self.theirs = socket.socketpair()
        self.sock.settimeout(10)

    def send(self, cmd, body=b"", size=None):
        self.sock.sendall(struct.pack("<iIQ", cmd, 0, len(body) if size is None else size) + body)

    def reply(self):
        data = b""
        while len(data) < 24:
            got = self.sock.recv(24 - len(data))
            if not got:
                raise ConnectionError("the model hung up")
            data += got
        cmd, _, size, value = struct.unpack("<iIQQ", data)
        assert (cmd, size) == (RET, 8)
        return value

    def cfg_read(self, addr, length=4):
        self.send(CFG_READ, struct.pack("<IIi", addr, 0, length))
        return self.reply()

    def cfg_write(self, addr, val, length=4):
        self.send(CFG_WRITE, struct.pack("<IIi", addr, val, length))
        return self.reply()

    def bar(self, write, addr, val=0, size=4):
        self.send(BAR_WRITE if write else BAR_READ, struct.pack("<QQIB3x", addr, val, size, 1))
        return self.reply()

    def enable(self):
        """Give the BARs their addresses."""
        self.send(RESET)
        self.reply()
        self.cfg_write(0x10, BAR0)
        self.cfg_write(0x18, BAR2)
        self.cfg_write(0x04, 6, 2)

    def guest(self):
        """A guest with memory behind this socket."""
        self.enable()
        bars = {0: BAR0, 2: BAR2}
        g = Guest(lambda bar, off, val, size: self.bar(True, bars[bar] + off, val, size),
                  lambda bar, off, size: self.bar(False, bars[bar] + off, 0, size))
        body = struct.pack("<24Q", *[0] * 8, os.fstat(g.fd).st_size, *[0] * 15)
        socket.send_fds(self.sock, [struct.pack("<iIQ", SYSMEM, 0, len(body)) + body], [g.fd])
        return g


class Model:
    """A running model with some fake QEMUs."""

    def __init__(self, tmp_path, vms=2, args=()):
        self.control, self.log = tmp_path / "control", tmp_path / "log"
        self.qemus = [FakeQemu() for _ in range(vms)]
        self.vfio = tmp_path / "vfio"
        # options work from left to right: when the control socket is there, all before it is
        command = [str(MODEL), "--log", str(self.log), *args, "--control", str(self.control)]
        for q in self.qemus:
            command += ["--vm", f"fd={q.theirs.fileno()}"]
        self.process = subprocess.Popen(command, pass_fds=[q.theirs.fileno() for q in self.qemus])
        for q in self.qemus:
            q.theirs.close()
        deadline = time.monotonic() + 10
        while not self.control.exists() and time.monotonic() < deadline:
            time.sleep(0.01)

    def command(self, line, fd=None):
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(10)
            s.connect(str(self.control))
            ancillary = [] if fd is None else [
                (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))]
            s.sendmsg([line.encode() + b"\n"], ancillary)
            with s.makefile() as f:
                return json.loads(f.readline())

    def stop(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture
def model(tmp_path):
    m = Model(tmp_path)
    yield m
    m.stop()


def test_config_space_and_registers(model):
    q = model.qemus[0]
    assert q.cfg_read(0) == 0x100315B3
    q.cfg_write(0x14, 0xFFFFFFFF)
    assert q.cfg_read(0x14) == 0
    q.enable()
    assert q.bar(False, BAR0 + 0x8069C) == 0
    assert q.bar(False, BAR0 + 0x8069C) != 0
    q.bar(True, BAR2 + 0x14, 0xFFFFFFFF)
    assert model.command("stats")["ports"][0]["bad_doorbells"] == 1
    assert q.bar(False, 0x1234) == 0xFFFFFFFFFFFFFFFF


@pytest.mark.parametrize("garbage", [
    struct.pack("<iIQ", CFG_READ, 0, 1 << 40), struct.pack("<iIQ", 99, 0, 0),
    struct.pack("<iIQ", CFG_READ, 0, 4) + b"abcd",
    struct.pack("<iIQIIi", CFG_READ, 0, 12, 0, 0, -1), b"\xff" * 500])
def test_garbage_ends_that_vm_only(model, garbage):
    first, second = model.qemus
    first.sock.sendall(garbage)
    with pytest.raises(ConnectionError):
        first.reply()
    assert second.cfg_read(0) == 0x100315B3
    assert "malformed" in model.log.read_text()
    assert model.process.poll() is None


def test_vm_that_leaves_makes_room(model):
    model.qemus[0].sock.close()
    assert model.qemus[1].cfg_read(0) == 0x100315B3
    new = FakeQemu()
    assert model.command("attach lid=2", new.theirs.fileno())["error"]
    new = FakeQemu()
    assert model.command("attach lid=1,name=again", new.theirs.fileno()) == {"ok": True}
    new.theirs.close()
    assert new.cfg_read(0) == 0x100315B3
    assert [p["name"] for p in model.command("stats")["ports"]] == ["again", "vm1"]
    assert "descriptor" in model.command("attach lid=9")["error"]


@pytest.mark.parametrize("line", [
    "", "nonsense", "delay", "delay all", "delay all x", "delay 0 5", "delay 1-99999 5",
    "delay 1 99999999999999999999", "hold 1", "hold 1 b", "break 1", "break random", "link 1",
    "break random every 0", "break random every 5 x", "link 1 sideways", "link 77 up",
    "delay all 5 everything", "kill", "kill 77", "kill 1 2", "catas", "catas 77", "catas 1 0",
    "event 1", "event 77 5", "event 1 256", "event 1 5 0", "event 1 5 256",
    "fail 1", "fail 1 4", "fail 1 4 0", "fail 1 0x1000 3", "fail 1 4 256", "fail 1 4 3 0",
    "fail 77 4 3", "bandwidth", "bandwidth 1", "bandwidth 1 63", "bandwidth 1 64 3",
    "bandwidth 77 64", "bandwidth 1 x", "overrun", "overrun 77", "overrun 1 x", "duplicate all",
    "duplicate 77 5", "duplicate all 101", "duplicate 1 5 send", "duplicate 1 5 everything",
    "error 1", "error 1 0", "error 1 256", "error 77 1", "error 1 1 x",
    "delay all 5 qp=70", "delay 1 5 sl=16", "delay 1 5 sl=1 sl=2", "delay 1 5 qp=0",
    "delay 1 5 qp=0x1000000", "delay 1 5 sl", "hold 1 2 sl=x", "hold 1 2 3",
    "a b c " * 50])
def test_bad_commands_are_refused(model, line):
    answer = model.command(line)
    assert answer["ok"] is False and answer["error"]
    assert model.command("stats")["ok"] is True


def test_good_commands_are_accepted(model):
    for line in [
        "delay all 50",
        "delay 1 5",
        "delay 1-2 0",
        "delay all 5 sl=3",
        "delay 1-2 5 write sl=3 qp=70",
        "delay 1 5 qp=70",
        "delay off",
        "hold 1 2",
        "release",
        "hold 1 2 sl=15",
        "release",
        "break 1 2",
        "break random every 100 7",
        "break random off",
        "link 1 down",
        "link 1 up",
        "delay all 1 mad",
        "delay 1-2 1 write",
        "kill 1",
        "revive 1",
        "fail 1 0x4 3 2",
        "fail 1 any hang",
        "fail off",
        "bandwidth all 1000",
        "bandwidth 1 2000 128",
        "bandwidth all off",
        "overrun 1",
        "overrun 1 0",
        "duplicate all 5",
        "duplicate 1 50 mad",
        "duplicate 1 0 datagram",
        "duplicate all 0",
        "error 1 0x16",
        "error 1 1 0",
    ]:
        assert model.command(line)["ok"] is True, line
    injected = model.command("stats")["injected"]
    assert injected["holds"] == 2 and injected["link_changes"] == 2 and injected["breaks"] == 0


def test_command_faults_and_catastrophe(model):
    q = model.qemus[0]
    q.enable()

    def command(op):
        q.bar(True, BAR0 + 0x80698, int.from_bytes(struct.pack(">I", 1 << 23 | op), "little"))
        return struct.pack("<I", q.bar(False, BAR0 + 0x80698))

    assert command(0x31)[0] == 4  # NOP before the firmware runs: bad system state
    assert model.command("fail 1 0x31 0x40")["ok"]
    assert command(0x31)[0] == 0x40
    assert command(0x31)[0] == 4
    assert model.command("catas 1 0xdead")["ok"]
    assert q.bar(False, BAR0 + 0x60000) == 0xADDE0000
    assert command(0x31) == b"\0\x80\0\x31"  # GO stays
    stats = model.command("stats")
    assert (stats["injected"]["command_faults"], stats["injected"]["catastrophes"]) == (1, 1)
    assert stats["ports"][1]["injected_catastrophes"] == 0
    q.bar(True, BAR0 + 0xF0010, 0x01000000)
    assert q.bar(False, BAR0 + 0x60000) == 0
    assert command(0x31)[0] == 4


def crossed(tmp_path, options=""):
    """A model whose first guest has talked to itself, stopped; its capture and its counters."""
    m = Model(tmp_path, args=["--pcap", f"{tmp_path}/capture{options}"])
    try:
        g = m.qemus[0].guest()
        g.init_hca()
        g.connect(lid=1)
        g.fill(0, bytes(i * 7 & 255 for i in range(2501)))
        g.post_recv(100, 0x30000)
        g.post(WRITE, 2501)
        g.post(SEND_IMM, 3, imm=0x11223344)
        g.post(READ, 1600, offset=0x8000, remote=0)
        g.post(FAA, 8, offset=0x9000, remote=0x28000, add=5)
        g.post(WRITE, 8, remote=64 * 4096)
        g.post(WRITE, 8)
        assert [g.completion() for _ in range(8)] == [0, 0, 0, 0, 0, 0x13, 5, None]
        assert g.memory(0x20000, 2501) == g.memory(0, 2501)
        stats = m.command("stats")
        m.command("quit")
        assert m.process.wait(10) == 0
        return tmp_path / "capture", stats
    finally:
        m.stop()


def test_capture_is_dissected(tmp_path):
    roce = pytest.importorskip("scapy.contrib.roce")
    from scapy.utils import rdpcap  # pylint: disable=import-outside-toplevel
    path, stats = crossed(tmp_path)
    packets = rdpcap(str(path))
    assert stats["capture"] == {"packets": len(packets), "lost": 0}
    assert [p[roce.BTH].opcode for p in packets] == [
        6, 7, 8, 0x11,  # a write of three packets, and its acknowledgement
        5, 0x11, 0x0C, 0x0D, 0x0F,  # a send, a read of two packets
        0x14, 0x12, 0x11]  # an atomic; the write out of bounds leaves its NAK
    assert [p[roce.BTH].psn - 0x100 for p in packets] == [0, 1, 2, 2, 3, 3, 4, 4, 5, 6, 6, 7]
    payload = b""
    for p in packets:
        frame = bytes(p)
        assert p["IP"].src == p["IP"].dst == "10.0.0.1" and p["UDP"].dport == 4791
        assert p["IP"].len == len(frame) - 14 and p["UDP"].len == len(frame) - 34
        again = p.copy()
        again[roce.BTH].icrc = None
        again["IP"].chksum = None
        assert bytes(again) == frame, p.summary()
        if p[roce.BTH].opcode in (6, 7, 8):
            body = bytes(p[roce.BTH].payload)[16 if p[roce.BTH].opcode == 6 else 0:]
            payload += body[:len(body) - p[roce.BTH].padcount]
    assert payload == bytes(i * 7 & 255 for i in range(2501))
    assert bytes(packets[0][roce.BTH].payload)[:16] == struct.pack(">QII", VA + 0x20000, KEY, 2501)
    assert bytes(packets[4][roce.BTH].payload)[:4] == b"\x11\x22\x33\x44"
    assert packets[-1][roce.AETH].syndrome == 0x62
    assert packets[3][roce.AETH].msn == 1


def test_capture_of_management(tmp_path):
    """A subnet manager's datagram and its answer."""
    roce = pytest.importorskip("scapy.contrib.roce")
    from scapy.utils import rdpcap  # pylint: disable=import-outside-toplevel
    m = Model(tmp_path, args=["--pcap", f"{tmp_path}/capture"])
    try:
        g = m.qemus[0].guest()
        g.init_hca()
        g.special_qp()
        mad = bytes([1, 1, 1, 1]) + bytes(4) + b"transact" + b"\0\x11" + bytes(238)
        lrh, bth, deth = struct.pack(">BBHHH", 0, 2, 0xBFFF, 0, 0), bytes(12), bytes(8)
        g.fill(0, lrh + bth + deth + mad)
        g.post_recv(300, 0x30000)
        g.post(SEND, 28 + 256)
        assert {g.completion(), g.completion()} == {0}
        m.command("quit")
        assert m.process.wait(10) == 0
    finally:
        m.stop()
    packets = rdpcap(str(tmp_path / "capture"))
    assert sorted((p["IP"].src, p["IP"].dst) for p in packets) == [
        ("10.0.0.1", "10.0.191.255"), ("10.0.191.255", "10.0.0.1")]
    for p in packets:
        again = p.copy()
        again[roce.BTH].icrc = None
        assert bytes(again) == bytes(p) and p[roce.BTH].opcode == 0x64
        body = bytes(p[roce.BTH].payload)  # DETH, MAD
        assert len(body) == 264 and body[8:11] == b"\1\1\1" and body[16:24] == b"transact"


def test_capture_is_bounded(tmp_path):
    path, stats = crossed(tmp_path, ",max=1")
    assert stats["capture"]["lost"] == 0
    m = Model(tmp_path, args=["--pcap", f"{path},max=1"])
    try:
        g = m.qemus[0].guest()
        g.init_hca()
        g.connect(lid=1)
        for _ in range(20):
            g.post(WRITE, 0x10000)
        assert [g.completion() for _ in range(20)] == [0] * 20
        stats = m.command("stats")
        assert stats["capture"]["lost"] > 200
        assert "full" in m.log.read_text()
        m.command("quit")
        m.process.wait(10)
        assert (1 << 20) - 8192 < path.stat().st_size <= 1 << 20
    finally:
        m.stop()


def test_overlong_command_ends_the_client(model):
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(10)
        s.connect(str(model.control))
        s.sendall(b"x" * 4096)
        try:
            assert s.recv(1) == b""
        except ConnectionResetError:
            pass
    assert model.command("stats")["ok"] is True


def test_ends_with_its_last_vm(model):
    for q in model.qemus:
        q.sock.close()
    assert model.process.wait(10) == 0
    assert not model.control.exists()


def test_quit(model):
    assert model.command("quit")["ok"] is True
    assert model.process.wait(10) == 0
    assert not model.control.exists()


def test_many_ports(tmp_path):
    m = Model(tmp_path, vms=100)
    try:
        for q in m.qemus:
            assert q.cfg_read(0) == 0x100315B3
        assert [p["lid"] for p in m.command("stats")["ports"]] == list(range(1, 101))
    finally:
        m.stop()


def test_dies_with_its_parent(tmp_path):
    script = (f"import subprocess, sys, time, socket\n"
              f"a, b = socket.socketpair()\n"
              f"p = subprocess.Popen([{str(MODEL)!r}, '--stay', '--vm', f'fd={{b.fileno()}}'], "
              f"pass_fds=[b.fileno()])\n"
              f"a.sendall(__import__('struct').pack('<iIQIIi', 3, 0, 12, 0, 0, 4)); a.recv(24)\n"
              f"print(p.pid, flush=True)\n"
              f"time.sleep(60)\n")
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    pid = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    for _ in range(200):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
            return
        time.sleep(0.02)
    pytest.fail("the model outlives its parent")


def test_idle_model_uses_no_cpu(model):
    def ticks():
        stat = Path(f"/proc/{model.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return int(stat[11]) + int(stat[12])

    model.qemus[0].cfg_read(0)
    before = ticks()
    time.sleep(2)
    assert (ticks() - before) / os.sysconf("SC_CLK_TCK") / 2 < 0.01


def test_scenario_file(tmp_path):
    scenario = tmp_path / "scenario"
    scenario.write_text("# first the link\n0 link 1 down\n20 link 1 up\n30 nonsense\n")
    m = Model(tmp_path, args=["--scenario", str(scenario)])
    try:
        deadline = time.monotonic() + 10
        while "nonsense" not in (m.log.read_text() if m.log.exists() else ""):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert m.command("stats")["injected"]["link_changes"] == 2
    finally:
        m.stop()


@pytest.mark.parametrize("args", [
    [], ["--vm", "fd=x"], ["--vm", "lid=1"], ["--vm", "fd=0,lid=65535"], ["--vm", "fd=0,what=1"],
    ["--vm", "fd=987"], ["--control"], ["--nonsense"], ["extra"],
    ["--vfio-user", "/nonexistent/x"], ["--stay", "--vfio-user", "/" * 300],
    ["--vfio-user", "/tmp/x,fd=3"], ["--vfio-user", "/tmp/x,lid=70000"],
    ["--stay", "--pcap", "/nonexistent/x"], ["--stay", "--pcap", "/dev/null,max=0"],
    ["--stay", "--control", "/" * 300], ["--stay", "--scenario", "/nonexistent"]])
def test_bad_command_lines(args):
    done = subprocess.run([str(MODEL), *args], capture_output=True, text=True, timeout=10,
                          stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 2
    assert done.stderr


@pytest.fixture
def vfio_model(tmp_path):
    m = Model(tmp_path, vms=1, args=["--vfio-user", f"{tmp_path}/vfio,lid=9,name=v"])
    yield m
    m.stop()


def test_vfio_describes_the_device(vfio_model):
    c = VfioClient(vfio_model.vfio)
    caps = json.loads(c.capabilities.rstrip(b"\0"))["capabilities"]
    assert caps == {"max_msg_fds": 16, "max_data_xfer_size": 4096}  # of what was proposed
    assert c.request(vfio.GET_INFO, struct.pack("<IIII", 16, 0, 0, 0)) == (
        0, struct.pack("<IIII", 16, 3, 9, 5))
    sizes = {}
    for i in range(9):
        error, body = c.request(vfio.GET_REGION, struct.pack("<IIIIQQ", 32, 0, i, 0, 0, 0))
        argsz, flags, index, _, sizes[i], offset = struct.unpack("<IIIIQQ", body)
        assert (error, argsz, index, offset) == (0, 32, i, 0) and flags == (3 if sizes[i] else 0)
    assert {i: n for i, n in sizes.items() if n} == {0: 1 << 20, 2: 8 << 20, 7: 256}
    for i, count in ((0, 0), (2, 32), (4, 0)):
        assert c.request(vfio.GET_IRQ, struct.pack("<IIII", 16, 0, i, 0)) == (
            0, struct.pack("<IIII", 16, 9 if count else 0, i, count))
    assert c.read(vfio.CONFIG, 0, 4) == 0x100315B3
    assert c.request(vfio.REGION_READ, struct.pack("<QII", 0, vfio.CONFIG, 256))[0] == 0
    for offset in range(0x10, 0x20, 4):
        c.write(vfio.CONFIG, offset, 0xFFFFFFFF, 4)
    assert [c.read(vfio.CONFIG, o, 4) for o in range(0x10, 0x20, 4)] == [
        0xFFF00004, 0xFFFFFFFF, 0xFF80000C, 0xFFFFFFFF]


def test_vfio_brings_the_device_up(vfio_model):
    c = VfioClient(vfio_model.vfio)
    g = c.guest()
    irq = os.eventfd(0, os.EFD_NONBLOCK)
    assert c.set_irqs(4 | 32, 0, 1, [irq]) == 0
    g.must(0x004)
    assert struct.unpack_from(">HHHH", g.ram, vfio.OUT) == (256, 2, 5000, 42)
    g.init_hca()
    assert os.eventfd_read(irq) >= 1  # the port's events, by MSI-X 0
    g.connect(lid=9)
    g.fill(0, b"across" * 100)
    g.post(WRITE, 600)
    assert g.completion() == 0 and g.memory(0x20000, 600) == b"across" * 100
    port = vfio_model.command("stats")["ports"][0]
    assert (port["name"], port["lid"], port["state"], port["writes"]) == ("v", 9, "ACTIVE", 1)
    assert c.dma_unmap(0, vfio.RAM) == 0
    assert g.command(0x004) != 0  # no mailbox without memory
    assert c.dma_map(0, vfio.RAM, [g.fd]) == 0
    assert g.command(0x004) == 0
    assert c.request(vfio.DEVICE_RESET) == (0, b"")
    assert c.read(vfio.CONFIG, 4, 2) == 0
    assert vfio_model.command("stats")["ports"][0]["state"] == "DOWN"


def test_vfio_interrupts(vfio_model):
    c = VfioClient(vfio_model.vfio)
    a, b = (os.eventfd(0, os.EFD_NONBLOCK) for _ in range(2))

    def taken(fd):
        try:
            return os.eventfd_read(fd)
        except BlockingIOError:
            return 0

    assert c.set_irqs(4 | 32, 3, 2, [a, b]) == 0
    assert c.set_irqs(1 | 32, 3, 2) == 0
    assert (taken(a), taken(b)) == (1, 1)
    assert c.set_irqs(2 | 32, 3, 2, data=b"\0\1") == 0
    assert (taken(a), taken(b)) == (0, 1)
    assert c.set_irqs(4 | 32, 4, 1) == 0  # without a descriptor: taken back
    assert c.set_irqs(1 | 32, 3, 2) == 0
    assert (taken(a), taken(b)) == (1, 0)
    assert c.set_irqs(1 | 32, 0, 0) == 0  # all off
    assert c.set_irqs(1 | 32, 3, 2) == 0
    assert taken(a) == 0
    os.eventfd_write(b, (1 << 64) - 2)  # full: the model does not wait for room
    assert c.set_irqs(4 | 32, 0, 1, [b]) == 0 and c.set_irqs(1 | 32, 0, 1) == 0
    assert c.read(vfio.CONFIG, 0, 2) == 0x15B3


def test_vfio_refuses_and_goes_on(vfio_model, tmp_path):
    c = VfioClient(vfio_model.vfio)
    g = Guest(c.write, c.read)
    small, pipe = os.open(tmp_path / "small", os.O_RDWR | os.O_CREAT), os.pipe()
    irq = os.eventfd(0)
    size = 1 << 20
    assert c.dma_map(0, size, [g.fd]) == 0
    assert c.dma_map(size - 4096, 8192, [g.fd]) == 17  # EEXIST
    bad = [c.dma_map(size, 0, [g.fd]), c.dma_map(size, 4095, [g.fd]),
           c.dma_map(size + 1, 4096, [g.fd]), c.dma_map(size, 4096, [g.fd], offset=vfio.RAM),
           c.dma_map(size, 4096, [g.fd], offset=1), c.dma_map(size, 4096, [small]),
           c.dma_map(size, 4096, [g.fd, g.fd]), c.dma_map((1 << 64) - 4096, 8192, [g.fd]),
           c.dma_unmap(0, size, 1), c.set_irqs(4 | 32, 0, 1, [pipe[1]]),
           c.set_irqs(4 | 32, 0, 2, [irq]), c.set_irqs(4 | 32, 32, 1, [irq]),
           c.set_irqs(1 | 32, 1, 0xFFFFFFFF), c.set_irqs(2 | 32, 0, 8, data=b"1"),
           c.set_irqs(1 | 8, 0, 1), c.set_irqs(1 | 32, 0, 1, index=0),
           c.set_irqs(1 | 32, 0, 0, index=5)]
    bad += [c.request(vfio.REGION_READ, struct.pack("<QII", *a))[0] for a in (
        (0, 0, 3), (0, 0, 0), (1 << 20, 0, 4), ((1 << 20) - 4, 0, 8), (0, 1, 4), (0, 9, 4),
        (0, 7, 257), (0xFFFFFFFFFFFFFFFC, 7, 8), (0, 0, 0xFFFFFFFF), (0, 2, 4096))]
    bad += [c.request(vfio.REGION_WRITE, struct.pack("<QII", 0, 0, 4) + b"123")[0],
            c.request(vfio.GET_REGION, struct.pack("<IIIIQQ", 32, 0, 9, 0, 0, 0))[0],
            c.request(vfio.GET_REGION, b"short")[0], c.request(vfio.GET_INFO)[0],
            c.request(vfio.GET_IRQ, struct.pack("<IIII", 16, 0, 5, 0))[0],
            c.request(vfio.DMA_MAP, b"x")[0], c.request(vfio.DMA_UNMAP, b"")[0]]
    assert bad == [22] * len(bad)
    assert c.dma_unmap(0, 4096) == 2
    assert [c.request(n)[0] for n in (6, 14, 15, 16, 99)] == [95] * 5
    assert c.dma_map(size, 4096) == 0 and c.dma_map(size, 4096) == 17  # known, out of reach
    assert c.dma_map(size + 4096, 4096, [g.fd], flags=1) == 0  # likewise: it is read-only
    assert c.dma_unmap(size, 4096) == 0
    for i in range(200):
        error = c.dma_map((1 << 32) + i * 4096, 4096, [g.fd])
        if error:
            break
    assert (i, error) == (31, 28)  # ENOSPC
    assert c.dma_unmap(0, 0, 2) == 0 and c.dma_map(0, size, [g.fd]) == 0
    c.send(vfio.REGION_WRITE, struct.pack("<QIIH", 4, vfio.CONFIG, 2, 6), flags=0x10)
    assert c.read(vfio.CONFIG, 4, 2) == 6  # no answer was sent to the posted write
    fds = len(os.listdir(f"/proc/{vfio_model.process.pid}/fd"))
    c.request(99, b"", [irq] * 30)
    assert len(os.listdir(f"/proc/{vfio_model.process.pid}/fd")) == fds


@pytest.mark.parametrize("negotiate,command,body,size,flags", [
    (True, 9, b"", 15, 0), (True, 9, b"", 0, 0), (True, 9, b"", 1 << 31, 0),
    (True, 9, b"", 16, 1), (True, 1, struct.pack("<HH", 0, 1), None, 0),
    (False, 9, b"", None, 0), (False, 1, struct.pack("<HH", 1, 0), None, 0),
    (False, 1, struct.pack("<HH", 0, 1) + b"no end", None, 0), (False, 1, b"", None, 0)])
def test_vfio_garbage_ends_that_client_only(vfio_model, negotiate, command, body, size, flags):
    c = VfioClient(vfio_model.vfio, negotiate)
    c.send(command, body, size=size, flags=flags)
    with pytest.raises(ConnectionError):
        c.reply(command)
    assert vfio_model.qemus[0].cfg_read(0) == 0x100315B3
    assert VfioClient(vfio_model.vfio).read(vfio.CONFIG, 0, 4) == 0x100315B3


def test_vfio_one_client_at_a_time(vfio_model):
    first = VfioClient(vfio_model.vfio)
    g = first.guest()
    g.init_hca()
    with pytest.raises(ConnectionError):
        VfioClient(vfio_model.vfio)
    assert first.read(vfio.CONFIG, 0, 2) == 0x15B3
    vfio_model.qemus[0].sock.close()
    first.sock.close()
    assert vfio_model.process.wait(10) == 0  # the last client has left
    assert not vfio_model.vfio.exists()


def test_vfio_and_mpqemu_share_a_subnet(vfio_model):
    """A message from a guest behind one front end to a guest behind the other."""
    a, b = VfioClient(vfio_model.vfio).guest(), vfio_model.qemus[0].guest()
    for g, peer in ((a, 2), (b, 9)):
        g.init_hca()
        g.connect(lid=peer)
    b.fill(0, b"from the other side")
    b.post(WRITE, 19)
    assert b.completion() == 0 and a.memory(0x20000, 19) == b"from the other side"


def test_memory_that_shrinks(vfio_model):
    """The VM's process shortens the file that it shares: its own loss."""
    for g in (VfioClient(vfio_model.vfio).guest(), vfio_model.qemus[0].guest()):
        g.must(0x004)
        os.ftruncate(g.fd, vfio.OUT)
        g.ram.close()
        shortened = mmap.mmap(g.fd, vfio.OUT)
        g.ram = shortened
        assert g.command(0x004) == 0  # the answer went nowhere
    assert vfio_model.process.poll() is None
    assert vfio_model.command("stats")["ok"]


def test_launcher_tries_this_qemu(tmp_path):
    """The trial of --fabric auto, unfaked: a guest reads and writes the model's registers."""
    qemu = shutil.which(os.environ.get("QEMU", "qemu-system-x86_64"))
    if not qemu:
        pytest.skip("no QEMU on this machine")
    choice = fabric.choose("auto", qemu, str(MODEL), "tcg", str(tmp_path / "fabric.json"), False)
    assert "passed a trial" in choice.why
    assert (
        fabric.choose("auto", qemu, str(MODEL), "tcg", str(tmp_path / "fabric.json"), False)
        == choice
    )


def test_vfio_with_a_real_qemu(vfio_model):
    qemu = shutil.which(os.environ.get("QEMU", "qemu-system-x86_64"))
    if not qemu:
        pytest.skip("no QEMU on this machine")
    address = json.dumps({"driver": "vfio-user-pci",
                          "socket": {"type": "unix", "path": str(vfio_model.vfio)}})
    done = subprocess.run(
        [qemu, "-M", "q35,memory-backend=ram0", "-m", "64", "-display", "none", "-nodefaults",
         "-object", "memory-backend-memfd,id=ram0,size=64M,share=on", "-device", address,
         "-monitor", "stdio"], input="info pci\nquit\n", capture_output=True, text=True, timeout=60,
        check=False)
    if "not a valid device model name" in done.stderr:
        pytest.skip("no QEMU with vfio-user-pci (10.1 or later) on this machine")
    assert "15b3:1003" in done.stdout, done.stderr
