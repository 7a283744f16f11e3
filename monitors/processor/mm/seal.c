/* SPDX-License-Identifier: MIT */
/*
 * Sealed ranges, and what they keep calls from: see seal.h.
 *
 * Locking:	aspace.map_lock
 * Limits:	as many ranges as a space may have mappings.
 */
#include "seal.h"

#include <lib/errno.h>

#include "aspace.h"
#include "kmem.h"

int seal_check(struct aspace *as, vaddr_t start, uint64_t len)
{
	assert_mutex_held(&as->map_lock);
	if (likely(ranges_empty(&as->seals)))
		return 0;
	return ranges_meet(&as->seals, start, start + len) ? -EPERM : 0;
}

/* Would it lose, by a discard, contents in [start, end) that the program cannot write? */
static int check_contents(struct aspace *as, vaddr_t start, vaddr_t end)
{
	for (vaddr_t at = start; at < end;) {
		struct layout_seq seq;
		struct vma v;
		bool kept;

		if (aspace_find_vma(as, at, &v, &seq))
			return -ENOMEM;
		kept = !v.file && !(v.flags & VMA_SHARED) && !(v.prot & VMA_PROT_WRITE);
		at = v.end;
		vma_release(&v);
		if (kept)
			return -EPERM;
	}
	return 0;
}

int seal_check_discard(struct aspace *as, vaddr_t start, uint64_t len)
{
	const vaddr_t end = start + len;
	int err = 0;

	assert_mutex_held(&as->map_lock);
	for (const struct addr_range *a = ranges_behind(&as->seals, start);
	     !err && a && a->start < end; a = ranges_next(a))
		err = check_contents(as, MAX(a->start, start), MIN(a->end, end));
	return err;
}

int seal_prepare(struct aspace *as)
{
	assert_mutex_held(&as->map_lock);
	if (as->seals.nr >= kmem_max_map_count())
		return -ENOMEM;
	return ranges_prepare(&as->seals, as->kmem, 1);
}

void seal_extend(struct aspace *as, vaddr_t start, vaddr_t end)
{
	assert_mutex_held(&as->map_lock);
	ranges_add(&as->seals, start, end);
}

int seal_add(struct aspace *as, vaddr_t start, vaddr_t end)
{
	const int err = seal_prepare(as);

	if (!err)
		seal_extend(as, start, end);
	return err;
}
