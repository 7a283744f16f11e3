#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Check the form of sources: C files by the pinned clang-format, and the width of all lines.

No line of a C, assembly, Python, shell or make file is wider than 100 columns (a tab is 8),
comments and strings included; clang-format leaves those as they are. --fix formats, and leaves
wide lines to their authors.
"""

import argparse
import concurrent.futures
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from treefiles import source_files  # noqa: E402

BATCH = 40
COLUMNS = 100
TAB = 8
SUFFIXES = {".c", ".h", ".S", ".lds", ".py", ".mk", ".sh"}
NAMES = ("Makefile", "Kconfig")


def run(tool, root, files, fix):
    """The messages of clang-format over some files; empty when all is well."""
    how = ["-i"] if fix else ["--dry-run", "-Werror", "--ferror-limit=3"]
    done = subprocess.run(
        [tool, "--style=file", *how, *map(str, files)],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stderr if done.returncode else ""


def has_columns(root, path):
    """Is this a source whose lines are measured? Scripts without a suffix begin with "#!"."""
    if path.suffix in SUFFIXES or path.name in NAMES:
        return True
    if path.suffix:
        return False
    with open(root / path, "rb") as f:
        return f.read(2) == b"#!"


def wide_lines(root, path):
    text = (root / path).read_text(errors="replace")
    return [
        f"{path}:{i}: {len(line.expandtabs(TAB))} columns\n"
        for i, line in enumerate(text.splitlines(), 1)
        if len(line.expandtabs(TAB)) > COLUMNS
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", default=".", type=pathlib.Path)
    parser.add_argument("--tool", default="clang-format")
    parser.add_argument("--fix", action="store_true")
    args = parser.parse_args()

    sources = source_files(args.root)
    files = [f for f in sources if f.suffix in (".c", ".h")]
    batches = [files[i : i + BATCH] for i in range(0, len(files), BATCH)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        reports = list(pool.map(lambda b: run(args.tool, args.root, b, args.fix), batches))
    text = "".join(reports)
    sys.stdout.write(text)
    bad = {line.split(":")[0] for line in text.splitlines() if ": error:" in line}
    measured = [f for f in sources if has_columns(args.root, f)]
    wide = [line for f in measured for line in wide_lines(args.root, f)] if not args.fix else []
    sys.stdout.write("".join(wide))
    hint = " (make format)" if bad else ""
    print(
        f"check-format: {len(files)} C files, {len(bad)} to format{hint}; {len(wide)} lines too"
        " wide"
    )
    return 1 if text or wide else 0


if __name__ == "__main__":
    sys.exit(main())
