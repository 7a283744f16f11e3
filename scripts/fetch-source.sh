#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Fetch, check, unpack and patch the source of a Debian package that the kernel is built with:
#
#	fetch-source.sh DIR PATCHES BINARY FILE SHA256
#
# DIR holds what was fetched (FILE) and unpacked; PATCHES is a folder of *.patch files, applied in
# order; BINARY is a binary package of the same source, whose place on this machine's Debian mirror
# tells where FILE is. Prints the folder of the patched source. It costs nothing when that is there:
# its name has the hash of FILE and patches. Without network, FILE may be put into DIR by hand.
set -euo pipefail

dir=$1 patches=$2 binary=$3 file=$4 sha256=$5
name=${file%%_*}

is_good() { # file
	[ -f "$1" ] && [ "$(sha256sum < "$1" | cut -d' ' -f1)" = "$sha256" ]
}

uri() {
	apt-get download --print-uris "$binary" 2> /dev/null | sed -n "s/^'\([^']*\)\/[^']*'.*/\1/p"
}

download() {
	local base
	command -v apt-get > /dev/null || return 1
	base=$(uri)
	if [ -z "$base" ]; then
		if [ "$(id -u)" -eq 0 ]; then
			apt-get update -qq
		else
			sudo -n apt-get update -qq
		fi > /dev/null 2>&1 || true
		base=$(uri)
	fi
	[ -n "$base" ] || return 1
	timeout 120 /usr/lib/apt/apt-helper -o Acquire::Retries=2 download-file "$base/$file" \
		"$PWD/$dir/$file.part" > /dev/null 2>&1 || return 1
	is_good "$dir/$file.part" || {
		echo "fetch-source: $base/$file has another SHA-256 than $sha256" >&2
		return 1
	}
	mv "$dir/$file.part" "$dir/$file"
}

mkdir -p "$dir"
cd "$dir"
dir=.
hash=$({ echo "$sha256"; cat "$patches"/*.patch 2> /dev/null || true; } | sha256sum | cut -c 1-12)
out=$PWD/$name-$hash
if [ ! -f "$out/.complete" ]; then
	exec 9> ".$name.lock"
	flock 9
fi
if [ ! -f "$out/.complete" ]; then
	is_good "$file" || download || {
		echo "fetch-source: cannot get $file from this machine's Debian mirror;" \
			"put it into $PWD (SHA-256 $sha256)" >&2
		exit 1
	}
	rm -rf "$out"
	mkdir "$out"
	tar -C "$out" --strip-components=1 --touch -xf "$file"
	# Some sources have lines that end in CR LF: patches need not.
	find "$out" -name '*.[ch]' -exec sed -i 's/\r$//' {} +
	for patch in "$patches"/*.patch; do
		[ -e "$patch" ] || continue
		# Not "git apply" inside of another repository: it would skip ignored folders.
		(cd "$out" && GIT_CEILING_DIRECTORIES=$PWD/.. git apply "$patch") || {
			echo "fetch-source: $patch does not apply to $file" >&2
			exit 1
		}
	done
	touch "$out/.complete"
fi
echo "$out"
