# SPDX-License-Identifier: MIT
"""Tables that a kernel has in its image: pointers between two symbols, each to a structure.

Boot parameters (bootparams.py) and counters (counters.py) are kept so; arch/x86/kernel.lds.S has
the symbols. A file that is no such image, or has been stripped, raises one of NO_TABLE.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator

_EHDR = struct.Struct("<16sHHIQQQIHHHHHH")
_SHDR = struct.Struct("<IIQQQQIIQQ")
_SYM = struct.Struct("<IBBHQQ")
SHT_SYMTAB, SHT_NOBITS = 2, 8
SHF_ALLOC = 2
MAX_TABLE = 1 << 26
MAX_TEXT = 1 << 10


class NoTable(Exception):
    """The file is no kernel image with such a table."""


NO_TABLE = (OSError, NoTable, struct.error)


class Image:
    """The loaded sections of an ELF file by address, and its symbols; use as a context manager."""

    def __init__(self, path: str):
        self._file = open(path, "rb")  # noqa: SIM115
        try:
            self._size = os.fstat(self._file.fileno()).st_size
            head = _EHDR.unpack(self._at(0, _EHDR.size))
            if head[0][:6] != b"\x7fELF\x02\x01" or head[11] != _SHDR.size:
                raise NoTable
            raw = self._at(head[6], head[11] * head[12])
            self._sections = list(_SHDR.iter_unpack(raw))
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Image:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def records(self, first: str, last: str, size: int) -> Iterator[bytes]:
        """The structures to which the pointers from symbol @first to symbol @last lead."""
        start, end = self._symbols(first, last)
        if not 0 <= end - start <= MAX_TABLE:
            raise NoTable
        pointers = self._memory(start, end - start) if end > start else b""
        for (where,) in struct.iter_unpack("<Q", pointers):
            yield self._memory(where, size)

    def text(self, addr: int) -> str:
        return self._memory(addr, MAX_TEXT).partition(b"\0")[0].decode("utf-8", "replace")

    def _at(self, offset: int, size: int) -> bytes:
        if size > MAX_TABLE or offset + size > self._size:
            raise NoTable
        self._file.seek(offset)
        return self._file.read(size)

    def _symbols(self, *names: str) -> list[int]:
        table = next((s for s in self._sections if s[1] == SHT_SYMTAB), None)
        if table is None or table[6] >= len(self._sections):
            raise NoTable
        strings = self._at(*self._sections[table[6]][4:6])
        wanted = {strings.find(b"\0%s\0" % n.encode()) + 1: n for n in names}
        found = {wanted[s[0]]: s[4] for s in _SYM.iter_unpack(self._at(*table[4:6]))
                 if s[0] in wanted}  # fmt: skip
        if 0 in wanted or len(found) != len(names):
            raise NoTable
        return [found[n] for n in names]

    def _memory(self, addr: int, size: int) -> bytes:
        for s in self._sections:
            if s[2] & SHF_ALLOC and s[1] != SHT_NOBITS and s[3] <= addr < s[3] + s[5]:
                return self._at(s[4] + addr - s[3], min(size, s[3] + s[5] - addr))
        raise NoTable
