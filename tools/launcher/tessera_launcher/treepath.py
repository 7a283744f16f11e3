# SPDX-License-Identifier: MIT
"""Paths in a tree of the host that is, or becomes, a root file system: links are followed as if
that tree were /, so that none leads out of it.
"""

from __future__ import annotations

import os
import stat

from . import elf, packing
from .errors import LaunchError, one_line

MAX_LINKS = 40
MAX_FILE = 1 << 20
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def candidates(program: str, settings: list[str]) -> list[str]:
    """Where a program can be: as named, or in the directories of PATH (of @settings, or ours)."""
    if "/" in program:
        return ["/" + program.lstrip("/")]
    listed = dict(s.partition("=")[::2] for s in (f"PATH={DEFAULT_PATH}", *settings))["PATH"]
    found = [f"{d.rstrip('/')}/{program}" for d in listed.split(":") if d.startswith("/")]
    return list(dict.fromkeys([*found, f"/{program}"]))


def resolve(root: str, path: str) -> str | None:
    """Where @path of the tree @root lies on the host; None when it is not there."""
    pending, at, hops = path.split("/"), [], 0
    while pending:
        part = pending.pop(0)
        if part in ("", "."):
            continue
        if part == "..":
            at = at[:-1]
            continue
        here = os.path.join(root, *at, part)
        try:
            mode = os.lstat(here).st_mode
        except OSError:
            return None
        if stat.S_ISLNK(mode):
            hops += 1
            if hops > MAX_LINKS:
                return None
            target = os.readlink(here)
            at = [] if target.startswith("/") else at
            pending = target.split("/") + pending
        else:
            at.append(part)
    return os.path.join(root, *at)


def place(root: str, path: str) -> str:
    """Where @path of the tree is to lie on the host, its directories made as far as they are
    missing. The last name is not followed. LaunchError when something else is in the way.
    """
    pending, at, hops = path.split("/"), [], 0
    while pending:
        part = pending.pop(0)
        if part in ("", "."):
            continue
        if part == "..":
            at = at[:-1]
            continue
        here = os.path.join(root, *at, part)
        if not any(p not in ("", ".") for p in pending):
            return here
        if os.path.islink(here):
            hops += 1
            target = os.readlink(here)
            at = [] if target.startswith("/") else at
            pending = target.split("/") + pending
        else:
            if not os.path.lexists(here):
                os.mkdir(here)
            at.append(part)
        if hops > MAX_LINKS or (os.path.lexists(here) and not (
                os.path.islink(here) or os.path.isdir(here))):  # fmt: skip
            raise LaunchError(f"{one_line(path)}: {one_line(part)} is no directory of the tree")
    return root


def read(root: str, path: str) -> str:
    """The beginning of a file; "" if there is none."""
    found = resolve(root, path)
    if not found or not os.path.isfile(found):
        return ""
    try:
        with open(found, errors="replace") as f:
            return f.read(MAX_FILE)
    except OSError:
        return ""


def missing_interpreter(root: str, program: str) -> str | None:
    """What the program at the host's path @program runs by, if @root does not have it."""
    words = packing.script_words(program)
    if words:
        interp: str | None = words[0]
    else:
        try:
            interp = elf.read(program).interp
        except (elf.NotElf, OSError):
            return None
    return interp if interp and not resolve(root, interp) else None
