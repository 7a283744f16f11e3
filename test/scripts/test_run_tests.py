# SPDX-License-Identifier: MIT
"""The test driver, what a kernel log may not say, the stack trace decoder and menuconfig."""

import importlib.util
import os
import pathlib
import re
import subprocess
import sys

import pexpect
import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]


def load(name, path):
    spec = importlib.util.spec_from_file_location(name, TOP / path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def driver():
    return load("run_tests", "scripts/run-tests.py")


@pytest.mark.parametrize(
    "text, ok, want",
    [
        ("42 passed in 3.22s", True, (42, 0, 0)),
        ("=== 3 failed, 4 passed, 2 skipped in 1s ===", False, (4, 3, 2)),
        ("1 failed, 1 error in 1s", False, (0, 2, 0)),
        ("host tests: 65 passed, 0 failed, 1 skipped", True, (65, 0, 1)),
        ("kernel tests: 119 passed, 0 failed", True, (119, 0, 0)),
        ("fuzz: 3 passed, 1 failed", False, (3, 1, 0)),
        ("  CC  x.o", True, (1, 0, 0)),
        ("x.c:1: error: no", False, (0, 1, 0)),
        ("a program said: 9 failed", True, (1, 0, 0)),
        ("5 passed in 1s\nmake: *** Error 2", False, (5, 1, 0)),
    ],
)
def test_counts(driver, text, ok, want):
    assert tuple(driver.counts(text, ok)[k] for k in ("passed", "failed", "skipped")) == want


@pytest.fixture
def suite(driver, tmp_path, monkeypatch):
    """Run the driver on a small tree of its own; returns (status, output)."""
    (tmp_path / "Makefile").write_text(
        "good:\n\t@echo '7 passed in 1s'\n"
        "bad:\n\t@echo 'why it failed'; false\n"
        "slow:\n\t@sleep 30\n"
        "here:\n\t@echo O is $(O)\n"
    )
    monkeypatch.setattr(driver, "TOP", tmp_path)
    monkeypatch.setenv("O", str(tmp_path / "out"))
    monkeypatch.setenv("MAKE", "make")
    monkeypatch.delenv("PARTS", raising=False)
    monkeypatch.delenv("V", raising=False)

    def run(capsys, parts, *args):
        monkeypatch.setitem(driver.SUITES, "test", parts)
        monkeypatch.setattr(sys, "argv", ["run-tests.py", "test", *args])
        status = driver.main()
        return status, capsys.readouterr().out

    return run


def test_all_parts_run_after_a_failure(driver, suite, capsys):
    parts = [
        driver.Part("one", "bad"),
        driver.Part("two", "good"),
        driver.Part("three", "x", needs="none"),
    ]
    status, out = suite(capsys, parts)
    assert status == 1
    assert re.search(r"^one +[\d.]+ s  FAILED  0 passed, 1 failed$", out, re.M)
    assert "why it failed" in out
    assert re.search(r"^two +[\d.]+ s  ok      7 passed, 0 failed$", out, re.M)
    assert "three          skipped: there is no none" in out
    assert "failed parts: one" in out
    assert out.splitlines()[-1] == "7 passed, 1 failed"


def test_success(driver, suite, capsys, tmp_path):
    status, out = suite(capsys, [driver.Part("one", "good"), driver.Part("two", "here")])
    assert status == 0
    assert out.splitlines()[-1] == "8 passed, 0 failed"
    assert f"O is {tmp_path / 'out'}" in (tmp_path / "out/test-logs/two.log").read_text()


def test_a_part_that_hangs_is_ended(driver, suite, capsys):
    status, out = suite(
        capsys, [driver.Part("stuck", "slow", limit_s=1), driver.Part("two", "good")]
    )
    assert status == 1
    assert "run-tests: ended after 1 s" in out
    assert out.splitlines()[-1] == "7 passed, 1 failed"


def test_a_part_that_waits_runs_beside_the_next(driver, suite, capsys, tmp_path):
    (tmp_path / "Makefile").write_text(
        "wait:\n\t@until test -e met; do sleep 0.05; done; echo '2 passed in 1s'\nmeet:\n\t@touch"
        " met; false\n"
    )
    parts = [driver.Part("one", "wait", limit_s=20, waits=True), driver.Part("two", "meet")]
    status, out = suite(capsys, parts)
    assert status == 1
    assert re.search(r"^one +[\d.]+ s  ok      2 passed, 0 failed$", out, re.M)
    assert "failed parts: two" in out and out.splitlines()[-1] == "2 passed, 1 failed"


# A part with three cases; those that the file "bad" names fail, once or always, or are skipped
# when they run again.
CASES_PART = """
import pathlib, sys
bad = dict(word.split("=") for word in pathlib.Path("bad").read_text().split())
chosen = [f"x.py::{c}[a - b]" for c in "pqr"]
if sys.argv[1:]:
    chosen = pathlib.Path(sys.argv[1]).read_text().splitlines()
failed = [case for case in chosen if bad.get(case[6]) in ("once", "skip", "always", "panic")]
skipped = [case for case in chosen if bad.get(case[6]) == "skipped"]
for case in failed:
    print(f"FAILED {case} - Error: [1] - [2]")
    if bad[case[6]] == "panic":
        print("node p0: PANIC: broken")
if "teardown" in bad:
    print("_____ ERROR at teardown of test_z _____\\nERROR x.py::r[a - b] - Error")
then = {"always": "always", "skip": "skipped"}
still = (f"{c}={then[how]}" for c, how in bad.items() if how in then)
pathlib.Path("bad").write_text(" ".join(still))
errors = ", 1 error" if "teardown" in bad else ""
passed = len(chosen) - len(failed) - len(skipped)
print(f"=== {len(failed)} failed, {passed} passed{errors} in 1s ===")
failed += errors
sys.exit(bool(failed))
"""


@pytest.mark.parametrize(
    "bad, again, unsteady, counted",
    [
        ("", True, "", "3 passed, 0 failed"),
        ("q=once", True, "q", "3 passed, 0 failed"),
        ("p=once r=once", True, "pr", "3 passed, 0 failed"),
        ("p=once q=once r=once", True, "", "0 passed, 3 failed"),
        ("p=once q=always", True, "", "1 passed, 2 failed"),
        ("q=skip", True, "", "2 passed, 1 failed"),
        ("q=panic", True, "", "2 passed, 1 failed"),
        ("q=once teardown=1", True, "", "2 passed, 2 failed"),
        ("teardown=1", True, "", "3 passed, 1 failed"),
        ("q=once", False, "", "2 passed, 1 failed"),
    ],
)
def test_failed_cases_run_again_alone(
    driver, suite, capsys, tmp_path, bad, again, unsteady, counted
):
    (tmp_path / "bad").write_text(bad)
    (tmp_path / "part.py").write_text(CASES_PART)
    (tmp_path / "Makefile").write_text(f"cases:\n\t@{sys.executable} part.py $(CASES)\n")
    status, out = suite(capsys, [driver.Part("three", "cases", again=again)])
    assert status == (0 if counted.endswith(" 0 failed") else 1)
    assert out.splitlines()[-1] == counted
    named = re.findall(r"^unsteady, passed when it ran alone: x.py::(.)\[a - b\]$", out, re.M)
    assert named == list(unsteady)
    assert ("Error: [1] - [2]" in out) == (
        bad not in ("", "teardown=1")
    ), "how it failed is always shown"
    assert (f"unsteady cases: {len(unsteady)}" in out) == bool(unsteady)


@pytest.mark.parametrize(
    "said, named",
    [
        ("FAILED x.py::p[a - b] - Error: [1] - [2]", "x.py::p[a - b]: Error: [1] - [2]"),
        ("FAILED x_tests::x.y.z - a.c:1: x.y.z: 1 == 2", "x_tests::x.y.z: a.c:1: x.y.z: 1 == 2"),
        ("FAILED x_tests::x.y.z", "x_tests::x.y.z"),
        ("not ok 7 x.y", "x.y"),
        ("FAILED x.py::p - " + "e" * 500, "x.py::p: " + "e" * 198),
        ("a program said: FAILED", None),
    ],
)
def test_the_last_lines_name_failed_cases(driver, suite, capsys, tmp_path, said, named):
    """Whatever came between: a log may be cut at its beginning."""
    (tmp_path / "said").write_text(f"{said}\n" + "more\n" * 500)
    (tmp_path / "Makefile").write_text("bad:\n\t@cat said; false\ngood:\n\t@echo fine\n")
    status, out = suite(capsys, [driver.Part("one", "bad"), driver.Part("two", "good")])
    assert status == 1
    want = [f"failed case: one: {named}"] if named else []
    lines = out.splitlines()
    assert lines[lines.index(next(s for s in lines if s.startswith("total"))) + 1 :] == [
        *want, "failed parts: one", "1 passed, 1 failed"
    ]  # fmt: skip


# A host test program with the cases one.a and one.b, as cmocka tells of them. one.b does what the
# file "how" says, and passes from then on.
HOST_PROGRAM = """#!/bin/sh
case $1 in
*,*|"*") cases="one.a one.b" ;;
*) cases=$1 ;;
esac
echo "[==========] Running 2 test(s)."
passed=0 bad=
for name in $cases; do
	echo "[ RUN      ] $name"
	how=passes
	test $name = one.b && how=$(cat how) && echo passes > how
	case $how in
	passes) echo "[       OK ] $name"; passed=$((passed + 1)) ;;
	fails) echo "x.c:7: $name: 1 == 2" >&2; echo "[  FAILED  ] $name"; bad=$name ;;
	aborts) echo "$name: no end in sight, aborting" >&2; exit 134 ;;
	leaks) leaks=1; echo "[       OK ] $name"; passed=$((passed + 1)) ;;
	esac
done
echo "[==========] 2 test(s) run."
echo "[  PASSED  ] $passed test(s)."
test -z "$bad" || echo "[  FAILED  ] 1 test(s), listed below:
[  FAILED  ] $bad"
test -z "$leaks" || echo "ERROR: LeakSanitizer: detected memory leaks"
test -z "$bad$leaks"
"""


@pytest.mark.parametrize(
    "how, unsteady, counted, named",
    [
        ("passes", False, "2 passed, 0 failed", None),
        ("fails", True, "2 passed, 0 failed", "one_tests::one.b - x.c:7: one.b: 1 == 2"),
        ("aborts", False, "0 passed, 1 failed",
         "one_tests::one.b - the program ended there, with status 134"),
        ("leaks", False, "2 passed, 1 failed", None),
    ],
)  # fmt: skip
def test_failed_host_cases_run_again(
    driver, suite, capsys, tmp_path, monkeypatch, how, unsteady, counted, named
):
    program = tmp_path / "one_tests"
    program.write_text(HOST_PROGRAM)
    program.chmod(0o755)
    (tmp_path / "how").write_text(f"{how}\n")
    (tmp_path / "Makefile").write_text(
        f"host:\n\t@CASES='$(CASES)' {TOP}/test/host/run.sh '*' ./one_tests\n"
    )
    monkeypatch.delenv("CASES", raising=False)
    status, out = suite(capsys, [driver.Part("host", "host", again=True)])
    assert status == (0 if counted.endswith(" 0 failed") else 1)
    assert out.splitlines()[-1] == counted
    log = (tmp_path / "out/test-logs/host.log").read_text()
    assert re.findall("^FAILED (.*)$", log, re.M) == ([named] if named else [])
    again = "unsteady, passed when it ran alone: one_tests::one.b\n"
    assert (again in out) == unsteady == ("unsteady cases: 1\n  host: one_tests::one.b\n" in out)
    if unsteady:
        assert "host tests: 1 passed, 0 failed, 0 skipped" in (
            tmp_path / "out/test-logs/host.again.log"
        ).read_text()


def test_parts_are_chosen_by_name(driver, suite, capsys):
    parts = [driver.Part("one", "bad"), driver.Part("two", "good")]
    assert suite(capsys, parts, "--parts", "two")[0] == 0
    with pytest.raises(SystemExit):
        suite(capsys, parts, "--parts", "nope")


@pytest.mark.parametrize(
    "said, bad",
    [
        ("error: WARNING: net/rpc/server.c:294: true", True),
        ("error: PANIC: out of memory", True),
        ("error: UBSAN: shift-out-of-bounds in lib/x.c:3", True),
        ("warning: cluster: node 1 was silent for 15000 ms: fenced", False),
        ("info: smp: 4 CPUs after 12 ms", False),
    ],
)
def test_a_kernel_log_may_not_say(said, bad):
    line = f"[    0.015607] node3 {said}"
    wrong = load("run_ktest", "test/boot/run-ktest.py").verdict(
        "memory", 1, 1, f"1..1\n{line}\nok 1 lib.x\n"
    )[1]
    assert wrong == ([f"memory: {line}"] if bad else [])
    assert bool(load("boot", "test/boot/boot.py").BROKEN.search(line)) == bad


def test_stack_traces_get_lines(tmp_path):
    source = tmp_path / "k.c"
    source.write_text(
        "void inner(void);\n\nvoid outer(void)\n{\n\tinner();\n\tinner();\n}\nvoid inner(void) {}\n"
    )
    elf = tmp_path / "k.elf"
    subprocess.run(
        ["gcc", "-g", "-O0", "-nostdlib", "-static", "-no-pie", "-fno-pic", "-mcmodel=kernel",
         "-Wl,-Ttext=0xffffffff80200000", "-Wl,-e,outer", "-o", elf, source],
        check=True,
    )  # fmt: skip
    nm = subprocess.run(["nm", elf], capture_output=True, text=True, check=True).stdout
    outer = int(re.search(r"^(\w+) T outer$", nm, re.M).group(1), 16)
    code = subprocess.run(["objdump", "-d", elf], capture_output=True, text=True, check=True).stdout
    after_call = int(re.search(r"call.*inner.*\n\s*(\w+):", code).group(1), 16)
    assert after_call > outer
    done = subprocess.run(
        [sys.executable, str(TOP / "scripts/decode-stacktrace.py"), str(elf)],
        input=f"panic: at {after_call:#x}\nnothing here\n",
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    first, second = done.stdout.splitlines()
    assert re.search(r"outer at .*k\.c:5", first)
    assert second == "nothing here"


def test_menuconfig_starts_and_leaves(tmp_path):
    env = dict(os.environ, TERM="xterm", KCONFIG_CONFIG=str(tmp_path / ".config"), srctree=str(TOP))
    child = pexpect.spawn(
        sys.executable, [str(TOP / "scripts/kconfig.py"), "menuconfig"], env=env, timeout=20,
        dimensions=(30, 100), encoding="utf-8",
    )  # fmt: skip
    child.expect("Tessera configuration")
    child.send("q")
    child.expect("(?i)save|no changes|quit")
    child.send("n")
    child.expect(pexpect.EOF)
