# SPDX-License-Identifier: MIT
"""check-vdso.py lets the real thing through and refuses what nobody would relocate."""

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINK = [
    "-shared",
    "-nostdlib",
    "-fPIC",
    "-Wl,--hash-style=both,-Bsymbolic,--build-id=sha1",
    "-Wl,-z,max-page-size=0x1000,-z,noexecstack",
    "-Wl,-T," + str(ROOT / "monitors/processor/vdso/vdso.lds"),
]
NAMES = ("clock_gettime", "clock_getres", "gettimeofday", "time", "getcpu")
GOOD = "".join(
    f"long {n}(void) {{ return 0; }} long __vdso_{n}(void) {{ return 0; }}\n" for n in NAMES
)


def verdict(tmp_path, source):
    """What the checker prints about @source, linked as the vDSO is."""
    (tmp_path / "x.c").write_text(source)
    target = tmp_path / "x.so"
    flags = [
        "-O1",
        "-ffreestanding",
        "-fno-builtin",
        "-fcf-protection=none",
        "-fno-stack-protector",
    ]
    subprocess.run(["gcc", *flags, *LINK, "-o", target, tmp_path / "x.c"], check=True)
    done = subprocess.run([sys.executable, ROOT / "scripts/check-vdso.py", target],
                          capture_output=True, text=True)  # fmt: skip
    assert (done.returncode != 0) == bool(done.stdout), done
    return done.stdout


def test_a_good_one_passes(tmp_path):
    assert verdict(tmp_path, GOOD) == ""


@pytest.mark.parametrize("source, complaint", [
    (GOOD + "int data = 1;", "writable data"),
    (GOOD + "static int x; void *const p[] = { &x, &x };", "relocations"),
    (GOOD + "extern int other(void); long f(void) { return other(); }", "other is undefined"),
    (GOOD.replace("long time(", "long thyme("), "time is missing"),
])  # fmt: skip
def test_bad_ones_are_refused(tmp_path, source, complaint):
    assert complaint in verdict(tmp_path, source)


def test_what_is_no_elf_file_is_refused(tmp_path):
    (tmp_path / "x").write_bytes(b"#!/bin/sh\n")
    done = subprocess.run(
        [sys.executable, ROOT / "scripts/check-vdso.py", tmp_path / "x"], capture_output=True
    )
    assert done.returncode == 1
