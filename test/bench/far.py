# SPDX-License-Identifier: MIT
"""Programs with a part of their memory far away: seven programs with 25, 50 and 75 % of their peak
in the ExCache, beside a Linux guest with the same share that swaps to the RAM of a second guest.

Each repetition is one `./tessera run --sweep --beside-linux` of each program: Tessera and Linux
take turns, program by program. A row's time is the whole program's, its baseline Linux's at the
same share of Linux's own peak. Two rows are the geometric mean and the worst of the ratios. The
last are beside the roofline: the time with all memory local, one bare READ for each miss that was
waited for, and for what else the ports sent, page by page, the time that a page of a stream takes.
"""

from __future__ import annotations

import json
import math
import pathlib
import shutil
import statistics
import subprocess
import tempfile

import boot

MIB = 32
SHARES = (25, 50, 75)
NAMES = {
    "sequential": "sequential read",
    "random": "random read",
    "write": "random write",
    "words": "word count",
    "quicksort": "quicksort",
    "kmeans": "k-means, 2 rounds",
    "sqlite3": "sqlite3 in memory",
}
MEAN_MUST, MEAN_GOAL = 0.25, 0.12
WORST_MUST, WORST_GOAL = 0.5, 0.3
LOCAL_MUST, LOCAL_GOAL = 1.1, 0.9
FETCHED_SHARE, FETCHED_MUST, FETCHED_GOAL = 75, 0.5, 0.35
LOOPS = {"kmeans8": "k-means, 8 rounds", "scans8": "8 reads in sequence in a row"}
ROOF_MUST, ROOF_GOAL = 2.0, 1.3
PAGE = 4096
SWEEP_LIMIT_S = 900

SQL = f""".output /dev/null
CREATE TABLE t(k INTEGER PRIMARY KEY, v TEXT, r INTEGER);
WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < {MIB * 3000})
    INSERT INTO t SELECT i, hex(zeroblob(100)) || i, (i * 7919) % 1000003 FROM c;
CREATE INDEX ix ON t(r);
SELECT count(*), sum(length(v)) FROM t;
SELECT sum(length(v)) FROM t WHERE r BETWEEN 1000 AND 20000;
"""


def sweep(root: pathlib.Path, command: list[str], text: str, shares=SHARES) -> dict:
    """What one sweep says of each share: {"rows": [...], "linux": [...]}, all local first."""
    with tempfile.TemporaryDirectory(prefix="bench-far-") as where:
        stats = pathlib.Path(where, "rows.json")
        done = subprocess.run(
            [root / "tessera", "run", "--no-build", "--build-dir", boot.BUILD, "--net", "none",
             "--excache", f"{2 * MIB}M", "--sweep", ",".join(map(str, shares)), "--beside-linux",
             "--plot", pathlib.Path(where, "plot.png"), "--stats", stats, *command],
            input=text, capture_output=True, text=True, cwd=where, timeout=SWEEP_LIMIT_S,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"{command[0]}: {done.stderr.strip()[-300:]}")
        return json.loads(stats.read_text())


def roof_rows(got: dict[str, list[dict]], bare_s: float, page_s: float, row) -> list:
    rows = []
    for name, runs in got.items():
        for i, share in enumerate(SHARES, 1):
            took, roof = [], []
            for run in runs:
                at = run["rows"][i]
                others = max(0, at["moved"] / PAGE - at["misses"])
                took.append(at["seconds"])
                roof.append(run["rows"][0]["seconds"] + at["misses"] * bare_s + others * page_s)
            rows.append(row(f"{NAMES[name]}, {share} % local", "s", statistics.median(took),
                            statistics.median(roof), "its roofline", ROOF_GOAL,
                            must=ROOF_MUST))  # fmt: skip
    return rows


def fetched_row(root: pathlib.Path, name: str, beside: str, repeat: int, row):
    """Pages that come for a loop over more memory than there is, waited for or fetched ahead."""
    sides: dict[str, list[int]] = {"rows": [], "linux": []}
    for _ in range(repeat):
        got = sweep(root, [beside, "quiet", name, str(MIB)], "", (FETCHED_SHARE,))
        for side, counts in sides.items():
            counts.append(got[side][1]["fetched"])
    return row(f"pages fetched, {LOOPS[name]}, {FETCHED_SHARE} % local", "",
               statistics.median(sides["rows"]), statistics.median(sides["linux"]),
               "Linux, swap over NBD", FETCHED_GOAL,
               {"number of pages": sides["rows"], "number of pages, Linux": sides["linux"]},
               must=FETCHED_MUST)  # fmt: skip


def measure(root: pathlib.Path, programs, repeat: int, row, fabric) -> list:
    """Rows made by row(name, unit, value, baseline, what, goal, raw); fabric() gives the seconds of
    one bare READ and of a page of a stream.
    """
    beside = str(programs / "glibc-static" / "beside")
    commands = {n: ([beside, "quiet", n, str(MIB)], "") for n in NAMES if n != "sqlite3"}
    if shutil.which("sqlite3"):
        commands["sqlite3"] = (["sqlite3", ":memory:"], SQL)
    got: dict[str, list[dict]] = {n: [] for n in commands}
    for _ in range(repeat):
        for name, (command, text) in commands.items():
            got[name].append(sweep(root, command, text))
    rows, ratios = [], []
    for name, runs in got.items():
        for i, share in enumerate(("all", *SHARES)):
            ours = [run["rows"][i]["seconds"] for run in runs]
            linux = [run["linux"][i]["seconds"] for run in runs]
            waited = statistics.median(run["rows"][i]["misses"] for run in runs)
            at = f"{share} % local, {waited:.0f} misses waited for"
            if share == "all":
                at = "all local"
            rows.append(row(f"{NAMES[name]}, {at}", "s", statistics.median(ours),
                            statistics.median(linux), "Linux, swap over NBD",
                            LOCAL_GOAL if share == "all" else None,
                            {"ours": ours, "linux": linux},
                            must=LOCAL_MUST if share == "all" else None))  # fmt: skip
            if share != "all":
                ratios.append(rows[-1].ratio())
    mean = math.prod(ratios) ** (1 / len(ratios))
    for what, value, goal, must in (
        ("geometric mean of the ratios", mean, MEAN_GOAL, MEAN_MUST),
        ("worst of the ratios", max(ratios), WORST_GOAL, WORST_MUST),
    ):
        rows.append(row(what, "", value, 1.0, "Linux, swap over NBD", goal, must=must))
    rows += roof_rows(got, *fabric(), row)
    return rows + [fetched_row(root, name, beside, repeat, row) for name in LOOPS]
