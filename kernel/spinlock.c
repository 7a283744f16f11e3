/* SPDX-License-Identifier: MIT */
/*
 * Spinlock slow path: wait by reading, so that the cache line stays shared
 * until it is free.  During a panic nobody waits: the holder may be stopped.
 */
#include <kernel/spinlock.h>

#include <arch/cpu.h>
#include <kernel/panic_state.h>

void spin_lock_slow(struct spinlock *l)
{
	do {
		while (__atomic_load_n(&l->locked, __ATOMIC_RELAXED)) {
			if (panic_in_progress())
				return;
			cpu_relax();
		}
	} while (!spin_try_raw(l));
}
