/* SPDX-License-Identifier: MIT */
/* The pause in a loop that polls a device. */
#pragma once

#include <arch/cpu.h>
#include <lib/compiler.h>
#include <lib/types.h>

extern bool cpu_pause_is_slow; /* const once the CPU's features are known */

/*
 * As cpu_relax(). Under TCG each PAUSE ends the run of the virtual CPU and takes QEMU's lock, which
 * its other threads need for timers and interrupts, so there is none.
 */
static inline void cpu_poll_relax(void)
{
	if (cpu_pause_is_slow)
		__asm__ volatile("" ::: "memory");
	else
		cpu_relax();
}
