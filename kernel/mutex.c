/* SPDX-License-Identifier: MIT */
/*
 * Mutexes.
 *
 * Flow:	Fast path: owner goes from 0 to the thread by one compare-and-exchange, and back.
 *		Slow path: a waiter queues under m->lock and sets bit 0 of owner; unlock then hands
 *		the mutex to the first waiter, so nobody overtakes the queue.
 */
#include <kernel/mutex.h>

#include <kernel/lock_debug.h>
#include <kernel/panic.h>
#include <kernel/thread.h>

#define HAS_WAITERS ((uintptr_t)1)

struct mutex_waiter {
	struct list_head link;
	struct thread *thread;
	bool granted; /* m->lock */
};

void mutex_init(struct mutex *m, const char *name, enum lock_rank rank)
{
	m->owner = 0;
	spin_lock_init(&m->lock, name, RANK_SLEEPER);
	list_init(&m->waiters);
	m->name = name;
	m->rank = rank;
}

static bool try_take(struct mutex *m)
{
	uintptr_t none = 0;

	return __atomic_compare_exchange_n(&m->owner, &none, (uintptr_t)thread_current(), false,
					   __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static void lock_slow(struct mutex *m)
{
	struct mutex_waiter w = { .thread = thread_current() };
	unsigned long flags = spin_lock_irqsave(&m->lock);
	uintptr_t old = __atomic_fetch_or(&m->owner, HAS_WAITERS, __ATOMIC_ACQUIRE);

	if (old == 0) { /* freed meanwhile */
		__atomic_store_n(&m->owner, (uintptr_t)w.thread, __ATOMIC_RELAXED);
		spin_unlock_irqrestore(&m->lock, flags);
		return;
	}
	list_add_tail(&w.link, &m->waiters);
	while (!w.granted) {
		thread_prepare_sleep();
		spin_unlock_irqrestore(&m->lock, flags);
		schedule();
		flags = spin_lock_irqsave(&m->lock);
	}
	thread_cancel_sleep();
	spin_unlock_irqrestore(&m->lock, flags);
}

void mutex_lock(struct mutex *m) __no_lock_analysis("implements the lock")
{
	lock_debug_may_sleep("mutex_lock");
	lock_debug_acquire(m, m->name, m->rank, 0);
	if (unlikely(!try_take(m)))
		lock_slow(m);
}

bool mutex_trylock(struct mutex *m) __no_lock_analysis("implements the lock")
{
	if (!try_take(m))
		return false;
	lock_debug_acquire(m, m->name, m->rank, LOCK_DEBUG_TRY);
	return true;
}

static void unlock_slow(struct mutex *m)
{
	const unsigned long flags = spin_lock_irqsave(&m->lock);
	struct mutex_waiter *w = list_first_entry_or_null(&m->waiters, struct mutex_waiter, link);
	uintptr_t next = 0;

	if (w) {
		struct thread *t = w->thread;

		list_del(&w->link);
		next = (uintptr_t)t | (list_empty(&m->waiters) ? 0 : HAS_WAITERS);
		__atomic_store_n(&m->owner, next, __ATOMIC_RELEASE);
		w->granted = true; /* @w is gone once m->lock is dropped */
		(void)thread_wake(t);
	} else {
		__atomic_store_n(&m->owner, next, __ATOMIC_RELEASE);
	}
	spin_unlock_irqrestore(&m->lock, flags);
}

void mutex_unlock(struct mutex *m) __no_lock_analysis("implements the lock")
{
	uintptr_t me = (uintptr_t)thread_current();

	lock_debug_release(m, m->name);
	ASSERT(mutex_is_mine(m));
	if (!__atomic_compare_exchange_n(&m->owner, &me, 0, false, __ATOMIC_RELEASE,
					 __ATOMIC_RELAXED))
		unlock_slow(m);
}

bool mutex_is_mine(const struct mutex *m)
{
	return (__atomic_load_n(&m->owner, __ATOMIC_RELAXED) & ~HAS_WAITERS) ==
	       (uintptr_t)thread_current();
}
