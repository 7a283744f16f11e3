# SPDX-License-Identifier: MIT
"""The baseline of `--sweep --beside-linux`: the program in a Linux guest that swaps over a network.

Two QEMUs run Debian's kernel, joined by an Ethernet link: one serves RAM by NBD, the other swaps
to it. A cgroup bounds the program's memory to the same shares of its peak there. The kernel is
that of the HCA model's reference tests (test/reference), downloaded once and not installed.

Failure: what the guests cannot do is a LaunchError of one line with the end of the console's log.
The guests die with this process, and nothing of theirs is in a file: images go by memfd.

Trust: the program is root in its guest and may write anything to the port of commands and to the
console. Answers are bounded and checked; what is shown of them is made printable.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from . import accel, host, image, packages
from .errors import LaunchError, one_line
from .options import Options
from .run import environment, exit_status
from .sweep import PAGE, Row

GUEST = Path(host.ROOT, "tools", "launcher", "guest")
MODULES = ["virtio_pci", "virtio_console", "virtio_net", "nbd"]
APPEND = ("console=ttyS0 quiet panic=-1 no_timer_check clocksource=tsc tsc=reliable "
          "mitigations=off random.trust_cpu=on transparent_hugepage=never")  # fmt: skip
BOOT_S = 120.0
COMMAND_S = 60.0
MIN_RAM_MIB = 512
MAX_ANSWER = 1 << 20  # bytes that a guest says before the end of a command
CONSOLE_END = 1 << 16
IPS = ("10.9.0.1", "10.9.0.2")  # of the guest with the program, of the one with the memory


def _reference():
    """The modules of test/reference that get packages and write archives."""
    sys.path.insert(0, os.path.join(host.ROOT, "test"))
    try:
        from reference import image as archives
        from reference import packages as debs
    finally:
        sys.path.pop(0)
    return archives, debs


def _kernel(build_dir: str) -> tuple[bytes, dict[str, bytes]]:
    """Debian's kernel, and the guests' files of modules."""
    archives, debs = _reference()
    try:
        deb = debs.fetch_kernel(Path(build_dir, "reference", "packages"))
    except debs.PackageError as err:
        raise LaunchError(f"--beside-linux: no Linux kernel: {err}") from None
    kernel, files = None, {}
    for path, _, body in debs.members(deb, lambda p: p.startswith("boot/vmlinuz") or (
            p.endswith(".ko") and re.search(r"/kernel/(drivers/(char|net|virtio|block)|net|lib)/",
                                            p))):  # fmt: skip
        if path.startswith("boot/"):
            kernel = body
        elif body:
            files[Path(path).stem.replace("-", "_")] = body
    if not kernel:
        raise LaunchError(f"--beside-linux: {deb.name} has no kernel")
    order: list[str] = []
    for module in (m for m in MODULES if m in files):
        order += [m for m in [*archives.needs(module, files), module] if m not in order]
    out = {f"guest/mods/{m}.ko": files[m] for m in order}
    out["guest/mods/order"] = " ".join(order).encode()
    return kernel, out


def _compiled() -> bytes:
    """guest.c, static: the guests need no library for it."""
    gcc = packages.require("gcc")[0]
    with tempfile.TemporaryDirectory(prefix="tessera-guest-") as where:
        to = os.path.join(where, "guest")
        done = subprocess.run([gcc, "-O2", "-static", "-o", to, str(GUEST / "guest.c")],
                              capture_output=True, text=True)  # fmt: skip
        if done.returncode:
            lines = done.stderr.strip().splitlines() or ["gcc failed"]
            raise LaunchError(f"--beside-linux: guest.c: {lines[-1]}")
        return Path(to).read_bytes()


def _files_below(where: str) -> dict[str, bytes | str | None]:
    """A folder as archives.cpio() takes it."""
    out: dict[str, bytes | str | None] = {}
    for folder, names, files in os.walk(where):
        for name in [*names, *files]:
            path = os.path.join(folder, name)
            inside = os.path.relpath(path, where)
            if os.path.islink(path):
                out[inside] = os.readlink(path)
            elif os.path.isdir(path):
                out[inside] = None
            elif os.path.isfile(path):
                out[inside] = Path(path).read_bytes()
    return out


def _program_files(o: Options) -> dict[str, bytes | str | None]:
    """The program, its libraries, volumes: what the cluster's root file system has."""
    with tempfile.TemporaryDirectory(prefix="tessera-guest-") as where:
        stage = os.path.join(where, "root")
        if o.rootfs:
            shutil.copytree(o.rootfs, stage, symlinks=True)
        else:
            os.mkdir(stage)
        tree = image.Tree()
        for source, guest in o.volumes:
            tree.add_volume(source, guest)
        if not o.rootfs:
            side = host.Host(o)
            for program in side.host_programs():
                tree.add_program(program, side.library_path())
        tree.stage(stage)
        return _files_below(stage)


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(1, int(signal.SIGKILL), 0, 0, 0)  # PR_SET_PDEATHSIG


def _memfd(name: str, data: bytes) -> int:
    fd = os.memfd_create(name)
    with open(os.dup(fd), "wb") as f:
        f.write(data)
    return fd


class Guest:
    """One QEMU with a Linux guest that takes commands."""

    def __init__(self, qemu: str, accelerator: str, kernel: int, initrd: int, link: int, ip: str,
                 ram_mib: int):  # fmt: skip
        self.ip, self._buffer = ip, b""
        self._console = os.memfd_create("console")
        self._channel, theirs = socket.socketpair()
        fds = [kernel, initrd, link, self._console, theirs.fileno()]
        mac = f"52:54:00:09:01:{int(ip.rpartition('.')[2]):02x}"
        command = [
            qemu, "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
            "-accel", "tcg,thread=multi" if accelerator == "tcg" else accelerator,
            "-cpu", f"{accel.cpu_model(accelerator)},-erms,-fsrm", "-m", str(ram_mib),
            "-kernel", f"/proc/self/fd/{kernel}", "-initrd", f"/proc/self/fd/{initrd}",
            "-append", f"{APPEND} guest_ip={ip}",
            "-serial", f"file:/proc/self/fd/{self._console}",
            "-chardev", f"socket,id=cmd,fd={theirs.fileno()}", "-device", "virtio-serial-pci",
            "-device", "virtserialport,chardev=cmd,name=guest",
            "-netdev", f"dgram,id=net,local.type=fd,local.str={link}",
            "-device", f"virtio-net-pci,netdev=net,mac={mac},romfile=",
        ]  # fmt: skip
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self._console,
            pass_fds=fds, preexec_fn=_die_with_parent, start_new_session=True,
        )  # fmt: skip
        theirs.close()

    def _fail(self, what: str) -> None:
        at = max(os.fstat(self._console).st_size - CONSOLE_END, 0)
        text = os.pread(self._console, CONSOLE_END, at).decode("utf-8", "replace").strip()
        last = one_line(text.splitlines()[-1]) if text else "nothing on its console"
        raise LaunchError(f"the Linux guest {self.ip} {what} ({last[:200]})")

    def _line(self, deadline: float | None) -> str:
        while b"\n" not in self._buffer:
            left = None if deadline is None else max(deadline - time.monotonic(), 0)
            if not select.select([self._channel], [], [], left)[0]:
                self._fail("does not answer")
            data = self._channel.recv(65536)
            if not data:
                self._fail(f"ended with status {self._process.wait()}")
            self._buffer += data
            if len(self._buffer) > MAX_ANSWER:
                self._fail("says too much")
        line, self._buffer = self._buffer.split(b"\n", 1)
        return line.decode("utf-8", "replace").rstrip("\r")

    def wait_ready(self) -> None:
        deadline = time.monotonic() + BOOT_S
        while self._line(deadline) != "@@ ready":
            pass

    def run(self, command: str, timeout: float | None = COMMAND_S) -> tuple[int, str]:
        """A command of its shell: status and output. LaunchError: nothing a shell would answer."""
        self._channel.sendall(command.encode() + b"\n")
        deadline = None if timeout is None else time.monotonic() + timeout
        lines, length = [], 0
        while not (line := self._line(deadline)).startswith("@@ "):
            lines.append(line)
            length += len(line) + 1
            if length > MAX_ANSWER:
                self._fail("says too much")
        if not re.fullmatch(r"@@ [0-9]{1,3}", line):
            self._fail(f"answers {one_line(line)[:80]!r}")
        return int(line[3:]), "\n".join(lines)

    def must(self, command: str) -> None:
        status, text = self.run(command)
        if status:
            last = one_line(text.splitlines()[-1]) if text else f"status {status}"
            raise LaunchError(f"the Linux guest {self.ip}: {command.split()[0]}: {last[:200]}")

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        self._channel.close()
        os.close(self._console)


def _input_bytes(reader: Callable) -> bytes:
    read = reader()
    return b"".join(iter(read, b""))


def _row(share: float | None, said: object, cache: int) -> Row:
    """@cache 0: all of the peak. ValueError: the helper did not say that."""
    keys = ("status", "ns", "peak", "faults", "in", "out")
    if not isinstance(said, dict) or not all(
            type(said.get(k)) is int and -1 <= said[k] < 1 << 63 for k in keys):  # fmt: skip
        raise ValueError("not what the helper says")
    row = Row(share, cache or said["peak"], exit_status(said["status"]), seconds=said["ns"] / 1e9,
              misses=said["faults"], fetched=said["in"], moved=(said["in"] + said["out"]) * PAGE,
              peak=said["peak"])  # fmt: skip
    if row.status:
        row.why = f"status {row.status}"
    return row


def program_command(o: Options, path: str, limit: int) -> str:
    """The guest's shell command that runs the program in so many bytes (0: no limit)."""
    words = ["env", "-i", *environment(o.env), "/guest/guest", "run", str(limit), path, o.program,
             *o.args]  # fmt: skip
    if any("\n" in w for w in words):
        raise LaunchError("--beside-linux: an argument has a line break, which no command can have")
    return f"cd {shlex.quote(o.cwd)} && {shlex.join(words)}"


def _run(guest: Guest, o: Options, path: str, share: float | None, limit: int) -> Row:
    status, text = guest.run(program_command(o, path, limit), o.timeout)
    lines = text.splitlines()
    try:
        return _row(share, json.loads(lines[-1]), limit)
    except (IndexError, ValueError, RecursionError):
        why = one_line(lines[-1])[:200] if lines else f"status {status}"
        raise LaunchError(f"the Linux guest cannot run {o.program}: {why}") from None


def measure(o: Options, path: str, reader: Callable, peak: int) -> list[Row]:
    """The rows of Linux, the first with all memory local. @peak is Tessera's, in bytes."""
    side = host.Host(o)
    qemu = packages.find(side.qemu) or side.qemu
    accelerator = side.accelerator()
    kernel, files = _kernel(side.build_dir)
    archives, _ = _reference()
    helper = {"init": (GUEST / "init.sh").read_bytes(), "guest/guest": _compiled(),
              "bin/busybox": Path(packages.require("busybox")[0]).read_bytes(), **files,
              **{d: None for d in ("proc", "sys", "dev", "tmp", "guest/bin")}}  # fmt: skip
    small = archives.cpio(helper)
    large = archives.cpio(
        {**_program_files(o), **helper, "input": _input_bytes(reader)}  # fmt: skip
    )
    disk = 2 * (peak >> 20) + 64
    ram = MIN_RAM_MIB + 2 * ((peak + len(large)) >> 20)
    with contextlib.ExitStack() as stack:
        fds = [_memfd("kernel", kernel), _memfd("program", large), _memfd("memory", small)]
        for fd in fds:
            stack.callback(os.close, fd)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        with ours, theirs:
            cpu = Guest(qemu, accelerator, fds[0], fds[1], ours.fileno(), IPS[0], ram)
            stack.callback(cpu.stop)
            mem = Guest(qemu, accelerator, fds[0], fds[2], theirs.fileno(), IPS[1],
                        MIN_RAM_MIB + disk)  # fmt: skip
            stack.callback(mem.stop)
        for guest in (mem, cpu):
            guest.wait_ready()
        mem.must(f"/guest/guest serve {disk}")
        cpu.must(f"/guest/guest attach /dev/nbd0 {IPS[1]} {disk}")
        cpu.must("until [ $(cat /sys/block/nbd0/size) != 0 ]; do usleep 20000; done;"
                 " mkswap /dev/nbd0 >/dev/null && swapon /dev/nbd0")  # fmt: skip
        _run(cpu, o, path, None, 0)
        rows = [_run(cpu, o, path, None, 0)]
        if rows[0].status or not rows[0].peak or rows[0].peak < 0:
            why = rows[0].why or "the kernel does not tell its peak"
            raise LaunchError(f"the Linux guest, all local: {why}")
        for share in o.sweep:
            limit = -(-int(rows[0].peak * share / 100) // PAGE) * PAGE
            rows.append(_run(cpu, o, path, share, limit))
        return rows
