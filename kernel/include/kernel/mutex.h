/* SPDX-License-Identifier: MIT */
/*
 * Mutexes: sleeping locks with one owner.
 *
 * Context:	threads only; the holder may sleep.  Not recursive.  Waiters queue
 *		first come, first served.
 */
#pragma once

#include <kernel/lock_rank.h>
#include <kernel/spinlock.h>
#include <lib/compiler.h>
#include <lib/list.h>
#include <lib/types.h>

struct thread;

struct __capability("mutex") mutex {
	uintptr_t owner;      /* atomic: struct thread *, bit 0: there are waiters */
	struct spinlock lock; /* RANK_SLEEPER */
	struct list_head waiters __guarded_by(&lock);
	const char *name;
	uint32_t rank;
};

#define MUTEX_INIT(var, lock_name, lock_rank)             \
	{ .owner = 0,                                     \
	  .lock = SPINLOCK_INIT(lock_name, RANK_SLEEPER), \
	  .waiters = { &(var).waiters, &(var).waiters },  \
	  .name = (lock_name),                            \
	  .rank = (lock_rank) }

void mutex_init(struct mutex *m, const char *name, enum lock_rank rank) __asserts_held(m);
void mutex_lock(struct mutex *m) __acquires(m);
/*
 * The same for a lock whose holder may wait for another node: 0, or -EINTR if the thread is to be
 * killed and would have to wait. Then it does not hold the lock.
 */
int mutex_lock_killable(struct mutex *m) __acquires_if_0(m) __must_check;
/* Take it if it is free; never waits. */
bool mutex_trylock(struct mutex *m) __try_acquires(m);
void mutex_unlock(struct mutex *m) __releases(m);
/* Debug builds: the current thread holds it. */
static inline void assert_mutex_held(const struct mutex *m) __asserts_held(m)
{
	lock_debug_assert_held(m, m->name, 0);
}
/* Does the current thread hold it? */
bool mutex_is_mine(const struct mutex *m);
