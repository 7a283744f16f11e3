/* SPDX-License-Identifier: MIT */
/*
 * ext4: names looked up in the three shapes of a directory: inline, plain, indexed.
 *
 * Context:	threads; may sleep for the disk.
 * Locking:	dir->lock, for reading at least.
 */
#include <kernel/rwsem.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/string.h>

#include "ext4_priv.h"

#define INLINE_PARENT_LEN 4u /* the parent's inode number stands before the entries */

static bool is_dots(const char *name, size_t len)
{
	return (len == 1 && name[0] == '.') || (len == 2 && name[0] == '.' && name[1] == '.');
}

static bool is_inline(const struct ext4_inode *dir)
{
	return dir->flags & EXT4_FL_INLINE_DATA;
}

const uint8_t *ext4_inline_entries(const struct ext4_inode *dir, unsigned int part, uint32_t *len)
{
	if (part == 0) {
		*len = EXT4_IBLOCK_LEN - INLINE_PARENT_LEN;
		return dir->iblock + INLINE_PARENT_LEN;
	}
	*len = dir->inline_more_len;
	return dir->inline_more;
}

static uint32_t inline_parent(const struct ext4_inode *dir)
{
	return get_unaligned_le32(dir->iblock);
}

static int inline_lookup(struct ext4_inode *dir, const char *name, size_t len, uint32_t *ino)
{
	const uint8_t *data;
	uint32_t part_len;
	int err = -ENOENT;

	if (is_dots(name, len)) {
		*ino = len == 1 ? dir->ino : inline_parent(dir);
		return 0;
	}
	for (unsigned int part = 0; part < 2 && err == -ENOENT; part++) {
		data = ext4_inline_entries(dir, part, &part_len);
		err = ext4_dirents_find(dir->fs, data, part_len, name, len, ino);
	}
	return err;
}

static int linear_lookup(struct ext4_inode *dir, const char *name, size_t len, uint32_t nr_blocks,
			 uint32_t *ino)
{
	struct bcache_buf *buf;
	uint32_t entries_len;
	int err = -ENOENT;

	for (uint32_t lblk = 0; lblk < nr_blocks && err == -ENOENT; lblk++) {
		buf = ext4_dir_block(dir, lblk, EXT4_CHECK_DIR, &entries_len);
		if (IS_ERR(buf))
			return (int)PTR_ERR(buf);
		err = ext4_dirents_find(dir->fs, buf->data, entries_len, name, len, ino);
		bcache_put(buf);
	}
	return err;
}

int ext4_dir_find(struct ext4_inode *dir, const char *name, size_t len, uint32_t *ino)
{
	int err;

	if (!ext4_is_dir(dir))
		return -ENOTDIR;
	if (len > FS_NAME_MAX)
		return -ENAMETOOLONG;
	if (!len)
		return -ENOENT;
	if (is_inline(dir))
		return inline_lookup(dir, name, len, ino);
	if (is_dots(name, len))
		return linear_lookup(dir, name, len, 1, ino);
	if (ext4_dir_is_indexed(dir)) {
		err = ext4_htree_lookup(dir, name, len, ino);
		if (err != -EAGAIN)
			return err;
	}
	return linear_lookup(dir, name, len, ext4_dir_nr_blocks(dir), ino);
}

struct ext4_inode *ext4_lookup_get(struct ext4_inode *dir, const char *name, size_t len)
{
	struct ext4_inode *in;
	uint32_t ino = 0;
	int err;

	/* Until the inode is held: a name that is there names an inode that is not free. */
	rwsem_read_lock(&dir->lock);
	err = dir->gone ? -ESTALE : ext4_dir_find(dir, name, len, &ino);
	in = err ? ERR_PTR(err) : ext4_inode_get(dir->fs, ino, FS_ANY_GEN);
	if (!err && IS_ERR(in) && PTR_ERR(in) == -ESTALE)
		in = ERR_PTR(ext4_corrupt(dir->fs, "directory %u names inode %u, which is free",
					  dir->ino, ino));
	rwsem_read_unlock(&dir->lock);
	return in;
}
