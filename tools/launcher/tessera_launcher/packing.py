# SPDX-License-Identifier: MIT
"""What a host program needs beside what its ELF headers name.

- A script needs its interpreter, and that one's interpreter; with `#!/usr/bin/env NAME`, NAME too.
- A shell runs other programs: the usual utilities come along.
- Libraries load others by dlopen: the C library libgcc_s (to cancel threads), the modules of its
  name services and of its character sets; stdbuf preloads one. The names of functions in the
  string tables of a program and its libraries tell which of them can be wanted.
"""

from __future__ import annotations

import glob
import os
import re
import shutil

from . import elf
from .errors import LaunchError

# Those of them that the host has, beside a shell, and for ./tessera up without names.
UTILITIES = (
    "awk basename bash busybox cat chmod cksum cmp comm cp cut date dd df diff dirname du echo env"
    " expand expr factor false find fold free grep gunzip gzip head hostname id join kill ln ls"
    " md5sum mkdir mkfifo mktemp mv nl nproc numfmt od paste pathchk pr printenv printf ps pwd"
    " readlink realpath rm rmdir sed seq sh sha1sum sha256sum sha512sum shuf sleep sort split stat"
    " stty sum sync tac tail tar tee test timeout top touch tr true truncate tsort tty uname"
    " unexpand uniq uptime wc whoami xargs yes"
).split()
SHELLS = ("ash", "bash", "dash", "ksh", "mksh", "sh", "yash", "zsh")
SCRIPT_LINE = 256  # the kernel reads no more of one
SCRIPT_DEPTH = 4
NSSWITCH = "/etc/nsswitch.conf"
NAME_FILES = (NSSWITCH, "/etc/passwd", "/etc/group", "/etc/hosts", "/etc/services",
              "/etc/protocols", "/etc/host.conf")  # fmt: skip
NSS_SERVICES = ("compat", "db", "dns", "files")  # the others ask daemons of the host
STDBUF = ("/usr/libexec/coreutils/libstdbuf.so", "/usr/lib/coreutils/libstdbuf.so")

_CANCELS = (b"pthread_cancel", b"pthread_exit", b"backtrace", b"_Unwind_Backtrace")
_CONVERTS = (b"iconv_open",)
_NAMES = tuple(
    b"getpwnam getpwuid getpwnam_r getpwuid_r getpwent getgrnam getgrgid getgrnam_r getgrgid_r"
    b" getgrent getgrouplist initgroups getaddrinfo getnameinfo gethostbyname gethostbyname_r"
    b" gethostbyaddr getservbyname getservbyport getprotobyname".split()
)


def utilities() -> list[str]:
    """The paths of those that the host has."""
    return [path for path in map(shutil.which, UTILITIES) if path]


def script_words(path: str) -> list[str] | None:
    """A script's interpreter, and its argument if there is one; None: @path is no script."""
    try:
        with open(path, "rb") as f:
            line = f.read(SCRIPT_LINE).split(b"\n")[0]
    except OSError:
        return None
    words = os.fsdecode(line[2:].strip()).split(None, 1) if line.startswith(b"#!") else []
    return words or None


def _missing(path: str, what: str) -> LaunchError:
    err = LaunchError(f"{path}: its interpreter {what} is missing on this host")
    err.status = 127
    return err


def interpreters(path: str) -> list[str]:
    """The host's programs by which the script @path runs; [] for what is none."""
    out: list[str] = []
    for _ in range(SCRIPT_DEPTH):
        words = script_words(path)
        if not words:
            break
        if not os.path.isfile(words[0]):
            raise _missing(path, words[0])
        out.append(words[0])
        if os.path.basename(words[0]) == "env":
            named = _named_by_env(words[1] if len(words) > 1 else "")
            if named:
                found = shutil.which(named)
                if not found:
                    raise _missing(path, named)
                out.append(found)
        path = out[-1]
    return out


def _named_by_env(argument: str) -> str | None:
    """`env NAME`, and `env -S NAME ARGUMENT`."""
    words = argument.removeprefix("-S").split() if argument.startswith("-S") else [argument]
    return next((w for w in words if w and not w.startswith("-") and "=" not in w), None)


def is_shell(path: str) -> bool:
    return os.path.basename(path) in SHELLS


def loaded_later(program: str, libraries: list[str], named: bool = True) -> list[str]:
    """Files that glibc or @program may open once it runs. @libraries: its closure. What only comes
    along (not @named), and shells, go without the hundreds of character sets: they want them in
    locales that nothing sets.
    """
    if not any(os.path.basename(p) == "libc.so.6" for p in libraries):
        return []
    wanted: set[bytes] = set()
    for path in (program, *libraries):
        if not re.match(r"(libc|ld-linux-x86-64)\.so", os.path.basename(path)):
            wanted |= _names_in(path)
    out: list[str] = []
    if wanted.intersection(_CANCELS):
        out += _library("libgcc_s.so.1")
    if wanted.intersection(_NAMES):
        out += _name_services()
    if wanted.intersection(_CONVERTS) and named and not is_shell(program):
        out += _character_sets()
    if os.path.basename(program) == "stdbuf":
        out += [p for p in STDBUF if os.path.isfile(p)]
    return out


def _names_in(path: str) -> set[bytes]:
    try:
        return set(elf.read(path).strings.split(b"\0"))
    except (elf.NotElf, OSError):
        return set()


def _library(name: str) -> list[str]:
    found = elf.Finder("", []).find(name, [elf.Image("")])
    return [found] if found else []


def _name_services() -> list[str]:
    """The files that glibc's name services read, and those of their modules that are files."""
    out = [p for p in NAME_FILES if os.path.isfile(p)]
    try:
        with open(NSSWITCH, errors="replace") as f:
            words = re.findall(r"[a-z]+", re.sub(r"#.*", "", f.read()))
    except OSError:
        words = []
    for service in NSS_SERVICES:
        if service in words:
            out += _library(f"libnss_{service}.so.2")
    return out


def _character_sets() -> list[str]:
    out: list[str] = []
    for directory in elf.GLIBC_DIRS:
        out += [p for p in glob.glob(f"{directory}/gconv/**", recursive=True) if os.path.isfile(p)]
    return out
