# SPDX-License-Identifier: MIT
"""The options of `./tessera run`, `up` and `exec`, checked; docs/launcher.md describes them."""

from __future__ import annotations

import argparse
import os
import re
import sys
from dataclasses import dataclass, field

from . import users
from .errors import UsageError

ROLES = ("processor", "memory", "storage")
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
MIN_VREGION, MAX_VREGION = 2 << 20, 1 << 30
MIN_EXCACHE = 1 << 20
MIN_RAM = 64 << 20
MAX_CPUS = 255  # of QEMU 7.2's pc machine
MAX_NODES = 64
MIN_INTERVAL, MAX_INTERVAL = 0.25, 3600.0  # of top; a younger look is shared (sampler.py)
DEFAULT_NAME = "default"
DISK_DRIVERS = ("virtio", "nvme")
MADE_UP = ("dev", "proc", "sys")  # directories that the processors make up
ANY4 = "0.0.0.0"
# QEMU's network cards, by --net-driver.
NET_DEVICES = {
    "virtio": "virtio-net-pci,disable-legacy=on",
    "e1000": "e1000",
    "e1000e": "e1000e",
}


def parse_size(text: str) -> int:
    """"8M" -> bytes."""
    match = re.fullmatch(r"(\d+)([KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    if not match:
        raise UsageError(f"{text!r} is not a size (such as 512M)")
    return int(match[1]) * _UNITS[match[2].upper()]


def format_size(size: int) -> str:
    for unit in ("G", "M", "K"):
        if size and size % _UNITS[unit] == 0:
            return f"{size // _UNITS[unit]}{unit}"
    return str(size)


@dataclass(frozen=True)
class Published:
    """A port of the host that leads to one of the cluster's programs."""

    address: str  # of the host, IPv4
    host: int
    guest: int
    protocol: str = "tcp"  # or "udp"

    def text(self) -> str:
        return f"{self.address}:{self.host} -> {self.guest}/{self.protocol}"


@dataclass(frozen=True)
class Mount:
    """One file system beside the root's, with a storage node of its own."""

    at: str  # canonical path in the cluster
    image: str
    read_only: bool = False


@dataclass
class Options:
    """Everything that shapes a cluster and a run; the defaults are those of the command line."""

    program: str = ""
    args: list[str] = field(default_factory=list)
    more: list[list[str]] = field(default_factory=list)  # run: the programs behind the first
    pack: list[str] = field(default_factory=list)  # up: programs of the host to pack
    name: str | None = None  # up, exec
    processor: int | None = None  # exec
    verbose: bool = False  # exec
    restart: str | None = None  # up: a node of the cluster that is up
    metrics: tuple[str, int] | None = None  # up: address and port
    processors: int = 1
    memories: int = 1
    storages: int = 1
    cpus: dict[str, int] = field(default_factory=dict)
    memory: dict[str, int] = field(default_factory=dict)
    excache: int = 64 << 20
    vregion: int = 1 << 30
    env: list[str] = field(default_factory=list)
    cwd: str = "/"
    cwd_given: bool = False
    rootfs: str | None = None
    image: tuple[str, str | None] | None = None  # file or directory, and which of its images
    entrypoint: str | None = None  # instead of the image's
    publish_exposed: bool = False
    disk: str | None = None
    read_only: bool = False  # nothing is to change the root
    writable: bool = False  # the root, when it is a copy of our own: asked for
    rw: list[tuple[str, str]] = field(default_factory=list)  # run: host's directory, guest's
    commit: str | None = None  # run: the image that is to have what the root was at the end
    mounts: list[Mount] = field(default_factory=list)
    disk_driver: str = DISK_DRIVERS[0]  # how disks are attached
    volumes: list[tuple[str, str]] = field(default_factory=list)
    output: list[tuple[str, str]] = field(default_factory=list)  # run, up: guest's path, host's
    fabric: str = "auto"
    net: str = "user"  # or "none", or "tap:NAME"
    net_driver: str = "virtio"
    publish: list[Published] = field(default_factory=list)
    accel: str = "auto"
    qemu: str | None = None
    hca: str | None = None
    append: list[tuple[str, str]] = field(default_factory=list)
    stats: str | None = None
    sweep: list[float] = field(default_factory=list)  # run: per cent of the program's peak
    plot: str | None = None  # of the sweep
    beside_linux: bool = False
    account: bool = False
    strace: bool = False
    strace_file: str | None = None  # run; None: stderr
    timeout: float | None = None
    boot_timeout: float = 60.0
    gdb: str | None = None
    dry_run: bool = False
    log_dir: str | None = None
    build_dir: str | None = None
    build: bool = True
    inject: list[str] = field(default_factory=list)
    boot_order: str = "together"
    seed: int | None = None
    delay: dict[str, float] = field(default_factory=dict)
    icount: str | None = None
    tty: bool = False
    user: str | None = None  # name or number, and group; None: the caller

    @property
    def commands(self) -> list[list[str]]:
        """What to run, in order."""
        return [[self.program, *self.args], *self.more]


def _pair(text: str, what: str) -> tuple[str, str]:
    key, sep, value = text.partition("=")
    if not sep or not key or not value:
        raise UsageError(f"{what} wants ROLE=VALUE, not {text!r}")
    return key, value


def role_matches(selector: str, role: str, name: str) -> bool:
    """Does "memory", "m1" or "all" select this node?"""
    return selector in (role, name, "all")


def _check_selector(selector: str, what: str) -> str:
    if selector in ROLES or selector == "all" or re.fullmatch(r"[pms]\d+", selector):
        return selector
    raise UsageError(f"{what}: {selector!r} is neither a role ({', '.join(ROLES)}) nor a node (p0)")


def _number(text: str, what: str, kind=int):
    try:
        value = kind(text)
    except ValueError:
        raise UsageError(f"{what}: {text!r} is not a number") from None
    if not 0 <= value < 1e9:
        raise UsageError(f"{what}: {text} is out of range")
    return value


def parse_interval(text: str) -> float:
    """Of top."""
    value = _number(text, "--interval", float)
    if not MIN_INTERVAL <= value <= MAX_INTERVAL:
        raise UsageError(f"--interval must be from {MIN_INTERVAL:g} to {MAX_INTERVAL:g} seconds")
    return value


class _Parser(argparse.ArgumentParser):
    def error(self, message: str):
        raise UsageError(f"{message} (see ./{self.prog} --help)")


SEPARATOR = ":::"
_ABOUT = {
    "run": ("[options] [--] PROGRAM [ARG...] [::: PROGRAM [ARG...]]...",
            "Run a Linux program on a cluster of processor, memory and storage nodes. With "
            "--processors above 1, ::: separates several programs, which take turns over the "
            "processors."),
    "up": ("[options] [--] [PROGRAM...]",
           "Start a cluster and leave it. PROGRAMs of the host (without --rootfs and --disk; the "
           "usual utilities if none is named) are packed with their libraries, for "
           "./tessera exec."),
    "exec": ("[options] [--] PROGRAM [ARG...]",
             "Run a program in a cluster that is up. Its streams, signals and exit status are as "
             "those of ./tessera run."),
}  # fmt: skip


def make_parser(command: str = "run") -> argparse.ArgumentParser:
    usage, about = _ABOUT[command]
    p = _Parser(
        prog=f"tessera {command}",
        usage=f"./tessera {command} {usage}",
        description=about,
        allow_abbrev=False,
    )
    if command != "run":
        help_text = (
            "of the cluster (default)" if command == "up" else "of the cluster (the one that is up)"
        )
        p.add_argument("--name", metavar="NAME", help=help_text)
    if command == "up":
        p.add_argument("--restart", metavar="NODE",
                       help="start a node (m0) of a cluster that is up again")  # fmt: skip
        p.add_argument("--metrics", metavar="[ADDR:]PORT",
                       help="serve all counters to Prometheus by HTTP (ADDR: 127.0.0.1)")
    if command == "exec":
        p.add_argument("--processor", metavar="I", help="the processor node (the cluster chooses)")
        p.add_argument("-v", dest="verbose", action="store_true",
                       help="say on stderr where the program runs, and the cluster's addresses")
    if command != "exec":
        _add_cluster(p, command)
    _add_program(p, command)
    if command != "exec":
        _add_host(p, command)
        _add_tests(p)
    return p


def _add_cluster(p: argparse.ArgumentParser, command: str) -> None:
    g = p.add_argument_group("the cluster")
    g.add_argument("--processors", metavar="N", default="1", help="processor nodes (1)")
    g.add_argument("--memories", metavar="N", default="1", help="memory nodes (1)")
    g.add_argument("--storages", metavar="N",
                   help="storage nodes (one, and one for each --mount)")  # fmt: skip
    g.add_argument("--cpus", metavar="ROLE=N", action="append", default=[], help="CPUs per node")
    g.add_argument(
        "--memory", metavar="ROLE=SIZE", action="append", default=[], help="RAM per node"
    )
    g.add_argument("--excache", metavar="SIZE", default="64M", help="cache of a processor (64M)")
    g.add_argument("--vregion", metavar="SIZE", default="1G", help="unit of memory placement (1G)")
    g.add_argument(
        "--fabric",
        choices=("auto", "hca", "mpqemu", "vfio-user", "roce"),
        default="auto",
        help="how nodes reach each other (auto: what a trial shows to work)",
    )
    g.add_argument("--net", metavar="user|tap:NAME[,NAME...]|none",
                   help="network cards for the processors (user: QEMU's user network)")
    g.add_argument("--net-driver", choices=tuple(NET_DEVICES), metavar="|".join(NET_DEVICES),
                   help="the kind of these cards (virtio)")
    g.add_argument("--publish", metavar="[ADDR:]HOST:GUEST[/udp]", action="append", default=[],
                   help="a port of the host leads to one of the cluster")  # fmt: skip
    g.add_argument("--append", metavar="[ROLE:]PARAMS", action="append", default=[],
                   help="more boot parameters (docs/boot-params.md)")  # fmt: skip
    if command == "run":
        g.add_argument("--strace", metavar="FILE", nargs="?", const="", default=None,
                       help="trace system calls, on stderr or into a file (--strace=FILE)")
    else:
        g.add_argument("--strace", action="store_true",
                       help="log system calls in the processors' logs")  # fmt: skip


def _add_program(p: argparse.ArgumentParser, command: str) -> None:
    g = p.add_argument_group("the file system" if command == "up" else "the program")
    if command != "exec":
        g.add_argument("--rootfs", metavar="DIR", help="PROGRAM is a path inside a copy of DIR")
        g.add_argument("--image", metavar="FILE[:NAME]",
                       help="the root and the program of a container image (docker save or an OCI "
                            "layout)")  # fmt: skip
        g.add_argument(
            "--disk", metavar="IMAGE", help="PROGRAM is a path inside IMAGE, changed in place"
        )
        g.add_argument("--disk-driver", choices=DISK_DRIVERS, default=DISK_DRIVERS[0],
                       help="how disks are attached")  # fmt: skip
        g.add_argument("--mount", metavar="DIR=IMAGE[:ro]", action="append", default=[],
                       help="IMAGE at DIR, changed in place unless :ro")  # fmt: skip
        g.add_argument("--writable", action="store_true",
                       help="programs may change files (as with --rootfs); the changes are thrown "
                            "away")  # fmt: skip
        g.add_argument("--read-only", action="store_true",
                       help="--rootfs, --image: programs may not change files")
        g.add_argument("--publish-exposed", action="store_true",
                       help="--image: publish the ports that it exposes, under their own numbers")
        g.add_argument("--volume", metavar="HOST:GUEST", action="append", default=[],
                       help="add host files to the root file system")  # fmt: skip
    if command == "run":
        g.add_argument("--entrypoint", metavar="PROGRAM",
                       help="--image: instead of its own; '' for none")  # fmt: skip
    if command in ("run", "up"):
        g.add_argument("--output", metavar="GUEST:HOST", action="append", default=[],
                       help="copy files out at the end (of a root that can be written)")
        g.add_argument("--rw", metavar="HOST:GUEST", action="append", default=[],
                       help="add a directory, whose changes come back at the end")  # fmt: skip
        g.add_argument("--commit", metavar="FILE",
                       help="make FILE an image of the root file system as it is at the end")
    if command == "up":
        return
    g.add_argument("--env", metavar="K=V", action="append", default=[])
    g.add_argument("--cwd", metavar="DIR", help="working directory (/, or the image's)")
    g.add_argument("--user", metavar="USER[:GROUP]",
                   help="run as this user of the root's /etc/passwd (your own ids)")  # fmt: skip
    g.add_argument("-t", dest="tty", action="store_true", help="give the program a terminal")
    what = "the program" if command == "exec" else "everything"
    g.add_argument("--timeout", metavar="S", help=f"kill {what} after S seconds (status 124)")


def _add_host(p: argparse.ArgumentParser, command: str) -> None:
    g = p.add_argument_group("the host")
    g.add_argument("--accel", choices=("auto", "tcg", "kvm"), default="auto")
    g.add_argument("--qemu", metavar="PATH", help="the QEMU to use")
    g.add_argument("--hca", metavar="PATH", help="the HCA model to use")
    g.add_argument("--build-dir", metavar="DIR", help="where make puts its output (build)")
    g.add_argument("--no-build", dest="build", action="store_false", help="use what is built")
    g.add_argument("--log-dir", metavar="DIR", help="keep kernel logs here")
    if command == "run":
        g.add_argument(
            "--stats", metavar="FILE", help="write every node's counters as JSON at exit"
        )
        g.add_argument("--sweep", metavar="A,B,...",
                       help="run with that many %% of the program's memory in the cache; a table")
        g.add_argument("--plot", metavar="FILE", help="the sweep's picture (PROGRAM-sweep.png)")
        g.add_argument("--beside-linux", action="store_true",
                       help="sweep: also in a Linux guest that swaps over a network")
        g.add_argument("--account", action="store_true",
                       help="print what each node did, on stderr, at exit")  # fmt: skip
    g.add_argument("--gdb", metavar="ROLE", help="stop a node at its first instruction for gdb")
    g.add_argument("--dry-run", action="store_true", help="print the command lines and stop")


def _add_tests(p: argparse.ArgumentParser) -> None:
    g = p.add_argument_group("for tests")
    g.add_argument("--inject", metavar="CMD", action="append", default=[],
                   help="give the HCA model a command before the program starts")  # fmt: skip
    g.add_argument("--boot-order", choices=("together", "shuffle"), default="together")
    g.add_argument("--seed", metavar="N", help="of --boot-order shuffle")
    g.add_argument("--delay", metavar="ROLE=S", action="append", default=[],
                   help="start a node S seconds late")  # fmt: skip
    g.add_argument("--icount", metavar="ROLE",
                   help="a node's clock counts its instructions, one a nanosecond (TCG only)")
    g.add_argument("--boot-timeout", metavar="S", default="60", help="for the cluster (60)")


def parse_run(argv: list[str]) -> Options:
    """The options of one run; UsageError with one line when they make no sense."""
    ns, command = _parse("run", argv)
    o = Options()
    _cluster_options(o, ns)
    _files_options(o, ns)
    commands = _programs(command) if o.processors > 1 and command else [command or [""]]
    o.program, o.args, o.more = commands[0][0], commands[0][1:], commands[1:]
    _program_options(o, ns)
    if o.more and o.tty:
        raise UsageError("-t is for one program, and there are several")
    _host_options(o, ns)
    o.stats, o.account = ns.stats, ns.account
    _output_options(o, ns)
    _sweep_options(o, ns)
    return o


def _output_options(o: Options, ns: argparse.Namespace) -> None:
    for text in ns.output:
        guest, sep, host = text.partition(":")
        if not guest.startswith("/") or not sep or not host:
            raise UsageError(f"--output wants /GUEST:HOST, not {text!r}")
        if not os.path.isdir(os.path.dirname(os.path.abspath(host))):
            raise UsageError(f"--output: {host} is in no directory that is there")
        o.output.append((guest, os.path.abspath(host)))
    for text in ns.rw:
        host, sep, guest = text.rpartition(":")
        if not sep or not host or not guest.startswith("/") or not guest.strip("/"):
            raise UsageError(f"--rw wants HOST:/GUEST, not {text!r}")
        if not os.path.isdir(host):
            raise UsageError(f"--rw: {host} is not a directory")
        o.rw.append((os.path.realpath(host), "/" + guest.strip("/")))
    if o.rw and o.disk:
        raise UsageError("--disk is used as it is: --rw cannot add to it")
    o.volumes += o.rw
    o.writable = o.writable or (bool(o.rw) and not (o.rootfs or o.image))
    if ns.commit is not None:
        o.commit = os.path.abspath(ns.commit)
        if os.path.lexists(o.commit):
            raise UsageError(f"--commit: {ns.commit} is there already")
        if not os.path.isdir(os.path.dirname(o.commit)):
            raise UsageError(f"--commit: {ns.commit} is in no directory that is there")
    changes = (o.disk or o.writable or o.rootfs or o.image) and not o.read_only
    if o.output and not changes:
        raise UsageError("--output is for --disk, --rootfs, --image or --writable: else nothing "
                         "is written")
    if o.commit and (o.disk or not changes):
        raise UsageError("--commit is for --rootfs, --image or --writable: --disk is changed in "
                         "place, and else nothing is written")  # fmt: skip
    if o.rw and not changes:
        raise UsageError("--rw does not go with --read-only")
    for option, guest in [("--output", g) for g, _ in o.output] + [("--rw", g) for _, g in o.rw]:
        for m in o.mounts:
            if below("/" + guest.strip("/"), m.at):
                raise UsageError(f"{option}: {guest} is in {m.image}, which is mounted there: "
                                 "see ./tessera cp")  # fmt: skip


def below(path: str, directory: str) -> bool:
    """Is it that directory, or in it?"""
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def _sweep_options(o: Options, ns: argparse.Namespace) -> None:
    o.plot, o.beside_linux = ns.plot, ns.beside_linux
    if ns.sweep is None:
        if o.plot or o.beside_linux:
            raise UsageError("--plot and --beside-linux are for --sweep")
        return
    for text in ns.sweep.split(","):
        share = float(text) if re.fullmatch(r"[0-9]{1,3}(\.[0-9]{1,3})?", text) else 0
        if not 0 < share <= 100:
            raise UsageError(f"--sweep: {text!r} is not a percentage above 0, up to 100")
        if share in o.sweep:
            raise UsageError(f"--sweep: {text} is there twice")
        o.sweep.append(share)
    for given, option in ((o.tty, "-t"), (o.more, SEPARATOR), (o.account, "--account"),
                          (o.gdb, "--gdb"), (o.dry_run, "--dry-run"), (o.icount, "--icount"),
                          (o.writable, "--writable"), (o.output, "--output"),
                          (o.commit, "--commit"), (o.rw, "--rw"), (o.image, "--image"),
                          (o.mounts, "--mount"),
                          (o.processors > 1, "--processors above 1")):  # fmt: skip
        if given:
            raise UsageError(f"--sweep does not go with {option}")
    o.read_only = True  # all runs begin with the same files
    if o.beside_linux and (o.disk or o.image):
        raise UsageError("--beside-linux needs the program's files: --rootfs, or the host's, "
                         "not --disk or --image")  # fmt: skip


def parse_up(argv: list[str]) -> Options:
    """The options of a cluster that stays."""
    ns, pack = _parse("up", argv)
    if ns.restart is not None:
        return _parse_restart(ns, pack)
    o = Options(pack=pack, name=_check_name(ns.name or DEFAULT_NAME))
    if ns.metrics is not None:
        o.metrics = _listen_address(ns.metrics)
    _cluster_options(o, ns)
    _files_options(o, ns)
    if pack and (o.rootfs or o.disk or o.image):
        raise UsageError("PROGRAM is packed from the host: not with --rootfs, --image or --disk, "
                         "which have their own")  # fmt: skip
    _host_options(o, ns)
    _output_options(o, ns)
    return o


def _listen_address(text: str) -> tuple[str, int]:
    """[ADDR:]PORT; an IPv6 address stands in brackets."""
    import ipaddress  # not for every start of ./tessera

    address, sep, port = text.rpartition(":")
    if not sep:
        address = "127.0.0.1"
    plain = address.removeprefix("[").removesuffix("]")
    try:
        ok = ipaddress.ip_address(plain).version == (6 if plain != address else 4)
    except ValueError:
        ok = False
    if not ok:
        raise UsageError(f"--metrics: {address!r} is no IP address (IPv6 ones stand in brackets)")
    if not re.fullmatch(r"[0-9]{1,5}", port) or int(port) > 65535:
        raise UsageError(f"--metrics: {port!r} is no port (0 to 65535; 0: any that is free)")
    return plain, int(port)


def _parse_restart(ns: argparse.Namespace, pack: list[str]) -> Options:
    given = {k for k, v in vars(ns).items() if v != make_parser("up").get_default(k)}
    if pack or given - {"restart", "name"}:
        raise UsageError("--restart is for a cluster that is up: with --name and nothing else")
    if not re.fullmatch(r"[pms]\d+", ns.restart):
        raise UsageError(f"--restart: {ns.restart!r} is not a node (such as m0)")
    return Options(restart=ns.restart, name=_check_name(ns.name) if ns.name else None)


def parse_exec(argv: list[str]) -> Options:
    """The options of a program in a cluster that is up."""
    ns, command = _parse("exec", argv)
    o = Options(program=command[0], args=command[1:])
    o.name = _check_name(ns.name) if ns.name else None
    if ns.processor is not None:
        o.processor = _number(ns.processor.removeprefix("p"), "--processor")
    o.verbose = ns.verbose
    _program_options(o, ns)
    return o


def _parse(command: str, argv: list[str]) -> tuple[argparse.Namespace, list[str]]:
    parser = make_parser(command)
    own, rest = _split(parser, argv)
    ns = parser.parse_args(own)
    if not rest and command != "up" and not getattr(ns, "image", None):
        raise UsageError(f"which program? {parser.usage}")
    return ns, rest


def _programs(words: list[str]) -> list[list[str]]:
    """Programs and their arguments, cut at each separator."""
    out: list[list[str]] = [[]]
    for word in words:
        if word == SEPARATOR:
            out.append([])
        else:
            out[-1].append(word)
    if not all(out):
        raise UsageError(f"a program is missing beside {SEPARATOR}")
    return out


def _check_name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}", name):
        raise UsageError(f"--name: {name!r} is not 1 to 40 letters, digits and _.-")
    return name


def _split(parser: argparse.ArgumentParser, argv: list[str]) -> tuple[list[str], list[str]]:
    """Own options end at the first word that is neither an option nor its value, or at --."""
    valued = {
        s for a in parser._actions if a.option_strings and a.nargs is None
        for s in a.option_strings
    }  # fmt: skip
    i = 0
    while i < len(argv):
        word = argv[i]
        if word == "--":
            return argv[:i], argv[i + 1 :]
        if not word.startswith("-") or word == "-":
            return argv[:i], argv[i:]
        i += 2 if word in valued else 1
    return argv, []


def _cluster_options(o: Options, ns: argparse.Namespace) -> None:
    o.processors = _number(ns.processors, "--processors")
    o.memories = _number(ns.memories, "--memories")
    o.mounts = _mounts(ns.mount)
    o.storages = 1 + len(o.mounts)
    for what, value in (("processors", o.processors), ("memories", o.memories)):
        if not 1 <= value <= MAX_NODES:
            raise UsageError(f"--{what} must be from 1 to {MAX_NODES}")
    if o.storages > MAX_NODES:
        raise UsageError(f"--mount: more than {MAX_NODES - 1}")
    if ns.storages is not None and _number(ns.storages, "--storages") != o.storages:
        raise UsageError("--storages: the first storage node has the root, and each other one the "
                         "image of a --mount: "
                         f"{o.storages} here")  # fmt: skip
    if ns.fabric == "roce":
        raise UsageError("--fabric roce is still to come; auto, hca, mpqemu and vfio-user work")
    o.fabric = ns.fabric
    _net_options(o, ns)
    for text in ns.cpus:
        role, value = _pair(text, "--cpus")
        count = _number(value, "--cpus")
        if not 1 <= count <= MAX_CPUS:
            raise UsageError(f"--cpus must be from 1 to {MAX_CPUS}")
        o.cpus[_check_selector(role, "--cpus")] = count
    for text in ns.memory:
        role, value = _pair(text, "--memory")
        size = parse_size(value)
        if size < MIN_RAM or size % (1 << 20):
            raise UsageError(f"--memory: {value} is not a whole number of MiB from 64M up")
        o.memory[_check_selector(role, "--memory")] = size
    o.excache = parse_size(ns.excache)
    if o.excache < MIN_EXCACHE:
        raise UsageError(f"--excache: {ns.excache} is less than {format_size(MIN_EXCACHE)}")
    if isinstance(ns.strace, str):  # run: of the file; else whether
        o.strace, o.strace_file = True, os.path.abspath(ns.strace) if ns.strace else None
    else:
        o.strace = bool(ns.strace)
    o.vregion = parse_size(ns.vregion)
    if not MIN_VREGION <= o.vregion <= MAX_VREGION or o.vregion & (o.vregion - 1):
        raise UsageError(f"--vregion: {ns.vregion} is not a power of two from 2M to 1G")
    for text in ns.append:
        head, sep, rest = text.partition(":")
        if sep and "=" not in head and " " not in head:
            o.append.append((_check_selector(head, "--append"), rest))
        else:
            o.append.append(("all", text))


def _mounts(texts: list[str]) -> list[Mount]:
    out: list[Mount] = []
    for text in texts:
        at, sep, image = text.partition("=")
        if not at.startswith("/") or not sep or not image.removesuffix(":ro"):
            raise UsageError(f"--mount wants /DIR=IMAGE[:ro], not {text!r}")
        at = "/" + "/".join(part for part in at.split("/") if part)
        if not re.fullmatch(r"[^\s,:\"\x00-\x1f]{2,255}", at) or not at.isascii():
            raise UsageError(f"--mount: {at!r} has to be 2 to 255 letters of ASCII without blanks, "
                             "quotes, commas and colons")  # fmt: skip
        parts = at.split("/")
        if "." in parts or ".." in parts or parts[1] in MADE_UP:
            raise UsageError(f"--mount: nothing can be mounted at {at}")
        path = image.removesuffix(":ro")
        if not os.path.isfile(path):
            raise UsageError(f"--mount: {path} is not a file")
        if any(m.at == at for m in out):
            raise UsageError(f"--mount: {at} is there twice")
        out.append(Mount(at, os.path.abspath(path), image != path))
    return out


def _net_options(o: Options, ns: argparse.Namespace) -> None:
    o.net = ns.net if ns.net is not None else "user"
    if not re.fullmatch(r"user|none|tap:[A-Za-z0-9_.-]{1,15}(,[A-Za-z0-9_.-]{1,15})*", o.net):
        raise UsageError(f"--net: {o.net!r} is not user, tap:NAME[,NAME...] or none")
    taps = o.net.removeprefix("tap:").split(",")
    if len(set(taps)) < len(taps):
        raise UsageError(f"--net: {o.net}: one tap device is for one processor")
    if len(taps) > o.processors:
        raise UsageError(f"--net: {len(taps)} tap devices, and {o.processors} of processors")
    if ns.net_driver and o.net == "none":
        raise UsageError("--net-driver does not go with --net none")
    o.net_driver = ns.net_driver or "virtio"
    if ns.publish and o.net != "user":
        raise UsageError(f"--publish goes with --net user, not --net {o.net}")
    for text in ns.publish:
        port = _published(text)
        for other in o.publish:
            same = (other.host, other.protocol) == (port.host, port.protocol)
            if same and (other.address == port.address or ANY4 in (other.address, port.address)):
                raise UsageError(f"--publish: port {port.host}/{port.protocol} is there twice")
        o.publish.append(port)


def _published(text: str) -> Published:
    """[ADDR:]HOST:GUEST[/udp]"""
    import ipaddress  # not for every start of ./tessera

    match = re.fullmatch(r"(?:([^:]*):)?([0-9]{1,5}):([0-9]{1,5})(?:/(tcp|udp))?", text)
    if not match:
        raise UsageError(f"--publish wants [ADDR:]HOST:GUEST[/udp], not {text!r}")
    address = match[1] if match[1] is not None else "127.0.0.1"
    try:
        ipaddress.IPv4Address(address)
    except ValueError:
        raise UsageError(f"--publish: {address!r} is no IPv4 address") from None
    for port in (match[2], match[3]):
        if not 1 <= int(port) <= 65535:
            raise UsageError(f"--publish: {port} is no port (1 to 65535)")
    return Published(address, int(match[2]), int(match[3]), match[4] or "tcp")


def _files_options(o: Options, ns: argparse.Namespace) -> None:
    if bool(ns.rootfs) + bool(ns.disk) + bool(ns.image) > 1:
        raise UsageError("--rootfs, --image and --disk exclude each other")
    if ns.image:
        o.image = _image_file(ns.image)
    if not ns.image and (ns.publish_exposed or getattr(ns, "entrypoint", None) is not None):
        raise UsageError("--entrypoint and --publish-exposed are for --image")
    if ns.publish_exposed and o.net != "user":
        raise UsageError(f"--publish-exposed goes with --net user, not --net {o.net}")
    o.publish_exposed, o.entrypoint = ns.publish_exposed, getattr(ns, "entrypoint", None)
    if ns.disk and ns.volume:
        raise UsageError("--disk is used as it is: --volume cannot add to it")
    if ns.rootfs and not os.path.isdir(ns.rootfs):
        raise UsageError(f"--rootfs: {ns.rootfs} is not a directory")
    if ns.disk and not os.path.isfile(ns.disk):
        raise UsageError(f"--disk: {ns.disk} is not a file")
    if ns.disk and ns.writable:
        raise UsageError("--disk is changed in place: --writable is for a copy")
    if ns.read_only and (ns.writable or not (ns.rootfs or ns.image)):
        raise UsageError("--read-only is for --rootfs and --image (for --disk: "
                         "--append s0:storage.writable=0)")  # fmt: skip
    o.read_only = ns.read_only
    o.rootfs, o.disk, o.writable = ns.rootfs, ns.disk, ns.writable
    o.disk_driver = ns.disk_driver
    for text in ns.volume:
        host, sep, guest = text.rpartition(":")
        if not sep or not host or not guest.startswith("/"):
            raise UsageError(f"--volume wants HOST:/GUEST, not {text!r}")
        if not os.path.exists(host):
            raise UsageError(f"--volume: {host} does not exist")
        o.volumes.append((host, guest))


def _image_file(text: str) -> tuple[str, str | None]:
    """FILE[:NAME]; names have colons, too."""
    if os.path.exists(text):
        return text, None
    at = -1
    while (at := text.find(":", at + 1)) >= 0:
        if os.path.exists(text[:at]) and text[at + 1 :]:
            return text[:at], text[at + 1 :]
    raise UsageError(f"--image: {text} does not exist")


def _program_options(o: Options, ns: argparse.Namespace) -> None:
    for text in ns.env:
        if text.find("=") < 1:
            raise UsageError(f"--env wants K=V, not {text!r}")
    if ns.cwd is not None and not ns.cwd.startswith("/"):
        raise UsageError(f"--cwd: {ns.cwd} is not an absolute path")
    o.env, o.tty = ns.env, ns.tty
    o.cwd, o.cwd_given = ns.cwd or "/", ns.cwd is not None
    o.user = users.check(ns.user) if ns.user is not None else None
    if ns.timeout is not None:
        o.timeout = _number(ns.timeout, "--timeout", float)


def _host_options(o: Options, ns: argparse.Namespace) -> None:
    o.accel, o.qemu, o.hca = ns.accel, ns.qemu, ns.hca
    o.build_dir, o.build, o.log_dir = ns.build_dir, ns.build, ns.log_dir
    o.dry_run = ns.dry_run
    o.inject, o.boot_order = ns.inject, ns.boot_order
    o.boot_timeout = _number(ns.boot_timeout, "--boot-timeout", float)
    if ns.seed is not None:
        o.seed = _number(ns.seed, "--seed")
    if ns.gdb:
        o.gdb = _check_selector(ns.gdb, "--gdb")
        o.boot_timeout = max(o.boot_timeout, 86400.0)
    if ns.icount:
        o.icount = _check_selector(ns.icount, "--icount")
        if ns.accel == "kvm":
            raise UsageError("--icount needs --accel tcg")
        o.accel = "tcg"
    for text in ns.delay:
        role, value = _pair(text, "--delay")
        o.delay[_check_selector(role, "--delay")] = _number(value, "--delay", float)


def help_text(command: str = "run") -> str:
    columns = os.environ.get("COLUMNS")
    os.environ.setdefault("COLUMNS", "100")
    try:
        return make_parser(command).format_help()
    finally:
        if columns is None:
            os.environ.pop("COLUMNS", None)


def warn(text: str) -> None:
    print(f"tessera: {text}", file=sys.stderr)
