/* SPDX-License-Identifier: MIT */
/*
 * Priority inheritance: see inherit.h.
 */
#include "inherit.h"

#include <kernel/lock_rank.h>
#include <kernel/spinlock.h>
#include <lib/errno.h>

#include "process.h"

static struct spinlock lock = SPINLOCK_INIT("inherit", RANK_INHERIT);

void inherit_begin(void) __acquires(&lock)
{
	spin_lock(&lock);
}

void inherit_end(void) __releases(&lock)
{
	spin_unlock(&lock);
}

/* --- ranks --------------------------------------------------------------------------------- */

static unsigned int level_of(const struct run_rank *r)
{
	switch (r->fixed.order) {
	case FAIR_SHARES:
		return 0;
	case FAIR_DEADLINE:
		return 2;
	default:
		return 1;
	}
}

static bool goes_before(const struct run_rank *a, const struct run_rank *b)
{
	if (level_of(a) != level_of(b))
		return level_of(a) > level_of(b);
	switch (level_of(a)) {
	case 0:
		return a->weight > b->weight;
	case 1:
		return a->fixed.prio > b->fixed.prio;
	default:
		return a->fixed.deadline_ns < b->fixed.deadline_ns;
	}
}

static bool fixed_same(const struct fair_fixed *a, const struct fair_fixed *b)
{
	return a->order == b->order && a->prio == b->prio && a->runtime_ns == b->runtime_ns &&
	       a->deadline_ns == b->deadline_ns && a->period_ns == b->period_ns;
}

static bool weight_same(const struct run_rank *a, const struct run_rank *b)
{
	return a->weight == b->weight && a->batch == b->batch;
}

/* @to, beside which @from waits, runs as that would, if it would run first. */
static void lend(struct run_rank *to, const struct run_rank *from)
{
	const uint8_t order = to->fixed.order;

	if (!goes_before(from, to))
		return;
	switch (level_of(from)) {
	case 0:
		to->weight = from->weight;
		to->batch = from->batch;
		break;
	case 1:
		/* Only who has turns itself takes turns. */
		to->fixed = (struct fair_fixed){ .order = order == FAIR_RR ? FAIR_RR : FAIR_FIFO,
						 .prio = from->fixed.prio };
		break;
	default:
		/* Its times; what has been used up of them is each task's own. */
		to->fixed = (struct fair_fixed){ .order = FAIR_DEADLINE,
						 .runtime_ns = from->fixed.runtime_ns,
						 .deadline_ns = from->fixed.deadline_ns,
						 .period_ns = from->fixed.period_ns };
		break;
	}
}

/* The thread of @t, which ran by @was, runs by what the task has now. */
static void apply_locked(struct task *t, const struct run_rank *was, bool anew) __must_hold(&lock)
{
	const struct run_rank *now = &t->inherit.now;

	assert_spin_held(&lock);
	if (!fixed_same(&now->fixed, &was->fixed) || (anew && level_of(now)))
		thread_set_realtime(t->thread, level_of(now) ? &now->fixed : NULL);
	if (!weight_same(now, was))
		thread_set_weight(t->thread, now->weight, now->batch);
}

/* --- the graph ------------------------------------------------------------------------------- */

static struct inherit_waiter *waiter_of(struct rb_node *node)
{
	return rb_entry(node, struct inherit_waiter, node);
}

static struct inherit_waiter *first_locked(struct inherit_lock *l) __must_hold(&lock)
{
	assert_spin_held(&lock);
	return rb_entry_or_null(rb_first(&l->waiters), struct inherit_waiter, node);
}

/* Behind those of its rank. */
static void add_waiter_locked(struct inherit_lock *l, struct inherit_waiter *w) __must_hold(&lock)
{
	struct rb_node **link = &l->waiters.node, *parent = NULL;

	assert_spin_held(&lock);
	w->rank = w->task->inherit.now;
	while (*link) {
		parent = *link;
		link = goes_before(&w->rank, &waiter_of(parent)->rank) ? &parent->left
								       : &parent->right;
	}
	rb_link_node(&w->node, parent, link);
	rb_insert_color(&w->node, &l->waiters);
}

static void add_held_locked(struct task *t, struct inherit_lock *l) __must_hold(&lock)
{
	struct rb_node **link = &t->inherit.held.node, *parent = NULL;

	assert_spin_held(&lock);
	while (*link) {
		parent = *link;
		link = goes_before(&l->first, &rb_entry(parent, struct inherit_lock, held)->first)
			       ? &parent->left
			       : &parent->right;
	}
	rb_link_node(&l->held, parent, link);
	rb_insert_color(&l->held, &t->inherit.held);
}

/* @l, which had waiters or not, has those that it has now: its owner's list says so. */
static void refile_locked(struct inherit_lock *l, bool had) __must_hold(&lock)
{
	const struct inherit_waiter *w = first_locked(l);

	assert_spin_held(&lock);
	if (!l->owner)
		return;
	if (had)
		rb_erase(&l->held, &l->owner->inherit.held);
	if (!w)
		return;
	l->first = w->rank;
	add_held_locked(l->owner, l);
}

/* The rank of @t, or a rank that is lent to it, may have changed: so may those along its chain. */
static void update_locked(struct task *t, bool anew) __must_hold(&lock)
{
	assert_spin_held(&lock);
	while (t) {
		struct task_inherit *in = &t->inherit;
		const struct inherit_lock *first =
			rb_entry_or_null(rb_first(&in->held), struct inherit_lock, held);
		const struct run_rank was = in->now;
		struct inherit_lock *l;

		in->now = in->own;
		if (first)
			lend(&in->now, &first->first);
		apply_locked(t, &was, anew);
		if (!in->waits ||
		    (fixed_same(&in->now.fixed, &was.fixed) && weight_same(&in->now, &was)))
			return;
		l = in->waits->lock;
		rb_erase(&in->waits->node, &l->waiters);
		add_waiter_locked(l, in->waits);
		refile_locked(l, true);
		t = l->owner;
		anew = false;
	}
}

void inherit_init(struct task *t)
{
	t->inherit = (struct task_inherit){ .own.weight = FAIR_WEIGHT_MEAN,
					    .now.weight = FAIR_WEIGHT_MEAN,
					    .held = RB_ROOT };
}

void inherit_set_own(struct task *t, const struct run_rank *own, bool anew)
{
	inherit_begin();
	t->inherit.own = *own;
	update_locked(t, anew);
	inherit_end();
}

void inherit_lent(const struct task *t, struct run_rank *now)
{
	const struct task_inherit *in = &t->inherit;

	*now = (struct run_rank){ 0 };
	inherit_begin();
	if (!fixed_same(&in->now.fixed, &in->own.fixed) || !weight_same(&in->now, &in->own))
		*now = in->now;
	inherit_end();
}

/* --- locks ------------------------------------------------------------------------------------ */

int inherit_lock_init(struct inherit_lock *l, struct task *owner)
{
	int err;

	*l = (struct inherit_lock){ .owner = owner, .waiters = RB_ROOT };
	inherit_begin();
	err = owner->inherit.closed ? -ESRCH : 0;
	inherit_end();
	return err;
}

void inherit_lock_end(struct inherit_lock *l)
{
	inherit_begin();
	ASSERT(rb_empty(&l->waiters));
	l->owner = NULL;
	inherit_end();
}

struct inherit_waiter *inherit_first(struct inherit_lock *l)
{
	struct inherit_waiter *w;

	inherit_begin();
	w = first_locked(l);
	inherit_end();
	return w;
}

/* Would @t wait for itself, or at the end of a chain that is too long? */
static bool closes_circle_locked(const struct inherit_lock *l, const struct task *t)
	__must_hold(&lock)
{
	assert_spin_held(&lock);
	for (int depth = 0; depth < INHERIT_DEPTH; depth++) {
		if (l->owner == t)
			return true;
		if (!l->owner || !l->owner->inherit.waits)
			return false;
		l = l->owner->inherit.waits->lock;
	}
	return true;
}

int inherit_wait(struct inherit_lock *l, struct inherit_waiter *w, struct task *t)
{
	int err = 0;

	inherit_begin();
	ASSERT(!t->inherit.waits);
	if (l->owner && l->owner->inherit.closed) {
		err = -ESRCH;
	} else if (closes_circle_locked(l, t)) {
		err = -EDEADLK;
	} else {
		const bool had = !rb_empty(&l->waiters);

		w->lock = l;
		w->task = t;
		t->inherit.waits = w;
		add_waiter_locked(l, w);
		refile_locked(l, had);
		update_locked(l->owner, false);
	}
	inherit_end();
	return err;
}

void inherit_wait_end(struct inherit_waiter *w)
{
	struct inherit_lock *l = w->lock;

	inherit_begin();
	ASSERT(w->task->inherit.waits == w);
	w->task->inherit.waits = NULL;
	rb_erase(&w->node, &l->waiters);
	refile_locked(l, true);
	update_locked(l->owner, false);
	inherit_end();
}

void inherit_hand_over(struct inherit_waiter *w)
{
	struct inherit_lock *l = w->lock;
	struct task *before = l->owner;

	inherit_begin();
	ASSERT(w->task->inherit.waits == w && before != w->task);
	w->task->inherit.waits = NULL;
	rb_erase(&w->node, &l->waiters);
	if (before)
		rb_erase(&l->held, &before->inherit.held);
	l->owner = w->task;
	refile_locked(l, false);
	update_locked(w->task, false);
	update_locked(before, false);
	inherit_end();
}

struct inherit_lock *inherit_held_locked(struct task *t, bool ends)
{
	struct inherit_lock *l =
		rb_entry_or_null(rb_first(&t->inherit.held), struct inherit_lock, held);

	assert_spin_held(&lock);
	if (!l)
		t->inherit.closed |= ends;
	return l;
}
