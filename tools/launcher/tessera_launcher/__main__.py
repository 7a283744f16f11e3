# SPDX-License-Identifier: MIT
"""./tessera COMMAND."""

import argparse
import os
import signal
import sys
from collections.abc import Callable

from .errors import Interrupted, LaunchError, UsageError
from .options import help_text, parse_exec, parse_run, parse_up, warn

USAGE = """\
usage: ./tessera COMMAND [options] ...

commands:
  run     run a program on a cluster of its own
  up      start a cluster and leave it
  exec    run a program in a cluster that is up
  ps      show the clusters that are up, their nodes and programs
  top     show what the nodes of a cluster that is up do now
  down    end a cluster that is up
  images  show or remove the root file systems that are kept
  doctor  check this host, and say what works on it
  fsck    check an ext4 image, and repair it
  cp      copy files into or out of an ext4 image

./tessera COMMAND --help lists the options; docs/launcher.md explains them.
"""


def _run(argv: list[str]) -> int:
    options = parse_run(argv)
    if options.sweep:
        from . import sweep

        return sweep.execute(options)
    from .run import execute

    return execute(options)


def _up(argv: list[str]) -> int:
    options = parse_up(argv)
    from . import client

    return client.up(options)


def _exec(argv: list[str]) -> int:
    options = parse_exec(argv)
    from . import client

    return client.execute(options)


def _simple_parser(command: str) -> argparse.ArgumentParser:
    what = {"ps": "Show", "down": "End", "top": "Show what the nodes do of"}[command]
    p = argparse.ArgumentParser(prog=f"./tessera {command}", allow_abbrev=False,
                                exit_on_error=False,
                                description=f"{what} a cluster that is up.")  # fmt: skip
    p.add_argument("--name", metavar="NAME", help="of the cluster")
    if command == "down":
        p.add_argument("--all", action="store_true", help="all clusters of this user")
    if command == "top":
        p.add_argument("--once", action="store_true", help="print one frame as plain text")
        p.add_argument("--interval", metavar="S", default="1", help="seconds between frames (1)")
    return p


def _simple(command: str, argv: list[str]) -> argparse.Namespace:
    try:
        ns, rest = _simple_parser(command).parse_known_args(argv)
    except argparse.ArgumentError as err:
        raise UsageError(str(err)) from None
    if rest:
        raise UsageError(
            f"{command}: {rest[0]!r} is not an option (see ./tessera {command} --help)"
        )
    return ns


def _ps(argv: list[str]) -> int:
    ns = _simple("ps", argv)
    from . import client

    return client.show(ns.name)


def _down(argv: list[str]) -> int:
    ns = _simple("down", argv)
    from . import client

    return client.down(ns.name, ns.all)


def _top(argv: list[str]) -> int:
    ns = _simple("top", argv)
    from . import top
    from .options import parse_interval

    return top.run(ns.name, ns.once, parse_interval(ns.interval))


def _image_parser(command: str) -> argparse.ArgumentParser:
    what = {"fsck": "Check an ext4 image that nobody uses.",
            "cp": "Copy into or out of an ext4 image that nobody uses."}[command]  # fmt: skip
    p = argparse.ArgumentParser(prog=f"./tessera {command}", allow_abbrev=False,
                                exit_on_error=False, description=what)  # fmt: skip
    if command == "fsck":
        p.add_argument("--repair", action="store_true", help="mend what can be mended")
        p.add_argument("words", nargs=1, metavar="IMAGE")
    else:
        p.add_argument("words", nargs=2, metavar="FILE|IMAGE:/PATH")
    return p


def _image_words(command: str, argv: list[str]) -> argparse.Namespace:
    options = [w for w in argv if w == "--repair" and command == "fsck"]
    words = [w for w in argv if w not in options]
    count = {"fsck": 1, "cp": 2}[command]
    if len(words) != count or words[0].startswith("--"):
        raise UsageError(f"{command}: see ./tessera {command} --help")
    return argparse.Namespace(words=words, repair=bool(options))


def _fsck(argv: list[str]) -> int:
    ns = _image_words("fsck", argv)
    from . import ext4files

    return ext4files.fsck(ns.words[0], ns.repair)


def _cp(argv: list[str]) -> int:
    ns = _image_words("cp", argv)
    from . import ext4files

    return ext4files.copy(*ns.words)


def _doctor(argv: list[str]) -> int:
    if argv:
        raise UsageError("doctor takes no options")
    from . import doctor

    return doctor.run()


def _images(argv: list[str]) -> int:
    from . import images

    return images.run(argv)


COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "run": _run, "up": _up, "exec": _exec, "ps": _ps, "top": _top, "down": _down,
    "fsck": _fsck, "cp": _cp, "doctor": _doctor, "images": _images,
}  # fmt: skip


def main(argv: list[str]) -> int:
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:  # ./tessera has put it so
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(USAGE, end="")
        return 0 if argv else 125
    command, rest = argv[0], argv[1:]
    if command not in COMMANDS:
        warn(f"unknown command {command!r}; try ./tessera --help")
        return 125
    if rest and rest[0] in ("-h", "--help"):
        if command in ("ps", "top", "down"):
            print(_simple_parser(command).format_help(), end="")
        elif command in ("fsck", "cp"):
            print(_image_parser(command).format_help(), end="")
        elif command == "images":
            from . import images

            print(images.HELP, end="")
        elif command == "doctor":
            print("usage: ./tessera doctor\n\nCheck this host, and say what works on it.")
        else:
            print(help_text(command), end="")
        return 0
    try:
        status = COMMANDS[command](rest)
        sys.stdout.flush()
        return status
    except UsageError as err:
        warn(str(err))
        return 125
    except LaunchError as err:
        warn(str(err))
        return getattr(err, "status", 125)
    except KeyboardInterrupt:
        return 130  # before anything has been started that takes signals
    except Interrupted as err:
        return 128 + err.signo
    except BrokenPipeError:
        # `./tessera ps | head`: nobody reads the rest.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 141


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
