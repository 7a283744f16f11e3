/* SPDX-License-Identifier: MIT */
/*
 * Futexes: wait queues keyed by (address space, address).
 */
#pragma once

#include <lib/types.h>

struct aspace;

void futex_init(void);
/* Wake up to @nr waiters of the word at @addr; returns how many. */
unsigned int futex_wake_addr(struct aspace *as, uint64_t addr, unsigned int nr);
