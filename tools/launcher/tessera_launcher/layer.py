# SPDX-License-Identifier: MIT
"""The private writable layer of a cluster: a qcow2 image over a read-only base.

The layer is made empty: a header, a table of reference counts for the clusters that the header
itself takes, and a first table of zeroes, so that QEMU reads everything from the base. The base is
never opened for writing. whole() puts both together into one raw image, when machines have ended.
"""

from __future__ import annotations

import errno
import os
import struct

from .disk import Qcow2
from .errors import LaunchError, one_line

BITS = 16
CLUSTER = 1 << BITS
_HEADER = struct.Struct(">4sIQIIQIIQQIIQQQQII")
_BACKING_FORMAT = 0xE2792ACA  # a header extension
_COPY_CHUNK = 4 << 20


def create(path: str, base: str) -> None:
    """An empty layer at @path over the raw image @base."""
    size = os.stat(base).st_size
    name = os.fsencode(os.path.abspath(base))
    if len(name) > 1023:
        raise LaunchError(f"{one_line(base)[:60]}...: the name is too long for a qcow2 image")
    entries = -(-size // (CLUSTER * (CLUSTER // 8)))
    table_clusters = max(1, -(-8 * entries // CLUSTER))
    extension = struct.pack(">II", _BACKING_FORMAT, 3) + b"raw".ljust(8, b"\0") + bytes(8)
    name_at = _HEADER.size + len(extension)
    header = _HEADER.pack(
        Qcow2.MAGIC, 3, name_at, len(name), BITS, size, 0, entries, 3 * CLUSTER, CLUSTER, 1, 0, 0,
        0, 0, 0, 4, _HEADER.size,
    )  # fmt: skip
    used = 3 + table_clusters  # header, table and block of reference counts, first table
    if used > CLUSTER // 2:
        raise LaunchError(f"{one_line(base)} is too large for a layer")
    with open(path, "xb") as f:
        f.write(header + extension + name)
        f.seek(CLUSTER)
        f.write(struct.pack(">Q", 2 * CLUSTER))
        f.seek(2 * CLUSTER)
        f.write(struct.pack(f">{used}H", *([1] * used)))
        f.truncate(used * CLUSTER)


def whole(layer: int, base: int, target: int) -> None:
    """What the cluster has seen at its end, as a raw image in the empty file @target (sparse). All
    are descriptors; @base alone, if there is no @layer (-1).
    """
    size = os.fstat(base).st_size
    os.ftruncate(target, size)
    _copy_sparse(base, target, size)
    if layer < 0:
        return
    above = Qcow2(layer, "the layer", over=True)
    if above.size != size:
        raise LaunchError("the layer does not belong to its base")
    for index in range(-(-size // above.cluster)):
        data = above.read_cluster(index)
        if data is not None:
            at = index * above.cluster
            write_all(target, data[: size - at], at)


def write_all(fd: int, data: bytes, at: int) -> None:
    view = memoryview(data)
    while view:
        done = os.pwrite(fd, view, at)
        view, at = view[done:], at + done


def _copy_sparse(source: int, target: int, size: int) -> None:
    """The data of @source at their places; holes stay holes."""
    at = 0
    while at < size:
        try:
            at = os.lseek(source, at, os.SEEK_DATA)
        except OSError as err:
            if err.errno == errno.ENXIO:
                return  # a hole to the end
            raise
        end = os.lseek(source, at, os.SEEK_HOLE)
        while at < end:
            data = os.pread(source, min(_COPY_CHUNK, end - at), at)
            if not data:
                return
            write_all(target, data, at)
            at += len(data)
