# SPDX-License-Identifier: MIT
"""What the launcher finds, builds and makes on the host before a cluster starts."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time

from . import accel, bootparams, ext4files, fabric, image, packages, plan
from .cluster import RUN_DIR_PREFIX, Cluster, run_dir_name
from .disk import Disk, Held
from .errors import LaunchError
from .options import ROLES, Options, role_matches, warn

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
SHM = "/dev/shm"


class Host:
    """The host side of one run: paths, build, disk image."""

    def __init__(self, o: Options):
        self.o = o
        self.build_dir = os.path.abspath(
            o.build_dir or os.environ.get("TESSERA_BUILD") or os.path.join(ROOT, "build")
        )
        self.keep_logs = o.log_dir is not None
        stamp = f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
        self.log_dir = os.path.abspath(o.log_dir or os.path.join(self.build_dir, "log", stamp))
        self.qemu = o.qemu or "qemu-system-x86_64"
        self.hca = o.hca or os.path.join(self.build_dir, "tools", "hca", "tessera-hca")
        self.held: Held | None = None  # the image of --disk, until we end
        self.disk = Disk("")

    def plan(self) -> plan.Plan:
        """Find programs, build, choose the accelerator and lay the cluster out."""
        if self.o.qemu:
            self.qemu = _program_at(self.o.qemu, "--qemu")
        elif not self.o.dry_run:
            self.qemu = packages.require("qemu-system-x86_64")[0]
        if self.o.build and not self.o.dry_run:
            self.build()
        tables = self.check_params()
        if not self.o.dry_run:
            self.check_ports()
        if self.o.hca:
            self.hca = _program_at(self.o.hca, "--hca")
        run_dir = "/dev/shm/tessera-RUN" if self.o.dry_run else run_dir_name(self._run_base())
        self.disk = self._choose_disk(run_dir, tables["storage"])
        accelerator = self.accelerator()
        choice = fabric.choose(
            self.o.fabric, packages.find(self.qemu) or self.qemu, self.hca, accelerator,
            os.path.join(self.build_dir, "fabric.json"), self.o.dry_run,
        )  # fmt: skip
        return plan.make_plan(
            self.o, qemu=self.qemu, hca=self.hca, accel=accelerator, build_dir=self.build_dir,
            log_dir=self.log_dir, run_dir=run_dir, disk=self.disk, choice=choice,
        )  # fmt: skip

    def _choose_disk(self, run_dir: str, known: dict | None) -> Disk:
        """The root's image. That of --disk is held from here on, so that nothing is built or
        started for an image that cannot be used.
        """
        writes = known is None or plan.WRITABLE in known
        driver = self.o.disk_driver
        if driver == "nvme" and known is not None and plan.NVME not in known:
            raise LaunchError("--disk-driver nvme: the storage kernel that is built has no driver")
        if not self.o.disk:
            if self.o.writable and not writes:
                raise LaunchError("--writable: the storage kernel that is built cannot write files")
            root = os.path.join(run_dir, "root.img")
            return Disk(root, writable=self.o.writable, driver=driver)
        path = os.path.abspath(self.o.disk)
        writable = writes and not self.o.read_only and _let_write(self.o)
        if self.held:
            self.held.close()
        self.held = Held(path, writable)
        kind = self.held.require_ext4(partitions=not self.o.output)
        return Disk(path, kind, writable, driver)

    def announce(self) -> None:
        """Says so when a file of the user is going to change."""
        if self.o.disk and self.disk.writable:
            warn(f"{self.held.name} is changed in place")

    def check_params(self) -> dict[str, dict[str, bootparams.Param] | None]:
        """UsageError when --append has what the kernels, as far as they are built, cannot use;
        else the parameters that they know.
        """
        kernels = zip(ROLES, self.kernels(), strict=True)
        tables = {role: bootparams.read(path) for role, path in kernels}
        bootparams.check(self.o, plan.node_list(self.o), tables)
        return tables

    def check_ports(self) -> None:
        """LaunchError when a published port cannot be had; QEMU takes it later, and may still fail
        when another was faster.
        """
        for port in self.o.publish:
            kind = socket.SOCK_STREAM if port.protocol == "tcp" else socket.SOCK_DGRAM
            with socket.socket(socket.AF_INET, kind) as s:
                if port.protocol == "tcp":
                    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    s.bind((port.address, port.host))
                except OSError as err:
                    raise LaunchError(
                        f"--publish: {port.address}:{port.host}/{port.protocol}: {err.strerror}"
                    ) from None

    def accelerator(self) -> str:
        cache = os.path.join(self.build_dir, "accel.json")
        if self.o.dry_run and self.o.accel == "auto" and not os.path.exists(cache):
            return "tcg"
        return accel.choose(self.o.accel, packages.find(self.qemu) or self.qemu, cache)

    def _run_base(self) -> str:
        """Where the run's directory goes: memory if there is enough, else the disk."""
        if os.environ.get("TESSERA_RUN_DIR"):
            return os.environ["TESSERA_RUN_DIR"]
        need = 64 << 20
        for source in (self.o.rootfs, *(h for h, _ in self.o.volumes)):
            if source:
                need += 3 * _tree_size(source)
        if os.path.isdir(SHM) and os.access(SHM, os.W_OK):
            st = os.statvfs(SHM)
            if st.f_bavail * st.f_frsize > 2 * need:
                return SHM
        return tempfile.gettempdir()

    def build(self) -> None:
        """make, quietly; one build at a time."""
        make = packages.require("make", "gcc")[0]
        os.makedirs(self.build_dir, exist_ok=True)
        with open(os.path.join(self.build_dir, ".launcher.lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            done = subprocess.run(
                [make, "-s", "--no-print-directory", "-C", ROOT, f"-j{os.cpu_count() or 1}",
                 f"O={self.build_dir}", "all"],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                text=True, errors="replace", env=_clean_make_env(),
            )  # fmt: skip
        if done.returncode:
            text = done.stdout.strip().splitlines()
            first = next((line for line in text if "error" in line.lower()), None)
            raise LaunchError(f"make failed: {first or (text[-1] if text else 'no output')}")

    def prepare(self, cluster: Cluster) -> None:
        """Make the root file system image; called by the cluster once its directory exists."""
        for path in self.kernels():
            if not os.path.isfile(path):
                raise LaunchError(f"{path} is missing: run make")
        if not self.o.disk:
            self._make_root(cluster)
        if self.o.output and not self.held:  # open from here on: its directory goes first
            self.held = Held(self.disk.path, writable=True)
            self.held.name = "the root file system"

    def bring_out(self) -> None:
        """--output, when the cluster has ended; LaunchError for what cannot be copied."""
        if not self.o.output:
            return
        with ext4files.Files(self.held) as files:
            files.require_clean(replay=self.disk.writable)
            for guest, host in self.o.output:
                files.copy_out(guest, host)

    def _make_root(self, cluster: Cluster) -> None:
        mke2fs = packages.require("mke2fs")[0]
        target = os.path.join(cluster.plan.run_dir, "root.img")
        tree = self._tree()
        if self.o.rootfs and tree is None:
            image.make_image(mke2fs, self.o.rootfs, target, cluster.run_helper, self.o.writable)
            return
        stage = os.path.join(cluster.plan.run_dir, "root")
        os.mkdir(stage, 0o755)
        if self.o.rootfs:
            cluster.run_helper(["cp", "-a", f"{self.o.rootfs}/.", stage])
        tree.stage(stage)
        image.make_image(mke2fs, stage, target, cluster.run_helper, self.o.writable)
        shutil.rmtree(stage)

    def kernels(self) -> list[str]:
        return [os.path.join(self.build_dir, role, "kernel.elf") for role in ROLES]

    def _tree(self) -> image.Tree | None:
        """What is packed beside --rootfs; None: nothing."""
        if self.o.rootfs and not self.o.volumes:
            return None
        tree = image.Tree()
        for host, guest in self.o.volumes:
            tree.add_volume(host, guest)
        if not self.o.rootfs:
            for program in self.host_programs():
                tree.add_program(program, self.library_path())
        return tree

    def host_programs(self) -> list[str]:
        names = self.o.pack or [command[0] for command in self.o.commands]
        return list(dict.fromkeys(map(find_program, names)))

    def library_path(self) -> list[str]:
        for setting in self.o.env:
            key, _, value = setting.partition("=")
            if key == "LD_LIBRARY_PATH":
                return [p for p in value.split(":") if p]
        return []

    def guest_path(self, program: str) -> str:
        """Where a program is in the cluster's root file system."""
        if self.o.disk or self.o.rootfs:
            return "/" + program.lstrip("/")
        return find_program(program)


def _let_write(o: Options) -> bool:
    """Does --append let the first storage node write?"""
    last = "1"
    for selector, line in o.append:
        if role_matches(selector, "storage", "s0"):
            last = dict(bootparams.words(line)).get(plan.WRITABLE, last)
    return last in (None, *bootparams.TRUE)


class ProgramError(LaunchError):
    """The program named on the command line is not there (127) or cannot be run (126)."""

    def __init__(self, text: str, status: int):
        super().__init__(text)
        self.status = status


def find_program(name: str) -> str:
    """A host program as a shell would find it; absolute."""
    path = name if "/" in name else shutil.which(name)
    if path is None or not os.path.lexists(path):
        raise ProgramError(f"{name}: no such program on this host", 127)
    if os.path.isdir(path):
        raise ProgramError(f"{name}: is a directory", 126)
    if not os.path.isfile(path):
        raise ProgramError(f"{name}: not a regular file", 126)
    return os.path.abspath(path)


def _program_at(path: str, option: str) -> str:
    if os.access(path, os.X_OK) and not os.path.isdir(path):
        return os.path.abspath(path)
    found = packages.find(path) if "/" not in path else None
    if not found:
        raise LaunchError(f"{option}: {path} is not a program")
    return found


def _tree_size(path: str) -> int:
    if os.path.isfile(path):
        return os.path.getsize(path)
    total = 0
    for root, _, names in os.walk(path):
        for name in names:
            total += os.lstat(os.path.join(root, name)).st_size
    return total


def _clean_make_env() -> dict[str, str]:
    """A make above us must not lend its options and job server to this one."""
    drop = re.compile(r"MAKEFLAGS|MFLAGS|MAKELEVEL|MAKEOVERRIDES|O$")
    return {k: v for k, v in os.environ.items() if not drop.fullmatch(k)}


def sweep() -> None:
    """Remove run directories whose launcher and supervisor were both killed."""
    for base in (SHM, tempfile.gettempdir()):
        try:
            names = os.listdir(base)
        except OSError:
            continue
        for name in names:
            match = re.fullmatch(re.escape(RUN_DIR_PREFIX) + r"(\d+)-[0-9a-f]{8}", name)
            path = os.path.join(base, name)
            if match and not os.path.exists(f"/proc/{match[1]}") and _mine_and_old(path):
                shutil.rmtree(path, ignore_errors=True)


def _mine_and_old(path: str) -> bool:
    try:
        st = os.lstat(path)
    except OSError:
        return False
    return st.st_uid == os.getuid() and time.time() - st.st_mtime > 60
