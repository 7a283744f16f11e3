#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Run the host test programs: run.sh GLOB PROGRAM...
# One more than there are CPUs run at a time, as several mostly wait. All run even when one fails;
# their outputs come in the order of the programs. Then each case that failed has a line of its own,
# "FAILED program::suite.case - what it said first", and the last line sums up what cmocka counted.
# With CASES=FILE only the cases run that the lines of FILE name so, and one program at a time.
set -u

glob=$1
shift
cases=${CASES:-}

passed=0
failed=0
skipped=0
broken=()
failures=()
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

# The cases of a program that are to run, as a glob.
wanted() { # program
	if [ -n "$cases" ]; then
		sed -n "s/^$(basename "$1")::\([a-z0-9_.]*\)\$/\1/p" "$cases" | paste -sd ,
	else
		echo "$glob"
	fi
}

# The program's output and its exit status, each in a file.
run() { # number program
	"$2" "$(wanted "$2")" > "$logs/$1" 2>&1
	echo $? > "$logs/$1.status"
}

count() { # log label: the number in cmocka's closing line
	sed -n "s/^\[ *$2 *\] *\([0-9][0-9]*\) test(s).*/\1/p" "$1" | tail -n 1
}

# A line for each case of a program that failed, or in which the program ended.
name_failures() { # log program status
	local name why last at=$(basename "$2")
	while read -r name; do
		why=$(grep -m 1 -F ": $name: " "$1")
		failures+=("FAILED $at::$name${why:+ - $why}")
	done < <(sed -n 's/^\[  FAILED  \] \([a-z0-9_]*\.[a-z0-9_.]*\)$/\1/p' "$1" | sort -u)
	last=$(sed -n 's/^\[ RUN      \] //p' "$1" | tail -n 1)
	if ! grep -q '^\[  PASSED  \]' "$1"; then
		failures+=("FAILED $at::$last - the program ended there, with status $3")
	fi
}

report() { # number program
	local log=$logs/$1 status p f s
	status=$(cat "$log.status")
	if [ "$status" -eq 0 ] && grep -q '^\[==========\] Running 0 test' "$log"; then
		return
	fi
	# A good run shows its closing lines, a bad one everything.
	if [ "$status" -eq 0 ]; then
		basename "$2"
		grep -E '^\[(==========|  PASSED  |  SKIPPED )\].*(run\.|[0-9] test\(s\)\.)' "$log"
	else
		cat "$log"
		name_failures "$log" "$2" "$status"
		broken+=("$(basename "$2")")
	fi
	p=$(count "$log" PASSED)
	f=$(count "$log" FAILED)
	s=$(count "$log" SKIPPED)
	passed=$((passed + ${p:-0}))
	failed=$((failed + ${f:-0}))
	skipped=$((skipped + ${s:-0}))
	if [ "$status" -ne 0 ] && [ "${f:-0}" -eq 0 ]; then
		failed=$((failed + 1)) # it crashed, or a sanitizer ended it
	fi
}

at_once=$(($(nproc) + 1))
if [ -n "$cases" ]; then
	at_once=1
	for program; do
		shift
		if [ -n "$(wanted "$program")" ]; then
			set -- "$@" "$program"
		fi
	done
fi
n=0
for program; do
	while [ "$(jobs -rp | wc -l)" -ge $at_once ]; do
		wait -n
	done
	run $n "$program" &
	n=$((n + 1))
done
wait

n=0
for program; do
	report $n "$program"
	n=$((n + 1))
done

for line in "${failures[@]}"; do
	echo "$line"
done
echo "host tests: $passed passed, $failed failed, $skipped skipped"
if [ ${#broken[@]} -ne 0 ]; then
	echo "host tests: broken: ${broken[*]}" >&2
	exit 1
fi
if [ "$passed" -eq 0 ]; then
	echo "host tests: nothing matches '$glob'" >&2
	exit 1
fi
