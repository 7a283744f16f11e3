# SPDX-License-Identifier: MIT
"""A running cluster: the supervisor and its processes, the control channels, the programs.

Threads: one I/O thread owns every socket; callers block on events in their own threads. Whatever
the I/O thread hands out (stream data, events) goes through thread-safe objects; callers reach it
by Channel.send(), which only appends and wakes it. Failure: the first reason is kept; every waiter
then raises it as a LaunchError of one line. A node that is lost once the cluster is ready takes
only its own programs along; the processors tell of others that depended on it. A cluster that does
not stay fails when nothing could go on: no node of the role is left, or its storage has gone.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import json
import os
import random
import re
import secrets
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable

from . import counters, fabric, frames, plan as planning
from .channel import Channel, Program, Relay, encode_run
from .errors import LaunchError, one_line
from .frames import Frame, Type
from .plan import Command, NodePlan, Plan, key_path, seed_path
from .publish import Publisher

SHUTDOWN_S = 5.0
WRITE_BACK_S = 60.0  # the same, of nodes that have files to write first
STATS_S = 10.0
CONTROL_S = 10.0
ROOT_VNODE = 1  # the only one so far
STARTING = "starting"  # as the reason why a node is not there
FENCED = "this node was fenced: its lease had ended"  # as it says itself, if it can
CUT_OFF = "this node was cut off: no member has answered for longer than its lease"
RUN_DIR_PREFIX = "tessera-"


class Cluster:
    """Starts a plan and keeps it; use as a context manager."""

    def __init__(self, plan: Plan, prepare: Callable[[Cluster], None] | None = None,
                 boot_timeout: float = 60.0, keep_logs: bool = True, remove: tuple[str, ...] = (),
                 on_change: Callable[[], None] | None = None,
                 stays: bool = False):  # fmt: skip
        self.plan = plan
        self.boot_timeout = boot_timeout
        self.failure: str | None = None
        self.lost: dict[str, str] = {}  # nodes that have gone or are fenced, and why
        self.gateway = ""  # the node that says to be it
        self._addresses: dict[str, list[str]] = {}  # that each processor's cards have
        self.members_epoch = 0
        self.members: dict[int, int] = {}  # incarnations by node, as the managers said last
        self.started_at = 0.0
        self.ready_at = 0.0
        self.pids: dict[str, int] = {}
        self.ended: dict[str, int] = {}
        self._prepare = prepare
        self._remove = remove  # more directories that go with the cluster
        self._on_change = on_change  # something has failed: any thread
        self._keep_logs = keep_logs
        self._stays = stays  # nodes may be lost, and be started again
        self._host = next(n for n in plan.nodes if n.role == "storage").name  # of the managers
        self._members_of = 0  # incarnation of the host that said so
        self._fenced: set[str] = set()
        self._starts = {n.name: 1 for n in plan.nodes}
        self._restarting = threading.Lock()
        self._swaps: collections.deque[tuple[Channel, threading.Event]] = collections.deque()
        self._cond = threading.Condition()
        self._launching = threading.Lock()
        self._closing = False
        self._next_prog = 1
        self._programs: dict[tuple[str, int], Program | Relay] = {}
        self._past: set[tuple[str, int]] = set()
        self._asked: dict[int, tuple[str, Type]] = {}  # node and kind of answer, by number
        self._replies: dict[int, tuple[int, str | int]] = {}
        self._asking_stats = threading.Lock()
        self._stats: dict[str, tuple[float, str]] = {}  # when it came, and the text
        self._channels: dict[str, Channel] = {}
        self._wake_r, self._wake_w = socket.socketpair()
        self._supervisor: subprocess.Popen | None = None
        self._orders: socket.socket | None = None
        self._ordering = threading.Lock()
        self._thread: threading.Thread | None = None
        self._super_buf = b""
        first = next((n for n in plan.nodes if n.publish), None)
        ports, at = (first.publish, first.name) if first else ([], "")
        self.publisher = Publisher(plan.run_dir, ports, at, self._end_lost, self._note)

    # Life.

    def __enter__(self) -> Cluster:
        try:
            self.start()
        except BaseException as err:
            self.__exit__(type(err))
            raise
        return self

    def __exit__(self, kind, *_) -> None:
        if kind and issubclass(kind, LaunchError):
            self.keep_logs()
        self.close(force=kind is not None)

    def keep_logs(self) -> None:
        """They tell why it failed: the supervisor shall not remove them."""
        if not self._keep_logs and self._supervisor:
            self._keep_logs = True
            with contextlib.suppress(LaunchError):
                self._order(op="keep", path=self.plan.log_dir)

    @property
    def logs_kept(self) -> bool:
        return self._keep_logs

    def start(self) -> None:
        """Start the supervisor, prepare the disk, then start every process."""
        ours, theirs = self._make_sockets()
        self._start_supervisor(theirs)
        os.makedirs(self.plan.run_dir, mode=0o700)
        os.makedirs(self.plan.log_dir, exist_ok=True)
        for node in self.plan.nodes:
            self._write_secrets(node)
        self._note(self.plan.fabric.text())
        if self._prepare:
            self._prepare(self)
        self._thread = threading.Thread(target=self._loop, name="tessera-io", daemon=True)
        for node in self.plan.nodes:
            sock = ours[f"{node.name}.ctl"]
            sock.setblocking(False)
            self._channels[node.name] = Channel(node, sock, self._wake)
        self.started_at = time.monotonic()
        for command in self.plan.commands:
            self._order_start(command, theirs)
            if command.name == "hca" and self.plan.fabric.front == fabric.VFIO_USER:
                self._wait_model()  # QEMU gives up where nobody listens yet
        for sock in theirs.values():
            sock.close()
        self._thread.start()

    def _note(self, line: str) -> None:
        """For the launcher's own log."""
        with open(os.path.join(self.plan.log_dir, "launcher.log"), "a") as log:
            log.write(line + "\n")

    def _write_secrets(self, node: NodePlan) -> None:
        """A start's key, and seed of random numbers, where QEMU finds them: every user of this
        machine can read command lines.
        """
        run_dir, start = self.plan.run_dir, self._starts[node.name]
        for path, text in (
            (key_path(run_dir, node.name), planning.give_key(self.plan, node, start)),
            (seed_path(run_dir, node.name), secrets.token_hex(planning.SEED_BYTES)),
        ):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(fd, "w") as file:
                file.write(text)

    def _wait_model(self) -> None:
        if not fabric.wait_listening(os.path.join(self.plan.run_dir, "hca.sock"), CONTROL_S):
            why = _last_line(os.path.join(self.plan.log_dir, "hca.host.log"))
            raise LaunchError("the HCA model did not start" + (f": {why}" if why else ""))

    def _make_sockets(self) -> tuple[dict[str, socket.socket], dict[str, socket.socket]]:
        """Socket pairs: the launcher's ends, and those that processes will inherit."""
        ours, theirs = {}, {}
        for node in self.plan.nodes:
            ours[f"{node.name}.ctl"], theirs[f"{node.name}.ctl"] = socket.socketpair()
            for kind in ("hca", "qtest") if self.plan.fabric.front == fabric.MPQEMU else ():
                pair = socket.socketpair()
                theirs[f"{node.name}.{kind}"], theirs[f"{node.name}.{kind}_model"] = pair
        return ours, theirs

    def _start_supervisor(self, theirs: dict[str, socket.socket]) -> None:
        program = os.path.join(os.path.dirname(__file__), "supervisor.py")
        remove = [self.plan.run_dir, *self._remove] + (
            [] if self._keep_logs else [self.plan.log_dir]
        )
        self._orders, orders = socket.socketpair()
        with orders:
            self._supervisor = subprocess.Popen(
                [sys.executable, "-I", "-S", program, *remove],
                stdin=orders, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                pass_fds=[s.fileno() for s in theirs.values()], start_new_session=True,
            )  # fmt: skip

    def _order(self, along: tuple[int, ...] = (), **order: object) -> None:
        """Descriptors may go along with the order, which has their names."""
        data = (json.dumps(order) + "\n").encode()
        try:
            with self._ordering:
                sent = socket.send_fds(self._orders, [data], along) if along else 0
                self._orders.sendall(data[sent:])
        except OSError:
            raise LaunchError("the supervisor process has died") from None

    def _order_start(self, command: Command, theirs: dict[str, socket.socket]) -> None:
        fds = {name: theirs[name].fileno() for name in command.fds}
        argv = list(command.argv)
        for name, fd in fds.items():
            argv = [word.replace("{%s}" % name, str(fd)) for word in argv]
        self._order(
            op="start", name=command.name, argv=argv, fds=list(fds.values()), names=[],
            delay=command.delay, asked=command.asked,
            log=os.path.join(self.plan.log_dir, f"{command.name}.host.log"),
        )  # fmt: skip

    def run_helper(self, argv: list[str]) -> str:
        """Run a short host command that must not outlive the launcher; its output."""
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace", preexec_fn=_die_with_parent,
            pass_fds=[self._orders.fileno()],  # the supervisor waits for it too
        )  # fmt: skip
        if done.returncode:
            lines = done.stdout.strip().splitlines() or [f"status {done.returncode}"]
            raise LaunchError(f"{os.path.basename(argv[0])}: {lines[-1]}")
        return done.stdout

    def close(self, force: bool = False) -> None:
        """Power the nodes off (or kill them), and remove every trace."""
        with self._cond:
            if self._closing:
                return
            self._closing = True
        if self._thread and self._thread.is_alive():
            if not force and not self.failure:
                self._shut_down()
        supervisor = self._supervisor
        if supervisor:
            self._orders.close()
            supervisor.wait()
        self._wake()
        if self._thread and self._thread.ident:
            self._thread.join()
        if supervisor:
            supervisor.stdout.close()
        for channel in self._channels.values():
            channel.sock.close()
        self._wake_r.close()
        self._wake_w.close()
        # Only if the supervisor was killed does anything still stand.
        for path in (self.plan.run_dir, *self._remove):
            shutil.rmtree(path, ignore_errors=True)

    def _shut_down(self) -> None:
        """What has something to write ends before what takes it."""
        words = " ".join(p for n in self.plan.nodes for p in n.params)
        if f"{planning.WRITABLE}=" not in words:
            self._end_nodes(list(self._channels.values()), SHUTDOWN_S)
            return
        for role in ("processor", "memory", "storage"):
            ending = [c for c in self._channels.values() if c.node.role == role]
            self._end_nodes(ending, WRITE_BACK_S)

    def _end_nodes(self, channels: list[Channel], timeout: float) -> None:
        for channel in channels:
            if channel.open:
                channel.send(Frame(Type.SHUTDOWN))
        names = {c.node.name for c in channels}
        with self._cond:
            self._cond.wait_for(lambda: names <= set(self.ended), timeout)

    # Waiting for things.

    def fail(self, why: str) -> None:
        with self._cond:
            if self.failure is None and not self._closing:
                self.failure = why
            programs = list(self._programs.values())
            self._cond.notify_all()
        for program in programs:
            program.fail(self.failure or why)
        self._changed()

    def _can_lose(self, node: NodePlan) -> bool:
        """Can anything go on without this node?"""
        others = [n for n in self.plan.nodes
                  if n.role == node.role and n.name not in (node.name, *self.lost)]  # fmt: skip
        return bool(self.ready_at and (self._stays or (others and node.role != "storage")))

    def _node_failed(self, node: NodePlan, why: str) -> None:
        """A node is of no use any more: its programs fail, or everything does."""
        with self._cond:
            alone = not self._can_lose(node)
            if self.lost.get(node.name) == STARTING:
                self.lost[node.name] = why
            if node.name in self.lost or self._closing:
                self._cond.notify_all()
                return
            if not alone:
                self.lost[node.name] = why
            keys = [] if alone else [key for key in self._programs if key[0] == node.name]
            programs = [self._programs.pop(key) for key in keys]
            self._past.update(keys)
            self._cond.notify_all()
        if alone:
            self.fail(why)
            return
        for program in programs:
            program.fail(why)
        self._changed()

    # Members, and nodes that are started again.

    def _members_frame(self, channel: Channel, payload: bytes) -> None:
        """Who is a member, by the node that hosts the managers."""
        if channel.node.name != self._host:
            raise frames.ProtocolError("MEMBERS from a node without the managers")
        epoch, members = frames.decode_members(payload)
        with self._cond:
            # One that has just begun does not know all yet: it takes nobody out.
            before = self.members if self._members_of == channel.hello.incarnation else {}
            self.members, self._members_of = members, channel.hello.incarnation
            self.members_epoch = epoch
        for node in self.plan.nodes:
            hello = self._channels[node.name].hello
            if hello is None:
                continue
            if members.get(node.node) == hello.incarnation:
                if node.name in self.ended:
                    self._tell_lost(node)
            elif before.get(node.node) == hello.incarnation and node.name not in self.ended:
                self._fenced.add(node.name)
                self._node_failed(node, f"node {node.name}: {FENCED}")

    def _tell_lost(self, node: NodePlan) -> None:
        """This machine has ended for certain: no lease need be waited for."""
        channel, hello = self._channels[self._host], self._channels[node.name].hello
        if hello and channel.open and channel.hello and self._host not in self.lost:
            channel.send(Frame(Type.LOST, 0, 0,
                               frames.encode_lost(node.node, hello.incarnation)))  # fmt: skip

    def state(self, name: str) -> str:
        """Of a node, for people."""
        if name in self.lost:
            return self.lost[name]
        return "up" if self._channels[name].ready else "starting"

    def restart(self, name: str, if_fenced: bool = False) -> None:
        """Start a node again, as another incarnation; what ran there is lost. LaunchError if it
        does not become a member in time. With if_fenced: unless that has been done meanwhile.
        """
        node = next((n for n in self.plan.nodes if n.name == name), None)
        if node is None:
            raise LaunchError(f"there is no node {name}")
        with self._restarting:
            if if_fenced and name not in self._fenced:
                return
            if self._starts[name] == planning.START_MAX:
                raise LaunchError(f"node {name} cannot be started again: it was too often")
            self._end_node(node)
            with self._cond:
                self._starts[name] += 1
            channel = self._start_again(node)
            done = lambda: channel.ready or self.lost.get(name) != STARTING  # noqa: E731
            in_time = self._wait(done, self.boot_timeout)
            with self._cond:
                why = self.lost.get(name)
                if in_time and why == STARTING:
                    del self.lost[name]
                elif why == STARTING:
                    late = f"node {name} was not ready after {self.boot_timeout:g} s"
                    why = self.lost[name] = f"{late} ({channel.status})"
            if why != STARTING or not in_time:
                self.kill_node(name)
                raise LaunchError(why)

    def _end_node(self, node: NodePlan) -> None:
        self._node_failed(node, f"node {node.name} is started again")
        if node.name not in self.ended:
            self.kill_node(node.name)
        if not self._wait(lambda: node.name in self.ended, CONTROL_S):
            raise LaunchError(f"node {node.name} does not end")

    def _end_lost(self, name: str) -> None:
        """A machine that is of no use any more, and does not answer."""
        with self._cond:
            self._cond.wait_for(lambda: name in self.lost or self._closing, CONTROL_S)
            if name not in self.lost or name in self.ended:
                return
        self.kill_node(name)
        with self._cond:
            self._cond.wait_for(lambda: name in self.ended or self._closing, CONTROL_S)

    def _start_again(self, node: NodePlan) -> Channel:
        name = node.name
        old = next(c for c in self.plan.commands if c.name == name)
        words = self._known_members() if name == self._host else ""
        self.publisher.started_again(name)
        if self.gateway == name:
            self.gateway = ""
        self._addresses.pop(name, None)
        command = planning.again(old, self.plan.run_dir, self._starts[name], words)
        self._write_secrets(node)
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        channel, swapped = Channel(node, ours, self._wake), threading.Event()
        self._swaps.append((channel, swapped))
        self._wake()
        swapped.wait(CONTROL_S)
        with self._cond:  # not before: the old channel may still have told of a failure
            self.lost[name] = STARTING
            del self.ended[name]
            self._fenced.discard(name)
        given = {f"{name}.ctl": theirs}
        if f"{name}.hca" in command.fds:
            given[f"{name}.hca"] = self._attach(node)
        fds = tuple(given[f].fileno() for f in command.fds)
        self._order(
            fds, op="start", name=name, argv=command.argv, fds=[], names=command.fds, asked=False,
            log=os.path.join(self.plan.log_dir, f"{name}.host.log"),
        )  # fmt: skip
        for sock in given.values():
            sock.close()
        return channel

    def _attach(self, node: NodePlan) -> socket.socket:
        """A board for the new machine, at the LID of the old one; QEMU's end of it."""
        qemus, models = socket.socketpair()
        where = planning.qtest_path(self.plan.run_dir, node.name, self._starts[node.name])
        command = f"attach lid={node.lid},name={node.name},qtest={where}"
        deadline = time.monotonic() + CONTROL_S
        with models:
            while True:  # until the model has seen that the old one has left
                try:
                    self.inject(command, (models.fileno(),))
                    return qemus
                except LaunchError:
                    if time.monotonic() > deadline:
                        qemus.close()
                        raise
                    time.sleep(0.05)

    def _known_members(self) -> str:
        """For a host of the managers that is started again: the members that it had, and live."""
        with self._cond:
            epoch, members = self.members_epoch, dict(self.members)
        out = [str(epoch)]
        for node in sorted(self.plan.nodes, key=lambda n: n.node):
            hello = self._channels[node.name].hello
            if (hello and node.name not in self.lost
                    and members.get(node.node) == hello.incarnation):  # fmt: skip
                out.append(f"{node.role[0]}{node.node}:{hello.incarnation:x}:{node.lid}")
        return "cluster.again=" + ",".join(out)

    def _come_back(self, node: NodePlan) -> None:
        """It was fenced and has ended since: it joins anew, with nothing of what it had."""

        def again() -> None:
            with contextlib.suppress(LaunchError):  # ps shows it
                self.restart(node.name, if_fenced=True)

        threading.Thread(target=again, daemon=True).start()

    def _changed(self) -> None:
        if self._on_change:
            self._on_change()

    def _wait(self, done: Callable[[], bool], timeout: float) -> bool:
        with self._cond:
            ok = self._cond.wait_for(lambda: done() or self.failure, timeout)
            if self.failure:
                raise LaunchError(self.failure)
            return bool(ok)

    def wait_ready(self, everyone: bool = False) -> None:
        """Until every processor node (or every node) says that the cluster is complete."""
        wanted = [c for c in self._channels.values() if everyone or c.node.role == "processor"]
        if not self._wait(lambda: all(c.ready for c in wanted), self.boot_timeout):
            late = [c for c in self._channels.values() if not c.ready]
            what = "; ".join(f"{c.node.name}: {c.status}" for c in late)
            raise LaunchError(f"not ready after {self.boot_timeout:g} s ({what})")
        self.ready_at = time.monotonic()

    def wait_address(self, timeout: float) -> None:
        """Until the gateway has told of an address, if a node has a card."""
        if any(n.net != "none" for n in self.plan.nodes):
            self._wait(lambda: bool(self.addresses()), timeout)

    def addresses(self) -> list[str]:
        """By which the outside knows the vNode."""
        return self._addresses.get(self.gateway, [])

    def network(self) -> dict:
        """What people are told of it: addresses, the node that has them, and published ports."""
        there = self.gateway and self.gateway not in self.lost
        nets = {n.net.partition(":")[0] for n in self.plan.nodes} - {"none"}
        return {"net": nets.pop() if nets else "none", "gateway": self.gateway if there else "",
                "addresses": self.addresses() if there else [],
                "published": self.publisher.state()}  # fmt: skip

    # Work.

    def start_program(self, run: frames.Run, sink: Callable[[int, bytes], None],
                      node: str = "p0") -> Program:  # fmt: skip
        program = Program(self._channels[node], 0, sink)
        self.launch(node, program, encode_run(run))
        program.open()
        return program

    def launch(self, node: str, program: Program | Relay, payload: bytes) -> None:
        """Send RUN. From here on @program has a number, gets its frames, and hears when the node
        is lost.
        """
        channel = self._channels[node]
        with self._launching:  # a node wants the numbers to rise
            program.id = self.take_id()
            with self._cond:
                why = self.failure or self.lost.get(node)
                if why:
                    raise LaunchError(why)
                self._programs[node, program.id] = program
            channel.send(Frame(Type.RUN, program.id, 0, payload))

    def channel(self, node: str) -> Channel:
        return self._channels[node]

    def _ask(self, node: str, answer: Type) -> int:
        """The number of a request to @node. Its answer may come after we have given up."""
        number = self.take_id()
        with self._cond:
            self._asked[number] = node, answer
        return number

    def take_id(self) -> int:
        with self._cond:
            self._next_prog += 1
            return self._next_prog - 1

    def stats(self, only: tuple[str, ...] = ()) -> dict[str, dict]:
        """The counters of every node (or of some), by name, as counters.checked() lets them
        through; nodes that do not answer, or answer what no kernel does, are None.
        """
        answers = self.sample(only)
        return {name: answer and answer[1] for name, answer in answers.items()}

    def sample(self, only: tuple[str, ...] = (),
               timeout: float = STATS_S) -> dict[str, tuple[float, dict] | None]:  # fmt: skip
        """As stats(), each with the time.monotonic() at which it came."""
        with self._asking_stats:
            with self._cond:
                self._stats.clear()
            wanted = only or tuple(self._channels)
            names = [n for n in wanted
                     if self._channels[n].open and self._channels[n].hello and n not in self.lost]
            for name in names:
                self._channels[name].send(Frame(Type.STATS_REQ))
            self._wait(lambda: set(names) <= set(self._stats) | set(self.lost), timeout)
            with self._cond:
                answers = dict(self._stats)
        out: dict[str, tuple[float, dict] | None] = {}
        for name in wanted:
            at, text = answers.get(name, (0.0, ""))
            said = counters.checked(text)
            out[name] = None if said is None else (at, said)
        return out

    def incarnation(self, name: str) -> int:
        """Of a node's present start; 0: it has not said so yet."""
        hello = self._channels[name].hello
        return hello.incarnation if hello else 0

    def debug(self, node: str, command: str, timeout: float = 60.0) -> str:
        """A test command to a node; its answer. OSError with the node's errno if it refuses."""
        number = self._ask(node, Type.DEBUG_REPLY)
        self._channels[node].send(Frame(Type.DEBUG, number, 0, command.encode()))
        if not self._wait(lambda: number in self._replies, timeout):
            raise LaunchError(f"{node}: no answer to {command!r} in {timeout:g} s")
        err, text = self._replies.pop(number)
        if err:
            raise OSError(err, f"{node}: {command}: {text or os.strerror(err)}")
        return text

    def place(self, timeout: float = CONTROL_S) -> str:
        """The processor that GPM chooses for a new program."""
        manager = next(n for n in self.plan.nodes if n.name == self._host)
        if self._host in self.lost:
            raise LaunchError(self.lost[self._host])
        number = self._ask(self._host, Type.PLACED)
        self._channels[manager.name].send(
            Frame(Type.PLACE, number, 0, frames.encode_place(ROOT_VNODE))
        )
        done = lambda: number in self._replies or self._host in self.lost  # noqa: E731
        if not self._wait(done, timeout) or number not in self._replies:
            raise LaunchError(f"{manager.name}: no placement in {timeout:g} s")
        err, node = self._replies.pop(number)
        if err:
            raise LaunchError(f"{manager.name}: no placement: {os.strerror(err)}")
        name = next(
            (n.name for n in self.plan.nodes if n.node == node and n.role == "processor"), None
        )
        if name is None:
            raise LaunchError(
                f"{manager.name} placed a program on node {node}, which is no processor"
            )
        return name

    def inject(self, command: str, fds: tuple[int, ...] = ()) -> dict:
        """A command to the HCA model; its reply."""
        path = os.path.join(self.plan.run_dir, "hca.sock")
        try:
            with socket.socket(socket.AF_UNIX) as sock:
                sock.settimeout(CONTROL_S)
                self._connect_model(sock, path)
                data = command.encode() + b"\n"
                sent = socket.send_fds(sock, [data], fds) if fds else 0
                sock.sendall(data[sent:])
                with sock.makefile("rb") as replies:
                    reply = json.loads(replies.readline(1 << 20))
        except (OSError, ValueError) as err:
            raise LaunchError(f"HCA model: {command!r}: {err}") from None
        if isinstance(reply, dict) and (reply.get("error") or reply.get("ok") is False):
            raise LaunchError(f"HCA model: {command!r}: {reply.get('error', 'refused')}")
        return reply

    def _connect_model(self, sock: socket.socket, path: str) -> None:
        """The model listens soon after it starts: wait for that."""
        deadline = time.monotonic() + CONTROL_S
        while True:
            try:
                sock.connect(path)
                return
            except (FileNotFoundError, ConnectionRefusedError):
                if time.monotonic() > deadline or self.failure:
                    raise
            time.sleep(0.02)

    def kill_node(self, name: str, signo: int = signal.SIGKILL) -> None:
        self._order(op="kill", name=name, signal=int(signo))

    # The I/O thread.

    def _wake(self) -> None:
        try:
            self._wake_w.send(b"x", socket.MSG_DONTWAIT)
        except OSError:
            pass  # full: it will wake anyway

    def _loop(self) -> None:
        sel = selectors.DefaultSelector()
        sel.register(self._wake_r, selectors.EVENT_READ, None)
        sel.register(self._supervisor.stdout, selectors.EVENT_READ, "supervisor")
        for channel in self._channels.values():
            sel.register(channel.sock, selectors.EVENT_READ, channel)
        try:
            while not (self._closing and self._supervisor.poll() is not None):
                self._arm(sel)
                for key, events in sel.select(1.0):
                    self._serve(sel, key, events)
                self._swap(sel)
        except Exception as err:  # a bug here must not leave the waiters hanging
            self.fail(f"launcher: {type(err).__name__}: {err}")
        finally:
            sel.close()

    def _swap(self, sel: selectors.BaseSelector) -> None:
        """Channels of nodes that are started again take the places of the old ones."""
        while self._swaps:
            channel, done = self._swaps.popleft()
            old = self._channels[channel.node.name]
            if old.open:
                sel.unregister(old.sock)
            old.sock.close()
            self._channels[channel.node.name] = channel
            sel.register(channel.sock, selectors.EVENT_READ, channel)
            done.set()

    def _arm(self, sel: selectors.BaseSelector) -> None:
        for channel in self._channels.values():
            if channel.open:
                out = selectors.EVENT_WRITE if channel.wants_write() else 0
                sel.modify(channel.sock, selectors.EVENT_READ | out, channel)

    def _serve(self, sel: selectors.BaseSelector, key, events: int) -> None:
        if key.data is None:
            self._wake_r.recv(4096)
        elif key.data == "supervisor":
            self._read_supervisor(sel)
        else:
            if events & selectors.EVENT_WRITE:
                key.data.flush()
            if events & selectors.EVENT_READ:
                self._read_channel(sel, key.data)

    def _read_supervisor(self, sel: selectors.BaseSelector) -> None:
        data = os.read(self._supervisor.stdout.fileno(), 65536)
        if not data:
            sel.unregister(self._supervisor.stdout)
            self.fail("the supervisor process has died")
            return
        *lines, self._super_buf = (self._super_buf + data).split(b"\n")
        for line in lines:
            self._supervisor_event(json.loads(line))

    def _supervisor_event(self, event: dict) -> None:
        name = event["name"]
        if event["event"] == "started":
            self.pids[name] = event["pid"]
            return
        node = next((n for n in self.plan.nodes if n.name == name), None)
        why = "" if self._closing else self._why_ended(name, event["status"])
        if why and node:
            self._node_failed(node, why)
            self._tell_lost(node)
        # Last: restart() begins a new machine as soon as it sees that the old one has ended.
        with self._cond:
            self.ended[name] = event["status"]
            self._cond.notify_all()
        if why and not node:
            self.fail(why)
        elif why and self._stays and name in self._fenced:
            self._come_back(node)

    def _why_ended(self, name: str, status: int) -> str:
        code = os.waitstatus_to_exitcode(status)
        how = f"was killed by signal {-code}" if code < 0 else f"ended with status {code}"
        what = "the HCA model" if name == "hca" else f"node {name}"
        log = self._log(name)
        host = os.path.join(self.plan.log_dir, f"{name}.host.log")
        reason = _panic_line(log) or _boot_error(log) or without_network(_last_line(host))
        return f"{what} {how}" + (f": {reason}" if reason else "")

    def _with_reason(self, node: NodePlan, said: str) -> str:
        """A node that cannot start says that; its log, just before, what it could not bear."""
        log = self._log(node.name)
        before = [line for line in _error_lines(log) if not line.endswith(said)]
        reason = f" ({before[-1]})" if before and node.name not in self._ready_nodes() else ""
        return f"node {node.name}: {said}{reason}"

    def _log(self, name: str) -> str:
        start = self._starts.get(name, 1)
        number = f".{start}" if start > 1 else ""
        return os.path.join(self.plan.log_dir, f"{name}{number}.log")

    def _ready_nodes(self) -> set[str]:
        return {name for name, channel in self._channels.items() if channel.ready}

    def _read_channel(self, sel: selectors.BaseSelector, channel: Channel) -> None:
        try:
            data = channel.sock.recv(1 << 18)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        name = channel.node.name
        try:
            for frame in channel.decoder.feed(data):
                self._frame(channel, frame)
            if not data and not channel.decoder.at_boundary():
                raise frames.ProtocolError("the channel ended inside a frame")
        except frames.ProtocolError as err:
            data = b""
            self._give_up(channel.node, f"node {name} broke the control protocol: {err}")
        if not data:
            # The machine has gone, or will: the supervisor tells why.
            channel.open = False
            sel.unregister(channel.sock)
            channel.sock.shutdown(socket.SHUT_RDWR)

    def _frame(self, channel: Channel, frame: Frame) -> None:
        if channel.hello is None:
            if frame.type not in (Type.HELLO, Type.ERROR):
                raise frames.ProtocolError(f"{frame.type.name} before HELLO")
        elif frame.type is Type.HELLO:
            raise frames.ProtocolError("a second HELLO")
        if frame.type in (Type.STATS, Type.DEBUG_REPLY, Type.PLACED):
            self._answer(channel, frame)
        elif frame.prog:
            self._program_frame(channel, frame)
        else:
            self._node_frame(channel, frame)
        with self._cond:
            self._cond.notify_all()

    def _node_frame(self, channel: Channel, frame: Frame) -> None:
        node = channel.node
        if frame.type is Type.HELLO:
            hello = frames.decode_hello(frame.payload)
            if frames.ROLES[hello.role] != node.role or hello.node != node.node:
                raise frames.ProtocolError(
                    f"HELLO of a {frames.ROLES[hello.role]} node {hello.node}"
                )
            channel.hello = hello
            channel.status = "booting"
        elif frame.type is Type.READY:
            channel.ready = frames.decode_ready(frame.payload)
        elif frame.type is Type.STATUS:
            channel.status = frames.decode_line(frame.payload)
        elif frame.type is Type.MEMBERS:
            self._members_frame(channel, frame.payload)
        elif frame.type is Type.GATEWAY:
            if node.role != "processor":
                raise frames.ProtocolError("GATEWAY from a node that is no processor")
            self.gateway = node.name
            self.publisher.moved(node.name)
        elif frame.type is Type.ADDRESSES:
            if node.role != "processor":
                raise frames.ProtocolError("ADDRESSES from a node that is no processor")
            # They may come before it says that it is the gateway.
            self._addresses[node.name] = frames.decode_addresses(frame.payload)
        elif frame.type is Type.ERROR:
            said = frames.decode_line(frame.payload)
            if said in (FENCED, CUT_OFF):
                self._fenced.add(node.name)
            self._give_up(node, self._with_reason(node, said))

    def _give_up(self, node: NodePlan, why: str) -> None:
        self._node_failed(node, why)
        if node.name in self.lost:
            self.kill_node(node.name)  # it may go on with its programs otherwise

    def _program_frame(self, channel: Channel, frame: Frame) -> None:
        key = (channel.node.name, frame.prog)
        program = self._programs.get(key)
        if program is None:
            late = "after its EXIT" if key in self._past else "that was never started"
            raise frames.ProtocolError(f"{frame.type.name} for program {frame.prog} {late}")
        if frame.type is Type.ERROR:
            line = self._named(frames.decode_line(frame.payload))
            frame = dataclasses.replace(frame, payload=line.encode()[: frames.MAX_LINE])
        program.handle(frame)
        if program.over:
            with self._cond:
                del self._programs[key]
                self._past.add(key)

    def _named(self, line: str) -> str:
        """A node's line names nodes by their ids; the user knows them as m0, p1."""
        names = {str(node.node): node.name for node in self.plan.nodes}
        return re.sub(r"\bnode (\d+)\b", lambda m: names.get(m[1], m[0]), line)

    def _answer(self, channel: Channel, frame: Frame) -> None:
        with self._cond:
            if frame.type is Type.STATS:
                text = frame.payload.decode("utf-8", "replace")
                self._stats[channel.node.name] = time.monotonic(), text
                return
            if self._asked.get(frame.prog) != (channel.node.name, frame.type):
                raise frames.ProtocolError(f"{frame.type.name} {frame.prog}, which was not asked")
            del self._asked[frame.prog]
            if frame.type is Type.PLACED:
                self._replies[frame.prog] = frames.decode_placed(frame.payload)
            else:
                self._replies[frame.prog] = frames.decode_errno(frame.payload)


def _die_with_parent() -> None:
    import ctypes

    ctypes.CDLL(None).prctl(1, int(signal.SIGKILL), 0, 0, 0)


def _last_line(path: str) -> str:
    try:
        with open(path, errors="replace") as f:
            lines = [line.strip() for line in f if line.strip()]
    except OSError:
        return ""
    return one_line(lines[-1]) if lines else ""


def without_network(said: str) -> str:
    """With a way on, where that is of a QEMU that was built without its user network."""
    hint = "; --net none runs without a network"
    return said + (hint if "-netdev user" in said and "backend" in said else "")


def _panic_line(path: str) -> str:
    try:
        with open(path, errors="replace") as f:
            for line in f:
                if "panic" in line.lower():
                    return one_line(line)
    except OSError:
        pass
    return ""


def _error_lines(path: str) -> list[str]:
    """What a node's log has at level error, without time and node."""
    try:
        with open(path, errors="replace") as f:
            return [one_line(ln.partition(" error: ")[2]) for ln in f if " error: " in ln]
    except OSError:
        return []


def _boot_error(path: str) -> str:
    """Why the boot ended, if it did: what was logged before the line that says so."""
    lines = _error_lines(path)
    return lines[-2] if len(lines) > 1 and lines[-1].endswith("the boot ends here") else ""


def run_dir_name(base: str) -> str:
    return os.path.join(base, f"{RUN_DIR_PREFIX}{os.getpid()}-{random.getrandbits(32):08x}")
