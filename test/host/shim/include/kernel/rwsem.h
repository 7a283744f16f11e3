/* SPDX-License-Identifier: MIT */
/*
 * Host shim of <kernel/rwsem.h>: readers wait behind a waiting writer, as in the kernel.
 */
#pragma once

#include <pthread.h>

#include <kernel/lock_debug.h>
#include <kernel/lock_rank.h>
#include <lib/compiler.h>
#include <lib/types.h>

struct rwsem {
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	unsigned int readers;         /* mutex */
	unsigned int waiting_writers; /* mutex */
	bool writer;                  /* mutex */
	const char *name;
	uint32_t rank;
};

void rwsem_init(struct rwsem *s, const char *name, enum lock_rank rank);
void rwsem_read_lock(struct rwsem *s);
void rwsem_read_unlock(struct rwsem *s);
void rwsem_write_lock(struct rwsem *s);
void rwsem_write_unlock(struct rwsem *s);

static inline void assert_rwsem_held(const struct rwsem *s) __asserts_held_shared(s)
{
	lock_debug_assert_held(s, s->name, LOCK_DEBUG_SHARED);
}

static inline void assert_rwsem_held_write(const struct rwsem *s) __asserts_held(s)
{
	lock_debug_assert_held(s, s->name, 0);
}
