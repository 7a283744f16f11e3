/* SPDX-License-Identifier: MIT */
/*
 * Fair queue: the runnable threads of one class on one CPU, in order of virtual deadlines
 * (EEVDF: earliest eligible virtual deadline first).  Pure: no clock, no lock, no thread.
 *
 * Flow:	Virtual time: a thread that runs for a time d gets older by d * 1024 / weight.  The
 *		mean age of all that are runnable, by weight, is what each would have if all had had
 *		exactly their share; a thread's lag is that mean minus its own age: what it is
 *		owed.
 *		Choice: of the threads with a lag of 0 or more (the eligible ones) the one with the
 *		earliest deadline.  A deadline is the age at which the thread will have used up
 *		what it asks for at a time, its request.
 *		Request: the longest slice for a thread that uses it up; for one that sleeps sooner
 *		about what it used between sleeps, so that its deadline is early.  This moves
 *		turns, not shares.
 *		Sleep: a sleeper keeps its age.  The others get older meanwhile: too much CPU before
 *		is forgotten, and too little, for the time of the sleep as well, is owed to it: at
 *		most one slice, so that a long sleep buys no long turn.
 *		Elsewhere: a thread that goes to another queue takes its lag along.
 * Invariants:	the sum of weight * (mean - age) over a queue is 0, so some thread is always
 *		eligible.  No operation but fair_charge() changes the age of a thread while it is
 *		runnable, except fair_yield(), which makes its caller older.
 *		Fixed order: a queue of real-time threads has no shares.  They are all of one age,
 *		and a deadline is a place in a fixed order (fixed.c): SCHED_DEADLINE by absolute
 *		deadlines, then SCHED_FIFO and SCHED_RR by priority and time of coming.  A queue has
 *		threads of one of the two kinds only.
 * Limits:	weights from 3 to 88761, and so many threads that weight * age differences fit 63
 *		bits: 32,768 of the greatest weight, one virtual second apart.
 */
#pragma once

#include <lib/compiler.h>
#include <lib/rbtree.h>
#include <lib/types.h>

#define FAIR_WEIGHT_MEAN 1024u       /* of nice 0, and of kernel threads */
#define FAIR_WEIGHT_IDLE 3u          /* of SCHED_IDLE, as in Linux */
#define FAIR_ZERO_MOST   (1LL << 30) /* ages are no farther than that from a queue's zero */

enum fair_order {
	FAIR_SHARES,   /* by weight */
	FAIR_FIFO,     /* until it sleeps or yields */
	FAIR_RR,       /* the same, but with turns among those of its priority */
	FAIR_DEADLINE, /* for a runtime in each period, which ends with a deadline */
};

#define FAIR_PRIO_MAX 99u

/* The place of a real-time thread. */
struct fair_fixed {
	uint8_t order; /* enum fair_order */
	uint8_t prio;  /* FIFO, RR: 1 to FAIR_PRIO_MAX, the greatest goes first */
	/* DEADLINE: below 2^62; runtime_ns <= deadline_ns <= period_ns, none of them 0. */
	uint64_t runtime_ns, deadline_ns, period_ns;
	uint64_t left_ns;  /* RR: of its turn; DEADLINE: of its runtime */
	uint64_t until_ns; /* DEADLINE: the absolute deadline */
};

struct fair_entity {
	struct rb_node node;     /* by deadline, while it waits in a queue */
	int64_t age;             /* virtual ns; its lag instead while it is detached */
	int64_t deadline;        /* virtual ns */
	int64_t youngest;        /* the smallest age in its subtree */
	uint64_t request_ns;     /* what it asks for at a time */
	uint64_t burst_ns;       /* what it has used since it joined */
	uint32_t weight;         /* its share, in proportion to others' */
	uint32_t rest;           /* of the last division by weight */
	bool is_detached;        /* belongs to no queue's time: new, or on its way between two */
	bool yields_to_woken;    /* others, in shares; itself it waits for its turn (SCHED_BATCH) */
	struct fair_fixed fixed; /* changes while it is detached */
};

struct fair_queue {
	struct rb_root tree;        /* those that wait */
	struct fair_entity *curr;   /* runs, or NULL: outside the tree, inside the mean */
	struct fair_entity *resume; /* was interrupted by a higher class: goes on first; or NULL */
	int64_t zero;               /* ages are summed relative to it */
	int64_t sum;                /* of weight * (age - zero) in the tree */
	uint64_t weight;            /* of those in the tree */
	uint32_t nr;                /* in the tree */
	uint64_t slice_ns;          /* the longest request */
	bool is_due;                /* curr has used up a request since it was chosen */
	uint64_t nr_came;           /* fixed order: threads that have come to the end of theirs */
};

/* Weight of nice value @nice, -20 to 19: each step is a factor of about 1.25, as in Linux. */
uint32_t fair_nice_weight(int nice);

void fair_init(struct fair_queue *q, uint64_t slice_ns);
void fair_entity_init(struct fair_entity *e, uint32_t weight, uint64_t slice_ns);

/* @e becomes runnable: it waits from now on.  It is new, detached, or slept in @q. */
void fair_join(struct fair_queue *q, struct fair_entity *e);
/* @e, which waits, leaves for another queue: detached. */
void fair_leave(struct fair_queue *q, struct fair_entity *e);
/* @e, which slept in @q or is its curr, joins another queue next: detached. */
void fair_detach(struct fair_queue *q, struct fair_entity *e);

/* @e, which waits, runs from now on; there is no curr. */
void fair_take(struct fair_queue *q, struct fair_entity *e);
/* curr waits again; there is none then.  @resume: it is interrupted and goes on first, if no one
   that joins meanwhile comes before it, and its request is not used up. */
void fair_put(struct fair_queue *q, bool resume);
/* curr waits again, and @e, which waits, runs. */
void fair_replace(struct fair_queue *q, struct fair_entity *e);
/* @e, which is detached, runs from now on without having waited; there is no curr. */
void fair_run(struct fair_queue *q, struct fair_entity *e);
/* curr sleeps, or ends; there is none then. */
void fair_sleep(struct fair_queue *q);

/* fair_charge() of any thread. */
void fair_charge_any(struct fair_queue *q, uint64_t ns);
/* Which one should run: of those that wait and curr; NULL if there is none at all. */
struct fair_entity *fair_pick(struct fair_queue *q);
/*
 * curr lets the others go first: which one should run; curr itself if none waits.  It gives up
 * what it is owed, and its deadline is a full slice away.
 */
struct fair_entity *fair_yield(struct fair_queue *q);
/* Should @e, which has just joined, run at once, in place of curr or of the one to be resumed? */
bool fair_preempts(const struct fair_queue *q, const struct fair_entity *e);
/* fair_left_ns() of any thread. */
uint64_t fair_left_any(const struct fair_queue *q);

/* Change the weight of @e; it keeps what it is owed in real time, or its place in the fixed order.
   @waits: it is in the tree. */
void fair_set_weight(struct fair_queue *q, struct fair_entity *e, uint32_t weight, bool waits);

/* Those that wait, in order of their deadlines; NULL at the end. */
struct fair_entity *fair_first(const struct fair_queue *q);
struct fair_entity *fair_next(const struct fair_entity *e);

/* --- fixed.c: the fixed order ----------------------------------------------------------------- */

#define FAIR_RR_NS 100000000ull /* a turn, as on Linux */

static inline bool fair_is_fixed(const struct fair_entity *e)
{
	return e->fixed.order != FAIR_SHARES;
}

/* --- the most frequent of all: a thread of nice 0 whose request is not used up ---------------- */

static inline bool fair_is_plain(const struct fair_entity *e)
{
	return likely(e->weight == FAIR_WEIGHT_MEAN && !fair_is_fixed(e));
}

/* curr has run for @ns. */
static inline void fair_charge(struct fair_queue *q, uint64_t ns)
{
	struct fair_entity *e = q->curr;
	const int64_t age = e->age + (int64_t)ns;

	if (fair_is_plain(e) && likely(age < e->deadline && age - q->zero <= FAIR_ZERO_MOST)) {
		e->burst_ns += ns;
		e->age = age;
		return;
	}
	fair_charge_any(q, ns);
}

/* ns that curr may run before its request is used up, at weight and request of now. */
static inline uint64_t fair_left_ns(const struct fair_queue *q)
{
	const struct fair_entity *e = q->curr;

	return fair_is_plain(e) ? (uint64_t)(e->deadline - e->age) : fair_left_any(q);
}

/*
 * @e is about to join, or to run: a deadline that has passed, or that would let it have more than
 * its part of the CPU, is replaced by one from @now_ns on.
 */
void fixed_wake(struct fair_entity *e, uint64_t now_ns);
/* For fair.c. @e joins behind all of its priority. */
void fixed_join(struct fair_queue *q, struct fair_entity *e);
void fixed_charge(struct fair_queue *q, struct fair_entity *e, uint64_t ns);
/*
 * curr has been charged up to @now_ns: if all servers of SCHED_DEADLINE that are runnable are ahead
 * of the time, nobody has missed what they had too much, and their deadlines come back to it.
 */
void fixed_settle(struct fair_queue *q, uint64_t now_ns);
/* It lets others of its priority, or of a deadline before its next one, go first. */
void fixed_yield(struct fair_queue *q, struct fair_entity *e);
/* ns until its turn or runtime is over; UINT64_MAX: it has no such end. */
uint64_t fixed_left_ns(const struct fair_entity *e);
