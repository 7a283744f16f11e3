/* SPDX-License-Identifier: MIT */
/*
 * Frame credits: page reservations at memory nodes, for pages that they have not seen yet.
 *
 * Flow:	credit_take() before a p-local line is made; credit_put() when such a line is
 *		dropped unsaved; credit_used() when the owner has stored it. Grants are piggy-backed
 *		on replies (credit_add()), in answer to credit_want() in the request. A report says
 *		to a node, in absolute numbers, what it has granted: the node sets its account to
 *		that.
 * Invariants:	the node has reserved at least what is counted here: a grant is booked only if no
 *		report has been made since it was granted, so that a report never leaves out what is
 *		booked later. If the node has reserved more, the next report corrects it.
 * Locking:	atomics; credit.lock for the snapshot of a report and the booking of grants.
 * See:		docs/design/memory.md, "Frames"
 */
#pragma once

#include <kernel/spinlock.h>
#include <kernel/wait.h>
#include <lib/atomic.h>
#include <lib/compiler.h>
#include <lib/types.h>

#include "owner.h"

struct credit {               /* one memory node's; lives for ever: node ids are few */
	uint32_t node;        /* const */
	atomic64_t frames;    /* in hand */
	atomic64_t total;     /* in hand, or held by p-local lines */
	atomic_t doubtful;    /* the node's account may be another than ours */
	struct spinlock lock; /* RANK_EXCACHE_FREE */
	uint64_t report __guarded_by(&lock);   /* the last that was made */
	bool asking __guarded_by(&lock);       /* and it is under way */
	uint32_t reported __guarded_by(&lock); /* what it said that we hold */
	int answer __guarded_by(&lock);        /* 0, or why the last one has failed */
	int64_t granted __guarded_by(&lock);   /* frames that it has brought; negative: taken */
	uint64_t nr_answers;                   /* atomic; changed under the lock */
	struct waitqueue answered;
	struct report_msg msg; /* of the report that is under way */
};

/* By node id modulo its length, the one that was looked up last: atomic. */
#define CREDIT_HINTS 64u
extern struct credit *credit_hints[CREDIT_HINTS];

/* That of @node if it has been looked up lately, else NULL. */
static inline struct credit *credit_hint(uint32_t node)
{
	struct credit *c = __atomic_load_n(&credit_hints[node % CREDIT_HINTS], __ATOMIC_ACQUIRE);

	return likely(c && c->node == node) ? c : NULL;
}

/* One frame, if there is one in hand. Any context. */
static inline bool credit_try(struct credit *c)
{
	int64_t old = atomic64_read(&c->frames);

	while (old > 0) {
		const int64_t seen = atomic64_cmpxchg(&c->frames, old, old - 1);

		if (seen == old)
			return true;
		old = seen;
	}
	return false;
}

/*
 * One frame of @node. May sleep for a report, and while the node makes room: -EINTR, the thread is
 * to be killed. -ENOMEM: the node has none left and cannot make any; -EHOSTDOWN ...
 */
int credit_take(uint32_t node) __must_check;
/* The same, asking no other node: memory of spaces that have ended is not waited for. */
int credit_ask(uint32_t node) __must_check;
/* The same without sleeping: false if none is in hand. */
bool credit_take_now(uint32_t node);
/* A grant came. */
void credit_add(const struct granted *granted);
void credit_put_slow(uint32_t node);
/* Not used after all; @node 0: there is none. Any context. */
static inline void credit_put(uint32_t node)
{
	struct credit *c = credit_hint(node);

	if (likely(c))
		atomic64_inc(&c->frames);
	else
		credit_put_slow(node);
}
/* The node has stored a page with it. Any context. */
void credit_used(uint32_t node);
/* A call that may have granted something has ended without an answer. Any context. */
void credit_doubt(uint32_t node);
/* The same of a call whose home may have asked any node. */
void credit_doubt_all(void);
/* How many frames the next request to @node should ask for, 0 = enough in hand. */
uint32_t credit_want(uint32_t node);
/* @node is gone, and so are its credits. */
void credit_forget(uint32_t node);
/* Give back what is more than a running program needs in hand. Does not wait for the answer. */
void credit_trim(void);
/* @node is short: give it back what is in hand of its frames. False: nothing is. Sleeps. */
bool credit_recall(uint32_t node);
/* Report to every node that may have another account, without waiting for the answers. */
void credit_report(void);
/* Report to every node, and wait for the answers. For tests. */
void credit_reconcile(void);
/* Credits in hand, and those in hand or held by lines, from all nodes: for leak tests. */
uint64_t credit_held(void);
int64_t credit_total(void);
/* Once at start. */
int credit_init(void) __must_check;
