# SPDX-License-Identifier: MIT
"""`run --strace`: the system calls that the processors' kernels log, on stderr or in a file.

A thread follows the kernels' logs while the program runs; close() reads what is left, once the
machines have ended, and tells which calls were refused because the system does not have them.
Trust: the kernel escapes what programs pass; control characters of a broken one go anyway.
"""

from __future__ import annotations

import collections
import os
import re
import sys
import threading
from collections.abc import Iterator

from .errors import LaunchError, one_line
from .options import warn

MARK = b" info: strace: "
POLL_S = 0.1
LONGEST = 4096
REFUSED = ("ENOSYS", "EOPNOTSUPP")  # what these say: not that a file is missing, but the call
_RESULT = re.compile(r"\d+ (\w+)\(.*\) = -1 (\w+) <\d+ us>")


class Follower:
    """Copies the traced calls of @logs (by node) to stderr, or to the file @target."""

    def __init__(self, logs: dict[str, str], target: str | None):
        self._logs = logs
        self._out = sys.stderr
        if target is not None:
            try:
                self._out = open(target, "w")
            except OSError as err:
                raise LaunchError(f"--strace={target}: {err.strerror}") from None
        self._target = target
        self._at = dict.fromkeys(logs, 0)
        self._rest = dict.fromkeys(logs, b"")
        self._refused: collections.Counter[tuple[str, str]] = collections.Counter()
        self._broken = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """The machines have ended: the rest, and the summary."""
        self._ended.set()
        self._thread.join()
        self._look()
        if self._target is not None:
            self._out.close()
        warn(self.summary())

    def summary(self) -> str:
        if not self._refused:
            return "strace: no call was refused as missing"
        calls = (f"{name} {count}x ({error})"
                 for (name, error), count in sorted(self._refused.items()))  # fmt: skip
        return "strace: calls that are missing here: " + ", ".join(calls)

    def _follow(self) -> None:
        while not self._ended.wait(POLL_S):
            self._look()

    def _look(self) -> None:
        for node, path in self._logs.items():
            label = f"{node} " if len(self._logs) > 1 else ""
            for line in self._new_lines(node, path):
                found = _RESULT.match(line)
                if found and found[2] in REFUSED:
                    self._refused[found[1], found[2]] += 1
                self._write(f"{label}{line}\n")

    def _new_lines(self, node: str, path: str) -> Iterator[str]:
        try:
            with open(path, "rb") as f:
                f.seek(self._at[node])
                data = f.read()
        except OSError:
            return  # not there yet
        self._at[node] += len(data)
        *lines, rest = (self._rest[node] + data).split(b"\n")
        self._rest[node] = rest[-LONGEST:]
        for line in lines:
            _, mark, call = line.partition(MARK)
            if mark:
                yield one_line(call.decode(errors="replace"))

    def _write(self, text: str) -> None:
        if self._broken:
            return
        try:
            self._out.write(text)
            self._out.flush()
        except (OSError, ValueError):
            self._broken = True  # nobody reads it any more: the program goes on


def follow(plan, target: str | None) -> Follower:
    logs = {n.name: os.path.join(plan.log_dir, f"{n.name}.log")
            for n in plan.nodes if n.role == "processor"}  # fmt: skip
    return Follower(logs, target)
