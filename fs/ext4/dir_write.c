/* SPDX-License-Identifier: MIT */
/*
 * ext4: names added to and removed from directories of all three shapes.
 *
 * Locking:	dir->lock for writing.  The caller writes the directory's inode afterwards.
 * Failure:	-ENOSPC leaves the names as they were.
 */
#include <kernel/panic.h>
#include <kernel/rwsem.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/string.h>

#include "ext4_write.h"
#include "htree_priv.h"

#define INLINE_PARENT_LEN 4u

/* One change of one entry. */
struct change {
	enum {
		ADD,
		REMOVE,
		SET
	} what;
	const char *name;
	size_t len;
	uint32_t ino;
	uint32_t mode;
};

/* Apply @c where @p says. */
static void apply_at(struct ext4_inode *dir, uint8_t *data, const struct change *c,
		     const struct ext4_place *p, uint32_t *sum)
{
	switch (c->what) {
	case ADD:
		ext4_entry_add(dir->fs, data, p, c->name, c->len, c->ino, c->mode, sum);
		dir->names_added++;
		break;
	case REMOVE:
		ext4_entry_remove(dir->fs, data, p, sum);
		dir->names_moved++;
		break;
	case SET:
		ext4_entry_set(dir->fs, data, p, c->ino, c->mode, sum);
		break;
	}
}

/* Apply @c to @len bytes of entries, where there is no such name yet if it is to be added. */
static int apply(struct ext4_inode *dir, uint8_t *data, uint32_t len, const struct change *c,
		 uint32_t *sum)
{
	struct ext4_place p = { .len = len, .need = c->what == ADD ? ext4_entry_need(c->len) : 0 };

	(void)ext4_entry_search(dir->fs, data, c->name, c->len, &p);
	if ((c->what == ADD ? p.room : p.at) == len)
		return c->what == ADD ? -ENOSPC : -ENOENT;
	apply_at(dir, data, c, &p, sum);
	return 0;
}

/* The error by which a run says that it is not the one. */
static int not_here(const struct change *c)
{
	return c->what == ADD ? -ENOSPC : -ENOENT;
}

static int apply_inline(struct ext4_inode *dir, const struct change *c)
{
	int err;

	if (c->what == SET && c->len == 2 && !memcmp(c->name, "..", 2)) {
		dir->block[0] = cpu_to_le32(c->ino);
		return 0;
	}
	err = apply(dir, dir->iblock + INLINE_PARENT_LEN, EXT4_IBLOCK_LEN - INLINE_PARENT_LEN, c,
		    NULL);
	if (err == not_here(c) && dir->inline_more)
		err = apply(dir, dir->inline_more, dir->inline_more_len, c, NULL);
	if (!err)
		ext4_inline_sync(dir);
	return err;
}

/* Apply @c to block @lblk. */
static int apply_block(struct ext4_op *op, struct ext4_inode *dir, uint32_t lblk,
		       const struct change *c)
{
	struct bcache_buf *buf;
	uint32_t len, sum = 0;
	bool root;
	int err;

	buf = ext4_dir_block(dir, lblk, EXT4_CHECK_DIR, &len);
	if (IS_ERR(buf))
		return (int)PTR_ERR(buf);
	if (c->what == ADD && ext4_htree_is_index(dir, lblk, buf->data)) {
		bcache_put(buf);
		return -ENOSPC;
	}
	root = ext4_dir_is_indexed(dir) && lblk == 0;
	err = ext4_write_access(op->h, buf);
	if (!err)
		err = apply(dir, buf->data, len, c, root ? NULL : &sum);
	if (!err && root)
		err = ext4_dx_dirty(op, dir, buf, true);
	else if (!err)
		err = ext4_leaf_changed(op, dir, buf, sum);
	bcache_put(buf);
	return err;
}

/*
 * Is @p known, and right still?  Block 0 of an index has a checksum of its own kind. On a damaged
 * disk two directories may share a block: a change by the other one leaves its mark on the buffer.
 */
static bool is_good(const struct ext4_inode *dir, const struct change *c,
		    const struct ext4_place *p)
{
	if (!p || !p->buf || p->moved != dir->names_moved || (!p->lblk && ext4_dir_is_indexed(dir)))
		return false;
	if (!ext4_checked(p->buf, dir->ino, EXT4_CHECK_DIR))
		return false;
	return c->what == ADD ? p->room < p->len && p->added == dir->names_added : p->at < p->len;
}

/* Apply @c where @p, which is good, says. */
static int apply_place(struct ext4_op *op, struct ext4_inode *dir, const struct change *c,
		       const struct ext4_place *p)
{
	uint32_t sum;
	int err;

	err = ext4_write_access(op->h, p->buf);
	if (err)
		return err;
	apply_at(dir, p->buf->data, c, p, &sum);
	return ext4_leaf_changed(op, dir, p->buf, sum);
}

static int apply_linear(struct ext4_op *op, struct ext4_inode *dir, const struct change *c)
{
	const uint32_t nr = ext4_dir_nr_blocks(dir);
	int err = not_here(c);

	for (uint32_t lblk = 0; lblk < nr && err == not_here(c); lblk++)
		err = apply_block(op, dir, lblk, c);
	return err;
}

struct bcache_buf *ext4_dir_append(struct ext4_op *op, struct ext4_inode *dir, uint32_t *lblk)
{
	struct bcache_buf *buf;
	struct ext4_map map;
	bool fresh;
	int err;

	*lblk = ext4_dir_nr_blocks(dir);
	err = ext4_map_alloc(op, dir, *lblk, 1, false, &map, &fresh);
	if (err)
		return ERR_PTR(err);
	if (!fresh)
		return ERR_PTR(
			ext4_corrupt(dir->fs, "directory %u: a block behind its end", dir->ino));
	buf = ext4_new_block(op->h, map.block);
	if (IS_ERR(buf)) {
		ext4_op_abort(op, (int)PTR_ERR(buf), "a new block of a directory");
		return buf;
	}
	memset(buf->data, 0, dir->fs->block_size);
	WRITE_ONCE(buf->checked_as, 0);
	dir->size += dir->fs->block_size;
	return buf;
}

static int append_entry(struct ext4_op *op, struct ext4_inode *dir, const struct change *c)
{
	struct bcache_buf *buf;
	uint32_t lblk, len = dir->fs->block_size;
	int err;

	if (dir->fs->has_csum)
		len -= sizeof(struct ext4_dirent_tail);
	buf = ext4_dir_append(op, dir, &lblk);
	if (IS_ERR(buf))
		return (int)PTR_ERR(buf);
	ext4_leaf_init(dir, buf->data);
	err = apply(dir, buf->data, len, c, NULL);
	if (!err)
		err = ext4_leaf_dirty(op, dir, buf);
	bcache_put(buf);
	return err;
}

int ext4_dir_add(struct ext4_op *op, struct ext4_inode *dir, const char *name, size_t len,
		 uint32_t ino, uint32_t mode, const struct ext4_place *p)
{
	const struct change c = { .what = ADD, .name = name, .len = len, .ino = ino, .mode = mode };
	int err;

	assert_rwsem_held_write(&dir->lock);
	if (is_good(dir, &c, p)) {
		if (!ext4_dir_is_indexed(dir))
			dir->flags &= ~(uint32_t)EXT4_FL_INDEX; /* see below */
		return apply_place(op, dir, &c, p);
	}
	if (dir->flags & EXT4_FL_INLINE_DATA) {
		err = apply_inline(dir, &c);
		if (err != -ENOSPC)
			return err;
		err = ext4_inline_to_blocks(op, dir);
		if (err)
			return err;
	}
	if (ext4_dir_is_indexed(dir))
		return ext4_htree_add(op, dir, name, len, ino, mode);
	/* A directory that others wrote to while it had an index may have an old one. */
	dir->flags &= ~(uint32_t)EXT4_FL_INDEX;
	err = apply_linear(op, dir, &c);
	if (err != -ENOSPC)
		return err;
	if (ext4_dir_nr_blocks(dir) == 1 && ext4_htree_possible(dir->fs)) {
		err = ext4_htree_make(op, dir);
		return err ? err : ext4_htree_add(op, dir, name, len, ino, mode);
	}
	return append_entry(op, dir, &c);
}

/* REMOVE or SET. */
static int change_entry(struct ext4_op *op, struct ext4_inode *dir, const struct change *c,
			const struct ext4_place *known)
{
	struct ext4_place p;
	int err;

	assert_rwsem_held_write(&dir->lock);
	if (is_good(dir, c, known))
		return apply_place(op, dir, c, known);
	if (dir->flags & EXT4_FL_INLINE_DATA)
		return apply_inline(dir, c);
	if (c->len == 2 && !memcmp(c->name, "..", 2))
		return apply_block(op, dir, 0, c);
	err = ext4_dir_search(dir, c->name, c->len, NULL, false, &p);
	if (!err)
		err = is_good(dir, c, &p) ? apply_place(op, dir, c, &p)
					  : apply_block(op, dir, p.lblk, c);
	ext4_place_put(&p);
	return err;
}

int ext4_dir_remove(struct ext4_op *op, struct ext4_inode *dir, const char *name, size_t len,
		    const struct ext4_place *p)
{
	const struct change c = { .what = REMOVE, .name = name, .len = len };

	return change_entry(op, dir, &c, p);
}

int ext4_dir_set(struct ext4_op *op, struct ext4_inode *dir, const char *name, size_t len,
		 uint32_t ino, uint32_t mode, const struct ext4_place *p)
{
	const struct change c = { .what = SET, .name = name, .len = len, .ino = ino, .mode = mode };

	return change_entry(op, dir, &c, p);
}

int ext4_dir_make(struct ext4_op *op, struct ext4_inode *dir, uint32_t parent)
{
	struct ext4_fs *fs = dir->fs;
	struct bcache_buf *buf;
	struct ext4_dirent_disk *dot, *dotdot;
	uint32_t lblk, len;
	int err;

	ASSERT(!dir->size);
	buf = ext4_dir_append(op, dir, &lblk);
	if (IS_ERR(buf))
		return (int)PTR_ERR(buf);
	ext4_leaf_init(dir, buf->data);
	dot = (void *)buf->data;
	dotdot = (void *)(buf->data + 12);
	len = ext4_rec_len(dot->rec_len, fs->block_size);
	*dot = (struct ext4_dirent_disk){
		.ino = cpu_to_le32(dir->ino),
		.rec_len = cpu_to_le16(12),
		.name_len = 1,
		.file_type = ext4_file_type(fs, S_IFDIR),
	};
	dot->name[0] = '.';
	*dotdot = (struct ext4_dirent_disk){
		.ino = cpu_to_le32(parent),
		.rec_len = ext4_rec_len_disk(len - 12, fs->block_size),
		.name_len = 2,
		.file_type = ext4_file_type(fs, S_IFDIR),
	};
	memcpy(dotdot->name, "..", 2);
	err = ext4_leaf_dirty(op, dir, buf);
	bcache_put(buf);
	return err;
}

/* Has this run of entries another name than "." and ".."? */
static bool run_is_empty(const struct ext4_fs *fs, const uint8_t *data, uint32_t len)
{
	uint32_t at = 0;

	while (at < len) {
		const struct ext4_dirent_disk *de = (const void *)(data + at);

		if (de->ino && !(de->name_len == 1 && de->name[0] == '.') &&
		    !(de->name_len == 2 && !memcmp(de->name, "..", 2)))
			return false;
		at += ext4_rec_len(de->rec_len, fs->block_size);
	}
	return true;
}

int ext4_dir_is_empty(struct ext4_inode *dir)
{
	const uint32_t nr = ext4_dir_nr_blocks(dir);
	struct bcache_buf *buf;
	bool empty = true;
	uint32_t len;

	if (dir->flags & EXT4_FL_INLINE_DATA)
		return run_is_empty(dir->fs, dir->iblock + INLINE_PARENT_LEN,
				    EXT4_IBLOCK_LEN - INLINE_PARENT_LEN) &&
		       run_is_empty(dir->fs, dir->inline_more, dir->inline_more_len);
	for (uint32_t lblk = 0; lblk < nr && empty; lblk++) {
		buf = ext4_dir_block(dir, lblk, EXT4_CHECK_DIR, &len);
		if (IS_ERR(buf))
			return (int)PTR_ERR(buf);
		empty = run_is_empty(dir->fs, buf->data, len);
		bcache_put(buf);
	}
	return empty;
}
