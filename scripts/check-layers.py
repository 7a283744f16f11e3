#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Check that #includes follow the layers, and that shared code does not ask for its role.

Layers, lowest first: lib; arch; kernel, mm; drivers; net, fs; monitors/proto; monitors/ctl,
monitors/cluster; monitors/* and managers. The rules:

  - a header includes only its own layer or a lower one; so does a .c file, except that arch/ may
    call up into kernel/ and mm/;
  - a monitor never includes another monitor's headers, and managers never a monitor's;
  - a quoted include stays in its own folder; a public header <x/y.h> exists under some x;
  - the headers of a monitor that is divided into modules lie with them: <processor/mm/aspace.h> is
    monitors/processor/mm/aspace.h.  x_private.h is for its own module alone; a module includes its
    own headers by quotes;
  - monitors/processor has layers inside, lowest first: account, client; excache; mm, vdso;
    process; vfs, ipc, socket, signal, tty, tmpfs, procfs; syscall.  A module includes its own
    layer or lower ones; UPWARD lists the exceptions with their reasons.  excache/ is told what
    managers/ decide;
  - the protocols stay at the edge of monitors/processor: only the files of EDGE include <proto/...>
    or name what is declared there, comments included, and only they include the headers of
    EDGE_HEADERS;
  - lwIP's headers are for net/lwip alone: see THIRD_PARTY;
  - the C library's headers are used only where __TESSERA_HOST__ is defined;
  - only monitors/<role>/ may test CONFIG_ROLE_*, beside Kconfig and the makefiles on top;
  - a .c file includes its own header first.
"""

import argparse
import fnmatch
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from treefiles import kernel_folder, source_files  # noqa: E402

RANK = {
    "lib": 0,
    "arch": 1,
    "kernel": 2,
    "mm": 2,
    "drivers": 3,
    "net": 4,
    "fs": 4,
    "monitors/proto": 5,
    "monitors/ctl": 6,
    "monitors/cluster": 6,
    "monitors": 7,
    "managers": 7,
}
# The modules of monitors/processor; what lies in its own folder (main.c) is above them all.
MODULE_RANK = {
    "account": 0,
    "client": 0,
    "excache": 1,
    "mm": 2,
    "vdso": 2,
    "process": 3,
    "vfs": 4,
    "ipc": 4,
    "ns": 4,
    "socket": 4,
    "signal": 4,
    "tty": 4,
    "tmpfs": 4,
    "procfs": 4,
    "syscall": 5,
}
# (files of the including module, header): these may look up.
UPWARD = {
    # Every module defines the handlers of its own system calls; this declares them all.
    ("*/*", "syscall/syscall.h"),
    # An evicted line leaves the page tables that map it, under locks that are in struct aspace.
    ("excache/*", "mm/aspace.h"),
    # mmap and its kin act for the calling process, and on its files.
    ("mm/*_calls.c", "process/process.h"),
    ("mm/*_calls.c", "vfs/file.h"),
    # A process has files, a working directory, signals and a terminal, which end with it.
    ("process/*", "vfs/file.h"),
    ("process/*", "vfs/path.h"),
    ("process/*", "vfs/uio.h"),
    ("process/*", "signal/signal.h"),
    ("process/*", "tty/tty.h"),
    # A task has namespaces.
    ("process/*", "ns/ns.h"),
    # Its credentials are of one of users, and its capabilities count there.
    ("process/*", "ns/user_ns.h"),
    # A task that ends, or leaves others, takes back what it did to semaphores.
    ("process/clone.c", "ipc/sysv.h"),
    ("process/unshare.c", "ipc/sysv.h"),
    # The words that a thread names at its end (CLONE_CHILD_CLEARTID, robust lists) wake waiters.
    ("process/exit.c", "ipc/futex.h"),
    # Delivered signals are part of a trace.
    ("signal/deliver.c", "syscall/strace.h"),
}
# Files of monitors/processor that encode and decode messages: all others have types of their own.
EDGE = {
    # Requests to storage nodes, those to memory nodes that are about no space, and theirs.
    "client/*",
    # Pages to and from their owners: the buffers are filled from lines, in place, as a fetch or a
    # write-back must not be copied once more.  excache/ lies above client/, so it stays there.
    "excache/owner.c",
    # The home of a space: what it answers is entered into objects, which client/ lies below.
    "excache/home.c",
    "excache/home_wire.h",
    # The same for layouts: the answers are entered into address spaces.
    "mm/remote.c",
    # Bytes of sockets to and from other processors: client/ lies below sockets, and the bytes are
    # not copied once more.
    "socket/remote_net.c",
    # Those of AF_UNIX: who connects to whom, and headers that lie among the bytes.
    "socket/unix_remote_net.c",
    "socket/unix_far_net.c",
    "socket/remote_records.c",
    # The same of datagrams, and what the gateway is told.
    "socket/gateway_net.c",
}
# Headers that show the protocols to more than one of these files.
EDGE_HEADERS = {"processor/client/convert.h", "processor/excache/home_wire.h"}
PROTOCOL_NAME = re.compile(r"\b(?:PM|pm|PS|ps|MP|mp|PG|pg|PP|pp|PROTO|proto)_\w+")
ROLES = {"processor", "memory", "storage"}
# Folders that see third-party headers: lwIP's, and what it wants of a C library.
THIRD_PARTY = {
    "net/lwip": ("lwip/", "netif/", "lwip_hooks.h", "stdlib.h"),
    "net/lwip/port": ("string.h", "stdlib.h"),
}
# Headers that a freestanding compiler provides itself.
FREESTANDING = {"stdarg.h", "stdbool.h", "stddef.h", "stdint.h", "limits.h"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[>"]')
CONDITION = re.compile(r"^\s*#\s*(if|ifdef|ifndef|elif|else|endif)\b(.*)")
ROLE_TEST = re.compile(r"\bCONFIG_ROLE_(?:PROCESSOR|MEMORY|STORAGE)\b")


def layer_of(path):
    """The layer that a file or folder belongs to."""
    parts = path.parts
    if parts[0] == "monitors" and len(parts) > 1 and parts[1] in ("proto", "ctl", "cluster"):
        return "/".join(parts[:2])
    return parts[0]


def role_of(path):
    """The monitor whose own folder this is in, or None."""
    parts = path.parts
    return parts[1] if parts[0] == "monitors" and len(parts) > 1 and parts[1] in ROLES else None


def public_prefixes(files):
    """Which folder each <prefix/...> comes from."""
    prefixes = {}
    for f in files:
        parts = f.parts
        if kernel_folder(f) and "include" in parts[:-2]:
            at = parts.index("include")
            prefixes.setdefault(parts[at + 1], pathlib.Path(*parts[:at]))
    for f in files:
        if f.suffix == ".h" and role_of(f) and len(f.parts) == 4:
            prefixes.setdefault(f.parts[1], pathlib.Path(*f.parts[:2]))
    return prefixes


class HostOnly:
    """Follows #if lines: is the current line compiled for the host only?"""

    def __init__(self):
        self.stack = []

    def feed(self, line):
        m = CONDITION.match(line)
        if not m:
            return
        word, rest = m.groups()
        host = "__TESSERA_HOST__" in rest
        if word in ("if", "ifdef", "ifndef"):
            negated = word == "ifndef" or "!" in rest
            self.stack.append((host, host and not negated))
        elif word in ("elif", "else") and self.stack:
            about_host, now = self.stack.pop()
            self.stack.append((about_host, about_host and not now))
        elif word == "endif" and self.stack:
            self.stack.pop()

    def __bool__(self):
        return any(now for _, now in self.stack)


def own_header(path, files):
    """The header that must come first in this .c file, as it is written there, or None."""
    if path.name.endswith(("_test.c", "_fuzz.c")):
        return None
    private = [path.stem + "_private.h"] if role_of(path) else []
    for name in (path.stem + ".h", *private):
        if path.with_name(name) in files:
            return f'"{name}"'
    for folder in path.parents:
        include = folder / "include" / folder.name / (path.stem + ".h")
        if include in files:
            return f"<{folder.name}/{path.stem}.h>"
    return None


def check_include(path, quote, inc, prefixes, host_only):
    """What is wrong with this include, or None."""
    layer = layer_of(path)
    limit = RANK[layer]
    if layer == "arch" and path.suffix != ".h":
        limit = max(limit, RANK["kernel"])

    if quote == '"':
        return "a quoted include stays in its own folder" if "/" in inc else None
    if inc.startswith(THIRD_PARTY.get(path.parent.as_posix(), ())):
        return None
    prefix = inc.split("/")[0]
    if "/" not in inc or (prefix not in prefixes and prefix != "generated"):
        if inc in FREESTANDING or host_only:
            return None
        return "no such public header; the C library's belong under __TESSERA_HOST__"
    if prefix == "generated":
        return None
    source = prefixes[prefix]
    if RANK[layer_of(source)] > limit:
        return f"{layer}/ may not include {source}/"
    if path.parts[:3] == ("monitors", "processor", "excache") and prefix == "managers":
        return "the ExCache is told what managers/ decide: see struct excache_ops"
    other = role_of(source)
    if other and other != role_of(path):
        return f"only monitors/{other}/ may include its headers"
    return check_module(path, inc) if other else None


def check_module(path, inc):
    """What is wrong with one module of a monitor including <monitor/module/x.h>, or None."""
    if inc.endswith("_private.h"):
        return "a private header: only its own module may include it"
    module, header = path.parts[2], inc.split("/", 1)[1]
    if module == header.split("/")[0]:
        return "a module includes its own headers by quotes"
    return check_module_rank(path, module, header) if path.parts[1] == "processor" else None


def check_module_rank(path, module, header):
    """What is wrong with the layer of a module that monitors/processor has, or None."""
    if len(path.parts) < 4:
        return None
    for name in (module, header.split("/")[0]):
        if name not in MODULE_RANK:
            return f"monitors/processor/{name} has no layer: see MODULE_RANK"
    if MODULE_RANK[header.split("/")[0]] <= MODULE_RANK[module]:
        return None
    name = f"{module}/{path.name}"
    if any(header == h and fnmatch.fnmatch(name, files) for files, h in UPWARD):
        return None
    return f"processor/{module}/ lies below {header.split('/')[0]}/"


def is_edge(path):
    """May this file know the protocols of the memory and storage nodes?"""
    if path.parts[:2] != ("monitors", "processor"):
        return True
    name = "/".join(path.parts[2:])
    return any(fnmatch.fnmatch(name, pattern) for pattern in EDGE)


def check_edge(path, line):
    """What is wrong with a line of a file that may not know the protocols, or None."""
    m = INCLUDE.match(line)
    if m:
        quote, inc = m.groups()
        if quote == '"':
            inc = "/".join((*path.parts[1:-1], inc))
        if inc.startswith("proto/") or inc in EDGE_HEADERS:
            return f"{inc}: the protocols stay at the edge of the processor: see EDGE"
        return None
    m = PROTOCOL_NAME.search(line)
    return f"{m[0]}: the protocols stay at the edge of the processor: see EDGE" if m else None


def check_file(root, path, files, prefixes):
    problems = []
    host_only = HostOnly()
    edge = is_edge(path)
    want_first = own_header(path, files) if path.suffix == ".c" else None
    for n, line in enumerate((root / path).read_text(errors="replace").splitlines(), 1):
        host_only.feed(line)
        m = INCLUDE.match(line)
        if m:
            quote, inc = m.groups()
            why = check_include(path, quote, inc, prefixes, host_only)
            if why:
                problems.append(f"{path}:{n}: {inc}: {why}")
            written = f"<{inc}>" if quote == "<" else f'"{inc}"'
            if want_first and written != want_first:
                problems.append(f"{path}:{n}: include its own header, {want_first}, first")
            want_first = None
        why = None if edge else check_edge(path, line)
        if why:
            problems.append(f"{path}:{n}: {why}")
        if ROLE_TEST.search(line) and not role_of(path):
            problems.append(f"{path}:{n}: shared code may not ask which monitor is being built")
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", default=".", type=pathlib.Path)
    root = parser.parse_args().root

    files = [f for f in source_files(root) if kernel_folder(f)]
    known = set(files)
    prefixes = public_prefixes(files)
    problems = []
    for f in files:
        if f.suffix in (".c", ".h", ".S"):
            problems += check_file(root, f, known, prefixes)
    for p in problems:
        print(p)
    print(f"check-layers: {len(files)} files, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
