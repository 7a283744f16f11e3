# SPDX-License-Identifier: MIT
"""A short account, for people, of what each node did; made from the counters of --stats."""

from __future__ import annotations

from collections.abc import Iterable

Counters = dict[str, float]


def flatten(stats: object, prefix: str = "") -> Counters:
    """Nested JSON objects -> "a.b.c": number."""
    out: Counters = {}
    if isinstance(stats, dict):
        for key, value in stats.items():
            out.update(flatten(value, f"{prefix}.{key}" if prefix else str(key)))
    elif isinstance(stats, (int, float)) and not isinstance(stats, bool):
        out[prefix] = stats
    return out


def count(value: float) -> str:
    return f"{int(value):,}"


def size(value: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            return f"{value:.0f} {unit}" if unit == "bytes" else f"{value:.1f} {unit}"
        value /= 1024
    return ""


# (counter, how to show it, what to say), by role; a counter that a node does not have is left out.
LINES = {
    "processor": [
        ("syscall.total", count, "system calls"),
        ("excache.miss", count, "ExCache misses"),
        ("excache.hit", count, "ExCache hits on a fault"),
        ("excache.plocal", count, "p-local lines (first touch, no message)"),
        ("excache.fill_bytes", size, "fetched into lines"),
        ("excache.writeback", count, "dirty lines written back"),
        ("excache.evict", count, "lines evicted"),
    ],
    "memory": [
        ("memory.fetch", count, "lines served"),
        ("memory.fetch_bytes", size, "sent to processors"),
        ("memory.writeback", count, "write-backs taken"),
        ("bufcache.miss", count, "pages asked of storage"),
        ("bufcache.hit", count, "pages found in the buffer cache"),
    ],
    "storage": [
        ("storage.lookup", count, "paths looked up"),
        ("storage.read", count, "read requests"),
        ("storage.read_bytes", size, "sent to memory nodes"),
        ("blk.reads", count, "disk reads"),
        ("blk.read_bytes", size, "read from disk"),
    ],
}


def describe(roles: Iterable[tuple[str, str]], stats: dict[str, dict | None]) -> str:
    """The account of nodes (name, role)."""
    out = []
    for name, role in roles:
        out.append(f"{name} ({role})")
        if stats.get(name) is None:
            out.append("    gave no counters")
            continue
        counters = flatten(stats[name].get("counters", stats[name]))
        rows = [(form(counters[key]), what) for key, form, what in LINES[role] if key in counters]
        width = max((len(value) for value, _ in rows), default=0)
        out += [f"    {value:>{width}}  {what}" for value, what in rows]
    return "\n".join(out)
