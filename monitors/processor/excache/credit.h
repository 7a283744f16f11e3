/* SPDX-License-Identifier: MIT */
/*
 * Frame credits: page reservations at memory nodes, for pages that they have not seen yet.
 *
 * Flow:	credit_take() before a p-local line is made; credit_put() when such a line is
 *		dropped unsaved; a write-back uses the credit up at the owner. Grants are
 *		piggy-backed on replies (credit_add()), in answer to credit_want() in the request.
 * Locking:	atomics.
 */
#pragma once

#include <lib/atomic.h>
#include <lib/compiler.h>
#include <lib/types.h>

#include "owner.h"

struct credit {            /* one memory node's; lives for ever: node ids are few */
	uint32_t node;     /* const */
	atomic64_t frames; /* in hand */
	bool asking;       /* atomic: a thread asks the node for more */
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
 * One frame of @node. May sleep until it is asked, and while the node makes room: -EINTR, the
 * thread is to be killed. -ENOMEM: the node has none left and cannot make any; -EHOSTDOWN ...
 */
int credit_take(uint32_t node) __must_check;
/* A grant came. */
void credit_add(const struct granted *granted);
void credit_put_slow(uint32_t node);
/* Not used after all. Any context. */
static inline void credit_put(uint32_t node)
{
	struct credit *c = credit_hint(node);

	if (likely(c))
		atomic64_inc(&c->frames);
	else
		credit_put_slow(node);
}
/* How many frames the next request to @node should ask for, 0 = enough in hand. */
uint32_t credit_want(uint32_t node);
/* @node is gone, and so are its credits. */
void credit_forget(uint32_t node);
/* Give back what is more than a running program needs in hand, later: no node is waited for. */
void credit_trim(void);
/* The same now, for @node. Sleeps. */
void credit_trim_node(uint32_t node);
/* @node is short: give it back what is in hand of its frames. False: nothing is. Sleeps. */
bool credit_recall(uint32_t node);
/* Credits in hand from all nodes, for leak tests. */
uint64_t credit_held(void);
