# SPDX-License-Identifier: MIT
"""Memory over forks: copy-on-write beside eviction, shared memory, and nothing left at the end."""

import os

import pytest
from boot import by_shape, delta, on_host, total, wait_for_credits

SMALL_CACHE = ("--excache", "2M")
SHAPES = by_shape(long="two-memories")

# These gauges must be as before when all programs have ended.
GAUGES = [
    "excache.space_objects", "memory.spaces", "memory.vregions", "memory.vmas",
    "memory.committed",
]  # fmt: skip


def pages(stats) -> float:
    """Those at memory nodes, and those in lines that no memory node has seen yet."""
    unseen = total(stats, "credit.total") - total(stats, "credit.held")
    return total(stats, "memory.frames_used") + unseen


def forks(cluster, programs, *args, limit=900.0):
    """Run it, compare with the host; the counters before and after."""
    argv = [programs / "glibc-static/forks", *args]
    before = cluster.stats()
    got, want = cluster.run(argv, limit=limit), on_host(argv)
    after = cluster.stats()
    assert (got.out, got.status) == (want.out, want.status), got.err
    for gauge in GAUGES:
        assert total(after, gauge) == total(before, gauge), gauge
    # Every credit that a memory node has promised is counted: none is lost, none is counted twice.
    # Lines hold some for files in /tmp that earlier tests have left, until they are written back.
    wait_for_credits("credit.total", cluster.stats)
    assert pages(cluster.stats()) == pages(before)
    return before, after


@pytest.mark.long
@SHAPES
def test_a_tree_of_forks(pool, programs, shape):
    """50 processes, depth 4, dirty and p-local pages at each fork, more than the cache holds."""
    before, after = forks(pool.get(*SMALL_CACHE, *shape), programs, "tree")
    assert delta(before, after, "p0", "fork.spaces") == 49
    assert delta(before, after, "p0", "fork.failed") == 0
    assert delta(before, after, "p0", "fork.cow_copies") > 49 * 100
    assert delta(before, after, "p0", "excache.writebacks") > 1000


def test_writers_during_forks(pool, programs):
    n = 40 if os.environ.get("TEST_LONG") else 1
    before, after = forks(pool.get(*SMALL_CACHE), programs, "threads", str(n))
    assert delta(before, after, "p0", "fork.spaces") == n


@SHAPES
def test_shared_memory(pool, programs, shape):
    forks(pool.get(*SMALL_CACHE, *shape), programs, "shared")


def test_mappings_of_files_in_memory(cluster, programs):
    argv = [programs / "glibc-static/shmaps"]
    got, want = cluster.run(argv), on_host(argv)
    assert got.out.decode() == want.out.decode()
    assert got.status == want.status == 0, got.err


def test_many_forks(pool, programs):
    """One after the other: messages are bounded, and each frozen object collapses again."""
    n = 2000 if os.environ.get("TEST_LONG") else 200
    before, after = forks(pool.get(), programs, "many", str(n))
    assert delta(before, after, "p0", "fork.spaces") == n
    assert delta(before, after, "p0", "fork.collapses") == n
    # PM_FORK, PM_COLLAPSE, PM_DESTROY; the rest is the program's own start, reported by other
    # nodes, or credits.
    assert delta(before, after, "p0", "process.memory_calls") <= 3 * n + 40
