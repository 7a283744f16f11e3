/* SPDX-License-Identifier: MIT */
/*
 * Deferred destroy: the homes of spaces that have ended are told later, of many in one message.
 *
 * Flow:	the end of an anonymous object, or a collapse that only renames it, queues the
 *		name here and goes on.  A worker sends the names when there are DESTROY_BATCH, when
 *		the oldest has waited for DESTROY_NS, at once if owners hold pages of the space, or
 *		when a thread drains the queue.
 * Ordering:	names go to a home in the order in which they came: a space before its backing
 *		objects.
 * Locking:	deferred.lock for the queue and the counts; nothing is held over a message.
 * Failure:	memory of spaces in the queue can cause a false -ENOMEM: callers drain the queue
 *		and retry once (destroy_may_help()).  The end of a program is told after a drain as
 *		well.  A home that is out of reach frees its spaces with our lease, and the log has
 *		one line.
 * Limits:	a drain does not reach what other processors have queued for the same home.
 */
#define PR_FMT "space: "

#include <kernel/counter.h>
#include <kernel/printk.h>
#include <kernel/time.h>
#include <kernel/timer.h>
#include <kernel/wait.h>
#include <kernel/work.h>
#include <lib/err.h>
#include <mm/slab.h>

#include "cache_private.h"
#include "home.h"

#define DESTROY_BATCH 16u
#define DESTROY_NS    (50 * NSEC_PER_MSEC)

COUNTER(destroy_messages, "destroy.messages", "requests that told a home of spaces that ended");
COUNTER(destroy_spaces, "destroy.spaces", "spaces that those requests named");
COUNTER(destroy_drains, "destroy.drains", "times that somebody waited until all were told");

struct deferred_destroy {
	struct list_head link;
	uint64_t id;
	uint32_t home;
};

static struct {
	struct spinlock lock;                       /* RANK_SPIN_MONITOR */
	struct list_head queue __guarded_by(&lock); /* oldest first */
	uint64_t nr_queued __guarded_by(&lock);     /* ever */
	uint64_t nr_told __guarded_by(&lock);       /* of these, the first so many are told */
	struct waitqueue told;
	struct timer timer;
	struct work work;
	struct workqueue *wq; /* const after start */
} deferred;

static uint64_t destroy_waiting(void)
{
	uint64_t nr;

	spin_lock(&deferred.lock);
	nr = deferred.nr_queued - deferred.nr_told;
	spin_unlock(&deferred.lock);
	return nr;
}
GAUGE(destroy_gauge, "destroy.waiting", "spaces that ended and whose homes do not know",
      destroy_waiting);

struct deferred_destroy *destroy_alloc(void)
{
	return kzalloc(sizeof(struct deferred_destroy));
}

void destroy_free(struct deferred_destroy *r)
{
	kfree(r);
}

/* Names of one home, from the front of @list on. */
static uint32_t take_names(struct list_head *list, uint32_t *home, uint64_t *ids)
{
	struct deferred_destroy *r, *tmp;
	uint32_t nr = 0;

	*home = list_first_entry(list, struct deferred_destroy, link)->home;
	list_for_each_entry_safe(r, tmp, list, link) {
		if (r->home != *home || nr == HOME_DESTROY_MAX)
			continue;
		ids[nr++] = r->id;
		list_del(&r->link);
		kfree(r);
	}
	return nr;
}

static void tell_all(struct list_head *list)
{
	uint64_t ids[HOME_DESTROY_MAX];

	while (!list_empty(list)) {
		uint32_t home;
		const uint32_t nr = take_names(list, &home, ids);

		counter_inc(&destroy_messages);
		counter_add(&destroy_spaces, nr);
		home_destroy_many(home, ids, nr);
	}
}

static void destroy_work(struct work *w)
{
	struct list_head list;
	uint64_t upto;

	list_init(&list);
	spin_lock(&deferred.lock);
	list_splice_tail(&deferred.queue, &list);
	list_init(&deferred.queue);
	upto = deferred.nr_queued;
	spin_unlock(&deferred.lock);
	tell_all(&list);
	spin_lock(&deferred.lock);
	deferred.nr_told = upto; /* the queue has one worker */
	spin_unlock(&deferred.lock);
	wake_all(&deferred.told);
}

static void destroy_timer(void *arg)
{
	(void)work_queue(deferred.wq, &deferred.work);
}

void destroy_defer(struct deferred_destroy *r, uint32_t home, uint64_t id, bool now)
{
	uint64_t waiting;

	r->home = home;
	r->id = id;
	spin_lock(&deferred.lock);
	list_add_tail(&r->link, &deferred.queue);
	waiting = ++deferred.nr_queued - deferred.nr_told;
	spin_unlock(&deferred.lock);
	if (now || waiting >= DESTROY_BATCH)
		(void)work_queue(deferred.wq, &deferred.work);
	else if (!timer_pending(&deferred.timer))
		timer_set(&deferred.timer, time_now_ns() + DESTROY_NS);
}

static bool told_upto(uint64_t upto)
{
	bool done;

	spin_lock(&deferred.lock);
	done = deferred.nr_told >= upto;
	spin_unlock(&deferred.lock);
	return done;
}

bool destroy_drain(void)
{
	uint64_t upto;

	spin_lock(&deferred.lock);
	upto = deferred.nr_queued;
	spin_unlock(&deferred.lock);
	if (told_upto(upto))
		return false;
	counter_inc(&destroy_drains);
	(void)work_queue(deferred.wq, &deferred.work);
	wait_event(&deferred.told, told_upto(upto));
	return true;
}

int destroy_init(void)
{
	spin_lock_init(&deferred.lock, "space.destroy", RANK_SPIN_MONITOR);
	list_init(&deferred.queue);
	waitqueue_init(&deferred.told);
	timer_init(&deferred.timer, destroy_timer, NULL);
	work_init(&deferred.work, destroy_work);
	deferred.wq = workqueue_create("space-destroy", 1);
	return IS_ERR(deferred.wq) ? PTR_ERR(deferred.wq) : 0;
}
