# SPDX-License-Identifier: MIT
"""`./tessera doctor`: checks this host, and says what works on it.

One line for each check: ok, or "no" with what is lost and what to do; nothing is installed or
built. The exit status is 0 when `./tessera run` can work, and 1 when it cannot.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator

from . import accel, fabric, packages
from .errors import LaunchError, one_line
from .host import SHM, Host
from .options import ROLES, Options
from .plan import ENTROPY

MIN_PYTHON = (3, 11)
LEAST_RAM = 1 << 30  # what a run with the defaults takes
LEAST_SPACE = 256 << 20
NET = "--net user (the default) and --publish"

# A check: does it go, must it, and a line.
Finding = tuple[bool, bool, str]


def run() -> int:
    side = Host(Options())
    works, how = True, ""
    for good, must, text in _findings(side):
        print(f"{'ok' if good else 'NO' if must else 'no':<4}{one_line(text)}", flush=True)
        works = works and (good or not must)
        how = how if good or not text.startswith(NET) else " with --net none"
    print(f"./tessera run works on this host{how}" if works else
          "./tessera run does not work on this host yet: see the lines with NO")  # fmt: skip
    return 0 if works else 1


def _findings(side: Host) -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    yield sys.version_info >= MIN_PYTHON, True, f"Python {version} (3.11 or later)"
    yield _machine()
    for name, what in (("make", "builds Tessera"), ("gcc", "builds Tessera"),
                       ("mke2fs", "makes root file systems"),
                       ("debugfs", "run --output, cp"), ("e2fsck", "fsck, run --output, cp"),
                       ("zstd", "images with layers packed by zstd")):  # fmt: skip
        yield _program(name, what, name == "mke2fs")
    qemu = packages.find("qemu-system-x86_64")
    yield _program("qemu-system-x86_64", "the machines", True)
    built = [os.path.isfile(p) for p in (*side.kernels(), side.hca)]
    yield all(built), not packages.find("make"), (
        f"built: the kernels of {', '.join(ROLES)} and the HCA model in {side.build_dir}"
        + ("" if all(built) else ": run builds them")
    )
    if qemu:
        yield from _machines(side, qemu)
        yield _entropy(qemu)
    yield _memory()
    yield _space(SHM, "the run's directory; without it, the temporary directory")
    yield _space(tempfile.gettempdir(), "the run's directory where /dev/shm is too small")
    yield _net(qemu)
    yield _terminal()


def _machine() -> Finding:
    name = os.uname()
    return (name.sysname, name.machine) == ("Linux", "x86_64"), True, (
        f"{name.sysname} {name.release} on {name.machine} (Linux on x86_64)"
    )


def _program(name: str, what: str, must: bool) -> Finding:
    path = packages.find(name)
    return bool(path), must, (
        f"{name}: {path}" if path else f"{name} is missing ({what}): apt-get install "
        f"{packages.PACKAGES.get(name, name)}"
    )


def _machines(side: Host, qemu: str) -> Iterator[Finding]:
    """KVM, and how the HCA model attaches to QEMU; both by trying."""
    chosen = accel.choose("auto", qemu, os.path.join(side.build_dir, "accel.json"))
    why = "a trial of it passed"
    if not os.path.exists("/dev/kvm"):
        why = "there is no /dev/kvm: machines are emulated (TCG), which is slower"
    elif not os.access("/dev/kvm", os.R_OK | os.W_OK):
        why = "/dev/kvm may not be used (group kvm?): machines are emulated (TCG)"
    elif chosen == "tcg":
        why = "a trial of it was too slow or failed: machines are emulated (TCG)"
    yield chosen == "kvm", False, f"KVM: {why}"
    if not os.path.isfile(side.hca):
        yield False, False, "fabric: the HCA model is not built, so it was not tried"
        return
    try:
        choice = fabric.choose("auto", qemu, side.hca, chosen,
                               os.path.join(side.build_dir, "fabric.json"), False)  # fmt: skip
        yield True, True, choice.text()
    except LaunchError as err:
        yield False, True, str(err)


def _memory() -> Finding:
    with open("/proc/meminfo") as f:
        found = re.search(r"MemAvailable: +([0-9]+) kB", f.read())
    free = int(found[1]) << 10 if found else 0
    return free >= LEAST_RAM, False, (
        f"memory: {free >> 20} MiB available (a run takes up to {LEAST_RAM >> 20})"
    )


def _space(path: str, what: str) -> Finding:
    try:
        st = os.statvfs(path)
        free = st.f_bavail * st.f_frsize if os.access(path, os.W_OK) else 0
    except OSError:
        free = 0
    return free >= LEAST_SPACE, False, f"{path}: {free >> 20} MiB free ({what})"


def _net(qemu: str | None) -> Finding:
    good = bool(qemu) and "\nuser" in accel.list_of(qemu, "-netdev")
    why = "" if good else ": QEMU has no user network, so run and up need --net none or tap:NAME"
    return good, False, NET + why


def _entropy(qemu: str) -> Finding:
    good = f'name "{ENTROPY}"' in accel.list_of(qemu, "-device")
    why = "" if good else " is missing: random numbers are seeded by the launcher and the CPU alone"
    return good, False, f"QEMU's {ENTROPY}{why}"


def _terminal() -> Finding:
    good = os.isatty(0)
    return good, False, "run -t" + ("" if good else ": standard input is no terminal now")
