/* SPDX-License-Identifier: MIT */
/*
 * ExCache: the first touch of anonymous memory, in one pass.
 *
 * Flow:	under the set's lock, once: no line has the tag, the set has room, a frame is free
 *		-> under the object's: the owner has no such page, the layout is the same, a credit
 *		is in hand -> tag -> zeroes -> mapped -> VALID.  No other thread sees the line
 *		FILLING, so none waits for it, and it is never pinned.
 * Locking:	set -> object (the tag), set -> space (the mapping).  The page is cleared with only
 *		the set's lock held: a set is one of thousands, and a thread that looks for its
 *		lines waits for one page at most.
 * Failure:	something is not at hand: all stays as it was, and the caller takes the slow path,
 *		which sleeps, asks and evicts: excache_get_at().
 */
#include "cache_private.h"

#include <mm/frame.h>

#include "credit.h"

/* A credit of the node that owns the page, if it is known here and has one left. */
static bool take_credit_locked(struct object *obj, uint64_t pgoff, uint32_t *node)
	__must_hold(&obj->lock)
{
	const struct vregion *vr;
	struct credit *c;

	assert_spin_held(&obj->lock);
	if (unlikely(!obj->vregion_size))
		return false;
	vr = vregion_locked(obj, vregion_of(obj, pgoff));
	if (unlikely(!vr || !vr->owner))
		return false;
	*node = vr->owner;
	c = credit_hint(vr->owner);
	return c && credit_try(c);
}

/* A free frame with the tag, if there is neither a line nor a reason to evict one. */
static struct line *attach_locked(struct cache_set *set, struct aspace *as, uint64_t pgoff,
				  uint64_t seq) __must_hold(&set->lock)
{
	struct object *obj = as->anon;
	struct line *line;
	uint32_t node = 0;
	bool ok;

	assert_spin_held(&set->lock);
	if (set->nr_resident >= excache.touch_ways || set_find_locked(set, obj, pgoff))
		return NULL;
	line = line_free_take();
	if (unlikely(!line))
		return NULL;
	spin_lock(&obj->lock);
	/* The layout's number without the space's lock: see layout_is_at(). */
	ok = !page_bits_test(&obj->stored, pgoff) && READ_ONCE(as->seq.map) == seq &&
	     take_credit_locked(obj, pgoff, &node);
	if (likely(ok))
		line_enter_object_locked(obj, line, pgoff);
	spin_unlock(&obj->lock);
	if (unlikely(!ok)) {
		line_free_give(line);
		return NULL;
	}
	line_enter_set_locked(set, line, obj, LINE_PLOCAL | LINE_EXEC_OK, 0);
	line->credit_node = node;
	list_add_tail(&line->set_link, &set->resident); /* as the policy does: see touch_ways */
	return line;
}

bool excache_touch(struct aspace *as, vaddr_t vaddr, uint32_t prot, uint64_t seq)
{
	const uint64_t pgoff = vaddr >> PAGE_SHIFT;
	struct cache_set *set = &excache.sets[set_index(as->anon, pgoff)];
	bool mapped = false;
	struct line *line;

	spin_lock(&set->lock);
	line = attach_locked(set, as, pgoff, seq);
	if (likely(line)) {
		clear_page(excache.data + line_offset(line));
		line_set_state(line, LINE_VALID);
		mapped = line_map_first_locked(line, as, vaddr, prot, seq);
		/* There is one more to evict: somebody may wait for just that. */
		set_changed_locked(set);
		counter_inc(&excache_miss);
		counter_inc(&excache_plocal);
	}
	spin_unlock(&set->lock);
	return mapped;
}
