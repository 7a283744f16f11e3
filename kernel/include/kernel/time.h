/* SPDX-License-Identifier: MIT */
/*
 * Clocks.
 */
#pragma once

#include <arch/tsc.h>
#include <lib/types.h>

#define NSEC_PER_SEC  1000000000ul
#define NSEC_PER_MSEC 1000000ul
#define NSEC_PER_USEC 1000ul

/* Monotonic nanoseconds since boot; any context, any CPU. */
static inline uint64_t time_now_ns(void)
{
	return tsc_to_ns(tsc_read() - tsc_scale.base);
}

/* Nanoseconds since 1970-01-01 UTC. */
uint64_t time_real_ns(void);
/* Real time at monotonic zero. */
uint64_t time_boot_real_ns(void);
/* Step the real-time clock (clock_settime, time from another node). */
void time_set_real_ns(uint64_t real_ns);
/*
 * @fn runs after each step of the real-time clock, in the context of the thread that stepped
 * it; the kernel has one such function.
 */
void time_on_step(void (*fn)(void));

static inline uint64_t time_after_ns(uint64_t delta_ns)
{
	const uint64_t now = time_now_ns();

	return delta_ns > UINT64_MAX - now ? UINT64_MAX : now + delta_ns;
}

/* Busy-wait, for hardware delays of microseconds. */
void delay_ns(uint64_t ns);
