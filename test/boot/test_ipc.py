# SPDX-License-Identifier: MIT
"""Pipes, descriptors, waiting and locks: what programs see is what Linux shows them."""

import pytest
from boot import on_host

# Programs of test/user that print the same on both.
SAME = ["acls", "aios", "asyncs", "cachestats", "controls", "dnotifys", "edges", "ends", "epolls",
        "fds", "futexes", "ifreqs", "inets", "inotifys", "ipcspaces", "leases", "locks", "mqueues",
        "multicasts", "namespaces", "netfiles", "netlinks", "numas", "oddcalls", "pairs", "pipes",
        "polls", "pthreads", "ptys", "raws", "resolves", "seccomps", "socklimits", "splices",
        "sysvs", "unixes", "xattrs"]

# Pipelines of a shell, over megabytes of text T; every program is a process of its own.
PIPELINES = """
b=/usr/bin/busybox
yes | head -n 3
yes | $b head -c 1000000 | $b wc -c
($b yes; echo "yes: $?" >&2) | true
$b cat T | $b tr a-z A-Z | $b sort | $b uniq -c | $b sort -rn | $b head -n 5
$b cat T | $b cat | $b cat | $b cat | $b cat | $b md5sum
i=0; while [ $i -lt 20 ]; do echo $i; i=$((i+1)); done |
    while read x; do echo "<$x>"; done | $b tail -n 2
echo a | (read x; echo $x; $b cat)
$b seq 1 100000 | $b tail -n 1
$b cat T | (read first; echo "$first"; $b head -n 2 >/dev/null); echo "status $?"
i=0; while [ $i -lt 10 ]; do $b seq 1 $((i*100)) | $b wc -l; i=$((i+1)); done
"""


@pytest.mark.parametrize("name", SAME)
def test_same_as_linux(cluster, programs, name):
    argv = [programs / "glibc-static" / name]
    got, want = cluster.run(argv), on_host(argv)
    assert got.out.decode() == want.out.decode()
    assert got.status == want.status == 0, got.err


@pytest.mark.parametrize("name", ["fileflags", "handles"])
def test_files_in_memory(cluster, programs, name):
    argv = [programs / "glibc-static" / name, f"/dev/shm/{name}"]
    got, want = cluster.run(argv), on_host(argv)
    assert got.out.decode() == want.out.decode()
    assert got.status == want.status == 0, got.err


@pytest.mark.parametrize("name", ["ends", "pthreads"])
def test_same_with_musl(plain, programs, name):
    argv = [programs / "musl-static" / name]
    got, want = plain.run(argv), on_host(argv)
    assert got.out.decode() == want.out.decode()
    assert got.status == want.status == 0, got.err


def test_locks_in_shared_memory(cluster, programs):
    argv = [programs / "glibc-static/pthreads", "processes", "500"]
    assert cluster.run(argv) == on_host(argv)


def test_pipelines(cluster, texts):
    shell = ["/usr/bin/busybox", "sh", "-c"]
    got = cluster.run([*shell, PIPELINES.replace("T", "/data/text.small")])
    want = on_host([*shell, PIPELINES.replace("T", str(texts / "text.small"))])
    assert got == want


def test_a_row_of_a_hundred_pipes(plain, programs):
    argv = [programs / "glibc-static/ends", "1000", "100"]
    assert plain.run(argv) == on_host(argv)
