/* SPDX-License-Identifier: MIT */
/*
 * Time stamp counter: the clock below <kernel/time.h>.
 */
#pragma once

#include <lib/types.h>

static inline uint64_t tsc_read(void)
{
	uint32_t lo, hi;

	__asm__ volatile("rdtsc" : "=a"(lo), "=d"(hi));
	return (uint64_t)hi << 32 | lo;
}

/* The conversion that tsc_init() found: ns = ticks * mult >> shift. */
struct tsc_scale {
	uint64_t base; /* ticks at boot: time zero */
	uint32_t mult;
	uint32_t shift;
	uint64_t khz;
	uint64_t per_ns; /* ticks per ns, 32.32 fixed point */
};
extern struct tsc_scale tsc_scale;

static inline uint64_t tsc_to_ns(uint64_t ticks)
{
	return (uint64_t)(((unsigned __int128)ticks * tsc_scale.mult) >> tsc_scale.shift);
}

uint64_t tsc_from_ns(uint64_t ns);

/* Calibrate (CPUID, hypervisor leaf, else PIT); at most 10 ms. */
void tsc_init(void);
