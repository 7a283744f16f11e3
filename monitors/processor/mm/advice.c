/* SPDX-License-Identifier: MIT */
/*
 * Marks of pages: see advice.h.
 *
 * Limits:	as many ranges of each mark as a space may have mappings. A fork costs a message for
 *		each range of MADV_DONTFORK that is not leased.
 */
#include "advice.h"

#include <abi/mman.h>
#include <lib/errno.h>

#include "aspace.h"
#include "kmem.h"
#include "range.h"

#define SPARES 7 /* a move over a mapping cuts, splits two, moves, and sets what is new */

static int prepare_locked(struct aspace *as, enum mark mark, bool adds) __must_hold(&as->map_lock)
{
	struct ranges *r = &as->marks[mark];

	assert_mutex_held(&as->map_lock);
	if (!adds && ranges_empty(r))
		return 0;
	if (adds && r->nr >= kmem_max_map_count())
		return -ENOMEM;
	return ranges_prepare(r, as->kmem, SPARES);
}

int advice_prepare(struct aspace *as)
{
	int err = 0;

	assert_mutex_held(&as->map_lock);
	for (enum mark m = 0; m < NR_MARKS && !err; m++)
		err = prepare_locked(as, m, false);
	return err;
}

void advice_cut(struct aspace *as, vaddr_t start, vaddr_t end)
{
	assert_mutex_held(&as->map_lock);
	for (enum mark m = 0; m < NR_MARKS; m++) {
		if (unlikely(!ranges_empty(&as->marks[m])))
			ranges_cut(&as->marks[m], start, end);
	}
}

static void extend(struct ranges *r, vaddr_t at, vaddr_t start, vaddr_t end)
{
	const struct addr_range *a = ranges_behind(r, at);

	if (start < end && a && a->start <= at)
		ranges_set(r, start, end, a->value);
}

void advice_extend(struct aspace *as, vaddr_t at, vaddr_t start, vaddr_t end)
{
	assert_mutex_held(&as->map_lock);
	for (enum mark m = 0; m < NR_MARKS; m++)
		extend(&as->marks[m], at, start, end);
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
	for (enum mark m = 0; m < NR_MARKS; m++)
		move(&as->marks[m], from, old_len, to, new_len);
}

int advice_set(struct aspace *as, enum mark mark, vaddr_t start, vaddr_t end, uint64_t value)
{
	int err;

	assert_mutex_held(&as->map_lock);
	err = prepare_locked(as, mark, true);
	if (!err)
		ranges_set(&as->marks[mark], start, end, value);
	return err;
}

int advice_clear(struct aspace *as, enum mark mark, vaddr_t start, vaddr_t end)
{
	int err;

	assert_mutex_held(&as->map_lock);
	err = prepare_locked(as, mark, false);
	if (!err && !ranges_empty(&as->marks[mark]))
		ranges_cut(&as->marks[mark], start, end);
	return err;
}

bool advice_find(struct aspace *as, enum mark mark, vaddr_t at, struct advice_part *part)
{
	const struct addr_range *a;

	assert_mutex_held(&as->map_lock);
	a = ranges_behind(&as->marks[mark], at);
	*part = (struct advice_part){ .end = a ? a->start : UINT64_MAX };
	if (!a || a->start > at)
		return false;
	part->end = a->end;
	part->value = a->value;
	return true;
}

/* *@arg: the advice. */
static int advise_part(struct aspace *as, const struct vma *v, vaddr_t start, vaddr_t end,
		       void *arg)
{
	const int *advice = arg;

	assert_mutex_held(&as->map_lock);
	switch (*advice) {
	case MADV_DONTFORK:
		return advice_set(as, MARK_DONT_FORK, start, end, 0);
	case MADV_DOFORK:
		return advice_clear(as, MARK_DONT_FORK, start, end);
	case MADV_WIPEONFORK:
		if (v->file || (v->flags & VMA_SHARED))
			return -EINVAL;
		return advice_set(as, MARK_WIPE_ON_FORK, start, end, 0);
	case MADV_KEEPONFORK:
		return advice_clear(as, MARK_WIPE_ON_FORK, start, end);
	case MADV_DONTDUMP:
		return advice_set(as, MARK_DONT_DUMP, start, end, 0);
	case MADV_DODUMP:
		return advice_clear(as, MARK_DONT_DUMP, start, end);
	default:
		return -EINVAL;
	}
}

int advice_each(struct aspace *as, vaddr_t start, vaddr_t end, advice_part_fn *fn, void *arg)
{
	int holes = aspace_check_mapped(as, start, end - start), err = 0;
	struct vma v;

	assert_mutex_held(&as->map_lock);
	if (holes && holes != -ENOMEM)
		return holes;
	for (vaddr_t at = start; !err && at < end && aspace_next_vma(as, at, end, &v);) {
		err = fn(as, &v, MAX(v.start, start), MIN(v.end, end), arg);
		at = v.end;
		vma_release(&v);
	}
	return err ? err : holes;
}

int advice_give(struct aspace *as, vaddr_t start, vaddr_t end, int advice)
{
	return advice_each(as, start, end, advise_part, &advice);
}

int advice_copy(struct aspace *parent, struct aspace *child)
{
	int err = 0;

	for (enum mark m = 0; m < NR_MARKS && !err; m++)
		err = ranges_copy(&parent->marks[m], &child->marks[m], child->kmem);
	return err;
}

void advice_end(struct aspace *as)
{
	for (enum mark m = 0; m < NR_MARKS; m++)
		ranges_end(&as->marks[m]);
}

/* Nothing keeps a child from losing them: seals are the parent's. */
static int drop_locked(struct aspace *child) __must_hold(&child->map_lock)
{
	const struct ranges *lost = &child->marks[MARK_DONT_FORK];
	const struct addr_range *a;
	int err = 0;

	assert_mutex_held(&child->map_lock);
	while (!err && (a = ranges_behind(lost, 0))) {
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
	const struct addr_range *a = ranges_behind(&child->marks[MARK_WIPE_ON_FORK], 0);
	int err = 0;

	assert_mutex_held(&child->map_lock);
	for (; a && !err; a = ranges_next(a))
		err = range_discard(child, a->start, a->end - a->start);
	return err;
}

int advice_fork(struct aspace *child)
{
	int err;

	if (likely(ranges_empty(&child->marks[MARK_DONT_FORK]) &&
		   ranges_empty(&child->marks[MARK_WIPE_ON_FORK])))
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
