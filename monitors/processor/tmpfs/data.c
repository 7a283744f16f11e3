/* SPDX-License-Identifier: MIT */
/*
 * tmpfs: contents of files.
 *
 * Flow:	a file's pages are those of a shared object, made with the first open; read and
 *		write copy between its lines and user memory, once, and mappings show the same
 *		lines.
 * Ordering:	ti->size is what programs see; the object's size follows it, so that faults behind
 *		the end get SIGBUS. A write first makes pages and then the size, so no reader sees
 *		bytes that are not written yet.
 * Locking:	data_lock over each change, which may fault on user memory: a fault never takes it.
 *		Its holder may so wait for another node: it is waited for killably.
 *		No line is pinned then: a mapping of this very file may be what faults, and a
 *		thread that shrinks the file waits for pins.
 * Limits:	pages are counted when write or fallocate make them, those that a mapping has made
 *		with the next change of the size.
 */
#include "tmpfs_private.h"

#include <abi/fcntl.h>
#include <arch/uaccess.h>
#include <kernel/panic.h>
#include <kernel/thread.h>
#include <lib/err.h>
#include <lib/string.h>
#include <processor/excache/excache.h>
#include <processor/excache/object.h>
#include <processor/ipc/pipe.h>
#include <processor/process/process.h>
#include <processor/vfs/dev.h>
#include <processor/vfs/file.h>
#include <processor/vfs/uio.h>

#define SIZE_MAX_FILE SPACE_TOP /* what a shared object can address */
#define PAGE_OFF(pos) ((size_t)((pos) & (PAGE_SIZE - 1)))

/* To a program, memory nodes without a free page are a full file system. */
static int space_error(int err)
{
	return err == -ENOMEM ? -ENOSPC : err;
}

/* --- pages --------------------------------------------------------------------------- */

uint64_t tmpfs_data_pages(struct tmpfs_inode *ti)
{
	struct object *object = __atomic_load_n(&ti->object, __ATOMIC_ACQUIRE);

	return object ? object_shared_pages(object) : 0;
}

/* Pages that came or went without our doing are in the count from now on. */
static void recount_locked(struct tmpfs_inode *ti) __must_hold(&ti->data_lock)
{
	const uint64_t pages = tmpfs_data_pages(ti);

	assert_mutex_held(&ti->data_lock);
	__atomic_add_fetch(&ti->fs->pages, pages - ti->counted, __ATOMIC_RELAXED);
	ti->counted = pages;
}

/* The object of @ti, which is made if there is none. */
static int need_object(struct tmpfs_inode *ti)
{
	struct object *object;
	int err;

	if (__atomic_load_n(&ti->object, __ATOMIC_ACQUIRE))
		return 0;
	err = mutex_lock_killable(&ti->data_lock);
	if (err)
		return err;
	if (!ti->object) {
		object = object_shared_create(ti->size, false);
		if (IS_ERR(object))
			err = space_error((int)PTR_ERR(object));
		else
			__atomic_store_n(&ti->object, object, __ATOMIC_RELEASE);
	}
	mutex_unlock(&ti->data_lock);
	return err;
}

void tmpfs_release_data(struct tmpfs_inode *ti)
{
	if (!ti->object)
		return;
	tmpfs_uncharge(ti->fs, ti->counted);
	object_put(ti->object);
	ti->object = NULL;
}

/* A page to be written, pinned; a hole becomes one, if the limit allows. */
static int page_for_write_locked(struct tmpfs_inode *ti, uint64_t pgoff, struct line **line)
	__must_hold(&ti->data_lock)
{
	assert_mutex_held(&ti->data_lock);
	int err;

	ASSERT(ti->object);
	err = object_shared_get(ti->object, pgoff, false, line);
	if (err != -ENOENT)
		return space_error(err);
	err = tmpfs_charge(ti->fs, 1);
	if (err)
		return err;
	err = object_shared_get(ti->object, pgoff, true, line);
	if (err)
		tmpfs_uncharge(ti->fs, 1);
	else
		ti->counted++;
	return space_error(err);
}

/* Zeroes over [from, to) of one page, if it is there. */
static int zero_part_locked(struct tmpfs_inode *ti, uint64_t from, uint64_t to)
	__must_hold(&ti->data_lock)
{
	assert_mutex_held(&ti->data_lock);
	struct line *line;
	int err;

	ASSERT(from <= to && (from >> PAGE_SHIFT) == (MAX(to, 1ull) - 1) >> PAGE_SHIFT);
	err = object_shared_get(ti->object, from >> PAGE_SHIFT, false, &line);
	if (err)
		return err == -ENOENT ? 0 : err;
	memset((uint8_t *)line_data(line) + PAGE_OFF(from), 0, (size_t)(to - from));
	line_mark_dirty(line);
	excache_put(line);
	return 0;
}

/* --- size ---------------------------------------------------------------------------- */

static int resize_locked(struct tmpfs_inode *ti, uint64_t size) __must_hold(&ti->data_lock)
{
	int err = 0;

	assert_mutex_held(&ti->data_lock);
	if (size == ti->size)
		return 0;
	/* Readers must not find old pages behind the new end while they go. */
	if (size < ti->size) {
		const uint64_t old = ti->size;

		WRITE_ONCE(ti->size, size);
		if (ti->object)
			err = object_shared_set_size(ti->object, size);
		if (err)
			WRITE_ONCE(ti->size, old);
	} else {
		if (ti->object)
			err = object_shared_set_size(ti->object, size);
		if (!err)
			WRITE_ONCE(ti->size, size);
	}
	return err;
}

int tmpfs_resize(struct tmpfs_inode *ti, uint64_t size)
{
	int err;

	if (size > SIZE_MAX_FILE)
		return -EFBIG;
	err = mutex_lock_killable(&ti->data_lock);
	if (err)
		return err;
	err = tmpfs_seals_resize_locked(ti, size);
	if (!err)
		err = resize_locked(ti, size);
	recount_locked(ti);
	mutex_unlock(&ti->data_lock);
	return space_error(err);
}

/* --- read and write ------------------------------------------------------------------ */

static ssize_t data_read(struct file *f, struct uio *uio, uint64_t *pos)
{
	struct tmpfs_inode *ti = tmpfs_inode(f->inode);
	ssize_t done = 0;

	while (uio->left) {
		const uint64_t size = READ_ONCE(ti->size);
		const size_t off = PAGE_OFF(*pos);
		struct line *line;
		size_t n, moved;
		int err;

		if (*pos >= size)
			break;
		n = (size_t)MIN(MIN((uint64_t)(PAGE_SIZE - off), size - *pos), uio->left);
		err = object_shared_get(f->object, *pos >> PAGE_SHIFT, false, &line);
		if (err && err != -ENOENT)
			return done ? done : err;
		if (err) {
			moved = uio_zero(uio, n);
		} else {
			moved = uio_put_mapped(uio, (uint8_t *)line_data(line) + off, n);
			excache_put(line);
		}
		done += (ssize_t)moved;
		*pos += moved;
		if (moved < n && (err || uio_fault_in(uio, true)))
			return done ? done : -EFAULT;
	}
	if (!(f->flags & O_NOATIME))
		tmpfs_touch(ti, TOUCH_ATIME);
	return done;
}

/*
 * Copy what @uio has to @pos on; the size is the caller's. Bytes written, or the error of the
 * first page.
 */
static ssize_t write_pages_locked(struct tmpfs_inode *ti, struct uio *uio, uint64_t pos,
				  uint64_t len) __must_hold(&ti->data_lock)
{
	ssize_t done = 0;

	assert_mutex_held(&ti->data_lock);
	while (len) {
		const size_t off = PAGE_OFF(pos);
		const size_t n = (size_t)MIN((uint64_t)(PAGE_SIZE - off), len);
		struct line *line;
		size_t moved;
		const int err = page_for_write_locked(ti, pos >> PAGE_SHIFT, &line);

		if (err)
			return done ? done : err;
		moved = uio_fetch_mapped(uio, (uint8_t *)line_data(line) + off, n);
		line_mark_dirty(line);
		excache_put(line);
		done += (ssize_t)moved;
		pos += moved;
		len -= moved;
		if (moved < n && uio_fault_in(uio, false))
			return done ? done : -EFAULT;
	}
	return done;
}

/* Somebody else's program must not keep rights that its contents had. */
static void drop_setid(struct tmpfs_inode *ti)
{
	struct fs_cred cred;

	if (!(READ_ONCE(ti->mode) & 06000))
		return;
	process_cred(&cred);
	if (fs_cred_is_root(&cred))
		return;
	spin_lock(&ti->attr_lock);
	ti->mode &= ~04000u;
	if (ti->mode & 0010)
		ti->mode &= ~02000u;
	spin_unlock(&ti->attr_lock);
}

/* How much of @len bytes at @pos may be written: RLIMIT_FSIZE, and what an offset can say. */
static int write_limit(uint64_t pos, uint64_t *len)
{
	const uint64_t limit = MIN(process_rlimit(RLIMIT_FSIZE), (uint64_t)SIZE_MAX_FILE);

	if (pos >= limit)
		return limit == SIZE_MAX_FILE ? -EFBIG : file_size_allowed(pos + 1);
	*len = MIN(*len, limit - pos);
	return 0;
}

static ssize_t data_write(struct file *f, struct uio *uio, uint64_t *pos)
{
	struct tmpfs_inode *ti = tmpfs_inode(f->inode);
	uint64_t len = uio->left, at;
	ssize_t done;
	int err;

	if (!len)
		return 0;
	err = mutex_lock_killable(&ti->data_lock);
	if (err)
		return err;
	at = (f->flags & O_APPEND) ? ti->size : *pos;
	err = write_limit(at, &len);
	if (!err)
		err = tmpfs_seals_write_locked(ti, at, &len);
	done = err ? err : write_pages_locked(ti, uio, at, len);
	if (done > 0 && at + (uint64_t)done > ti->size) {
		err = resize_locked(ti, at + (uint64_t)done);
		if (err)
			done = space_error(err);
	}
	mutex_unlock(&ti->data_lock);
	if (done > 0) {
		*pos = at + (uint64_t)done;
		drop_setid(ti);
		tmpfs_touch(ti, TOUCH_MTIME | TOUCH_CTIME);
	}
	return done;
}

/* --- lseek --------------------------------------------------------------------------- */

/* The first page at or behind @first that is no hole, or @end. */
static uint64_t next_data(struct object *obj, uint64_t first, uint64_t end)
{
	const struct line *line;

	spin_lock(&obj->lock);
	end = page_bits_next(&obj->stored, first, end);
	list_for_each_entry(line, &obj->lines, obj_link) {
		if (line->pgoff >= first && line->pgoff < end)
			end = line->pgoff;
	}
	spin_unlock(&obj->lock);
	return end;
}

/* The first hole at or behind @first, or @end. */
static uint64_t next_hole(struct object *obj, uint64_t first, uint64_t end)
{
	for (; first < end; first++) {
		struct line *line;

		if (object_stored(obj, first))
			continue;
		if (excache_get(obj, first, EXCACHE_FIND, &line))
			break;
		excache_put(line);
	}
	return first;
}

enum whence { /* as in lseek(2) */
	WHENCE_SET,
	WHENCE_CUR,
	WHENCE_END,
	WHENCE_DATA,
	WHENCE_HOLE,
};

static int64_t seek_extent(struct file *f, uint64_t off, uint64_t size, bool data)
{
	const uint64_t end = DIV_ROUND_UP(size, PAGE_SIZE), page = off >> PAGE_SHIFT;
	uint64_t at;

	if (off >= size)
		return -ENXIO;
	at = data ? next_data(f->object, page, end) : next_hole(f->object, page, end);
	if (data && at >= end)
		return -ENXIO;
	return (int64_t)MIN(MAX(at << PAGE_SHIFT, off), size);
}

static int64_t data_seek(struct file *f, int64_t off, int whence)
{
	const int64_t size = (int64_t)READ_ONCE(tmpfs_inode(f->inode)->size);
	int64_t base = 0;

	assert_mutex_held(&f->lock);
	if (whence == WHENCE_DATA || whence == WHENCE_HOLE)
		return off < 0 ? -ENXIO
			       : seek_extent(f, (uint64_t)off, (uint64_t)size,
					     whence == WHENCE_DATA);
	if (whence == WHENCE_CUR)
		base = (int64_t)f->pos;
	else if (whence == WHENCE_END)
		base = size;
	if (__builtin_add_overflow(base, off, &off))
		return -EOVERFLOW;
	return off < 0 ? -EINVAL : off;
}

/* --- fallocate ----------------------------------------------------------------------- */

static int punch_locked(struct tmpfs_inode *ti, uint64_t off, uint64_t end)
	__must_hold(&ti->data_lock)
{
	const uint64_t first = DIV_ROUND_UP(off, PAGE_SIZE), last = end >> PAGE_SHIFT;
	int err = 0;

	assert_mutex_held(&ti->data_lock);
	if (first > last)
		return zero_part_locked(ti, off, end); /* inside one page */
	if (PAGE_OFF(off))
		err = zero_part_locked(ti, off, first << PAGE_SHIFT);
	if (!err && PAGE_OFF(end))
		err = zero_part_locked(ti, last << PAGE_SHIFT, end);
	if (!err && first < last)
		err = object_shared_punch(ti->object, first, last);
	recount_locked(ti);
	return err;
}

/*
 * Pages that are dirty are kept, whatever the cache does, so the space is there when it is
 * written.
 */
static int allocate_locked(struct tmpfs_inode *ti, uint64_t off, uint64_t end)
	__must_hold(&ti->data_lock)
{
	assert_mutex_held(&ti->data_lock);
	for (uint64_t p = off >> PAGE_SHIFT; p < DIV_ROUND_UP(end, PAGE_SIZE); p++) {
		struct line *line;
		int err;

		if (signal_pending())
			return -EINTR;
		if (object_stored(ti->object, p))
			continue;
		err = page_for_write_locked(ti, p, &line);
		if (err)
			return err;
		line_mark_dirty(line);
		excache_put(line);
	}
	return 0;
}

static int data_fallocate(struct file *f, int mode, uint64_t off, uint64_t len)
{
	struct tmpfs_inode *ti = tmpfs_inode(f->inode);
	const uint64_t end = off + len;
	int err;

	if (mode != 0 && mode != FALLOC_FL_KEEP_SIZE &&
	    mode != (FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE))
		return -EOPNOTSUPP;
	if (end > SIZE_MAX_FILE)
		return -EFBIG;
	if (mode == 0 && end > READ_ONCE(ti->size)) {
		err = file_size_allowed(end);
		if (err)
			return err;
	}
	err = mutex_lock_killable(&ti->data_lock);
	if (err)
		return err;
	err = tmpfs_seals_fallocate_locked(ti, mode & FALLOC_FL_PUNCH_HOLE, end);
	if (!err)
		err = (mode & FALLOC_FL_PUNCH_HOLE) ? punch_locked(ti, off, end)
						    : allocate_locked(ti, off, end);
	if (!err && mode == 0 && end > ti->size)
		err = space_error(resize_locked(ti, end));
	mutex_unlock(&ti->data_lock);
	if (!err)
		tmpfs_touch(ti, TOUCH_CTIME | ((mode & FALLOC_FL_PUNCH_HOLE) ? TOUCH_MTIME : 0));
	return space_error(err);
}

/* --- open ---------------------------------------------------------------------------- */

static int data_stat(struct file *f, struct file_attr *attr)
{
	return inode_getattr(f->inode, attr);
}

static long data_ioctl(struct file *f, uint32_t cmd, uint64_t arg)
{
	const uint64_t size = READ_ONCE(tmpfs_inode(f->inode)->size);
	uint64_t left;
	int err;

	if (cmd != FIONREAD)
		return -ENOTTY;
	err = mutex_lock_killable(&f->lock);
	if (err)
		return err;
	left = f->pos < size ? size - f->pos : 0;
	mutex_unlock(&f->lock);
	return put_user_u32((uint32_t)MIN(left, (uint64_t)INT32_MAX), (void __user *)arg);
}

/* One that is open for writing has its object in ->private. */
static void data_release(struct file *f)
{
	if (f->private)
		object_write_end(f->private);
}

static const struct file_ops tmpfs_data_ops = {
	.name = "tmpfs",
	.read = data_read,
	.write = data_write,
	.stat = data_stat,
	.ioctl = data_ioctl,
	.seek = data_seek,
	.fallocate = data_fallocate,
	.seals = tmpfs_seals,
	.release = data_release,
	.seekable = true,
};

static int open_fifo(struct tmpfs_inode *ti, struct file *f)
{
	const struct file_ops *was = f->ops;
	int err;

	f->ops = &fifo_ops;
	err = fifo_open(f, ti->pipe);
	if (err)
		f->ops = was; /* it has no pipe that could be released */
	return err;
}

int tmpfs_open(struct inode *inode, struct file *f)
{
	struct tmpfs_inode *ti = tmpfs_inode(inode);
	int err;

	if (inode->mode == S_IFIFO)
		return open_fifo(ti, f);
	if (inode->mode == S_IFCHR)
		return dev_use(f, ti->rdev);
	if (inode->mode != S_IFREG)
		return -ENXIO; /* a disk, or a socket */
	err = need_object(ti);
	if (!err && file_writable(f))
		err = object_write_begin(ti->object);
	if (err)
		return err;
	f->private = file_writable(f) ? ti->object : NULL;
	f->object = ti->object;
	object_get(f->object);
	f->ops = &tmpfs_data_ops;
	return 0;
}

const struct inode_ops tmpfs_file_ops = {
	.name = "tmpfs-file",
	.getattr = tmpfs_getattr,
	.setattr = tmpfs_setattr,
	.release = tmpfs_release,
	TMPFS_XATTR_OPS,
	.open = tmpfs_open,
};
