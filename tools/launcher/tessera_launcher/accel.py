# SPDX-License-Identifier: MIT
"""Chooses between KVM and TCG.

A /dev/kvm that exists may still be useless: under some nested hypervisors ring 0 runs in an
instruction emulator, thousands of times slower than TCG. So a tiny kernel that counts to 20 million
is timed. The answer is kept until the host reboots or QEMU changes.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import tempfile
import time

LIMIT_S = 2.0
LOOPS = 20_000_000
LOAD = 0x100000
KVM_CPU = "host,-arch-capabilities"
TCG_CPU = "max,-erms,-fsrm"
EXIT_VALUE = 0x2A


def probe_elf() -> bytes:
    """Count down, then leave through isa-debug-exit."""
    code = b"\xb9" + struct.pack("<I", LOOPS)  # mov ecx, LOOPS
    code += b"\x49\x75\xfd"  # 1: dec ecx; jnz 1b
    code += b"\xb0" + bytes([EXIT_VALUE]) + b"\xe6\xf4"  # mov al, value; out 0xf4, al
    code += b"\xf4\xeb\xfd"  # 1: hlt; jmp 1b
    return pvh_elf(code)


def pvh_elf(code: bytes) -> bytes:
    """A 32-bit PVH kernel with this code."""
    note = struct.pack("<III4sI", 4, 4, 18, b"Xen\0", LOAD)  # XEN_ELFNOTE_PHYS32_ENTRY
    header, entry = 52, 32
    note_at = header + 2 * entry
    code_at = note_at + len(note)
    ehdr = struct.pack(
        "<16sHHIIIIIHHHHHH", b"\x7fELF\x01\x01\x01", 2, 3, 1, LOAD, header, 0, 0,
        header, entry, 2, 40, 0, 0,
    )  # fmt: skip
    load = struct.pack("<8I", 1, code_at, LOAD, LOAD, len(code), len(code), 5, 1)
    notes = struct.pack("<8I", 4, note_at, 0, 0, len(note), len(note), 4, 4)
    return ehdr + load + notes + note + code


def _probe(qemu: str) -> bool:
    with tempfile.NamedTemporaryFile(prefix="tessera-probe-", suffix=".elf") as f:
        f.write(probe_elf())
        f.flush()
        command = [
            qemu, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-M", "pc",
            "-accel", "kvm", "-cpu", KVM_CPU, "-m", "32M", "-kernel", f.name,
            "-device", "isa-debug-exit,iobase=0xf4,iosize=4",
        ]  # fmt: skip
        try:
            done = subprocess.run(command, capture_output=True, timeout=LIMIT_S)
        except (OSError, subprocess.TimeoutExpired):
            return False
        return done.returncode == EXIT_VALUE << 1 | 1


def _key(qemu: str) -> list:
    st = os.stat(qemu)
    with open("/proc/sys/kernel/random/boot_id") as f:
        return [os.path.realpath(qemu), st.st_mtime_ns, st.st_size, f.read().strip()]


def choose(wanted: str, qemu: str, cache_path: str) -> str:
    """kvm or tcg."""
    if wanted != "auto":
        return wanted
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "tcg"
    key = _key(qemu)
    try:
        with open(cache_path) as f:
            kept = json.load(f)
        if kept["key"] == key and kept["accel"] in ("kvm", "tcg"):
            return kept["accel"]
    except (OSError, ValueError, KeyError, TypeError):
        pass
    accel = "kvm" if _probe(qemu) else "tcg"
    keep(cache_path, {"key": key, "accel": accel, "probed": time.time()})
    return accel


def has_device(name: str, qemu: str, cache_path: str) -> bool:
    """Is it among QEMU's devices? True also when QEMU does not list them. The answer is kept."""
    try:
        key = [name, *_key(qemu)]
    except OSError:
        return True
    try:
        with open(cache_path) as f:
            kept = json.load(f)
        if kept["key"] == key:
            return bool(kept["has"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    listed = list_of(qemu, "-device")
    has = f'name "{name}"' in listed
    if 'name "' in listed:
        keep(cache_path, {"key": key, "has": has})
        return has
    return True


def list_of(qemu: str, option: str) -> str:
    """What QEMU has for @option; "": it does not say."""
    try:
        done = subprocess.run([qemu, option, "help"], stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=20)  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode(errors="replace")


def keep(path: str, what: dict) -> None:
    """Write a cache file, if that can be."""
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        temporary = f"{path}.{os.getpid()}"
        with open(temporary, "w") as f:
            json.dump(what, f)
        os.replace(temporary, path)
    except OSError:
        pass  # only a cache


def cpu_model(accel: str) -> str:
    return KVM_CPU if accel == "kvm" else TCG_CPU
