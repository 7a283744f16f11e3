# SPDX-License-Identifier: MIT
"""`./tessera run`: one program on a cluster of its own."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shlex
import signal
import sys
import time

from . import account, frames, host
from .cluster import Cluster, Program
from .errors import LaunchError, ProgramRefused
from .options import Options, warn
from .streams import InputPump, OutputPump
from .terminal import Terminal

EXIT_FAILED = 125
EXIT_TIMEOUT = 124
EXIT_CANNOT_RUN = 126
EXIT_NOT_FOUND = 127
DEFAULT_ENV = ("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/")
PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT,
             signal.SIGUSR1, signal.SIGUSR2)  # fmt: skip
FORCING = (signal.SIGINT, signal.SIGTERM)


class Interrupted(BaseException):
    """A signal that ends the launcher itself."""

    def __init__(self, signo: int):
        super().__init__(signo)
        self.signo = signo


class Timeout(LaunchError):
    """--timeout has passed."""


class Signals:
    """Passes signals on to the program; before it runs, or the second time, they end the launcher."""

    def __init__(self) -> None:
        self.program: Program | None = None
        self.seen = 0
        for signo in PASSED_ON:
            signal.signal(signo, self._handle)

    def _handle(self, signo: int, _frame: object) -> None:
        program = self.program
        if signo in FORCING:
            self.seen += 1
        if program is None or program.over or self.seen > 1:
            raise Interrupted(signo)
        # Not from here: the handler may have interrupted a holder of the channel's lock.
        program.signal_later(signo)

    @staticmethod
    def ignore() -> None:
        for signo in PASSED_ON:
            signal.signal(signo, signal.SIG_IGN)


def environment(settings: list[str]) -> list[str]:
    """--env over the defaults; the last setting of a name wins."""
    out: dict[str, str] = {}
    for setting in (*DEFAULT_ENV, *settings):
        key, _, value = setting.partition("=")
        out[key] = value
    return [f"{k}={v}" for k, v in out.items()]


def request(o: Options, path: str, terminal: Terminal | None) -> frames.Run:
    """The RUN of this command line: the program keeps the user's ids and umask."""
    umask = os.umask(0)
    os.umask(umask)
    settings, rows, cols = o.env, 0, 0
    if terminal:
        rows, cols, _, _ = terminal.size
        settings = [f"TERM={os.environ.get('TERM', 'dumb')}", *settings]
    return frames.Run(path, [o.program, *o.args], environment(settings), o.cwd, os.getuid(), os.getgid(),
                      umask & 0o777, terminal is not None, rows, cols)  # fmt: skip


def exit_status(wait_status: int) -> int:
    if wait_status & 0x7F:
        return 128 + (wait_status & 0x7F)
    return wait_status >> 8 & 0xFF


def execute(o: Options) -> int:
    """Run, and return the exit status of ./tessera."""
    terminal = Terminal() if o.tty and not o.dry_run else None
    side = host.Host(o)
    path = side.guest_path()
    laid_out = side.plan()
    if o.dry_run:
        for command in laid_out.commands:
            print(command.text())
        return 0
    host.sweep()
    signals = Signals()
    deadline = time.monotonic() + o.timeout if o.timeout else None
    cluster = Cluster(laid_out, side.prepare, o.boot_timeout, keep_logs=side.keep_logs)
    failed = True
    try:
        with cluster:
            status = _run_in(cluster, o, path, signals, deadline, terminal)
            Signals.ignore()
        failed = False
        return status
    except LaunchError as err:
        Signals.ignore()
        warn(f"{err}; logs: {laid_out.log_dir}")
        return EXIT_TIMEOUT if isinstance(err, Timeout) else EXIT_FAILED
    except ProgramRefused as err:
        failed = False
        Signals.ignore()
        return _refused(o, err)
    except Interrupted as err:
        failed = False
        Signals.ignore()
        return 128 + err.signo
    finally:
        if not failed and not side.keep_logs:
            _remove_logs(laid_out.log_dir)


def _run_in(cluster: Cluster, o: Options, path: str, signals: Signals, deadline: float | None,
            terminal: Terminal | None) -> int:  # fmt: skip
    for node in cluster.plan.nodes:
        if node.gdb_port:
            warn(f"{node.name} waits for: gdb {node.kernel} "
                 f"-ex 'target remote 127.0.0.1:{node.gdb_port}'")  # fmt: skip
    if deadline:
        cluster.boot_timeout = min(cluster.boot_timeout, deadline - time.monotonic())
    cluster.wait_ready()
    for command in o.inject:
        cluster.inject(command)
    with terminal or contextlib.nullcontext():
        program, ended = _run_program(cluster, request(o, path, terminal), signals, deadline, terminal)
    if not ended:
        raise Timeout(f"{o.program} was still running after {o.timeout:g} s")
    if o.stats or o.account:
        _report(cluster, o)
    return exit_status(program.exit.status)


def _run_program(cluster: Cluster, what: frames.Run, signals: Signals, deadline: float | None,
                 terminal: Terminal | None) -> tuple[Program, bool]:  # fmt: skip
    """Until its end (True) or the deadline (False), its streams joined to ours."""
    pumps = {s: OutputPump(s, s) for s in ((1,) if terminal else (1, 2))}
    program = cluster.start_program(what, lambda s, data: pumps[s].put(data))
    signals.program = program
    for pump in pumps.values():
        pump.start(program)
    InputPump(0).start(program)
    if terminal:
        terminal.attach(program)
    try:
        return program, program.wait(deadline)
    finally:
        _finish(pumps)


def _finish(pumps: dict[int, OutputPump]) -> None:
    for pump in pumps.values():
        pump.finish()


def _report(cluster: Cluster, o: Options) -> None:
    nodes = cluster.stats()
    if o.account:
        print(account.describe([(n.name, n.role) for n in cluster.plan.nodes], nodes),
              file=sys.stderr)  # fmt: skip
    if o.stats:
        what = {
            "command": shlex.join([o.program, *o.args]),
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


def _refused(o: Options, err: ProgramRefused) -> int:
    reason = os.strerror(err.errno)
    warn(f"{o.program}: {reason}" + (f" ({err})" if str(err) else ""))
    if err.errno in (errno.ENOENT, errno.ENOTDIR):
        return EXIT_NOT_FOUND
    if err.errno in (errno.EIO, errno.ENOSYS, errno.EHOSTDOWN, errno.ETIMEDOUT):
        return EXIT_FAILED
    return EXIT_CANNOT_RUN


def _remove_logs(log_dir: str) -> None:
    import shutil

    shutil.rmtree(log_dir, ignore_errors=True)
    try:
        os.rmdir(os.path.dirname(log_dir))
    except OSError:
        pass  # other runs' logs
