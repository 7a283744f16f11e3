# SPDX-License-Identifier: MIT
"""Files in and out of ext4 images by e2fsprogs, without root: `cp`, `fsck`, `run --output`.

Trust: the image may be hostile, and so may names and targets of links of the tree it is made of.
debugfs reads a command a line, and has some that run a shell or touch files of the host, so it gets
only commands that are one line, whole (possible()). It believes what directories say (a name with
slashes in it, a symbolic link and a directory of one name), so files come only out of an image in
which e2fsck finds nothing wrong, into a new directory, and from there file by file to their place.
The caller has the image (disk.Held): nobody else writes it meanwhile.
"""

from __future__ import annotations

import os
import posixpath
import re
import stat
import subprocess
import tempfile

from . import packages
from .disk import QCOW2, RAW, Held, Qcow2
from .errors import LaunchError, one_line

_HARMLESS = re.compile(r"debugfs \d|.* while changing ownership of ")
MAX_SMALL = 1 << 20  # bytes of a file that is read whole
MAX_STEPS = 200  # of a path whose links are followed
MAX_COMMAND = 4095  # bytes of a line; debugfs goes on with the rest of a longer one as another
FSCK_MENDED, FSCK_LEFT, FSCK_FAILED = 1, 4, 8  # bits of e2fsck's status


def quoted(name: str) -> str:
    """A word of a debugfs command line; its parser doubles quotes within quotes."""
    return '"' + name.replace('"', '""') + '"'


def possible(command: str) -> bool:
    """Is @command one line to debugfs, whole?"""
    return not re.search(r"[\0\r\n]", command) and len(os.fsencode(command)) <= MAX_COMMAND


def _guest(path: str) -> str:
    return "/" + posixpath.normpath("/" + path).lstrip("/")


class Plain:
    """A raw image that nobody else knows, by its descriptor."""

    def __init__(self, fd: int, name: str):
        self.fd, self.name, self.path = fd, name, name
        self.file = ""  # where it lies, if that is of interest

    def require_ext4(self) -> str:
        return RAW


class Files:
    """The files of an image; close() it, or use it as a context."""

    def __init__(self, held: Held | Plain):
        self._held = held
        self._copy: tempfile._TemporaryFileWrapper | None = None
        self._fd = held.fd
        self._qcow2 = held.require_ext4() == QCOW2
        if self._qcow2:
            self._copy = tempfile.TemporaryFile(prefix="tessera-")
            self._fd = self._copy.fileno()
            _to_raw(Qcow2(held.fd, held.name), self._fd)

    def __enter__(self) -> Files:
        return self

    def __exit__(self, *_: object) -> None:
        if self._copy:
            self._copy.close()

    def _run(self, program: str, *args: str, lines: str = "") -> subprocess.CompletedProcess:
        image = f"/proc/self/fd/{self._fd}"
        return subprocess.run(
            [packages.require(program)[0], *args, image], input=os.fsencode(lines),
            capture_output=True, pass_fds=[self._fd],
            env={**os.environ, "LC_ALL": "C"},
        )  # fmt: skip

    def check(self, *args: str) -> tuple[int, str]:
        """e2fsck's status and words."""
        done = self._run("e2fsck", "-f", *args)
        text = (done.stdout + done.stderr).decode(errors="replace")
        return done.returncode, text.replace(f"/proc/self/fd/{self._fd}", self._held.path)

    def require_clean(self, replay: bool = False) -> None:
        """LaunchError when e2fsck finds anything wrong; @replay: after the journal was replayed."""
        if replay:
            self._run("e2fsck", "-p")
        if self.check("-n")[0]:
            raise LaunchError(f"{self._held.name} is not clean: see ./tessera fsck")

    def _debugfs(self, *commands: str, write: bool = False) -> str:
        """What debugfs says; LaunchError with its first complaint, or for no possible() command."""
        for command in commands:
            if not possible(command):
                raise LaunchError(f"{self._held.name}: {one_line(command)[:60]}...: names with "
                                  "line breaks, or so long, are not for debugfs")  # fmt: skip
        if len(commands) == 1:
            done = self._run("debugfs", *(["-w"] if write else []), "-R", commands[0])
        else:
            done = self._run("debugfs", *(["-w"] if write else []), "-f", "-",
                             lines="".join(f"{c}\n" for c in commands))  # fmt: skip
        for line in done.stderr.decode(errors="replace").splitlines():
            if line.strip() and not _HARMLESS.match(line):
                raise LaunchError(f"{self._held.name}: {one_line(line)}")
        return done.stdout.decode(errors="replace")

    def kind(self, path: str) -> str | None:
        """"regular", "directory", "symlink" ..., or None: there is no such file."""
        try:
            found = re.search(r"\bType: (\w+)", self._stat(path))
        except LaunchError as err:
            if "File not found" in str(err):
                return None
            raise
        return found[1] if found else "unknown"

    def resolve(self, path: str) -> str | None:
        """Where @path leads in the image, links followed as if it were /; None: to nothing, or to
        no place that can be found.
        """
        pending, at = path.split("/"), []
        known: dict[str, tuple[str | None, str | None]] = {}  # kind, and target of a link
        for _ in range(MAX_STEPS):
            pending = [p for p in pending if p not in ("", ".")]
            if not pending:
                return "/" + "/".join(at)
            part = pending.pop(0)
            if part == "..":
                at = at[:-1]
                continue
            here = "/".join(["", *at, part])
            try:
                if here not in known:
                    kind = self.kind(here)
                    known[here] = kind, (self.take(here) or {}).get("link") if (
                        kind == "symlink") else None  # fmt: skip
            except LaunchError:  # below a file, or no name that debugfs can be asked for
                return None
            kind, target = known[here]
            if kind is None or (kind == "symlink" and target is None):
                return None
            if target is not None:
                at = [] if target.startswith("/") else at
                pending = target.split("/") + pending
            else:
                at.append(part)
        return None

    def _stat(self, path: str) -> str:
        return self._debugfs(f"stat {quoted(_guest(path))}")

    def read(self, path: str) -> str:
        """The text of a small file; "" if there is none. LaunchError if it is not small."""
        path = _guest(path)
        if self.kind(path) not in ("regular", "symlink"):
            return ""
        if not _small(self._stat(path)):
            raise LaunchError(f"{self._held.name}:{one_line(path)} is larger than "
                              f"{MAX_SMALL >> 20} MiB")  # fmt: skip
        return self._debugfs(f"cat {quoted(path)}")

    def copy_out(self, path: str, target: str) -> None:
        """A file, link or directory of the image, as @target; what is there is overwritten, file by
        file. Owners, devices, FIFOs and sockets stay behind, and so do set-id bits.
        """
        path, target = _guest(path), os.path.abspath(target)
        if self.kind(path) not in ("regular", "directory", "symlink"):
            what = "no such file" if self.kind(path) is None else "not a file or directory"
            raise LaunchError(f"{self._held.name}:{one_line(path)}: {what}")
        try:
            with tempfile.TemporaryDirectory(prefix=".tessera-", dir=os.path.dirname(target)) as d:
                self._debugfs(f"rdump {quoted(path)} {quoted(d)}")
                merge(os.path.join(d, posixpath.basename(path)), target)
        except OSError as err:
            where = one_line(err.filename2 or err.filename or target)
            raise LaunchError(f"{where}: {err.strerror}") from None

    def copy_in(self, source: str, path: str) -> None:
        """A host's file becomes the file @path (or one in the directory @path) of the image."""
        if self._qcow2:
            raise LaunchError(f"{self._held.name}: only raw images are written (qemu-img convert)")
        path = _guest(path)
        if self.kind(path) == "directory":
            path = posixpath.join(path, os.path.basename(source))
        where, name = posixpath.split(path)
        there = self.kind(path)
        if self.kind(where) != "directory" or there not in (None, "regular", "symlink"):
            raise LaunchError(f"{self._held.name}:{one_line(path)} cannot be a file")
        if len(os.fsencode(name)) > 255:
            raise LaunchError(f"{self._held.name}: {one_line(name)[:40]}...: name too long")
        st = os.stat(source)
        self._write(os.path.abspath(source), path, there is not None, stat.S_IMODE(st.st_mode),
                    (st.st_uid, st.st_gid))  # fmt: skip

    def _write(self, source: str, target: str, there: bool, mode: int,
               owner: tuple[int, int]) -> None:  # fmt: skip
        """The old file goes when the new one is complete."""
        where, name = posixpath.split(target)
        made = f".tessera-{os.urandom(8).hex()}" if there else name
        new, path = quoted(posixpath.join(where, made)), quoted(posixpath.join(where, name))
        try:
            self._debugfs(f"cd {quoted(where)}", f"write {quoted(source)} {quoted(made)}",
                          write=True)  # fmt: skip
        except LaunchError:
            if self.kind(posixpath.join(where, made)):
                self._debugfs(f"rm {new}", write=True)
            raise
        if there:
            self._debugfs(f"rm {path}", f"ln {new} {path}", f"unlink {new}", write=True)
        self._debugfs(f"sif {path} mode 0{stat.S_IFREG | mode:o}", f"sif {path} uid {owner[0]}",
                      f"sif {path} gid {owner[1]}", write=True)  # fmt: skip

    # Single files of a raw image, whose names are ours and plain.

    def take(self, path: str) -> dict | None:
        """A file or link: "data" and "mode", or "link"; and "owner". None: it is not small, or a
        link that put_link() cannot make.
        """
        said = self._stat(path)
        if not _small(said):
            return None
        found = re.search(r"User:\s*(\d+)\s+Group:\s*(\d+)", said)
        out: dict = {"owner": [int(found[1]), int(found[2])] if found else [0, 0]}
        with tempfile.TemporaryDirectory(prefix="tessera-") as where:
            self._debugfs(f"rdump {quoted(path)} {quoted(where)}")
            made = os.path.join(where, posixpath.basename(path))
            if os.path.islink(made):
                target = os.readlink(made)
                return out | {"link": target} if possible(_symlink(path, target)) else None
            out["mode"] = stat.S_IMODE(os.stat(made).st_mode)
            os.chmod(made, 0o600)
            with open(made, "rb") as f:
                return out | {"data": f.read()}

    def put(self, path: str, data: bytes, mode: int, owner: tuple[int, int]) -> None:
        """A file of these bytes, in place of a file or link."""
        with tempfile.NamedTemporaryFile(prefix="tessera-") as f:
            f.write(data)
            f.flush()
            self._write(f.name, path, self.kind(path) is not None, mode, owner)

    def put_link(self, path: str, target: str, owner: tuple[int, int]) -> None:
        """A link, in place of a file or link, unless take() does not give such ones."""
        if possible(_symlink(path, target)):
            self.remove(path)
        self._debugfs(_symlink(path, target),
                      f"sif {quoted(path)} uid {owner[0]}", f"sif {quoted(path)} gid {owner[1]}",
                      write=True)  # fmt: skip

    def remove(self, path: str) -> None:
        """Unless there is nothing."""
        if self.kind(path):
            self._debugfs(f"rm {quoted(path)}", write=True)

    def make_directory(self, path: str) -> None:
        self._debugfs(f"mkdir {quoted(path)}", f"sif {quoted(path)} mode 040755", write=True)


def _small(said: str) -> bool:
    """By what debugfs says of a file: is it one to be read whole?"""
    found = re.search(r"\bSize: (\d+)", said)
    return found is not None and int(found[1]) <= MAX_SMALL


def _symlink(path: str, target: str) -> str:
    return f"symlink {quoted(path)} {quoted(target)}"


def _to_raw(source: Qcow2, fd: int) -> None:
    os.ftruncate(fd, source.size)
    for i in range(-(-source.size // source.cluster)):
        data = source.read_cluster(i)
        if data:
            os.pwrite(fd, data[: source.size - i * source.cluster], i * source.cluster)


def merge(made: str, target: str) -> None:
    """Move @made to @target. A directory there keeps what @made does not have; a link there is
    replaced, never followed.
    """
    st = os.lstat(made)
    os.lchown(made, os.getuid(), os.getgid())
    if not stat.S_ISDIR(st.st_mode):
        if not stat.S_ISLNK(st.st_mode):
            os.chmod(made, st.st_mode & 0o777)
        os.replace(made, target)
        return
    os.chmod(made, 0o700)
    try:
        os.mkdir(target, 0o700)
        new = True
    except FileExistsError:
        new = False
        if not stat.S_ISDIR(os.lstat(target).st_mode):
            raise
    for name in sorted(os.listdir(made)):
        merge(os.path.join(made, name), os.path.join(target, name))
    if new:
        os.chmod(target, st.st_mode & 0o777)


# ./tessera fsck, ./tessera cp


def fsck(path: str, repair: bool) -> int:
    """e2fsck's words on stdout; 0: nothing is wrong (any more), 1: something is."""
    with Held(path, writable=repair, against_qemu=True) as held:
        if repair and held.format() == QCOW2:
            raise LaunchError(f"{held.name}: only raw images are repaired (qemu-img convert)")
        with Files(held) as files:
            status, text = files.check("-y" if repair else "-n")
    print(text, end="")
    if status & ~(FSCK_MENDED | 2 | FSCK_LEFT):
        raise LaunchError(f"e2fsck could not check {held.name} (status {status})")
    return 1 if status & FSCK_LEFT else 0


def _side(text: str) -> tuple[str, str] | None:
    """IMAGE:PATH; a name with a slash before its colon's path is a file of the host."""
    image, sep, path = text.partition(":/")
    return (image, "/" + path) if sep and image else None


def copy(source: str, target: str) -> int:
    """One of both is IMAGE:/PATH."""
    out, into = _side(source), _side(target)
    if (out is None) == (into is None):
        raise LaunchError("cp: one side, and only one, is IMAGE:/PATH")
    image = (out or into)[0]
    if into and not os.path.isfile(source):
        raise LaunchError(f"cp: {one_line(source)} is not a regular file")
    with Held(image, writable=bool(into), against_qemu=True) as held, Files(held) as files:
        files.require_clean()
        if into:
            files.copy_in(source, into[1])
            return 0
        if os.path.isdir(target) and files.kind(out[1]) != "directory":
            target = os.path.join(target, posixpath.basename(out[1]))
        files.copy_out(out[1], target)
    return 0
