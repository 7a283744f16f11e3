/* SPDX-License-Identifier: MIT */
/*
 * Private mappings of a file that gets shorter.
 *
 * Flow:	an object remembers that it was ever mapped privately: the others, which are most of
 *		those that are truncated, cost nothing. The spaces are walked as in shared_maps.c.
 *		Zeroes behind the file's part of a mapping (file_bytes) are no pages of the file.
 * Ordering:	the file is shorter already: a fault that comes later finds its end, and one that
 *		was under way has made its copy before the range is blocked.
 * Limits:	mappings of this processor: a file that a program of another processor makes
 *		shorter leaves the copies here as they are.
 */
#include "private_maps.h"

#include <kernel/mutex.h>

#include "anon.h"
#include "aspace.h"
#include "range.h"

/* The part of @v, a private mapping of the file, that shows pages from @first on. */
static bool part_behind(const struct vma *v, uint64_t first, vaddr_t *start, vaddr_t *end)
{
	const uint64_t len = MIN(v->end - v->start, v->file_bytes);
	const uint64_t skip = first > v->pgoff ? first - v->pgoff : 0;

	if (skip >= page_up(len) >> PAGE_SHIFT)
		return false;
	*start = v->start + (skip << PAGE_SHIFT);
	*end = v->start + page_up(len);
	return true;
}

static void cut_locked(struct aspace *as, const struct object *obj, uint64_t first)
	__must_hold(&as->map_lock)
{
	vaddr_t at = 0, start, end;
	struct vma v;

	assert_mutex_held(&as->map_lock);
	while (aspace_next_vma(as, at, SPACE_TOP, &v)) {
		const bool private = v.file == obj && !(v.flags & (VMA_SHARED | VMA_PRISTINE));

		at = v.end;
		vma_release(&v);
		if (private && part_behind(&v, first, &start, &end))
			(void)!range_discard(as, start, end - start);
	}
}

void private_maps_cut(struct object *obj, uint64_t first)
{
	struct aspace *as = NULL;

	if (likely(!READ_ONCE(obj->private_maps)))
		return;
	while ((as = anon_next_space(as))) {
		if (mutex_lock_killable(&as->map_lock)) {
			aspace_put(as);
			return;
		}
		cut_locked(as, obj, first);
		mutex_unlock(&as->map_lock);
	}
}
