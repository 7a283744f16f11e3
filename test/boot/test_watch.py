# SPDX-License-Identifier: MIT
"""Watching a real cluster from outside: ./tessera up --metrics, ./tessera top."""

import os
import re
import subprocess
import urllib.request

import pytest
from boot import BUILD, ROOT
from prometheus_client.parser import text_string_to_metric_families
from tessera_launcher import packages

LIMIT_S = 120.0
BUSYBOX = packages.require("busybox")[0]
NODES = {"p0": "processor", "m0": "memory", "s0": "storage"}


@pytest.fixture(scope="module")
def tessera(tmp_path_factory):
    """./tessera, for clusters of this test's own."""
    env = os.environ | {"XDG_RUNTIME_DIR": str(tmp_path_factory.mktemp("up"))}

    def call(*args: object) -> str:
        done = subprocess.run([ROOT / "tessera", *map(str, args)], env=env, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=LIMIT_S)  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    return call


@pytest.fixture(scope="module")
def up(tessera):
    """A cluster that serves its counters; where."""
    said = tessera("up", "--no-build", "--build-dir", BUILD, "--excache", "2M", "--metrics", 0,
                   BUSYBOX)  # fmt: skip
    yield re.search(r"metrics: (http://127\.0\.0\.1:\d+/metrics)", said)[1]
    tessera("down")


def scrape(url: str) -> dict:
    with urllib.request.urlopen(url, timeout=LIMIT_S) as reply:
        return {f.name: f for f in text_string_to_metric_families(reply.read().decode())}


def value(families: dict, name: str, suffix: str = "", **labels: str) -> float:
    found = [s for s in families[name].samples
             if s.name == name + suffix and labels.items() <= s.labels.items()]  # fmt: skip
    assert len(found) == 1, found
    return found[0].value


def test_metrics_count_what_programs_do(tessera, up):
    before = scrape(up)
    # More memory than the ExCache has.
    script = "x=$(seq 1 300000); echo ${#x}"
    assert tessera("exec", BUSYBOX, "sh", "-c", script) == "1988894\n"
    after = scrape(up)
    for node, role in NODES.items():
        assert value(after, "tessera_up", node=node, role=role) == 1
        assert value(after, "tessera_sched_busy_seconds", "_total", node=node) > 0
        assert value(after, "tessera_frame_free", node=node) > 0
    # Each counter of the kernels is there with its kind and its meaning.
    assert [f.name for f in after.values() if f.type == "unknown"] == []
    assert "pages that were not in the cache" in after["tessera_excache_misses"].documentation
    grown = {}
    for name, counted in (("tessera_excache_misses", "p0"), ("tessera_memory_fetch", "m0")):
        assert after[name].type == "counter"
        grown[name] = (value(after, name, "_total", node=counted)
                       - value(before, name, "_total", node=counted))  # fmt: skip
    assert min(grown.values()) > 0, grown
    took = "tessera_rpc_latency_seconds"
    of_p0 = {"node": "p0", "class": "demand"}
    total = value(after, took, "_count", **of_p0)
    assert total > 0
    assert value(after, took, "_bucket", le="+Inf", **of_p0) == total
    # Whole seconds would be a mistake of unit; no answer comes within a microsecond.
    assert 1e-6 < value(after, took, "_sum", **of_p0) / total < 1
    assert value(after, took, "_bucket", le="1.023e-06", **of_p0) == 0
    assert value(after, "tessera_hca_tx_bytes", "_total", node="p0") > 0


def test_top_shows_the_nodes(tessera, up):
    lines = tessera("top", "--once").splitlines()
    assert "3 of 3 nodes up; 0 programs" in lines[0]
    rows = {line.split()[0]: line.split() for line in lines[2:]}
    assert {name: row[1] for name, row in rows.items()} == NODES
    for row in rows.values():
        assert re.fullmatch(r"\d+%", row[2])
        assert re.fullmatch(r"[\d.]+[MG]", row[-3])
        assert row[-2].isdigit() and row[-1].isdigit()
