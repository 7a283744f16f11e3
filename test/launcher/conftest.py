# SPDX-License-Identifier: MIT
"""Shared by the launcher's tests: ./tessera against the fakes that stand in for QEMU and the HCA.
"""

import json
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
    monkeypatch.setenv("TESSERA_CACHE", str(tmp_path / "cache"))
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


def looked_at(name="p0", role="processor", **more) -> dict:
    """A node as Sampler.take() tells of it."""
    return {"name": name, "role": role, "cpus": 2, "ram": 1 << 28, "state": "up", "up": True,
            "incarnation": 1, "at": 10.0, "counters": {}, **more}  # fmt: skip


# Answers of no kernel to the question what it counts.
HOSTILE_STATS = {
    "empty histograms": json.dumps({"counters": {f"{i:03}": {} for i in range(1000)}}),
    "too many names": json.dumps({"counters": {f"a.{i}": 1 for i in range(1001)}}),
    "too many histograms": json.dumps({f"a.{i}": {
        "count": 0, "sum": 0, "p50": 0, "p90": 0, "p99": 0, "max": 0, "buckets": []}
        for i in range(65)}),
    "a truth": '{"counters":{"fault.count":true}}', "a float": '{"fault.count":1.5}',
    "less than nothing": '{"fault.count":-1}', "text": '{"fault.count":"1"}',
    "nothing": '{"fault.count":null}', "a list": '{"counters":[1]}', "just a list": "[1]",
    "a number": "7", "no JSON": "{", "NaN": '{"fault.count":NaN}',
    "64 bits and more": json.dumps({"fault.count": 1 << 64}),
    "4,000 digits": '{"counters":{"x_ns":' + "9" * 4000 + "}}",
    "5,000 digits": '{"counters":{"x_ns":' + "9" * 5000 + "}}",
    "a bucket of text": '{"rpc.handler_ns":{"count":1,"sum":1,"p50":1,"p90":1,"p99":1,"max":1,'
                        '"buckets":[["x",1]]}}',
    "a bucket of three": '{"rpc.handler_ns":{"count":1,"sum":1,"p50":1,"p90":1,"p99":1,"max":1,'
                         '"buckets":[[1,1,1]]}}',
    "half a character": '{"counters":{"h\\ud800.\\ud800":1}}', "a line break": '{"a\\n":1}',
    "an empty name": '{"":1}', "a long name": json.dumps({"a" * 65: 1}),
    "deep": "[" * 100_000,
}  # fmt: skip
