/* SPDX-License-Identifier: MIT */
/*
 * tmpfs: extended attributes.
 *
 * Locking:	fs->lock guards the list of an inode's attributes; values are copied between kernel
 *		buffers under it.
 * Limits:	an attribute is charged to the program that sets it: ENOSPC, as of files.
 */
#include "tmpfs_private.h"

#include <abi/xattr.h>
#include <lib/string.h>
#include <processor/account/account.h>
#include <processor/process/process.h>

struct tmpfs_xattr {
	struct list_head link; /* of inode->xattrs: fs->lock */
	size_t size;
	char *value; /* in the same allocation, behind the name */
	char name[];
};

static struct tmpfs_xattr *find_locked(struct tmpfs_inode *ti, const char *name)
	__must_hold(&ti->fs->lock)
{
	struct tmpfs_xattr *x;

	assert_mutex_held(&ti->fs->lock);
	list_for_each_entry(x, &ti->xattrs, link) {
		if (strcmp(x->name, name) == 0)
			return x;
	}
	return NULL;
}

ssize_t tmpfs_getxattr(struct inode *inode, const char *name, void *buf, size_t size)
{
	struct tmpfs_inode *ti = tmpfs_inode(inode);
	const struct tmpfs_xattr *x;
	ssize_t ret = -ENODATA;

	mutex_lock(&ti->fs->lock);
	x = find_locked(ti, name);
	if (x)
		ret = size && size < x->size ? -ERANGE : (ssize_t)x->size;
	if (ret > 0 && size)
		memcpy(buf, x->value, x->size);
	mutex_unlock(&ti->fs->lock);
	return ret;
}

static struct tmpfs_xattr *make(const char *name, const void *value, size_t size)
{
	const size_t len = strlen(name) + 1;
	struct tmpfs_xattr *x = kmem_alloc(kmem_current(), sizeof(*x) + len + size);

	if (!x)
		return NULL;
	memcpy(x->name, name, len);
	x->value = x->name + len;
	x->size = size;
	if (size)
		memcpy(x->value, value, size);
	return x;
}

int tmpfs_setxattr(struct inode *inode, const char *name, const void *value, size_t size, int flags)
{
	struct tmpfs_inode *ti = tmpfs_inode(inode);
	struct tmpfs_xattr *x = NULL, *old;
	int err = 0;

	if (value) {
		x = make(name, value, size);
		if (!x)
			return -ENOSPC;
	}
	mutex_lock(&ti->fs->lock);
	old = find_locked(ti, name);
	if (old && (flags & XATTR_CREATE))
		err = -EEXIST;
	else if (!old && (flags & XATTR_REPLACE))
		err = -ENODATA;
	if (!err && old)
		list_del(&old->link);
	if (!err && x)
		list_add_tail(&x->link, &ti->xattrs);
	mutex_unlock(&ti->fs->lock);
	kmem_free(err ? x : old);
	if (!err)
		tmpfs_touch(ti, TOUCH_CTIME);
	return err;
}

ssize_t tmpfs_listxattr(struct inode *inode, char *buf, size_t size, bool trusted)
{
	struct tmpfs_inode *ti = tmpfs_inode(inode);
	const struct tmpfs_xattr *x;
	size_t used = 0;

	mutex_lock(&ti->fs->lock);
	list_for_each_entry(x, &ti->xattrs, link) {
		const size_t len = strlen(x->name) + 1;

		if (!trusted && strncmp(x->name, "trusted.", 8) == 0)
			continue;
		if (size && len <= size - MIN(used, size))
			memcpy(buf + used, x->name, len);
		used += len;
	}
	mutex_unlock(&ti->fs->lock);
	return size && used > size ? -ERANGE : (ssize_t)used;
}

void tmpfs_free_xattrs(struct tmpfs_inode *ti)
{
	struct tmpfs_xattr *x, *next;

	list_for_each_entry_safe(x, next, &ti->xattrs, link) {
		list_del(&x->link);
		kmem_free(x);
	}
}
