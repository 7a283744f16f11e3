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


KEPT = f"""
cd /w
for n in a b c d none new moved; do
    {BUSYBOX} stat -c '%n %s %a %h' $n 2> /dev/null || echo $n: none
done
"""


# A line for each write(2), and each is told when that has returned.
WRITER = f"exec 9>/log; i=0; while :; do echo $i >&9; echo $i; i=$((i+1)); done"


def last_said(capture) -> int:
    return int(said(capture).rpartition(b"\n")[0].rpartition(b"\n")[2])


@pytest.mark.long
def test_a_processor_that_comes_takes_names_back(images):
    """A processor that is left alone keeps names, and small writes for some time. The other one
    comes again, sees all that was written, and changes all names.
    """
    running = up(images, "kept", "--processors", "2")
    try:
        on(running, "p1", f"{BUSYBOX} mkdir -p /w/d; cd /w; echo one > a; : > b; echo two > c"
           "; exec 9>>a; echo three >&9").checked()  # fmt: skip
        assert running.stats()["s0"].get("storage.keepers", 0) == 0
        running.cluster.kill_node("p1")
        look = lambda: on(running, "p0", KEPT).checked().decode().split("\n")  # noqa: E731
        before = ["a 10 644 1", "b 0 644 1", "c 4 644 1", "d 4096 755 2"]
        missing = ["none: none", "new: none", "moved: none", ""]
        assert look() == before + missing
        wait_for(lambda: look() and running.stats()["s0"]["storage.keepers"] == 1)
        for _ in range(2):
            assert look() == before + missing
        on(running, "p0", "cd /w; : > gone1; echo one > gone2").checked()
        assert running.stats()["p0"]["kept.entries"] > 7
        writer, told = running.start(["/bin/sh", "-c", WRITER], node="p0", cwd="/")
        wait_for(lambda: running.stats()["p0"]["file.behind_writes"] > 100)
        running.cluster.restart("p1")
        # The node hears of these later: before it serves the other one at the latest.
        on(running, "p0", f"{BUSYBOX} rm /w/gone1 /w/gone2").checked()
        assert on(running, "p1", f"{BUSYBOX} ls /w").checked().split() == [b"a", b"b", b"c", b"d"]
        for _ in range(5):
            written = last_said(told)
            assert int(on(running, "p1", f"{BUSYBOX} tail -n 1 /log").checked()) >= written
        writer.signal(signal.SIGKILL)
        assert writer.wait(time.monotonic() + LIMIT_S)
        lines = on(running, "p1", f"{BUSYBOX} cat /log").checked().decode().split("\n")
        assert len(lines) > last_said(told) + 1 and not lines.pop()
        assert lines == [str(i) for i in range(len(lines))]
        on(running, "p1", f"cd /w; b={BUSYBOX}; $b mv a moved; $b rm b; $b mkdir new; $b chmod 700"
           " d; $b truncate -s 3 c; $b mkdir d/e").checked()  # fmt: skip
        after = ["a: none", "b: none", "c 3 644 1", "d 4096 700 3", "none: none", "new 4096 755 2",
                 "moved 10 644 1", ""]  # fmt: skip
        assert look() == after
        stats = running.stats()
        assert stats["s0"]["storage.recalls"] == 1 and stats["p0"]["kept.recalls"] > 0
        on(running, "p1", "cd /w; echo more >> c").checked()
        assert look()[2] == "c 8 644 1"
        assert running.stats()["s0"]["storage.keepers"] == 1
    finally:
        running.close()
    assert not running.complaints()


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
