/* SPDX-License-Identifier: MIT */
/*
 * Permission to use a file, by its attributes and its access list.
 *
 * Flow:	the attributes are of one moment and the list is read at a later one. A list that is
 *		found has the say. Without one the mode of before is not the mode any more: its
 *		bits of the group may be the mask of a list that is gone. So the attributes are read
 *		once more, until they are the same before and after.
 */
#include <fs/access.h>
#include <fs/acl.h>
#include <lib/errno.h>
#include <mm/slab.h>

#include "inode.h"
#include "path.h"

#define TRIES 8 /* of reading attributes and list while they change */

/* Ask the access list of @inode; 1: there is none. */
static int list_access(const struct fs_cred *cred, struct inode *inode,
		       const struct file_attr *attr, uint32_t access)
{
	uint8_t *list = kmalloc(POSIX_ACL_MAX);
	ssize_t ret;

	if (!list)
		return -ENOMEM;
	ret = inode->ops->getxattr(inode, POSIX_ACL_ACCESS, list, POSIX_ACL_MAX);
	if (ret == -ENODATA)
		ret = 1;
	else if (ret == -ERANGE || ret == -EOPNOTSUPP || !ret)
		ret = -EACCES; /* it cannot be read, and lets nobody in */
	else if (ret > 0)
		ret = posix_acl_check(list, (size_t)ret)
			      ? -EACCES
			      : posix_acl_access(cred, attr->gid, access, list, (size_t)ret);
	kfree(list);
	return (int)ret;
}

static bool same_rights(const struct file_attr *a, const struct file_attr *b)
{
	return a->mode == b->mode && a->uid == b->uid && a->gid == b->gid;
}

int attr_access(const struct fs_cred *cred, struct inode *inode, const struct file_attr *attr,
		uint32_t access)
{
	struct file_attr old = *attr, now;
	bool same = true;
	int ret = -EACCES, err;

	for (int i = 0; i < TRIES; i++) {
		const bool list = old.acl && posix_acl_matters(cred, old.mode, old.uid);

		ret = list ? list_access(cred, inode, &old, access) : 1;
		if (ret <= 0)
			return ret;
		ret = fs_access(cred, old.mode, old.uid, old.gid, access);
		if (!list)
			return ret;
		err = inode_getattr(inode, &now);
		if (err)
			return err;
		same = same_rights(&old, &now);
		if (same && fs_time_is_same(old.ctime, now.ctime))
			return ret;
		old = now;
	}
	/* A file that is written all the time changes in nothing but its times. */
	return same ? ret : -EACCES;
}
