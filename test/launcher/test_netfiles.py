# SPDX-License-Identifier: MIT
"""/etc/hosts, hostname and resolv.conf of trees: what they say, and that the tree keeps its own."""

import base64
import os
import subprocess

import pytest
from tessera_launcher import cache, disk, host, layer, netfiles
from tessera_launcher.errors import LaunchError
from tessera_launcher.ext4files import MAX_SMALL, Files, Plain
from tessera_launcher.options import parse_run

HOST = """\
# comment
nameserver 127.0.0.53
nameserver 192.0.2.7
nameserver fe80::1%eth0
nameserver 2001:db8::35
nameserver nonsense
nameserver 192.0.2.8
nameserver 192.0.2.9
search old.example
search corp.example lab-1.example. bad;name $(x)
"""


@pytest.mark.parametrize("net, resolv, want", [
    ("none", HOST, "# no network (--net)\n"),
    ("user", "", "nameserver 10.0.2.3\n"),
    ("user", HOST, "nameserver 10.0.2.3\nsearch corp.example lab-1.example.\n"),
    ("user", "domain one.example\n", "nameserver 10.0.2.3\nsearch one.example\n"),
    ("user", "search " + "a" * 64 + "\n", "nameserver 10.0.2.3\n"),
    ("tap:t0", HOST, "nameserver 192.0.2.7\nnameserver 2001:db8::35\nnameserver 192.0.2.8\n"
                     "search corp.example lab-1.example.\n"),
    ("tap:t0", "nameserver 127.0.0.1\nnameserver\n",
     "# every name server of the host is its own, which the cluster does not reach\n"),
])  # fmt: skip
def test_the_resolver(net, resolv, want):
    assert netfiles.resolver(net, resolv) == want


def test_the_names():
    texts = netfiles.contents("none", "")
    assert texts["/etc/hostname"] == "tessera\n"
    assert [line.split() for line in texts["/etc/hosts"].splitlines()][::4] == [
        ["127.0.0.1", "localhost"], ["127.0.1.1", "tessera"]
    ]  # fmt: skip
    assert netfiles.digest(texts) != netfiles.digest(netfiles.contents("user", ""))


@pytest.mark.parametrize("kept, want", [
    ("10.9.9.9 db.corp # tessera\n", "10.9.9.9 db.corp # tessera\n127.0.1.1\ttessera\n"),
    ("10.9.9.9 d\udcff", "10.9.9.9 d\udcff\n127.0.1.1\ttessera\n"),
    ("127.0.1.1 box tessera\n", "127.0.1.1 box tessera\n"),
])  # fmt: skip
def test_packed_programs_keep_the_hosts_names(kept, want):
    assert netfiles.contents("user", "", kept)["/etc/hosts"] == want


def test_the_root_of_a_packed_program(tmp_path, monkeypatch):
    own = tmp_path / "hosts"
    own.write_bytes(b"10.9.9.9 db.corp \xff\n")
    monkeypatch.setattr(netfiles, "HOST_HOSTS", str(own))
    side = host.Host(parse_run(["/bin/sh"]))
    (tmp_path / "root").mkdir()
    side._tree().stage(str(tmp_path / "root"))
    etc = tmp_path / "root" / "etc"
    assert (etc / "hosts").read_bytes() == b"10.9.9.9 db.corp \xff\n127.0.1.1\ttessera\n"
    assert (etc / "hostname").read_text() == "tessera\n"


@pytest.fixture
def image(tmp_path):
    """An ext4 image of a tree: a function that makes it and gives its open Files."""
    opened = []

    def make(tree) -> Files:
        path = tmp_path / "image"
        subprocess.run(["mke2fs", "-q", "-F", "-t", "ext4", "-b", "4096", "-d", tree, path, "8M"],
                       check=True)  # fmt: skip
        opened.append(open(path, "rb+"))
        return Files(Plain(opened[-1].fileno(), str(path)))

    yield make
    for f in opened:
        f.close()


def test_a_trees_own_files_come_back(image, tmp_path):
    etc = tmp_path / "tree" / "etc"
    etc.mkdir(parents=True)
    (etc / "hosts").write_bytes(b"10.1.1.1 stale\n\xff")
    (etc / "hosts").chmod(0o640)
    (etc / "resolv.conf").symlink_to("../run/systemd/resolve/stub-resolv.conf")
    files = image(etc.parent)
    owner = files.take("/etc/hosts")["owner"]
    texts = netfiles.contents("user", "")
    before = netfiles.supply(files, texts)
    assert {p: files.read(p) for p in texts} == texts
    assert [files.kind(p) for p in texts] == ["regular"] * 3
    assert files.take("/etc/hosts")["mode"] == 0o644
    # Programs have changed one, and removed one.
    files.put("/etc/hosts", b"theirs\n", 0o600, (5, 6))
    files.remove("/etc/resolv.conf")
    netfiles.restore(files, before)
    assert files.take("/etc/hosts") == {
        "data": b"10.1.1.1 stale\n\xff", "mode": 0o640, "owner": owner,
    }  # fmt: skip
    assert files.take("/etc/resolv.conf")["link"] == "../run/systemd/resolve/stub-resolv.conf"
    assert files.kind("/etc/hostname") is None
    assert files.check("-n")[0] == 0


def test_a_tree_without_etc_gets_one_and_what_is_no_file_stays(image, tmp_path):
    tree = tmp_path / "tree"
    tree.mkdir()
    texts = netfiles.contents("none", "")
    assert netfiles.supply(image(tree), texts) == dict.fromkeys(sorted(texts))
    (tree / "etc" / "hosts").mkdir(parents=True)
    files = image(tree)
    assert "/etc/hosts" not in netfiles.supply(files, texts)
    assert files.kind("/etc/hosts") == "directory" and files.read("/etc/hostname") == "tessera\n"
    (tree / "etc" / "hosts").rmdir()
    (tree / "etc").rmdir()
    (tree / "etc").write_text("a file")
    assert netfiles.supply(image(tree), texts) == {}


@pytest.mark.parametrize("between", ["\n", "\r", "\n\n"])
def test_a_links_target_is_no_command_of_debugfs(image, tmp_path, between):
    """A line of the target would be one, and `!` is a shell."""
    tree, ran = tmp_path / "tree", tmp_path / "ran"
    (tree / "etc").mkdir(parents=True)
    target = f"a{between}!touch {ran} #"
    (tree / "etc" / "hosts").symlink_to(target)
    (tree / "etc" / "hostname").symlink_to('"' * 2100)  # 4.2 kB, once its quotes are doubled
    (tree / "etc" / "resolv.conf").symlink_to('"' * 1900)
    files = image(tree)
    texts = netfiles.contents("none", "")
    before = netfiles.supply(files, texts)
    with pytest.raises(LaunchError) as said:
        files.put_link("/etc/hosts", target, (0, 0))
    assert not ran.exists() and "line breaks" in str(said.value)
    with pytest.raises(LaunchError, match="line breaks"):
        files.put(f"/etc/{target}", b"", 0o644, (0, 0))
    assert before.keys() == {"/etc/resolv.conf"}
    assert [files.kind(p) for p in sorted(texts)] == ["symlink", "symlink", "regular"]
    netfiles.restore(files, before)
    assert files.take("/etc/resolv.conf")["link"] == '"' * 1900
    assert files.check("-n")[0] == 0 and not ran.exists()


def test_large_files_stay_in_their_image(image, tmp_path):
    """A tree's own may be sparse, and of any size; here they are at the bound, and above it."""
    tree = tmp_path / "tree"
    (tree / "etc").mkdir(parents=True)
    sizes = {"hosts": MAX_SMALL + 1, "hostname": MAX_SMALL, "passwd": MAX_SMALL + 1}
    for name, size in sizes.items():
        (tree / "etc" / name).touch()
        os.truncate(tree / "etc" / name, size)
    files = image(tree)
    texts = netfiles.contents("none", "")
    before = netfiles.supply(files, texts)
    assert before.keys() == {"/etc/hostname", "/etc/resolv.conf"}
    assert files.take("/etc/hosts") is None and files.kind("/etc/hosts") == "regular"
    assert files.read("/etc/hostname") == "tessera\n"
    netfiles.restore(files, before)
    assert files.read("/etc/hostname") == "\0" * MAX_SMALL
    with pytest.raises(LaunchError, match="/etc/passwd is larger than 1 MiB"):
        files.read("/etc/passwd")
    assert files.check("-n")[0] == 0


OLD = {"data": base64.b64encode(b"old").decode(), "mode": 0o644, "owner": [0, 0]}
REMEMBERED = {"/etc/hostname": None, "/etc/hosts": OLD,
              "/etc/resolv.conf": {"link": "../x", "owner": [0, 0]}}  # fmt: skip


@pytest.mark.parametrize("etc", ["nothing", "file", "link"])
def test_nothing_comes_back_into_what_is_no_directory(image, tmp_path, etc):
    tree = tmp_path / "tree"
    (tree / "other").mkdir(parents=True)
    if etc == "file":
        (tree / "etc").write_text("theirs")
    elif etc == "link":
        (tree / "etc").symlink_to("other")
    files = image(tree)
    assert netfiles.restore(files, REMEMBERED) == [
        f"{p}: /etc is no directory any more" for p in ("/etc/hosts", "/etc/resolv.conf")]
    assert [files.kind(p) for p in ("/hosts", "/resolv.conf", "/other/hosts")] == [None] * 3
    assert files.check("-n")[0] == 0


def test_what_can_come_back_does(image, tmp_path):
    """One name has become a directory, and one has a document that makes no sense here."""
    tree = tmp_path / "tree"
    (tree / "etc" / "hosts").mkdir(parents=True)
    files = image(tree)
    bad = {"link": "a\nb", "owner": [0, 0]}
    first, second = netfiles.restore(files, REMEMBERED | {"/etc/hostname": bad})
    assert first.startswith("/etc/hostname: ") and "line breaks" in first
    assert second == "/etc/hosts: has become something else"
    assert files.take("/etc/resolv.conf")["link"] == "../x"
    assert files.kind("/etc/hosts") == "directory"


def test_a_commit_gets_its_name_whatever_has_become_of_etc(image, tmp_path):
    """The programs have removed /etc; the rest of their work is in the image."""
    tree, new = tmp_path / "tree", tmp_path / "new.img"
    tree.mkdir()
    (tree / "work").write_text("done")
    image(tree)
    layer.create(str(tmp_path / "layer"), str(tmp_path / "image"))
    run = host.Host(parse_run(["--rootfs", str(tree), "--commit", str(new), "p"]))
    with open(tmp_path / "image", "rb") as base:
        run.base = cache.Entry("", base.name, {"net": REMEMBERED}, base.fileno())
        with disk.Held(str(tmp_path / "layer"), writable=True) as run.held:
            run.disk = disk.Disk(run.held.path, disk.QCOW2, writable=True)
            with pytest.raises(LaunchError) as said:
                run.bring_out()
    why = "/etc is no directory any more"
    assert str(said.value) == (
        f"--commit: {new} is made, but /etc/hosts: {why}; /etc/resolv.conf: {why}"
    )
    with disk.Held(str(new), writable=False) as held, Files(held) as files:
        assert files.read("/work") == "done" and files.check("-n")[0] == 0


def test_a_commit_whose_name_was_taken_is_kept(image, tmp_path):
    """Under the name that the message has; the other file is left alone."""
    tree, new = tmp_path / "tree", tmp_path / "new.img"
    tree.mkdir()
    (tree / "work").write_text("done")
    image(tree)
    run = host.Host(parse_run(["--rootfs", str(tree), "--commit", str(new), "p"]))
    new.write_text("theirs")
    with disk.Held(str(tmp_path / "image"), writable=True) as run.held:
        with pytest.raises(LaunchError) as said:
            run.bring_out()
    kept = next(tmp_path.glob(".tessera-*"))
    assert str(said.value) == f"--commit: {new}: File exists; the image is {kept}"
    assert new.read_text() == "theirs"
    with disk.Held(str(kept), writable=False) as held, Files(held) as files:
        assert files.read("/work") == "done"


@pytest.mark.parametrize("option, guest, left", [
    ("--volume", "/etc//hosts", {"hostname", "resolv.conf"}),
    ("--volume", "//etc/./x/../hosts", {"hostname", "resolv.conf"}),
    ("--volume", "/etc/hosts.d", {"hosts", "hostname", "resolv.conf"}),
    ("--volume", "/", set()), ("--rw", "/./etc", set()),
    ("--rw", "/etc/hosts/", {"hostname", "resolv.conf"}),
])  # fmt: skip
def test_names_that_volumes_bring_are_theirs(tmp_path, option, guest, left):
    o = parse_run(["--rootfs", str(tmp_path), option, f"{tmp_path}:{guest}", "p"])
    assert host.Host(o)._net_files().keys() == {f"/etc/{name}" for name in left}


def test_places_that_volumes_bring_are_theirs(image, tmp_path):
    """Links are followed in the image; those that lead nowhere, or on and on, are replaced."""
    tree = tmp_path / "tree"
    for name in ("etc", "run/stub"):
        (tree / name).mkdir(parents=True)
    (tree / "other").symlink_to("etc")
    (tree / "etc" / "hosts").write_text("a volume's")
    (tree / "run" / "stub" / "file").write_text("a volume's")
    (tree / "etc" / "resolv.conf").symlink_to("../../run/stub/../stub/file")
    (tree / "etc" / "hostname").symlink_to("hostname")
    (tree / "loop").symlink_to("./" * 1000 + "run/../" * 200 + "loop")
    files = image(tree)
    assert files.resolve("/other/resolv.conf") == "/run/stub/file"
    places = {"/": "/", "/etc/hostname": None, "/loop": None, "/etc/hosts/x": None,
              "/run/a\nb": None, "/run/none/../stub": None}  # fmt: skip
    assert {p: files.resolve(p) for p in places} == places
    texts = netfiles.contents("none", "")
    brought = ["/other/hosts", "/run/./stub", "/run/a\nb", "/loop"]
    assert netfiles.supply(files, texts, brought).keys() == {"/etc/hostname"}
    assert files.read("/etc/hosts") == files.read("/run/stub/file") == "a volume's"
    assert files.kind("/etc/resolv.conf") == "symlink"
    assert netfiles.supply(files, texts, ["/run/stub/other"]).keys() == texts.keys()
