/* SPDX-License-Identifier: MIT */
/*
 * Host shim: work queues, whose threads are made on demand up to the limit and stay.
 *
 * Locking:	one POSIX mutex per queue, for its lists and counts and its items' state.
 * Invariants:	an item's function may free the item, so what runs is recorded on the worker's
 *		stack. An item never runs twice at the same time.
 */
#include <stdlib.h>
#include <unistd.h>

#include <kernel/thread.h>
#include <kernel/time.h>
#include <kernel/work.h>
#include <lib/err.h>
#include <lib/string.h>

#include "shim_priv.h"

#define WORK_PENDING 1u

struct running {
	struct list_head link;
	const struct work *work;
};

struct workqueue {
	pthread_mutex_t lock;
	pthread_cond_t changed; /* an item came, or one is done, or the end */
	struct list_head items;
	struct list_head running;
	unsigned int max_threads;
	unsigned int nr_threads;
	unsigned int nr_idle;
	bool ending;
	struct thread **threads;
	char name[THREAD_NAME_LEN];
};

static bool is_running(const struct workqueue *wq, const struct work *w)
{
	const struct running *r;

	list_for_each_entry(r, &wq->running, link) {
		if (r->work == w)
			return true;
	}
	return false;
}

/* The first item that does not run already, off the list; NULL when there is none. */
static struct work *take_item(struct workqueue *wq)
{
	struct work *w;

	list_for_each_entry(w, &wq->items, link) {
		if (!is_running(wq, w)) {
			list_del(&w->link);
			w->state = 0;
			return w;
		}
	}
	return NULL;
}

static void run_item_locked(struct workqueue *wq, struct work *w)
{
	void (*fn)(struct work *w) = w->fn;
	struct running r = { .work = w };

	list_add(&r.link, &wq->running);
	pthread_mutex_unlock(&wq->lock);
	fn(w);
	pthread_mutex_lock(&wq->lock);
	list_del(&r.link);
	pthread_cond_broadcast(&wq->changed);
}

static void worker(void *arg)
{
	struct workqueue *wq = arg;

	pthread_mutex_lock(&wq->lock);
	for (;;) {
		struct work *w = take_item(wq);

		if (w) {
			run_item_locked(wq, w);
			continue;
		}
		if (wq->ending && list_empty(&wq->items))
			break;
		wq->nr_idle++;
		pthread_cond_wait(&wq->changed, &wq->lock);
		wq->nr_idle--;
	}
	pthread_mutex_unlock(&wq->lock);
}

void work_init(struct work *w, void (*fn)(struct work *w))
{
	*w = (struct work){ .fn = fn };
	list_init(&w->link);
}

/* @wq's lock is held, or nobody else knows it yet. */
static bool add_thread(struct workqueue *wq)
{
	struct thread *t = thread_create(wq->name, worker, wq);

	if (IS_ERR(t))
		return false;
	wq->threads[wq->nr_threads++] = t;
	return true;
}

struct workqueue *workqueue_create_prio(const char *name, unsigned int max_threads,
					unsigned int prio)
{
	struct workqueue *wq = calloc(1, sizeof(*wq));

	(void)prio;
	if (!wq)
		return ERR_PTR(-ENOMEM);
	wq->threads = calloc(max_threads, sizeof(struct thread *));
	if (!wq->threads) {
		free(wq);
		return ERR_PTR(-ENOMEM);
	}
	pthread_mutex_init(&wq->lock, NULL);
	shim_cond_init(&wq->changed);
	list_init(&wq->items);
	list_init(&wq->running);
	wq->max_threads = max_threads;
	strlcpy(wq->name, name, sizeof(wq->name));
	if (!add_thread(wq)) {
		free(wq->threads);
		free(wq);
		return ERR_PTR(-ENOMEM);
	}
	return wq;
}

struct workqueue *workqueue_create(const char *name, unsigned int max_threads)
{
	return workqueue_create_prio(name, max_threads, THREAD_PRIO_NORMAL);
}

void workqueue_destroy(struct workqueue *wq)
{
	pthread_mutex_lock(&wq->lock);
	wq->ending = true;
	pthread_cond_broadcast(&wq->changed);
	pthread_mutex_unlock(&wq->lock);
	for (unsigned int i = 0; i < wq->nr_threads; i++)
		thread_join(wq->threads[i]);
	pthread_cond_destroy(&wq->changed);
	pthread_mutex_destroy(&wq->lock);
	free(wq->threads);
	free(wq);
}

bool work_queue(struct workqueue *wq, struct work *w)
{
	bool queued = false;

	pthread_mutex_lock(&wq->lock);
	if (w->state != WORK_PENDING) {
		queued = true;
		w->state = WORK_PENDING;
		w->wq = wq;
		list_add_tail(&w->link, &wq->items);
		if (wq->nr_idle == 0 && wq->nr_threads < wq->max_threads)
			(void)add_thread(wq);
		pthread_cond_broadcast(&wq->changed);
	}
	pthread_mutex_unlock(&wq->lock);
	return queued;
}

void work_flush(struct work *w)
{
	struct workqueue *wq = w->wq;

	if (!wq) /* never queued */
		return;
	shim_check_may_sleep("work_flush");
	pthread_mutex_lock(&wq->lock);
	while (w->state == WORK_PENDING || is_running(wq, w))
		pthread_cond_wait(&wq->changed, &wq->lock);
	pthread_mutex_unlock(&wq->lock);
}

static bool is_idle(struct workqueue *wq)
{
	bool idle;

	pthread_mutex_lock(&wq->lock);
	idle = list_empty(&wq->items) && list_empty(&wq->running);
	pthread_mutex_unlock(&wq->lock);
	return idle;
}

bool workqueue_flush(struct workqueue *wq, uint64_t deadline_ns)
{
	bool idle;

	shim_check_may_sleep("workqueue_flush");
	while (!(idle = is_idle(wq)) && time_now_ns() < deadline_ns)
		usleep(100);
	return idle;
}

bool work_cancel(struct work *w)
{
	struct workqueue *wq = w->wq;
	bool was;

	if (!wq)
		return false;
	pthread_mutex_lock(&wq->lock);
	was = w->state == WORK_PENDING;
	if (was) {
		list_del(&w->link);
		w->state = 0;
		pthread_cond_broadcast(&wq->changed);
	}
	pthread_mutex_unlock(&wq->lock);
	return was;
}
