#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Check (or with --fix, restore) the form of all C files by the pinned clang-format."""

import argparse
import concurrent.futures
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from treefiles import source_files  # noqa: E402

BATCH = 40


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


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", default=".", type=pathlib.Path)
    parser.add_argument("--tool", default="clang-format")
    parser.add_argument("--fix", action="store_true")
    args = parser.parse_args()

    files = [f for f in source_files(args.root) if f.suffix in (".c", ".h")]
    batches = [files[i : i + BATCH] for i in range(0, len(files), BATCH)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        reports = list(pool.map(lambda b: run(args.tool, args.root, b, args.fix), batches))
    text = "".join(reports)
    sys.stdout.write(text)
    bad = {line.split(":")[0] for line in text.splitlines() if ": error:" in line}
    print(f"check-format: {len(files)} files, {len(bad)} to format" + (" (make format)" if bad else ""))
    return 1 if text else 0


if __name__ == "__main__":
    sys.exit(main())
