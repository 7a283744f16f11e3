/* SPDX-License-Identifier: MIT */
/*
 * Spinlocks.
 *
 * Context:	holding one turns preemption off; no sleeping.  A lock that an
 *		interrupt handler takes must be taken with the _irqsave form elsewhere.
 * Flow:	Choice: test-and-set, not tickets: virtual CPUs may be descheduled by their
 *		host, and a ticket handed to a sleeping one stalls all behind it.
 * Failure:	Debug: with CONFIG_DEBUG, rank order, self-deadlock and unlocking by a
 *		stranger are checked (lock_debug.c); a violation panics.
 */
#pragma once

#include <arch/cpu.h>
#include <kernel/lock_debug.h>
#include <kernel/lock_rank.h>
#include <kernel/preempt.h>
#include <lib/compiler.h>
#include <lib/types.h>

struct __capability("spinlock") spinlock {
	uint32_t locked; /* atomic */
#ifdef CONFIG_DEBUG
	uint32_t rank;
	const char *name;
#endif
};

#ifdef CONFIG_DEBUG
# define SPINLOCK_INIT(lock_name, lock_rank) \
	 { .locked = 0, .rank = (lock_rank), .name = (lock_name) }
#else
# define SPINLOCK_INIT(lock_name, lock_rank) { .locked = 0 }
#endif

/* No other thread knows a lock yet that is being initialised: the analysis takes it as held. */
static inline void spin_lock_init(struct spinlock *l, const char *name, enum lock_rank rank)
	__asserts_held(l)
{
	l->locked = 0;
#ifdef CONFIG_DEBUG
	l->rank = rank;
	l->name = name;
#endif
}

void spin_lock_slow(struct spinlock *l) __acquires(l);

static inline bool spin_try_raw(struct spinlock *l)
{
	return __atomic_exchange_n(&l->locked, 1, __ATOMIC_ACQUIRE) == 0;
}

static inline void spin_lock(struct spinlock *l) __acquires(l)
	__no_lock_analysis("implements the lock")
{
	preempt_disable();
#ifdef CONFIG_DEBUG
	lock_debug_acquire(l, l->name, l->rank, 0);
#endif
	if (unlikely(!spin_try_raw(l)))
		spin_lock_slow(l);
}

static inline bool spin_trylock(struct spinlock *l) __try_acquires(l)
	__no_lock_analysis("implements the lock")
{
	preempt_disable();
	if (!spin_try_raw(l)) {
		preempt_enable();
		return false;
	}
#ifdef CONFIG_DEBUG
	lock_debug_acquire(l, l->name, l->rank, LOCK_DEBUG_TRY);
#endif
	return true;
}

static inline void spin_unlock(struct spinlock *l) __releases(l)
	__no_lock_analysis("implements the lock")
{
#ifdef CONFIG_DEBUG
	lock_debug_release(l, l->name);
#endif
	__atomic_store_n(&l->locked, 0, __ATOMIC_RELEASE);
	preempt_enable();
}

static inline unsigned long spin_lock_irqsave(struct spinlock *l) __acquires(l)
{
	const unsigned long flags = local_irq_save();

	spin_lock(l);
	return flags;
}

static inline void spin_unlock_irqrestore(struct spinlock *l, unsigned long flags) __releases(l)
	__no_lock_analysis("implements the lock")
{
#ifdef CONFIG_DEBUG
	lock_debug_release(l, l->name);
#endif
	__atomic_store_n(&l->locked, 0, __ATOMIC_RELEASE);
	local_irq_restore(flags);
	preempt_enable();
}

/* Debug builds: the caller holds @l, taken in this context (a handler's caller does not count). */
static inline void assert_spin_held(const struct spinlock *l) __asserts_held(l)
{
#ifdef CONFIG_DEBUG
	lock_debug_assert_held(l, l->name, 0);
#endif
}

static inline bool spin_is_locked(const struct spinlock *l)
{
	return __atomic_load_n(&l->locked, __ATOMIC_RELAXED) != 0;
}
