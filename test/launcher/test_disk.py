# SPDX-License-Identifier: MIT
"""Images of the user: what is refused, who else uses them, and what is read from qcow2."""

import fcntl
import os
import pathlib
import random
import struct
import subprocess
import zlib

import pytest
from conftest import fakes_of
from tessera_launcher import bootparams, disk, host, plan
from tessera_launcher.errors import LaunchError
from tessera_launcher.options import parse_run

FLOCK = struct.Struct("hhqqi4x")


def make_ext4(path: pathlib.Path, size: str = "2M") -> pathlib.Path:
    subprocess.run(["/sbin/mke2fs", "-q", "-F", "-t", "ext4", path, size], check=True,
                   capture_output=True)  # fmt: skip
    return path


@pytest.fixture
def image(tmp_path):
    return make_ext4(tmp_path / "a b.img")


def lock_as_qemu(path: pathlib.Path, *what: int) -> int:
    """A descriptor with the locks of a QEMU that does so, and lets nobody else do so."""
    fd = os.open(path, os.O_RDWR)
    for byte in what:
        for at in (100 + byte, 200 + byte):
            fcntl.fcntl(fd, fcntl.F_OFD_SETLK, FLOCK.pack(fcntl.F_RDLCK, 0, at, 1, 0))
    return fd


def make_qcow2(path: pathlib.Path, data: bytes, bits: int = 16, compress: bool = False,
               **header) -> pathlib.Path:  # fmt: skip
    """An image of @data by the format's description; clusters of zeroes are left out."""
    cluster = 1 << bits
    count = -(-len(data) // cluster)
    per_table = cluster // 8
    tables = -(-count // per_table)
    body = bytearray(cluster * (2 + tables))
    first = []
    for t in range(tables):
        first.append((2 + t) * cluster | 1 << 63)
    second = [0] * (tables * per_table)
    for i in range(count):
        part = data[i * cluster : (i + 1) * cluster].ljust(cluster, b"\0")
        if not any(part):
            continue
        at = len(body)
        if compress:
            packer = zlib.compressobj(9, zlib.DEFLATED, -12)
            small = packer.compress(part) + packer.flush()
            sectors = (at % 512 + len(small) + 511) // 512 - 1
            second[i] = 1 << 62 | sectors << (62 - (bits - 8)) | at
            body += small
        else:
            second[i] = at | 1 << 63
            body += part
    struct.pack_into(f">{tables}Q", body, cluster, *first)
    struct.pack_into(f">{len(second)}Q", body, 2 * cluster, *second)
    say = {"version": 3, "backing": 0, "crypt": 0, "features": 0, "size": len(data),
           "entries": tables, **header}  # fmt: skip
    struct.pack_into(">4sIQIIQIIQQIIQQQQII", body, 0, b"QFI\xfb", say["version"], say["backing"], 0,
                     bits, say["size"], say["crypt"], say["entries"], cluster, 0, 0, 0, 0,
                     say["features"], 0, 0, 4, 104)  # fmt: skip
    path.write_bytes(body)
    return path


def reader(path: pathlib.Path):
    return disk.Qcow2(os.open(path, os.O_RDONLY), path.name)


def test_an_image_is_changed_in_place_and_that_is_said(launcher, image, tmp_path):
    logs = tmp_path / "logs"
    done = launcher.run("--disk", image, "--log-dir", logs, "/bin/echo", "hello")
    assert done.returncode == 0 and done.stdout == b"hello\n"
    assert done.stderr.decode() == f"tessera: {image} is changed in place\n"
    words = (logs / "s0.argv").read_text().split("\n")
    assert "storage.writable=1" in words[words.index("-append") + 1].split()
    assert f"if=none,id=disk0,format=raw,cache=writeback,readonly=off,file={image}" in words
    assert "storage.writable" not in (logs / "m0.argv").read_text()


def test_it_can_be_read_only(launcher, image, tmp_path):
    image.chmod(0o444)
    done = launcher.run("--disk", image, "--log-dir", tmp_path / "logs",
                        "--append", "s0:storage.writable=0", "/bin/true")  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")
    assert f"readonly=on,file={image}\n" in (tmp_path / "logs" / "s0.argv").read_text()


def test_the_default_is_read_only_and_a_copy_may_be_writable(launcher, tmp_path):
    for args, readonly in (([], "on"), (["--writable"], "off")):
        logs = tmp_path / readonly
        done = launcher.run("--log-dir", logs, *args, "/bin/true")
        assert (done.returncode, done.stderr) == (0, b"")
        text = (logs / "s0.argv").read_text()
        assert f"readonly={readonly},file={launcher.run_dir}" in text
        assert ("storage.writable=1" in text) == (readonly == "off")


def refused(launcher, *args) -> str:
    """The one line; nothing has been started."""
    done = launcher.run(*args, "/bin/true")
    assert done.returncode == 125 and done.stdout == b"" and done.stderr.count(b"\n") == 1, done
    assert fakes_of(launcher.build) == [] and not list(launcher.run_dir.iterdir())
    return done.stderr.decode().removeprefix("tessera: ").removesuffix("\n")


@pytest.mark.parametrize("what, lets_read", [((0, 1, 3), False), ((1,), False), ((0,), True)])
def test_an_image_that_qemu_has_is_refused(image, what, lets_read):
    fd = lock_as_qemu(image, *what)
    with pytest.raises(LaunchError, match="a b.img is in use"):
        disk.Held(str(image), writable=True)
    if lets_read:
        disk.Held(str(image), writable=False).close()
    else:
        with pytest.raises(LaunchError, match="is in use"):
            disk.Held(str(image), writable=False)
    os.close(fd)
    disk.Held(str(image), writable=True).close()


def test_an_image_of_another_cluster_is_refused(launcher, image):
    with disk.Held(str(image), writable=True):
        said = refused(launcher, "--disk", image)
    assert said == f"{image} is in use: by another cluster, QEMU or command"


def test_readers_go_together_and_writers_do_not(image):
    with disk.Held(str(image), writable=False):
        disk.Held(str(image), writable=False).close()
        with pytest.raises(LaunchError, match="is in use"):
            disk.Held(str(image), writable=True)
    with disk.Held(str(image), writable=False, against_qemu=True):
        # QEMU asks whether it could lock the bytes for itself.
        fd = os.open(image, os.O_RDWR)
        asked = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, FLOCK.pack(fcntl.F_WRLCK, 0, 201, 1, 0))
        assert FLOCK.unpack(asked)[0] == fcntl.F_RDLCK
        os.close(fd)


@pytest.mark.parametrize("name, data", [("empty", b""), ("zeroes", bytes(4096)),
                                        ("short", b"\x53\xef" * 500), ("text", b"text\n" * 999)])
def test_what_is_no_ext4_image_is_refused(launcher, tmp_path, name, data):
    path = tmp_path / name
    path.write_bytes(data)
    said = refused(launcher, "--disk", path)
    assert said == f"{path} is not an image of an ext4 file system"
    assert path.read_bytes() == data


def test_what_is_no_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", "/dev/null"):
        with pytest.raises(LaunchError, match="is not a regular file"):
            disk.Held(str(path), writable=True)


def test_an_image_that_cannot_be_written_is_refused(image, monkeypatch):
    def denied(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(disk.os, "open", denied)  # root could
    with pytest.raises(LaunchError, match="a b.img cannot be written: Permission denied$"):
        disk.Held(str(image), writable=True)


def test_a_kernel_that_cannot_write_reads(image, tmp_path):
    known = {"other": bootparams.Param("other", "", bootparams.BOOL, False, 0, 0)}
    side = host.Host(parse_run(["--disk", str(image), "p"]))
    assert not side._choose_disk("/r", known).writable
    assert side._choose_disk("/r", {**known, "storage.writable": known["other"]}).writable
    side = host.Host(parse_run(["--writable", "p"]))
    with pytest.raises(LaunchError, match="cannot write files"):
        side._choose_disk("/r", known)


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("bits, version", [(9, 2), (12, 3), (16, 3)])
def test_qcow2_is_read_as_it_was_written(tmp_path, bits, version, compress):
    dice = random.Random(bits)
    data = b"".join(
        dice.choice([bytes(5000), dice.randbytes(700), b"\xaa" * 70000]) for _ in range(30)
    )
    image = reader(make_qcow2(tmp_path / "q", data, bits, compress, version=version))
    assert image.read(0, len(data) + 5000) == data
    for _ in range(50):
        at, size = dice.randrange(len(data)), dice.randrange(200000)
        assert image.read(at, size) == data[at : at + size]


def test_qcow2_may_be_the_disk(launcher, image, tmp_path):
    path = make_qcow2(tmp_path / "q", image.read_bytes())
    done = launcher.run("--disk", path, "--log-dir", tmp_path / "logs", "/bin/true")
    assert done.returncode == 0
    assert "format=qcow2,cache=writeback,readonly=off" in (
        tmp_path / "logs" / "s0.argv").read_text()  # fmt: skip


@pytest.mark.parametrize("header, text", [
    ({"backing": 104}, "needs another image"), ({"crypt": 1}, "needs a password"),
    ({"features": 4}, "features that are not read: 0x4"), ({"version": 4}, "version 2 or 3"),
    ({"size": 1 << 60}, "damaged"), ({"entries": 1 << 31}, "damaged"), ({}, "not an image of an"),
])  # fmt: skip
def test_qcow2_that_is_refused(launcher, tmp_path, header, text):
    path = make_qcow2(tmp_path / "q", bytes(1 << 20), **header)
    assert text in refused(launcher, "--disk", path)


def test_damaged_qcow2_is_an_error_of_one_line(tmp_path):
    whole = make_qcow2(tmp_path / "q", random.Random(1).randbytes(40000), 9, True).read_bytes()
    dice = random.Random(2)
    bad = tmp_path / "bad"
    for _ in range(400):
        data = bytearray(whole)
        for _ in range(dice.randrange(1, 9)):
            at = dice.choice([dice.randrange(112), dice.randrange(len(data))])
            data[at] = dice.randrange(256)
        bad.write_bytes(data[: dice.choice([len(data), dice.randrange(len(data))])])
        fd = os.open(bad, os.O_RDONLY)
        try:
            disk.Qcow2(fd, "bad").read(dice.randrange(40000), 3000)
        except LaunchError as err:
            assert "\n" not in str(err)
        finally:
            os.close(fd)


def test_the_disk_may_be_nvme(launcher, image, tmp_path):
    for args, device in (([], "virtio-blk-pci,disable-legacy=on"),
                         (["--disk-driver", "virtio"], "virtio-blk-pci,disable-legacy=on"),
                         (["--disk-driver", "nvme"], "nvme,serial=tessera-root")):  # fmt: skip
        done = launcher.run("--dry-run", *args, "--disk", image, "/bin/true")
        assert f"-device {device},drive=disk0" in done.stdout.decode(), done
    assert "floppy" in refused(launcher, "--disk-driver", "floppy", "--disk", image)
    known = {plan.WRITABLE: None}
    with pytest.raises(LaunchError, match="has no driver$"):
        host.Host(parse_run(["--disk-driver", "nvme", "p"]))._choose_disk("/r", known)
    side = host.Host(parse_run(["--disk-driver", "nvme", "p"]))
    assert side._choose_disk("/r", {**known, plan.NVME: None}).driver == "nvme"


def test_a_table_of_partitions_is_for_the_node(image, tmp_path):
    """What lies in them is not looked at here; --output has to, and does not go with it."""
    disk_image = tmp_path / "gpt.img"
    mbr = bytearray(1 << 20)
    mbr[510:512] = b"\x55\xaa"
    for entry in range(4):
        mbr[450:512:16] = bytes(4)
        mbr[450 + 16 * entry] = 0xEE
        disk_image.write_bytes(mbr)
        with disk.Held(str(disk_image), writable=False) as held:
            assert held.require_ext4(partitions=True) == disk.RAW
            with pytest.raises(LaunchError, match="is not an image of an ext4"):
                held.require_ext4()
    mbr[511] = 0
    disk_image.write_bytes(mbr)
    with disk.Held(str(disk_image), writable=False) as held:
        with pytest.raises(LaunchError, match="is not an image of an ext4"):
            held.require_ext4(partitions=True)


def argv(logs: pathlib.Path, node: str) -> list[str]:
    return (logs / f"{node}.argv").read_text().split("\n")


def boot_words(logs: pathlib.Path, node: str) -> list[str]:
    words = argv(logs, node)
    return words[words.index("-append") + 1].split()


def test_each_mount_has_a_storage_node(launcher, image, tmp_path):
    other, third = make_ext4(tmp_path / "other.img"), make_ext4(tmp_path / "third.img")
    third.chmod(0o444)
    logs = tmp_path / "logs"
    done = launcher.run("--disk", image, "--mount", f"/data/={other}", "--mount",
                        f"/srv/x={third}:ro", "--memories", "2", "--log-dir", logs,
                        "/bin/echo", "hello")  # fmt: skip
    assert done.returncode == 0 and done.stdout == b"hello\n"
    assert done.stderr.decode() == (f"tessera: {image} is changed in place\n"
                                    f"tessera: {other} is changed in place\n")  # fmt: skip
    drives = {f"s{i}": next(w for w in argv(logs, f"s{i}") if w.startswith("if=none,id=disk0"))
              for i in range(3)}  # fmt: skip
    assert drives == {
        "s0": f"if=none,id=disk0,format=raw,cache=writeback,readonly=off,file={image}",
        "s1": f"if=none,id=disk0,format=raw,cache=writeback,readonly=off,file={other}",
        "s2": f"if=none,id=disk0,format=raw,cache=writeback,readonly=on,file={third}",
    }
    assert "mounts=/data:5,/srv/x:6" in boot_words(logs, "p0")
    assert "node=5" in boot_words(logs, "s1") and "storage.writable=1" in boot_words(logs, "s1")
    assert "cluster=p1,m2,s3" in boot_words(logs, "s0")
    assert "storage.writable=1" not in boot_words(logs, "s2")
    assert not any(w.startswith(("cluster=", "mounts=")) for w in boot_words(logs, "s1"))


def test_one_image_is_one_disk(launcher, image, tmp_path):
    other, link = make_ext4(tmp_path / "other.img"), tmp_path / "link.img"
    link.symlink_to(image)
    said = refused(launcher, "--disk", image, "--mount", f"/data={link}")
    assert said == f"{link} is one disk: for --disk or --mount /data"
    said = refused(launcher, "--mount", f"/a={other}:ro", "--mount", f"/b={other}:ro")
    assert said == f"{other} is one disk: for --mount /a or --mount /b"


def test_an_image_to_be_mounted_is_looked_at(launcher, image, tmp_path):
    other = make_ext4(tmp_path / "other.img")
    with disk.Held(str(other), writable=False):
        said = refused(launcher, "--disk", image, "--mount", f"/data={other}")
    assert said == f"{other} is in use: by another cluster, QEMU or command"
    other.write_bytes(bytes(4096))
    said = refused(launcher, "--mount", f"/data={other}")
    assert said == f"{other} is not an image of an ext4 file system"


def test_the_first_node_of_an_image_excludes_the_mount_of_another_command(launcher, image):
    with disk.Held(str(image), writable=True):
        said = refused(launcher, "--mount", f"/data={image}:ro")
    assert said == f"{image} is in use: by another cluster, QEMU or command"
