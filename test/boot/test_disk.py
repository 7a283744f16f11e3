# SPDX-License-Identifier: MIT
"""A disk that programs change: what they did is on it when the cluster has ended, and e2fsck and
debugfs, which know nothing of us, see the tree that the same script makes on the host.
"""

import hashlib
import os
import pathlib
import shutil
import subprocess
from stat import S_IFMT as stat_type

import pytest
from boot import MB, WORK, Running, build_programs, delta, image, on_host, packages

os.environ["PATH"] += ":/usr/sbin:/sbin"

BUSYBOX = "/usr/bin/busybox"
BIG = 5 * MB + 1234

SCRIPT = r"""
set -e
b=/usr/bin/busybox
cd "$1"
$b mkdir -p dir/deep/deeper empty
echo first > dir/text
echo second >> dir/text
$b seq 1 3000 > dir/numbers
$b ln -s ../dir/text dir/fast
$b ln -s /a/target/that/is/longer/than/sixty/bytes/and/so/needs/a/block/of/its/own/on/the/disk slow
$b ln dir/numbers dir/deep/same
$b mv dir/text dir/deep/moved
echo replaced > victim; echo new > winner; $b mv winner victim
$b chmod 640 dir/deep/moved
$b chmod 1711 empty
echo gone > dir/gone; $b rm dir/gone
$b mkdir dir/gone.d; $b rmdir dir/gone.d
$b dd if=dir/numbers of=synced bs=512 conv=fsync 2> /dev/null
$b cp "$2" big
$b cat big big > twice
$b cp big cut; $b truncate -s 70001 cut
$b truncate -s 3000000 holes; echo end >> holes
i=0; while [ $i -lt 200 ]; do echo "file $i" > dir/deep/deeper/f$i; i=$((i+1)); done
i=0; l=; while [ $i -lt 200 ]; do l="$l dir/deep/deeper/f$i"; i=$((i+2)); done; $b rm $l
$b mkdir many
n=many/a-name-of-which-some-hundreds-fill-a-buffer
i=0; while [ $i -lt 1500 ]; do : > $n-$i; i=$((i+1)); done
$b sync
$b ls many | $b md5sum; $b rm -r many
$b find . | $b sort
$b find . -type f | $b sort | $b xargs $b md5sum
$b rm twice
"""


def tree_of(root: pathlib.Path) -> dict[str, tuple]:
    """What is below @root: path, type and mode, link count of files, bytes or target."""
    out = {}
    for base, dirs, files in os.walk(root):
        for name in dirs + files:
            path = pathlib.Path(base, name)
            st = path.lstat()
            if path.is_symlink():
                what = os.readlink(path)
            elif path.is_dir():
                what = ""
            else:
                what = f"{st.st_nlink} {hashlib.sha256(path.read_bytes()).hexdigest()}"
            # debugfs does not restore the modes of links
            out[str(path.relative_to(root))] = (what, 0 if path.is_symlink() else st.st_mode)
    return out


def debugfs(disk: pathlib.Path, command: str) -> str:
    return subprocess.run(
        ["debugfs", "-R", command, str(disk)], check=True, capture_output=True, text=True
    ).stdout


def tree_on_disk(disk: pathlib.Path, place: str, out: pathlib.Path) -> dict[str, tuple]:
    """The same of a directory of an image, by debugfs, whose rdump restores no hard links and no
    sticky bits.
    """
    out.mkdir()
    debugfs(disk, f"rdump {place} {out}")
    found = tree_of(out / pathlib.Path(place).name)
    paths = [path for path, (_, mode) in found.items() if mode]
    # One debugfs for all: a start of it for each file took longer than the cluster's work.
    asked = "".join(f'stat "{place}/{path}"\n' for path in paths)
    told = subprocess.run(["debugfs", "-f", "-", str(disk)], input=asked, check=True,
                          capture_output=True, text=True).stdout  # fmt: skip
    stats = told.split("debugfs: stat ")[1:]
    assert len(stats) == len(paths)
    for path, stat in zip(paths, stats, strict=True):
        what, mode = found[path]
        mode = stat_type(mode) | int(stat.split("Mode:")[1].split()[0], 8)
        if what:
            what = f"{stat.split('Links: ')[1].split()[0]} {what.split()[1]}"
        found[path] = (what, mode)
    return found


def check_clean(disk: pathlib.Path) -> None:
    done = subprocess.run(["e2fsck", "-fn", str(disk)], capture_output=True, text=True)
    noise = [
        line for line in done.stdout.splitlines()
        if not line.startswith("Pass ") and "contiguous" not in line
    ]  # fmt: skip
    assert done.returncode == 0 and not noise, done.stdout + done.stderr
    assert "needs_recovery" not in debugfs(disk, "features")


def make_disk(tmp_path: pathlib.Path, tree: image.Tree) -> pathlib.Path:
    tree.add_program(packages.require("busybox")[0])
    big = tmp_path / "source"
    big.write_bytes(hashlib.shake_256(b"big").digest(BIG))
    tree.files["/data/source"] = str(big)
    stage, disk = tmp_path / "stage", tmp_path / "disk.img"
    stage.mkdir()
    tree.stage(str(stage))
    (stage / "work").mkdir()
    subprocess.run(["mke2fs", "-q", "-F", "-t", "ext4", "-b", "4096", "-m", "0", "-J", "size=4",
                    "-d", str(stage), str(disk), "64M"], check=True)  # fmt: skip
    return disk


@pytest.fixture
def disk(tmp_path) -> pathlib.Path:
    return make_disk(tmp_path, image.Tree())


@pytest.mark.parametrize("memories", [pytest.param("1", marks=pytest.mark.long), "2"])
def test_what_is_written_stays(disk, tmp_path, memories):
    WORK.mkdir(parents=True, exist_ok=True)
    there = tmp_path / "work"
    there.mkdir()
    want = on_host(["busybox", "sh", "-c", SCRIPT, "sh", str(there), str(tmp_path / "source")])
    args = ("--disk", str(disk), "--memories", memories)
    cluster = Running(args, None, f"disk-{memories}").up()
    try:
        before = cluster.stats()
        got = cluster.run([BUSYBOX, "sh", "-c", SCRIPT, "sh", "/work", "/data/source"])
        assert (got.status, got.err) == (0, b""), got.err
        assert got.out == want.out
        assert delta(before, cluster.stats(), "s0", "storage.changes") > 300
        # A file that is made and closed is claimed for no memory node, and none hears of it. The
        # node may be told of the script's last removal only now.
        cluster.run([BUSYBOX, "sync"]).checked()
        before = cluster.stats()
        cluster.run([BUSYBOX, "sh", "-c", MAKE_TEN]).checked()
        after = cluster.stats()
        assert delta(before, after, "s0", "storage.changes") == 10
        assert delta(before, after, "s0", "storage.claims") == 0
        cluster.run([BUSYBOX, "sh", "-c", "rm /work/made.*"]).checked()
    finally:
        cluster.close()
    assert not cluster.complaints()
    check_clean(disk)
    assert tree_on_disk(disk, "/work", tmp_path / "dump") == tree_of(there)
    # A second cluster finds it, too, and changes nothing without being told to.
    whole = hashlib.sha256(disk.read_bytes()).hexdigest()
    args = ("--disk", str(disk), "--append", "s0:storage.writable=0")
    cluster = Running(args, None, f"disk-{memories}-again").up()
    try:
        again = cluster.run([BUSYBOX, "cat", "/work/dir/deep/moved"])
        assert again.out == b"first\nsecond\n"
        refused = cluster.run([BUSYBOX, "sh", "-c", "echo x > /work/x"])
        assert refused.status == 1 and b"Read-only file system" in refused.err
    finally:
        cluster.close()
    assert hashlib.sha256(disk.read_bytes()).hexdigest() == whole


# Two programs insert at the same time: the index of the log is memory that they share.
MAKE_TEN = "for i in 0 1 2 3 4 5 6 7 8 9; do : > /work/made.$i; done"
DATABASE = r"""
set -e
cd "$1"
q=$2
sql() { $q -cmd '.timeout 60000' "$@"; }
sql wal 'pragma journal_mode=wal; create table t(a integer primary key, b text);'
insert() {
    sql wal "with recursive n(i) as (select $1 union all select i + 2 from n where i < 400)
        insert into t select i, hex(zeroblob(i)) from n; select changes();" > "$1.out"
}
insert 1 & one=$!
insert 2 & two=$!
wait $one; wait $two
/usr/bin/busybox cat 1.out 2.out
sql wal 'select count(*), sum(a), sum(length(b)) from t; pragma integrity_check;'
sql wal 'update t set b = b || a where a % 3 = 0; delete from t where a % 7 = 0;
    pragma wal_checkpoint(truncate); select count(*), sum(length(b)) from t;'
sql back 'pragma journal_mode=delete; create table t(a integer primary key, b text);'
sql back "with recursive n(i) as (select 1 union all select i + 1 from n where i < 300)
    insert into t select i, hex(zeroblob(i)) from n;
    begin; update t set b = 'gone'; rollback; vacuum;
    select count(*), sum(length(b)) from t; pragma integrity_check;"
"""


def up(disk: pathlib.Path, name: str, *args: str) -> Running:
    WORK.mkdir(parents=True, exist_ok=True)
    return Running(("--disk", str(disk), *args), None, name).up()


def small_writes(cluster: Running) -> None:
    """A processor that is alone keeps them, and a message has what many have written. A model says
    what a file is meanwhile.
    """
    before = cluster.stats()
    cluster.run([BUSYBOX, "dd", "if=/dev/zero", "of=/data/small", "bs=100", "count=3000"]).checked()
    after = cluster.stats()
    assert delta(before, after, "p0", "file.behind_writes") > 2900
    assert delta(before, after, "p0", "file.writes") < 100
    before = after
    got = cluster.run(["/data/fsx", "/data/fsx.file", "7", "500", "0"])
    assert (got.status, got.out) == (0, b"all right\n"), got.err
    assert delta(before, cluster.stats(), "p0", "file.behind_writes") > 300


def test_shared_mappings(tmp_path):
    """What programs store into mappings of files is in the files, and on the disk at the end; so
    is what small writes bring, which go the same way. Private mappings show what they show on the
    host, and their parts are made without a message.
    """
    program = build_programs() / "glibc-static/diskmaps"
    loader = program.with_name("filemaps")
    tree = image.Tree()
    tree.files["/data/diskmaps"] = str(program)
    tree.files["/data/filemaps"] = str(loader)
    tree.files["/data/fsx"] = str(program.with_name("fsx"))
    disk = make_disk(tmp_path, tree)
    there = tmp_path / "work"
    there.mkdir()
    cluster = up(disk, "disk-maps", "--append", "p0:excache.file_dirty=4m")
    try:
        got = cluster.run(["/data/diskmaps", "/work"])
        assert (got.status, got.err) == (0, b""), got.err
        assert got.out == on_host([str(program), str(there)]).out
        assert cluster.stats()["p0"]["file.mapped_pages"] > 4000
        before = cluster.stats()
        got = cluster.run(["/data/filemaps", "/work"])
        assert got == on_host([str(loader), str(there)])
        assert delta(before, cluster.stats(), "p0", "lease.maps") >= 6
        small_writes(cluster)
    finally:
        cluster.close()
    assert not cluster.complaints()
    check_clean(disk)
    assert tree_on_disk(disk, "/work", tmp_path / "dump") == tree_of(there)


def test_a_database(tmp_path):
    """The host's sqlite3, with a write-ahead log and with a rollback journal."""
    program = shutil.which("sqlite3")
    if not program:
        pytest.skip("sqlite3 is not there")
    tree = image.Tree()
    tree.add_program(program)
    disk = make_disk(tmp_path, tree)
    cluster = up(disk, "disk-database")
    try:
        got = cluster.run([BUSYBOX, "sh", "-c", DATABASE, "sh", "/work", program])
        assert (got.status, got.err) == (0, b""), got.err
        assert got.out.decode().split() == (
            "wal 201 200 401|80601|161202 ok 0|0|0 344|138370 delete 300|90300 ok".split()
        )
    finally:
        cluster.close()
    assert not cluster.complaints()
    check_clean(disk)
    for name in ("wal", "back"):
        debugfs(disk, f"dump /work/{name} {tmp_path / name}")
        check = subprocess.run(["sqlite3", str(tmp_path / name), "pragma integrity_check"],
                               capture_output=True, text=True, check=True)  # fmt: skip
        assert check.stdout == "ok\n"


# Devices that mknod() makes: as those of /dev with their numbers; nothing serves the others.
DEVICES = r"""
b=/usr/bin/busybox
t=/dev/shm/own
$b mkdir $t && $b mount -t tmpfs own $t || exit 1
for d in $1 $t; do
    cd $d && $b mkdir nodes && cd nodes || exit 1
    $b mknod null c 1 3; $b mknod zero c 1 5; $b mknod none c 250 70000; $b mknod disk b 8 1
    $b stat -c "%n %F %t:%T" null none disk
    echo lost > null; $b wc -c < null; $b head -c 3 zero | $b od -An -tx1
    (: < none) 2>&1; (: < disk) 2>&1
    cd .. && $b rm -r nodes
done
cd / && $b umount $t && $b rmdir $t
"""
DEVICES_SAID = """null character special file 1:3
none character special file fa:11170
disk block special file 8:1
0
 00 00 00
sh: line 9: can't open none: No such device or address
sh: line 9: can't open disk: No such device or address
"""


# The whole disk becomes read-only, with everything that was written on it, and back.
REMOUNTED = r"""
b=/usr/bin/busybox
i=0; while [ $i -lt 20 ]; do $b seq 1 2000 > /work/written$i; i=$((i+1)); done
$b mount -o remount,ro / || exit 1
echo no > /work/no && exit 1
$b seq 1 2000 | $b cmp - /work/written19 || exit 1
$b mount -o remount,rw / && $b rm /work/written* && echo back
"""


# Requests to the storage node that one operation takes, and how many more may be those of the
# program's start. Answers to look-ups are kept. Attributes, renames and unlinks are told later:
# how many at once depends on how fast they come, and some renames wait for room.
REQUESTS = {"create": 1, "stat": 0, "attributes": 0, "rename": 0, "unlink": 0}
LATER = {"attributes": 3, "rename": 1, "unlink": 1}
NR_NAMES = 200
OF_A_START = 60


def count_requests(cluster: Running) -> None:
    for kind, each in REQUESTS.items():
        before = cluster.stats()
        got = cluster.run(["/data/diskbench", kind, "/work", str(NR_NAMES)])
        assert (got.status, got.err) == (0, b""), got.err
        more = delta(before, cluster.stats(), "p0", "vfs.storage_calls") - each * NR_NAMES
        later = LATER.get(kind, 0) * NR_NAMES
        assert 0 <= more < OF_A_START + later // 2, (kind, more)
        told = delta(before, cluster.stats(), "p0", "behind.changes") if later else 0
        assert told >= (later // 2 if kind == "rename" else later), (kind, told)
    assert cluster.stats()["p0"].get("behind.failed", 0) == 0
    assert cluster.stats()["s0"]["storage.keepers"] > 0


def test_calls(tmp_path):
    """Holes, times, synchronisation, files without a name, allocation, FIFOs, extended attributes,
    devices, other roots, links, leases of files, bind mounts, handles, immutable files: as on
    Linux.
    """
    programs = [build_programs() / "glibc-static" / name
                for name in ("diskcalls", "xattrs", "acls")]
    others = [build_programs() / "glibc-static" / name
              for name in ("cachestats", "dnotifys", "fifos", "inotifys", "leases", "resolves")]
    roots, binds, pivots, handles, flags, links = (
        build_programs() / "glibc-static" / name
        for name in ("roots", "binds", "pivots", "handles", "fileflags", "symlinks"))
    tree = image.Tree()
    bench = build_programs() / "glibc-static" / "diskbench"
    for path in (*programs, *others, roots, binds, pivots, handles, flags, links, bench):
        tree.files[f"/data/{path.name}"] = str(path)
    disk = make_disk(tmp_path, tree)
    there = tmp_path / "work"
    there.mkdir()
    cluster = up(disk, "disk-calls")
    try:
        linux = subprocess.run(["stat", "-fc", "%T", tmp_path], capture_output=True, text=True)
        for program in programs:
            got = cluster.run([f"/data/{program.name}", "/work"])
            assert (got.status, got.err) == (0, b""), got.err
            if linux.stdout.strip() == "ext2/ext3":
                assert got.out == on_host([str(program), str(there)]).out
        for program in others:
            got = cluster.run([f"/data/{program.name}", "/work"])
            assert (got.status, got.err) == (0, b""), got.err
            assert got.out.decode() == on_host([str(program), str(there)]).out.decode()
        count_requests(cluster)
        got = cluster.run([BUSYBOX, "sh", "-c", DEVICES, "sh", "/work"])
        assert (got.status, got.err) == (0, b""), got.err
        assert got.out.decode() == 2 * DEVICES_SAID
        got = cluster.run(["/data/roots", "/jails"])
        assert (got.status, got.err) == (0, b""), got.err
        assert got.out == on_host([str(roots), str(tmp_path / "jails")]).out
        got = cluster.run(["/data/handles", "/work/handles"])
        assert (got.status, got.err) == (0, b""), got.err
        assert got.out.decode() == on_host([handles, "/dev/shm/handles"]).out.decode()
        got = cluster.run(["/data/fileflags", "/work/flags"])
        assert (got.status, got.err) == (0, b""), got.err
        assert got.out.decode() == on_host([flags, "/dev/shm/flags"]).out.decode()
        before = cluster.stats()
        got = cluster.run(["/data/symlinks", "/work/symlinks"])
        assert (got.status, got.err) == (0, b""), got.err
        assert got.out.decode() == on_host([links, there / "symlinks"]).out.decode()
        # Of some 1,600 look-ups, most follow links that are kept.
        assert delta(before, cluster.stats(), "p0", "vfs.storage_calls") < 1000
        got = cluster.run(["/data/binds", "/work/binds"])
        assert (got.status, got.err) == (0, b""), got.err
        want = on_host(["unshare", "-m", str(binds), str(there / "binds")])
        assert got.out.decode() == want.out.decode()
        got = cluster.run(["/data/pivots", "/work/pivots"])
        assert (got.status, got.err) == (0, b""), got.err
        want = on_host(["unshare", "-m", str(pivots), "/dev/shm/pivots"])
        assert got.out.decode() == want.out.decode()
        got = cluster.run([BUSYBOX, "sh", "-c", REMOUNTED])
        assert (got.status, got.out) == (0, b"back\n"), got.err
        assert b"/work/no: Read-only file system" in got.err
        got = cluster.run([BUSYBOX, "sh", "-c", "echo kept > /work/kept; /usr/bin/busybox sync"])
        assert (got.status, got.err) == (0, b"")
    finally:
        cluster.close(force=True)
    # The nodes were killed: what was synchronised is on the disk, by its journal.
    subprocess.run(["e2fsck", "-fp", str(disk)], capture_output=True)
    check_clean(disk)
    assert debugfs(disk, "cat /work/kept") == "kept\n"


# Objects are written to names of their own, linked or renamed, and mapped when they are read.
REPOSITORY = r"""
set -e
b=/usr/bin/busybox
cd "$1"
git() { /usr/bin/git "$@"; }
git init -q -b main repository
cd repository
i=0; while [ $i -lt 40 ]; do
    $b mkdir -p d$((i % 5)); $b seq $i 400 > d$((i % 5))/f$i; i=$((i+1))
done
git add .; git commit -q -m one
i=0; while [ $i -lt 40 ]; do echo more >> d$((i % 5))/f$i; i=$((i+3)); done
git mv d0 moved; git commit -q -a -m two
git checkout -q -b side HEAD~1; echo side > d1/side; git add d1; git commit -q -m three
git checkout -q main
git merge -q --no-edit side
git fsck --full --strict; git log --oneline --stat | $b md5sum; git status --short
git rev-parse HEAD^{tree}
"""


@pytest.mark.long
def test_a_repository(tmp_path):
    program = shutil.which("git")
    if not program:
        pytest.skip("git is not there")
    tree = image.Tree()
    tree.add_program(program)
    disk = make_disk(tmp_path, tree)
    there = tmp_path / "work"
    there.mkdir()
    env = ["HOME=/", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b",
           "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b",
           "GIT_AUTHOR_DATE=1000000000 +0000", "GIT_COMMITTER_DATE=1000000000 +0000"]  # fmt: skip
    want = subprocess.run(["busybox", "sh", "-c", REPOSITORY, "sh", str(there)], check=True,
                          capture_output=True, env={**os.environ, **dict(e.split("=", 1) for e in
                                                                         env)})  # fmt: skip
    cluster = up(disk, "disk-repository")
    try:
        got = cluster.run([BUSYBOX, "sh", "-c", REPOSITORY, "sh", "/work"], env=env)
        assert got.status == 0, got.err
        assert got.out == want.stdout
    finally:
        cluster.close()
    assert not cluster.complaints()
    check_clean(disk)
    debugfs(disk, f"rdump /work/repository {tmp_path}")
    subprocess.run(["git", "-c", "safe.directory=*", "fsck", "--full"],
                   cwd=tmp_path / "repository", check=True)  # fmt: skip
