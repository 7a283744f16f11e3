# SPDX-License-Identifier: MIT
"""What comes along with a program of the host, and where programs are found in trees."""

import os
import pathlib
import shutil
import subprocess

import pytest
from tessera_launcher import elf, host, image, packing, treepath, users
from tessera_launcher.errors import LaunchError, UsageError
from tessera_launcher.options import parse_run


def script(path: pathlib.Path, text: str) -> str:
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def packed(*programs: str) -> set[str]:
    tree = image.Tree()
    for program in programs:
        tree.add_program(program)
    return {os.path.basename(p) for p in tree.files}


@pytest.mark.parametrize("first, want", [
    ("#!/bin/sh", ["/bin/sh"]), ("#! /bin/sh -e", ["/bin/sh"]),
    ("#!/usr/bin/env sh", ["/usr/bin/env", shutil.which("sh")]),
    ("#!/usr/bin/env -S sh -e", ["/usr/bin/env", shutil.which("sh")]),
    ("echo", []), ("#!", []), ("", []),
])  # fmt: skip
def test_a_scripts_interpreters(tmp_path, first, want):
    assert packing.interpreters(script(tmp_path / "s", f"{first}\necho hi\n")) == want


def test_interpreters_of_interpreters_end(tmp_path):
    one = script(tmp_path / "one", f"#!{tmp_path}/one\n")
    assert packing.interpreters(one) == [one] * packing.SCRIPT_DEPTH


@pytest.mark.parametrize("first", ["#!/nonexistent/x -y", "#!/usr/bin/env no-such-thing"])
def test_a_missing_interpreter_is_named(launcher, tmp_path, first):
    path = script(tmp_path / "s", first + "\n")
    done = launcher.run(path)
    name = "no-such-thing" if "env" in first else "/nonexistent/x"
    said = f"tessera: {path}: its interpreter {name} is missing on this host\n"
    assert (done.returncode, done.stderr.decode()) == (127, said)


def test_a_script_brings_its_interpreter_and_a_shell_the_utilities(launcher, tmp_path):
    path = script(tmp_path / "s", "#!/bin/sh\nls / | wc -l\n")
    side = host.Host(parse_run([path]))
    assert {"sh", "ls", "wc", "s"} <= {os.path.basename(p) for p in side.host_programs()}
    assert os.path.basename(os.path.realpath("/bin/sh")) in packed(path)
    side = host.Host(parse_run(["/bin/true"]))
    assert side.host_programs() == ["/bin/true"]


def compiled(tmp_path, name: str, text: str) -> str:
    source = tmp_path / f"{name}.c"
    source.write_text(text)
    out = tmp_path / name
    subprocess.run(["gcc", "-o", out, source, "-pthread"], check=True)
    return str(out)


@pytest.mark.parametrize("call, header, want", [
    ("pthread_exit(0)", "pthread.h", "libgcc_s.so.1"),
    ('iconv_open("UTF-8", "KOI8-R") == 0', "iconv.h", "KOI8-R.so"),
    ("getpwuid(0) == 0", "pwd.h", "passwd"),
])  # fmt: skip
def test_what_glibc_loads_later(tmp_path, call, header, want):
    text = f"#include <{header}>\nint main(void) {{ return !({call}, 1); }}"
    path = compiled(tmp_path, "p", text)
    assert want in packed(path)
    assert want not in packed(compiled(tmp_path, "q", "int main(void) { return 0; }"))


def test_stdbuf_has_its_library():
    if not shutil.which("stdbuf"):
        pytest.skip("no stdbuf here")
    assert "libstdbuf.so" in packed(shutil.which("stdbuf"))


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "tree"
    for d in ("bin", "usr/local/bin", "etc", "root"):
        (root / d).mkdir(parents=True)
    script(root / "bin" / "here", "#!/bin/interp\n")
    script(root / "bin" / "interp", "x")
    script(root / "bin" / "shim", "#!/bin/nobody\n")
    (root / "usr" / "bin").symlink_to("../bin")
    (root / "etc" / "out").symlink_to("/etc/passwd")
    (root / "etc" / "up").symlink_to("../../../../../../etc/passwd")
    (root / "etc" / "loop").symlink_to("loop")
    (root / "etc" / "passwd").write_text(
        "root:x:0:0:r:/root:/bin/sh\nbroken\njoe:x:7:8::/nowhere:/bin/sh\nbad:x:-1:0::/:\n"
    )
    (root / "etc" / "group").write_text("joe:x:8:\nweb:x:33:joe\n")
    return root


def side_of(tree, *args):
    return host.Host(parse_run(["--rootfs", str(tree), *args, "p"]))


def test_links_of_a_tree_stay_inside(tree):
    inside = f"{tree}/etc/passwd"
    assert treepath.resolve(str(tree), "/etc/out") == inside
    assert treepath.resolve(str(tree), "/etc/up") == inside
    assert treepath.resolve(str(tree), "/../etc/passwd") == inside
    assert treepath.resolve(str(tree), "/etc/loop") is None
    assert treepath.resolve(str(tree), "/etc/none") is None
    assert "joe" in treepath.read(str(tree), "/etc/up") and not treepath.read(str(tree), "/bin")


def test_path_is_searched_inside_a_tree(tree):
    assert side_of(tree).guest_paths("here") == ["/usr/bin/here"]
    assert side_of(tree, "--env", "PATH=/bin").guest_paths("here") == ["/bin/here"]
    assert side_of(tree).guest_paths("bin/here") == ["/bin/here"]
    with pytest.raises(host.ProgramError, match="none: is nowhere in PATH") as err:
        side_of(tree).guest_paths("none")
    assert err.value.status == 127
    with pytest.raises(host.ProgramError, match="its interpreter /bin/nobody is missing in"):
        side_of(tree).guest_paths("/bin/shim")


def test_a_missing_loader_is_named(tree, tmp_path):
    shutil.copy("/bin/true", tree / "bin" / "true")
    interp = elf.read("/bin/true").interp
    with pytest.raises(host.ProgramError, match=f"its interpreter {interp} is missing"):
        side_of(tree).guest_paths("true")


@pytest.mark.parametrize("who, want", [
    ("joe", (7, 8, "/nowhere")), ("joe:web", (7, 33, "/nowhere")), ("7", (7, 8, "/nowhere")),
    ("7:web", (7, 33, "/nowhere")), ("99", (99, 0, None)), ("99:98", (99, 98, None)),
    ("root", (0, 0, "/root")),
])  # fmt: skip
def test_users_by_name_and_number(tree, who, want):
    files = [(tree / "etc" / f).read_text() for f in ("passwd", "group")]
    found = users.find(who, *files)
    assert (found.uid, found.gid, found.home) == want


@pytest.mark.parametrize("who", ["nobody", "joe:nobody", "bad", "broken", "4294967295"])
def test_users_that_are_not_there(tree, who):
    files = [(tree / "etc" / f).read_text() for f in ("passwd", "group")]
    with pytest.raises(LaunchError, match="there is no (user|group) "):
        users.find(who, *files)


@pytest.mark.parametrize("who", ["", ":", "a:", ":b", "a:b:c", "a b", "a\nb"])
def test_what_cannot_be_a_user(who):
    with pytest.raises(UsageError, match="--user wants"):
        parse_run(["--user", who, "p"])


def test_home_can_be_written(launcher, tree):
    assert launcher.run("sh", "-c", "echo $HOME").stdout == b"/tmp\n"
    assert launcher.run("--env", "HOME=/x", "sh", "-c", "echo $HOME").stdout == b"/x\n"
    side = side_of(tree, "--user", "root")
    assert side.user().home is None  # nothing has been planned: the disk is read-only
    side.disk = host.Disk("", writable=True)
    assert side.user().home == "/root"
    assert side_of(tree, "--user", "joe").user() == users.User(7, 8, None)
