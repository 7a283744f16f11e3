#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Check byte orders and address spaces by sparse: __bitwise, __user, __iomem, __percpu.

usage: check-sparse.py --root DIR --build DIR

Every file of the images (DIR/<role>/.commands), tests included: a forgotten conversion of an
le32_t, a device register or a user's memory that is read as plain memory, a per-CPU variable used
directly.
Not checked: that symbols are declared, and constants that a cast cuts off (gcc sees to both).
"""

import argparse
import concurrent.futures
import os
import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from imagefiles import commands  # noqa: E402

FLAGS = ["-Wbitwise", "-Wno-decl", "-Wno-cast-truncate", "-Wno-unknown-attribute"]


def check(tool, root, source, flags):
    """One file's findings, with paths from the top; "" when there are none."""
    # By its whole path: sparse knows a "#pragma once" header by the name that it found it under.
    command = [tool, *FLAGS, *flags, str(root / source)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    text = (done.stdout + done.stderr).replace(f"{root}/", "")
    if done.returncode and not text:
        return f"{source}: sparse ended with status {done.returncode}\n"
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", default=".", type=pathlib.Path)
    parser.add_argument("--build", required=True, type=pathlib.Path)
    args = parser.parse_args()
    root = args.root.resolve()
    tool = shutil.which("sparse")
    if not tool:
        print("check-sparse: no sparse here; scripts/install-deps.sh test installs it")
        return 1

    todo = sorted(commands(args.build.resolve(), system_headers=True).items())
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        reports = list(pool.map(lambda item: check(tool, root, *item), todo))
    seen = set()  # a header's findings come with each file that includes it
    for line in "".join(reports).splitlines():
        if line not in seen:
            seen.add(line)
            print(line)
    broken = sum(1 for r in reports if r)
    print(f"check-sparse: {len(todo)} files, {broken} with findings")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
