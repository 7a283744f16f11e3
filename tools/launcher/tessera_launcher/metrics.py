# SPDX-License-Identifier: MIT
"""`./tessera up --metrics`: all counters over HTTP, in Prometheus' text format.

A kernel's counter "area.what" is the metric tessera_area_what with labels node and role: _total
for counters, nanoseconds as seconds. "area.what_ns.class" has the label class.

Trust: whoever reaches the port may send anything. A connection gets DEADLINE_S and a thread, of
which there are CONNECTIONS; what is beyond them is closed at once. What nodes count has been
checked (counters.py); of that the page has what the node's image declares.

Failure: whatever goes wrong with a request ends that request. Context: Server.start() leaves a
thread; the caller closes it.
"""

from __future__ import annotations

import contextlib
import http.server
import re
import socket
import socketserver
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field

from . import counters
from .counters import COUNTER, GAUGE, HISTOGRAM, Meaning
from .errors import LaunchError

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
DEADLINE_S = 10.0
CONNECTIONS = 16
# Ends of the kernel's buckets: two per power of two, from 1 us to 4 s.
BOUNDS_NS = [b for k in range(10, 32) for b in ((1 << k) - 1, (3 << (k - 1)) - 1)] + [(1 << 32) - 1]
# Numbers of a port of the HCA model that count nothing.
NOT_COUNTED = ("lid",)
UNTYPED = "untyped"


@dataclass
class _Family:
    """One metric: the same name, kind and meaning, with several label sets."""

    kind: str
    help: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)


def _number(value: float) -> str:
    return repr(value) if isinstance(value, float) else str(value)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _quoted(text: str) -> str:
    return '"' + _escaped(text).replace('"', '\\"') + '"'


def _labels(labels: dict[str, str]) -> str:
    inner = ",".join(f"{key}={_quoted(value)}" for key, value in labels.items())
    return f"{{{inner}}}" if inner else ""


def metric_name(counter: str, kind: str) -> tuple[str, bool, str | None]:
    """The metric of a kernel's counter: its name, whether it is a time, and its class."""
    match = re.fullmatch(r"(.*_ns)\.(\w+)", counter)
    base, label = (match[1], match[2]) if match else (counter, None)
    is_time = base.endswith("_ns")
    if is_time:
        base = base.removesuffix("_ns") + "_seconds"
    name = "tessera_" + re.sub(r"[^a-zA-Z0-9_]", "_", base)
    return (name + "_total" if kind == COUNTER else name), is_time, label


class Page:
    """Collects metrics, then writes them family by family, as the format wants them."""

    def __init__(self) -> None:
        self._families: dict[str, _Family] = {}
        self._series: set[str] = set()

    def add(self, name: str, kind: str, text: str, labels: dict[str, str], value: float) -> None:
        self._add(name, kind, text, [(f"{name}{_labels(labels)}", _number(value))])

    def add_histogram(self, name: str, text: str, labels: dict[str, str], value: dict) -> None:
        """A histogram of nanoseconds, in seconds."""
        samples = []
        found = counters.buckets(value)
        for bound, n in zip(BOUNDS_NS, counters.cumulative(found, BOUNDS_NS), strict=True):
            labelled = _labels(labels | {"le": _number(bound / 1e9)})
            samples.append((f"{name}_bucket{labelled}", str(n)))
        # Not the count that it tells: that one was taken a moment before the buckets.
        count = sum(n for _, n in found)
        samples.append((f"{name}_bucket{_labels(labels | {'le': '+Inf'})}", str(count)))
        samples.append((f"{name}_sum{_labels(labels)}", _number(value.get("sum", 0) / 1e9)))
        samples.append((f"{name}_count{_labels(labels)}", str(count)))
        self._add(name, HISTOGRAM, text, samples)

    def _add(self, name: str, kind: str, text: str, samples: list[tuple[str, str]]) -> None:
        """Series and their values; nothing if one of them is there: a page has each once."""
        if any(series in self._series for series, _ in samples):
            return
        self._series.update(series for series, _ in samples)
        family = self._families.setdefault(name, _Family(kind))
        if family.kind != kind:
            family.kind = UNTYPED  # nodes whose images declare nothing do not agree
        if text not in family.help:
            family.help.append(text)
        family.lines += [f"{series} {value}" for series, value in samples]

    def text(self) -> str:
        out = []
        for name, family in sorted(self._families.items()):
            out.append(f"# HELP {name} {_escaped('; '.join(family.help))}")
            out.append(f"# TYPE {name} {family.kind}")
            out += family.lines
        return "\n".join(out) + "\n"


def _add_counter(page: Page, name: str, value: object, meaning: Meaning | None,
                 labels: dict[str, str]) -> None:  # fmt: skip
    kind = HISTOGRAM if isinstance(value, dict) else meaning.kind if meaning else UNTYPED
    if meaning and isinstance(value, dict) != (meaning.kind == HISTOGRAM):
        return
    metric, is_time, label = metric_name(name, kind)
    text = meaning.help if meaning else f"the kernel's counter {name}"
    if label:
        labels = labels | {"class": label}
    if isinstance(value, dict):
        page.add_histogram(metric, text, labels, value)
    elif isinstance(value, (int, float)):
        page.add(metric, kind, text, labels, value / 1e9 if is_time else value)


def _add_model(page: Page, hca: object, roles: dict[str, str]) -> None:
    if not isinstance(hca, dict):
        return
    # A node that was started again may have a second port: the newest counts.
    ports = {str(port.get("name", "")): port for port in hca.get("ports", [])}
    for name, port in ports.items():
        labels = {"node": name, "role": roles.get(name, "")}
        for key, value in port.items():
            if isinstance(value, int) and not isinstance(value, bool) and key not in NOT_COUNTED:
                page.add(f"tessera_hca_{key}_total", COUNTER,
                         f"{key} of a port of the HCA model (docs/tools/hca.md)", labels, value)
    for group in ("injected", "capture"):
        for key, value in (hca.get(group) or {}).items():
            if isinstance(value, int) and not isinstance(value, bool):
                page.add(f"tessera_hca_{group}_{key}_total", COUNTER,
                         f"{group}.{key} of the HCA model (docs/tools/hca.md)", {}, value)


def render(look: dict, programs: int, known: dict[str, dict[str, Meaning]]) -> str:
    """The page for what Sampler.take() saw; @known has the meanings by role."""
    page = Page()
    page.add("tessera_programs", GAUGE, "programs of ./tessera exec that run", {}, programs)
    for node in look["nodes"]:
        labels = {"node": node["name"], "role": node["role"]}
        answers = int(node["up"] and node["counters"] is not None)
        page.add("tessera_up", GAUGE, "1 if the node is up and tells its counters", labels, answers)
        page.add("tessera_node_cpus", GAUGE, "virtual CPUs of the node", labels, node["cpus"])
        page.add("tessera_node_memory_bytes", GAUGE, "RAM of the node", labels, node["ram"])
        meanings = known.get(node["role"], {})
        for name, value in (node["counters"] or {}).items():
            if not meanings or name in meanings:
                _add_counter(page, name, value, meanings.get(name), labels)
    _add_model(page, look["hca"], {n["name"]: n["role"] for n in look["nodes"]})
    return page.text()


class _Handler(http.server.BaseHTTPRequestHandler):
    timeout = DEADLINE_S  # of one read
    server_version = "tessera"
    sys_version = ""
    server: Server

    def setup(self) -> None:
        super().setup()
        self._timer = threading.Timer(DEADLINE_S, self._too_late)
        self._timer.daemon = True
        self._timer.start()

    def _too_late(self) -> None:
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def finish(self) -> None:
        self._timer.cancel()
        with contextlib.suppress(OSError):
            super().finish()

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/":
            self._answer(200, "text/plain; charset=utf-8", "Tessera's counters are at /metrics.\n")
        elif path != "/metrics":
            self.send_error(404)
        else:
            try:
                text = self.server.page()
            except LaunchError as err:
                self._answer(503, "text/plain; charset=utf-8", f"{err}\n")
                return
            self._answer(200, CONTENT_TYPE, text)

    do_HEAD = do_GET

    def _answer(self, status: int, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass  # nobody would read it


class Server(socketserver.ThreadingTCPServer):
    """Listens from its making on; answers from start() on. LaunchError: it cannot listen."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, address: str, port: int):
        self.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._where = f"[{address}]" if ":" in address else address
        self._free = threading.BoundedSemaphore(CONNECTIONS)
        try:
            super().__init__((address, port), _Handler)
        except OSError as err:
            raise LaunchError(
                f"--metrics: {self._where}:{port}: {err.strerror or err}"
            ) from None

    @property
    def url(self) -> str:
        return f"http://{self._where}:{self.server_address[1]}/metrics"

    def start(self, keeper: object, kernels: Iterable[str]) -> None:
        """Serve what the keeper's cluster counts; the kernels' images, by role, say what it is."""
        from .options import ROLES

        self._keeper = keeper
        self._known = {
            role: counters.read(path) for role, path in zip(ROLES, kernels, strict=True)
        }
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def page(self) -> str:
        return render(self._keeper.sampler.take(), len(self._keeper.programs()), self._known)

    def process_request(self, request, client_address) -> None:
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread could be made
            self._free.release()
            raise

    def process_request_thread(self, request, client_address) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request, client_address) -> None:
        pass  # the connection is closed; there is nobody to tell
