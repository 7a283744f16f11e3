# SPDX-License-Identifier: MIT
"""Root file systems that are kept: made once for a tree or an image, used read-only by any number
of clusters at a time.

They lie in $TESSERA_CACHE, else $XDG_CACHE_HOME/tessera, else ~/.cache/tessera; each is a directory
images/KEY with root.img and about.json. The key is made from all that the image was made from, so
an entry never changes.

Locking: `lock` is held while names come and go; whoever makes an entry holds KEY.making, so that
the others wait for it; whoever uses one holds a shared lock of its root.img until its process ends,
however that happens. Entries in use are never removed.
Failure: an entry is made in tmp-PID-RANDOM, whose lock its maker holds, and gets its name when it
is complete and on the disk. What a killed maker leaves has no lock, and goes when the next one
looks. Where nothing can be kept, LaunchError says so, and the caller makes its image elsewhere.
Limits: entries together take up to $TESSERA_CACHE_SIZE (8G); those not used for the longest time
go first.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from .errors import LaunchError, UsageError
from .options import parse_size

DEFAULT_SIZE = 8 << 30
IMAGE, ABOUT = "root.img", "about.json"
_KEY = re.compile(r"[0-9a-f]{64}")


@dataclass
class Entry:
    """An image that is ours to read until close(), or until the process ends."""

    key: str
    path: str  # of the image
    about: dict = field(default_factory=dict)
    fd: int = -1

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def base_dir() -> str:
    own = os.environ.get("TESSERA_CACHE")
    if own:
        return os.path.abspath(own)
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(home, "tessera")


def _limit() -> int:
    text = os.environ.get("TESSERA_CACHE_SIZE")
    try:
        return parse_size(text) if text else DEFAULT_SIZE
    except UsageError as err:
        raise UsageError(f"TESSERA_CACHE_SIZE: {err}") from None


class Cache:
    def __init__(self) -> None:
        self.limit = _limit()
        self.path = os.path.join(base_dir(), "images")
        try:
            os.makedirs(self.path, mode=0o700, exist_ok=True)
            st = os.stat(self.path)
        except OSError as err:
            raise LaunchError(f"{self.path}: {err.strerror}") from None
        if st.st_uid != os.getuid() or st.st_mode & 0o022:
            raise LaunchError(f"{self.path} is not a directory that only we can change")

    @contextlib.contextmanager
    def _all(self) -> Iterator[None]:
        """Nobody else adds, takes or removes entries meanwhile."""
        fd = os.open(os.path.join(self.path, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    # Taking.

    def find(self, key: str) -> Entry | None:
        """The entry, if there is one: held from here on."""
        with self._all():
            return self._take(key)

    def _take(self, key: str) -> Entry | None:
        where = os.path.join(self.path, key)
        try:
            fd = os.open(os.path.join(where, IMAGE), os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        fcntl.flock(fd, fcntl.LOCK_SH)
        about = _about(where)
        if about is None:
            os.close(fd)
            return None
        os.utime(where)
        return Entry(key, os.path.join(where, IMAGE), about, fd)

    def get(self, key: str, make: Callable[[str], dict | None]) -> Entry | None:
        """The entry, made by make(path of a new image) if need be, which tells what to remember of
        it; None: the image is not to be kept, and is not there either.
        """
        found = self.find(key)
        if found:
            return found
        with self._making(key):
            found = self.find(key)  # another one has made it meanwhile
            if found:
                return found
            with self._new_dir() as where:
                about = make(os.path.join(where, IMAGE))
                if about is None:
                    return None
                return self._add(key, where, about)

    @contextlib.contextmanager
    def _making(self, key: str) -> Iterator[None]:
        """One process at a time makes an entry."""
        path = os.path.join(self.path, f"{key}.making")
        while True:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(fd, fcntl.LOCK_EX)
            with contextlib.suppress(FileNotFoundError):
                if os.stat(path).st_ino == os.fstat(fd).st_ino:
                    break
            os.close(fd)  # the one before us has removed it
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                os.unlink(path)
            os.close(fd)

    @contextlib.contextmanager
    def _new_dir(self) -> Iterator[str]:
        where = os.path.join(self.path, f"tmp-{os.getpid()}-{os.urandom(4).hex()}")
        with self._all():
            self._sweep()
            os.mkdir(where, 0o700)
            lock = os.open(where, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield where
        finally:
            shutil.rmtree(where, ignore_errors=True)  # unless it has its name by now
            os.close(lock)

    def _add(self, key: str, where: str, about: dict) -> Entry:
        image = os.path.join(where, IMAGE)
        os.chmod(image, 0o400)
        with open(os.path.join(where, ABOUT), "w") as f:
            json.dump({"made": time.time(), **about}, f)
            f.flush()
            os.fsync(f.fileno())
        with open(image, "rb") as f:
            os.fsync(f.fileno())
        with self._all():
            shutil.rmtree(os.path.join(self.path, key), ignore_errors=True)  # a broken one
            os.rename(where, os.path.join(self.path, key))
            entry = self._take(key)
            if entry is None:
                raise LaunchError(f"{self.path}: the image that was made cannot be read")
            self._shrink()
        return entry

    # Removing.

    def _sweep(self) -> None:
        """What killed makers have left. Caller holds _all()."""
        for name in os.listdir(self.path):
            where = os.path.join(self.path, name)
            if not name.startswith("tmp-") and not name.endswith(".making"):
                continue
            fd = _lock_now(where)
            if fd is None:
                continue
            if name.startswith("tmp-"):
                shutil.rmtree(where, ignore_errors=True)
            else:
                os.unlink(where)
            os.close(fd)

    def _shrink(self) -> None:
        """Down to the limit, as far as entries are not in use. Caller holds _all()."""
        entries = self._entries()
        total = sum(e["bytes"] for e in entries)
        for e in sorted(entries, key=lambda e: e["used"]):
            if total <= self.limit:
                return
            if self._remove(e["key"]):
                total -= e["bytes"]

    def _remove(self, key: str) -> bool:
        where = os.path.join(self.path, key)
        fd = _lock_now(os.path.join(where, IMAGE))
        if fd is None:
            return False
        shutil.rmtree(where, ignore_errors=True)
        os.close(fd)
        return True

    def _entries(self) -> list[dict]:
        out = []
        for name in sorted(os.listdir(self.path)):
            where = os.path.join(self.path, name)
            if not _KEY.fullmatch(name):
                continue
            with contextlib.suppress(OSError):
                st = os.stat(os.path.join(where, IMAGE))
                about = _about(where) or {}
                out.append({**about, "key": name, "bytes": st.st_blocks * 512,
                            "used": os.stat(where).st_mtime})  # fmt: skip
        return out

    # For people.

    def entries(self) -> list[dict]:
        with self._all():
            return self._entries()

    def remove(self, keys: list[str]) -> list[str]:
        """Those that are in use stay, and are returned."""
        with self._all():
            self._sweep()
            return [key for key in keys if not self._remove(key)]


def _about(where: str) -> dict | None:
    try:
        with open(os.path.join(where, ABOUT)) as f:
            about = json.load(f)
    except (OSError, ValueError):
        return None
    return about if isinstance(about, dict) else None


def _lock_now(path: str) -> int | None:
    """A descriptor that holds the file's lock alone; None: somebody else has it."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        return None
    return fd


# The key of a tree.

TICK_NS, COARSE_TICK_NS = 20_000_000, 2_000_000_000
LOOKS = 5


def tree_key(sources: list[tuple[str, str]], more: str) -> str:
    """A name for what trees of the host, each at a place of the guest, hold now. It is made from
    names, kinds, owners, modes, sizes, inode numbers and the times of change of all files, as git's
    index is: a file whose bytes have changed has another time of change, unless both changes are
    within one tick of the file system's clock. So we look only when the last change is a tick ago.
    A tree that never rests that long gets a name that nothing else has.
    """
    for _ in range(LOOKS):
        begun = time.time_ns()
        key, rest_ns = _tree_key(sources, more, begun)
        if rest_ns <= 0:
            return key
        time.sleep(rest_ns / 1e9)
    return os.urandom(32).hex()


def _tree_key(sources: list[tuple[str, str]], more: str, now: int) -> tuple[str, int]:
    """The key, and for how long the tree has to rest before a key of it means something."""
    import hashlib

    key = hashlib.sha256(f"{more}\0".encode())
    rest_ns = 0
    for root, guest in sources:
        key.update(os.fsencode(f"{guest}\0{os.path.abspath(root)}\0"))
        for path, st in _walk(root):
            what = (st.st_mode, st.st_uid, st.st_gid, st.st_size, st.st_ino, st.st_dev,
                    st.st_mtime_ns, st.st_ctime_ns, st.st_rdev)  # fmt: skip
            key.update(os.fsencode(os.path.relpath(path, root)) + repr(what).encode() + b"\0")
            # Whole seconds: most likely the file system's clock has no finer ones.
            tick = TICK_NS if st.st_ctime_ns % 1_000_000_000 else COARSE_TICK_NS
            if st.st_ctime_ns <= now:  # a time to come is of a clock that was set back: no guide
                rest_ns = max(rest_ns, st.st_ctime_ns + tick - now)
            elif st.st_ctime_ns - now < tick:
                rest_ns = max(rest_ns, tick)  # it changed while we looked
    return key.hexdigest(), rest_ns


def _walk(root: str) -> Iterator[tuple[str, os.stat_result]]:
    yield root, os.lstat(root)
    for where, dirs, names in os.walk(root):
        dirs.sort()
        for name in sorted([*dirs, *names]):
            path = os.path.join(where, name)
            yield path, os.lstat(path)
