#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# clang-tidy over everything in compile_commands.json: run-tidy.sh
set -euo pipefail
cd "$(dirname "$0")/.."

command -v clang-tidy > /dev/null || {
	echo "tidy: clang-tidy is missing (Debian package clang-tidy)" >&2
	exit 1
}
# gcc's spellings that clang does not know.
python3 - << 'END' | xargs -P "$(nproc)" -n 8 clang-tidy -p . --quiet \
	--extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-ignored-optimization-argument
import json

for entry in json.load(open("compile_commands.json")):
    print(entry["file"])
END
