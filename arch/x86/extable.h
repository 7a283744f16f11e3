/* SPDX-License-Identifier: MIT */
/*
 * Exception table: kernel instructions that may fault, and where to go on.
 */
#pragma once

#include <lib/types.h>

struct extable_entry {
	uint64_t insn;
	uint64_t fixup;
};
extern const struct extable_entry extable_start[], extable_end[];
