#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Run the parts of a test suite, and say how long each took.

usage: run-tests.py SUITE [--parts NAME,...] [--list] [--verbose]

SUITE is test (what gates a change) or long. Parts run one after the other, but for those that
mostly wait: they run beside the ones behind them. All parts run, also after one has failed. A
part's whole output is kept in $O/test-logs/<part>.log, and shown when it fails; times and counts
also go to $O/test-logs/summary.json. The last line is "N passed, N failed"; the exit status is 0
only when nothing failed.

A part counts as many tests as its output says ("N passed, N failed"), or as one. The lines before
the last one name each case that failed, as far as the output does: a log of which only the end is
kept still tells which.

Where whole systems or many threads run in real time, a busy host can make a case fail. Of such a
part, up to AGAIN_AT_MOST failed cases run once more, alone. What passes then is named as unsteady,
with how it failed, and counts as passed. More failures than that, one that fails twice, a kernel
or a sanitizer that complained, a program that ended in the middle of its cases, and errors when a
cluster ends (which name a case that has nothing to do with them) fail the part.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

TOP = pathlib.Path(__file__).resolve().parents[1]
COUNTS = re.compile(r"\b(\d+) (passed|failed|error|errors|skipped)\b")
FAILED_CASE = re.compile(r"^(?:FAILED|ERROR) (\S+::[^\[\s]+(?:\[.*?\])?)(?: - (.*))?$", re.M)
FAILED_KERNEL_CASE = re.compile(r"^not ok \d+ (\S+)()", re.M)
FAILED_FOR_GOOD = re.compile(
    r"^_+ ERROR at teardown of |PANIC: |BUG: |UBSAN: |lock order|^panic: |(?:Address|Leak)Sanitizer"
    r"|: runtime error: |the program ended there, with status ",
    re.M,
)
AGAIN_AT_MOST = 2
AGAIN_LIMIT_S = 300
SHOWN_LINES = 200
SHOWN_CHARS = 200
TELLING = threading.Lock()
RUNNING = set()  # processes of parts; each leads a group


@dataclasses.dataclass
class Part:
    """One step of a suite: a make command line."""

    name: str
    make: str
    limit_s: int = 900
    env: dict = dataclasses.field(default_factory=dict)
    needs: str = ""  # skip the part, saying so, while this path does not exist
    waits: bool = False  # it takes little of a CPU: go on with the next part meanwhile
    again: bool = False  # single failed cases run once more: the part's make takes CASES=file


TEST = [
    Part("check", "-k check"),
    Part("launcher", "test-launcher", needs="test/launcher", waits=True),
    Part("scripts", "test-scripts"),
    Part("build gcc", "images tools"),
    Part("build clang ubsan", "LLVM=1 UBSAN=1 O={O}/ubsan storage"),
    Part("host", "test-host", again=True),
    Part("file systems", "test-fs", needs="test/fs"),
    Part("kernel", "test-kernel"),
    Part("kernel ubsan", "LLVM=1 UBSAN=1 O={O}/ubsan ROLE=storage test-kernel CPUS=4"),
    Part("boot", "test-boot", limit_s=2400, needs="test/boot", again=True),
    Part("fuzz", "fuzz SECONDS=2"),
]
LONG = [
    Part("build clang", "LLVM=1 O={O}/clang images"),
    *[Part(f"kernel {n} cpus", f"test-kernel CPUS={n}") for n in (2, 4, 16)],
    Part("build clang ubsan", "LLVM=1 UBSAN=1 O={O}/ubsan images"),
    Part("kernel ubsan", "LLVM=1 UBSAN=1 O={O}/ubsan test-kernel CPUS=4"),
    Part("boot ubsan", "LLVM=1 UBSAN=1 O={O}/ubsan test-boot T=short_set_on_4_cpus",
         needs="test/boot", env={"TEST_PROGRAMS": "{O}/user"}),
    Part("boot", "test-boot LONG=1", limit_s=4 * 3600, env={"TEST_LONG": "1"}),
    Part("power cuts", "test-host T=fs.crash.*", limit_s=3600,
         env={"TESSERA_CRASH_IMAGES": "1000", "TESSERA_TEST_TIMEOUT": "3000"}),
    Part("file systems", "test-fs", limit_s=1800, env={"TEST_LONG": "1"}),
    Part("broken images", "test-fs T=broken_images", limit_s=3600,
         env={"TESSERA_BROKEN_IMAGES": "3000"}),
    Part("fuzz", "fuzz SECONDS=600", limit_s=4 * 3600),
]
SUITES = {"test": TEST, "long": LONG}


def end_group(process, is_late):
    """A part's time is over: it and all that it has started end."""
    is_late.set()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def run_part(part, out, log, verbose, *arguments):
    """Run it; returns its exit status, or None when it took too long and was ended."""
    command = [
        os.environ.get("MAKE", "make"),
        "-C",
        str(TOP),
        *part.make.format(O=out).split(),
        *arguments,
    ]
    if not any(word.startswith("O=") for word in command):
        command.append(f"O={out}")
    env = {
        k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "O")
    }
    env.update((name, value.format(O=out)) for name, value in part.env.items())
    env["PYTHONUNBUFFERED"] = "1"  # the log shows how far a part has come
    with open(log, "wb", buffering=0) as sink:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=env,
            start_new_session=True,
        )
        RUNNING.add(process)
        is_late = threading.Event()
        timer = threading.Timer(part.limit_s, end_group, (process, is_late))
        timer.start()
        for line in process.stdout:
            sink.write(line)
            if verbose:
                sys.stdout.buffer.write(line)
                sys.stdout.flush()
        status = process.wait()
        timer.cancel()
        RUNNING.discard(process)
    # Only the timer knows: a clock that is read here may say a little less than the limit.
    return None if status < 0 and is_late.is_set() else status


def counts(text, ok):
    """(passed, failed, skipped) as the output says; at least one of something."""
    total = {"passed": 0, "failed": 0, "skipped": 0}
    for line in text.splitlines():
        # Closing lines only: pytest's, the host runner's, the kernel runner's, the fuzz runner's.
        if not re.match(r"(=+ )?(\d+ (passed|failed|error|skipped)|[a-z ]+: \d+ passed)", line):
            continue
        for number, what in COUNTS.findall(line):
            total["failed" if what.startswith("error") else what] += int(number)
    if ok and total["passed"] == 0:
        total["passed"] = 1
    if not ok and total["failed"] == 0:
        total["failed"] = 1
    return total


def tail(text):
    lines = text.splitlines()
    cut = [f"... ({len(lines) - SHOWN_LINES} lines before)"] if len(lines) > SHOWN_LINES else []
    return "\n".join(cut + lines[-SHOWN_LINES:])


def choose(suite, names):
    wanted = [n.strip() for n in names.split(",")] if names else []
    known = {p.name for p in suite}
    unknown = [n for n in wanted if n not in known]
    if unknown:
        sys.exit(f"run-tests: no such part: {', '.join(unknown)} (of {', '.join(sorted(known))})")
    return [p for p in suite if not wanted or p.name in wanted]


def failed_cases(text):
    """Those that the output of a part names, and what it says of each."""
    return dict(FAILED_CASE.findall(text) + FAILED_KERNEL_CASE.findall(text))


def worth_another_try(text, failed):
    """The failed cases of a part, if all that failed are a few cases that a busy host may have
    made fail.
    """
    cases = list(failed_cases(text))
    few = len(cases) == failed <= AGAIN_AT_MOST
    return cases if few and not FAILED_FOR_GOOD.search(text) else []


def log_of(part, log, status):
    text = log.read_text(errors="replace")
    return text if status is not None else f"{text}\nrun-tests: ended after {part.limit_s} s"


def run_again(part, out, log, verbose, cases):
    """Run these cases alone; returns whether all of them passed, and lines to show."""
    part = dataclasses.replace(part, limit_s=AGAIN_LIMIT_S)
    log = log.with_suffix(".again.log")
    chosen = log.with_suffix(".cases")
    chosen.write_text("".join(f"{case}\n" for case in cases))
    if verbose:
        print(f"run-tests: once more, alone: {', '.join(cases)}", flush=True)
    status = run_part(part, out, log, verbose, f"CASES={chosen}")
    text = log_of(part, log, status)
    if status == 0 and counts(text, False)["passed"] == len(cases):
        return True, [f"unsteady, passed when it ran alone: {case}" for case in cases]
    return False, [] if verbose else [f"--- once more, alone: {log}\n{tail(text)}\n---"]


def run_and_tell(part, out, log, verbose, summary):
    """Run a part to its end, print its line and add it to the summary."""
    started = time.monotonic()
    status = run_part(part, out, log, verbose)
    text = log_of(part, log, status)
    total = counts(text, status == 0)
    ok, again = status == 0, []
    cases = worth_another_try(text, total["failed"]) if status and part.again else []
    if cases:
        ok, again = run_again(part, out, log, verbose, cases)
    unsteady = cases if ok else []
    failed = {} if ok else failed_cases(text)
    if unsteady:
        total["passed"] += total["failed"]
        total["failed"] = 0
    took = time.monotonic() - started
    skipped = f", {total['skipped']} skipped" if total["skipped"] else ""
    word = "ok" if ok else "FAILED"
    lines = [
        f"{part.name:14} {took:7.1f} s  {word:6}  {total['passed']} passed, {total['failed']}"
        f" failed{skipped}"
    ]
    if status != 0 and not verbose:
        lines.append(f"--- {log}\n{tail(text)}\n---")
    lines += again
    with TELLING:
        summary.append(
            {"part": part.name, "seconds": round(took, 1), "ok": ok, **total, "unsteady": unsteady,
             "failed_cases": failed}
        )  # fmt: skip
        print("\n".join(lines), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("suite", choices=SUITES)
    parser.add_argument("--parts", default=os.environ.get("PARTS", ""))
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--verbose", action="store_true", default=os.environ.get("V") == "1")
    args = parser.parse_args()

    parts = choose(SUITES[args.suite], args.parts)
    if args.list:
        print("\n".join(f"{p.name}: make {p.make}" for p in parts))
        return 0

    out = pathlib.Path(os.environ.get("O") or TOP / "build").resolve()
    logs = out / "test-logs"
    logs.mkdir(parents=True, exist_ok=True)
    summary, beside = [], []
    begin = time.monotonic()
    try:
        for part in parts:
            if part.needs and not (TOP / part.needs).exists():
                print(f"{part.name:14} skipped: there is no {part.needs}", flush=True)
                continue
            log = logs / (part.name.replace(" ", "-") + ".log")
            run = threading.Thread(
                target=run_and_tell, args=(part, out, log, args.verbose, summary)
            )
            run.start()
            if part.waits:
                beside.append(run)
            else:
                run.join()
        for run in beside:
            run.join()
    except KeyboardInterrupt:
        for process in list(RUNNING):
            end_group(process, threading.Event())
        raise

    (logs / "summary.json").write_text(json.dumps(summary, indent=1) + "\n")
    passed = sum(s["passed"] for s in summary)
    failed = sum(s["failed"] for s in summary)
    print(f"{'total':14} {time.monotonic() - begin:7.1f} s")
    unsteady = sum(len(s["unsteady"]) for s in summary)
    if unsteady:
        print(f"unsteady cases: {unsteady}")
        print("\n".join(f"  {s['part']}: {case}" for s in summary for case in s["unsteady"]))
    broken = [s["part"] for s in summary if not s["ok"]]
    for s in summary:
        for case, why in s["failed_cases"].items():
            print(f"failed case: {s['part']}: {case}" + f": {why}"[: SHOWN_CHARS if why else 0])
    if broken:
        print(f"failed parts: {', '.join(broken)}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or broken else 0


if __name__ == "__main__":
    sys.exit(main())
