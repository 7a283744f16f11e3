# SPDX-License-Identifier: MIT
"""
More servers that people have, unmodified: rsync, screen, tmux, node, Go; a login by dropbear, and
nginx under ab, from the host; servers and clients on two processors. Each is left out by name where
the host does not have it.
"""

import glob
import os
import pty
import shutil
import subprocess
import time

import pytest
from boot import WORK, Running, image, wait_for
from test_real_programs import (
    BASH,
    PYTHON_LEFT_OUT,
    _running,
    add_directory,
    build_image,
    compare,
    python_libraries,
    require,
    resolve,
    where,  # noqa: F401 (a fixture)
)
from test_servers import NGINX_SETUP, UNTIL, a_free_port, end, on_the_host, under_ab

pytestmark = pytest.mark.long

PROGRAMS = ["rsync", "dropbear", "dropbearkey", "screen", "tmux", "node", "nginx", "curl",
            "redis-server", "redis-cli", "redis-benchmark", "python3", "chmod", "touch", "id",
            "kill", "timeout"]  # fmt: skip
LIMIT_S = 300

RSYNC = UNTIL + r"""
mkdir -p src/a/b; for i in 1 2 3; do seq $((i * 3000)) > src/a/$i; done; ln -s a/1 src/l
chmod 640 src/a/2; touch -d @1000000000 src/a/2 src/a/3; : > src/a/b/none; mkdir dst
cat > conf <<END
use chroot = no
[m]
path = $PWD/dst
read only = no
uid = 0
gid = 0
END
rsync --daemon --no-detach --port=$port --address=127.0.0.1 --config=conf --log-file=log & p=$!
at=rsync://127.0.0.1:$port
until_up rsync $at
rsync $at
rsync -a src/ $at/m/; echo "status $?"
(cd dst && find . -type f -printf '%p %s %m\n' | sort); stat -c %Y dst/a/3; readlink dst/l
seq 5 >> src/a/2; rm src/a/1; touch -d @1100000000 src/a/2 src/a/3
rsync -aiO --delete src/ $at/m/ | sort; echo "status $?"
rsync -a $at/m/ back/; diff -r --no-dereference src back; echo "same $?"
rsync -a $at/none/ back/ 2> err; echo "status $?"; grep -c 'Unknown module' err
kill $p; wait $p; echo "status $?"
"""

SCREEN = r"""
export SCREENDIR=$PWD/s TERM=vt100 SHELL=/bin/bash; mkdir -m 700 s
wait_for() { local i=0; until [ -s "$1" ]; do i=$((i + 1)); [ $i -lt 200 ] || exit 9; sleep 0.1
    done; }
screen -c /dev/null -dmS one bash --norc --noprofile -c 'tty > one; stty size >> one;
    echo visible; read line; echo "$line" > two; read end' < /dev/null; echo "status $?"
wait_for one; sed 's,/dev/pts/[0-9]*,a terminal,' one
screen -ls | grep -c '\.one.*(Detached)'
screen -S one -p 0 -X stuff 'to the window\n'; wait_for two; cat two
screen -S one -p 0 -X hardcopy $PWD/copy; wait_for copy; grep -c '^visible' copy
screen -S one -X quit; echo "status $?"
i=0; while screen -ls > list; do i=$((i + 1)); [ $i -lt 100 ] || exit 9; sleep 0.1; done
sed 's/ in .*//' list
"""

TMUX = UNTIL + r"""
export TMUX_TMPDIR=$PWD/t TERM=vt100 SHELL=/bin/sh; mkdir -m 700 t
shows() { tmux capture-pane -p -t "$1" | grep -q "$2"; }
tmux -f /dev/null new-session -d -s x -x 60 -y 10 'exec sh'; echo "status $?"
until_up test -S t/tmux-*/default
tmux send-keys -t x 'echo $((6 * 7))' Enter; until_up shows x '^42'
tmux capture-pane -p -t x | grep -m1 '^42'
tmux split-window -t x 'seq 3; read line; echo "$line" > two; read end'; until_up shows x.1 '^3'
tmux list-panes -t x -F '#{pane_index} #{pane_width}x#{pane_height} #{pane_dead}'
tmux capture-pane -p -t x.1 | head -n 3
tmux send-keys -t x.1 'to the pane' Enter; until_up test -s two; cat two
tmux new-window -d -t x -n second 'cat'; tmux list-windows -t x -F '#{window_index} #{window_name}'
tmux set-buffer 'a buffer'; tmux paste-buffer -t x:second; until_up shows x:second '^a buffer'
attached() { [ "$(tmux list-clients | wc -l)" = 1 ]; }
script -qec 'stty rows 10 cols 60; tmux attach -t x' log < /dev/null > /dev/null & p=$!
until_up attached; tmux detach-client -s x; wait $p; echo "client $?"; grep -c detached log
tmux kill-server; echo "status $?"
gone() { ! tmux list-sessions; }
until_up gone; tmux list-sessions 2>&1 | sed 's/ on .*//'
"""

NODE = UNTIL + r"""
cat > s.js <<'END'
const http = require("http"), crypto = require("crypto");
const server = http.createServer((req, res) => {
    if (req.method == "POST") {
        const hash = crypto.createHash("sha256");
        req.on("data", (d) => hash.update(d));
        req.on("end", () => res.end(hash.digest("hex") + "\n"));
    } else if (req.url == "/many") {
        for (let i = 0; i < 20000; i++) res.write(i + "\n");
        res.end();
    } else {
        res.writeHead(req.url == "/" ? 200 : 404);
        res.end(req.url + "\n");
    }
});
server.listen(+process.argv[2], "127.0.0.1");
process.on("SIGTERM", () => { server.close(() => console.log("closed")); });
END
node s.js $port & p=$!
at=http://127.0.0.1:$port
until_up curl -s $at/
curl -s $at/ $at/x; curl -s $at/many | md5sum; seq 50000 > body
curl -s --data-binary @body $at/; curl -s -o /dev/null -w '%{http_code}\n' $at/none
for i in 1 2 3 4 5 6 7 8; do curl -s $at/many > got$i & c="$c $!"; done; wait $c; md5sum got*
kill $p; wait $p; echo "status $?"
"""

GO_SOURCE = r"""
package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync/atomic"
)

func main() {
	var nr atomic.Int64
	http.HandleFunc("/many", func(w http.ResponseWriter, r *http.Request) {
		for i := 0; i < 20000; i++ {
			fmt.Fprintln(w, i)
		}
	})
	http.HandleFunc("/sum", func(w http.ResponseWriter, r *http.Request) {
		hash := sha256.New()
		io.Copy(hash, r.Body)
		fmt.Fprintf(w, "%x\n", hash.Sum(nil))
	})
	http.HandleFunc("/count", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, nr.Add(1))
	})
	fmt.Fprintln(os.Stderr, http.ListenAndServe("127.0.0.1:"+os.Args[1], nil))
}
"""

GO = UNTIL + r"""
/usr/bin/go-server $port & p=$!
at=http://127.0.0.1:$port
until_up curl -s $at/none
curl -s $at/many | md5sum; seq 50000 > body; curl -s --data-binary @body $at/sum
curl -s -o /dev/null -w '%{http_code}\n' $at/none
for i in 1 2 3 4 5 6 7 8; do curl -s $at/many > got$i & c="$c $!"; done; wait $c; md5sum got*
for i in 1 2 3; do curl -s $at/count $at/count; done | tail -n 1
kill $p; wait $p; echo "status $?"
"""


def go_server() -> str | None:
    """Built by the host's Go from GO_SOURCE."""
    go = shutil.which("go", path=f"{os.environ['PATH']}:/usr/local/go/bin:/usr/lib/go/bin")
    if not go:
        return None
    at = WORK / "go"
    at.mkdir(parents=True, exist_ok=True)
    (at / "main.go").write_text(GO_SOURCE)
    (at / "go.mod").write_text("module server\n\ngo 1.19\n")
    out = at / "go-server"
    env = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local",
           "GOCACHE": str(at / "cache"), "GOPATH": str(at / "path")}  # fmt: skip
    subprocess.run([go, "build", "-o", str(out), "."], cwd=at, env=env, check=True, timeout=600)
    return str(out)


@pytest.fixture(scope="module")
def disk_of_servers(texts):
    tree = image.Tree()
    for top in python_libraries():
        add_directory(tree, top, PYTHON_LEFT_OUT)
    # tmux wants a locale of UTF-8.
    for top in ("/lib/terminfo", "/etc/terminfo", "/usr/lib/locale/C.utf8"):
        if os.path.isdir(top):
            add_directory(tree, top)
    for path in ("/etc/shells", "/etc/nsswitch.conf", *glob.glob("/lib/x86_64-linux-gnu/libnss_*")):
        if os.path.exists(path):
            tree.add_host_path(path)
    tree.links["/root"] = "/tmp/home"  # where programs may write
    server = go_server()
    if server:
        tree.files["/usr/bin/go-server"] = server
    return build_image("servers-more", tree, PROGRAMS, texts)


@pytest.fixture(scope="module")
def servers(disk_of_servers):
    yield from _running(disk_of_servers, "servers-more")


@pytest.mark.parametrize("script, needs", [
    (RSYNC, ["rsync"]), (SCREEN, ["screen"]), (TMUX, ["tmux", "script"]), (NODE, ["node", "curl"]),
], ids=["rsync", "screen", "tmux", "node"])  # fmt: skip
def test_a_server(servers, texts, where, script, needs):  # noqa: F811
    for program in needs:
        require(program)
    compare(servers, texts, [*BASH, script, "script", str(a_free_port())], where, LIMIT_S)


def test_a_go_server(servers, texts, where):  # noqa: F811
    require("curl")
    server = WORK / "go" / "go-server"
    if not server.exists():
        pytest.skip("there is no go on this host")
    # The same program at the same place on both.
    script = f"cp {server} /tmp/go-server 2> /dev/null || cp /usr/bin/go-server /tmp/go-server\n"
    compare(servers, texts, [*BASH, script + GO.replace("/usr/bin/", "/tmp/"), "script",
                             str(a_free_port())], where, LIMIT_S)  # fmt: skip


DROPBEAR = r"""
mkdir -p -m 700 /tmp/home/.ssh && cd /tmp/home
dropbearkey -t ed25519 -f host > /dev/null 2>&1
printf '%s\n' "$1" > .ssh/authorized_keys; chmod 600 .ssh/authorized_keys
exec dropbear -F -E -s -m -p 7001 -r host
"""


@pytest.fixture
def published(disk_of_servers):
    """The port of the host that leads to 7001."""
    port = a_free_port()
    running = Running(("--publish", f"{port}:7001"), disk_of_servers, "servers-pub").up()
    try:
        yield running, port
    finally:
        running.close()
    assert not running.complaints()


def test_a_login_by_dropbear(published, tmp_path):
    """From the host: commands, their bytes and statuses, a terminal; a wrong key has no way in."""
    for program in ("dropbear", "dropbearkey", "dbclient"):
        require(program)
    running, port = published
    keys = []
    for name in ("good", "bad"):
        out = subprocess.run(["dropbearkey", "-t", "ed25519", "-f", str(tmp_path / name)],
                             check=True, capture_output=True, text=True).stdout  # fmt: skip
        keys.append(next(line for line in out.splitlines() if line.startswith("ssh-")))
    server, capture = running.start([*BASH, DROPBEAR, "dropbear", keys[0]], cwd="/tmp",
                                    env=["PATH=/usr/bin:/bin:/usr/sbin:/sbin"])  # fmt: skip

    def login(command, *options, key="good", **how):
        return subprocess.run(
            ["dbclient", "-y", "-y", "-i", str(tmp_path / key), *options, "-p", str(port),
             "root@127.0.0.1", command], capture_output=True, timeout=120, check=False,
            env={**os.environ, "HOME": str(tmp_path)}, **how)  # fmt: skip

    wait_for(lambda: login("true").returncode == 0)
    got = login("echo out; echo err >&2; pwd; id -un; exit 7")
    assert (got.returncode, got.stdout) == (7, b"out\n/tmp/home\nroot\n")
    assert got.stderr.endswith(b"err\n")
    body = bytes(range(256)) * 4000
    assert login("cat", input=body).stdout == body
    ours, theirs = pty.openpty()  # the client makes its own terminal raw
    got = login("tty; test -t 0 && echo terminal", "-t", stdin=theirs)
    os.close(ours)
    os.close(theirs)
    assert got.stdout == b"/dev/pts/0\r\nterminal\r\n"
    got = login("echo in", key="bad", stdin=subprocess.DEVNULL)
    assert got.returncode != 0 and not got.stdout
    assert end(server) == 1 << 8, bytes(capture.data[2])  # its own answer to SIGTERM


def test_nginx_under_ab(published):
    for program in ("nginx", "ab", "curl"):
        require(program)
    running, port = published
    script = f"set -- 7001; {NGINX_SETUP} exec nginx -p $PWD -e elog -c $PWD/conf"
    server, _ = running.start([*BASH, script], cwd="/tmp", env=["PATH=/usr/bin:/bin:/usr/sbin"])
    url = f"http://127.0.0.1:{port}/1"
    size = sum(len(f"{n}\n") for n in range(1, 3001))
    wait_for(lambda: len(on_the_host("curl", "-s", url)) == size)
    under_ab(url, size, "-n", "300", "-c", "10")
    under_ab(url, size, "-n", "1000", "-c", "20", "-k")
    assert end(server) == 0


# --- two processors

# Each page is a counter of the database at $1, on another processor.
WEB = r"""
import http.server, socket, sys

class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        address = "127.0.0.1", int(sys.argv[1])
        with socket.create_connection(address) as db, db.makefile("rb") as f:
            db.sendall(b"*2\r\n$4\r\nINCR\r\n$%d\r\n%s\r\n" % (len(self.path), self.path.encode()))
            body = f.readline()[1:].strip() + b"\n"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *args):
        pass

http.server.ThreadingHTTPServer(("0.0.0.0", 7001), Page).serve_forever()
"""


@pytest.fixture(scope="module")
def pair(disk_of_servers):
    port = a_free_port()
    args = ("--processors", "2", "--publish", f"{port}:7001")
    running = Running(args, disk_of_servers, "servers-pair").up()
    running.published = port
    yield running
    running.close()
    assert not running.complaints()


def redis(pair, port: int):
    """A server on the second processor, once it answers on the first."""
    server, _ = pair.start([resolve("redis-server"), "--port", str(port), "--save", "",
                            "--appendonly", "no"], cwd="/tmp", node="p1")  # fmt: skip
    ask = [resolve("redis-cli"), "-p", str(port), "ping"]
    wait_for(lambda: pair.run(ask, cwd="/tmp").out == b"PONG\n")
    return server


def test_redis_between_two_processors(pair):
    for program in ("redis-server", "redis-cli", "redis-benchmark"):
        require(program)
    server = redis(pair, 7101)
    cli = [resolve("redis-cli"), "-p", "7101"]
    big = "b" * 1_000_000
    assert pair.run([*cli, "-x", "set", "a"], stdin=big.encode(), cwd="/tmp").out == b"OK\n"
    assert pair.run([*cli, "get", "a"], cwd="/tmp").out.decode() == big + "\n"
    got = pair.run([resolve("redis-benchmark"), "-p", "7101", "-n", "2000", "-c", "20", "-P", "4",
                    "-t", "get,set,lpush,lrange_100", "--csv"], cwd="/tmp",
                   limit=LIMIT_S).checked().decode()  # fmt: skip
    assert [line.split(",")[0] for line in got.splitlines()[1:]] == [
        '"SET"', '"GET"', '"LPUSH"', '"LPUSH (needed to benchmark LRANGE)"',
        '"LRANGE_100 (first 100 elements)"']  # fmt: skip
    assert pair.stats()["p0"]["socket.remote.bytes"] > 1_000_000
    assert end(server) == 0


def test_a_web_server_and_its_database_on_two_processors(pair):
    for program in ("redis-server", "redis-cli", "python3", "curl"):
        require(program)
    database = redis(pair, 7102)
    server, _ = pair.start([resolve("python3"), "-c", WEB, "7102"], cwd="/tmp")
    url = f"http://127.0.0.1:{pair.published}"
    wait_for(lambda: on_the_host("curl", "-s", f"{url}/first").strip().isdigit())
    assert on_the_host("curl", "-s", *[f"{url}/page"] * 20) == "".join(
        f"{n}\n" for n in range(1, 21)
    )
    clients = [subprocess.Popen(["curl", "-s", *[f"{url}/many"] * 10], stdout=subprocess.PIPE)
               for _ in range(8)]  # fmt: skip
    seen = sorted(int(n) for c in clients for n in c.communicate(timeout=120)[0].split())
    assert seen == list(range(1, 81))
    for program in (server, database):
        program.signal(15)
        assert program.wait(time.monotonic() + 60)
