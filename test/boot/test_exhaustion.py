# SPDX-License-Identifier: MIT
"""Nodes that run out of memory: calls are refused with the documented errno, and the node goes on.

The memory node's own shortages are in test_memory.py.
"""

import pytest
from boot import Result, delta, on_host

SMALL_PROCESSOR = ("--memory", "processor=128M", "--excache", "16M")
SMALL_STORAGE = ("--memory", "storage=64M")
GAUGES = (
    "process.processes",
    "process.tasks",
    "process.pids",
    "pipe.slots",
    "file.open",
    "excache.space_objects",
)


def gauges(cluster) -> dict[str, float]:
    stats = cluster.stats()["p0"]
    return {name: stats[name] for name in GAUGES}


# Each lock is looked for among all others of its file.
KINDS = ["pipes", "files", "processes", "threads", "sockets", "timers", "epolls", "signals",
         "names", pytest.param("locks", marks=pytest.mark.long)]  # fmt: skip


@pytest.mark.parametrize("what", KINDS)
def test_processor_refuses_and_goes_on(pool, programs, what):
    """Three times as much as there is, and the third refusal comes like the first."""
    cluster = pool.get(*SMALL_PROCESSOR)
    before = gauges(cluster)
    got = cluster.run([programs / "glibc-static" / "bombs", what, "unlimited"], limit=300)
    assert got.out == f"{what}: refused after many\n".encode() * 3, got
    assert got.status == 0
    assert gauges(cluster) == before
    assert cluster.run(["/usr/bin/busybox", "echo", "alive"]).checked() == b"alive\n"


def test_mappings_are_counted(pool, programs):
    """max_map_count, whatever makes a mapping; and then there is room again."""
    cluster = pool.get("--append", "processor:vm.max_map_count=300")
    got = cluster.run([programs / "glibc-static" / "bombs", "vmas"])
    assert got == Result(0, b"vmas: refused after many\n" * 3, b"")


def test_page_tables_are_a_cache(pool, programs):
    """A program that needs more page tables than its node has memory for goes on, as do others."""
    cluster = pool.get(*SMALL_PROCESSOR)
    before = cluster.stats()
    got = cluster.run([programs / "glibc-static" / "bombs", "tables", "once"], limit=300)
    assert got == Result(0, b"tables: all of them\n", b"")
    assert delta(before, cluster.stats(), "p0", "kmem.trims") > 1000
    assert cluster.run(["/usr/bin/busybox", "echo", "alive"]).checked() == b"alive\n"


def test_storage_with_little_memory_serves_everything(pool, texts):
    """Ten times its memory goes through a storage node."""
    cluster = pool.get(*SMALL_STORAGE)
    for script in (
        "sha256sum text.big text.small text.big",
        "cat text.big text.big | md5sum",
        (
            "for i in 1 2 3 4 5 6 7 8; do cat text.small | wc -c & done; wait; ls -R /data /usr |"
            " wc -l"
        ),
    ):
        argv = ["/usr/bin/busybox", "sh", "-c", script]
        got = cluster.run(argv, limit=300)
        if "ls -R" not in script:
            assert got.checked() == on_host(argv, cwd=texts).checked()
        else:
            lines = got.checked().split()
            assert lines[:8] == [b"2097152"] * 8 and int(lines[8]) > 20
