/* SPDX-License-Identifier: MIT */
/*
 * System calls on sockets. There are connected pairs of AF_UNIX (unix_pair.c) and no others: a
 * socket of any family by itself cannot be had, and a descriptor of anything else is bad, or not a
 * socket.
 */
#include <abi/socket.h>
#include <arch/uaccess.h>
#include <lib/err.h>
#include <lib/string.h>
#include <processor/process/process.h>
#include <processor/syscall/syscall.h>
#include <processor/vfs/file.h>
#include <processor/vfs/uio.h>

#include "socket.h"

#define SOCK_TYPE_MASK 0xfu
#define SOCK_MAX       11u

#define SNDBUF_MIN 2304u   /* half of what is kept: Linux doubles what is asked for */
#define SNDBUF_MAX 212992u /* as wmem_max */

/* --- making them --------------------------------------------------------------------- */

/* socket(family, type, protocol) */
long sys_socket(const struct syscall_args *args)
{
	return -EAFNOSUPPORT;
}

/* The kind of pair that the arguments of socketpair() ask for, or the errno. */
static int pair_type(uint32_t family, uint32_t type, uint32_t protocol)
{
	if (type & ~(SOCK_TYPE_MASK | O_CLOEXEC | O_NONBLOCK))
		return -EINVAL;
	type &= SOCK_TYPE_MASK;
	if (family != AF_UNIX)
		return -EAFNOSUPPORT;
	if (type >= SOCK_MAX)
		return -EINVAL;
	if (protocol && protocol != AF_UNIX)
		return -EPROTONOSUPPORT;
	if (type == SOCK_RAW)
		return SOCK_DGRAM;
	return type == SOCK_STREAM || type == SOCK_DGRAM || type == SOCK_SEQPACKET
		       ? (int)type
		       : -ESOCKTNOSUPPORT;
}

/* socketpair(family, type, protocol, fds) */
long sys_socketpair(const struct syscall_args *args)
{
	const int type =
		pair_type((uint32_t)args->a[0], (uint32_t)args->a[1], (uint32_t)args->a[2]);
	const uint32_t flags = (uint32_t)args->a[1];
	struct files *fs = files_current();
	struct file *ends[2];
	int fds[2];
	int err;

	if (type < 0)
		return type;
	err = unix_pair_open((uint32_t)type, flags, ends);
	if (err)
		return err;
	fds[0] = files_reserve(fs, 0, flags & O_CLOEXEC);
	fds[1] = fds[0] < 0 ? fds[0] : files_reserve(fs, 0, flags & O_CLOEXEC);
	err = fds[1] < 0 ? fds[1] : copy_to_user((void __user *)args->a[3], fds, sizeof(fds));
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

/* ERR_PTR(-EBADF, -ENOTSOCK) */
static struct file *socket_get(uint64_t fd)
{
	struct file *f = fd_get((int)fd);

	if (IS_ERR(f) || file_is_socket(f))
		return f;
	file_put(f);
	return ERR_PTR(-ENOTSOCK);
}

/* --- calls that a connected pair has no use for -------------------------------------- */

static long refused(const struct syscall_args *args, int of_connected, int of_datagram)
{
	struct file *f = socket_get(args->a[0]);
	int err;

	if (IS_ERR(f))
		return PTR_ERR(f);
	err = unix_type(f) == SOCK_DGRAM ? of_datagram : of_connected;
	file_put(f);
	return err;
}

/* connect(fd, addr, len) */
long sys_connect(const struct syscall_args *args)
{
	return refused(args, -EISCONN, -ECONNREFUSED);
}

/* listen(fd, backlog); accept(fd, addr, len); accept4(fd, addr, len, flags) */
long sys_socket_listen(const struct syscall_args *args)
{
	return refused(args, -EINVAL, -EOPNOTSUPP);
}

/* bind(fd, addr, len); sendmmsg(fd, msgs, nr, flags); recvmmsg(fd, msgs, nr, flags, timeout) */
long sys_socket_call(const struct syscall_args *args)
{
	return refused(args, -EOPNOTSUPP, -EOPNOTSUPP);
}

/* --- sending and receiving ----------------------------------------------------------- */

/* A destination, where the peer is the only one there can be. */
static int check_destination(const struct file *f, uint32_t len)
{
	if (!len || unix_type(f) == SOCK_SEQPACKET)
		return 0;
	return unix_type(f) == SOCK_STREAM ? -EISCONN : -ECONNREFUSED;
}

/* sendto(fd, buf, len, flags, addr, addrlen) */
long sys_sendto(const struct syscall_args *args)
{
	struct file *f = socket_get(args->a[0]);
	struct uio uio;
	long ret;

	if (IS_ERR(f))
		return PTR_ERR(f);
	ret = uio_user(&uio, args->a[1], args->a[2]);
	if (!ret)
		ret = check_destination(f, args->a[4] ? (uint32_t)args->a[5] : 0);
	if (!ret)
		ret = unix_send(f, &uio, (uint32_t)args->a[3]);
	file_put(f);
	return ret;
}

/* recvfrom(fd, buf, len, flags, addr, addrlen): the peer has no name */
long sys_recvfrom(const struct syscall_args *args)
{
	struct file *f = socket_get(args->a[0]);
	uint32_t flags = (uint32_t)args->a[3];
	struct uio uio;
	long ret;

	if (IS_ERR(f))
		return PTR_ERR(f);
	ret = uio_user(&uio, args->a[1], args->a[2]);
	if (!ret)
		ret = unix_recv(f, &uio, &flags);
	if (ret >= 0 && args->a[4] && put_user_u32(0, (void __user *)args->a[5]))
		ret = -EFAULT;
	file_put(f);
	return ret;
}

/* The header at @umsg, as far as both directions check it. */
static int get_header(struct linux_msghdr *msg, uint64_t umsg)
{
	const int err = copy_from_user(msg, (const void __user *)umsg, sizeof(*msg));

	if (err)
		return err;
	return msg->iovlen > UIO_MAXIOV ? -EMSGSIZE : 0;
}

/* sendmsg(fd, msg, flags) */
long sys_sendmsg(const struct syscall_args *args)
{
	struct file *f = socket_get(args->a[0]);
	struct linux_msghdr msg;
	struct uio uio;
	long ret;

	if (IS_ERR(f))
		return PTR_ERR(f);
	ret = get_header(&msg, args->a[1]);
	if (!ret && msg.controllen)
		ret = -EINVAL; /* neither descriptors nor credentials travel */
	if (!ret)
		ret = check_destination(f, msg.name ? msg.namelen : 0);
	if (!ret)
		ret = uio_iovec(&uio, msg.iov, msg.iovlen);
	if (!ret) {
		ret = unix_send(f, &uio, (uint32_t)args->a[2]);
		uio_done(&uio);
	}
	file_put(f);
	return ret;
}

/* The header that recvmsg() writes back. */
static int put_header(uint64_t umsg, const struct linux_msghdr *msg, uint32_t flags)
{
	uint8_t __user *at = (uint8_t __user *)umsg;

	if (msg->name && put_user_u32(0, at + offsetof(struct linux_msghdr, namelen)))
		return -EFAULT;
	if (put_user_u32(flags, at + offsetof(struct linux_msghdr, flags)))
		return -EFAULT;
	return put_user_u64(0, at + offsetof(struct linux_msghdr, controllen));
}

/* recvmsg(fd, msg, flags) */
long sys_recvmsg(const struct syscall_args *args)
{
	struct file *f = socket_get(args->a[0]);
	uint32_t flags = (uint32_t)args->a[2];
	struct linux_msghdr msg;
	struct uio uio;
	long ret;

	if (IS_ERR(f))
		return PTR_ERR(f);
	ret = get_header(&msg, args->a[1]);
	if (!ret)
		ret = uio_iovec(&uio, msg.iov, msg.iovlen);
	if (!ret) {
		ret = unix_recv(f, &uio, &flags);
		uio_done(&uio);
	}
	if (ret >= 0 && put_header(args->a[1], &msg, flags))
		ret = -EFAULT;
	file_put(f);
	return ret;
}

/* shutdown(fd, how) */
long sys_shutdown(const struct syscall_args *args)
{
	struct file *f = socket_get(args->a[0]);
	int err;

	if (IS_ERR(f))
		return PTR_ERR(f);
	err = unix_shutdown(f, (unsigned int)args->a[1]);
	file_put(f);
	return err;
}

/* --- names and options --------------------------------------------------------------- */

/* @len bytes of an answer into a buffer whose size is at @ulen, which then has the answer's. */
static int put_sized(uint64_t ubuf, uint64_t ulen, const void *answer, uint32_t len, uint32_t told)
{
	uint32_t room;
	int err = get_user_u32(&room, (const void __user *)ulen);

	if (err)
		return err;
	if ((int32_t)room < 0)
		return -EINVAL;
	len = MIN(len, room);
	err = copy_to_user((void __user *)ubuf, answer, len);
	return err ? err : put_user_u32(told ? told : len, (void __user *)ulen);
}

/* getsockname(fd, addr, len), getpeername(fd, addr, len): neither has a name */
long sys_getsockname(const struct syscall_args *args)
{
	const uint16_t family = AF_UNIX;
	struct file *f = socket_get(args->a[0]);
	int err;

	if (IS_ERR(f))
		return PTR_ERR(f);
	err = put_sized(args->a[1], args->a[2], &family, sizeof(family), sizeof(family));
	file_put(f);
	return err;
}

/* The value of a SOL_SOCKET option, or -ENOPROTOOPT. */
static int option_value(struct file *f, int option, uint32_t *value)
{
	switch (option) {
	case SO_TYPE:
		*value = unix_type(f);
		return 0;
	case SO_ERROR:
		*value = (uint32_t)unix_take_error(f);
		return 0;
	case SO_SNDBUF:
		*value = unix_sndbuf(f);
		return 0;
	case SO_DOMAIN:
		*value = AF_UNIX;
		return 0;
	case SO_PROTOCOL:
	case SO_ACCEPTCONN:
		*value = 0;
		return 0;
	default:
		return -ENOPROTOOPT;
	}
}

/* getsockopt(fd, level, option, value, len) */
long sys_getsockopt(const struct syscall_args *args)
{
	struct file *f = socket_get(args->a[0]);
	struct socket_cred cred;
	uint32_t value;
	int err;

	if (IS_ERR(f))
		return PTR_ERR(f);
	cred = unix_peer_cred(f);
	if ((int)args->a[1] != SOL_SOCKET)
		err = -EOPNOTSUPP;
	else if ((int)args->a[2] == SO_PEERCRED)
		err = put_sized(args->a[3], args->a[4], &cred, sizeof(cred), 0);
	else if (!(err = option_value(f, (int)args->a[2], &value)))
		err = put_sized(args->a[3], args->a[4], &value, sizeof(value), 0);
	file_put(f);
	return err;
}

/* setsockopt(fd, level, option, value, len) */
long sys_setsockopt(const struct syscall_args *args)
{
	struct file *f = socket_get(args->a[0]);
	uint32_t value = 0;
	int err = 0;

	if (IS_ERR(f))
		return PTR_ERR(f);
	if ((int)args->a[1] != SOL_SOCKET)
		err = -EOPNOTSUPP;
	else if ((uint32_t)args->a[4] < sizeof(value))
		err = -EINVAL;
	else if (get_user_u32(&value, (const void __user *)args->a[3]))
		err = -EFAULT;
	else if ((int)args->a[2] != SO_SNDBUF)
		err = -ENOPROTOOPT;
	else
		unix_set_sndbuf(f, MAX(MIN(value, SNDBUF_MAX), SNDBUF_MIN) * 2);
	file_put(f);
	return err;
}
