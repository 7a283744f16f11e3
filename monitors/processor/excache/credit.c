/* SPDX-License-Identifier: MIT */
/*
 * Frame credits in hand, one count per memory node.
 *
 * Flow:	a request that goes to a node anyway asks for CHUNK frames when fewer than LOW are
 *		in hand.  When an address space ends, credits of a node beyond KEEP go back to it,
 *		for other processors to use.
 * Invariants:	a credit is in hand, or held by one p-local line, or was used up by a write-back
 *		that the owner has acknowledged.
 * Locking:	table_lock guards the table, which only grows; hints find most entries without
 *		it; counts are atomic; one thread at a time asks a node (credit.asking), so that a
 *		crowd of first touches sends one message; the wait for its turn is killable.
 */
#include "credit.h"

#include <kernel/counter.h>
#include <kernel/spinlock.h>
#include <kernel/time.h>
#include <kernel/wait.h>
#include <lib/atomic.h>
#include <lib/errno.h>
#include <lib/radix.h>
#include <mm/slab.h>

#include "object.h"
#include "owner.h"

#define CREDIT_LOW   256
#define CREDIT_CHUNK 1024
#define CREDIT_KEEP  2048

#define ASK_AGAIN_NS (10 * NSEC_PER_MSEC) /* a node that is making room */

COUNTER(credit_requests, "credit.requests", "synchronous requests for frame credits");
COUNTER(credit_waits, "credit.waits", "waits for a memory node that was making room");
COUNTER(credit_refused, "credit.refused", "requests that a memory node could not grant");
GAUGE(credit_gauge, "credit.held", "frame credits in hand", credit_held);

static struct spinlock table_lock = SPINLOCK_INIT("credit.table", RANK_EXCACHE_FREE);
static struct radix_tree table = RADIX_TREE_INIT;      /* node id -> struct credit */
static struct waitqueue turns = WAITQUEUE_INIT(turns); /* woken when credit.asking ends */

static struct waitqueue came = WAITQUEUE_INIT(came); /* woken when a grant has come */

struct credit *credit_hints[CREDIT_HINTS];

/* NULL: no memory. */
static struct credit *credit_find(uint32_t node)
{
	struct credit *c, *fresh;

	spin_lock(&table_lock);
	c = radix_lookup(&table, node);
	spin_unlock(&table_lock);
	if (c)
		return c;
	fresh = kzalloc(sizeof(*fresh));
	if (!fresh)
		return NULL;
	fresh->node = node;
	spin_lock(&table_lock);
	c = radix_lookup(&table, node);
	if (!c && radix_insert(&table, node, fresh) == 0) {
		c = fresh;
		fresh = NULL;
	}
	spin_unlock(&table_lock);
	kfree(fresh);
	return c;
}

static inline struct credit *credit_of(uint32_t node)
{
	struct credit *c = credit_hint(node);

	if (likely(c))
		return c;
	c = credit_find(node);
	if (c)
		__atomic_store_n(&credit_hints[node % CREDIT_HINTS], c, __ATOMIC_RELEASE);
	return c;
}

/* Ask @node now. 0 when it granted something. */
static int request(uint32_t node)
{
	uint32_t frames;
	int ret;

	counter_inc(&credit_requests);
	ret = owner_credit_take(node, CREDIT_CHUNK, &frames);
	if (ret < 0) {
		counter_inc(&credit_refused);
		return ret;
	}
	credit_add(&(struct granted){ .node = node, .frames = frames });
	return 0;
}

/*
 * @c's node has no frame left just now and is about to make some. Spaces that have ended may hold
 * some; else it is asked again after a while. -EINTR: the thread is to be killed.
 */
static int wait_for_frames(struct credit *c)
{
	int err;

	counter_inc(&credit_waits);
	if (destroy_drain(true))
		return 0;
	err = wait_event_killable_timeout(&came, atomic64_read(&c->frames) > 0,
					  time_now_ns() + ASK_AGAIN_NS);
	return err == -ETIMEDOUT ? 0 : err;
}

static int turn_take(struct credit *c)
{
	return wait_event_killable(&turns,
				   !__atomic_exchange_n(&c->asking, true, __ATOMIC_ACQUIRE));
}

static void turn_give(struct credit *c)
{
	__atomic_store_n(&c->asking, false, __ATOMIC_RELEASE);
	wake_all(&turns);
}

int credit_take(uint32_t node)
{
	struct credit *c = credit_of(node);
	int err = 0;

	if (!c)
		return -ENOMEM;
	while (!credit_try(c)) {
		err = turn_take(c);
		if (err)
			return err;
		/* Somebody may have asked while we waited for our turn. */
		if (atomic64_read(&c->frames) <= 0)
			err = request(node);
		if (destroy_may_help(err))
			err = atomic64_read(&c->frames) > 0 ? 0 : request(node);
		turn_give(c);
		if (err == -EAGAIN)
			err = wait_for_frames(c);
		if (err)
			return err;
	}
	return 0;
}

void credit_add(const struct granted *g)
{
	struct credit *c;

	if (g->node == 0 || g->frames == 0)
		return;
	c = credit_of(g->node);
	if (!c)
		return;
	atomic64_add(&c->frames, g->frames);
	if (waitqueue_active(&came))
		wake_all(&came);
}

void credit_put_slow(uint32_t node)
{
	struct credit *c = credit_of(node);

	if (c)
		atomic64_inc(&c->frames);
}

void credit_forget(uint32_t node)
{
	struct credit *c;

	spin_lock(&table_lock);
	c = radix_lookup(&table, node);
	spin_unlock(&table_lock);
	if (c)
		atomic64_set(&c->frames, 0);
}

/* Take what @c has beyond CREDIT_KEEP; 0: nothing. */
static uint32_t take_excess(struct credit *c)
{
	int64_t old = atomic64_read(&c->frames);

	while (old > CREDIT_KEEP) {
		const int64_t seen = atomic64_cmpxchg(&c->frames, old, CREDIT_KEEP);

		if (seen == old)
			return (uint32_t)MIN(old - CREDIT_KEEP, (int64_t)UINT32_MAX);
		old = seen;
	}
	return 0;
}

static void give_back(uint32_t node, uint32_t frames)
{
	if (owner_credit_give(node, frames))
		credit_add(&(struct granted){ .node = node, .frames = frames });
}

bool credit_recall(uint32_t node)
{
	struct credit *c = credit_of(node);
	int64_t old = c ? atomic64_read(&c->frames) : 0;

	while (old > 0) {
		const int64_t seen = atomic64_cmpxchg(&c->frames, old, 0);

		if (seen == old) {
			give_back(node, (uint32_t)MIN(old, (int64_t)UINT32_MAX));
			return true;
		}
		old = seen;
	}
	return false;
}

void credit_trim_node(uint32_t node)
{
	struct credit *c = credit_of(node);
	const uint32_t excess = c ? take_excess(c) : 0;

	if (excess)
		give_back(node, excess);
}

void credit_trim(void)
{
	struct credit *c;
	uint64_t node = 0;

	for (;;) {
		spin_lock(&table_lock);
		c = radix_next(&table, &node);
		spin_unlock(&table_lock);
		if (!c)
			return;
		if (atomic64_read(&c->frames) > CREDIT_KEEP)
			destroy_trim(c->node);
		node++;
	}
}

uint32_t credit_want(uint32_t node)
{
	struct credit *c = credit_of(node);

	return c && atomic64_read(&c->frames) < CREDIT_LOW ? CREDIT_CHUNK : 0;
}

uint64_t credit_held(void)
{
	struct credit *c;
	uint64_t node, sum = 0;

	spin_lock(&table_lock);
	radix_for_each(c, &table, node)
		sum += (uint64_t)atomic64_read(&c->frames);
	spin_unlock(&table_lock);
	return sum;
}
