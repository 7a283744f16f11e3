# SPDX-License-Identifier: MIT
"""What the images are compiled from: for checkers that compile the files again in their own way."""

ROLES = ("processor", "memory", "storage")
KEPT = ("-D", "-I", "-m", "-f", "-std=", "-nostdinc")
GCC_ONLY = (
    "-fno-stack-clash", "-fno-tree", "-fmacro-prefix", "-fcf-protection", "-mstack-protector",
)  # fmt: skip


def arguments(flags, system_headers):
    """What another compiler than gcc needs of a gcc command's flags."""
    words = iter(flags.split()[1:])
    kept = []
    for word in words:
        if word in ("-include", "-isystem"):
            name = next(words)
            # Third-party headers are below build/sources; the others are the compiler's.
            if word == "-include" or system_headers or "/build/sources/" in name:
                kept += [word, name]
        elif word.startswith(KEPT) and not word.startswith(GCC_ONLY):
            kept.append(word)
    return kept


def commands(build, system_headers):
    """{source: flags}, by BUILD/<role>/.commands; what several roles compile is listed once."""
    found = {}
    for role in ROLES:
        for line in (build / role / ".commands").read_text().splitlines():
            source, _, flags = line.partition("|")
            if source:
                found.setdefault(source, arguments(flags, system_headers))
    return found
