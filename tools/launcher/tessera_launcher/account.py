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


# (counters to add up, how to show them, what to say), by role; a node may not have some.
LINES = {
    "processor": [
        ("syscall.count", count, "system calls"),
        ("excache.misses", count, "ExCache misses"),
        ("excache.plocal", count, "p-local lines: first touch, no message"),
        ("excache.fetches", count, "lines fetched from their owners"),
        ("excache.prefetched", count, "file pages filled ahead"),
        ("excache.writebacks", count, "dirty lines written back"),
        ("rpc.requests", count, "requests sent"),
    ],
    "memory": [
        ("memory.fetch", count, "fetches answered"),
        ("memory.writeback", count, "write-backs taken"),
        ("page_cache.hit", count, "file pages found in the page cache"),
        ("page_cache.miss", count, "file pages asked of storage"),
        ("rpc.bulk_bytes", size, "of pages sent"),
    ],
    "storage": [
        ("storage.lookups", count, "paths resolved"),
        ("storage.pages_sent", count, "file pages sent to memory nodes"),
        ("virtio-blk.requests+nvme.requests", count, "disk reads"),
        ("virtio-blk.bytes+nvme.bytes", size, "read from disk"),
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
        rows = [
            (form(sum(counters.get(part, 0) for part in key.split("+"))), what)
            for key, form, what in LINES[role]
            if key.split("+")[0] in counters
        ]
        width = max((len(value) for value, _ in rows), default=0)
        out += [f"    {value:>{width}}  {what}" for value, what in rows]
    return "\n".join(out)
