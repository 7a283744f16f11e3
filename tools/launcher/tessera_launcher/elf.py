# SPDX-License-Identifier: MIT
"""What a host program needs to run elsewhere: its ELF interpreter and shared libraries.

Follows the loaders' own search rules: glibc's (RPATH, RUNPATH, ld.so.cache, Debian's multiarch
directories) and musl's (the path file or its default). A file that is not a readable x86-64 ELF
needs nothing: it is packed as it is, and the kernel says what it thinks of it.
"""

from __future__ import annotations

import functools
import os
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from .errors import LaunchError

PT_LOAD, PT_DYNAMIC, PT_INTERP = 1, 2, 3
DT_NULL, DT_NEEDED, DT_STRTAB, DT_STRSZ, DT_RPATH, DT_RUNPATH = 0, 1, 5, 10, 15, 29
EM_X86_64 = 62
MAX_TABLE = 1 << 24

_EHDR = struct.Struct("<16sHHIQQQIHHHHHH")
_PHDR = struct.Struct("<IIQQQQQQ")
_DYN = struct.Struct("<qQ")

GLIBC_DIRS = ("/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64",
              "/lib", "/usr/lib")  # fmt: skip
LD_SO_CACHE = "/etc/ld.so.cache"
MUSL_PATH_FILE = "/etc/ld-musl-x86_64.path"
MUSL_DIRS = ("/lib", "/usr/local/lib", "/usr/lib")
# musl's loader is its C library, under all of these names.
MUSL_SELF = ("libc.", "libpthread.", "librt.", "libm.", "libdl.", "libutil.", "libxnet.")


class NotElf(Exception):
    """The file is not a well-formed 64-bit x86 ELF."""


@dataclass
class Image:
    """The parts of an ELF file that matter to its loader."""

    path: str
    interp: str | None = None
    needed: list[str] = field(default_factory=list)
    rpath: list[str] = field(default_factory=list)
    runpath: list[str] = field(default_factory=list)
    strings: bytes = b""  # the names of its symbols, among others


def _read_at(f, offset: int, size: int) -> bytes:
    if size > MAX_TABLE:
        raise NotElf("a table of unbelievable size")
    if offset + size > os.fstat(f.fileno()).st_size:
        raise NotElf("truncated")
    f.seek(offset)
    return f.read(size)


def _string(table: bytes, offset: int) -> str:
    end = table.find(b"\0", offset)
    if offset >= len(table) or end < 0:
        raise NotElf("a string outside its table")
    return os.fsdecode(table[offset:end])


def read(path: str) -> Image:
    """Read headers and the dynamic section; NotElf if they make no sense. Programs share libraries,
    so what was read is remembered until the file changes; callers leave it as it is.
    """
    st = os.stat(path)
    found = _read(path, st.st_dev, st.st_ino, st.st_size, st.st_mtime_ns, st.st_ctime_ns)
    if isinstance(found, NotElf):
        raise NotElf(*found.args)
    return found


@functools.lru_cache(maxsize=1024)
def _read(path: str, *_stamp: int) -> Image | NotElf:
    try:
        return _read_now(path)
    except NotElf as err:
        return err


def _read_now(path: str) -> Image:
    image = Image(path)
    try:
        with open(path, "rb") as f:
            phdrs = _program_headers(f)
            for kind, _, offset, _, _, filesz, _, _ in phdrs:
                if kind == PT_INTERP:
                    image.interp = _string(_read_at(f, offset, filesz), 0)
            _read_dynamic(f, phdrs, image)
    except (struct.error, OverflowError, ValueError) as err:
        raise NotElf(str(err)) from None
    return image


def _program_headers(f) -> list[tuple]:
    raw = f.read(_EHDR.size)
    if len(raw) < _EHDR.size:
        raise NotElf("shorter than an ELF header")
    ident, _, machine, _, _, phoff, _, _, _, phentsize, phnum, _, _, _ = _EHDR.unpack(raw)
    if ident[:6] != b"\x7fELF\x02\x01" or machine != EM_X86_64 or phentsize != _PHDR.size:
        raise NotElf("not a 64-bit x86 ELF")
    return list(_PHDR.iter_unpack(_read_at(f, phoff, phnum * phentsize)))


def _read_dynamic(f, phdrs: list[tuple], image: Image) -> None:
    dynamic = [p for p in phdrs if p[0] == PT_DYNAMIC]
    if not dynamic:
        return
    raw = _read_at(f, dynamic[0][2], dynamic[0][5] // _DYN.size * _DYN.size)
    tags: list[tuple[int, int]] = []
    for tag, value in _DYN.iter_unpack(raw):
        if tag == DT_NULL:
            break
        tags.append((tag, value))
    values = dict(tags)
    if DT_STRTAB not in values or DT_STRSZ not in values:
        return
    offset = _file_offset(phdrs, values[DT_STRTAB])
    strings = image.strings = _read_at(f, offset, values[DT_STRSZ])
    origin = os.path.dirname(os.path.abspath(image.path))
    image.needed = [_string(strings, v) for t, v in tags if t == DT_NEEDED]
    for tag, out in ((DT_RPATH, image.rpath), (DT_RUNPATH, image.runpath)):
        if tag in values:
            out += _expand(_string(strings, values[tag]), origin)


def _file_offset(phdrs: list[tuple], vaddr: int) -> int:
    for kind, _, offset, start, _, filesz, _, _ in phdrs:
        if kind == PT_LOAD and start <= vaddr < start + filesz:
            return offset + vaddr - start
    raise NotElf("a dynamic address outside every segment")


def _expand(path: str, origin: str) -> list[str]:
    out = []
    for part in path.split(":"):
        for token, value in (("ORIGIN", origin), ("LIB", "lib/x86_64-linux-gnu"),
                             ("PLATFORM", "x86_64")):  # fmt: skip
            part = part.replace("${%s}" % token, value).replace("$" + token, value)
        if part:
            out.append(part)
    return out


# Searching.


@dataclass
class Closure:
    """All files that a program needs beside itself, in the order found."""

    files: list[str] = field(default_factory=list)

    def add(self, path: str) -> bool:
        if path in self.files:
            return False
        self.files.append(path)
        return True


def read_ld_so_cache(data: bytes) -> dict[str, str]:
    """Name -> path of /etc/ld.so.cache, for plain x86-64 entries (no hardware capability)."""
    start = data.find(b"glibc-ld.so.cache1.1")
    if start < 0 or len(data) < start + 48:
        return {}
    count = struct.unpack_from("<I", data, start + 20)[0]
    out: dict[str, str] = {}
    for i in range(count):
        at = start + 48 + i * 24
        if at + 24 > len(data):
            break
        flags, key, value, _, hwcap = struct.unpack_from("<iIIIQ", data, at)
        if flags != 0x0303 or hwcap:
            continue
        try:
            out.setdefault(_string(data[start:], key), _string(data[start:], value))
        except NotElf:
            break
    return out


_parsed_cache = functools.lru_cache(maxsize=2)(read_ld_so_cache)


def _read_file(path: str) -> bytes:
    try:
        with open(path, "rb") as f:
            return f.read()
    except OSError:
        return b""


def is_musl(interp: str) -> bool:
    return os.path.basename(interp).startswith("ld-musl-")


class Finder:
    """Finds libraries as one kind of loader does."""

    def __init__(self, interp: str, library_path: list[str]):
        self.musl = is_musl(interp)
        self.library_path = library_path
        self.extra: list[str] = []  # loader files that the program's loader will want too
        self._cache: dict[str, str] | None = None

    def find(self, name: str, chain: list[Image]) -> str | None:
        if "/" in name:
            return name if os.path.exists(name) else None
        for directory in self._listed_dirs(chain):
            path = os.path.join(directory, name)
            if self._fits(path):
                return path
        return self._find_musl(name) if self.musl else self._find_glibc(name)

    def _listed_dirs(self, chain: list[Image]) -> Iterator[str]:
        """RPATH of the object and of those that loaded it, the environment, RUNPATH."""
        if not chain[-1].runpath:
            for image in reversed(chain):
                if self.musl or not image.runpath:
                    yield from image.rpath
        yield from self.library_path
        yield from chain[-1].runpath
        if self.musl:
            for image in reversed(chain[:-1]):
                yield from image.runpath

    def _find_glibc(self, name: str) -> str | None:
        if self._cache is None:
            self._cache = _parsed_cache(_read_file(LD_SO_CACHE))
        path = self._cache.get(name)
        if path and self._fits(path):
            if os.path.dirname(path) not in GLIBC_DIRS and LD_SO_CACHE not in self.extra:
                self.extra.append(LD_SO_CACHE)
            return path
        return self._first(GLIBC_DIRS, name)

    def _find_musl(self, name: str) -> str | None:
        listed = _read_file(MUSL_PATH_FILE)
        if not listed:
            return self._first(MUSL_DIRS, name)
        if MUSL_PATH_FILE not in self.extra:
            self.extra.append(MUSL_PATH_FILE)
        return self._first(os.fsdecode(listed).replace("\n", ":").split(":"), name)

    def _first(self, dirs: tuple[str, ...] | list[str], name: str) -> str | None:
        for directory in dirs:
            path = os.path.join(directory, name)
            if directory and self._fits(path):
                return path
        return None

    @staticmethod
    def _fits(path: str) -> bool:
        try:
            read(path)
        except (NotElf, OSError):
            return False
        return True


def closure(program: str, library_path: list[str] | None = None,
            exists: Callable[[str], bool] = os.path.exists) -> list[str]:  # fmt: skip
    """The interpreter, libraries and loader files that @program needs; [] for anything static."""
    try:
        image = read(program)
    except NotElf:
        return []
    if not image.interp:
        return []
    if not exists(image.interp):
        raise LaunchError(f"{program}: its interpreter {image.interp} is missing on this host")
    out = Closure()
    out.add(image.interp)
    finder = Finder(image.interp, library_path or [])
    pending: list[list[Image]] = [[image]]
    while pending:
        chain = pending.pop(0)
        for name in chain[-1].needed:
            if finder.musl and name.startswith(MUSL_SELF):
                continue
            if name == os.path.basename(image.interp):
                continue
            path = finder.find(name, chain)
            if path is None:
                raise LaunchError(f"{chain[-1].path}: its library {name} is missing on this host")
            if out.add(path):
                pending.append([*chain, read(path)])
    return out.files + finder.extra
