# SPDX-License-Identifier: MIT
"""/etc/hosts, /etc/hostname and /etc/resolv.conf of a tree: the cluster's, whatever the tree says.

A tree or container image was made for another machine: its name servers are not reached from here,
and its host name is not ours. So the private copy that programs get has these files of our own,
also where the tree has a link, or nothing. The tree itself is not touched, and an image that is
made of the root (--commit) has the tree's own files again, as `docker commit` keeps none of these.

Trust: resolv.conf of the host is read for names only, and what is no name is left out.
"""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import posixpath
import re

from .errors import LaunchError
from .ext4files import Files

HOSTNAME = "tessera"  # as uname() tells it
USER_DNS = "10.0.2.3"  # QEMU's user network, which asks the host's own
HOST_RESOLV = "/etc/resolv.conf"
HOST_HOSTS = "/etc/hosts"
MAX_SERVERS, MAX_SEARCH = 3, 6  # the C library reads no more
_DOMAIN = re.compile(r"[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*\.?")

_HOSTS = f"""\
127.0.0.1\tlocalhost
::1\tlocalhost ip6-localhost ip6-loopback
ff02::1\tip6-allnodes
ff02::2\tip6-allrouters
127.0.1.1\t{HOSTNAME}
"""


def contents(net: str, resolv: str, hosts: str = "") -> dict[str, str]:
    """Path -> text, for a cluster with --net @net on a host whose resolv.conf is @resolv. @hosts: a
    file of names that is kept, and has the cluster's own added.
    """
    return {"/etc/hosts": _with_own_name(hosts) if hosts else _HOSTS,
            "/etc/hostname": f"{HOSTNAME}\n",
            "/etc/resolv.conf": resolver(net, resolv)}  # fmt: skip


def _with_own_name(hosts: str) -> str:
    names = [line.split("#")[0].split()[1:] for line in hosts.splitlines()]
    if any(HOSTNAME in words for words in names):
        return hosts
    return hosts + ("" if hosts.endswith("\n") else "\n") + f"127.0.1.1\t{HOSTNAME}\n"


def resolver(net: str, resolv: str) -> str:
    """Name servers that the cluster reaches, and where the host looks for short names."""
    if net == "none":
        return "# no network (--net)\n"
    servers = [USER_DNS] if net == "user" else _servers(resolv)
    lines = [f"nameserver {s}" for s in servers] or [
        "# every name server of the host is its own, which the cluster does not reach"
    ]
    search = _search(resolv)
    return "\n".join([*lines, *(["search " + " ".join(search)] if search else [])]) + "\n"


def _words(resolv: str, *keys: str) -> list[list[str]]:
    """What follows one of @keys, for each line."""
    lines = (line.split() for line in resolv.splitlines())
    return [words[1:] for words in lines if words and words[0] in keys]


def _servers(resolv: str) -> list[str]:
    found = []
    for words in _words(resolv, "nameserver"):
        try:
            address = ipaddress.ip_address(words[0] if words else "")
        except ValueError:
            continue
        if not (address.is_loopback or address.is_link_local or address.is_unspecified):
            found.append(str(address))
    return found[:MAX_SERVERS]


def _search(resolv: str) -> list[str]:
    last = (_words(resolv, "search", "domain") or [[]])[-1]
    return [w for w in last if len(w) <= 253 and _DOMAIN.fullmatch(w)][:MAX_SEARCH]


def read_host(path: str) -> str:
    """A file of the host, with what is no UTF-8 escaped; "": it has none."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as f:
            return f.read()
    except OSError:
        return ""


def digest(texts: dict[str, str]) -> str:
    return hashlib.sha256(repr(sorted(texts.items())).encode()).hexdigest()[:16]


def without(texts: dict[str, str], brought: list[str]) -> dict[str, str]:
    """Those that do not lie at one of the places @brought, by their names."""
    places = [posixpath.normpath("/" + b.lstrip("/")) for b in brought]
    return {path: text for path, text in texts.items() if not _in_one(path, places)}


def _in_one(path: str, places: list[str]) -> bool:
    return any(path == p or path.startswith(p.rstrip("/") + "/") for p in places)


def supply(files: Files, texts: dict[str, str], brought: list[str] | None = None) -> dict:
    """Put them into a new image. What was there, for restore(); what is neither file nor link, or
    could not be restored, stays as it is. So does what --volume or --rw has put at one of the
    places @brought, and a link that leads there.
    """
    before = {}
    places = [found for b in brought or [] if (found := files.resolve(b))]
    if files.kind("/etc") is None:
        files.make_directory("/etc")
    if files.kind("/etc") != "directory":
        return {}
    for path, text in sorted(texts.items()):
        there = files.kind(path)
        if there not in (None, "regular", "symlink"):
            continue
        found = files.resolve(path) if there and places else None
        if found and _in_one(found, places):
            continue
        was = _described(files, path) if there else None
        if there and was is None:
            continue
        before[path] = was
        files.put(path, text.encode(), 0o644, (0, 0))
    return before


def _described(files: Files, path: str) -> dict | None:
    taken = files.take(path)
    if taken is None:
        return None
    data = taken.pop("data", None)
    return taken if data is None else taken | {"data": base64.b64encode(data).decode()}


def restore(files: Files, before: dict) -> list[str]:
    """The tree's own files, in place of whatever files and links are there now. A line for each
    path where that cannot be: what programs have made of it stays.
    """
    trouble = []
    for path, was in sorted(before.items()):
        try:
            _restore_one(files, path, was)
        except OSError as err:
            trouble.append(f"{path}: {err.strerror}")
        except LaunchError as err:
            trouble.append(f"{path}: {err}")
    return trouble


def _restore_one(files: Files, path: str, was: dict | None) -> None:
    where = posixpath.dirname(path)
    if files.kind(where) != "directory":  # debugfs would write to the root
        if was is None:
            return
        raise LaunchError(f"{where} is no directory any more")
    if files.kind(path) not in (None, "regular", "symlink"):
        raise LaunchError("has become something else")
    if was is None:
        files.remove(path)
    elif "link" in was:
        files.put_link(path, was["link"], tuple(was["owner"]))
    else:
        files.put(path, base64.b64decode(was["data"]), was["mode"], tuple(was["owner"]))
