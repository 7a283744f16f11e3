/* SPDX-License-Identifier: MIT */
/*
 * Making other CPUs do something: function calls with completion, and stopping
 * them for a panic.
 *
 * Context:	a thread; smp_call_all() with interrupts on and no spinlock held, since
 *		it waits for CPUs that may be in an interrupt handler.  The function runs
 *		there in an interrupt: short, no sleeping, no calls of its own.
 */
#pragma once

#include <arch/cpumask.h>
#include <lib/types.h>

/* Run fn(arg) on all CPUs at once, this one included, and wait until all have. */
void smp_call_all(void (*fn)(void *arg), void *arg);

/*
 * For those who wait with interrupts off: do what other CPUs wait for this one
 * to do (TLB invalidation only, which is right anywhere).
 */
void ipi_poll(void);

/* A panic: stop the others, wherever they are, and show what each was doing. */
void smp_stop_others(void);
void smp_stopped_print(void);
