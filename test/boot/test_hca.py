# SPDX-License-Identifier: MIT
"""The HCA model as a process: its front end, control socket, and how it ends. No VM is booted."""
import array
import json
import os
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hca_guest import FAA, KEY, READ, SEND_IMM, VA, WRITE, Guest

ROOT = Path(__file__).resolve().parents[2]
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
        command = [str(MODEL), "--control", str(self.control), "--log", str(self.log), *args]
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
    "fail 1", "fail 1 4", "fail 1 4 0", "fail 1 0x1000 3", "fail 1 4 256", "fail 1 4 3 0",
    "fail 77 4 3", "bandwidth", "bandwidth 1", "bandwidth 1 63", "bandwidth 1 64 3",
    "bandwidth 77 64", "bandwidth 1 x",
    "a b c " * 50])
def test_bad_commands_are_refused(model, line):
    answer = model.command(line)
    assert answer["ok"] is False and answer["error"]
    assert model.command("stats")["ok"] is True


def test_good_commands_are_accepted(model):
    for line in ["delay all 50", "delay 1 5", "delay 1-2 0", "delay off", "hold 1 2", "release",
                 "break 1 2", "break random every 100 7", "break random off", "link 1 down",
                 "link 1 up", "delay all 1 mad", "delay 1-2 1 write", "kill 1", "revive 1",
                 "fail 1 0x4 3 2", "fail 1 any hang", "fail off", "bandwidth all 1000",
                 "bandwidth 1 2000 128", "bandwidth all off"]:
        assert model.command(line)["ok"] is True, line
    injected = model.command("stats")["injected"]
    assert injected["holds"] == 1 and injected["link_changes"] == 2 and injected["breaks"] == 0


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
    ["--stay", "--pcap", "/nonexistent/x"], ["--stay", "--pcap", "/dev/null,max=0"],
    ["--stay", "--control", "/" * 300], ["--stay", "--scenario", "/nonexistent"]])
def test_bad_command_lines(args):
    done = subprocess.run([str(MODEL), *args], capture_output=True, text=True, timeout=10,
                          stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 2
    assert done.stderr
