# SPDX-License-Identifier: MIT
"""Who a program runs as: --user NAME|UID[:GROUP|GID], by the files of its own root.

/etc/passwd and /etc/group are of the tree in which the program runs, and may be hostile: lines
that make no sense are passed over.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .errors import LaunchError, UsageError, one_line

MAX_ID = (1 << 32) - 2


@dataclass(frozen=True)
class User:
    uid: int
    gid: int
    home: str | None = None  # None: not known


def check(text: str) -> str:
    """UsageError when @text cannot be a --user."""
    if not re.fullmatch(r"[^:\s]{1,255}(:[^:\s]{1,255})?", text):
        raise UsageError(f"--user wants NAME|UID[:GROUP|GID], not {one_line(text)!r}")
    return text


def _rows(text: str, fields: int) -> list[list[str]]:
    rows = (line.split(":") for line in text.splitlines())
    return [r for r in rows if len(r) >= fields and _id(r[2]) is not None]


def _id(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[0-9]{1,10}", text) and int(text) <= MAX_ID else None


def find(who: str, passwd: str, group: str) -> User:
    """LaunchError when the files do not have that name."""
    name, _, group_name = who.partition(":")
    rows = _rows(passwd, 7)
    uid = _id(name)
    row = next((r for r in rows if r[0] == name), None)
    if row is None and uid is not None:
        row = next((r for r in rows if int(r[2]) == uid), None)
    if row is None and uid is None:
        raise LaunchError(f"--user: there is no user {one_line(name)} in /etc/passwd of its root")
    if row is not None:
        uid, gid, home = int(row[2]), _id(row[3]) or 0, row[5]
    else:
        gid, home = 0, ""
    if group_name:
        gid = _group(group_name, group)
    return User(uid, gid, home if home.startswith("/") else None)


def _group(name: str, group: str) -> int:
    row = next((r for r in _rows(group, 3) if r[0] == name), None)
    gid = int(row[2]) if row else _id(name)
    if gid is None:
        raise LaunchError(f"--user: there is no group {one_line(name)} in /etc/group of its root")
    return gid
