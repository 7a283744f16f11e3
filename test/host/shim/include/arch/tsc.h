/* SPDX-License-Identifier: MIT */
/*
 * Host shim of <arch/tsc.h>: ticks are nanoseconds of the test clock (see <shim/shim.h>).
 */
#pragma once

#include <lib/types.h>

struct tsc_scale {
	uint64_t base;
	uint32_t mult;
	uint32_t shift;
	uint64_t khz;
};
extern struct tsc_scale tsc_scale;

uint64_t tsc_read(void);

static inline uint64_t tsc_to_ns(uint64_t ticks)
{
	return ticks;
}

static inline uint64_t tsc_from_ns(uint64_t ns)
{
	return ns;
}
