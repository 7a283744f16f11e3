# SPDX-License-Identifier: MIT
"""The clusters that `./tessera up` has left: where they are found, by name.

Each has a directory NAME.PID with two files: `lock`, which its keeper (keeper.py) holds as long as
it lives, and `sock`, on which the keeper listens. Whatever way a keeper ends, the kernel lets go
of the lock: a directory whose lock is free is nobody's, and is removed by whoever sees it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import socket
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass

from .errors import LaunchError

CONNECT_S = 10.0


@dataclass(frozen=True)
class Entry:
    """A cluster that is up."""

    name: str
    pid: int  # of its keeper
    path: str

    def connect(self) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(CONNECT_S)
        try:
            with _short_path(self.path) as where:
                sock.connect(f"{where}/sock")
        except OSError as err:
            sock.close()
            raise LaunchError(
                f"cluster {self.name} does not answer: {err.strerror or err}"
            ) from None
        sock.settimeout(None)
        return sock


@dataclass
class Claim:
    """A name that is ours as long as we live."""

    name: str
    path: str
    lock: int  # descriptor

    def listen(self) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX)
        with _short_path(self.path) as where:
            sock.bind(f"{where}/sock")
        sock.listen(64)
        return sock


@contextlib.contextmanager
def _short_path(path: str) -> Iterator[str]:
    """The same directory by a name that fits a socket's address."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{fd}"
    finally:
        os.close(fd)


def base_dir() -> str:
    """Made if need be, and nobody's but ours."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and os.path.isdir(runtime):
        path = os.path.join(runtime, "tessera")
    else:
        path = os.path.join(tempfile.gettempdir(), f"tessera-up-{os.getuid()}")
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        pass
    except OSError as err:
        raise LaunchError(f"{path}: {err.strerror}") from None
    st = os.lstat(path)
    if not stat.S_ISDIR(st.st_mode) or st.st_uid != os.getuid() or st.st_mode & 0o077:
        raise LaunchError(f"{path} is not a directory of ours alone")
    return path


@contextlib.contextmanager
def _all(base: str) -> Iterator[None]:
    """Nobody else makes or removes directories meanwhile."""
    fd = os.open(os.path.join(base, ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _take(path: str, create: bool = False) -> int | None:
    """The lock of a directory, or None: it is held (or there is none any more)."""
    try:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        fd = os.open(os.path.join(path, "lock"), flags, 0o600)
    except OSError:
        return -1
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as err:
        os.close(fd)
        if err.errno != errno.EWOULDBLOCK:
            raise
        return None
    return fd


def _scan(base: str) -> list[Entry]:
    """Those that are up; what is left of others goes. Caller holds _all()."""
    out = []
    for file in sorted(os.listdir(base)):
        name, _, pid = file.rpartition(".")
        path = os.path.join(base, file)
        if not name or not pid.isdigit():
            continue
        fd = _take(path)
        if fd is None:
            out.append(Entry(name, int(pid), path))
            continue
        shutil.rmtree(path, ignore_errors=True)
        if fd >= 0:
            os.close(fd)
    return out


def clusters() -> list[Entry]:
    base = base_dir()
    with _all(base):
        return _scan(base)


def find(name: str | None) -> Entry:
    """The cluster of that name, or the only one."""
    found = [e for e in clusters() if name in (None, e.name)]
    if len(found) == 1:
        return found[0]
    if found:
        raise LaunchError(f"which cluster? --name {' or '.join(e.name for e in found)}")
    raise LaunchError(
        f"no cluster {name} is up" if name else "no cluster is up; ./tessera up starts one"
    )


def claim(name: str) -> Claim:
    base = base_dir()
    with _all(base):
        if any(e.name == name for e in _scan(base)):
            raise LaunchError(f"cluster {name} is up already; ./tessera down --name {name} ends it")
        path = os.path.join(base, f"{name}.{os.getpid()}")
        os.mkdir(path, 0o700)
        return Claim(name, path, _take(path, create=True))
