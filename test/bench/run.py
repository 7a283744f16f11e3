#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""make bench: what things cost, each beside its baseline in the same run.

usage: run.py [--repeat N] [--quick] [--output DIR] [--only NAME,...]
              [--disk-mib N] [--disk-files N]

O names the build directory. Prints tables and writes them, with the raw numbers, to docs/results/:
first-light.md, operations.md, rdma.md, sharing.md, far.md, paging.md, disk.md, sockets.md and
programs.md.
Times are medians of several repetitions on a machine that does other things too: trust the ratios.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "test" / "boot"), str(ROOT / "test")]

import boot  # noqa: E402
import disk as disk_bench  # noqa: E402
import far  # noqa: E402
import inkernel  # noqa: E402
import operations  # noqa: E402
import paging  # noqa: E402
import programs as debian  # noqa: E402
import rdma  # noqa: E402
import sharing  # noqa: E402
import sockets  # noqa: E402
from reference import image as reference_image  # noqa: E402
from reference import packages as reference_packages  # noqa: E402

BOOT_GOAL, RPC_GOAL, MISS_GOAL = 0.25, 1.5, 1.15
NET_MOST_MS = 20
LINUX_LIMIT_S = 60


class Row:
    """One measurement, its baseline, and the ratio that is wanted; what it must be, or the most
    that the value itself must be, only where that is told apart. With @more the ratio is wanted to
    be at least that.
    """

    def __init__(self, name, unit, value, baseline, what, goal=None, raw=None, must=None,
                 most=None, more=False):  # fmt: skip
        self.name, self.unit, self.value, self.baseline = name, unit, value, baseline
        self.what, self.goal, self.raw = what, goal, raw or {}
        self.must, self.most, self.more = must, most, more

    def ratio(self):
        return self.value / self.baseline if self.baseline else None

    def cells(self):
        digits = 1 if self.unit else 2  # a count for each operation, or a ratio
        show = lambda v: "-" if v is None else f"{v:,.{digits}f} {self.unit}".rstrip()  # noqa: E731
        ratio = self.ratio()
        return [
            self.name, show(self.value), show(self.baseline), self.what,
            "-" if ratio is None else f"{ratio:.2f}", _bound(self.goal, ratio, more=self.more),
        ]  # fmt: skip

    def must_cell(self):
        if self.most is not None:
            return _bound(round(self.most, 2), self.value, " each")
        return _bound(self.must, self.ratio(), more=self.more)


def _bound(bound, value, unit: str = "", more: bool = False) -> str:
    if bound is None:
        return "-"
    kept = value is None or (value >= bound if more else value <= bound)
    return f"at {'least' if more else 'most'} {bound}{unit}" + ("" if kept else " (missed)")


def figures(text: bytes) -> list[float]:
    return [float(line) for line in text.split()]


def percentile(values: list[float], p: float) -> float:
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * p))]


def rpc_samples(disk, number: int) -> dict[str, dict[str, int]]:
    """One boot whose p0 measures against m0: p50, p90, p99 in ns of each kind."""
    return inkernel.result(disk, "rpc", 2000, f"bench-rpc{number}")["ns"]


def bench_rpc_and_miss(disk, cluster: boot.Running, programs, repeat: int) -> list[Row]:
    """RPC and bare ping-pong inside p0's kernel, and misses of a program; in turns, as the machine
    may change its pace.
    """
    latency = programs / "glibc-static" / "latency"
    samples, p50, p99, rows = [], [], [], []
    for i in range(repeat):
        samples.append(rpc_samples(disk, i))
        got = figures(cluster.run([latency, "miss", "6000"]).checked())
        p50.append(percentile(got, 0.5) / 1000)
        p99.append(percentile(got, 0.99) / 1000)
    for size, key in (("64 B", "64"), ("4096 B", "4k")):
        rpc = [s[f"rpc_{key}"]["p50"] / 1000 for s in samples]
        bare = [s[f"bare_{key}"]["p50"] / 1000 for s in samples]
        rows.append(Row(f"RPC round trip, {size}", "µs", statistics.median(rpc),
                        statistics.median(bare), "bare WRITE and WRITE back", RPC_GOAL,
                        {"rpc": rpc, "bare": bare}))  # fmt: skip
    return rows + [
        Row("miss, p50", "µs", statistics.median(p50), statistics.median(rpc),
            "RPC round trip, 4096 B", MISS_GOAL,
            {"p50": p50}),
        Row("miss, p99", "µs", statistics.median(p99), None, "", None, {"p99": p99}),
    ]  # fmt: skip


def bench_null(cluster: boot.Running, programs, repeat: int) -> list[Row]:
    latency = programs / "glibc-static" / "latency"
    ours, native = [], []
    for _ in range(repeat):
        ours += figures(cluster.run([latency, "null", "50"]).checked())
        native += figures(boot.on_host([latency, "null", "50"]).checked())
    return [Row("null system call (getppid)", "ns", statistics.median(ours),
                statistics.median(native), "the same program natively, without emulation")]


def bench_launch(programs, repeat: int) -> list[Row]:
    nothing = programs / "glibc-static" / "nothing"
    ours, native = [], []
    for _ in range(repeat):
        start = time.monotonic()
        subprocess.run([ROOT / "tessera", "run", "--no-build", "--build-dir", boot.BUILD, nothing],
                       check=True, stdin=subprocess.DEVNULL)  # fmt: skip
        ours.append((time.monotonic() - start) * 1000)
        start = time.monotonic()
        subprocess.run([nothing], check=True)
        native.append((time.monotonic() - start) * 1000)
    return [Row("launch to exit of a do-nothing program", "ms", statistics.median(ours),
                statistics.median(native), "the same program natively", None,
                {"ours": ours, "native": native})]  # fmt: skip


def linux_boot_ms(kernel, initrd) -> float:
    """From QEMU's start until /init has written its line."""
    command = [
        "qemu-system-x86_64", "-nodefaults", "-no-reboot", "-display", "none", "-accel", "tcg",
        "-cpu", "max,-erms,-fsrm", "-m", "256M", "-M", "pc", "-kernel", kernel, "-initrd", initrd,
        "-append", "console=ttyS0 quiet panic=-1", "-serial", "stdio",
    ]  # fmt: skip
    start = time.monotonic()
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    try:
        for line in child.stdout:
            if b"init reached" in line:
                return (time.monotonic() - start) * 1000
            if time.monotonic() - start > LINUX_LIMIT_S:
                break
    finally:
        child.kill()
        child.wait()
    raise RuntimeError("the Linux guest did not reach /init")


def start_ms(disk, programs, args: tuple[str, ...], name: str) -> float:
    """From the launcher's start of the machines to the program's first instruction."""
    running = boot.Running(args, disk, f"bench-boot-{name}")
    running.up()
    try:
        program, _ = running.start([str(programs / "glibc-static" / "nothing")])
        program.wait(what="start")
        taken = (time.monotonic() - running.cluster.started_at) * 1000
        program.wait(time.monotonic() + 60)
    finally:
        running.close()
    return taken


def bench_boot(disk, programs, repeat: int) -> list[Row]:
    work = boot.BUILD / "bench"
    work.mkdir(parents=True, exist_ok=True)
    kernel, _ = reference_image.build(
        boot.BUILD / "reference" / "packages", boot.BUILD / "reference" / "image"
    )
    init = work / "init"
    subprocess.run(
        ["gcc", "-O2", "-static", "-o", init, ROOT / "test/bench/linux_init.c"], check=True
    )
    initrd = work / "initrd"
    initrd.write_bytes(reference_image.cpio({"init": init.read_bytes(), "dev": None}))
    ours, bare, linux = [], [], []
    for i in range(repeat):
        # In turns, and in turn first: whatever comes second finds the host's caches warmer.
        kinds = [(ours, ()), (bare, ("--net", "none"))]
        for taken, args in kinds[:: 1 - 2 * (i % 2)]:
            taken.append(start_ms(disk, programs, args, f"{i}{'-bare' * bool(args)}"))
        linux.append(linux_boot_ms(kernel, initrd))
    return [Row("three monitors up to the program's start", "ms", statistics.median(ours),
                statistics.median(linux), "a Linux guest's boot to /init", BOOT_GOAL,
                {"ours": ours, "linux": linux}),
            Row("what the network card costs of it", "ms",
                statistics.median(ours) - statistics.median(bare), None, "the same with --net none",
                None, {"none": bare}, most=NET_MOST_MS)]  # fmt: skip


def commit() -> str:
    done = subprocess.run(
        ["git", "-C", ROOT, "describe", "--always", "--dirty"], capture_output=True, text=True
    )
    return done.stdout.strip()


def cpu_model() -> str:
    with open("/proc/cpuinfo") as f:
        found = re.search(r"model name\s*:\s*(.*)", f.read())
    return found[1] if found else platform.processor()


def table(rows: list[Row]) -> list[str]:
    head = ["what", "Tessera", "baseline", "which baseline", "ratio", "goal"]
    body = [row.cells() for row in rows]
    if any(row.must is not None or row.most is not None for row in rows):
        head.insert(-1, "must")
        for row, cells in zip(rows, body, strict=True):
            cells.insert(-1, row.must_cell())
    out = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return out + ["| " + " | ".join(cells) + " |" for cells in body]


class Setting:
    """Where and when this runs: what every page says."""

    def __init__(self):
        self.load, self.commit, self.before = os.getloadavg()[0], commit(), self.ticks()

    @staticmethod
    def ticks() -> list[int]:
        with open("/proc/stat") as f:
            return [int(word) for word in f.readline().split()[1:9]]

    def lines(self) -> list[str]:
        spent = [after - before for before, after in zip(self.before, self.ticks(), strict=True)]
        self.before = self.ticks()
        return [
            (
                f"- machine: {cpu_model()}, {os.cpu_count()} CPUs, load average {self.load:.1f} at"
                " the start"
            ),
            (
                "- time that its hypervisor gave to others meanwhile:"
                f" {100 * spent[7] / max(1, sum(spent)):.0f} %"
            ),
            (
                f"- {platform.system()} {'.'.join(platform.release().split('.')[:2])}; QEMU under"
                " TCG, one CPU a node"
            ),
            f"- commit: {self.commit}",
        ]


def page(title: str, rows: list[Row], missing: list[str], setting: Setting) -> str:
    out = [
        f"# {title}: measurements", "",
        "Written by `make bench`; each row's baseline was taken in the same run.", "",
        *setting.lines(), "", *table(rows), "",
    ]  # fmt: skip
    if missing:
        out += ["Not measured:", "", *[f"- {line}" for line in missing], ""]
    if any(row.raw for row in rows):
        out += ["## Raw numbers", ""]
    for row in rows:
        for name, values in row.raw.items():
            shown = ", ".join(f"{v:.1f}" for v in values)
            unit = "" if name.startswith("number of ") else f" ({row.unit})"
            out.append(f"- {row.name}, {name}{unit}: {shown}")
    return "\n".join(out).rstrip() + "\n"


class Bench:
    """Runs the wanted measurements and keeps what could not be measured."""

    def __init__(self, wanted: list[str]):
        self.wanted = wanted
        self.rows: list[Row] = []
        self.missing: list[str] = []

    def measure(self, name: str, call, part: str = "") -> None:
        if name not in self.wanted:
            return
        try:
            self.rows.extend(call())
        except (OSError, RuntimeError, AssertionError, subprocess.SubprocessError, KeyError,
                reference_packages.PackageError, boot.LaunchError) as err:  # fmt: skip
            self.missing.append(f"{name}{part and ', ' + part}: {err}")


def first_light(bench: Bench, disk, programs, repeat: int) -> None:
    if {"rpc", "null"} & set(bench.wanted):
        running = boot.Running(("--net", "none", "--excache", "8M"), disk, "bench")
        running.up()
        try:
            bench.measure("rpc", lambda: bench_rpc_and_miss(disk, running, programs, repeat))
            bench.measure("null", lambda: bench_null(running, programs, repeat))
        finally:
            running.close()
    bench.measure("launch", lambda: bench_launch(programs, repeat))
    bench.measure("boot", lambda: bench_boot(disk, programs, repeat))


def bench_paging(bench: Bench, disk, programs, repeat: int) -> None:
    for part, call in paging.parts(disk, programs, repeat, rpc_samples, Row):
        bench.measure("paging", call, part)


def bench_sockets(bench: Bench, programs, repeat: int, quick: bool) -> None:
    if "sockets" not in bench.wanted:
        return
    for part, call in sockets.parts(programs, repeat, quick, Row):
        bench.measure("sockets", call, part)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "docs" / "results")
    parser.add_argument(
        "--only", default="",
        help="rpc (with misses), null, launch, boot, operations, rdma, sharing, far, paging, disk,"
             " sockets, programs",
    )
    parser.add_argument("--disk-mib", type=int, default=256, help="the file of disk: its size")
    parser.add_argument("--disk-files", type=int, default=10000, help="of the names of disk")
    parser.add_argument("--quick", action="store_true",
                        help="small sizes (sockets): shows that it works, not how fast it is")
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    every = ["rpc", "null", "launch", "boot", "operations", "rdma", "sharing", "far", "paging",
             "disk", "sockets", "programs"]  # fmt: skip
    wanted = args.only.split(",") if args.only else every
    setting = Setting()
    programs = boot.build_programs()
    disk = boot.make_disk(programs, boot.make_texts())
    status = 0
    for name, title, run in (
        ("first-light", "First light", first_light),
        ("operations", "Processes and threads", lambda b, d, p, n: b.measure(
            "operations", lambda: operations.measure(d, p, n, Row))),
        ("rdma", "RDMA", lambda b, d, p, n: b.measure(
            "rdma", lambda: rdma.measure(d, n, rpc_samples, Row))),
        ("sharing", "Sharing a CPU", lambda b, d, p, n: b.measure(
            "sharing", lambda: sharing.measure(d, p, n, Row))),
        ("far", "Memory far away", lambda b, d, p, n: b.measure(
            "far", lambda: far.measure(ROOT, p, max(3, n), Row, lambda: paging.fabric(d)))),
        ("paging", "Misses", bench_paging),
        ("disk", "Files of a disk", lambda b, d, p, n: b.measure(
            "disk", lambda: disk_bench.measure(p, min(3, n), Row, args.disk_mib,
                                               args.disk_files))),
        ("sockets", "Sockets", lambda b, d, p, n: bench_sockets(b, p, n, args.quick)),
        ("programs", "Programs that people have", lambda b, d, p, n: b.measure(
            "programs", lambda: debian.measure(min(3, n), Row))),
    ):  # fmt: skip
        bench = Bench(wanted)
        run(bench, disk, programs, args.repeat)
        if not bench.rows and not bench.missing:
            continue
        print("\n".join(table(bench.rows)))
        for line in bench.missing:
            print(f"not measured: {line}")
            status = 1
        (args.output / f"{name}.md").write_text(page(title, bench.rows, bench.missing, setting))
    return status


if __name__ == "__main__":
    sys.exit(main())
