/* SPDX-License-Identifier: MIT */
/*
 * Is a panic being printed?  Locks and checks stand aside then.
 */
#pragma once

#include <lib/types.h>

extern bool panic_started;

static inline bool panic_in_progress(void)
{
	return __atomic_load_n(&panic_started, __ATOMIC_RELAXED);
}
