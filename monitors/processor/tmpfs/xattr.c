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
#include <fs/acl.h>
#include <lib/string.h>
#include <mm/slab.h>
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

static bool is_list(const char *name)
{
	return posix_acl_is_name(name, strlen(name));
}

/* An access list takes set-group-id from a file whose group the caller is not in. */
static uint32_t mode_for_list_locked(const struct tmpfs_inode *ti, uint32_t bits)
	__must_hold(&ti->attr_lock)
{
	const uint32_t mode = (ti->mode & ~0777u) | bits;
	struct fs_cred cred;

	assert_spin_held(&ti->attr_lock);
	process_cred(&cred);
	return fs_in_group(&cred, ti->gid) || fs_cred_is_root(&cred) ? mode : mode & ~02000u;
}

/*
 * Put @x, or nothing, in the place of @old, which may be NULL, and is the caller's then. @bits: the
 * permission bits beside that list, or NULL: who reads the attributes sees both changes or none.
 */
static void replace_locked(struct tmpfs_inode *ti, struct tmpfs_xattr *old, struct tmpfs_xattr *x,
			   const uint32_t *bits) __must_hold(&ti->fs->lock)
{
	bool acl = false;

	assert_mutex_held(&ti->fs->lock);
	if (old)
		list_del(&old->link);
	if (x)
		list_add_tail(&x->link, &ti->xattrs);
	list_for_each_entry(x, &ti->xattrs, link)
		acl = acl || is_list(x->name);
	spin_lock(&ti->attr_lock);
	WRITE_ONCE(ti->acl, acl);
	if (bits)
		ti->mode = mode_for_list_locked(ti, *bits);
	spin_unlock(&ti->attr_lock);
}

/*
 * Set or remove a list, which posix_acl_check() has taken. One that says no more than the mode is
 * not kept, and removing one that is not there is no error.
 */
static int set_list(struct tmpfs_inode *ti, const char *name, const void *value, size_t size)
{
	const bool access = strcmp(name, POSIX_ACL_ACCESS) == 0;
	struct tmpfs_xattr *x = NULL, *old;
	uint32_t bits;
	bool keep = value;

	if (!access && !inode_is_dir(&ti->inode))
		return value ? -EACCES : 0;
	if (access && value)
		keep = !posix_acl_mode(value, size, &bits);
	if (keep) {
		x = size <= POSIX_ACL_MAX ? make(name, value, size) : NULL;
		if (!x)
			return -ENOSPC;
	}
	mutex_lock(&ti->fs->lock);
	old = find_locked(ti, name);
	replace_locked(ti, old, x, access && value ? &bits : NULL);
	mutex_unlock(&ti->fs->lock);
	kmem_free(old);
	tmpfs_touch(ti, TOUCH_CTIME);
	return 0;
}

void tmpfs_acl_chmod_locked(struct tmpfs_inode *ti, uint32_t mode)
{
	struct tmpfs_xattr *x;

	assert_mutex_held(&ti->fs->lock);
	x = ti->acl ? find_locked(ti, POSIX_ACL_ACCESS) : NULL;
	if (x)
		posix_acl_chmod(x->value, x->size, mode);
}

/* --- what is inherited ------------------------------------------------------------------- */

struct heritage {
	struct tmpfs_xattr *access, *def; /* NULL: none */
};

/* The lists of a file of *@how's type from @list, its directory's, and its mode. */
static int inherit(struct new_inode *how, void *list, size_t len, struct heritage *out)
{
	const bool is_dir = (how->mode & S_IFMT) == S_IFDIR;

	if (is_dir)
		out->def = make(POSIX_ACL_DEFAULT, list, len);
	how->mode |= how->masked;
	if (!posix_acl_inherit(list, len, &how->mode)) {
		out->access = make(POSIX_ACL_ACCESS, list, len);
		if (!out->access)
			return -ENOSPC;
	}
	return is_dir && !out->def ? -ENOSPC : 0;
}

int tmpfs_new_in(struct tmpfs_inode *dir, const struct new_inode *how, struct tmpfs_inode **out)
{
	struct new_inode mine = *how;
	struct heritage lists = { 0 };
	struct tmpfs_inode *ti;
	ssize_t len = 0;
	void *list;
	int err = 0;

	if (!READ_ONCE(dir->acl) || (how->mode & S_IFMT) == S_IFLNK)
		return tmpfs_new_inode(dir->fs, how, out);
	list = kmalloc(POSIX_ACL_MAX);
	if (!list)
		return -ENOMEM;
	len = tmpfs_getxattr(&dir->inode, POSIX_ACL_DEFAULT, list, POSIX_ACL_MAX);
	if (len > 0)
		err = inherit(&mine, list, (size_t)len, &lists);
	if (!err)
		err = tmpfs_new_inode(dir->fs, &mine, out);
	if (!err) {
		ti = *out;
		mutex_lock(&ti->fs->lock);
		if (lists.access)
			replace_locked(ti, NULL, lists.access, NULL);
		if (lists.def)
			replace_locked(ti, NULL, lists.def, NULL);
		mutex_unlock(&ti->fs->lock);
	} else {
		kmem_free(lists.access);
		kmem_free(lists.def);
	}
	kfree(list);
	return err;
}

/* --- setting, listing -------------------------------------------------------------------- */

int tmpfs_setxattr(struct inode *inode, const char *name, const void *value, size_t size, int flags)
{
	struct tmpfs_inode *ti = tmpfs_inode(inode);
	struct tmpfs_xattr *x = NULL, *old;
	int err = 0;

	if (is_list(name))
		return set_list(ti, name, value, size);
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
	if (!err)
		replace_locked(ti, old, x, NULL);
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
