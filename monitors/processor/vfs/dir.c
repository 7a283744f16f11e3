/* SPDX-License-Identifier: MIT */
/*
 * Open directories, and open names (O_PATH).
 *
 * Ordering:	position 0 is ".", 1 is "..", then come the entries of the file system at positions
 *		that it chooses (all of them, where it lists "." and ".." itself), then at
 *		DIR_MOUNTS the mount points, which hide entries of the same name.
 */
#include <abi/stat.h>
#include <arch/uaccess.h>
#include <kernel/panic.h>
#include <lib/err.h>
#include <lib/string.h>
#include <processor/process/process.h>

#include "dirent_private.h"
#include "file.h"
#include "mount_private.h"

#define NAME_AT    offsetof(struct linux_dirent64, name)
#define OLD_AT     offsetof(struct linux_dirent, name)
/*
 * Positions of mount points begin here.  Those of a file system end before: ext4's are 63 bits of
 * hashes, and no hash has all of its upper 31 bits set.
 */
#define DIR_MOUNTS 0x7fffffff00000000ull

/* One entry into the user's buffer. */
static bool put(struct dir_sink *sink, const char *name, size_t len, uint64_t ino, uint8_t type,
		uint64_t cookie)
{
	/* An old record has its type in its last byte. */
	const uint16_t reclen =
		(uint16_t)ALIGN_UP(sink->old ? OLD_AT + len + 2u : NAME_AT + len + 1u, 8);
	uint8_t rec[ALIGN_UP(NAME_AT + FS_NAME_MAX + 1, 8)] = { 0 };
	struct linux_dirent64 *d = (struct linux_dirent64 *)rec;

	ASSERT(len <= FS_NAME_MAX && sink->used <= sink->size);
	if (reclen > sink->size - sink->used) {
		sink->full = true;
		return false;
	}
	d->ino = ino;
	d->off = cookie;
	d->reclen = reclen;
	if (sink->old)
		rec[reclen - 1] = type;
	else
		d->type = type;
	memcpy(rec + (sink->old ? OLD_AT : NAME_AT), name, len);
	if (copy_to_user((void __user *)(sink->buf + sink->used), rec, reclen)) {
		sink->err = -EFAULT;
		sink->full = true;
		return false;
	}
	sink->used += reclen;
	sink->pos = cookie;
	return true;
}

bool dir_emit(struct dir_sink *sink, const char *name, size_t len, uint64_t ino, uint8_t type,
	      uint64_t cookie)
{
	struct mount *mt;

	if (sink->full)
		return false;
	mt = sink->mnt ? mount_in_dir(sink->mnt, sink->dir, name, len) : NULL;
	if (mt) {
		mount_put(mt);
		sink->pos = cookie;
		return true;
	}
	return sink->put(sink, name, len, ino, type, cookie);
}

static void emit_mounts(struct dir_sink *sink, uint64_t pos)
{
	uint32_t id = (uint32_t)(pos - DIR_MOUNTS);
	struct mount *mt;
	bool more = !sink->full;

	ASSERT(pos >= DIR_MOUNTS);
	if (!sink->mnt || !mount_has_points(sink->dir))
		return;
	while (more && (mt = mount_next_in(sink->mnt, sink->dir, id))) {
		id = mt->id;
		more = put(sink, mt->name, strlen(mt->name), id, fs_dtype_of_mode(mt->root->mode),
			   DIR_MOUNTS + id);
		mount_put(mt);
	}
}

/* The result of getdents64(). */
static ssize_t result(const struct dir_sink *sink)
{
	if (sink->used)
		return (ssize_t)sink->used;
	return sink->err ? sink->err : sink->full ? -EINVAL : 0;
}

/* The number of the directory that ".." leads to. */
static uint64_t parent_ino(struct inode *dir, uint64_t own)
{
	struct inode *parent;
	struct file_attr attr;

	if (!dir->ops->parent || dir->ops->parent(dir, &parent))
		return own;
	if (inode_getattr(parent, &attr))
		attr.file.ino = own;
	inode_put(parent);
	return attr.file.ino;
}

static int emit_dots(struct inode *dir, uint64_t *pos, struct dir_sink *sink)
{
	struct file_attr attr;
	int err = inode_getattr(dir, &attr);

	if (!err && attr.nlink == 0)
		err = -ENOENT; /* removed */
	if (err)
		return err;
	if (*pos == 0 && put(sink, ".", 1, attr.file.ino, DT_DIR, 1))
		*pos = 1;
	if (*pos == 1 && put(sink, "..", 2, parent_ino(dir, attr.file.ino), DT_DIR, 2))
		*pos = 2;
	return 0;
}

static int emit_all(struct inode *dir, uint64_t pos, struct dir_sink *sink)
{
	int err = dir->ops->lists_dots ? 0 : emit_dots(dir, &pos, sink);

	if (!err && !sink->full && pos < DIR_MOUNTS) {
		err = dir->ops->readdir(dir, &pos, sink);
		if (!err && !sink->full)
			pos = sink->pos = DIR_MOUNTS;
	}
	if (!err && pos >= DIR_MOUNTS)
		emit_mounts(sink, pos);
	return err;
}

static ssize_t dir_getdents(struct file *f, uint64_t buf, uint32_t size, bool old)
{
	struct dir_sink sink = {
		.put = put,
		.mnt = f->mnt,
		.dir = f->inode,
		.buf = buf,
		.size = size,
		.old = old,
	};
	int err;

	ASSERT(inode_is_dir(f->inode));
	err = mutex_lock_killable(&f->lock);
	if (err)
		return err;
	sink.pos = f->pos;
	sink.behind = f->pos == f->dir_pos ? f->dir_behind : 0;
	err = emit_all(f->inode, f->pos, &sink);
	f->pos = f->dir_pos = sink.pos;
	f->dir_behind = sink.behind;
	mutex_unlock(&f->lock);
	return err ? err : result(&sink);
}

static int inode_stat(struct file *f, struct file_attr *attr)
{
	return inode_getattr(f->inode, attr);
}

static ssize_t dir_read(struct file *f, struct uio *uio, uint64_t *pos)
{
	return -EISDIR;
}

static int dir_fsync(struct file *f, bool datasync)
{
	struct inode *dir = f->inode;

	return dir->ops->sync_dir && !dir->type->read_only ? dir->ops->sync_dir(dir) : 0;
}

const struct file_ops dir_ops = {
	.name = "directory",
	.read = dir_read,
	.stat = inode_stat,
	.getdents = dir_getdents,
	.fsync = dir_fsync,
	.seekable = true,
};

/* O_PATH: a name and nothing more. */
const struct file_ops path_ops = {
	.name = "path",
	.stat = inode_stat,
};
