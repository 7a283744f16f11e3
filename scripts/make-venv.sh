#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Make or refresh the project's Python environment: make-venv.sh DIR REQUIREMENTS
# Several makes may call this at once; one works, the others wait for it.
set -euo pipefail

dir=$1
requirements=$2

mkdir -p "$(dirname "$dir")"
exec 9> "$dir.lock"
flock 9
if [ -e "$dir/.stamp" ] && cmp -s "$requirements" "$dir/.stamp"; then
	touch "$dir/.stamp"
	exit 0
fi
"$(dirname "$0")/install-deps.sh" build
echo "  VENV    ${dir#"$PWD"/}"
if ! python3 -m venv "$dir" > "$dir.log" 2>&1; then
	cat "$dir.log" >&2
	echo "make-venv: python3 cannot make virtual environments" >&2
	exit 1
fi
if ! "$dir/bin/pip" install --quiet --disable-pip-version-check -r "$requirements" \
		> "$dir.log" 2>&1; then
	cat "$dir.log" >&2
	exit 1
fi
rm -f "$dir.log"
cp "$requirements" "$dir/.stamp"
