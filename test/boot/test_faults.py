# SPDX-License-Identifier: MIT
"""The fabric misbehaves on command: delays and broken connections change nothing but the time."""

import contextlib
import re
import time

import pytest
from boot import BUILD, Running, by_shape, on_host, run, total
from capture import follow

SMALL_CACHE = ("--excache", "8M")


@contextlib.contextmanager
def injected(cluster, on, off):
    """A command to the model for the time of a test; gives the model's counters before and after.
    """
    seen = {}
    seen["before"] = cluster.cluster.inject("stats")
    cluster.cluster.inject(on)
    try:
        yield seen
    finally:
        cluster.cluster.inject(off)
        seen["after"] = cluster.cluster.inject("stats")


def grown(seen, counter):
    find = lambda stats: _find(stats, counter)  # noqa: E731
    return find(seen["after"]) - find(seen["before"])


def _find(stats, counter):
    """The sum of a counter wherever it stands in the model's reply."""
    if isinstance(stats, dict):
        return sum(
            v if k == counter and isinstance(v, int) else _find(v, counter)
            for k, v in stats.items()
        )
    return sum(_find(v, counter) for v in stats) if isinstance(stats, list) else 0


def run_both(cluster, argv, texts, limit=600.0):
    got = cluster.run(argv, limit=limit)
    assert got == on_host(argv, cwd=texts)


def workload(cluster, programs, texts, name, megabytes):
    run_both(cluster, ["/usr/bin/busybox", "sha256sum", name], texts)
    run_both(cluster, ["/usr/bin/busybox", "sort", name], texts)
    run_both(cluster, [programs / "glibc-static/heap", "sort", str(megabytes)], texts)


def test_calls_by_blueflame(disk, programs, texts, tmp_path):
    """Doorbells that bring their entry along, on every node, a device that is reset in between,
    and a capture of it.
    """
    hca = tmp_path / "hca"
    model = f"{BUILD}/tools/hca/tessera-hca --blueflame --pcap {tmp_path}/capture,max=16"
    hca.write_text(f'#!/bin/sh\nexec {model} "$@"\n')
    hca.chmod(0o755)
    cluster = Running(("--hca", str(hca), "--append", "mlx4.blueflame=on"), disk, "blueflame").up()
    try:
        run_both(cluster, ["/usr/bin/busybox", "sha256sum", "text.small"], texts)
        before = cluster.stats()
        cluster.cluster.inject("catas 2 1")
        run_both(cluster, [programs / "glibc-static/heap", "sort", "4"], texts)
        after = cluster.stats()
        for node, stats in after.items():
            assert stats["mlx4.blueflames"] > before[node]["mlx4.blueflames"] > 0, node
        assert total(after, "mlx4.recoveries") == 1
        # A node's messages go so one by one; chains of a reply with its data are longer.
        assert after["p0"]["mlx4.blueflames"] > after["p0"]["rpc.requests"] / 2
        ports = cluster.cluster.inject("stats")["ports"]
        assert all(p["bad_blueflames"] == 0 and p["blueflames"] > 0 for p in ports), ports
        assert not cluster.complaints()
    finally:
        cluster.close()
    crossed = follow(tmp_path / "capture")
    assert len(crossed.made) >= 3 and crossed.messages > 300 and crossed.datagrams > 10, vars(
        crossed
    )


@pytest.mark.long  # 40 s
@by_shape(long="one-memory")
def test_connections_delayed_by_50_ms(pool, programs, texts, shape):
    cluster = pool.get("--excache", "96M", *shape)
    with injected(cluster, "delay all 50", "delay off") as seen:
        workload(cluster, programs, texts, "text.small", 16)
    assert grown(seen, "delayed") > 0


@by_shape(long="two-memories")
def test_connections_broken_at_random(pool, programs, texts, shape):
    cluster = pool.get(*SMALL_CACHE, *shape)
    with injected(cluster, "break random every 400 7", "break random off") as seen:
        workload(cluster, programs, texts, "text.small", 16)
    assert grown(seen, "breaks") > 0


@pytest.mark.long
@by_shape()
@pytest.mark.parametrize("on, off, counter, cache", [
    ("delay all 50", "delay off", "delayed", "192M"),
    ("break random every 400 11", "break random off", "breaks", "8M"),
], ids=["delay", "break"])  # fmt: skip
def test_full_size(pool, programs, texts, shape, on, off, counter, cache):
    cluster = pool.get("--excache", cache, *shape)
    with injected(cluster, on, off) as seen:
        workload(cluster, programs, texts, "text.big", 128)
    assert grown(seen, counter) > 0


def recovered(cluster, node, limit=60.0):
    end = time.monotonic() + limit
    while "recovered, up again" not in cluster.log(node):
        assert time.monotonic() < end, cluster.log(node)
        time.sleep(0.05)


@pytest.mark.parametrize("lid, name", [(1, "p0"), (2, "m0")], ids=["processor", "memory"])
def test_hca_fails_and_loses_its_link(pool, programs, lid, name):
    """All connections of a node are gone at once, by a reset and by a cut; the program sees
    nothing of it.
    """
    cluster = pool.get(*SMALL_CACHE)
    seen = {"before": cluster.cluster.inject("stats")}
    downs = cluster.log(name).count("port 1: down")
    argv = [str(programs / "glibc-static/heap"), "sort", "12"]
    program, capture = cluster.start(argv)
    assert not program.wait(time.monotonic() + 0.3), "it ended before the fault"
    cluster.cluster.inject(f"catas {lid}")
    recovered(cluster, name)
    cluster.cluster.inject(f"link {lid} down")
    assert not program.wait(time.monotonic() + 0.5), "it went on without a link"
    cluster.cluster.inject(f"link {lid} up")
    assert program.wait(time.monotonic() + 300)
    want = on_host(argv)
    assert (run.exit_status(program.exit.status), bytes(capture.data[1])) == (want.status, want.out)
    seen["after"] = cluster.cluster.inject("stats")
    assert grown(seen, "catastrophes") == 1 and grown(seen, "link_changes") == 2
    assert cluster.log(name).count("port 1: down") == downs + 1


@pytest.mark.parametrize("lid, name", [(1, "p0"), (2, "m0")], ids=["processor", "memory"])
def test_completions_are_lost(pool, programs, texts, lid, name):
    """A completion queue overruns under a program: the node's device begins anew, the program sees
    nothing of it.
    """
    cluster = pool.get(*SMALL_CACHE)
    before, told = cluster.stats()[name], cluster.log(name).count(": overrun")
    with injected(cluster, f"overrun {lid}", f"overrun {lid} 0") as seen:
        run_both(cluster, ["/usr/bin/busybox", "md5sum", "text.small"], texts)
    assert grown(seen, "overruns") == 1
    assert cluster.log(name).count(": overrun") == told + 1
    assert cluster.stats()[name].get("mlx4.recoveries", 0) == before.get("mlx4.recoveries", 0) + 1


SYNDROMES = (1, 2, 4, 5, 6, 0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x22, 0x77)


def test_messages_end_in_every_error(pool, programs, texts):
    """
    Each syndrome that a board knows, and one that it does not: the connection is made anew, and
    all goes on, though each message of the connections' management comes twice.
    """
    cluster = pool.get(*SMALL_CACHE)
    failed = (cluster.log("p0") + cluster.log("m0")).count("device failed")
    twice = total(cluster.stats(), "cm.duplicates")
    with injected(cluster, "duplicate all 100 mad", "duplicate all 0") as seen:
        for n, syndrome in enumerate(SYNDROMES):
            cluster.cluster.inject(f"error {1 + n % 2} {syndrome}")
            end = time.monotonic() + 60
            while grown({**seen, "after": cluster.cluster.inject("stats")}, "errors") <= n:
                run_both(cluster, ["/usr/bin/busybox", "true"], texts)
                assert time.monotonic() < end, "nothing was sent"
    run_both(cluster, ["/usr/bin/busybox", "md5sum", "text.small"], texts)
    assert grown(seen, "errors") == len(SYNDROMES)
    assert total(cluster.stats(), "cm.duplicates") >= twice + len(SYNDROMES)
    logs = cluster.log("p0") + cluster.log("m0")
    assert "fenced" not in logs and logs.count("device failed") == failed


def test_datagrams_lost_and_late(pool, programs, texts):
    """Heartbeats and RPC's connectionless mode: half of them never arrive, others come twice, and
    all are slow.
    """
    cluster = pool.get(*SMALL_CACHE)
    resent = total(cluster.stats(), "rpc.datagram.resent")
    cluster.cluster.inject("delay all 20 datagram")
    cluster.cluster.inject("duplicate all 50")
    with injected(cluster, "lose all 50", "lose all 0") as seen:
        end = time.monotonic() + 120
        while True:
            now = {**seen, "after": cluster.cluster.inject("stats")}
            counts = [
                grown(now, what) for what in ("injected_losses", "injected_delays", "duplicates")
            ]
            counts.append(total(cluster.stats(), "rpc.datagram.resent") - resent)
            if counts[0] >= 4 and all(counts):
                break
            assert time.monotonic() < end, f"lost, delayed, came twice, sent again: {counts}"
            run_both(cluster, ["/usr/bin/busybox", "md5sum", "text.small"], texts)
    cluster.cluster.inject("delay all 0 datagram")
    cluster.cluster.inject("duplicate all 0")
    assert not re.search("fenced", cluster.log("p0") + cluster.log("m0") + cluster.log("s0"))


def test_held_connection_is_waited_for(pool, programs, texts):
    """A few hundred milliseconds in which nothing passes between processor and memory."""
    cluster = pool.get(*SMALL_CACHE)
    cluster.cluster.inject("hold 1 2")
    program, capture = cluster.start(["/usr/bin/busybox", "md5sum", "text.small"])
    try:
        assert not program.wait(time.monotonic() + 1.5)
    finally:
        cluster.cluster.inject("release")
    assert program.wait(time.monotonic() + 120)
    assert (
        bytes(capture.data[1])
        == on_host(["/usr/bin/busybox", "md5sum", "text.small"], cwd=texts).out
    )
