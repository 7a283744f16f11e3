# SPDX-License-Identifier: MIT
"""What the kernels' images say of their counters, and how histograms are read."""

import json
import shutil
import subprocess

import pytest
from conftest import HOSTILE_STATS, ROOT
from tessera_launcher import counters

SOURCE = """
#include <kernel/counter.h>

static uint64_t some(void) { return 1; }
COUNTER(hits, "area.hits", "what it counts");
GAUGE(now, "area.now", "what there is", some);
GAUGE_SUM(sum, "area.sum", "kept elsewhere", some);
HISTOGRAM(took, "area.took_ns", "how long it took");
"""
LAYOUT = """
SECTIONS { .rodata.tables : {
    counters_start = .; KEEP(*(.counters)) counters_end = .;
    gauges_start = .; KEEP(*(.gauges)) gauges_end = .;
    histograms_start = .; KEEP(*(.histograms)) histograms_end = .;
} } INSERT AFTER .rodata;
"""


def test_an_image_tells_what_is_counted(tmp_path):
    (tmp_path / "tables.c").write_text(SOURCE)
    (tmp_path / "layout.lds").write_text(LAYOUT)
    gcc = shutil.which("gcc") or pytest.skip("no gcc")
    subprocess.run(
        [gcc, "-static", "-nostdlib", "-ffreestanding", "-fno-pic", "-no-pie", "-Wl,-e,0",
         *(f"-I{ROOT}/{d}/include" for d in ("kernel", "lib")), f"-I{ROOT}/arch/x86/include",
         "-o", tmp_path / "kernel.elf", tmp_path / "tables.c", "-T", tmp_path / "layout.lds"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert counters.read(str(tmp_path / "kernel.elf")) == {
        "area.hits": counters.Meaning("counter", "what it counts"),
        "area.now": counters.Meaning("gauge", "what there is"),
        "area.sum": counters.Meaning("counter", "kept elsewhere"),
        "area.took_ns": counters.Meaning("histogram", "how long it took"),
    }


def test_an_image_that_is_none(tmp_path):
    assert counters.read(str(tmp_path / "none")) == {}
    for data in (b"", b"\x7fELF\x02\x01" + b"\xff" * 200):
        (tmp_path / "x").write_bytes(data)
        assert counters.read(str(tmp_path / "x")) == {}


def test_buckets():
    new = counters.buckets({"buckets": [[7, 10], [15, 5], [31, 1]]})
    assert counters.buckets(17) == counters.buckets({"count": 3}) == []
    grown = counters.difference(new, [(7, 9), (15, 5)])
    assert grown == [(7, 1), (31, 1)]
    assert counters.percentile(grown, 50) == 7
    assert counters.percentile(grown, 99) == 31
    assert counters.percentile([], 50) is None
    assert counters.merged([new, grown]) == [(7, 11), (15, 5), (31, 2)]
    assert counters.cumulative(new, [6, 7, 14, 15, 1000]) == [0, 10, 10, 15, 16]


@pytest.mark.parametrize("text", HOSTILE_STATS.values(), ids=HOSTILE_STATS)
def test_what_no_kernel_says_is_nothing(text):
    assert counters.checked(text) is None


def test_what_kernels_say_is_let_through():
    one = {"count": 1, "sum": 2, "p50": 1, "p90": 1, "p99": 1, "max": 2**64 - 1}
    full = one | {"buckets": [[i, 1] for i in range(counters.MAX_BUCKETS)]}
    many = {f"area.{i}": i for i in range(counters.MAX_NAMES - 2)}
    said = many | {"virtio-blk.latency_ns": full, "area.most": 2**64 - 1}
    assert counters.checked(json.dumps(said)) == said
    assert counters.checked(json.dumps({"counters": said, "x": []})) == {"counters": said}
    assert counters.checked(json.dumps({"area.took": one})) == {"area.took": one}  # older ones
    assert counters.checked("{}") == {}  # the counters did not fit
    full["buckets"].append([0, 1])
    assert counters.checked(json.dumps(said)) is None
