/* SPDX-License-Identifier: MIT */
/*
 * ExCache: eviction, a frame for a new line.
 *
 * Flow:	a free frame, or else a line of the set that the policy chooses gives up its own:
 *		it is unmapped, and its last dirty bit decides. The frame of a clean line is reused
 *		at once; a dirty line is WRITEBACK until the owner has it. While there are free
 *		frames and reclaim is on, the line is only chosen, and reclaim.c evicts it.
 * Locking:	the set's lock.
 */
#include "cache_private.h"

#include <kernel/panic.h>

#include "reclaim.h"
#include "steps.h"

static bool is_kept_locked(const struct object *obj, uint64_t pgoff) __must_hold(&obj->lock)
{
	assert_spin_held(&obj->lock);
	return pgoff - obj->kept_first < obj->kept_end - obj->kept_first;
}

bool writeback_begin(struct object *obj, uint64_t pgoff)
{
	bool ok;

	spin_lock(&obj->lock);
	ok = !obj->held && !is_kept_locked(obj, pgoff);
	if (ok)
		obj->nr_writebacks++;
	spin_unlock(&obj->lock);
	return ok;
}

/* There is nothing to be written back after all. */
static void writeback_cancel(struct object *obj)
{
	struct quiet_end quiet;

	spin_lock(&obj->lock);
	quiet = object_writeback_ended_locked(obj);
	spin_unlock(&obj->lock);
	object_quiet(&quiet);
}

/* A write-back of it is counted if it may be evicted. */
static bool may_go(struct line *line)
{
	return !line->file_dirty && writeback_begin(line->obj, line->pgoff);
}

/* Reclaim is to evict it, if it may go by then. */
static bool may_be_chosen(struct line *line)
{
	return !(line->flags & LINE_CHOSEN) && !line->file_dirty;
}

struct line *victim_locked(struct cache_set *set)
{
	struct line *line;

	assert_spin_held(&set->lock);
	if (set->nr_resident > excache.nr_ways) {
		list_for_each_entry(line, &set->resident, set_link) {
			if ((line->flags & LINE_CHOSEN) && line_is_idle(line) && may_go(line))
				return line;
		}
	}
	return excache.policy->victim(set, may_go);
}

void start_writeback_locked(struct cache_set *set, struct line *line)
{
	assert_spin_held(&set->lock);
	line_set_state(line, LINE_WRITEBACK);
	line->seq = writeback_next_seq();
	excache.policy->forget(set, line);
	list_add_tail(&line->set_link, &set->inflight);
	set->nr_resident--;
	set_changed_locked(set);
}

/*
 * Evict the policy's choice: *frame is its frame if it was clean, NULL if it is in WRITEBACK now.
 * False: every line is pinned or filling.
 */
static bool evict_locked(struct cache_set *set, struct claim *c, struct line **frame)
	__must_hold(&set->lock)
{
	struct line *old;
	struct object *put;

	assert_spin_held(&set->lock);
	old = victim_locked(set);
	*frame = NULL;
	if (!old)
		return false;
	if (old->flags & LINE_PREFETCH)
		(void)line_clear_accessed_locked(set, old); /* was it used after all? */
	reclaim_count_direct();
	steps_mark(STEP_CHOOSE);
	line_unmap_all_locked(old);
	steps_mark(STEP_UNMAP);
	if (old->flags & LINE_DIRTY) {
		ASSERT(old->obj->kind != OBJECT_FILE);
		steps_note_dirty();
		counter_inc(&excache_evict_dirty);
		start_writeback_locked(set, old);
		c->victims[c->nr_victims++] = old;
	} else {
		counter_inc(&excache_evict_clean);
		writeback_cancel(old->obj);
		put = line_detach_locked(set, old);
		if (put)
			c->puts[c->nr_puts++] = put;
		*frame = old;
	}
	return true;
}

/*
 * The set gets a line more, and reclaim is to evict the one that would have gone now. False: not
 * for now.
 */
static bool claim_grows_locked(struct cache_set *set, bool demand)
{
	struct line *line;

	assert_spin_held(&set->lock);
	if (!reclaim_may_grow(set, demand))
		return false;
	line = excache.policy->victim(set, may_be_chosen);
	if (!line && !demand)
		return false;
	if (line)
		line->flags |= LINE_CHOSEN;
	steps_mark(STEP_CHOOSE);
	return true;
}

/*
 * Progress:	a thread without a frame starts a write-back of its own set, unless one is under
 *		way, and waits; so frames come back even when other sets have taken all the spare
 *		ones. A set that has grown, because its lines were pinned, shrinks with later
 *		claims.
 */
void claim_locked(struct cache_set *set, struct claim *c, bool demand)
{
	struct line *frame;

	assert_spin_held(&set->lock);
	*c = (struct claim){ .line = line_free_take() };
	if (c->line && set->nr_resident < excache.nr_ways)
		return;
	reclaim_note(set);
	if (c->line && claim_grows_locked(set, demand))
		return;
	if (!c->line && (!demand || !list_empty(&set->inflight)))
		return;
	if (!evict_locked(set, c, &frame)) {
		if (c->line && !demand) {
			line_free_give(c->line);
			c->line = NULL;
		}
		return; /* all pinned or filling: let the set grow for a moment */
	}
	if (frame && c->line)
		line_free_give(frame);
	else if (frame)
		c->line = frame;
	if (set->nr_resident >= excache.nr_ways && evict_locked(set, c, &frame) && frame)
		line_free_give(frame);
}

void claim_finish(struct claim *c, uint32_t nr_kept)
{
	for (uint32_t i = nr_kept; i < c->nr_victims; i++)
		writeback_queue(c->victims[i]);
	for (uint32_t i = 0; i < c->nr_puts; i++)
		object_put(c->puts[i]);
}
