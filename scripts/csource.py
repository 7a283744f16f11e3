# SPDX-License-Identifier: MIT
"""A rough reader of our own C: functions, prototypes and comments of one file.

It knows the house's form (clang-format sees to it) and no more. There is no preprocessor, so a
function that two branches of an #if define is found twice.
"""

import dataclasses
import re

NOISE = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.S)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.M)
WORD = re.compile(r"[A-Za-z_]\w*")
NOT_A_NAME = {"if", "for", "while", "switch", "return", "sizeof", "static_assert", "asm", "typeof"}


@dataclasses.dataclass
class Function:
    """A definition, or a prototype (then @body is empty)."""

    name: str
    line: int
    static: bool
    body: str = ""


def blank(m):
    """Spaces and the line ends of what matched, so that positions stay."""
    text = m.group()
    if text[0] in "\"'":
        return text[0] + " " * (len(text) - 2) + text[0]
    return re.sub(r"[^\n]", " ", text)


def without_comments(text):
    return NOISE.sub(blank, text)


def name_of(head):
    """The function that a declarator is about, or None."""
    for m in re.finditer(r"([A-Za-z_]\w*)\s*\(", head):
        name = m.group(1)
        if name in NOT_A_NAME or name.startswith("__") or name.isupper():
            continue
        # "(*hook)(...)" is a variable.
        return None if re.match(r"\(\s*\*", head[m.end() - 1 :]) else name
    return None


def functions(text):
    """(definitions, prototypes) of a file's text."""
    text = DIRECTIVE.sub(blank, without_comments(text))
    definitions, prototypes = [], []
    depth = begin = body = 0
    for m in re.finditer(r"[{};]", text):
        at, what = m.start(), m.group()
        if what == "{":
            if depth == 0:
                body = at
            depth += 1
        elif what == "}":
            depth -= 1
            if depth == 0:
                head = text[begin:body]
                if "(" in head and "=" not in head and not re.search(r"\btypedef\b", head):
                    add(definitions, text, begin, head, text[body : at + 1])
                    begin = at + 1
                elif not re.match(r"[^;{]*;", text[at + 1 :]):
                    begin = at + 1
        elif depth == 0:
            head = text[begin:at]
            if "(" in head and not re.search(r"[={]|\btypedef\b", head):
                add(prototypes, text, begin, head, "")
            begin = at + 1
    return definitions, prototypes


def add(found, text, begin, head, body):
    name = name_of(head)
    if name:
        line = text.count("\n", 0, begin + head.index(name)) + 1
        found.append(Function(name, line, bool(re.search(r"\bstatic\b", head)), body))
