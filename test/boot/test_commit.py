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


def shell(cluster, script, uid=0):
    return cluster.run(["/usr/bin/busybox", "sh", "-c", script], uid=uid)


def test_weights_are_inherited_and_kept(pool):
    cluster = pool.get(*SMALL)
    adj = "/proc/self/oom_score_adj"
    script = f"cat {adj}; echo 500 >{adj}; cat {adj} /proc/self/oom_score; (cat {adj})"
    lines = shell(cluster, script).checked().decode().split()
    assert [lines[0], lines[1], lines[3]] == ["0", "500", "500"]
    assert 985 <= int(lines[2]) < 1030  # as a small program on Linux
    got = shell(cluster, f"for n in 1001 -1001 x; do echo $n >{adj} || echo refused; done")
    assert got.out == b"refused\n" * 3 and got.err.count(b"Invalid argument") == 3
    got = shell(cluster, f"echo 7 >{adj}; echo -1 >{adj} || cat {adj}", uid=1000)
    assert got.out == b"7\n" and b"Permission denied" in got.err
    assert shell(cluster, f"echo -1000 >{adj}; cat /proc/self/oom_score").checked() == b"0\n"
