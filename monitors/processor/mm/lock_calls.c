/* SPDX-License-Identifier: MIT */
/*
 * mlock and its kin, mincore.
 *
 * Flow:	mlock() touches each page once, so that it is there. There is no swap: from then on
 *		it is in the memory of a node at any time. Pages go to and from the cache of the
 *		processor all the same.
 * Limits:	mlockall() checks what Linux checks and touches nothing. mincore() does not know the
 *		page caches of memory nodes, nor pages that a fork shares and that are not mapped.
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

static int may_lock(uint64_t bytes)
{
	const uint64_t limit = process_rlimit(RLIMIT_MEMLOCK);

	if (capable(CAP_IPC_LOCK))
		return 0;
	if (!limit)
		return -EPERM;
	return bytes > limit ? -ENOMEM : 0;
}

static long check_range_mapped(uint64_t addr, uint64_t len, bool locks)
{
	struct aspace *as = aspace_current();
	vaddr_t start;
	uint64_t bytes;
	int err = page_range(addr, len, &start, &bytes);

	if (!err && locks)
		err = may_lock(bytes);
	if (err || !bytes)
		return err;
	if (start >= USER_TOP || bytes > USER_TOP - start)
		return -ENOMEM;
	err = mutex_lock_killable(&as->map_lock);
	if (err)
		return err;
	err = aspace_check_mapped(as, start, bytes);
	mutex_unlock(&as->map_lock);
	return err;
}

static long lock_range(uint64_t addr, uint64_t len, bool touch)
{
	vaddr_t start;
	uint64_t bytes;
	long err = check_range_mapped(addr, len, true);

	if (err || !touch || page_range(addr, len, &start, &bytes))
		return err;
	err = aspace_populate(aspace_current(), start, bytes, POPULATE_LOCK);
	/* All of it was mapped: what fails now cannot be touched, or has no memory. */
	return err == -ENOMEM ? -EAGAIN : err && err != -EINTR ? -ENOMEM : err;
}

/* mlock(addr, len) */
long sys_mlock(const struct syscall_args *args)
{
	return lock_range(args->a[0], args->a[1], true);
}

/* mlock2(addr, len, flags) */
long sys_mlock2(const struct syscall_args *args)
{
	if ((uint32_t)args->a[2] & ~MLOCK_ONFAULT)
		return -EINVAL;
	return lock_range(args->a[0], args->a[1], !(args->a[2] & MLOCK_ONFAULT));
}

/* munlock(addr, len) */
long sys_munlock(const struct syscall_args *args)
{
	return check_range_mapped(args->a[0], args->a[1], false);
}

/* mlockall(flags) */
long sys_mlockall(const struct syscall_args *args)
{
	const uint32_t flags = (uint32_t)args->a[0];

	if (!flags || flags == MCL_ONFAULT || (flags & ~(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT)))
		return -EINVAL;
	return may_lock(flags & MCL_CURRENT ? aspace_current()->nr_pages_mapped * PAGE_SIZE : 0);
}

/* munlockall() */
long sys_munlockall(const struct syscall_args *args)
{
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

/* Would a touch of the page, which is mapped, find it in the memory of a node? */
static bool is_resident(struct aspace *as, vaddr_t addr)
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
	err = check_range_mapped(addr, len, false);
	for (uint64_t done = 0; !err && done < len / PAGE_SIZE;) {
		const uint64_t nr = MIN(len / PAGE_SIZE - done, (uint64_t)sizeof(vec));

		for (uint64_t i = 0; i < nr; i++)
			vec[i] = is_resident(as, addr + (done + i) * PAGE_SIZE);
		if (copy_to_user((void __user *)(args->a[2] + done), vec, nr))
			err = -EFAULT;
		done += nr;
	}
	return err;
}
