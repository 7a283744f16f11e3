/* SPDX-License-Identifier: MIT */
/*
 * Spinlock slow path: wait by reading, so that the cache line stays shared
 * until it is free.  With interrupts off the waiter serves TLB calls: the holder
 * may be waiting for just that.  The CPU that prints a panic does not wait: the
 * holder is stopped.
 */
#include <kernel/spinlock.h>

#include <arch/cpu.h>
#include <arch/ipi.h>
#include <kernel/panic_state.h>

void spin_lock_slow(struct spinlock *l) __no_lock_analysis("implements the lock")
{
	const bool irqs_on = local_irqs_enabled();

	do {
		while (__atomic_load_n(&l->locked, __ATOMIC_RELAXED)) {
			if (unlikely(panic_in_progress()) && panic_is_mine())
				return;
			if (!irqs_on)
				ipi_poll();
			cpu_relax();
		}
	} while (!spin_try_raw(l));
}
