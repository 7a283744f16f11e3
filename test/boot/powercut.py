# SPDX-License-Identifier: MIT
"""Power cuts: what a disk may hold after one, and what a file system on it must.

QEMU's blklogwrites writes down each write and flush of a disk in the order in which they were
asked for (the format of dm-log-writes). A cut may come behind any of them; of the writes behind
the last flush before it any subset is on the disk, whole or in part (whole sectors).

A model knows for each file what was written to it and when that was asked for and answered, in
numbers of entries of that log. An image is right when the names are as after one of the changes,
no earlier than the last that was promised, and each byte of each file is the one that was
promised, or was written after that.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import random
import re
import shutil
import struct
import subprocess

from boot import BUILD, WORK
from hand import MAGIC, UNIT, Hand, pattern

FLUSH, FUA, DISCARD = 1, 2, 4
SECTOR = 512
BLOCK = 4096  # at most
LOG_MAGIC = 0x6A736677736872
# All that e2fsck -p may say: the log is replayed, files without names go.
ALLOWED = re.compile(
    r"[^:]*: (recovering journal|Clearing orphaned inode \d+ \(.*\)|clean, .*|"
    r"Truncating orphaned inode \d+ \(.*\))"
)


def logging_qemu(where: pathlib.Path, log: pathlib.Path) -> pathlib.Path:
    """QEMU, but disk0 writes down in @log what is written to it."""
    log.write_bytes(b"")
    script = where / "qemu"
    script.write_text(
        f"""#!/bin/bash
for word; do
	if [[ $word == if=none,id=disk0,* ]]; then
		image=${{word##*,file=}}
		word="if=none,id=disk0,driver=blklogwrites,cache=writeback,file.driver=raw"
		word+=",file.file.driver=file,file.file.filename=$image"
		word+=",log.driver=raw,log.file.driver=file,log.file.filename={log}"
	fi
	words+=("$word")
done
exec {shutil.which("qemu-system-x86_64")} "${{words[@]}}"
"""
    )
    script.chmod(0o755)
    return script


@dataclasses.dataclass
class Entry:
    flags: int
    at: int  # bytes
    data: bytes


class WriteLog:
    """The log, also while it grows."""

    def __init__(self, path: pathlib.Path):
        self.entries: list[Entry] = []
        self._file = path.open("rb", buffering=0)  # a buffer would keep what is old
        self._next = SECTOR

    def grow(self) -> int:
        """Read what is new; the number of entries."""
        size = os.fstat(self._file.fileno()).st_size
        while self._next + SECTOR <= size:
            self._file.seek(self._next)
            sector, nr, flags = struct.unpack("<3Q", self._file.read(24))
            length = 0 if flags & DISCARD else nr * SECTOR
            if not (nr or flags) or self._next + SECTOR + length > size:
                break
            self._file.seek(self._next + SECTOR)
            self.entries.append(Entry(flags, sector * SECTOR, self._file.read(length)))
            self._next += SECTOR + length
        return len(self.entries)


class Crashes:
    """Images of one log, for cuts that only go forward."""

    def __init__(self, base: pathlib.Path, log: WriteLog):
        self._now = bytearray(base.read_bytes())
        self._log = log.entries
        self._durable = 0  # entries before this one are in _now

    def image(self, cut: int, rng: random.Random) -> bytes:
        """What the disk may hold when entries before @cut had been asked for."""
        flushes = (i for i in range(cut - 1, self._durable - 1, -1) if self._log[i].flags & FLUSH)
        last = next(flushes, self._durable)
        for entry in self._log[self._durable : last]:
            self._now[entry.at : entry.at + len(entry.data)] = entry.data
        self._durable = last
        image = bytearray(self._now)
        keep, tears = rng.choice((0.0, 0.0, 0.25, 0.5, 0.75, 1.0)), rng.random() < 0.5
        for entry in self._log[last:cut]:
            data = entry.data
            if entry.flags & FUA or rng.random() < keep:
                image[entry.at : entry.at + len(data)] = data
            elif tears and rng.random() < 0.25:
                for at in range(0, len(data), SECTOR):
                    if rng.random() < 0.5:
                        image[entry.at + at : entry.at + at + SECTOR] = data[at : at + SECTOR]
        return bytes(image)


@dataclasses.dataclass
class Event:
    asked: int
    kind: str  # write, cut
    off: int
    size: int  # bytes written, or the new size
    tag: int


class File:
    """A file, whatever its names."""

    def __init__(self):
        self.events: list[Event] = []
        self.promises = [(0, 0)]  # (entries, how many events)
        self.last_name = 0  # number of the last change of names that was about it
        self._contents = {0: b""}

    def size(self) -> int:
        return len(self.contents(len(self.events)))

    def contents(self, nr: int) -> bytes:
        """After that many events."""
        if nr not in self._contents:
            before = bytearray(self.contents(nr - 1))
            e = self.events[nr - 1]
            if e.kind == "cut":
                before = before[: e.size].ljust(e.size, b"\0")
            else:
                before = before.ljust(e.off, b"\0")
                before[e.off : e.off + e.size] = pattern(e.off, e.size, e.tag)
            self._contents[nr] = bytes(before)
        return self._contents[nr]

    def wrong(self, data: bytes, cut: int) -> str | None:
        """Why the file cannot be @data after that cut."""
        nr = max(n for at, n in self.promises if at <= cut)
        tail = [e for e in self.events[nr:] if e.asked <= cut]
        promised = self.contents(nr)
        if data == promised:
            return None
        least = min([len(promised), *(e.size for e in tail if e.kind == "cut")])
        most = max([len(promised),
                    *(e.size if e.kind == "cut" else e.off + e.size for e in tail)])  # fmt: skip
        if not least <= len(data) <= most:
            return f"{len(data)} bytes, not {least} to {most}"
        for at in range(0, len(data), UNIT):
            unit = data[at : at + UNIT]
            if unit != promised[at : at + UNIT] and not self._written(unit, at, nr, tail):
                return (f"at {at} of {len(data)}: {unit.hex()}, promised "
                        f"{promised[at : at + UNIT].hex()}, behind event {nr}, later {tail}")
        return None

    def _written(self, unit: bytes, at: int, nr: int, tail: list[Event]) -> bool:
        word, place = struct.unpack("<2Q", unit.ljust(UNIT, b"\0"))
        if not word and not place:
            # A hole after one of them; or, as on Linux, a size that was set before the bytes below
            # it had been written, or the rest of a block that a truncation cut, and no more yet.
            after = (self.contents(nr + i + 1)[at : at + UNIT] for i in range(len(tail)))
            cuts = [e.size for e in tail if e.kind == "cut"]
            shortest, early = len(self.contents(nr)), False
            for size in cuts:
                early = early or shortest <= at < size
                shortest = min(shortest, size)
            rest = any(size <= at < -(-size // BLOCK) * BLOCK for size in cuts)
            return early or rest or bytes(UNIT) in after
        return word & 0xFFFFFFFF == MAGIC and place == at and any(
            e.kind == "write" and e.tag == word >> 32 and e.off <= at < e.off + e.size
            for e in tail)  # fmt: skip


class Work:
    """Random changes by one hand, and the model of its directory."""

    DIRS = ("a", "b")

    def __init__(self, hand: Hand, log: WriteLog, rng: random.Random, stable: bool):
        self._hand, self._log, self._rng, self._stable = hand, log, rng, stable
        self._tag = rng.randrange(1, 1 << 20) << 8
        self.names: list[tuple[int, dict]] = [(0, {})]  # (asked, path -> File, "dir", or a target)
        self._promised = [(0, 0)]  # (entries, number of the change of names)
        self._held: dict[int, File] = {}
        self._dir_changed = dict.fromkeys(self.DIRS, 0)
        for name in self.DIRS:
            self._rename_names(f"mkdir {name}", {name: "dir"})

    def _do(self, command: str) -> int:
        """The entries before it was asked for."""
        asked = self._log.grow()
        self._hand.must(command)
        return asked

    def _now(self) -> dict:
        return self.names[-1][1]

    def _rename_names(self, command: str, add: dict, gone: tuple = ()) -> None:
        asked = self._do(command)
        before = self._now()
        after = {p: f for p, f in before.items() if p not in gone} | add
        self.names.append((asked, after))
        nr = len(self.names) - 1
        for path in [*add, *gone]:
            for what in (before.get(path), after.get(path)):
                if isinstance(what, File):
                    what.last_name = nr
            if "/" in path:
                self._dir_changed[path.split("/")[0]] = nr
        if self._stable:
            self._promised.append((self._log.grow(), nr))

    def _files(self) -> list[str]:
        return sorted(p for p, what in self._now().items() if isinstance(what, File))

    def _new_name(self) -> str:
        names = (f"{self._rng.choice(self.DIRS)}/f{i}" for i in range(1000))
        return next(n for n in names if n not in self._now())

    def _next_tag(self) -> int:
        self._tag += 1
        return self._tag

    def one(self) -> None:
        rng, files = self._rng, self._files()
        if len(files) < 3:
            return self._rename_names(f"create {(n := self._new_name())}", {n: File()})
        kinds = {"write": 30, "append": 12, "store": 8, "cut": 6, "fsync": 14, "osync": 5,
                 "create": 6, "unlink": 5, "rename": 5, "replace": 6, "link": 3, "symlink": 1,
                 "hold": 3, "drop": 2, "fsyncdir": 3, "sync": 1}  # fmt: skip
        (kind,) = rng.choices(list(kinds), list(kinds.values()))
        return getattr(self, "_" + kind)(rng.choice(files))

    def _event(self, path: str, command: str, kind: str, off: int, size: int, tag: int) -> File:
        asked = self._do(command)
        file = self._now()[path]
        file.events.append(Event(asked, kind, off, size, tag))
        return file

    def _place(self, file: File) -> tuple[int, int]:
        off = UNIT * self._rng.randrange(0, 4000)
        if self._rng.random() < 0.5:
            off = min(off, file.size())
        return off, UNIT * self._rng.choice((1, 7, 32, 256, 300, 1000, 2048))

    def _write(self, path: str) -> None:
        off, size = self._place(self._now()[path])
        tag = self._next_tag()
        self._event(path, f"write {path} {off} {size} {tag}", "write", off, size, tag)

    def _osync(self, path: str) -> None:
        off, size = self._place(self._now()[path])
        tag = self._next_tag()
        file = self._event(path, f"write {path} {off} {size} {tag} sync", "write", off, size, tag)
        # Of data that others have written before it promises nothing.
        if len(file.events) == file.promises[-1][1] + 1:
            self._promise(file)

    def _append(self, path: str) -> None:
        off, size, tag = self._now()[path].size(), 16 * 40, self._next_tag()
        self._event(path, f"append {path} {off} {size} {tag}", "write", off, size, tag)

    def _store(self, path: str) -> None:
        file, tag = self._now()[path], self._next_tag()
        if file.size() < 32:
            return
        off = UNIT * self._rng.randrange(file.size() // UNIT)
        size = min(self._rng.choice((16, 4096, 20000)) // UNIT * UNIT, file.size() - off)
        self._event(path, f"store {path} {off} {size} {tag}", "write", off, size, tag)

    def _cut(self, path: str) -> None:
        size = UNIT * self._rng.randrange(0, 3000)
        self._event(path, f"cut {path} {size}", "cut", 0, size, 0)

    def _promise(self, file: File, name: bool = False) -> None:
        at = self._log.grow()
        file.promises.append((at, len(file.events)))
        if name:
            self._promised.append((at, file.last_name))

    def _fsync(self, path: str) -> None:
        how = self._rng.choice(("fsync", "fdatasync"))
        self._do(f"{how} {path}")
        self._promise(self._now()[path], how == "fsync")

    def _fsyncdir(self, path: str) -> None:
        name = path.split("/")[0]
        self._do(f"fsync {name}")
        self._promised.append((self._log.grow(), self._dir_changed[name]))

    def _sync(self, path: str) -> None:
        self._do("sync")
        at = self._log.grow()
        self._promised.append((at, len(self.names) - 1))
        for file in {id(f): f for f in self._now().values() if isinstance(f, File)}.values():
            file.promises.append((at, len(file.events)))

    def _create(self, path: str) -> None:
        name = self._new_name()
        self._rename_names(f"create {name}", {name: File()})

    def _unlink(self, path: str) -> None:
        self._rename_names(f"unlink {path}", {}, (path,))

    def _rename(self, path: str) -> None:
        name = self._new_name()
        self._rename_names(f"rename {path} {name}", {name: self._now()[path]}, (path,))

    def _replace(self, path: str) -> None:
        """As editors save: all of a new file, fsync, rename over the old one."""
        name, tag = self._new_name(), self._next_tag()
        self._rename_names(f"create {name}", {name: File()})
        self._event(name, f"write {name} 0 9600 {tag}", "write", 0, 9600, tag)
        self._fsync(name)
        self._rename_names(f"rename {name} {path}", {path: self._now()[name]}, (name,))

    def _link(self, path: str) -> None:
        name = self._new_name()
        self._rename_names(f"link {path} {name}", {name: self._now()[path]})

    def _symlink(self, path: str) -> None:
        name = self._new_name()
        self._rename_names(f"symlink ../{path} {name}", {name: f"../{path}"})

    def _hold(self, path: str) -> None:
        slot = next(i for i in range(64) if i not in self._held)
        if slot < 20:
            self._do(f"hold {path} {slot}")
            self._held[slot] = self._now()[path]

    def _drop(self, path: str) -> None:
        if self._held:
            slot = self._rng.choice(sorted(self._held))
            self._do(f"drop {slot}")
            del self._held[slot]

    def wrong(self, found: dict, cut: int) -> str | None:
        """Why what was @found (path -> bytes, "dir" or a target) is not as after one change."""
        least = max(nr for at, nr in self._promised if at <= cut)
        most = max(nr for nr, (asked, _) in enumerate(self.names) if asked <= cut)
        why = ""
        for nr in range(most, least - 1, -1):
            state = self.names[nr][1]
            if set(state) != set(found):
                why += f"{nr}: {sorted(set(state) ^ set(found))}; "
                continue
            bad = next(filter(None, (self._differs(p, state[p], found[p], cut) for p in state)),
                       None)  # fmt: skip
            if not bad:
                return None
            why += f"{nr}: {bad}; "
        return f"changes {least} to {most}: {why[:3000]}"

    @staticmethod
    def _differs(path: str, want, is_there, cut: int) -> str | None:
        if not isinstance(want, File):
            return None if is_there == want else f"{path} is not {want}"
        if not isinstance(is_there, bytes):
            return f"{path} is no file"
        bad = want.wrong(is_there, cut)
        return f"{path}: {bad}" if bad else None


def tree(root: pathlib.Path) -> dict:
    """path -> bytes, "dir", or the target of a link."""
    out = {}
    for base, dirs, names in os.walk(root):
        for name in dirs + names:
            path = pathlib.Path(base, name)
            what = "dir" if path.is_dir() and not path.is_symlink() else (
                os.readlink(path) if path.is_symlink() else path.read_bytes())  # fmt: skip
            out[str(path.relative_to(root))] = what
    return out


def tool(*args) -> str:
    return subprocess.run(list(map(str, args)), capture_output=True, text=True,
                          check=True).stdout  # fmt: skip


def check_image(image: pathlib.Path, works: dict[str, Work], cut: int) -> None:
    """Nothing is wrong with a recovered image, and each work's directory is as it must be."""
    done = subprocess.run(["e2fsck", "-fn", image], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    out = image.with_suffix(".tree")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    tool("debugfs", "-R", f"rdump /work {out}", image)
    for name, work in works.items():
        bad = work.wrong(tree(out / "work" / name), cut)
        assert not bad, f"{name}: {bad}"


def recovered_by_e2fsck(image: pathlib.Path) -> None:
    done = subprocess.run(["e2fsck", "-p", image], capture_output=True, text=True)
    said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    bad = [line for line in said if not ALLOWED.fullmatch(line)]
    assert done.returncode in (0, 1) and not bad, said


def recovered_by_us(image: pathlib.Path) -> None:
    """The kernel's own code on the host."""
    done = subprocess.run([BUILD / "tools/fswork/fswork", image, "mount"], capture_output=True,
                          text=True)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def play(where: pathlib.Path, base: pathlib.Path, log: WriteLog, works: dict[str, Work], nr: int,
         rng: random.Random) -> None:  # fmt: skip
    """Cut the power @nr times: a third anywhere, a third before a flush, when much is under way,
    and a third behind one, when much is promised.
    """
    last = log.grow()
    strong = [i for i, e in enumerate(log.entries) if e.flags & (FLUSH | FUA)]
    cuts = sorted([last, *(rng.randrange(last + 1) if i % 3 == 0 else rng.choice(strong) + i % 3 - 1
                           for i in range(nr - 1))])  # fmt: skip
    crashes = Crashes(base, log)
    for cut in cuts:
        seed = rng.getrandbits(64)
        data = crashes.image(cut, random.Random(seed))
        for name, recover in (("theirs", recovered_by_e2fsck), ("ours", recovered_by_us)):
            image = where / f"{name}.img"
            image.write_bytes(data)
            try:
                recover(image)
                check_image(image, works, cut)
            except AssertionError as err:
                kept = WORK / f"cut-{cut}-{seed}.img"
                kept.write_bytes(data)
                raise AssertionError(f"cut {cut} of {last}, {kept}, {name}: {err}") from None
