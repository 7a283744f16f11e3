# SPDX-License-Identifier: MIT
"""How the launcher fails: always one line."""


def one_line(text: str) -> str:
    """What a guest, or a program in it, has said, as terminals may have it: without control
    characters, line breaks, and what turns the direction of text.
    """
    return "".join(c if c.isprintable() else " " for c in text).strip()


def escaped(text: str) -> str:
    """As one_line(), but what is left out can be seen: \\n, \\x1b."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "replace").decode() for c in text
    )


class LaunchError(Exception):
    """Tessera (or the launcher) failed: one line for the user, exit status 125."""


class Interrupted(BaseException):
    """A signal that ends the launcher itself."""

    def __init__(self, signo: int):
        super().__init__(signo)
        self.signo = signo


class UsageError(LaunchError):
    """The command line asks for something that cannot be."""


class ProgramRefused(Exception):
    """The node could not start the program: errno and one line."""

    def __init__(self, errno_value: int, text: str):
        super().__init__(text)
        self.errno = errno_value
        self.text = text
