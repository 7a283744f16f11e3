# SPDX-License-Identifier: MIT
"""Debian packages for the Linux guests that are the reference for the HCA model.

Packages are downloaded into a cache (nothing is installed) and single files are taken out of
them. See docs/testing.md.
"""
import io
import os
import re
import subprocess
import tarfile
from pathlib import Path

PACKAGES = ["busybox-static", "ibverbs-providers", "ibverbs-utils", "infiniband-diags",
            "libibmad5", "libibnetdisc5", "libibumad3", "libibverbs1", "libnl-3-200",
            "libnl-route-3-200", "libpci3", "librdmacm1", "perftest", "rdmacm-utils"]
HEADERS = ["libibverbs-dev", "librdmacm-dev"]  # for peer.c


class PackageError(RuntimeError):
    """A package cannot be had."""


def kernel_package():
    """The package with the kernel that linux-image-amd64 depends on."""
    out = subprocess.run(["apt-cache", "depends", "linux-image-amd64"], capture_output=True,
                         text=True, check=False).stdout
    found = re.search(r"Depends: (linux-image-\S+)", out)
    return found.group(1) if found else None


def _download(name, cache):
    return subprocess.run(["apt-get", "download", name], cwd=cache, capture_output=True,
                          text=True, check=False)


def _update_lists():
    command = ["apt-get", "update", "-qq"]
    if os.geteuid() != 0:
        command = ["sudo", "-n"] + command
    subprocess.run(command, capture_output=True, check=False)


def cached(name, cache):
    """The newest downloaded file of package `name`, or None."""
    found = sorted(cache.glob(name + "_*.deb"), key=lambda p: p.stat().st_mtime)
    return found[-1] if found else None


def _kernel_name(cache):
    kernel = kernel_package()
    if not kernel:
        _update_lists()
        kernel = kernel_package()
    if not kernel:
        kernels = sorted(p.name.split("_")[0] for p in cache.glob("linux-image-*.deb"))
        if not kernels:
            raise PackageError("apt knows no package linux-image-amd64")
        kernel = kernels[-1]
    return kernel


def fetch_kernel(cache):
    """Download the kernel's package unless it is there; the path of the .deb."""
    cache.mkdir(parents=True, exist_ok=True)
    name = _kernel_name(cache)
    return _fetch([name], cache)[name]


def fetch(cache):
    """Download what is missing; return {package: path of the .deb}."""
    cache.mkdir(parents=True, exist_ok=True)
    return _fetch([_kernel_name(cache)] + PACKAGES + HEADERS, cache)


def _fetch(names, cache):
    debs, updated = {}, False
    for name in names:
        if not cached(name, cache):
            done = _download(name, cache)
            if done.returncode and not updated:
                _update_lists()
                updated = True
                done = _download(name, cache)
            if not cached(name, cache):
                raise PackageError(f"apt-get download {name}: {done.stderr.strip()}")
        debs[name] = cached(name, cache)
    return debs


def members(deb, wanted):
    """Yield (path, TarInfo, bytes or None) of the files in `deb` for which wanted(path) holds."""
    data = subprocess.run(["dpkg-deb", "--fsys-tarfile", str(deb)], capture_output=True,
                          check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        for info in tar:
            path = info.name.removeprefix("./")
            if wanted(path):
                body = tar.extractfile(info).read() if info.isfile() else None
                yield path, info, body
