/* SPDX-License-Identifier: MIT */
/*
 * System calls on descriptors: close, dup, fcntl, ioctl, getdents, fsync and their kin.
 */
#include <arch/uaccess.h>
#include <lib/err.h>
#include <processor/file.h>
#include <processor/pipe.h>
#include <processor/process.h>
#include <processor/syscall.h>

/* close(fd) */
long sys_close(const struct syscall_args *args)
{
	return files_close(files_current(), (int)args->a[0]);
}

/* close_range(first, last, flags) */
long sys_close_range(const struct syscall_args *args)
{
	const unsigned int first = (unsigned int)args->a[0], last = (unsigned int)args->a[1];
	struct files *fs = files_current();
	const uint32_t flags = (uint32_t)args->a[2];

	if (first > last || (flags & ~6u)) /* UNSHARE 2: the table is not shared; CLOEXEC 4 */
		return -EINVAL;
	if (!(flags & 4u)) {
		files_close_range(fs, first, last, false);
		return 0;
	}
	files_cloexec_range(fs, first, last);
	return 0;
}

/* --- pipes --------------------------------------------------------------------------- */

static long make_pipe(uint64_t ufds, uint32_t flags)
{
	struct files *fs = files_current();
	const bool cloexec = flags & O_CLOEXEC;
	struct file *ends[2];
	int fds[2];
	int err;

	if (flags & ~(uint32_t)(O_CLOEXEC | O_NONBLOCK | O_DIRECT))
		return -EINVAL;
	err = pipe_open(flags, ends);
	if (err)
		return err;
	fds[0] = files_reserve(fs, 0, cloexec);
	fds[1] = fds[0] < 0 ? fds[0] : files_reserve(fs, 0, cloexec);
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

/* pipe(fds) */
long sys_pipe(const struct syscall_args *args)
{
	return make_pipe(args->a[0], 0);
}

/* pipe2(fds, flags) */
long sys_pipe2(const struct syscall_args *args)
{
	return make_pipe(args->a[0], (uint32_t)args->a[1]);
}

/* --- dup ----------------------------------------------------------------------------- */

static long dup_from(int fd, int from, bool cloexec)
{
	struct file *f = fd_get(fd);
	int ret;

	if (IS_ERR(f))
		return PTR_ERR(f);
	ret = files_install(files_current(), f, from, cloexec);
	if (ret < 0)
		file_put(f);
	return ret;
}

/* dup(fd) */
long sys_dup(const struct syscall_args *args)
{
	return dup_from((int)args->a[0], 0, false);
}

static long dup_to(int from, int to, bool cloexec)
{
	struct file *f = fd_get(from);
	int ret;

	if (IS_ERR(f))
		return PTR_ERR(f);
	ret = files_replace(files_current(), f, to, cloexec);
	if (ret < 0)
		file_put(f);
	return ret;
}

/* dup2(from, to) */
long sys_dup2(const struct syscall_args *args)
{
	const int from = (int)args->a[0], to = (int)args->a[1];
	struct file *f;

	if (from != to)
		return dup_to(from, to, false);
	f = fd_get(from);
	if (IS_ERR(f))
		return PTR_ERR(f);
	file_put(f);
	return to;
}

/* dup3(from, to, flags) */
long sys_dup3(const struct syscall_args *args)
{
	const uint32_t flags = (uint32_t)args->a[2];

	if ((flags & ~(uint32_t)O_CLOEXEC) || (int)args->a[0] == (int)args->a[1])
		return -EINVAL;
	return dup_to((int)args->a[0], (int)args->a[1], flags & O_CLOEXEC);
}

/* --- fcntl, ioctl -------------------------------------------------------------------- */

enum fcntl_cmd {
	F_DUPFD = 0,
	F_GETFD = 1,
	F_SETFD = 2,
	F_GETFL = 3,
	F_SETFL = 4,
	F_DUPFD_CLOEXEC = 1030,
	F_SETPIPE_SZ = 1031,
	F_GETPIPE_SZ = 1032,
};

#define FD_CLOEXEC 1u

/* fcntl(fd, cmd, arg) */
long sys_fcntl(const struct syscall_args *args)
{
	struct files *fs = files_current();
	const int fd = (int)args->a[0];
	const uint32_t cmd = (uint32_t)args->a[1];
	const uint64_t arg = args->a[2];
	struct file *f;
	bool cloexec;
	long ret;

	switch (cmd) {
	case F_GETFD:
		ret = files_get_cloexec(fs, fd, &cloexec);
		return ret ? ret : (long)(cloexec ? FD_CLOEXEC : 0);
	case F_SETFD:
		return files_set_cloexec(fs, fd, arg & FD_CLOEXEC);
	default:
		break;
	}
	f = fd_get(fd);
	if (IS_ERR(f))
		return PTR_ERR(f);
	switch (cmd) {
	case F_DUPFD:
	case F_DUPFD_CLOEXEC:
		ret = arg >= process_rlimit(RLIM_NOFILE)
			      ? -EINVAL
			      : dup_from(fd, (int)arg, cmd == F_DUPFD_CLOEXEC);
		break;
	case F_GETFL:
		ret = (long)(f->flags | (f->object ? O_LARGEFILE : 0));
		break;
	case F_SETFL:
		ret = -EBADF;
		if (f->flags & O_PATH)
			break;
		file_change_flags(f, O_APPEND | O_NONBLOCK | O_DIRECT,
				  (uint32_t)arg & (O_APPEND | O_NONBLOCK | O_DIRECT));
		ret = 0;
		break;
	case F_SETPIPE_SZ:
		ret = pipe_of(f) ? pipe_set_size(pipe_of(f), (uint32_t)arg) : -EBADF;
		break;
	case F_GETPIPE_SZ:
		ret = pipe_of(f) ? pipe_size(pipe_of(f)) : -EBADF;
		break;
	default:
		ret = -EINVAL;
		break;
	}
	file_put(f);
	return ret;
}

#define FIONCLEX 0x5450u
#define FIOCLEX  0x5451u
#define FIONBIO  0x5421u

static long set_nonblock(struct file *f, uint64_t uarg)
{
	uint32_t on;

	if (get_user_u32(&on, (const void __user *)uarg))
		return -EFAULT;
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
	else if (cmd == FIONBIO)
		ret = set_nonblock(f, args->a[2]);
	else
		ret = f->ops->ioctl ? f->ops->ioctl(f, cmd, args->a[2]) : -ENOTTY;
	file_put(f);
	return ret;
}

/* --- directories, and calls that have nothing to write ------------------------------- */

/* getdents64(fd, buf, size) */
long sys_getdents64(const struct syscall_args *args)
{
	struct file *f = fd_get((int)args->a[0]);
	long ret;

	if (IS_ERR(f))
		return PTR_ERR(f);
	if (f->flags & O_PATH)
		ret = -EBADF;
	else if (!f->ops->getdents)
		ret = -ENOTDIR;
	else if (!user_range_ok(args->a[1], (uint32_t)args->a[2]))
		ret = -EFAULT;
	else
		ret = f->ops->getdents(f, args->a[1], (uint32_t)args->a[2]);
	file_put(f);
	return ret;
}

/* A file that is open read-only has nothing to write back; a stream cannot be synchronised. */
static long sync_file(int fd)
{
	struct file *f = fd_get(fd);
	long ret;

	if (IS_ERR(f))
		return PTR_ERR(f);
	ret = (f->flags & O_PATH) ? -EBADF : f->attr.file.node || f->inode ? 0 : -EINVAL;
	file_put(f);
	return ret;
}

/* fsync(fd) */
long sys_fsync(const struct syscall_args *args)
{
	return sync_file((int)args->a[0]);
}

/* fdatasync(fd) */
long sys_fdatasync(const struct syscall_args *args)
{
	return sync_file((int)args->a[0]);
}

#define LOCK_SH 1u
#define LOCK_EX 2u
#define LOCK_NB 4u
#define LOCK_UN 8u

/* flock(fd, op): nobody else can hold a lock while each program is alone */
long sys_flock(const struct syscall_args *args)
{
	const uint32_t op = (uint32_t)args->a[1] & ~LOCK_NB;
	struct file *f = fd_get((int)args->a[0]);

	if (IS_ERR(f))
		return PTR_ERR(f);
	file_put(f);
	return op == LOCK_SH || op == LOCK_EX || op == LOCK_UN ? 0 : -EINVAL;
}

/* fadvise64(fd, offset, len, advice): hints only */
long sys_fadvise64(const struct syscall_args *args)
{
	struct file *f = fd_get((int)args->a[0]);
	long ret;

	if (IS_ERR(f))
		return PTR_ERR(f);
	ret = f->ops == &stream_ops                         ? -ESPIPE
	      : (args->a[3] > 5 || (int64_t)args->a[2] < 0) ? -EINVAL
							    : 0;
	file_put(f);
	return ret;
}

/* socket(family, type, protocol) */
long sys_socket(const struct syscall_args *args)
{
	return -EAFNOSUPPORT;
}
