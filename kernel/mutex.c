/* SPDX-License-Identifier: MIT */
/*
 * Mutexes.
 *
 * Flow:	Fast path: owner goes from 0 to the thread by one compare-and-exchange, and back.
 *		Slow path: a waiter queues under m->lock and sets bit 0 of owner; unlock then hands
 *		the mutex to the first waiter, so nobody overtakes the queue. A killable waiter
 *		leaves the queue when its thread is to be killed and the mutex is not its own yet.
 */
#include <kernel/mutex.h>

#include <kernel/lock_debug.h>
#include <kernel/panic.h>
#include <kernel/thread.h>
#include <lib/errno.h>

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

static bool is_to_be_killed(const struct thread *t)
{
	return __atomic_load_n(&t->flags, __ATOMIC_ACQUIRE) & THREAD_F_KILL;
}

/* @w has not been granted the mutex and waits for it no more. */
static void leave_queue_locked(struct mutex *m, struct mutex_waiter *w) __must_hold(&m->lock)
{
	assert_spin_held(&m->lock);
	ASSERT(!w->granted);
	list_del(&w->link);
	/* The owner goes on; with the bit it would come here to hand over to no thread. */
	if (list_empty(&m->waiters))
		__atomic_fetch_and(&m->owner, ~HAS_WAITERS, __ATOMIC_RELAXED);
}

/* 0, or -EINTR if @killable: not taken, as the thread is to be killed. */
static int lock_slow(struct mutex *m, bool killable)
{
	struct mutex_waiter w = { .thread = thread_current() };
	unsigned long flags = spin_lock_irqsave(&m->lock);
	uintptr_t old = __atomic_fetch_or(&m->owner, HAS_WAITERS, __ATOMIC_ACQUIRE);
	int err = 0;

	if (old == 0) { /* freed meanwhile */
		__atomic_store_n(&m->owner, (uintptr_t)w.thread, __ATOMIC_RELAXED);
		spin_unlock_irqrestore(&m->lock, flags);
		return 0;
	}
	list_add_tail(&w.link, &m->waiters);
	while (!w.granted) {
		/* First asleep, then the look: thread_notify() sets the flag, then wakes. */
		thread_prepare_sleep();
		if (killable && is_to_be_killed(w.thread)) {
			leave_queue_locked(m, &w);
			err = -EINTR;
			break;
		}
		spin_unlock_irqrestore(&m->lock, flags);
		schedule();
		flags = spin_lock_irqsave(&m->lock);
	}
	thread_cancel_sleep();
	spin_unlock_irqrestore(&m->lock, flags);
	return err;
}

void mutex_lock(struct mutex *m) __no_lock_analysis("implements the lock")
{
	lock_debug_may_sleep("mutex_lock");
	lock_debug_acquire(m, m->name, m->rank, 0);
	if (unlikely(!try_take(m)))
		(void)lock_slow(m, false);
}

int mutex_lock_killable(struct mutex *m) __no_lock_analysis("implements the lock")
{
	int err = 0;

	lock_debug_may_sleep("mutex_lock_killable");
	lock_debug_acquire(m, m->name, m->rank, 0);
	if (unlikely(!try_take(m)))
		err = lock_slow(m, true);
	if (err)
		lock_debug_release(m, m->name);
	return err;
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
