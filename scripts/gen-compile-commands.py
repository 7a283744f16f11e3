#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Print compile_commands.json from the .commands files that the builds leave.

usage: gen-compile-commands.py BUILD-DIR...

A file that several builds compile (the shared folders) is listed once, as the first one does it.
"""

import json
import pathlib
import sys

TOP = pathlib.Path(__file__).resolve().parents[1]


def main():
    entries = {}
    for folder in map(pathlib.Path, sys.argv[1:]):
        listing = folder / ".commands"
        if not listing.exists():
            continue
        for line in listing.read_text().splitlines():
            source, _, command = line.partition("|")
            if source and source not in entries:
                entries[source] = {
                    "directory": str(TOP),
                    "file": source,
                    "command": f"{command} {source}",
                }
    json.dump([entries[s] for s in sorted(entries)], sys.stdout, indent=1)
    print()
    return 0 if entries else 1


if __name__ == "__main__":
    sys.exit(main())
