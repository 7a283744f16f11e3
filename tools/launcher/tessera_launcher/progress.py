# SPDX-License-Identifier: MIT
"""A line on the user's terminal for what takes longer than two seconds; it goes when that ends.

Nothing is written when stderr is no terminal.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator

from .errors import one_line

AFTER_S = 2.0
EVERY_S = 1.0
_CLEAR = "\r\x1b[K"


@contextlib.contextmanager
def shown(what: str) -> Iterator[None]:
    """While the body runs: "tessera: WHAT ... 3 s"."""
    try:
        terminal = os.isatty(2)
    except OSError:
        terminal = False
    if not terminal:
        yield
        return
    ended = threading.Event()
    thread = threading.Thread(target=_show, args=(one_line(what), ended), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _show(what: str, ended: threading.Event) -> None:
    begun = time.monotonic()
    wait, wrote = AFTER_S, False
    while not ended.wait(wait):
        _put(f"{_CLEAR}tessera: {what} ... {time.monotonic() - begun:.0f} s")
        wait, wrote = EVERY_S, True
    if wrote:
        _put(_CLEAR)


def _put(text: str) -> None:
    with contextlib.suppress(OSError):
        os.write(2, text.encode(errors="replace"))
