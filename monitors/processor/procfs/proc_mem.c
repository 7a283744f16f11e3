/* SPDX-License-Identifier: MIT */
/*
 * /proc/<pid>/mem: the memory of a process at its addresses, for those that may trace it.
 *
 * Flow:	each read and write looks the process up and asks again whether the caller may: an
 *		exec in between shows the new program's memory, if the caller may still look.
 *		Access is as a debugger's: what the mappings forbid is done all the same.
 * Failure:	EIO: nothing can be had at the offset; 0: the process has no memory any more.
 */
#include <lib/err.h>
#include <mm/slab.h>
#include <processor/vfs/file.h>
#include <processor/vfs/uio.h>

#include "proc_private.h"

enum whence { /* of lseek() */
	WHENCE_SET,
	WHENCE_CUR,
};

/* The space, for the caller to put; NULL: it has none any more. ERR_PTR(-EPERM) */
static struct aspace *space_of(const struct file *f)
{
	struct aspace *as = NULL;
	struct proc_ref ref;

	if (proc_get(pseudo_subject_of_file(f), &ref))
		return NULL;
	if (process_may_look(ref.process))
		as = process_aspace(ref.process);
	else
		as = ERR_PTR(-EPERM);
	proc_put(&ref);
	return as;
}

static ssize_t move(struct aspace *as, struct uio *uio, uint64_t *pos, bool write)
{
	uint8_t *buf = kmalloc(PAGE_SIZE);
	ssize_t done = 0;
	int err = 0;

	if (!buf)
		return -ENOMEM;
	while (uio->left && !err) {
		const size_t want = (size_t)MIN(uio->left, PAGE_SIZE - (*pos & (PAGE_SIZE - 1)));
		size_t n;

		if (write) {
			n = uio_fetch(uio, buf, want);
			err = n < want ? -EFAULT : 0;
			n = aspace_write_forced(as, *pos, buf, n);
			if (n < want && !err)
				err = -EIO;
		} else {
			n = aspace_read_forced(as, *pos, buf, want);
			err = n < want ? -EIO : 0;
			if (uio_put(uio, buf, n) < n)
				err = -EFAULT;
		}
		done += (ssize_t)n;
		*pos += n;
	}
	kfree(buf);
	return done ? done : err;
}

static ssize_t mem_move(struct file *f, struct uio *uio, uint64_t *pos, bool write)
{
	struct aspace *as = space_of(f);
	ssize_t ret;

	if (IS_ERR_OR_NULL(as))
		return PTR_ERR(as);
	ret = move(as, uio, pos, write);
	aspace_put(as);
	return ret;
}

static ssize_t mem_read(struct file *f, struct uio *uio, uint64_t *pos)
{
	return mem_move(f, uio, pos, false);
}

static ssize_t mem_write(struct file *f, struct uio *uio, uint64_t *pos)
{
	return mem_move(f, uio, pos, true);
}

static int mem_stat(struct file *f, struct file_attr *attr)
{
	return inode_getattr(f->inode, attr);
}

/* Every number is an address: there is no end to seek from. */
static int64_t mem_seek(struct file *f, int64_t off, int whence)
{
	uint64_t to = (uint64_t)off;

	if (whence == WHENCE_CUR) {
		assert_mutex_held(&f->lock);
		to += f->pos;
	} else if (whence != WHENCE_SET) {
		return -EINVAL;
	}
	return (int64_t)to < 0 ? -EINVAL : (int64_t)to;
}

const struct file_ops proc_mem_ops = {
	.name = "memory of a process",
	.read = mem_read,
	.write = mem_write,
	.stat = mem_stat,
	.seek = mem_seek,
	.seekable = true,
};
