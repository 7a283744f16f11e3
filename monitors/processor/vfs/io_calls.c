/* SPDX-License-Identifier: MIT */
/*
 * read, write and their kin, lseek, sendfile.
 *
 * Ordering:	as Linux: the descriptor first (EBADF), then the arguments (EINVAL), then the
 *		memory (EFAULT).
 */
#include <arch/uaccess.h>
#include <lib/err.h>
#include <mm/slab.h>
#include <processor/syscall/syscall.h>

#include "file.h"
#include "notify.h"
#include "uio.h"

/*
 * The way of read(2) and write(2) is inlined as a whole: its steps are short, and what one of them
 * has checked, or knows of the call, the next need not find out again.
 */

static __always_inline ssize_t do_read(struct file *f, struct uio *uio, uint64_t *pos)
{
	ssize_t n;

	if (!file_readable(f))
		return -EBADF;
	n = f->ops->read ? f->ops->read(f, uio, pos) : -EINVAL;
	if (n > 0)
		notify_file(f, IN_ACCESS);
	return n;
}

static __always_inline ssize_t do_write(struct file *f, struct uio *uio, uint64_t *pos)
{
	ssize_t n;

	if (!file_writable(f))
		return -EBADF;
	n = f->ops->write ? f->ops->write(f, uio, pos) : -EINVAL;
	if (n > 0)
		notify_file(f, IN_MODIFY);
	return n;
}

ssize_t file_read(struct file *f, struct uio *uio, uint64_t *pos)
{
	return do_read(f, uio, pos);
}

ssize_t file_write(struct file *f, struct uio *uio, uint64_t *pos)
{
	return do_write(f, uio, pos);
}

enum io_kind {
	IO_READ,
	IO_WRITE,
};

/* The largest offset is INT64_MAX, behind the last byte. */
static int range_check(const struct uio *uio, uint64_t pos)
{
	return uio->left > (uint64_t)INT64_MAX - pos ? -EINVAL : 0;
}

/* The lock guards the offset and the read-ahead state. */
static __always_inline ssize_t io_at_pos(struct file *f, struct uio *uio, enum io_kind kind,
					 uint64_t *pos)
{
	ssize_t ret = mutex_lock_killable(&f->lock);

	if (ret)
		return ret;
	ret = range_check(uio, *pos);
	if (!ret)
		ret = kind == IO_READ ? do_read(f, uio, pos) : do_write(f, uio, pos);
	mutex_unlock(&f->lock);
	return ret;
}

/*
 * At the file's own offset, which the lock keeps in step; streams have none and must not hold it.
 */
static __always_inline ssize_t io_at_offset(struct file *f, struct uio *uio, enum io_kind kind)
{
	uint64_t none = 0;

	if (!f->ops->seekable)
		return kind == IO_READ ? do_read(f, uio, &none) : do_write(f, uio, &none);
	return io_at_pos(f, uio, kind, &f->pos);
}

static ssize_t io_at(struct file *f, struct uio *uio, enum io_kind kind, int64_t off)
{
	uint64_t pos = (uint64_t)off;

	return io_at_pos(f, uio, kind, &pos);
}

ssize_t file_io(struct file *f, struct uio *uio, bool write, int64_t off)
{
	const enum io_kind kind = write ? IO_WRITE : IO_READ;

	return f->ops->seekable ? io_at(f, uio, kind, off) : io_at_offset(f, uio, kind);
}

#define AT_OFFSET INT64_MIN

/* The checks that come before those of the memory. */
static __always_inline int io_check(const struct file *f, enum io_kind kind, int64_t off)
{
	if (off != AT_OFFSET && off < 0)
		return -EINVAL;
	if (off != AT_OFFSET && !f->ops->seekable)
		return (f->flags & O_PATH) ? -EBADF : -ESPIPE;
	return (kind == IO_READ ? file_readable(f) : file_writable(f)) ? 0 : -EBADF;
}

static __always_inline long io_one(int fd, uint64_t buf, uint64_t len, enum io_kind kind,
				   int64_t off)
{
	bool counted;
	struct file *f = fd_borrow(fd, &counted);
	struct uio uio;
	long ret;

	if (IS_ERR(f))
		return PTR_ERR(f);
	ret = io_check(f, kind, off);
	if (!ret)
		ret = uio_user(&uio, buf, len);
	if (!ret)
		ret = off == AT_OFFSET ? io_at_offset(f, &uio, kind) : io_at(f, &uio, kind, off);
	fd_return(f, counted);
	return ret;
}

static long io_vec(int fd, uint64_t iov, uint64_t nr, enum io_kind kind, int64_t off)
{
	bool counted;
	struct file *f = fd_borrow(fd, &counted);
	struct uio uio;
	long ret;

	if (IS_ERR(f))
		return PTR_ERR(f);
	ret = io_check(f, kind, off);
	if (!ret)
		ret = uio_iovec(&uio, iov, nr);
	if (!ret) {
		ret = off == AT_OFFSET ? io_at_offset(f, &uio, kind) : io_at(f, &uio, kind, off);
		uio_done(&uio);
	}
	fd_return(f, counted);
	return ret;
}

/* read(fd, buf, len) */
long sys_read(const struct syscall_args *args)
{
	return io_one((int)args->a[0], args->a[1], args->a[2], IO_READ, AT_OFFSET);
}

/* write(fd, buf, len) */
long sys_write(const struct syscall_args *args)
{
	return io_one((int)args->a[0], args->a[1], args->a[2], IO_WRITE, AT_OFFSET);
}

/*
 * An offset of the user's: its lowest value means something else here, and is as bad as any
 * negative.
 */
static int64_t user_offset(uint64_t off)
{
	return (int64_t)off < 0 ? -1 : (int64_t)off;
}

/* pread64(fd, buf, len, offset) */
long sys_pread64(const struct syscall_args *args)
{
	return io_one((int)args->a[0], args->a[1], args->a[2], IO_READ, user_offset(args->a[3]));
}

/* pwrite64(fd, buf, len, offset) */
long sys_pwrite64(const struct syscall_args *args)
{
	return io_one((int)args->a[0], args->a[1], args->a[2], IO_WRITE, user_offset(args->a[3]));
}

/* readv(fd, iov, nr) */
long sys_readv(const struct syscall_args *args)
{
	return io_vec((int)args->a[0], args->a[1], args->a[2], IO_READ, AT_OFFSET);
}

/* writev(fd, iov, nr) */
long sys_writev(const struct syscall_args *args)
{
	return io_vec((int)args->a[0], args->a[1], args->a[2], IO_WRITE, AT_OFFSET);
}

/* preadv(fd, iov, nr, offset) */
long sys_preadv(const struct syscall_args *args)
{
	return io_vec((int)args->a[0], args->a[1], args->a[2], IO_READ, user_offset(args->a[3]));
}

/* pwritev(fd, iov, nr, offset) */
long sys_pwritev(const struct syscall_args *args)
{
	return io_vec((int)args->a[0], args->a[1], args->a[2], IO_WRITE, user_offset(args->a[3]));
}

#define RWF_HARMLESS 7u /* HIPRI, DSYNC, SYNC: nothing here would do more for them */

/* An offset of -1 means the file's own. */
static long io_vec2(const struct syscall_args *args, enum io_kind kind)
{
	const int64_t off = (int64_t)args->a[3];

	if ((uint32_t)args->a[5] & ~RWF_HARMLESS)
		return -EOPNOTSUPP;
	return io_vec((int)args->a[0], args->a[1], args->a[2], kind,
		      off == -1 ? AT_OFFSET : user_offset(args->a[3]));
}

/* preadv2(fd, iov, nr, offset, offset's upper half, flags) */
long sys_preadv2(const struct syscall_args *args)
{
	return io_vec2(args, IO_READ);
}

/* pwritev2(fd, iov, nr, offset, offset's upper half, flags) */
long sys_pwritev2(const struct syscall_args *args)
{
	return io_vec2(args, IO_WRITE);
}

enum whence {
	WHENCE_SET,
	WHENCE_CUR,
	WHENCE_END,
	WHENCE_DATA,
	WHENCE_HOLE,
};

static int64_t seek_target(const struct file *f, int64_t off, int whence)
{
	const int64_t size = (int64_t)f->attr.size;
	int64_t base;

	assert_mutex_held(&f->lock);
	switch (whence) {
	case WHENCE_SET:
		base = 0;
		break;
	case WHENCE_CUR:
		base = (int64_t)f->pos;
		break;
	case WHENCE_END:
		base = size;
		break;
	case WHENCE_DATA: /* the whole file is data, and its end the one hole */
	case WHENCE_HOLE:
		if (off < 0 || off >= size)
			return -ENXIO;
		return whence == WHENCE_DATA ? off : size;
	default:
		return -EINVAL;
	}
	if (__builtin_add_overflow(base, off, &off))
		return -EOVERFLOW;
	return off < 0 ? -EINVAL : off;
}

static int64_t seek(struct file *f, int64_t off, int whence)
{
	int64_t to = mutex_lock_killable(&f->lock);

	if (to)
		return to;
	to = f->ops->seek ? f->ops->seek(f, off, whence) : seek_target(f, off, whence);
	if (to >= 0)
		f->pos = (uint64_t)to;
	mutex_unlock(&f->lock);
	return to;
}

/* lseek(fd, offset, whence) */
long sys_lseek(const struct syscall_args *args)
{
	struct file *f = fd_get((int)args->a[0]);
	int64_t to;

	if (IS_ERR(f))
		return PTR_ERR(f);
	if (f->flags & O_PATH) {
		to = -EBADF;
	} else if ((uint32_t)args->a[2] > WHENCE_HOLE) {
		to = -EINVAL;
	} else if (!f->ops->seekable) {
		to = -ESPIPE;
	} else {
		to = seek(f, (int64_t)args->a[1], (int)args->a[2]);
	}
	file_put(f);
	return to;
}

#define SENDFILE_CHUNK 16384

/* One lock at a time: @in's for what it reads, @out's for what is written. */
static ssize_t send(struct file *out, struct file *in, uint64_t *pos, uint64_t count, uint8_t *buf)
{
	ssize_t done = 0, n = 0;

	while (count > 0) {
		const uint64_t start = *pos;
		struct uio uio;
		ssize_t wrote;

		uio_kernel(&uio, buf, MIN(count, (uint64_t)SENDFILE_CHUNK));
		n = io_at_pos(in, &uio, IO_READ, pos);
		if (n <= 0)
			break;
		uio_kernel(&uio, buf, (uint64_t)n);
		wrote = io_at_offset(out, &uio, IO_WRITE);
		/* Bytes that were read but not taken are read again by the next call. */
		*pos = start + (uint64_t)MAX(wrote, 0);
		if (wrote > 0) {
			done += wrote;
			count -= (uint64_t)wrote;
		}
		if (wrote < n) {
			n = wrote;
			break;
		}
	}
	return done ? done : n;
}

/* sendfile(out, in, offset, count) */
long sys_sendfile(const struct syscall_args *args)
{
	struct file *out = fd_get((int)args->a[0]);
	struct file *in = fd_get((int)args->a[1]);
	uint8_t *buf = NULL;
	uint64_t pos = 0;
	long ret = -EBADF;

	if (IS_ERR(in) || IS_ERR(out) || !file_readable(in) || !file_writable(out))
		goto out;
	ret = -EINVAL;
	if (!in->object)
		goto out;
	ret = -EFAULT;
	if (args->a[2] && get_user_u64(&pos, (const void __user *)args->a[2]))
		goto out;
	ret = -EINVAL;
	if ((int64_t)pos < 0)
		goto out;
	ret = -ENOMEM;
	buf = kmalloc(SENDFILE_CHUNK);
	if (!buf)
		goto out;
	ret = args->a[2] ? 0 : file_pos(in, &pos);
	if (ret)
		goto out;
	ret = send(out, in, &pos, MIN(args->a[3], (uint64_t)0x7ffff000), buf);
	if (!args->a[2]) {
		if (file_set_pos(in, pos))
			ret = -EINTR;
	} else if (put_user_u64(pos, (void __user *)args->a[2])) {
		ret = -EFAULT;
	}
out:
	kfree(buf);
	if (!IS_ERR(in))
		file_put(in);
	if (!IS_ERR(out))
		file_put(out);
	return ret;
}
