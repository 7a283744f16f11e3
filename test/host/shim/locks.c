/* SPDX-License-Identifier: MIT */
/*
 * Host shim: spinlocks, mutexes and reader-writer locks, with the order of lock_rank.h checked.
 *
 * Invariants:	ranks rise, two locks of one rank rise by address, a sleeping lock is never taken
 *		under a spinlock. try_lock forms may break the order, as they cannot deadlock.
 *		assert_*_held() are in force too.
 */
#include <time.h>

#include <kernel/lock_debug.h>
#include <kernel/mutex.h>
#include <kernel/panic.h>
#include <kernel/rwsem.h>
#include <kernel/spinlock.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <lib/errno.h>

#include "shim_priv.h"

#define MAX_HELD 32

struct held {
	const void *lock;
	const char *name;
	uint32_t rank;
	bool shared; /* for reading */
};

static _Thread_local struct held held[MAX_HELD];
static _Thread_local unsigned int nr_held;

static void check_order(const struct held *h, const void *lock, const char *name, uint32_t rank)
{
	if (h->lock == lock)
		panic("lock order: %s (rank %u) is held already", name, rank);
	if (h->rank > rank)
		panic("lock order: %s (rank %u) taken under %s (rank %u)", name, rank, h->name,
		      h->rank);
	if (h->rank == rank && (uintptr_t)h->lock > (uintptr_t)lock)
		panic("lock order: two locks of rank %u, %s and %s, not by address", rank, h->name,
		      name);
}

void shim_rank_acquire(const void *lock, const char *name, uint32_t rank, uint32_t how)
{
	const bool try_only = how & LOCK_DEBUG_TRY;

	if (rank == 0)
		panic("lock %p was never initialised", lock);
	for (unsigned int i = 0; i < nr_held && !try_only; i++)
		check_order(&held[i], lock, name, rank);
	if (nr_held == MAX_HELD)
		panic("lock order: more than %d locks held", MAX_HELD);
	held[nr_held++] = (struct held){
		.lock = lock,
		.name = name,
		.rank = rank,
		.shared = how & LOCK_DEBUG_SHARED,
	};
}

void shim_rank_release(const void *lock, const char *name)
{
	for (unsigned int i = nr_held; i-- > 0;) {
		if (held[i].lock != lock)
			continue;
		for (; i + 1 < nr_held; i++)
			held[i] = held[i + 1];
		nr_held--;
		return;
	}
	panic("lock %s released by a thread that does not hold it", name);
}

static struct held *find_held(const void *lock)
{
	for (unsigned int i = nr_held; i-- > 0;) {
		if (held[i].lock == lock)
			return &held[i];
	}
	return NULL;
}

void lock_debug_assert_held(const void *lock, const char *name, uint32_t how)
{
	const struct held *h = find_held(lock);

	if (!h || (h->shared && !(how & LOCK_DEBUG_SHARED)))
		panic("lock %s is not held%s by this thread", name, h ? " for writing" : "");
}

void spin_lock_init(struct spinlock *l, const char *name, enum lock_rank rank)
{
	pthread_mutex_init(&l->mutex, NULL);
	l->name = name;
	l->rank = rank;
	l->locked = false;
}

void spin_lock(struct spinlock *l)
{
	shim_rank_acquire(l, l->name, l->rank, 0);
	pthread_mutex_lock(&l->mutex);
	__atomic_store_n(&l->locked, true, __ATOMIC_RELAXED);
	preempt_disable();
}

bool spin_trylock(struct spinlock *l)
{
	if (pthread_mutex_trylock(&l->mutex) != 0)
		return false;
	shim_rank_acquire(l, l->name, l->rank, LOCK_DEBUG_TRY);
	__atomic_store_n(&l->locked, true, __ATOMIC_RELAXED);
	preempt_disable();
	return true;
}

void spin_unlock(struct spinlock *l)
{
	shim_rank_release(l, l->name);
	__atomic_store_n(&l->locked, false, __ATOMIC_RELAXED);
	preempt_enable();
	pthread_mutex_unlock(&l->mutex);
}

bool spin_is_locked(const struct spinlock *l)
{
	return __atomic_load_n(&l->locked, __ATOMIC_RELAXED);
}

void mutex_init(struct mutex *m, const char *name, enum lock_rank rank)
{
	pthread_mutex_init(&m->mutex, NULL);
	m->owner = NULL;
	m->name = name;
	m->rank = rank;
}

static void mutex_set_owner(struct mutex *m, struct thread *t)
{
	__atomic_store_n(&m->owner, t, __ATOMIC_RELAXED);
}

void mutex_lock(struct mutex *m)
{
	shim_check_may_sleep("mutex_lock");
	shim_rank_acquire(m, m->name, m->rank, 0);
	pthread_mutex_lock(&m->mutex);
	mutex_set_owner(m, thread_current());
}

#define KILL_LOOK_NS \
	(1 * NSEC_PER_MSEC) /* a POSIX mutex cannot be waited for with a thread's flags */

/* The host's clock: a test may have stopped the shim's. */
static bool lock_for_a_while(struct mutex *m)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += (long)KILL_LOOK_NS;
	if (until.tv_nsec >= (long)NSEC_PER_SEC) {
		until.tv_nsec -= (long)NSEC_PER_SEC;
		until.tv_sec++;
	}
	return pthread_mutex_timedlock(&m->mutex, &until) == 0;
}

int mutex_lock_killable(struct mutex *m)
{
	struct thread *t = thread_current();
	bool locked;

	shim_check_may_sleep("mutex_lock_killable");
	shim_rank_acquire(m, m->name, m->rank, 0);
	locked = lock_for_a_while(m);
	shim_set_waits_killable(t, !locked);
	while (!locked) {
		if (__atomic_load_n(&t->flags, __ATOMIC_SEQ_CST) & THREAD_F_KILL)
			break;
		locked = lock_for_a_while(m);
	}
	shim_set_waits_killable(t, false);
	if (!locked) {
		shim_rank_release(m, m->name);
		return -EINTR;
	}
	mutex_set_owner(m, thread_current());
	return 0;
}

bool mutex_trylock(struct mutex *m)
{
	if (pthread_mutex_trylock(&m->mutex))
		return false;
	shim_rank_acquire(m, m->name, m->rank, LOCK_DEBUG_TRY);
	mutex_set_owner(m, thread_current());
	return true;
}

void mutex_unlock(struct mutex *m)
{
	shim_rank_release(m, m->name);
	mutex_set_owner(m, NULL);
	pthread_mutex_unlock(&m->mutex);
}

bool mutex_is_mine(const struct mutex *m)
{
	return __atomic_load_n(&m->owner, __ATOMIC_RELAXED) == thread_current();
}

void rwsem_init(struct rwsem *s, const char *name, enum lock_rank rank)
{
	*s = (struct rwsem){ .name = name, .rank = rank };
	pthread_mutex_init(&s->mutex, NULL);
	shim_cond_init(&s->changed);
}

void rwsem_read_lock(struct rwsem *s)
{
	shim_check_may_sleep("rwsem_read_lock");
	shim_rank_acquire(s, s->name, s->rank, LOCK_DEBUG_SHARED);
	pthread_mutex_lock(&s->mutex);
	while (s->writer || s->waiting_writers)
		pthread_cond_wait(&s->changed, &s->mutex);
	s->readers++;
	pthread_mutex_unlock(&s->mutex);
}

void rwsem_read_unlock(struct rwsem *s)
{
	shim_rank_release(s, s->name);
	pthread_mutex_lock(&s->mutex);
	s->readers--;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->mutex);
}

void rwsem_write_lock(struct rwsem *s)
{
	shim_check_may_sleep("rwsem_write_lock");
	shim_rank_acquire(s, s->name, s->rank, 0);
	pthread_mutex_lock(&s->mutex);
	s->waiting_writers++;
	while (s->writer || s->readers)
		pthread_cond_wait(&s->changed, &s->mutex);
	s->waiting_writers--;
	s->writer = true;
	pthread_mutex_unlock(&s->mutex);
}

void rwsem_write_unlock(struct rwsem *s)
{
	shim_rank_release(s, s->name);
	pthread_mutex_lock(&s->mutex);
	s->writer = false;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->mutex);
}
