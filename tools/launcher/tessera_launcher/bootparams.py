# SPDX-License-Identifier: MIT
"""The boot parameters that a kernel knows, read from its image: --append is checked by them.

The table is that of kernel/include/kernel/bootparam.h: pointers between two symbols, each to a
struct boot_param. An image without it (a stripped one, a test's empty file) is not checked: its
kernel says itself what it cannot use. So it is with values that the kernel parses by a function.
"""

from __future__ import annotations

import difflib
import re
import struct
from dataclasses import dataclass

from .errors import UsageError
from .kernelimage import NO_TABLE, Image
from .options import Options, role_matches

_PARAM = struct.Struct("<QQI?3xQQ")
BOOL, U32, U64, SIZE, STRING, CALLBACK = range(6)
TRUE = ("1", "on", "yes", "true")
_TRUTH = (*TRUE, "0", "off", "no", "false")
_SHIFT = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}
U32_MAX = (1 << 32) - 1


@dataclass(frozen=True)
class Param:
    name: str
    help: str
    kind: int
    same: bool  # on all nodes
    low: int
    high: int

    def fault(self, value: str | None) -> str | None:
        """What is wrong with a value (None: the name stood alone), as the kernel would find."""
        if self.kind == BOOL:
            ok = value is None or value in _TRUTH
        elif self.kind in (U32, U64, SIZE):
            number = _number(self.kind, value or "")
            high = min(self.high, U32_MAX) if self.kind == U32 else self.high
            if number is None or not self.low <= number <= high:
                return f"not a number from {self.low} to {high} ({self.help})"
            ok = True
        else:
            ok = value is not None
        return None if ok else self.help


def _number(kind: int, text: str) -> int | None:
    if kind == SIZE:
        match = re.fullmatch(r"(\d+)([KMGT]?)", text, re.IGNORECASE)
        return int(match[1]) << _SHIFT[match[2].upper()] if match else None
    if re.fullmatch(r"0x[0-9a-f]+", text, re.IGNORECASE):
        return int(text, 16)
    return int(text) if re.fullmatch(r"[0-9]+", text) else None


def _param(image: Image, record: bytes) -> Param:
    name, text, kind, same, low, high = _PARAM.unpack(record)
    return Param(image.text(name), image.text(text), kind, same, low, high)


def read(path: str) -> dict[str, Param] | None:
    """The parameters of an image by name; None: it has no table."""
    try:
        with Image(path) as image:
            records = image.records("bootparams_start", "bootparams_end", _PARAM.size)
            return {p.name: p for p in (_param(image, r) for r in records)}
    except NO_TABLE:
        return None


def words(line: str) -> list[tuple[str, str | None]]:
    """Names and values, cut as the kernel cuts its command line."""
    out = []
    for match in re.finditer(r'(?:[^ \t\n"]|"[^"]*"?)+', line):
        name, sep, value = match[0].replace('"', "").partition("=")
        out.append((name, value if sep else None))
    return out


def check(o: Options, nodes: list, tables: dict[str, dict[str, Param] | None]) -> None:
    """UsageError for the first word of --append that no kernel of its nodes can use."""
    for selector, line in o.append:
        roles = {n.role for n in nodes if role_matches(selector, n.role, n.name)}
        known = [tables[role] for role in sorted(roles)]
        if None in known:
            continue
        for name, value in words(line):
            _check_word(name, value, selector, known)
    _check_same(nodes, tables)


def _check_word(name: str, value: str | None, selector: str, known: list[dict]) -> None:
    params = [table[name] for table in known if name in table]
    if not params:
        near = difflib.get_close_matches(name, {n for table in known for n in table}, 1)
        whose = "a" if selector == "all" else f"a {selector}"
        hint = f" (did you mean {near[0]}?)" if near else " (see docs/boot-params.md)"
        raise UsageError(f"--append: {name} is no boot parameter of {whose} node{hint}")
    for param in params:
        fault = param.fault(value)
        if fault:
            raise UsageError(f"--append: bad value for {name}: {value or ''!r}, {fault}")


def _check_same(nodes: list, tables: dict[str, dict[str, Param] | None]) -> None:
    """What must be the same on all nodes is given to all that know it, or to none."""
    names = {p.name for table in tables.values() for p in (table or {}).values() if p.same}
    for name in sorted(names):
        values: dict[str | None, str] = {}  # and the first node that has it
        for node in nodes:
            if name in (tables[node.role] or {}):
                given = dict(w for line in node.params for w in words(line))
                values.setdefault(given.get(name), node.name)
        if len(values) > 1:
            how = ", ".join(f"{node}: {value or 'the default'}" for value, node in values.items())
            raise UsageError(f"--append: {name} must be the same on all nodes ({how})")
