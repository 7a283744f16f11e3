#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Run the in-kernel tests of each role in QEMU and read their TAP: two roles at a time
where they have one CPU.

usage: run-ktest.py [--roles 'processor memory storage'] [--filter GLOB] [--cpus N] [--limit S]

O names the build directory. Exit status 0 only when every role ran all the cases that it announced,
none failed, and nothing in the log complains.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "launcher"))

from tessera_launcher import accel, packages  # noqa: E402
from tessera_launcher.errors import LaunchError  # noqa: E402

# Of warnings those of WARN_ON(); "warning:" is a level of the log.
BAD_LINE = re.compile(r"panic|UBSAN|KASAN|BUG:|(?-i:WARNING:)", re.IGNORECASE)
CASE = re.compile(r"^(not ok|ok) (\d+) (\S+)( # SKIP)?")
PANIC_IS_OVER = "end of panic"
SCRATCH = b"tessera scratch disk"  # drivers/block/disk_test.c writes to no other
PASS_STATUS = 1  # machine_poweroff(0) through isa-debug-exit


def boot(kernel: pathlib.Path, glob: str, cpus: int, limit: float) -> tuple[int | None, str]:
    """QEMU's exit status (None: it hung) and the serial log."""
    qemu = packages.require("qemu-system-x86_64")[0]
    with tempfile.TemporaryDirectory(prefix="tessera-ktest-") as where:
        log = os.path.join(where, "serial.log")
        disks = [os.path.join(where, f"disk{i}.img") for i in range(2)]
        for path in disks:
            with open(path, "wb") as f:
                f.write(SCRATCH)
                f.truncate(16 << 20)
        command = [
            qemu, "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
            "-M", "pc", "-accel", "tcg,thread=multi", "-cpu", accel.TCG_CPU,
            "-smp", str(cpus),
            "-m", "512M", "-kernel", str(kernel), "-append", f"ktest={glob}",
            "-serial", f"file:{log}", "-device", "isa-debug-exit,iobase=0xf4,iosize=4",
            "-drive", f"if=none,id=disk0,format=raw,file={disks[0]},discard=unmap",
            "-device", "virtio-blk-pci,disable-legacy=on,drive=disk0",
            "-drive", f"if=none,id=disk1,format=raw,file={disks[1]},discard=unmap",
            "-device", "nvme,serial=scratch,drive=disk1,logical_block_size=4096,"
                       "physical_block_size=4096",
        ]  # fmt: skip
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE) as process:  # fmt: skip
            status = outcome(process, log, limit)
            process.kill()
            text = process.communicate()[1].decode(errors="replace")
        return status, text + content(log)


def content(log: str) -> str:
    if not os.path.exists(log):
        return ""
    with open(log, errors="replace") as f:
        return f.read()


def outcome(process: subprocess.Popen, log: str, limit: float) -> int | None:
    """QEMU's exit status; None: it hangs, as a kernel does after a panic, which is not waited for.
    """
    until = time.monotonic() + limit
    while time.monotonic() < until:
        try:
            return process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            if PANIC_IS_OVER in content(log):
                return None
    return None


def verdict(role: str, cpus: int, status: int | None, text: str) -> tuple[int, list[str]]:
    """How many cases passed, and everything that is wrong."""
    lines = text.splitlines()
    plan = next((int(line[3:]) for line in lines if re.fullmatch(r"1\.\.\d+", line)), None)
    cases = [m for m in map(CASE.match, lines) if m]
    wrong = []
    for i, m in enumerate(cases):
        if m[1] == "not ok":
            # The messages of the case stand before its line.
            start = lines.index(m.string)
            said = [line for line in lines[max(0, start - 6) : start] if line.startswith("#")]
            wrong.append("\n".join([*said, m.string]))
        if int(m[2]) != i + 1:
            wrong.append(f"case {m[2]} where {i + 1} was due")
    if plan is None:
        wrong.append("no TAP plan: the kernel did not get to its tests")
    elif plan == 0:
        wrong.append("no case matches")
    elif len(cases) != plan:
        wrong.append(f"{len(cases)} of {plan} cases ran, QEMU ended with status {status}")
    wrong += [line for line in lines if BAD_LINE.search(line) and not CASE.match(line)]
    if cpus > 1 and not re.search(rf"smp: {cpus} CPUs after ", text):
        wrong.append(f"not all of {cpus} CPUs came up")
    if status is None:
        wrong.append("hung")
    elif status != PASS_STATUS and not wrong:
        wrong.append(f"QEMU ended with status {status}")
    if wrong and (plan is None or status is None or len(cases) != plan):
        wrong += ["the log ends with:", *lines[-40:]]
    return sum(m[1] == "ok" for m in cases), [f"{role}: {w}" for w in wrong]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--roles", default="processor memory storage")
    parser.add_argument("--filter", default="*")
    parser.add_argument("--cpus", type=int, default=1)
    parser.add_argument("--limit", type=float, default=240.0, help="seconds for one role")
    args = parser.parse_args()
    build = pathlib.Path(os.environ.get("O") or ROOT / "build").resolve()
    passed, wrong = 0, []

    def run(role):
        kernel = build / role / "kernel.elf"
        if not kernel.exists():
            return 0, [f"{role}: {kernel} is missing: run make"]
        return verdict(role, args.cpus, *boot(kernel, args.filter, args.cpus, args.limit))

    roles = args.roles.split()
    with concurrent.futures.ThreadPoolExecutor(max_workers=2 if args.cpus == 1 else 1) as pool:
        for role, (count, found) in zip(roles, pool.map(run, roles), strict=True):
            print(f"{role}: {count} ok" + (f", {len(found)} problems" if found else ""))
            passed += count
            wrong += found
    for line in wrong:
        print(line)
    print(f"kernel tests: {passed} passed, {len(wrong)} failed")
    return 1 if wrong else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except LaunchError as err:
        sys.exit(f"run-ktest: {err}")
