# SPDX-License-Identifier: MIT
"""Programs whose memory does not fit, beside a process that never sleeps: test/user/beside.c on a
processor with one CPU and half of the memory that they use, alone and shared by turns.

The baseline of each row is the same program alone, in the same cluster. The last rows say how long
sleeping callers waited for the CPU after the reply, and what part of the CPU the other process had.
"""

from __future__ import annotations

import statistics

import boot

MIB = 32
GOAL = 2.2
NAMES = {
    "kmeans": "k-means, 2 rounds",
    "quicksort": "quicksort",
    "words": "word count",
    "random": "random reads",
}
LIMIT_S = 240


def run(running, program, how: str, name: str, mib: int) -> tuple[float, float]:
    """Milliseconds that it took, and those of CPU that the other process had."""
    words = running.run([program, how, name, str(mib)], limit=LIMIT_S).checked().split()
    return float(words[0]) / 1e6, float(words[1]) / 1e6


def measure(disk, programs, repeat: int, row, mib: int = MIB) -> list:
    """Rows made by row(name, unit, value, baseline, what, goal, raw)."""
    program = programs / "glibc-static" / "beside"
    running = boot.Running(("--net", "none", "--excache", f"{mib // 2}M"), disk, "bench-sharing")
    running.up()
    rows = []
    parts = []
    try:
        for name in NAMES:
            run(running, program, "alone", name, mib)  # warm
            alone, shared, other = [], [], []
            for _ in range(max(3, repeat)):
                alone.append(run(running, program, "alone", name, mib)[0])
                took, spun = run(running, program, "shared", name, mib)
                shared.append(took)
                other.append(100 * spun / took)
            rows.append(row(f"{NAMES[name]}, {mib} MiB, half of it local, beside a process that"
                            " never sleeps", "ms", statistics.median(shared),
                            statistics.median(alone), "the same alone", GOAL,
                            {"shared": shared, "alone": alone,
                             "number of percent that the other had": other}))  # fmt: skip
            parts.append(statistics.median(other))
        wakes = running.stats()["p0"]
    finally:
        running.close()
    for p in ("p50", "p90", "p99"):
        rows.append(row(f"wait for the CPU after the reply of a demand call, {p}", "µs",
                        wakes[f"rpc.wake_ns.demand.{p}"] / 1000, None, ""))  # fmt: skip
    rows.append(row("CPU of the process that never sleeps, least of the four", "%", min(parts),
                    None, ""))  # fmt: skip
    return rows
