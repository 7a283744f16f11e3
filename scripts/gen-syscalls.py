#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Make the system call table (C), its documentation (Markdown) or the fuzzer's list from syscall.tbl.

Usage: gen-syscalls.py c|h|md|fuzz TABLE > OUTPUT
"""
import sys

ARGUMENT_LETTERS = set("duxpsflogbtiGravhF23j5mMOEAenCWkKRUcDqQyX6BZIwYHTVSPLzJ78941")


def parse(path):
    """Entries of the table, in order of their numbers; exits with a message on a bad line."""
    entries, seen = [], {}
    with open(path, encoding="utf-8") as table:
        for number, line in enumerate(table, 1):
            line = line.split("#", 1)[0].rstrip()
            if not line:
                continue
            fields = line.split(None, 5)
            where = f"{path}:{number}"
            if len(fields) < 5:
                sys.exit(f"{where}: want: number name handler arguments state [note]")
            nr, name, handler, args, state = fields[:5]
            note = fields[5] if len(fields) > 5 else ""
            if not nr.isdigit() or int(nr) > 511:
                sys.exit(f"{where}: bad number {nr}")
            if args != "-" and (len(args) > 6 or set(args) - ARGUMENT_LETTERS):
                sys.exit(f"{where}: bad argument letters {args}")
            if state not in ("full", "partial") or (state == "partial") != bool(note):
                sys.exit(f"{where}: state is full, or partial with a note")
            if nr in seen:
                sys.exit(f"{where}: number {nr} is taken by {seen[nr]}")
            seen[nr] = name
            entries.append((int(nr), name, handler, "" if args == "-" else args, state, note))
    return sorted(entries)


def emit_h(entries):
    print("/* Made by scripts/gen-syscalls.py from syscall.tbl: do not edit. */")
    print("#pragma once\n\nstruct syscall_args;\n")
    for handler in sorted({e[2] for e in entries}):
        print(f"long sys_{handler}(const struct syscall_args *args);")


def emit_c(entries):
    print("/* Made by scripts/gen-syscalls.py from syscall.tbl: do not edit. */")
    print("#pragma once\n\n#include <processor/syscall/syscall.h>\n")
    print("const struct syscall_entry syscall_table[] = {")
    for nr, name, handler, args, _, _ in entries:
        print(f'\t[{nr}] = {{ .name = "{name}", .fn = sys_{handler}, .args = "{args}" }},')
    print("};")
    print("const unsigned int syscall_table_len = sizeof(syscall_table) / sizeof(syscall_table[0]);")


def emit_md(entries):
    full = sum(1 for e in entries if e[4] == "full")
    print("# System calls\n")
    print("Made from `monitors/processor/syscall/syscall.tbl` by `scripts/gen-syscalls.py`.\n")
    print(f"{len(entries)} calls, {full} of them in full. Every other number answers ENOSYS and is")
    print("counted (`syscall.enosys`).\n")
    print("| number | call | state | what is missing |")
    print("|---|---|---|---|")
    for nr, name, _, _, state, note in entries:
        print(f"| {nr} | {name} | {state} | {note} |")


def emit_fuzz(entries):
    print("/* Made by scripts/gen-syscalls.py from syscall.tbl: do not edit. */")
    for nr, name, _, args, _, _ in entries:
        print(f'{{ {nr}, "{name}", "{args}" }},')


EMITTERS = {"c": emit_c, "h": emit_h, "md": emit_md, "fuzz": emit_fuzz}


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in EMITTERS:
        sys.exit(__doc__)
    entries = parse(sys.argv[2])
    EMITTERS[sys.argv[1]](entries)


if __name__ == "__main__":
    main()
