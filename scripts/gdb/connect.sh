#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Attach gdb to a node: connect.sh BUILD-DIR NODE [AT]
# NODE is p0, m1, s0...: its letter tells the image. AT, or SOCKET in the environment, is what its
# QEMU listens on: a socket, as ./tessera run --gdb ROLE prints it, or :PORT; :1234 is the default.
set -euo pipefail

build=$1
node=$2
at=${3:-${SOCKET:-:1234}}
case $node in
p*) role=processor ;;
m*) role=memory ;;
s*) role=storage ;;
*)
	echo "gdb: node $node: its name should begin with p, m or s" >&2
	exit 1
	;;
esac
command -v gdb > /dev/null || {
	echo "gdb: gdb is missing (Debian package gdb)" >&2
	exit 1
}
exec gdb -q "$build/$role/kernel.elf" -x "$(dirname "$0")/tessera.py" -ex "target remote $at"
