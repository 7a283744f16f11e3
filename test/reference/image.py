# SPDX-License-Identifier: MIT
"""The reference guests' initial RAM disk: a Debian kernel's modules, RDMA tools and a shell as PID
1.
"""
import hashlib
import re
import struct
import subprocess
import tempfile
from pathlib import Path

from . import packages

HERE = Path(__file__).resolve().parent
MODULES = ["virtio_pci", "virtio_console", "virtio_net", "mlx4_core", "mlx4_ib", "ib_uverbs",
           "ib_umad", "rdma_ucm", "ib_ipoib"]
PROGRAMS = ["ibv_devinfo", "ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong",
            "ibv_srq_pingpong", "ib_write_lat", "ib_write_bw", "ib_send_lat", "ib_send_bw",
            "ib_read_lat", "ib_read_bw", "ib_atomic_lat", "ib_atomic_bw", "smpquery",
            "perfquery", "ibping", "sminfo", "rping"]
DIRECTORIES = ["proc", "sys", "dev", "tmp", "etc", "root"]
HOST_LIBRARIES = ["/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64"]


def _entry(ino, name, mode, data):
    """One member of a 'newc' cpio archive."""
    fields = (ino, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0)
    head = b"070701" + b"".join(b"%08X" % f for f in fields) + name.encode() + b"\0"
    return head + bytes(-len(head) % 4) + data + bytes(-len(data) % 4)


def cpio(tree):
    """Archive {path: bytes (executable file) | str (link) | None (directory)}."""
    tree = dict(tree)
    for path in list(tree):
        for parent in Path(path).parents:
            if str(parent) != ".":
                tree.setdefault(str(parent), None)
    out = []
    for ino, path in enumerate(sorted(tree), 1):
        body = tree[path]
        if body is None:
            out.append(_entry(ino, path, 0o40755, b""))
        elif isinstance(body, str):
            out.append(_entry(ino, path, 0o120777, body.encode()))
        else:
            out.append(_entry(ino, path, 0o100755, body))
    return b"".join(out) + _entry(0, "TRAILER!!!", 0, b"")


def needs(module, files):
    """The modules that `module` depends on, in load order, by its own .modinfo."""
    found = re.search(rb"\0depends=([^\0]*)\0", b"\0" + files[module])
    order = []
    for name in (found.group(1).decode().replace("-", "_").split(",") if found else []):
        if name in files:
            order += [m for m in needs(name, files) + [name] if m not in order]
    return order


def _modules(deb):
    """{name: bytes} of every module that could be wanted, and the kernel itself."""
    def wanted(path):
        return path.startswith("boot/vmlinuz") or (
            path.endswith(".ko")
            and re.search(
                r"/(drivers/(char/virtio|infiniband|net/virtio|net/net_fail"
                r"|net/ethernet/mellanox/mlx4|virtio)|net|lib|crypto|fs/configfs"
                r"|drivers/ptp|drivers/pps|kernel/lib)",
                path,
            )
        )

    kernel, files = None, {}
    for path, _, body in packages.members(deb, wanted):
        if path.startswith("boot/"):
            kernel = body
        elif body:
            files[Path(path).stem.replace("-", "_")] = body
    return kernel, files


def needed(elf):
    """The DT_NEEDED names of an ELF64 image."""
    phoff, phentsize, phnum = struct.unpack_from("<Q", elf, 32) + struct.unpack_from(
        "<HH", elf, 54)
    loads, dynamic = [], None
    for i in range(phnum):
        kind, _, off, vaddr, _, size = struct.unpack_from("<IIQQQQ", elf, phoff + i * phentsize)
        if kind == 1:
            loads.append((vaddr, off, size))
        elif kind == 2:
            dynamic = (off, size)
    if not dynamic:
        return []
    tags = list(struct.iter_unpack("<QQ", elf[dynamic[0]:dynamic[0] + dynamic[1]]))
    strtab = next(v for t, v in tags if t == 5)
    base = next(off + strtab - vaddr for vaddr, off, size in loads
                if vaddr <= strtab < vaddr + size)
    return [elf[base + v:elf.index(b"\0", base + v)].decode() for t, v in tags if t == 1]


def _libraries(tree, extra):
    """Add the shared libraries that the programs in `tree` need."""
    todo = [body for path, body in tree.items() if isinstance(body, bytes)
            and body[:4] == b"\x7fELF" and not path.startswith(("lib/mods", "bin/busybox"))]
    while todo:
        for lib in needed(todo.pop()):
            path = "lib/x86_64-linux-gnu/" + lib
            if path in tree:
                continue
            body = extra.get(lib) or next(
                (Path(d, lib).read_bytes() for d in HOST_LIBRARIES if Path(d, lib).exists()), None)
            if body is None:
                raise packages.PackageError(f"library {lib} is in none of the packages")
            tree[path] = body
            todo.append(body)
    # glibc loads it by name when a thread ends.
    gcc = "libgcc_s.so.1"
    tree["lib/x86_64-linux-gnu/" + gcc] = next(
        Path(d, gcc).read_bytes() for d in HOST_LIBRARIES if Path(d, gcc).exists())
    tree["lib64/ld-linux-x86-64.so.2"] = Path("/lib64/ld-linux-x86-64.so.2").read_bytes()


def _userland(debs):
    tree, libs, links = {}, {}, {}
    for name in packages.PACKAGES:
        for path, info, body in packages.members(debs[name], lambda p: True):
            base = Path(path).name
            if info.issym() and ".so" in base:
                links[base] = Path(info.linkname).name
            elif not body:
                continue
            elif path == "bin/busybox":
                tree["bin/busybox"] = body
            elif base in PROGRAMS and "bin/" in path:
                tree["bin/" + base] = body
            elif ".so" in base:
                libs[base] = body
            elif path == "etc/libibverbs.d/mlx4.driver":
                tree[path] = body
    for link, target in links.items():
        if target in libs:
            libs.setdefault(link, libs[target])
    provider = next(n for n in libs if n.startswith("libmlx4-rdmav"))
    tree["usr/lib/x86_64-linux-gnu/libibverbs/" + provider] = libs[provider]
    _libraries(tree, libs)
    return tree


def _compile_peer(debs, tree):
    """peer.c against the headers of the packages and the libraries that are already in `tree`."""
    with tempfile.TemporaryDirectory(prefix="reference-") as work:
        for name in packages.HEADERS:
            for path, _, body in packages.members(debs[name], lambda p: p.endswith(".h")):
                if body is not None:
                    to = Path(work, path)
                    to.parent.mkdir(parents=True, exist_ok=True)
                    to.write_bytes(body)
        libraries = []
        for path, body in tree.items():
            if re.search(r"/(libibverbs|librdmacm)\.so\.1$", path):
                libraries.append(Path(work, Path(path).name))
                libraries[-1].write_bytes(body)
        done = subprocess.run(
            ["gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", f"{work}/peer",
             f"-I{work}/usr/include", HERE / "peer.c", *libraries,
             "-Wl,--unresolved-symbols=ignore-in-shared-libs"],
            capture_output=True, text=True, check=False)
        if done.returncode:
            raise packages.PackageError(f"peer.c: {done.stderr}")
        return Path(work, "peer").read_bytes()


def build(cache, out):
    """Make `out`/vmlinuz and `out`/initramfs.cpio unless they are there and up to date."""
    debs = packages.fetch(cache)
    sources = [HERE / "init.sh", HERE / "peer.c", Path(__file__), HERE / "packages.py"]
    stamp = hashlib.sha256()
    for source in sources:
        stamp.update(source.read_bytes())
    for deb in debs.values():
        stamp.update(deb.name.encode())
    stamp_file = out / "stamp"
    if stamp_file.exists() and stamp_file.read_text() == stamp.hexdigest():
        return out / "vmlinuz", out / "initramfs.cpio"
    out.mkdir(parents=True, exist_ok=True)
    kernel, files = _modules(next(d for n, d in debs.items() if n.startswith("linux-image")))
    tree = _userland(debs)
    tree["bin/peer"] = _compile_peer(debs, tree)
    order = []
    for module in MODULES:
        if module in files:
            order += [m for m in needs(module, files) + [module] if m not in order]
    for module in order:
        tree[f"lib/mods/{module}.ko"] = files[module]
    tree["lib/mods/order"] = " ".join(order).encode()
    tree["init"] = (HERE / "init.sh").read_bytes()
    tree.update({d: None for d in DIRECTORIES})
    (out / "vmlinuz").write_bytes(kernel)
    (out / "initramfs.cpio").write_bytes(cpio(tree))
    stamp_file.write_text(stamp.hexdigest())
    return out / "vmlinuz", out / "initramfs.cpio"
