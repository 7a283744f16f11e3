# SPDX-License-Identifier: MIT
"""Several storage nodes, each with its own image, and programs on two processors that use them:
where files are, what crosses from one to the other, and what is lost with a node.
"""

import signal
import subprocess
import time

import pytest
from boot import Running, build_programs, image, packages, wait_for
from test_disk import check_clean

BUSYBOX = packages.require("busybox")[0]
FLOCK = "/usr/bin/flock"  # of util-linux: busybox may come without it
LEASES = build_programs() / "glibc-static/leases"
LIMIT_S = 300.0

WALK = r"""
b=%s
cat() { $b cat "$@"; }
cat /data/d/file
cat /data/out/root
cat /in/d/file
cat /data/d/../../root
cd /data/d; $b pwd; cd ..; $b pwd; cd ..; $b pwd
cd /in/d; $b pwd -P; cat ../../root
$b mkdir /data/sub/x && echo made > /data/out/made && cat /made
echo new > /data/new
$b ln /data/new /new || echo no link
$b mv /data/new /moved && cat /moved && $b ls /data
$b rmdir /data || echo busy
$b cp $b /data/busybox && /data/busybox echo run from there
[ "$($b stat -c %%d /)" != "$($b stat -c %%d /data)" ] && echo two devices
$b grep -c " /data ext4 rw" /proc/mounts
$b grep -c " /ro ext4 ro" /proc/mounts
echo no > /ro/file || echo read only
for f in /bin/sh $(PATH= LD_TRACE_LOADED_OBJECTS=1 /bin/sh | $b grep -o '/[^ ]*'); do
    for d in /jail /data/jail; do $b mkdir -p $d/$($b dirname $f); $b cp -L $f $d$f; done
done
echo "in jail" > /jail/f; echo "in data jail" > /data/jail/f
for d in /jail /data/jail /data/../data/jail; do
    $b chroot $d /bin/sh -c 'cd bin; read a < /f; read b < ../../f; pwd; echo "$a, $b"'
done
$b chroot /jail /bin/sh -c 'read a < /root' || echo not there
$b sync
""" % BUSYBOX

WALKED = b"""in data
in root
in data
in root
/data/d
/data
/
/data/d
in root
made
no link
new
d
lost+found
out
sub
busy
run from there
two devices
1
1
read only
/bin
in jail, in jail
/bin
in data jail, in data jail
/bin
in data jail, in data jail
not there
"""


def make_image(path, tree: dict[str, str | None], links: dict[str, str], program: bool):
    stage = path.with_suffix(".d")
    stage.mkdir()
    if program:
        packed = image.Tree()
        packed.add_program(BUSYBOX)
        packed.add_program("/bin/sh")
        packed.add_program(FLOCK)
        packed.add_program(str(LEASES))
        packed.stage(str(stage))
    for name, text in tree.items():
        if text is None:
            (stage / name).mkdir(parents=True)
        else:
            (stage / name).write_text(text)
    for name, target in links.items():
        (stage / name).symlink_to(target)
    subprocess.run(["mke2fs", "-q", "-F", "-t", "ext4", "-b", "4096", "-m", "0", "-J", "size=4",
                    "-d", str(stage), str(path), "64M"], check=True)  # fmt: skip
    return path


@pytest.fixture
def images(tmp_path):
    return {
        "root": make_image(tmp_path / "root.img",
                           {"data": None, "ro": None, "root": "in root\n"},
                           {"in": "/data"}, True),
        "data": make_image(tmp_path / "data.img",
                           {"d": None, "d/file": "in data\n", "sub": None},
                           {"out": "/"}, False),
        "ro": make_image(tmp_path / "ro.img", {"file": "x\n"}, {}, False),
    }  # fmt: skip


def up(images: dict, name: str, *more: str) -> Running:
    args = ("--disk", str(images["root"]), "--mount", f"/data={images['data']}",
            "--mount", f"/ro={images['ro']}:ro", "--append", "cluster.heartbeat_ms=500",
            "--append", "storage.stable=1", *more)  # fmt: skip
    return Running(args, None, name, stays=True).up()


def test_a_cluster_with_mounts(images):
    running = up(images, "mounts", "--processors", "2", "--memories", "2")
    try:
        walked(running)
        shared_by_processors(running)
        leased(running)
        locked_by_processors(running)
        a_node_is_lost(running)
    finally:
        running.close()
    assert not running.complaints()
    check_clean(images["root"])
    check_clean(images["data"])


def on(running: Running, node: str, script: str):
    """A shell's script on that processor."""
    return running.run(["/bin/sh", "-c", script], node=node, cwd="/")


def walked(running: Running) -> None:
    assert on(running, "p0", WALK).checked() == WALKED


def shared_by_processors(running: Running) -> None:
    """/tmp is the root's, and not a processor's own."""
    on(running, "p0", f"echo hello > /tmp/note; {BUSYBOX} mkdir /data/made").checked()
    said = on(running, "p1", f"{BUSYBOX} cat /tmp/note; {BUSYBOX} stat -c %a /tmp; "
              f"{BUSYBOX} rmdir /data/made; {BUSYBOX} rm /tmp/note").checked()  # fmt: skip
    assert said == b"hello\n1777\n"
    assert on(running, "p0", f"{BUSYBOX} ls /tmp /data/made").status != 0


def flock(running: Running, node: str, file: str, then: str):
    """A process that locks a file, says so, and does something then."""
    return running.start(["/bin/sh", "-c", f"exec 9>>{file}; {FLOCK} 9; echo has; {then}"],
                         node=node, cwd="/")  # fmt: skip


def said(capture) -> bytes:
    return bytes(capture.data[1])


def leased(running: Running) -> None:
    """Of a file that another processor may open no lease is promised; of one in memory it is."""
    said = on(running, "p0", f"{LEASES} /data one; {LEASES} /tmp one; {LEASES} /dev/shm one")
    assert said.checked() == b"one: -1 Invalid argument\n" * 2 + b"one: 0\n"


def locked_by_processors(running: Running) -> None:
    """A lock of one processor keeps the other out, and goes with the process that has it."""
    busy = f"{FLOCK} -n /root {BUSYBOX} echo got || echo busy"
    holder, held = flock(running, "p0", "/root", f"exec {BUSYBOX} cat")
    wait_for(lambda: said(held), LIMIT_S)
    assert on(running, "p1", busy).checked() == b"busy\n"
    waiter, waited = flock(running, "p1", "/root", "true")
    wait_for(lambda: running.stats()["s0"]["storage.lock_waits"] == 1, LIMIT_S)
    assert not waiter.over and not said(waited)
    holder.signal(signal.SIGKILL)
    assert waiter.wait(time.monotonic() + LIMIT_S) and waiter.exit.status == 0
    assert said(waited) == b"has\n"
    assert on(running, "p0", busy).checked() == b"got\n"
    assert running.stats()["s0"]["storage.locks"] == 0


def a_node_is_lost(running: Running) -> None:
    """Its files wait for it, and others go on; what is locked there stays so."""
    holder, held = flock(running, "p0", "/data/new", f"exec {BUSYBOX} cat")
    wait_for(lambda: said(held), LIMIT_S)
    running.cluster.kill_node("s1")
    wait_for(lambda: running.cluster.state("s1") != "up", 10)
    waits, capture = running.start(["/bin/sh", "-c", f"{BUSYBOX} cat /data/d/file"], node="p0",
                                   cwd="/")  # fmt: skip
    for node in ("p0", "p1"):
        assert on(running, node, f"echo on > /on; {BUSYBOX} cat /on").checked() == b"on\n"
    assert not waits.over
    running.cluster.restart("s1")
    assert waits.wait(time.monotonic() + LIMIT_S) and waits.exit.status == 0
    assert bytes(capture.data[1]) == b"in data\n"
    busy = f"{FLOCK} -n /data/new {BUSYBOX} echo got || echo busy"
    assert on(running, "p1", busy).checked() == b"busy\n"
    holder.signal(signal.SIGKILL)
    assert holder.wait(time.monotonic() + LIMIT_S)
    assert on(running, "p1", busy).checked() == b"got\n"


@pytest.mark.parametrize("name, text", [
    ("none", "the mount point /none does not exist"),
    ("root", "the mount point /root is not a directory"),
    ("in", "the mount point /in is not a directory"),
])  # fmt: skip
@pytest.mark.long
def test_a_mount_point_is_looked_at(images, name, text):
    args = ("--disk", str(images["root"]), "--mount", f"/{name}={images['data']}")
    running = Running(args, None, "point").up()
    try:
        program, _ = running.start([BUSYBOX, "true"], cwd="/")
        with pytest.raises(Exception, match=text):
            program.wait(time.monotonic() + LIMIT_S)
    finally:
        running.close()
