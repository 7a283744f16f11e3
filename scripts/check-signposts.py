#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Check that what points somewhere points at the right place.

  - a header that lists prototypes under the comment of a file lists them under the file that
    defines them ("/* file.c */", up to the next such comment);
  - code calls every function that is not static: a function that only its own file uses is static;
    one that only tests call is gone, or the comment above it (or above its prototype) says that it
    is for tests;
  - every lock rank is taken by a lock;
  - every CONFIG_ symbol that sources use exists in a Kconfig, and every symbol there is used.
"""

import argparse
import collections
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import csource  # noqa: E402
from treefiles import kernel_folder, source_files  # noqa: E402

SIGNPOST = re.compile(r"^/\*\s*(?:\n \* )?((?:[a-z]\w*\.[cS](?:, | and )?)+)(?=[\s:;,*])", re.M)
RANK = re.compile(r"^\s*(RANK_[A-Z0-9_]+)\s*=", re.M)
CONFIG = re.compile(r"\bCONFIG_([A-Z0-9_]+)\b")
KCONFIG_ENTRY = re.compile(r"^\s*(?:menu)?config\s+([A-Z0-9_]+)\s*$", re.M)
DEFINE = re.compile(r"^\s*#\s*define\s+CONFIG_([A-Z0-9_]+)\b", re.M)
PASTED = re.compile(r"\b([a-z]\w*_) ?## ?\w")
PASTED_BEHIND = re.compile(r"\w ?## ?(_[a-z]\w*)")
# Called by the compiler, or by lwIP.
CALLED_UNSEEN = re.compile(r"__|mem(?:cpy|move|set|cmp)$|main$|sys_now$")
# The half of a codec that only the launcher and the tests speak.
CODEC = re.compile(r".*_(?:encode|decode)$")


def is_test(path):
    name = path.name.endswith(("_test.c", "_test.h", "fixture.c", "fixture.h"))
    return name or path.parts[0] == "test"


def for_tests(text, line):
    """Does the comment right above this line (no blank line between) speak of tests?"""
    above = "\n".join(text.splitlines()[:line]).rsplit("\n\n", 1)[-1]
    return bool(re.search(r"/\*[^/]*\btests?\b", above, re.I))


class Tree:
    """All C sources, read once."""

    def __init__(self, root):
        self.root = root
        self.files = source_files(root)
        self.text = {}
        self.definitions = collections.defaultdict(list)  # name -> [(file, Function)]
        self.prototypes = {}  # header -> [Function]
        for f in self.files:
            if f.suffix not in (".c", ".h"):
                continue
            self.text[f] = (root / f).read_text(errors="replace")
            definitions, prototypes = csource.functions(self.text[f])
            for d in definitions:
                self.definitions[d.name].append((f, d))
            self.prototypes[f] = prototypes


def check_prototypes(tree, problems):
    for header, prototypes in tree.prototypes.items():
        text = tree.text[header]
        posts = [
            (text.count("\n", 0, m.start()) + 1, set(re.findall(r"\w+\.[cS]", m.group(1))))
            for m in SIGNPOST.finditer(text)
        ]
        if header.suffix != ".h" or not posts:
            continue
        for p in prototypes:
            above = [names for line, names in posts if line <= p.line]
            # The same name may be defined in other folders: the nearest one counts.
            homes = {f for f, d in tree.definitions[p.name] if not d.static and f.suffix == ".c"}
            near = {f.name for f in homes if f.parent == header.parent} or {f.name for f in homes}
            if above and near and not near & above[-1]:
                listed, home = ", ".join(sorted(above[-1])), ", ".join(sorted(near))
                text = f"{p.name}() is listed under {listed}, but {home} defines it"
                problems.add(header, f"{p.line}: {text}")


def check_uncalled(tree, problems):
    uses = collections.defaultdict(collections.Counter)  # name -> file -> occurrences
    for f in tree.files:
        if f.suffix in (".c", ".h"):
            words = csource.WORD.findall(csource.without_comments(tree.text[f]))
        elif f.suffix in (".S", ".tbl", ".lds"):
            words = csource.WORD.findall((tree.root / f).read_text(errors="replace"))
            if f.suffix == ".tbl":
                words = [f"sys_{word}" for word in words]
        else:
            continue
        words = collections.Counter(words)
        for word in words:
            if word in tree.definitions:
                uses[word][f] += words[word]
        # A macro that pastes names together: "home_##verb".
        for prefix in PASTED.findall(tree.text.get(f, "")):
            for name in tree.definitions:
                if name.startswith(prefix) and name[len(prefix) :] in words:
                    uses[name][f] += 1
        # The same behind a name: "msg##_decode".
        for suffix in set(PASTED_BEHIND.findall(tree.text.get(f, ""))):
            for name in tree.definitions:
                if name.endswith(suffix) and name[: -len(suffix)] in words:
                    uses[name][f] += 1
    tests_say = set()
    for f, prototypes in tree.prototypes.items():
        for p in prototypes:
            uses[p.name][f] -= 1
            if for_tests(tree.text[f], p.line):
                tests_say.add(p.name)
    for name, places in tree.definitions.items():
        for f, _ in places:
            uses[name][f] -= 1
    for name, places in sorted(tree.definitions.items()):
        if CALLED_UNSEEN.match(name):
            continue
        users = {f for f, nr in uses[name].items() if nr > 0}
        for f, d in places:
            if d.static or f.suffix != ".c" or is_test(f):
                continue
            if not kernel_folder(f) and f.parts[0] != "tools":
                continue
            if not {u for u in users if not is_test(u)}:
                codec = CODEC.match(name) and f.parts[:2] == ("monitors", "proto")
                if users and (codec or name in tests_say or for_tests(tree.text[f], d.line)):
                    continue
                who = "only tests call" if users else "nothing calls"
                problems.add(f, f"{d.line}: {who} {name}()")
            elif users == {f}:
                text = f"{name}() is used in this file only: make it static"
                problems.add(f, f"{d.line}: {text}")


def check_ranks(tree, problems):
    header = pathlib.Path("kernel/include/kernel/lock_rank.h")
    if header not in tree.text:
        return
    taken = {
        word
        for f, text in tree.text.items()
        if f != header and kernel_folder(f) and not is_test(f)
        for word in re.findall(r"\bRANK_[A-Z0-9_]+", csource.without_comments(text))
    }
    for rank in RANK.findall(tree.text[header]):
        if rank not in taken and rank != "RANK_SPIN_FIRST":
            problems.add(header, f"no lock has {rank}")


def check_kconfig(tree, problems):
    entries, others = {}, []
    used = {}
    for f in tree.files:
        if f.name.startswith("Kconfig"):
            text = re.sub(r"#.*", "", (tree.root / f).read_text())
            text = re.sub(r"^(\s*)help\n(?:\1\s+.*\n|\s*\n)*", "", text, flags=re.M)
            for name in KCONFIG_ENTRY.findall(text):
                entries.setdefault(name, f)
            others.append(KCONFIG_ENTRY.sub("", text))
        elif f.suffix in (".c", ".h", ".S", ".mk") or f.name == "Makefile":
            if is_test(f):
                continue
            text = tree.text.get(f) or (tree.root / f).read_text(errors="replace")
            own = set(DEFINE.findall(text))
            text = csource.without_comments(text) if f.suffix in (".c", ".h") else text
            for name in CONFIG.findall(text):
                if name not in own:
                    used.setdefault(name, f)
    inside = set(re.findall(r"\b[A-Z][A-Z0-9_]+\b", "\n".join(others)))
    for name, f in sorted(used.items()):
        if name not in entries and entries:
            problems.add(f, f"CONFIG_{name} is in no Kconfig")
    for name, f in sorted(entries.items()):
        if name not in used and name not in inside:
            problems.add(f, f"nothing uses {name}")


class Problems:
    """What was found."""

    def __init__(self):
        self.lines = []

    def add(self, path, text):
        self.lines.append(f"{path}:{text}" if text[0].isdigit() else f"{path}: {text}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", default=".", type=pathlib.Path)
    root = parser.parse_args().root.resolve()

    tree = Tree(root)
    problems = Problems()
    check_prototypes(tree, problems)
    check_uncalled(tree, problems)
    check_ranks(tree, problems)
    check_kconfig(tree, problems)
    for line in problems.lines:
        print(line)
    print(f"check-signposts: {len(tree.text)} C files, {len(problems.lines)} problems")
    return 1 if problems.lines else 0


if __name__ == "__main__":
    sys.exit(main())
