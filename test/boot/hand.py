# SPDX-License-Identifier: MIT
"""A hand inside a cluster: test/user/hand.c, told command by command what to do."""

from __future__ import annotations

import struct
import threading
import time

from boot import Running, frames, run

LIMIT_S = 300.0
MAGIC = 0x7EC5AB1E
UNIT = 16


def pattern(offset: int, length: int, tag: int) -> bytes:
    """The bytes that a write has: each unit names its tag and its place."""
    words = []
    for at in range(offset, offset + length, UNIT):
        words += (MAGIC | tag << 32, at)
    return struct.pack(f"<{len(words)}Q", *words)


class Hand:
    """One such program; one thread at a time uses it."""

    def __init__(self, running: Running, where: str, node: str = "p0", program: str = "/bin/hand"):
        self._cond = threading.Condition()
        self._out = bytearray()
        self._early = 0
        self._program = None
        request = frames.Run(program, [program, where], run.environment([]), "/", 0, 0)
        self._program = running.cluster.start_program(request, self._sink, node)
        with self._cond:
            early, self._early = self._early, 0
        if early:
            self._program.grant(1, early)

    def _sink(self, stream: int, data: bytes) -> None:
        with self._cond:
            self._out += data
            self._cond.notify_all()
            if self._program is None:
                self._early += len(data)
                return
        self._program.grant(stream, len(data))

    def ask(self, command: str) -> None:
        assert self._program.write_stdin(command.encode() + b"\n"), f"{command}: {self._out!r}"

    def answer(self, limit: float = LIMIT_S) -> str:
        end = time.monotonic() + limit
        with self._cond:
            while b"\n" not in self._out:
                assert not self._program.over, f"the hand has ended: {bytes(self._out)!r}"
                assert self._cond.wait(min(1.0, end - time.monotonic())) or (
                    time.monotonic() < end), f"no answer within {limit:g} s"  # fmt: skip
            line, _, rest = bytes(self._out).partition(b"\n")
            self._out[:] = rest
        return line.decode()

    def do(self, command: str, limit: float = LIMIT_S) -> str:
        self.ask(command)
        return self.answer(limit)

    def must(self, *commands: str) -> None:
        for command in commands:
            said = self.do(command)
            assert said == "ok", f"{command}: {said}"

    def end(self) -> int:
        self._program.close_stdin()
        assert self._program.wait(time.monotonic() + LIMIT_S)
        return self._program.exit.status
