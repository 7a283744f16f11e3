# SPDX-License-Identifier: MIT
"""Disk images of the user: what they are, whether they can be used, and by one user at a time.

Locking: QEMU locks an image by bytes of it (from QEMU_LOCKS on: what it does, then what it lets
nobody else do). The launcher asks for these locks before it starts anything, and holds a byte of
its own from then to its end, so that two launchers exclude each other before their QEMUs exist.
All of them are locks of open file descriptions: they go with the process, however it ends.
Trust: an image may be hostile. Every offset in it is checked against the file, and a qcow2 image
that refers to other files is refused: QEMU would read them with the rights of the user.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import struct
import zlib
from dataclasses import dataclass

from .errors import LaunchError, one_line

RAW, QCOW2 = "raw", "qcow2"
QEMU_LOCKS, QEMU_LOCK_BYTES = 100, 200  # of QEMU's file driver, two groups of 64 bits in it
QEMU_WRITES = QEMU_LOCKS + 1  # held by whoever writes
OUR_LOCK = 1 << 40  # far behind QEMU's
SUPERBLOCK, EXT4_MAGIC_AT, EXT4_MAGIC = 1024, 56, 0xEF53
MBR_SIZE, MBR_TYPES, GPT_TYPE = 512, 450, 0xEE  # the type of the first of four entries
_FLOCK = struct.Struct("hhqqi4x")  # struct flock on x86-64
_LARGEST_TABLE = 32 << 20  # QEMU's own limit for the first table of a qcow2 image


@dataclass(frozen=True)
class Disk:
    """What a storage node's drive is made of."""

    path: str
    format: str = RAW
    writable: bool = False
    driver: str = "virtio"


def _is_protective(mbr: bytes) -> bool:
    """Does the first block of a disk say that there is a GPT?"""
    types = mbr[MBR_TYPES : MBR_TYPES + 64 : 16]
    return len(mbr) == MBR_SIZE and mbr[-2:] == b"\x55\xaa" and GPT_TYPE in types


def _ofd(fd: int, command: int, kind: int, start: int, length: int) -> int:
    """A lock operation on bytes of an image; the kind of lock that it answers."""
    answer = fcntl.fcntl(fd, command, _FLOCK.pack(kind, os.SEEK_SET, start, length, 0))
    return _FLOCK.unpack(answer)[0]


class Held:
    """An image that is open and ours until close(), or until the process ends.

    With @writable nobody else has it in any way, else nobody else writes it. With @against_qemu
    QEMU cannot open it either: for work on the image itself. LaunchError, one line, when that
    cannot be.
    """

    def __init__(self, path: str, writable: bool, against_qemu: bool = False):
        self.path = path
        self.name = one_line(path)
        flags = (os.O_RDWR if writable else os.O_RDONLY) | os.O_CLOEXEC | os.O_NONBLOCK
        try:
            self.fd = os.open(path, flags)
        except OSError as err:
            if err.errno in (errno.EACCES, errno.EPERM, errno.EROFS) and writable:
                raise LaunchError(f"{self.name} cannot be written: {err.strerror}") from None
            raise LaunchError(f"{self.name}: {err.strerror}") from None
        try:
            if not stat.S_ISREG(os.fstat(self.fd).st_mode):
                raise LaunchError(f"{self.name} is not a regular file")
            self._lock(writable, against_qemu)
        except BaseException:
            self.close()
            raise

    def _lock(self, writable: bool, against_qemu: bool) -> None:
        ours = fcntl.F_WRLCK if writable else fcntl.F_RDLCK
        theirs = (QEMU_LOCKS, QEMU_LOCK_BYTES) if writable else (QEMU_WRITES, 1)
        try:
            _ofd(self.fd, fcntl.F_OFD_SETLK, ours, OUR_LOCK, 1)
            if against_qemu:
                _ofd(self.fd, fcntl.F_OFD_SETLK, fcntl.F_RDLCK, QEMU_LOCKS, QEMU_LOCK_BYTES)
            held = _ofd(self.fd, fcntl.F_OFD_GETLK, fcntl.F_WRLCK, *theirs) != fcntl.F_UNLCK
        except OSError as err:
            if err.errno not in (errno.EAGAIN, errno.EACCES):
                raise LaunchError(f"{self.name} cannot be locked: {err.strerror}") from None
            held = True
        if held:
            raise LaunchError(f"{self.name} is in use: by another cluster, QEMU or command")

    def close(self) -> None:
        os.close(self.fd)

    def __enter__(self) -> Held:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def format(self) -> str:
        return QCOW2 if os.pread(self.fd, 4, 0) == Qcow2.MAGIC else RAW

    def require_ext4(self, partitions: bool = False) -> str:
        """The image's format, if it has a file system that a storage node can mount, or (with
        @partitions) a table of partitions, among which the node then looks for one.
        """
        kind = self.format()
        read = Qcow2(self.fd, self.name).read if kind == QCOW2 else self._read
        magic = read(SUPERBLOCK + EXT4_MAGIC_AT, 2)
        if partitions and _is_protective(read(0, MBR_SIZE)):
            return kind
        if len(magic) != 2 or int.from_bytes(magic, "little") != EXT4_MAGIC:
            raise LaunchError(f"{self.name} is not an image of an ext4 file system")
        return kind

    def _read(self, at: int, size: int) -> bytes:
        return os.pread(self.fd, size, at)


class Qcow2:
    """Reads a qcow2 image, versions 2 and 3, that stands alone."""

    MAGIC = b"QFI\xfb"
    _HEADER = struct.Struct(">4sIQIIQIIQQIIQ")
    _DIRTY = 1  # its reference counts are old: of no concern to a reader
    _ZERO, _COMPRESSED, _OFFSET = 1, 1 << 62, 0x00FFFFFFFFFFFE00

    def __init__(self, fd: int, name: str, over: bool = False):
        """@over: a layer of ours over another image. read_cluster() answers None for what is not
        in it, and zeroes for what has become zeroes.
        """
        self._fd, self._name, self._over = fd, name, over
        self._tables: dict[int, tuple[int, ...]] = {}
        header = os.pread(fd, 104, 0)
        if len(header) < self._HEADER.size:
            raise self._damaged()
        (magic, version, backing, _, self._bits, self.size, crypt, entries, table,
         *_) = self._HEADER.unpack_from(header)  # fmt: skip
        if magic != self.MAGIC or version not in (2, 3):
            raise LaunchError(f"{name} is not a qcow2 image of version 2 or 3")
        if (backing and not over) or crypt:
            raise LaunchError(f"{name} needs {'another image' if backing else 'a password'}: "
                              "a qcow2 image has to stand alone")  # fmt: skip
        features = int.from_bytes(header[72:80], "big") if version == 3 else 0
        if features & ~self._DIRTY:
            raise LaunchError(f"{name} has qcow2 features that are not read: {features:#x}")
        if not 9 <= self._bits <= 21 or 8 * entries > _LARGEST_TABLE:
            raise self._damaged()
        self.cluster = 1 << self._bits
        if entries * (self.cluster // 8) * self.cluster < self.size:
            raise self._damaged()
        self._top = self._table(table, entries)

    def _damaged(self) -> LaunchError:
        return LaunchError(f"{self._name} is a damaged qcow2 image")

    def _table(self, at: int, entries: int) -> tuple[int, ...]:
        data = os.pread(self._fd, 8 * entries, at) if at < 1 << 62 else b""
        if len(data) != 8 * entries:
            raise self._damaged()
        return struct.unpack(f">{entries}Q", data)

    def _entry(self, index: int) -> int:
        """The descriptor of the cluster with that number in the guest's disk."""
        per_table = self.cluster // 8
        at = self._top[index // per_table] & self._OFFSET
        if not at:
            return 0
        if at not in self._tables:
            if len(self._tables) > 64:
                self._tables.clear()
            self._tables[at] = self._table(at, per_table)
        return self._tables[at][index % per_table]

    def read_cluster(self, index: int) -> bytes | None:
        """A cluster's contents, or None: zeroes."""
        entry = self._entry(index)
        if self._over and entry & self._ZERO:
            return bytes(self.cluster)
        if entry & self._COMPRESSED:
            return self._compressed(entry & (self._COMPRESSED - 1))
        at = entry & self._OFFSET
        if entry & self._ZERO or not at:
            return None
        data = os.pread(self._fd, self.cluster, at)
        if not data:
            raise self._damaged()
        return data.ljust(self.cluster, b"\0")  # the last one may end with the file

    def _compressed(self, entry: int) -> bytes:
        bits = 62 - (self._bits - 8)
        at, sectors = entry & ((1 << bits) - 1), entry >> bits
        data = os.pread(self._fd, (sectors + 1) * 512 - at % 512, at)
        try:
            out = zlib.decompressobj(-12).decompress(data, self.cluster)
        except zlib.error:
            raise self._damaged() from None
        if len(out) != self.cluster:
            raise self._damaged()
        return out

    def read(self, at: int, size: int) -> bytes:
        """Bytes of the guest's disk, fewer at its end."""
        out, end = b"", min(at + size, self.size)
        while at < end:
            begin = at % self.cluster
            data = self.read_cluster(at // self.cluster) or bytes(self.cluster)
            part = data[begin : begin + end - at]
            out, at = out + part, at + len(part)
        return out
