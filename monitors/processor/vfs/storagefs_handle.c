/* SPDX-License-Identifier: MIT */
/*
 * Handles of files of storage nodes, as programs keep them: what the node itself names a file by,
 * with the seal that it made for the file when that was looked up. So a handle that was made up is
 * refused by the node, and one of an inode that was freed since by its generation.
 *
 * Limits:	a handle is good as long as the storage node's seals are. A directory is found as
 *		long as some program of this processor uses it: nothing leads from its number to
 *		its path. A link to which no walk has come cannot be read.
 */
#include <lib/errno.h>
#include <lib/string.h>

#include "storagefs_private.h"

#define HANDLE_TYPE 0x53u

struct storage_file_handle {
	uint64_t ino, seal;
	uint32_t gen, node, vnode, zero;
};
static_assert(sizeof(struct storage_file_handle) <= FS_HANDLE_MAX, "it has no room");

int storagefs_handle(struct inode *inode, struct fs_handle *h)
{
	const struct file_id *file = &storage_inode_of(inode)->file;
	const struct storage_file_handle fh = {
		.ino = file->ino,
		.seal = file->seal,
		.gen = file->gen,
		.node = file->node,
		.vnode = file->vnode,
	};

	h->type = HANDLE_TYPE;
	h->len = sizeof(fh);
	memcpy(h->bytes, &fh, sizeof(fh));
	return 0;
}

/* Errors of the node that say: that is no file of ours, or none of yours. */
static int stale(int err)
{
	return err == -EACCES || err == -EPROTO || err == -ENOENT || err == -EINVAL ? -ESTALE : err;
}

/* No program here uses it: the node says whether there is such a file. */
static int ask(struct storage_fs *fs, const struct file_id *file, struct inode **out)
{
	int err;

	do {
		const uint64_t before = kept_now();
		struct file_attr attr;

		err = stale(storage_getattr(file, &attr));
		if (err)
			return err;
		/* Without a name and not in use here, it is going. */
		if (!file_id_equal(&attr.file, file) || !attr.nlink ||
		    (attr.mode & S_IFMT) == S_IFDIR)
			return -ESTALE;
		err = storagefs_bare_inode(fs, &attr, before, out);
	} while (err == -EAGAIN); /* it, or another file, has gone since: look again */
	return err;
}

int storagefs_by_handle(const struct fs_type *type, const struct fs_handle *h, struct inode **out)
{
	struct storage_fs *fs = container_of(type, struct storage_fs, type);
	struct storage_file_handle fh;
	struct storage_inode *si;
	struct file_id file;

	if (h->type != HANDLE_TYPE || h->len < sizeof(fh))
		return -ESTALE;
	memcpy(&fh, h->bytes, sizeof(fh));
	if (fh.node != fs->place.node || !fh.node || !fh.ino || fh.zero)
		return -ESTALE;
	file = (struct file_id){ fh.ino, fh.gen, fh.node, fh.vnode, fh.seal };
	si = storagefs_in_use(&file);
	if (!si)
		return ask(fs, &file, out);
	if (si->file.seal != file.seal || si->file.vnode != file.vnode) {
		inode_put(&si->inode);
		return -ESTALE;
	}
	*out = &si->inode;
	return 0;
}
