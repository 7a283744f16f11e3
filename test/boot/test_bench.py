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
        "--append", "rpc.slots.demand=64", "--append", "m0:bench.serve=1",
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


def test_reads_need_no_cpu_of_the_peer(pool):
    """One doorbell a page on this node; on the other one neither a doorbell nor a request."""
    cluster = pool.get("--append", f"p0:bench.reads=2,{ROUNDS}", "--append", "m0:bench.serve=1")
    deadline = time.monotonic() + 60
    while '"what":"read"' not in cluster.log("p0"):
        assert time.monotonic() < deadline, cluster.log("p0")
        time.sleep(0.1)
    found = re.findall(r'\{"bench":"reads".*\}', cluster.log("p0"))
    rows = {row["what"]: row for row in map(json.loads, found)}
    # A quiet cluster adds some heartbeats and the like beside them.
    assert ROUNDS <= rows["read"]["doorbells"] < 1.3 * ROUNDS
    assert rows["read"]["served_doorbells"] < 0.3 * ROUNDS
    assert rows["read"]["served_requests"] < 0.3 * ROUNDS
    assert rows["fetch"]["served_requests"] >= ROUNDS
    assert all(0 < row["ns"]["p50"] <= row["ns"]["p99"] for row in rows.values())
    stats = cluster.stats()
    assert stats["p0"]["rpc.reads"] >= ROUNDS and stats["p0"]["rpc.reads_refused"] == 0


def test_the_card_refuses_keys_that_were_not_given(pool):
    """m0 writes a page of p0: one that it was given, one that is only sent to it, one that was
    taken back from it, and one by another key than its own.
    """
    cluster = pool.get("--append", "p0:bench.doors=2")
    deadline = time.monotonic() + 60
    while '"another key"' not in cluster.log("p0"):
        assert time.monotonic() < deadline, cluster.log("p0")
        time.sleep(0.1)
    found = re.findall(r'\{"bench":"doors".*\}', cluster.log("p0"))
    rows = {row["what"]: row for row in map(json.loads, found)}
    assert rows["given"]["err"] == 0 and not rows["given"]["untouched"]
    for what in ("only sent", "taken back", "another key"):
        assert rows[what]["err"] < 0 and rows[what]["untouched"]
    assert "node 2 asked for memory that it was not given: refused" in cluster.log("p0")
    stats = cluster.stats()
    assert stats["p0"]["rpc.access_refused"] >= 3 and stats["m0"]["rpc.access_errors"] >= 3
