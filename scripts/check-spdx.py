#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Check that every source file names its licence in its first three lines."""

import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from treefiles import source_files  # noqa: E402

SUFFIXES = {".c", ".h", ".S", ".py", ".sh", ".mk", ".lds"}
NAMES = ("Makefile", "Kconfig")
TAG = "SPDX-License-Identifier: MIT"


def wanted(root, path):
    if path.suffix in SUFFIXES or path.name in NAMES:
        return (root / path).stat().st_size > 0
    if path.suffix:
        return False
    with open(root / path, "rb") as f:
        return f.read(2) == b"#!"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", default=".", type=pathlib.Path)
    root = parser.parse_args().root

    files = [f for f in source_files(root) if wanted(root, f)]
    bad = []
    for f in files:
        with open(root / f, errors="replace", encoding="utf-8") as text:
            head = [next(text, "") for _ in range(3)]
        if not any(TAG in line for line in head):
            bad.append(f)
    for f in bad:
        print(f"{f}: no '{TAG}' in the first three lines")
    print(f"check-spdx: {len(files)} files, {len(bad)} without")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
