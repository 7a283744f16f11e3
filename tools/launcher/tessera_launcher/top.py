# SPDX-License-Identifier: MIT
"""`./tessera top`: what the nodes of a running cluster do now.

Each frame is the difference of two looks (sampler.py, by the keeper): rates and latencies are of
the time between them. Live, it draws on the terminal's alternate screen and waits for a key or
the next look; --once writes one frame as plain text.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from . import counters, registry
from .counters import Buckets
from .errors import LaunchError

MAX_REPLY = 64 << 20
FRAME_BYTES = 4096
REPLY_S = 15.0
TITLES = ("NODE", "ROLE", "CPU", "HIT", "FETCH/s", "BYTES/s", "P50", "P99", "FREE", "RUNQ", "CALLS")
# By role: what is fetched or served, and the histogram of how long that takes.
FETCHES = {
    "processor": ("excache.fetches", "excache.file_fetches"),
    "memory": ("memory.fetch", "page_cache.fetch"),
    "storage": ("storage.reads",),
}
LATENCY = {
    "processor": "rpc.latency_ns.demand",
    "memory": "rpc.handler_ns",
    "storage": "rpc.handler_ns",
}
SENT = ("rpc.bytes", "rpc.bulk_bytes")


@dataclass(frozen=True)
class Row:
    """One node; None where nothing can be told."""

    name: str
    role: str
    gone: str | None = None  # why
    cpu: float | None = None  # per cent of all its CPUs
    hit: float | None = None  # per cent of page faults that fetched nothing
    fetches: float | None = None  # a second
    sent: float | None = None  # bytes a second
    p50: int | None = None  # ns
    p99: int | None = None
    free: int | None = None  # bytes
    queued: int | None = None
    calls: int | None = None

    def cells(self) -> tuple[str, ...]:
        return (self.name, self.role, _percent(self.cpu), _percent(self.hit), _rate(self.fetches),
                _size(self.sent), _time(self.p50), _time(self.p99), _size(self.free),
                _count(self.queued), _count(self.calls))  # fmt: skip


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}%"


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _count(value: int | None) -> str:
    return "-" if value is None else str(value)


def _size(value: float | None) -> str:
    if value is None:
        return "-"
    for unit in ("", "K", "M", "G"):
        if value < 1000 or unit == "G":
            return f"{value:.0f}{unit}" if unit == "" or value >= 100 else f"{value:.1f}{unit}"
        value /= 1024
    return ""


def _time(ns: int | None) -> str:
    if ns is None:
        return "-"
    for unit, size in (("s", 10**9), ("ms", 10**6), ("us", 10**3)):
        if ns >= size:
            return f"{ns / size:.1f} {unit}" if ns < 100 * size else f"{ns / size:.0f} {unit}"
    return f"{ns} ns"


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) else None


class _Between:
    """Two looks at one node that is up, with no restart between them."""

    def __init__(self, before: dict, after: dict):
        self.seconds = after["at"] - before["at"]
        self._old, self._new = before["counters"], after["counters"]

    def now(self, name: str) -> int | None:
        return _whole(self._new.get(name))

    def rise(self, *names: str) -> float | None:
        """How much they have grown together; None: the node has none of them."""
        there = [n for n in names if self.now(n) is not None]
        if not there:
            return None
        return sum(max(self.now(n) - (_whole(self._old.get(n)) or 0), 0) for n in there)

    def rate(self, *names: str) -> float | None:
        rise = self.rise(*names)
        return None if rise is None else rise / self.seconds

    def recorded(self, name: str) -> Buckets:
        new, old = (counters.buckets(look.get(name)) for look in (self._new, self._old))
        return counters.difference(new, old)


def _hit_rate(b: _Between) -> float | None:
    faults, fetched = b.rise("fault.count"), b.rise(*FETCHES["processor"])
    if not faults or fetched is None:
        return None
    return max(0.0, 100 * (1 - fetched / faults))


def row(before: dict | None, after: dict) -> Row:
    """A node, from two looks at it."""
    name, role = after["name"], after["role"]
    if not after["up"]:
        return Row(name, role, gone=after["state"])
    if after["counters"] is None:
        return Row(name, role, gone=f"{after['state']}, but tells nothing")
    if (not before or before["counters"] is None or after["at"] <= before["at"]
            or before["incarnation"] != after["incarnation"]):  # fmt: skip
        return Row(name, role)
    b = _Between(before, after)
    busy, free = b.rate("sched.busy_ns"), b.now("frame.free")
    took = b.recorded(LATENCY[role])
    return Row(
        name, role,
        cpu=None if busy is None else min(busy / 1e7 / after["cpus"], 100.0),
        hit=_hit_rate(b) if role == "processor" else None,
        fetches=b.rate(*FETCHES[role]), sent=b.rate(*SENT),
        p50=counters.percentile(took, 50), p99=counters.percentile(took, 99),
        free=None if free is None else free * FRAME_BYTES,
        queued=b.now("sched.queued"), calls=b.now("rpc.outstanding"),
    )  # fmt: skip


def rows(before: dict, after: dict) -> list[Row]:
    old = {n["name"]: n for n in before["nodes"]}
    return [row(old.get(n["name"]), n) for n in after["nodes"]]


def headline(look: dict) -> str:
    up = sum(n["up"] for n in look["nodes"])
    programs = look["programs"]
    whole = int(max(time.time() - look["started"], 0))
    return (f"cluster {look['name']}, up for {whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02};"
            f" {up} of {len(look['nodes'])} nodes up;"
            f" {programs} program{'' if programs == 1 else 's'}")  # fmt: skip


def plain(before: dict, after: dict) -> str:
    """One frame as text, for scripts."""
    found = rows(before, after)
    table = [TITLES, *(r.cells() for r in found if r.gone is None)]
    widths = [max(len(line[i]) for line in table) for i in range(len(TITLES))]

    def line(cells: tuple[str, ...]) -> str:
        left = [cells[0].ljust(widths[0]), cells[1].ljust(max(widths[1], 9))]
        return "  ".join(left + [c.rjust(w) for c, w in zip(cells[2:], widths[2:], strict=True)])

    out = [headline(after), line(TITLES)]
    for r in found:
        if r.gone is None:
            out.append(line(r.cells()))
        else:
            out.append(f"{r.name.ljust(widths[0])}  {r.role:9}  gone: {r.gone}")
    return "\n".join(out)


def look(entry: registry.Entry) -> dict:
    """What the keeper sees; LaunchError once it has gone."""
    with entry.connect() as sock:
        sock.settimeout(REPLY_S)
        try:
            sock.sendall(b'{"op": "stats"}\n')
            with sock.makefile("rb") as replies:
                reply = json.loads(replies.readline(MAX_REPLY))
        except (OSError, ValueError):
            raise LaunchError(f"cluster {entry.name} is going down") from None
    if reply.get("error"):
        raise LaunchError(reply["error"])
    return reply


class _Ended(BaseException):
    """A signal that ends us."""

    def __init__(self, signo: int):
        super().__init__(signo)
        self.signo = signo


@contextlib.contextmanager
def _keys() -> Iterator[Callable[[float], str]]:
    """A terminal without line editing; yields wait(seconds): a key, "" for none, "size" for a
    change of the window's size. The terminal is as before at the end.
    """
    import termios
    import tty

    wake_r, wake_w = os.pipe()
    os.set_blocking(wake_w, False)

    def resized(*_: object) -> None:
        with contextlib.suppress(OSError):
            os.write(wake_w, b"x")

    def ended(signo: int, _frame: object) -> None:
        raise _Ended(signo)

    def wait(seconds: float) -> str:
        ready = select.select([0, wake_r], [], [], max(seconds, 0))[0]
        if wake_r in ready:
            os.read(wake_r, 64)
            return "size"
        if 0 not in ready:
            return ""
        # The end of its input: the terminal has gone.
        return os.read(0, 1).decode("latin-1") or "q"

    old = termios.tcgetattr(0)
    before = {s: signal.signal(s, ended) for s in (signal.SIGTERM, signal.SIGHUP)}
    before[signal.SIGWINCH] = signal.signal(signal.SIGWINCH, resized)
    try:
        tty.setcbreak(0)
        yield wait
    finally:
        with contextlib.suppress(termios.error):  # it may have gone
            termios.tcsetattr(0, termios.TCSADRAIN, old)
        for signo, handler in before.items():
            signal.signal(signo, handler)
        os.close(wake_r)
        os.close(wake_w)


def _picture(before: dict, after: dict, interval: float):
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    found = rows(before, after)
    table = Table(box=None, pad_edge=False, header_style="reverse", expand=False)
    for i, title in enumerate(TITLES):
        table.add_column(title, justify="left" if i < 2 else "right", no_wrap=True)
    for r in found:
        if r.gone is None:
            busy = r.cpu is not None and r.cpu >= 90
            cells = [Text(c) for c in r.cells()]
            cells[2].stylize("bold red" if busy else "green")
            table.add_row(*cells)
        else:
            cells = [Text(r.name), Text(r.role), Text("gone", style="bold red")]
            table.add_row(*cells, *[Text("-")] * (len(TITLES) - 3), style="dim")
    gone = [Text(f"{r.name}: {r.gone}", style="red") for r in found if r.gone is not None]
    foot = Text(f"every {interval:g} s; q ends", style="dim")
    return Group(Text(headline(after), style="bold", no_wrap=True, overflow="ellipsis"),
                 Text(), table, *gone, Text(), foot)  # fmt: skip


def _live(entry: registry.Entry, interval: float) -> None:
    from rich.console import Console
    from rich.live import Live

    console = Console()
    before = after = look(entry)
    with _keys() as wait, Live(console=console, screen=True, auto_refresh=False) as live:
        due = time.monotonic() + min(interval, 0.5)  # the first one soon
        while True:
            live.update(_picture(before, after, interval), refresh=True)
            key = wait(due - time.monotonic())
            if key in ("q", "Q"):
                return
            if time.monotonic() >= due:
                before, after = after, look(entry)
                due = time.monotonic() + interval


def run(name: str | None, once: bool, interval: float) -> int:
    entry = registry.find(name)
    if once:
        before = look(entry)
        time.sleep(interval)
        print(plain(before, look(entry)))
        return 0
    if not (os.isatty(0) and os.isatty(1)):
        raise LaunchError("top needs a terminal; --once prints one frame without")
    if os.environ.get("TERM", "dumb") == "dumb":
        raise LaunchError("top cannot draw on this terminal (TERM); --once prints one frame")
    try:
        _live(entry, interval)
    except KeyboardInterrupt:
        pass
    except _Ended as err:
        return 128 + err.signo
    sys.stdout.flush()
    return 0
