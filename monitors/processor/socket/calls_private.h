/* SPDX-License-Identifier: MIT */
/* Shared by the system calls on sockets. */
#pragma once

#include <processor/vfs/file.h>

#include "socket.h"

struct socket_ref {
	struct file *file;
	bool counted;
};

/* The socket behind descriptor @fd, until socket_return(). ERR_PTR(-EBADF, -ENOTSOCK). */
struct socket *socket_borrow(uint64_t fd, struct socket_ref *ref);
static inline void socket_return(const struct socket_ref *ref)
{
	fd_return(ref->file, ref->counted);
}

/* A name from user memory. -EINVAL, -EFAULT */
int sock_addr_fetch(struct sock_addr *addr, uint64_t uaddr, uint64_t ulen) __must_check;
/* A name into a buffer whose size is at @ulen, which then has the name's. */
int sock_addr_put(const struct sock_addr *addr, uint64_t uaddr, uint64_t ulen) __must_check;
