# SPDX-License-Identifier: MIT
"""scripts/install-deps.sh with a package manager that only pretends."""

import os
import pathlib
import shutil
import subprocess

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = TOP / "scripts/install-deps.sh"
BASE = (
    "bash",
    "cat",
    "env",
    "gcc",
    "git",
    "id",
    "make",
    "mktemp",
    "python3",
    "rm",
    "touch",
    "true",
)

APT = """#!/bin/bash
echo "$*" >> {log}
[ "$1" = update ] && touch {updated}
[ "$1" = install ] || exit 0
[ -e {updated} ] || exit 100
exit 0
"""


@pytest.fixture
def machine(tmp_path):
    """A PATH with a base system only; run(groups...) gives (status, stdout, stderr, apt's log)."""
    bin_dir = tmp_path / "bin"
    bin_dir.mkdir()
    for tool in BASE:
        (bin_dir / tool).symlink_to(shutil.which(tool))
    log, updated = tmp_path / "apt.log", tmp_path / "updated"

    def run(*groups, apt=True, fresh_lists=True):
        log.write_text("")
        if fresh_lists:
            updated.touch()
        if apt:
            (bin_dir / "apt-get").write_text(APT.format(log=log, updated=updated))
            (bin_dir / "apt-get").chmod(0o755)
        done = subprocess.run(
            ["bash", str(SCRIPT), *groups],
            env={"PATH": str(bin_dir)},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr, log.read_text()

    run.bin = bin_dir
    return run


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="installing is tried as root")


@needs_root
def test_says_and_installs_what_is_missing(machine):
    status, out, _, log = machine("run")
    assert status == 0
    # mke2fs may be found in /usr/sbin, which the script searches as a root shell would.
    assert out.startswith("install-deps: installing qemu-system-x86")
    assert "busybox-static" in out
    assert len(log.splitlines()) == 1 and "busybox-static" in log and "update" not in log


@needs_root
def test_refreshes_the_lists_when_a_package_is_not_found(machine):
    status, _, _, log = machine("test", fresh_lists=False)
    assert status == 0
    words = [line.split()[0] for line in log.splitlines()]
    assert words == ["install", "update", "install"]


def test_silent_when_there_is_nothing_to_do(machine):
    for tool in ("qemu-system-x86_64", "mke2fs", "busybox"):
        (machine.bin / tool).symlink_to(shutil.which("true"))
    assert machine("run") == (0, "", "", "")


def test_names_what_is_missing_without_a_package_manager(machine):
    status, out, err, _ = machine("run", apt=False)
    assert (status, out) == (1, "")
    assert "missing: qemu-system-x86" in err and "no apt-get" in err


def test_unknown_group(machine):
    status, _, err, _ = machine("nonsense")
    assert status == 2 and "no such group: nonsense" in err
