#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Check that the kernel's code asserts the rules that it names.

  - every function *_locked begins with the assertion that its lock is held: only declarations
    may stand before it;
  - every part of the kernel has at least 4 run-time assertions (ASSERT, BUG_ON, assert_..._held)
    per 1,000 lines. Assertions that a pointer is not NULL do not count, nor do tests.

monitors/proto is not measured by itself: its codecs see only what a peer wrote, and an assertion
is never the check of an input. It counts in the total. --report prints the table of all parts.
"""

import argparse
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import csource  # noqa: E402
from treefiles import kernel_folder, source_files  # noqa: E402

WANTED = 4  # per 1,000 lines
UNMEASURED = {pathlib.Path("monitors/proto")}
POINTER = r"\w+(?:->\w+|\.\w+)*(?: != NULL)?\)"
ASSERTION = re.compile(rf"\b(?:(?:ASSERT|BUG_ON)\s*\(\s*(?!{POINTER})|(?<!void )assert_\w+\s*\()")
HELD = re.compile(r"^\s*assert_\w*(?:held|locked)\w*\(", re.M)
QUALIFIER = r"(?:(?:static|const|volatile|struct|enum|union|unsigned) )"
DECLARATION = re.compile(rf"{QUALIFIER}*\w+\s*[\s*]+(?:const )?\w+\s*[=;,[]|$")


def part_of(path):
    """The part of the kernel that a file belongs to."""
    deep = 1
    if path.parts[0] == "monitors":
        deep = 3 if path.parts[1] == "processor" and len(path.parts) > 3 else 2
    return pathlib.Path(*path.parts[:deep])


def asserts_first(body):
    """Does this function's body begin with a lock assertion, behind its declarations?"""
    m = HELD.search(body)
    if not m:
        return False
    before = body[1 : m.start()]
    return all(DECLARATION.match(s.strip() + ";" if s.strip() else "") for s in before.split(";"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", default=".", type=pathlib.Path)
    parser.add_argument("--report", action="store_true")
    args = parser.parse_args()
    root = args.root.resolve()

    problems, lines, assertions = [], {}, {}
    for f in source_files(root):
        if f.suffix not in (".c", ".h") or not kernel_folder(f) or f.stem.endswith("_test"):
            continue
        text = (root / f).read_text(errors="replace")
        code = csource.DIRECTIVE.sub(csource.blank, csource.without_comments(text))
        part = part_of(f)
        lines[part] = lines.get(part, 0) + text.count("\n")
        assertions[part] = assertions.get(part, 0) + len(ASSERTION.findall(code))
        if f.suffix == ".c":
            problems += [
                f"{f}:{d.line}: {d.name}() does not begin with an assertion that its lock is held"
                for d in csource.functions(text)[0]
                if d.name.endswith("_locked") and not asserts_first(d.body)
            ]
    for part in sorted(lines):
        rate = assertions[part] * 1000 / lines[part]
        if args.report:
            counted = f"{lines[part]:6} lines {assertions[part]:4} assertions"
            print(f"{str(part):30} {counted} {rate:5.1f} per 1,000")
        too_few = assertions[part] < WANTED * lines[part] // 1000
        if too_few and part not in UNMEASURED:
            problems.append(f"{part}: {rate:.1f} assertions per 1,000 lines; {WANTED} are wanted")
    total, nr = sum(lines.values()), sum(assertions.values())
    if nr < WANTED * total // 1000:
        problems.append(
            f"the kernel: {nr} assertions in {total} lines; {WANTED} per 1,000 are wanted"
        )
    for p in problems:
        print(p)
    rate = nr * 1000 / max(total, 1)
    print(
        f"check-assertions: {nr} assertions, {rate:.1f} per 1,000 lines; {len(problems)} problems"
    )
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
