# SPDX-License-Identifier: MIT
"""Programs that people have, at work on a disk that lasts: the sources of a well-known package
unpacked, changed and kept in a repository, a hundred files compiled, databases of 100,000 rows,
archives and shelves of Python. Each works in a directory of its own, the same as on the host.

When the cluster has ended, e2fsck finds nothing, debugfs shows the trees that the host has, and a
Linux guest mounts the disk and reads the same from it.
"""

import os
import pathlib
import shutil
import subprocess

import pytest
from boot import ROOT, WORK, Running, image, on_host
from linux_guest import on_linux
from test_disk import check_clean, tree_of, tree_on_disk
from test_real_programs import (
    BASH,
    UTILITIES,
    add_compiler,
    add_directory,
    python_libraries,
    resolve,
)

pytestmark = pytest.mark.long

# Debian's git, as it comes: 4,500 files.
SOURCE = ("git", "git_2.39.5.orig.tar.xz",
          "c58da92c378df4a986ca33266897a7397e86c22ee266a284d8c2432c39066b59")  # fmt: skip
ENV = ["PATH=/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL=C", "HOME=/nonexistent", "TZ=UTC",
       "GIT_CONFIG_NOSYSTEM=1", "PYTHONDONTWRITEBYTECODE=1",
       "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=pack.threads", "GIT_CONFIG_VALUE_0=1",
       "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a",
       "GIT_COMMITTER_EMAIL=a@b", "GIT_AUTHOR_DATE=1000000000 +0000",
       "GIT_COMMITTER_DATE=1000000000 +0000"]  # fmt: skip
LIMIT_S = 1500

# Unpack, look at everything, delete half, rename a quarter.
SOURCES = r"""
set -e
tar xf "$1" --no-same-owner; cd git-*
find . | sort | sha256sum
find . -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum
find . -printf '%y %m %s %T@ %l\n' | sed 's/^d \([0-9]*\) .*/d \1/' | sort | sha256sum
find . -type f | sort | awk 'NR % 2' > ../gone; xargs -d '\n' rm < ../gone; wc -l < ../gone
find . -type f | sort | perl -nle 'next if $. % 2; my $to = $_; $to =~ s|([^/]*)$|moved-$1|;
    rename $_, $to or die "$_: $!"; $n++; END { print $n }'
find . | sort | sha256sum; find . -type f -print0 | sort -z | xargs -0 cat | sha256sum
sync
"""

REPOSITORY = r"""
set -e
mkdir first; tar xf "$1" -C first --strip-components=1 --no-same-owner; cd first
rm -rf t po Documentation; git init -q -b main .; git add .; git commit -qm one
for i in 1 2 3; do
    for f in *.c; do echo "/* $i */" >> $f; done; git commit -qam "number $i"
done
cd ..; git clone -q first second; cd second; git gc -q; git fsck --full --strict
git checkout -q -b side HEAD~2; echo side > side; git add side; git commit -qm side
git merge -q -m merge main; git log --oneline --stat | sha256sum; git status --short | wc -l
git rev-parse HEAD^{tree}; git archive HEAD | tar t | sha256sum; cd ../first
git fetch -q ../second side; git rev-parse FETCH_HEAD; git gc -q --prune=now; git fsck --full
"""

COMPILER = r"""
set -e
for i in $(seq 100); do
    printf '#include "all.h"\nint f%d(int n) { return n * %d + N; }\n' $i $i > f$i.c
done
{ echo '#define N 7'; for i in $(seq 100); do echo "int f$i(int);"; done; } > all.h
{ printf '#include <stdio.h>\n#include "all.h"\nint main(void) { long sum = 0;\n'
  for i in $(seq 100); do echo "sum += f$i($i);"; done
  printf 'printf("%%ld\\n", sum); return 0; }\n'; } > main.c
cat > Makefile <<'END'
objects := main.o $(patsubst %,f%.o,$(shell seq 100))
program: $(objects)
	gcc -o $@ $^
%.o: %.c all.h
	gcc -O1 -c -o $@ $<
END
make -s -j2; ./program; make; sed -i 's/N 7/N 8/' all.h; make -s -j2; ./program; ls | wc -l
"""

DATABASE = r"""
set -e
for mode in delete wal; do
    sqlite3 $mode.db <<END
pragma journal_mode = $mode;
create table t(a integer primary key, b text, c integer);
begin; with recursive n(i) as (select 1 union all select i + 1 from n where i < 100000)
insert into t select i, printf('%08x', i * 2654435761 % 4294967296), i % 97 from n; commit;
create index on_b on t(b); create index on_c on t(c);
update t set c = c + 1 where a % 3 = 0; delete from t where a % 7 = 0;
select count(*), sum(c), min(b), max(b) from t; pragma integrity_check;
END
    for i in $(seq 20); do sqlite3 $mode.db "insert into t(b, c) values('more', $i)"; done
    sqlite3 $mode.db 'select count(*) from t; pragma integrity_check; vacuum;
        pragma integrity_check; pragma wal_checkpoint(truncate);'
done
ls
"""

PYTHON = r"""
import hashlib, mmap, os, shelve, sys, tarfile, tempfile
text = open(sys.argv[1], "rb").read(1 << 20)
with shelve.open("shelf", "n") as s:
    for i in range(500):
        s[f"key {i}"] = {"number": i, "text": text[i * 100 : i * 100 + 300]}
with shelve.open("shelf", "r") as s:
    print(len(s), sum(v["number"] for v in s.values()), s["key 77"]["text"][:20])
for i in range(50):
    open(f"file{i}", "wb").write(text[i * 1000 : i * 1000 + i * 997])
for kind in ("w", "w:gz", "w:xz"):
    with tarfile.open("archive", kind) as t:
        for i in range(50):
            t.add(f"file{i}")
    with tarfile.open("archive") as t:
        t.extractall("out", **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
        print(len(t.getnames()))
    print(all(open(f"file{i}", "rb").read() == open(f"out/file{i}", "rb").read()
              for i in range(50)))
os.remove("archive")
with open("mapped", "w+b") as f:
    f.truncate(3 << 20)
    with mmap.mmap(f.fileno(), 0) as m:
        for i in range(0, 3 << 20, 4097):
            m[i] = i % 251
        m.flush(); m[100:200] = text[:100]; print(m.find(text[:50]), m.size())
    print(hashlib.sha256(f.read()).hexdigest())
    with mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_COPY) as m:
        m[0:5] = b"mine!"; f.seek(0); print(f.read(5) != b"mine!")
with tempfile.TemporaryDirectory(dir=".") as d, tempfile.NamedTemporaryFile(dir=d) as f:
    f.write(text); f.flush(); print(os.path.getsize(f.name), os.path.exists(d))
with tempfile.TemporaryFile(dir=".") as f:
    f.write(text); f.seek(5); print(f.read(5) == text[5:10])
with tempfile.SpooledTemporaryFile(max_size=1000, dir=".") as f:
    f.write(text[:5000]); f.seek(4990); print(f.read())
print(sorted(os.listdir("."))[:5])
"""

JOBS = {"sources": ([*BASH, SOURCES, "sources", "SOURCE"], "tar xz perl"),
        "repository": ([*BASH, REPOSITORY, "repository", "SOURCE"], "git tar xz"),
        "compiler": ([*BASH, COMPILER], "gcc make"),
        "database": ([*BASH, DATABASE], "sqlite3"),
        "python": (["/usr/bin/python3", "-c", PYTHON, "SOURCE"], "python3")}  # fmt: skip


@pytest.fixture(scope="module")
def source() -> pathlib.Path:
    binary, name, sha256 = SOURCE
    where = WORK / "sources"
    done = subprocess.run([ROOT / "scripts/fetch-source.sh", where, ROOT / "none", binary, name,
                           sha256], capture_output=True, text=True)  # fmt: skip
    if done.returncode:
        pytest.skip(done.stderr.strip())
    return where / name


def make_disk(where: pathlib.Path, source: pathlib.Path) -> pathlib.Path:
    tree = image.Tree()
    for name in [*UTILITIES, "tar", "xz", "perl", "git", "gcc", "make", "sqlite3", "python3",
                 "sha256sum", "rmdir", "sync", "printf"]:  # fmt: skip
        if path := resolve(name):
            tree.add_program(path)
    for path in ("/bin", "/lib", "/lib64", "/etc/passwd", "/etc/group"):
        if os.path.islink(path):
            tree.links[path] = os.readlink(path)
        elif os.path.isfile(path):
            tree.files[path] = path
    for top in ("/usr/share/perl", "/usr/lib/x86_64-linux-gnu/perl-base",
                "/usr/lib/x86_64-linux-gnu/perl", "/usr/lib/git-core",
                "/usr/share/git-core", *python_libraries()):  # fmt: skip
        if os.path.isdir(top):
            add_directory(tree, top, ("/test/",))
    if resolve("gcc"):
        add_compiler(tree)
    tree.files["/data/source"] = str(source)
    stage, disk = where / "stage", where / "disk.img"
    stage.mkdir()
    tree.stage(str(stage))
    for job in JOBS:
        (stage / "work" / job).mkdir(parents=True)
    subprocess.run(["mke2fs", "-q", "-F", "-t", "ext4", "-d", str(stage), str(disk), "3G"],
                   check=True)  # fmt: skip
    shutil.rmtree(stage)
    return disk


@pytest.fixture(scope="module")
def disk(source, tmp_path_factory):
    where = tmp_path_factory.mktemp("programs")
    yield make_disk(where, source)
    shutil.rmtree(where)


def run_job(running: Running, name: str, here: pathlib.Path, source: pathlib.Path) -> None:
    argv, needs = JOBS[name]
    for program in needs.split():
        if not resolve(program):
            pytest.skip(f"there is no {program} on this host")
    put = lambda path: [path if a == "SOURCE" else a for a in argv]  # noqa: E731
    want = on_host(put(str(source)), env=ENV, cwd=here)
    assert want.status == 0, want.err
    got = running.run(put("/data/source"), env=ENV, cwd=f"/work/{name}", limit=LIMIT_S)
    assert (got.status, got.err.decode(), got.out.decode()) == (
        0, want.err.decode(), want.out.decode())  # fmt: skip


LOOK = r"""find work/NAME -type f -exec sha256sum {} + | sort -k 2 | sha256sum
find work/NAME | sort | sha256sum"""


@pytest.mark.parametrize("name", JOBS)
def test_a_job(disk, source, tmp_path, name):
    """The disk goes from case to case: each finds it as the one before has left it."""
    running = Running(("--disk", str(disk), "--cpus", "processor=2", "--memories", "2",
                       "--memory", "processor=512M"), None, f"disk-{name}").up()  # fmt: skip
    here = tmp_path / "work" / name
    here.mkdir(parents=True)
    try:
        run_job(running, name, here, source)
    finally:
        running.close()
    assert not running.complaints()
    check_clean(disk)
    on_disk, there = tree_on_disk(disk, f"/work/{name}", tmp_path / "dump"), tree_of(here)
    if name == "repository":  # git copies modes and empty directories of the host's templates
        on_disk = {p: (what, 0) for p, (what, _) in on_disk.items()}
        there = {p: (what, 0) for p, (what, _) in there.items() if not p.endswith(".git/branches")}
    assert set(on_disk) == set(there)
    # An index of git and a database of dbm have times and inode numbers in them.
    differ = {p for p in there if on_disk[p] != there[p]
              and not p.endswith((".git/index", "shelf.db"))}  # fmt: skip
    assert not differ
    dump = tmp_path / "dump" / "work"
    dump.mkdir()
    (tmp_path / "dump" / name).rename(dump / name)
    look = LOOK.replace("NAME", name)
    want = subprocess.run(["sh", "-c", look], cwd=tmp_path / "dump", check=True,
                          capture_output=True, text=True,
                          env={**os.environ, "LC_ALL": "C"})  # fmt: skip
    assert on_linux(disk, look) == want.stdout
