# SPDX-License-Identifier: MIT
"""./tessera cp and fsck: files of images, with hostile names and images."""

import os
import random
import subprocess

import pytest
from conftest import ROOT
from test_disk import lock_as_qemu, make_ext4, make_qcow2

NAMES = ['a"b c', "-x", "$(id)", "back\\slash", "<12>", "!ls", "'", "ü", "#", "a:b", '""',
         "n" * 255]  # fmt: skip


def tessera(*args, **how):
    return subprocess.run([ROOT / "tessera", *map(str, args)], capture_output=True, timeout=60,
                          stdin=subprocess.DEVNULL, **how)  # fmt: skip


def said(*args) -> str:
    """The one line of a failure."""
    done = tessera(*args)
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (125, b"", 1), done
    return done.stderr.decode().removeprefix("tessera: ").removesuffix("\n")


def well(*args) -> None:
    done = tessera(*args)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b""), done


def e2fsck(image) -> int:
    return subprocess.run(["/sbin/e2fsck", "-fn", image], capture_output=True).returncode


@pytest.fixture
def image(tmp_path):
    return make_ext4(tmp_path / "i.img", "8M")


@pytest.fixture
def tree(tmp_path):
    """An image made of a directory of hostile names."""
    top = tmp_path / "top"
    (top / "dir" / "sub").mkdir(parents=True)
    for name in [*NAMES, "line\nbreak"]:
        (top / "dir" / name).write_text(f"in {name}")
    (top / "dir" / "link").symlink_to("/etc/passwd")
    (top / "dir" / "sub" / "run").write_bytes(b"x" * 70000)
    (top / "dir" / "sub" / "run").chmod(0o6755)
    out = tmp_path / "tree.img"
    subprocess.run(["/sbin/mke2fs", "-q", "-t", "ext4", "-d", top, out, "8M"], check=True,
                   capture_output=True)  # fmt: skip
    return out


def test_any_name_goes_in_and_out(image, tmp_path):
    for i, name in enumerate(NAMES):
        (tmp_path / "src").write_bytes(random.Random(i).randbytes(5000 * i))
        (tmp_path / "src").chmod(0o640)
        well("cp", tmp_path / "src", f"{image}:/{name}")
        well("cp", f"{image}:/{name}", tmp_path / "back")
        assert (tmp_path / "back").read_bytes() == (tmp_path / "src").read_bytes()
        assert (tmp_path / "back").stat().st_mode & 0o7777 == 0o640
    assert e2fsck(image) == 0


def test_a_file_of_the_image_is_replaced(image, tmp_path):
    for text in ("old" * 9999, "new"):
        (tmp_path / "f").write_text(text)
        well("cp", tmp_path / "f", f"{image}:/")
    well("cp", f"{image}:/f", tmp_path / "back")
    assert (tmp_path / "back").read_text() == "new" and e2fsck(image) == 0
    listed = subprocess.run(["/sbin/debugfs", "-R", "ls -p /", image], capture_output=True).stdout
    assert b".tessera" not in listed


def test_a_full_image_keeps_the_old_file(image, tmp_path):
    (tmp_path / "f").write_text("old")
    well("cp", tmp_path / "f", f"{image}:/f")
    (tmp_path / "f").write_bytes(os.urandom(9 << 20))
    assert str(image) in said("cp", tmp_path / "f", f"{image}:/f")
    well("cp", f"{image}:/f", tmp_path / "back")
    assert (tmp_path / "back").read_text() == "old" and e2fsck(image) == 0


@pytest.mark.parametrize("qcow2", [False, True])
def test_a_directory_comes_out_over_what_is_there(tree, tmp_path, qcow2):
    if qcow2:
        tree = make_qcow2(tmp_path / "q", tree.read_bytes())
    out, other = tmp_path / "out", tmp_path / "other"
    out.mkdir()
    (out / "mine").write_text("stays")
    other.write_text("not followed")
    (out / "-x").symlink_to(other)
    well("cp", f"{tree}:/dir/", out)
    names = [*NAMES, "line\nbreak", "link", "mine", "sub"]
    assert sorted(os.listdir(out)) == sorted(names)
    assert all((out / n).read_text() == f"in {n}" for n in [*NAMES, "line\nbreak"])
    assert os.readlink(out / "link") == "/etc/passwd" and other.read_text() == "not followed"
    assert (out / "sub" / "run").stat().st_mode & 0o7777 == 0o755  # without its set-id bits
    assert not [n for n in os.listdir(tmp_path) if n.startswith(".tessera")]


def test_refusals_of_cp_are_one_line(tree, tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "d").mkdir()
    assert said("cp", f"{tree}:/none", tmp_path / "x") == f"{tree}:/none: no such file"
    assert "one side" in said("cp", "a", "b")
    assert "one side" in said("cp", f"{tree}:/a", f"{tree}:/b")
    assert "not a regular file" in said("cp", tmp_path / "d", f"{tree}:/d")
    for name in ("line\nbreak", "a\rb", '"' * 2050):  # a line each to debugfs, or none
        assert "are not for debugfs" in said("cp", f"{tree}:/dir/{name}", tmp_path / "x")
        assert "are not for debugfs" in said("cp", tmp_path / "file", f"{tree}:/dir/{name}")
    (tmp_path / "\r").touch()
    assert "are not for debugfs" in said("cp", tmp_path / "\r", f"{tree}:/x")
    assert "cannot be a file" in said("cp", tmp_path / "file", f"{tree}:/none/x")
    assert said("cp", f"{tree}:/dir", tmp_path / "file") == f"{tmp_path}/file: File exists"
    assert "No such file" in said("cp", f"{tree}:/dir", tmp_path / "no" / "where")
    fd = lock_as_qemu(tree, 0, 1, 3)
    assert "is in use" in said("cp", f"{tree}:/dir", tmp_path / "x")
    assert "is in use" in said("fsck", tree)
    os.close(fd)


def test_nothing_comes_out_of_a_hostile_directory(tree, tmp_path):
    """An entry whose name leads elsewhere: debugfs would write there."""
    data = tree.read_bytes()
    assert data.count(b"back\\slash") >= 1
    tree.write_bytes(data.replace(b"back\\slash", b"../../evil"))
    line = said("cp", f"{tree}:/dir", tmp_path / "out")
    assert line == f"{tree} is not clean: see ./tessera fsck"
    assert not (tmp_path / "out").exists() and not (tmp_path / "evil").exists()


def test_fsck_only_looks_unless_it_is_to_repair(tree):
    done = tessera("fsck", tree)
    assert done.returncode == 0 and done.stderr == b"" and b"Pass 5" in done.stdout
    assert str(tree).encode() in done.stdout
    subprocess.run(["/sbin/debugfs", "-w", "-R", "clri /dir/sub", tree], capture_output=True)
    before = tree.read_bytes()
    done = tessera("fsck", tree)
    assert done.returncode == 1 and tree.read_bytes() == before
    assert tessera("fsck", "--repair", tree).returncode == 0
    assert e2fsck(tree) == 0


def test_output_of_a_private_copy(launcher, tmp_path):
    top = tmp_path / "top"
    (top / "res").mkdir(parents=True)
    (top / "res" / "a").write_text("result")
    (tmp_path / "out").write_text("old")
    wanted = ["--output", f"/res:{tmp_path}/res", "--output", f"/res/a:{tmp_path}/out"]
    done = launcher.run("--rootfs", top, "--writable", *wanted, "/bin/sh", "-c", "exit 3")
    assert (done.returncode, done.stderr) == (3, b"")
    assert (tmp_path / "res" / "a").read_text() == (tmp_path / "out").read_text() == "result"
    assert not list(launcher.run_dir.iterdir())


def test_output_of_a_disk_has_what_the_run_wrote(launcher, image, tmp_path):
    """The fake's program runs on the host: it writes the image as a storage node would."""
    write = f"echo new > {tmp_path}/n; /sbin/debugfs -w -R 'write {tmp_path}/n new' {image}"
    done = launcher.run("--disk", image, "--output", f"/new:{tmp_path}/out",
                        "/bin/sh", "-c", f"{write} 2>&-")  # fmt: skip
    assert done.returncode == 0 and (tmp_path / "out").read_text() == "new\n", done


def test_output_that_is_not_there_is_one_line(launcher, image, tmp_path):
    done = launcher.run("--disk", image, "--output", f"/none:{tmp_path}/out", "/bin/true")
    assert done.returncode == 125
    assert done.stderr.decode().splitlines()[1:] == [
        f"tessera: --output: {image}:/none: no such file"]  # fmt: skip
