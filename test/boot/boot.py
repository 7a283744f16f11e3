# SPDX-License-Identifier: MIT
"""What the boot tests share: the disk image, the text, running clusters, and runs inside them."""

from __future__ import annotations

import ctypes
import dataclasses
import fcntl
import glob
import hashlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools" / "launcher"))

from tessera_launcher import account, frames, host, image, packages, run  # noqa: E402
from tessera_launcher.channel import Program  # noqa: E402
from tessera_launcher.cluster import Cluster  # noqa: E402
from tessera_launcher.errors import LaunchError, ProgramRefused  # noqa: E402
from tessera_launcher.options import Options, parse_run  # noqa: E402
from tessera_launcher.streams import Capture, feed  # noqa: E402

BUILD = pathlib.Path(os.environ.get("O") or ROOT / "build").resolve()
# each worker makes its own images
WORK = BUILD / "test" / "boot" / os.environ.get("PYTEST_XDIST_WORKER", "")
MB = 1 << 20
SMALL_TEXT, BIG_TEXT = 2 * MB, 22 * MB
RUN_LIMIT_S = 180.0
WAIT_LIMIT_S = 120.0
TWO_MEMORIES = ("--vregion", "2M", "--memories", "2")
ROUNDS_TO_GROW = 4
CREDITS_LIMIT_S = 10.0
SETTLE_LIMIT_S = 30.0  # RPC's workers end after idling for 10
# Programs of the host that read /proc and /sys; a test is left out where one is missing.
HOST_TOOLS = ("df", "free", "lscpu", "mount", "nproc", "ps", "top", "uptime")
TERMINFO = "/lib/terminfo/d/dumb"  # of top
# Of warnings those of WARN_ON(); "warning:" is a level of the log.
BROKEN = re.compile(r"panic|BUG:|UBSAN|KASAN|lock order|Call trace|(?-i:WARNING:)", re.IGNORECASE)


# The input.


def build_programs() -> pathlib.Path:
    """The guest programs of test/user, by kind; they are the same for every build of the kernel."""
    packages.require("gcc", "musl-gcc", "make", "busybox")
    out = pathlib.Path(os.environ.get("TEST_PROGRAMS") or BUILD / "user")
    out.mkdir(parents=True, exist_ok=True)
    with open(out / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one worker makes them, the others wait
        subprocess.run(
            ["make", "-s", "-f", ROOT / "test/user/build.mk", f"srctree={ROOT}", f"O={out}"],
            check=True,
        )
    return out


def _text_sources() -> list[str]:
    """Real files of the host, in sorted order: C headers, Python's and Perl's libraries."""
    out = []
    for top, kinds in (("/usr/include", ("",)), ("/usr/lib/python3*", (".py",)),
                       ("/usr/share/perl", (".pm", ".pl", ".pod")),
                       (f"{sys.base_prefix}/lib/python3*", (".py",))):  # fmt: skip
        for base in sorted(glob.glob(top)):
            for where, _, names in os.walk(base):
                out += [os.path.join(where, n) for n in names if n.endswith(kinds)]
    return sorted(p for p in out if os.path.isfile(p) and not os.path.islink(p))


def make_texts() -> pathlib.Path:
    """text.small and text.big: real text, concatenated in sorted order, never generated."""
    out = WORK / "data"
    big, small = out / "text.big", out / "text.small"
    if big.exists() and big.stat().st_size >= BIG_TEXT - MB:
        return out
    out.mkdir(parents=True, exist_ok=True)
    with open(big, "wb") as f:
        for path in _text_sources():
            with open(path, "rb") as source:
                f.write(source.read())
            if f.tell() >= BIG_TEXT:
                break
        f.truncate(min(f.tell(), BIG_TEXT))
    if big.stat().st_size < 20 * MB:
        raise RuntimeError(f"only {big.stat().st_size} bytes of text on this host")
    with open(big, "rb") as f:
        small.write_bytes(f.read(SMALL_TEXT))
    return out


def bad_programs(good: bytes) -> dict[str, bytes]:
    """Files that must not be executed, by name; @good is a well-formed static program."""

    def put(at: int, value: bytes) -> bytes:
        return good[:at] + value + good[at + len(value) :]

    phoff = int.from_bytes(good[32:40], "little")
    huge = (1 << 63).to_bytes(8, "little")
    return {
        "empty": b"",
        "one-byte": b"\x7f",
        "text": b"not a program\n",
        "magic-only": good[:4],
        "half-header": good[:32],
        "no-headers": good[:64],
        "truncated": good[:5000],
        "class32": put(4, b"\x01"),
        "big-endian": put(5, b"\x02"),
        "other-machine": put(18, b"\xb7\x00"),
        "relocatable": put(16, b"\x01\x00"),
        "phoff-wild": put(32, huge),
        "phnum-huge": put(56, b"\xff\xff"),
        "phentsize": put(54, b"\x20\x00"),
        "filesz-above-memsz": put(phoff + 32, huge),
        "vaddr-kernel": put(phoff + 16, b"\0\0\0\x80\xff\xff\xff\xff"),
        "offset-wraps": put(phoff + 8, b"\xff" * 8),
        "entry-wild": put(24, b"\0\0\0\0\0\x80\xff\xff"),
    }


def exec_files(programs: pathlib.Path) -> pathlib.Path:
    """What execs.c executes: scripts, good and bad, and itself as their interpreter."""
    out = WORK / "exec"
    out.mkdir(parents=True, exist_ok=True)
    texts = {
        "not-executable": "#!./interp\n", "empty": "", "bang": "#!", "bang-blank": "#!  \t \n",
        "text": "echo hello\n", "script": "#!./interp\nrest\n",
        "script-arg": "#!./interp one argument\n",
        "script-blanks": "#! \t ./interp \t one  argument \t \nrest\n",
        "script-no-newline": "#!./interp -x", "script-long-arg": "#!./interp " + "a" * 300 + "\n",
        "script-long-name": "#!./" + "i" * 300 + "\n", "script-no-interp": "#!./nobody\n",
        "script-bad-interp": "#!./not-executable\n", "script-is-its-own": "#!./script-is-its-own\n",
        "script-to-text": "#!./text\n", "nest1": "#!./interp 1\n",
    }  # fmt: skip
    texts |= {f"nest{i}": f"#!./nest{i - 1} {i}\n" for i in range(2, 7)}
    for name, text in texts.items():
        if not (out / name).exists() or (out / name).read_text() != text:
            (out / name).write_text(text)
        (out / name).chmod(0o644 if name == "not-executable" else 0o755)
    shutil.copy2(programs / "glibc-static/execs", out / "interp")
    if not (out / "link").is_symlink():
        (out / "link").symlink_to("interp")
    return out


def make_disk(programs: pathlib.Path, texts: pathlib.Path, extra: dict[str, str] | None = None,
              name: str = "root", host_programs: tuple[str, ...] = ()) -> pathlib.Path:  # fmt: skip
    """
    One image with everything that the tests run and read, @extra files of the host as {source:
    place}, and programs of the host at their own paths; made again when that changes.
    """
    bad = WORK / "bad"
    bad.mkdir(parents=True, exist_ok=True)
    good = (programs / "glibc-static" / "hello").read_bytes()
    for kind, data in bad_programs(good).items():
        path = bad / kind
        if not path.exists() or path.read_bytes() != data:
            path.write_bytes(data)
        path.chmod(0o755)
    plain = bad / "not-executable"
    plain.write_bytes(good)
    plain.chmod(0o644)
    tree = image.Tree()
    tree.add_program(packages.require("busybox")[0])
    for path in filter(None, map(shutil.which, HOST_TOOLS)):
        tree.add_program(path)
    if os.path.exists(TERMINFO):
        tree.files[TERMINFO] = TERMINFO
    for path in sorted(programs.glob("*/*")):
        tree.add_program(str(path))
    tree.add_volume(str(texts), "/data")
    tree.add_volume(str(bad), "/bad")
    tree.add_volume(str(exec_files(programs)), "/exec")
    for path in host_programs:
        tree.add_program(path)
    for source, place in (extra or {}).items():
        tree.add_volume(source, place)
    tree.links["/data/link"] = "text.small"
    tree.links["/data/loop"] = "loop"
    # From the root into what the processor mounts there, and a file that it has under such a place
    # itself.
    tree.links["/data/to-tmp"] = "/tmp/made"
    tree.links["/data/to-null"] = "../dev/null"
    tree.links["/data/to-dots"] = "/tmp/../data/text.small"
    tree.links["/data/loop1"] = "/tmp/loop2"
    tree.files["/tmp/shown/text"] = str(texts / "text.small")
    key = hashlib.sha256()
    for guest, source in sorted(tree.files.items()):
        st = os.stat(source)
        key.update(f"{guest} {source} {st.st_size} {st.st_mtime_ns} {st.st_mode}\n".encode())
    disk, stamp = WORK / f"{name}.img", WORK / f"{name}.stamp"
    if disk.exists() and stamp.exists() and stamp.read_text() == key.hexdigest():
        return disk
    stage = WORK / f"{name}.stage"
    shutil.rmtree(stage, ignore_errors=True)
    stage.mkdir()
    tree.stage(str(stage))
    image.make_image(packages.require("mke2fs")[0], str(stage), str(disk), _run_tool)
    shutil.rmtree(stage)
    stamp.write_text(key.hexdigest())
    return disk


def _run_tool(argv: list[str]) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


# Clusters.


@dataclasses.dataclass
class Result:
    """How a program ended: status as a shell has it, and its bytes."""

    status: int
    out: bytes
    err: bytes

    def checked(self) -> bytes:
        assert self.status == 0, f"status {self.status}, stderr {self.err[-500:]!r}"
        return self.out


class Running:
    """A cluster that is up, and programs in it."""

    def __init__(self, args: tuple[str, ...], disk: pathlib.Path | None, name: str,
                 stays: bool = False):  # fmt: skip
        self.args = args
        self.name = name
        log_dir = WORK / "log" / f"{time.strftime('%H%M%S')}-{name}"
        self.options: Options = parse_run([*args, "--log-dir", str(log_dir), "-"])
        self.options.build = False
        self.options.build_dir = str(BUILD)
        side = host.Host(self.options)
        plan = side.plan()
        self._held = [side.held, *(held for held, _ in side.mounted)]
        self.disk = disk
        self.log_dir = pathlib.Path(plan.log_dir)
        shutil.rmtree(self.log_dir, ignore_errors=True)
        self.cluster = Cluster(plan, self._prepare, self.options.boot_timeout, keep_logs=True,
                               stays=stays)  # fmt: skip
        self.started = time.monotonic()

    def _prepare(self, cluster: Cluster) -> None:
        if self.disk:
            target = os.path.join(cluster.plan.run_dir, "root.img")
            cluster.run_helper(["cp", "--sparse=always", str(self.disk), target])

    def up(self) -> Running:
        self.cluster.__enter__()
        try:
            self.cluster.wait_ready()
            for command in self.options.inject:
                self.cluster.inject(command)
        except BaseException:
            self.cluster.close(force=True)
            raise
        return self

    def close(self, force: bool = False) -> None:
        self.cluster.close(force=force)
        for held in filter(None, self._held):
            held.close()

    @property
    def alive(self) -> bool:
        return self.cluster.failure is None

    # Programs.

    def start(self, argv: list[str], *, env: list[str] = (), cwd: str = "/data",
              uid: int = 0, node: str = "p0") -> tuple[Program, Capture]:  # fmt: skip
        capture = Capture()
        request = frames.Run(argv[0], list(argv), run.environment(list(env)), cwd, uid, uid)
        program = self.cluster.start_program(request, capture.sink, node)
        capture.attach(program)
        return program, capture

    def run(
        self, argv: list[str], *, stdin: bytes = b"", limit: float = RUN_LIMIT_S, **how
    ) -> Result:
        """Run to the end. ProgramRefused if it could not be started."""
        program, capture = self.start([str(a) for a in argv], **how)
        feed(program, stdin)
        if not program.wait(time.monotonic() + limit):
            self.cluster.fail(f"{argv}: still running after {limit:g} s")
            raise AssertionError(self.cluster.failure)
        out, err = bytes(capture.data[1]), bytes(capture.data[2])
        return Result(run.exit_status(program.exit.status), out, err)

    def errno_of(self, path: str) -> int:
        """The errno with which the node refuses to start @path."""
        try:
            result = self.run([path])
        except ProgramRefused as err:
            return err.errno
        raise AssertionError(f"{path} ran: {result}")

    def stats(self) -> dict[str, dict[str, float]]:
        return {n: account.flatten(s or {}) for n, s in self.cluster.stats().items()}

    def log(self, node: str) -> str:
        """Of all its lives, if it was started again."""
        lives = [self.log_dir / f"{node}.log", *sorted(self.log_dir.glob(f"{node}.[0-9]*.log"))]
        return "".join(life.read_text(errors="replace") for life in lives)

    def complaints(self) -> list[str]:
        """Lines in the kernel logs that no test may cause."""
        out = []
        for path in sorted(self.log_dir.glob("*.log")):
            for line in path.read_text(errors="replace").splitlines():
                if BROKEN.search(line) and "log: expected" not in line:
                    out.append(f"{path.name}: {line}")
        return out


def delta(before: dict, after: dict, node: str, counter: str) -> float:
    """How much a counter of a node has grown; it must be there."""
    assert counter in after[node], f"{node} has no counter {counter}: {sorted(after[node])}"
    return after[node][counter] - before[node].get(counter, 0)


def wait_for(what, limit: float = WAIT_LIMIT_S):
    """Until @what answers something true, which is returned."""
    end = time.monotonic() + limit
    while not (found := what()):
        assert time.monotonic() < end, f"not within {limit:g} s"
        time.sleep(0.2)
    return found


def settled_stats(cluster: Running, before: dict) -> dict:
    """The counters once what goes a little after a program's end has gone: RPC's idle workers,
    freed pages still sent.
    """

    def gone() -> dict | None:
        after = cluster.stats()
        pinned = any(after[n]["memory.frames_pinned"] for n in after if n[0] == "m")
        return after if not pinned and delta(before, after, "p0", "threads") <= 2 else None

    return wait_for(gone, SETTLE_LIMIT_S)


def stops_growing(one_round, slack: float) -> None:
    """
    Caches of the kernel grow with their first use, and once more when a program comes further than
    it did before: some round of a few has to leave fewer than @slack frames behind. What is lost
    again and again is no cache.
    """
    gone = []
    while not gone or gone[-1] >= slack:
        assert len(gone) < ROUNDS_TO_GROW, f"frames of p0 grow: {gone}"
        gone.append(one_round())


def by_shape(long: str = ""):
    """Parametrize `shape`: one memory node, and two with alternating vRegions; the one named @long
    is marked so.
    """
    shapes = (("one-memory", ()), ("two-memories", TWO_MEMORIES))
    marks = {long: [pytest.mark.long]}
    return pytest.mark.parametrize(
        "shape", [pytest.param(s, id=name, marks=marks.get(name, [])) for name, s in shapes]
    )


def total(stats: dict, counter: str) -> float:
    found = [s[counter] for s in stats.values() if counter in s]
    assert found, f"no node has a counter {counter}"
    return sum(found)


def wait_for_credits(of: str, stats) -> float:
    """
    Until memory nodes have promised as many frames as processors count, to the frame; returns how
    many. @of is credit.held where no program runs, else credit.total; @stats reads the counters.
    A processor that lets credits go tells the node up to a second later, and nodes are read one
    after the other.
    """

    def both() -> tuple[float, float]:
        now = stats()
        return total(now, "memory.frames_reserved"), total(now, of)

    end = time.monotonic() + CREDITS_LIMIT_S
    promised, counted = both()
    while promised != counted:
        assert time.monotonic() < end, (
            f"not within {CREDITS_LIMIT_S:g} s: memory.frames_reserved {promised:g}, {of}"
            f" {counted:g}"
        )
        time.sleep(0.2)
        promised, counted = both()
    return promised


class Pool:
    """Clusters by their options, kept up between tests; a few at a time."""

    KEEP = 2

    def __init__(self, disk: pathlib.Path):
        self.disk = disk
        self._up: dict[tuple[str, ...], Running] = {}
        self._count = 0
        self.complaints: list[str] = []

    def get(self, *args: str) -> Running:
        found = self._up.pop(args, None)
        if found and not found.alive:
            self._drop(found)
            found = None
        while not found and len(self._up) >= self.KEEP:
            self._drop(self._up.pop(next(iter(self._up))))
        if not found:
            self._count += 1
            found = Running(
                args, self.disk, f"{self._count:02}" + "".join(args).replace("/", "_")[:60]
            )
            found.up()
        self._up[args] = found
        return found

    def _drop(self, running: Running) -> None:
        running.close()
        self.complaints += running.complaints()

    def close(self) -> None:
        while self._up:
            self._drop(self._up.popitem()[1])


SYS_RT_SIGACTION, SYS_RT_SIGPROCMASK = 13, 14
SIGSET_BYTES = 8


def _default_signals() -> None:
    """As Tessera starts programs, whatever started us: under nohup, in the background of a script,
    in a container.

    By the system call, as signals 32 and 33 can be inherited ignored and the C library lets nobody
    touch them.
    """
    libc = ctypes.CDLL(None)
    # struct sigaction of the kernel: SIG_DFL, no flags, no mask
    default = ctypes.create_string_buffer(32)
    for signo in range(1, 65):
        libc.syscall(SYS_RT_SIGACTION, signo, default, None, SIGSET_BYTES)
    libc.syscall(SYS_RT_SIGPROCMASK, signal.SIG_SETMASK, default, None, SIGSET_BYTES)


def on_host(argv: list[str], *, stdin: bytes = b"", cwd: pathlib.Path | None = None,
            env: list[str] = ()) -> Result:  # fmt: skip
    """The same program on the host, with the environment that the guest's has."""
    settings = dict(e.split("=", 1) for e in run.environment(list(env)))
    done = subprocess.run([str(a) for a in argv], input=stdin, capture_output=True, cwd=cwd,
                          env=settings,
                          preexec_fn=_default_signals)  # fmt: skip
    code = done.returncode
    return Result(code if code >= 0 else 128 - code, done.stdout, done.stderr)


__all__ = [
    "BUILD", "LaunchError", "MB", "Pool", "ProgramRefused", "ROOT", "Result", "Running", "WORK",
    "build_programs", "delta", "exec_files", "make_disk", "make_texts", "on_host", "total",
]  # fmt: skip
