# SPDX-License-Identifier: MIT
"""`./tessera run -t`: the user's terminal becomes the program's.

While the program runs, the terminal is raw: every key goes to the program's own line discipline,
which echoes, edits and raises signals. What the terminal was before comes back however the
launcher ends, except by SIGKILL.
"""

from __future__ import annotations

import os
import signal
import termios
import tty

from .channel import Program
from .errors import UsageError

DEFAULT_SIZE = (24, 80)


def window_size(fd: int) -> tuple[int, int, int, int]:
    """Rows, columns, and pixels if the terminal knows them."""
    try:
        rows, cols = termios.tcgetwinsize(fd)
    except (AttributeError, OSError):
        size = os.get_terminal_size(fd)
        rows, cols = size.lines, size.columns
    return rows or DEFAULT_SIZE[0], cols or DEFAULT_SIZE[1], 0, 0


class Terminal:
    """The launcher's terminal, raw from __enter__ to __exit__."""

    def __init__(self, fd: int = 0):
        if not os.isatty(fd):
            raise UsageError("-t: standard input is not a terminal")
        self.fd = fd
        self.program: Program | None = None
        self._before = termios.tcgetattr(fd)

    @property
    def size(self) -> tuple[int, int, int, int]:
        return window_size(self.fd)

    def attach(self, program: Program) -> None:
        """From here on the program hears of new sizes; it began with the one of its request."""
        self.program = program
        signal.signal(signal.SIGWINCH, self._resized)
        self._resized()

    def _resized(self, *_: object) -> None:
        if self.program and not self.program.over:
            self.program.resize_later(*self.size)

    def __enter__(self) -> Terminal:
        tty.setraw(self.fd, termios.TCSADRAIN)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGWINCH, signal.SIG_DFL)
        try:
            termios.tcsetattr(self.fd, termios.TCSADRAIN, self._before)
        except termios.error:
            pass  # it is gone
