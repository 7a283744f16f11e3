# SPDX-License-Identifier: MIT
"""scripts/fetch-source.sh with a source that is there already, a wrong one, and no network."""

import hashlib
import os
import pathlib
import subprocess
import tarfile

import pytest

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts/fetch-source.sh"
FILE = "thing_1.0.orig.tar.xz"


@pytest.fixture
def tree(tmp_path):
    """A source of one file, packed, and programs that reach no network."""
    (tmp_path / "thing-1.0").mkdir()
    (tmp_path / "thing-1.0/a.c").write_text("int a = 1;\n")
    (tmp_path / "sources").mkdir()
    with tarfile.open(tmp_path / "sources" / FILE, "w:xz") as tar:
        tar.add(tmp_path / "thing-1.0", "thing-1.0")
    (tmp_path / "patches").mkdir()
    (tmp_path / "bin").mkdir()
    for name in ("apt-get", "sudo"):
        (tmp_path / "bin" / name).write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / "bin" / name).chmod(0o755)
    return tmp_path


def fetch(tree, sha256=None):
    packed = tree / "sources" / FILE
    if sha256 is None:
        sha256 = hashlib.sha256(packed.read_bytes()).hexdigest()
    env = dict(os.environ, PATH=f"{tree}/bin:{os.environ['PATH']}")
    return subprocess.run(
        [SCRIPT, tree / "sources", tree / "patches", "libthing", FILE, sha256],
        env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_unpacks_once_and_anew_for_other_patches(tree):
    first = fetch(tree)
    assert (first.returncode, first.stderr) == (0, "")
    plain = pathlib.Path(first.stdout.strip())
    assert (plain / "a.c").read_text() == "int a = 1;\n"
    (plain / "a.c").write_text("kept\n")
    assert fetch(tree).stdout == first.stdout
    assert (plain / "a.c").read_text() == "kept\n"

    (tree / "patches/0001.patch").write_text(
        "--- a/a.c\n+++ b/a.c\n@@ -1 +1 @@\n-int a = 1;\n+int a = 2;\n"
    )
    second = fetch(tree)
    assert second.returncode == 0, second.stderr
    assert second.stdout != first.stdout
    assert (pathlib.Path(second.stdout.strip()) / "a.c").read_text() == "int a = 2;\n"


def test_a_patch_that_does_not_apply_is_named(tree):
    (tree / "patches/0001.patch").write_text(
        "--- a/a.c\n+++ b/a.c\n@@ -1 +1 @@\n-int b = 1;\n+int b = 2;\n"
    )
    done = fetch(tree)
    assert done.returncode == 1
    assert "0001.patch does not apply to thing_1.0.orig.tar.xz" in done.stderr


@pytest.mark.parametrize("there", [True, False])
def test_without_network_one_line_says_what_to_do(tree, there):
    """A file with another hash is as good as none."""
    if not there:
        (tree / "sources" / FILE).unlink()
    done = fetch(tree, "0" * 64)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr == (
        f"fetch-source: cannot get {FILE} from this machine's Debian mirror;"
        f" put it into {tree}/sources (SHA-256 {'0' * 64})\n"
    )
