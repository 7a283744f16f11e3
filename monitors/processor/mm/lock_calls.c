/* SPDX-License-Identifier: MIT */
/*
 * mlock and its kin, mincore.
 *
 * Flow:	mlock() touches each page once, so that it is there. There is no swap: from then on
 *		it is in the memory of a node at any time. Pages go to and from the cache of the
 *		processor all the same. The space knows which ranges are locked: locked.h.
 * Limits:	mincore() does not know the page caches of memory nodes, nor pages that a fork
 *		shares and that are not mapped.
 */
#include <abi/mman.h>
#include <arch/pgtable.h>
#include <arch/uaccess.h>
#include <lib/errno.h>
#include <processor/excache/excache.h>
#include <processor/process/process.h>
#include <processor/syscall/syscall.h>

#include "aspace.h"

/* Whole pages that touch [addr, addr + len). -EINVAL: it wraps. */
static int page_range(uint64_t addr, uint64_t len, vaddr_t *start, uint64_t *bytes)
{
	*start = addr & ~(uint64_t)(PAGE_SIZE - 1);
	len += addr - *start;
	*bytes = (len + PAGE_SIZE - 1) & ~(uint64_t)(PAGE_SIZE - 1);
	return *start + *bytes < *start || *bytes < len ? -EINVAL : 0;
}

/* The part of [start, end) before the first hole; -ENOMEM if there is one. */
static int until_hole(struct aspace *as, vaddr_t start, vaddr_t *end)
{
	const vaddr_t want = *end;
	int err = 0;

	*end = start;
	while (*end < want && !err) {
		struct layout_seq seq;
		struct vma v;

		err = aspace_check_mapped(as, *end, PAGE_SIZE);
		if (!err && aspace_find_vma(as, *end, &v, &seq))
			err = -ENOMEM;
		if (!err) {
			*end = MIN(v.end, want);
			vma_release(&v);
		}
	}
	return err;
}

static int check_range(vaddr_t start, uint64_t bytes)
{
	return start >= USER_TOP || bytes > USER_TOP - start ? -ENOMEM : 0;
}

/* As Linux: what lies before a hole is locked, or not any more. */
static int change_locked(struct aspace *as, vaddr_t start, uint64_t bytes, bool lock)
{
	vaddr_t end = start + bytes;
	int err;

	assert_mutex_held(&as->map_lock);
	if (lock) {
		err = locked_check(as, (bytes >> PAGE_SHIFT) - locked_in(as, start, end));
		if (err)
			return err;
	}
	err = locked_prepare(as, lock);
	if (err)
		return err;
	err = until_hole(as, start, &end);
	if (end > start && lock)
		locked_add(as, start, end);
	else if (end > start)
		locked_cut(as, start, end);
	return err;
}

static long change(uint64_t addr, uint64_t len, bool lock, bool touch)
{
	struct aspace *as = aspace_current();
	vaddr_t start;
	uint64_t bytes;
	long err = page_range(addr, len, &start, &bytes);

	if (err)
		return err;
	if (lock && !capable(CAP_IPC_LOCK) && !process_rlimit(RLIMIT_MEMLOCK))
		return -EPERM;
	if (!bytes)
		return 0;
	err = check_range(start, bytes);
	if (err)
		return err;
	err = mutex_lock_killable(&as->map_lock);
	if (err)
		return err;
	err = change_locked(as, start, bytes, lock);
	mutex_unlock(&as->map_lock);
	if (err || !touch)
		return err;
	err = aspace_populate(as, start, bytes, POPULATE_LOCK);
	/* All of it was mapped: what fails now cannot be touched, or has no memory. */
	return err == -ENOMEM ? -EAGAIN : err && err != -EINTR ? -ENOMEM : err;
}

/* mlock(addr, len) */
long sys_mlock(const struct syscall_args *args)
{
	return change(args->a[0], args->a[1], true, true);
}

/* mlock2(addr, len, flags) */
long sys_mlock2(const struct syscall_args *args)
{
	if ((uint32_t)args->a[2] & ~MLOCK_ONFAULT)
		return -EINVAL;
	return change(args->a[0], args->a[1], true, !(args->a[2] & MLOCK_ONFAULT));
}

/* munlock(addr, len) */
long sys_munlock(const struct syscall_args *args)
{
	return change(args->a[0], args->a[1], false, false);
}

static uint64_t pages_mapped(struct aspace *as)
{
	uint64_t pages = 0;
	vaddr_t at = 0;
	struct vma v;

	while (aspace_next_vma(as, at, SPACE_TOP, &v)) {
		at = v.end;
		pages += (v.end - v.start) >> PAGE_SHIFT;
		vma_release(&v);
	}
	return pages;
}

/* All that is mapped; map_lock is held. */
static int lock_all(struct aspace *as)
{
	vaddr_t at = 0;
	struct vma v;
	int err = 0;

	while (!err && aspace_next_vma(as, at, SPACE_TOP, &v)) {
		at = v.end;
		vma_release(&v);
		err = locked_prepare(as, true);
		if (!err)
			locked_add(as, v.start, v.end);
	}
	return err;
}

/* Touch what is locked, as far as that can be; errors are none, as on Linux. */
static void touch_all(struct aspace *as)
{
	vaddr_t at = 0;
	struct vma v;

	while (aspace_next_vma(as, at, SPACE_TOP, &v)) {
		at = v.end;
		vma_release(&v);
		if (v.prot &&
		    aspace_populate(as, v.start, v.end - v.start, POPULATE_LOCK) == -EINTR)
			return;
	}
}

/* mlockall(flags) */
long sys_mlockall(const struct syscall_args *args)
{
	const uint32_t flags = (uint32_t)args->a[0];
	struct aspace *as = aspace_current();
	int err;

	if (!flags || flags == MCL_ONFAULT || (flags & ~(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT)))
		return -EINVAL;
	err = mutex_lock_killable(&as->map_lock);
	if (err)
		return err;
	/* As Linux: everything, against the limit, whatever of it is locked already. */
	err = locked_check(as, flags & MCL_CURRENT ? pages_mapped(as) - as->locked.nr_pages : 0);
	if (!err && (flags & MCL_CURRENT))
		err = lock_all(as);
	if (!err) {
		as->locked.future = flags & MCL_FUTURE;
		WRITE_ONCE(as->locked.on_fault, flags & MCL_ONFAULT);
	}
	mutex_unlock(&as->map_lock);
	if (!err && (flags & MCL_CURRENT) && !(flags & MCL_ONFAULT))
		touch_all(as);
	return err;
}

/* munlockall() */
long sys_munlockall(const struct syscall_args *args)
{
	struct aspace *as = aspace_current();
	const int err = mutex_lock_killable(&as->map_lock);

	if (err)
		return err;
	locked_cut(as, 0, SPACE_TOP);
	as->locked.future = as->locked.on_fault = false;
	mutex_unlock(&as->map_lock);
	return 0;
}

static bool in_object(struct object *obj, uint64_t pgoff)
{
	struct line *line;

	if (object_stored(obj, pgoff))
		return true;
	if (excache_get(obj, pgoff, EXCACHE_FIND, &line))
		return false;
	excache_put(line);
	return true;
}

bool aspace_is_resident(struct aspace *as, vaddr_t addr)
{
	struct layout_seq seq;
	struct vma v;
	bool found;

	if (aspace_maps(as, addr, 0))
		return true;
	if (aspace_find_vma(as, addr, &v, &seq))
		return false;
	found = !(v.flags & VMA_SHARED) && in_object(as->anon, addr >> PAGE_SHIFT);
	if (!found && v.file)
		found = in_object(v.file, v.pgoff + ((addr - v.start) >> PAGE_SHIFT));
	vma_release(&v);
	return found;
}

static int check_mapped(struct aspace *as, vaddr_t start, uint64_t len)
{
	int err;

	if (!len)
		return 0;
	err = mutex_lock_killable(&as->map_lock);
	if (err)
		return err;
	err = aspace_check_mapped(as, start, len);
	mutex_unlock(&as->map_lock);
	return err;
}

/* mincore(addr, len, vec) */
long sys_mincore(const struct syscall_args *args)
{
	const uint64_t addr = args->a[0];
	struct aspace *as = aspace_current();
	uint8_t vec[256];
	uint64_t len;
	vaddr_t start;
	long err;

	if (addr & (PAGE_SIZE - 1))
		return -EINVAL;
	if (page_range(addr, args->a[1], &start, &len) || addr >= USER_TOP || len > USER_TOP - addr)
		return -ENOMEM;
	err = check_mapped(as, addr, len);
	for (uint64_t done = 0; !err && done < len / PAGE_SIZE;) {
		const uint64_t nr = MIN(len / PAGE_SIZE - done, (uint64_t)sizeof(vec));

		for (uint64_t i = 0; i < nr; i++)
			vec[i] = aspace_is_resident(as, addr + (done + i) * PAGE_SIZE);
		if (copy_to_user((void __user *)(args->a[2] + done), vec, nr))
			err = -EFAULT;
		done += nr;
	}
	return err;
}
