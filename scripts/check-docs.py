#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Check that documents and code say the same.

  - every BOOT_PARAM of the kernel has one row in docs/boot-params.md ("| `name` | ..."), and every
    row a parameter;
  - every lock rank has one row in docs/locking.md, and every row a rank;
  - every name in the tables of /proc and /sys has a row in docs/design/procfs.md, and every row a
    name;
  - docs/syscalls.md is what scripts/gen-syscalls.py makes of the table;
  - relative links in Markdown files lead to a file, and to a heading of it if they name one;
  - docs/index.md links every page of docs/.
"""

import argparse
import collections
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from treefiles import kernel_folder, source_files  # noqa: E402

BOOT_PARAM = re.compile(r'\bBOOT_PARAM(?:_[A-Z]+)*\(\s*"([^"]+)"')
RANK = re.compile(r"^\s*(RANK_[A-Z0-9_]+)\s*=", re.M)
PSEUDO = re.compile(
    r'(?:\b[A-Z]+_(?:DIR|FILE|LINK|WRITABLE)\(|\.name ='
    r' )"([^"]+)"(?=.*(?:show|link|nodes|S_IF|proc_|&tasks))'
)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
COMMENT = re.compile(r"/\*.*?\*/", re.S)
FENCE = re.compile(r"^```.*?^```", re.M | re.S)


def rows(path):
    """Names in back quotes in the first column of the page's tables, each with the number of its
    rows.
    """
    names = collections.Counter()
    for line in path.read_text().splitlines():
        m = re.match(r"\|\s*((?:`[^`]+`[\s,]*)+)\|", line)
        if m:
            names.update(re.findall(r"`([^`=]+)[^`]*`", m.group(1)))
    return names


def declared(root, files, pattern):
    """name -> file of what the kernel's code declares; tests and comments do not count."""
    found = {}
    for f in files:
        if not kernel_folder(f) or f.suffix != ".c" or f.name.endswith("_test.c"):
            continue
        text = COMMENT.sub("", (root / f).read_text(errors="replace"))
        for name in pattern.findall(text):
            found.setdefault(name, f)
    return found


def compare(page, names, kind, problems):
    """Both directions between declarations and the page's rows."""
    if not page.exists():
        if names:
            problems.append(f"{page.name}: the page is missing; {len(names)} {kind}s to describe")
        return
    described = rows(page)
    for name in sorted(set(names) - set(described)):
        problems.append(f"{names[name]}: {kind} {name} has no row in docs/{page.name}")
    for name in sorted(set(described) - set(names)):
        problems.append(f"docs/{page.name}: {kind} {name} is not declared anywhere")
    for name, nr in sorted(described.items()):
        if nr > 1:
            problems.append(f"docs/{page.name}: {kind} {name} has {nr} rows")


def check_ranks(root, problems):
    header = root / "kernel/include/kernel/lock_rank.h"
    if header.exists():
        names = {n: header.relative_to(root) for n in RANK.findall(header.read_text())}
        names.pop("RANK_SPIN_FIRST", None)  # a boundary, not a lock
        compare(root / "docs/locking.md", names, "lock rank", problems)


def check_pseudo_files(root, problems):
    """Names of monitors/processor/procfs/*.c against the last components of the paths in the page.
    """
    names = {}
    for f in sorted((root / "monitors/processor/procfs").glob("*.c")):
        for name in PSEUDO.findall(f.read_text()):
            names.setdefault(name, f.relative_to(root))
    page = root / "docs/design/procfs.md"
    if not names or not page.exists():
        return
    described = {path.rsplit("/", 1)[1] for path in rows(page) if "/" in path}
    for name in sorted(set(names) - described):
        problems.append(f"{names[name]}: file {name} has no row in docs/design/{page.name}")
    for name in sorted(described - set(names)):
        problems.append(f"docs/design/{page.name}: file {name} is in no table")


def check_syscalls(root, problems):
    table = root / "monitors/processor/syscall/syscall.tbl"
    if not table.exists():
        return
    done = subprocess.run(
        [
            sys.executable,
            str(root / "scripts/gen-syscalls.py"),
            "md",
            "monitors/processor/syscall/syscall.tbl",
        ],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    page = root / "docs/syscalls.md"
    if done.returncode:
        problems.append(done.stderr.strip())
    elif not page.exists() or page.read_text() != done.stdout:
        problems.append(
            "docs/syscalls.md is out of date: scripts/gen-syscalls.py md "
            "monitors/processor/syscall/syscall.tbl > docs/syscalls.md"
        )


def anchors(path):
    """The names of a page's headings, as GitHub makes them."""
    seen, names = collections.Counter(), set()
    text = FENCE.sub("", path.read_text(errors="replace"))
    for title in re.findall(r"^#{1,6} +(.+?)\s*$", text, re.M):
        title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title)
        name = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        names.add(f"{name}-{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return names


def check_links(root, files, problems):
    for f in files:
        if f.suffix != ".md":
            continue
        text = FENCE.sub("", (root / f).read_text(errors="replace"))
        for target in LINK.findall(text):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            page = root / f.parent / name if name else root / f
            if not page.exists():
                problems.append(f"{f}: link to {target} leads nowhere")
            elif anchor and page.suffix == ".md" and anchor not in anchors(page):
                problems.append(f"{f}: link to {target} leads to no heading")


def check_index(root, files, problems):
    index = root / "docs/index.md"
    if not index.exists():
        return
    linked = {(index.parent / t.split("#")[0]).resolve() for t in LINK.findall(index.read_text())}
    for f in files:
        if f.parts[0] == "docs" and f.suffix == ".md" and (root / f) != index:
            if (root / f).resolve() not in linked:
                problems.append(f"docs/index.md: no link to {f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", default=".", type=pathlib.Path)
    root = parser.parse_args().root.resolve()

    files = source_files(root)
    problems = []
    params = declared(root, files, BOOT_PARAM)
    compare(root / "docs/boot-params.md", params, "boot parameter", problems)
    check_ranks(root, problems)
    check_syscalls(root, problems)
    check_pseudo_files(root, problems)
    check_links(root, files, problems)
    check_index(root, files, problems)
    for p in problems:
        print(p)
    print(f"check-docs: {len(params)} boot parameters, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
