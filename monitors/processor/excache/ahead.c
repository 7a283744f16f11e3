/* SPDX-License-Identifier: MIT */
/*
 * ExCache: fill lines with pages of an owner before a program asks for them.
 *
 * Flow:	prefetch.c chooses the pages. Those that are stored at one owner and have no line
 *		get one each. Pages whose places are known (places.h) are read there: neighbouring
 *		frames by one RDMA READ into several lines, all reads by one doorbell. The others go
 *		into one message, whose reply says which have come. A page that has not come loses
 *		its line: the thread that wants it asks again and learns why.
 * Invariants:	a line that is filled ahead is FILLING without a pin, and counted in
 *		object.nr_ahead, so that a range that goes away waits for it. Its place is looked at
 *		when it is FILLING: then no write-back gives the page another one. A frame is used
 *		again only when its message or read is released: until then a late answer may write
 *		into it.
 * Context:	a faulting or reading thread, which never sleeps here; answers come in polling
 *		context.
 * Failure:	nothing is evicted when neither a message nor a read has a slot; what is not
 *		answered in time gives up its lines, and their frames wait in quarantine. Pages that
 *		cannot be read are asked for, if there is a slot for a message.
 * See:		docs/design/excache.md, "Fetching ahead"
 */
#include "ahead.h"

#include <kernel/counter.h>
#include <kernel/panic.h>
#include <kernel/time.h>
#include <lib/errno.h>
#include <mm/slab.h>

#include "cache_private.h"
#include "owner.h"
#include "places.h"
#include "reclaim.h"

#define AHEAD_TIMEOUT_NS (2 * NSEC_PER_SEC)

COUNTER(ahead_msgs, "prefetch.messages", "requests for anonymous and shared pages ahead");
COUNTER(ahead_unsent, "prefetch.unsent", "requests ahead that found no slot");
COUNTER(ahead_missing, "prefetch.missing", "pages asked for ahead that did not come");
COUNTER(ahead_reads, "prefetch.reads", "one-sided reads of pages ahead");
COUNTER(ahead_read_pages, "prefetch.read_pages", "pages that these were to bring");

/* Lines that are on their way: those of a message, or of one read. */
struct ahead {
	uint32_t nr;
	struct lent *lent;             /* of a read: what is read */
	struct line *lines[AHEAD_MAX]; /* NULL: filled */
};

struct ahead_asked {
	struct ahead ahead;
	struct ahead_msg msg;
};

/* Lines for one step of a stream. Those whose pages have places are in the order of these. */
struct plan {
	uint32_t owner;
	uint32_t reads_left; /* slots for reads that no page has yet */
	bool may_ask;        /* there is a slot for a message */
	uint32_t nr_asked, nr_read, nr_calls;
	struct line *asked[AHEAD_MAX];
	struct line *read[AHEAD_MAX];
	uint64_t places[AHEAD_MAX]; /* of read[] */
	struct rpc_call *calls[AHEAD_MAX];
	struct rpc_sge sges[AHEAD_MAX];
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

/* Nothing was sent for it. */
static void line_unsent(struct line *line)
{
	line_end(line, false);
	line_free_give(line);
}

/* Bit i of @came: that of a->lines[i]. */
static void lines_done(struct ahead *a, uint32_t came)
{
	for (uint32_t i = 0; i < a->nr; i++) {
		const bool has_come = came & (1u << i);

		line_end(a->lines[i], has_come);
		if (has_come)
			a->lines[i] = NULL;
		else
			counter_inc(&ahead_missing);
	}
}

static void lines_released(struct ahead *a)
{
	for (uint32_t i = 0; i < a->nr; i++) {
		if (a->lines[i])
			line_free_give(a->lines[i]);
	}
}

static void asked_done(struct rpc_call *call)
{
	struct ahead_asked *a = call->arg;
	uint32_t sent = 0;

	if (call->status || owner_ahead_answer(&a->msg, call->reply_len, a->ahead.nr, &sent))
		sent = 0;
	lines_done(&a->ahead, sent);
}

static void asked_release(struct rpc_call *call)
{
	struct ahead_asked *a = call->arg;

	lines_released(&a->ahead);
	kfree(a);
}

static void read_done(struct rpc_call *call)
{
	lines_done(call->arg, call->status ? 0 : UINT32_MAX);
}

static void read_release(struct rpc_call *call)
{
	struct ahead *a = call->arg;

	place_end(a->lent, call->refused ? -EACCES : call->status);
	lines_released(a);
	kfree(a);
}

/* --- which pages --------------------------------------------------------------------- */

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

/* @line to those that are read, by place: streams go upwards as a rule, and so do places. */
static void plan_read(struct plan *p, struct line *line, uint64_t place)
{
	uint32_t i = p->nr_read++;

	for (; i > 0 && p->places[i - 1] > place; i--) {
		p->places[i] = p->places[i - 1];
		p->read[i] = p->read[i - 1];
	}
	p->places[i] = place;
	p->read[i] = line;
	p->reads_left--;
}

static void plan_ask(struct plan *p, struct line *line)
{
	if (p->may_ask)
		p->asked[p->nr_asked++] = line;
	else
		line_unsent(line);
}

/*
 * Lines for the pages of @list up to the first that another node owns, or that finds no frame or no
 * slot.
 */
static uint32_t plan_collect(struct plan *p, struct tag *tag, const struct ahead_list *list)
{
	uint64_t place;
	uint32_t i;

	for (i = 0; i < list->nr; i++) {
		struct line *line;

		tag->pgoff = list->pgoffs[i];
		if (!is_owned_by(tag->obj, tag->pgoff, p->owner))
			break;
		/* A part of the spare frames is left to those who wait. */
		if (excache_free_count() <= excache.nr_spare / 4)
			break;
		if (!object_stored(tag->obj, tag->pgoff))
			continue;
		/* Before anything is evicted. */
		if (!p->may_ask && (!p->reads_left || !object_place(tag->obj, tag->pgoff)))
			break;
		line = ahead_claim(tag);
		if (!line)
			continue;
		place = p->reads_left ? object_place(tag->obj, tag->pgoff) : PLACE_NONE;
		if (place)
			plan_read(p, line, place);
		else
			plan_ask(p, line);
	}
	return i;
}

/* --- how they come ------------------------------------------------------------------- */

/* One read for @nr lines from read[@first] on, which lie side by side. False: not now. */
static bool read_prepare(struct plan *p, uint32_t first, uint32_t nr)
{
	struct rpc_call *call = NULL;
	struct ahead *a = NULL;
	struct read_place from;

	if (!place_begin(p->places[first], &from))
		return false;
	if (from.node == p->owner) {
		call = rpc_call_alloc();
		a = call ? kmalloc(sizeof(*a)) : NULL;
	}
	if (!a) {
		place_end(from.lent, -EAGAIN);
		if (call)
			rpc_call_put(call);
		return false;
	}
	a->nr = nr;
	a->lent = from.lent;
	for (uint32_t i = 0; i < nr; i++)
		a->lines[i] = p->read[first + i];
	owner_read_ahead_prepare(call, &p->sges[first], &from, a->lines, nr);
	call->deadline_ns = time_now_ns() + AHEAD_TIMEOUT_NS;
	call->done = read_done;
	call->release = read_release;
	call->arg = a;
	p->calls[p->nr_calls++] = call;
	return true;
}

static void read_unsent(struct plan *p, struct rpc_call *call)
{
	struct ahead *a = call->arg;

	place_end(a->lent, -EAGAIN);
	for (uint32_t i = 0; i < a->nr; i++)
		plan_ask(p, a->lines[i]);
	kfree(a);
}

/* All reads as one chain; what cannot be read is asked for. */
static void plan_send_reads(struct plan *p)
{
	const uint32_t most = rpc_read_pieces_max();
	size_t nr_sent = 0;
	uint32_t n;

	for (uint32_t i = 0; i < p->nr_read; i += n) {
		for (n = 1; n < most && i + n < p->nr_read; n++) {
			if (!place_follows(p->places[i + n - 1], p->places[i + n]))
				break;
		}
		if (read_prepare(p, i, n))
			continue;
		for (uint32_t k = i; k < i + n; k++)
			plan_ask(p, p->read[k]);
	}
	if (rpc_calls_submit(p->calls, p->nr_calls, &nr_sent))
		counter_inc(&ahead_unsent);
	for (uint32_t i = 0; i < p->nr_calls; i++) {
		if (i < nr_sent) {
			counter_inc(&ahead_reads);
			counter_add(&ahead_read_pages, p->calls[i]->nr_bulk);
		} else {
			read_unsent(p, p->calls[i]);
		}
		rpc_call_put(p->calls[i]);
	}
}

static void plan_send_message(struct plan *p, const struct object *obj)
{
	struct rpc_call *call = rpc_call_alloc();
	struct ahead_asked *a = call ? kmalloc(sizeof(*a)) : NULL;

	if (a) {
		a->ahead.nr = p->nr_asked;
		for (uint32_t i = 0; i < p->nr_asked; i++)
			a->ahead.lines[i] = p->asked[i];
		owner_ahead_prepare(call, &a->msg, p->owner, obj, p->asked, p->nr_asked);
		call->deadline_ns = time_now_ns() + AHEAD_TIMEOUT_NS;
		call->done = asked_done;
		call->release = asked_release;
		call->arg = a;
	}
	if (a && rpc_call_submit(call) == 0) {
		counter_inc(&ahead_msgs);
	} else {
		counter_inc(&ahead_unsent);
		for (uint32_t i = 0; i < p->nr_asked; i++)
			line_unsent(p->asked[i]);
		kfree(a);
	}
	if (call)
		rpc_call_put(call);
}

uint32_t ahead_fetch(struct object *obj, struct aspace *as, uint64_t seq,
		     const struct ahead_list *list)
{
	struct tag tag = { .obj = obj, .as = as, .seq = seq, .ahead = true };
	struct plan *p;
	uint32_t owner, nr;

	if (list->nr == 0 || object_owner_cached(obj, list->pgoffs[0], &owner))
		return 0;
	p = kmalloc(sizeof(*p));
	if (!p)
		return 0;
	p->owner = owner;
	p->nr_asked = p->nr_read = p->nr_calls = 0;
	p->may_ask = rpc_slot_is_free(owner, RPC_CLASS_PREFETCH);
	p->reads_left = object_has_places(obj) ? rpc_slots_free(owner, RPC_CLASS_READ_AHEAD) : 0;
	nr = plan_collect(p, &tag, list);
	if (!p->may_ask && !nr)
		counter_inc(&ahead_unsent);
	if (p->nr_read)
		plan_send_reads(p);
	if (p->nr_asked)
		plan_send_message(p, obj);
	kfree(p);
	reclaim_kick();
	return nr;
}
