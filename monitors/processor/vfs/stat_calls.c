/* SPDX-License-Identifier: MIT */
/*
 * stat and its kin, statfs.
 */
#include <abi/mount.h>
#include <abi/stat.h>
#include <arch/uaccess.h>
#include <lib/err.h>
#include <lib/string.h>
#include <processor/ns/user_ns.h>
#include <processor/process/process.h>
#include <processor/syscall/syscall.h>

#include "at_private.h"
#include "file.h"
#include "mount_private.h"

static uint64_t dev_of(const struct file_attr *a)
{
	return a->fsid & 0xffff;
}

static long put_stat(uint64_t ubuf, const struct file_attr *a)
{
	const struct linux_stat st = {
		.dev = dev_of(a),
		.ino = a->file.ino,
		.nlink = a->nlink,
		.mode = a->mode,
		.uid = uid_out(a->uid),
		.gid = gid_out(a->gid),
		.rdev = a->rdev,
		.size = (int64_t)a->size,
		.blksize = a->blksize,
		.blocks = (int64_t)a->blocks,
		.atime = (uint64_t)a->atime.sec,
		.atime_ns = a->atime.nsec,
		.mtime = (uint64_t)a->mtime.sec,
		.mtime_ns = a->mtime.nsec,
		.ctime = (uint64_t)a->ctime.sec,
		.ctime_ns = a->ctime.nsec,
	};

	return copy_to_user((void __user *)ubuf, &st, sizeof(st));
}

/*
 * Attributes of what (@dfd, @upath, AT_* @flags) names, and, unless @mnt_id is NULL, the number of
 * the mount that it is behind: 0 is none.
 */
static int stat_at(int dfd, uint64_t upath, uint32_t flags, struct file_attr *attr,
		   uint32_t *mnt_id)
{
	struct walk_result res;
	struct at_path at;
	struct file *f;
	int err = at_get(&at, dfd, upath, flags & AT_EMPTY_PATH);

	if (err == -ENOENT && (flags & AT_EMPTY_PATH) && dfd != AT_FDCWD)
		goto by_file; /* a pipe, or another file without a path */
	if (err)
		return err;
	if (!at.text[0] && dfd != AT_FDCWD) {
		at_put(&at);
		goto by_file;
	}
	err = path_walk(&at.base, at.text,
			WALK_EMPTY | ((flags & AT_SYMLINK_NOFOLLOW) ? WALK_NOFOLLOW : 0), 0, &res);
	at_put(&at);
	if (!err) {
		*attr = res.at.attr;
		if (mnt_id)
			*mnt_id = res.at.mnt ? res.at.mnt->id : 0;
		walk_result_put(&res);
	}
	return err;
by_file:
	f = fd_get(dfd);
	if (IS_ERR(f))
		return PTR_ERR(f);
	err = f->ops->stat(f, attr);
	if (mnt_id)
		*mnt_id = f->mnt ? f->mnt->id : 0;
	file_put(f);
	return err;
}

static long do_stat(int dfd, uint64_t upath, uint32_t flags, uint64_t ubuf)
{
	struct file_attr attr;
	const int err = stat_at(dfd, upath, flags, &attr, NULL);

	return err ? err : put_stat(ubuf, &attr);
}

/* stat(path, buf) */
long sys_stat(const struct syscall_args *args)
{
	return do_stat(AT_FDCWD, args->a[0], 0, args->a[1]);
}

/* lstat(path, buf) */
long sys_lstat(const struct syscall_args *args)
{
	return do_stat(AT_FDCWD, args->a[0], AT_SYMLINK_NOFOLLOW, args->a[1]);
}

/* newfstatat(dfd, path, buf, flags) */
long sys_newfstatat(const struct syscall_args *args)
{
	const uint32_t flags = (uint32_t)args->a[3];

	if (flags & ~(AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_EMPTY_PATH))
		return -EINVAL;
	return do_stat((int)args->a[0], args->a[1], flags, args->a[2]);
}

/* fstat(fd, buf) */
long sys_fstat(const struct syscall_args *args)
{
	struct file *f = fd_get((int)args->a[0]);
	struct file_attr attr;
	int err;

	if (IS_ERR(f))
		return PTR_ERR(f);
	err = f->ops->stat(f, &attr);
	file_put(f);
	return err ? err : put_stat(args->a[1], &attr);
}

/* statx(dfd, path, flags, mask, buf) */
long sys_statx(const struct syscall_args *args)
{
	const uint32_t flags = (uint32_t)args->a[2];
	struct linux_statx sx = { 0 };
	struct file_attr a;
	uint32_t mnt_id;
	int err;

	if ((flags &
	     ~(AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_EMPTY_PATH | AT_STATX_SYNC_TYPE)) ||
	    (flags & AT_STATX_SYNC_TYPE) == AT_STATX_SYNC_TYPE || ((uint32_t)args->a[3] >> 31))
		return -EINVAL;
	err = stat_at((int)args->a[0], args->a[1], flags, &a, &mnt_id);
	if (err)
		return err;
	sx.mask = STATX_BASIC_STATS | (a.btime.sec ? STATX_BTIME : 0);
	if (mnt_id && (args->a[3] & STATX_MNT_ID_UNIQUE)) {
		sx.mask |= STATX_MNT_ID_UNIQUE;
		sx.mnt_id = MNT_UNIQUE_ID_OFFSET + mnt_id;
	} else if (mnt_id) {
		sx.mask |= STATX_MNT_ID;
		sx.mnt_id = mnt_id;
	}
	sx.blksize = a.blksize;
	sx.nlink = a.nlink;
	sx.uid = uid_out(a.uid);
	sx.gid = gid_out(a.gid);
	sx.mode = (uint16_t)a.mode;
	sx.ino = a.file.ino;
	sx.attributes = a.attrs;
	sx.attributes_mask = FILE_ATTRS;
	sx.size = a.size;
	sx.blocks = a.blocks;
	sx.atime = (struct linux_statx_timestamp){ .sec = a.atime.sec, .nsec = a.atime.nsec };
	sx.btime = (struct linux_statx_timestamp){ .sec = a.btime.sec, .nsec = a.btime.nsec };
	sx.ctime = (struct linux_statx_timestamp){ .sec = a.ctime.sec, .nsec = a.ctime.nsec };
	sx.mtime = (struct linux_statx_timestamp){ .sec = a.mtime.sec, .nsec = a.mtime.nsec };
	sx.rdev_major = (a.rdev >> 8) & 0xfff;
	sx.rdev_minor = (a.rdev & 0xff) | ((a.rdev >> 12) & 0xfff00);
	sx.dev_major = (uint32_t)(dev_of(&a) >> 8);
	sx.dev_minor = (uint32_t)(dev_of(&a) & 0xff);
	return copy_to_user((void __user *)args->a[4], &sx, sizeof(sx));
}

/* --- statfs -------------------------------------------------------------------------- */

static int statfs_of(const struct mount *mt, struct inode *inode, struct fs_info *st)
{
	const struct fs_type *type = inode->type;

	*st = (struct fs_info){
		.type = type->magic,
		.bsize = PAGE_SIZE,
		.namelen = FS_NAME_MAX,
		.fsid = type->dev,
		.flags = (mount_writable(mt, inode) ? ST_RDONLY : 0) |
			 (type->noexec ? ST_NOEXEC : 0) | (mt ? mount_st_flags(mt) : 0),
	};
	return type->statfs ? type->statfs(inode, st) : 0;
}

#define ANON_MAGIC 0x09041934u

/* A pipe, a stream, a socket: of a file system that has no more than a name. */
static struct fs_info info_of_kind(const struct file *f)
{
	return (struct fs_info){
		.type = f->ops->magic ? f->ops->magic : ANON_MAGIC,
		.bsize = PAGE_SIZE,
		.namelen = FS_NAME_MAX,
	};
}

static long put_info(const struct fs_info *info, uint64_t ubuf)
{
	const struct fs_info st = *info;
	struct linux_statfs u = { 0 };

	u.type = (int64_t)st.type;
	u.bsize = (int64_t)st.bsize;
	u.frsize = (int64_t)st.bsize;
	u.blocks = st.blocks;
	u.bfree = st.bfree;
	u.bavail = st.bavail;
	u.files = st.files;
	u.ffree = st.ffree;
	u.fsid[0] = (int32_t)st.fsid;
	u.fsid[1] = (int32_t)(st.fsid >> 32);
	u.namelen = (int64_t)st.namelen;
	u.flags = (int64_t)(st.flags | ST_VALID);
	return copy_to_user((void __user *)ubuf, &u, sizeof(u));
}

static long put_statfs(const struct mount *mt, struct inode *inode, uint64_t ubuf)
{
	struct fs_info st;
	const int err = statfs_of(mt, inode, &st);

	return err ? err : put_info(&st, ubuf);
}

/* statfs(path, buf) */
long sys_statfs(const struct syscall_args *args)
{
	struct walk_result res;
	long ret = at_walk(AT_FDCWD, args->a[0], 0, 0, &res);

	if (ret)
		return ret;
	ret = put_statfs(res.at.mnt, res.at.inode, args->a[1]);
	walk_result_put(&res);
	return ret;
}

/* fstatfs(fd, buf) */
long sys_fstatfs(const struct syscall_args *args)
{
	struct file *f = fd_get((int)args->a[0]);
	struct fs_info info;
	long ret;

	if (IS_ERR(f))
		return PTR_ERR(f);
	if (f->inode) {
		ret = put_statfs(f->mnt, f->inode, args->a[1]);
	} else {
		info = info_of_kind(f);
		ret = put_info(&info, args->a[1]);
	}
	file_put(f);
	return ret;
}

/* --- older ways to ask ----------------------------------------------------------------- */

/* ustat(dev, buf): what is free in the file system whose files have that st_dev */
long sys_ustat(const struct syscall_args *args)
{
	struct mount *mt = mounts_of_dev(fs_current()->mounts, (uint32_t)args->a[0]);
	struct linux_ustat u = { 0 };
	struct fs_info st;
	int err;

	if (!mt)
		return -EINVAL;
	err = statfs_of(mt, mt->root, &st);
	mount_put(mt);
	if (err)
		return err;
	u.tfree = (int32_t)st.bfree;
	u.tinode = st.ffree;
	return copy_to_user((void __user *)args->a[1], &u, sizeof(u)) ? -EFAULT : 0;
}

/* Those of /proc/filesystems; their places are what sysfs() calls them by. */
static const char *const fs_names[] = { "proc", "sysfs", "tmpfs", "devtmpfs", "ext4" };

/* sysfs(option, ...): 1 the place of a name, 2 the name of a place, 3 how many there are */
long sys_sysfs(const struct syscall_args *args)
{
	char name[32];
	long len;

	switch ((int)args->a[0]) {
	case 1:
		len = strncpy_from_user(name, (const char __user *)args->a[1], sizeof(name));
		if (len < 0)
			return len == -ENAMETOOLONG ? -EINVAL : len;
		for (size_t i = 0; i < ARRAY_SIZE(fs_names); i++) {
			if (strcmp(name, fs_names[i]) == 0)
				return (long)i;
		}
		return -EINVAL;
	case 2:
		if ((uint32_t)args->a[1] >= ARRAY_SIZE(fs_names))
			return -EINVAL;
		len = (long)strlen(fs_names[(uint32_t)args->a[1]]) + 1;
		return copy_to_user((void __user *)args->a[2], fs_names[(uint32_t)args->a[1]],
				    (size_t)len);
	case 3:
		return ARRAY_SIZE(fs_names);
	default:
		return -EINVAL;
	}
}
