# SPDX-License-Identifier: MIT
"""The fabric's own numbers: our driver beside Linux's on the same model, RPC beside the bare
driver, fetches in flight, idle nodes.

Linux's ib_write_lat runs between two guests, our WRITE and WRITE back between two nodes of a
cluster that is up at another time, so that the four do not share the host's CPUs.
"""

from __future__ import annotations

import os
import re
import statistics
import time
from collections.abc import Callable

import boot
import inkernel
from reference import cluster as reference_cluster
from reference import image as reference_image

# run.Row: name, unit, value, baseline, which baseline, goal, raw numbers
Row = Callable[..., object]
IDLE_S = 10
IDLE_GOALS = {"hca": 1.0}  # percent of a core; a node: NODE_IDLE_GOAL
NODE_IDLE_GOAL = 2.0
LINUX_LIMIT_S = 120
PING_GOAL, RPC_GOAL, TAIL_GOAL = 1.0, 1.3, 1.5
KINDS = (("64 B", "64"), ("64 B to 4096 B", "4k"))

# Fetches in flight: what is set up, as the model's commands; rounds; and whether two host cores
# are the limit.
FETCH_DEPTHS = ("4", "16", "64")
FETCH_GOALS = {"16": 0.25}
FETCH_SETTINGS = (
    ("", (), 4000),
    (", 1 ms delay", ("delay all 1",), 1000),
    (", 1 ms delay, 100 MiB/s", ("delay all 1", "bandwidth all 102400"), 1000),
)
FETCH_SETTLE_MS = 3000  # the commands are given when the cluster is up


def latency_us(text: str) -> float:
    """t_typical of perftest's table: one way."""
    found = re.search(r"^\s*\d+\s+\d+\s+[\d.]+\s+[\d.]+\s+([\d.]+)", text, re.M)
    if not found:
        raise RuntimeError(f"no table in {text[-300:]!r}")
    return float(found[1])


def linux_write_us(repeat: int) -> list[float]:
    """ib_write_lat of 64 B between two Linux guests, several times."""
    work = boot.BUILD / "bench" / "reference"
    kernel, initrd = reference_image.build(
        boot.BUILD / "reference" / "packages", boot.BUILD / "reference" / "image"
    )
    out = []
    with reference_cluster.Cluster(
        boot.BUILD / "tools/hca/tessera-hca", kernel, initrd, work
    ) as guests:
        guests.wait_ready(LINUX_LIMIT_S)
        for _ in range(repeat):
            server, client = guests.pair("ib_write_lat -s 64 -n 2000")
            if server[0] or client[0]:
                raise RuntimeError(f"ib_write_lat: {client[1][-300:]}")
            out.append(latency_us(client[1]))
    return out


def cpu_seconds(pid: int) -> float:
    """User and system time of a process, all its threads together."""
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def idle_percent(running: boot.Running, seconds: float) -> dict[str, float]:
    """What each process of a cluster takes of a core while the program in it sleeps."""
    program, _ = running.start(
        [boot.packages.require("busybox")[0], "sleep", str(int(seconds + 30))]
    )
    program.wait(what="start")
    time.sleep(2)  # what the start has left to do
    before = {name: cpu_seconds(pid) for name, pid in running.cluster.pids.items()}
    start = time.monotonic()
    time.sleep(seconds)
    took = time.monotonic() - start
    out = {
        name: (cpu_seconds(running.cluster.pids[name]) - t) / took * 100
        for name, t in before.items()
    }
    program.signal(15)
    program.wait(time.monotonic() + 60)
    return out


def idle_rows(disk, row: Row) -> list:
    running = boot.Running(("--net", "none"), disk, "bench-idle")
    running.up()
    try:
        found = idle_percent(running, IDLE_S)
    finally:
        running.close()
    names = {"hca": "idle HCA model", "p0": "idle processor node", "m0": "idle memory node",
             "s0": "idle storage node"}  # fmt: skip
    return [row(names.get(name, name), "%", percent, 100.0, f"one host core, over {IDLE_S} s",
                IDLE_GOALS.get(name, NODE_IDLE_GOAL) / 100) for name, percent in found.items()]


def rpc_rows(samples: list[dict], row: Row) -> list:
    """RPC beside the bare ping-pong between the same nodes in the same boot: median, and the tail.
    """
    rows = []
    for name, key in KINDS:
        rpc, bare = [[s[f"{kind}_{key}"] for s in samples] for kind in ("rpc", "bare")]
        half = [[x["p50"] / 1000 for x in kind] for kind in (rpc, bare)]
        tail = [[x["p99"] / x["p50"] for x in kind] for kind in (rpc, bare)]
        rows += [
            row(f"RPC round trip, {name}, p50", "µs", statistics.median(half[0]),
                statistics.median(half[1]),
                "bare WRITE and WRITE back", RPC_GOAL, {"rpc": half[0], "bare": half[1]}),
            row(f"RPC round trip, {name}, p99/p50", "", statistics.median(tail[0]),
                statistics.median(tail[1]),
                "the bare ping-pong's own", TAIL_GOAL, {"rpc": tail[0], "bare": tail[1]}),
        ]  # fmt: skip
    return rows


def ping_rows(samples: list[dict], linux: list[float], row: Row) -> list:
    """Our polled WRITE ping-pong, half a round trip, as perftest counts."""
    ours = [s["bare_64"]["p50"] / 2000 for s in samples]
    return [
        row(
            "WRITE, polled, 64 B, one way",
            "µs",
            statistics.median(ours),
            statistics.median(linux),
            "ib_write_lat between Linux guests",
            PING_GOAL,
            {"ours": ours, "linux": linux},
        )
    ]


def fetch_samples(
    disk, rounds: int, commands: tuple[str, ...], number: int
) -> dict[str, dict[str, float]]:
    """By depth: µs for each 4 KiB fetch, and doorbells of both nodes for each."""
    args = ["--append", "rpc.slots.demand=64"]  # 64 in flight have a slot each
    if commands:
        args += ["--append", f"p0:bench.settle_ms={FETCH_SETTLE_MS}"]
    for command in commands:
        args += ["--inject", command]
    got = inkernel.result(disk, "fetches", rounds, f"bench-fetches{number}", tuple(args))["depth"]
    return {
        depth: {
            "us": r["ns"] / 1000 / rounds,
            "doorbells": (r["doorbells"] + r["served"]) / rounds,
        }
        for depth, r in got.items()
    }


def fetch_rows(disk, repeat: int, row: Row) -> list:
    """Time for each fetch with several in flight, beside one at a time; the goal is a rate, so its
    inverse.
    """
    rows = []
    for setting, commands, rounds in FETCH_SETTINGS:
        samples = [fetch_samples(disk, rounds, commands, i) for i in range(repeat)]
        one = statistics.median(s["1"]["us"] for s in samples)
        for depth in FETCH_DEPTHS:
            us = [s[depth]["us"] for s in samples]
            rows.append(
                row(
                    f"4 KiB fetch, {depth} in flight{setting}",
                    "µs",
                    statistics.median(us),
                    one,
                    "one at a time",
                    FETCH_GOALS.get(depth),
                    {
                        "each": us,
                        "number of doorbells a fetch": [s[depth]["doorbells"] for s in samples],
                    },
                )
            )
    return rows


def measure(disk, repeat: int, rpc_samples: Callable[[object, int], dict], row: Row) -> list:
    """Everything on the page; @rpc_samples boots a cluster and gives bench.rpc's percentiles."""
    samples = [rpc_samples(disk, i) for i in range(repeat)]
    return [*ping_rows(samples, linux_write_us(repeat), row), *rpc_rows(samples, row),
            *fetch_rows(disk, repeat, row), *idle_rows(disk, row)]  # fmt: skip
