/* SPDX-License-Identifier: MIT */
/*
 * Priority inheritance: a task that holds what others wait for runs as the first of them would.
 *
 * Flow:	an inherit_lock is something that one task owns and others wait for, in the order in
 *		which they would run. Its owner is lent the rank of the first that waits, and lends
 *		its own on to the owner of what it waits for itself, through the whole chain. A rank
 *		changes when a task begins or ends to wait, when a lock has another owner, and when
 *		policy or nice value of a task on the chain change.
 * Locking:	one spinlock (RANK_INHERIT) for all of it, so that a chain is followed as it is at
 *		one moment. It is taken only when somebody has to wait, and when a policy changes.
 * Invariants:	no circle: inherit_wait() refuses the wait that would close one. Every task that
 *		owns or waits here is alive: it lets go of all before its thread ends.
 * Limits:	a wait at the end of a chain of INHERIT_DEPTH waits is refused, as on Linux.
 */
#pragma once

#include <kernel/fair.h>
#include <lib/rbtree.h>
#include <lib/types.h>

#define INHERIT_DEPTH 1024

struct task;

/* How a thread runs: its place in the fixed order, if it has one, and its weight. */
struct run_rank {
	struct fair_fixed fixed;
	uint32_t weight;
	bool batch; /* SCHED_BATCH and SCHED_IDLE: as thread_set_weight() */
};

/* Kept by a task; all of it is guarded by the lock of inherit.c. */
struct task_inherit {
	struct run_rank own, now; /* as it asked for, and with what is lent to it */
	struct rb_root held;      /* inherit_lock.held: those that it owns and others wait for */
	struct inherit_waiter *waits; /* for what it waits, or NULL */
	bool closed;                  /* it ends: it can own nothing any more */
};

struct inherit_lock {
	struct task *owner;     /* or NULL */
	struct rb_root waiters; /* inherit_waiter.node, the first to run first */
	struct rb_node held;    /* of the owner's, while there are waiters */
	struct run_rank first;  /* of the first waiter, the key of held */
};

struct inherit_waiter {
	struct rb_node node;
	struct inherit_lock *lock;
	struct task *task;
	struct run_rank rank; /* the key of node: task's, which may be lent */
};

void inherit_init(struct task *t);
/*
 * @t, which is alive, is to run by @own when nothing is lent to it. @anew: also if that changes
 * nothing, so that it loses its turn.
 */
void inherit_set_own(struct task *t, const struct run_rank *own, bool anew);
/* How @t runs, if it is lent something; else all of it is 0. */
void inherit_lent(const struct task *t, struct run_rank *now);

/* --- locks: calls for one lock are in turn, by a lock of its user --------------------------- */

/* A lock of @owner's without waiters. -ESRCH: it ends. */
int inherit_lock_init(struct inherit_lock *l, struct task *owner) __must_check;
/* It is used no more; no task waits for it. */
void inherit_lock_end(struct inherit_lock *l);
/* The first that waits for @l; NULL: none does. It stays a waiter, but may not stay the first. */
struct inherit_waiter *inherit_first(struct inherit_lock *l);
/* @t waits for @l from now on. -EDEADLK: its owner waits for @t, or the chain is too long. */
int inherit_wait(struct inherit_lock *l, struct inherit_waiter *w, struct task *t) __must_check;
/* It does no more. */
void inherit_wait_end(struct inherit_waiter *w);
/* @w does not wait any more: its task owns the lock. */
void inherit_hand_over(struct inherit_waiter *w);

/*
 * The lock of inherit.c, for inherit_held_locked(): a lock that @t owns and others wait for, which
 * stays until inherit_end(), or NULL. With @ends @t can own none from then on.
 */
void inherit_begin(void);
struct inherit_lock *inherit_held_locked(struct task *t, bool ends);
void inherit_end(void);
