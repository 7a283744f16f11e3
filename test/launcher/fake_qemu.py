#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Stands in for QEMU in the launcher's tests: one node that speaks the control protocol.

It reads the role and node id from -append and the channel from -chardev, and answers RUN by running
the same path on the host, with pipes for its streams, or a terminal. What goes wrong on request is
chosen by the boot parameter fake=: panic, silent, garbage, stray, error, eof, late-exit-data.
The node with cluster= says who is a member: each that has written its incarnation beside its log
and is not reported lost; SIGUSR1 makes it fence node 4. A file NODE.says beside its log is what a
node answers when it is asked what it counts. The command line stands in NODE.argv beside the log.
"""

import contextlib
import fcntl
import json
import os
import pty
import queue
import re
import signal
import socket
import subprocess
import sys
import termios
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "tools", "launcher"))

from tessera_launcher import frames  # noqa: E402
from tessera_launcher.frames import Frame, Type  # noqa: E402

ROLE = {"p": 1, "m": 2, "s": 3}
ADDRESSES = frames.encode_addresses(["10.0.2.15", "fec0::1"])


def _environment(run: frames.Run) -> dict[bytes, bytes]:
    return dict(e.split(b"=", 1) for e in run.env)


def counters(asked: int) -> dict:
    """What a node counts: some of it rises whenever it is asked."""
    latency = {"count": 10 * asked, "sum": 20000 * asked, "p50": 2047, "p90": 2047, "p99": 12287,
               "max": 12287, "buckets": [[2047, 9 * asked], [12287, asked]]}  # fmt: skip
    return {
        "excache.misses": 3, "virtio-blk.requests": 5,
        "fault.count": 100 * asked, "excache.fetches": 25 * asked, "rpc.bytes": 4096 * asked,
        "sched.busy_ns": 1000 * asked, "sched.queued": 2, "rpc.outstanding": 7,
        "excache.peak_lines": 1024, "excache.evict_clean": 0,
        "frame.free": 25600, "rpc.latency_ns.demand": latency, "rpc.handler_ns": latency,
    }  # fmt: skip


class Fake:
    def __init__(self, argv: list[str]):
        text = " ".join(argv)
        self.argv = argv
        self.incarnation = os.getpid()
        self.out: set[tuple[int, int]] = set()  # members that were fenced
        self.members: dict[int, int] = {}
        self.name = argv[argv.index("-name") + 1].removeprefix("tessera-")
        params = argv[argv.index("-append") + 1].split()
        self.params = dict(p.split("=", 1) for p in params if "=" in p)
        self.sock = socket.socket(fileno=int(re.search(r"socket,id=ctl,fd=(\d+)", text)[1]))
        self.log = re.search(r"file,id=log,path=(\S+)", text)[1]
        self.lock = threading.Lock()
        self.cond = threading.Condition()
        self.credit: dict[tuple[int, int], int] = {}
        self.gone: set[tuple[int, int]] = set()
        self.placed = 0
        self.asked = 0
        self.progs: dict[int, subprocess.Popen] = {}
        self.terminals: dict[int, int] = {}
        self.inputs: dict[int, queue.SimpleQueue] = {}  # payloads for stdin; None: its end

    def send(self, frame: Frame) -> None:
        with self.lock:
            self.sock.sendall(frames.encode(frame))

    def run(self) -> None:
        with open(self.log, "w") as log:
            log.write(f"fake node {self.name}\n")
        with open(self.log.removesuffix(".log") + ".argv", "w") as f:
            f.write("\n".join(sys.argv))
        fault = self.params.get("fake")
        if fault == "silent":
            time.sleep(3600)
        node = int(self.params["node"])
        hello = frames.Hello(ROLE[self.name[0]], node, self.incarnation, "fake")
        with open(os.path.join(os.path.dirname(self.log), f"member.{node}"), "w") as f:
            f.write(str(self.incarnation))
        self.send(Frame(Type.HELLO, payload=frames.encode_hello(hello)))
        self.send(Frame(Type.STATUS, payload=b"waiting for nobody"))
        if os.path.exists(os.path.join(os.path.dirname(self.log), f"{self.name}.broken")):
            fault = "panic"
        if fault == "panic":
            with open(self.log, "a") as log:
                log.write("panic: the fake was told to\n")
            os._exit(3)
        if fault == "garbage":
            self.sock.sendall(b"garbage" * 10)
            time.sleep(3600)
        if fault == "error":
            self.send(Frame(Type.ERROR, payload=b"the disk is not ext4"))
        if fault != "unready":
            self.send(Frame(Type.READY, payload=frames.encode_ready(frames.Ready(1, 1, 1, 1))))
        if self.name[0] == "p" and "-netdev" in self.argv and "gateway.standby" not in self.params:
            for kind, payload in ((Type.GATEWAY, b""), (Type.ADDRESSES, ADDRESSES)):
                self.send(Frame(kind, payload=payload))
        if fault == "stray":
            self.send(Frame(Type.PLACED, 1, payload=frames.encode_placed(0, 1)))
        if "cluster" in self.params:
            signal.signal(signal.SIGUSR1, lambda *_: self.out.add((4, self.members.get(4, 0))))
            threading.Thread(target=self.tell_members, daemon=True).start()
        decoder = frames.Decoder(frames.End.HOST)
        while data := self.sock.recv(65536):
            for frame in decoder.feed(data):
                self.handle(frame)

    def tell_members(self) -> None:
        epoch = 0
        while True:
            where = os.path.dirname(self.log)
            now = {}
            for name in os.listdir(where):
                if name.startswith("member."):
                    with open(os.path.join(where, name)) as f:
                        now[int(name[7:])] = int(f.read() or "0")
            now = {n: i for n, i in now.items() if i and (n, i) not in self.out}
            if now != self.members:
                epoch += 1
                self.members = now
                payload = frames.encode_members(epoch, now)
                self.send(Frame(Type.MEMBERS, payload=payload))
            time.sleep(0.05)

    def handle(self, frame: Frame) -> None:
        if frame.type is Type.SHUTDOWN:
            os._exit(1)
        if frame.type is Type.STATS_REQ:
            self.asked += 1
            said = json.dumps({"counters": counters(self.asked)}).encode()
            with contextlib.suppress(FileNotFoundError):
                with open(os.path.join(os.path.dirname(self.log), f"{self.name}.says"), "rb") as f:
                    said = f.read()
            self.send(Frame(Type.STATS, payload=said))
        elif frame.type is Type.LOST:
            with open(os.path.join(os.path.dirname(self.log), "reported"), "a") as f:
                f.write(f"{frame.payload[0]}\n")
            self.out.add(frames.decode_lost(frame.payload))
        elif frame.type is Type.DEBUG:
            self.send(Frame(Type.DEBUG_REPLY, frame.prog, 0, frames.encode_errno(38, "")))
        elif frame.type is Type.PLACE:
            # Turns over two processors, for the sake of simplicity.
            self.placed += 1
            self.send(
                Frame(Type.PLACED, frame.prog, 0, frames.encode_placed(0, 2 - self.placed % 2))
            )
        elif frame.type is Type.RUN:
            self.start(frame.prog, frames.decode_run(frame.payload))
        elif frame.type is Type.CREDIT:
            with self.cond:
                key = (frame.prog, frame.stream)
                self.credit[key] = self.credit.get(key, 0) + frames.decode_credit(frame.payload)
                self.cond.notify_all()
        elif frame.type is Type.DATA:
            self.inputs[frame.prog].put(frame.payload)
        elif frame.type is Type.EOF:
            if frame.stream == 0:
                self.inputs[frame.prog].put(None)
            else:
                with self.cond:
                    self.gone.add((frame.prog, frame.stream))
                    self.cond.notify_all()
        elif frame.type is Type.WINSIZE:
            termios.tcsetwinsize(
                self.terminals[frame.prog], frames.decode_winsize(frame.payload)[:2]
            )
        elif frame.type is Type.SIGNAL:
            proc = self.progs.get(frame.prog)
            if proc and proc.poll() is None:
                proc.send_signal(frames.decode_signal(frame.payload))

    def start(self, prog: int, run: frames.Run) -> None:
        try:
            proc = self.start_on_terminal(prog, run) if run.tty else self.start_on_pipes(run)
        except OSError as err:
            self.send(Frame(Type.REFUSED, prog, 0, frames.encode_errno(err.errno)))
            return
        self.progs[prog] = proc
        self.inputs[prog] = queue.SimpleQueue()
        threading.Thread(target=self.feed, args=(prog, proc), daemon=True).start()
        self.send(Frame(Type.STARTED, prog, 0, frames.encode_started(frames.Started(42, 1))))
        self.send(Frame(Type.CREDIT, prog, 0, frames.encode_credit(65536)))
        threading.Thread(target=self.pump, args=(prog, proc), daemon=True).start()

    def start_on_pipes(self, run: frames.Run) -> subprocess.Popen:
        return subprocess.Popen(
            run.argv, executable=run.path, cwd=run.cwd, env=_environment(run), bufsize=0,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def start_on_terminal(self, prog: int, run: frames.Run) -> subprocess.Popen:
        """The host's own line discipline stands in for ours."""
        master, terminal = pty.openpty()
        termios.tcsetwinsize(master, (run.rows, run.cols))
        self.terminals[prog] = master
        proc = subprocess.Popen(
            run.argv, executable=run.path, cwd=run.cwd, env=_environment(run),
            start_new_session=True,
            stdin=terminal, stdout=terminal, stderr=terminal,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )  # fmt: skip
        os.close(terminal)
        proc.stdin = open(master, "wb", buffering=0)
        proc.stdout = open(os.dup(master), "rb", buffering=0)
        proc.stderr = open("/dev/null", "rb", buffering=0)
        return proc

    def feed(self, prog: int, proc: subprocess.Popen) -> None:
        """Write stdin on a thread of its own: a program that does not read must not stop the
        frames.
        """
        while (data := self.inputs[prog].get()) is not None:
            try:
                proc.stdin.write(data)
                self.send(Frame(Type.CREDIT, prog, 0, frames.encode_credit(len(data))))
            except OSError:
                self.send(Frame(Type.EOF, prog, 0))
        proc.stdin.close()

    def pump(self, prog: int, proc: subprocess.Popen) -> None:
        pumps = [
            threading.Thread(target=self.pump_out, args=(prog, stream, pipe))
            for stream, pipe in ((1, proc.stdout), (2, proc.stderr))
        ]
        for thread in pumps:
            thread.start()
        for thread in pumps:
            thread.join()
        code = proc.wait()
        status = -code if code < 0 else code << 8
        for stream in (1, 2):
            self.send(Frame(Type.EOF, prog, stream))
        self.send(Frame(Type.EXIT, prog, 0, frames.encode_exit(frames.Exit(status, 5))))
        if self.params.get("fake") == "late-exit-data":
            self.send(Frame(Type.DATA, prog, 1, b"too late"))

    def pump_out(self, prog: int, stream: int, pipe) -> None:
        key = (prog, stream)
        while True:
            with self.cond:
                self.cond.wait_for(lambda: self.credit.get(key, 0) > 0 or key in self.gone)
                room = min(self.credit.get(key, 0), 4096)
            if key in self.gone:
                pipe.close()
                return
            try:
                data = os.read(pipe.fileno(), room)
            except OSError:
                data = b""  # a terminal whose last user has gone
            if not data:
                return
            with self.cond:
                self.credit[key] -= len(data)
            self.send(Frame(Type.DATA, prog, stream, data))


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    Fake(sys.argv).run()
