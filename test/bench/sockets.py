# SPDX-License-Identifier: MIT
"""Sockets: test/user/sockops.c in a Tessera cluster and in Linux guests, by turns.

What stays on one processor is counted in instructions (-icount) and in time; requests and bytes to
the host go over virtio-net and QEMU's user network on both sides; between two processors Tessera's
TCP goes over RDMA, and that of two Linux guests over virtio-net. redis-benchmark and iperf3, as the
host has them, are measured where it does. Every figure is the median of the repetitions.
"""

from __future__ import annotations

import contextlib
import pathlib
import re
import shutil
import socket
import statistics
import subprocess

import boot
from reference import cluster as reference_cluster
from reference import image as reference_image

LIMIT_S = 300
HOST = "10.0.2.2"  # QEMU's user network has it there
PORT = 7800
# Of the reference guests' modules: those that are for the HCA alone.
HCA_MODULES = ("mlx4_core", "mlx4_ib", "ib_uverbs", "ib_umad", "rdma_ucm", "ib_ipoib")
MEMORY_MB = 768
REDIS = ("redis-server", "redis-benchmark", "redis-cli")
NAMES = {
    "tcp": "TCP round trip over loopback, 64 B",
    "unix": "AF_UNIX stream round trip, 64 B",
    "epoll": "one active connection of {active:,}, beside {idle:,} idle ones in one epoll",
}


class Sizes:
    """How much of each is done."""

    def __init__(self, quick: bool):
        self.trips = 50 if quick else 2000
        self.counted_trips = 50 if quick else 200
        self.idle, self.active, self.rounds = (500, 50, 1) if quick else (10_000, 1_000, 3)
        self.requests = 20 if quick else 500
        self.mib = 1 if quick else 64
        self.gets = 500 if quick else 20_000


# Linux.


def _files_of(programs: tuple[str, ...]) -> dict:
    """What these programs of the host need, as members of an archive."""
    tree = boot.image.Tree()
    for name in programs:
        tree.add_program(shutil.which(name))
    # The guest has /lib, a link to usr/lib on the host, as a directory.
    links = {path: target for path, target in tree.links.items() if path.count("/") > 1}
    files = {path: pathlib.Path(source).read_bytes() for path, source in tree.files.items()}
    return {path.lstrip("/"): body for path, body in (files | links).items()}


def _linux_files(programs, extra: tuple[str, ...] = ()):
    """Kernel and initial RAM disk of the Linux guests: the reference guests', our program, and
    others of the host.
    """
    kernel, initrd = reference_image.build(
        boot.BUILD / "reference" / "packages", boot.BUILD / "reference" / "image"
    )
    tree = {"bin/sockops": (programs / "glibc-static" / "sockops").read_bytes()}
    tree |= _files_of(extra)
    out = boot.BUILD / "bench"
    out.mkdir(parents=True, exist_ok=True)
    both = out / f"{extra[0] if extra else 'sockets'}.initrd"
    both.write_bytes(initrd.read_bytes() + reference_image.cpio(tree))
    return kernel, both


@contextlib.contextmanager
def _linux(programs, icount: bool = False, extra: tuple[str, ...] = ()):
    """One Linux guest, alone, with virtio-net on QEMU's user network: what runs a command there."""
    kernel, initrd = _linux_files(programs, extra)
    work = boot.BUILD / "bench"
    guest = reference_cluster.Guest(0, kernel, initrd, work, None, None, MEMORY_MB, 1,
                                    HCA_MODULES, user_net=True, icount=icount)  # fmt: skip
    try:
        guest.wait_ready(LIMIT_S)
        yield lambda command: _checked(*guest.run(command, LIMIT_S))
    finally:
        guest.stop()


def _checked(status: int, text: str) -> str:
    if status:
        raise RuntimeError(f"status {status} on Linux: {text[-300:]}")
    return text


# Tessera.


@contextlib.contextmanager
def _tessera(disk, name: str, *args: str):
    """A cluster: it, and what runs a command on its first processor."""
    net = () if "--net" in args else ("--net", "none")
    running = boot.Running((*net, *args), disk, f"bench-sockets-{name}")
    running.up()
    try:
        yield running, lambda command: running.run(
            ["/bin/sh", "-c", command], limit=LIMIT_S, cwd="/"
        ).checked().decode()
    finally:
        running.close()


def _disk(programs, extra: tuple[str, ...] = (), name: str = "sockets"):
    """Our program at a place that the Linux guests have as well, a shell, and perhaps others."""
    tree = boot.image.Tree()
    tree.add_program(boot.packages.require("busybox")[0])
    tree.links["/bin/sh"] = boot.packages.require("busybox")[0]
    for path in extra:
        tree.add_program(path)
    tree.add_volume(str(programs / "glibc-static" / "sockops"), "/bin/sockops")
    stage = boot.WORK / f"{name}.stage"
    shutil.rmtree(stage, ignore_errors=True)
    stage.mkdir(parents=True)
    tree.stage(str(stage))
    disk = boot.WORK / f"{name}.img"
    boot.image.make_image(
        boot.packages.require("mke2fs")[0], str(stage), str(disk),
        lambda argv: subprocess.run(argv, check=True, capture_output=True, text=True).stdout,
    )  # fmt: skip
    shutil.rmtree(stage)
    return disk


# Both.


def parse(text: str) -> dict[str, float]:
    return {m[1]: float(m[2]) for m in re.finditer(r"^(\w+) ([\d.]+)\r?$", text, re.M)}



def _bounds(name: str) -> dict:
    """Of what stays on one processor; the idle connections have none."""
    return {} if name == "epoll" else {"must": 0.6, "goal": 0.4}


def _local_commands(sizes: Sizes, counted: bool) -> str:
    trips = sizes.counted_trips if counted else sizes.trips
    return (f"sockops trips {trips} && sockops idle"
            f" {sizes.idle} {sizes.active} {1 if counted else sizes.rounds}")  # fmt: skip


def _counted(programs, disk, sizes: Sizes, row) -> list:
    """Instructions of what stays on one processor."""
    command = _local_commands(sizes, True)
    with _tessera(disk, "icount", "--icount", "processor") as (_, run):
        ours = parse(run(command))
    with _linux(programs, icount=True) as run:
        linux = parse(run(command))
    return [row(NAMES[name].format(**vars(sizes)), "instr.", ours[name], linux[name],
                "a Linux guest, -icount", **_bounds(name)) for name in NAMES]  # fmt: skip


def _timed(programs, disk, sizes: Sizes, repeat: int, row) -> list:
    """The same in time, and messages to other nodes, of which there should be none."""
    command = _local_commands(sizes, False)
    ours, linux = [], []
    with _tessera(disk, "local") as (running, run), _linux(programs) as run_linux:
        for _ in range(repeat):
            ours.append(parse(run(command)))
            linux.append(parse(run_linux(command)))
        before = running.stats()
        run(f"sockops trips {sizes.trips}")
        requests = boot.delta(before, running.stats(), "p0", "rpc.requests")
    rows = []
    for name, text in NAMES.items():
        got, base = ([s[name] / 1000 for s in x] for x in (ours, linux))
        rows.append(row(text.format(**vars(sizes)), "µs", statistics.median(got),
                        statistics.median(base), "a Linux guest", **_bounds(name),
                        raw={"ours": got, "linux": base}))  # fmt: skip
    # 12 batches of each kind; what the program's start and end ask is in it.
    return rows + [row("messages of the processor for a round trip on it", "",
                       requests / (24 * sizes.trips), None, "")]  # fmt: skip


def _two_way_rows(ours, linux, what: str, base: str, bounds: dict, row) -> list:
    """Rows of `sockops asks` and `sockops bytes`; bounds: (must, goal) of latency and rate."""
    columns = lambda name: ([s[name] for s in ours], [s[name] for s in linux])  # noqa: E731
    got, theirs = ([v / 1000 for v in x] for x in columns("request"))
    rows = [row(f"TCP request and response {what}, 64 B", "µs", statistics.median(got),
                statistics.median(theirs), base, bounds["latency"][1],
                {"ours": got, "linux": theirs}, must=bounds["latency"][0])]  # fmt: skip
    for name, way in (("push", "bytes"), ("pull", "the other way: bytes")):
        got, theirs = columns(name)
        rows.append(row(f"{way} {what}", "MB/s", statistics.median(got),
                        statistics.median(theirs), base, bounds["rate"][1],
                        {"ours": got, "linux": theirs}, must=bounds["rate"][0],
                        more=True))  # fmt: skip
    return rows


def _until(command: str) -> str:
    """@command, again until it succeeds: an address comes, or a server listens."""
    return (f"i=0; until {command} > /dev/null 2>&1; do i=$((i + 1));"
            " [ $i -lt 100 ] || exit 9; sleep 0.1; done")  # fmt: skip


@contextlib.contextmanager
def _host_server(programs):
    """`sockops serve` on the host itself: its port."""
    server = subprocess.Popen([programs / "glibc-static" / "sockops", "serve", "127.0.0.1"],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)  # fmt: skip
    try:
        yield int(server.stdout.readline().split()[1])
    finally:
        server.kill()
        server.wait()
        server.stdout.close()


def _to_host(programs, disk, sizes: Sizes, repeat: int, row) -> list:
    ours, linux = [], []
    with _host_server(programs) as port, _linux(programs) as run_linux, \
         _tessera(disk, "host", "--net", "user") as (_, run):  # fmt: skip
        first = _until(f"sockops asks {HOST} {port} 1")
        command = (f"{first}; sockops asks {HOST} {port} {sizes.requests} &&"
                   f" sockops bytes {HOST} {port} {sizes.mib}")  # fmt: skip
        for _ in range(repeat):
            ours.append(parse(run(command)))
            linux.append(parse(run_linux(command)))
    return _two_way_rows(ours, linux, "to the host", "a Linux guest, virtio-net as well",
                         {"latency": (1.2, 0.8), "rate": (0.6, 1.0)}, row)  # fmt: skip


COUNTERS = {
    "doorbells": "rpc.doorbells",
    "messages of bytes": "socket.remote.messages",
    "messages of room": "socket.remote.windows",
}


def _counts(running, run, command: str, per: float) -> dict[str, float]:
    """What both processors count for a unit of which @command does @per."""
    run(command)  # connections of the RPC layer, and buffers
    before = running.stats()
    run(command)
    after = running.stats()
    out = {what: sum(boot.delta(before, after, node, name) for node in ("p0", "p1")) / per
           for what, name in COUNTERS.items()}  # fmt: skip
    sent, copied = (sum(boot.delta(before, after, node, f"socket.remote.{name}")
                        for node in ("p0", "p1")) for name in ("bytes", "copied"))  # fmt: skip
    return {**out, "copies of each byte beside write() and read()": copied / max(1, sent)}


def _far(programs, disk, sizes: Sizes, repeat: int, row) -> list:
    """Between two processors, beside two Linux guests."""
    kernel, initrd = _linux_files(programs)
    ours, linux = [], []
    asks = f"sockops asks 127.0.0.1 {PORT} {sizes.requests}"
    bulk = f"sockops bytes 127.0.0.1 {PORT} {sizes.mib}"
    first = _until(f"sockops asks 127.0.0.1 {PORT} 1")
    with _tessera(disk, "far", "--processors", "2") as (running, run), \
         reference_cluster.Cluster(boot.BUILD / "tools/hca/tessera-hca", kernel, initrd,
                                   boot.BUILD / "bench" / "pair", memory=MEMORY_MB,
                                   skip=HCA_MODULES) as guests:  # fmt: skip
        guests.wait_ready(LIMIT_S)
        server, _ = running.start(["/bin/sockops", "serve", "127.0.0.1", str(PORT)], cwd="/",
                                  node="p1")
        _checked(*guests[0].run(f"sockops serve 0.0.0.0 {PORT} > /dev/null &", LIMIT_S))
        for _ in range(repeat):
            ours.append(parse(run(f"{first}; {asks} && {bulk}")))
            linux.append(parse(_checked(*guests[1].run(
                f"{first}; {asks} && {bulk}".replace("127.0.0.1", guests[0].ip),
                LIMIT_S))))  # fmt: skip
        trips = _counts(running, run, asks, 12 * sizes.requests)
        pushed = _counts(running, run, bulk, 2 * sizes.mib)
        server.signal(15)
    rows = _two_way_rows(ours, linux, "between two processors", "two Linux guests, virtio-net",
                         {"latency": (0.4, 0.25), "rate": (1.5, 3.0)}, row)  # fmt: skip
    for counts, what in ((trips, "of such a round trip"), (pushed, "of 1 MiB")):
        rows += [row(f"{name}, {what}", "", value, None, "") for name, value in counts.items()]
    return rows


def _require(*programs: str) -> None:
    for name in programs:
        if not shutil.which(name):
            raise RuntimeError(f"{name} is not on this host")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


def _iperf3(programs, sizes: Sizes, repeat: int, row) -> list:
    """Debian's iperf3 in the guests, and its server on the host."""
    _require("iperf3")
    disk = _disk(programs, (shutil.which("iperf3"),), "sockets-iperf3")
    port = _free_port()
    ask = f"cd /tmp; PATH=$PATH:/usr/bin:/bin; iperf3 -c {HOST} -p {port}"
    first = _until(f"{ask} -n 100K")
    got = re.compile(r"([\d.]+) Mbits/sec\s+receiver")
    ways = {"to the host": "", "from the host": "-R"}
    ours, linux = ({way: [] for way in ways} for _ in range(2))
    server = subprocess.Popen(["iperf3", "-s", "-B", "127.0.0.1", "-p", str(port)],
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)  # fmt: skip
    try:
        with _linux(programs, extra=("iperf3",)) as run_linux, \
             _tessera(disk, "iperf3", "--net", "user") as (_, run):  # fmt: skip
            run(first)
            run_linux(first)
            for _ in range(repeat):
                for way, option in ways.items():
                    command = f"{ask} -n {sizes.mib}M -f m {option}"
                    for kept, guest in ((ours, run), (linux, run_linux)):
                        kept[way].append(float(got.search(guest(command))[1]) / 8)
    finally:
        server.kill()
        server.wait()
    return [row(f"iperf3, TCP {way}", "MB/s", statistics.median(ours[way]),
                statistics.median(linux[way]), "a Linux guest, virtio-net as well", 1.0,
                {"ours": ours[way], "linux": linux[way]}, must=0.6, more=True)
            for way in ways]  # fmt: skip


def _redis(programs, sizes: Sizes, repeat: int, row) -> list:
    """GET over loopback; the same server and client on both."""
    _require(*REDIS)
    disk = _disk(programs, tuple(shutil.which(name) for name in REDIS), "sockets-redis")
    command = (
        "cd /tmp; PATH=/bin:/usr/bin; "
        f"redis-server --port {PORT} --save '' --appendonly no > /dev/null & p=$!; "
        + _until(f"redis-cli -p {PORT} ping")
        + f"; redis-benchmark -p {PORT} -t get -n {sizes.gets} -c 20 --csv; kill $p; wait $p; true"
    )
    rate = lambda text: float(re.search(r'^"GET","([\d.]+)"', text, re.M)[1])  # noqa: E731
    ours, linux = [], []
    with _tessera(disk, "redis") as (_, run), _linux(programs, extra=REDIS) as run_linux:
        for _ in range(repeat):
            ours.append(rate(run(command)))
            linux.append(rate(run_linux(command)))
    return [row("redis-benchmark, GET over loopback, 20 clients", "/s", statistics.median(ours),
                statistics.median(linux), "a Linux guest", 1.5, {"ours": ours, "linux": linux},
                must=1.0, more=True)]  # fmt: skip


def parts(programs, repeat: int, quick: bool, row) -> list:
    """(name, function that gives its rows) of each; row(name, unit, value, baseline, what, goal,
    raw, must, more) makes one.
    """
    sizes = Sizes(quick)
    disk = _disk(programs)
    return [
        ("instructions", lambda: _counted(programs, disk, sizes, row)),
        ("times", lambda: _timed(programs, disk, sizes, repeat, row)),
        ("to the host", lambda: _to_host(programs, disk, sizes, repeat, row)),
        ("between processors", lambda: _far(programs, disk, sizes, repeat, row)),
        ("redis", lambda: _redis(programs, sizes, repeat, row)),
        ("iperf3", lambda: _iperf3(programs, sizes, repeat, row)),
    ]
