/* SPDX-License-Identifier: MIT */
/*
 * The fixed order of real-time threads in a fair queue: see fair.h.
 *
 * Flow:	a key stands in the place of a virtual deadline.  Absolute deadlines are the
 *		smallest keys, by time; then come priorities, and within one the order of coming.
 *		A thread that a higher class or a smaller key interrupts keeps its key, so it goes
 *		on before others of its priority.
 *		SCHED_DEADLINE is a constant bandwidth server: a thread that has used up its runtime
 *		gets the next period's, with that period's deadline, at once.
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
