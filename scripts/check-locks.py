#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Check the lock rules that the code states (docs/locking.md), by clang's -Wthread-safety.

usage: check-locks.py --root DIR --build DIR [PATH...]

Checks every file of the images (DIR/<role>/.commands) with CONFIG_CONTEXT_ANALYSIS; PATH: just
these files and folders.
Tests are left out: they break the rules on purpose. A file that was clean, and whose text, headers
and flags are the same as then, is not compiled again.
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from imagefiles import commands  # noqa: E402

FLAGS = [
    "--target=x86_64-linux-gnu", "-fsyntax-only", "-DCONFIG_CONTEXT_ANALYSIS=1", "-Wno-everything",
    "-Wthread-safety", "-Werror=thread-safety", "-fexperimental-late-parse-attributes",
    "-fno-caret-diagnostics", "-ferror-limit=0",
]  # fmt: skip

def clang():
    """The clang of the ziglang wheel: its program, and its own headers."""
    import ziglang

    folder = pathlib.Path(ziglang.__file__).parent
    return [str(folder / "zig"), "clang"], folder / "lib/include"


def lies_in(source, folders):
    return not folders or any(source == f or source.startswith(f + "/") for f in folders)


class Cache:
    """What was clean: per source a hash over the flags, and over each file that it read."""

    def __init__(self, path, salt):
        self.path, self.salt = path, salt
        self.lock = threading.Lock()
        self.hashes = {}
        try:
            self.clean = json.loads(path.read_text())
        except (OSError, ValueError):
            self.clean = {}

    def hash_of(self, name):
        if name not in self.hashes:
            try:
                self.hashes[name] = hashlib.sha256(pathlib.Path(name).read_bytes()).hexdigest()
            except OSError:
                self.hashes[name] = "gone"
        return self.hashes[name]

    def key(self, flags, files):
        text = "\n".join([self.salt, *flags, *(f"{f} {self.hash_of(f)}" for f in files)])
        return hashlib.sha256(text.encode()).hexdigest()

    def is_clean(self, source, flags):
        was = self.clean.get(source)
        return bool(was) and was["key"] == self.key(flags, was["files"])

    def remember(self, source, flags, files):
        with self.lock:
            self.clean[source] = {"files": files, "key": self.key(flags, files)}

    def save(self):
        self.path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.path.with_suffix(f".{os.getpid()}")
        temporary.write_text(json.dumps(self.clean))
        temporary.replace(self.path)


def check(compiler, root, source, flags, cache):
    """One file's warnings; "" when there are none."""
    if cache.is_clean(source, flags):
        return ""
    done = subprocess.run(
        [*compiler, *flags, "-MD", "-MF", "-", source],
        cwd=root, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        return done.stderr or f"{source}: {compiler[0]} failed\n"
    files = done.stdout.replace("\\\n", " ").split()[1:]
    if source not in files:
        return f"{source}: error: the compiler does not say which files it has read\n"
    cache.remember(source, flags, [str(root / f) for f in files])
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", default=".", type=pathlib.Path)
    parser.add_argument("--build", required=True, type=pathlib.Path)
    parser.add_argument("paths", nargs="*")
    args = parser.parse_args()
    root = args.root.resolve()
    build = args.build.resolve()

    program, headers = clang()
    compiler = [*program, *FLAGS, "-isystem", str(headers)]
    folders = [f.rstrip("/") for f in args.paths]
    todo = {
        source: flags
        for source, flags in sorted(commands(build, system_headers=False).items())
        if not source.endswith("_test.c") and lies_in(source, folders)
    }
    cache = Cache(build / "locks/clean.json", " ".join([str(program), *FLAGS]))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        reports = list(
            pool.map(lambda item: check(compiler, root, *item, cache), todo.items())
        )
    cache.save()
    seen = set()  # a header's warning comes with each file that includes it
    for line in "".join(reports).splitlines():
        if ("warning:" in line or "error:" in line) and line not in seen:
            seen.add(line)
            print(line)
    broken = sum(1 for r in reports if r)
    print(f"check-locks: {len(todo)} files, {broken} with warnings")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
