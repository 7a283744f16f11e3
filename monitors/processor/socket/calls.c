/* SPDX-License-Identifier: MIT */
/*
 * System calls that make, name and connect sockets.
 *
 * Ordering:	descriptor, type of file, address, family: the order of Linux's checks.
 */
#include "calls_private.h"

#include <abi/fcntl.h>
#include <arch/uaccess.h>
#include <lib/err.h>
#include <lib/string.h>
#include <processor/process/process.h>
#include <processor/syscall/syscall.h>
#include <processor/vfs/file.h>

#include "socket.h"

#define SOCK_TYPE_MASK 0xfu
#define SOCK_TYPES     11u

/* --- shared -------------------------------------------------------------------------- */

struct socket *socket_borrow(uint64_t fd, struct socket_ref *ref)
{
	struct socket *s;

	ref->file = fd_borrow((int)fd, &ref->counted);
	if (IS_ERR(ref->file))
		return ERR_PTR(PTR_ERR(ref->file));
	s = ref->file->flags & O_PATH ? NULL : socket_of(ref->file);
	if (s)
		return s;
	fd_return(ref->file, ref->counted);
	return ERR_PTR(-ENOTSOCK);
}

int sock_addr_fetch(struct sock_addr *addr, uint64_t uaddr, uint64_t ulen)
{
	const int32_t len = (int32_t)ulen;

	addr->len = 0;
	addr->family = AF_UNSPEC;
	if (len < 0 || len > (int32_t)LINUX_SOCKADDR_MAX)
		return -EINVAL;
	addr->len = (uint32_t)len;
	return copy_from_user(addr->bytes, (const void __user *)uaddr, (size_t)len);
}

int sock_addr_put(const struct sock_addr *addr, uint64_t uaddr, uint64_t ulen)
{
	uint32_t room;
	int err = get_user_u32(&room, (const void __user *)ulen);

	if (err)
		return err;
	if ((int32_t)room < 0)
		return -EINVAL;
	err = copy_to_user((void __user *)uaddr, addr->bytes, MIN(room, addr->len));
	return err ? err : put_user_u32(addr->len, (void __user *)ulen);
}

/* --- making -------------------------------------------------------------------------- */

/* A new socket, referenced, from the arguments of socket() and socketpair(). */
static struct socket *make(uint32_t family, uint32_t type, uint32_t protocol,
			   const struct socket_family **out)
{
	const struct socket_ops *ops;

	if (type & ~(SOCK_TYPE_MASK | O_CLOEXEC | O_NONBLOCK))
		return ERR_PTR(-EINVAL);
	type &= SOCK_TYPE_MASK;
	if (family >= AF_MAX)
		return ERR_PTR(-EAFNOSUPPORT);
	if (type >= SOCK_TYPES)
		return ERR_PTR(-EINVAL);
	*out = socket_family_find(family);
	if (IS_ERR(*out))
		return ERR_PTR(PTR_ERR(*out));
	ops = (*out)->choose(type, &protocol);
	if (IS_ERR(ops))
		return ERR_PTR(PTR_ERR(ops));
	if (family == AF_UNIX && type == SOCK_RAW)
		type = SOCK_DGRAM;
	return socket_create(ops, family, type, protocol);
}

/* A descriptor for @s, whose reference goes to it, or is given back after an error. */
static int install(struct socket *s, uint32_t flags)
{
	struct file *f = socket_file(s, flags);
	int fd;

	if (IS_ERR(f)) {
		socket_drop(s);
		return PTR_ERR(f);
	}
	fd = files_install(files_current(), f, 0, flags & O_CLOEXEC);
	if (fd < 0)
		file_put(f);
	return fd;
}

/* socket(family, type, protocol) */
long sys_socket(const struct syscall_args *args)
{
	const struct socket_family *family;
	struct socket *s =
		make((uint32_t)args->a[0], (uint32_t)args->a[1], (uint32_t)args->a[2], &family);

	return IS_ERR(s) ? PTR_ERR(s) : install(s, (uint32_t)args->a[1]);
}

/* Two files for @s, which take over the references. */
static int pair_files(struct socket *s[2], uint32_t flags, struct file *ends[2])
{
	ends[0] = socket_file(s[0], flags);
	if (IS_ERR(ends[0])) {
		socket_drop(s[0]);
		socket_drop(s[1]);
		return PTR_ERR(ends[0]);
	}
	ends[1] = socket_file(s[1], flags);
	if (!IS_ERR(ends[1]))
		return 0;
	file_put(ends[0]);
	socket_drop(s[1]);
	return PTR_ERR(ends[1]);
}

static int install_pair(struct file *ends[2], uint32_t flags, uint64_t ufds)
{
	struct files *fs = files_current();
	int fds[2], err;

	fds[0] = files_reserve(fs, 0, flags & O_CLOEXEC);
	fds[1] = fds[0] < 0 ? fds[0] : files_reserve(fs, 0, flags & O_CLOEXEC);
	err = fds[1] < 0 ? fds[1] : copy_to_user((void __user *)ufds, fds, sizeof(fds));
	for (int i = 0; i < 2; i++) {
		if (!err)
			files_fill(fs, fds[i], ends[i]);
		else
			file_put(ends[i]);
		if (err && fds[i] >= 0)
			files_unreserve(fs, fds[i]);
	}
	return err;
}

/* socketpair(family, type, protocol, fds) */
long sys_socketpair(const struct syscall_args *args)
{
	const uint32_t flags = (uint32_t)args->a[1];
	const struct socket_family *family;
	struct socket *s[2];
	struct file *ends[2];
	int err;

	s[0] = make((uint32_t)args->a[0], flags, (uint32_t)args->a[2], &family);
	if (IS_ERR(s[0]))
		return PTR_ERR(s[0]);
	s[1] = socket_create(s[0]->ops, s[0]->family, s[0]->type, s[0]->protocol);
	err = IS_ERR(s[1]) ? PTR_ERR(s[1]) : 0;
	if (!err) {
		err = family->pair ? family->pair(s[0], s[1]) : -EOPNOTSUPP;
		if (err)
			socket_drop(s[1]);
	}
	if (err) {
		socket_drop(s[0]);
		return err;
	}
	err = pair_files(s, flags, ends);
	return err ? err : install_pair(ends, flags, args->a[3]);
}

/* --- naming and connecting ----------------------------------------------------------- */

/* bind(fd, addr, len) */
long sys_bind(const struct syscall_args *args)
{
	struct socket_ref ref;
	struct socket *s = socket_borrow(args->a[0], &ref);
	struct sock_addr addr;
	int err;

	if (IS_ERR(s))
		return PTR_ERR(s);
	err = sock_addr_fetch(&addr, args->a[1], args->a[2]);
	if (!err)
		err = s->ops->bind ? s->ops->bind(s, &addr) : -EOPNOTSUPP;
	socket_return(&ref);
	return err;
}

/* listen(fd, backlog) */
long sys_listen(const struct syscall_args *args)
{
	const uint32_t backlog = MIN((uint32_t)args->a[1], (uint32_t)SOMAXCONN);
	struct socket_ref ref;
	struct socket *s = socket_borrow(args->a[0], &ref);
	int err;

	if (IS_ERR(s))
		return PTR_ERR(s);
	err = s->ops->listen ? s->ops->listen(s, (int)backlog) : -EOPNOTSUPP;
	socket_return(&ref);
	return err;
}

/* connect(fd, addr, len) */
long sys_connect(const struct syscall_args *args)
{
	struct socket_ref ref;
	struct socket *s = socket_borrow(args->a[0], &ref);
	struct sock_addr addr;
	int err;

	if (IS_ERR(s))
		return PTR_ERR(s);
	err = sock_addr_fetch(&addr, args->a[1], args->a[2]);
	if (!err)
		err = s->ops->connect ? s->ops->connect(s, &addr, file_nonblock(ref.file))
				      : -EOPNOTSUPP;
	socket_return(&ref);
	return err;
}

/* The name of the other end of @child into the buffer of accept(). */
static int put_peer(struct socket *child, uint64_t uaddr, uint64_t ulen)
{
	struct sock_addr addr = { 0 };
	int err;

	if (!uaddr)
		return 0;
	err = child->ops->getname ? child->ops->getname(child, true, &addr) : 0;
	if (err == -ENOTCONN && child->family == AF_UNIX) {
		addr.len = sizeof(addr.family); /* the other end is gone already */
		addr.family = AF_UNIX;
		err = 0;
	}
	return err ? -ECONNABORTED : sock_addr_put(&addr, uaddr, ulen);
}

static long accept_from(const struct syscall_args *args, uint32_t flags)
{
	struct files *fs = files_current();
	struct socket_ref ref;
	struct socket *child, *s = socket_borrow(args->a[0], &ref);
	struct file *f;
	int fd, err;

	if (IS_ERR(s))
		return PTR_ERR(s);
	fd = s->ops->accept ? files_reserve(fs, 0, flags & O_CLOEXEC) : -EOPNOTSUPP;
	if (fd < 0) {
		socket_return(&ref);
		return fd;
	}
	child = s->ops->accept(s, file_nonblock(ref.file));
	socket_return(&ref);
	err = IS_ERR(child) ? PTR_ERR(child) : 0;
	if (!err) {
		f = socket_file(child, flags);
		err = IS_ERR(f) ? PTR_ERR(f) : put_peer(child, args->a[1], args->a[2]);
		if (!err)
			files_fill(fs, fd, f);
		else if (IS_ERR(f))
			socket_drop(child);
		else
			file_put(f);
	}
	if (err)
		files_unreserve(fs, fd);
	return err ? err : fd;
}

/* accept(fd, addr, len) */
long sys_accept(const struct syscall_args *args)
{
	return accept_from(args, 0);
}

/* accept4(fd, addr, len, flags) */
long sys_accept4(const struct syscall_args *args)
{
	const uint32_t flags = (uint32_t)args->a[3];

	return flags & ~(uint32_t)(O_CLOEXEC | O_NONBLOCK) ? -EINVAL : accept_from(args, flags);
}

static long get_name(const struct syscall_args *args, bool peer)
{
	struct socket_ref ref;
	struct socket *s = socket_borrow(args->a[0], &ref);
	struct sock_addr addr = { 0 };
	int err;

	if (IS_ERR(s))
		return PTR_ERR(s);
	err = s->ops->getname ? s->ops->getname(s, peer, &addr) : -EOPNOTSUPP;
	if (!err)
		err = sock_addr_put(&addr, args->a[1], args->a[2]);
	socket_return(&ref);
	return err;
}

/* getsockname(fd, addr, len) */
long sys_getsockname(const struct syscall_args *args)
{
	return get_name(args, false);
}

/* getpeername(fd, addr, len) */
long sys_getpeername(const struct syscall_args *args)
{
	return get_name(args, true);
}

/* shutdown(fd, how) */
long sys_shutdown(const struct syscall_args *args)
{
	const unsigned int how = (unsigned int)args->a[1];
	struct socket_ref ref;
	struct socket *s = socket_borrow(args->a[0], &ref);
	int err;

	if (IS_ERR(s))
		return PTR_ERR(s);
	if (how > SHUT_RDWR)
		err = -EINVAL;
	else
		err = s->ops->shutdown ? s->ops->shutdown(s, how) : -EOPNOTSUPP;
	socket_return(&ref);
	return err;
}
