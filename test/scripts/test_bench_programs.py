# SPDX-License-Identifier: MIT
"""Which jobs of the bench's Debian programs count as working."""

import pathlib
import sys

import pytest

TEST = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TEST / "bench"), str(TEST / "boot"), str(TEST)]

import programs  # noqa: E402

GOOD, BAD = (1.0, "7\nstatus 0\n"), (1.0, "sh: no such program\nstatus 127\n")


@pytest.mark.parametrize("ours, linux, said, timed", [
    ([GOOD], [GOOD], "works", True),
    ([BAD], [BAD], "fails on Linux, too", False),
    ([GOOD], [BAD], "fails on Linux: '7' for 'sh: no such program'", False),
    ([BAD], [GOOD], "'sh: no such program' for '7'", True),
    ([GOOD, GOOD], [GOOD, BAD], "fails on Linux: '7' for 'sh: no such program'", False),
    ([GOOD], [None], "did not end on Linux", False),
    ([None], [GOOD], "did not end", False),
])  # fmt: skip
def test_what_counts(ours, linux, said, timed):
    assert programs.verdict(ours, linux) == (said, timed)
