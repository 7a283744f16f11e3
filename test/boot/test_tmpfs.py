# SPDX-License-Identifier: MIT
"""Files in memory: every call answers as on Linux, whatever the geometry, and nothing is left
behind.
"""

import os
import shutil
import subprocess
import tempfile

import pytest
from boot import Result, delta, on_host

PROGRAMS = r"""
b=/usr/bin/busybox
cd $1 || exit 1
$b mkdir -p src/a/b src/c
$b seq 1 2000 > src/numbers
$b seq 1 20 > src/a/b/few
$b ln -s numbers src/link
$b ln src/numbers src/hard
$b chmod 640 src/a/b/few
i=0; while [ $i -lt 50 ]; do echo "file $i" > src/c/f$i; i=$((i+1)); done
$b cp -r src copy; echo cp $?
$b cp -a src exact; echo cp-a $?
$b find copy | $b sort | $b md5sum
$b find exact -type l -o -links 2 | $b sort
$b tar cf all.tar src; echo tar $?
$b mkdir out; $b tar xf all.tar -C out; echo untar $?
(cd out/src && $b find . -type f | $b sort | $b xargs $b md5sum) | $b md5sum
(cd src && $b find . -type f | $b sort | $b xargs $b md5sum) | $b md5sum
$b gzip -k all.tar; $b gunzip -c all.tar.gz | $b cmp - all.tar; echo gz $?
$b sed -i 's/^1$/one/' src/numbers; $b head -n 2 src/numbers
$b mv src/c moved; $b ls moved | $b wc -l
$b dd if=/dev/zero of=big bs=64k count=32 2>/dev/null; $b wc -c < big
$b dd if=big of=sparse bs=1 count=1 seek=1000000 2>/dev/null; $b stat -c '%s %b' sparse
$b du -k sparse big | $b sort
$b truncate -s 10 big; $b stat -c %s big
$b touch -d '2020-01-02 03:04:05' stamp; $b stat -c %Y stamp
$b sort -r -o sorted copy/numbers; $b tail -n 1 sorted
echo text > x; echo more >> x; $b cat x; (umask 077; echo y > y; $b stat -c %a y)
$b mkfifo p; (echo through > p &); $b cat p
t=$($b mktemp -d ./XXXXXX) && [ -d $t ] && $b rmdir $t && echo mktemp
$b rm -rf copy exact out; $b rm -rf moved src; $b ls
"""

# The output of test/user/mounts.c, written down here: no Linux is mounted like this.
MOUNTS = """\
open("/data/to-tmp", O_RDONLY) = -1 No such file or directory
fd = open("/data/to-tmp", O_CREAT | O_RDWR, 0644) = 3
write(fd, "12345", 5) = 5
close(fd) = 0
size_of("/tmp/made") = 5
size_of("/data/to-tmp") = 5
is_char("/data/to-null") = 1
size_of("/data/to-dots") == size_of("/data/text.small") = 1
symlink("/data/text.small", "/tmp/abs") = 0
symlink("../data/text.small", "/tmp/rel") = 0
symlink("/data/to-tmp", "/tmp/there-and-back") = 0
symlink("/data/loop1", "/tmp/loop2") = 0
size_of("/tmp/abs") == size_of("/data/text.small") = 1
size_of("/tmp/rel") == size_of("/data/text.small") = 1
size_of("/tmp/there-and-back") = 5
size_of("/tmp/loop2") = -1 Too many levels of symbolic links
size_of("/data/loop1") = -1 Too many levels of symbolic links
open("/tmp/abs/x", O_RDONLY) = -1 Not a directory
size_of("/tmp/../data/../tmp/./made") = 5
size_of("/dev/../tmp/made") = 5
size_of("/dev/shm/../../tmp/made") = 5
size_of("/tmp/shown/text") == size_of("/data/text.small") = 1
size_of("/tmp/shown/../made") = 5
count("/tmp", "shown") = 1
rmdir("/tmp/shown") = -1 Device or resource busy
rename("/tmp/shown", "/tmp/hidden") = -1 Device or resource busy
open("/tmp/shown/new", O_CREAT | O_RDWR, 0644) = -1 Read-only file system
count("/", "tmp") = 1
count("/", "dev") = 1
count("/", "run") = 1
count("/dev", "shm") = 1
rmdir("/tmp") = -1 Device or resource busy
rmdir("/dev/shm") = -1 Device or resource busy
mkdir("/tmp", 0755) = -1 File exists
rename("/tmp", "/tmp2") = -1 Device or resource busy
rename("/dev/shm", "/dev/x") = -1 Device or resource busy
rename("/tmp/made", "/dev/shm/made") = -1 Invalid cross-device link
rename("/tmp/made", "/data/made") = -1 Invalid cross-device link
link("/tmp/made", "/dev/shm/made") = -1 Invalid cross-device link
link("/data/text.small", "/tmp/text") = -1 Invalid cross-device link
mkdir("/data/x", 0755) = -1 Read-only file system
unlink("/data/text.small") = -1 Read-only file system
magic("/tmp") == magic("/dev/shm") = 1
magic("/tmp") == magic("/data") = 0
mkdir("/tmp/dir", 0755) = 0
chdir("/tmp/dir") = 0
/tmp/dir
size_of("../made") = 5
size_of("../../data/text.small") == size_of("/data/text.small") = 1
chdir("../../dev/shm") = 0
/dev/shm
chdir("..") = 0
/dev
chdir("../data") = 0
/data
size_of("../tmp/made") = 5
chdir("/tmp/shown") = 0
/tmp/shown
chdir("..") = 0
/tmp
root = open("/", O_PATH | O_DIRECTORY) = 3
fd = openat(root, "tmp/dir", O_RDONLY | O_DIRECTORY) = 4
fchdir(fd) = 0
/tmp/dir
faccessat(fd, "../made", R_OK, 0) = 0
faccessat(root, "tmp/made", R_OK, 0) = 0
mkdirat(root, "tmp/dir2", 0700) = 0
rename("/tmp/dir", "/tmp/dir2/moved") = 0
/tmp/dir2/moved
unlinkat(fd, "../../made", 0) = 0
chdir("/") = 0
rmdir("/tmp/dir2/moved") = 0
rmdir("/tmp/dir2") = 0
"""

GEOMETRIES = [(), ("--memories", "2", "--vregion", "2M"), ("--excache", "2M")]
IDS = ["plain", "two-memories", "small-cache"]


def linux_says(programs, *args):
    """What the same program prints in a tmpfs of the host."""
    where = tempfile.mkdtemp(dir="/dev/shm")
    try:
        return on_host([programs / "glibc-static/tmpfs", where, *args])
    finally:
        shutil.rmtree(where)


@pytest.mark.parametrize("where", ["/tmp", "/dev/shm", "/run"])
def test_every_call_as_on_linux(plain, programs, where):
    want = linux_says(programs)
    got = plain.run([programs / "glibc-static/tmpfs", where])
    assert want.status == 0
    assert got.out.decode() == want.out.decode()
    assert got.status == 0, got.err


@pytest.mark.parametrize("where", ["/tmp", "/run"])
def test_another_root(plain, programs, where):
    """chroot, by the program that the host runs, too; on a disk: test_disk.py."""
    program = str(programs / "glibc-static/roots")
    there = tempfile.mkdtemp(dir="/dev/shm")
    try:
        want = on_host([program, f"{there}/roots", "removed"])
    finally:
        shutil.rmtree(there)
    got = plain.run([program, f"{where}/roots", "removed"])
    assert want.status == 0
    assert got.out.decode() == want.out.decode()
    assert (got.status, got.err) == (0, b"")


@pytest.mark.parametrize("name", ["mounting", "binds", "pivots"])
def test_mounting(plain, programs, name):
    """mount and umount2, beside Linux in a mount namespace of its own; nothing is left of them."""
    program = str(programs / "glibc-static" / name)
    there = tempfile.mkdtemp(dir="/dev/shm")
    try:
        want = on_host(["unshare", "-m", program, f"{there}/{name}"])
    finally:
        shutil.rmtree(there)
    plain.run([programs / "glibc-static/hello"])  # the first program has the root directories made
    before = plain.stats()
    got = plain.run([program, f"/tmp/{name}"])
    assert want.status == 0
    assert got.out.decode() == want.out.decode()
    assert (got.status, got.err) == (0, b"")
    after = plain.stats()
    for counter in ("tmpfs.inodes", "excache.space_objects", "file.open"):
        assert delta(before, after, "p0", counter) == 0, counter


MOUNTED = r"""
b=/usr/bin/busybox
$b mkdir -p /tmp/p/q /tmp/s
$b mount -t proc none /tmp/p/q && read a n c < /tmp/p/q/self/stat && echo "$n"
$b mount -t sysfs none /tmp/s && $b ls /tmp/s | $b grep -c devices
$b mv /tmp/p /tmp/r || echo a mount is below
$b mount --make-shared /tmp/s || echo all are private
$b grep -c " /tmp/" /proc/mounts
echo x > /proc/self/comm && $b mount -o remount,ro /tmp/p/q && echo y > /proc/self/comm
$b mount -o remount,rw /tmp/p/q && echo z > /proc/self/comm && echo back
$b mount -t tmpfs none /lib64 && ("$1" || echo no loader) 2> /dev/null
$b umount /lib64 && "$1" > /dev/null && echo loader
$b umount /tmp/p/q && $b umount /tmp/s && $b rmdir /tmp/p/q /tmp/p /tmp/s
"""


def test_mounts_unlike_linux(plain, programs):
    dynamic = programs / "glibc-dyn/hello"
    got = plain.run(["/usr/bin/busybox", "sh", "-c", MOUNTED, "sh", dynamic])
    assert got.out.decode() == (
        "(busybox)\n1\na mount is below\nall are private\n2\nback\n"
        "no loader\nloader\n"
    )
    assert got.status == 0


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=IDS)
def test_large_files(pool, programs, geometry):
    cluster = pool.get(*geometry)
    argv = [programs / "glibc-static/tmpdata", "/tmp", "16"]
    cluster.run([programs / "musl-static/hello"])  # the first program has the root directories made
    before = cluster.stats()
    got = cluster.run(argv)
    assert got.out.decode().splitlines() == [
        "written", "read", "mapped", "changed by the mapping", "truncated", "copied", "removed",
    ]  # fmt: skip
    assert got.status == 0, got.err
    after = cluster.stats()
    for counter in ("tmpfs.inodes", "excache.space_objects", "file.open"):
        assert delta(before, after, "p0", counter) == 0, counter


def test_paths_across_mounts(cluster, programs):
    got = cluster.run([programs / "glibc-static/mounts"])
    assert got.out.decode() == MOUNTS
    assert got.status == 0, got.err


def test_real_programs(cluster, programs):
    """A shell and busybox make, copy, pack, edit and remove files, as in a tmpfs of the host."""
    busybox = shutil.which("busybox")
    where = tempfile.mkdtemp(dir="/dev/shm")
    try:
        script = PROGRAMS.replace("/usr/bin/busybox", busybox)
        want = subprocess.run([busybox, "sh", "-c", script, "sh", where], capture_output=True)
    finally:
        shutil.rmtree(where)
    cluster.run([programs / "musl-static/hello"])
    before = cluster.stats()
    got = cluster.run(["/usr/bin/busybox", "sh", "-c", PROGRAMS, "sh", "/dev/shm"])
    assert got.out.decode() == want.stdout.decode()
    assert got.err.decode() == want.stderr.decode()
    cluster.run(["/usr/bin/busybox", "sh", "-c", "rm -rf /dev/shm/*"])
    assert delta(before, cluster.stats(), "p0", "tmpfs.inodes") == 0


@pytest.mark.parametrize("geometry",
                         [(), ("--excache", "1M", "--memories", "2", "--vregion", "2M")],
                         ids=["plain", "small-cache"])  # fmt: skip
def test_processes_at_once(pool, programs, geometry):
    """Six processes on four CPUs change the same names and the same file."""
    cluster = pool.get("--cpus", "processor=4", *geometry)
    cluster.run([programs / "musl-static/hello"])
    before = cluster.stats()
    rounds = "2000" if os.environ.get("TEST_LONG") else "600"
    got = cluster.run([programs / "glibc-static/tmprace", "/dev/shm", "6", rounds])
    assert got == Result(0, b"consistent\n", b"")
    after = cluster.stats()
    for counter in ("tmpfs.inodes", "excache.space_objects", "file.open"):
        assert delta(before, after, "p0", counter) == 0, counter


@pytest.mark.parametrize("where", [(), ("/dev/shm/self",)], ids=["memfd", "tmpfs"])
def test_a_file_read_into_itself_while_it_is_cut(pool, programs, where):
    """A fault of a mapping of the file, in a copy to or from the same file, holds up no thread."""
    cluster = pool.get("--cpus", "processor=4")
    argv = [programs / "glibc-static/selfread", "300", *where]
    assert on_host([*argv[:2], *(["/dev/shm/selfread"] if where else [])]).status == 0
    assert cluster.run(argv) == Result(0, b"neither hangs\n", b"")


def test_limits(pool, programs):
    cluster = pool.get("--append", "processor:tmpfs.size=1M tmpfs.inodes=100")
    got = cluster.run([programs / "glibc-static/tmpdata", "/dev/shm", "limits"])
    assert got.out.decode().splitlines() == [
        "1048576 bytes, then No space left on device",
        "space again after unlink",
        "99 files, then No space left on device",
        "files again after unlink",
    ]  # fmt: skip
    assert got.status == 0, got.err
