#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Run libFuzzer programs for some seconds each, two at a time, and sum up.

usage: run.py --seconds N --filter GLOB --corpus DIR --work DIR PROGRAM[:MAX-LEN]...

First every input of the stored corpus is run once (so that old findings stay fixed), then the
fuzzer searches from there. A folder of the corpus that no fuzzer reads is an error. A finding is
left in WORK/<name>/findings and printed with the command that repeats it.
"""

import argparse
import concurrent.futures
import fnmatch
import os
import pathlib
import subprocess
import sys
import time


def fuzz(program, max_len, corpus, work, seconds):
    """(name, ok, summary, output) of one fuzzer."""
    name = program.name.removesuffix("_fuzz")
    learned, findings = work / name, work / name / "findings"
    findings.mkdir(parents=True, exist_ok=True)
    seeds = corpus / name
    command = [
        str(program),
        f"-max_total_time={seconds}",
        f"-artifact_prefix={findings}/",
        "-timeout=20",
        "-rss_limit_mb=2048",
        "-print_final_stats=1",
        "-verbosity=0",
        f"-max_len={max_len}",
        str(learned),
        *([str(seeds)] if seeds.is_dir() else []),
    ]
    env = dict(os.environ, ASAN_OPTIONS="abort_on_error=0:detect_leaks=1", TESSERA_LOG="0")
    start = time.monotonic()
    done = subprocess.run(
        command, capture_output=True, text=True, errors="replace", env=env, check=False
    )
    took = time.monotonic() - start
    runs = next(
        (
            line.split()[-1]
            for line in done.stderr.splitlines()
            if "number_of_executed_units" in line
        ),
        "?",
    )
    summary = f"{name}: {runs} inputs in {took:.0f} s"
    if done.returncode:
        found = sorted(findings.iterdir(), key=lambda p: p.stat().st_mtime)
        again = f"\nrepeat with: {program} {found[-1]}" if found else ""
        return name, False, summary, done.stderr[-8000:] + again
    return name, True, summary, ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--filter", default="*")
    parser.add_argument("--corpus", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("programs", nargs="*")
    args = parser.parse_args()

    chosen = []
    for spec in args.programs:
        path, _, max_len = spec.partition(":")
        name = pathlib.Path(path).name
        if fnmatch.fnmatch(name, args.filter) or fnmatch.fnmatch(
            name.removesuffix("_fuzz"), args.filter
        ):
            chosen.append((pathlib.Path(path), int(max_len or 4096)))
    if not chosen:
        print(f"fuzz: nothing matches '{args.filter}'", file=sys.stderr)
        return 1

    programs = [pathlib.Path(spec.partition(":")[0]).name for spec in args.programs]
    known = {name.removesuffix("_fuzz") for name in programs}
    strange = sorted(d.name for d in args.corpus.iterdir() if d.name not in known)
    if strange:
        print(f"fuzz: no fuzzer reads from corpus/: {', '.join(strange)}", file=sys.stderr)
        return 1

    passed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = [pool.submit(fuzz, p, n, args.corpus, args.work, args.seconds) for p, n in chosen]
        for job in concurrent.futures.as_completed(jobs):
            _, ok, summary, output = job.result()
            print(summary if ok else f"{summary}: FAILED\n{output}", flush=True)
            passed += ok
    print(f"fuzz: {passed} passed, {len(chosen) - passed} failed")
    return 0 if passed == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
