/* SPDX-License-Identifier: MIT */
/*
 * Wait queues and completions; the pattern is in wait.h.
 *
 * Locking:	wq->lock guards the lists and each waiter's woken flag, and is held over notify().
 */
#include <kernel/wait.h>

#include <kernel/lock_debug.h>
#include <kernel/thread.h>
#include <kernel/time.h>

void waitqueue_init(struct waitqueue *wq)
{
	spin_lock_init(&wq->lock, "waitqueue", RANK_WAITQUEUE);
	list_init(&wq->waiters);
	list_init(&wq->watchers);
}

static bool wake_first_locked(struct waitqueue *wq) __must_hold(&wq->lock)
{
	struct waiter *w;

	assert_spin_held(&wq->lock);
	w = list_first_entry_or_null(&wq->waiters, struct waiter, link);
	if (!w)
		return false;
	list_del(&w->link);
	w->woken = true;
	(void)thread_wake(w->thread);
	return true;
}

static void notify_watchers_locked(struct waitqueue *wq) __must_hold(&wq->lock)
{
	struct watcher *w, *tmp;
	bool taken = false;

	assert_spin_held(&wq->lock);
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
	/*
	 * Unlocking lets the caller's next loads pass the store to the list. Without this a waker
	 * that looks at the list without the lock could miss us while we miss the state that it
	 * has just changed.
	 */
	smp_mb(); /* pairs with waitqueue_active() and waitqueue_watched() */
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
	while (wake_first_locked(wq))
		;
	spin_unlock_irqrestore(&wq->lock, flags);
}

bool waitqueue_active(struct waitqueue *wq)
{
	/* the caller's stores before this look; pairs with wait_prepare(), watch_begin() */
	smp_mb();
	return waitqueue_busy_mb(wq);
}

bool waitqueue_watched(struct waitqueue *wq)
{
	smp_mb(); /* as above; pairs with watch_begin() */
	return !list_empty(&wq->watchers);
}

void wait_begin(struct waitqueue *wq, struct waiter *w)
{
	lock_debug_may_sleep("wait_event");
	list_init(&w->link);
	w->thread = thread_current();
	w->woken = false;
}

void wait_prepare(struct waitqueue *wq, struct waiter *w, unsigned int mode)
{
	const unsigned long flags = spin_lock_irqsave(&wq->lock);

	w->woken = false;
	if (list_empty(&w->link))
		list_add_tail(&w->link, &wq->waiters);
	/*
	 * Its barrier is also the one between the list and the caller's look at the condition:
	 * waitqueue_busy_mb().
	 */
	thread_prepare_sleep();
	spin_unlock_irqrestore(&wq->lock, flags);
}

int wait_sleep(struct waiter *w, unsigned int mode, uint64_t deadline_ns)
{
	struct thread *t = w->thread;

	if (__atomic_load_n(&t->flags, __ATOMIC_ACQUIRE) & mode)
		return -EINTR;
	if (deadline_ns == WAIT_FOREVER) {
		schedule();
		return 0;
	}
	if (time_now_ns() >= deadline_ns)
		return -ETIMEDOUT;
	timer_set(&t->sleep_timer, deadline_ns);
	schedule();
	(void)timer_cancel(&t->sleep_timer);
	return 0;
}

void wait_finish(struct waitqueue *wq, struct waiter *w, int err)
{
	const unsigned long flags = spin_lock_irqsave(&wq->lock);

	thread_cancel_sleep();
	list_del(&w->link);
	if (err && w->woken)
		(void)wake_first_locked(wq);
	spin_unlock_irqrestore(&wq->lock, flags);
}

void completion_init(struct completion *c)
{
	waitqueue_init(&c->wq);
	c->done = 0;
}

/*
 * Both sides hold wq.lock: a waiter that saw done == 1 without it could free
 * the completion while complete() still uses it.
 */
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
	while (wake_first_locked(&c->wq))
		;
	spin_unlock_irqrestore(&c->wq.lock, flags);
}

static bool completion_take(struct completion *c)
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
	wait_event(&c->wq, completion_take(c));
}

bool completion_wait_until(struct completion *c, uint64_t deadline_ns)
{
	return wait_event_timeout(&c->wq, completion_take(c), deadline_ns);
}

int completion_wait_killable(struct completion *c)
{
	return wait_event_killable(&c->wq, completion_take(c));
}

bool completion_done(const struct completion *c)
{
	return READ_ONCE(c->done) != 0;
}
