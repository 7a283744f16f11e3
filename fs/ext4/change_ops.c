/* SPDX-License-Identifier: MIT */
/* ext4's changing operations as a struct fs_write_ops. */
#include <fs/fs.h>
#include <kernel/mutex.h>
#include <kernel/rwsem.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/string.h>

#include "ext4_write.h"

static struct ext4_fs *ext4_of(struct fs *fs)
{
	return container_of(fs, struct ext4_fs, base);
}

static struct ext4_inode *inode_of(struct fs_inode *in)
{
	return container_of(in, struct ext4_inode, base);
}

static struct fs_inode *base_of(struct ext4_inode *in)
{
	return IS_ERR(in) ? ERR_CAST(in) : &in->base;
}

static struct fs_inode *op_create(struct fs_inode *dir, const char *name, size_t len,
				  const struct fs_new *what, const struct fs_change *ch)
{
	return base_of(ext4_create(inode_of(dir), name, len, what, ch));
}

static struct fs_inode *op_tmpfile(struct fs_inode *dir, const struct fs_new *what,
				   const struct fs_change *ch)
{
	return base_of(ext4_tmpfile(inode_of(dir), what, ch));
}

static int op_link(struct fs_inode *in, struct fs_inode *dir, const char *name, size_t len,
		   const struct fs_change *ch)
{
	return ext4_link(inode_of(in), inode_of(dir), name, len, ch);
}

static int op_unlink(struct fs_inode *dir, const char *name, size_t len, const struct fs_change *ch)
{
	return ext4_unlink(inode_of(dir), name, len, false, ch);
}

static int op_rmdir(struct fs_inode *dir, const char *name, size_t len, const struct fs_change *ch)
{
	return ext4_unlink(inode_of(dir), name, len, true, ch);
}

static int op_rename(struct fs_inode *from, const char *name, size_t len, struct fs_inode *to,
		     const char *to_name, size_t to_len, uint32_t flags, const struct fs_change *ch)
{
	return ext4_rename(inode_of(from), name, len, inode_of(to), to_name, to_len, flags, ch);
}

static int op_setattr(struct fs_inode *in, const struct fs_attr *attr, const struct fs_change *ch)
{
	return ext4_setattr(inode_of(in), attr, ch);
}

static int op_xattr_set(struct fs_inode *in, const struct fs_xattr *x, uint32_t flags,
			const struct fs_change *ch)
{
	return ext4_xattr_set(inode_of(in), x, flags, ch);
}

static int op_write_pages(struct fs_inode *in, uint64_t off, uint64_t len, void *const *pages,
			  uint64_t new_size, const struct fs_change *ch)
{
	return ext4_write_pages(inode_of(in), off, len, pages, new_size, ch);
}

static int op_promise(struct fs_inode *in, struct fs_promise *p, const struct fs_change *ch)
{
	return ext4_promise(inode_of(in), p, ch);
}

static uint32_t op_rooms(struct fs *fs, uint32_t nr)
{
	return ext4_rooms(ext4_of(fs), nr);
}

static int op_lend(struct fs_inode *dir, uint32_t nr, struct fs_lent *out)
{
	return ext4_lend(inode_of(dir), nr, out);
}

static void op_unlend_all(struct fs *fs)
{
	struct ext4_fs *ext4 = ext4_of(fs);

	mutex_lock(&ext4->change);
	ext4_unlend_all(ext4);
	mutex_unlock(&ext4->change);
}

static int op_fallocate(struct fs_inode *in, uint32_t mode, uint64_t off, uint64_t len,
			const struct fs_change *ch)
{
	return ext4_fallocate(inode_of(in), mode, off, len, ch);
}

static int op_fsync(struct fs_inode *base, bool datasync)
{
	struct ext4_inode *in = inode_of(base);
	ext4_tid_t tid;

	rwsem_read_lock(&in->lock);
	tid = datasync ? in->data_tid : in->dirty_tid;
	rwsem_read_unlock(&in->lock);
	return ext4_commit_wait(in->fs, tid, true);
}

static int op_sync(struct fs *fs)
{
	ext4_evict_again(ext4_of(fs));
	return ext4_sync(ext4_of(fs));
}

static int op_change_find(struct fs *fs, uint64_t client, uint64_t seq, struct fs_done *done)
{
	uint8_t answer[EXT4_CHANGE_ANSWER_MAX];
	struct ext4_done_disk d;
	const int len = ext4_find_change(ext4_of(fs), client, seq, answer);

	if (len < 0)
		return len;
	if (len != sizeof(d))
		return -ENOENT; /* of another program */
	memcpy(&d, answer, sizeof(d));
	*done = (struct fs_done){ .ino = le64_to_cpu(d.ino),
				  .gen = le32_to_cpu(d.gen),
				  .version = le64_to_cpu(d.version) };
	return 0;
}

static void op_open_ref(struct fs_inode *in)
{
	ext4_open_ref(inode_of(in));
}

static void op_close_ref(struct fs_inode *in)
{
	ext4_close_ref(inode_of(in));
}

static void op_orphans_release(struct fs *fs)
{
	ext4_orphans_release(ext4_of(fs));
}

const struct fs_write_ops ext4_write_ops = {
	.create = op_create,
	.tmpfile = op_tmpfile,
	.link = op_link,
	.unlink = op_unlink,
	.rmdir = op_rmdir,
	.rename = op_rename,
	.setattr = op_setattr,
	.xattr_set = op_xattr_set,
	.write_pages = op_write_pages,
	.promise = op_promise,
	.rooms = op_rooms,
	.lend = op_lend,
	.unlend_all = op_unlend_all,
	.fallocate = op_fallocate,
	.fsync = op_fsync,
	.sync = op_sync,
	.change_find = op_change_find,
	.open_ref = op_open_ref,
	.close_ref = op_close_ref,
	.orphans_release = op_orphans_release,
};
