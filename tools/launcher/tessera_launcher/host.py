# SPDX-License-Identifier: MIT
"""What the launcher finds, builds and makes on the host before a cluster starts."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import posixpath
import re
import shutil
import socket
import subprocess
import tempfile
import time

from . import accel, bootparams, cache, ext4files, fabric, giveback, image, layer, netfiles
from . import oci, packages, packing, plan, progress, treepath, unpack, users
from .cluster import RUN_DIR_PREFIX, Cluster, run_dir_name
from .disk import QCOW2, RAW, Disk, Held
from .errors import LaunchError, UsageError, one_line
from .options import ROLES, Options, Published, role_matches, warn

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
SHM = "/dev/shm"
LAYER = "root.qcow2"  # of a run's directory


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
        self.mounted: list[tuple[Held, Disk]] = []  # of --mount, until we end
        self._names: tuple[str, str] | None = None  # of the image
        self.base: cache.Entry | None = None  # of a tree's image, until we end
        self._shared: list[giveback.Shared] = []
        self._unnamed = ""  # the file of a commit whose name was taken
        self._image: oci.Image | None = None
        self._source: oci.Source | None = None
        self.settings: dict = {}  # of the image

    def load_image(self) -> None:
        """--image: what it says of the program, where the command line says nothing."""
        if not self.o.image or self._image:
            return
        o, (path, name) = self.o, self.o.image
        try:
            self._source = oci.open_source(path)
            self._image = oci.open_image(self._source, name)
            self.settings = said = oci.settings(self._image.config)
        except (LaunchError, OSError) as err:
            raise self._image_error(err) from None
        entry = said["entrypoint"]
        if o.entrypoint is not None:
            entry = [o.entrypoint] if o.entrypoint else []
        words = [o.program, *o.args] if o.program else []
        words = [*entry, *(words or ([] if o.entrypoint is not None else said["cmd"]))]
        o.program, o.args = (words[0], words[1:]) if words else ("", [])
        o.env = [*said["env"], *o.env]
        o.cwd = o.cwd if o.cwd_given else said["cwd"]
        if o.publish_exposed:
            taken = {(p.host, p.protocol) for p in o.publish}
            for text in said["ports"]:
                number, _, protocol = text.partition("/")
                port = Published("127.0.0.1", int(number), int(number), protocol or "tcp")
                if port.host <= 65535 and (port.host, port.protocol) not in taken:
                    o.publish.append(port)

    def _image_error(self, err: Exception) -> LaunchError:
        if isinstance(err, oci.ImageError):
            return LaunchError(f"{one_line(self.o.image[0])}: {err}")
        if isinstance(err, OSError):
            return LaunchError(f"{one_line(self.o.image[0])}: {err.strerror}")
        return err

    def plan(self) -> plan.Plan:
        """Find programs, build, choose the accelerator and lay the cluster out."""
        self.load_image()
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
        self._choose_mounts(tables)
        accelerator = self.accelerator()
        choice = fabric.choose(
            self.o.fabric, packages.find(self.qemu) or self.qemu, self.hca, accelerator,
            os.path.join(self.build_dir, "fabric.json"), self.o.dry_run,
        )  # fmt: skip
        return plan.make_plan(
            self.o, qemu=self.qemu, hca=self.hca, accel=accelerator, build_dir=self.build_dir,
            log_dir=self.log_dir, run_dir=run_dir, disk=self.disk, choice=choice,
            mounted=tuple(disk for _, disk in self.mounted), entropy=self._has_entropy(),
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
            if self._is_tree() and writes and not self.o.read_only and _let_write(self.o):
                return Disk(os.path.join(run_dir, LAYER), QCOW2, writable=True, driver=driver)
            root = os.path.join(run_dir, "root.img")
            return Disk(root, writable=self.o.writable, driver=driver)
        path = os.path.abspath(self.o.disk)
        writable = writes and not self.o.read_only and _let_write(self.o)
        if self.held:
            self.held.close()
        self.held = Held(path, writable)
        kind = self.held.require_ext4(partitions=not self.o.output)
        return Disk(path, kind, writable, driver)

    def _choose_mounts(self, tables: dict) -> None:
        """The images of --mount, held as that of --disk is; no image is two disks."""
        if self.o.mounts and plan.MOUNTS not in (tables["processor"] or {plan.MOUNTS: None}):
            raise LaunchError("--mount: the processor kernel that is built has one file system")
        for held, _ in self.mounted:
            held.close()
        self.mounted = []
        users = {} if not self.o.disk else {_identity(self.o.disk): "--disk"}
        for i, m in enumerate(self.o.mounts):
            option = f"--mount {m.at}"
            other = users.setdefault(_identity(m.image), option)
            if other != option:
                raise LaunchError(f"{one_line(m.image)} is one disk: for {other} or {option}")
            known = tables["storage"]
            writes = known is None or plan.WRITABLE in known
            writable = writes and not m.read_only and _let_write(self.o, f"s{i + 1}")
            held = Held(m.image, writable)
            kind = held.require_ext4(partitions=True)
            self.mounted.append((held, Disk(m.image, kind, writable, self.o.disk_driver)))

    def announce(self) -> None:
        """Says so when a file of the user is going to change."""
        if self.o.disk and self.disk.writable:
            warn(f"{self.held.name} is changed in place")
        for held, disk in self.mounted:
            if disk.writable:
                warn(f"{held.name} is changed in place")

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

    def _has_entropy(self) -> bool:
        """Has this QEMU the device? If it is not asked, or does not say: yes."""
        if self.o.dry_run:
            return True
        return accel.has_device(plan.ENTROPY, packages.find(self.qemu) or self.qemu,
                                os.path.join(self.build_dir, "entropy.json"))  # fmt: skip

    def _run_base(self) -> str:
        """Where the run's directory goes: memory if there is enough, else the disk."""
        if os.environ.get("TESSERA_RUN_DIR"):
            return os.environ["TESSERA_RUN_DIR"]
        need = 64 << 20
        if not self._is_tree():  # whose image is kept elsewhere
            need += sum(3 * _tree_size(source) for source, _ in self.o.volumes)
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
            with progress.shown("building"):
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
            with progress.shown("making the root file system"):
                self._make_root(cluster)
        elif self.o.user:
            self.names()  # before a machine has the image
        if self.brings_out and not self.held:  # open from here on: its directory goes first
            self.held = Held(self.disk.path, writable=True)
            self.held.name = "the root file system"

    @property
    def brings_out(self) -> bool:
        """Is there something to be done when the cluster has ended?"""
        return bool(self.o.output or self.o.rw or self.o.commit)

    def bring_out(self) -> None:
        """--output, --rw and --commit, when the cluster has ended; LaunchError for what cannot be
        copied.
        """
        if not self.brings_out:
            return
        with progress.shown("bringing files out"), contextlib.ExitStack() as stack:
            held: Held | ext4files.Plain = self.held
            if self.o.commit or self.disk.format == QCOW2 and not self.o.disk:
                held = self._made_whole(stack)
            files = stack.enter_context(ext4files.Files(held))
            files.require_clean(replay=self.disk.writable)
            work = [("--output", functools.partial(files.copy_out, *o)) for o in self.o.output]
            work += [("--rw", functools.partial(s.bring_back, files)) for s in self._shared]
            failed: LaunchError | None = None
            for option, one in work:
                try:
                    one()
                except LaunchError as err:
                    failed = failed or LaunchError(f"{option}: {err}")
            if self.o.commit:
                about = self.base.about if self.base else {}
                trouble = netfiles.restore(files, about.get("net", {}))
                self._name_commit(held)
                if trouble:
                    failed = failed or LaunchError(
                        f"--commit: {one_line(self.o.commit)} is made, but {'; '.join(trouble)}"
                    )
            if failed:
                raise failed

    def _made_whole(self, stack: contextlib.ExitStack) -> ext4files.Plain:
        """The layer and its base as one raw image that has no name yet."""
        where = os.path.dirname(self.o.commit) if self.o.commit else None
        try:
            f = stack.enter_context(tempfile.NamedTemporaryFile(prefix=".tessera-", dir=where,
                                                                delete=False))  # fmt: skip
            stack.callback(lambda: f.name == self._unnamed or _forget(f.name))
            if self.base:
                layer.whole(self.held.fd, self.base.fd, f.fileno())
            else:
                layer.whole(-1, self.held.fd, f.fileno())
        except OSError as err:
            raise LaunchError(f"{where or tempfile.gettempdir()}: {err.strerror}") from None
        out = ext4files.Plain(f.fileno(), "the root file system")
        out.file = f.name
        return out

    def _name_commit(self, image_file: ext4files.Plain) -> None:
        """--commit: the image is complete, and nothing had that name when the cluster started. If
        something has it by now, the image stays under the name that it was made by: it is all that
        is left of the programs' work.
        """
        umask = os.umask(0)
        os.umask(umask)
        name = one_line(self.o.commit)
        try:
            os.fchmod(image_file.fd, 0o666 & ~umask)
            os.fsync(image_file.fd)
        except OSError as err:
            raise LaunchError(f"--commit: {name}: {err.strerror}") from None
        try:
            os.link(image_file.file, self.o.commit)
        except OSError as err:
            self._unnamed = image_file.file
            raise LaunchError(
                f"--commit: {name}: {err.strerror}; the image is {one_line(image_file.file)}"
            ) from None

    def _is_tree(self) -> bool:
        return bool(self.o.rootfs or self.o.image)

    def _make_root(self, cluster: Cluster) -> None:
        self._shared = [giveback.Shared(h, g) for h, g in self.o.rw]
        if not self._is_tree():
            tree = self._tree()
            self._build(cluster, tree, os.path.join(cluster.plan.run_dir, "root.img"),
                        self.o.writable)  # fmt: skip
            return
        self.base = self._base(cluster)
        if self.disk.format == QCOW2:
            layer.create(self.disk.path, self.base.path)
        else:
            os.symlink(self.base.path, self.disk.path)

    def _base(self, cluster: Cluster) -> cache.Entry:
        """The image of a tree: kept from an earlier run, or made now and kept; where nothing can be
        kept, one of our own.
        """
        try:
            store = cache.Cache()
            key = self._tree_key()
            found = store.find(key)
            if found:
                return found
            made = store.get(key, lambda path: self._make_base(cluster, path, key))
            if made:
                return made
        except (LaunchError, OSError) as err:
            if isinstance(err, UsageError) or self.o.image and str(err).startswith(
                one_line(self.o.image[0]) + ": "
            ):
                raise
            with open(os.path.join(cluster.plan.log_dir, "launcher.log"), "a") as log:
                log.write(f"the root file system is not kept: {one_line(str(err))}\n")
        path = os.path.join(cluster.plan.run_dir, "base.img")
        about = self._make_base(cluster, path, None)
        return cache.Entry("", path, about or {}, os.open(path, os.O_RDONLY | os.O_CLOEXEC))

    def _tree_key(self) -> str:
        own = netfiles.digest(self._net_files())
        if self._image:  # the digest of its configuration determines its layers
            return cache.tree_key(self.o.volumes, f"{image.LAYOUT} image {self._image.id} {own}")
        sources = [(self.o.rootfs, "/"), *self.o.volumes]
        return cache.tree_key(sources, f"{image.LAYOUT} tree {own}")

    def _net_files(self, hosts: str = "") -> dict[str, str]:
        """Files of a tree that are the cluster's; those that --volume or --rw brings are not.
        @hosts: the names that programs of the host see, which packed ones go on seeing.
        """
        resolv = netfiles.read_host(netfiles.HOST_RESOLV)
        texts = netfiles.contents(self.o.net, resolv, hosts)
        return netfiles.without(texts, self._brought())

    def _brought(self) -> list[str]:
        return [guest for _, guest in self.o.volumes]

    def _make_base(self, cluster: Cluster, path: str, key: str | None) -> dict | None:
        """None: the tree has changed meanwhile, and nobody knows what the image has of that."""
        about = None
        if self._image:
            try:
                about = unpack.make(self._source, self._image, path, packages.require("mke2fs")[0],
                                    cluster.run_helper, self._tree())  # fmt: skip
            except (oci.ImageError, OSError) as err:
                raise self._image_error(err) from None
        else:
            self._build(cluster, self._tree(), path, True)
        if key is not None and self._tree_key() != key:
            return None
        about = about or {"kind": "tree", "name": os.path.abspath(self.o.rootfs),
                "volumes": [f"{h}:{g}" for h, g in self.o.volumes]}  # fmt: skip
        with open(path, "rb+") as f, ext4files.Files(ext4files.Plain(f.fileno(), path)) as files:
            about["net"] = netfiles.supply(files, self._net_files(), self._brought())
        return about

    def _build(self, cluster: Cluster, tree: image.Tree | None, target: str,
               writable: bool) -> None:  # fmt: skip
        mke2fs = packages.require("mke2fs")[0]
        if tree is None:
            image.make_image(mke2fs, self.o.rootfs, target, cluster.run_helper, writable)
            return
        stage = os.path.join(os.path.dirname(target), "root")
        os.mkdir(stage, 0o755)
        if self.o.rootfs:
            cluster.run_helper(["cp", "-a", f"{self.o.rootfs}/.", stage])
        tree.stage(stage)
        image.make_image(mke2fs, stage, target, cluster.run_helper, writable)
        shutil.rmtree(stage)

    def kernels(self) -> list[str]:
        return [os.path.join(self.build_dir, role, "kernel.elf") for role in ROLES]

    def _tree(self) -> image.Tree | None:
        """What is packed beside --rootfs; None: nothing."""
        if self._is_tree() and not self.o.volumes:
            return None
        tree = image.Tree()
        for host, guest in self.o.volumes:
            tree.add_volume(host, guest)
        if not self._is_tree():
            for m in self.o.mounts:
                tree.add_dir(m.at)
            along = set() if self.o.program else set(packing.utilities())
            names = self.o.pack or [c[0] for c in self.o.commands]
            named = {find_program(n) for n in names} - along
            for program in self.host_programs():
                tree.add_program(program, self.library_path(), program in named)
            tree.texts |= self._net_files(netfiles.read_host(netfiles.HOST_HOSTS))
        return tree

    def host_programs(self) -> list[str]:
        names = self.o.pack or [command[0] for command in self.o.commands]
        found = list(map(find_program, names))
        if not self.o.pack and any(
            packing.is_shell(p) for f in found for p in (f, *packing.interpreters(f))
        ):
            found += packing.utilities()
        return list(dict.fromkeys(found))

    def library_path(self) -> list[str]:
        for setting in self.o.env:
            key, _, value = setting.partition("=")
            if key == "LD_LIBRARY_PATH":
                return [p for p in value.split(":") if p]
        return []

    def guest_paths(self, program: str) -> list[str]:
        """Where a program can be in the cluster's root file system; ProgramError when it is known
        not to be there.
        """
        if self.o.image:
            if not program:
                raise LaunchError(f"{self.o.image[0]}: names no program; which one?")
            if "/" in program:
                return [oci.absolute(posixpath.join(self.o.cwd, program))]
            return treepath.candidates(program, self.o.env)
        if not (self.o.disk or self.o.rootfs):
            found = find_program(program)
            packing.interpreters(found)  # of a script: missing is missing now
            return [found]
        paths = treepath.candidates(program, self.o.env)
        if self.o.disk or self.o.volumes:
            return paths  # the node looks
        where = self.o.rootfs
        for path in paths:
            found = treepath.resolve(where, path)
            if found and os.path.isfile(found):
                missing = treepath.missing_interpreter(where, found)
                if missing:
                    raise ProgramError(
                        f"{path}: its interpreter {missing} is missing in {where}", 127
                    )
                return [path]
        if "/" in program:
            return paths  # a directory, or nothing: the node says which
        raise ProgramError(f"{program}: is nowhere in PATH of {where}", 127)

    def user(self, who: str | None = None, caller: str | None = None) -> users.User:
        """Whom the program runs as, by --user (or @who) and the files of its root."""
        who = who or self.o.user
        if not who and self.o.image:
            who = users.check(self.settings["user"] or "0:0")
        who = who or caller or f"{os.getuid()}:{os.getgid()}"
        numbers = re.fullmatch(r"(\d+):(\d+)", who)
        passwd, group = ("", "") if self.o.disk and numbers else self.names()
        found = users.find(who, passwd, group)
        home = found.home if self.o.disk or self._is_tree() else None
        if self.o.disk and found.uid == 0:
            home = home or "/root"
        if self.o.rootfs and not os.path.isdir(treepath.resolve(self.o.rootfs, home or "") or ""):
            home = None
        if not self.disk.writable or home == "/":
            home = None  # the default can be written
        return users.User(found.uid, found.gid, home)

    def learn_names(self) -> None:
        """Before a machine has the image: later it cannot be read. A qcow2 image has to be copied
        for that, so its users have numbers only.
        """
        if self.o.disk and self.disk.format == RAW:
            try:
                self.names()
            except LaunchError:
                pass  # damaged: the machine will say so
        if self.o.disk and self._names is None:
            self._names = ("", "")

    def names(self) -> tuple[str, str]:
        """/etc/passwd and /etc/group of the root."""
        if self.o.image:
            about = self.base.about if self.base else {}
            return str(about.get("passwd", "")), str(about.get("group", ""))
        files = ("/etc/passwd", "/etc/group")
        if not self.o.disk:
            return tuple(treepath.read(self.o.rootfs or "/", f) for f in files)
        if self._names is None:  # before the machine writes there
            with ext4files.Files(self.held) as image_files:
                self._names = tuple(image_files.read(f) for f in files)
        return self._names


def _identity(path: str) -> tuple[int, int]:
    """The file itself, whatever its name."""
    try:
        st = os.stat(path)
    except OSError as err:
        raise LaunchError(f"{one_line(path)}: {err.strerror}") from None
    return st.st_dev, st.st_ino


def _let_write(o: Options, name: str = "s0") -> bool:
    """Does --append let the storage node write?"""
    last = "1"
    for selector, line in o.append:
        if role_matches(selector, "storage", name):
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


def _forget(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


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
