/* SPDX-License-Identifier: MIT */
/*
 * How many frames of memory nodes an object has: pages that an owner has stored, and lines for
 * which it keeps a frame.
 *
 * Limits:	by the copy of the vRegion array: a page whose owner is not known here counts for no
 *		node, until it is used again.
 */
#include "frames.h"

#include <kernel/panic.h>

#include "cache_private.h"

static uint64_t stored_locked(struct object *obj, uint32_t node) __must_hold(&obj->lock)
{
	const uint64_t pages = obj->vregion_size >> PAGE_SHIFT;
	const struct vregion *vr;
	uint64_t index, nr = 0;

	assert_spin_held(&obj->lock);
	radix_for_each(vr, &obj->vregions, index)
		if (!node || vr->owner == node)
			nr += page_bits_count(&obj->stored, index * pages, (index + 1) * pages);
	return nr;
}

/* Lines of pages that no owner has stored yet. */
static uint64_t cached_locked(struct object *obj, uint32_t node) __must_hold(&obj->lock)
{
	const struct vregion *vr;
	struct line *line;
	uint64_t nr = 0;

	assert_spin_held(&obj->lock);
	list_for_each_entry(line, &obj->lines, obj_link) {
		if (page_bits_test(&obj->stored, line->pgoff))
			continue;
		vr = node ? vregion_locked(obj, vregion_of(obj, line->pgoff)) : NULL;
		nr += !node || (vr && vr->owner == node);
	}
	return nr;
}

int object_pages(struct object *obj, struct page_bits *out)
{
	struct line *line;
	int err;

	ASSERT(obj->kind != OBJECT_FILE);
	spin_lock(&obj->lock);
	err = page_bits_reserve_all(out, &obj->stored);
	if (!err)
		page_bits_merge(out, &obj->stored);
	list_for_each_entry(line, &obj->lines, obj_link) {
		if (!err)
			err = page_bits_set(out, line->pgoff);
	}
	spin_unlock(&obj->lock);
	return err;
}

uint64_t object_frames(struct object *obj, uint32_t node)
{
	uint64_t nr = 0;

	if (obj->kind == OBJECT_FILE || !READ_ONCE(obj->vregion_size))
		return 0;
	spin_lock(&obj->lock);
	nr = stored_locked(obj, node) + cached_locked(obj, node);
	spin_unlock(&obj->lock);
	return nr;
}
