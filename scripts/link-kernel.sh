#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Link a kernel image that knows its own symbols: link-kernel.sh LDS OUT OBJECT-LIST
# with CC, LD, NM and LDFLAGS in the environment.
#
# The first link has an empty table, the second the table of the first. Tables lie behind the
# text, so functions must not have moved in between: that is checked.
set -euo pipefail

lds=$1
out=$2
list=$3
gen=$(dirname "$0")/gen-symbols.py
tmp=$out.tmp
trap 'rm -f "$tmp".*' EXIT

link() { # table-source output
	$CC -c -x assembler -o "$tmp.symbols.o" "$1"
	# shellcheck disable=SC2086
	$LD $LDFLAGS -T "$lds" -o "$2" @"$list" "$tmp.symbols.o"
}

python3 "$gen" --empty > "$tmp.0.S"
link "$tmp.0.S" "$tmp.0.elf"
$NM -n "$tmp.0.elf" | python3 "$gen" > "$tmp.1.S"
link "$tmp.1.S" "$tmp.1.elf"
$NM -n "$tmp.1.elf" | python3 "$gen" > "$tmp.2.S"
if ! cmp -s "$tmp.1.S" "$tmp.2.S"; then
	echo "link-kernel: functions moved between the two links;" \
		".symbols must come after the text" >&2
	exit 1
fi
mv "$tmp.1.elf" "$out"
