#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Run the host test programs: run.sh GLOB PROGRAM...
# Each runs in turn (they use threads of their own); all run even when one fails. The last line
# sums up what cmocka counted.
set -u

glob=$1
shift

passed=0
failed=0
skipped=0
broken=()
log=$(mktemp)
trap 'rm -f "$log"' EXIT

count() { # label: the number in cmocka's closing line
	sed -n "s/^\[ *$1 *\] *\([0-9][0-9]*\) test(s).*/\1/p" "$log" | tail -n 1
}

for program; do
	"$program" "$glob" > "$log" 2>&1
	status=$?
	if grep -q '^\[==========\] Running 0 test' "$log" && [ $status -eq 0 ]; then
		continue
	fi
	# A good run shows its closing lines, a bad one everything.
	if [ $status -eq 0 ]; then
		basename "$program"
		grep -E '^\[(==========|  PASSED  |  SKIPPED )\].*(run\.|[0-9] test\(s\)\.)' "$log"
	else
		cat "$log"
		broken+=("$(basename "$program")")
	fi
	p=$(count PASSED)
	f=$(count FAILED)
	s=$(count SKIPPED)
	passed=$((passed + ${p:-0}))
	failed=$((failed + ${f:-0}))
	skipped=$((skipped + ${s:-0}))
	if [ $status -ne 0 ] && [ "${f:-0}" -eq 0 ]; then
		failed=$((failed + 1)) # it crashed, or a sanitizer ended it
	fi
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
