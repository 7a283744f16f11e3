#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Check the form of comments, as far as a script can.

  - the block at a C file's top uses only the labels that all files share (LABELS);
  - no sentence of a comment has "who", "whoever", "nobody", "what" or "whatever" as its subject: a
    reader wants to know which thread, node or line it is about. Questions may;
  - words that were ours alone, where the field has a name (WORDS), do not come back.
"""

import argparse
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from treefiles import source_files  # noqa: E402

SUFFIXES = {".c", ".h", ".S", ".lds", ".py", ".mk", ".sh", ".md"}
NAMES = ("Makefile", "Kconfig")
LABELS = {"Flow", "Context", "Locking", "Ordering", "Failure", "Limits", "Invariants", "See"}
TOP = re.compile(r"(?:/\*[^\n]*SPDX[^\n]*\*/\n)?(/\*.*?\*/)", re.S)
LABEL = re.compile(r"^ \* ([A-Z][A-Za-z]*(?: [a-z]+){0,2}):(?:$|\t|  )", re.M)

C_COMMENT = re.compile(r"/\*.*?\*/", re.S)
HASH_COMMENT = re.compile(r"(?:^[ \t]*#(?!!).*\n)+", re.M)
SUBJECT = re.compile(r"(?:\A|[.;:!]\s+)(?:Who|Whoever|Nobody|What|Whatever) (?![^.;]*\?)")

MONITORS = ("monitors", "managers")
MEMORY = ("monitors/processor", "monitors/memory")
PATHS = ("monitors/processor/vfs", "monitors/processor/procfs")
# (pattern, folders, what to say instead)
WORDS = [
    (re.compile(r"\b\w*judg\w*", re.I), ("test", "tools", "docs", "scripts"), "reference"),
    (re.compile(r"\brigs?\b|\brig_\w+", re.I), ("test", "tools", "drivers", "docs"), "fixture"),
    (re.compile(r"\b\w*unrung\w*"), ("drivers", "net"), "doorbell pending"),
    (re.compile(r"\bretire_\w+|\bretired?\b"), ("monitors/processor",), "deferred destroy"),
    (re.compile(r"\blong way\b"), MONITORS, "slow path"),
    (re.compile(r"\b(?:say|said) again\b|\bagain_say\w*"), MONITORS, "retransmit, repeat"),
    (re.compile(r"\bbeats?\b|\b\w+_beats?\b|\bbeat_\w+"), MONITORS, "heartbeat"),
    (re.compile(r"\b\w*promis(?:e|es|ed|ing)\b"), MEMORY, "page reservation"),
    (re.compile(r"\brid(?:e|es|ing|den)\b"), ("monitors", "net"), "piggy-back"),
    (re.compile(r"\b\w*settl(?:e|es|ed|ing)\b\w*"), ("monitors", "tools"), "drain, quiesce"),
    (re.compile(r"\b\w*jump\w*"), PATHS, "magic link"),
]


def top_labels(text):
    m = TOP.match(text)
    return LABEL.findall(m.group(1)) if m else []


def comments(path, text):
    """(line, words of the comment) of each."""
    if path.suffix in (".c", ".h", ".S", ".lds"):
        found, border = C_COMMENT.finditer(text), r"(?m)^[ \t]*/?\*+/?|\*/"
    elif path.suffix in (".py", ".mk", ".sh") or path.name in ("Makefile", "Kconfig"):
        found, border = HASH_COMMENT.finditer(text), r"(?m)^[ \t]*#+"
    else:
        return
    for m in found:
        yield text.count("\n", 0, m.start()) + 1, re.sub(border, " ", m.group().lstrip("/*"))


def sentences(path, text):
    """Lines with a sentence that leaves its subject open."""
    for line, words in comments(path, text):
        at = re.sub(r"\A\s+", "", words)
        skipped = words[: len(words) - len(at)].count("\n")
        for m in SUBJECT.finditer(at):
            end = m.end() + len(at[m.end() :]) - len(at[m.end() :].lstrip())
            yield line + skipped + at.count("\n", 0, end), m.group().split()[-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", default=".", type=pathlib.Path)
    root = parser.parse_args().root.resolve()

    problems = []
    files = [f for f in source_files(root) if f.suffix in SUFFIXES or f.name in NAMES]
    for f in files:
        # This file and its tests name what they refuse; old results stay as they were.
        if (
            f.parts[:2] in (("test", "scripts"), ("docs", "results"))
            or f.name == pathlib.Path(__file__).name
        ):
            continue
        text = (root / f).read_text(errors="replace")
        if f.suffix in (".c", ".h"):
            others = [label for label in top_labels(text) if label not in LABELS]
            problems += [f"{f}: label \"{x}:\" in the block at the top" for x in others]
        for line, word in sentences(f, text):
            problems.append(f"{f}:{line}: a sentence begins with \"{word}\"")
        for pattern, folders, instead in WORDS:
            if any(f.is_relative_to(folder) for folder in folders):
                for i, line in enumerate(text.splitlines(), 1):
                    found = pattern.findall(line)
                    problems += [f"{f}:{i}: \"{word}\": say {instead}" for word in found]
    for p in problems:
        print(p)
    print(f"check-voice: {len(files)} files, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
