# SPDX-License-Identifier: MIT
"""The benchmarks inside the kernel measure what they say: here what they count, never how fast it
was.
"""

import json
import re
import time

ROUNDS = 200


def logged(cluster, kind: str) -> dict:
    deadline = time.monotonic() + 60
    while True:
        found = re.search(rf'\{{"bench":"{kind}".*\}}', cluster.log("p0"))
        if found:
            return json.loads(found[0])
        assert time.monotonic() < deadline, cluster.log("p0")
        time.sleep(0.1)


def test_fetches_and_round_trips(pool):
    cluster = pool.get(
        "--append", f"p0:bench.fetches=2,{ROUNDS}", "--append", f"p0:bench.rpc=2,{ROUNDS}",
        "--append", "rpc.slots.demand=64",
    )  # fmt: skip
    fetches = logged(cluster, "fetches")
    assert fetches["rounds"] == ROUNDS and list(fetches["depth"]) == ["1", "4", "16", "64"]
    trips = logged(cluster, "rpc")["ns"]
    assert set(trips) == {"bare_64", "rpc_64", "bare_4k", "rpc_4k", "datagram_64"}
    assert all(0 < row["p50"] <= row["p90"] <= row["p99"] for row in trips.values())
    for depth, row in fetches["depth"].items():
        # One doorbell asks, one answers; what a poll finds together, 16 at most, shares one. The
        # other benchmark rings some beside it.
        least = ROUNDS if depth == "1" else ROUNDS / 16
        assert row["ns"] > 0 and row["doorbells"] >= least and row["served"] >= least
    stats = cluster.stats()
    assert stats["m0"]["rpc.bulk_bytes"] >= 4 * ROUNDS * 4096
