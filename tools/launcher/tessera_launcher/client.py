# SPDX-License-Identifier: MIT
"""`./tessera up`, `exec`, `ps` and `down`: a cluster that stays, seen from outside."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import selectors
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable

from . import frames, host, keeper, packing, registry, treepath
from .channel import Channel, Program, encode_run
from .errors import Interrupted, LaunchError, ProgramRefused, escaped
from .frames import Frame, Type
from .options import Options, warn
from .run import (EXIT_FAILED, EXIT_TIMEOUT, Signals, Timeout, first_found, refused, request,
                  run_job)  # fmt: skip
from .terminal import Terminal
from .users import User

DOWN_S = 60.0


# ./tessera up


def up(o: Options) -> int:
    if o.restart:
        return restart(o)
    if not (o.pack or o.rootfs or o.disk or o.image):
        o.pack = packing.utilities()
    if o.dry_run:
        print(host.Host(o).plan().text())
        return 0
    host.sweep()
    ours, theirs = os.pipe()
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        os.close(ours)
        keeper.child(o, theirs)
    os.close(theirs)
    report = _wait_for_report(pid, ours)
    if report is None:
        # The keeper has said what went wrong.
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    print(_describe_up(o, report))
    return 0


def restart(o: Options) -> int:
    entry = registry.find(o.name)
    with entry.connect() as sock:
        _ask(entry, sock, op="restart", node=o.restart)
    print(f"node {o.restart} of cluster {entry.name} is up again")
    return 0


def _wait_for_report(pid: int, fd: int) -> dict | None:
    """What the keeper says once the cluster is up; None: it ended. Signals end both."""

    def pass_on(signo: int, _frame: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signo)

    for signo in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signo, pass_on)
    with open(fd, "rb") as f:
        data = f.read()
    return json.loads(data) if data else None


def _describe_up(o: Options, report: dict) -> str:
    name = f" --name {o.name}" if len(registry.clusters()) > 1 else ""
    nodes = ", ".join(f"{n} {role if n == 1 else many}" for n, role, many in (
        (o.processors, "processor", "processors"), (o.memories, "memory", "memories"),
        (o.storages, "storage", "storages")))  # fmt: skip
    metrics = f"; metrics: {report['metrics']}" if report.get("metrics") else ""
    return (f"cluster {o.name} is up: {nodes}; logs: {report['logs']}{metrics}\n"
            f"{_network(report['network'])}\n"
            f"run programs with ./tessera exec{name} PROGRAM, end it with ./tessera down{name}")


# ./tessera exec


class Session:
    """The connection of one program; stands where a Cluster does for `run`."""

    def __init__(self, sock: socket.socket):
        self._sock = sock
        self._wake_r, self._wake_w = socket.socketpair()
        self._wake_w.setblocking(False)
        self._channel = Channel(None, sock, self._wake)
        self._program: Program | None = None

    def start_program(self, run: frames.Run, sink: Callable[[int, bytes], None]) -> Program:
        self._program = Program(self._channel, keeper.PROG, sink)
        self._channel.send(Frame(Type.RUN, keeper.PROG, 0, encode_run(run)))
        self._program.open()
        self._sock.setblocking(False)
        threading.Thread(target=self._loop, daemon=True).start()
        return self._program

    def _wake(self) -> None:
        with contextlib.suppress(OSError):
            self._wake_w.send(b"x")

    def _loop(self) -> None:
        sel = selectors.DefaultSelector()
        sel.register(self._wake_r, selectors.EVENT_READ)
        sel.register(self._sock, selectors.EVENT_READ)
        try:
            while True:
                out = selectors.EVENT_WRITE if self._channel.wants_write() else 0
                sel.modify(self._sock, selectors.EVENT_READ | out)
                for key, events in sel.select():
                    if key.fileobj is self._wake_r:
                        self._wake_r.recv(4096)
                        continue
                    if events & selectors.EVENT_WRITE:
                        self._channel.flush()
                    if events & selectors.EVENT_READ and not self._read():
                        return
        except Exception as err:  # a bug here must not leave the program's waiter hanging
            self._program.fail(f"launcher: {type(err).__name__}: {err}")
        finally:
            sel.close()

    def _read(self) -> bool:
        try:
            data = self._sock.recv(1 << 18)
        except (BlockingIOError, InterruptedError):
            return True
        except OSError:
            data = b""
        try:
            for frame in self._channel.decoder.feed(data):
                self._program.handle(frame)
        except frames.ProtocolError as err:
            self._program.fail(f"the cluster broke the control protocol: {err}")
            return False
        if not data:
            self._program.fail("the cluster has gone")
        return bool(data)


def execute(o: Options) -> int:
    terminal = Terminal() if o.tty else None
    entry = registry.find(o.name)
    tries = Tries(entry, o)
    try:
        reply = tries.first
        o.env = [*reply["env"], *o.env]  # an image's own
        o.cwd = o.cwd if o.cwd_given else reply["cwd"] or o.cwd
        if o.verbose:
            warn(f"{reply['node']} of cluster {entry.name}; {_network(reply['network'])}")
        paths = _guest_paths(o, reply["packed"])
        who = User(reply["uid"], reply["gid"], reply["home"])
        signals = Signals()
        deadline = time.monotonic() + o.timeout if o.timeout else None
        with terminal or contextlib.nullcontext():
            what = request(o, paths[0], [o.program, *o.args], terminal, who)
            starter = first_found(tries.start_program, paths)
            return run_job(starter, what, signals, deadline, terminal, o)
    except ProgramRefused as err:
        if err.errno == errno.ENOENT:
            what = (f"{err or paths[0]}; cluster {entry.name} has the files that ./tessera up was"
                    " given")  # fmt: skip
            err = ProgramRefused(err.errno, what)
        return refused(o.program, err)
    except LaunchError as err:
        if isinstance(err, host.ProgramError):
            raise
        warn(f"{err}; logs: {reply['logs']}")
        return EXIT_TIMEOUT if isinstance(err, Timeout) else EXIT_FAILED
    except Interrupted as err:
        return 128 + err.signo
    finally:
        Signals.ignore()
        tries.close()


class Tries:
    """Connections for the program, one for each path that is tried."""

    def __init__(self, entry: registry.Entry, o: Options):
        self._entry = entry
        self._o = o
        self._socks: list[socket.socket] = []
        self.first = self._connect()
        self._used = False

    def _connect(self) -> dict:
        sock = self._entry.connect()
        self._socks.append(sock)
        try:
            return _ask(self._entry, sock, op="exec", processor=self._o.processor,
                        user=self._o.user, caller=f"{os.getuid()}:{os.getgid()}")  # fmt: skip
        except BaseException:
            self.close()
            raise

    def start_program(self, run: frames.Run, sink: Callable[[int, bytes], None]) -> Program:
        if self._used:
            self._connect()
        self._used = True
        return Session(self._socks[-1]).start_program(run, sink)

    def close(self) -> None:
        for sock in self._socks:
            sock.close()


def _guest_paths(o: Options, packed: bool) -> list[str]:
    """Where the program can be in the cluster: by the rules of `run`."""
    if not packed:
        return treepath.candidates(o.program, o.env)
    return [os.path.abspath(o.program) if "/" in o.program else host.find_program(o.program)]


def _ask(entry: registry.Entry, sock: socket.socket, **what: object) -> dict:
    try:
        keeper.write_line(sock, **what)
        reply = keeper.read_line(sock)
    except (OSError, ValueError, LaunchError):
        raise LaunchError(f"cluster {entry.name} is going down") from None
    if reply.get("error"):
        raise LaunchError(reply["error"])
    return reply


# ./tessera ps, ./tessera down


def show(name: str | None) -> int:
    entries = [registry.find(name)] if name else registry.clusters()
    if not entries:
        print("no cluster is up")
    for entry in entries:
        with entry.connect() as sock:
            print(describe(_ask(entry, sock, op="ps")))
    return 0


def describe(state: dict) -> str:
    """What `ps` prints of a cluster."""
    out = [
        f"cluster {state['name']}, up for {_time(time.time() - state['started'])}; logs:"
        f" {state['logs']}"
    ]
    for node in state["nodes"]:
        size = f"{node['cpus']} CPU{'s' if node['cpus'] > 1 else ''}, {node['ram'] >> 20} MiB"
        out.append(f"  {node['name']:<4} {node['role']:<9}  {size:<18} {node['state']}")
    if "network" in state:  # a cluster that an older launcher brought up does not tell
        out.append(f"  {_network(state['network'])}")
    rows = sorted(state["programs"], key=lambda p: (p["node"], p["pid"]))
    if rows:
        out.append("  NODE      PID      TIME  PROGRAM")
    for p in rows:
        out.append(
            f"  {p['node']:<4} {p['pid']:>8}  {_time(p['seconds']):>8}"
            f"  {escaped(' '.join(p['argv']))}"
        )
    return "\n".join(out)


def _network(state: dict) -> str:
    """One line: the addresses by which the outside knows the cluster, and the published ports."""
    if state["net"] == "none":
        return "network: none"
    kind = "QEMU's user network" if state["net"] == "user" else "tap"
    where = ", ".join(state["addresses"]) or "no address"
    by = f", through {state['gateway']}" if state["gateway"] else ", no gateway"
    ports = "; published: " + ", ".join(state["published"]) if state["published"] else ""
    return f"network: {where} ({kind}{by}){ports}"


def _time(seconds: float) -> str:
    whole = int(max(seconds, 0))
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"


def down(name: str | None, everything: bool = False) -> int:
    entries = registry.clusters() if everything else [registry.find(name)]
    status = 0
    for entry in entries:
        with entry.connect() as sock:
            reply = _ask(entry, sock, op="down")
            why = _farewell(entry, sock, bool(reply.get("results")))
        if why:
            warn(why)
            status = EXIT_FAILED
    return status


def _farewell(entry: registry.Entry, sock: socket.socket, results: bool) -> str:
    """Until the keeper ends, and with it the connection: what it could not bring out, or "". Where
    there are @results to bring, one that ends in silence has not brought them.
    """
    sock.settimeout(DOWN_S)
    why = f"cluster {entry.name} ended before its results were out" if results else ""
    with sock.makefile("rb") as lines, contextlib.suppress(OSError, ValueError):
        try:
            for line in lines:
                said = json.loads(line)
                why = said.get("error", "" if said.get("done") else why)
                if said.get("bringing"):  # the machines are gone: files take as long as they take
                    sock.settimeout(None)
        except TimeoutError:
            raise LaunchError(f"cluster {entry.name} is still there after {DOWN_S:g} s") from None
    return why
