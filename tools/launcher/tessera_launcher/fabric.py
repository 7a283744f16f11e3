# SPDX-License-Identifier: MIT
"""Chooses how the HCA model attaches to this QEMU: over vfio-user or the multi-process protocol.

Which of them a QEMU has says little: QEMU 10.0 and 11.1 have a device of the multi-process
protocol, and crash under TCG when a guest touches it. So a tiny kernel reads and writes a register
of the model through each, until one works. The answer is kept until QEMU, the model or the
accelerator changes.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from . import accel as accel_mod
from .errors import LaunchError

VFIO_USER, MPQEMU = "vfio-user", "mpqemu"
# The better one first. vfio-user: QEMU 10.1 and later; the multi-process protocol: 7.2 and later,
# in name.
DEVICES = {VFIO_USER: "vfio-user-pci", MPQEMU: "x-pci-proxy-dev"}
LIMIT_S = 20.0  # of one trial; a third of a second on a quiet machine
RAM = "memory-backend-memfd,id=ram0,size=32M,share=on"
OK, BAD = 0x2A, 0x15


@dataclass
class Choice:
    """A front end, and why this one."""

    front: str
    why: str

    def text(self) -> str:
        return f"fabric: HCA model over {self.front}: {self.why}"


def trial_elf() -> bytes:
    """A PVH kernel that leaves through isa-debug-exit with OK if the model's registers answer."""
    code = bytes.fromhex(
        "bc00000900"  # mov esp, 0x90000
        "bb00000080"  # mov ebx, 0x80000000: bus 0, device 0
        "31c9"  # next: xor ecx, ecx
        "e854000000"  # call read: vendor and device
        "3db3150310"  # cmp eax, 0x100315b3
        "7410"  # je found
        "81c300080000"  # add ebx, 0x800
        "81fb00000180"  # cmp ebx, 0x80010000
        "72e4eb36"  # jb next; jmp bad
        "b104e836000000"  # found: mov cl, 4; call read: the command register
        "0c06ef"  # or al, 6; out dx, eax: memory and bus master
        "b110e82c000000"  # mov cl, 0x10; call read: BAR0
        "250000f0ff"  # and eax, 0xfff00000
        "8db09c060800"  # lea esi, [eax + 0x8069c]: the ownership register
        "8b0685c07514"  # mov eax, [esi]; test eax, eax; jnz bad: we own the device now
        "8b0685c0740e"  # mov eax, [esi]; test eax, eax; jz bad: it is taken
        "31c08906"  # xor eax, eax; mov [esi], eax: given back
        "8b0685c07504"  # mov eax, [esi]; test eax, eax; jnz bad: ours again
        "b02aeb02"  # mov al, OK; jmp out
        "b015"  # bad: mov al, BAD
        "e6f4f4ebfd"  # out: out 0xf4, al; hlt; jmp
        # read: lea eax, [ebx + ecx]; dx = 0xcf8; out; dl = 0xfc; in; ret
        "8d040b66baf80cefb2fcedc3"
    )
    return accel_mod.pvh_elf(code)


def choose(wanted: str, qemu: str, hca: str, accel: str, cache_path: str, dry: bool) -> Choice:
    """The front end for this QEMU; LaunchError with one line when it has none."""
    if wanted in DEVICES:
        return Choice(wanted, "by --fabric")
    key = _key(qemu, hca, accel)
    kept = _kept(cache_path, key)
    if kept:
        return kept
    if dry:
        return Choice(MPQEMU, "assumed, as this QEMU has not been tried yet")
    choice = _try_all(qemu, hca, accel)
    _keep(cache_path, key, choice)
    return choice


def _key(qemu: str, hca: str, accel: str) -> list:
    key: list = [accel]
    for path in (qemu, hca):
        with contextlib.suppress(OSError):
            st = os.stat(path)
            key += [os.path.realpath(path), st.st_mtime_ns, st.st_size]
    return key


def _kept(path: str, key: list) -> Choice | None:
    try:
        with open(path) as f:
            kept = json.load(f)
        if kept["key"] == key and kept["front"] in DEVICES:
            return Choice(kept["front"], str(kept["why"]))
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None


def _keep(path: str, key: list, choice: Choice) -> None:
    accel_mod.keep(path, {"key": key, **asdict(choice)})


def _try_all(qemu: str, hca: str, accel: str) -> Choice:
    name = f"QEMU {_version(qemu)}"
    against = []
    for front, device in DEVICES.items():
        fault = _trial(front, qemu, hca, accel)
        if not fault:
            return Choice(front, "; ".join([f"{device} of {name} passed a trial", *against]))
        missing = "not a valid device model name" in fault
        against.append(f"it has no {device}" if missing else f"{device}: {fault}")
    raise LaunchError(
        f"no fabric: the HCA model cannot attach to {name} at {qemu} ({'; '.join(against)});"
        " RoCE, which any QEMU can carry, is still to come"
    )


def _output(argv: list[str]) -> str:
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, timeout=LIMIT_S)  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode(errors="replace")


def _version(qemu: str) -> str:
    found = re.search(r"version (\S+)", _output([qemu, "--version"]))
    return found[1] if found else "of unknown version"


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(1, int(signal.SIGKILL), 0, 0, 0)


@contextlib.contextmanager
def _model(argv: list[str], fds: list[int], control: str) -> Iterator[str | None]:
    """The model while the trial lasts; gives why it does not listen, or None."""
    try:
        child = subprocess.Popen([*argv, "--control", control], stdin=subprocess.DEVNULL,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                 pass_fds=fds, preexec_fn=_die_with_parent)  # fmt: skip
    except OSError as err:
        yield f"{argv[0]}: {err.strerror}"
        return
    try:
        yield (
            None
            if wait_listening(control, LIMIT_S, lambda: child.poll() is None)
            else "the model did not start"
        )
    finally:
        child.kill()
        child.wait()


def wait_listening(path: str, limit: float, alive=lambda: True) -> bool:
    """Until somebody accepts at @path; the model makes its control socket after all others."""
    deadline = time.monotonic() + limit
    while alive() and time.monotonic() < deadline:
        with socket.socket(socket.AF_UNIX) as sock:
            try:
                sock.connect(path)
                return True
            except (FileNotFoundError, ConnectionRefusedError):
                time.sleep(0.005)
    return False


def _trial(front: str, qemu: str, hca: str, accel: str) -> str | None:
    """None if a guest of @qemu reaches the model over @front, else what went wrong."""
    with (
        tempfile.TemporaryDirectory(prefix="tessera-fabric-") as work,
        contextlib.ExitStack() as stack,
    ):
        elf, path = os.path.join(work, "trial.elf"), os.path.join(work, "vfio")
        with open(elf, "wb") as f:
            f.write(trial_elf())
        ours, theirs = (stack.enter_context(s) for s in socket.socketpair())
        if front == MPQEMU:
            fd, model = theirs.fileno(), [hca, "--vm", f"fd={ours.fileno()}"]
        else:
            fd, model = None, [hca, "--vfio-user", path]
        fault = stack.enter_context(_model(model, [ours.fileno()], os.path.join(work, "control")))
        if fault:
            return fault
        ours.close()
        command = [
            qemu, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
            "-M", "pc,memory-backend=ram0", "-m", "32M", "-object", RAM, "-kernel", elf,
            "-accel", accel, "-cpu", accel_mod.cpu_model(accel),
            "-device", "isa-debug-exit,iobase=0xf4,iosize=4", *device_args(front, fd, path),
        ]  # fmt: skip
        return _run_trial(command, [] if fd is None else [fd])


def _run_trial(command: list[str], fds: list[int]) -> str | None:
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=LIMIT_S,
                              pass_fds=fds, preexec_fn=_die_with_parent)  # fmt: skip
    except OSError as err:
        return err.strerror
    except subprocess.TimeoutExpired:
        return f"no answer in {LIMIT_S:g} s"
    if done.returncode == OK << 1 | 1:
        return None
    if done.returncode == BAD << 1 | 1:
        return "the guest does not find the model's registers"
    if done.returncode < 0:
        return f"QEMU was killed by signal {-done.returncode}"
    lines = done.stderr.decode(errors="replace").strip().splitlines()
    return (
        lines[-1].removeprefix(f"{command[0]}: ")
        if lines
        else f"QEMU ended with status {done.returncode}"
    )


def device_args(front: str, fd: int | str | None, path: str) -> list[str]:
    """QEMU's option for the HCA: behind the descriptor @fd, or the socket at @path."""
    if front == MPQEMU:
        return ["-device", f"x-pci-proxy-dev,id=hca0,fd={fd}"]
    address = {"driver": "vfio-user-pci", "id": "hca0", "socket": {"type": "unix", "path": path}}
    return ["-device", json.dumps(address)]
