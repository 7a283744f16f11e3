# SPDX-License-Identifier: MIT
"""`./tessera run --sweep`: one program with less and less of its memory in the processor's cache.

The first cluster's ExCache holds all of the program, and tells how much that is at most: the peak.
Then there is one cluster for each share of the peak. In each the program runs twice: the first run
fills caches that have nothing to do with the ExCache's size, the second one is measured. The table
goes to stdout, the picture to a file; what the program writes goes nowhere.

Failure: a share at which the program fails is a row that says so; without the first run there is
nothing to compare with, and its failure ends the sweep.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import shlex
import stat
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass

from . import frames, host
from .cluster import Cluster
from .errors import Interrupted, LaunchError, ProgramRefused, one_line
from .options import MIN_EXCACHE, Options, format_size, warn
from .run import (EXIT_FAILED, EXIT_TIMEOUT, Signals, Timeout, exit_status, refused,
                  remove_logs, request)  # fmt: skip
from .streams import Capture, feed

PAGE = 4096
MAX_EXCACHE = 4 << 30
CHUNK = 1 << 16


@dataclass
class Row:
    """One measured run; numbers are None where the run did not tell or did not end well."""

    share: float | None  # per cent of the peak; None: all of it, with room to spare
    cache: int  # bytes
    status: int = 0
    why: str = ""  # the run failed, or what is to be said of it
    seconds: float | None = None
    misses: int | None = None  # pages and file requests that were waited for
    used: int | None = None  # fetched ahead, by their fate
    late: int | None = None
    wasted: int | None = None
    fetched: int | None = None  # pages that came, waited for or ahead
    moved: int | None = None  # bytes that all ports have sent
    peak: int | None = None  # bytes
    evicted: int | None = None  # pages
    output: str = ""  # hash

    def slowdown(self, base: Row) -> float | None:
        if self.status or not self.seconds or not base.seconds:
            return None
        return self.seconds / base.seconds


class _Hash:
    """Stands for output that is not kept: all that counts is whether it is the same."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self.tail = b""

    def __iadd__(self, data: bytes) -> _Hash:
        self._hash.update(data)
        self.tail = (self.tail + data)[-1000:]
        return self

    def text(self) -> str:
        return self._hash.hexdigest()

    def last_line(self) -> str:
        lines = self.tail.decode("utf-8", "replace").strip().splitlines()
        return one_line(lines[-1])[:200] if lines else ""


@contextlib.contextmanager
def _input():
    """A function that opens stdin anew for each run; a terminal counts as empty."""
    with tempfile.TemporaryFile() as spool:
        start = 0
        fd = spool.fileno()
        try:
            if stat.S_ISREG(os.fstat(0).st_mode):
                fd, start = 0, os.lseek(0, 0, os.SEEK_CUR)
            elif not os.isatty(0):
                while data := os.read(0, CHUNK):
                    spool.write(data)
                spool.flush()
        except OSError:
            pass  # closed, or no file to read from: empty

        def reader() -> Callable[[], bytes]:
            at = start

            def read() -> bytes:
                nonlocal at
                data = os.pread(fd, CHUNK, at)
                at += len(data)
                return data

            return read

        yield reader


def _count(stats: dict[str, dict | None], *names: str) -> int | None:
    """The sum of counters over all nodes; None: no node has them."""
    found = [v for s in stats.values() for n, v in (s or {}).items()
             if n in names and isinstance(v, int)]  # fmt: skip
    return sum(found) if found else None


class _Cluster:
    """One cluster of the sweep: its counters, and the program in it."""

    def __init__(self, cluster: Cluster, side: host.Host, path: str, reader: Callable):
        self._cluster, self._o, self._path, self._reader = cluster, side.o, path, reader
        self._who = side.user()

    def counters(self) -> dict[str, dict | None]:
        stats = self._cluster.stats()
        out = {n: (s.get("counters", s) if isinstance(s, dict) else None)
               for n, s in stats.items()}  # fmt: skip
        with contextlib.suppress(LaunchError):
            model = self._cluster.inject("stats")
            ports = [p for p in model.get("ports", []) if isinstance(p.get("tx_bytes"), int)]
            if ports:
                out["hca"] = {"tx_bytes": sum(p["tx_bytes"] for p in ports)}
        return out

    def run(self) -> tuple[frames.Exit, _Hash, _Hash]:
        """The program, to its end."""
        o = self._o
        capture = Capture()
        capture.data = {1: _Hash(), 2: _Hash()}
        what = request(o, self._path, [o.program, *o.args], None, self._who)
        program = self._cluster.start_program(what, capture.sink)
        capture.attach(program)
        feed(program, self._reader())
        if not program.wait(time.monotonic() + o.timeout if o.timeout else None):
            raise Timeout(f"still running after {o.timeout:g} s")
        return program.exit, capture.data[1], capture.data[2]


def _measure(row: Row, running: _Cluster) -> None:
    running.run()
    before = running.counters()
    end, out, err = running.run()
    after = running.counters()

    def grown(*names: str) -> int | None:
        now, then = _count(after, *names), _count(before, *names)
        return None if now is None else now - (then or 0)

    row.seconds = end.lifetime_ns / 1e9
    row.status = exit_status(end.status)
    if row.status:
        row.why = f"status {row.status}" + (f": {err.last_line()}" if err.last_line() else "")
    row.output = out.text()
    row.misses = grown("excache.fetches", "excache.file_fetches")
    row.used, row.late = grown("prefetch.used"), grown("prefetch.late")
    row.wasted = grown("prefetch.wasted")
    row.fetched = grown("excache.fetches", "prefetch.used", "prefetch.late", "prefetch.wasted")
    row.moved = grown("tx_bytes")
    row.evicted = grown("excache.evict_clean", "excache.evict_dirty")
    peak = _count(after, "excache.peak_lines")
    row.peak = None if peak is None else peak * PAGE


def _run_at(o: Options, share: float | None, cache: int, reader: Callable) -> Row:
    """A cluster with a cache of that size, and the program in it. ProgramRefused, Interrupted."""
    row = Row(share, cache)
    side = host.Host(dataclasses.replace(o, excache=cache))
    path = side.guest_paths(o.program)[-1]
    laid_out = side.plan()
    cluster = Cluster(laid_out, side.prepare, o.boot_timeout, keep_logs=side.keep_logs)
    failed = False
    try:
        with cluster:
            cluster.wait_ready(everyone=True)  # all are asked what they count
            for command in o.inject:
                cluster.inject(command)
            _measure(row, _Cluster(cluster, side, path, reader))
    except LaunchError as err:
        failed = True
        row.status = EXIT_TIMEOUT if isinstance(err, Timeout) else EXIT_FAILED
        row.why = f"{err}; logs: {laid_out.log_dir}"
    finally:
        if not failed and not cluster.logs_kept:
            remove_logs(laid_out.log_dir)
    return row


def _all_local(o: Options, reader: Callable) -> Row:
    """With a cache in which all of the program fits: --excache, or the first double that does."""
    cache = o.excache
    while True:
        row = _run_at(o, None, cache, reader)
        if row.status:
            return row
        if row.peak is None or row.evicted is None:
            row.status, row.why = EXIT_FAILED, "the kernel does not tell the program's peak"
            return row
        # A few sets may be full in a cache that has room for more.
        if row.evicted * PAGE * 100 <= row.peak and row.peak * 4 <= cache * 3:
            return row
        if cache * 2 > MAX_EXCACHE:
            row.status = EXIT_FAILED
            row.why = f"the program needs more than {format_size(cache)}, the largest cache here"
            return row
        cache *= 2


def _cache_of(peak: int, share: float) -> int:
    """In whole pages, and what a cache has at least."""
    return max(-(-int(peak * share / 100) // PAGE) * PAGE, MIN_EXCACHE)


def _size(value: float | None) -> str:
    if value is None:
        return "-"
    for unit in ("KiB", "MiB", "GiB"):
        value /= 1024
        if value < 1000 or unit == "GiB":
            return f"{value:.0f} {unit}" if value >= 100 else f"{value:.1f} {unit}"
    return ""


def _int(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def share_name(row: Row) -> str:
    return "all" if row.share is None else f"{row.share:g}%"


TITLES = ("MEMORY", "CACHE", "SECONDS", "SLOWDOWN", "MISSES", "AHEAD USED", "LATE", "WASTED",
          "BYTES")  # fmt: skip


def table(rows: list[Row], linux: list[Row] = ()) -> str:
    """For people; a run that failed says so in its row."""
    lines = [TITLES] + [_cells(r, rows[0]) for r in rows]
    notes = [""] + [r.why for r in rows]
    if linux:
        lines += [("linux", *TITLES[1:4], "FAULTS", "", "", "", "BYTES")]
        lines += [_cells(r, linux[0]) for r in linux]
        notes += [""] + [r.why for r in linux]
    widths = [max(len(line[i]) for line in lines) for i in range(len(TITLES))]
    out = []
    for line, note in zip(lines, notes, strict=True):
        cells = [line[0].ljust(widths[0])]
        cells += [c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=True)]
        out.append(("  ".join(cells) + (f"  {note}" if note else "")).rstrip())
    return "\n".join(out)


def _cells(r: Row, base: Row) -> tuple[str, ...]:
    if r.status:
        return (share_name(r), _size(r.cache), "failed", *["-"] * (len(TITLES) - 3))
    slow = r.slowdown(base)
    return (share_name(r), _size(r.cache), f"{r.seconds:.3f}", "-" if slow is None else
            f"{slow:.2f}", _int(r.misses), _int(r.used), _int(r.late), _int(r.wasted),
            _size(r.moved))  # fmt: skip


def _check_writable(option: str, path: str) -> None:
    """Before an hour of runs, not after."""
    where = os.path.dirname(os.path.abspath(path))
    if os.path.isdir(path) or not os.path.isdir(where) or not os.access(where, os.W_OK):
        raise LaunchError(f"{option}: {path} cannot be written")


def _write_json(path: str, o: Options, rows: list[Row], linux: list[Row]) -> None:
    what = {"command": shlex.join(o.commands[0]), "rows": [dataclasses.asdict(r) for r in rows],
            "linux": [dataclasses.asdict(r) for r in linux]}  # fmt: skip
    try:
        with open(path, "w") as f:
            json.dump(what, f, indent=1, sort_keys=True)
            f.write("\n")
    except OSError as err:
        raise LaunchError(f"--stats: {path}: {err.strerror}") from None


def execute(o: Options) -> int:
    """The whole sweep; 0, or the status of the first run that failed."""
    plot = o.plot or f"{os.path.basename(o.program)}-sweep.png"
    _check_writable("--plot", plot)
    if o.stats:
        _check_writable("--stats", o.stats)
    host.sweep()
    Signals()  # no program takes them: they end the sweep
    try:
        with _input() as reader:
            rows = _rows(o, reader)
            linux: list[Row] = []
            if o.beside_linux and not rows[0].status:
                from . import linux as guests

                path = host.Host(o).guest_paths(o.program)[-1]
                linux = guests.measure(o, path, reader, rows[0].peak)
    except ProgramRefused as err:
        return refused(o.program, err)
    except Interrupted as err:
        return 128 + err.signo
    finally:
        Signals.ignore()
    if rows[0].status:
        warn(f"{o.program}, all local: {rows[0].why}")
        return rows[0].status
    print(table(rows, linux), flush=True)
    from . import sweep_plot  # matplotlib takes a second to load

    sweep_plot.draw(plot, shlex.join(o.commands[0]), rows, linux)
    print(f"drawn: {plot}")
    if o.stats:
        _write_json(o.stats, o, rows, linux)
    return next((r.status for r in [*rows, *linux] if r.status), 0)


def _rows(o: Options, reader: Callable) -> list[Row]:
    rows = [_all_local(o, reader)]
    if rows[0].status:
        return rows
    o = dataclasses.replace(o, build=False)  # the same kernels for all
    for share in o.sweep:
        row = _run_at(o, share, _cache_of(rows[0].peak, share), reader)
        if not row.status and row.output != rows[0].output:
            row.why = "its output is not that of the first run"
        elif not row.status and row.cache == MIN_EXCACHE:
            row.why = f"{format_size(MIN_EXCACHE)} is the smallest cache"
        rows.append(row)
    return rows
