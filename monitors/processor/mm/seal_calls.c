/* SPDX-License-Identifier: MIT */
/*
 * mseal.
 */
#include <lib/errno.h>
#include <processor/process/process.h>
#include <processor/syscall/syscall.h>

#include "aspace.h"
#include "seal.h"

/* mseal(addr, len, flags) */
long sys_mseal(const struct syscall_args *args)
{
	const uint64_t start = args->a[0], want = args->a[1];
	const uint64_t len = (want + PAGE_SIZE - 1) & ~(uint64_t)(PAGE_SIZE - 1);
	struct aspace *as = aspace_current();
	int err;

	if (args->a[2] || (start & (PAGE_SIZE - 1)) || (want && !len) || start + len < start)
		return -EINVAL;
	if (!len)
		return 0;
	if (start > SPACE_TOP || len > SPACE_TOP - start)
		return -ENOMEM;
	err = mutex_lock_killable(&as->map_lock);
	if (err)
		return err;
	err = aspace_check_mapped(as, start, len);
	if (!err)
		err = seal_add(as, start, start + len);
	mutex_unlock(&as->map_lock);
	return err;
}
