/* SPDX-License-Identifier: MIT */
/*
 * Reader-writer sleeping locks: a count, a writer and one queue in order of
 * arrival, all under s->lock.  Unlock grants the lock to the front of the queue:
 * one writer, or all readers up to the next writer.
 */
#include <kernel/rwsem.h>

#include <kernel/lock_debug.h>
#include <kernel/panic.h>
#include <kernel/thread.h>

struct rwsem_waiter {
	struct list_head link;
	struct thread *thread;
	bool write;
	bool granted; /* s->lock */
};

void rwsem_init(struct rwsem *s, const char *name, enum lock_rank rank)
{
	spin_lock_init(&s->lock, name, RANK_SLEEPER);
	s->readers = 0;
	s->writer = NULL;
	list_init(&s->waiters);
	s->name = name;
	s->rank = rank;
}

static bool take_locked(struct rwsem *s, bool write, struct thread *t) __must_hold(&s->lock)
{
	assert_spin_held(&s->lock);
	ASSERT(!s->writer || s->readers == 0);
	if (s->writer || (write && s->readers))
		return false;
	if (write)
		s->writer = t;
	else
		s->readers++;
	return true;
}

static void grant_locked(struct rwsem *s) __must_hold(&s->lock)
{
	assert_spin_held(&s->lock);
	while (!list_empty(&s->waiters)) {
		struct rwsem_waiter *w = list_first_entry(&s->waiters, struct rwsem_waiter, link);

		if (!take_locked(s, w->write, w->thread))
			return;
		list_del(&w->link);
		w->granted = true; /* @w stays until s->lock is dropped */
		(void)thread_wake(w->thread);
	}
}

static void lock_any(struct rwsem *s, bool write)
{
	struct rwsem_waiter w = { .thread = thread_current(), .write = write };
	unsigned long flags;

	lock_debug_may_sleep("rwsem");
	lock_debug_acquire(s, s->name, s->rank, write ? 0 : LOCK_DEBUG_SHARED);
	flags = spin_lock_irqsave(&s->lock);
	if (!list_empty(&s->waiters) || !take_locked(s, write, w.thread)) {
		list_add_tail(&w.link, &s->waiters);
		while (!w.granted) {
			thread_prepare_sleep();
			spin_unlock_irqrestore(&s->lock, flags);
			schedule();
			flags = spin_lock_irqsave(&s->lock);
		}
		thread_cancel_sleep();
	}
	spin_unlock_irqrestore(&s->lock, flags);
}

void rwsem_read_lock(struct rwsem *s) __no_lock_analysis("implements the lock")
{
	lock_any(s, false);
}

void rwsem_write_lock(struct rwsem *s) __no_lock_analysis("implements the lock")
{
	lock_any(s, true);
}

void rwsem_read_unlock(struct rwsem *s) __no_lock_analysis("implements the lock")
{
	unsigned long flags;

	lock_debug_release(s, s->name);
	flags = spin_lock_irqsave(&s->lock);
	BUG_ON(s->readers == 0);
	s->readers--;
	grant_locked(s);
	spin_unlock_irqrestore(&s->lock, flags);
}

void rwsem_write_unlock(struct rwsem *s) __no_lock_analysis("implements the lock")
{
	unsigned long flags;

	lock_debug_release(s, s->name);
	flags = spin_lock_irqsave(&s->lock);
	BUG_ON(s->writer != thread_current());
	s->writer = NULL;
	grant_locked(s);
	spin_unlock_irqrestore(&s->lock, flags);
}
