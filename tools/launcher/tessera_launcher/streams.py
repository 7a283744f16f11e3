# SPDX-License-Identifier: MIT
"""Joins a program's streams to the launcher's own descriptors, byte for byte.

One thread per direction, with blocking calls: the descriptors are shared with the user's other
processes, so they are never made non-blocking. Output is granted again once it has been written;
input is read only when the program has asked for some.
"""

from __future__ import annotations

import collections
import os
import queue
import threading
from collections.abc import Callable

from .channel import STDIN_CHUNK, Program


class OutputPump:
    """Writes one of the program's streams to a descriptor."""

    def __init__(self, stream: int, fd: int):
        self.stream = stream
        self.fd = fd
        self.program: Program | None = None
        self._queue: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self, program: Program) -> None:
        self.program = program
        self._thread.start()

    def put(self, data: bytes) -> None:
        self._queue.put(data)

    def finish(self) -> None:
        """Wait until everything has been written."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        broken = False
        while (data := self._queue.get()) is not None:
            if not broken and not self._write(data):
                broken = True
                self.program.drop_output(self.stream)
            if not broken:
                self.program.grant(self.stream, len(data))
        if not broken:
            self._end()

    def _write(self, data: bytes) -> bool:
        return _write_all(self.fd, data)

    def _end(self) -> None:
        """Nothing more comes."""


class LinePump(OutputPump):
    """Shares its descriptor with other programs: whole lines, each behind a label."""

    LONGEST = 65536  # a longer line is cut: it must not fill our memory
    _locks: collections.defaultdict[int, threading.Lock] = collections.defaultdict(threading.Lock)

    def __init__(self, stream: int, fd: int, label: bytes):
        super().__init__(stream, fd)
        self._label = label
        self._rest = b""

    def _write(self, data: bytes) -> bool:
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > self.LONGEST:
            lines, self._rest = [*lines, self._rest], b""
        return self._write_lines(lines)

    def _end(self) -> None:
        if self._rest:
            self._write_lines([self._rest])

    def _write_lines(self, lines: list[bytes]) -> bool:
        with self._locks[self.fd]:
            return _write_all(self.fd, b"".join(self._label + line + b"\n" for line in lines))


def _write_all(fd: int, data: bytes) -> bool:
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except OSError:
            return False  # nobody reads, or the disk is full: as the program would see it
    return True


class InputPump:
    """Reads a descriptor for the program's stdin."""

    def __init__(self, fd: int):
        self.fd = fd

    def start(self, program: Program) -> None:
        threading.Thread(target=self._run, args=(program,), daemon=True).start()

    def _run(self, program: Program) -> None:
        while room := program.wait_credit(STDIN_CHUNK):
            try:
                data = os.read(self.fd, room)
            except OSError:
                data = b""  # closed, or a directory: there is nothing to read
            program.return_credit(room)
            if not data:
                program.close_stdin()
                return
            if not program.write_stdin(data):
                return


class Capture:
    """Collects a program's output in memory."""

    def __init__(self) -> None:
        self.data = {1: bytearray(), 2: bytearray()}
        self.program: Program | None = None
        self._early = {1: 0, 2: 0}
        self._lock = threading.Lock()

    def attach(self, program: Program) -> None:
        with self._lock:
            self.program = program
            early = {s: n for s, n in self._early.items() if n}
        for stream, count in early.items():
            program.grant(stream, count)

    def sink(self, stream: int, data: bytes) -> None:
        self.data[stream] += data
        with self._lock:
            if self.program is None:
                self._early[stream] += len(data)
                return
        self.program.grant(stream, len(data))


def feed(program: Program, source: bytes | Callable[[], bytes]) -> None:
    """Give @source (bytes, or a callable that returns pieces and then b"") as stdin, in a thread.
    """

    def run() -> None:
        if isinstance(source, bytes):
            program.write_stdin(source)
        else:
            while data := source():
                if not program.write_stdin(data):
                    return
        program.close_stdin()

    threading.Thread(target=run, daemon=True).start()
