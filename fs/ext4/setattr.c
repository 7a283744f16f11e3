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

/* The fields that a change of attributes puts back when it fails. */
struct attributes {
	uint32_t mode, uid, gid, flags;
	struct fs_time atime, mtime, ctime;
};

static struct attributes attributes_of(const struct ext4_inode *in)
{
	return (struct attributes){ .mode = in->mode,
				    .uid = in->uid,
				    .gid = in->gid,
				    .flags = in->flags,
				    .atime = in->atime,
				    .mtime = in->mtime,
				    .ctime = in->ctime };
}

/* The change failed with @err: all is as it was, the ACL that followed the mode as well. */
static int put_back(struct ext4_op *op, struct ext4_inode *in, const struct attributes *old,
		    const struct fs_attr *a, int err)
{
	/* A truncation may have moved the contents out of the inode before it failed. */
	const uint32_t inline_data = in->flags & EXT4_FL_INLINE_DATA;
	const uint32_t extents = in->flags & EXT4_FL_EXTENTS;
	int again = 0;

	if (ext4_aborted(op->fs))
		return err;
	in->mode = old->mode;
	in->uid = old->uid;
	in->gid = old->gid;
	in->flags = (old->flags & ~(uint32_t)(EXT4_FL_INLINE_DATA | EXT4_FL_EXTENTS)) |
		    inline_data | extents;
	in->atime = old->atime;
	in->mtime = old->mtime;
	in->ctime = old->ctime;
	if (a->mask & FS_SET_MODE) {
		again = ext4_acl_chmod(op, in);
		if (!again)
			again = ext4_inode_write(op, in);
	}
	return again ? ext4_op_abort(op, again, "putting attributes back") : err;
}

static int set(struct ext4_op *op, struct ext4_inode *in, const struct fs_attr *a)
{
	const struct attributes old = attributes_of(in);
	int err;

	err = check(in, a);
	if (err)
		return err;
	if (a->mask & FS_SET_MODE) {
		in->mode = (in->mode & S_IFMT) | (a->mode & ~S_IFMT);
		err = ext4_acl_chmod(op, in);
		if (err) {
			in->mode = old.mode;
			return err;
		}
	}
	if (a->mask & FS_SET_UID)
		in->uid = a->uid;
	if (a->mask & FS_SET_GID)
		in->gid = a->gid;
	if (a->mask & FS_SET_FLAGS)
		set_flags(in, a->flags);
	if (a->mask & FS_SET_WRITTEN)
		ext4_inode_written(op, in);
	else
		ext4_inode_touch(op, in, a->mask & FS_SET_SIZE);
	if (a->mask & FS_SET_ATIME)
		in->atime = a->atime;
	if (a->mask & FS_SET_MTIME)
		in->mtime = a->mtime;
	/* Truncating writes the inode, before its first transaction ends and afterwards. */
	if (a->mask & FS_SET_SIZE)
		err = ext4_truncate(op, in, a->size);
	else
		err = ext4_inode_write(op, in);
	return err ? put_back(op, in, &old, a, err) : 0;
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
