# SPDX-License-Identifier: MIT
"""./tessera run --sweep: what it refuses, its rows and picture; what Linux's guests are given."""

import json
import os
import re
import signal
import socket
import subprocess
import threading

import pytest
from conftest import fakes_of
from test_run import sh, wait_for
from tessera_launcher import linux, sweep
from tessera_launcher.errors import LaunchError
from tessera_launcher.options import parse_run
from tessera_launcher.sweep import Row

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(autouse=True)
def nothing_left(launcher):
    yield
    assert wait_for(lambda: not list(launcher.run_dir.iterdir()))
    assert fakes_of(launcher.build) == []


@pytest.mark.parametrize("args, why", [
    (["--sweep", "0"], "not a percentage"), (["--sweep", "100.5"], "not a percentage"),
    (["--sweep", "150"], "not a percentage"), (["--sweep", "-5"], "not a percentage"),
    (["--sweep", "fifty"], "not a percentage"), (["--sweep", "nan"], "not a percentage"),
    (["--sweep", "50%"], "not a percentage"), (["--sweep", ""], "not a percentage"),
    (["--sweep", "50,,25"], "not a percentage"), (["--sweep", "50,25,50.0"], "twice"),
    (["--sweep", "50", "-t"], "-t"), (["--sweep", "50", "--dry-run"], "--dry-run"),
    (["--sweep", "50", "--account"], "--account"),
    (["--sweep", "50", "--processors", "2"], "--processors"),
    (["--sweep", "50", "--plot", "/nowhere/x.png"], "cannot be written"),
    (["--sweep", "50", "--plot", "/"], "cannot be written"),
    (["--sweep", "50", "--stats", "/nowhere/x.json"], "--stats: /nowhere/x.json cannot be"),
    (["--plot", "x.png"], "for --sweep"), (["--beside-linux"], "for --sweep"),
])  # fmt: skip
def test_what_makes_no_sense(launcher, args, why):
    done = launcher.run(*args, "true")
    assert (done.returncode, done.stdout) == (125, b"")
    assert re.fullmatch(rf"tessera: [^\n]*{re.escape(why)}[^\n]*\n", done.stderr.decode())


def test_shares_are_kept_in_order():
    assert parse_run(["--sweep", "12.5,100,75", "true"]).sweep == [12.5, 100, 75]


def swept(launcher, tmp_path, script, *args, shares="50,25", **how):
    return launcher.run("--sweep", shares, "--plot", tmp_path / "out.png", "--stats",
                        tmp_path / "out.json", *args, *sh(script), **how)  # fmt: skip


def rows_of(tmp_path) -> list[dict]:
    return json.loads((tmp_path / "out.json").read_text())["rows"]


def test_a_table_and_a_picture(launcher, tmp_path):
    seen = tmp_path / "seen"
    script = f"wc -c >> {seen}; echo noise; echo '$\n\u2603 ' >&2"
    done = swept(launcher, tmp_path, script, shares="50,5", input=b"12345")
    assert (done.returncode, done.stderr) == (0, b"")
    lines = done.stdout.decode().splitlines()
    assert lines[0].split()[:4] == ["MEMORY", "CACHE", "SECONDS", "SLOWDOWN"]
    # The fakes tell a peak of 12 MiB. The first cache holds that with room to spare.
    assert [line.split()[:3] for line in lines[1:4]] == [
        ["all", "64.0", "MiB"], ["50%", "6.0", "MiB"], ["5%", "1.0", "MiB"]]  # fmt: skip
    assert "1M is the smallest cache" in lines[3]
    assert "noise" not in done.stdout.decode()
    assert (tmp_path / "out.png").read_bytes().startswith(PNG)
    # Twice in each cluster, each time with the whole input.
    assert seen.read_text().split() == ["5"] * 6
    rows = rows_of(tmp_path)
    assert [r["share"] for r in rows] == [None, 50, 5]
    assert [r["misses"] for r in rows] == [75, 75, 75]  # 25 of each node, in each look
    assert all(r["output"] == rows[0]["output"] for r in rows)


def test_input_from_a_file_begins_where_it_stands(launcher, tmp_path):
    (tmp_path / "in").write_text("skipped\nthe rest\n")
    seen = tmp_path / "seen"
    with open(tmp_path / "in") as f:
        os.lseek(f.fileno(), 8, os.SEEK_SET)
        assert swept(launcher, tmp_path, f"cat >> {seen}", shares="50", stdin=f).returncode == 0
    assert seen.read_text() == "the rest\n" * 4


def test_a_share_at_which_it_fails_is_a_row(launcher, tmp_path):
    runs = tmp_path / "runs"
    runs.touch()
    # The third and fourth run are those at 50 %.
    script = (f"echo >> {runs}; case $(wc -l < {runs}) in 3|4) echo no room >&2; exit 7;; esac")
    done = swept(launcher, tmp_path, script)
    assert done.returncode == 7
    lines = done.stdout.decode().splitlines()
    assert re.match(r"50% .* failed .* status 7: no room$", lines[2])
    assert lines[3].startswith("25%") and "failed" not in lines[3]
    assert (tmp_path / "out.png").read_bytes().startswith(PNG)


def test_a_programs_last_words_move_no_terminal(launcher, tmp_path):
    runs = tmp_path / "runs"
    runs.touch()
    words = r"printf 'a\033]0;title\007\033[2Jb\302\233c' >&2; exit 7"
    script = f"echo >> {runs}; case $(wc -l < {runs}) in 3|4) {words};; esac"
    done = swept(launcher, tmp_path, script, shares="50")
    assert done.returncode == 7
    assert "status 7: a ]0;title  [2Jb c" in done.stdout.decode()
    assert not set(done.stdout + done.stderr) & {0x07, 0x1B}
    done = swept(launcher, tmp_path, words)  # no first run to compare with
    assert (done.returncode, done.stdout) == (7, b"")
    assert done.stderr.decode().endswith("status 7: a ]0;title  [2Jb c\n")


def test_other_output_is_told(launcher, tmp_path):
    runs = tmp_path / "runs"
    done = swept(launcher, tmp_path, f"echo x >> {runs}; wc -c < {runs}", shares="50")
    assert done.returncode == 0
    assert b"its output is not that of the first run" in done.stdout


@pytest.mark.parametrize("script, status, said", [
    ("echo why >&2; exit 3", 3, "all local: status 3: why"), ("kill -9 $$", 137, "status 137")])
def test_without_the_first_run_there_is_none(launcher, tmp_path, script, status, said):
    done = swept(launcher, tmp_path, script)
    assert (done.returncode, done.stdout) == (status, b"")
    assert re.fullmatch(rf"tessera: [^\n]*{said}\n", done.stderr.decode())
    assert not (tmp_path / "out.png").exists()


def test_no_such_program_and_a_timeout(launcher, tmp_path):
    done = launcher.run("--sweep", "50", "no-such-program-at-all")
    assert done.returncode == 127
    done = swept(launcher, tmp_path, "sleep 60", "--timeout", "0.5")
    assert done.returncode == 124
    assert b"still running after 0.5 s" in done.stderr


def test_a_signal_ends_it(launcher, tmp_path):
    runs = tmp_path / "runs"
    command = launcher.command("--sweep", "50", *sh(f"echo > {runs}; sleep 60"))
    child = subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
    assert wait_for(runs.exists)
    child.send_signal(signal.SIGINT)
    assert child.communicate(timeout=30) == (b"", b"")
    assert child.returncode == 130


def test_the_cache_of_a_share():
    assert sweep._cache_of(100 << 20, 50) == 50 << 20
    assert sweep._cache_of((100 << 20) + 1, 12.5) == 13107200
    assert sweep._cache_of((100 << 20) + 40960, 12.5) == 13107200 + 8192
    assert sweep._cache_of(5000, 10) == 1 << 20


def test_rows_beside_linux():
    ours = [Row(None, 8 << 20, seconds=2.0, misses=1, used=2, late=3, wasted=4, moved=5 << 20),
            Row(50, 4 << 20, seconds=3.0, misses=10), Row(25, 2 << 20, 137, "status 137")]
    theirs = [Row(None, 9 << 20, seconds=1.0), Row(50, 4 << 20, seconds=4.0, misses=99)]
    lines = sweep.table(ours, theirs).splitlines()
    assert lines[1].split() == ["all", "8.0", "MiB", "2.000", "1.00", "1", "2", "3", "4", "5.0",
                                "MiB"]  # fmt: skip
    assert lines[2].split()[3:5] == ["3.000", "1.50"]
    assert lines[3].endswith("status 137") and "failed" in lines[3]
    assert lines[4].split() == ["linux", "CACHE", "SECONDS", "SLOWDOWN", "FAULTS", "BYTES"]
    assert lines[6].split()[:6] == ["50%", "4.0", "MiB", "4.000", "4.00", "99"]


# Beside Linux


def test_the_guests_command_is_quoted():
    o = parse_run(["--sweep", "50", "--env", "X=a b", "--cwd", "/my dir", "prog", "it's", "$HOME"])
    command = linux.program_command(o, "/bin/prog", 4096)
    assert command.startswith("cd '/my dir' && env -i PATH=")
    assert command.endswith("'X=a b' /guest/guest run 4096 /bin/prog prog 'it'\"'\"'s' '$HOME'")
    o = parse_run(["--sweep", "50", "prog", "two\nlines"])
    with pytest.raises(LaunchError, match="line break"):
        linux.program_command(o, "/bin/prog", 0)


def test_what_a_guest_says_becomes_a_row():
    said = {"status": 9, "ns": 1_500_000_000, "peak": 4096, "faults": 7, "in": 1, "out": 2}
    row = linux._row(25, said, 8192)
    assert (row.status, row.why, row.seconds, row.misses, row.moved) == (
        137, "status 137", 1.5, 7, 12288)  # fmt: skip


@pytest.fixture(scope="module")
def helper(tmp_path_factory):
    path = tmp_path_factory.mktemp("guest") / "guest"
    path.write_bytes(linux._compiled())
    path.chmod(0o755)
    return path


def test_the_helper_is_given_nonsense(helper):
    for args in ([], ["serve"], ["run", "0"], ["attach", "/dev/null"]):
        assert subprocess.run([helper, *args], capture_output=True).returncode == 2
    done = subprocess.run([helper, "attach", "/dev/null", "nowhere", "1"], capture_output=True,
                          text=True)  # fmt: skip
    assert done.returncode == 1 and done.stderr.startswith("nowhere: ")


def test_a_guest_that_dies_is_one_line(tmp_path):
    fake = tmp_path / "qemu"
    fake.write_text("#!/bin/sh\necho 'qemu: no such machine' >&2\nexit 1\n")
    fake.chmod(0o755)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        guest = linux.Guest(str(fake), "tcg", ours.fileno(), ours.fileno(), theirs.fileno(),
                            "10.9.0.1", 64)  # fmt: skip
        with pytest.raises(LaunchError, match="10.9.0.1 ended.*qemu: no such machine"):
            guest.wait_ready()
        guest.stop()


class Told(linux.Guest):
    """A guest whose port says what it is given, whatever it is told."""

    def __init__(self, said: bytes, console: bytes = b""):
        self.ip, self._buffer = "10.9.0.1", b""
        self._channel, self._theirs = socket.socketpair()
        self._console = os.memfd_create("console")
        os.write(self._console, console)
        threading.Thread(target=self._say, args=(said,), daemon=True).start()

    def _say(self, said: bytes) -> None:
        try:
            self._theirs.sendall(said)
        except OSError:
            pass  # nobody listens any more

    def close(self) -> None:
        self._channel.close()
        self._theirs.close()
        os.close(self._console)


SAID = {"status": 0, "ns": 5, "peak": 4096, "faults": 7, "in": 1, "out": 2}


@pytest.mark.parametrize("said", [
    b"@@ x\n", b"@@ \x1b[2J\n", b"@@ 1e9\n", b"@@ " + b"9" * 5000 + b"\n", b"{}\n@@ 0\n",
    b"[1]\n@@ 0\n", b"7\n@@ 0\n", b"[" * 100_000 + b"\n@@ 0\n", b"@@ 1\n",
    b"no \x1b[2J room\n@@ 1\n", b"x" * (2 << 20), b"x\n" * (1 << 20),
    *(json.dumps(SAID | {key: value}).encode() + b"\n@@ 0\n" for key in SAID
      for value in (None, "1", True, 1.5, [], 10**30, -2)),
])  # fmt: skip
def test_a_guest_that_says_nonsense_is_one_line(said):
    guest = Told(said, b"login: \x1b[2J\x07\n")
    o = parse_run(["--sweep", "50", "prog"])
    try:
        with pytest.raises(LaunchError, match="10.9.0.1|cannot run prog") as err:
            linux._run(guest, o, "/bin/prog", 50, 0)
    finally:
        guest.close()
    assert str(err.value).isprintable() and len(str(err.value)) < 400


def test_a_guests_words_move_no_terminal():
    guest = Told(b"mkswap: \x1b]0;x\x07\n@@ 1\n", b"end: \x1b[2J")
    with pytest.raises(LaunchError, match="mkswap") as err:
        guest.must("mkswap /dev/nbd0")
    assert str(err.value).isprintable()
    with pytest.raises(LaunchError, match="end:") as err:
        guest._fail("ended")
    assert str(err.value).isprintable()
    guest.close()
    guest = Told(json.dumps(SAID).encode() + b"\n@@ 0\n")
    assert linux._run(guest, parse_run(["--sweep", "50", "prog"]), "/p", None, 0).cache == 4096
    guest.close()
