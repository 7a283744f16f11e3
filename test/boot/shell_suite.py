# SPDX-License-Identifier: MIT
"""Busybox's own tests of its shell, from the source package of Debian's busybox.

The package is downloaded from the mirror that apt uses, into a cache, and checked against a pinned
digest. The tests run twice, by one driver script: on the host with the host's busybox, and in
the guest with the same binary; the host's results are what is wanted.
"""

from __future__ import annotations

import hashlib
import pathlib
import re
import shutil
import subprocess
import tarfile
import urllib.request

SOURCE = "busybox_1.35.0.orig.tar.bz2"
SHA256 = "faeeb244c35a348a334f4a59e44626ee870fb07b6884d68c10ae8bc19f83a694"
PREFIX = "busybox-1.35.0/shell/ash_test/"
DOWNLOAD_LIMIT_S = 120
MARK = "=#="

# Left out: what they print differs from one run to the next on one and the same Linux.
UNSTEADY = (
    "ash-misc/exitcode_trap2.tests", "ash-misc/exitcode_trap6.tests",
    "ash-psubst/bash_procsub.tests",  # reads a file that a tee in the background is about to write
)  # fmt: skip

DRIVER = """\
# usage: driver.sh SUITE WORK FOLDERS [all]: run the tests of SUITE in WORK, a copy of it,
# that are in the folders of the pattern FOLDERS; without "all" not those that sleep.
folders=$3 all=$4
cp -r "$1" "$2" || exit 1
cd "$2" || exit 1
export PATH="$1:$PATH" THIS_SH="$1/ash"
export CONFIG_FEATURE_FANCY_ECHO=y CONFIG_UNICODE_SUPPORT=y CONFIG_LAST_SUPPORTED_WCHAR=767
for t in $folders/*.tests; do
	case " %(unsteady)s " in *" $t "*) continue ;; esac
	[ "$all" ] || ! grep -q sleep "$t" || continue
	d=${t%%%%/*}
	echo "%(mark)s $t"
	(cd "$d" && timeout -s KILL 120 "$THIS_SH" "./${t#*/}" </dev/null 2>&1)
	echo "%(mark)s status $?"
done
""" % {"mark": MARK, "unsteady": " ".join(UNSTEADY)}


def _mirror() -> str:
    """The folder of the mirror that has the package, as apt knows it."""
    out = subprocess.run(["apt-get", "--print-uris", "download", "busybox-static"], check=True,
                         capture_output=True, text=True).stdout  # fmt: skip
    found = re.search(r"'(\S+)/[^/']+'", out)
    if not found:
        raise RuntimeError("apt knows no package busybox-static")
    return found[1]


def _archive(cache: pathlib.Path) -> pathlib.Path:
    path = cache / SOURCE
    if not path.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with urllib.request.urlopen(f"{_mirror()}/{SOURCE}", timeout=DOWNLOAD_LIMIT_S) as got:
            data = got.read()
        part = path.with_suffix(".part")
        part.write_bytes(data)
        part.rename(path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if digest != SHA256:
        path.unlink()
        raise RuntimeError(f"{SOURCE}: sha256 is {digest}, not {SHA256}")
    return path


def prepare(cache: pathlib.Path, args_program: pathlib.Path, busybox: str) -> pathlib.Path:
    """A folder with the tests, the driver and the programs that the tests call; made once."""
    out = cache / "ash_test"
    archive = _archive(cache)
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    with tarfile.open(archive) as tar:
        for member in tar:
            if not member.name.startswith(PREFIX) or not member.isfile():
                continue
            target = out / member.name[len(PREFIX) :]
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(tar.extractfile(member).read())
            target.chmod(0o755 if member.mode & 0o100 else 0o644)
    for name in ("recho", "zecho"):
        shutil.copy2(args_program, out / name)
    shutil.copy2(busybox, out / "ash")
    (out / "driver.sh").write_text(DRIVER)
    return out


def results(text: bytes, suite: str, work: str) -> dict[str, tuple[str, bytes]]:
    """{test: (status, output)} of a driver's output; @suite and @work are the driver's arguments.
    """
    out: dict[str, tuple[str, bytes]] = {}
    name, body = "", []
    for line in text.split(b"\n"):
        # A test may end without a newline.
        at = line.find(MARK.encode())
        if at < 0:
            body.append(line)
            continue
        if at > 0:
            body.append(line[:at])
        word = line[at + len(MARK) + 1 :].decode()
        if word.startswith("status "):
            output = (
                b"\n".join(body).replace(work.encode(), b"WORK").replace(suite.encode(), b"SUITE")
            )
            out[name] = (word[len("status ") :], output)
        else:
            name = word
        body = []
    return out
