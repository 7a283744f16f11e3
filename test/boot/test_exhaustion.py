# SPDX-License-Identifier: MIT
"""Nodes that run out of memory: calls are refused with the documented errno, and the node goes on.

The memory node's own shortages are in test_memory.py.
"""

import hashlib
import time

import pytest
from boot import Result, delta, on_host, wait_for

SMALL_PROCESSOR = ("--memory", "processor=128M", "--excache", "16M")
SMALL_STORAGE = ("--memory", "storage=64M")
GAUGES = (
    "process.processes",
    "process.tasks",
    "process.pids",
    "pipe.slots",
    "file.open",
    "excache.space_objects",
    "socket.open",
)


def gauges(cluster) -> dict[str, float]:
    stats = cluster.stats()["p0"]
    return {name: stats[name] for name in GAUGES}


def settled(cluster, before) -> dict[str, float]:
    """Both programs' objects are gone, which may take workers a moment."""

    def gone() -> dict | None:
        stats = cluster.stats()["p0"]
        same = all(stats[name] == before[name] for name in GAUGES)
        return stats if same and not stats["kmem.accounts"] else None

    return wait_for(gone)


KINDS = ["pipes", "files", "processes", "threads", "sockets", "timers", "epolls", "signals",
         "names", "locks"]  # fmt: skip
QUEUES = ["streams", "datagrams"]  # over loopback, full


@pytest.mark.parametrize("what", KINDS + [pytest.param(q, marks=pytest.mark.long) for q in QUEUES])
def test_processor_refuses_and_goes_on(pool, programs, what):
    """Three times as much as there is, and the third refusal comes like the first."""
    cluster = pool.get(*SMALL_PROCESSOR)
    before = gauges(cluster)
    got = cluster.run([programs / "glibc-static" / "bombs", what, "unlimited"], limit=300)
    assert got.out == f"{what}: refused after many\n".encode() * 3, got
    assert got.status == 0
    assert gauges(cluster) == before
    assert cluster.run(["/usr/bin/busybox", "echo", "alive"]).checked() == b"alive\n"


# Forks, pipes, descriptors, files of tmpfs, memory, a connection over loopback.
JOB = """
i=0
while [ $i -lt 10 ]; do
    echo line $i | cat | sed s/line/file/ >/tmp/job$i
    i=$((i+1))
done
cat /tmp/job* | md5sum
sort -r /tmp/job* | tail -n 2
nc -l -p 7200 < /tmp/job1 > /tmp/job &
until echo asks | nc 127.0.0.1 7200 2> /dev/null; do :; done
wait; cat /tmp/job
rm /tmp/job*
"""
JOB_OUT = b"%s  -\nfile 1\nfile 0\nfile 1\nasks\n" % (
    hashlib.md5(b"".join(b"file %d\n" % i for i in range(10)), usedforsecurity=False)
    .hexdigest().encode())  # fmt: skip


@pytest.mark.parametrize("what", [*KINDS, *QUEUES, pytest.param("vmas", marks=pytest.mark.long)])
def test_another_program_goes_on(pool, programs, what):
    """One program has all that it can get of a kind; another one does its work meanwhile."""
    cluster = pool.get(*SMALL_PROCESSOR)
    before = gauges(cluster)
    job = ["/usr/bin/busybox", "sh", "-c", JOB]
    assert cluster.run(job).checked() == JOB_OUT
    bomb, capture = cluster.start([str(programs / "glibc-static" / "bombs"), what, "held"])
    wait_for(lambda: b"held" in bytes(capture.data[1]) or None)
    got = cluster.run(job)
    assert got == Result(0, JOB_OUT, b"")
    assert bomb.write_stdin(b".")
    assert bomb.wait(time.monotonic() + 100)
    assert bytes(capture.data[1]) == f"{what}: held\n{what}: refused after many\n".encode()
    stats = settled(cluster, before)
    assert stats["kmem.charged"] == 0 and stats["kmem.accounts"] == 0


@pytest.mark.long
def test_ports_end(pool, programs):
    """As Linux says it, in a network namespace of its own."""
    cluster = pool.get("--memory", "processor=512M")
    before = gauges(cluster)
    got = cluster.run([programs / "glibc-static" / "socklimits", "ports"], limit=600)
    assert got == Result(0, b"".join(
        b"bind: -1 EADDRINUSE\nafter many\n%s\nconnect: -1 %s\nof the other kind: 0\n"
        b"connect with one: 0\nbind without: -1 EADDRINUSE\n" % said
        for said in ((b"listen: -1 EADDRINUSE", b"EADDRNOTAVAIL"), (b"send: -1 EAGAIN", b"EAGAIN"))
    ), b"")  # fmt: skip
    settled(cluster, before)


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
