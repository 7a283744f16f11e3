#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Turn `nm -n` of a linked kernel into assembly that holds its symbol table.

usage: nm -n kernel.elf | gen-symbols.py > symbols.S
       gen-symbols.py --empty > symbols.S       (for the first link)

What kernel/symbols.c reads (all in the section .symbols, which lies behind the text, so that
functions keep their addresses between the first and the second link):

    const uint64_t ksym_base;      address that the offsets count from
    const uint32_t ksym_count;     number of functions
    const uint32_t ksym_offset[];  ksym_count + 1 of them, rising; the last is the end of text
    const uint32_t ksym_name[];    ksym_count offsets into ksym_names
    const char ksym_names[];       NUL-terminated names

The first link has ksym_count == 0, and one entry in ksym_offset.
"""

import sys


def read_functions(stream):
    """Sorted (address, name) of the functions, and the end of text."""
    by_addr = {}
    end = 0
    for line in stream:
        parts = line.split()
        if len(parts) != 3:
            continue
        addr, kind, name = int(parts[0], 16), parts[1], parts[2]
        if name in ("__text_end", "text_end", "_etext"):
            end = max(end, addr)
        elif kind in "tTwW" and addr and not name.startswith(".L"):
            # Of several names for one address keep a global one, then the shortest.
            key = (kind.islower(), len(name), name)
            if addr not in by_addr or key < by_addr[addr]:
                by_addr[addr] = key
    # Boot code runs at low addresses before the kernel's own are mapped: it is not in the table.
    top = max(by_addr, default=0)
    functions = [(a, k[2]) for a, k in sorted(by_addr.items()) if top - a < 1 << 31]
    functions = [(a, n) for a, n in functions if not end or a < end]
    return functions, max(end, functions[-1][0] + 1 if functions else 0)


def longs(values):
    for i in range(0, len(values), 12):
        yield "\t.long " + ", ".join(str(v) for v in values[i : i + 12])


def emit(functions, end):
    base = functions[0][0] if functions else 0
    names, offset = [], 0
    for _, name in functions:
        names.append(offset)
        offset += len(name) + 1
    yield '\t.section .symbols, "a", @progbits'
    yield f"\t.balign 8\n\t.globl ksym_base\nksym_base:\n\t.quad {base:#x}"
    yield f"\t.globl ksym_count\nksym_count:\n\t.long {len(functions)}"
    yield "\t.globl ksym_offset\nksym_offset:"
    yield from longs([a - base for a, _ in functions] + [end - base])
    yield "\t.globl ksym_name\nksym_name:"
    yield from longs(names)
    yield "\t.globl ksym_names\nksym_names:"
    for _, name in functions:
        yield f'\t.asciz "{name}"'
    yield '\t.section .note.GNU-stack, "", @progbits'


def main():
    functions, end = ([], 0) if "--empty" in sys.argv else read_functions(sys.stdin)
    print("\n".join(emit(functions, end)))


if __name__ == "__main__":
    main()
