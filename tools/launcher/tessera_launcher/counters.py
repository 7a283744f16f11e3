# SPDX-License-Identifier: MIT
"""What the kernels count: kinds and meanings from their images, values from STATS, histograms.

A histogram's value is {"count", "sum", "p50", ..., "buckets": [[largest value, how many], ...]}
(kernel/include/kernel/counter.h); empty buckets are left out.

Trust: a node may say anything. checked() lets through what a kernel could say, and is the only way
to what nodes count: whoever has it from Cluster.sample() or stats() needs no checks of its own.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass

from .kernelimage import NO_TABLE, Image

_COUNTER = struct.Struct("<QQQ")
_GAUGE = struct.Struct("<QQQ?7x")
COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"
Buckets = list[tuple[int, int]]
# More than kernels have; they bound what a node costs whoever shows its counters.
MAX_NAMES = 1000
MAX_HISTOGRAMS = 64
MAX_BUCKETS = 496  # the kernel's HIST_BUCKETS
_NAME = re.compile(r"[a-z0-9_.-]{1,64}")
_SUMMARY = {"count", "sum", "p50", "p90", "p99", "max"}


@dataclass(frozen=True)
class Meaning:
    """Of one counter; a gauge that is a sum counts as a counter."""

    kind: str
    help: str


def read(path: str) -> dict[str, Meaning]:
    """What an image counts, by name; empty if it does not say."""
    out: dict[str, Meaning] = {}
    try:
        with Image(path) as image:
            for table, kind, form in (("counters", COUNTER, _COUNTER), ("gauges", GAUGE, _GAUGE),
                                      ("histograms", HISTOGRAM, _COUNTER)):  # fmt: skip
                for raw in image.records(f"{table}_start", f"{table}_end", form.size):
                    name, text, _, *rises = form.unpack(raw)
                    is_sum = kind == GAUGE and rises[0]
                    out[image.text(name)] = Meaning(COUNTER if is_sum else kind, image.text(text))
    except NO_TABLE:
        return {}
    return out


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 64


def _is_histogram(value: object) -> bool:
    if not isinstance(value, dict) or value.keys() - {"buckets"} != _SUMMARY:
        return False
    pairs = value.get("buckets", [])  # older kernels do not tell them
    return (all(_is_number(value[key]) for key in _SUMMARY)
            and isinstance(pairs, list) and len(pairs) <= MAX_BUCKETS
            and all(isinstance(p, list) and len(p) == 2 and all(map(_is_number, p))
                    for p in pairs))  # fmt: skip


def checked(text: str) -> dict | None:
    """What a node's STATS says: {name: value}, or {"counters": {name: value}}, as it came; None
    if no kernel could have said it.
    """
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return None
    found = said.get("counters", said) if isinstance(said, dict) else None
    if not isinstance(found, dict) or len(found) > MAX_NAMES:
        return None
    histograms = [value for value in found.values() if isinstance(value, dict)]
    if (len(histograms) > MAX_HISTOGRAMS or not all(map(_NAME.fullmatch, found))
            or not all(_is_number(v) or _is_histogram(v) for v in found.values())):  # fmt: skip
        return None
    return found if found is said else {"counters": found}


def buckets(value: object) -> Buckets:
    """Of a histogram's value, in order; nothing if it is none."""
    pairs = value.get("buckets") if isinstance(value, dict) else None
    if not isinstance(pairs, list):
        return []
    return sorted((int(high), int(count)) for high, count in pairs)


def difference(after: Buckets, before: Buckets) -> Buckets:
    """What was recorded between two looks at a histogram."""
    old = dict(before)
    return [(high, n - old.get(high, 0)) for high, n in after if n > old.get(high, 0)]


def merged(many: Iterable[Buckets]) -> Buckets:
    out: dict[int, int] = {}
    for one in many:
        for high, n in one:
            out[high] = out.get(high, 0) + n
    return sorted(out.items())


def percentile(of: Buckets, percent: float) -> int | None:
    """The upper bound of the bucket in which that share of the values is reached; None: empty."""
    total, seen = sum(n for _, n in of), 0
    for high, n in of:
        seen += n
        if seen * 100 >= total * percent:
            return high
    return None


def cumulative(of: Buckets, bounds: Iterable[int]) -> list[int]:
    """How many values are at most each of the bounds, which rise and are ends of buckets."""
    out, seen, i = [], 0, 0
    for bound in bounds:
        while i < len(of) and of[i][0] <= bound:
            seen += of[i][1]
            i += 1
        out.append(seen)
    return out
