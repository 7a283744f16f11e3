# SPDX-License-Identifier: MIT
"""
Programs that people have, with their libraries and files as the host has them: the same output as
there. What gates is in every Debian that can build Tessera; the rest is left out by name where
the host does not have it. Each works in an empty directory of its own, the same path on both.
"""

import glob
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import pytest
from boot import WORK, Running, image, on_host, packages

TEXT = "/data/text.small"  # in the guest; the host's own path stands for it there

PERL = r"""
use strict; my %count;
open my $in, '<', $ARGV[0] or die; while (<$in>) { last if $. > 10000; $count{lc $1}++
    while /([A-Za-z_]{4,})/g } close $in;
my @top = (sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count)[0 .. 9];
print "$_ $count{$_}\n" for @top;
pipe my $r, my $w or die; my $pid = fork;
if (!$pid) { close $r; print {$w} "line $_\n" for 1 .. 2000; exit 3 }
close $w; my $n = 0; $n++ while <$r>; waitpid $pid, 0; print "$n lines, status ", $? >> 8, "\n";
local $SIG{ALRM} = sub { die "alarm\n" }; eval { alarm 1; sleep 100 while 1 }; print $@;
print `echo from a shell | tr a-z A-Z`; printf "%s\n",
    join ',', map { $_ ** 2 } grep { $_ & 1 } 1 .. 20;
"""

# Servers and clients in one process: asyncio over TCP and AF_UNIX, HTTP by threads.
SERVERS = r"""
import asyncio, http.server, tempfile, threading, urllib.request

async def serve(reader, writer):
    while line := await reader.readline():
        writer.write(line.upper())
        await writer.drain()
    writer.close()

async def client(i, connect):
    reader, writer = await connect()
    for k in range(20):
        writer.write(b"hello %d %d\n" % (i, k))
        await writer.drain()
        assert await reader.readline() == b"HELLO %d %d\n" % (i, k)
    writer.close()

async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    tcp = lambda: asyncio.open_connection("127.0.0.1", port)
    await asyncio.gather(*(client(i, tcp) for i in range(50)))
    path = tempfile.mktemp()
    await asyncio.start_unix_server(serve, path)
    await asyncio.gather(*(client(i, lambda: asyncio.open_unix_connection(path))
                           for i in range(50)))
    print("both served")

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"x" * 300000)

    def log_message(self, *args):
        pass

asyncio.run(main())
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
for _ in range(5):
    print(len(urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/").read()))
server.shutdown()
"""

PYTHON = r"""
import hashlib, json, mmap, os, re, select, signal, socket, subprocess, sys, tempfile, threading
import zlib
text = open(sys.argv[1], "rb").read()
print(hashlib.sha256(text).hexdigest(), len(re.findall(rb"\w+", text[:100000])))
packed = zlib.compress(text[:200000]); print(len(packed), zlib.decompress(packed) == text[:200000])
total, lock = 0, threading.Lock()
def work(n):
    global total
    for i in range(200):
        with lock:
            total += n
threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
print(total)
done = subprocess.run(["/bin/sh", "-c", "read x; echo got $x; exit 5"], input=b"input\n",
                      capture_output=True)
print(done)
with tempfile.TemporaryFile() as f:
    f.truncate(100000)
    with mmap.mmap(f.fileno(), 100000) as m:
        m[70000:70005] = b"there"
    f.seek(70000)
    print(f.read(5))
a, b = socket.socketpair()
if os.fork() == 0:
    a.sendall(a.recv(100).upper()); os._exit(0)
b.sendall(b"over a socket")
print(os.wait()[1], b.recv(100))
signal.signal(signal.SIGUSR1, lambda *_: print("signal")); os.kill(os.getpid(), signal.SIGUSR1)
r, w = os.pipe(); p = select.poll(); p.register(r, select.POLLIN); os.write(w, b"x")
print(p.poll(1000) == [(r, 1)])
print(json.dumps({"list": [1, 2.5, None], "text": "\u00fcn\u00ef"}, sort_keys=True))
"""

DATABASE = r"""
import os, sqlite3
db = sqlite3.connect("db")
def show(text, *args): print(db.execute(text, *args).fetchall())
db.execute("create table t(a integer primary key, b text, c real)")
rows = ((i, f"{i * 2654435761 % 2**32:08x}", i / 7) for i in range(1000))
with db:
    db.executemany("insert into t values(?, ?, ?)", rows)
    db.execute("create index i on t(b)")
show("select count(*), sum(a), min(b), round(sum(c), 3) from t")
show("select a from t where b > 'fff0' order by b")
show("pragma journal_mode = wal")
with db: db.execute("update t set c = c + 1 where a % 3 = 0")
try:
    with db: db.execute("delete from t"); raise KeyError
except KeyError: show("select count(*), round(sum(c), 3) from t")
second = sqlite3.connect("db", timeout=0); db.execute("begin immediate")
try: second.execute("begin immediate")
except sqlite3.OperationalError as err: print(err)
db.commit(); second.close()
show("pragma wal_checkpoint(truncate)"); show("pragma integrity_check"); db.close()
print(sorted(os.listdir(".")), open("db", "rb").read(15), os.path.getsize("db"))
"""

ASYNC = r"""
import asyncio, sys
async def main():
    p = await asyncio.create_subprocess_exec("/bin/cat", stdin=-1, stdout=-1)
    out, _ = await p.communicate(b"through asyncio\n")
    print(out, p.returncode, await asyncio.gather(*(asyncio.sleep(0.01, i) for i in range(5))))
asyncio.run(main())
"""

SCRIPT = r"""
script -qec 'test -t 0 && test -t 1 && test -t 2 && echo terminals; stty size
    stty -a | grep -o -- -*icanon
    sleep 5 & kill %1; exit 9' log < /dev/null; echo "status $?"
sed 1d log | head -n -2; cat -v < log | wc -l
seq 20000 > many; script -qc 'cat many' /dev/null < /dev/null | md5sum
"""

SPAWN = r"""
import os, pty, sys
def read(fd):
    data = os.read(fd, 1024); seen.append(data); return data
seen = []
status = pty.spawn(["/bin/sh", "-c", "stty -echo; tty > name; echo hello; seq 3000; exit 4"], read)
print(os.waitstatus_to_exitcode(status), len(b"".join(seen)),
      open("name").read().startswith("/dev/pts/"))
pid, fd = pty.fork()
if pid == 0:
    print(os.isatty(0), os.getsid(0) == os.getpid()); print(input("name? ").upper()); os._exit(0)
out = b""
while True:
    try: got = os.read(fd, 100)
    except OSError as err: print(err); break
    out += got
    if out.endswith(b"name? "): os.write(fd, b"me\n")
print(out, os.waitpid(pid, 0)[1])
"""

GIT = r"""
export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@example.org
export GIT_COMMITTER_NAME=A GIT_COMMITTER_EMAIL=a@example.org
export GIT_AUTHOR_DATE='2024-01-01T00:00:00Z' GIT_COMMITTER_DATE='2024-01-01T00:00:00Z'
git init -q -b main . && seq 300 > file1 && mkdir d && echo x > d/x && git add . &&
git commit -qm "number 1"
git log --format='%H %s'; echo more >> file1; git diff; git status -s
"""

GIT_MORE = GIT + r"""
for i in 2 3; do seq $((i * 300)) > file$i; mkdir -p d$i; echo $i > d$i/x
    git add . && git commit -qm "number $i"; done
git checkout -q -b side HEAD~1; echo side > side; git add side; git commit -qm side
git merge -q -m merge main; git log --oneline --graph; git gc -q; git fsck --full; git status -s
git rm -q file1; git stash -q; git diff --stat HEAD~2; git archive HEAD | tar t
git clone -q . copy && git -C copy rev-parse HEAD; git grep -c 29
"""

GCC = r"""
cat > main.c <<'END'
#include <math.h>
#include <pthread.h>
#include <stdio.h>
int part(int n);
static void *run(void *arg) { *(int *)arg = part(*(int *)arg); return 0; }
int main(void)
{
	pthread_t t[4]; int n[4];
	for (int i = 0; i < 4; i++) { n[i] = i; pthread_create(&t[i], 0, run, &n[i]); }
	for (int i = 0; i < 4; i++) { pthread_join(t[i], 0); printf("%d ", n[i]); }
	printf("%.6f\n", sqrt(2.0 + n[0]));
	return 7;
}
END
echo 'int part(int n) { return n * n + 1; }' > part.c
printf 'prog: main.o part.o\n\tgcc -o $@ $^ -lm -pthread\n' > Makefile
printf '%%.o: %%.c\n\tgcc -O2 -Wall -c $<\n' >> Makefile
make -s -j4 && ./prog; echo "status $?"
make; ar rc libpart.a part.o && nm libpart.a && objcopy --strip-debug prog && ./prog
echo 'int main(void) { return undeclared; }' > bad.c; gcc bad.c; echo "status $?"
"""

ARCHIVES = r"""
mkdir in; i=0
while [ $i -lt 40 ]; do head -c $((i * 5000)) "$1" > in/f$i; ln -s f$i in/l$i; i=$((i + 1)); done
tar cf a.tar --sort=name --mtime=@0 in && gzip -n -k a.tar; ls -s a.tar > /dev/null
gzip -dc a.tar.gz | cmp - a.tar; mkdir out && tar xzf a.tar.gz -C out && diff -r in out/in; echo $?
find in -type l -name 'l1*' -print0 | sort -z | xargs -0 -n 3 -P 4 readlink | sort | md5sum
sed -n 's/^\(def\|sub\) *\([a-z_]*\).*/\2/p' "$1" | sort | uniq -c | sort -k1,1nr -k2 | head -n 5
grep -c '[0-9]\{3\}' "$1"
awk '{ n[length($0) % 7]++ } END { for (i = 0; i < 7; i++) print i, n[i] }' "$1"
cp -a in copy && mv copy/f3 copy/f4 && comm -3 <(ls in) <(ls copy)
cut -c1-20 "$1" | tac | shuf --random-source="$1" | tail -n 2
df . > /dev/null && stat -c '%s %h %a' in/f7
dd if="$1" bs=1000 skip=3 count=5 2>/dev/null | od -An -tx1 | tail -n 1
"""

PYTHON_TESTS = ("test_int", "test_list", "test_mmap", "test_tempfile", "test_threading",
                "test_select", "test_fork1")

BASH = ("/bin/bash", "-c")
UTILITIES = """
bash sh cat ls ln mkdir head tail tar gzip find xargs sed grep awk sort uniq seq md5sum cmp diff
comm cut tac shuf od dd stat df readlink cp mv tr echo rm wc script stty tty sleep
""".split()
# Of Python's library only what a script would import: its tests alone are as much again.
PYTHON_LEFT_OUT = ("/test", "/distutils", "/idlelib", "/lib2to3", "/tkinter", "/ensurepip",
                   "/pydoc_data",
                   "/dist-packages", "/config-3")  # fmt: skip
GCC_PROGRAMS = ("cc1", "collect2", "lto-wrapper", "as", "ld")
GCC_FILES = """crt1.o Scrt1.o crti.o crtn.o libc.so libc_nonshared.a libm.so libm.so.6 libmvec.so.1
libpthread.a
libgcc_s.so.1""".split()


def resolve(name: str) -> str | None:
    """The program itself: not what stands before it on this PATH (a compiler cache, a chooser of
    versions).
    """
    return shutil.which(name, path="/usr/bin:/bin:/usr/sbin:/sbin")


def _ask_gcc(what: str, name: str) -> str:
    argv = [resolve("gcc"), f"-print-{what}={name}"]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()


def add_compiler(tree: image.Tree) -> None:
    for name in GCC_PROGRAMS:
        found = _ask_gcc("prog-name", name)
        found = found if "/" in found else resolve(found)
        if found:
            tree.add_program(found)
    for name in GCC_FILES:
        found = _ask_gcc("file-name", name)
        if "/" in found:
            tree.add_host_path(found)
    where = pathlib.Path(_ask_gcc("file-name", "libgcc.a")).resolve().parent
    for path in [*where.glob("*.[ao]"), *where.glob("*.so"), *where.glob("liblto_plugin*")]:
        tree.add_host_path(str(path))
    for top in (where / "include", pathlib.Path("/usr/include")):
        add_directory(tree, str(top))


def add_directory(tree: image.Tree, top: str, left_out: tuple[str, ...] = ()) -> None:
    """A directory of the host at its own path, with the libraries that its modules need."""
    modules = []
    for where, _, names in os.walk(top):
        if any(part in where for part in left_out):
            continue
        for name in names:
            path = os.path.join(where, name)
            if not os.path.exists(path):
                continue
            tree.add_host_path(path)
            if ".so" in name and not os.path.islink(path):
                modules.append(path)
    if modules:  # a module names no interpreter, so the launcher does not look for what it needs
        found = subprocess.run(["ldd", *modules], capture_output=True, text=True).stdout
        for needed in set(re.findall(r"=> (/\S+)", found)):
            tree.add_host_path(needed)


def python_libraries() -> list[str]:
    return [d for d in glob.glob("/usr/lib/python3.*") if os.path.isdir(d)]


def build_image(
    name: str, tree: image.Tree, programs: list[str], texts: pathlib.Path
) -> pathlib.Path:
    for path in filter(None, map(resolve, [*programs, *UTILITIES])):
        tree.add_program(path)
    for path in ("/bin", "/lib", "/lib64", "/etc/passwd", "/etc/group"):
        if os.path.islink(path):
            tree.links[path] = os.readlink(path)
        elif os.path.isfile(path):
            tree.files[path] = path
    tree.files[TEXT] = str(texts / "text.small")
    disk, stage = WORK / f"{name}.img", WORK / f"{name}.stage"
    shutil.rmtree(stage, ignore_errors=True)
    stage.mkdir(parents=True)
    tree.stage(str(stage))
    image.make_image(
        packages.require("mke2fs")[0],
        str(stage),
        str(disk),
        lambda argv: subprocess.run(argv, check=True, capture_output=True, text=True).stdout,
    )
    shutil.rmtree(stage)
    return disk


def _running(disk: pathlib.Path, name: str):
    running = Running(("--cpus", "processor=2"), disk, name).up()
    yield running
    running.close()
    assert not running.complaints()


@pytest.fixture(scope="module")
def base(texts):
    """A cluster with what Tessera's own dependencies bring: perl, python3, git."""
    tree = image.Tree()
    add_directory(tree, "/usr/lib/x86_64-linux-gnu/perl-base")
    for top in python_libraries():
        add_directory(tree, top, PYTHON_LEFT_OUT)
    for path in ("/usr/share/git-core", "/usr/lib/git-core/git"):
        if os.path.exists(path):
            add_directory(tree, path) if os.path.isdir(path) else tree.add_program(path)
    yield from _running(build_image("base", tree, ["perl", "python3", "git"], texts), "base")


@pytest.fixture(scope="module")
def full(texts):
    """And with the compiler, Python's own tests, all of git."""
    tree = image.Tree()
    for top in ("/usr/share/perl", "/usr/lib/x86_64-linux-gnu/perl-base",
                "/usr/lib/x86_64-linux-gnu/perl",
                "/usr/lib/git-core", "/usr/share/git-core"):  # fmt: skip
        add_directory(tree, top)
    for top in python_libraries():
        add_directory(tree, top)
    if resolve("gcc"):
        add_compiler(tree)
    programs = ["perl", "python3", "gcc", "make", "ar", "nm", "objcopy", "git"]
    yield from _running(build_image("full", tree, programs, texts), "full")


def compare(
    running: Running, texts: pathlib.Path, argv: list[str], where: str, limit: float = 60.0
) -> None:
    env = ["PATH=/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL=C", "HOME=/nonexistent",
           "GIT_CONFIG_NOSYSTEM=1",
           "PYTHONDONTWRITEBYTECODE=1"]  # fmt: skip
    # In a directory of its own, made by the shell that then becomes the program.
    enter = [*BASH, f'mkdir -p {where} && cd {where} && exec "$@"', "enter"]
    got = running.run([*enter, *argv], cwd="/", env=env, limit=limit)
    shutil.rmtree(where, ignore_errors=True)
    try:
        want = on_host(
            [*enter, *[str(texts / "text.small") if a == TEXT else a for a in argv]], env=env
        )
    finally:
        shutil.rmtree(where, ignore_errors=True)
    assert got.err.decode(errors="replace") == want.err.decode(errors="replace")
    assert (got.status, got.out.decode(errors="replace")) == (
        want.status,
        want.out.decode(errors="replace"),
    )


@pytest.fixture
def where():
    """A path that nobody has, under /tmp on both."""
    path = tempfile.mkdtemp(prefix="tessera-real-", dir="/tmp")
    yield path
    shutil.rmtree(path, ignore_errors=True)


def require(program: str) -> None:
    if not resolve(program):
        pytest.skip(f"there is no {program} on this host")


def test_perl(base, texts, where):
    require("perl")
    compare(base, texts, ["/usr/bin/perl", "-e", PERL, TEXT], where)


@pytest.mark.parametrize(
    "script", [PYTHON, DATABASE, SERVERS], ids=["modules", "sqlite3", "servers"]
)
def test_python(base, texts, where, script):
    require("python3")
    compare(base, texts, ["/usr/bin/python3", "-c", script, TEXT], where)


def test_git(base, texts, where):
    require("git")
    compare(base, texts, [*BASH, GIT, "script"], where)


def test_script(base, texts, where):
    """A shell on a pseudo terminal."""
    require("script")
    compare(base, texts, [*BASH, SCRIPT, "script"], where)


@pytest.mark.long
@pytest.mark.parametrize("script", [ASYNC, SPAWN], ids=["asyncio", "pty"])
def test_python_more(base, texts, where, script):
    require("python3")
    compare(base, texts, ["/usr/bin/python3", "-c", script, TEXT], where)


@pytest.mark.long
@pytest.mark.parametrize("program, script", [
    ("gcc", GCC), ("git", GIT_MORE), ("bash", ARCHIVES),
], ids=["gcc", "git", "archives"])  # fmt: skip
def test_a_script(full, texts, where, program, script):
    require(program)
    compare(full, texts, [*BASH, script, "script", TEXT], where, 300)


@pytest.mark.long
@pytest.mark.parametrize("name", PYTHON_TESTS)
def test_pythons_own(full, name):
    """No comparison of output, which has times in it: what passes on the host passes here."""
    if not any(os.path.exists(f"{d}/test/{name}.py") for d in python_libraries()):
        pytest.skip(f"there is no {name} on this host")
    got = full.run(["/usr/bin/python3", "-m", "test", name], cwd="/tmp", limit=600)
    assert got.status == 0, got.out[-3000:] + got.err[-1000:]
