/* SPDX-License-Identifier: MIT */
/*
 * Memory that a child of fork() does not get: see advice.h.
 *
 * Limits:	as many ranges of each kind as a space may have mappings. A fork costs a message for
 *		each range of MADV_DONTFORK that is not leased.
 */
#include "advice.h"

#include <abi/mman.h>
#include <lib/errno.h>

#include "aspace.h"
#include "kmem.h"
#include "range.h"

#define SPARES 6 /* a move over a mapping cuts, splits two, moves, and extends */

static int prepare_locked(struct aspace *as, struct ranges *r, bool adds) __must_hold(&as->map_lock)
{
	assert_mutex_held(&as->map_lock);
	if (!adds && ranges_empty(r))
		return 0;
	if (adds && r->nr >= kmem_max_map_count())
		return -ENOMEM;
	return ranges_prepare(r, as->kmem, SPARES);
}

int advice_prepare(struct aspace *as, bool adds)
{
	int err;

	assert_mutex_held(&as->map_lock);
	err = prepare_locked(as, &as->dont_fork, adds);
	return err ? err : prepare_locked(as, &as->wipe_on_fork, adds);
}

void advice_cut(struct aspace *as, vaddr_t start, vaddr_t end)
{
	assert_mutex_held(&as->map_lock);
	if (unlikely(!ranges_empty(&as->dont_fork)))
		ranges_cut(&as->dont_fork, start, end);
	if (unlikely(!ranges_empty(&as->wipe_on_fork)))
		ranges_cut(&as->wipe_on_fork, start, end);
}

static void extend(struct ranges *r, vaddr_t at, vaddr_t start, vaddr_t end)
{
	if (start < end && ranges_meet(r, at, at + 1))
		ranges_add(r, start, end);
}

void advice_extend(struct aspace *as, vaddr_t at, vaddr_t start, vaddr_t end)
{
	assert_mutex_held(&as->map_lock);
	extend(&as->dont_fork, at, start, end);
	extend(&as->wipe_on_fork, at, start, end);
}

static void move(struct ranges *r, vaddr_t from, uint64_t old_len, vaddr_t to, uint64_t new_len)
{
	if (likely(ranges_empty(r)))
		return;
	ranges_move(r, from, old_len, to, new_len);
	if (old_len)
		extend(r, to + MIN(old_len, new_len) - 1, to + old_len, to + new_len);
}

void advice_move(struct aspace *as, vaddr_t from, uint64_t old_len, vaddr_t to, uint64_t new_len)
{
	assert_mutex_held(&as->map_lock);
	move(&as->dont_fork, from, old_len, to, new_len);
	move(&as->wipe_on_fork, from, old_len, to, new_len);
}

/* The same for the part [start, end) of @v. */
static int set_part_locked(struct aspace *as, const struct vma *v, vaddr_t start, vaddr_t end,
			   int advice) __must_hold(&as->map_lock)
{
	const bool forks = advice == MADV_DONTFORK || advice == MADV_DOFORK;
	struct ranges *r = forks ? &as->dont_fork : &as->wipe_on_fork;
	int err;

	assert_mutex_held(&as->map_lock);
	if (advice == MADV_WIPEONFORK && (v->file || (v->flags & VMA_SHARED)))
		return -EINVAL;
	err = prepare_locked(as, r, advice == MADV_DONTFORK || advice == MADV_WIPEONFORK);
	if (err)
		return err;
	if (advice == MADV_DONTFORK || advice == MADV_WIPEONFORK)
		ranges_add(r, start, end);
	else if (!ranges_empty(r))
		ranges_cut(r, start, end);
	return 0;
}

int advice_set(struct aspace *as, vaddr_t start, vaddr_t end, int advice)
{
	int holes = aspace_check_mapped(as, start, end - start), err = 0;
	struct vma v;

	assert_mutex_held(&as->map_lock);
	if (holes && holes != -ENOMEM)
		return holes;
	for (vaddr_t at = start; !err && at < end && aspace_next_vma(as, at, end, &v);) {
		err = set_part_locked(as, &v, MAX(v.start, start), MIN(v.end, end), advice);
		at = v.end;
		vma_release(&v);
	}
	return err ? err : holes;
}

int advice_copy(struct aspace *parent, struct aspace *child)
{
	const int err = ranges_copy(&parent->dont_fork, &child->dont_fork, child->kmem);

	return err ? err : ranges_copy(&parent->wipe_on_fork, &child->wipe_on_fork, child->kmem);
}

/* Nothing keeps a child from losing them: seals are the parent's. */
static int drop_locked(struct aspace *child) __must_hold(&child->map_lock)
{
	const struct addr_range *a;
	int err = 0;

	assert_mutex_held(&child->map_lock);
	while (!err && (a = ranges_behind(&child->dont_fork, 0))) {
		const vaddr_t start = a->start, end = a->end;

		err = ranges_prepare(&child->seals, child->kmem, 1);
		if (err)
			break;
		ranges_cut(&child->seals, start, end);
		err = aspace_unmap(child, start, end - start);
		if (!err)
			advice_cut(child, start, end);
	}
	return err;
}

static int wipe_locked(struct aspace *child) __must_hold(&child->map_lock)
{
	int err = 0;

	assert_mutex_held(&child->map_lock);
	for (const struct addr_range *a = ranges_behind(&child->wipe_on_fork, 0); a && !err;
	     a = ranges_next(a))
		err = range_discard(child, a->start, a->end - a->start);
	return err;
}

int advice_fork(struct aspace *child)
{
	int err;

	if (likely(ranges_empty(&child->dont_fork) && ranges_empty(&child->wipe_on_fork)))
		return 0;
	err = mutex_lock_killable(&child->map_lock);
	if (err)
		return err;
	err = drop_locked(child);
	if (!err)
		err = wipe_locked(child);
	mutex_unlock(&child->map_lock);
	return err;
}
