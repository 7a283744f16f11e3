/* SPDX-License-Identifier: MIT */
/*
 * Locked ranges of a space: see locked.h.
 *
 * Locking:	aspace.map_lock
 * Limits:	as many locked ranges as a space may have mappings.
 */
#include "locked.h"

#include <kernel/panic.h>
#include <lib/errno.h>

#include "aspace.h"
#include "kmem.h"

#define SPARES 3 /* a move over a mapping cuts that range, and splits two */

int locked_prepare(struct aspace *as, bool adds)
{
	assert_mutex_held(&as->map_lock);
	if (likely(!adds && !as->locked.future && ranges_empty(&as->locked.ranges)))
		return 0;
	if (adds && as->locked.ranges.nr >= kmem_max_map_count())
		return -ENOMEM;
	return ranges_prepare(&as->locked.ranges, as->kmem, SPARES);
}

void locked_add(struct aspace *as, vaddr_t start, vaddr_t end)
{
	const uint64_t more = ((end - start) >> PAGE_SHIFT) - locked_in(as, start, end);

	ranges_add(&as->locked.ranges, start, end);
	WRITE_ONCE(as->locked.nr_pages, as->locked.nr_pages + more);
}

void locked_cut(struct aspace *as, vaddr_t start, vaddr_t end)
{
	uint64_t less;

	assert_mutex_held(&as->map_lock);
	if (likely(ranges_empty(&as->locked.ranges)))
		return;
	less = locked_in(as, start, end);
	ASSERT(less <= as->locked.nr_pages);
	ranges_cut(&as->locked.ranges, start, end);
	WRITE_ONCE(as->locked.nr_pages, as->locked.nr_pages - less);
}

void locked_move(struct aspace *as, vaddr_t from, uint64_t old_len, vaddr_t to, uint64_t new_len)
{
	const uint64_t had = locked_in(as, from, from + old_len);
	const bool grows = locked_new(as, from, old_len, new_len) != 0;
	uint64_t lost;

	if (!had)
		return;
	ranges_move(&as->locked.ranges, from, old_len, to, new_len);
	lost = had - locked_in(as, to, to + MIN(old_len, new_len));
	WRITE_ONCE(as->locked.nr_pages, as->locked.nr_pages - lost);
	if (grows)
		locked_add(as, to + old_len, to + new_len);
}

uint64_t locked_new(struct aspace *as, vaddr_t from, uint64_t old_len, uint64_t new_len)
{
	const vaddr_t end = from + old_len;

	if (new_len <= old_len || !locked_in(as, end - PAGE_SIZE, end))
		return 0;
	return (new_len - old_len) >> PAGE_SHIFT;
}

bool locked_next(struct aspace *as, vaddr_t at, vaddr_t end, vaddr_t *from, vaddr_t *to)
{
	const struct addr_range *a;

	assert_mutex_held(&as->map_lock);
	a = ranges_behind(&as->locked.ranges, at);
	if (!a || a->start >= end)
		return false;
	*from = MAX(a->start, at);
	*to = MIN(a->end, end);
	return true;
}

uint64_t locked_in(struct aspace *as, vaddr_t start, vaddr_t end)
{
	uint64_t bytes = 0;

	assert_mutex_held(&as->map_lock);
	for (const struct addr_range *a = ranges_behind(&as->locked.ranges, start);
	     a && a->start < end; a = ranges_next(a))
		bytes += MIN(a->end, end) - MAX(a->start, start);
	return bytes >> PAGE_SHIFT;
}
