/* SPDX-License-Identifier: MIT */
/*
 * Limits of what a process may map, as Linux enforces them.
 *
 * Flow:	a process without such limits is not looked at. With one, all vmas are counted once;
 *		then each call adds what it is about to map, until the sum meets the limit and all
 *		are counted anew: what was unmapped, and calls that failed, are found only then.
 * Invariants:	as->sizes, while known, is not below what there is.
 * Limits:	the processor's copies of vmas are counted: what only the home knows is missing. Of
 *		the stack that exec made, what has been used counts, as it grows on Linux.
 */
#include "expand.h"

#include <abi/resource.h>
#include <kernel/panic.h>
#include <lib/errno.h>
#include <processor/process/process.h>

#include "range.h"
#include "remote.h"

/* The bytes of [start, end) that lie in the part of the stack that was never used. */
static uint64_t unused_stack(const struct aspace *as, vaddr_t start, vaddr_t end)
{
	const vaddr_t from = MAX(start, as->stack_bottom);
	const vaddr_t to = MIN(end, READ_ONCE(as->stack_low));

	return from < to ? to - from : 0;
}

static bool is_stack(const struct aspace *as, const struct vma *v)
{
	return (v->flags & VMA_GROWS) ||
	       ((v->flags & VMA_STACK) && v->start < as->stack_top && v->end > as->stack_bottom);
}

static bool is_data(const struct aspace *as, const struct vma *v)
{
	return expand_is_data(v->prot, v->flags & VMA_SHARED, is_stack(as, v));
}

/* Pages of [start, end) that are mapped, and those of them that are data. */
static struct map_sizes count_locked(struct aspace *as, vaddr_t start, vaddr_t end)
	__must_hold(&as->map_lock)
{
	struct map_sizes s = { .known = true };
	vaddr_t at = start;
	struct vma v;

	assert_mutex_held(&as->map_lock);
	while (at < end && aspace_next_vma(as, at, end, &v)) {
		const vaddr_t from = MAX(v.start, start), to = MIN(v.end, end);
		const bool data = is_data(as, &v);
		uint64_t bytes = to - from;

		if (v.flags & VMA_STACK)
			bytes -= unused_stack(as, from, to);
		s.total += bytes >> PAGE_SHIFT;
		if (data)
			s.data += bytes >> PAGE_SHIFT;
		at = v.end;
		vma_release(&v);
	}
	return s;
}

/* Linux lets a debugger of memory set the limit to 0: then the hard one holds. */
static uint64_t data_limit(void)
{
	const uint64_t soft = process_rlimit(RLIMIT_DATA);

	return soft ? soft : READ_ONCE(process_current()->rlimits[RLIMIT_DATA].max);
}

static bool fits_locked(const struct aspace *as, uint64_t total, uint64_t data)
	__must_hold(&as->map_lock)
{
	assert_mutex_held(&as->map_lock);
	return (!total || as->sizes.total + total <= process_rlimit(RLIMIT_AS) >> PAGE_SHIFT) &&
	       (!data || as->sizes.data + data <= data_limit() >> PAGE_SHIFT);
}

/* @total more pages, and @data more of data; @overlap pages of them are mapped already. */
static int check_locked(struct aspace *as, uint64_t total, uint64_t data) __must_hold(&as->map_lock)
{
	assert_mutex_held(&as->map_lock);
	if (process_rlimit(RLIMIT_AS) == RLIM_INFINITY &&
	    process_rlimit(RLIMIT_DATA) == RLIM_INFINITY) {
		as->sizes.known = false;
		return 0;
	}
	if (!as->sizes.known || !fits_locked(as, total, data))
		as->sizes = count_locked(as, 0, SPACE_TOP);
	if (!fits_locked(as, total, data))
		return -ENOMEM;
	as->sizes.total += total;
	as->sizes.data += data;
	return 0;
}

int expand_check(struct aspace *as, uint64_t nr, bool data)
{
	assert_mutex_held(&as->map_lock);
	return check_locked(as, nr, data ? nr : 0);
}

int expand_check_map(struct aspace *as, const struct map_request *req)
{
	const bool data =
		expand_is_data(req->prot, req->flags & MAPPING_SHARED, req->flags & MAPPING_GROWS);
	uint64_t nr = req->len >> PAGE_SHIFT;
	int err = expand_check(as, nr, data);
	struct vma v;

	assert_mutex_held(&as->map_lock);
	if (!err)
		return 0;
	/* As Linux, which looks there first. */
	if ((req->flags & MAPPING_FIXED_NOREPLACE) &&
	    aspace_next_vma(as, req->addr, req->addr + req->len, &v)) {
		vma_release(&v);
		return -EEXIST;
	}
	if (!(req->flags & MAPPING_FIXED))
		return err;
	/* In the place of what is there. */
	nr -= count_locked(as, req->addr, req->addr + req->len).total;
	return expand_check(as, nr, data);
}

int expand_check_protect(struct aspace *as, vaddr_t start, vaddr_t end, uint32_t prot)
{
	struct map_sizes s;
	uint64_t becomes = 0;
	struct vma v;

	assert_mutex_held(&as->map_lock);
	if (!(prot & VMA_PROT_WRITE) || data_limit() == RLIM_INFINITY) {
		as->sizes.known = as->sizes.known && !(prot & VMA_PROT_WRITE);
		return 0;
	}
	s = count_locked(as, start, end);
	for (vaddr_t at = start; at < end && aspace_next_vma(as, at, end, &v);) {
		if (expand_is_data(prot, v.flags & VMA_SHARED, is_stack(as, &v)))
			becomes += MIN(v.end, end) - MAX(v.start, start);
		at = v.end;
		vma_release(&v);
	}
	becomes >>= PAGE_SHIFT;
	ASSERT(becomes >= s.data);
	return check_locked(as, 0, becomes - s.data);
}

int expand_check_brk(struct aspace *as, vaddr_t want)
{
	const uint64_t limit = process_rlimit(RLIMIT_DATA);
	const vaddr_t old_end = page_up(as->brk), new_end = page_up(want);

	if (limit != RLIM_INFINITY &&
	    want - as->brk_start + (as->data_end - as->data_start) > limit)
		return -ENOMEM;
	return new_end > old_end ? expand_check(as, (new_end - old_end) >> PAGE_SHIFT, true) : 0;
}

int expand_check_program(struct aspace *as)
{
	int err = mutex_lock_killable(&as->map_lock);

	if (err)
		return err;
	err = check_locked(as, 0, 0);
	if (!err && as->sizes.known &&
	    (as->sizes.total > process_rlimit(RLIMIT_AS) >> PAGE_SHIFT ||
	     as->sizes.data > data_limit() >> PAGE_SHIFT))
		err = -ENOMEM;
	mutex_unlock(&as->map_lock);
	return err;
}

int expand_stack(struct aspace *as, vaddr_t start, uint64_t limit)
{
	struct vma v;
	bool stack;
	int err = aspace_vma_at(as, start, &v);

	assert_mutex_held(&as->map_lock);
	if (err)
		return err;
	stack = v.flags & VMA_STACK;
	vma_release(&v);
	if (!stack || start >= as->stack_low)
		return 0; /* it is another mapping, or another thread was faster */
	if (as->stack_top - start > limit)
		return -ENOMEM;
	err = expand_check(as, (as->stack_low - start) >> PAGE_SHIFT, false);
	if (!err)
		WRITE_ONCE(as->stack_low, start);
	return err;
}
