#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The demonstration behind `make run`: three unmodified Debian programs over real text.

Concatenates at least 20 MB of this machine's own text files (C headers, Python's library) in sorted
order, runs busybox's sha256sum, wc and sort over it on a processor, a memory and a storage monitor,
compares each output byte for byte with what the same program prints on this machine, and shows what
each monitor did.
"""

import hashlib
import os
import pathlib
import subprocess
import sys
import time

TOP = pathlib.Path(__file__).resolve().parents[1]
WANT_BYTES = 20 * 1000 * 1000
FOLDERS = ["/usr/include", os.path.dirname(os.__file__), "/usr/lib/python3", "/usr/share"]
SUFFIXES = (".h", ".py", ".txt", ".md", ".c", ".html")
PROGRAMS = [["sha256sum"], ["wc"], ["sort"]]


def text_files():
    """Real text files, in sorted order, folder by folder."""
    for folder in FOLDERS:
        found = []
        for where, _, names in os.walk(folder):
            found += [os.path.join(where, n) for n in names if n.endswith(SUFFIXES)]
        yield from sorted(p for p in found if os.path.isfile(p) and not os.path.islink(p))


def make_text(path):
    """Concatenate until there is enough; kept between runs."""
    if path.exists() and path.stat().st_size >= WANT_BYTES:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    total = 0
    with open(f"{path}.tmp", "wb") as out:
        for name in text_files():
            if total >= WANT_BYTES:
                break
            try:
                data = pathlib.Path(name).read_bytes()
            except OSError:
                continue
            out.write(data)
            total += len(data)
    if total < WANT_BYTES:
        sys.exit(f"demo: only {total} bytes of text on this machine, {WANT_BYTES} wanted")
    os.replace(f"{path}.tmp", path)


def shorten(output):
    """What to show of a program's output: all of little, a digest of much."""
    if len(output) <= 200:
        return output.decode(errors="replace").rstrip()
    digest = hashlib.sha256(output).hexdigest()[:16]
    return f"{len(output):,} bytes of output, sha256 {digest}..."


def run(busybox, program, text, build):
    """One program, here and there; True when both say the same."""
    command = [
        str(TOP / "tessera"), "run", "--build-dir", str(build), "--no-build", "--account",
        "--volume", f"{text.parent}:/data", "--cwd", "/data", "--", busybox, *program, text.name,
    ]  # fmt: skip
    print(f"\n$ ./tessera run -- busybox {' '.join(program)} {text.name}", flush=True)
    started = time.monotonic()
    there = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    took = time.monotonic() - started
    if there.returncode:
        sys.stderr.buffer.write(there.stderr)
        print(f"ended with {there.returncode}")
        return False
    here = subprocess.run(
        [busybox, *program, text.name], cwd=text.parent, capture_output=True, check=True, env={"PATH": "/bin"}
    )
    same = there.stdout == here.stdout
    print(shorten(there.stdout))
    print(f"[{took:.1f} s, from launch to exit; {'the same as' if same else 'NOT WHAT'} this machine prints]")
    print(there.stderr.decode(errors="replace").rstrip(), flush=True)
    return same


def main():
    sys.path.insert(0, str(TOP / "tools/launcher"))
    from tessera_launcher import packages

    build = pathlib.Path(os.environ.get("O") or TOP / "build").resolve()
    (busybox,) = packages.require("busybox")
    text = build / "demo" / "text"
    make_text(text)
    print(f"{text.stat().st_size:,} bytes of text in {text}")
    wrong = [p[0] for p in PROGRAMS if not run(busybox, p, text, build)]
    print(f"\n{len(PROGRAMS) - len(wrong)} of {len(PROGRAMS)} programs printed what they should")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
