/* SPDX-License-Identifier: MIT */
/*
 * ext4: names that come and go: create, link, unlink, rmdir.
 *
 * Flow:	lock directory and file, begin a handle, change the entry, the inodes, end.
 * Failure:	what was allocated before an error is freed again in the same transaction.
 */
#include <kernel/panic.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/list.h>
#include <lib/string.h>

#include "ext4_write.h"

#define MAX_LINKS 65000u

static bool is_dots(const char *name, size_t len)
{
	return (len == 1 && name[0] == '.') || (len == 2 && name[0] == '.' && name[1] == '.');
}

int ext4_name_check(const char *name, size_t len)
{
	if (len > FS_NAME_MAX)
		return -ENAMETOOLONG;
	if (!len)
		return -ENOENT;
	return memchr(name, '/', len) || memchr(name, '\0', len) ? -EINVAL : 0;
}

int ext4_dir_check(const struct ext4_inode *dir)
{
	if (dir->gone)
		return -ESTALE;
	if (!ext4_is_dir(dir))
		return -ENOTDIR;
	return dir->nlink ? 0 : -ENOENT;
}

int ext4_link_room(const struct ext4_inode *in)
{
	if (ext4_is_dir(in) && (in->fs->ro_compat & EXT4_RO_COMPAT_DIR_NLINK))
		return 0;
	return in->nlink >= MAX_LINKS ? -EMLINK : 0;
}

/* A directory with more links than can be counted has 1, and keeps it. */
void ext4_dir_link(struct ext4_inode *dir)
{
	if (dir->nlink == 1)
		return;
	dir->nlink++;
	if (dir->nlink >= MAX_LINKS && (dir->fs->ro_compat & EXT4_RO_COMPAT_DIR_NLINK))
		dir->nlink = 1;
}

void ext4_dir_unlink(struct ext4_inode *dir)
{
	if (dir->nlink > 2)
		dir->nlink--;
}

static void encode_rdev(struct ext4_inode *in, const struct fs_new *what)
{
	const uint32_t major = what->rdev_major, minor = what->rdev_minor;

	if (major < 256 && minor < 256)
		in->block[0] = cpu_to_le32(major << 8 | minor);
	else
		in->block[1] = cpu_to_le32((minor & 0xff) | (major & 0xfff) << 8 |
					   (minor & 0xfff00) << 12);
}

/* A long target stands in a block of its own. */
static int slow_link(struct ext4_op *op, struct ext4_inode *in, const struct fs_new *what)
{
	struct bcache_buf *buf;
	struct ext4_map map;
	bool fresh;
	int err;

	if (in->fs->incompat & EXT4_INCOMPAT_EXTENTS)
		ext4_extent_init_root(in);
	err = ext4_map_alloc(op, in, 0, 1, false, &map, &fresh);
	if (err)
		return err;
	buf = ext4_new_block(op->h, map.block);
	if (IS_ERR(buf))
		return (int)PTR_ERR(buf);
	memset(buf->data, 0, in->fs->block_size);
	WRITE_ONCE(buf->checked_as, 0);
	memcpy(buf->data, what->target, what->target_len);
	err = ext4_dirty(op->h, buf);
	bcache_put(buf);
	return err;
}

static int init_contents(struct ext4_op *op, struct ext4_inode *in, struct ext4_inode *dir,
			 const struct fs_new *what)
{
	switch (in->mode & S_IFMT) {
	case S_IFDIR:
		in->nlink = 2;
		return ext4_dir_make(op, in, dir->ino);
	case S_IFLNK:
		in->size = what->target_len;
		if (what->target_len >= EXT4_IBLOCK_LEN)
			return slow_link(op, in, what);
		memcpy(in->iblock, what->target, what->target_len);
		return 0;
	case S_IFCHR:
	case S_IFBLK:
		encode_rdev(in, what);
		return 0;
	}
	return 0;
}

static int check_new(const struct ext4_fs *fs, const struct fs_new *what)
{
	switch (what->mode & S_IFMT) {
	case S_IFREG:
	case S_IFDIR:
	case S_IFIFO:
	case S_IFSOCK:
		return 0;
	case S_IFCHR:
	case S_IFBLK:
		return what->rdev_major > 0xfff || what->rdev_minor > 0xfffff ? -EINVAL : 0;
	case S_IFLNK:
		if (!what->target_len)
			return -ENOENT;
		if (what->target_len >= MIN(fs->block_size, FS_PATH_MAX))
			return -ENAMETOOLONG;
		return memchr(what->target, '\0', what->target_len) ? -EINVAL : 0;
	}
	return -EINVAL;
}

/* Take back a new inode that got no name. */
static int undo_new(struct ext4_op *op, struct ext4_inode *in, int why)
{
	int err = 0;

	if (ext4_aborted(op->fs))
		goto out;
	if (((in->mode & S_IFMT) == S_IFREG || ext4_is_dir(in) ||
	     ((in->mode & S_IFMT) == S_IFLNK && in->size >= EXT4_IBLOCK_LEN)) &&
	    in->blocks)
		err = ext4_map_remove(op, in, 0, (uint64_t)UINT32_MAX + 1);
	if (!err)
		err = ext4_xattr_drop_block(op, in);
	if (!err)
		err = ext4_ifree(op, in);
	if (err)
		ext4_op_abort(op, err, "taking back a new inode");
out:
	ext4_inode_forget(in);
	return why;
}

/* The inode, without a name yet.  It is in the cache on success only. */
static int make_inode(struct ext4_op *op, struct ext4_inode *dir, const struct fs_new *what,
		      struct ext4_inode *in)
{
	const struct fs_lent want = { .ino = what->ino, .gen = what->gen };
	int err;

	err = ext4_ialloc(op, dir, what->mode, want.ino ? &want : NULL, in);
	if (err)
		return err;
	in->nlink = 1;
	err = init_contents(op, in, dir, what);
	for (unsigned int i = 0; i < what->nr_xattrs && !err; i++)
		err = ext4_xattr_set_op(op, in, &what->xattrs[i], 0);
	/* Inherited ACLs have changed the mode before; what was asked for counts. */
	in->mode = what->mode;
	return err ? undo_new(op, in, err) : 0;
}

/* @dir must be a directory that has no such name; *@p: where that would be. */
static int find_no_name(const struct ext4_op *op, struct ext4_inode *dir, const char *name,
			size_t len, struct ext4_place *p)
{
	int err = ext4_dir_check(dir);

	if (err)
		return err;
	err = ext4_dir_search(dir, name, len, op->ch ? op->ch->place : NULL, true, p);
	if (err == -ENOENT)
		return 0;
	return err ? err : -EEXIST;
}

static int create(struct ext4_op *op, struct ext4_inode *dir, const char *name, size_t len,
		  const struct fs_new *what, struct ext4_inode *in)
{
	const bool is_dir = (what->mode & S_IFMT) == S_IFDIR;
	struct ext4_place p = { .buf = NULL };
	int err;

	err = find_no_name(op, dir, name, len, &p);
	if (!err && is_dir)
		err = ext4_link_room(dir);
	if (!err)
		err = make_inode(op, dir, what, in);
	if (err) {
		ext4_place_put(&p);
		return err;
	}
	err = ext4_dir_add(op, dir, name, len, in->ino, in->mode, &p);
	ext4_place_put(&p);
	if (err)
		return undo_new(op, in, err);
	if (is_dir)
		ext4_dir_link(dir);
	ext4_inode_touch(op, dir, true);
	err = ext4_inode_write(op, in);
	if (!err)
		err = ext4_inode_write(op, dir);
	return err ? undo_new(op, in, ext4_op_abort(op, err, "creating a file")) : 0;
}

/* Once more after a commit, if that may free blocks. */
static bool try_again(struct ext4_fs *fs, int err, unsigned int *tries)
{
	return err == -ENOSPC && !(*tries)++ && ext4_room_after_sync(fs);
}

static int create_once(struct ext4_inode *dir, const char *name, size_t len,
		       const struct fs_new *what, const struct fs_change *ch,
		       struct ext4_inode **out)
{
	struct ext4_inode *in = ext4_inode_new(dir->fs);
	struct ext4_inode *const locks[] = { dir, in };
	struct ext4_op op;
	int err;

	if (!in)
		return -ENOMEM;
	err = ext4_op_begin(&op, dir->fs, EXT4_CREDITS_NAMES, ch, locks, 2);
	if (!err) {
		err = create(&op, dir, name, len, what, in);
		err = ext4_op_end(&op, in, err);
	}
	if (err) {
		in->gone = true;
		ext4_inode_put(in);
		return err;
	}
	*out = in;
	return 0;
}

struct ext4_inode *ext4_create(struct ext4_inode *dir, const char *name, size_t len,
			       const struct fs_new *what, const struct fs_change *ch)
{
	struct ext4_inode *in = NULL;
	unsigned int tries = 0;
	int err;

	err = ext4_name_check(name, len);
	if (!err && is_dots(name, len))
		err = -EEXIST;
	if (!err)
		err = check_new(dir->fs, what);
	if (err)
		return ERR_PTR(err);
	do {
		err = create_once(dir, name, len, what, ch, &in);
	} while (try_again(dir->fs, err, &tries));
	return err ? ERR_PTR(err) : in;
}

static int become_orphan(struct ext4_op *op, struct ext4_inode *in)
{
	int err;

	/* A truncation that failed may have left it on the disk's list. */
	err = in->orphan ? 0 : ext4_orphan_add(op->h, in->ino);
	if (err)
		return err;
	in->orphan = true;
	if (list_empty(&in->orphan_link)) {
		ext4_inode_hold(in);
		list_add_tail(&in->orphan_link, &op->fs->nameless);
	}
	return 0;
}

static int tmpfile(struct ext4_op *op, struct ext4_inode *dir, const struct fs_new *what,
		   struct ext4_inode *in)
{
	int err;

	err = ext4_dir_check(dir);
	if (!err)
		err = make_inode(op, dir, what, in);
	if (err)
		return err;
	in->nlink = 0;
	err = become_orphan(op, in);
	if (!err)
		err = ext4_inode_write(op, in);
	return err ? ext4_op_abort(op, err, "creating a file without a name") : 0;
}

struct ext4_inode *ext4_tmpfile(struct ext4_inode *dir, const struct fs_new *what,
				const struct fs_change *ch)
{
	struct ext4_inode *in;
	struct ext4_op op;
	int err;

	if ((what->mode & S_IFMT) != S_IFREG)
		return ERR_PTR(-EINVAL);
	in = ext4_inode_new(dir->fs);
	if (!in)
		return ERR_PTR(-ENOMEM);
	in->unnamed = true;
	err = ext4_op_begin(&op, dir->fs, EXT4_CREDITS_NAMES, ch,
			    (struct ext4_inode *const[]){ dir, in }, 2);
	if (!err) {
		err = tmpfile(&op, dir, what, in);
		err = ext4_op_end(&op, in, err);
	}
	if (!err)
		return in;
	in->gone = true;
	ext4_inode_put(in);
	return ERR_PTR(err);
}

static int link_it(struct ext4_op *op, struct ext4_inode *in, struct ext4_inode *dir,
		   const char *name, size_t len)
{
	struct ext4_place p = { .buf = NULL };
	int err;

	err = in->gone ? -ESTALE : ext4_link_room(in);
	if (!err && !in->nlink && !in->unnamed)
		err = -ENOENT;
	if (!err)
		err = find_no_name(op, dir, name, len, &p);
	if (!err)
		err = ext4_dir_add(op, dir, name, len, in->ino, in->mode, &p);
	ext4_place_put(&p);
	if (err)
		return err;
	if (!in->nlink) {
		err = ext4_orphan_del(op->h, in->ino);
		if (err)
			return ext4_op_abort(op, err, "naming a file");
		in->orphan = false;
		in->unnamed = false;
		list_del(&in->orphan_link);
	}
	in->nlink++;
	ext4_inode_touch(op, in, false);
	ext4_inode_touch(op, dir, true);
	err = ext4_inode_write(op, in);
	if (!err)
		err = ext4_inode_write(op, dir);
	return err ? ext4_op_abort(op, err, "naming a file") : 0;
}

int ext4_link(struct ext4_inode *in, struct ext4_inode *dir, const char *name, size_t len,
	      const struct fs_change *ch)
{
	struct ext4_op op;
	unsigned int tries = 0;
	bool was_orphan;
	int err;

	err = ext4_name_check(name, len);
	if (!err && is_dots(name, len))
		err = -EEXIST;
	if (!err && ext4_is_dir(in))
		err = -EPERM;
	if (err)
		return err;
	do {
		err = ext4_op_begin(&op, dir->fs, EXT4_CREDITS_NAMES, ch,
				    (struct ext4_inode *const[]){ dir, in }, 2);
		if (err)
			return err;
		was_orphan = in->orphan;
		err = link_it(&op, in, dir, name, len);
		was_orphan &= !in->orphan;
		err = ext4_op_end(&op, in, err);
		if (was_orphan)
			ext4_inode_put(in); /* what the list of orphans held */
	} while (try_again(dir->fs, err, &tries));
	return err;
}

int ext4_drop_link(struct ext4_op *op, struct ext4_inode *dir, struct ext4_inode *in)
{
	int err = 0;

	if (ext4_is_dir(in)) {
		in->nlink = 0;
		ext4_dir_unlink(dir);
	} else if (in->nlink) {
		in->nlink--;
	}
	ext4_inode_touch(op, in, false);
	if (!in->nlink && ext4_goes_at_once(in))
		return ext4_evict_at_once(op, in);
	if (!in->nlink)
		err = become_orphan(op, in);
	return err ? err : ext4_inode_write(op, in);
}

static int unlink_it(struct ext4_op *op, struct ext4_inode *dir, const char *name, size_t len,
		     struct ext4_inode *in, bool is_rmdir)
{
	struct ext4_place p = { .buf = NULL };
	int err;

	err = ext4_dir_check(dir);
	if (!err)
		err = ext4_dir_search(dir, name, len, op->ch ? op->ch->place : NULL, false, &p);
	if (!err && p.ino != in->ino)
		err = -EAGAIN; /* another file has the name by now */
	if (!err && in->gone)
		err = -ESTALE;
	if (!err && is_rmdir && !ext4_is_dir(in))
		err = -ENOTDIR;
	if (!err && !is_rmdir && ext4_is_dir(in))
		err = -EISDIR;
	if (!err && is_rmdir) {
		err = ext4_dir_is_empty(in);
		if (err >= 0)
			err = err ? 0 : -ENOTEMPTY;
	}
	if (!err)
		err = ext4_dir_remove(op, dir, name, len, &p);
	ext4_place_put(&p);
	if (err)
		return err;
	err = ext4_drop_link(op, dir, in);
	ext4_inode_touch(op, dir, true);
	if (!err)
		err = ext4_inode_write(op, dir);
	return err ? ext4_op_abort(op, err, "removing a name") : 0;
}

int ext4_unlink(struct ext4_inode *dir, const char *name, size_t len, bool is_rmdir,
		const struct fs_change *ch)
{
	struct ext4_inode *in;
	struct ext4_op op;
	bool unused;
	int err;

	err = ext4_name_check(name, len);
	if (err)
		return err;
	if (is_dots(name, len))
		return !is_rmdir ? -EISDIR : len == 1 ? -EINVAL : -ENOTEMPTY;
	do {
		in = ext4_lookup_get(dir, name, len, ch ? ch->place : NULL, NULL);
		if (IS_ERR(in))
			return (int)PTR_ERR(in);
		unused = false;
		err = ext4_op_begin(&op, dir->fs, EXT4_CREDITS_NAMES, ch,
				    (struct ext4_inode *const[]){ dir, in }, 2);
		if (!err) {
			err = unlink_it(&op, dir, name, len, in, is_rmdir);
			unused = !err && in->orphan && !in->open;
			err = ext4_op_end(&op, in, err);
		}
		if (unused)
			ext4_evict_unused(in);
		ext4_inode_put(in);
	} while (err == -EAGAIN);
	return err;
}
