/* SPDX-License-Identifier: MIT */
/*
 * ExCache: fill lines with pages of an owner before a program asks for them.
 *
 * Flow:	prefetch.c chooses the pages. Those that are stored at one owner and have no line
 *		get one each and go into one message; the reply says which have come. A page that
 *		has not come loses its line: the thread that wants it asks again and learns why.
 * Invariants:	a line that is filled ahead is FILLING without a pin, and counted in
 *		object.nr_ahead, so that a range that goes away waits for it. A frame is used again
 *		only when the message is released: until then a late reply may write into it.
 * Context:	a faulting or reading thread, which never sleeps here; answers come in polling
 *		context.
 * Failure:	nothing is evicted for a message that has no slot; a message that is not answered in
 *		time gives up its lines, and their frames wait in quarantine.
 * See:		docs/design/excache.md, "Fetching ahead"
 */
#include "ahead.h"

#include <kernel/counter.h>
#include <kernel/panic.h>
#include <kernel/time.h>
#include <mm/slab.h>

#include "cache_private.h"
#include "owner.h"
#include "reclaim.h"

#define AHEAD_TIMEOUT_NS (2 * NSEC_PER_SEC)

COUNTER(ahead_msgs, "prefetch.messages", "requests for anonymous and shared pages ahead");
COUNTER(ahead_unsent, "prefetch.unsent", "requests ahead that found no slot");
COUNTER(ahead_missing, "prefetch.missing", "pages asked for ahead that did not come");

struct ahead {
	uint32_t nr;
	struct line *lines[AHEAD_MAX]; /* NULL: filled */
	struct ahead_msg msg;
};

/* The line is VALID from here on, or loses its tag. */
static void line_end(struct line *line, bool came)
{
	struct object *obj = line->obj; /* stays while the line is FILLING */

	struct quiet_end quiet;

	spin_lock(&obj->lock);
	quiet = object_ahead_ended_locked(obj);
	spin_unlock(&obj->lock);
	object_quiet(&quiet);
	if (came) {
		counter_inc(&excache_prefetched);
		fill_done(line, 0);
	} else {
		line_untag(line);
	}
}

static void ahead_done(struct rpc_call *call)
{
	struct ahead *a = call->arg;
	uint32_t sent = 0;

	if (call->status || owner_ahead_answer(&a->msg, call->reply_len, a->nr, &sent))
		sent = 0;
	for (uint32_t i = 0; i < a->nr; i++) {
		const bool came = sent & (1u << i);

		line_end(a->lines[i], came);
		if (came)
			a->lines[i] = NULL;
		else
			counter_inc(&ahead_missing);
	}
}

static void ahead_release(struct rpc_call *call)
{
	struct ahead *a = call->arg;

	for (uint32_t i = 0; i < a->nr; i++) {
		if (a->lines[i])
			line_free_give(a->lines[i]);
	}
	kfree(a);
}

/* A FILLING line for @tag; NULL: the page is there already, or not to be had just now. */
static struct line *ahead_claim(const struct tag *tag)
{
	struct cache_set *set = &excache.sets[set_index(tag->obj, tag->pgoff)];
	struct line *line = NULL;
	struct claim c = { 0 };

	spin_lock(&set->lock);
	if (!set_find_locked(set, tag->obj, tag->pgoff)) {
		claim_locked(set, &c, false);
		if (c.line && line_attach_ahead_locked(set, c.line, tag))
			line = c.line;
		else if (c.line)
			line_free_give(c.line);
	}
	spin_unlock(&set->lock);
	claim_finish(&c, 0);
	return line;
}

static bool is_owned_by(struct object *obj, uint64_t pgoff, uint32_t owner)
{
	uint32_t other;

	return object_owner_cached(obj, pgoff, &other) == 0 && other == owner;
}

/* Lines for the pages of @list up to the first that another node owns, or that finds no frame. */
static uint32_t ahead_collect(struct ahead *a, struct tag *tag, const struct ahead_list *list,
			      uint32_t owner)
{
	uint32_t i;

	for (i = 0; i < list->nr; i++) {
		tag->pgoff = list->pgoffs[i];
		if (!is_owned_by(tag->obj, tag->pgoff, owner))
			break;
		/* A part of the spare frames is left to those who wait. */
		if (excache_free_count() <= excache.nr_spare / 4)
			break;
		if (!object_stored(tag->obj, tag->pgoff))
			continue;
		a->lines[a->nr] = ahead_claim(tag);
		if (a->lines[a->nr])
			a->nr++;
	}
	return i;
}

static void ahead_never_sent(struct ahead *a)
{
	for (uint32_t i = 0; i < a->nr; i++) {
		line_end(a->lines[i], false);
		line_free_give(a->lines[i]);
	}
	kfree(a);
}

uint32_t ahead_fetch(struct object *obj, struct aspace *as, uint64_t seq,
		     const struct ahead_list *list)
{
	struct tag tag = { .obj = obj, .as = as, .seq = seq, .ahead = true };
	struct rpc_call *call;
	struct ahead *a;
	uint32_t owner, nr;

	if (list->nr == 0 || object_owner_cached(obj, list->pgoffs[0], &owner))
		return 0;
	/* Before anything is evicted. */
	if (!rpc_slot_is_free(owner, RPC_CLASS_PREFETCH)) {
		counter_inc(&ahead_unsent);
		return 0;
	}
	call = rpc_call_alloc();
	a = call ? kzalloc(sizeof(*a)) : NULL;
	if (!a) {
		if (call)
			rpc_call_put(call);
		return 0;
	}
	nr = ahead_collect(a, &tag, list, owner);
	if (a->nr == 0) {
		kfree(a);
	} else {
		owner_ahead_prepare(call, &a->msg, owner, obj, a->lines, a->nr);
		call->deadline_ns = time_now_ns() + AHEAD_TIMEOUT_NS;
		call->done = ahead_done;
		call->release = ahead_release;
		call->arg = a;
		if (rpc_call_submit(call) == 0) {
			counter_inc(&ahead_msgs);
		} else {
			counter_inc(&ahead_unsent);
			ahead_never_sent(a);
		}
	}
	rpc_call_put(call);
	reclaim_kick();
	return nr;
}
