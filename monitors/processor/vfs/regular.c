/* SPDX-License-Identifier: MIT */
/*
 * Regular files of storage nodes.
 *
 * Flow:	read(2) copies out of the same cache lines that mmap would show, page by page, and
 *		asks for what a sequential reader will want next; nothing here keeps a copy of its
 *		own.
 * Context:	file.lock is held over read(), so the read-ahead state and the offset need no other
 *		lock.
 * Failure:	-EIO when a page cannot be had; what was read before it is returned first.
 */
#include "file.h"

#include <arch/uaccess.h>
#include <kernel/panic.h>
#include <lib/err.h>
#include <lib/string.h>
#include <processor/excache/excache.h>
#include <processor/excache/prefetch.h>
#include <processor/process/process.h>

#include "inode.h"
#include "uio.h"

/* The line of a page. The request for those ahead is out already, in a class of its own. */
static int page_get(struct file *f, uint64_t pgoff, struct line **line)
{
	int err = excache_get(f->object, pgoff, EXCACHE_FIND, line);

	if (err == -ENOENT)
		err = excache_get(f->object, pgoff, EXCACHE_FETCH, line);
	return err;
}

/* --- regular files ------------------------------------------------------------------- */

static ssize_t regular_read(struct file *f, struct uio *uio, uint64_t *pos)
{
	const uint64_t size = f->attr.size;
	ssize_t done = 0;

	ASSERT(f->object);
	while (uio->left && *pos < size) {
		const uint64_t pgoff = *pos >> PAGE_SHIFT;
		const size_t off = (size_t)(*pos & (PAGE_SIZE - 1));
		const size_t n =
			(size_t)MIN(MIN((uint64_t)(PAGE_SIZE - off), size - *pos), uio->left);
		struct line *line;
		size_t moved;
		int err;

		prefetch_read(f->object, &f->read_ahead, pgoff,
			      DIV_ROUND_UP(off + MIN(uio->left, size - *pos), PAGE_SIZE));
		err = page_get(f, pgoff, &line);
		if (err)
			return done ? done : err;
		moved = uio_put_mapped(uio, (uint8_t *)line_data(line) + off, n);
		excache_put(line);
		done += (ssize_t)moved;
		*pos += moved;
		if (moved < n && uio_fault_in(uio, true))
			return done ? done : -EFAULT;
	}
	return done;
}

static int regular_stat(struct file *f, struct file_attr *attr)
{
	return inode_getattr(f->inode, attr);
}

static long regular_ioctl(struct file *f, uint32_t cmd, uint64_t arg)
{
	uint64_t left;
	int err;

	if (cmd != FIONREAD)
		return -ENOTTY;
	err = mutex_lock_killable(&f->lock);
	if (err)
		return err;
	left = f->pos < f->attr.size ? f->attr.size - f->pos : 0;
	mutex_unlock(&f->lock);
	return put_user_u32((uint32_t)MIN(left, (uint64_t)INT32_MAX), (void __user *)arg);
}

const struct file_ops regular_ops = {
	.name = "regular",
	.read = regular_read,
	.stat = regular_stat,
	.ioctl = regular_ioctl,
	.seekable = true,
};
