/* SPDX-License-Identifier: MIT */
/*
 * Work queues.
 *
 * Flow:	Threads: a worker that is about to run an item first makes sure that another
 *		one is idle, or makes one, up to max_threads; so work_queue() never has to
 *		create a thread and may be called from interrupts.  Workers beyond two
 *		end after IDLE_NS without work.
 * Locking:	wq->lock guards everything; it is dropped while an item runs.
 * Invariants:	a handler may free its own struct work, so after the call only its
 *		address is compared, never read.
 */
#include <kernel/work.h>

#include <kernel/lock_debug.h>
#include <kernel/panic.h>
#include <kernel/spinlock.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <kernel/wait.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <mm/slab.h>

#define IDLE_NS      (5 * NSEC_PER_SEC)
#define KEEP_IDLE    2u
#define WORK_PENDING 1u

struct worker {
	struct list_head link; /* wq->workers */
	struct work *current;  /* item it runs */
};

struct workqueue {
	struct spinlock lock; /* RANK_WORK */
	struct list_head pending __guarded_by(&lock);
	struct list_head workers __guarded_by(&lock);
	unsigned int nr_workers __guarded_by(&lock);
	unsigned int nr_idle __guarded_by(&lock);
	bool stopping __guarded_by(&lock);
	unsigned int max;      /* const */
	unsigned int prio;     /* const */
	struct waitqueue more; /* idle workers */
	struct waitqueue done; /* flushers */
	char name[THREAD_NAME_LEN];
};

void work_init(struct work *w, void (*fn)(struct work *w))
{
	list_init(&w->link);
	w->fn = fn;
	w->wq = NULL;
	w->state = 0;
}

static bool running_locked(const struct workqueue *wq, const struct work *w) __must_hold(&wq->lock)
{
	const struct worker *k;

	assert_spin_held(&wq->lock);
	list_for_each_entry(k, &wq->workers, link) {
		if (k->current == w)
			return true;
	}
	return false;
}

/* The first item that nobody is running; an item never runs beside itself. */
static struct work *take_locked(struct workqueue *wq) __must_hold(&wq->lock)
{
	struct work *w;

	assert_spin_held(&wq->lock);
	list_for_each_entry(w, &wq->pending, link) {
		ASSERT(w->state == WORK_PENDING && w->wq == wq);
		if (running_locked(wq, w))
			continue;
		list_del(&w->link);
		w->state = 0;
		return w;
	}
	return NULL;
}

static int spawn_worker(struct workqueue *wq);

/* Another worker would help, and may be made: reserve its place. */
static bool want_worker_locked(struct workqueue *wq) __must_hold(&wq->lock)
{
	assert_spin_held(&wq->lock);
	ASSERT(wq->nr_idle <= wq->nr_workers && wq->nr_workers <= wq->max);
	if (wq->nr_idle || wq->nr_workers >= wq->max || wq->stopping)
		return false;
	wq->nr_workers++;
	return true;
}

static void run_item(struct workqueue *wq, struct worker *self, struct work *w,
		     unsigned long *flags) __must_hold(&wq->lock)
{
	self->current = w;
	if (want_worker_locked(wq)) {
		spin_unlock_irqrestore(&wq->lock, *flags);
		if (spawn_worker(wq)) { /* out of memory: later items wait for us */
			*flags = spin_lock_irqsave(&wq->lock);
			wq->nr_workers--;
			spin_unlock_irqrestore(&wq->lock, *flags);
		}
	} else {
		spin_unlock_irqrestore(&wq->lock, *flags);
	}
	w->fn(w);
	*flags = spin_lock_irqsave(&wq->lock);
	self->current = NULL;
	wake_all(&wq->done);
}

static bool item_ready(struct workqueue *wq)
{
	const unsigned long flags = spin_lock_irqsave(&wq->lock);
	const struct work *w;
	bool ready = wq->stopping;

	list_for_each_entry(w, &wq->pending, link) {
		if (ready || !running_locked(wq, w)) {
			ready = true;
			break;
		}
	}
	spin_unlock_irqrestore(&wq->lock, flags);
	return ready;
}

/* Wait for an item; NULL when this worker should end.  Counts as idle meanwhile. */
static struct work *next_item(struct workqueue *wq, unsigned long *flags) __must_hold(&wq->lock)
{
	for (;;) {
		struct work *w = take_locked(wq);
		bool woken;

		if (w)
			return w;
		if (wq->stopping && list_empty(&wq->pending))
			return NULL;
		wq->nr_idle++;
		spin_unlock_irqrestore(&wq->lock, *flags);
		woken = wait_event_timeout(&wq->more, item_ready(wq), time_after_ns(IDLE_NS));
		*flags = spin_lock_irqsave(&wq->lock);
		wq->nr_idle--;
		if (!woken && list_empty(&wq->pending) && wq->nr_idle >= KEEP_IDLE)
			return NULL;
	}
}

static void worker_main(void *arg)
{
	struct workqueue *wq = arg;
	struct worker self = { .current = NULL };
	unsigned long flags = spin_lock_irqsave(&wq->lock);
	struct work *w;

	list_add_tail(&self.link, &wq->workers);
	while ((w = next_item(wq, &flags)))
		run_item(wq, &self, w, &flags);
	list_del(&self.link);
	wq->nr_workers--;
	wake_all(&wq->done);
	spin_unlock_irqrestore(&wq->lock, flags);
}

static int spawn_worker(struct workqueue *wq)
{
	struct thread *t =
		thread_create_prio(wq->name, worker_main, wq, (enum thread_prio)wq->prio);

	if (IS_ERR(t))
		return (int)PTR_ERR(t);
	thread_detach(t);
	return 0;
}

struct workqueue *workqueue_create_prio(const char *name, unsigned int max_threads,
					unsigned int prio)
{
	struct workqueue *wq = kzalloc(sizeof(*wq));
	int err;

	if (!wq)
		return ERR_PTR(-ENOMEM);
	spin_lock_init(&wq->lock, name, RANK_WORK);
	list_init(&wq->pending);
	list_init(&wq->workers);
	waitqueue_init(&wq->more);
	waitqueue_init(&wq->done);
	strlcpy(wq->name, name, sizeof(wq->name));
	wq->max = MAX(max_threads, 1u);
	wq->prio = prio;
	wq->nr_workers = 1;
	err = spawn_worker(wq);
	if (err) {
		kfree(wq);
		return ERR_PTR(err);
	}
	return wq;
}

struct workqueue *workqueue_create(const char *name, unsigned int max_threads)
{
	return workqueue_create_prio(name, max_threads, THREAD_PRIO_NORMAL);
}

bool work_queue(struct workqueue *wq, struct work *w)
{
	const unsigned long flags = spin_lock_irqsave(&wq->lock);
	const bool queued = !(w->state & WORK_PENDING);

	if (queued) {
		w->state |= WORK_PENDING;
		w->wq = wq;
		list_add_tail(&w->link, &wq->pending);
		wake_one(&wq->more);
	}
	spin_unlock_irqrestore(&wq->lock, flags);
	return queued;
}

static bool work_idle(struct workqueue *wq, const struct work *w)
{
	const unsigned long flags = spin_lock_irqsave(&wq->lock);
	const bool idle = !(w->state & WORK_PENDING) && !running_locked(wq, w);

	spin_unlock_irqrestore(&wq->lock, flags);
	return idle;
}

void work_flush(struct work *w)
{
	struct workqueue *wq = READ_ONCE(w->wq);

	if (wq)
		wait_event(&wq->done, work_idle(wq, w));
}

static bool queue_idle(struct workqueue *wq)
{
	const unsigned long flags = spin_lock_irqsave(&wq->lock);
	const struct worker *k;
	bool idle = list_empty(&wq->pending);

	list_for_each_entry(k, &wq->workers, link)
		idle &= !k->current;
	spin_unlock_irqrestore(&wq->lock, flags);
	return idle;
}

bool workqueue_flush(struct workqueue *wq, uint64_t deadline_ns)
{
	return wait_event_timeout(&wq->done, queue_idle(wq), deadline_ns);
}

bool work_cancel(struct work *w)
{
	struct workqueue *wq = READ_ONCE(w->wq);
	unsigned long flags;
	bool was;

	if (!wq)
		return false;
	flags = spin_lock_irqsave(&wq->lock);
	was = w->state & WORK_PENDING;
	if (was) {
		list_del(&w->link);
		w->state = 0;
		wake_all(&wq->done);
	}
	spin_unlock_irqrestore(&wq->lock, flags);
	return was;
}

static bool workers_gone(struct workqueue *wq)
{
	const unsigned long flags = spin_lock_irqsave(&wq->lock);
	const bool gone = wq->nr_workers == 0;

	spin_unlock_irqrestore(&wq->lock, flags);
	return gone;
}

void workqueue_destroy(struct workqueue *wq)
{
	const unsigned long flags = spin_lock_irqsave(&wq->lock);

	wq->stopping = true;
	wake_all(&wq->more);
	spin_unlock_irqrestore(&wq->lock, flags);
	wait_event(&wq->done, workers_gone(wq));
	kfree(wq);
}
