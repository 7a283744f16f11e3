# SPDX-License-Identifier: MIT
"""Files of a disk: reading, writing with fsync, and names, beside a Linux guest that mounts a copy
of the same image by virtio-blk, with the same options of the disk and room for the whole file.

One program (test/user/diskbench.c) runs in both, a kind of operation at a time; each repetition
begins with new copies of one image. What is read cold is read on a system that has just come up, so
a repetition takes three systems of each, in turns. Beside the times of an operation stand what it
took: requests that the nodes sent to others, disk writes and flushes.
"""

from __future__ import annotations

import dataclasses
import pathlib
import re
import shutil
import statistics
import subprocess
import tempfile

import boot
import linux_guest

PROGRAM_LIMIT_S = 1800.0
NR_SYNCS = 200
MIN_MIB = 32  # diskbench's places of three parts fit in
BASELINE = "Linux, the same image"
COUNTERS = {"p0": "rpc.requests", "m0": "rpc.requests", "writes": "virtio-blk.writes",
            "flushes": "virtio-blk.flushes"}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Kind:
    """One row of times: what to run, and the bounds of our time over Linux's."""

    title: str
    words: str  # of the program
    must: float | None = None
    goal: float | None = None
    node: str = "p0"  # where, in Tessera
    told: tuple[str, ...] = ()  # rows of counts
    shown: bool = True


# The systems of a repetition, one after the other on one image.
WRITES = {
    "write": Kind("write {mib} MiB by 64 KiB, fsync; for 4 KiB", "write {mib}", 2.5, 1.25,
                  told=("p0", "m0", "writes", "flushes")),
    "fsync": Kind("append 4 KiB, fsync", f"fsync {NR_SYNCS}", 2.5, 1.25,
                  told=("p0", "m0", "writes", "flushes")),
    "create": Kind("create, {files} files", "create {files}", 2.5, 1.0, told=("p0",)),
    "stat": Kind("stat", "stat {files}", 2.5, 1.0, told=("p0",)),
    "rename": Kind("rename", "rename {files}", 2.5, 1.0, told=("p0",)),
    "unlink": Kind("unlink", "unlink {files}", 2.5, 1.0, told=("p0",)),
}  # fmt: skip
READS = {
    "cold": Kind("read in sequence by 4 KiB, cold", "read {mib}", 2.0, 1.11, told=("p0", "m0")),
    "warm": Kind("read in sequence by 4 KiB, warm", "read {mib}", 1.11, 0.83, told=("p0",)),
}
PLACES = {
    "random": Kind("read 4 KiB anywhere, cold", "random {mib} 0", told=("p0", "m0")),
    "fill": Kind("", "read {mib}", node="p1", shown=False),
    "near": Kind("read 4 KiB anywhere, where the memory node (Linux: the page cache) has it",
                 "random {mib} 1", told=("p0", "m0")),
    "again": Kind("read the same places again", "random {mib} 1", 1.11, 0.83, told=("p0",)),
}  # fmt: skip


@dataclasses.dataclass
class Done:
    """What a kind of operation took, for one of them; time in µs."""

    us: float
    counts: dict[str, float]


class Bench:
    def __init__(self, programs: pathlib.Path, mib: int, files: int):
        self.program = programs / "glibc-static" / "diskbench"
        self.size = {"mib": max(mib, MIN_MIB), "files": files}

    def make_image(self, where: pathlib.Path) -> pathlib.Path:
        stage, image = where / "stage", where / "disk.img"
        (stage / "bin").mkdir(parents=True)
        (stage / "work").mkdir()
        shutil.copy2(self.program, stage / "bin" / "diskbench")
        subprocess.run(
            [boot.packages.require("mke2fs")[0], "-q", "-F", "-t", "ext4", "-b", "4096",
             "-N", str(2 * self.size["files"] + 1000), "-d", stage, image,
             f"{self.size['mib'] + 256}M"],
            check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        return image

    def _words(self, kind: Kind, top: str) -> list[str]:
        what, *rest = kind.words.format(**self.size).split()
        return [f"{top}/bin/diskbench", what, f"{top}/work", *rest]

    def on_tessera(self, image: pathlib.Path, kinds: dict[str, Kind]) -> dict[str, Done]:
        mib = self.size["mib"]
        args = ["--net", "none", "--disk", str(image), "--excache", f"{2 * mib + 64}M",
                "--memory", f"memory={2 * mib + 512}M"]  # fmt: skip
        if any(kind.node != "p0" for kind in kinds.values()):
            args += ["--processors", "2"]
        running = boot.Running(tuple(args), None, "bench-disk").up()
        done = {}
        try:
            for name, kind in kinds.items():
                before = running.stats()
                ran = running.run(self._words(kind, ""), cwd="/", limit=PROGRAM_LIMIT_S,
                                  node=kind.node)  # fmt: skip
                if ran.status:
                    raise RuntimeError(f"diskbench {kind.words}: {ran.status}: {ran.err[-300:]!r}")
                ns, nr = map(int, ran.out.split())
                after = running.stats()
                done[name] = Done(ns / nr / 1000, {
                    what: boot.delta(before, after, what if what in after else "s0", counter) / nr
                    for what, counter in COUNTERS.items()
                })  # fmt: skip
        finally:
            running.close()
        return done

    def on_linux(self, image: pathlib.Path, kinds: dict[str, Kind]) -> dict[str, Done]:
        ends = "grep ' vda ' /proc/diskstats"
        said = linux_guest.on_linux(
            image,
            "\n".join(f"{ends} && {' '.join(self._words(k, '/mnt'))} || exit 1"
                      for k in kinds.values()) + f"\n{ends}",
            "rw", ram_mib=2 * self.size["mib"] + 512, limit=PROGRAM_LIMIT_S,
        )  # fmt: skip
        times = [line.split() for line in said.splitlines() if re.fullmatch(r"\d+ \d+", line)]
        disk = [line.split() for line in said.splitlines() if " vda " in line]
        if len(times) != len(kinds) or len(disk) != len(kinds) + 1:
            raise RuntimeError(f"the Linux guest: {said[-300:]!r}")
        done = {}
        for i, name in enumerate(kinds):
            ns, nr = map(int, times[i])
            # Fields of the kernel's iostats: writes completed, flushes completed.
            counts = {what: (int(disk[i + 1][at]) - int(disk[i][at])) / nr
                      for what, at in (("writes", 7), ("flushes", 18))}  # fmt: skip
            done[name] = Done(ns / nr / 1000, counts)
        return done


def measure(programs: pathlib.Path, repeat: int, row, mib: int, files: int) -> list:
    """Rows made by row(name, unit, value, baseline, what, goal, raw, must, most)."""
    bench = Bench(programs, mib, files)
    got: dict[str, tuple[list[Done], list[Done]]] = {}
    for _ in range(repeat):
        with tempfile.TemporaryDirectory(prefix="bench-disk-") as name:
            ours = bench.make_image(pathlib.Path(name))
            linux = ours.with_name("linux.img")
            subprocess.run(["cp", "--sparse=always", ours, linux], check=True)
            for kinds in (WRITES, READS, PLACES):
                for i, done in enumerate((bench.on_tessera(ours, kinds),
                                          bench.on_linux(linux, kinds))):  # fmt: skip
                    for kind, value in done.items():
                        got.setdefault(kind, ([], []))[i].append(value)
    rows, counts = [], []
    for name, kind in {**WRITES, **READS, **PLACES}.items():
        if not kind.shown:
            continue
        title = kind.title.format(**bench.size)
        ours, linux = ([done.us for done in side] for side in got[name])
        rows.append(row(title, "µs", statistics.median(ours), statistics.median(linux), BASELINE,
                        kind.goal, {"ours": ours, "linux": linux}, kind.must))  # fmt: skip
        counts += [_count(row, name, title, told, got[name]) for told in kind.told]
    return rows + counts


def _count(row, name: str, title: str, told: str, both: tuple[list[Done], list[Done]]):
    """A row of how many requests or disk operations one operation took."""
    value, baseline = (
        statistics.median(done.counts[told] for done in side) if told in side[0].counts else None
        for side in both
    )
    if told in ("p0", "m0"):
        words, what = f"requests of {told}", ""
        most = {("fsync", "p0"): 3.0, ("near", "p0"): 1.1, ("random", "m0"): 1.1}.get((name, told))
    else:
        words, what = f"disk {told}", BASELINE
        most = baseline + 1 if name == "fsync" else None
    return row(f"{title}: {words}", "", value, baseline, what, most=most)
