#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Check that every header compiles alone, and only once.

Kernel headers are compiled freestanding, with the layers' include folders and the configuration and
generated headers of --build DIR (DIR/<role>/include), or else Kconfig's defaults; headers of the
shim, the tools and the tests as host code.
"""

import argparse
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from treefiles import kernel_folder, source_files  # noqa: E402

ROLES = ("processor", "memory", "storage")
COMMON = [
    "-std=gnu11",
    "-fsyntax-only",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wundef",
    "-Wno-unused-parameter",
]
KERNEL = ["-ffreestanding", "-nostdinc", "-mgeneral-regs-only", "-mcmodel=kernel", "-fno-pic"]
HOST = ["-D_GNU_SOURCE", "-D__TESSERA_HOST__"]
SHIM = pathlib.Path("test/host/shim/include")


def include_folders(files):
    """All .../include folders of the kernel, and the one of monitors' modules."""
    found = {pathlib.Path("monitors")}
    for f in files:
        if kernel_folder(f) and "include" in f.parts[:-2]:
            found.add(pathlib.Path(*f.parts[: f.parts.index("include") + 1]))
    return sorted(found)


def defaults(root, python, out):
    """autoconf.h of each role, made from its defconfig, or an empty one without Kconfig."""
    headers = {}
    for role in ROLES:
        folder = out / role / "generated"
        folder.mkdir(parents=True)
        header = folder / "autoconf.h"
        header.write_text("#pragma once\n")
        if (root / "Kconfig").exists():
            env = dict(os.environ, KCONFIG_CONFIG=str(out / role / ".config"), srctree=str(root))
            tool = [python, str(root / "scripts/kconfig.py")]
            subprocess.run(
                [*tool, "defconfig", str(root / f"configs/{role}_defconfig")], env=env, check=True
            )
            subprocess.run(
                [*tool, "generate", str(header), str(folder / "auto.conf")], env=env, check=True
            )
        headers[role] = header
    return headers


def command(cc, builtin, path, folders, autoconf):
    """How to compile this header alone."""
    role = next((r for r in ROLES if path.parts[:2] == ("monitors", r)), "processor")
    conf = ["-include", str(autoconf[role]), f"-I{autoconf[role].parent.parent}"]
    mine = [
        f"-I{d}"
        for d in folders
        if not any(d.parts[:2] == ("monitors", r) for r in ROLES if r != role)
    ]
    if kernel_folder(path):
        flags = [*KERNEL, "-isystem", builtin, *mine]
    else:
        shim = [f"-I{SHIM}"] if SHIM.parent in path.parents or path.parts[0] == "test" else []
        flags = [*HOST, *shim, *(f"-I{d}" for d in folders)]
    return [cc, *COMMON, *conf, *flags, "-x", "c", "-"]


def check(cc, builtin, root, path, folders, autoconf):
    text = (root / path).read_text(errors="replace")
    if "#pragma once" not in text:
        return f"{path}: no #pragma once\n"
    # Twice, as an including file may: the second time it must vanish.
    source = f'#include "{root / path}"\n#include "{root / path}"\n'
    done = subprocess.run(
        command(cc, builtin, path, folders, autoconf),
        input=source,
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    return f"{path}: does not compile alone\n{done.stderr}" if done.returncode else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", default=".", type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path)
    parser.add_argument("--cc", default=os.environ.get("HOSTCC") or "gcc")
    args = parser.parse_args()
    root = args.root.resolve()

    files = source_files(root)
    headers = [f for f in files if f.suffix == ".h"]
    folders = include_folders(files)
    builtin = subprocess.run(
        [args.cc, "-print-file-name=include"], check=True, capture_output=True, text=True
    ).stdout.strip()
    with tempfile.TemporaryDirectory() as tmp:
        if args.build:
            autoconf = {r: args.build.resolve() / r / "include/generated/autoconf.h" for r in ROLES}
        else:
            autoconf = defaults(root, sys.executable, pathlib.Path(tmp))
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            reports = pool.map(
                lambda h: check(args.cc, builtin, root, h, folders, autoconf), headers
            )
            reports = [r for r in reports if r]
    for r in reports:
        sys.stdout.write(r)
    print(f"check-headers: {len(headers)} headers, {len(reports)} broken")
    return 1 if reports else 0


if __name__ == "__main__":
    sys.exit(main())
