#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Add source lines to the addresses of a kernel log.

usage: decode-stacktrace.py KERNEL.ELF < LOG

Every kernel address in the log (0xffffffff8..., as backtraces and registers print them) that lies
in a function gets "function at file:line" behind the line, inlined callers included. Return
addresses are looked up one byte before, so that the call is named and not what follows it.
"""

import re
import shutil
import subprocess
import sys

ADDRESS = re.compile(r"\b(?:0x)?(ffffffff[89a-f][0-9a-f]{7})\b")


class Symbolizer:
    """One addr2line process, asked as needed."""

    def __init__(self, elf):
        tool = shutil.which("addr2line") or shutil.which("llvm-addr2line")
        if not tool:
            sys.exit("decode-stacktrace: neither addr2line nor llvm-addr2line is installed")
        self.command = [tool, "-f", "-i", "-e", elf]
        self.known = {}

    def look_up(self, address):
        if address not in self.known:
            done = subprocess.run(
                [*self.command, hex(address - 1)], capture_output=True, text=True, check=False
            )
            lines = done.stdout.splitlines()
            pairs = zip(lines[::2], lines[1::2])
            found = [f"{fn} at {place}" for fn, place in pairs if fn != "??"]
            self.known[address] = " <- ".join(found)
        return self.known[address]


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    symbols = Symbolizer(sys.argv[1])
    for line in sys.stdin:
        line = line.rstrip("\n")
        places = [symbols.look_up(int(m, 16)) for m in ADDRESS.findall(line)]
        places = [p for p in places if p]
        print(line + (f"  [{'; '.join(places)}]" if places else ""), flush=True)


if __name__ == "__main__":
    sys.exit(main())
