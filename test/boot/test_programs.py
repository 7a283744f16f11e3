# SPDX-License-Identifier: MIT
"""Unmodified programs behave as on Linux: output, exit status, streams, signals."""

import errno
import hashlib
import random
import time

import pytest
from boot import on_host

KINDS = ["glibc-static", "glibc-pie", "glibc-dyn", "musl-static", "musl-pie", "musl-dyn"]


@pytest.mark.parametrize("kind", KINDS)
def test_hello(cluster, programs, kind):
    argv = [programs / kind / "hello", "first", "", "ünï"]
    env = ["GREETING=good morning"]
    assert cluster.run(argv, env=env) == on_host(argv, env=env)


@pytest.mark.parametrize("code", [0, 1, 42, 255, 256 + 3])
def test_exit_status(plain, programs, code):
    got = plain.run([programs / "glibc-static/crash", "exit", str(code)])
    assert got.status == code & 0xFF and got.out == b"about to end by exit\n"


@pytest.mark.parametrize("how, signo", [
    ("null", 11), ("wild", 11), ("noncanonical", 11), ("kernel", 11), ("text", 11), ("nx", 11),
    ("stack", 11), ("privileged", 11), ("abort", 6), ("fpe", 8), ("ill", 4), ("trap", 5),
    ("kill", 9), ("term", 15),
])  # fmt: skip
def test_death_by_signal(plain, programs, how, signo):
    got = plain.run([programs / "glibc-static/crash", how])
    assert got.status == 128 + signo
    assert got.out == f"about to end by {how}\n".encode()


def test_the_cluster_goes_on_after_a_crash(plain, programs):
    plain.run([programs / "glibc-static/crash", "null"])
    assert plain.run([programs / "musl-static/hello"]).status == 0


@pytest.mark.parametrize("kind", ["glibc-static", "musl-static", "glibc-dyn"])
def test_mappings_against_a_model(cluster, programs, kind):
    argv = [programs / kind / "mapping", "1000", "99"]
    assert cluster.run(argv) == on_host(argv)


# As a Linux with CONFIG_ANON_VMA_NAME prints them.
NAMES = """\
name: 0
named: page 0 to 1
named: page 1 to 4 [anon:some pages (of 8)]
named: page 4 to 8
another: 0
two names: page 0 to 1
two names: page 1 to 2 [anon:some pages (of 8)]
two names: page 2 to 3 [anon:one]
two names: page 3 to 4 [anon:some pages (of 8)]
two names: page 4 to 8
the same: 0
one name: page 0 to 1
one name: page 1 to 8 [anon:some pages (of 8)]
none: 0
with a part without: page 0 to 1
with a part without: page 1 to 4 [anon:some pages (of 8)]
with a part without: page 4 to 5
with a part without: page 5 to 8 [anon:some pages (of 8)]
empty: 0
81 bytes: -1 EINVAL
80 bytes: -1 EINVAL
79 bytes: 0
a bracket: -1 EINVAL
a control: -1 EINVAL
above ASCII: -1 EINVAL
nowhere: -1 EFAULT
not aligned: -1 EINVAL
nothing: 0
a hole: -1 ENOMEM
too long: -1 EINVAL
another thing: -1 EINVAL
a short one: 0
names: page 0 to 1 [anon:short]
names: page 1 to 4 [anon:some pages (of 8)]
names: page 4 to 5
names: page 5 to 7 [anon:some pages (of 8)]
names: page 7 to 8 [anon:before a hole]
names of a child: page 0 to 1 [anon:short]
names of a child: page 1 to 4 [anon:some pages (of 8)]
names of a child: page 4 to 5
names of a child: page 5 to 7 [anon:some pages (of 8)]
names of a child: page 7 to 8 [anon:before a hole]
moved: page 0 to 2 [anon:before a hole]
moved: page 2 to 4
shared: 0
shared: page 0 to 1 [anon_shmem:of all]
a file: -1 EBADF
"""


def test_names_of_memory(cluster, programs):
    got = cluster.run([programs / "glibc-static/numas", "names"])
    assert got.out.decode() == NAMES
    assert got.status == 0, got.err


def test_calls_about_mappings(cluster, programs):
    for name in ("fixed", "forkmarks", "guards", "mapflags", "memfds", "memlimits", "seals"):
        argv = [programs / "glibc-static" / name]
        got, want = cluster.run(argv), on_host(argv)
        assert got.out.decode() == want.out.decode()
        assert got.status == want.status == 0, got.err


@pytest.mark.parametrize("kind", ["glibc-static", "musl-static"])
def test_bad_arguments_answer_as_linux_does(cluster, programs, kind):
    argv = [programs / kind / "badargs"]
    got, want = cluster.run(argv), on_host(argv)
    assert got.out.decode() == want.out.decode()
    assert got.status == 0


def test_signals_and_waiting_as_on_linux(cluster, programs):
    argv = [programs / "glibc-static" / "signals"]
    got, want = cluster.run(argv), on_host(argv)
    assert got.out.decode() == want.out.decode()
    assert got.status == want.status == 0, got.err


@pytest.mark.parametrize("kind", ["glibc-static", "musl-static"])
def test_clocks_randomness_and_identity(plain, programs, kind):
    argv = [programs / kind / "facts"]
    got = plain.run(argv, cwd="/data")
    assert got.status == 0, got.err
    lines = got.out.decode().splitlines()
    assert lines[:4] == ["clocks: ok", "sleeping: ok", "randomness: ok", "system: ok"]
    assert lines[4:] == ["uid 0, gid 0, umask 22", "in /data", "exe facts"]


@pytest.mark.parametrize("kind, name", [
    ("glibc-static", "text.small"), ("musl-static", "text.small"), ("glibc-dyn", "text.small"),
    ("glibc-static", "text.big"),
])  # fmt: skip
def test_a_file_read_in_every_way(cluster, programs, texts, kind, name):
    argv = [programs / kind / "fileio"]
    got = cluster.run([*argv, f"/data/{name}"])
    want = on_host([*argv, texts / name])
    assert got.status == 0, got.err
    # Inode numbers and times are the image's own; the line with them comes first.
    assert got.out.split(b"\n", 1)[1] == want.out.split(b"\n", 1)[1]


@pytest.mark.parametrize("kib", [100, 6000, 7900])
def test_deep_stacks(plain, programs, kib):
    argv = [programs / "glibc-static/stack", str(kib)]
    assert plain.run(argv) == on_host(argv)


def test_standard_input_is_exact(plain):
    data = random.Random(3).randbytes(1_500_000)
    got = plain.run(["/usr/bin/busybox", "sha256sum"], stdin=data)
    assert got.out == hashlib.sha256(data).hexdigest().encode() + b"  -\n"


def test_output_is_exact_and_streams_are_apart(plain):
    data = random.Random(4).randbytes(700_000)
    got = plain.run(["/usr/bin/busybox", "cat", "-", "/no/such/file"], stdin=data)
    assert got.status == 1 and got.out == data
    assert got.err == b"cat: can't open '/no/such/file': No such file or directory\n"


def test_a_reader_that_goes_away_is_epipe(plain):
    program, capture = plain.start(["/usr/bin/busybox", "yes"])
    while len(capture.data[1]) < 100_000:
        assert not program.over
        time.sleep(0.01)
    program.drop_output(1)
    assert program.wait(time.monotonic() + 30)
    assert program.exit.status in (13, 1 << 8)  # SIGPIPE, or the applet's own EPIPE


@pytest.mark.parametrize("signo", [2, 9, 15])
def test_a_signal_ends_the_program(plain, signo):
    program, _ = plain.start(["/usr/bin/busybox", "cat"])
    assert program.wait(what="start")
    program.signal(signo)
    assert program.wait(time.monotonic() + 30)
    assert program.exit.status == signo


def test_two_programs_at_once_do_not_mix(plain, programs):
    first, a = plain.start([str(programs / "glibc-static/heap"), "hash", "8", "5"])
    second, b = plain.start([str(programs / "musl-static/heap"), "hash", "8", "6"])
    for program in (first, second):
        assert program.wait(time.monotonic() + 120)
        assert program.exit.status == 0
    assert bytes(a.data[1]) == on_host([programs / "glibc-static/heap", "hash", "8", "5"]).out
    assert bytes(b.data[1]) == on_host([programs / "musl-static/heap", "hash", "8", "6"]).out


def test_two_programs_through_the_same_lines(pool, programs):
    """Stale translated code would show here: other instructions in frames that ran before."""
    cluster = pool.get("--excache", "1M")
    a, b = programs / "glibc-static/code", programs / "glibc-static/code-b"
    want = {p: on_host([p]).out for p in (a, b)}
    assert want[a] != want[b]
    for program in (a, b, a, b):
        assert cluster.run([program]).checked() == want[program]


BAD = {
    "empty": errno.ENOEXEC, "one-byte": errno.ENOEXEC, "text": errno.ENOEXEC,
    "magic-only": errno.ENOEXEC, "half-header": errno.ENOEXEC, "class32": errno.ENOEXEC,
    "big-endian": errno.ENOEXEC, "other-machine": errno.ENOEXEC, "relocatable": errno.ENOEXEC,
    "phnum-huge": errno.ENOEXEC, "phentsize": errno.ENOEXEC, "not-executable": errno.EACCES,
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_what_is_not_a_program_is_refused(plain, name):
    assert plain.errno_of(f"/bad/{name}") == BAD[name]


@pytest.mark.parametrize("name", [
    "no-headers", "truncated", "phoff-wild", "filesz-above-memsz", "vaddr-kernel", "offset-wraps",
    "entry-wild",
])  # fmt: skip
def test_hostile_headers_hurt_nobody(plain, programs, name):
    """Linux refuses some of these and kills others when they touch what is not there; both are
    fine.
    """
    try:
        got = plain.run([f"/bad/{name}"])
        assert got.status in (128 + 11, 128 + 7, 128 + 9), got
    except Exception as err:
        assert getattr(err, "errno", None) in (
            errno.ENOEXEC,
            errno.EINVAL,
            errno.EIO,
            errno.ENOMEM,
        ), err
    assert plain.run([programs / "musl-static/hello"]).status == 0


@pytest.mark.parametrize("path, want", [
    ("/no/such/program", errno.ENOENT), ("/data", errno.EACCES), ("/data/text.small", errno.EACCES),
    ("/data/text.small/x", errno.ENOTDIR), ("/data/loop", errno.ELOOP),
])  # fmt: skip
def test_programs_that_are_not_there(plain, path, want):
    assert plain.errno_of(path) == want
