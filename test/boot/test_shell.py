# SPDX-License-Identifier: MIT
"""Debian's busybox as a shell: pipelines over real text, and its own tests, all as on the host."""

import os
import pathlib
import shutil
import tempfile

import pytest
import shell_suite
from boot import WORK, Pool, make_disk, on_host

SH = ["/usr/bin/busybox", "sh", "-c"]

# Each runs in the folder of the texts, with $1 the text and $2 a folder that it may fill.
SCRIPTS = {
    "word-frequency":
        "tr -cs A-Za-z '\\n' < $1 | tr A-Z a-z | sort | uniq -c | sort -rn | head -n 40",
    "gzip-gunzip-cmp":
        "gzip -c $1 > $2/t.gz && gunzip -c $2/t.gz | cmp - $1 && gzip -c $1 | sha256sum",
    "find-xargs": "mkdir -p $2/a/b; for i in 0 1 2 3 4 5 6 7 8 9; do dd if=$1 of=$2/a/x$i bs=50000"
                  " skip=$i count=1 2>/dev/null; done; cp $2/a/x[2-6] $2/a/b &&"
                  " find $2 -type f | sort | xargs cat | sha256sum; find $2 -name x3 | wc -l;"
                  " find $2 -type f -exec wc -c {} + | tail -n 1 | awk '{ print $1 }'",
    "tar": "mkdir $2/d && cp $1 $2/d/text && echo x > $2/d/small && cd $2 && tar c d/small d/text"
           " | tar t && tar c d > d.tar && rm -r d && tar x -f d.tar"
           " && cmp d/text $OLDPWD/$1 && cat d/small",
    "awk": "awk '{ for (i = 1; i <= NF; i++) n[length($i)]++ } END { "
           "for (l = 0; l < 30; l++) print l, n[l] }' $1",
    "here-documents": "x=value; cat <<A; cat <<'B' | tr a-z A-Z\none $x $(echo sub)\nA\ntwo $x\nB",
    "traps": "trap 'echo exit $?' EXIT; trap 'echo usr1' USR1; kill -USR1 $$;"
             " (trap 'echo inner' EXIT; exit 3); echo $?; sh -c 'kill -TERM $$'; echo $?; exit 7",
    "background": "{ for i in 1 2 3 4; do (sleep 0.$i; echo job $i; exit $i) & p=\"$p $!\"; done;"
                  " for q in $p; do wait $q; echo status $?; done; wait; echo done; } | sort",
    "subshells": "a=1; (a=2; echo $a); echo $a; b=$(head -c 100000 $1 | wc -c); echo $b;"
                 " { echo x; echo y; } | wc -l",
    "redirections": "exec 3> $2/f; echo three >&3; exec 3>&-; cat $2/f;"
                    " ls /nonexistent 2>&1 | wc -l; echo a > $2/f; echo b >> $2/f; cat < $2/f;"
                    " cat $2/f - <<E\nstdin\nE",
    "exit-of-a-pipe": "set -o pipefail; yes | head -n 3; echo $?; cat $1 | true;"
                      " echo $((1 + $?)) | grep -c .",
    "cut-and-join": "for i in 0 1 2 3 4 5 6; do dd if=$1 of=$2/p$i bs=300000 skip=$i"
                    " count=1 2>/dev/null; done;"
                    " cat $2/p* | cmp - $1 && ls $2 && rm $2/p[0-5]; ls $2",
    "sed": "sed -n 's/include/INCLUDE/gp' $1 | sha256sum; cp $1 $2/e;"
           " sed -i 's/the/THE/' $2/e; sha256sum < $2/e",
    "loops": "i=0; while [ $i -lt 200 ]; do i=$((i + 1)); expr $i + 1 > /dev/null; done; echo $i",
}  # fmt: skip
CALLED = (
    "/bin/echo",
    "/bin/true",
    "/bin/false",
    "/usr/bin/printenv",
    "/usr/bin/printf",
)  # by busybox's own tests
# Folders of busybox's own tests, how many tests they have at least, and whether those that sleep
# are among them.
EXTENT, AT_LEAST = (["*", "all"], 290) if os.environ.get("TEST_LONG") else (["ash-[hs]*"], 36)
SMALL_ENOUGH = "text.small"
WITH_BIG_TEXT = ("word-frequency", "gzip-gunzip-cmp", "tar", "awk")


def check(cluster, texts, name, text, limit=300.0):
    with tempfile.TemporaryDirectory() as scratch:
        want = on_host([*SH, SCRIPTS[name], "sh", text, scratch], cwd=texts)
    script = f"rm -rf /tmp/work && mkdir /tmp/work; {SCRIPTS[name]}"
    got = cluster.run([*SH, script, "sh", text, "/tmp/work"], limit=limit)
    assert got.err == want.err
    assert got.out == want.out
    assert got.status == want.status


@pytest.mark.parametrize("name", SCRIPTS)
@pytest.mark.parametrize("args", [
    pytest.param((), id="one-memory"),
    pytest.param(("--vregion", "2M", "--memories", "2"), id="two-memories", marks=pytest.mark.long),
])  # fmt: skip
def test_script(pool, texts, args, name):
    check(pool.get(*args), texts, name, SMALL_ENOUGH)


@pytest.mark.long
@pytest.mark.parametrize("name", WITH_BIG_TEXT)
def test_script_over_20_mb(plain, texts, name):
    check(plain, texts, name, "text.big", 1800)


@pytest.mark.long
@pytest.mark.parametrize("name", ("word-frequency", "tar"))
def test_script_over_a_small_cache(pool, texts, name):
    check(pool.get("--excache", "4M"), texts, name, SMALL_ENOUGH, 600)


@pytest.fixture(scope="module")
def suite(programs):
    return shell_suite.prepare(
        WORK / "busybox", programs / "glibc-static" / "args", "/usr/bin/busybox"
    )


@pytest.fixture(scope="module")
def suite_pool(programs, texts, suite):
    """Clusters with an image that has the suite: a test that cannot download it fails alone."""
    files = {str(suite): "/suite", "/etc/passwd": "/etc/passwd"}
    pool = Pool(make_disk(programs, texts, files, "suite", CALLED))
    yield pool
    pool.close()
    assert not pool.complaints, "\n".join(pool.complaints)


@pytest.fixture(scope="module")
def wanted(suite):
    """What the tests print on the host."""
    scratch = pathlib.Path(tempfile.mkdtemp())
    work = str(scratch / "suite")
    try:
        done = on_host(["/usr/bin/busybox", "sh", suite / "driver.sh", suite, work, *EXTENT])
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return shell_suite.results(done.checked(), str(suite), work)


@pytest.mark.parametrize("args", [
    pytest.param((), id="one-memory"),
    pytest.param(("--vregion", "2M", "--memories", "2"), id="two-memories", marks=pytest.mark.long),
])  # fmt: skip
def test_busybox_own_tests(suite_pool, wanted, args):
    """Each test of the suite has the status and the output that it has on the host."""
    done = suite_pool.get(*args).run(["/usr/bin/busybox", "sh", "/suite/driver.sh", "/suite",
                                      "/tmp/suite", *EXTENT],
                                     limit=1800)  # fmt: skip
    got = shell_suite.results(done.checked(), "/suite", "/tmp/suite")
    assert len(wanted) >= AT_LEAST and got.keys() == wanted.keys()
    wrong = [
        f"{name}: {got[name]}\n\twanted {wanted[name]}"
        for name in sorted(wanted)
        if got[name] != wanted[name]
    ]
    assert not wrong, "\n".join(wrong)
