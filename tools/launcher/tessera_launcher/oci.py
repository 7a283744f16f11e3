# SPDX-License-Identifier: MIT
"""Container images as files: `docker save`, and the OCI layout as an archive or a directory.

open_image() finds the one image for this system and its configuration, with all digests on the way
checked; layers() gives its layers, each checked before a byte of it is used. unpack.py makes a tree
of them.
Trust: everything here may be hostile. Names in it are only looked up among the members of the
archive, or are digests, from which names of files follow; documents have a limit.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import json
import os
import posixpath
import re
import stat
import subprocess
import tarfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

from . import packages
from .errors import LaunchError, one_line

OS, ARCHITECTURE = "linux", "amd64"
MAX_JSON = 8 << 20
MAX_LAYERS = 512
MAX_DEPTH = 4  # of an index within an index
CHUNK = 1 << 20
INDEX_TYPES = ("application/vnd.oci.image.index.v1+json",
               "application/vnd.docker.distribution.manifest.list.v2+json")  # fmt: skip
_DIGEST = re.compile(r"(sha256):([0-9a-f]{64})|(sha512):([0-9a-f]{128})")


class ImageError(LaunchError):
    """The image is damaged, hostile, or not for this system; one line that names what."""


@dataclass
class Layer:
    """One layer: where it is, and what its bytes must be."""

    blob: str  # in the source
    digest: str | None  # of the blob as it is there
    size: int | None
    diff_id: str  # of the unpacked archive


@dataclass
class Image:
    name: str
    id: str  # the digest of its configuration, which determines the layers
    config: dict
    layers: list[Layer] = field(default_factory=list)


# Where the bytes are.


class Directory:
    """An OCI layout as a directory. Links in it are not followed."""

    def __init__(self, path: str):
        self.path = path

    def has(self, name: str) -> bool:
        try:
            return stat.S_ISREG(os.lstat(os.path.join(self.path, name)).st_mode)
        except (OSError, ValueError):
            return False

    def open(self, name: str) -> BinaryIO:
        if not self.has(name):
            raise ImageError(f"{one_line(name)} is missing in it")
        fd = os.open(os.path.join(self.path, name), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        return open(fd, "rb")

    def size(self, name: str) -> int:
        return os.lstat(os.path.join(self.path, name)).st_size

    def close(self) -> None:
        pass


class Archive:
    """A tar archive, as it is or packed by gzip, bzip2 or xz; its members are never unpacked."""

    def __init__(self, path: str):
        try:
            self._tar = tarfile.open(path, "r:*")
            self._members = {posixpath.normpath(m.name): m for m in self._tar}
        except (tarfile.TarError, EOFError, OSError, zlib.error, ValueError) as err:
            raise ImageError(f"it is no archive that can be read ({one_line(str(err))})") from None

    def _find(self, name: str) -> tarfile.TarInfo | None:
        """Older `docker save` has a layer that is there twice as a link the second time."""
        for _ in range(8):
            member = self._members.get(posixpath.normpath(name))
            if member is None or member.isreg():
                return member
            if not member.issym():
                return None
            name = posixpath.join(posixpath.dirname(member.name), member.linkname)
        return None

    def has(self, name: str) -> bool:
        return self._find(name) is not None

    def size(self, name: str) -> int:
        member = self._find(name)
        return member.size if member else 0

    def open(self, name: str) -> BinaryIO:
        member = self._find(name)
        if member is None:
            raise ImageError(f"{one_line(name)} is missing in it")
        return self._tar.extractfile(member)

    def close(self) -> None:
        self._tar.close()


Source = Directory | Archive


def _hash_of(digest: str) -> tuple[str, str]:
    found = _DIGEST.fullmatch(digest) if isinstance(digest, str) else None
    if not found:
        raise ImageError(f"{one_line(str(digest))[:90]!r} is no digest (sha256 or sha512)")
    return (found[1] or found[3], found[2] or found[4])


def _blob(digest: str) -> str:
    return "blobs/" + "/".join(_hash_of(digest))


def check_blob(source: Source, name: str, digest: str, size: int | None) -> None:
    """ImageError when a blob does not have these bytes."""
    algorithm, want = _hash_of(digest)
    made, count = hashlib.new(algorithm), 0
    try:
        with source.open(name) as f:
            while data := f.read(CHUNK):
                made.update(data)
                count += len(data)
    except (tarfile.TarError, EOFError, OSError, zlib.error) as err:
        raise ImageError(f"{name} is truncated ({one_line(str(err))})") from None
    if size is not None and count != size:
        raise ImageError(f"{name} has {count} bytes instead of {size}: truncated or changed")
    if made.hexdigest() != want:
        raise ImageError(f"{name} does not have its digest: it was changed or damaged")


def _json(source: Source, name: str, digest: str | None = None,
          size: int | None = None) -> tuple[object, bytes]:  # fmt: skip
    if digest:
        check_blob(source, name, digest, size)
    with source.open(name) as f:
        data = f.read(MAX_JSON + 1)
    if len(data) > MAX_JSON:
        raise ImageError(f"{one_line(name)} is larger than {MAX_JSON >> 20} MiB")
    try:
        return json.loads(data), data
    except (ValueError, RecursionError):
        raise ImageError(f"{one_line(name)} is not JSON") from None


def _want(value: object, kind: type, what: str):
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ImageError(f"{what} is not what it has to be")
    return value


# Which image.


def open_source(path: str) -> Source:
    return Directory(path) if os.path.isdir(path) else Archive(path)


def open_image(source: Source, wanted: str | None) -> Image:
    """The image of that name, or the only one, for this system."""
    if source.has("oci-layout") and source.has("index.json"):
        return _from_layout(source, wanted)
    if source.has("manifest.json"):
        return _from_docker(source, wanted)
    raise ImageError("it is neither of docker save nor an OCI layout")


def _names(descriptor: dict) -> list[str]:
    notes = descriptor.get("annotations")
    notes = notes if isinstance(notes, dict) else {}
    keys = ("org.opencontainers.image.ref.name", "io.containerd.image.name")
    return [str(notes[k]) for k in keys if k in notes]


def _candidates(source: Source, document: object, names: list[str],
                depth: int = 0) -> Iterator[tuple[dict, list[str]]]:  # fmt: skip
    """Descriptors of manifests, with their names, through all indices."""
    if depth > MAX_DEPTH:
        raise ImageError("its indices are nested too deeply")
    listed = _want(_want(document, dict, "an index").get("manifests"), list, "an index")
    for entry in listed[:MAX_LAYERS]:
        entry = _want(entry, dict, "an entry of an index")
        own = _names(entry) or names
        if entry.get("mediaType") in INDEX_TYPES:
            digest = entry.get("digest")
            inner, _ = _json(source, _blob(digest), digest, entry.get("size"))
            yield from _candidates(source, inner, own, depth + 1)
        else:
            yield entry, own


def _from_layout(source: Source, wanted: str | None) -> Image:
    index, _ = _json(source, "index.json")
    fit: dict[str, tuple[dict, list[str]]] = {}
    others: set[str] = set()
    for entry, names in _candidates(source, index, []):
        if wanted is not None and not any(_matches(n, wanted) for n in names):
            continue
        platform = entry.get("platform")
        if isinstance(platform, dict):
            what = f"{platform.get('os')}/{platform.get('architecture')}"
            if what != f"{OS}/{ARCHITECTURE}":
                others.add(what)
                continue
        if not source.has(_blob(entry.get("digest"))):
            others.add("one that is not in the file")
            continue
        fit.setdefault(entry["digest"], (entry, names))
    entry, names = _the_one(fit, others, wanted)
    return _from_manifest(source, entry, names)


def _matches(name: str, wanted: str) -> bool:
    return name == wanted or name.rpartition(":")[2] == wanted or name.endswith("/" + wanted)


def _the_one(fit: dict, others: set[str], wanted: str | None) -> tuple:
    if len(fit) == 1:
        return next(iter(fit.values()))
    if fit:
        names = sorted({n for _, listed in fit.values() for n in listed})
        raise ImageError("it has several images; choose one by --image FILE:NAME: "
                         + one_line(", ".join(names) or "they have no names"))  # fmt: skip
    others.discard("unknown/unknown")  # what builders say of their work
    if others:
        raise ImageError(f"it has no image for {OS}/{ARCHITECTURE}, only for "
                         + one_line(", ".join(sorted(others))))  # fmt: skip
    raise ImageError(f"it has no image {one_line(wanted)}" if wanted else "it has no image")


def _from_manifest(source: Source, entry: dict, names: list[str]) -> Image:
    digest = entry["digest"]
    manifest, _ = _json(source, _blob(digest), digest, entry.get("size"))
    manifest = _want(manifest, dict, "the manifest")
    about = _want(manifest.get("config"), dict, "the manifest's config")
    config, _ = _json(source, _blob(about.get("digest")), about.get("digest"), about.get("size"))
    image = _image(names[0] if names else digest[:19], about["digest"], config)
    listed = _want(manifest.get("layers"), list, "the manifest's list of layers")
    diff_ids = _diff_ids(config, len(listed))
    for layer, diff_id in zip(listed, diff_ids, strict=True):
        layer = _want(layer, dict, "a layer of the manifest")
        size = _want(layer.get("size"), int, "a layer's size")
        if layer.get("urls") and not source.has(_blob(layer.get("digest"))):
            raise ImageError("it has layers that lie elsewhere (urls)")
        image.layers.append(
            Layer(_blob(layer.get("digest")), layer.get("digest"), size, diff_id)
        )
    return image


def _from_docker(source: Source, wanted: str | None) -> Image:
    listed, _ = _json(source, "manifest.json")
    fit, others = {}, set()
    for entry in _want(listed, list, "manifest.json"):
        entry = _want(entry, dict, "manifest.json")
        names = [str(t) for t in entry.get("RepoTags") or []]
        if wanted is not None and not any(_matches(n, wanted) for n in names):
            continue
        name = _want(entry.get("Config"), str, "manifest.json")
        config, data = _json(source, name)
        digest = "sha256:" + hashlib.sha256(data).hexdigest()
        named = re.search(r"(?:^|/)([0-9a-f]{64})(\.json)?$", name)
        if named and named[1] != digest[7:]:
            raise ImageError(f"{name} does not have its digest: it was changed or damaged")
        what = _platform(config)
        if what != f"{OS}/{ARCHITECTURE}":
            others.add(what)
            continue
        fit[digest] = ((entry, config, digest), names)
    (entry, config, digest), names = _the_one(fit, others, wanted)
    image = _image(names[0] if names else digest[:19], digest, config)
    blobs = _want(entry.get("Layers"), list, "manifest.json's list of layers")
    for blob, diff_id in zip(blobs, _diff_ids(config, len(blobs)), strict=True):
        image.layers.append(Layer(_want(blob, str, "a layer's name"), None, None, diff_id))
    return image


def _platform(config: object) -> str:
    config = _want(config, dict, "the configuration")
    return one_line(f"{config.get('os')}/{config.get('architecture')}")


def _image(name: str, digest: str, config: object) -> Image:
    what = _platform(config)
    if what != f"{OS}/{ARCHITECTURE}":
        raise ImageError(f"it is for {what}, not for {OS}/{ARCHITECTURE}")
    return Image(one_line(name)[:200], digest, config)


def _diff_ids(config: dict, count: int) -> list[str]:
    rootfs = _want(config.get("rootfs"), dict, "the configuration's rootfs")
    ids = _want(rootfs.get("diff_ids"), list, "the configuration's diff_ids")
    if len(ids) != count or count > MAX_LAYERS:
        raise ImageError(f"it has {count} layers (up to {MAX_LAYERS} are taken), and digests of "
                         f"{len(ids)}")  # fmt: skip
    for digest in ids:
        _hash_of(digest)
    return ids


# The configuration, as far as a run follows it.


def absolute(path: str) -> str:
    return "/" + posixpath.normpath("/" + path).lstrip("/")


def settings(config: dict) -> dict:
    """What the image says of how it is run; ImageError for what makes no sense."""
    run = config.get("config") or {}
    run = _want(run, dict, "the configuration")

    def strings(key: str) -> list[str]:
        value = run.get(key) or []
        if not isinstance(value, list) or not all(
            isinstance(v, str) and "\0" not in v for v in value
        ):
            raise ImageError(f"its {key} is not a list of words")
        return value

    cwd, user = run.get("WorkingDir") or "/", run.get("User") or ""
    if not isinstance(cwd, str) or not isinstance(user, str) or "\0" in cwd + user:
        raise ImageError("its WorkingDir or User is not a word")
    env = [e for e in strings("Env") if e.find("=") > 0]
    ports = run.get("ExposedPorts") or {}
    labels = run.get("Labels") or {}
    return {
        "entrypoint": strings("Entrypoint"), "cmd": strings("Cmd"), "env": env,
        "cwd": absolute(cwd), "user": user,
        "ports": sorted(p for p in _want(ports, dict, "its ExposedPorts")
                        if re.fullmatch(r"[1-9][0-9]{0,4}(/(tcp|udp))?", p)),
        "labels": {k: v for k, v in _want(labels, dict, "its Labels").items()
                   if isinstance(v, str)},
    }  # fmt: skip


# Layers.


class Checked(io.RawIOBase):
    """A stream that hashes what is read of it, up to a limit."""

    def __init__(self, f: BinaryIO, algorithm: str, limit: int):
        self._f, self.hash, self._left = f, hashlib.new(algorithm), limit

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._f.read(CHUNK if size < 0 else size)
        self._left -= len(data)
        if self._left < 0:
            raise ImageError("it unpacks to more than is believed of an image: a bomb")
        self.hash.update(data)
        return data


@contextlib.contextmanager
def _unpacked(f: BinaryIO) -> Iterator[BinaryIO]:
    head = f.read(6)
    f.seek(0)
    if head[:2] == b"\x1f\x8b":
        with gzip.GzipFile(fileobj=f) as out:
            yield out
    elif head[:4] == b"\x28\xb5\x2f\xfd":
        with _by_zstd(f) as out:
            yield out
    elif head[:3] == b"BZh" or head[:6] == b"\xfd7zXZ\0":
        raise ImageError("it has a layer that is packed neither by gzip nor by zstd")
    else:
        yield f


@contextlib.contextmanager
def _by_zstd(f: BinaryIO) -> Iterator[BinaryIO]:
    import shutil
    import threading

    child = subprocess.Popen([packages.require("zstd")[0], "-dcq", "--no-progress"],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL)  # fmt: skip

    def feed() -> None:
        with contextlib.suppress(OSError, ValueError):
            shutil.copyfileobj(f, child.stdin, CHUNK)
        with contextlib.suppress(OSError):
            child.stdin.close()

    feeder = threading.Thread(target=feed, daemon=True)
    feeder.start()
    try:
        yield child.stdout
        if child.stdout.read(1) == b"" and child.wait() != 0:
            raise ImageError("it has a layer that zstd cannot unpack")
    finally:
        child.kill()
        child.stdout.close()
        child.wait()
        feeder.join()


@contextlib.contextmanager
def opened(source: Source, layer: Layer, most: Callable[[int], int]) -> Iterator[Checked]:
    """The layer's archive. Its blob is checked before, and its contents after the body, which may
    leave the end unread.
    """
    if layer.digest:
        check_blob(source, layer.blob, layer.digest, layer.size)
    algorithm, want = _hash_of(layer.diff_id)
    with source.open(layer.blob) as f, _unpacked(f) as plain:
        packed = layer.size if layer.size is not None else source.size(layer.blob)
        checked = Checked(plain, algorithm, most(packed))
        try:
            yield checked
            while checked.read(CHUNK):
                pass
        except (gzip.BadGzipFile, EOFError, zlib.error, tarfile.TarError) as err:
            raise ImageError(f"{one_line(layer.blob)} is damaged or truncated "
                             f"({one_line(str(err))})") from None  # fmt: skip
        if checked.hash.hexdigest() != want:
            raise ImageError(f"{one_line(layer.blob)} does not have the digest of its contents "
                             "(diff_id): it is truncated, or was changed")  # fmt: skip
