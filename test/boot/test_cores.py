# SPDX-License-Identifier: MIT
"""Core files: when there is one, what its notes and its memory say, and that gdb can read it."""

import re
import shutil
import struct
import subprocess

NT_PRSTATUS, NT_PRFPREG, NT_PRPSINFO, NT_AUXV = 1, 2, 3, 6
NT_FILE, NT_SIGINFO, NT_X86_XSTATE = 0x46494C45, 0x53494749, 0x202
REGS = """r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp ss
    fs_base gs_base ds es fs gs""".split()

# As Linux prints them where core_pattern is "core".
RULES = """\
the limit of before: signal 6 core 0 file none
abort: signal 6 core 1 file mode 600
term: signal 15 core 0 file none
quit: signal 3 core 1 file mode 600
not dumpable: signal 6 core 0 file none
100 bytes: signal 6 core 0 file none
cut short: core 1 size small space cut
file limit: core 1 size small space cut
sparse: core 1 size 1 GiB space little
replaced: signal 6 core 1 file mode 600
other name: signal 6 core 1 file mode 600
link: signal 6 core 1 file mode 600
waitid: dumped 6
"""

PATTERN = """\
|/bin/sh: Invalid argument
%e-%p.%s: core 1 named
none/%e-%p.%s: core 0 no file of that name
uses pid: yes
"""


class Core:
    """A reader of core files, of what core(5) and <elf.h> say."""

    def __init__(self, data: bytes):
        self.data, self.notes, self.memory = data, [], []
        assert data[:7] == b"\x7fELF\x02\x01\x01"
        kind, machine = struct.unpack_from("<HH", data, 16)
        assert (kind, machine) == (4, 62)
        (at,) = struct.unpack_from("<Q", data, 32)
        size, count = struct.unpack_from("<HH", data, 54)
        for i in range(count):
            fields = struct.unpack_from("<IIQQQQQQ", data, at + i * size)
            kind, _flags, offset, vaddr, _paddr, in_file, in_memory, _align = fields
            assert in_file <= in_memory or kind == 4
            assert offset + in_file <= len(data)
            if kind == 4:
                self.read_notes(data[offset : offset + in_file])
            elif kind == 1:
                assert offset % 4096 == 0
                self.memory.append((vaddr, in_file, offset))

    def read_notes(self, data: bytes):
        at = 0
        while at < len(data):
            name_len, length, kind = struct.unpack_from("<III", data, at)
            at += 12
            name = data[at : at + name_len].rstrip(b"\0").decode()
            at += -(-name_len // 4) * 4
            self.notes.append((name, kind, data[at : at + length]))
            at += -(-length // 4) * 4
        assert at == len(data)

    def of_kind(self, kind: int) -> list[bytes]:
        return [data for _, k, data in self.notes if k == kind]

    def at(self, addr: int, length: int) -> bytes:
        for vaddr, size, offset in self.memory:
            if vaddr <= addr and addr + length <= vaddr + size:
                return self.data[offset + addr - vaddr :][:length]
        raise AssertionError(f"{addr:#x} is not in the file")


class Thread:
    def __init__(self, status: bytes, fpregs: bytes, xstate: bytes):
        assert (len(status), len(fpregs)) == (336, 512)
        self.signo, self.cursig = struct.unpack_from("<i", status)[0], status[12]
        self.tid, self.ppid, self.pgrp, self.sid = struct.unpack_from("<4I", status, 32)
        self.regs = dict(zip(REGS, struct.unpack_from("<27Q", status, 112), strict=True))
        assert xstate[:464] == fpregs[:464]
        (self.features,) = struct.unpack_from("<Q", xstate, 464)
        self.xmm = [struct.unpack_from("<Q", fpregs, 160 + 16 * i)[0] for i in range(16)]


def the_core(plain, program):
    got = plain.run([program, "file"])
    assert got.status == 0, got.err
    status, *addrs = (int(word, 16) for word in got.err.split())
    assert status == 0x8B  # SIGSEGV, and a core file
    return got.out, *addrs


def test_the_file(plain, programs, tmp_path):
    program = programs / "glibc-static/cores"
    data, fault, marker, shared, hidden = the_core(plain, program)
    core = Core(data)
    kinds = [kind for _, kind, _ in core.notes]
    assert kinds[:7] == [NT_PRSTATUS, NT_PRPSINFO, NT_SIGINFO, NT_AUXV, NT_FILE, NT_PRFPREG,
                         NT_X86_XSTATE]
    assert kinds[7:] == [NT_PRSTATUS, NT_PRFPREG, NT_X86_XSTATE] * 3
    threads = [Thread(*notes) for notes in zip(core.of_kind(NT_PRSTATUS), core.of_kind(NT_PRFPREG),
                                               core.of_kind(NT_X86_XSTATE), strict=True)]
    first = threads[0]
    want = {"rip": fault, "rax": 0, "cs": 0x33, "ss": 0x2B}
    want |= {reg: i * 0x0101010101010101
             for i, reg in enumerate(["rbx", "r12", "r13", "r14", "r15", "r8"], 1)}
    assert {reg: first.regs[reg] for reg in want} == want
    assert first.xmm[7] == 0x0606060606060606 and first.features & 3 == 3
    assert (first.signo, first.cursig) == (11, 11)
    by_nr = {t.regs["r12"] - 0x7000: t for t in threads[1:]}
    assert sorted(by_nr) == [1, 2, 3] and len({t.tid for t in threads}) == 4
    for nr in (1, 2):  # in pause()
        assert by_nr[nr].regs["r13"] == nr ^ 0xFFFFFFFFFFFFFFFF
        assert by_nr[nr].regs["orig_rax"] in (34, 0xFFFFFFFFFFFFFFFF)
    assert by_nr[3].xmm[5] == 0x7003
    assert len({t.regs["fs_base"] for t in threads}) == 4
    check_process(core, first)
    assert core.at(marker, 24) == b"the bytes of a variable\0"
    assert core.at(shared, 14) == b"shared memory\0"
    for i in (0, 2, 4):
        assert core.at(hidden + i * 4096, 7) == b"page %d\0" % i
    for i in (1, 3):  # MADV_DONTDUMP
        assert hidden + i * 4096 in {vaddr for vaddr, size, _ in core.memory if size == 0}
    assert b"page 1" not in data and b"page 3" not in data
    check_gdb(data, program, tmp_path, fault)


def check_process(core: Core, first: Thread):
    (info,) = core.of_kind(NT_PRPSINFO)
    assert len(info) == 136 and struct.unpack_from("<I", info, 24)[0] == first.tid
    assert info[40:56].rstrip(b"\0") == b"cores"
    assert info[56:].rstrip(b"\0 ").endswith(b"/cores file")
    (siginfo,) = core.of_kind(NT_SIGINFO)
    signo, _, code, _, addr = struct.unpack_from("<iiiiQ", siginfo)
    assert (len(siginfo), signo, code, addr) == (128, 11, 1, 0x1234)
    (auxv,) = core.of_kind(NT_AUXV)
    aux = dict(struct.iter_unpack("<QQ", auxv))
    assert aux[6] == 4096 and core.at(aux[33], 4) == b"\x7fELF"  # page size; the vDSO
    (files,) = core.of_kind(NT_FILE)
    count, page = struct.unpack_from("<QQ", files)
    names = files[16 + 24 * count :].split(b"\0")[:-1]
    assert count == len(names) > 0 and page == 4096
    assert any(name.endswith(b"/cores") for name in names)


def check_gdb(data: bytes, program, tmp_path, fault: int):
    if not shutil.which("gdb"):
        return
    path = tmp_path / "core"
    path.write_bytes(data)
    command = ["gdb", "-nx", "-batch", "-ex", "print/x $r12", "-ex", "print/x $rip", "-ex",
               "print/x $xmm7.v2_int64[0]", "-ex", "print (char *)&marker", "-ex",
               "thread apply all print/x $r12", str(program), str(path)]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert "Program terminated with signal SIGSEGV" in said.stdout, said
    for line in ("0x202020202020202", hex(fault), "0x606060606060606"):
        assert re.search(rf"^\$\d+ = {line}$", said.stdout, re.MULTILINE), said
    assert '"the bytes of a variable"' in said.stdout
    assert all(hex(0x7000 + i) in said.stdout for i in (1, 2, 3))
    assert "warning" not in said.stderr.lower(), said.stderr


def test_rules(cluster, programs):
    got = cluster.run([programs / "glibc-static/cores", "rules"])
    assert got.out.decode() == RULES, got.err
    assert got.status == 0


def test_names(plain, programs):
    got = plain.run([programs / "glibc-static/cores", "pattern"])
    assert got.out.decode() == PATTERN, got.err
    assert got.status == 0


def test_a_dump_that_is_killed(plain, programs):
    before = plain.stats()["p0"]["core.cut_short"]
    got = plain.run([programs / "glibc-static/cores", "kill"])
    assert got.out == b"killed: signal 9, cut short\n", got.err
    assert plain.stats()["p0"]["core.cut_short"] == before + 1
