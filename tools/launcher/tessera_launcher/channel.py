# SPDX-License-Identifier: MIT
"""The control channel of one node, and one program's part of it.

Threads: whoever holds the sockets (Cluster's I/O thread, or that of `exec`) calls handle(), fail(),
wants_write() and flush(); callers block in their own threads, and reach the channel by
Channel.send(), which only appends and wakes the I/O thread. Failure: the first reason is kept;
every waiter then raises it as a LaunchError of one line.
"""

from __future__ import annotations

import collections
import socket
import threading
import time
from collections.abc import Callable

from . import frames
from .errors import LaunchError, ProgramRefused, one_line
from .frames import Frame, Type
from .plan import NodePlan

STDIN_CHUNK = 32768
WINDOW = 256 << 10  # what the launcher grants on stdout and stderr


def encode_run(run: frames.Run) -> bytes:
    payload = frames.encode_run(run)
    if len(payload) > frames.MAX_RUN:
        raise LaunchError("arguments and environment are longer than 2 MiB")
    return payload


def _refusal(payload: bytes) -> ProgramRefused:
    err, text = frames.decode_errno(payload)
    return ProgramRefused(err, one_line(text))


class Program:
    """One run on a processor node: its input, its events; output goes to the @sink."""

    def __init__(self, channel: Channel, prog: int, sink: Callable[[int, bytes], None]):
        self.id = prog
        self._channel = channel
        self._sink = sink
        self._cond = threading.Condition()
        self._credit = 0
        self._stdin_open = True
        self._granted = {1: 0, 2: 0}
        self._dropped: set[int] = set()
        self.started: frames.Started | None = None
        self.exit: frames.Exit | None = None
        self.refused: ProgramRefused | None = None
        self.failure: str | None = None

    # For the caller.

    def open(self) -> None:
        """RUN has been sent: take output."""
        for stream in (1, 2):
            self.grant(stream, WINDOW)

    def write_stdin(self, data: bytes) -> bool:
        """Send input as credit allows; False once the program does not read any more."""
        view = memoryview(data)
        while view:
            room = self.wait_credit(len(view))
            if not room:
                return False
            self._channel.send(Frame(Type.DATA, self.id, 0, bytes(view[:room])))
            view = view[room:]
        return True

    def wait_credit(self, most: int) -> int:
        """Take up to @most bytes of input credit, waiting for some; 0 when input has ended."""
        with self._cond:
            self._cond.wait_for(lambda: self._credit > 0 or not self._stdin_open or self.over)
            if not self._stdin_open or self.over:
                return 0
            room = min(most, self._credit, frames.MAX_PAYLOAD)
            self._credit -= room
            return room

    def return_credit(self, count: int) -> None:
        with self._cond:
            self._credit += count

    def close_stdin(self) -> None:
        with self._cond:
            was_open, self._stdin_open = self._stdin_open, False
            self._cond.notify_all()
        if was_open and not self.over:
            self._channel.send(Frame(Type.EOF, self.id, 0))

    def grant(self, stream: int, count: int) -> None:
        """The caller has passed on @count bytes of output."""
        if not self.over and stream not in self._dropped:
            with self._cond:
                self._granted[stream] += count
            self._channel.send(Frame(Type.CREDIT, self.id, stream, frames.encode_credit(count)))

    def drop_output(self, stream: int) -> None:
        """Nobody reads this stream any more: the program gets SIGPIPE."""
        if stream not in self._dropped:
            self._dropped.add(stream)
            self._channel.send(Frame(Type.EOF, self.id, stream))

    def signal(self, signo: int) -> None:
        self._channel.send(Frame(Type.SIGNAL, self.id, 0, frames.encode_signal(signo)))

    def signal_later(self, signo: int) -> None:
        """As signal(), from a signal handler: takes no lock."""
        self._channel.send_later(Frame(Type.SIGNAL, self.id, 0, frames.encode_signal(signo)))

    def resize_later(self, rows: int, cols: int, xpixel: int = 0, ypixel: int = 0) -> None:
        """The terminal has another size. From a signal handler: takes no lock."""
        payload = frames.encode_winsize(rows, cols, xpixel, ypixel)
        self._channel.send_later(Frame(Type.WINSIZE, self.id, 0, payload))

    @property
    def over(self) -> bool:
        return bool(self.exit or self.refused or self.failure)

    def wait(self, deadline: float | None = None, what: str = "end") -> bool:
        """Wait until the program has ended ("start": or has started); False at the deadline."""
        done = (lambda: self.over) if what == "end" else (lambda: self.over or self.started)
        with self._cond:
            left = None if deadline is None else deadline - time.monotonic()
            if not self._cond.wait_for(done, left):
                return False
        if self.refused:
            raise self.refused
        if self.failure:
            raise LaunchError(self.failure)
        return True

    # For the I/O thread.

    def handle(self, frame: Frame) -> None:
        if frame.type is Type.DATA:
            with self._cond:
                self._granted[frame.stream] -= len(frame.payload)
                if self._granted[frame.stream] < 0:
                    raise frames.ProtocolError(f"DATA beyond the credit of stream {frame.stream}")
            if frame.stream not in self._dropped:
                self._sink(frame.stream, frame.payload)
            return
        with self._cond:
            self._handle_event(frame)
            self._cond.notify_all()

    def _handle_event(self, frame: Frame) -> None:
        if frame.type is Type.CREDIT:
            self._credit += frames.decode_credit(frame.payload)
            if self._credit > frames.MAX_CREDIT:
                raise frames.ProtocolError("more than 16 MiB of credit")
        elif frame.type is Type.EOF:
            if frame.stream == 0:
                self._stdin_open = False
        elif frame.type is Type.STARTED:
            self.started = frames.decode_started(frame.payload)
        elif frame.type is Type.EXIT:
            self.exit = frames.decode_exit(frame.payload)
        elif frame.type is Type.REFUSED:
            self.refused = _refusal(frame.payload)
        elif frame.type is Type.ERROR:
            self.failure = frames.decode_line(frame.payload)

    def fail(self, why: str) -> None:
        with self._cond:
            if not self.exit and not self.refused:
                self.failure = self.failure or why
            self._cond.notify_all()


class Relay:
    """What else takes a program's frames: whoever holds its streams is somewhere else (keeper.py).
    """

    id: int
    over: bool

    def handle(self, frame: Frame) -> None:
        raise NotImplementedError

    def fail(self, why: str) -> None:
        raise NotImplementedError


class Channel:
    """The control channel of one node."""

    def __init__(self, node: NodePlan, sock: socket.socket, wake: Callable[[], None]):
        self.node = node
        self.sock = sock
        self.decoder = frames.Decoder(frames.End.NODE)
        self.hello: frames.Hello | None = None
        self.ready: frames.Ready | None = None
        self.status = "no sign of life yet"
        self.open = True
        self._wake = wake
        self._lock = threading.Lock()
        self._out = bytearray()
        self._later: collections.deque[bytes] = collections.deque()

    def send(self, frame: Frame) -> None:
        data = frames.encode(frame)
        with self._lock:
            self._out += data
        self._wake()

    def send_later(self, frame: Frame) -> None:
        """From a signal handler, which may have interrupted a holder of the lock."""
        self._later.append(frames.encode(frame))
        self._wake()

    def wants_write(self) -> bool:
        with self._lock:
            while self._later:
                self._out += self._later.popleft()
            return bool(self._out)

    def flush(self) -> None:
        """Write what the socket takes. I/O thread."""
        with self._lock:
            try:
                sent = self.sock.send(self._out) if self._out else 0
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                self._out.clear()  # the reading side will see the end and report it
                return
            del self._out[:sent]
