# SPDX-License-Identifier: MIT
"""Private layers over images that are kept: what is reused, what goes, and what comes back."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest
from conftest import ROOT, fakes_of
from tessera_launcher import cache, disk, giveback, layer
from tessera_launcher.errors import LaunchError, UsageError
from tessera_launcher.ext4files import Files, Plain
from tessera_launcher.options import parse_run

KEY, KEY2, KEY3 = "a" * 64, "b" * 64, "c" * 64


@pytest.fixture(autouse=True)
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("TESSERA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "images"


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "tree"
    (root / "bin").mkdir(parents=True)
    (root / "bin" / "prog").write_text("#!/bin/sh\n")
    (root / "etc").mkdir()
    (root / "bin" / "true").write_text("the host's own runs instead\n")
    (root / "bin" / "link").symlink_to("x")
    return root


def made(size: int = 1 << 20, about: dict | None = None):
    def make(path: str) -> dict:
        with open(path, "wb") as f:
            f.write(b"\xaa" * size)
        return about or {}

    return make


def never(_path):
    raise AssertionError("made again")


def names(store) -> list[str]:
    return sorted(n for n in os.listdir(store) if n != "lock")


def test_an_image_is_made_once(store):
    one = cache.Cache().get(KEY, made(about={"name": "n"}))
    two = cache.Cache().get(KEY, never)
    assert one.path == two.path and two.about["name"] == "n"
    assert open(two.path, "rb").read(1) == b"\xaa" and os.stat(two.path).st_mode & 0o222 == 0
    assert names(store) == [KEY]


def test_what_is_not_to_be_kept_is_not(store):
    assert cache.Cache().get(KEY, lambda path: None) is None
    with pytest.raises(LaunchError):
        cache.Cache().get(KEY, lambda path: (_ for _ in ()).throw(LaunchError("no")))
    assert names(store) == []


def test_the_size_is_bounded_and_the_oldest_goes(store, monkeypatch):
    monkeypatch.setenv("TESSERA_CACHE_SIZE", "2560K")
    c = cache.Cache()
    for i, key in enumerate((KEY, KEY2)):
        c.get(key, made()).close()
        os.utime(store / key, (i, i))
    c.get(KEY, never).close()  # used: now KEY2 is the oldest
    c.get(KEY3, made()).close()
    assert names(store) == [KEY, KEY3]


def test_what_is_in_use_stays(store, monkeypatch):
    monkeypatch.setenv("TESSERA_CACHE_SIZE", "1M")
    c = cache.Cache()
    first = c.get(KEY, made())
    c.get(KEY2, made()).close()
    assert KEY in names(store)
    assert c.remove([KEY]) == [KEY]
    first.close()
    assert c.remove([KEY, KEY2]) == [] and names(store) == []


def test_a_size_that_is_none(monkeypatch):
    monkeypatch.setenv("TESSERA_CACHE_SIZE", "much")
    with pytest.raises(UsageError, match="TESSERA_CACHE_SIZE: 'much' is not a size"):
        cache.Cache()


def test_a_directory_of_others_is_not_used(store):
    store.mkdir(parents=True)
    store.chmod(0o777)
    with pytest.raises(LaunchError, match="only we can change"):
        cache.Cache()


SLOW = """
import sys, time
sys.path.insert(0, {path!r})
from tessera_launcher import cache
def make(path):
    open(path, "wb").write(b"x")
    open({mark!r}, "a").write("made\\n")
    time.sleep({wait})
    return {{}}
print(cache.Cache().get("a" * 64, make).path)
"""


def maker(tmp_path, wait: float) -> subprocess.Popen:
    text = SLOW.format(path=str(ROOT / "tools/launcher"), mark=str(tmp_path / "mark"), wait=wait)
    return subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True)


def wait_for(what):
    end = time.monotonic() + 30
    while not what():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_two_at_once_make_it_once(tmp_path, store):
    both = [maker(tmp_path, 0.5) for _ in range(2)]
    out = {child.communicate(timeout=60)[0] for child in both}
    assert len(out) == 1 and (tmp_path / "mark").read_text() == "made\n"
    assert names(store) == [KEY]


def test_a_killed_maker_is_in_nobodys_way(tmp_path, store):
    child = maker(tmp_path, 100)
    wait_for((tmp_path / "mark").exists)
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert len(names(store)) == 2  # its directory and its lock
    cache.Cache().get(KEY, made()).close()
    assert names(store) == [KEY]


def test_the_key_follows_every_change(tree):
    seen = {cache.tree_key([(str(tree), "/")], "")}

    def changed():
        key = cache.tree_key([(str(tree), "/")], "")
        assert key not in seen
        seen.add(key)
        assert cache.tree_key([(str(tree), "/")], "") == key

    prog = tree / "bin" / "prog"
    before = prog.stat()
    prog.write_text("#!/bin/zh\n")  # the same size, time and inode
    os.utime(prog, ns=(before.st_atime_ns, before.st_mtime_ns))
    changed()
    prog.chmod(0o755)
    changed()
    (tree / "new").touch()
    changed()
    (tree / "bin" / "link").unlink()
    (tree / "bin" / "link").symlink_to("y")
    changed()
    (tree / "new").rename(tree / "newer")
    changed()
    assert cache.tree_key([(str(tree), "/x")], "") not in seen
    assert cache.tree_key([(str(tree), "/")], "y") not in seen


def test_the_key_is_the_same_however_old_the_tree_is(tree, monkeypatch):
    keys = [cache.tree_key([(str(tree), "/")], "")]
    real = time.time_ns
    for later_s in (1, 3, 100):
        monkeypatch.setattr(time, "time_ns", lambda s=later_s: real() + s * 1_000_000_000)
        keys.append(cache.tree_key([(str(tree), "/")], ""))
    assert len(set(keys)) == 1


def test_a_tree_that_never_rests_has_no_name(tree, monkeypatch):
    """Each time that we have waited, a file has changed once more."""
    real = time.sleep

    def sleep(seconds):
        real(seconds)
        (tree / "bin" / "prog").write_text("more")

    monkeypatch.setattr(time, "sleep", sleep)
    (tree / "bin" / "prog").touch()
    keys = {cache.tree_key([(str(tree), "/")], "") for _ in range(2)}
    assert len(keys) == 2


# Layers.


def qcow2_write(path, data: dict[int, bytes | None]) -> None:
    """Clusters of a layer, as QEMU writes them; None: zeroes by their flag."""
    raw = bytearray(path.read_bytes())
    table_at = 3 * layer.CLUSTER
    for index, block in sorted(data.items()):
        entry = table_at + 8 * (index // (layer.CLUSTER // 8))
        second = int.from_bytes(raw[entry : entry + 8], "big") & ~(1 << 63)
        if not second:
            second = len(raw)
            raw += bytes(layer.CLUSTER)
            raw[entry : entry + 8] = (second | 1 << 63).to_bytes(8, "big")
        at = second + 8 * (index % (layer.CLUSTER // 8))
        value = 1 if block is None else len(raw) | 1 << 63
        raw[at : at + 8] = value.to_bytes(8, "big")
        if block is not None:
            raw += block.ljust(layer.CLUSTER, b"\0")
    path.write_bytes(raw)


def test_a_layer_and_its_base_are_one(tmp_path):
    dice = random.Random(1)
    base, top = tmp_path / "base", tmp_path / "top"
    data = bytearray(dice.randbytes(10 * layer.CLUSTER + 4096))
    data[3 * layer.CLUSTER : 5 * layer.CLUSTER] = bytes(2 * layer.CLUSTER)
    base.write_bytes(data)
    layer.create(str(top), str(base))
    with pytest.raises(LaunchError, match="has to stand alone"):
        disk.Qcow2(os.open(top, os.O_RDONLY), "top")
    change = {0: dice.randbytes(layer.CLUSTER), 4: b"four", 7: None, 10: b"end"}
    qcow2_write(top, change)
    for index, block in change.items():
        at = index * layer.CLUSTER
        data[at : at + layer.CLUSTER] = (block or b"").ljust(layer.CLUSTER, b"\0")
    with open(tmp_path / "out", "w+b") as out:
        fds = [os.open(p, os.O_RDONLY) for p in (top, base)]
        layer.whole(*fds, out.fileno())
        assert out.read() == data[: 10 * layer.CLUSTER + 4096]


def test_qemu_takes_a_layer(tmp_path):
    """Its own tool, where there is one, finds nothing wrong with it."""
    import shutil

    if not shutil.which("qemu-img"):
        pytest.skip("no qemu-img here")
    base, top = tmp_path / "base", tmp_path / "top"
    base.write_bytes(bytes(1 << 20))
    layer.create(str(top), str(base))
    subprocess.run(["qemu-img", "check", str(top)], check=True, capture_output=True)


def s0_drive(logs) -> str:
    return next(w for w in (logs / "s0.argv").read_text().split("\n") if "id=disk0" in w)


def test_a_tree_gets_a_layer_over_what_is_kept(launcher, tree, tmp_path, store):
    for i in range(2):
        logs = tmp_path / f"logs{i}"
        done = launcher.run("--rootfs", tree, "--log-dir", logs, "true")
        assert done.returncode == 0, done.stderr
        drive = s0_drive(logs)
        assert f"format=qcow2,cache=writeback,readonly=off,file={launcher.run_dir}" in drive
        assert "storage.writable=1" in (logs / "s0.argv").read_text()
        assert len(names(store)) == 1
        stamp = (store / names(store)[0] / "root.img").stat().st_mtime_ns
    assert (store / names(store)[0] / "root.img").stat().st_mtime_ns == stamp
    logs = tmp_path / "ro"
    launcher.run("--rootfs", tree, "--read-only", "--log-dir", logs, "true")
    assert "format=raw,cache=writeback,readonly=on" in s0_drive(logs)
    (tree / "more").touch()
    launcher.run("--rootfs", tree, "/bin/true")
    assert len(names(store)) == 2
    assert not list(launcher.run_dir.iterdir()) and fakes_of(launcher.build) == []


def test_without_a_place_to_keep_it_it_goes_all_the_same(launcher, tree, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("TESSERA_CACHE", str(tmp_path / "file" / "no"))
    done = launcher.run("--rootfs", tree, "--log-dir", tmp_path / "logs", "/bin/true")
    assert done.returncode == 0
    assert "is not kept: " in (tmp_path / "logs" / "launcher.log").read_text()


def test_a_commit_is_an_image_of_its_own(launcher, tree, tmp_path):
    image = tmp_path / "new.img"
    (tree / "etc" / "hosts").write_text("stale\n")
    done = launcher.run("--rootfs", tree, "--commit", image, "--output", f"/bin:{tmp_path}/out",
                        "--output", f"/etc:{tmp_path}/etc", "/bin/true")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "etc" / "hosts").read_text().startswith("127.0.0.1\tlocalhost\n")
    assert (tmp_path / "etc" / "hostname").read_text() == "tessera\n"
    assert os.listdir(tree / "etc") == ["hosts"]
    with disk.Held(str(image), writable=False) as held, Files(held) as files:
        assert files.kind("/bin/true") == "regular" and files.check("-n")[0] == 0
        assert files.read("/etc/hosts") == "stale\n" and files.kind("/etc/hostname") is None
    assert (tmp_path / "out" / "prog").read_text() == "#!/bin/sh\n"
    done = launcher.run("--rootfs", tree, "--commit", image, "/bin/true")
    assert done.returncode == 125 and b"is there already" in done.stderr
    assert not [n for n in os.listdir(tmp_path) if n.startswith(".tessera-")]


def test_what_volumes_bring_is_not_replaced(launcher, tree, tmp_path):
    """By whatever name, nor is a link to it; the link that leads to nothing is."""
    (tmp_path / "mine").write_text("mine\n")
    (tree / "var" / "run").mkdir(parents=True)
    (tree / "run").symlink_to("var/run")
    (tree / "etc" / "resolv.conf").symlink_to("../run/./stub/resolv.conf")
    (tree / "etc" / "hostname").symlink_to("/run/none/name")
    done = launcher.run("--rootfs", tree, "--volume", f"{tmp_path}/mine:/run/stub/resolv.conf",
                        "--volume", f"{tmp_path}/mine:/etc/.//hosts",
                        "--output", f"/etc:{tmp_path}/out", "/bin/true")  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")
    assert os.readlink(tmp_path / "out" / "resolv.conf") == "../run/./stub/resolv.conf"
    assert (tmp_path / "out" / "hosts").read_text() == "mine\n"
    assert (tmp_path / "out" / "hostname").read_text() == "tessera\n"


@pytest.mark.parametrize("args, text", [
    (["--commit", "/nonexistent/x"], "no directory that is there"),
    (["--commit", "/tmp/tessera-no"], "--commit is for --rootfs, --image or"),
    (["--rw", "/etc"], "--rw wants HOST:/GUEST"), (["--rw", "/etc:/"], "--rw wants HOST:/GUEST"),
    (["--rw", "/etc/passwd:/x"], "is not a directory"), (["--read-only"], "--read-only is for"),
    (["--rootfs", "/etc", "--read-only", "--output", "/x:/tmp/x"], "else nothing is written"),
    (["--rootfs", "/etc", "--read-only", "--rw", "/etc:/x"], "does not go with --read-only"),
    (["--rw", "/etc:/x", "--sweep", "50"], "does not go with"),
])  # fmt: skip
def test_options_that_make_no_sense(args, text):
    with pytest.raises(UsageError, match=text):
        parse_run([*args, "p"])


def mke2fs(path, size="8M", tree=None):
    more = ["-d", str(tree)] if tree else []
    subprocess.run(["/sbin/mke2fs", "-q", "-F", "-t", "ext4", *more, path, size], check=True)
    return path


def test_what_changed_in_the_cluster_comes_back(tmp_path):
    here = tmp_path / "here"
    for name, text in {"kept": "1", "gone": "2", "sub/deep": "3", "sub/gone": "4", "both": "5",
                       "mine": "6", "becomes/dir": "7", "mode": "8"}.items():  # fmt: skip
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        (here / name).write_text(text)
        os.utime(here / name, (1000, 1000))
    stamp = (here / "kept").stat().st_mtime_ns
    shared = giveback.Shared(str(here), "/rw")
    guest = tmp_path / "guest"
    subprocess.run(["cp", "-a", f"{here}/.", f"{tmp_path}/copy"], check=True)
    (guest).mkdir()
    (tmp_path / "copy").rename(guest / "rw")
    rw = guest / "rw"
    (rw / "gone").unlink()
    (rw / "sub" / "gone").unlink()
    (rw / "both").write_text("guest's")
    (rw / "sub" / "new").write_text("new")
    (rw / "link").symlink_to("/etc/passwd")
    (rw / "becomes" / "dir").unlink()
    (rw / "becomes").rmdir()
    (rw / "becomes").write_text("a file")
    (rw / "mode").chmod(0o755)
    # Meanwhile, on the host:
    (here / "both").write_text("host's")
    (here / "mine").write_text("changed here alone")
    (here / "born").write_text("here")
    fd = os.open(mke2fs(tmp_path / "img", tree=guest), os.O_RDWR)
    with Files(Plain(fd, "the root")) as files:
        with pytest.raises(LaunchError, match="both: changed on the host meanwhile, and left"):
            shared.bring_back(files)
    found = {str(p.relative_to(here)): p.read_text() for p in here.rglob("*")
             if p.is_file() and not p.is_symlink()}  # fmt: skip
    assert found == {"kept": "1", "sub/deep": "3", "sub/new": "new", "both": "host's",
                     "mine": "changed here alone", "born": "here", "becomes": "a file",
                     "mode": "8"}  # fmt: skip
    assert os.readlink(here / "link") == "/etc/passwd"
    assert (here / "mode").stat().st_mode & 0o777 == 0o755
    assert (here / "kept").stat().st_mtime_ns == stamp
    assert not [n for n in os.listdir(tmp_path) if n.startswith(".tessera-")]
