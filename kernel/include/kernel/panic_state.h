/* SPDX-License-Identifier: MIT */
/*
 * Is a panic being printed?  Locks and checks stand aside then, on the CPU that
 * prints it; the others are stopped.
 */
#pragma once

#include <arch/percpu.h>
#include <lib/types.h>

extern uint32_t panic_owner; /* atomic: number of the CPU plus one; 0: all is well */

static inline bool panic_in_progress(void)
{
	return __atomic_load_n(&panic_owner, __ATOMIC_RELAXED) != 0;
}

/* Does this CPU print it? */
static inline bool panic_is_mine(void)
{
	return __atomic_load_n(&panic_owner, __ATOMIC_RELAXED) == cpu_id() + 1;
}
