/* SPDX-License-Identifier: MIT */
/* fcntl, and the ioctls that every file has. */
#include <abi/fcntl.h>
#include <abi/ioctl.h>
#include <arch/uaccess.h>
#include <lib/err.h>
#include <processor/ipc/async.h>
#include <processor/ipc/filelease.h>
#include <processor/ipc/filelock.h>
#include <processor/ipc/pipe.h>
#include <processor/process/process.h>
#include <processor/socket/socket.h>
#include <processor/syscall/syscall.h>

#include "file.h"
#include "file_flags.h"
#include "inode.h"
#include "notify.h"

#define SETFL_MASK (O_APPEND | O_NONBLOCK | O_DIRECT | O_NOATIME)

static long dup_from(struct file *f, uint64_t from, bool cloexec)
{
	int fd;

	if (from >= process_rlimit(RLIMIT_NOFILE))
		return -EINVAL;
	file_get(f);
	fd = files_install(files_current(), f, (int)from, cloexec);
	if (fd < 0)
		file_put(f);
	return fd;
}

static long set_flags(struct file *f, int fd, uint32_t flags)
{
	struct file_attr attr;
	int err = 0;

	/* Its writers cannot get at other bytes that way. */
	if (((flags ^ f->flags) & O_APPEND) && f->inode && f->inode->type->keeps_flags) {
		err = inode_getattr(f->inode, &attr);
		if (!err && (attr.attrs & STATX_ATTR_APPEND))
			err = -EPERM;
		if (err)
			return err;
	}
	/* Packets for pipes; regular files are read through the cache in any case. */
	if ((flags & O_DIRECT) && !(f->flags & O_DIRECT) && !pipe_of(f) && !f->object)
		return -EINVAL;
	if ((flags ^ READ_ONCE(f->flags)) & O_ASYNC)
		err = async_switch(f, fd, flags & O_ASYNC);
	if (!err)
		file_change_flags(f, SETFL_MASK, flags & SETFL_MASK);
	return err;
}

/* --- the owner, and its signal -------------------------------------------------------- */

static long set_owner(struct file *f, int type, int pid)
{
	struct file_owner owner;
	const uint32_t nr = pid ? pid_from_vnr((uint32_t)pid) : 0;
	const int err = pid && !nr ? -ESRCH : owner_make(type, nr, &owner);

	if (!err)
		async_set_owner(f, &owner);
	return err;
}

static long set_owner_user(struct file *f, uint64_t uowner)
{
	struct linux_f_owner_ex u;

	if (copy_from_user(&u, (const void __user *)uowner, sizeof(u)))
		return -EFAULT;
	return set_owner(f, u.type, u.pid);
}

/* The owner in one number: a group is negative. */
static long set_owner_number(struct file *f, int owner)
{
	if (owner == INT32_MIN)
		return -EINVAL;
	return owner < 0 ? set_owner(f, F_OWNER_PGRP, -owner) : set_owner(f, F_OWNER_PID, owner);
}

static long get_owner_number(struct file *f)
{
	const struct file_owner owner = async_owner(f);
	const long nr = pid_vnr(owner_number(&owner));

	return owner.type == F_OWNER_PGRP ? -nr : nr;
}

static long owner_commands(struct file *f, uint32_t cmd, uint64_t arg)
{
	struct file_owner owner;
	struct linux_f_owner_ex u;

	switch (cmd) {
	case F_SETOWN:
		return set_owner_number(f, (int)arg);
	case F_GETOWN:
		return get_owner_number(f);
	case F_SETOWN_EX:
		return set_owner_user(f, arg);
	case F_SETSIG:
		if (arg >= NR_SIGNALS)
			return -EINVAL;
		async_set_signal(f, (int)arg);
		return 0;
	case F_GETSIG:
		return async_signal(f);
	default:
		owner = async_owner(f);
		u = (struct linux_f_owner_ex){ owner.type, (int32_t)pid_vnr(owner_number(&owner)) };
		return copy_to_user((void __user *)arg, &u, sizeof(u)) ? -EFAULT : 0;
	}
}

/* The same as ioctl() of sockets. */
static bool is_owner_ioctl(uint32_t cmd)
{
	return cmd == FIOSETOWN || cmd == SIOCSPGRP || cmd == FIOGETOWN || cmd == SIOCGPGRP;
}

static long owner_ioctl(struct file *f, uint32_t cmd, uint64_t arg)
{
	uint32_t nr;

	if (cmd == FIOGETOWN || cmd == SIOCGPGRP)
		return put_user_u32((uint32_t)get_owner_number(f), (void __user *)arg);
	if (get_user_u32(&nr, (const void __user *)arg))
		return -EFAULT;
	return set_owner_number(f, (int)nr);
}

/* --- fcntl ---------------------------------------------------------------------------- */

/* Is it the open file behind @fd? */
static long is_same_file(const struct file *f, int fd)
{
	struct file *other = fd_get(fd);

	if (IS_ERR(other))
		return PTR_ERR(other);
	file_put(other);
	return other == f;
}

static long seal_commands(struct file *f, bool add, uint32_t seals)
{
	if (add && !file_writable(f))
		return -EPERM;
	if (add && (seals & ~F_SEAL_ALL))
		return -EINVAL;
	return f->ops->seals ? f->ops->seals(f, add, seals) : -EINVAL;
}

static long on_file(struct file *f, int fd, uint32_t cmd, uint64_t arg)
{
	switch (cmd) {
	case F_DUPFD:
	case F_DUPFD_CLOEXEC:
		return dup_from(f, (uint32_t)arg, cmd == F_DUPFD_CLOEXEC);
	case F_DUPFD_QUERY:
		return is_same_file(f, (int)arg);
	case F_CREATED_QUERY:
		return f->created;
	case F_GETFL:
		return (long)(READ_ONCE(f->flags) | (f->object ? O_LARGEFILE : 0));
	default:
		break;
	}
	if (f->flags & O_PATH)
		return -EBADF;
	switch (cmd) {
	case F_SETFL:
		return set_flags(f, fd, (uint32_t)arg);
	case F_SETOWN:
	case F_GETOWN:
	case F_SETOWN_EX:
	case F_GETOWN_EX:
	case F_SETSIG:
	case F_GETSIG:
		return owner_commands(f, cmd, arg);
	case F_SETPIPE_SZ:
		return pipe_of(f) ? pipe_set_size(pipe_of(f), (uint32_t)arg) : -EBADF;
	case F_GETPIPE_SZ:
		return pipe_of(f) ? pipe_size(pipe_of(f)) : -EBADF;
	case F_SETLEASE:
		return filelease_set(f, fd, (uint32_t)arg);
	case F_GETLEASE:
		return filelease_get(f);
	case F_ADD_SEALS:
	case F_GET_SEALS:
		return seal_commands(f, cmd == F_ADD_SEALS, (uint32_t)arg);
	case F_NOTIFY:
		return dnotify_set(f, fd, (uint32_t)arg);
	default:
		return fcntl_lock(f, fd, cmd, arg);
	}
}

/* fcntl(fd, cmd, arg) */
long sys_fcntl(const struct syscall_args *args)
{
	const int fd = (int)args->a[0];
	const uint32_t cmd = (uint32_t)args->a[1];
	struct file *f;
	bool cloexec;
	long ret;

	if (cmd == F_GETFD) {
		ret = files_get_cloexec(files_current(), fd, &cloexec);
		return ret ? ret : (long)(cloexec ? FD_CLOEXEC : 0);
	}
	if (cmd == F_SETFD)
		return files_set_cloexec(files_current(), fd, args->a[2] & FD_CLOEXEC);
	f = fd_get(fd);
	if (IS_ERR(f))
		return PTR_ERR(f);
	ret = on_file(f, fd, cmd, args->a[2]);
	file_put(f);
	return ret;
}

static long switch_flag(struct file *f, int fd, uint32_t cmd, uint64_t uarg)
{
	uint32_t on;

	if (get_user_u32(&on, (const void __user *)uarg))
		return -EFAULT;
	if (cmd == FIOASYNC) {
		if (!on == !(READ_ONCE(f->flags) & O_ASYNC))
			return 0;
		return f->ops->async ? async_switch(f, fd, on) : -ENOTTY;
	}
	file_change_flags(f, O_NONBLOCK, on ? O_NONBLOCK : 0);
	return 0;
}

/* ioctl(fd, cmd, arg) */
long sys_ioctl(const struct syscall_args *args)
{
	const uint32_t cmd = (uint32_t)args->a[1];
	struct file *f = fd_get((int)args->a[0]);
	long ret;

	if (IS_ERR(f))
		return PTR_ERR(f);
	if (f->flags & O_PATH)
		ret = -EBADF;
	else if (cmd == FIOCLEX || cmd == FIONCLEX)
		ret = files_set_cloexec(files_current(), (int)args->a[0], cmd == FIOCLEX);
	else if (cmd == FIONBIO || cmd == FIOASYNC)
		ret = switch_flag(f, (int)args->a[0], cmd, args->a[2]);
	else if (cmd == FS_IOC_GETFLAGS || cmd == FS_IOC_SETFLAGS)
		ret = file_flags_ioctl(f, cmd, args->a[2]);
	else if (is_owner_ioctl(cmd) && socket_of(f))
		ret = owner_ioctl(f, cmd, args->a[2]);
	else
		ret = f->ops->ioctl ? f->ops->ioctl(f, cmd, args->a[2]) : -ENOTTY;
	file_put(f);
	return ret;
}
