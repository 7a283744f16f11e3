#!/bin/sh
# SPDX-License-Identifier: MIT
# Usage: gen-abi-numbers.sh abi_numbers|abi_undef HEADER...
# abi_numbers: one element of struct abi_number[] for each number that the headers define; a number
# that the including file does not know is marked so. abi_undef: forget all of them.
set -eu
what=$1
shift
sed -nE 's/^#define ([A-Z_][A-Z0-9_]*) .*/\1/p' "$@" | grep -v '^LINUX_' |
	while read -r name; do
		if [ "$what" = abi_undef ]; then
			echo "#undef $name"
			continue
		fi
		printf '#ifdef %s\n{ "%s", (int64_t)(%s), true },\n' "$name" "$name" "$name"
		printf '#else\n{ "%s", 0, false },\n#endif\n' "$name"
	done
