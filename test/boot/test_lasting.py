# SPDX-License-Identifier: MIT
"""A storage node that dies under programs which change its disk, and comes again: they wait, and
find each change done once.
"""

import subprocess
import time

import pytest
from boot import Running, build_programs, delta, image, on_host, packages, wait_for
from test_disk import check_clean

BUSYBOX = packages.require("busybox")[0]
LIMIT_S = 300.0


@pytest.fixture
def disk(tmp_path):
    program = build_programs() / "glibc-static" / "lasting"
    tree = image.Tree()
    tree.add_program(BUSYBOX)
    tree.files["/bin/lasting"] = str(program)
    stage, disk = tmp_path / "stage", tmp_path / "disk.img"
    stage.mkdir()
    tree.stage(str(stage))
    for name in ("data", "work", "other"):
        (stage / name).mkdir()
    subprocess.run(["mke2fs", "-q", "-F", "-t", "ext4", "-b", "4096", "-m", "0", "-J", "size=4",
                    "-d", str(stage), str(disk), "64M"], check=True)  # fmt: skip
    return disk


def up(disk, name: str, *more: str) -> Running:
    args = ("--disk", str(disk), "--append", "cluster.heartbeat_ms=500",
            "--append", "s0:storage.stable=1", *more)  # fmt: skip
    return Running(args, None, name, stays=True).up()


def kill_storage(running: Running) -> None:
    running.cluster.kill_node("s0")
    wait_for(lambda: running.cluster.state("s0") != "up", 10)


def kill_under(running: Running, rounds: int, kills: int) -> int:
    """A program of so many rounds, under which storage dies; how often it did."""
    program, capture = running.start(["/bin/lasting", "/work", str(rounds)])
    lines = lambda: capture.data[1].count(b"\n")  # noqa: E731
    done = 0
    while done < kills and not program.over:
        seen = lines()
        wait_for(lambda seen=seen: lines() > seen or program.over, LIMIT_S)
        if program.over:
            break
        kill_storage(running)
        running.cluster.restart("s0")
        done += 1
    assert program.wait(time.monotonic() + LIMIT_S), capture.data
    out = bytes(capture.data[1])
    assert program.exit.status == 0, out[-300:]
    assert out == b"".join(b"round %d\n" % i for i in range(rounds)) + b"done\n"
    return done


@pytest.mark.long
def test_storage_dies_between_commit_and_answer(disk, tmp_path):
    """Each life of the storage node ends when its seventh change is on the disk, unanswered."""
    running = up(disk, "commits", "--memories", "2", "--append", "s0:storage.die_after=7")
    rounds = 120
    try:
        program, capture = running.start(["/bin/lasting", "/work", str(rounds)])
        end, deaths = time.monotonic() + 6 * LIMIT_S, 0
        while not program.over:
            wait_for(lambda: program.over or running.cluster.state("s0") != "up", LIMIT_S)
            if running.cluster.state("s0") != "up":
                running.cluster.restart("s0")
                deaths += 1
            assert time.monotonic() < end
        out = bytes(capture.data[1])
        assert program.exit.status == 0, out[-300:]
        assert out == b"".join(b"round %d\n" % i for i in range(rounds)) + b"done\n"
        print(f"{deaths} deaths between commit and answer survived")
        assert deaths >= 100
        again = sum(p.read_text().count("storage.die_after: the power goes")
                    for p in running.log_dir.glob("s0*.log"))  # fmt: skip
        assert again == deaths
    finally:
        running.close()
    assert not running.complaints()
    check_clean(disk)


@pytest.mark.parametrize("rounds, kills", [(12, 2), pytest.param(400, 100, marks=pytest.mark.long)])
def test_storage_dies_and_comes_again(disk, tmp_path, rounds, kills):
    running = up(disk, f"dies-{kills}", "--memories", "2")
    try:
        survived = kill_under(running, rounds, kills)
        print(f"{survived} kills survived")
        assert survived == kills
        here = tmp_path / "here"
        here.mkdir()
        there = on_host([build_programs() / "glibc-static" / "lasting", str(here), str(rounds)])
        assert there.status == 0
        names = running.run([BUSYBOX, "ls", "/work"]).checked().split()
        assert sorted(names) == sorted(p.name.encode() for p in here.iterdir())
    finally:
        running.close()
    assert not running.complaints()
    check_clean(disk)
