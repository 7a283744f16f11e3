/* SPDX-License-Identifier: MIT */
/*
 * Host shim of <kernel/spinlock.h>: a POSIX mutex, with the kernel's rank order checked always.
 */
#pragma once

#include <pthread.h>

#include <arch/cpu.h>
#include <kernel/lock_debug.h>
#include <kernel/lock_rank.h>
#include <kernel/preempt.h>
#include <lib/compiler.h>
#include <lib/types.h>

struct spinlock {
	pthread_mutex_t mutex;
	const char *name;
	uint32_t rank;
	bool locked; /* for spin_is_locked() */
};

#define SPINLOCK_INIT(lock_name, lock_rank) \
	{ .mutex = PTHREAD_MUTEX_INITIALIZER, .name = (lock_name), .rank = (lock_rank) }

void spin_lock_init(struct spinlock *l, const char *name, enum lock_rank rank);
void spin_lock(struct spinlock *l);
bool spin_trylock(struct spinlock *l);
void spin_unlock(struct spinlock *l);
bool spin_is_locked(const struct spinlock *l);

static inline void assert_spin_held(const struct spinlock *l) __asserts_held(l)
{
	lock_debug_assert_held(l, l->name, 0);
}

static inline unsigned long spin_lock_irqsave(struct spinlock *l)
{
	spin_lock(l);
	return 0;
}

static inline void spin_unlock_irqrestore(struct spinlock *l, unsigned long flags)
{
	(void)flags;
	spin_unlock(l);
}
