/* SPDX-License-Identifier: MIT */
/*
 * Memory before the frame allocator; see arch/x86/early.c.
 */
#pragma once

#include <lib/types.h>

#define EARLY_MAX_RESERVED 32u

struct early_range {
	paddr_t start, end;
};

/* Pages below @limit, not zeroed; panics when there are none. */
paddr_t early_alloc(uint64_t size, uint64_t align, paddr_t limit);
/* The ranges that must not be handed out again, sorted. */
const struct early_range *early_reserved(unsigned int *nr);
