# SPDX-License-Identifier: MIT
"""Random work on a disk beside models: one file beside its bytes (fsx.c), a tree beside the host's
(treework.c), and files that sixteen programs on two processors share (shares.c).
"""

import pathlib
import shutil
import subprocess
import time

import pytest
from boot import MB, Running, build_programs, on_host
from test_disk import check_clean, tree_of, tree_on_disk

PROGRAMS = ("fsx", "treework", "shares", "fulldisk")
SHAPES = {
    "4k": "-t ext4 -b 4096 -J size=4",
    "1k": "-t ext4 -b 1024 -J size=4",
    "inline": "-t ext4 -b 4096 -O inline_data -J size=4",
}


@pytest.fixture
def make_disk(tmp_path):
    def make(options: str, name: str = "disk") -> pathlib.Path:
        stage, disk = tmp_path / f"{name}.d", tmp_path / f"{name}.img"
        (stage / "bin").mkdir(parents=True)
        for program in PROGRAMS:
            shutil.copy2(build_programs() / "glibc-static" / program, stage / "bin" / program)
        for place in ("work", "data", "full"):
            (stage / place).mkdir()
        subprocess.run(["mke2fs", "-q", "-F", "-m", "0", "-d", stage, *options.split(), disk,
                        "128M"], check=True)  # fmt: skip
        return disk

    return make


def run_all(running: Running, argvs: list[tuple[str, list[str]]], limit: float) -> None:
    """All at once, each on its node; each says that all is right."""
    started = [(argv, *running.start(argv, cwd="/", node=node)) for node, argv in argvs]
    end = time.monotonic() + limit
    for argv, program, capture in started:
        assert program.wait(end), f"{argv}: no end within {limit:g} s"
        said = bytes(capture.data[1]), bytes(capture.data[2])[-2000:]
        assert (program.exit.status, said[0]) == (0, b"all right\n"), f"{argv}: {said}"


FULL = "/bin/fulldisk"


def small_disk(where: pathlib.Path) -> pathlib.Path:
    """A disk that any user may fill, but for a tenth."""
    disk = where / "small.img"
    subprocess.run(["mke2fs", "-q", "-F", "-t", "ext4", "-b", "1024", "-J", "size=1", "-m", "10",
                    "-N", "256", disk, "12M"], check=True)  # fmt: skip
    subprocess.run(["debugfs", "-w", "-R", "sif / mode 040777", disk], check=True,
                   capture_output=True)  # fmt: skip
    return disk


def fill(running: Running, *argvs: tuple[str, str, str, str]) -> dict[str, int]:
    """Fill files of the small disk at the same time, (node, name, user, how): their sizes."""
    started = []
    for node, name, user, how in argvs:
        path = f"/full/{name}"
        words = ["store", path, user] if how == "store" else ["fill", path, user, how]
        started.append((name, *running.start([FULL, *words], cwd="/", node=node)))
    end, sizes = time.monotonic() + 300, {}
    for name, program, capture in started:
        assert program.wait(end), f"{name} is never full"
        said = bytes(capture.data[1]), bytes(capture.data[2])[-2000:]
        assert program.exit.status == 0 and not said[1], f"{name}: {said}"
        sizes[name] = int(said[0])
    return sizes


def fill_all(running: Running) -> dict[str, int]:
    """Two users at once, then root, then users again when there is room: what is there then."""
    sizes = fill(running, ("p0", "a", "1000", "write"), ("p1", "b", "1001", "append"))
    # mke2fs takes 1.6 MB, and a tenth is root's
    assert 8 * MB < sum(sizes.values()) < 10 * MB
    sizes |= fill(running, ("p1", "c", "0", "odd"))
    assert sizes["c"] > MB
    assert fill(running, ("p0", "d", "1000", "write")) == {"d": 0}
    for name, size in sizes.items():
        run_all(running, [("p0", [FULL, "check", f"/full/{name}", str(size)])], 60)
    assert running.run([FULL, "remove", "/full/a"], cwd="/").status == 0
    freed = sizes.pop("a")
    sizes |= fill(running, ("p1", "e", "1000", "append"), ("p0", "f", "1000", "store"))
    # The blocks that root has beyond a tenth come off.
    assert freed - 2 * MB < sizes["e"] + sizes["f"] <= freed
    return sizes


def test_a_tree_and_a_file(make_disk, tmp_path):
    """Each answer is Linux's, and so is the tree on the disk; a full disk loses nothing."""
    seed, changes = 1, 800
    disk, small = make_disk(SHAPES["4k"]), small_disk(tmp_path)
    here = tmp_path / "here"
    here.mkdir()
    program = build_programs() / "glibc-static" / "treework"
    names = build_programs() / "glibc-static" / "fulldisk"
    want = on_host([program, here, str(seed), str(changes)])
    assert want.status == 0, want.err
    running = Running(("--disk", str(disk), "--mount", f"/full={small}", "--processors", "2",
                       "--memories", "2"), None, "models").up()  # fmt: skip
    try:
        got = running.run(["/bin/treework", "/work", str(seed), str(changes)], limit=3000,
                          cwd="/")  # fmt: skip
        assert (got.status, got.err) == (0, b"") and got.out == want.out, got.out[-200:]
        run_all(running, [("p0", ["/bin/fsx", "/data/fsx", str(seed), "150", "0"])], 300)
        got = running.run([FULL, "names", "/work"], cwd="/")
        assert (got.status, got.out) == (0, on_host([names, "names", here]).out), got
        free = subprocess.run(["dumpe2fs", "-h", small], capture_output=True, text=True).stdout
        got = running.run([FULL, "inodes", "/full"], cwd="/")
        assert (got.status, got.err) == (0, b""), got.err
        assert f"Free inodes: {int(got.out)} " in " ".join(free.split())
        sizes = fill_all(running)
    finally:
        running.close()
    assert not running.complaints()
    check_clean(disk)
    check_clean(small)
    for name, size in sizes.items():
        subprocess.run(["debugfs", "-R", f"dump {name} {tmp_path / name}", small], check=True,
                       capture_output=True)  # fmt: skip
        there = on_host([build_programs() / "glibc-static/fulldisk", "check", tmp_path / name,
                         str(size)])  # fmt: skip
        assert there.out == b"all right\n", there.err
    assert tree_on_disk(disk, "/work", tmp_path / "dump") == tree_of(here)


@pytest.mark.long
@pytest.mark.parametrize("shape", SHAPES)
def test_a_file_for_long(make_disk, shape):
    """An hour in all; the cache of stores into mappings is small."""
    disk = make_disk(SHAPES[shape])
    more = ("--memories", "2", "--append", "p0:excache.file_dirty=1m")
    running = Running(("--disk", str(disk), *more), None, f"fsx-{shape}").up()
    seed = int(time.time())
    try:
        run_all(running, [("p0", ["/bin/fsx", f"/data/fsx{i}", str(seed + i), "1000000000",
                                  "1200"]) for i in range(2)], 3000)  # fmt: skip
    finally:
        running.close()
    assert not running.complaints()
    check_clean(disk)


@pytest.mark.parametrize("each, seconds", [
    pytest.param(2, 20, marks=pytest.mark.long), pytest.param(8, 600, marks=pytest.mark.long)
])  # fmt: skip
def test_files_that_programs_share(make_disk, each, seconds):
    """Two processors, two memory nodes, two storage nodes; half of the files are on each disk."""
    disk, second = make_disk(SHAPES["4k"]), make_disk(SHAPES["1k"], "second")
    running = Running(("--disk", str(disk), "--mount", f"/data={second}", "--processors", "2",
                       "--memories", "2"), None, f"shares-{each}").up()  # fmt: skip
    nr = 2 * each
    try:
        run_all(running, [(f"p{i % 2}", ["/bin/shares", "/work", "/data/work", str(i), str(nr),
                                         str(seconds)]) for i in range(nr)], seconds + 900)
        for node in ("p0", "p1"):
            run_all(running, [(node, ["/bin/shares", "/work", "/data/work", "check", str(nr),
                                      "0"])], 300)  # fmt: skip
    finally:
        running.close()
    assert not running.complaints()
    check_clean(disk)
    check_clean(second)
