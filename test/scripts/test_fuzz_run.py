# SPDX-License-Identifier: MIT
"""The runner of the fuzzers reads each folder of the corpus, or says that it does not."""

import pathlib
import subprocess
import sys

RUN = pathlib.Path(__file__).resolve().parents[1] / "fuzz/run.py"


def run(tmp_path, *folders):
    """Run a "fuzzer" that prints its arguments and fails, with these folders in the corpus."""
    fuzzer = tmp_path / "a_fuzz"
    fuzzer.write_text('#!/bin/sh\necho "args: $*" >&2\nexit 1\n')
    fuzzer.chmod(0o755)
    for folder in folders:
        (tmp_path / "corpus" / folder).mkdir(parents=True)
    return subprocess.run(
        [sys.executable, RUN, "--corpus", tmp_path / "corpus", "--work", tmp_path / "w", fuzzer],
        capture_output=True,
        text=True,
        check=False,
    )


def test_seeds_are_given_to_their_fuzzer(tmp_path):
    done = run(tmp_path, "a")
    assert done.returncode == 1
    assert f" {tmp_path}/w/a {tmp_path}/corpus/a\n" in done.stdout


def test_a_folder_that_no_fuzzer_reads_is_named(tmp_path):
    done = run(tmp_path, "a", "a_fuzz")
    assert done.returncode == 1
    assert done.stderr == "fuzz: no fuzzer reads from corpus/: a_fuzz\n"
    assert done.stdout == ""
