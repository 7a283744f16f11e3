/* SPDX-License-Identifier: MIT */
/*
 * System calls on sockets, of which there are none: a descriptor is bad, or not one.
 */
#include <lib/errno.h>
#include <processor/file.h>
#include <processor/process.h>
#include <processor/syscall.h>

/* socket(family, type, protocol), socketpair(family, type, protocol, pair) */
long sys_socket(const struct syscall_args *args)
{
	return -EAFNOSUPPORT;
}

/* connect, bind, sendto and all others that begin with a descriptor */
long sys_socket_call(const struct syscall_args *args)
{
	struct file *f = files_get(files_current(), (int)args->a[0]);

	if (!f)
		return -EBADF;
	file_put(f);
	return -ENOTSOCK;
}
