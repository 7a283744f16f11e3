# SPDX-License-Identifier: MIT
"""What a miss costs beside what the fabric can do: one bare READ, pages streamed, 1 ms of delay,
and memory components whose ports are slow.

The program is test/user/latency.c: it accesses pages of a heap of four times the cache, in random
order, or reads them with several threads. Hits are among its figures; the misses are the longest of
them, as many as the processor has counted less those of a run that only prepares the heap.
"""

from __future__ import annotations

import json
import re
import statistics

import boot
import inkernel

CACHE_MIB, PAGES = 8, 8192
READS = 2000
STREAM_ROUNDS = 4000
MISS_MUST, MISS_GOAL = 4.0, 2.0
TAIL_MUST, TAIL_GOAL = 3.0, 2.0
FLIGHT = 8
DELAY_PAGES = 4096
SCAN_MIB, SCAN_SHARE = 32, 0.25
PORT_KIB_S = 50 * 1024


def percentile(values: list[float], p: float) -> float:
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * p))]


def bare_read_ns(running: boot.Running) -> float:
    """p50 of bench.reads, which a cluster that was started with it logs once."""

    def logged():
        return re.search(r'\{"bench":"reads","what":"read".*\}', running.log("p0"))

    boot.wait_for(logged, inkernel.LIMIT_S)
    return float(json.loads(logged()[0])["ns"]["p50"])


def stream_ns(disk, number: int = 0) -> float:
    """For each page, with 64 fetches in flight."""
    got = inkernel.result(disk, "fetches", STREAM_ROUNDS, f"bench-stream{number}",
                          ("--append", "rpc.slots.demand=64"))  # fmt: skip
    return got["depth"]["64"]["ns"] / STREAM_ROUNDS


def fabric(disk) -> tuple[float, float]:
    """Seconds of one bare READ of 4 KiB, and for each page of a stream."""
    running = up(disk, "bench-bare", "--append", f"p0:bench.reads={inkernel.TARGET},{READS}",
                 "--append", "m0:bench.serve=1")  # fmt: skip
    try:
        bare = bare_read_ns(running)
    finally:
        running.close()
    return bare / 1e9, stream_ns(disk) / 1e9


def up(disk, name: str, *args: str) -> boot.Running:
    running = boot.Running(("--net", "none", "--excache", f"{CACHE_MIB}M", *args), disk, name)
    running.up()
    return running


def accesses(running: boot.Running, program, how: str) -> list[float]:
    """Nanoseconds of the misses among the accesses of one run."""

    def fetched(what: str) -> tuple[str, float]:
        before = running.stats()
        out = running.run([program, what, str(PAGES)]).checked()
        return out, boot.delta(before, running.stats(), "p0", "excache.fetches")

    prepared = fetched("heap")[1]
    out, misses = fetched(how)
    figures = sorted(float(line) for line in out.split())
    # Both halves of the accesses miss alike; the second one is timed.
    nr = max(1, min(len(figures), int((misses - prepared) / 2)))
    return figures[-nr:]


def miss_rows(disk, program, repeat: int, exchange_ns, row) -> list:
    """Times of misses; exchange_ns(i) is a bare exchange of 4 KiB there and back."""
    bare, got = [], {"clean": [], "half": [], "dirty": []}
    for i in range(repeat):
        running = up(disk, f"bench-miss{i}", "--append",
                     f"p0:bench.reads={inkernel.TARGET},{READS}",
                     "--append", "m0:bench.serve=1")  # fmt: skip
        try:
            bare.append(min(bare_read_ns(running), exchange_ns(i) / 2))
            for how, runs in got.items():
                runs.append(accesses(running, program, how))
        finally:
            running.close()
    base = statistics.median(bare) / 1000
    rows = []
    for how, runs in got.items():
        p50, p90, p99 = (
            [percentile(run, p) / 1000 for run in runs] for p in (0.5, 0.9, 0.99)
        )
        victims = {"clean": "none", "half": "half", "dirty": "each"}[how]
        raw = {"p50": p50, "p90": p90, "p99": p99}
        if how != "half":
            rows.append(row(f"miss, p50, {victims} of the victims dirty", "µs",
                            statistics.median(p50), base, "one bare READ, or half an exchange",
                            MISS_GOAL, raw, must=MISS_MUST))  # fmt: skip
        else:
            rows.append(row("miss, p90, half of the victims dirty", "µs", statistics.median(p90),
                            statistics.median(p50), "its p50", TAIL_GOAL, raw,
                            must=TAIL_MUST))  # fmt: skip
    return rows


def flight(disk, program, threads: int, name: str, *args: str) -> float:
    """Nanoseconds for each page with 1 ms more on each way."""
    running = up(disk, name, "--append", "p0:prefetch=off", *args)
    try:
        running.cluster.inject("delay all 1")
        got = running.run([program, "flight", str(threads), str(DELAY_PAGES)], limit=300)
        return float(got.checked())
    finally:
        running.cluster.inject("delay off")
        running.close()


def delay_rows(disk, program, repeat: int, row) -> list:
    one, eight, four = [], [], []
    for _ in range(repeat):
        one.append(flight(disk, program, 1, "bench-flight1"))
        eight.append(flight(disk, program, FLIGHT, f"bench-flight{FLIGHT}"))
        four.append(flight(disk, program, 4, "bench-flight4", "--cpus", "processor=2"))
    what = "pages a second, beside one thread on one CPU"
    base = statistics.median(one)
    return [
        row(f"1 ms of delay, {FLIGHT} misses in flight", "", base / statistics.median(eight), 1.0,
            what, 7.0, {"ns a page": eight, "ns a page, one": one}, must=6.0, more=True),
        row("1 ms of delay, 4 threads on 2 CPUs", "", base / statistics.median(four), 1.0, what,
            3.6, {"ns a page": four}, must=3.0, more=True),
    ]  # fmt: skip


def scan_s(
    disk, programs, name: str, memories: int = 1, limited: bool = False
) -> tuple[float, float]:
    """Seconds of a warm read in sequence, without what made its pages, a quarter of them in the
    cache, and how many pages came.
    """
    argv = [programs / "glibc-static" / "beside", "alone", "scan", str(SCAN_MIB)]
    excache = f"{int(SCAN_MIB * SCAN_SHARE)}M"
    running = boot.Running(("--net", "none", "--excache", excache, "--memories", str(memories),
                            "--vregion", "2M"), disk, name)  # fmt: skip
    running.up()
    try:
        running.run(argv)
        if limited:
            for node in running.cluster.plan.nodes:
                if node.name.startswith("m"):
                    running.cluster.inject(f"bandwidth {node.lid} {PORT_KIB_S}")
        before = running.stats()
        took = float(running.run(argv).checked().split()[0]) / 1e9
        after = running.stats()
        pages = sum(boot.delta(before, after, "p0", c)
                    for c in ("excache.fetches", "prefetch.used", "prefetch.late"))  # fmt: skip
        return took, pages
    finally:
        running.close()


def scan_rows(disk, programs, repeat: int, row) -> list:
    """How near a scan comes to the fabric, and what a second memory component brings."""
    streams, page_ns, one, two = [], [], [], []
    for i in range(repeat):  # in turns, as the machine may change its pace
        streams.append(stream_ns(disk, i))
        seconds, nr = scan_s(disk, programs, f"bench-scan{i}")
        page_ns.append(seconds / nr * 1e9)
        one.append(scan_s(disk, programs, f"bench-port1.{i}", 1, True)[0])
        two.append(scan_s(disk, programs, f"bench-port2.{i}", 2, True)[0])
    return [
        row("sequential read at 25 %, share of the fabric's rate", "",
            statistics.median(streams) / statistics.median(page_ns), 1.0,
            "4 KiB fetches, 64 in flight", 0.8, {"page": page_ns, "streamed": streams}, must=0.5,
            more=True),
        row("two memory components, ports of 50 MiB/s", "",
            statistics.median(one) / statistics.median(two), 1.0, "one", 1.9,
            {"one (s)": one, "two (s)": two}, must=1.7, more=True),
    ]  # fmt: skip


def parts(disk, programs, repeat: int, rpc_samples, row):
    """(name, function that makes rows) of each part."""
    program = programs / "glibc-static" / "latency"
    few = min(3, repeat)
    return (
        ("times", lambda: miss_rows(disk, program, few,
                                    lambda i: rpc_samples(disk, i)["bare_4k"]["p50"], row)),
        ("delay", lambda: delay_rows(disk, program, few, row)),
        ("scans", lambda: scan_rows(disk, programs, few, row)),
    )  # fmt: skip
