/* SPDX-License-Identifier: MIT */
/*
 * Protection keys, as on a processor that has none: there is no key to allocate or free, EINVAL,
 * and pkey_mprotect() without a key is mprotect().
 */
#include <lib/errno.h>
#include <lib/types.h>
#include <processor/syscall/syscall.h>

/* pkey_mprotect(addr, len, prot, pkey) */
long sys_pkey_mprotect(const struct syscall_args *args)
{
	if ((int)args->a[3] == -1)
		return sys_mprotect(args);
	return args->a[1] || (args->a[0] & (PAGE_SIZE - 1)) ? -EINVAL : 0;
}

/* pkey_alloc(flags, rights) */
long sys_pkey_alloc(const struct syscall_args *args)
{
	return -EINVAL;
}

/* pkey_free(pkey) */
long sys_pkey_free(const struct syscall_args *args)
{
	return -EINVAL;
}
