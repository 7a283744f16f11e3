#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Install what building, testing or running needs, on Debian 12 or later: install-deps.sh [GROUP...]
# Groups: build, run, test (all by default). Says what it is about to install; silent when there is
# nothing to do. Needs root, or sudo without a password.
set -euo pipefail

declare -A packages=(
	[build]="gcc make git python3-venv xz-utils"
	[run]="qemu-system-x86 e2fsprogs busybox-static"
	[test]="clang lld llvm libclang-rt-14-dev libcmocka-dev musl-tools cpio sparse"
)
# How to see that a package is there: a program, or a file, because other distributions (and
# images made by hand) may have it by another way.
declare -A evidence=(
	[gcc]=gcc [make]=make [git]=git [qemu-system-x86]=qemu-system-x86_64 [e2fsprogs]=mke2fs
	[busybox-static]=busybox [clang]=clang [lld]=ld.lld [llvm]=llvm-nm [musl-tools]=musl-gcc
	[cpio]=cpio [sparse]=sparse [xz-utils]=xz
)
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

present() { # package
	case $1 in
	python3-venv) python3 -c 'import ensurepip, venv' 2> /dev/null ;;
	libcmocka-dev) echo '#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>' | gcc -E -x c - > /dev/null 2>&1 ;;
	libclang-rt-14-dev) # whatever clang this is, can it link a sanitizer and the fuzzer?
		echo 'int LLVMFuzzerTestOneInput(const char *p, unsigned long n)
			{ return 0 * (p != 0) * (int)n; }' \
			| clang -x c -fsanitize=fuzzer,address - -o /dev/null > /dev/null 2>&1 ;;
	*) command -v "${evidence[$1]}" > /dev/null ;;
	esac
}

missing=()
for group in "${@:-build run test}"; do
	for name in $group; do
		[ -n "${packages[$name]:-}" ] || {
			echo "install-deps: no such group: $name (build, run, test)" >&2
			exit 2
		}
		for package in ${packages[$name]}; do
			present "$package" || missing+=("$package")
		done
	done
done
[ ${#missing[@]} -ne 0 ] || exit 0

if ! command -v apt-get > /dev/null; then
	echo "install-deps: missing: ${missing[*]} (Debian's names); there is no apt-get here" \
		"to install them" >&2
	exit 1
fi
sudo=()
if [ "$(id -u)" -ne 0 ]; then
	if ! sudo -n true 2> /dev/null; then
		echo "install-deps: missing: ${missing[*]};" \
			"as root: apt-get install ${missing[*]}" >&2
		exit 1
	fi
	sudo=(sudo -n)
fi
echo "install-deps: installing ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export DEBIAN_FRONTEND=noninteractive
install() {
	"${sudo[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" > "$log" 2>&1
}
if ! install; then
	"${sudo[@]}" apt-get update -qq > /dev/null 2>&1 || true
	install || {
		cat "$log" >&2
		echo "install-deps: could not install ${missing[*]}" >&2
		exit 1
	}
fi
