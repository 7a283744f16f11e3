/* SPDX-License-Identifier: MIT */
/*
 * Spaces that nobody uses any more: their homes are told later, of many in one message.
 *
 * Flow:	the end of an anonymous object, or a merge that only renames it, puts its name here and goes on;
 *		a worker sends the names when there are RETIRE_BATCH, when the oldest has waited RETIRE_NS,
 *		at once if the owners hold pages of the space, or when somebody waits.
 * Order:	names go to a home in the order in which they came: a space before the objects behind it.
 * Truth:	memory that is promised to spaces in here must make no request fail: who is answered -ENOMEM
 *		calls retire_drain() and asks again.  A program's end is told after a drain, too.
 *		What other processors hold back of the same home is free only when they have told it.
 * Locking:	retire.lock for the queue and the counts; nothing is held over a message.
 * Failure:	a home that is out of reach frees its spaces with our lease: one line in the log.
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

#define RETIRE_BATCH 16u
#define RETIRE_NS    (50 * NSEC_PER_MSEC)

COUNTER(retire_messages, "retire.messages", "requests that told a home of spaces that ended");
COUNTER(retire_spaces, "retire.spaces", "spaces that those requests named");
COUNTER(retire_drains, "retire.drains", "times that somebody waited until all were told");

struct retired {
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
} retire;

static uint64_t retire_waiting(void)
{
	uint64_t nr;

	spin_lock(&retire.lock);
	nr = retire.nr_queued - retire.nr_told;
	spin_unlock(&retire.lock);
	return nr;
}
GAUGE(retire_gauge, "retire.waiting", "spaces that ended and whose homes do not know",
      retire_waiting);

struct retired *retired_alloc(void)
{
	return kzalloc(sizeof(struct retired));
}

void retired_free(struct retired *r)
{
	kfree(r);
}

/* Names of one home, from the front of @list on. */
static uint32_t take_names(struct list_head *list, uint32_t *home, uint64_t *ids)
{
	struct retired *r, *tmp;
	uint32_t nr = 0;

	*home = list_first_entry(list, struct retired, link)->home;
	list_for_each_entry_safe(r, tmp, list, link) {
		if (r->home != *home || nr == PM_DESTROY_MAX)
			continue;
		ids[nr++] = r->id;
		list_del(&r->link);
		kfree(r);
	}
	return nr;
}

static void tell_all(struct list_head *list)
{
	uint64_t ids[PM_DESTROY_MAX];

	while (!list_empty(list)) {
		uint32_t home;
		const uint32_t nr = take_names(list, &home, ids);

		counter_inc(&retire_messages);
		counter_add(&retire_spaces, nr);
		home_destroy_many(home, ids, nr);
	}
}

static void retire_work(struct work *w)
{
	struct list_head list;
	uint64_t upto;

	list_init(&list);
	spin_lock(&retire.lock);
	list_splice_tail(&retire.queue, &list);
	list_init(&retire.queue);
	upto = retire.nr_queued;
	spin_unlock(&retire.lock);
	tell_all(&list);
	spin_lock(&retire.lock);
	retire.nr_told = upto; /* the queue has one worker */
	spin_unlock(&retire.lock);
	wake_all(&retire.told);
}

static void retire_timer(void *arg)
{
	(void)work_queue(retire.wq, &retire.work);
}

void retire_space(struct retired *r, uint32_t home, uint64_t id, bool now)
{
	uint64_t waiting;

	r->home = home;
	r->id = id;
	spin_lock(&retire.lock);
	list_add_tail(&r->link, &retire.queue);
	waiting = ++retire.nr_queued - retire.nr_told;
	spin_unlock(&retire.lock);
	if (now || waiting >= RETIRE_BATCH)
		(void)work_queue(retire.wq, &retire.work);
	else if (!timer_pending(&retire.timer))
		timer_set(&retire.timer, time_now_ns() + RETIRE_NS);
}

static bool told_upto(uint64_t upto)
{
	bool done;

	spin_lock(&retire.lock);
	done = retire.nr_told >= upto;
	spin_unlock(&retire.lock);
	return done;
}

bool retire_drain(void)
{
	uint64_t upto;

	spin_lock(&retire.lock);
	upto = retire.nr_queued;
	spin_unlock(&retire.lock);
	if (told_upto(upto))
		return false;
	counter_inc(&retire_drains);
	(void)work_queue(retire.wq, &retire.work);
	wait_event(&retire.told, told_upto(upto));
	return true;
}

int retire_init(void)
{
	spin_lock_init(&retire.lock, "space.retire", RANK_SPIN_MONITOR);
	list_init(&retire.queue);
	waitqueue_init(&retire.told);
	timer_init(&retire.timer, retire_timer, NULL);
	work_init(&retire.work, retire_work);
	retire.wq = workqueue_create("space-retire", 1);
	return IS_ERR(retire.wq) ? PTR_ERR(retire.wq) : 0;
}
