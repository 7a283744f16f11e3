/* SPDX-License-Identifier: MIT */
/*
 * mremap.
 *
 * Flow:	in place if there is room: the home is asked, and no page moves. Otherwise the lines
 *		of the old range go back to their owners, the home moves the mapping with its pages,
 *		and the copies here follow. A leased mapping of a file is made again at its new
 *		place by ourselves, and gets copies of the pages that are private.
 * Locking:	aspace.map_lock across the call.
 * Failure:	as of mmap_calls.c
 */
#include <abi/mman.h>
#include <lib/errno.h>
#include <processor/excache/excache.h>
#include <processor/process/process.h>
#include <processor/syscall/syscall.h>

#include "advice.h"
#include "anon.h"
#include "aspace.h"
#include "attach.h"
#include "expand.h"
#include "guard.h"
#include "kmem.h"
#include "lease.h"
#include "range.h"
#include "remote.h"
#include "seal.h"

/* The mapping is at @addr now, with another length perhaps. */
static void moved(struct aspace *as, const struct move_request *req, vaddr_t addr)
{
	attach_move(as, req->old_addr, req->old_len, addr, req->new_len);
	guard_move(as, req->old_addr, req->old_len, addr, req->new_len);
	advice_move(as, req->old_addr, req->old_len, addr, req->new_len);
	locked_move(as, req->old_addr, req->old_len, addr, req->new_len);
}

/*
 * The pages move on the owners, so every line of the range goes back to them first, and those in
 * objects behind the top are copied into it.
 */
static int move_blocked(struct aspace *as, const struct move_request *req, vaddr_t *addr)
{
	const uint64_t first = req->old_addr >> PAGE_SHIFT;
	const uint64_t nr = req->old_len >> PAGE_SHIFT;
	int err = anon_hide_reserve(as, first, first + nr);

	if (err)
		return err;
	aspace_unmap_range(as, req->old_addr, req->old_addr + req->old_len);
	err = anon_pull(as, first, first + nr);
	if (!err)
		err = excache_flush(as->anon, first, first + nr);
	if (err)
		return err;
	err = remote_mremap(as, req, addr);
	if (err && (req->flags & MOVE_FIXED))
		return range_over_failed(as, req->new_addr, req->new_len, err);
	if (err)
		range_failed(as, req->old_addr, err);
	if (!err && *addr == req->old_addr)
		moved(as, req, *addr);
	if (err || *addr == req->old_addr)
		return err;
	if (req->flags & MOVE_FIXED)
		range_replaced(as, req->new_addr, req->new_len);
	moved(as, req, *addr);
	err = object_move_stored(as->anon, first, MIN(nr, req->new_len >> PAGE_SHIFT),
				 *addr >> PAGE_SHIFT);
	range_forget(as, req->old_addr, req->old_len);
	if (err)
		object_fail(as->anon, err, *addr >> PAGE_SHIFT);
	return err;
}

static long move(struct aspace *as, const struct move_request *req)
{
	struct blocked_range r, to;
	vaddr_t addr = 0;
	int err = 0;

	aspace_block(as, &r, req->old_addr, req->old_addr + req->old_len);
	if (req->flags & MOVE_FIXED)
		err = range_begin(as, &to, req->new_addr, req->new_len);
	if (!err) {
		err = move_blocked(as, req, &addr);
		if (req->flags & MOVE_FIXED)
			range_end(as, &to);
	}
	aspace_unblock(as, &r);
	return err ? err : (long)addr;
}

/* The ranges that the home is asked about are not leased, nor is the room behind them. */
static int leave_leases(struct aspace *as, const struct move_request *req, bool fixed)
{
	int err = lease_leave(as, req->old_addr, req->old_len, false);

	if (!err && req->new_len > req->old_len)
		err = lease_leave(as, req->old_addr + req->old_len, req->new_len - req->old_len,
				  true);
	if (!err && fixed)
		err = lease_leave(as, req->new_addr, req->new_len, false);
	return err;
}

/* --- leased mappings of files ----------------------------------------------------------- */

/*
 * Is [@start, @end) part of one mapping of a file that is leased? *v: the vma at its start,
 * referenced. 0: it is not leased, or no file; -EFAULT: not one mapping; others as of
 * aspace_vma_at().
 */
static int leased_file(struct aspace *as, vaddr_t start, vaddr_t end, struct vma *v)
{
	struct lease_part part;
	vaddr_t at;
	int err;

	if (!lease_next_file(as, start, end, &part))
		return 0;
	err = part.start > start ? -EFAULT : aspace_vma_at(as, start, v);
	if (err)
		return err;
	for (at = v->end; at < end && !err;) {
		struct vma next;

		err = aspace_vma_at(as, at, &next);
		if (err)
			break;
		if (next.file != v->file || next.prot != v->prot ||
		    ((next.flags ^ v->flags) & VMA_SHARED) ||
		    next.pgoff != v->pgoff + ((at - v->start) >> PAGE_SHIFT))
			err = -EFAULT;
		at = next.end;
		vma_release(&next);
	}
	if (!err)
		return 1;
	vma_release(v);
	return err;
}

/* Copy the pages of [from, +nr) that are private to @to on; both are blocked. */
static int copy_private(struct aspace *as, uint64_t from, uint64_t to, uint64_t nr)
{
	bool any = false;
	int err = 0;

	for (uint64_t i = 0; i < nr && !err; i++) {
		struct line *src, *copy;
		struct object *where;

		err = anon_find(as, from + i, SEQ_ANY, &where, &src);
		if (err == -ENOENT) {
			err = 0;
			continue;
		}
		if (err)
			break;
		err = anon_copy(as, to + i, SEQ_ANY, src, &copy);
		excache_put(src);
		if (err)
			break;
		excache_put(copy);
		any = true;
	}
	if (any)
		aspace_not_pristine(as, to << PAGE_SHIFT);
	return err;
}

/*
 * The file is mapped at @at, too: the private pages come there, and the old mapping goes. Both are
 * blocked until then: a store into the old page after its copy would be lost, and so would the copy
 * after a store into the new one.
 */
static int move_private(struct aspace *as, const struct move_request *req, vaddr_t at)
{
	const uint64_t keep = MIN(req->old_len, req->new_len);
	const struct move_request undo = { .old_addr = at,
					   .old_len = req->new_len,
					   .new_len = req->old_len };
	int err;

	aspace_unmap_range(as, req->old_addr, req->old_addr + req->old_len);
	err = copy_private(as, req->old_addr >> PAGE_SHIFT, at >> PAGE_SHIFT, keep >> PAGE_SHIFT);
	if (!err) {
		moved(as, req, at);
		err = aspace_unmap(as, req->old_addr, req->old_len);
		if (err)
			moved(as, &undo, req->old_addr);
	}
	if (err)
		(void)!aspace_unmap(as, at, req->new_len);
	return err;
}

static long move_file(struct aspace *as, const struct move_request *req, struct map_request *map)
{
	const bool fixed = map->flags & MAPPING_FIXED;
	struct blocked_range old, place, to;
	int err = 0;
	long at;

	aspace_block(as, &old, req->old_addr, req->old_addr + req->old_len);
	/* Where it will be is not known, perhaps: no fault begins anywhere then. */
	aspace_block(as, &place, fixed ? map->addr : 0, fixed ? map->addr + map->len : SPACE_TOP);
	at = aspace_map_locked(as, map);
	if (at >= 0) {
		aspace_block(as, &to, (vaddr_t)at, (vaddr_t)at + req->new_len);
		aspace_unblock(as, &place);
		err = move_private(as, req, (vaddr_t)at);
		aspace_unblock(as, &to);
	} else {
		aspace_unblock(as, &place);
	}
	aspace_unblock(as, &old);
	return err ? err : at;
}

/* The same, after leased_file() has found @v. */
static long remap_file(struct aspace *as, const struct move_request *req, const struct vma *v,
		       uint32_t flags)
{
	const vaddr_t old_end = req->old_addr + req->old_len;
	struct map_request map = {
		.addr = old_end,
		.len = req->new_len - req->old_len,
		.object = v->file,
		.pgoff = v->pgoff + ((old_end - v->start) >> PAGE_SHIFT),
		.prot = v->prot,
		.flags = MAPPING_FIXED_NOREPLACE,
		.counted = true, /* it grows by what was looked at, or moves */
		.moves = true,
	};
	long ret = -EEXIST;

	if (map.pgoff - (req->old_len >> PAGE_SHIFT) + (req->new_len >> PAGE_SHIFT) >
	    (uint64_t)INT64_MAX >> PAGE_SHIFT)
		return -EINVAL;
	if (!(flags & MREMAP_FIXED)) { /* it grows */
		if (map.len <= SPACE_TOP - old_end)
			ret = aspace_map_locked(as, &map);
		if (ret >= 0) {
			moved(as, req, req->old_addr);
			return (long)req->old_addr;
		}
		if (ret != -EEXIST && ret != -ENOMEM)
			return ret;
		if (!(flags & MREMAP_MAYMOVE))
			return -ENOMEM;
	}
	map.addr = req->new_addr;
	map.len = req->new_len;
	map.pgoff = v->pgoff + ((req->old_addr - v->start) >> PAGE_SHIFT);
	map.flags = flags & MREMAP_FIXED ? MAPPING_FIXED : 0;
	return move_file(as, req, &map);
}

/* --- the call ---------------------------------------------------------------------------- */

/* The old length 0: what a shared mapping shows from there on is mapped a second time. */
static long duplicate(struct aspace *as, const struct move_request *req, uint32_t flags)
{
	struct map_request map = {
		.addr = req->new_addr,
		.len = req->new_len,
		.flags = MAPPING_SHARED | ((flags & MREMAP_FIXED) ? MAPPING_FIXED : 0),
	};
	struct layout_seq seq;
	struct vma v;
	long ret = aspace_find_vma(as, req->old_addr, &v, &seq);

	if (ret)
		return -EFAULT;
	map.object = v.file;
	map.flags |= v.flags & VMA_READ_ONLY ? MAPPING_READ_ONLY : 0;
	map.prot = v.prot;
	map.pgoff = v.pgoff + ((req->old_addr - v.start) >> PAGE_SHIFT);
	if (!(v.flags & VMA_SHARED) || !v.file)
		ret = -EINVAL;
	else if (!(flags & MREMAP_MAYMOVE))
		ret = -ENOMEM; /* there is no room where it is */
	else if (v.file->kind == OBJECT_SHARED &&
		 map.pgoff > (SPACE_TOP >> PAGE_SHIFT) - (map.len >> PAGE_SHIFT))
		ret = -EINVAL;
	else
		ret = aspace_map_locked(as, &map);
	if (ret >= 0)
		attach_again(as, req->old_addr, (vaddr_t)ret, map.len);
	vma_release(&v);
	return ret;
}

/* May the mapping at the old address be that much larger? */
static int check_growth(struct aspace *as, const struct move_request *req)
{
	struct layout_seq seq;
	struct vma v;
	bool data;

	if (aspace_find_vma(as, req->old_addr, &v, &seq))
		return 0; /* the home says what is wrong */
	data = expand_is_data(v.prot, v.flags & VMA_SHARED, v.flags & VMA_GROWS);
	vma_release(&v);
	return expand_check(as, (req->new_len - req->old_len) >> PAGE_SHIFT, data);
}

static long do_mremap(struct aspace *as, struct move_request *req, uint32_t flags)
{
	uint64_t locks;
	struct vma v;
	vaddr_t addr;
	int err;

	if (!req->old_len)
		return duplicate(as, req, flags);
	if (!(flags & MREMAP_FIXED)) {
		if (req->new_len < req->old_len) {
			/* Shrinking needs no move: it is a munmap of the tail. */
			err = aspace_unmap(as, req->old_addr + req->new_len,
					   req->old_len - req->new_len);
			return err ? err : (long)req->old_addr;
		}
		if (req->new_len == req->old_len)
			return (long)req->old_addr;
	}
	if (req->new_len > req->old_len) {
		err = check_growth(as, req);
		if (err)
			return err;
	}
	locks = locked_new(as, req->old_addr, req->old_len, req->new_len);
	if (locks && locked_check(as, locks))
		return -EAGAIN;
	err = leased_file(as, req->old_addr, req->old_addr + req->old_len, &v);
	if (err > 0) {
		const long ret = remap_file(as, req, &v, flags);

		vma_release(&v);
		return ret;
	}
	if (!err)
		err = leave_leases(as, req, flags & MREMAP_FIXED);
	if (err)
		return err;
	if (!(flags & MREMAP_FIXED)) {
		/* In place if there is room: costs no flush. */
		err = remote_mremap(as, req, &addr);
		if (!err)
			moved(as, req, addr);
		if (!err)
			return (long)addr;
		if (err != -ENOMEM || !(flags & MREMAP_MAYMOVE))
			return err;
	}
	req->flags = MOVE_MAY | ((flags & MREMAP_FIXED) ? MOVE_FIXED : 0);
	return move(as, req);
}

/* Pages that have moved may have to be fetched again; those that are new are there at once. */
static void touch_again(struct aspace *as, vaddr_t at, vaddr_t end)
{
	vaddr_t start, stop = at;
	bool found;

	do {
		if (mutex_lock_killable(&as->map_lock))
			return;
		found = locked_next(as, stop, end, &start, &stop);
		mutex_unlock(&as->map_lock);
		if (found)
			locked_touch(start, stop - start, false);
	} while (found && stop < end);
}

/* mremap(old_addr, old_len, new_len, flags, new_addr) */
long sys_mremap(const struct syscall_args *args)
{
	struct aspace *as = aspace_current();
	struct move_request req = {
		.old_addr = args->a[0],
		.old_len = args->a[1],
		.new_len = args->a[2],
	};
	const uint32_t flags = (uint32_t)args->a[3];
	struct vma v;
	long ret;

	if ((flags & ~(MREMAP_MAYMOVE | MREMAP_FIXED)) || req.new_len == 0)
		return -EINVAL;
	if ((flags & MREMAP_FIXED) && !(flags & MREMAP_MAYMOVE))
		return -EINVAL;
	if (range_check(req.old_addr, &req.old_len, -EINVAL) || req.new_len > SPACE_TOP)
		return -EINVAL;
	req.new_len = page_up(req.new_len);
	if (flags & MREMAP_FIXED) {
		req.new_addr = args->a[4];
		if (range_check(req.new_addr, &req.new_len, -EINVAL))
			return -EINVAL;
		if (req.new_addr < req.old_addr + req.old_len &&
		    req.old_addr < req.new_addr + req.new_len)
			return -EINVAL;
	}
	ret = mutex_lock_killable(&as->map_lock);
	if (ret)
		return ret;
	ret = aspace_vma_at(as, req.old_addr, &v);
	if (!ret)
		vma_release(&v);
	if (!ret)
		ret = seal_check(as, req.old_addr, MAX(req.old_len, (uint64_t)1));
	if (!ret && (flags & MREMAP_FIXED))
		ret = seal_check(as, req.new_addr, req.new_len);
	if (!ret)
		ret = kmem_may_map(as);
	if (!ret)
		ret = layout_prepare(as, false, false);
	if (!ret)
		ret = do_mremap(as, &req, flags);
	mutex_unlock(&as->map_lock);
	if (ret > 0 && READ_ONCE(as->locked.nr_pages))
		touch_again(as, (vaddr_t)ret, (vaddr_t)ret + req.new_len);
	return ret;
}
