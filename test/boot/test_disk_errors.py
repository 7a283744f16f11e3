# SPDX-License-Identifier: MIT
"""A disk that refuses writes, by QEMU's blkdebug: each open file is told once, and the file system
is read-only once its journal cannot be written.
"""

import os
import pathlib
import shutil
import subprocess

import pytest
from boot import Running, build_programs
from hand import Hand
from test_disk import check_clean

os.environ["PATH"] += ":/usr/sbin:/sbin"
BLOCK, SECTORS = 4096, 8  # of a block
SIZE = 16 * BLOCK


def refusing_qemu(where: pathlib.Path, image: pathlib.Path, sectors: list[int]):
    """QEMU, but writes to these sectors of disk0 fail, each time."""
    rules = "".join(f",file.inject-error.{i}.event=none,file.inject-error.{i}.iotype=write"
                    f",file.inject-error.{i}.errno=5,file.inject-error.{i}.sector={sector}"
                    for i, sector in enumerate(sectors))  # fmt: skip
    script = where / "qemu"
    script.write_text(
        f"""#!/bin/bash
for word; do
	if [[ $word == if=none,id=disk0,* ]]; then
		word="if=none,id=disk0,driver=raw,cache=writeback,file.driver=blkdebug"
		word+=",file.image.driver=file,file.image.filename={image}{rules}"
	fi
	words+=("$word")
done
exec {shutil.which("qemu-system-x86_64")} "${{words[@]}}"
"""
    )
    script.chmod(0o755)
    return script


def block_of(image: pathlib.Path, file: str, index: int) -> int:
    said = subprocess.run(["debugfs", "-R", f"bmap {file} {index}", image], check=True,
                          capture_output=True, text=True)  # fmt: skip
    return int(said.stdout)


def until_refused(hand: Hand) -> tuple[int, str]:
    """New files, each synced, until one is refused: how many were not, and how it was."""
    for i in range(1000):
        for command in (f"create f{i}", f"fsync f{i}"):
            said = hand.do(command)
            if said != "ok":
                return i, said
    raise AssertionError("the journal never comes to the bad block")


@pytest.mark.long
@pytest.mark.parametrize("driver", ["virtio", "nvme"])
def test_writes_that_are_refused(tmp_path, driver):
    stage, image = tmp_path / "stage", tmp_path / "disk.img"
    (stage / "bin").mkdir(parents=True)
    (stage / "work").mkdir()
    shutil.copy2(build_programs() / "glibc-static" / "hand", stage / "bin" / "hand")
    (stage / "work" / "solid").write_bytes(b"s" * SIZE)
    subprocess.run(["mke2fs", "-q", "-F", "-t", "ext4", "-b", str(BLOCK), "-J", "size=4", "-d",
                    stage, image, "32M"], check=True)  # fmt: skip
    bad = [block_of(image, "/work/solid", 5), block_of(image, "<8>", 300)]
    qemu = refusing_qemu(tmp_path, image, [SECTORS * block for block in bad])
    running = Running(("--disk", str(image), "--disk-driver", driver, "--qemu", str(qemu)), None,
                      f"refused-{driver}").up()  # fmt: skip
    try:
        hand = Hand(running, "/work")
        hand.must("hold solid 0", "hold solid 1", f"write solid 0 {SIZE} 1")
        said = [hand.do(f"keep {slot}") for slot in (0, 0, 1, 1)]
        assert said == ["EIO", "ok", "EIO", "ok"]
        # A file that is opened now has lost nothing; what has other blocks is written.
        hand.must("fsync solid", f"write solid 0 {BLOCK} 2", "keep 0", f"read solid 0 {BLOCK} 2")
        nr, said = until_refused(hand)
        assert nr > 20 and said in ("EIO", "EROFS")
        refused = [hand.do(c) for c in ("create x", "mkdir d", "unlink f0", "rename f1 y")]
        assert refused == ["EROFS"] * 4
        hand.must(f"read solid 0 {BLOCK} 2")  # reading goes on
    finally:
        running.close()
    assert not running.complaints()
    log = (running.log_dir / "s0.log").read_text()
    assert log.count("the file system is read-only from now on") == 1
    subprocess.run(["e2fsck", "-p", image], stdout=subprocess.DEVNULL)
    check_clean(image)
    there = subprocess.run(["debugfs", "-R", f"stat /work/f{nr - 1}", image], capture_output=True,
                           text=True).stdout  # fmt: skip
    assert "Inode:" in there
