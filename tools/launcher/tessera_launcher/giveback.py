# SPDX-License-Identifier: MIT
"""`run --rw HOST:GUEST`: a directory of the host, whose changes in the cluster come back.

The directory is copied into the root file system, as --volume does it. When the programs have
ended, what they made, changed or removed there is made, changed and removed on the host. What has
changed on the host meanwhile is left as it is, and named.
"""

from __future__ import annotations

import filecmp
import os
import stat
import tempfile

from .errors import LaunchError, one_line
from .ext4files import Files, merge

# Tells whether a file has changed: kind and mode, size, time, inode.
_Look = tuple[int, int, int, int]


def _look(path: str) -> _Look | None:
    try:
        st = os.lstat(path)
    except OSError:
        return None
    directory = stat.S_ISDIR(st.st_mode)  # whose size and time its entries change
    return (st.st_mode, 0 if directory else st.st_size, 0 if directory else st.st_mtime_ns,
            st.st_ino)  # fmt: skip


def _below(root: str) -> list[str]:
    """All names, those of a directory behind its own."""
    out = []
    for where, dirs, names in os.walk(root):
        out += [os.path.relpath(os.path.join(where, n), root) for n in (*dirs, *names)]
    return out


class Shared:
    """One --rw: the host's directory as it was at the start."""

    def __init__(self, host: str, guest: str):
        self.host, self.guest = host, guest
        self._before = {name: _look(os.path.join(host, name)) for name in _below(host)}

    def bring_back(self, files: Files) -> None:
        """LaunchError, when all is done that can be, names the first file that is in the way."""
        where = os.path.dirname(self.host)
        kept: list[str] = []
        try:
            with tempfile.TemporaryDirectory(prefix=".tessera-", dir=where) as made:
                target = os.path.join(made, "tree")
                if files.kind(self.guest) != "directory":
                    raise LaunchError(f"{one_line(self.guest)} is no directory any more")
                files.copy_out(self.guest, target)
                there = _below(target)
                for name in there:
                    self._put(target, name, kept)
                self._remove(set(there), kept)
        except OSError as err:
            name = one_line(str(err.filename2 or err.filename or self.host))
            raise LaunchError(f"{name}: {err.strerror}") from None
        if kept:
            more = f" and {len(kept) - 1} more" if len(kept) > 1 else ""
            raise LaunchError(f"{one_line(kept[0])}{more}: changed on the host meanwhile, and left")

    def _put(self, made: str, name: str, kept: list[str]) -> None:
        new, old = os.path.join(made, name), os.path.join(self.host, name)
        if not os.path.lexists(new) or _same(new, old):
            return  # brought along with its directory, or as it was
        if os.path.isdir(new) and not os.path.islink(new) and _is_dir(old):
            os.chmod(old, os.stat(new).st_mode & 0o777)
            return
        if not self._as_it_was(name):
            if not self._untouched(new, name):
                kept.append(old)
            return
        if _is_dir(old):
            self._remove_below(name, kept)
            if _is_dir(old):
                kept.append(old)
                return
        merge(new, old)

    def _as_it_was(self, name: str) -> bool:
        return self._before.get(name) == _look(os.path.join(self.host, name))

    def _untouched(self, new: str, name: str) -> bool:
        """Is that the file that the cluster was given? (debugfs brings whole seconds out.)"""
        before, st = self._before.get(name), os.lstat(new)
        return before is not None and before[1:3] == (st.st_size, before[2]) and (
            int(st.st_mtime) == before[2] // 10**9
        )

    def _remove(self, there: set[str], kept: list[str]) -> None:
        for name in sorted(self._before, reverse=True):  # what is in a directory before it
            if name not in there:
                self._remove_one(name, kept)

    def _remove_below(self, name: str, kept: list[str]) -> None:
        for other in sorted(self._before, reverse=True):
            if other == name or other.startswith(name + "/"):
                self._remove_one(other, kept)

    def _remove_one(self, name: str, kept: list[str]) -> None:
        path = os.path.join(self.host, name)
        if not os.path.lexists(path):
            return
        if stat.S_IFMT(os.lstat(path).st_mode) not in (stat.S_IFREG, stat.S_IFLNK, stat.S_IFDIR):
            return  # it was not given to the cluster either
        if not self._as_it_was(name):
            kept.append(path)
        elif _is_dir(path):
            if os.listdir(path):
                kept.append(path)
            else:
                os.rmdir(path)
        else:
            os.unlink(path)


def _is_dir(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)


def _same(new: str, old: str) -> bool:
    try:
        a, b = os.lstat(new), os.lstat(old)
    except OSError:
        return False
    if stat.S_IFMT(a.st_mode) != stat.S_IFMT(b.st_mode):
        return False
    if stat.S_ISLNK(a.st_mode):
        return os.readlink(new) == os.readlink(old)
    if not stat.S_ISREG(a.st_mode) or a.st_mode & 0o777 != b.st_mode & 0o777:
        return False
    return filecmp.cmp(new, old, shallow=False)
