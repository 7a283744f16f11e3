# SPDX-License-Identifier: MIT
"""`./tessera images`: the root file systems that are kept (cache.py): list and remove them."""

from __future__ import annotations

import time

from .cache import Cache
from .errors import LaunchError, UsageError, escaped
from .options import warn

HELP = """\
usage: ./tessera images [--labels]
       ./tessera images --remove ID...|--all

Show the root file systems that are kept of trees (--rootfs) and container images (--image), or
remove them. Those that a cluster uses stay.
"""


def run(argv: list[str]) -> int:
    cache = Cache()
    entries = cache.entries()
    if argv and argv[0] == "--remove":
        return _remove(cache, entries, argv[1:])
    if argv not in ([], ["--labels"]):
        raise UsageError("images: see ./tessera images --help")
    print(_table(cache, entries, bool(argv)))
    return 0


def _remove(cache: Cache, entries: list[dict], ids: list[str]) -> int:
    keys = []
    if not ids:
        raise UsageError("images --remove: which one? (--all)")
    for wanted in ids:
        found = [e["key"] for e in entries if wanted == "--all" or e["key"].startswith(wanted)]
        if wanted != "--all" and len(found) != 1:
            raise LaunchError(f"images: {wanted!r} is {len(found) or 'none'} of them")
        keys += found
    used = cache.remove(sorted(set(keys)))
    for key in used:
        warn(f"{key[:12]} is in use")
    return 125 if used else 0


def _table(cache: Cache, entries: list[dict], labels: bool) -> str:
    rows = [("ID", "KIND", "SIZE", "USED", "NAME")]
    for e in sorted(entries, key=lambda e: -e["used"]):
        rows.append((e["key"][:12], str(e.get("kind", "?")), f"{e['bytes'] / (1 << 20):.1f} MiB",
                     _ago(time.time() - e["used"]), escaped(str(e.get("name", "?")))))  # fmt: skip
        if labels and isinstance(e.get("labels"), dict):
            rows += [("", "", "", "", escaped(f"  {key}={value}"))
                     for key, value in sorted(e["labels"].items())]  # fmt: skip
    widths = [max(len(r[i]) for r in rows) for i in range(4)]
    out = ["  ".join([*(c.ljust(w) for c, w in zip(r, widths, strict=False)), r[4]]) for r in rows]
    total = sum(e["bytes"] for e in entries)
    out.append(f"{total / (1 << 20):.1f} MiB of {cache.limit >> 20} MiB in {cache.path}")
    return "\n".join(out)


def _ago(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size:.0f} {unit} ago"
    return "now"
