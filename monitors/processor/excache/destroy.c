/* SPDX-License-Identifier: MIT */
/*
 * Deferred destroy: the homes of spaces that have ended are told later, of many in one message.
 *
 * Flow:	the end of an anonymous or shared object, or a collapse that only renames it, queues
 *		the name for its home and goes on.  A work of that home sends the names when there
 *		are DESTROY_BATCH, when the oldest has waited for DESTROY_NS, at once if owners hold
 *		pages of the space, or when a thread drains the queues.
 * Ordering:	names go to a home in the order in which they came: a space before its backing
 *		objects.  A silent home holds up no other one.
 * Locking:	table_lock for the table, which only grows; a queue's backlog for its names, which
 *		its work alone takes out; nothing is held over a message.
 * Failure:	memory of spaces in the queues can cause a false -ENOMEM: callers drain them and
 *		retry once (destroy_may_help()).  The end of a program is told after a drain as
 *		well.  A drain does not wait for a home that is silent (backlog.h).  A home that
 *		refuses frees its spaces when this processor leaves, and the log has one line.
 * Limits:	a drain does not reach what other processors have queued for the same home.
 */
#define PR_FMT "space: "

#include <kernel/counter.h>
#include <kernel/printk.h>
#include <kernel/time.h>
#include <kernel/timer.h>
#include <kernel/work.h>
#include <lib/err.h>
#include <lib/radix.h>
#include <mm/slab.h>

#include "backlog.h"
#include "cache_private.h"
#include "home.h"

#define DESTROY_BATCH   16u
#define DESTROY_NS      (50 * NSEC_PER_MSEC)
#define DESTROY_THREADS 64u /* homes that are told at the same time */

COUNTER(destroy_messages, "destroy.messages", "requests that told a home of spaces that ended");
COUNTER(destroy_spaces, "destroy.spaces", "spaces that those requests named");
COUNTER(destroy_drains, "destroy.drains", "times that somebody waited until all were told");
COUNTER(destroy_silent, "destroy.silent", "of these, without an end, as a home was silent");

struct deferred_destroy {
	struct backlog_item item;
	struct destroy_queue *to;
	uint64_t id;
};

struct destroy_queue { /* one memory node's; lives for ever: node ids are few */
	uint32_t node; /* const */
	struct backlog names;
	struct timer timer;
	struct work work;
};

static struct spinlock table_lock = SPINLOCK_INIT("space.homes", RANK_EXCACHE_FREE);
static struct radix_tree table = RADIX_TREE_INIT; /* table_lock: node id -> destroy_queue */
static struct workqueue *destroy_wq;              /* const after start */

/* The queue of the first node from @node on; NULL: there is none. */
static struct destroy_queue *queue_next(uint64_t *node)
{
	struct destroy_queue *q;

	spin_lock(&table_lock);
	q = radix_next(&table, node);
	spin_unlock(&table_lock);
	return q;
}

uint64_t destroy_waiting(void)
{
	struct destroy_queue *q;
	uint64_t node = 0, nr = 0;

	for (; (q = queue_next(&node)); node++)
		nr += backlog_size(&q->names);
	return nr;
}
GAUGE(destroy_gauge, "destroy.waiting", "spaces that ended and whose homes do not know",
      destroy_waiting);

static void destroy_timer(void *arg)
{
	struct destroy_queue *q = arg;

	(void)work_queue(destroy_wq, &q->work);
}

static void destroy_work(struct work *w);

/* NULL: no memory. */
static struct destroy_queue *queue_of(uint32_t node)
{
	uint64_t at = node;
	struct destroy_queue *q = queue_next(&at), *fresh;

	if (q && q->node == node)
		return q;
	fresh = kzalloc(sizeof(*fresh));
	if (!fresh)
		return NULL;
	fresh->node = node;
	backlog_init(&fresh->names, "space.destroy");
	timer_init(&fresh->timer, destroy_timer, fresh);
	work_init(&fresh->work, destroy_work);
	spin_lock(&table_lock);
	q = radix_lookup(&table, node);
	if (!q && radix_insert(&table, node, fresh) == 0) {
		q = fresh;
		fresh = NULL;
	}
	spin_unlock(&table_lock);
	kfree(fresh);
	return q;
}

struct deferred_destroy *destroy_alloc(uint32_t home)
{
	struct deferred_destroy *r = kzalloc(sizeof(*r));

	if (r && destroy_set_home(r, home)) {
		kfree(r);
		r = NULL;
	}
	return r;
}

int destroy_set_home(struct deferred_destroy *r, uint32_t home)
{
	r->to = queue_of(home);
	return r->to ? 0 : -ENOMEM;
}

void destroy_free(struct deferred_destroy *r)
{
	kfree(r);
}

/* The first names of @q, up to number @upto: @rs and @ids. They stay in. */
static uint32_t first_names(struct destroy_queue *q, uint64_t upto, struct deferred_destroy **rs,
			    uint64_t *ids)
{
	struct deferred_destroy *r;
	uint32_t nr = 0;

	spin_lock(&q->names.lock);
	list_for_each_entry(r, &q->names.items, item.link) {
		if (nr == HOME_DESTROY_MAX || r->item.nr > upto)
			break;
		rs[nr] = r;
		ids[nr++] = r->id;
	}
	spin_unlock(&q->names.lock);
	return nr;
}

static uint64_t last_name(struct destroy_queue *q)
{
	uint64_t last;

	spin_lock(&q->names.lock);
	last = q->names.last;
	spin_unlock(&q->names.lock);
	return last;
}

static void destroy_work(struct work *w)
{
	struct destroy_queue *q = container_of(w, struct destroy_queue, work);
	const uint64_t upto = last_name(q); /* later ones may wait for more */
	struct deferred_destroy *rs[HOME_DESTROY_MAX];
	uint64_t ids[HOME_DESTROY_MAX];
	uint32_t nr;

	backlog_begin(&q->names, true);
	while ((nr = first_names(q, upto, rs, ids))) {
		counter_inc(&destroy_messages);
		counter_add(&destroy_spaces, nr);
		home_destroy_many(q->node, ids, nr);
		for (uint32_t i = 0; i < nr; i++) {
			backlog_done(&q->names, &rs[i]->item);
			kfree(rs[i]);
		}
	}
	backlog_begin(&q->names, false);
}

void destroy_defer(struct deferred_destroy *r, uint64_t id, bool now)
{
	struct destroy_queue *q = r->to;

	r->id = id;
	if (backlog_add(&q->names, &r->item) >= DESTROY_BATCH || now)
		(void)work_queue(destroy_wq, &q->work);
	else if (!timer_pending(&q->timer))
		timer_set(&q->timer, time_now_ns() + DESTROY_NS);
}

/* Names that homes have been told, ever. */
static uint64_t names_told(void)
{
	struct destroy_queue *q;
	uint64_t node = 0, nr = 0;

	for (; (q = queue_next(&node)); node++) {
		spin_lock(&q->names.lock);
		nr += q->names.last - q->names.size;
		spin_unlock(&q->names.lock);
	}
	return nr;
}

bool destroy_drain(bool killable)
{
	const uint64_t before = names_told(); /* a work may be done before it is waited for */
	struct destroy_queue *q;
	uint64_t node;

	for (node = 0; (q = queue_next(&node)); node++) {
		if (!backlog_size(&q->names))
			continue;
		counter_inc(&destroy_drains);
		backlog_kicked(&q->names);
		(void)work_queue(destroy_wq, &q->work);
	}
	for (node = 0; (q = queue_next(&node)); node++) {
		if (backlog_wait(&q->names, killable ? WAIT_KILLABLE : WAIT_PLAIN) == -ETIMEDOUT)
			counter_inc(&destroy_silent);
	}
	return names_told() > before;
}

int destroy_init(void)
{
	destroy_wq = workqueue_create("space-destroy", DESTROY_THREADS);
	return IS_ERR(destroy_wq) ? PTR_ERR(destroy_wq) : 0;
}
