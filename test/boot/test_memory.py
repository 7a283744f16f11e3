# SPDX-License-Identifier: MIT
"""Heaps larger than the cache, two owners, moving owners, exhaustion; results and counters."""

import pytest
from boot import MB, delta, on_host, total

PAGE = 4096
SMALL_CACHE = ("--excache", "8M")
TWO = ("--vregion", "2M", "--memories", "2")


def heap(cluster, programs, what, megabytes, limit=600.0):
    """Run a heap program, compare with the host; the counters before and after."""
    argv = [programs / "glibc-static/heap", what, str(megabytes)]
    before = cluster.stats()
    got = cluster.run(argv, limit=limit)
    after = cluster.stats()
    assert got == on_host(argv)
    return before, after


def check_evictions(before, after, megabytes):
    """A heap of this size went through a cache of 8 MiB: its pages came back and went out."""
    pages = megabytes * MB // PAGE
    assert delta(before, after, "p0", "excache.miss") >= pages
    assert delta(before, after, "p0", "excache.writeback") >= pages - 8 * MB // PAGE
    assert delta(before, after, "p0", "excache.plocal") >= pages


@pytest.mark.parametrize("what", ["sort", "hash"])
@pytest.mark.parametrize("megabytes", [32, pytest.param(128, marks=pytest.mark.long)])
@pytest.mark.parametrize("shape", [(), TWO], ids=["one-memory", "two-memories"])
def test_heap_larger_than_the_cache(pool, programs, what, megabytes, shape):
    cluster = pool.get(*SMALL_CACHE, *shape)
    before, after = heap(cluster, programs, what, megabytes)
    check_evictions(before, after, megabytes)
    if shape:
        for node in ("m0", "m1"):
            assert delta(before, after, node, "memory.fetch") > 0


def test_heap_of_128_mb(pool, programs):
    before, after = heap(pool.get(*SMALL_CACHE), programs, "hash", 128)
    check_evictions(before, after, 128)


def test_first_touch_sends_nothing(plain, programs):
    """p-local lines: 8,000 fresh pages, and no fetch beyond what starting the program costs."""
    argv = [programs / "glibc-static/heap", "touch", "1"]
    plain.run(argv)  # its text is cached now
    before = plain.stats()
    plain.run(argv)
    small = plain.stats()
    plain.run([programs / "glibc-static/heap", "touch", "33"])
    large = plain.stats()
    extra_touches = delta(small, large, "p0", "excache.plocal") - delta(before, small, "p0", "excache.plocal")
    extra_misses = delta(small, large, "p0", "excache.miss") - delta(before, small, "p0", "excache.miss")
    assert extra_touches >= 32 * MB // PAGE
    assert extra_misses <= 16


def test_everything_is_freed_at_exit(cluster, programs):
    argv = [programs / "glibc-static/heap", "touch", "24"]
    cluster.run(argv)
    before = cluster.stats()
    for _ in range(5):
        cluster.run(argv)
    cluster.run([programs / "glibc-static/crash", "null"])
    after = cluster.stats()
    for node in after:
        lost = before[node]["mm.free_frames"] - after[node]["mm.free_frames"]
        assert lost < 200, f"{node} lost {lost} frames"


def test_memory_runs_out_with_enomem(pool, programs):
    cluster = pool.get("--memory", "memory=128M")
    for _ in range(2):
        got = cluster.run([programs / "glibc-static/exhaust", "4"], limit=300)
        assert got.checked() == b"refused, checked, given back, and going on\n"
    assert cluster.run([programs / "musl-static/hello"]).status == 0


def test_moving_an_owner_costs_one_redirect(pool, programs):
    cluster = pool.get(*SMALL_CACHE, *TWO)
    before = cluster.stats()
    reply = cluster.cluster.debug("p0", "selftest move-vregion")
    after = cluster.stats()
    assert reply.startswith("ok"), reply
    assert delta(before, after, "p0", "aspace.redirects") == 1
    assert total(after, "memory.vregions_moved") - total(before, "memory.vregions_moved") == 1
