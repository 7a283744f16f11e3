# SPDX-License-Identifier: MIT
"""A storage node by itself: disks of several layouts, refusals, disks that fail or fall silent."""

import errno
import os
import pathlib
import shutil
import subprocess
import zlib

import pytest
from storage_node import StorageNode, plain_disk
from tessera_launcher.frames import Type

from make_tree import make_tree

os.environ["PATH"] += ":/usr/sbin:/sbin"


def tool(*args: str) -> str:
    return subprocess.run(args, check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    root = tmp_path_factory.mktemp("storage") / "tree"
    root.mkdir()
    make_tree(root, big_dir=300, fragments=100)
    return root


@pytest.fixture(scope="module")
def mkimage(tmp_path_factory, tree):
    made = {}

    def make(options: str) -> pathlib.Path:
        if options not in made:
            image = tmp_path_factory.mktemp("image") / "image"
            tool("mke2fs", "-q", "-F", "-d", str(tree), *options.split(), str(image), "64M")
            made[options] = image
        return made[options]

    return make


def regular_files(root):
    for base, _, names in os.walk(root):
        for name in names:
            full = os.path.join(base, name)
            if os.path.isfile(full) and not os.path.islink(full) and os.path.getsize(full):
                yield full, full[len(str(root)) :]


@pytest.mark.parametrize("options", ["-t ext4 -b 4096", "-t ext4 -b 1024", "-t ext2 -b 1024"])
def test_contents(mkimage, tree, options):
    image = mkimage(options)
    with StorageNode("contents", plain_disk(image)) as node:
        node.wait(Type.READY)
        nr = size = 0
        for full, path in regular_files(tree):
            try:
                path.encode("ascii")
            except UnicodeEncodeError:
                continue  # commands are text
            with open(full, "rb") as f:
                data = f.read()
            assert node.debug(f"crc {path}") == f"{zlib.crc32(data):08x} {len(data)}", path
            nr, size = nr + 1, size + len(data)
        stats = node.stats()
        assert nr > 25 and stats["storage.read_bytes"] == size
        assert stats["virtio-blk.errors"] == 0 and stats["storage.corruptions"] == 0
        # Islands and fragments apart, a read of 32 pages is one request.
        assert 0 < stats["storage.disk_reads"] < 4 * nr + 500
        with pytest.raises(OSError) as err:
            node.debug("crc /no/such/file")
        assert err.value.errno == errno.ENOENT


def refused_with(node: StorageNode) -> str:
    node.wait(Type.ERROR)
    return node.lines[-1][1]


def test_not_a_file_system(tmp_path):
    image = tmp_path / "noise"
    image.write_bytes(b"not ext4" * (1 << 17))
    with StorageNode("noise", plain_disk(image)) as node:
        assert refused_with(node) == "vda cannot be mounted: not an ext2, ext3 or ext4 file system"


@pytest.mark.parametrize("change, why", [
    ("feature needs_recovery", "needs_recovery"),
    ("feature encrypt", "unknown feature encrypt"),
])  # fmt: skip
def test_refused_disks(mkimage, tmp_path, change, why):
    image = shutil.copy(mkimage("-t ext4 -b 1024"), tmp_path / "copy")
    tool("debugfs", "-w", "-R", change, str(image))
    before = zlib.crc32(pathlib.Path(image).read_bytes())
    with StorageNode("refused", plain_disk(image)) as node:
        assert why in refused_with(node)
    assert zlib.crc32(pathlib.Path(image).read_bytes()) == before, "a refused disk was written to"


def test_missing_disk():
    with StorageNode("missing", [], "disk=vdb storage.disk_wait=1") as node:
        assert refused_with(node) == "disk=vdb: no such device came up within 1 s"


def test_no_disk():
    with StorageNode("none", []) as node:
        node.wait(Type.READY)
        assert (Type.STATUS, "no disk: this node serves no files") in node.lines
        with pytest.raises(OSError) as err:
            node.debug("crc /etc/passwd")
        assert err.value.errno == errno.ENODEV


@pytest.mark.parametrize("device, counter, name", [
    ("virtio-blk-pci,disable-legacy=on", "virtio-blk.errors", "vda"),
    ("nvme,serial=bad", "nvme.errors", "nvme0n1"),
])  # fmt: skip
def test_a_bad_sector(mkimage, tree, device, counter, name):
    image = mkimage("-t ext4 -b 4096")
    block = int(tool("debugfs", "-R", "bmap /sizes/f300001 20", str(image)))
    disk = ["-blockdev", "driver=raw,node-name=disk0,file.driver=blkdebug,file.image.driver=file,"
            f"file.image.filename={image},file.inject-error.0.event=read_aio,"
            f"file.inject-error.0.errno=5,file.inject-error.0.sector={block * 8}",
            "-device", f"{device},drive=disk0"]  # fmt: skip
    with StorageNode(f"bad-sector-{name}", disk) as node:
        node.wait(Type.READY)
        for _ in range(2):
            with pytest.raises(OSError) as err:
                node.debug("crc /sizes/f300001")
            assert err.value.errno == errno.EIO
        data = (tree / "sizes" / "f65535").read_bytes()
        assert node.debug("crc /sizes/f65535") == f"{zlib.crc32(data):08x} 65535"
        assert node.stats()[counter] >= 2
        lines = [line for line in node.log_text().splitlines() if f"{name}: read of" in line]
        assert lines and all("failed (-5)" in line for line in lines)


def test_a_disk_that_falls_silent(mkimage):
    """Throttled so hard that one request takes longer than the limit: reported, then given up."""
    disk = ["-drive", f"if=none,id=disk0,format=raw,file={mkimage('-t ext4 -b 4096')},"
            "throttling.bps-read=20000,throttling.bps-read-max=400000",
            "-device", "virtio-blk-pci,disable-legacy=on,drive=disk0"]  # fmt: skip
    with StorageNode("silent", disk, "virtio-blk.slow=1 virtio-blk.timeout=3") as node:
        node.wait(Type.READY)
        errors = []
        for _ in range(5):
            try:
                node.debug("crc /sizes/f300001")
            except OSError as err:
                errors.append(err.errno)
        assert errors[0] == errno.ETIMEDOUT
        assert set(errors[1:]) == {errno.EIO}
        assert node.stats()["virtio-blk.errors"] > 0
        log = node.log_text()
        assert "has been waited for" in log and "does not answer: taken out of use" in log


@pytest.mark.long
def test_an_nvme_disk_that_falls_silent(mkimage):
    """Each command takes longer than the limit: aborts, which QEMU does not heed, then resets, then
    EIO for that request. The controller comes back each time.
    """
    disk = ["-drive", f"if=none,id=disk0,format=raw,file={mkimage('-t ext4 -b 4096')},"
            "throttling.bps-read=4000,throttling.bps-read-max=400000",
            "-device", "nvme,serial=silent,drive=disk0"]  # fmt: skip
    with StorageNode("nvme-silent", disk, "nvme.slow=1 nvme.timeout=2") as node:
        node.wait(Type.READY)
        with pytest.raises(OSError) as err:
            while True:
                node.debug("crc /sizes/f300001", limit=120)
        assert err.value.errno == errno.EIO
        stats = node.stats()
        assert stats["nvme.aborts"] >= 3 and stats["nvme.resets"] >= 3 and stats["nvme.errors"] >= 1
        log = node.log_text()
        assert "does not answer: resetting it" in log and "nvme0: is back" in log
        assert "taken out of use" not in log
