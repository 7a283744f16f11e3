/* SPDX-License-Identifier: MIT */
/*
 * fcntl(F_NOTIFY): a signal to the owner of an open directory when its files change.
 *
 * Flow:	the descriptor's file is watched for the events of inotify (notify.c), which signals
 *		the file's owner. The watch ends with the first close of the file in the same table
 *		of descriptors.
 * Ordering:	the watch is there before the descriptor is looked at again; a thread that closes it
 *		empties the slot first and then looks for the watch. Both take the table's lock, so
 *		that one of the two ends the watch.
 * See:		notify.h
 */
#include <lib/errno.h>
#include <mm/slab.h>
#include <processor/ipc/async.h>
#include <processor/process/process.h>

#include "file.h"
#include "notify.h"
#include "path.h"

uint32_t dnotify_enabled = 1;

static uint32_t mask_of(uint32_t arg)
{
	uint32_t mask = 0;

	mask |= arg & DN_ACCESS ? IN_ACCESS : 0;
	mask |= arg & DN_MODIFY ? IN_MODIFY : 0;
	mask |= arg & DN_ATTRIB ? IN_ATTRIB : 0;
	mask |= arg & DN_CREATE ? IN_CREATE | IN_MOVED_TO : 0;
	mask |= arg & DN_DELETE ? IN_DELETE | IN_MOVED_FROM : 0;
	mask |= arg & DN_RENAME ? NOTIFY_RENAME : 0;
	mask |= arg & DN_MULTISHOT ? NOTIFY_MULTISHOT : 0;
	return mask;
}

static int watch(struct file *f, int fd, uint32_t mask)
{
	const struct path at = {
		.inode = f->inode, .mnt = f->mnt, .text = f->path, .attr = f->attr
	};
	char *text = kmalloc(FS_PATH_MAX); /* where it is now */
	int err;

	if (!text)
		return -ENOMEM;
	err = f->path ? path_text(&at, text) : -ENOENT;
	if (!err || err == -ENOENT)
		err = notify_dir_add(f, files_current(), fd, err ? NULL : text, mask);
	kfree(text);
	return err;
}

/* A watch of a descriptor that has been closed meanwhile would outlive its file. */
static void end_unless_open(struct file *f, int fd)
{
	struct file *there = files_get(files_current(), fd);

	if (there != f)
		notify_dir_end(f, files_current());
	if (there)
		file_put(there);
}

int dnotify_set(struct file *f, int fd, uint32_t arg)
{
	int err;

	if (!READ_ONCE(dnotify_enabled))
		return -EINVAL;
	if (!(arg & ~DN_MULTISHOT)) {
		notify_dir_end(f, files_current());
		return 0;
	}
	if (!f->inode || !inode_is_dir(f->inode))
		return -ENOTDIR;
	async_own(f);
	err = watch(f, fd, mask_of(arg));
	if (!err)
		end_unless_open(f, fd);
	return err;
}
