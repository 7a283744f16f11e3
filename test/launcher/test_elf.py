# SPDX-License-Identifier: MIT
"""Which files a program needs: built here with every search rule, and compared with ldd."""

import os
import re
import shutil
import subprocess

import pytest
from tessera_launcher import elf, image
from tessera_launcher.errors import LaunchError

needs_gcc = pytest.mark.skipif(not shutil.which("gcc"), reason="no gcc")
needs_musl = pytest.mark.skipif(not shutil.which("musl-gcc"), reason="no musl-gcc")


def build(cc, source, out, *flags):
    subprocess.run([cc, "-x", "c", "-", "-o", out, *flags], input=source, text=True, check=True)
    return str(out)


def ldd(path):
    text = subprocess.run(["ldd", path], capture_output=True, text=True, check=True).stdout
    return {m[1] for m in re.finditer(r"(/\S+) \(0x", text)}


@pytest.mark.parametrize("program", ["/bin/ls", "/usr/bin/make", "/bin/bash"])
def test_closure_is_what_ldd_finds(program):
    if not os.path.exists(program):
        pytest.skip(f"no {program}")
    real = {os.path.realpath(p) for p in elf.closure(program)}
    assert real == {os.path.realpath(p) for p in ldd(program)}


@needs_gcc
@pytest.mark.parametrize("flags", [["-static"], ["-static-pie"]])
def test_static_needs_nothing(tmp_path, flags):
    assert elf.closure(build("gcc", "int main(){}", tmp_path / "a", *flags)) == []


@needs_gcc
def test_runpath_origin_and_indirect_library(tmp_path):
    (tmp_path / "lib").mkdir()
    inner = build(
        "gcc", "int inner(void){return 1;}", tmp_path / "lib" / "libinner.so", "-shared", "-fPIC"
    )
    outer = build("gcc", "int inner(void);int outer(void){return inner();}",
                  tmp_path / "lib" / "libouter.so", "-shared", "-fPIC", f"-L{tmp_path}/lib",
                  "-linner", "-Wl,--enable-new-dtags,-rpath,$ORIGIN")  # fmt: skip
    prog = build("gcc", "int outer(void);int main(){return outer();}", tmp_path / "prog",
                 f"-L{tmp_path}/lib", "-louter", f"-Wl,-rpath-link,{tmp_path}/lib",
                 "-Wl,--enable-new-dtags,-rpath,${ORIGIN}/lib")  # fmt: skip
    found = elf.closure(prog)
    assert outer in found and inner in found
    os.unlink(inner)
    with pytest.raises(LaunchError, match=r"libouter.so: its library libinner.so is missing"):
        elf.closure(prog)


@needs_gcc
def test_old_rpath_is_inherited(tmp_path):
    (tmp_path / "lib").mkdir()
    inner = build(
        "gcc", "int inner(void){return 1;}", tmp_path / "lib" / "libinner.so", "-shared", "-fPIC"
    )
    build("gcc", "int inner(void);int outer(void){return inner();}",
          tmp_path / "lib" / "libouter.so",
          "-shared", "-fPIC", f"-L{tmp_path}/lib", "-linner")  # fmt: skip
    prog = build("gcc", "int outer(void);int main(){return outer();}", tmp_path / "prog",
                 f"-L{tmp_path}/lib", "-louter", f"-Wl,--disable-new-dtags,-rpath,{tmp_path}/lib")
    assert inner in elf.closure(prog)


@needs_gcc
def test_library_path_of_the_environment(tmp_path):
    build("gcc", "int f(void){return 1;}", tmp_path / "libf.so", "-shared", "-fPIC")
    prog = build(
        "gcc", "int f(void);int main(){return f();}", tmp_path / "prog", f"-L{tmp_path}", "-lf"
    )
    with pytest.raises(LaunchError):
        elf.closure(prog)
    assert str(tmp_path / "libf.so") in elf.closure(prog, [str(tmp_path)])


@needs_musl
def test_musl_program_needs_only_its_loader(tmp_path):
    prog = build("musl-gcc", "int main(){}", tmp_path / "a")
    assert [os.path.basename(p) for p in elf.closure(prog)] == ["ld-musl-x86_64.so.1"]


@needs_gcc
def test_hostile_files_need_nothing(tmp_path):
    good = open(build("gcc", "int main(){}", tmp_path / "a"), "rb").read()
    for i, data in enumerate([b"", b"\x7fELF", good[:100], b"#!/bin/sh\n", bytes(5000)]):
        path = tmp_path / f"bad{i}"
        path.write_bytes(data)
        assert elf.closure(str(path)) == []
    for at in range(0, 64):
        path = tmp_path / "flip"
        path.write_bytes(good[:at] + bytes([good[at] ^ 0xFF]) + good[at + 1 :])
        try:
            elf.closure(str(path))
        except LaunchError:
            pass  # says which file is missing: fine, as long as it is nothing else


def test_cache_reader_takes_any_bytes():
    data = open(elf.LD_SO_CACHE, "rb").read() if os.path.exists(elf.LD_SO_CACHE) else b""
    if data:
        assert os.path.exists(elf.read_ld_so_cache(data)["libc.so.6"])
    for cut in range(0, min(len(data), 4000), 7):
        elf.read_ld_so_cache(data[:cut])
    assert elf.read_ld_so_cache(b"nonsense") == {}


def test_tree_keeps_symbolic_links_of_the_way(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "file").write_text("x")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "real" / "alias").symlink_to("../real/file")
    tree = image.Tree()
    tree.add_host_path(f"{tmp_path}/link/alias")
    assert tree.links == {f"{tmp_path}/link": "real", f"{tmp_path}/real/alias": "../real/file"}
    assert list(tree.files) == [f"{tmp_path}/real/file"]
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(LaunchError, match="too many symbolic links"):
        tree.add_host_path(f"{tmp_path}/loop")


@pytest.mark.skipif(
    not shutil.which("debugfs", path="/usr/sbin:/sbin:/usr/bin"), reason="no debugfs"
)
def test_image_has_the_files_at_their_paths(tmp_path):
    (tmp_path / "vol" / "sub").mkdir(parents=True)
    (tmp_path / "vol" / "sub" / "text").write_text("twelve bytes")
    tree = image.Tree()
    tree.add_program("/bin/ls")
    tree.add_volume(str(tmp_path / "vol"), "/data")
    stage = tmp_path / "stage"
    stage.mkdir()
    tree.stage(str(stage))
    env = dict(os.environ, PATH=os.environ["PATH"] + ":/usr/sbin:/sbin")
    run = lambda argv: subprocess.run(
        argv, check=True, capture_output=True, text=True, env=env
    ).stdout  # noqa: E731
    img = str(tmp_path / "root.img")
    image.make_image("mke2fs", str(stage), img, run)
    assert run(["debugfs", "-R", "cat /data/sub/text", img]) == "twelve bytes"
    assert "directory" in run(["debugfs", "-R", "stat /tmp", img])
    assert "Mode:  01777" in run(["debugfs", "-R", "stat /tmp", img])
    run(["e2fsck", "-fn", img])
    assert re.search(r"Block size: +4096", run(["dumpe2fs", "-h", img]))
    for path in ["/bin/ls", *elf.closure("/bin/ls")]:
        assert "Type: regular" in run(["debugfs", "-R", f"stat {os.path.realpath(path)}", img])
    image.make_image("mke2fs", str(stage), img + ".rw", run, writable=True)
    about = run(["dumpe2fs", "-h", img + ".rw"])
    assert int(re.search(r"Free inodes: +(\d+)", about)[1]) >= 131000
    assert int(re.search(r"Free blocks: +(\d+)", about)[1]) * 4096 >= 2 << 30
    assert os.stat(img + ".rw").st_blocks * 512 < 64 << 20  # the room is a hole
