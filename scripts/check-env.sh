#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Say which tools this machine has, and which versions; fails when one is missing.
set -u
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

status=0
show() { # program, why
	local path version
	if path=$(command -v "$1"); then
		version=$("$1" "${3:---version}" 2>&1 | head -n 1)
		printf '%-20s %s\n' "$1" "$version"
	else
		printf '%-20s MISSING: %s\n' "$1" "$2"
		status=1
	fi
}

show gcc "builds everything"
show make "builds everything"
show git "version in the boot banner"
show python3 "build helpers, launcher, tests"
show qemu-system-x86_64 "runs the machines"
show busybox "programs of the demonstration and the tests" --help
show musl-gcc "guest programs of the tests"
show clang "second compiler, fuzzers"
show ld.lld "linker of LLVM=1"
if command -v mke2fs > /dev/null; then
	printf '%-20s %s\n' mke2fs "$(mke2fs -V 2>&1 | head -n 1)"
else
	printf '%-20s MISSING: %s\n' mke2fs "makes disk images"
	status=1
fi
[ $status -eq 0 ] || echo "scripts/install-deps.sh installs what is missing"
exit $status
