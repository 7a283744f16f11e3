#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Make the system call table (C), its documentation (Markdown) or the fuzzer's list from
syscall.tbl.

Usage: gen-syscalls.py c|h|md|fuzz TABLE > OUTPUT
"""
import re
import sys

MAX_ARGUMENTS = 6
KIND = re.compile(r"[a-z]+(-[a-z]+)*(:[a-z]+)?")
# How test/user/sysfuzz draws arguments of these kinds: other flags as hexadecimal numbers, the
# rest as pointers.
FUZZ_LETTERS = {
    "int": "d", "uint": "u", "long": "l", "hex": "x", "octal": "o", "mode": "o", "fd": "f",
    "path": "s", "bytes": "b", "bytes:out": "b", "iovecs": "i", "iovecs:out": "i", "strings": "v",
    "timespec": "t", "timespecs": "n", "signal": "d", "access": "d", "sigmask-how": "d",
    "clock": "d", "resource": "d", "futex-op": "d", "fcntl": "d", "ioctl": "x", "prctl": "d",
    "arch-prctl": "x", "whence": "d", "advice": "d", "family": "d", "fcntl-argument": "l",
    "prctl-argument": "l",
}


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
            kinds = [] if args == "-" else args.split(",")
            if len(kinds) > MAX_ARGUMENTS or not all(KIND.fullmatch(k) for k in kinds):
                sys.exit(f"{where}: bad kinds of arguments {args}")
            if state not in ("full", "partial") or (state == "partial") != bool(note):
                sys.exit(f"{where}: state is full, or partial with a note")
            if nr in seen:
                sys.exit(f"{where}: number {nr} is taken by {seen[nr]}")
            seen[nr] = name
            entries.append((int(nr), name, handler, kinds, state, note))
    return sorted(entries)


def emit_h(entries):
    print("/* Made by scripts/gen-syscalls.py from syscall.tbl: do not edit. */")
    print("#pragma once\n\nstruct syscall_args;\n")
    for nr, name, *_ in entries:
        print(f"#define __NR_{name} {nr}")
    print()
    for handler in sorted({e[2] for e in entries}):
        print(f"long sys_{handler}(const struct syscall_args *args);")


def emit_c(entries):
    print("/* Made by scripts/gen-syscalls.py from syscall.tbl: do not edit. */")
    print("#pragma once\n\n#include <processor/syscall/syscall.h>\n")
    print("const struct syscall_entry syscall_table[] = {")
    for nr, name, handler, kinds, _, _ in entries:
        # A kind that enum strace_kind does not have is an error of the compiler.
        args = ", ".join("STRACE_" + re.sub("[-:]", "_", k).upper() for k in kinds) or "STRACE_NONE"
        print(f'\t[{nr}] = {{ .name = "{name}", .fn = sys_{handler}, .kinds = {{ {args} }} }},')
    print("};")
    print(
        "const unsigned int syscall_table_len = sizeof(syscall_table) / sizeof(syscall_table[0]);"
    )


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
    for nr, name, _, kinds, _, _ in entries:
        letters = "".join(
            FUZZ_LETTERS.get(k, "x" if k.startswith("flags:") else "p") for k in kinds
        )
        print(f'{{ {nr}, "{name}", "{letters}" }},')


EMITTERS = {"c": emit_c, "h": emit_h, "md": emit_md, "fuzz": emit_fuzz}


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in EMITTERS:
        sys.exit(__doc__)
    entries = parse(sys.argv[2])
    EMITTERS[sys.argv[1]](entries)


if __name__ == "__main__":
    main()
