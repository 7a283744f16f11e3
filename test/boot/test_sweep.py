# SPDX-License-Identifier: MIT
"""./tessera run --sweep with real clusters, and beside Linux."""

import json
import subprocess

import pytest
from boot import BUILD, ROOT
from tessera_launcher import packages

LIMIT_S = 270.0
BUSYBOX = packages.require("busybox")[0]
# Some MiB of a shell's memory, touched again and again.
SCRIPT = "x=$(seq 1 150000); echo ${#x}; echo $x | wc -w"


def sweep(tmp_path, shares: str, *args) -> dict:
    out, picture = tmp_path / "rows.json", tmp_path / "curve.png"
    done = subprocess.run(
        [ROOT / "tessera", "run", "--no-build", "--build-dir", BUILD, "--excache", "16M",
         "--sweep", shares, "--stats", out, "--plot", picture, *args, BUSYBOX, "sh", "-c", SCRIPT],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert picture.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    return json.loads(out.read_text())


def test_less_memory_means_more_misses(tmp_path):
    said = sweep(tmp_path, "30")
    whole, part = said["rows"]
    assert (whole["share"], part["share"]) == (None, 30)
    assert 2 << 20 < whole["peak"] <= whole["cache"] * 3 // 4
    assert abs(part["cache"] - whole["peak"] * 0.3) <= 4096
    assert whole["evicted"] * 100 <= whole["peak"] // 4096
    # All that is not near any more has to come again at least once.
    assert part["misses"] + part["used"] + part["late"] > whole["misses"] + 200
    assert part["moved"] > whole["moved"]
    assert part["seconds"] > 0 and part["output"] == whole["output"]


@pytest.mark.long
def test_beside_linux(tmp_path):
    said = sweep(tmp_path, "50", "--beside-linux")
    whole, part = said["linux"]
    assert whole["status"] == part["status"] == 0
    assert whole["moved"] == 0 and part["moved"] > 0 and part["misses"] > 0
    assert abs(part["cache"] - whole["peak"] / 2) <= 4096
