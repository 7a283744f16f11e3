/* SPDX-License-Identifier: MIT */
/*
 * ext4: names looked up in the three shapes of a directory: inline, plain, indexed.
 *
 * Context:	threads; may sleep for the disk.
 * Locking:	dir->lock, for reading at least.
 */
#include <kernel/panic.h>
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

static int inline_search(struct ext4_inode *dir, const char *name, size_t len, uint32_t *ino)
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

static int linear_search(struct ext4_inode *dir, const char *name, size_t len, uint32_t nr_blocks,
			 struct ext4_place *p)
{
	int err = -ENOENT;

	for (uint32_t lblk = 0; lblk < nr_blocks && err == -ENOENT; lblk++)
		err = ext4_block_search(dir, lblk, name, len, p);
	return err;
}

/* Is what was told of a place still right, and its block at hand?  Then it is in @p. */
static bool recall(struct ext4_inode *dir, const struct fs_place *known, struct ext4_place *p)
{
	if (!known || known->dir != dir || known->added != dir->names_added ||
	    known->moved != dir->names_moved)
		return false;
	p->buf = bcache_find(dir->fs->bc, known->block);
	/* A block that was read again is checked by a search. */
	if (p->buf && !ext4_checked(p->buf, dir->ino, EXT4_CHECK_DIR))
		ext4_place_put(p);
	if (!p->buf)
		return false;
	p->lblk = known->lblk;
	p->len = known->len;
	p->at = known->at;
	p->prev = known->prev;
	p->room = known->room;
	return true;
}

static void tell(const struct ext4_inode *dir, const struct ext4_place *p, struct fs_place *out)
{
	if (!p->buf)
		return;
	*out = (struct fs_place){ .dir = dir,
				  .added = dir->names_added,
				  .moved = dir->names_moved,
				  .block = p->buf->block,
				  .lblk = p->lblk,
				  .len = p->len,
				  .at = p->at,
				  .prev = p->prev,
				  .room = p->room };
}

static int search(struct ext4_inode *dir, const char *name, size_t len, struct ext4_place *p)
{
	int err;

	if (is_inline(dir))
		return inline_search(dir, name, len, &p->ino);
	if (is_dots(name, len))
		return linear_search(dir, name, len, 1, p);
	if (ext4_dir_is_indexed(dir)) {
		err = ext4_htree_search(dir, name, len, p);
		if (err != -EAGAIN)
			return err;
		p->need = 0;
	}
	return linear_search(dir, name, len, ext4_dir_nr_blocks(dir), p);
}

int ext4_dir_search(struct ext4_inode *dir, const char *name, size_t len,
		    const struct fs_place *known, bool add, struct ext4_place *p)
{
	*p = (struct ext4_place){ .added = dir->names_added, .moved = dir->names_moved };
	if (!ext4_is_dir(dir))
		return -ENOTDIR;
	if (len > FS_NAME_MAX)
		return -ENAMETOOLONG;
	if (!len)
		return -ENOENT;
	if (recall(dir, known, p)) {
		const struct ext4_dirent_disk *de = (const void *)(p->buf->data + p->at);

		if (p->at == p->len)
			return -ENOENT;
		ASSERT(de->name_len == len && !memcmp(de->name, name, len));
		p->ino = le32_to_cpu(de->ino);
		return 0;
	}
	if (add)
		p->need = ext4_entry_need(len);
	return search(dir, name, len, p);
}

int ext4_dir_find(struct ext4_inode *dir, const char *name, size_t len, uint32_t *ino)
{
	struct ext4_place p;
	const int err = ext4_dir_search(dir, name, len, NULL, false, &p);

	ext4_place_put(&p);
	if (!err)
		*ino = p.ino;
	return err;
}

struct ext4_inode *ext4_lookup_get(struct ext4_inode *dir, const char *name, size_t len,
				   const struct fs_place *known, struct fs_place *place)
{
	struct ext4_place p = { .buf = NULL };
	struct ext4_inode *in;
	int err;

	if (place)
		*place = (struct fs_place){ .dir = NULL };
	/* Until the inode is held: a name that is there names an inode that is not free. */
	rwsem_read_lock(&dir->lock);
	err = dir->gone ? -ESTALE : ext4_dir_search(dir, name, len, known, place != NULL, &p);
	if (place)
		tell(dir, &p, place);
	ext4_place_put(&p);
	in = err ? ERR_PTR(err) : ext4_inode_get(dir->fs, p.ino, FS_ANY_GEN);
	if (!err && IS_ERR(in) && PTR_ERR(in) == -ESTALE)
		in = ERR_PTR(ext4_corrupt(dir->fs, "directory %u names inode %u, which is free",
					  dir->ino, p.ino));
	rwsem_read_unlock(&dir->lock);
	return in;
}
