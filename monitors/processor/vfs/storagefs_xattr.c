/* SPDX-License-Identifier: MIT */
/*
 * The file systems of the storage nodes: extended attributes. They are the storage node's, which
 * checks permissions once more; nothing is kept here.
 *
 * Limits:	a value of more than 8 KiB is -ENOSPC, as no block of ext4 holds it.
 */
#include <fs/acl.h>
#include <lib/err.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <processor/client/change.h>
#include <processor/process/process.h>

#include "storagefs_private.h"

/* The value of @name, or with NULL all names: the caller's to kfree(), *@len bytes. */
static char *ask(struct inode *inode, const char *name, size_t *len)
{
	char *buf = kmalloc(STORAGE_XATTR_MAX);
	struct fs_cred cred;
	ssize_t ret;

	if (!buf)
		return ERR_PTR(-ENOMEM);
	process_cred(&cred);
	ret = storage_xattr_get(&cred, &storage_inode_of(inode)->file, name, buf,
				STORAGE_XATTR_MAX);
	if (ret >= 0) {
		*len = (size_t)ret;
		return buf;
	}
	kfree(buf);
	return ERR_PTR(ret);
}

/* @len bytes of @from for a program that has room for @size; 0 asks how many there are. */
static ssize_t hand_out(const char *from, size_t len, void *buf, size_t size)
{
	if (size && size < len)
		return -ERANGE;
	if (size)
		memcpy(buf, from, len);
	return (ssize_t)len;
}

ssize_t storagefs_getxattr(struct inode *inode, const char *name, void *buf, size_t size)
{
	size_t len;
	char *value = ask(inode, name, &len);
	ssize_t ret;

	if (IS_ERR(value))
		return PTR_ERR(value);
	ret = hand_out(value, len, buf, size);
	kfree(value);
	return ret;
}

/* Those that @trusted says; of "system." the lists that setxattr() takes. */
static bool is_shown(const char *name, bool trusted)
{
	if (strncmp(name, "system.", 7) == 0)
		return posix_acl_is_name(name, strlen(name));
	return trusted || strncmp(name, "trusted.", 8) != 0;
}

ssize_t storagefs_listxattr(struct inode *inode, char *buf, size_t size, bool trusted)
{
	size_t len, kept = 0;
	char *names = ask(inode, NULL, &len);
	ssize_t ret;

	if (IS_ERR(names))
		return PTR_ERR(names);
	if (len && names[len - 1]) {
		kfree(names);
		return -EPROTO;
	}
	for (size_t at = 0, n; at < len; at += n) {
		n = strlen(names + at) + 1;
		if (!is_shown(names + at, trusted))
			continue;
		memmove(names + kept, names + at, n);
		kept += n;
	}
	ret = hand_out(names, kept, buf, size);
	kfree(names);
	return ret;
}

int storagefs_setxattr(struct inode *inode, const char *name, const void *value, size_t size,
		       int flags)
{
	const struct file_id *file = &storage_inode_of(inode)->file;
	struct kept_change kept;
	struct fs_cred cred;
	int err;

	process_cred(&cred);
	kept_change(&kept, file->node);
	kept_change_file(&kept, file, 0); /* a list is a part of the mode */
	err = storage_xattr_set(&cred, file, name, value, size, flags);
	kept_change_end(&kept, err);
	return err;
}
