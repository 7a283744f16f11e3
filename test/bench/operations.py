# SPDX-License-Identifier: MIT
"""What basic operations cost: test/user/ops.c on a processor node and as process 1 of a Linux
guest.

Operations that wait for nobody are counted in instructions (-icount shift=0: the guest's clock
shows one nanosecond an instruction); those that need another node, or a second thread of time, in
time.
"""

from __future__ import annotations

import re
import statistics
import subprocess

import boot
from reference import image as reference_image

LINUX_LIMIT_S = 240
NO_NET = ("--net", "none")  # as the Linux guest
COUNTED = ("null", "clock", "read1", "fault", "map", "pipe", "switch")
TIMED = ("fork", "exec", "thread")
GOALS = {"null": 0.25, "clock": 0.9, "read1": 0.4, "fault": 0.25, "map": 1.0, "pipe": 0.25,
         "switch": 0.4, "fork": 0.5, "exec": 0.5}  # fmt: skip
MUSTS = {"null": 0.28, "clock": 1.0, "read1": 0.5, "fault": 0.33, "pipe": 0.32, "switch": 0.5}
NAMES = {
    "null": "null system call",
    "clock": "clock_gettime (vDSO)",
    "read1": "read of 1 byte (/dev/zero)",
    "fault": "first touch of a page (p-local)",
    "map": "mmap, touch and munmap of 64 KiB",
    "pipe": "pipe round trip between two processes",
    "switch": "yield to another thread",
    "fork": "fork, exit, wait",
    "exec": "fork, exec, exit, wait",
    "thread": "thread create and join",
}


def parse(text: bytes) -> dict[str, float]:
    return {m[1].decode(): float(m[2]) for m in re.finditer(rb"^(\w+) (\d+)\r?$", text, re.M)}


def linux_guest(kernel, initrd, icount: bool) -> dict[str, float]:
    """All operations in one guest, from its serial line."""
    command = [
        "qemu-system-x86_64", "-nodefaults", "-no-reboot", "-display", "none",
        "-accel", "tcg,thread=single", "-cpu", "max,-erms,-fsrm", "-m", "512M", "-M", "pc",
        "-kernel", kernel, "-initrd", initrd, "-serial", "stdio",
        "-append", "console=ttyS0 quiet panic=-1 no_timer_check",
        *(["-icount", "shift=0,sleep=off"] if icount else []),
    ]  # fmt: skip
    child = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, timeout=LINUX_LIMIT_S
    )
    if b"ops done" not in child.stdout:
        raise RuntimeError(f"the Linux guest did not finish: {child.stdout[-300:]!r}")
    return parse(child.stdout)


def initrd(work, program):
    """An initial RAM disk whose /init is the program."""
    kernel, _ = reference_image.build(
        boot.BUILD / "reference" / "packages", boot.BUILD / "reference" / "image"
    )
    path = work / "ops.initrd"
    path.write_bytes(reference_image.cpio({"init": program.read_bytes(), "dev": None}))
    return kernel, path


def ours(disk, program, icount: bool, names) -> dict[str, float]:
    args = ("--icount", "processor") if icount else ()
    running = boot.Running((*NO_NET, *args), disk, "bench-ops" + ("-icount" if icount else ""))
    running.up()
    try:
        return parse(running.run([program, *names], limit=LINUX_LIMIT_S).checked())
    finally:
        running.close()


def messages(disk, program) -> dict[str, float]:
    """RPC requests that the processor sends for one operation, the first ones left out."""
    running = boot.Running(NO_NET, disk, "bench-ops-messages")
    running.up()
    out = {}
    try:
        for name, batch in (("fork", 20), ("exec", 10), ("map", 100)):
            running.run([program, name]).checked()
            before = running.stats()
            running.run([program, name]).checked()
            after = running.stats()
            operations = batch * 12
            # The program's own start and end are in it; they are few beside the operations.
            out[name] = boot.delta(before, after, "p0", "rpc.requests") / operations
    finally:
        running.close()
    return out


def measure(disk, programs, repeat: int, row) -> list:
    """Rows made by row(name, unit, value, baseline, what, goal, raw)."""
    program = programs / "glibc-static" / "ops"
    work = boot.BUILD / "bench"
    work.mkdir(parents=True, exist_ok=True)
    kernel, ramdisk = initrd(work, program)
    rows = []
    counted, linux_counted = ours(disk, program, True, COUNTED), linux_guest(kernel, ramdisk, True)
    for name in COUNTED:
        rows.append(row(NAMES[name], "instr.", counted[name], linux_counted[name],
                        "a Linux guest, -icount", GOALS.get(name),
                        must=MUSTS.get(name)))  # fmt: skip
    timed: dict[str, list[float]] = {n: [] for n in TIMED}
    linux: dict[str, list[float]] = {n: [] for n in TIMED}
    for _ in range(repeat):
        for table, got in ((timed, ours(disk, program, False, TIMED)),
                           (linux, linux_guest(kernel, ramdisk, False))):  # fmt: skip
            for name in TIMED:
                table[name].append(got[name] / 1000)
    for name in TIMED:
        rows.append(row(NAMES[name], "µs", statistics.median(timed[name]),
                        statistics.median(linux[name]),
                        "a Linux guest", GOALS.get(name),
                        {"ours": timed[name], "linux": linux[name]}))  # fmt: skip
    for name, count in messages(disk, program).items():
        rows.append(row(f"messages of the processor: {NAMES[name]}", "", count, None, ""))
    return rows
