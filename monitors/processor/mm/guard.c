/* SPDX-License-Identifier: MIT */
/*
 * Guard pages of a space: see guard.h.
 *
 * Locking:	aspace.map_lock, then aspace.lock
 * Limits:	as many ranges of guards as a space may have mappings.
 */
#include "guard.h"

#include <lib/errno.h>

#include "aspace.h"
#include "kmem.h"

#define SPARES 4 /* a move over a mapping cuts that range, splits two, and moves */

int guard_prepare(struct aspace *as, bool adds)
{
	assert_mutex_held(&as->map_lock);
	if (!adds && ranges_empty(&as->guards))
		return 0;
	if (adds && as->guards.nr >= kmem_max_map_count())
		return -ENOMEM;
	return ranges_prepare(&as->guards, as->kmem, SPARES);
}

void guard_add(struct aspace *as, vaddr_t start, vaddr_t end)
{
	assert_mutex_held(&as->map_lock);
	spin_lock(&as->lock);
	ranges_add(&as->guards, start, end);
	as->seq.map++; /* a fault that has not met it begins again */
	spin_unlock(&as->lock);
}

void guard_cut(struct aspace *as, vaddr_t start, vaddr_t end)
{
	assert_mutex_held(&as->map_lock);
	if (likely(ranges_empty(&as->guards)))
		return;
	spin_lock(&as->lock);
	ranges_cut(&as->guards, start, end);
	spin_unlock(&as->lock);
}

void guard_move(struct aspace *as, vaddr_t from, uint64_t old_len, vaddr_t to, uint64_t new_len)
{
	assert_mutex_held(&as->map_lock);
	if (likely(ranges_empty(&as->guards)))
		return;
	spin_lock(&as->lock);
	ranges_move(&as->guards, from, old_len, to, new_len);
	as->seq.map++;
	spin_unlock(&as->lock);
}

bool guard_meets(struct aspace *as, vaddr_t start, vaddr_t end)
{
	bool meets;

	spin_lock(&as->lock);
	meets = ranges_meet(&as->guards, start, end);
	spin_unlock(&as->lock);
	return meets;
}
