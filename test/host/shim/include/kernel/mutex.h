/* SPDX-License-Identifier: MIT */
/*
 * Host shim of <kernel/mutex.h>: a POSIX mutex with an owner and a checked rank.
 */
#pragma once

#include <pthread.h>

#include <kernel/lock_rank.h>
#include <kernel/spinlock.h>
#include <lib/compiler.h>
#include <lib/types.h>

struct thread;

struct mutex {
	pthread_mutex_t mutex;
	struct thread *owner; /* atomic; NULL when free */
	const char *name;
	uint32_t rank;
};

#define MUTEX_INIT(var, lock_name, lock_rank) \
	{ .mutex = PTHREAD_MUTEX_INITIALIZER, .name = (lock_name), .rank = (lock_rank) }

void mutex_init(struct mutex *m, const char *name, enum lock_rank rank);
void mutex_lock(struct mutex *m);
int mutex_lock_killable(struct mutex *m) __must_check;
bool mutex_trylock(struct mutex *m);
void mutex_unlock(struct mutex *m);
bool mutex_is_mine(const struct mutex *m);

static inline void assert_mutex_held(const struct mutex *m) __asserts_held(m)
{
	lock_debug_assert_held(m, m->name, 0);
}
