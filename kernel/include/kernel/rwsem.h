/* SPDX-License-Identifier: MIT */
/*
 * Reader-writer sleeping lock.  Waiters are served in order, so neither side
 * starves: a reader that comes after a waiting writer waits behind it.
 * A reader must not take the same lock again.
 */
#pragma once

#include <kernel/lock_rank.h>
#include <kernel/spinlock.h>
#include <lib/compiler.h>
#include <lib/list.h>
#include <lib/types.h>

struct thread;

struct __capability("rwsem") rwsem {
	uint32_t readers __guarded_by(&lock); /* not the lock first: addresses name locks */
	struct spinlock lock;                 /* RANK_SLEEPER */
	struct thread *writer __guarded_by(&lock);
	struct list_head waiters __guarded_by(&lock);
	const char *name;
	uint32_t rank;
};

void rwsem_init(struct rwsem *s, const char *name, enum lock_rank rank) __asserts_held(s);
void rwsem_read_lock(struct rwsem *s) __acquires_shared(s);
void rwsem_read_unlock(struct rwsem *s) __releases_shared(s);
void rwsem_write_lock(struct rwsem *s) __acquires(s);
void rwsem_write_unlock(struct rwsem *s) __releases(s);

/* Debug builds: the current thread holds it, for reading or writing. */
static inline void assert_rwsem_held(const struct rwsem *s) __asserts_held_shared(s)
{
	lock_debug_assert_held(s, s->name, LOCK_DEBUG_SHARED);
}

static inline void assert_rwsem_held_write(const struct rwsem *s) __asserts_held(s)
{
	lock_debug_assert_held(s, s->name, 0);
}
