/* SPDX-License-Identifier: MIT */
/*
 * ext4: attributes changed: mode, owner, times, flags and size.
 */
#include <abi/stat.h>
#include <kernel/panic.h>
#include <lib/errno.h>

#include "ext4_write.h"

static void set_flags(struct ext4_inode *in, uint32_t attrs)
{
	static const struct {
		uint32_t attr, flag;
	} map[] = {
		{ STATX_ATTR_IMMUTABLE, EXT4_FL_IMMUTABLE },
		{ STATX_ATTR_APPEND, EXT4_FL_APPEND },
		{ STATX_ATTR_NODUMP, EXT4_FL_NODUMP },
	};

	for (size_t i = 0; i < ARRAY_SIZE(map); i++) {
		in->flags &= ~map[i].flag;
		if (attrs & map[i].attr)
			in->flags |= map[i].flag;
	}
}

static int check(const struct ext4_inode *in, const struct fs_attr *a)
{
	if (in->gone)
		return -ESTALE;
	if (!(a->mask & FS_SET_SIZE))
		return 0;
	if (ext4_is_dir(in))
		return -EISDIR;
	if ((in->mode & S_IFMT) != S_IFREG)
		return -EINVAL;
	return a->size > ext4_max_size(in) ? -EFBIG : 0;
}

static int set(struct ext4_op *op, struct ext4_inode *in, const struct fs_attr *a)
{
	int err;

	err = check(in, a);
	if (err)
		return err;
	if (a->mask & FS_SET_MODE) {
		in->mode = (in->mode & S_IFMT) | (a->mode & ~S_IFMT);
		err = ext4_acl_chmod(op, in);
		if (err)
			return err;
	}
	if (a->mask & FS_SET_UID)
		in->uid = a->uid;
	if (a->mask & FS_SET_GID)
		in->gid = a->gid;
	if (a->mask & FS_SET_FLAGS)
		set_flags(in, a->flags);
	ext4_inode_touch(op, in, a->mask & FS_SET_SIZE);
	if (a->mask & FS_SET_ATIME)
		in->atime = a->atime;
	if (a->mask & FS_SET_MTIME)
		in->mtime = a->mtime;
	/* Truncating writes the inode, before its first transaction ends and afterwards. */
	if (a->mask & FS_SET_SIZE)
		return ext4_truncate(op, in, a->size);
	return ext4_inode_write(op, in);
}

int ext4_setattr(struct ext4_inode *in, const struct fs_attr *attr, const struct fs_change *ch)
{
	struct ext4_op op;
	int err;

	err = ext4_op_begin(&op, in->fs, EXT4_CREDITS_NAMES, ch, &in, 1);
	if (err)
		return err;
	err = set(&op, in, attr);
	ASSERT(err <= 0);
	return ext4_op_end(&op, in, err);
}
