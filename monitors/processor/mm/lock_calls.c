/* SPDX-License-Identifier: MIT */
/*
 * mlock and its kin, mincore.
 *
 * Limits:	there is no swap.  Every page is in the memory of a node at any time, so the
 *		guarantee of mlock(2) holds for all of them, and the calls only check what Linux
 *		checks.  Pages go to and from the cache of the processor all the same.
 */
#include <abi/mman.h>
#include <arch/pgtable.h>
#include <arch/uaccess.h>
#include <lib/errno.h>
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

/* mlock(addr, len) */
long sys_mlock(const struct syscall_args *args)
{
	return check_range_mapped(args->a[0], args->a[1], true);
}

/* mlock2(addr, len, flags) */
long sys_mlock2(const struct syscall_args *args)
{
	if ((uint32_t)args->a[2] & ~MLOCK_ONFAULT)
		return -EINVAL;
	return check_range_mapped(args->a[0], args->a[1], true);
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

static bool is_mapped_here(struct aspace *as, vaddr_t addr)
{
	struct pgtable_entry e;
	bool mapped;

	spin_lock(&as->lock);
	mapped = pgtable_query(as->pt, addr, &e);
	spin_unlock(&as->lock);
	return mapped;
}

/* mincore(addr, len, vec): what the page table maps is here */
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
			vec[i] = is_mapped_here(as, addr + (done + i) * PAGE_SIZE);
		if (copy_to_user((void __user *)(args->a[2] + done), vec, nr))
			err = -EFAULT;
		done += nr;
	}
	return err;
}
