# SPDX-License-Identifier: MIT
"""Benchmarks inside a node's kernel: boot a cluster with their parameter, and read the line that
they log.
"""

from __future__ import annotations

import json
import re
import time

import boot

LIMIT_S = 120
TARGET = 2  # m0's node id


def result(disk, kind: str, rounds: int, name: str, args: tuple[str, ...] = ()) -> dict:
    """What p0 logs of bench.@kind against m0: a JSON object, without errors in it."""
    append = ("--append", f"p0:bench.{kind}={TARGET},{rounds}", "--append", "m0:bench.serve=1")
    running = boot.Running(("--net", "none", *args, *append), disk, name)
    running.up()
    try:
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline:
            found = re.search(rf'\{{"bench":"{kind}".*\}}', running.log("p0"))
            if found:
                if '"error"' in found[0]:
                    raise RuntimeError(f"bench.{kind}: {found[0]}")
                return json.loads(found[0])
            time.sleep(0.2)
    finally:
        running.close()
    raise RuntimeError(f"no result from bench.{kind} in {LIMIT_S} s")
