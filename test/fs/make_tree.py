# SPDX-License-Identifier: MIT
"""A source tree with every shape of file that the ext4 reader has to know."""

import os
import random
import stat

ODD_SIZES = (0, 1, 59, 60, 61, 100, 150, 160, 1023, 1024, 1025, 4095, 4096, 4097, 65535, 300001)


def _bytes(rng, n):
    return rng.randbytes(n)


def _write(path, data, mtime=None):
    with open(path, "wb") as f:
        f.write(data)
    if mtime is not None:
        os.utime(path, ns=(mtime, mtime))


def _sparse(path, pieces, size):
    with open(path, "wb") as f:
        for off, data in pieces:
            f.seek(off)
            f.write(data)
        f.truncate(size)


def make_tree(root, *, big_dir=0, fragments=0, huge=False, max_link=900):
    """Fill the directory @root; the same arguments always give the same contents."""
    rng = random.Random(20261121)
    j = lambda *p: os.path.join(root, *p)

    os.makedirs(j("sizes"))
    for n in ODD_SIZES:
        _write(j("sizes", f"f{n}"), _bytes(rng, n), mtime=1_000_000_000_000_000_000 + n * 10**9)
    _write(j("sizes", "old"), b"before the epoch", mtime=-86400 * 10**9)
    _write(j("sizes", "late"), b"after 2038", mtime=(2**31 + 12345) * 10**9)

    os.makedirs(j("names", "deep", "a", "b", "c", "d", "e"))
    _write(j("names", "deep", "a", "b", "c", "d", "e", "leaf"), b"leaf\n")
    for name in (
        "a",
        "x" * 255,
        "spaces in it",
        "täglich",
        "\U0001f4be disk",
        "..two",
        "quote\"\\",
    ):
        _write(j("names", name), name.encode())
    _write(os.fsencode(j("names")) + b"/\xff\xfe\x80bytes", b"not UTF-8")

    os.makedirs(j("links"))
    for n in (1, 10, 58, 59, 60, 61, 155, 200, max_link):
        os.symlink("t" * n, j("links", f"l{n}"))
    os.symlink("../sizes/f100", j("links", "relative"))
    os.symlink("/names/deep", j("links", "absolute"))
    os.symlink("loop", j("links", "loop"))
    os.link(j("sizes", "f100"), j("links", "hard"))

    os.makedirs(j("kinds"))
    os.mkfifo(j("kinds", "fifo"))
    _write(j("kinds", "setuid"), b"#!")
    os.chmod(j("kinds", "setuid"), 0o6751)
    os.makedirs(j("kinds", "sticky"))
    os.chmod(j("kinds", "sticky"), 0o1777)
    if os.geteuid() == 0:
        os.mknod(j("kinds", "null"), stat.S_IFCHR | 0o666, os.makedev(1, 3))
        os.mknod(j("kinds", "wide"), stat.S_IFBLK | 0o600, os.makedev(259, 70000))
        os.chown(j("kinds", "setuid"), 100000, 200000)
        os.chmod(j("kinds", "setuid"), 0o6751)

    os.makedirs(j("sparse"))
    _sparse(j("sparse", "hole-first"), [(40960, b"x" * 5000)], 45960)
    _sparse(j("sparse", "hole-last"), [(0, b"y" * 5000)], 1 << 20)
    _sparse(j("sparse", "all-hole"), [], 3_000_000)
    _sparse(
        j("sparse", "islands"), [(k * 100_000, _bytes(rng, 3000)) for k in range(20)], 2_000_000
    )
    if huge:
        far = (5 << 30) + 4097
        _sparse(j("sparse", "over4g"),
                [(0, b"start"), ((1 << 31) - 3, b"across 2 GiB"), ((1 << 32) - 3, b"across 4 GiB"),
                 (far, b"end")], far + 3)
    if fragments:
        block = _bytes(rng, 4096)
        _sparse(j("sparse", "fragments"),
                [(k * 8192, k.to_bytes(4, "little") + block[4:]) for k in range(fragments)],
                fragments * 8192)

    os.makedirs(j("crowd"))
    for k in range(big_dir):
        name = f"entry-{k:05d}-" + "n" * (k % 120)
        if k % 50 == 0:
            _write(j("crowd", name), name.encode())
        elif k % 50 == 1:
            os.symlink(name[:40], j("crowd", name))
        else:
            os.close(os.open(j("crowd", name), os.O_CREAT | os.O_WRONLY, 0o644))
