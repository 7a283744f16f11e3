# SPDX-License-Identifier: MIT
"""The process that `./tessera up` leaves: it holds the cluster, and relays programs to it.

A client connects to the socket of the cluster's directory (registry.py), sends one line of JSON,
and gets one back. After "exec" the connection carries frames of the control channel
(docs/protocol/control.md) for one program, which has number 1 there: client and node grant each
other credit, so nothing piles up here.

With --metrics an HTTP server (metrics.py) runs in here too.

Threads: the main thread waits, another accepts; each client has one that reads it and one that
writes to it; the cluster's I/O thread hands frames to Relayed.handle(), which never blocks.
Trust: a client is the same user, but a mistake of one must not cost the others their node: what
the node would answer by closing its channel is refused here.
Failure: when a client goes, its program is killed. When the cluster fails, or on SIGTERM, all
ends. After a SIGKILL of this process the supervisor ends the machines and removes the directories.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import socket
import sys
import threading
import time

from . import frames, host, registry, users
from .channel import Relay
from .cluster import Cluster
from .errors import Interrupted, LaunchError, one_line
from .frames import Frame, Type
from .options import Options, warn
from .run import EXIT_FAILED, Signals, announce_gdb, remove_logs
from .sampler import Sampler

MAX_LINE = 1 << 16
PLACE_TRIES = 8
ADDRESS_S = 1.0  # that `up` waits for DHCP, to show the address
PROG = 1  # the number of the program on a client's connection


class Relayed(Relay):
    """One program of a client."""

    def __init__(self, cluster: Cluster, node: str, sock: socket.socket):
        self.id = 0  # until it runs
        self.over = False
        self.node = node
        self.run: frames.Run | None = None
        self.pid = 0
        self.since = time.monotonic()
        self._cluster = cluster
        self._channel = cluster.channel(node)
        self._sock = sock
        self._out: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._input = 0  # bytes that the node takes
        self._input_open = True
        self._granted = {1: 0, 2: 0}  # bytes that the client takes
        self._abandoned = False
        self._writer = threading.Thread(target=self._write, daemon=True)
        self._writer.start()

    # From the node, on the I/O thread.

    def handle(self, frame: Frame) -> None:
        with self._lock:
            if frame.type is Type.CREDIT:
                self._input += frames.decode_credit(frame.payload)
            elif frame.type is Type.DATA:
                self._granted[frame.stream] -= len(frame.payload)
                if self._granted[frame.stream] < 0:
                    raise frames.ProtocolError(f"DATA beyond the credit of stream {frame.stream}")
            elif frame.type is Type.STARTED:
                self.pid = frames.decode_started(frame.payload).pid
        self._put(frame.type, frame.stream, frame.payload)
        if frame.type in (Type.EXIT, Type.REFUSED, Type.ERROR):
            self._end()
        elif frame.type is Type.STARTED and self._abandoned:
            self._kill()

    def fail(self, why: str) -> None:
        self._put(Type.ERROR, 0, why.encode()[: frames.MAX_LINE])
        self._end()

    def _put(self, kind: Type, stream: int, payload: bytes) -> None:
        if not self.over:
            self._out.put(frames.encode(Frame(kind, PROG, stream, payload)))

    def _end(self) -> None:
        self.over = True
        self._out.put(None)

    def _write(self) -> None:
        with contextlib.suppress(OSError):  # the reader sees that the client has gone
            while (data := self._out.get()) is not None:
                self._sock.sendall(data)
            self._sock.shutdown(socket.SHUT_WR)

    # From the client, on its thread.

    def check(self, frame: Frame) -> None:
        """ProtocolError for what the node would not bear."""
        if frame.prog != PROG or frame.type in (Type.DEBUG, Type.PLACE):
            raise frames.ProtocolError(f"{frame.type.name} from a client")
        if (frame.type is Type.RUN) != (self.run is None):
            raise frames.ProtocolError("a program begins with one RUN")
        with self._lock:
            self._account(frame)

    def _account(self, frame: Frame) -> None:
        if frame.type is Type.RUN:
            self.run = frames.decode_run(frame.payload)
        elif frame.type is Type.DATA:
            self._input -= len(frame.payload)
            if self._input < 0 or not self._input_open:
                raise frames.ProtocolError("input beyond its credit")
        elif frame.type is Type.CREDIT:
            self._granted[frame.stream] += frames.decode_credit(frame.payload)
            if self._granted[frame.stream] > frames.MAX_CREDIT:
                raise frames.ProtocolError("more than 16 MiB of credit")
        elif frame.type is Type.EOF and frame.stream == 0:
            self._input_open = False
        elif frame.type is Type.SIGNAL:
            frames.decode_signal(frame.payload)
        elif frame.type is Type.WINSIZE:
            frames.decode_winsize(frame.payload)

    def forward(self, frame: Frame) -> None:
        if frame.type is Type.RUN:
            self._cluster.launch(self.node, self, frame.payload)
        elif not self.over:
            self._channel.send(Frame(frame.type, self.id, frame.stream, frame.payload))

    def abandon(self) -> None:
        """The client has gone: nobody reads, nothing comes, and the program ends."""
        self._abandoned = True
        if not self.over and self.id:
            for stream in (0, 1, 2):
                self._channel.send(Frame(Type.EOF, self.id, stream))
            self._kill()

    def close(self) -> None:
        """Until the client has been told everything, or is no more."""
        self._out.put(None)
        self._writer.join()

    def _kill(self) -> None:
        payload = frames.encode_signal(signal.SIGKILL)
        self._channel.send(Frame(Type.SIGNAL, self.id, 0, payload))


class Keeper:
    """Serves the clients of one cluster."""

    def __init__(self, side: host.Host, cluster: Cluster, claim: registry.Claim, packed: bool):
        self.o = side.o
        self.side = side
        self.cluster = cluster
        self.name = claim.name
        self.packed = packed
        self.stopping = False
        self.started = time.time()
        self.sampler = Sampler(cluster)
        self._listener = claim.listen()
        self._wake_r, self._wake_w = socket.socketpair()
        self._wake_w.setblocking(False)
        self._lock = threading.Lock()
        self._programs: set[Relayed] = set()
        self._leaving: list[socket.socket] = []  # of ./tessera down, until this process ends
        self._turn = 0

    def wake(self) -> None:
        with contextlib.suppress(OSError):
            self._wake_w.send(b"x")

    def stop(self, *_: object) -> None:
        self.stopping = True
        self.wake()

    def serve(self) -> None:
        """Until it is told to stop; LaunchError when the cluster fails."""
        threading.Thread(target=self._accept, daemon=True).start()
        while not self.stopping:
            self._wake_r.recv(64)
            if self.cluster.failure:
                raise LaunchError(self.cluster.failure)

    def _accept(self) -> None:
        while True:
            sock, _ = self._listener.accept()
            threading.Thread(target=self._client, args=(sock,), daemon=True).start()

    def _client(self, sock: socket.socket) -> None:
        with sock, contextlib.suppress(OSError):
            try:
                request = read_line(sock)
                ops = {"exec": self._exec, "ps": self._ps, "down": self._down,
                       "restart": self._restart, "stats": self._stats}  # fmt: skip
                op = ops.get(request.get("op"))
                if op is None:
                    raise LaunchError(f"unknown request {request.get('op')!r}")
                op(sock, request)
            except (LaunchError, frames.ProtocolError, ValueError) as err:
                sock.sendall(json.dumps({"error": str(err)}).encode() + b"\n")

    def _down(self, sock: socket.socket, _request: dict) -> None:
        write_line(sock, ok=True, results=self.side.brings_out)
        with self._lock:
            self._leaving.append(sock)
        self.stop()
        sock.recv(1)  # ends with this process

    def _restart(self, sock: socket.socket, request: dict) -> None:
        self.cluster.restart(str(request.get("node")))
        write_line(sock, ok=True)

    def bring_out(self) -> None:
        """--output, --rw and --commit, when the machines have ended. Each ./tessera down that waits
        hears that it may take a while, and then that all is there or of what went wrong; so does
        the log. One that hears neither takes the results for lost.
        """
        if not self.side.brings_out:
            return
        self._tell(bringing=True)
        try:
            self.side.bring_out()
        except LaunchError as err:
            self._not_brought(str(err))
        except Exception as err:  # a bug here, or an error of the disk that nobody expected
            self._not_brought(one_line(f"launcher: {type(err).__name__}: {err}"))
        else:
            self._tell(done=True)

    def _not_brought(self, why: str) -> None:
        self._tell(error=why)
        self.cluster.keep_logs()
        where = self.cluster.plan.log_dir  # gone with the machines, unless it is the user's
        with contextlib.suppress(OSError):
            os.makedirs(where, exist_ok=True)
            with open(os.path.join(where, "launcher.log"), "a") as log:
                log.write(f"{why}\n")

    def _tell(self, **what: object) -> None:
        with self._lock:
            leaving = list(self._leaving)
        for sock in leaving:
            with contextlib.suppress(OSError):  # one that waits no longer
                write_line(sock, **what)

    def programs(self) -> list[Relayed]:
        """Those that run."""
        with self._lock:
            return [p for p in self._programs if p.run and not p.over]

    def _stats(self, sock: socket.socket, _request: dict) -> None:
        look = self.sampler.take()
        write_line(sock, ok=True, name=self.name, started=self.started, nodes=look["nodes"],
                   programs=len(self.programs()))  # fmt: skip

    def _ps(self, sock: socket.socket, _request: dict) -> None:
        cluster = self.cluster
        nodes = [
            {"name": n.name, "role": n.role, "cpus": n.cpus, "ram": n.ram,
             "pid": cluster.pids.get(n.name),
             "state": cluster.state(n.name)}
            for n in cluster.plan.nodes
        ]  # fmt: skip
        programs = [
            {"node": p.node, "pid": p.pid, "seconds": time.monotonic() - p.since,
             "argv": [a.decode("utf-8", "replace") for a in p.run.argv]}
            for p in self.programs()
        ]  # fmt: skip
        write_line(sock, ok=True, name=self.name, started=self.started, logs=cluster.plan.log_dir,
                   nodes=nodes, programs=programs, network=cluster.network())

    def _choose(self, processor: object) -> str:
        """The node that was named, or the one that GPM chooses."""
        nodes = [n.name for n in self.cluster.plan.nodes if n.role == "processor"]
        if processor is not None:
            if f"p{processor}" not in nodes:
                raise LaunchError(f"there is no processor p{processor} in cluster {self.name}")
            if f"p{processor}" in self.cluster.lost:
                raise LaunchError(self.cluster.lost[f"p{processor}"])
            return f"p{processor}"
        if len(nodes) == 1:
            return nodes[0]
        # A loss may be known here before the managers know: then GPM may still name the lost one,
        # which counts a program there each time, so that another one's turn comes.
        with contextlib.suppress(LaunchError):
            for _ in range(PLACE_TRIES):
                node = self.cluster.place()
                if node not in self.cluster.lost:
                    return node
        return self._in_turn(nodes)

    def _in_turn(self, nodes: list[str]) -> str:
        """While the managers are away."""
        living = [n for n in nodes if n not in self.cluster.lost]
        if not living:
            raise LaunchError("no processor is up: ./tessera up --restart starts one again")
        with self._lock:
            self._turn += 1
            return living[self._turn % len(living)]

    def _exec(self, sock: socket.socket, request: dict) -> None:
        user = request.get("user")
        who = self.side.user(users.check(str(user)) if user is not None else None,
                             users.check(str(request.get("caller"))))  # fmt: skip
        node = self._choose(request.get("processor"))
        program = Relayed(self.cluster, node, sock)
        write_line(sock, ok=True, node=node, logs=self.cluster.plan.log_dir, packed=self.packed,
                   uid=who.uid, gid=who.gid, home=who.home,
                   env=self.side.settings.get("env", []),
                   cwd=self.side.settings.get("cwd"), network=self.cluster.network())  # fmt: skip
        with self._lock:
            self._programs.add(program)
        decoder = frames.Decoder(frames.End.HOST)
        try:
            while data := sock.recv(1 << 18):
                for frame in decoder.feed(data):
                    program.check(frame)
                    program.forward(frame)
        except (LaunchError, frames.ProtocolError) as err:
            program.fail(str(err))
        finally:
            program.abandon()
            with self._lock:
                self._programs.remove(program)
            program.close()


def read_line(sock: socket.socket) -> dict:
    """One line of JSON; nothing comes behind it before it has been answered."""
    data = b""
    while not data.endswith(b"\n"):
        more = sock.recv(1)
        if not more or len(data) > MAX_LINE:
            raise LaunchError("the connection ended early")
        data += more
    out = json.loads(data)
    if not isinstance(out, dict):
        raise LaunchError("not a request")
    return out


def write_line(sock: socket.socket, **what: object) -> None:
    sock.sendall(json.dumps(what).encode() + b"\n")


def main(o: Options, report: int) -> int:
    """The keeper's process, from start to end; tells @report, once, whether the cluster is up."""
    claim = registry.claim(o.name)
    side = host.Host(o)
    packed = not (o.rootfs or o.disk or o.image)
    server = None
    try:
        if o.metrics:
            from . import metrics  # http.server takes a while to load

            server = metrics.Server(*o.metrics)
        laid_out = side.plan()
        side.announce()
        side.learn_names()
    except BaseException:
        _remove(claim.path)
        raise
    keeper: Keeper | None = None
    cluster = Cluster(laid_out, side.prepare, o.boot_timeout, keep_logs=side.keep_logs,
                      remove=(claim.path,), on_change=lambda: keeper and keeper.wake(),
                      stays=True)  # fmt: skip
    try:
        with cluster:
            announce_gdb(cluster)
            cluster.wait_ready(everyone=True)
            for command in o.inject:
                cluster.inject(command)
            keeper = Keeper(side, cluster, claim, packed)
            for signo in (signal.SIGTERM, signal.SIGINT):
                signal.signal(signo, keeper.stop)
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            if server:
                server.start(keeper, side.kernels())
            cluster.wait_address(ADDRESS_S)
            write_report(report, ok=True, logs=laid_out.log_dir, metrics=server and server.url,
                         network=cluster.network())  # fmt: skip
            _let_go()
            keeper.serve()
        keeper.bring_out()
    except LaunchError as err:
        raise LaunchError(f"{err}; logs: {laid_out.log_dir}") from None
    except BrokenPipeError:
        pass
    finally:
        Signals.ignore()
        if server:
            server.server_close()
        if not cluster.logs_kept:
            remove_logs(laid_out.log_dir)
    return 0


def write_report(fd: int, **what: object) -> None:
    """BrokenPipeError: ./tessera up has gone, and so does the cluster."""
    with open(fd, "wb", buffering=0) as f:
        f.write(json.dumps(what).encode())


def _let_go() -> None:
    """Nothing of the caller's is held: its pipes and its directory can go."""
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)
    os.chdir("/")


def _remove(path: str) -> None:
    import shutil

    shutil.rmtree(path, ignore_errors=True)


def child(o: Options, report: int) -> None:
    """The body of the forked keeper; does not return."""
    status = EXIT_FAILED
    try:
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(null, 1)
        os.close(null)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        Signals()  # until it is up, they end it
        status = main(o, report)
    except LaunchError as err:
        Signals.ignore()
        warn(str(err))
        status = getattr(err, "status", EXIT_FAILED)
    except Interrupted as err:
        status = 128 + err.signo
    finally:
        sys.stderr.flush()
        os._exit(status)
