#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Check that a shared object can be the vDSO: mapped as it is, by nobody who would relocate it.

  - one PT_LOAD, from offset 0 at address 0, read and execute, as large in the file as in memory;
  - no relocations, no libraries it needs, nothing undefined, nothing writable;
  - both hash tables, for every dynamic linker;
  - exactly the functions that Linux has, with its version.
"""

import pathlib
import struct
import sys

WANTED = {"clock_gettime", "clock_getres", "gettimeofday", "time", "getcpu"}
VERSION = "LINUX_2.6"
PT_LOAD, PF_RX = 1, 5
SHT_RELA, SHT_DYNAMIC, SHT_REL, SHT_DYNSYM = 4, 6, 9, 11
SHF_WRITE, SHF_ALLOC = 1, 2
DT_NEEDED, DT_HASH, DT_TEXTREL, DT_VERSYM, DT_VERDEF = 1, 4, 22, 0x6FFFFFF0, 0x6FFFFFFC
DT_GNU_HASH = 0x6FFFFEF5
RELOCATIONS = {7: "DT_RELA", 17: "DT_REL", 23: "DT_JMPREL", DT_TEXTREL: "DT_TEXTREL", 36: "DT_RELR"}
MAX_SIZE = 16 << 10


def string(data, at):
    return data[at : data.index(b"\0", at)].decode()


def headers(data):
    """Program headers and sections as tuples of their fields."""
    phoff, shoff = struct.unpack_from("<QQ", data, 32)
    phnum = struct.unpack_from("<H", data, 56)[0]
    shnum = struct.unpack_from("<H", data, 60)[0]
    phdrs = [struct.unpack_from("<IIQQQQQQ", data, phoff + 56 * i) for i in range(phnum)]
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, shoff + 64 * i) for i in range(shnum)]
    return phdrs, sections


def check_layout(data, phdrs, sections):
    loads = [p for p in phdrs if p[0] == PT_LOAD]
    if len(loads) != 1:
        yield f"{len(loads)} PT_LOAD, not 1"
        return
    _, flags, offset, vaddr, _, filesz, memsz, _ = loads[0]
    if flags != PF_RX or offset or vaddr or filesz != memsz:
        yield (
            f"PT_LOAD is flags {flags}, offset {offset:#x}, address {vaddr:#x},"
            f" {filesz:#x}/{memsz:#x}"
        )
    if len(data) > MAX_SIZE:
        yield f"{len(data)} bytes are too many"
    for _, kind, flags, _, _, size, *_ in sections:
        if kind in (SHT_RELA, SHT_REL) and size:
            yield "it has relocations"
        # .dynamic is marked writable for a linker that would note addresses in it; nobody does
        # here.
        if flags & SHF_ALLOC and flags & SHF_WRITE and kind != SHT_DYNAMIC and size:
            yield "it has writable data"


def check_dynamic(data, sections):
    at = next((s for s in sections if s[1] == SHT_DYNAMIC), None)
    if not at:
        yield "no dynamic section"
        return
    tags = [struct.unpack_from("<qq", data, at[4] + 16 * i) for i in range(at[5] // 16)]
    names = {tag for tag, _ in tags}
    for tag in sorted(names & set(RELOCATIONS)):
        yield f"{RELOCATIONS[tag]} in the dynamic section"
    if DT_NEEDED in names:
        yield "it needs another library"
    for tag, name in (
        (DT_HASH, "hash"),
        (DT_GNU_HASH, "GNU hash"),
        (DT_VERSYM, "version"),
        (DT_VERDEF, "version"),
    ):
        if tag not in names:
            yield f"no {name} table"


def check_symbols(data, sections):
    at = next((s for s in sections if s[1] == SHT_DYNSYM), None)
    if not at:
        yield "no dynamic symbols"
        return
    strings = sections[at[6]][4]
    found = set()
    for i in range(1, at[5] // 24):
        name, _, _, index, _, _ = struct.unpack_from("<IBBHQQ", data, at[4] + 24 * i)
        name = string(data, strings + name)
        if index == 0:
            yield f"{name} is undefined"
        elif name != VERSION:
            found.add(name)
    wanted = WANTED | {f"__vdso_{name}" for name in WANTED}
    for name in sorted(found ^ wanted):
        yield f"{name} is {'exported' if name in found else 'missing'}"
    if VERSION.encode() + b"\0" not in data:
        yield f"no version {VERSION}"


def problems(data):
    if data[:6] != b"\x7fELF\x02\x01":
        return ["it is no 64-bit little-endian ELF file"]
    phdrs, sections = headers(data)
    return [
        *check_layout(data, phdrs, sections),
        *check_dynamic(data, sections),
        *check_symbols(data, sections),
    ]


def main():
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} SHARED_OBJECT")
    found = problems(pathlib.Path(sys.argv[1]).read_bytes())
    for line in found:
        print(f"{sys.argv[1]}: {line}")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
