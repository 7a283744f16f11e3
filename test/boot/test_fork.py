# SPDX-License-Identifier: MIT
"""Copy-on-write: trees of processes over memory larger than the cache, while vRegions change their
owner.
"""

import time

import pytest
from boot import TWO_MEMORIES, by_shape, delta, on_host, total

SMALL_CACHE = ("--excache", "8M")
FREED = ("memory.frames_used", "memory.spaces", "memory.vmas", "memory.committed", "memory.aspaces")


def tree(programs, seed):
    return [str(programs / "glibc-static/cowtree"), "12", "1200", str(seed)]


def check_freed(before, after):
    """Of all those spaces nothing is left, and each fork was followed by a collapse or an end of
    both.
    """
    for node in [n for n in after if n[0] == "m"]:
        for counter in FREED:
            assert delta(before, after, node, counter) == 0, f"{node} {counter}"
    assert total(after, "memory.fork") - total(before, "memory.fork") > 10
    assert total(after, "memory.pages_renamed") > total(before, "memory.pages_renamed")


@by_shape(long="one-memory")
def test_tree_larger_than_the_cache(pool, programs, shape):
    cluster = pool.get(*SMALL_CACHE, *shape)
    cluster.run([programs / "glibc-static/hello"])
    before = cluster.stats()
    assert cluster.run(tree(programs, 1), limit=600) == on_host(tree(programs, 1))
    after = cluster.stats()
    check_freed(before, after)
    assert delta(before, after, "p0", "excache.writebacks") > 1000


def test_vregions_move_under_a_tree(pool, programs):
    cluster = pool.get(*SMALL_CACHE, *TWO_MEMORIES)
    cluster.run([programs / "glibc-static/hello"])
    before = cluster.stats()
    program, capture = cluster.start(tree(programs, 2))
    deadline = time.monotonic() + 600
    to = 2
    while not program.over and time.monotonic() < deadline:
        for home in ("m0", "m1"):
            try:
                cluster.cluster.debug(home, f"move_vregion any any {to}")
            except OSError:
                pass  # nothing to move there at this moment
        to = 5 - to
    assert program.wait(deadline)
    want = on_host(tree(programs, 2))
    assert (bytes(capture.data[1]), bytes(capture.data[2])) == (want.out, want.err)
    after = cluster.stats()
    check_freed(before, after)
    assert total(after, "memory.vregions_moved") - total(before, "memory.vregions_moved") > 5


@pytest.mark.parametrize(("name", "operations", "bound"), [("fork", 240, 2.5), ("exec", 120, 7.5)])
def test_messages(pool, programs, name, operations, bound):
    """Few messages, and a program that has run before is not fetched again. On a busy host names
    of ended
    spaces go one by one instead of 16 together: one message each time more."""
    cluster = pool.get()
    command = [programs / "glibc-static/ops", name]
    cluster.run(command).checked()
    before = cluster.stats()
    cluster.run(command).checked()
    after = cluster.stats()
    assert delta(before, after, "p0", "rpc.requests") <= bound * operations
    assert delta(before, after, "p0", "excache.file_fetches") == 0
    # Text that has run before is mapped a window at a time.
    assert delta(before, after, "p0", "fault.count") <= (25 if name == "fork" else 40) * operations
    if name == "exec":
        assert delta(before, after, "p0", "fault.around") >= 4 * operations
    assert delta(before, after, "p0", "fork.local_collapses") == delta(
        before, after, "p0", "fork.collapses"
    )
    assert delta(before, after, "p0", "fork.spaces") >= operations
