# SPDX-License-Identifier: MIT
"""Commitment: what is refused when it is mapped, and what is not."""

import time

import pytest
from boot import delta, feed, total
from tessera_launcher.errors import LaunchError

SMALL = ("--memories", "2", "--vregion", "2M", "--memory", "memory=128M")


def commit(programs, *args):
    return [programs / "glibc-static/commit", *args]


def test_forks_are_not_charged_for_what_they_share(pool, programs):
    """16 programs fork, whose memory would be more than there is if each child wrote all of it."""
    cluster = pool.get(*SMALL)
    got = cluster.run(commit(programs, "forks", "16", "8"))
    assert got.checked() == b"16 forked, 0 ENOMEM, 0 could not map, 0 wrong, 0 ended\n", got.err
    assert total(cluster.stats(), "memory.committed") == 0


def meminfo(cluster, name):
    text = cluster.run(["/usr/bin/busybox", "cat", "/proc/meminfo"]).checked().decode()
    return int(next(line for line in text.splitlines() if line.startswith(name)).split()[1])


def test_the_limit_is_shown(pool):
    cluster = pool.get(*SMALL)
    vm = "/proc/sys/vm/overcommit_"
    whole = meminfo(cluster, "CommitLimit")
    assert whole < meminfo(cluster, "MemTotal")
    assert shell(cluster, f"echo 50 >{vm}ratio; cat {vm}kbytes").checked() == b"0\n"
    assert abs(meminfo(cluster, "CommitLimit") - whole // 2) <= 8
    assert shell(cluster, f"echo 20000 >{vm}kbytes; cat {vm}ratio").checked() == b"0\n"
    assert abs(meminfo(cluster, "CommitLimit") - 20000) <= 8
    shell(cluster, f"echo 100 >{vm}ratio").checked()
    assert meminfo(cluster, "CommitLimit") == whole


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


def hungry(programs, *args):
    return [str(programs / "glibc-static/hungry"), *map(str, args)]


class Holder:
    """hungry: has written its memory, and looks at it when it is told to."""

    def __init__(self, cluster, programs, megabytes, adj=0):
        self.program, self.capture = cluster.start(hungry(programs, megabytes, adj, 1))
        deadline = time.monotonic() + 60
        while b"ready\n" not in self.capture.data[1]:
            assert time.monotonic() < deadline and not self.program.over, self.capture.data
            time.sleep(0.01)

    def check(self):
        feed(self.program, b"")
        assert self.program.wait(time.monotonic() + 60)
        assert bytes(self.capture.data[1]) == b"ready\nall there\n", bytes(self.capture.data[2])


FEW_FRAMES = ("--excache", "4M", "--append", "memory:memory.limit=24M")
TWO = ("--memories", "2", "--vregion", "2M", *FEW_FRAMES)


def ended(cluster, programs):
    """One that takes more than there is, launched by itself: how the launcher hears of its end."""
    program, _ = cluster.start(hungry(programs, 1000))
    with pytest.raises(LaunchError) as caught:
        program.wait(time.monotonic() + 60)
    return str(caught.value)


def test_the_worst_program_ends_and_no_other(pool, programs):
    """One takes more than there is: it ends, with a line that says so; the other goes on."""
    cluster = pool.get(*FEW_FRAMES)
    before = cluster.stats()
    other = Holder(cluster, programs, 4)
    assert "has no frame left: hungry (pid" in ended(cluster, programs)
    other.check()
    after = cluster.stats()
    assert delta(before, after, "m0", "relief.ends") == 1
    assert delta(before, after, "p0", "excache.lost") == 0
    assert delta(before, after, "m0", "memory.frames_used") == 0
    assert cluster.run(hungry(programs, 4)).checked() == b"all there\n"


def test_a_shell_goes_on_without_its_worst_child(pool, programs):
    """As on Linux the shell sees SIGKILL; standard error says why."""
    cluster = pool.get(*FEW_FRAMES)
    got = shell(cluster, f"{' '.join(hungry(programs, 1000))}; echo $?; exit 3")
    assert (got.out, got.status) == (b"137\n", 3)
    assert b"has no frame left: hungry (pid" in got.err


def test_the_weight_decides(pool, programs):
    """The large one is spared: the small one that wants the last frames ends."""
    cluster = pool.get(*FEW_FRAMES)
    other = Holder(cluster, programs, 12, adj=-1000)
    assert "has no frame left: hungry (pid" in ended(cluster, programs)
    other.check()


def test_vregions_go_where_there_is_room(pool, programs):
    """All pages belong on one of two nodes, which has not so many frames."""
    cluster = pool.get(*TWO)
    before = cluster.stats()
    assert cluster.run(hungry(programs, 30, 0, 0, 2), limit=120).checked() == b"all there\n"
    after = cluster.stats()
    assert total(after, "relief.moves") > total(before, "relief.moves")
    assert total(after, "relief.ends") == total(before, "relief.ends")
    assert delta(before, after, "p0", "excache.lost") == 0
    assert total(after, "memory.frames_used") == total(before, "memory.frames_used")
