# SPDX-License-Identifier: MIT
"""./tessera COMMAND."""

import sys

from .errors import LaunchError, UsageError
from .options import help_text, parse_run, warn

USAGE = """\
usage: ./tessera run [options] [--] PROGRAM [ARG...]

commands:
  run     run a program on a cluster of its own
  up, exec, ps, down
          keep a cluster and run programs in it: still to come

./tessera run --help lists the options; docs/launcher.md explains them.
"""
STILL_TO_COME = ("up", "exec", "ps", "down")


def main(argv: list[str]) -> int:
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(USAGE, end="")
        return 0 if argv else 125
    command, rest = argv[0], argv[1:]
    if command in STILL_TO_COME:
        warn(f"{command} is still to come; ./tessera run works")
        return 125
    if command != "run":
        warn(f"unknown command {command!r}; try ./tessera --help")
        return 125
    if rest and rest[0] in ("-h", "--help"):
        print(help_text(), end="")
        return 0
    try:
        options = parse_run(rest)
        from .run import execute

        return execute(options)
    except UsageError as err:
        warn(str(err))
        return 125
    except LaunchError as err:
        warn(str(err))
        return getattr(err, "status", 125)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
