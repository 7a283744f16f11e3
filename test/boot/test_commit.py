# SPDX-License-Identifier: MIT
"""Commitment: what is refused when it is mapped, and what is not."""

from boot import total

SMALL = ("--memories", "2", "--vregion", "2M", "--memory", "memory=128M")


def commit(programs, *args):
    return [programs / "glibc-static/commit", *args]


def test_forks_are_not_charged_for_what_they_share(pool, programs):
    """16 programs fork, whose memory would be more than there is if each child wrote all of it."""
    cluster = pool.get(*SMALL)
    got = cluster.run(commit(programs, "forks", "16", "8"))
    assert got.checked() == b"16 forked, 0 ENOMEM, 0 could not map, 0 wrong, 0 ended\n", got.err
    assert total(cluster.stats(), "memory.committed") == 0


def test_modes_are_the_clusters(pool, programs):
    cluster = pool.get(*SMALL)
    assert cluster.run(commit(programs, "modes")).checked().decode() == (
        "0: 4G ENOMEM, noreserve mapped\n"
        "3: 1, -1: 1, text: 1\n"
        "2: 4G ENOMEM, noreserve ENOMEM\n"
        "1: 4G mapped, noreserve mapped\n"
        "0: 4G ENOMEM, noreserve mapped\n"
        "another user: 0\n"
    )
    assert total(cluster.stats(), "memory.committed") == 0
