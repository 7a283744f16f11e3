/* SPDX-License-Identifier: MIT */
/*
 * System calls on locks: flock, and fcntl's F_GETLK, F_SETLK, F_SETLKW and their OFD forms.
 */
#include <abi/fcntl.h>
#include <arch/uaccess.h>
#include <lib/err.h>
#include <processor/process/process.h>
#include <processor/syscall/syscall.h>
#include <processor/vfs/file.h>
#include <processor/vfs/inode.h>

#include "filelock.h"

/* The offset that l_start counts from. */
static int base_of(struct file *f, int whence, int64_t *base)
{
	struct file_attr attr;
	uint64_t pos;
	int err;

	switch (whence) {
	case SEEK_SET:
		*base = 0;
		return 0;
	case SEEK_CUR:
		err = file_pos(f, &pos);
		*base = err ? 0 : (int64_t)pos;
		return err;
	case SEEK_END:
		err = f->ops->stat(f, &attr);
		*base = err ? 0 : (int64_t)attr.size;
		return err;
	default:
		return -EINVAL;
	}
}

static int decode_range(struct file *f, const struct linux_flock *u, struct lock_req *req)
{
	int64_t start;
	int err = base_of(f, u->whence, &start);

	if (err)
		return err;
	if (__builtin_add_overflow(start, u->start, &start))
		return -EOVERFLOW;
	if (start < 0)
		return -EINVAL;
	req->start = start;
	req->end = INT64_MAX;
	if (u->len > 0) {
		if (__builtin_add_overflow(start, u->len - 1, &req->end))
			return -EOVERFLOW;
	} else if (u->len < 0) {
		if (start + u->len < 0)
			return -EINVAL;
		req->end = start - 1;
		req->start = start + u->len;
	}
	return 0;
}

static int decode(struct file *f, const struct linux_flock *u, bool ofd, struct lock_req *req)
{
	*req = (struct lock_req){
		.kind = ofd ? LOCK_OFD : LOCK_POSIX,
		.type = (enum lock_type)u->type,
		.owner = ofd ? (const void *)f : files_current(),
		.pid = process_current()->pid,
	};
	if (ofd && u->pid)
		return -EINVAL;
	if (u->type < LOCK_READ || u->type > LOCK_NONE)
		return -EINVAL;
	return decode_range(f, u, req);
}

static long get_lock(struct file *f, bool ofd, uint64_t ulock)
{
	struct lock_req req, found;
	struct linux_flock u;
	int err, ret;

	if (copy_from_user(&u, (const void __user *)ulock, sizeof(u)))
		return -EFAULT;
	if (!ofd && u.type == LOCK_NONE)
		return -EINVAL;
	err = decode(f, &u, ofd, &req);
	if (err)
		return err;
	ret = req.type != LOCK_NONE ? filelock_test(f, &req, &found) : 0;
	if (ret < 0)
		return ret == -EINTR ? -ERESTARTSYS : ret;
	if (ret) {
		u.type = (int16_t)found.type;
		u.whence = 0;
		u.start = found.start;
		u.len = found.end == INT64_MAX ? 0 : found.end - found.start + 1;
		u.pid = found.kind == LOCK_OFD ? -1 : (int32_t)pid_vnr(found.pid);
	} else {
		u.type = LOCK_NONE;
	}
	return copy_to_user((void __user *)ulock, &u, sizeof(u));
}

static long set_lock(struct file *f, int fd, bool ofd, bool wait, uint64_t ulock)
{
	struct lock_req req;
	struct linux_flock u;
	struct file *now;
	int err;

	if (copy_from_user(&u, (const void __user *)ulock, sizeof(u)))
		return -EFAULT;
	err = decode(f, &u, ofd, &req);
	if (err)
		return err;
	if ((req.type == LOCK_READ && !file_readable(f)) ||
	    (req.type == LOCK_WRITE && !file_writable(f)))
		return -EBADF;
	err = filelock_set(f, &req, wait);
	if (err)
		return err == -EINTR ? -ERESTARTSYS : err;
	if (ofd || req.type == LOCK_NONE)
		return 0;
	/* Another thread may have closed the descriptor meanwhile, and with it this lock. */
	now = files_get(files_current(), fd);
	if (now != f) {
		filelock_drop(f, req.owner);
		err = -EBADF;
	}
	if (now)
		file_put(now);
	return err;
}

long fcntl_lock(struct file *f, int fd, uint32_t cmd, uint64_t ulock)
{
	switch (cmd) {
	case F_GETLK:
	case F_OFD_GETLK:
		return get_lock(f, cmd == F_OFD_GETLK, ulock);
	case F_SETLK:
	case F_OFD_SETLK:
		return set_lock(f, fd, cmd == F_OFD_SETLK, false, ulock);
	case F_SETLKW:
	case F_OFD_SETLKW:
		return set_lock(f, fd, cmd == F_OFD_SETLKW, true, ulock);
	default:
		return -EINVAL;
	}
}

/* flock(fd, op) */
long sys_flock(const struct syscall_args *args)
{
	const uint32_t op = (uint32_t)args->a[1] & ~LOCK_NB;
	struct lock_req req = {
		.kind = LOCK_FLOCK,
		.type = op == LOCK_SH   ? LOCK_READ
			: op == LOCK_EX ? LOCK_WRITE
					: LOCK_NONE,
		.end = INT64_MAX,
	};
	struct file *f;
	int err = -EBADF;

	if (op != LOCK_SH && op != LOCK_EX && op != LOCK_UN)
		return -EINVAL;
	f = fd_get((int)args->a[0]);
	if (IS_ERR(f))
		return PTR_ERR(f);
	req.owner = f;
	req.pid = process_current()->pid;
	if (!(f->flags & O_PATH))
		err = filelock_set(f, &req, !(args->a[1] & LOCK_NB));
	file_put(f);
	return err == -EINTR ? -ERESTARTSYS : err;
}
