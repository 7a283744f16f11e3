/* SPDX-License-Identifier: MIT */
/*
 * System calls on descriptors: close, pipe, dup, getdents, fsync and their kin.
 */
#include <abi/fcntl.h>
#include <arch/uaccess.h>
#include <lib/err.h>
#include <processor/ipc/pipe.h>
#include <processor/process/process.h>
#include <processor/syscall/syscall.h>

#include "file.h"
#include "inode.h"
#include "notify.h"

/* close(fd) */
long sys_close(const struct syscall_args *args)
{
	return files_close(files_current(), (int)args->a[0]);
}

/* The calling task gets a table of its own, if it shares one. */
static int unshare_files(void)
{
	struct process *p = process_current();
	struct task *t = task_current();
	struct files *old = t->files, *new;

	if (!files_shared(old))
		return 0;
	new = files_copy(old);
	if (IS_ERR(new))
		return PTR_ERR(new);
	spin_lock(&p->sig_lock);
	t->files = new;
	spin_unlock(&p->sig_lock);
	files_put(old);
	return 0;
}

/* close_range(first, last, flags) */
long sys_close_range(const struct syscall_args *args)
{
	const unsigned int first = (unsigned int)args->a[0], last = (unsigned int)args->a[1];
	const uint32_t flags = (uint32_t)args->a[2];
	int err = 0;

	if (first > last || (flags & ~(CLOSE_RANGE_UNSHARE | CLOSE_RANGE_CLOEXEC)))
		return -EINVAL;
	if (flags & CLOSE_RANGE_UNSHARE)
		err = unshare_files();
	if (err)
		return err;
	if (flags & CLOSE_RANGE_CLOEXEC)
		files_cloexec_range(files_current(), first, last);
	else
		files_close_range(files_current(), first, last, false);
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

/* --- directories, and calls that have nothing to write ------------------------------- */

static long getdents(const struct syscall_args *args, bool old)
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
		ret = f->ops->getdents(f, args->a[1], (uint32_t)args->a[2], old);
	if (ret >= 0)
		notify_file(f, IN_ACCESS);
	file_put(f);
	return ret;
}

/* getdents(fd, buf, size) */
long sys_getdents(const struct syscall_args *args)
{
	return getdents(args, true);
}

/* getdents64(fd, buf, size) */
long sys_getdents64(const struct syscall_args *args)
{
	return getdents(args, false);
}

/* Only files and directories that keep something can be synchronised. */
static long sync_file(int fd, bool datasync)
{
	struct file *f = fd_get(fd);
	uint32_t type;
	long ret;

	if (IS_ERR(f))
		return PTR_ERR(f);
	type = f->attr.mode & S_IFMT;
	if (f->flags & O_PATH)
		ret = -EBADF;
	else if (!f->object &&
		 ((type != S_IFREG && type != S_IFDIR) || !f->inode || f->inode->type->made_up))
		ret = -EINVAL;
	else
		ret = f->ops->fsync ? f->ops->fsync(f, datasync) : 0;
	file_put(f);
	return ret;
}

/* fsync(fd) */
long sys_fsync(const struct syscall_args *args)
{
	return sync_file((int)args->a[0], false);
}

/* fdatasync(fd) */
long sys_fdatasync(const struct syscall_args *args)
{
	return sync_file((int)args->a[0], true);
}

/* fadvise64(fd, offset, len, advice): hints only */
long sys_fadvise64(const struct syscall_args *args)
{
	struct file *f = fd_get((int)args->a[0]);
	long ret;

	if (IS_ERR(f))
		return PTR_ERR(f);
	ret = f->ops == &stream_ops || pipe_of(f)           ? -ESPIPE
	      : (args->a[3] > 5 || (int64_t)args->a[2] < 0) ? -EINVAL
							    : 0;
	file_put(f);
	return ret;
}
