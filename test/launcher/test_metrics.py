# SPDX-License-Identifier: MIT
"""./tessera up --metrics: the page, and the server that gives it to whoever asks."""

import json
import os
import random
import re
import socket
import time
import urllib.error
import urllib.request

import pytest
from conftest import HOSTILE_STATS, Launcher, looked_at
from prometheus_client.parser import text_string_to_metric_families
from test_run import wait_for
from test_up import log_dir
from tessera_launcher import counters, metrics


P0_UP = 'tessera_up{node="p0",role="processor"} '


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@pytest.mark.parametrize("counter, kind, want", [
    ("excache.misses", "counter", ("tessera_excache_misses_total", False, None)),
    ("virtio-blk.bytes", "counter", ("tessera_virtio_blk_bytes_total", False, None)),
    ("frame.free", "gauge", ("tessera_frame_free", False, None)),
    ("sched.idle_ns", "counter", ("tessera_sched_idle_seconds_total", True, None)),
    ("rpc.latency_ns.demand", "histogram", ("tessera_rpc_latency_seconds", True, "demand")),
])  # fmt: skip
def test_names(counter, kind, want):
    assert metrics.metric_name(counter, kind) == want


def families(text: str) -> dict:
    return {f.name: f for f in text_string_to_metric_families(text)}


def test_a_page_as_prometheus_reads_it():
    meaning = counters.Meaning
    known = {"processor": {
        "a.b": meaning("counter", "how \\ often\n"), "t_ns.x": meaning("histogram", "of x"),
        "t_ns.y": meaning("histogram", "of y")}}  # fmt: skip
    value = {"count": 99, "sum": 5_000_000_000,
             "buckets": [[1023, 3], [1151, 2], [4294967295, 1], [2**63, 1]]}  # fmt: skip
    look = {"hca": {"ok": True, "ports": [{"name": "p0", "lid": 1, "guid": "x", "reads": 8}],
                    "injected": {"kills": 2}, "capture": None},
            "nodes": [looked_at(counters={"a.b": 7, "t_ns.x": value, "t_ns.y": value, "odd": 1}),
                      looked_at('m"0', "memory", up=False, counters=None)]}  # fmt: skip
    found = families(metrics.render(look, 4, known))
    p0 = {"node": "p0", "role": "processor"}
    assert [(s.labels, s.value) for s in found["tessera_up"].samples] == [
        (p0, 1), ({"node": 'm"0', "role": "memory"}, 0)]  # fmt: skip
    assert found["tessera_programs"].samples[0].value == 4
    count = found["tessera_a_b"]
    assert (count.type, count.documentation) == ("counter", "how \\ often\n")
    assert [(s.name, s.labels, s.value) for s in count.samples] == [("tessera_a_b_total", p0, 7)]
    assert "tessera_odd" not in found  # the image does not have it
    assert found["tessera_hca_reads"].samples[0].value == 8
    assert found["tessera_hca_injected_kills"].samples[0].value == 2
    assert "tessera_hca_lid" not in found
    took = found["tessera_t_seconds"]
    assert (took.type, took.documentation) == ("histogram", "of x; of y")
    of_x = [s for s in took.samples if s.labels["class"] == "x"]
    below = {s.labels["le"]: s.value for s in of_x if s.name.endswith("_bucket")}
    assert list(below.values()) == sorted(below.values())
    assert (below["1.023e-06"], below["1.535e-06"], below["4.294967295"], below["+Inf"]) == (
        3, 5, 6, 7)  # fmt: skip
    assert [s.value for s in of_x if s.name.endswith("_count")] == [7]
    assert [s.value for s in of_x if s.name.endswith("_sum")] == [5.0]


def test_each_series_is_there_once():
    value = {"sum": 0, "buckets": []}
    said = {"a.b": 1, "a_b": 2, "a-b": 3, "up": 5, "t": value, "t_count": 9}
    look = {"hca": None, "nodes": [looked_at(counters=said), looked_at("m0", "memory", counters={
        "a.b": 4, "t": 6, "a_b": value})]}  # fmt: skip
    text = metrics.render(look, 0, {})
    series = [line.rpartition(" ")[0] for line in text.splitlines() if line[0] != "#"]
    assert len(series) == len(set(series))
    assert 'tessera_a_b{node="p0",role="processor"} 1\n' in text
    assert 'tessera_a_b{node="m0",role="memory"} 4\n' in text
    assert 'tessera_t{node="m0",role="memory"} 6\n' in text
    families(text)


def test_a_node_says_what_its_image_declares():
    known = {"processor": {"a.b": counters.Meaning("counter", "x"),
                           "h": counters.Meaning("histogram", "x")}}  # fmt: skip
    value = {"sum": 0, "buckets": []}
    look = {"hca": None, "nodes": [looked_at(counters={"a.b": value, "h": 1, "c": 1})]}
    text = metrics.render(look, 0, known)
    assert "tessera_a_b" not in text and "tessera_h" not in text and "tessera_c" not in text


def test_a_page_of_all_that_a_node_may_say_is_small():
    most = 2**64 - 1
    value = {"count": most, "sum": most, "p50": 0, "p90": 0, "p99": 0, "max": 0,
             "buckets": [[0, most]] * 40}  # fmt: skip
    said = {f"{i:061}_ns": value if i < counters.MAX_HISTOGRAMS else most
            for i in range(counters.MAX_NAMES)}  # fmt: skip
    found = counters.checked(json.dumps(said))
    page = metrics.render({"hca": None, "nodes": [looked_at(counters=found)]}, 0, {})
    assert len(page) < 1 << 20


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A cluster with metrics: the launcher and the port."""
    tmp = tmp_path_factory.mktemp("served")
    launcher, port = Launcher(tmp), free_port()
    launcher.env = os.environ | {
        "TESSERA_RUN_DIR": str(launcher.run_dir),
        "XDG_RUNTIME_DIR": str(tmp),
    }
    done = launcher.call("up", "--metrics", port, "sh", "sleep")
    assert done.returncode == 0, done.stderr
    assert f"; metrics: http://127.0.0.1:{port}/metrics\n".encode() in done.stdout
    yield launcher, port
    assert launcher.call("down").returncode == 0


def get(port: int, path: str = "/metrics", method: str = "GET"):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", method=method)
    with urllib.request.urlopen(request, timeout=20) as reply:
        return reply.headers["Content-Type"], reply.read().decode()


def test_metrics_of_a_cluster(served):
    kind, text = get(served[1])
    assert kind == "text/plain; version=0.0.4; charset=utf-8"
    found = families(text)
    assert {s.labels["node"]: s.value for s in found["tessera_up"].samples} == {
        "p0": 1, "m0": 1, "s0": 1}  # fmt: skip
    assert {s.labels["role"] for s in found["tessera_excache_misses"].samples} == {
        "processor", "memory", "storage"}  # fmt: skip
    assert found["tessera_rpc_latency_seconds"].type == "histogram"
    assert get(served[1], method="HEAD") == (kind, "")
    assert "/metrics" in get(served[1], "/")[1]
    with pytest.raises(urllib.error.HTTPError) as err:
        get(served[1], "/etc/passwd")
    assert err.value.code == 404


@pytest.mark.parametrize("said", HOSTILE_STATS.values(), ids=HOSTILE_STATS)
def test_a_hostile_node_speaks_for_itself_only(served, said):
    """The others' counters stay; nobody hears what it said."""
    logs = log_dir(served[0])
    (logs / "p0.says").write_text(said)
    try:
        assert wait_for(lambda: P0_UP + "0\n" in _try_get(served[1]))
        text = get(served[1])[1]
        assert len(text) < 1 << 20
        found = families(text)
        assert {s.labels["node"]: s.value for s in found["tessera_up"].samples} == {
            "p0": 0, "m0": 1, "s0": 1}  # fmt: skip
        nodes = {s.labels["node"] for s in found["tessera_excache_misses"].samples}
        assert nodes == {"m0", "s0"}
    finally:
        (logs / "p0.says").unlink()
        assert wait_for(lambda: P0_UP + "1\n" in _try_get(served[1]))


def talk(port: int, data: bytes) -> bytes:
    """What comes back until the other side closes; it may reset the connection instead."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as s:
        out = b""
        try:
            s.sendall(data)
            s.shutdown(socket.SHUT_WR)
            while more := s.recv(65536):
                out += more
        except OSError:
            pass
        return out


def test_hostile_input_ends_no_cluster(served):
    rng = random.Random(1)
    hostile = [
        b"", b"\n", b"\0" * 1000, rng.randbytes(5000), b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n",
        b"GET " + b"/" * 100_000 + b" HTTP/1.0\r\n\r\n", b"POST /metrics HTTP/1.1\r\n\r\n",
        b"GET /metrics HTTP/1.0\r\n" + b"X: y\r\n" * 500 + b"\r\n",
        b"GET /metrics HTTP/1.0\r\nX: " + b"y" * 100_000 + b"\r\n\r\n",
        b"GET /../../etc/passwd HTTP/1.0\r\n\r\n", b"GET http://x:y:z/ HTTP/1.0\r\n\r\n",
    ]  # fmt: skip
    for data in hostile:
        assert b" 200 " not in talk(served[1], data)[:20]
    # More than are served at once, and none of them says anything.
    many = [socket.create_connection(("127.0.0.1", served[1])) for _ in range(60)]
    assert served[0].call("exec", "/bin/sh", "-c", "exit 3").returncode == 3
    for s in many:
        s.close()
    assert wait_for(lambda: "tessera_up{" in _try_get(served[1]))
    assert b"up" in served[0].call("ps").stdout


def _try_get(port: int) -> str:
    try:
        return get(port)[1]
    except OSError:
        return ""


def test_a_slow_client_is_cut_off(monkeypatch):
    monkeypatch.setattr(metrics, "DEADLINE_S", 0.3)
    server = metrics.Server("127.0.0.1", 0)

    class Keeper:
        sampler = type("S", (), {"take": staticmethod(lambda: {"nodes": [], "hca": None})})
        programs = staticmethod(list)

    server.start(Keeper, ["", "", ""])
    with socket.create_connection(server.server_address, timeout=20) as s:
        began = time.monotonic()
        with pytest.raises(OSError):
            while time.monotonic() - began < 20:  # each byte in time, the whole never
                s.sendall(b"G")
                time.sleep(0.05)
        assert time.monotonic() - began < 10
    assert "tessera_programs 0" in get(server.server_address[1])[1]
    server.shutdown()
    server.server_close()


def test_a_port_that_is_taken(served):
    done = served[0].call("up", "--name", "other", "--metrics", served[1], "sh")
    assert done.returncode == 125
    said = rb"tessera: --metrics: 127\.0\.0\.1:\d+: Address already in use\n"
    assert re.fullmatch(said, done.stderr)


@pytest.mark.parametrize("text", ["", "x", "-1", "65536", "1:2", "host:80", ":80", "::1:80",
                                  "127.0.0.1:", "[127.0.0.1]:80", "8 0"])  # fmt: skip
def test_ports_that_are_none(launcher, text):
    done = launcher.call("up", f"--metrics={text}", "sh")
    assert done.returncode == 125
    assert re.fullmatch(rb"tessera: --metrics: [^\n]*\n", done.stderr)
