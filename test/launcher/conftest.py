# SPDX-License-Identifier: MIT
"""Shared by the launcher's tests: ./tessera against the fakes that stand in for QEMU and the HCA.
"""

import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "tools" / "launcher"))


class Launcher:
    """./tessera run with the fakes in place."""

    def __init__(self, tmp: pathlib.Path):
        self.build = tmp / "build"
        self.run_dir = tmp / "run"
        self.run_dir.mkdir()
        self.env: dict[str, str] | None = None  # ours
        for role in ("processor", "memory", "storage"):
            (self.build / role).mkdir(parents=True)
            (self.build / role / "kernel.elf").touch()
        self.options = [
            "--no-build", "--build-dir", str(self.build), "--accel", "tcg",
            "--fabric", "mpqemu", "--qemu", str(HERE / "fake_qemu.py"), "--hca",
            str(HERE / "fake_hca.py"),
        ]  # fmt: skip
        self.base = [str(ROOT / "tessera"), "run", *self.options]

    def command(self, *args: str) -> list[str]:
        return [*self.base, *map(str, args)]

    def run(self, *args: str, **how) -> subprocess.CompletedProcess:
        return self.finish(self.command(*args), **how)

    def call(self, command: str, *args: str, **how) -> subprocess.CompletedProcess:
        """./tessera up, exec, ps, down."""
        return self.finish(self.words(command, *args), **how)

    def words(self, command: str, *args: str) -> list[str]:
        options = self.options if command == "up" and "--restart" not in args else []
        return [str(ROOT / "tessera"), command, *options, *map(str, args)]

    def finish(self, argv: list[str], **how) -> subprocess.CompletedProcess:
        how.setdefault("stdin", None if "input" in how else subprocess.DEVNULL)
        if how["stdin"] is None:
            del how["stdin"]
        how.setdefault("timeout", 60)
        return subprocess.run(argv, capture_output=True, env=self.env, **how)


@pytest.fixture
def launcher(tmp_path, monkeypatch):
    launcher = Launcher(tmp_path)
    # Other runs on this machine have theirs elsewhere.
    monkeypatch.setenv("TESSERA_RUN_DIR", str(launcher.run_dir))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return launcher


def fakes_of(build: pathlib.Path) -> list[int]:
    """Processes that were started with this build directory in their arguments."""
    out = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                line = pathlib.Path("/proc", name, "cmdline").read_bytes()
            except OSError:
                continue
            if str(build).encode() in line:
                out.append(int(name))
    return out
