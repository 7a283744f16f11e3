/* SPDX-License-Identifier: MIT */
/*
 * Host shim: wait queues and completions, behind the kernel's own header and macros.
 *
 * Ordering:	a waiter is on the queue, and its poked flag clear, before it looks at the
 *		condition; a waker pokes it under the queue's lock. So a wake-up between the
 *		look and the sleep is not lost.
 */
#include <kernel/panic.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <kernel/wait.h>
#include <shim/shim.h>

#include "shim_priv.h"

void waitqueue_init(struct waitqueue *wq)
{
	spin_lock_init(&wq->lock, "waitqueue", RANK_WAITQUEUE);
	list_init(&wq->waiters);
	list_init(&wq->watchers);
}

/* Take the first waiter off and wake it; the queue's lock is held. */
static bool wake_first_locked(struct waitqueue *wq)
{
	struct waiter *w;

	if (list_empty(&wq->waiters))
		return false;
	w = list_first_entry(&wq->waiters, struct waiter, link);
	list_del(&w->link);
	w->woken = true;
	shim_poke(w->thread);
	return true;
}

static void notify_watchers_locked(struct waitqueue *wq) __must_hold(&wq->lock)
{
	struct watcher *w, *tmp;
	bool taken = false;

	list_for_each_entry_safe(w, tmp, &wq->watchers, link) {
		if (w->exclusive && taken)
			continue;
		if (w->notify(w) && w->exclusive)
			taken = true;
	}
}

void watch_begin(struct waitqueue *wq, struct watcher *w)
{
	const unsigned long flags = spin_lock_irqsave(&wq->lock);

	list_add_tail(&w->link, &wq->watchers);
	spin_unlock_irqrestore(&wq->lock, flags);
	smp_mb(); /* for wakers that look at the queue without its lock: waitqueue_busy_mb() */
}

void watch_end(struct waitqueue *wq, struct watcher *w)
{
	const unsigned long flags = spin_lock_irqsave(&wq->lock);

	list_del(&w->link);
	spin_unlock_irqrestore(&wq->lock, flags);
}

void wake_one(struct waitqueue *wq)
{
	const unsigned long flags = spin_lock_irqsave(&wq->lock);

	notify_watchers_locked(wq);
	(void)wake_first_locked(wq);
	spin_unlock_irqrestore(&wq->lock, flags);
}

void wake_all(struct waitqueue *wq)
{
	const unsigned long flags = spin_lock_irqsave(&wq->lock);

	notify_watchers_locked(wq);
	while (wake_first_locked(wq)) {
	}
	spin_unlock_irqrestore(&wq->lock, flags);
}

bool waitqueue_active(struct waitqueue *wq)
{
	const unsigned long flags = spin_lock_irqsave(&wq->lock);
	const bool active = !list_empty(&wq->waiters) || !list_empty(&wq->watchers);

	spin_unlock_irqrestore(&wq->lock, flags);
	return active;
}

bool waitqueue_watched(struct waitqueue *wq)
{
	const unsigned long flags = spin_lock_irqsave(&wq->lock);
	const bool watched = !list_empty(&wq->watchers);

	spin_unlock_irqrestore(&wq->lock, flags);
	return watched;
}

void wait_begin(struct waitqueue *wq, struct waiter *w)
{
	(void)wq;
	shim_check_may_sleep("wait_event");
	list_init(&w->link);
	w->thread = thread_current();
	w->woken = false;
}

void wait_prepare(struct waitqueue *wq, struct waiter *w, unsigned int mode)
{
	unsigned long flags;

	(void)mode;
	flags = spin_lock_irqsave(&wq->lock);
	pthread_mutex_lock(&w->thread->sleep_lock);
	w->thread->poked = false;
	pthread_mutex_unlock(&w->thread->sleep_lock);
	w->woken = false;
	if (list_empty(&w->link))
		list_add_tail(&w->link, &wq->waiters);
	spin_unlock_irqrestore(&wq->lock, flags);
	smp_mb(); /* as in watch_begin() */
}

static bool interrupted(const struct thread *t, unsigned int mode)
{
	const uint32_t flags = __atomic_load_n(&t->flags, __ATOMIC_SEQ_CST);

	if ((flags & THREAD_F_KILL) && (mode & WAIT_KILLABLE))
		return true;
	return (flags & THREAD_F_SIGNAL) && mode == WAIT_INTERRUPTIBLE;
}

int wait_sleep(struct waiter *w, unsigned int mode, uint64_t deadline_ns)
{
	struct thread *t = w->thread;
	bool poked;

	pthread_mutex_lock(&t->sleep_lock);
	t->waits_killable = mode & WAIT_KILLABLE;
	if (!interrupted(t, mode))
		shim_sleep_locked(t, deadline_ns);
	t->waits_killable = false;
	poked = t->poked;
	pthread_mutex_unlock(&t->sleep_lock);
	if (interrupted(t, mode))
		return -EINTR;
	return poked ? 0 : -ETIMEDOUT;
}

void shim_set_waits_killable(struct thread *t, bool waits)
{
	pthread_mutex_lock(&t->sleep_lock);
	t->waits_killable = waits;
	if (waits)
		t->poked = false; /* by an earlier waker */
	pthread_mutex_unlock(&t->sleep_lock);
}

bool shim_thread_waits_killable(struct thread *t)
{
	bool waits;

	pthread_mutex_lock(&t->sleep_lock);
	waits = t->waits_killable && !t->poked;
	pthread_mutex_unlock(&t->sleep_lock);
	return waits;
}

void wait_finish(struct waitqueue *wq, struct waiter *w, int err)
{
	const unsigned long flags = spin_lock_irqsave(&wq->lock);

	list_del(&w->link);
	if (err && w->woken) /* it came too late for this one */
		(void)wake_first_locked(wq);
	spin_unlock_irqrestore(&wq->lock, flags);
}

void completion_init(struct completion *c)
{
	waitqueue_init(&c->wq);
	c->done = 0;
}

void complete(struct completion *c)
{
	const unsigned long flags = spin_lock_irqsave(&c->wq.lock);

	if (c->done != UINT32_MAX)
		c->done++;
	(void)wake_first_locked(&c->wq);
	spin_unlock_irqrestore(&c->wq.lock, flags);
}

void complete_all(struct completion *c)
{
	const unsigned long flags = spin_lock_irqsave(&c->wq.lock);

	c->done = UINT32_MAX;
	while (wake_first_locked(&c->wq)) {
	}
	spin_unlock_irqrestore(&c->wq.lock, flags);
}

/* Take one of the completions; under the queue's lock, so that complete() is over on return. */
static bool take_done(struct completion *c)
{
	const unsigned long flags = spin_lock_irqsave(&c->wq.lock);
	const bool done = c->done != 0;

	if (done && c->done != UINT32_MAX)
		c->done--;
	spin_unlock_irqrestore(&c->wq.lock, flags);
	return done;
}

void completion_wait(struct completion *c)
{
	wait_event(&c->wq, take_done(c));
}

bool completion_wait_until(struct completion *c, uint64_t deadline_ns)
{
	return wait_event_timeout(&c->wq, take_done(c), deadline_ns);
}

int completion_wait_killable(struct completion *c)
{
	return wait_event_killable(&c->wq, take_done(c));
}

bool completion_done(const struct completion *c)
{
	return __atomic_load_n(&c->done, __ATOMIC_ACQUIRE) != 0;
}
