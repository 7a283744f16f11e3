# SPDX-License-Identifier: MIT
"""A disk that programs change: what they did is on it when the cluster has ended, and e2fsck and
debugfs, which know nothing of us, see the tree that the same script makes on the host.
"""

import hashlib
import os
import pathlib
import subprocess
from stat import S_IFMT as stat_type

import pytest
from boot import MB, WORK, Running, delta, image, on_host, packages

os.environ["PATH"] += ":/usr/sbin:/sbin"

BUSYBOX = "/usr/bin/busybox"
BIG = 5 * MB + 1234

SCRIPT = r"""
set -e
b=/usr/bin/busybox
cd "$1"
$b mkdir -p dir/deep/deeper empty
echo first > dir/text
echo second >> dir/text
$b seq 1 3000 > dir/numbers
$b ln -s ../dir/text dir/fast
$b ln -s /a/target/that/is/longer/than/sixty/bytes/and/so/needs/a/block/of/its/own/on/the/disk slow
$b ln dir/numbers dir/deep/same
$b mv dir/text dir/deep/moved
echo replaced > victim; echo new > winner; $b mv winner victim
$b chmod 640 dir/deep/moved
$b chmod 1711 empty
echo gone > dir/gone; $b rm dir/gone
$b mkdir dir/gone.d; $b rmdir dir/gone.d
$b dd if=dir/numbers of=synced bs=512 conv=fsync 2> /dev/null
$b cp "$2" big
$b cat big big > twice
$b cp big cut; $b truncate -s 70001 cut
$b truncate -s 3000000 holes; echo end >> holes
i=0; while [ $i -lt 200 ]; do echo "file $i" > dir/deep/deeper/f$i; i=$((i+1)); done
i=0; while [ $i -lt 200 ]; do $b rm dir/deep/deeper/f$i; i=$((i+2)); done
$b sync
$b find . | $b sort
$b find . -type f | $b sort | $b xargs $b md5sum
$b rm twice
"""


def tree_of(root: pathlib.Path) -> dict[str, tuple]:
    """What is below @root: path, type and mode, link count of files, bytes or target."""
    out = {}
    for base, dirs, files in os.walk(root):
        for name in dirs + files:
            path = pathlib.Path(base, name)
            st = path.lstat()
            if path.is_symlink():
                what = os.readlink(path)
            elif path.is_dir():
                what = ""
            else:
                what = f"{st.st_nlink} {hashlib.sha256(path.read_bytes()).hexdigest()}"
            # debugfs does not restore the modes of links
            out[str(path.relative_to(root))] = (what, 0 if path.is_symlink() else st.st_mode)
    return out


def debugfs(disk: pathlib.Path, command: str) -> str:
    return subprocess.run(
        ["debugfs", "-R", command, str(disk)], check=True, capture_output=True, text=True
    ).stdout


def tree_on_disk(disk: pathlib.Path, place: str, out: pathlib.Path) -> dict[str, tuple]:
    """The same of a directory of an image, by debugfs, whose rdump restores no hard links and no
    sticky bits.
    """
    out.mkdir()
    debugfs(disk, f"rdump {place} {out}")
    found = tree_of(out / pathlib.Path(place).name)
    for path, (what, mode) in found.items():
        if not mode:
            continue
        stat = debugfs(disk, f'stat "{place}/{path}"')
        mode = stat_type(mode) | int(stat.split("Mode:")[1].split()[0], 8)
        if what:
            what = f"{stat.split('Links: ')[1].split()[0]} {what.split()[1]}"
        found[path] = (what, mode)
    return found


def check_clean(disk: pathlib.Path) -> None:
    done = subprocess.run(["e2fsck", "-fn", str(disk)], capture_output=True, text=True)
    noise = [
        line for line in done.stdout.splitlines()
        if not line.startswith("Pass ") and "contiguous" not in line
    ]  # fmt: skip
    assert done.returncode == 0 and not noise, done.stdout + done.stderr
    assert "needs_recovery" not in debugfs(disk, "features")


@pytest.fixture
def disk(tmp_path) -> pathlib.Path:
    tree = image.Tree()
    tree.add_program(packages.require("busybox")[0])
    big = tmp_path / "source"
    big.write_bytes(hashlib.shake_256(b"big").digest(BIG))
    tree.files["/data/source"] = str(big)
    stage, disk = tmp_path / "stage", tmp_path / "disk.img"
    stage.mkdir()
    tree.stage(str(stage))
    (stage / "work").mkdir()
    subprocess.run(["mke2fs", "-q", "-F", "-t", "ext4", "-b", "4096", "-m", "0", "-J", "size=4",
                    "-d", str(stage), str(disk), "64M"], check=True)  # fmt: skip
    return disk


@pytest.mark.parametrize("memories", ["1", "2"])
def test_what_is_written_stays(disk, tmp_path, memories):
    WORK.mkdir(parents=True, exist_ok=True)
    there = tmp_path / "work"
    there.mkdir()
    want = on_host(["busybox", "sh", "-c", SCRIPT, "sh", str(there), str(tmp_path / "source")])
    args = ("--disk", str(disk), "--memories", memories)
    cluster = Running(args, None, f"disk-{memories}").up()
    try:
        before = cluster.stats()
        got = cluster.run([BUSYBOX, "sh", "-c", SCRIPT, "sh", "/work", "/data/source"])
        assert (got.status, got.err) == (0, b""), got.err
        assert got.out == want.out
        assert delta(before, cluster.stats(), "s0", "storage.changes") > 300
    finally:
        cluster.close()
    assert not cluster.complaints()
    check_clean(disk)
    assert tree_on_disk(disk, "/work", tmp_path / "dump") == tree_of(there)
    # A second cluster finds it, too, and changes nothing without being told to.
    whole = hashlib.sha256(disk.read_bytes()).hexdigest()
    args = ("--disk", str(disk), "--append", "s0:storage.writable=0")
    cluster = Running(args, None, f"disk-{memories}-again").up()
    try:
        again = cluster.run([BUSYBOX, "cat", "/work/dir/deep/moved"])
        assert again.out == b"first\nsecond\n"
        refused = cluster.run([BUSYBOX, "sh", "-c", "echo x > /work/x"])
        assert refused.status == 1 and b"Read-only file system" in refused.err
    finally:
        cluster.close()
    assert hashlib.sha256(disk.read_bytes()).hexdigest() == whole
