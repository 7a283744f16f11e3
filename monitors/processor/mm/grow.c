/* SPDX-License-Identifier: MIT */
/*
 * Stacks that grow: what exec makes and MAP_GROWSDOWN.
 *
 * Flow:	a fault at an address that is not mapped, below a mapping that grows down: map what
 *		lies between, with the rights of that mapping; the fault begins again. Of the stack
 *		that exec made all that its limit allowed then is mapped: there a first touch only
 *		looks at the limits of now. As on Linux
 *		the stack ends GUARD bytes above an accessible mapping that does not grow itself,
 *		and at RLIMIT_STACK.
 * Locking:	aspace.map_lock across the look at the neighbours and the call to the home.
 * Limits:	one message for each fault that lets a stack grow. Only threads of the space itself
 *		do so (trap.c): an access from outside does not.
 */
#include <lib/errno.h>

#include "advice.h"
#include "aspace.h"
#include "expand.h"
#include "guard.h"
#include "remote.h"
#include "seal.h"

#define GUARD (256 * PAGE_SIZE) /* what Linux keeps by default */

static bool grows(const struct vma *v)
{
	return v->flags & (VMA_STACK | VMA_GROWS);
}

/* Would a stack that begins at @start be too near to what is mapped below it? */
static bool meets_another(struct aspace *as, vaddr_t start)
{
	vaddr_t at = start - MIN(start, (vaddr_t)GUARD);
	bool meets = false;
	struct vma v;

	/* The one right below decides. */
	while (at < start && aspace_next_vma(as, at, start, &v)) {
		meets = v.prot && !grows(&v);
		at = v.end;
		vma_release(&v);
	}
	return meets;
}

/* The end of the stack whose lowest part is @low: what has grown may be another vma. */
static vaddr_t stack_end(struct aspace *as, const struct vma *low)
{
	vaddr_t end = low->end;
	struct vma v;

	while (aspace_next_vma(as, end, end + PAGE_SIZE, &v)) {
		const bool is_part = grows(&v) && v.start == end;

		vma_release(&v);
		if (!is_part)
			break;
		end = v.end;
	}
	return end;
}

static long grow_locked(struct aspace *as, vaddr_t start, uint64_t limit) __must_hold(&as->map_lock)
{
	struct map_request req = {
		.addr = start,
		.flags = MAPPING_FIXED_NOREPLACE | MAPPING_STACK | MAPPING_GROWS,
	};
	vaddr_t end;
	bool is_stack, sealed;
	struct vma v;
	long ret;

	assert_mutex_held(&as->map_lock);
	if (!aspace_next_vma(as, start, SPACE_TOP, &v))
		return -EFAULT;
	is_stack = grows(&v) && !v.file;
	vma_release(&v);
	/* Another thread was faster, or it is a guard page, which no access reaches. */
	if (is_stack && v.start <= start)
		return guard_meets(as, start, start + PAGE_SIZE) ? -EFAULT : 0;
	end = is_stack ? stack_end(as, &v) : 0;
	if (!is_stack || end - start > limit || meets_another(as, start))
		return -EFAULT;
	req.len = v.start - start;
	req.locks = locked_in(as, v.start, v.start + PAGE_SIZE) != 0;
	req.prot = v.prot;
	/* The new part belongs to the mapping: it is sealed as that is. */
	sealed = seal_check(as, v.start, PAGE_SIZE) != 0;
	ret = sealed ? seal_prepare(as) : 0;
	if (!ret)
		ret = aspace_map_locked(as, &req);
	if (ret > 0)
		advice_extend(as, v.start, start, start + req.len);
	if (ret > 0 && sealed)
		seal_extend(as, start, start + req.len);
	return ret;
}

int aspace_grow(struct aspace *as, vaddr_t addr, uint64_t limit)
{
	const vaddr_t start = addr & ~(vaddr_t)(PAGE_SIZE - 1);
	long ret;

	if (addr >= SPACE_TOP)
		return -EFAULT;
	ret = mutex_lock_killable(&as->map_lock);
	if (ret)
		return (int)ret;
	ret = aspace_below_stack(as, addr) ? expand_stack(as, start, limit) : -EFAULT;
	if (ret == -EFAULT)
		ret = grow_locked(as, start, limit);
	mutex_unlock(&as->map_lock);
	/* No room, no right or no memory for it: as Linux, the address stays what it was. */
	if (ret == -ENOMEM || ret == -EPERM || ret == -EEXIST)
		return -EFAULT;
	return ret < 0 ? (int)ret : 0;
}
