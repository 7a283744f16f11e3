# SPDX-License-Identifier: MIT
"""Layers of a container image become an ext4 image.

The layers are first put together as a tree of names in memory; only the contents of files go to a
directory, under numbers. So nothing in a layer is ever a path of the host, and a link of the tree
is followed in the tree alone. Once the tree is complete, which is free of names that lead anywhere
else, it is written to a directory of our own and mke2fs makes the image; debugfs gives files the
owners and modes that only root could give them there.

Trust: a layer may be hostile. Absolute names, `..`, links that lead out of the tree, device nodes,
bombs, and archives that end early are refused, with the name.
"""

from __future__ import annotations

import os
import stat
import tarfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from . import image, oci, packages, treepath
from .errors import LaunchError, one_line

MAX_BYTES = 32 << 30  # of all layers, unpacked
MAX_ENTRIES = 2_000_000
BOMB_RATIO, BOMB_FROM = 300, 1 << 30  # packed so well, and larger than that: no image
MAX_NAME, MAX_PATH, MAX_TARGET = 255, 3800, 4095
MAX_LINKS = 40
MAX_ID = (1 << 32) - 2
WHITEOUT, OPAQUE, AUFS = ".wh.", ".wh..wh..opq", ".wh..wh."
XATTR = "SCHILY.xattr."
KEPT_XATTRS = ("security.capability",)
MAX_HEADER = 1 << 20
MAX_XATTR = 3000  # it has to fit beside the inode


@dataclass
class Node:
    """A file, directory, symbolic link or FIFO of the tree."""

    kind: str
    layer: int
    mode: int = 0o755
    uid: int = 0
    gid: int = 0
    mtime: int = 0
    target: str = ""
    blob: str = ""  # of a file's contents
    size: int = 0
    names: dict[str, Node] = field(default_factory=dict)  # of a directory
    xattrs: dict[str, bytes] = field(default_factory=dict)
    staged: str = ""  # where it is, once it is written


class _Info(tarfile.TarInfo):
    """As tarfile's, but a header in the middle that makes no sense is an error, and not the end."""

    def _small(self) -> None:
        if not 0 <= self.size <= MAX_HEADER:
            raise oci.ImageError("a layer has a header of unbelievable size: a bomb")

    def _proc_pax(self, tar):  # names, times, attributes: read into memory
        self._small()
        return super()._proc_pax(tar)

    def _proc_gnulong(self, tar):
        self._small()
        return super()._proc_gnulong(tar)

    @classmethod
    def fromtarfile(cls, tar):
        try:
            return super().fromtarfile(tar)
        except (tarfile.EOFHeaderError, tarfile.EmptyHeaderError):
            raise
        except tarfile.HeaderError as err:
            raise oci.ImageError(f"a layer is damaged or truncated ({err})") from None


class Tree:
    """The tree of all layers so far; contents go below the directory @blobs."""

    def __init__(self, blobs: str):
        self.root = Node("dir", -1)
        self.bytes = self.entries = 0
        self._blobs = blobs
        self._layer = -1

    def add_layer(self, f: oci.Checked) -> None:
        """One archive, read to its end."""
        self._layer += 1
        try:
            with tarfile.open(fileobj=f, mode="r|", tarinfo=_Info, encoding="utf-8",
                              errors="surrogateescape") as tar:  # fmt: skip
                for member in tar:
                    self._add(tar, member)
                    tar.members = []  # tarfile would keep them all
        except (tarfile.TarError, EOFError, zlib.error, ValueError, RecursionError) as err:
            why = one_line(str(err))
            raise oci.ImageError(f"a layer is damaged or truncated ({why})") from None

    def _add(self, tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        self.entries += 1
        if self.entries > MAX_ENTRIES:
            raise oci.ImageError(f"it has more than {MAX_ENTRIES} files: a bomb")
        parts = _parts(member.name)
        if not parts:
            if not member.isdir():
                raise oci.ImageError("its root is no directory")
            self._attributes(self.root, member)
            return
        parent = self._parent(parts[:-1], member.name)
        name = parts[-1]
        if name.startswith(WHITEOUT):
            self._whiteout(parent, name, member.name)
            return
        node = self._node(tar, member, parts)
        old = parent.names.get(name)
        if node.kind == "dir" and old is not None and old.kind == "dir":
            self._attributes(old, member)
            old.layer = self._layer
        else:
            parent.names[name] = node

    def _attributes(self, node: Node, member: tarfile.TarInfo) -> None:
        for what, value in (("uid", member.uid), ("gid", member.gid)):
            if not 0 <= value <= MAX_ID:
                raise oci.ImageError(f"{_said(member.name)}: its {what} is {value}")
        node.mode, node.uid, node.gid = member.mode & 0o7777, member.uid, member.gid
        node.mtime = int(min(max(member.mtime, 0), 1 << 33))
        node.xattrs = {}
        for key, value in member.pax_headers.items():
            name = key.removeprefix(XATTR)
            if key.startswith(XATTR) and (name in KEPT_XATTRS or name.startswith("user.")):
                data = value.encode("utf-8", "surrogateescape")
                if len(name) > MAX_NAME or len(data) > MAX_XATTR or not name.isprintable():
                    raise oci.ImageError(f"{_said(member.name)}: an extended attribute is too long")
                node.xattrs[name] = data

    def _parent(self, parts: list[str], said: str) -> Node:
        """The directory with that name; made if it is missing. Links lead on inside the tree."""
        at: list[Node] = [self.root]
        pending, hops = list(parts), 0
        while pending:
            part = pending.pop(0)
            if part in ("", "."):
                continue
            if part == "..":
                if len(at) == 1:
                    raise oci.ImageError(f"{_said(said)}: leads out of the tree, by a link")
                at.pop()
                continue
            node = at[-1].names.get(part)
            if node is None:
                node = at[-1].names[part] = Node("dir", self._layer)
            if node.kind == "link":
                hops += 1
                if hops > MAX_LINKS:
                    raise oci.ImageError(f"{_said(said)}: too many symbolic links")
                if node.target.startswith("/"):
                    del at[1:]
                pending = node.target.split("/") + pending
            elif node.kind == "dir":
                at.append(node)
                if len(at) > MAX_PATH // 2:
                    raise oci.ImageError(f"{_said(said)}: too deep")
            else:
                raise oci.ImageError(f"{_said(said)}: is below something that is no directory")
        return at[-1]

    def _whiteout(self, parent: Node, name: str, said: str) -> None:
        """What lower layers have there is gone; what this one has stays."""
        if name == OPAQUE:
            for other in list(parent.names):
                self._hide(parent, other)
        elif not name.startswith(AUFS):
            hidden = name.removeprefix(WHITEOUT)
            if hidden in ("", ".", ".."):
                raise oci.ImageError(f"{_said(said)}: is no whiteout")
            if hidden in parent.names:
                self._hide(parent, hidden)

    def _hide(self, parent: Node, name: str) -> None:
        node = parent.names[name]
        if node.layer < self._layer and not self._has_new(node):
            del parent.names[name]
        elif node.kind == "dir":
            for other in list(node.names):
                self._hide(node, other)

    def _has_new(self, node: Node) -> bool:
        pending = [node]
        while pending:
            at = pending.pop()
            if at.layer == self._layer:
                return True
            pending += at.names.values()
        return False

    # Kinds of entries.

    def _node(self, tar: tarfile.TarFile, member: tarfile.TarInfo, parts: list[str]) -> Node:
        if member.islnk():
            return self._hard_link(member)
        node = Node("file", self._layer)
        self._attributes(node, member)
        if member.isreg():
            self._contents(tar, member, node)
        elif member.isdir():
            node.kind = "dir"
        elif member.issym():
            node.kind, node.target = "link", _target(member, len(parts) - 1)
        elif member.isfifo():
            node.kind = "fifo"
        elif member.ischr() or member.isblk():
            raise oci.ImageError(f"{_said(member.name)}: is a device node")
        else:
            raise oci.ImageError(f"{_said(member.name)}: is of an unknown kind")
        return node

    def _hard_link(self, member: tarfile.TarInfo) -> Node:
        parts = _parts(member.linkname, member.name)
        node = self.root
        if parts:
            node = self._parent(parts[:-1], member.name).names.get(parts[-1])
        if node is None or node.kind == "dir":
            raise oci.ImageError(f"{_said(member.name)}: is a link to {_said(member.linkname)}, "
                                 "which is no file of the tree")  # fmt: skip
        node.layer = self._layer
        return node

    def _contents(self, tar: tarfile.TarFile, member: tarfile.TarInfo, node: Node) -> None:
        if member.size < 0 or self.bytes + member.size > MAX_BYTES:
            raise oci.ImageError(f"{_said(member.name)}: the image is larger than "
                                 f"{MAX_BYTES >> 30} GiB: a bomb")  # fmt: skip
        node.blob = os.path.join(self._blobs, f"{self.entries:x}")
        source = tar.extractfile(member)
        left = member.size
        with open(node.blob, "xb") as out:
            while left:
                data = source.read(min(left, oci.CHUNK))
                if not data:
                    raise oci.ImageError(f"{_said(member.name)}: the layer is truncated there")
                out.write(data)
                left -= len(data)
                self.bytes += len(data)
        node.size = member.size

    # Reading.

    def find(self, path: str) -> Node | None:
        """A node by its path, links followed inside the tree."""
        at, pending, hops = [self.root], path.split("/"), 0
        while pending:
            part = pending.pop(0)
            if part == ".." and len(at) > 1:
                at.pop()
            if part in ("", ".", ".."):
                continue
            node = at[-1].names.get(part)
            if node is None:
                return None
            if node.kind == "link":
                hops += 1
                if hops > MAX_LINKS:
                    return None
                if node.target.startswith("/"):
                    del at[1:]
                pending = node.target.split("/") + pending
            else:
                at.append(node)
        return at[-1]

    def text(self, path: str) -> str:
        """The beginning of a file; "" if there is none."""
        node = self.find(path)
        if node is None or node.kind != "file":
            return ""
        with open(node.blob, errors="replace") as f:
            return f.read(treepath.MAX_FILE)

    def make_directory(self, path: str) -> None:
        """As docker does it for a working directory."""
        self._layer += 1
        self._parent(path.split("/"), path)

    def walk(self) -> Iterator[tuple[str, Node]]:
        """All but the root; a directory before what is in it."""
        pending = [("", self.root)]
        while pending:
            path, node = pending.pop()
            for name, inner in node.names.items():
                yield f"{path}/{name}", inner
                if inner.kind == "dir":
                    pending.append((f"{path}/{name}", inner))


def _said(name: str) -> str:
    return one_line(name)[:200]


def _parts(name: str, said: str | None = None) -> list[str]:
    """The words of a name; ImageError if it is none inside the tree."""
    said = _said(name) if said is None else f"{_said(said)}: links to {_said(name)}, which"
    if name.startswith("/"):
        raise oci.ImageError(f"{said}: is an absolute name")
    parts = [p for p in name.split("/") if p not in ("", ".")]
    if ".." in parts:
        raise oci.ImageError(f"{said}: leads out of the tree (..)")
    if "\0" in name or len(os.fsencode(name)) > MAX_PATH or any(
        len(os.fsencode(p)) > MAX_NAME for p in parts
    ):
        raise oci.ImageError(f"{said}: is no name that can be")
    return parts


def _target(member: tarfile.TarInfo, depth: int) -> str:
    """Of a symbolic link in a directory @depth names deep."""
    target = member.linkname
    if not target or "\0" in target or len(os.fsencode(target)) > MAX_TARGET:
        raise oci.ImageError(f"{_said(member.name)}: links to nothing that can be")
    depth = 0 if target.startswith("/") else depth
    for part in target.split("/"):
        depth += {"": 0, ".": 0, "..": -1}.get(part, 1)
        if depth < 0:
            raise oci.ImageError(f"{_said(member.name)}: links to {_said(target)}, out of the tree")
    return target


# From the tree to the image.


def _write(tree: Tree, stage: str) -> None:
    """The tree under the directory @stage, which is ours and empty."""
    root = os.geteuid() == 0
    for path, node in tree.walk():
        where = stage + path
        if len(os.fsencode(where)) > 4000:
            raise oci.ImageError(f"{_said(path)}: is no name that can be")
        if node.staged:
            os.link(node.staged, where, follow_symlinks=False)
            continue
        if node.kind == "dir":
            os.mkdir(where, 0o700)
        elif node.kind == "link":
            os.symlink(node.target, where)
        elif node.kind == "fifo":
            os.mkfifo(where, 0o600)
        else:
            os.rename(node.blob, where)
        node.staged = where
        if root:
            os.lchown(where, node.uid, node.gid)
        if node.kind != "link":
            mode = node.mode if root else node.mode | (0o700 if node.kind == "dir" else 0o600)
            os.chmod(where, mode)
    for path, node in [*tree.walk(), ("", tree.root)]:
        os.utime(stage + path, (node.mtime, node.mtime), follow_symlinks=False)
    if root:
        os.chown(stage, tree.root.uid, tree.root.gid)
        os.chmod(stage, tree.root.mode)


def _set_attributes(tree: Tree, target: str, scratch: str,
                    run: Callable[[list[str]], str]) -> None:  # fmt: skip
    """What mke2fs could not take from the directory: owners and modes, unless we are root, and
    extended attributes.
    """
    from .ext4files import possible, quoted

    lines: list[str] = []

    def add(path: str, *more: str) -> None:
        if not all(map(possible, more)):
            raise oci.ImageError(f"{_said(path)}: such names (line breaks, or so long) need root "
                                 "here, and have no extended attributes")  # fmt: skip
        lines.extend(more)

    kinds = {"dir": stat.S_IFDIR, "file": stat.S_IFREG, "link": stat.S_IFLNK, "fifo": stat.S_IFIFO}
    count = 0
    for path, node in [("/", tree.root), *tree.walk()]:
        own = os.geteuid() != 0
        name = quoted(path)
        if own:
            add(path, f"sif {name} uid {node.uid}", f"sif {name} gid {node.gid}",
                f"sif {name} mode 0{kinds[node.kind] | node.mode:o}")  # fmt: skip
        for attribute, value in node.xattrs.items():
            count += 1
            with open(os.path.join(scratch, f"x{count}"), "wb") as f:
                f.write(value)
            add(path, f"ea_set -f {quoted(f.name)} {name} {quoted(attribute)}")
    if lines:
        script = os.path.join(scratch, "script")
        with open(script, "wb") as f:
            f.write(b"".join(os.fsencode(line) + b"\n" for line in lines))
        said = run([packages.require("debugfs")[0], "-w", "-f", script, target])
        for line in said.splitlines():
            if line.strip() and not line.startswith(("debugfs:", "debugfs ")):
                raise LaunchError(f"debugfs: {one_line(line)}")


def _most(packed: int) -> int:
    """What a layer of so many bytes may unpack to."""
    return min(MAX_BYTES + (MAX_ENTRIES << 10), max(BOMB_FROM, packed * BOMB_RATIO))


def make(source: oci.Source, what: oci.Image, target: str, mke2fs: str,
         run: Callable[[list[str]], str], more: image.Tree | None = None) -> dict:  # fmt: skip
    """The ext4 image @target of a container image; what is to be remembered of it."""
    where = os.path.dirname(target)
    blobs, stage = os.path.join(where, "blobs"), os.path.join(where, "root")
    for path in (blobs, stage):
        os.mkdir(path, 0o700)
    tree = Tree(blobs)
    settings = oci.settings(what.config)
    try:
        for layer in what.layers:
            with oci.opened(source, layer, _most) as f:
                tree.add_layer(f)
        tree.make_directory(settings["cwd"])
        for path in image.SKELETON:
            tree.make_directory(path)
        about = {"kind": "image", "name": what.name, "image": what.id, **settings,
                 "passwd": tree.text("/etc/passwd"), "group": tree.text("/etc/group")}  # fmt: skip
        _write(tree, stage)
        if more:
            more.stage(stage)
        image.make_image(mke2fs, stage, target, run, True)
        _set_attributes(tree, target, blobs, run)
    except OSError as err:
        raise LaunchError(f"{where}: {err.strerror}") from None
    finally:
        _remove_all(stage)
        _remove_all(blobs)
    return about


def _remove_all(path: str) -> None:
    """Directories in it may have modes that not even their owner can enter with."""
    import shutil

    if os.geteuid() != 0:
        for at, dirs, _ in os.walk(path):
            for name in dirs:
                if not os.path.islink(os.path.join(at, name)):
                    os.chmod(os.path.join(at, name), 0o700)
    shutil.rmtree(path, ignore_errors=True)
