/* SPDX-License-Identifier: MIT */
/*
 * Handles of files on a tmpfs: the number of the inode, which is never used again, and a seal by
 * the file system's own key, so that a handle of another file system, or one that was made up, is
 * none.
 *
 * Locking:	fs->lock guards the tree. An inode is taken out of it before it is freed; one whose
 *		last reference has gone does not count.
 */
#include <lib/errno.h>
#include <lib/string.h>

#include "tmpfs_private.h"

#define HANDLE_TYPE 0x54u

struct tmpfs_file_handle {
	uint64_t ino, seal;
};

static uint64_t seal_of(const struct tmpfs *fs, uint64_t ino)
{
	return siphash24(&fs->key, &ino, sizeof(ino));
}

int tmpfs_handle(struct inode *inode, struct fs_handle *h)
{
	const struct tmpfs_inode *ti = tmpfs_inode(inode);
	const struct tmpfs_file_handle fh = { ti->ino, seal_of(ti->fs, ti->ino) };

	h->type = HANDLE_TYPE;
	h->len = sizeof(fh);
	memcpy(h->bytes, &fh, sizeof(fh));
	return 0;
}

static int cmp(const struct rb_node *a, const struct rb_node *b)
{
	const struct tmpfs_inode *x = rb_entry(a, struct tmpfs_inode, by_ino);
	const struct tmpfs_inode *y = rb_entry(b, struct tmpfs_inode, by_ino);

	return x->ino < y->ino ? -1 : x->ino > y->ino;
}

void tmpfs_number_locked(struct tmpfs_inode *ti)
{
	struct rb_node *there;

	assert_mutex_held(&ti->fs->lock);
	there = rb_insert(&ti->by_ino, &ti->fs->by_ino, cmp);
	ASSERT(!there);
}

void tmpfs_unnumber_locked(struct tmpfs_inode *ti)
{
	assert_mutex_held(&ti->fs->lock);
	rb_erase(&ti->by_ino, &ti->fs->by_ino);
}

/* The inode with that number, referenced; NULL: none (any more). */
static struct tmpfs_inode *find_locked(struct tmpfs *fs, uint64_t ino)
{
	struct rb_node *n;

	assert_mutex_held(&fs->lock);
	n = fs->by_ino.node;
	while (n) {
		struct tmpfs_inode *ti = rb_entry(n, struct tmpfs_inode, by_ino);

		if (ti->ino == ino)
			return refcount_inc_not_zero(&ti->inode.refs) ? ti : NULL;
		n = ino < ti->ino ? n->left : n->right;
	}
	return NULL;
}

int tmpfs_by_handle(const struct fs_type *type, const struct fs_handle *h, struct inode **out)
{
	struct tmpfs *fs = tmpfs_of(type);
	struct tmpfs_file_handle fh;
	struct tmpfs_inode *ti;

	if (h->type != HANDLE_TYPE || h->len < sizeof(fh))
		return -ESTALE;
	memcpy(&fh, h->bytes, sizeof(fh));
	if (fh.seal != seal_of(fs, fh.ino))
		return -ESTALE;
	mutex_lock(&fs->lock);
	ti = find_locked(fs, fh.ino);
	mutex_unlock(&fs->lock);
	if (!ti)
		return -ESTALE;
	*out = &ti->inode;
	return 0;
}
