# SPDX-License-Identifier: MIT
"""`./tessera run`: programs on a cluster of their own."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import functools
import json
import os
import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterator

from . import account, frames, host, strace, treepath
from .channel import Program
from .cluster import Cluster
from .errors import Interrupted, LaunchError, ProgramRefused
from .options import SEPARATOR, Options, warn
from .plan import Plan, gdb_path
from .streams import InputPump, LinePump, OutputPump
from .terminal import Terminal
from .users import User

EXIT_FAILED = 125
EXIT_TIMEOUT = 124
EXIT_CANNOT_RUN = 126
EXIT_NOT_FOUND = 127
DEFAULT_HOME = "/tmp"  # can be written, whatever the root is
PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT,
             signal.SIGUSR1, signal.SIGUSR2)  # fmt: skip
FORCING = (signal.SIGINT, signal.SIGTERM)
NOT_HERE = (errno.ENOENT, errno.ENOTDIR, errno.EACCES)
Starter = Callable[[frames.Run, Callable[[int, bytes], None]], Program]


class Timeout(LaunchError):
    """--timeout has passed."""


class Signals:
    """Passes signals on to the programs; before they run, or the second time, they end the
    launcher.
    """

    def __init__(self) -> None:
        self.programs: list[Program] = []
        self.seen = 0
        for signo in PASSED_ON:
            signal.signal(signo, self._handle)

    def _handle(self, signo: int, _frame: object) -> None:
        running = [p for p in self.programs if not p.over]
        if signo in FORCING:
            self.seen += 1
        if not running or self.seen > 1:
            raise Interrupted(signo)
        # Not from here: the handler may have interrupted a holder of the channel's lock.
        for program in running:
            program.signal_later(signo)

    @staticmethod
    def ignore() -> None:
        for signo in PASSED_ON:
            signal.signal(signo, signal.SIG_IGN)


class Job:
    """A program with its streams: ours, or, with a label, lines among those of others and no
    input.
    """

    def __init__(self, name: str, terminal: Terminal | None = None, label: str | None = None):
        self.name = name
        self.program: Program | None = None
        self.refused: ProgramRefused | None = None  # at the start
        self._terminal = terminal
        self._input = label is None
        streams = (1,) if terminal else (1, 2)
        self._pumps = {
            s: OutputPump(s, s) if label is None else LinePump(s, s, label.encode())
            for s in streams
        }

    def start(self, starter: Starter, what: frames.Run, signals: Signals) -> None:
        self.program = starter(what, lambda s, data: self._pumps[s].put(data))
        signals.programs.append(self.program)
        for pump in self._pumps.values():
            pump.start(self.program)
        if self._input:
            InputPump(0).start(self.program)
        else:
            self.program.close_stdin()
        if self._terminal:
            self._terminal.attach(self.program)

    def wait(self, deadline: float | None) -> bool:
        """Until its end (True) or the deadline (False); its output has been written then."""
        if self.refused:
            raise self.refused
        try:
            return self.program.wait(deadline)
        finally:
            for pump in self._pumps.values():
                pump.finish()

    @property
    def status(self) -> int:
        return exit_status(self.program.exit.status)


def environment(settings: list[str], home: str | None = None) -> list[str]:
    """--env over the defaults; the last setting of a name wins."""
    out: dict[str, str] = {}
    for setting in (f"PATH={treepath.DEFAULT_PATH}", f"HOME={home or DEFAULT_HOME}", *settings):
        key, _, value = setting.partition("=")
        out[key] = value
    return [f"{k}={v}" for k, v in out.items()]


def request(o: Options, path: str, argv: list[str], terminal: Terminal | None,
            who: User) -> frames.Run:  # fmt: skip
    """The RUN of this command line: the program keeps the user's umask, and its ids unless others
    were asked for.
    """
    umask = os.umask(0)
    os.umask(umask)
    settings, rows, cols = o.env, 0, 0
    if terminal:
        rows, cols, _, _ = terminal.size
        settings = [f"TERM={os.environ.get('TERM', 'dumb')}", *settings]
    return frames.Run(path, argv, environment(settings, who.home), o.cwd, who.uid, who.gid,
                      umask & 0o777, terminal is not None, rows, cols)  # fmt: skip


def first_found(starter: Starter, paths: list[str]) -> Starter:
    """A starter that tries one path after the other, as execvp(3) does."""

    def start(what: frames.Run, sink: Callable[[int, bytes], None]) -> Program:
        denied = None
        for path in paths[:-1]:
            program = starter(dataclasses.replace(what, path=path), sink)
            try:
                program.wait(what="start")
                return program
            except ProgramRefused as err:
                if err.errno not in NOT_HERE or (err.text and err.text != path):
                    raise  # it is there, and something else is not
                denied = denied or (err if err.errno == errno.EACCES else None)
        program = starter(dataclasses.replace(what, path=paths[-1]), sink)
        if len(paths) > 1:
            try:
                program.wait(what="start")
            except ProgramRefused as err:
                if err.errno in (errno.ENOENT, errno.ENOTDIR) and err.text in ("", paths[-1]):
                    raise denied or ProgramRefused(errno.ENOENT, "it is nowhere in PATH") from None
                raise
        return program

    return start


def exit_status(wait_status: int) -> int:
    if wait_status & 0x7F:
        return 128 + (wait_status & 0x7F)
    return wait_status >> 8 & 0xFF


def execute(o: Options) -> int:
    """Run, and return the exit status of ./tessera."""
    terminal = Terminal() if o.tty and not o.dry_run else None
    side = host.Host(o)
    side.load_image()
    paths = [side.guest_paths(command[0]) for command in o.commands]
    laid_out = side.plan()
    if o.dry_run:
        print(laid_out.text())
        return 0
    host.sweep()
    side.announce()
    cluster = Cluster(laid_out, side.prepare, o.boot_timeout, keep_logs=side.keep_logs)
    deadline = time.monotonic() + o.timeout if o.timeout else None
    failed = True
    try:
        signals = Signals()
        with _traced(o, laid_out), cluster:
            status = _run_in(cluster, side, paths, signals, deadline, terminal)
            Signals.ignore()
        failed = False
        return _brought_out(side) or status
    except LaunchError as err:
        Signals.ignore()
        warn(f"{err}; logs: {laid_out.log_dir}")
        return EXIT_TIMEOUT if isinstance(err, Timeout) else EXIT_FAILED
    except ProgramRefused as err:
        failed = False
        Signals.ignore()
        return refused(o.program, err)
    except Interrupted as err:
        failed = False
        Signals.ignore()
        return 128 + err.signo
    finally:
        if not failed and not cluster.logs_kept:
            remove_logs(laid_out.log_dir)


def _brought_out(side: host.Host) -> int:
    """--output, --rw, --commit; 0, or our status with one line."""
    try:
        side.bring_out()
    except LaunchError as err:
        warn(str(err))
        return EXIT_FAILED
    return 0


@contextlib.contextmanager
def _traced(o: Options, laid_out: Plan) -> Iterator[None]:
    """--strace, until the machines have ended."""
    if not o.strace:
        yield
        return
    follower = strace.follow(laid_out, o.strace_file)
    try:
        yield
    finally:
        follower.close()


def _run_in(cluster: Cluster, side: host.Host, paths: list[list[str]], signals: Signals,
            deadline: float | None,
            terminal: Terminal | None) -> int:  # fmt: skip
    o = side.o
    announce_gdb(cluster)
    if deadline:
        cluster.boot_timeout = min(cluster.boot_timeout, deadline - time.monotonic())
    cluster.wait_ready()
    for command in o.inject:
        cluster.inject(command)
    with terminal or contextlib.nullcontext():
        who = side.user()
        what = [(request(o, p[0], c, terminal, who), p)
                for p, c in zip(paths, o.commands, strict=True)]  # fmt: skip
        if o.more:
            status = _run_several(cluster, what, signals, deadline, o)
        else:
            status = run_job(first_found(cluster.start_program, paths[0]), what[0][0], signals,
                             deadline, terminal, o)  # fmt: skip
    if o.stats or o.account:
        _report(cluster, o)
    return status


def announce_gdb(cluster: Cluster) -> None:
    for node in cluster.plan.nodes:
        if node.waits_for_gdb:
            path = gdb_path(cluster.plan.run_dir, node.name)
            warn(f"{node.name} waits for: gdb {node.kernel} -ex 'target remote {path}'")


def run_job(starter: Starter, what: frames.Run, signals: Signals,
            deadline: float | None, terminal: Terminal | None, o: Options) -> int:  # fmt: skip
    """One program with our own streams, to its end; its exit status."""
    job = Job(o.program, terminal)
    job.start(starter, what, signals)
    if not job.wait(deadline):
        raise _too_late(job.name, o)
    return job.status


def _too_late(name: str, o: Options) -> Timeout:
    return Timeout(f"{name} was still running after {o.timeout:g} s")


def _run_several(cluster: Cluster, what: list[tuple[frames.Run, list[str]]], signals: Signals,
                 deadline: float | None, o: Options) -> int:  # fmt: skip
    """Programs that take turns over the processors; the first status, in their order, that is not
    0.
    """
    nodes = [n.name for n in cluster.plan.nodes if n.role == "processor"]
    jobs: list[Job] = []
    statuses: list[int] = []
    for i, (run, paths) in enumerate(what):
        node = nodes[i % len(nodes)]
        job = Job(f"program {i + 1} ({run.argv[0]})", label=f"{i + 1}| ")
        starter = functools.partial(cluster.start_program, node=node)
        try:
            job.start(first_found(starter, paths), run, signals)
        except ProgramRefused as err:
            job.refused = err
        jobs.append(job)
    for job in jobs:
        try:
            if not job.wait(deadline):
                raise _too_late(job.name, o)
            statuses.append(job.status)
        except ProgramRefused as err:
            statuses.append(refused(job.name, err))
        except LaunchError as err:
            if cluster.failure or isinstance(err, Timeout):
                raise
            cluster.keep_logs()
            warn(f"{job.name}: {err}; logs: {cluster.plan.log_dir}")
            statuses.append(EXIT_FAILED)
    return next((s for s in statuses if s), 0)


def _report(cluster: Cluster, o: Options) -> None:
    nodes = cluster.stats()
    if o.account:
        print(account.describe([(n.name, n.role) for n in cluster.plan.nodes], nodes),
              file=sys.stderr)  # fmt: skip
    if o.stats:
        what = {
            "command": f" {SEPARATOR} ".join(map(shlex.join, o.commands)),
            "boot_s": round(cluster.ready_at - cluster.started_at, 4),
            "run_s": round(time.monotonic() - cluster.ready_at, 4),
            "nodes": nodes,
            "hca": _model_stats(cluster),
        }
        try:
            with open(o.stats, "w") as f:
                json.dump(what, f, indent=1, sort_keys=True)
                f.write("\n")
        except OSError as err:
            raise LaunchError(f"--stats: {o.stats}: {err.strerror}") from None


def _model_stats(cluster: Cluster) -> dict | None:
    try:
        return cluster.inject("stats")
    except LaunchError:
        return None


def refused(name: str, err: ProgramRefused) -> int:
    reason = os.strerror(err.errno)
    warn(f"{name}: {reason}" + (f" ({err})" if str(err) else ""))
    if err.errno in (errno.ENOENT, errno.ENOTDIR):
        return EXIT_NOT_FOUND
    if err.errno in (errno.EIO, errno.ENOSYS, errno.EHOSTDOWN, errno.ETIMEDOUT):
        return EXIT_FAILED
    return EXIT_CANNOT_RUN


def remove_logs(log_dir: str) -> None:
    import shutil

    shutil.rmtree(log_dir, ignore_errors=True)
    try:
        os.rmdir(os.path.dirname(log_dir))
    except OSError:
        pass  # other runs' logs
