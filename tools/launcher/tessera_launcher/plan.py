# SPDX-License-Identifier: MIT
"""From options to nodes and command lines. Nothing is started here.

Command lines hold placeholders such as {p0.ctl} for descriptors that exist only once the cluster
starts; --dry-run prints them as they are.
"""

from __future__ import annotations

import hashlib
import os
import random
import re
import secrets
import shlex
import struct
from dataclasses import dataclass, field

from . import accel as accel_mod
from . import fabric, frames
from .disk import Disk
from .errors import UsageError
from .options import NET_DEVICES, ROLES, Options, Published, format_size, role_matches
from .publish import monitor_path

SANDBOX = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"
DEFAULT_RAM = {"memory": 512 << 20, "storage": 256 << 20}
PROCESSOR_RAM = 192 << 20  # beside the excache
ENTROPY = "virtio-rng-pci"
PID_MAX = 4194304  # of Linux: numbers are below it
KEY_BYTES = 32
FILE_KEY_BYTES = 16
START_MAX = 4095  # of a node: the number is a part of its incarnation
KEY_FILE = "opt/tessera/cluster.key"  # in QEMU's fw_cfg
SEED_FILE = "opt/tessera/seed"
SEED_BYTES = 32
MOUNTS = "mounts"  # a boot parameter of processors
WRITABLE = "storage.writable"  # a boot parameter
STABLE = "storage.stable"  # another
LEASE = "cluster.lease_ms"  # of the managers' node
# A node whose clock counts instructions is five to ten times slower than the others' time, and its
# heartbeats with it; on a busy machine much more.
ICOUNT_LEASE_MS = 600000
STANDBY = "gateway.standby"  # a boot parameter of processors
NVME = "nvme.timeout"  # one that a kernel with the driver knows
DISK_DEVICES = {
    "virtio": "virtio-blk-pci,disable-legacy=on",
    "nvme": "nvme,serial=tessera-root",
}
FIRST_PID = 2  # 1 is init, which every processor has


@dataclass
class Command:
    """One process: argv with placeholders, and which placeholders are descriptors."""

    name: str
    argv: list[str]
    fds: list[str] = field(default_factory=list)
    delay: float = 0.0
    asked: bool = False  # to end, before it is killed: it has files to complete

    def text(self) -> str:
        return " ".join(w if re.search(r"\{\w+\.\w+\}", w) else shlex.quote(w) for w in self.argv)


@dataclass
class NodePlan:
    name: str  # "m1"
    role: str
    node: int  # the cluster-wide id, from 1
    lid: int
    cpus: int
    ram: int
    params: list[str]
    delay: float = 0.0
    waits_for_gdb: bool = False
    icount: bool = False
    hosts_managers: bool = False
    kernel: str = ""
    net: str = "none"
    net_driver: str = "virtio"
    publish: list[Published] = field(default_factory=list)  # from its start on
    has_monitor: bool = False  # QEMU is told of others later


@dataclass
class Plan:
    nodes: list[NodePlan]
    commands: list[Command]  # in the order of starting: the HCA model first
    accel: str
    log_dir: str
    run_dir: str
    fabric: fabric.Choice
    key: bytes = field(default_factory=lambda: secrets.token_bytes(KEY_BYTES), repr=False)

    def text(self) -> str:
        """For --dry-run."""
        return "\n".join([f"# {self.fabric.text()}", *(c.text() for c in self.commands)])


def _selected(table: dict, role: str, name: str, default):
    """The entry for a node: its own name wins over its role, that over "all"."""
    for key in (name, role, "all"):
        if key in table:
            return table[key]
    return default


def _ram(o: Options, role: str, name: str) -> int:
    if role == "processor":
        default = PROCESSOR_RAM + o.excache * 9 // 8
        default = (default + (1 << 20) - 1) & ~((1 << 20) - 1)
    else:
        default = DEFAULT_RAM[role]
    return _selected(o.memory, role, name, default)


def node_list(o: Options, writable: tuple[bool, ...] = ()) -> list[NodePlan]:
    """All nodes with their ids, addresses and boot parameters; which disks are @writable?"""
    counts = dict(zip(ROLES, (o.processors, o.memories, o.storages), strict=True))
    named = [(role, f"{role[0]}{i}") for role in ROLES for i in range(counts[role])]
    first_storage = next(i for i, (role, _) in enumerate(named) if role == "storage")
    for table in (o.cpus, o.memory, o.delay, dict(o.append), {o.gdb: 1} if o.gdb else {},
                  {o.icount: 1} if o.icount else {}):  # fmt: skip
        for selector in table:
            if not any(role_matches(selector, role, name) for role, name in named):
                raise UsageError(f"there is no node {selector} in this cluster")
    nodes = []
    for i, (role, name) in enumerate(named):
        params = [f"node={i + 1}", f"rendezvous=lid:{first_storage + 1}"]
        if i == first_storage:
            params.append(f"cluster=p{o.processors},m{o.memories},s{o.storages}")
            if o.icount:
                params.append(f"{LEASE}={ICOUNT_LEASE_MS}")
        if role == "storage" and any(writable[i - first_storage : i - first_storage + 1]):
            params.append(f"{WRITABLE}=1")
            if o.name:  # of a cluster that stays, where it may be started again
                params.append(f"{STABLE}=1")
        params += _role_params(o, role)
        if role == "processor" and o.mounts:
            table = (f"{m.at}:{first_storage + 2 + n}" for n, m in enumerate(o.mounts))
            params.append(f"{MOUNTS}={','.join(table)}")
        if role == "processor" and o.processors > 1:
            params.append(pid_range(i, o.processors))
        params += [p for selector, p in o.append if role_matches(selector, role, name)]
        node = NodePlan(name, role, i + 1, i + 1, _selected(o.cpus, role, name, 1),
                        _ram(o, role, name), params, _selected(o.delay, role, name, 0.0))
        if o.gdb and role_matches(o.gdb, role, name):
            node.waits_for_gdb = True
        node.hosts_managers = i == first_storage
        if role == "processor":
            _give_card(node, o, int(name[1:]))
        node.icount = bool(o.icount) and role_matches(o.icount, role, name)
        nodes.append(node)
    return nodes


def _give_card(node: NodePlan, o: Options, number: int) -> None:
    """Each processor has a card, one uses it: the first, until it is lost. Cards have the same
    address, QEMU's default, so that another one has the IP addresses of the first, too.
    """
    taps = o.net.removeprefix("tap:").split(",") if o.net.startswith("tap:") else []
    if o.net == "none" or (taps and number >= len(taps)):
        return
    node.net = f"tap:{taps[number]}" if taps else o.net
    node.net_driver, node.has_monitor = o.net_driver, bool(o.publish)
    node.publish = [] if number else o.publish
    if number:
        node.params.insert(0, f"{STANDBY}=1")


def _role_params(o: Options, role: str) -> list[str]:
    if role == "memory":
        return [f"vregion.size={format_size(o.vregion)}"]
    if role == "processor":
        return [f"excache={format_size(o.excache)}"] + (["strace"] if o.strace else [])
    return []


def node_key(cluster_key: bytes, node: int, role: str, start: int) -> bytes:
    """What start number @start of node @node in @role proves to the managers' node (net/rpc/auth.c
    does the same).
    """
    text = b"tessera node key" + struct.pack("<IBI", node, ROLES.index(role) + 1, start)
    return hashlib.blake2b(text, key=cluster_key, digest_size=KEY_BYTES).digest()


def file_key(cluster_key: bytes) -> bytes:
    """What handles of files are sealed with (monitors/cluster/params.c does the same)."""
    return hashlib.blake2b(b"tessera file key", key=cluster_key,
                           digest_size=FILE_KEY_BYTES).digest()  # fmt: skip


def give_key(plan: Plan, node: NodePlan, start: int) -> str:
    """What the node reads at that start of it: its key, which is good for no other start, and the
    number. The managers' node has the key of the cluster, from which the others follow. Memory and
    storage nodes have the key of handles, processors do not.
    """
    own = node_key(plan.key, node.node, node.role, start)
    text = f"{(plan.key if node.hosts_managers else own).hex()}:{start}"
    return text if node.role == "processor" else f"{text}:{file_key(plan.key).hex()}"


def key_path(run_dir: str, name: str) -> str:
    return os.path.join(run_dir, f"{name}.key")


def seed_path(run_dir: str, name: str) -> str:
    return os.path.join(run_dir, f"{name}.seed")


def pid_range(index: int, count: int) -> str:
    """Process ids are unique in the whole vNode: each processor has its own part of them."""
    part = PID_MAX // count
    return f"pids={max(FIRST_PID, index * part)}-{(index + 1) * part - 1}"


def gdb_path(run_dir: str, name: str) -> str:
    """The socket where gdb attaches: no port, which programs could reach as well."""
    return os.path.join(run_dir, f"{name}.gdb")


def _accel(node: NodePlan, accel: str) -> str:
    if accel != "tcg":
        return accel
    return "tcg,thread=single" if node.icount else "tcg,thread=multi"


def vfio_path(run_dir: str, name: str) -> str:
    return os.path.join(run_dir, f"{name}.hca")


def _path(path: str) -> str:
    """A path as a value among QEMU's comma-separated ones."""
    return path.replace(",", ",,")


def qemu_command(node: NodePlan, qemu: str, accel: str, log: str, front: str, run_dir: str,
                 disk: Disk | None = None, entropy: bool = True) -> Command:  # fmt: skip
    """The virtual machine of one node. @entropy: QEMU has the device, which is a second seed."""
    n = node.name
    argv = [
        qemu, "-name", f"tessera-{n}", "-nodefaults", "-no-user-config", "-no-reboot",
        "-display", "none", "-sandbox", SANDBOX,
        "-M", "pc,memory-backend=ram0",
        "-accel", _accel(node, accel),
        "-cpu", accel_mod.cpu_model(accel), "-smp", str(node.cpus),
        "-m", f"{node.ram >> 20}M",
        "-object", f"memory-backend-memfd,id=ram0,size={node.ram >> 20}M,share=on",
        "-kernel", node.kernel, "-append", " ".join(node.params),
        "-fw_cfg", f"name={KEY_FILE},file={_path(key_path(run_dir, n))}",
        "-fw_cfg", f"name={SEED_FILE},file={_path(seed_path(run_dir, n))}",
        "-chardev", f"file,id=log,path={_path(log)}", "-serial", "chardev:log",
        *(["-device", f"{ENTROPY},disable-legacy=on"] if entropy else []),
        "-device", "isa-debug-exit,iobase=0xf4,iosize=4",
        "-device", "virtio-serial-pci,disable-legacy=on,max_ports=2",
        "-chardev", f"socket,id=ctl,fd={{{n}.ctl}}",
        "-device", f"virtserialport,chardev=ctl,name={frames.PORT_NAME}",
        *fabric.device_args(front, f"{{{n}.hca}}", vfio_path(run_dir, n)),
    ]  # fmt: skip
    fds = [f"{n}.ctl"]
    if front == fabric.MPQEMU:  # the model interrupts through qtest
        argv += ["-chardev", f"socket,id=qtest,fd={{{n}.qtest}}", "-qtest", "chardev:qtest",
                 "-qtest-log", "none"]  # fmt: skip
        fds += [f"{n}.hca", f"{n}.qtest"]
    if disk:
        argv += [
            "-drive", f"if=none,id=disk0,format={disk.format},cache=writeback,"
                      f"readonly={'off' if disk.writable else 'on'},file={_path(disk.path)}",
            "-device", f"{DISK_DEVICES[disk.driver]},drive=disk0",
        ]  # fmt: skip
    if node.net != "none":
        tap = node.net.removeprefix("tap:")
        backend = f"tap,id=net0,ifname={tap},script=no,downscript=no"
        if node.net == "user":
            backend = "user,id=net0" + "".join(
                f",hostfwd={p.protocol}:{p.address}:{p.host}-:{p.guest}" for p in node.publish
            )
        argv += [
            "-netdev", backend,
            "-device", f"{NET_DEVICES[node.net_driver]},netdev=net0,romfile=",
        ]  # fmt: skip
    if node.has_monitor:
        path = _path(monitor_path(run_dir, n))
        argv += ["-chardev", f"socket,id=mon,path={path},server=on,wait=off",
                 "-mon", "chardev=mon,mode=control"]  # fmt: skip
    if node.icount:
        argv += ["-icount", "shift=0"]
    if node.waits_for_gdb:
        path = _path(gdb_path(run_dir, n))
        argv += ["-chardev", f"socket,id=gdb0,path={path},server=on,wait=off",
                 "-gdb", "chardev:gdb0", "-S"]  # fmt: skip
    return Command(n, argv, fds, node.delay)


def again(command: Command, run_dir: str, start: int, words: str = "") -> Command:
    """The same machine, started another time: with a log of its own, and what it shares with the
    model under names, since only one descriptor can be handed to a model that runs; and with more
    boot parameters. Published ports lead to the gateway, which it is not yet.
    """
    n = command.name
    argv, fds = [], [fd for fd in command.fds if fd != f"{n}.qtest"]
    for i, word in enumerate(command.argv):
        if i and words and command.argv[i - 1] == "-append":
            word = f"{word} {words}"
        elif word.startswith("file,id=log,path="):
            word = word.removesuffix(".log") + f".{start}.log"
        elif word == f"socket,id=qtest,fd={{{n}.qtest}}":
            word = f"socket,id=qtest,path={_path(qtest_path(run_dir, n, start))},server=on,wait=off"
        elif word.startswith("user,id=net0,"):
            word = "user,id=net0"
        argv.append(word)
    return Command(n, argv, fds)


def qtest_path(run_dir: str, name: str, start: int) -> str:
    return os.path.join(run_dir, f"{name}.{start}.qtest")


def hca_command(
    nodes: list[NodePlan], binary: str, control: str, front: str, run_dir: str
) -> Command:
    """The model. Its control socket comes last, so that whoever connects there finds the others
    made.
    """
    argv, fds = [binary], []
    for node in nodes:
        if front == fabric.VFIO_USER:
            argv += [
                "--vfio-user",
                f"{vfio_path(run_dir, node.name)},lid={node.lid},name={node.name}",
            ]
            continue
        hca, qtest = f"{node.name}.hca_model", f"{node.name}.qtest_model"
        argv += ["--vm", f"fd={{{hca}}},qtest=fd:{{{qtest}}},lid={node.lid},name={node.name}"]
        fds += [hca, qtest]
    return Command("hca", [*argv, "--control", control], fds, asked=True)


def make_plan(o: Options, *, qemu: str, hca: str, accel: str, build_dir: str, log_dir: str,
              run_dir: str, disk: Disk, choice: fabric.Choice,
              mounted: tuple[Disk, ...] = (), entropy: bool = True) -> Plan:  # fmt: skip
    """@disk is the root's; @mounted those of o.mounts."""
    disks = (disk, *mounted)
    nodes = node_list(o, tuple(d.writable for d in disks))
    storage = [n.name for n in nodes if n.role == "storage"]
    vms = []
    for node in nodes:
        node.kernel = os.path.join(build_dir, node.role, "kernel.elf")
        log = os.path.join(log_dir, f"{node.name}.log")
        image = disks[storage.index(node.name)] if node.name in storage else None
        vms.append(qemu_command(node, qemu, accel, log, choice.front, run_dir, image, entropy))
    if o.boot_order == "shuffle":
        random.Random(o.seed).shuffle(vms)
        for i, command in enumerate(vms):
            command.delay += i * 0.3  # far enough apart for the order to matter
    model = hca_command(nodes, hca, os.path.join(run_dir, "hca.sock"), choice.front, run_dir)
    return Plan(nodes, [model, *vms], accel, log_dir, run_dir, choice)
