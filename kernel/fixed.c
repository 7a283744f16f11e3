/* SPDX-License-Identifier: MIT */
/*
 * The fixed order of real-time threads in a fair queue: see fair.h.
 *
 * Flow:	a key stands in the place of a virtual deadline.  Absolute deadlines are the
 *		smallest keys, by time; then come priorities, and within one the order of coming.
 *		A thread that a higher class or a smaller key interrupts keeps its key, so it goes
 *		on before others of its priority.
 *		SCHED_DEADLINE is a constant bandwidth server: a thread that has used up its runtime
 *		gets the next period's, with that period's deadline, at once.  When all that are
 *		runnable have got ahead of the time like this, their deadlines come back together:
 *		time that no other server wanted costs nothing later, and one that comes then finds
 *		them as if they had just begun.
 * Limits:	Linux stops such a thread until the next period begins; here it goes on behind those
 *		with earlier deadlines, if there are any.
 */
#include <kernel/fair.h>
#include <lib/assert.h>
#include <lib/compiler.h>

#define CAME_BITS 48

static int64_t deadline_key(const struct fair_entity *e)
{
	return (int64_t)(e->fixed.until_ns - (1ull << 62));
}

static void to_the_end(struct fair_queue *q, struct fair_entity *e)
{
	const int64_t level = FAIR_PRIO_MAX - e->fixed.prio;

	ASSERT(e->fixed.prio >= 1 && e->fixed.prio <= FAIR_PRIO_MAX);
	e->deadline = (int64_t)(((uint64_t)level << CAME_BITS) +
				(q->nr_came++ & ((1ull << CAME_BITS) - 1)));
	e->fixed.left_ns = FAIR_RR_NS;
}

/* The runtime of so many periods more than those that have been used up. */
static void next_period(struct fair_entity *e, uint64_t periods)
{
	struct fair_fixed *f = &e->fixed;

	f->until_ns += periods * f->period_ns;
	e->deadline = deadline_key(e);
}

void fixed_wake(struct fair_entity *e, uint64_t now_ns)
{
	struct fair_fixed *f = &e->fixed;

	if (f->order != FAIR_DEADLINE)
		return;
	if (f->until_ns > now_ns &&
	    (unsigned __int128)f->left_ns * f->deadline_ns <=
		    (unsigned __int128)f->runtime_ns * (f->until_ns - now_ns))
		return;
	f->until_ns = now_ns + f->deadline_ns;
	f->left_ns = f->runtime_ns;
}

void fixed_join(struct fair_queue *q, struct fair_entity *e)
{
	e->age = 0;
	if (e->fixed.order == FAIR_DEADLINE)
		e->deadline = deadline_key(e);
	else
		to_the_end(q, e);
}

void fixed_charge(struct fair_queue *q, struct fair_entity *e, uint64_t ns)
{
	struct fair_fixed *f = &e->fixed;
	uint64_t over;

	if (f->order == FAIR_FIFO)
		return;
	if (ns < f->left_ns) {
		f->left_ns -= ns;
		return;
	}
	over = ns - f->left_ns;
	q->is_due = true;
	if (f->order == FAIR_RR) {
		to_the_end(q, e);
	} else {
		next_period(e, over / f->runtime_ns + 1);
		f->left_ns = f->runtime_ns - over % f->runtime_ns;
	}
}

/* How far the period of @e whose runtime it uses begins after @now_ns; 0: it has begun. */
static uint64_t ahead_ns(const struct fair_entity *e, uint64_t now_ns)
{
	const uint64_t begins = now_ns + e->fixed.period_ns;

	return e->fixed.until_ns > begins ? e->fixed.until_ns - begins : 0;
}

static struct fair_entity *server_or_null(struct fair_entity *e)
{
	return e && e->fixed.order == FAIR_DEADLINE ? e : NULL;
}

void fixed_settle(struct fair_queue *q, uint64_t now_ns)
{
	struct fair_entity *e = server_or_null(q->curr);
	uint64_t ahead = e ? ahead_ns(e, now_ns) : 0;

	/* Servers come first in the queue. */
	for (e = server_or_null(fair_first(q)); e && ahead; e = server_or_null(fair_next(e)))
		ahead = MIN(ahead, ahead_ns(e, now_ns));
	if (!ahead)
		return;
	/* All by the same time: their order stays. */
	q->curr->fixed.until_ns -= ahead;
	q->curr->deadline = deadline_key(q->curr);
	for (e = server_or_null(fair_first(q)); e; e = server_or_null(fair_next(e))) {
		e->fixed.until_ns -= ahead;
		e->deadline = deadline_key(e);
	}
}

void fixed_yield(struct fair_queue *q, struct fair_entity *e)
{
	if (e->fixed.order != FAIR_DEADLINE) {
		to_the_end(q, e);
		return;
	}
	next_period(e, 1);
	e->fixed.left_ns = e->fixed.runtime_ns;
}

uint64_t fixed_left_ns(const struct fair_entity *e)
{
	return e->fixed.order == FAIR_FIFO ? UINT64_MAX : e->fixed.left_ns;
}
