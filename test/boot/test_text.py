# SPDX-License-Identifier: MIT
"""Debian's busybox over real text: every byte as on the host."""

import pytest
from boot import on_host

APPLETS = {
    "sha256sum": ["sha256sum", "{}"],
    "md5sum": ["md5sum", "{}"],
    "wc": ["wc", "{}"],
    "grep": ["grep", "-c", "return", "{}"],
    "sort": ["sort", "{}"],
    "awk": ["awk", "{ n += NF; l[length($0) % 7]++ }"
            " END { print NR, n; for (i = 0; i < 7; i++) print l[i] }", "{}"],
    "cat": ["cat", "{}"],
    "od": ["od", "-A", "x", "-t", "x1", "{}"],
}  # fmt: skip


def check(cluster, texts, applet, name, limit=240.0):
    argv = ["/usr/bin/busybox"] + [
        a.replace("{}", name) if a == "{}" else a for a in APPLETS[applet]
    ]
    got = cluster.run(argv, limit=limit)
    want = on_host(argv, cwd=texts)
    assert got.status == want.status == 0, got.err
    assert got.err == want.err
    assert len(got.out) == len(want.out) and got.out == want.out


# od writes five times as much as it reads, over the console: two minutes; awk and sort: 20 s each.
@pytest.mark.parametrize("applet", [
    pytest.param(a, marks=pytest.mark.long if a in ("awk", "od", "sort") else ()) for a in APPLETS
])  # fmt: skip
def test_applet_over_20_mb(plain, texts, applet):
    check(plain, texts, applet, "text.big")


@pytest.mark.parametrize("applet", APPLETS)
def test_applet_with_two_memories(pool, texts, applet):
    """The full size here is in test-long; the small one gates."""
    check(pool.get("--vregion", "2M", "--memories", "2"), texts, applet, "text.small")


@pytest.mark.long
@pytest.mark.parametrize("applet", APPLETS)
def test_applet_over_20_mb_with_two_memories(pool, texts, applet):
    check(pool.get("--vregion", "2M", "--memories", "2"), texts, applet, "text.big", 600)


@pytest.mark.parametrize("applet, name, size", [
    ("sha256sum", "text.small", "1M"), ("sort", "text.small", "4M"),
    pytest.param("sha256sum", "text.big", "4M", marks=pytest.mark.long),
    pytest.param("sort", "text.big", "4M", marks=pytest.mark.long),
])  # fmt: skip
def test_applet_over_a_small_cache(pool, texts, applet, name, size):
    check(pool.get("--excache", size), texts, applet, name, 600)
