# SPDX-License-Identifier: MIT
"""Host programs that the launcher needs, and how to get them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from .errors import LaunchError

# program -> Debian package
PACKAGES = {
    "qemu-system-x86_64": "qemu-system-x86",
    "mke2fs": "e2fsprogs",
    "debugfs": "e2fsprogs",
    "e2fsck": "e2fsprogs",
    "zstd": "zstd",
    "make": "make",
    "gcc": "gcc",
    "musl-gcc": "musl-tools",
    "busybox": "busybox-static",
}
SEARCH = os.environ.get("PATH", os.defpath) + ":/usr/local/sbin:/usr/sbin:/sbin"


def find(program: str) -> str | None:
    return shutil.which(program, path=SEARCH)


def _installer() -> list[str] | None:
    apt = find("apt-get")
    if not apt:
        return None
    if os.geteuid() == 0:
        return [apt]
    sudo = find("sudo")
    if sudo and subprocess.run([sudo, "-n", "true"], capture_output=True).returncode == 0:
        return [sudo, "-n", apt]
    return None


def require(*programs: str) -> list[str]:
    """The paths of @programs; installs what is missing when that is allowed."""
    missing = [p for p in programs if not find(p)]
    if missing:
        _install(missing)
    return [_found(p) for p in programs]


def _found(program: str) -> str:
    path = find(program)
    if not path:
        raise LaunchError(f"{program} is missing: install the package {PACKAGES[program]}")
    return path


def _install(programs: list[str]) -> None:
    packages = sorted({PACKAGES[p] for p in programs})
    apt = _installer()
    if not apt:
        raise LaunchError(
            f"{', '.join(programs)} missing and no right to install: "
            f"apt-get install {' '.join(packages)}"
        )
    print(f"tessera: installing {' '.join(packages)} (apt-get)", file=sys.stderr)
    env = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    command = [*apt, "install", "-y", "-qq", "--no-install-recommends", *packages]
    if _quiet(command, env) != 0:
        _quiet([*apt, "update", "-qq"], env)
        if _quiet(command, env) != 0:
            raise LaunchError(f"could not install {' '.join(packages)}: {' '.join(command)}")


def _quiet(command: list[str], env: dict[str, str]) -> int:
    return subprocess.run(
        command, env=env, stdin=subprocess.DEVNULL, capture_output=True
    ).returncode
