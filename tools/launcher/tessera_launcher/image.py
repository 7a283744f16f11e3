# SPDX-License-Identifier: MIT
"""Makes the root file system: an ext4 image by mke2fs -d, from host files at their own paths."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from dataclasses import dataclass, field

from . import elf, packing, treepath
from .errors import LaunchError

BLOCK = 4096
INODE_SIZE = 256
LAYOUT = 4  # raised when images of the same tree come out differently
WRITABLE_ROOM = 2 << 30  # bytes for what programs write
WRITABLE_INODES = 131072
MAX_LINKS = 40
# Directories that programs expect to find.
SKELETON = ("/dev", "/etc", "/proc", "/sys", "/tmp")


@dataclass
class Tree:
    """Guest path -> host file, symbolic link, directory or text, with the host's own symlinks
    kept.
    """

    files: dict[str, str] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    dirs: set[str] = field(default_factory=set)
    texts: dict[str, str] = field(default_factory=dict)  # files that the host does not have

    def add_host_path(self, path: str) -> None:
        """Pack a host file under its own path, and every symbolic link on the way to it."""
        pending = [p for p in os.path.abspath(path).split("/") if p]
        at, hops = "", 0
        while pending:
            here = f"{at}/{pending.pop(0)}"
            st = os.lstat(here)
            if stat.S_ISLNK(st.st_mode):
                hops += 1
                if hops > MAX_LINKS:
                    raise LaunchError(f"{path}: too many symbolic links")
                target = os.readlink(here)
                self.links[here] = target
                base = "" if target.startswith("/") else at
                parts = [p for p in f"{base}/{target}".split("/") if p not in ("", ".")]
                pending, at = _without_dots(parts) + pending, ""
            elif stat.S_ISDIR(st.st_mode):
                self.dirs.add(here)
                at = here
            else:
                self.files[here] = here

    def add_program(self, path: str, library_path: list[str] | None = None,
                    named: bool = True) -> None:  # fmt: skip
        """Pack a program, what it needs, and, of a script, the programs that run it. Not @named: it
        only comes along.
        """
        for program in (path, *packing.interpreters(path)):
            self.add_host_path(program)
            libraries = elf.closure(program, library_path)
            for needed in (*libraries, *packing.loaded_later(program, libraries, named)):
                self.add_host_path(needed)

    def add_dir(self, guest: str) -> None:
        """An empty directory, with those above it, where there are none."""
        at = ""
        for name in guest.strip("/").split("/"):
            at += "/" + name
            self.dirs.add(at)

    def add_volume(self, host: str, guest: str) -> None:
        """Pack a host file or directory under another path."""
        guest = "/" + guest.strip("/")
        if not os.path.isdir(host):
            self._add_as(host, guest)
            return
        self.dirs.add(guest)
        for root, dirs, names in os.walk(host):
            rel = os.path.relpath(root, host)
            base = guest.rstrip("/") if rel == "." else f"{guest.rstrip('/')}/{rel}"
            for name in dirs + names:
                self._add_as(os.path.join(root, name), f"{base}/{name}")

    def _add_as(self, host: str, guest: str) -> None:
        mode = os.lstat(host).st_mode
        if stat.S_ISLNK(mode):
            self.links[guest] = os.readlink(host)
        elif stat.S_ISDIR(mode):
            self.dirs.add(guest)
        elif stat.S_ISREG(mode):
            self.files[guest] = host

    def data_bytes(self) -> int:
        return sum(_blocks(os.stat(h).st_size) for h in self.files.values())

    def stage(self, where: str) -> None:
        """Write the tree under the directory @where."""
        for path in sorted(self.dirs | set(SKELETON)):
            if path not in self.links:
                _make_dir(where, path)
        if not os.path.islink(where + "/tmp"):
            os.chmod(where + "/tmp", 0o1777)
        for path, target in sorted(self.links.items()):
            here = treepath.place(where, path)
            if not os.path.lexists(here):
                os.symlink(target, here)
        for path, host in sorted(self.files.items()):
            here = treepath.place(where, path)
            if os.path.lexists(here):  # of the tree beneath: a link would be followed
                os.unlink(here)
            shutil.copyfile(host, here)
            shutil.copystat(host, here)
        for path, text in sorted(self.texts.items()):
            here = treepath.place(where, path)
            if os.path.lexists(here):
                os.unlink(here)
            with open(here, "x", encoding="utf-8", errors="surrogateescape") as f:
                f.write(text)
            os.chmod(here, 0o644)


def _make_dir(where: str, path: str) -> None:
    """Unless it is there, if only by a link inside the tree."""
    here = treepath.place(where, path)
    if os.path.lexists(here):
        found = treepath.resolve(where, path)
        if found is None or not os.path.isdir(found):
            raise LaunchError(f"{path}: is no directory of the tree")
    else:
        os.mkdir(here)


def _without_dots(parts: list[str]) -> list[str]:
    out: list[str] = []
    for part in parts:
        if part == "..":
            if out:
                out.pop()
        else:
            out.append(part)
    return out


def _blocks(size: int) -> int:
    return (size + BLOCK - 1) // BLOCK * BLOCK


def _measure(where: str) -> tuple[int, int]:
    """Bytes in whole blocks, and the number of inodes, of everything under @where."""
    total = count = 0
    for root, dirs, names in os.walk(where):
        count += len(dirs) + len(names)
        total += BLOCK * (1 + len(dirs) // 32 + len(names) // 32)
        for name in names:
            st = os.lstat(os.path.join(root, name))
            total += _blocks(st.st_size) if stat.S_ISREG(st.st_mode) else BLOCK
    return total, count


def make_image(mke2fs: str, source: str, image: str, run: Callable[[list[str]], str],
               writable: bool = False) -> None:
    """Make the ext4 file system @image from the directory @source, with room for what programs
    write when it is @writable. The room is a hole in the image.
    """
    data, inodes = _measure(source)
    inodes += WRITABLE_INODES if writable else 256
    size = data + data // 50 + inodes * INODE_SIZE + (16 << 20)
    size += WRITABLE_ROOM if writable else 0
    run([
        mke2fs, "-q", "-F", "-t", "ext4", "-b", str(BLOCK), "-m", "0", "-J", "size=4",
        "-N", str(inodes), "-L", "tessera", "-d", source, image, f"{size // 1024}k",
    ])  # fmt: skip
