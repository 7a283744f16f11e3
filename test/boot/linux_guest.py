# SPDX-License-Identifier: MIT
"""A Linux guest that mounts a disk of ours: Debian's kernel, which knows nothing of us, with a
shell as its first process. The kernel is that of the HCA model's reference tests.
"""

import pathlib
import re
import shlex
import subprocess
import sys

from boot import BUILD, ROOT, WORK, packages

sys.path.insert(0, str(ROOT / "test"))

from reference import image as archives  # noqa: E402
from reference import packages as debs  # noqa: E402

MODULES = ("virtio_pci", "virtio_blk", "crc32c_generic", "ext4")
LIMIT_S = 600
INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t devtmpfs dev /dev
for module in $(cat /mods/order); do insmod /mods/"$module".ko || echo "no $module"; done
mount -t ext4 -o OPTIONS /dev/vda /mnt || echo "no mount"
echo "@@ begins"
cd /mnt && sh /command
echo "@@ status $?"
cd / && umount /mnt && dmesg | grep -i 'ext4.*\\(error\\|warning\\)'
echo "@@ end"
poweroff -f
"""


def _kernel_and_modules() -> tuple[pathlib.Path, dict[str, bytes]]:
    deb = debs.fetch_kernel(BUILD / "reference" / "packages")
    files, kernel = {}, WORK / "vmlinuz"
    wanted = re.compile(r"/kernel/(drivers/(virtio|block)|fs/(ext4|jbd2|mbcache)|lib|crypto)\b")
    for path, _, body in debs.members(
        deb, lambda p: p.startswith("boot/vmlinuz") or (p.endswith(".ko") and wanted.search(p))
    ):
        if path.startswith("boot/"):
            kernel.write_bytes(body)
        elif body:
            files[pathlib.Path(path).stem.replace("-", "_")] = body
    order: list[str] = []
    for module in (m for m in MODULES if m in files):
        order += [m for m in [*archives.needs(module, files), module] if m not in order]
    return kernel, {**{f"mods/{m}.ko": files[m] for m in order},
                    "mods/order": " ".join(order).encode()}  # fmt: skip


def on_linux(disk: pathlib.Path, command: str, options: str = "ro", *, ram_mib: int = 512,
             limit: float = LIMIT_S) -> str:  # fmt: skip
    """What a shell's @command, run in the root of the disk's file system, prints on Linux.

    The mount must succeed, the command's status must be 0, and the kernel must not complain about
    the file system.
    """
    kernel, files = _kernel_and_modules()
    initrd = WORK / "linux.cpio"
    initrd.write_bytes(
        archives.cpio(
            {**files, "init": INIT.replace("OPTIONS", options).encode(),
             "command": command.encode(),
             "bin/busybox": pathlib.Path(packages.require("busybox")[0]).read_bytes(),
             **{d: None for d in ("proc", "dev", "mnt", "sys")}}
        )  # fmt: skip
    )
    argv = [
        packages.require("qemu-system-x86_64")[0], "-nodefaults", "-no-user-config", "-no-reboot",
        "-display", "none", "-accel", "tcg", "-cpu", "max,-erms,-fsrm", "-m", str(ram_mib),
        "-kernel", str(kernel), "-initrd", str(initrd), "-serial", "stdio",
        "-append", "console=ttyS0 quiet panic=-1 no_timer_check mitigations=off",
        "-drive", f"file={disk},format=raw,cache=writeback,if=none,id=disk",
        "-device", "virtio-blk-pci,drive=disk",
    ]  # fmt: skip
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=limit)
    said = done.stdout.decode(errors="replace").replace("\r", "")
    found = re.fullmatch(r".*?@@ begins\n(.*)@@ status (\d+)\n(.*)@@ end\n.*", said, re.DOTALL)
    assert found, f"{shlex.join(argv)}\n{said[-2000:]}{done.stderr.decode(errors='replace')}"
    assert (found[2], found[3].strip()) == ("0", ""), said[-2000:]
    return found[1]
