/* SPDX-License-Identifier: MIT */
/*
 * System calls on the contents of whole files: fallocate, copy_file_range, sync and its kin,
 * readahead, cachestat.
 */
#include <abi/fcntl.h>
#include <abi/mman.h>
#include <arch/uaccess.h>
#include <lib/err.h>
#include <mm/slab.h>
#include <processor/excache/usage.h>
#include <processor/process/process.h>
#include <processor/syscall/syscall.h>

#include "at_private.h"
#include "file.h"
#include "inode.h"
#include "notify.h"
#include "uio.h"

#define FALLOC_ALL 0x7fu /* every flag that Linux knows */

/* The answer of Linux for files that may not be changed, or not here. */
static int check_flags(const struct file *f, uint32_t mode)
{
	struct file_attr attr;
	int err;

	if (!f->inode || !f->inode->type->keeps_flags)
		return 0;
	err = inode_getattr(f->inode, &attr);
	if (err)
		return err;
	if ((attr.attrs & STATX_ATTR_APPEND) && (mode & ~FALLOC_FL_KEEP_SIZE))
		return -EPERM;
	return attr.attrs & STATX_ATTR_IMMUTABLE ? -EPERM : 0;
}

static int check_fallocate(const struct file *f, uint32_t mode, int64_t off, int64_t len)
{
	const uint32_t type = f->attr.mode & S_IFMT;

	if (f->flags & O_PATH)
		return -EBADF;
	if (off < 0 || len <= 0)
		return -EINVAL;
	if ((mode & ~FALLOC_ALL) ||
	    (mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE)) == FALLOC_FL_PUNCH_HOLE)
		return -EOPNOTSUPP;
	if (!file_writable(f))
		return -EBADF;
	if (type == S_IFIFO)
		return -ESPIPE;
	if (type == S_IFDIR)
		return -EISDIR;
	if (type != S_IFREG)
		return -ENODEV;
	if (off > INT64_MAX - len)
		return -EFBIG;
	return f->ops->fallocate ? check_flags(f, mode) : -EOPNOTSUPP;
}

/* fallocate(fd, mode, offset, len) */
long sys_fallocate(const struct syscall_args *args)
{
	const uint32_t mode = (uint32_t)args->a[1];
	struct file *f = fd_get((int)args->a[0]);
	long ret;

	if (IS_ERR(f))
		return PTR_ERR(f);
	ret = check_fallocate(f, mode, (int64_t)args->a[2], (int64_t)args->a[3]);
	if (!ret)
		ret = f->ops->fallocate(f, (int)mode, args->a[2], args->a[3]);
	if (!ret)
		notify_file(f, IN_MODIFY);
	file_put(f);
	return ret;
}

/* --- copy_file_range ----------------------------------------------------------------- */

#define CHUNK 16384u

struct copy_end {
	struct file *f;
	uint64_t uoff; /* user address of the offset; 0: the file's own */
	uint64_t pos;
};

static int end_begin(struct copy_end *e, int fd, uint64_t uoff)
{
	e->uoff = uoff;
	e->f = fd_get(fd);
	if (IS_ERR(e->f))
		return PTR_ERR(e->f);
	if (!uoff)
		return file_pos(e->f, &e->pos);
	if (get_user_u64(&e->pos, (const void __user *)uoff))
		return -EFAULT;
	return (int64_t)e->pos < 0 ? -EINVAL : 0;
}

static int end_done(const struct copy_end *e)
{
	if (e->uoff)
		return put_user_u64(e->pos, (void __user *)e->uoff);
	return file_set_pos(e->f, e->pos);
}

static int check_copy(const struct copy_end *in, const struct copy_end *out, uint64_t len)
{
	const uint32_t in_type = in->f->attr.mode & S_IFMT, out_type = out->f->attr.mode & S_IFMT;

	if (in_type == S_IFDIR || out_type == S_IFDIR)
		return -EISDIR;
	if (in_type != S_IFREG || out_type != S_IFREG)
		return -EINVAL;
	if (!file_readable(in->f) || !file_writable(out->f) || (out->f->flags & O_APPEND))
		return -EBADF;
	/* As Linux: within one file system; programs copy by themselves otherwise. */
	if (in->f->inode->type != out->f->inode->type)
		return -EXDEV;
	if (in->pos + len < in->pos || out->pos + len < out->pos)
		return -EOVERFLOW;
	if (in->f->inode == out->f->inode && in->pos < out->pos + len && out->pos < in->pos + len)
		return -EINVAL;
	return 0;
}

/* One lock at a time. */
static ssize_t copy_chunk(struct copy_end *in, struct copy_end *out, uint8_t *buf, uint64_t len)
{
	uint64_t from = in->pos;
	struct uio uio;
	ssize_t n;

	uio_kernel(&uio, buf, MIN(len, (uint64_t)CHUNK));
	n = mutex_lock_killable(&in->f->lock);
	if (n)
		return n;
	n = file_read(in->f, &uio, &from);
	mutex_unlock(&in->f->lock);
	if (n <= 0)
		return n;
	uio_kernel(&uio, buf, (uint64_t)n);
	n = mutex_lock_killable(&out->f->lock);
	if (n)
		return n;
	n = file_write(out->f, &uio, &out->pos);
	mutex_unlock(&out->f->lock);
	if (n > 0)
		in->pos += (uint64_t)n;
	return n;
}

static ssize_t copy_all(struct copy_end *in, struct copy_end *out, uint64_t len)
{
	uint8_t *buf = kmalloc(CHUNK);
	ssize_t done = 0, n = 0;

	if (!buf)
		return -ENOMEM;
	while (len && !signal_pending()) {
		n = copy_chunk(in, out, buf, len);
		if (n <= 0)
			break;
		done += n;
		len -= (uint64_t)n;
	}
	kfree(buf);
	return done ? done : n;
}

/* copy_file_range(in, off_in, out, off_out, len, flags) */
long sys_copy_file_range(const struct syscall_args *args)
{
	struct copy_end in, out = { .f = ERR_PTR(-EBADF) };
	const uint64_t len = MIN(args->a[4], (uint64_t)0x7ffff000);
	long ret = end_begin(&in, (int)args->a[0], args->a[1]);

	if (!ret)
		ret = end_begin(&out, (int)args->a[2], args->a[3]);
	if (!ret && args->a[5])
		ret = -EINVAL;
	if (!ret)
		ret = check_copy(&in, &out, len);
	if (!ret)
		ret = copy_all(&in, &out, len);
	if (ret > 0 && (end_done(&in) || end_done(&out)))
		ret = -EFAULT;
	if (!IS_ERR(in.f))
		file_put(in.f);
	if (!IS_ERR(out.f))
		file_put(out.f);
	return ret;
}

/* --- sync ---------------------------------------------------------------------------- */

/*
 * sync(): until the disks have it. An error is told by fsync() of the files that it concerns, as on
 * Linux.
 */
long sys_sync(const struct syscall_args *args)
{
	(void)!fs_sync_all();
	return 0;
}

/* syncfs(fd) */
long sys_syncfs(const struct syscall_args *args)
{
	struct file *f = fd_get((int)args->a[0]);
	long ret = 0;

	if (IS_ERR(f))
		return PTR_ERR(f);
	if (f->flags & O_PATH)
		ret = -EBADF;
	else if (f->inode && f->inode->type->sync)
		ret = f->inode->type->sync(f->inode->type);
	file_put(f);
	return ret;
}

#define SYNC_RANGE_WRITE 2u
#define SYNC_RANGE_ALL   7u

/*
 * sync_file_range(fd, offset, len, flags): a file has one caching node, which sends all that is
 * dirty of it; so WAIT_BEFORE and WAIT_AFTER wait for all, and for the disk, too.
 */
long sys_sync_file_range(const struct syscall_args *args)
{
	struct file *f = fd_get((int)args->a[0]);
	long ret = 0;

	if (IS_ERR(f))
		return PTR_ERR(f);
	if (f->flags & O_PATH)
		ret = -EBADF;
	else if (((uint32_t)args->a[3] & ~SYNC_RANGE_ALL) || (int64_t)args->a[1] < 0 ||
		 (int64_t)args->a[2] < 0 || (int64_t)(args->a[1] + args->a[2]) < 0)
		ret = -EINVAL;
	else if ((f->attr.mode & S_IFMT) != S_IFREG && (f->attr.mode & S_IFMT) != S_IFDIR)
		ret = -ESPIPE;
	else if (((uint32_t)args->a[3] & ~SYNC_RANGE_WRITE) && f->ops->fsync)
		ret = f->ops->fsync(f, true);
	file_put(f);
	return ret;
}

/* readahead(fd, offset, count): a hint */
long sys_readahead(const struct syscall_args *args)
{
	struct file *f = fd_get((int)args->a[0]);
	long ret;

	if (IS_ERR(f))
		return PTR_ERR(f);
	ret = !file_readable(f) ? -EBADF : (f->attr.mode & S_IFMT) != S_IFREG ? -EINVAL : 0;
	file_put(f);
	return ret;
}

/* --- cachestat ----------------------------------------------------------------------- */

/* May the caller know? Those who may write, so that nobody learns what others read. */
static int may_count(struct file *f)
{
	struct file_attr attr;
	struct fs_cred cred;
	int err;

	if (file_writable(f) || !f->inode)
		return 0;
	err = inode_getattr(f->inode, &attr);
	if (err)
		return err;
	process_cred(&cred);
	if (attr_is_own(&cred, &attr) || capable(CAP_FOWNER))
		return 0;
	return inode_permission(f->mnt, f->inode, &cred, &attr, FS_MAY_WRITE) ? -EPERM : 0;
}

static void count_cached(struct file *f, const struct linux_cachestat_range *r,
			 struct linux_cachestat *out)
{
	const uint64_t last = r->len ? (r->off + r->len - 1) >> PAGE_SHIFT : UINT64_MAX;
	const uint64_t max = ((uint64_t)INT64_MAX >> PAGE_SHIFT) + 1;
	struct object_usage u;

	*out = (struct linux_cachestat){ 0 };
	if (!f->object)
		return;
	object_usage(f->object, r->off >> PAGE_SHIFT, MIN(last, max - 1) + 1, &u);
	out->nr_cache = u.cached;
	out->nr_dirty = u.dirty;
	out->nr_writeback = u.writeback;
	out->nr_evicted = u.away;
}

/*
 * cachestat(fd, range, stat, flags): of this processor's cache. Pages of shared memory that only
 * the memory nodes have are the evicted ones, as on Linux those that are swapped.
 */
long sys_cachestat(const struct syscall_args *args)
{
	struct linux_cachestat_range range;
	struct linux_cachestat stat;
	struct file *f = fd_get((int)args->a[0]);
	long ret;

	if (IS_ERR(f))
		return PTR_ERR(f);
	if (f->flags & O_PATH)
		ret = -EBADF;
	else if (copy_from_user(&range, (const void __user *)args->a[1], sizeof(range)))
		ret = -EFAULT;
	else
		ret = may_count(f);
	if (!ret && (uint32_t)args->a[3])
		ret = -EINVAL;
	if (!ret) {
		count_cached(f, &range, &stat);
		if (copy_to_user((void __user *)args->a[2], &stat, sizeof(stat)))
			ret = -EFAULT;
	}
	file_put(f);
	return ret;
}
