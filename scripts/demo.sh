#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The demonstration behind `make run`: real programs over real text on three monitors, checked
# against the host, with an account of what each node did.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
build=${O:-$root/build}
text=$build/demo/text
mkdir -p "$build/demo"

# Real text: C headers, Python's and Perl's libraries, in sorted order, about 20 MB.
if [ ! -s "$text" ]; then
	mapfile -t trees < <(ls -d /usr/include /usr/lib/python3* /usr/share/perl 2> /dev/null)
	find "${trees[@]}" -type f \( -name '*.h' -o -name '*.hpp' -o -name '*.py' \
		-o -path '*/c++/*' -o -name '*.pm' -o -name '*.pod' -o -name '*.pl' \) \
		-print0 | LC_ALL=C sort -z | xargs -0 cat | head -c 20M > "$text.tmp" || true
	mv "$text.tmp" "$text"
fi
if [ "$(stat -c %s "$text")" -lt 20000000 ]; then
	echo "demo: this host has only $(stat -c %s "$text") bytes of such text" >&2
	exit 1
fi
busybox=$(command -v busybox) || {
	"$root/scripts/install-deps.sh" run
	busybox=$(command -v busybox)
}

printf 'Text: %s bytes of C headers and Python, at /data/text of the cluster.\n' \
	"$(stat -c %s "$text")"

run() { # applet...
	printf '\n$ ./tessera run busybox %s\n' "$*"
	local start=${EPOCHREALTIME/./} status=0
	"$root/tessera" run --no-build --build-dir "$build" --volume "$text:/data/text" \
		--cwd /data --account "$busybox" "$@" \
		> "$build/demo/out" 2> "$build/demo/account" || status=$?
	local end=${EPOCHREALTIME/./}
	if [ "$status" -ne 0 ]; then
		cat "$build/demo/account" >&2
		exit "$status"
	fi
	if [ "$(wc -l < "$build/demo/out")" -le 4 ]; then
		cat "$build/demo/out"
	else
		grep -m 2 . "$build/demo/out" | cut -c 1-70
		printf '... %s lines\n' "$(wc -l < "$build/demo/out")"
	fi
	if (cd "$build/demo" && env -i "$busybox" "$@") | cmp -s - "$build/demo/out"; then
		printf '(%d.%d s; every byte as on the host)\n' $(((end - start) / 1000000)) \
			$(((end - start) / 100000 % 10))
	else
		echo "demo: the output differs from the host's" >&2
		exit 1
	fi
	sed 's/^/  /' "$build/demo/account"
}

run sha256sum text
run wc text
run sort text
