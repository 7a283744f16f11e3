# SPDX-License-Identifier: MIT
"""Files on disks of several kinds: an NVMe controller, and a partition of a virtio disk. What
programs write is on the disk afterwards; what the disk cannot read is EIO for the program and a
line of the log.
"""

import pathlib
import shutil
import struct
import subprocess
import uuid
import zlib

import pytest
from boot import MB, WORK, Running, on_host
from test_disk import BUSYBOX, SCRIPT, check_clean, debugfs, disk, tree_of, tree_on_disk

__all__ = ["disk"]  # a fixture

LINUX = uuid.UUID("0fc63daf-8483-4772-8e79-3d69d8477de4")
OTHER = uuid.UUID("c12a7328-f81f-11d2-ba4b-00a0c93ec93b")
FIRST = 2 * MB // 512  # sector of the partition


def write_gpt(out: pathlib.Path, root: pathlib.Path) -> None:
    """A disk whose second partition is @root; @root's bytes lie at sector FIRST."""
    sectors = FIRST + root.stat().st_size // 512 + 2048
    last = FIRST + root.stat().st_size // 512 - 1
    entries = bytearray(128 * 128)
    for i, (kind, first, end, label) in enumerate(
        [(OTHER, 2048, FIRST - 1, "boot"), (LINUX, FIRST, last, "tessera")]
    ):
        struct.pack_into("<16s16sQQQ72s", entries, 128 * i, kind.bytes_le, uuid.uuid4().bytes_le,
                         first, end, 0, label.encode("utf-16-le"))  # fmt: skip

    def header(at: int, other: int, table: int) -> bytes:
        def pack(crc: int) -> bytes:
            return struct.pack("<8sIIIIQQQQ16sQIII", b"EFI PART", 0x10000, 92, crc, 0, at, other,
                               34, sectors - 34, uuid.uuid5(LINUX, "x").bytes_le, table, 128, 128,
                               zlib.crc32(entries))  # fmt: skip

        return pack(zlib.crc32(pack(0))).ljust(512, b"\0")

    mbr = bytearray(512)
    mbr[450], mbr[510:512] = 0xEE, b"\x55\xaa"
    with out.open("wb") as f:
        f.write(mbr + header(1, sectors - 1, 2) + entries)
        f.seek(FIRST * 512)
        with root.open("rb") as source:
            shutil.copyfileobj(source, f)
        f.seek((sectors - 33) * 512)
        f.write(entries + header(sectors - 1, 1, sectors - 33))


def failing_qemu(tmp_path: pathlib.Path, sector: int) -> pathlib.Path:
    """QEMU, but the disk0 that it is given cannot read one sector."""
    rules = tmp_path / "rules"
    rules.write_text(f'[inject-error]\nevent = "read_aio"\nerrno = "5"\nsector = "{sector}"\n')
    script = tmp_path / "qemu"
    script.write_text(
        f"""#!/bin/bash
for word; do
	if [[ $word == if=none,id=disk0,* ]]; then
		word=${{word/file=/file=blkdebug:{rules}:}}
	fi
	words+=("$word")
done
exec {shutil.which("qemu-system-x86_64")} "${{words[@]}}"
"""
    )
    script.chmod(0o755)
    return script


# The whole script runs on virtio in test_disk.py; which disk it is matters little to its counts.
FEWER_FILES = SCRIPT.replace("-lt 200 ", "-lt 20 ").replace("-lt 1500 ", "-lt 60 ")


@pytest.mark.parametrize("driver, partition, script", [
    ("nvme", False, FEWER_FILES),
    pytest.param("nvme", False, SCRIPT, marks=pytest.mark.long),
    pytest.param("virtio", True, SCRIPT, marks=pytest.mark.long),
], ids=["nvme", "nvme-whole", "virtio-partition"])  # fmt: skip
def test_files_and_a_bad_sector(disk, tmp_path, driver, partition, script):
    WORK.mkdir(parents=True, exist_ok=True)
    there = tmp_path / "work"
    there.mkdir()
    want = on_host(["busybox", "sh", "-c", script, "sh", str(there), str(tmp_path / "source")])
    bad = tmp_path / "bad"
    bad.write_bytes(b"x" * MB)
    subprocess.run(["debugfs", "-w", "-R", f"write {bad} data/bad", str(disk)], check=True,
                   capture_output=True)  # fmt: skip
    sector = int(debugfs(disk, "bmap data/bad 100")) * 8
    image = disk
    if partition:
        image, sector = tmp_path / "gpt.img", sector + FIRST
        write_gpt(image, disk)
        outside = image.read_bytes()
        outside = outside[: FIRST * 512], outside[FIRST * 512 + disk.stat().st_size :]
    args = ("--disk", str(image), "--disk-driver", driver, "--qemu",
            str(failing_qemu(tmp_path, sector)))  # fmt: skip
    name = "nvme0n1" if driver == "nvme" else "vda"
    cluster = Running(args, None, f"disk-{driver}").up()
    try:
        got = cluster.run([BUSYBOX, "sh", "-c", script, "sh", "/work", "/data/source"])
        assert (got.status, got.err, got.out) == (0, b"", want.out)
        failed = cluster.run([BUSYBOX, "cat", "/data/bad"])
        assert failed.status == 1 and b"Input/output error" in failed.err
        again = cluster.run([BUSYBOX, "md5sum", "/work/big"])
        assert again.status == 0
        log = (cluster.log_dir / "s0.log").read_text(errors="replace")
        assert f"blk: {name}: read of" in log and "failed (-5)" in log
        assert ("vda2 is mounted" in log) == partition
    finally:
        cluster.close()
    if partition:
        whole, end = image.read_bytes(), FIRST * 512 + disk.stat().st_size
        assert (whole[: FIRST * 512], whole[end:]) == outside
        disk.write_bytes(whole[FIRST * 512 : end])
    check_clean(disk)
    assert tree_on_disk(disk, "/work", tmp_path / "dump") == tree_of(there)
