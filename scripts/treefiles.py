# SPDX-License-Identifier: MIT
"""The source files that the checkers look at."""

import pathlib
import subprocess


def source_files(root):
    """Paths relative to @root of what git tracks or would track; without git, of everything."""
    root = pathlib.Path(root)
    try:
        out = subprocess.run(
            ["git", "-C", str(root), "ls-files", "-co", "--exclude-standard", "-z"],
            check=True,
            capture_output=True,
        ).stdout.decode()
        names = [n for n in out.split("\0") if n]
    except (OSError, subprocess.CalledProcessError):
        names = [
            str(p.relative_to(root))
            for p in root.rglob("*")
            if p.is_file() and not {".git", "build"} & set(p.relative_to(root).parts)
        ]
    return sorted(pathlib.Path(n) for n in set(names) if (root / n).is_file())


def kernel_folder(path):
    """Is @path part of the kernel, and so under its layering rules?"""
    return path.parts[0] in {
        "lib",
        "arch",
        "kernel",
        "mm",
        "drivers",
        "net",
        "fs",
        "monitors",
        "managers",
    }
