/* SPDX-License-Identifier: MIT */
/*
 * The search for mappings of a shared object.
 *
 * Ordering:	spaces are looked at in the order in which they were made, each with its map_lock.
 *		As no mapping is made by mmap() meanwhile, one can only come into a space by a
 *		fork, whose child is behind its parent and has its copies when the parent's
 *		map_lock is free: none is missed.
 * Limits:	the processor's copies of vmas; what only the home knows of is not found, and comes
 *		without the right to write when it is asked for (enter_vma()).
 */
#include "shared_maps.h"

#include <kernel/mutex.h>

#include "anon.h"
#include "aspace.h"

static bool maps_writable_locked(struct aspace *as, const struct object *obj)
	__must_hold(&as->map_lock)
{
	vaddr_t at = 0;
	struct vma v;

	assert_mutex_held(&as->map_lock);
	while (aspace_next_vma(as, at, SPACE_TOP, &v)) {
		const bool found =
			v.file == obj && (v.flags & VMA_SHARED) && !(v.flags & VMA_READ_ONLY);

		at = v.end;
		vma_release(&v);
		if (found)
			return true;
	}
	return false;
}

int shared_maps_writable(struct object *obj)
{
	struct aspace *as = NULL;
	int ret = 0;

	while (!ret && (as = anon_next_space(as))) {
		ret = mutex_lock_killable(&as->map_lock);
		if (ret)
			break;
		ret = maps_writable_locked(as, obj);
		mutex_unlock(&as->map_lock);
	}
	if (as)
		aspace_put(as);
	return ret;
}
