# SPDX-License-Identifier: MIT
"""Holds every process and temporary directory of a run, so that none outlives it.

Started by the launcher as a process of its own, in its own session (terminal signals and a SIGKILL
of the launcher's process group do not reach it). Orders come as JSON lines on stdin, reports go as
JSON lines to stdout; its arguments are the directories to remove at the end. End of file on stdin
means that the launcher has gone, in whatever way: the supervisor kills its children, removes the
directories and ends. An order may bring descriptors along (SCM_RIGHTS). A child that has files of
its own to complete is asked to end first. Should the supervisor itself be killed, each child has
asked the kernel to be killed with it (PR_SET_PDEATHSIG).

Only the standard library, and little of it: this runs with -I -S and must start fast.
"""

import ctypes
import json
import os
import select
import signal
import socket
import sys
import time

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
MAX_LINE = 1 << 20
MAX_FDS = 16
GRACE_S = 2.0

_libc = ctypes.CDLL(None, use_errno=True)


class Child:
    def __init__(self, name: str, pid: int, asked: bool):
        self.name = name
        self.pid = pid
        self.asked = asked  # to end, before it is killed


class Supervisor:
    def __init__(self, remove: list[str]) -> None:
        self.remove = remove
        self.children: dict[int, Child] = {}
        self.delayed: list[tuple[float, dict]] = []
        self.orders = socket.socket(fileno=0)
        self.buf = b""
        self.fds: list[int] = []  # that came along and belong to orders to come
        self.running = True
        self.wake_r, self.wake_w = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def report(self, **what: object) -> None:
        try:
            os.write(1, (json.dumps(what) + "\n").encode())
        except OSError:
            pass  # the launcher has gone; stdin will say so

    # Starting and stopping.

    def take_fds(self, order: dict) -> None:
        """Name the descriptors that came with an order in its command line."""
        for name in order["names"]:
            fd = self.fds.pop(0)
            order["fds"].append(fd)
            order["argv"] = [w.replace("{%s}" % name, str(fd)) for w in order["argv"]]

    def start(self, order: dict) -> None:
        me = os.getpid()
        pid = os.fork()
        if pid == 0:
            self._child(order, me)
        for fd in order["fds"]:
            os.close(fd)
        self.children[pid] = Child(order["name"], pid, order["asked"])
        self.report(event="started", name=order["name"], pid=pid)

    def _child(self, order: dict, parent: int) -> None:
        try:
            _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != parent:
                os._exit(1)
            signal.set_wakeup_fd(-1)
            for sig in (
                signal.SIGCHLD,
                signal.SIGTERM,
                signal.SIGINT,
                signal.SIGHUP,
                signal.SIGPIPE,
            ):
                signal.signal(sig, signal.SIG_DFL)
            null = os.open(os.devnull, os.O_RDONLY)
            log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            os.dup2(null, 0)
            os.dup2(log, 1)
            os.dup2(log, 2)
            keep = set(order["fds"])
            for name in os.listdir("/proc/self/fd"):
                fd = int(name)
                if fd > 2:
                    try:
                        os.set_inheritable(fd, fd in keep)
                    except OSError:
                        pass  # the directory's own descriptor
            os.execvp(order["argv"][0], order["argv"])
        except OSError as err:
            try:
                os.write(2, f"{order['argv'][0]}: {err.strerror}\n".encode())
            except OSError:
                pass
        finally:
            os._exit(127)

    def kill(self, name: str, signo: int) -> None:
        for child in self.children.values():
            if child.name == name:
                os.kill(child.pid, signo)

    def reap(self) -> None:
        while self.children:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            child = self.children.pop(pid, None)
            if child:
                self.report(event="ended", name=child.name, status=status)

    def clear(self) -> None:
        for child in self.children.values():
            os.kill(child.pid, signal.SIGTERM if child.asked else signal.SIGKILL)
        deadline = time.monotonic() + GRACE_S
        while any(child.asked for child in self.children.values()) and time.monotonic() < deadline:
            select.select([self.wake_r], [], [], deadline - time.monotonic())  # until one has ended
            self.drain()
            self.reap()
        for pid in self.children:
            os.kill(pid, signal.SIGKILL)
        for pid in list(self.children):
            try:
                os.waitpid(pid, 0)
            except ChildProcessError:
                pass
        for path in self.remove:
            remove_tree(path)

    # The loop.

    def drain(self) -> None:
        try:
            os.read(self.wake_r, 4096)
        except BlockingIOError:
            pass

    def order(self, order: dict) -> None:
        op = order["op"]
        if op == "start":
            self.take_fds(order)
            if order.get("delay"):
                self.delayed.append((time.monotonic() + order["delay"], order))
            else:
                self.start(order)
        elif op == "kill":
            self.kill(order["name"], order["signal"])
        elif op == "keep":
            self.remove.remove(order["path"])
        elif op == "quit":
            self.running = False

    def read_orders(self) -> None:
        try:
            data, fds, _, _ = socket.recv_fds(self.orders, 1 << 16, MAX_FDS)
        except OSError:
            data, fds = b"", []
        if not data:
            self.running = False
        self.fds += fds
        self.buf += data
        *lines, self.buf = self.buf.split(b"\n")
        for line in lines:
            self.order(json.loads(line))
        if len(self.buf) > MAX_LINE:
            self.running = False

    def start_due(self) -> float | None:
        now = time.monotonic()
        for item in [d for d in self.delayed if d[0] <= now]:
            self.delayed.remove(item)
            self.start(item[1])
        return max(0.0, min(d[0] for d in self.delayed) - now) if self.delayed else None

    def run(self) -> None:
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for sig in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(sig, lambda *_: self._stop())
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        signal.set_wakeup_fd(self.wake_w, warn_on_full_buffer=False)
        try:
            while self.running:
                ready = select.select([0, self.wake_r], [], [], self.start_due())[0]
                if self.wake_r in ready:
                    self.drain()
                if 0 in ready:
                    self.read_orders()
                self.reap()
        finally:
            self.clear()

    def _stop(self) -> None:
        self.running = False


def remove_tree(path: str) -> None:
    """rm -rf, without importing shutil."""
    for root, dirs, files in os.walk(path, topdown=False):
        for name in files:
            _quietly(os.unlink, os.path.join(root, name))
        for name in dirs:
            full = os.path.join(root, name)
            _quietly(os.unlink if os.path.islink(full) else os.rmdir, full)
    _quietly(os.rmdir, path)


def _quietly(call, path: str) -> None:
    try:
        call(path)
    except OSError:
        pass


if __name__ == "__main__":
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    Supervisor(sys.argv[1:]).run()
