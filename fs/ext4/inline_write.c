/* SPDX-License-Identifier: MIT */
/*
 * ext4: contents in the inode that are changed, or move into blocks.
 *
 * Locking:	in->lock for writing.
 */
#include <drivers/blkdev.h>
#include <kernel/panic.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <mm/slab.h>

#include "ext4_write.h"
#include "xattr_priv.h"

#define INLINE_PARENT_LEN 4u

void ext4_inline_sync(struct ext4_inode *in)
{
	ASSERT(in->inline_at + in->inline_more_len <= in->fs->inode_size);
	if (in->inline_more_len)
		memcpy(in->raw + in->inline_at, in->inline_more, in->inline_more_len);
}

/* From now on the inode's 60 bytes are an empty map. */
static void forget_inline(struct ext4_inode *in)
{
	kfree(in->inline_more);
	in->inline_more = NULL;
	in->inline_more_len = 0;
	in->flags &= ~(uint32_t)EXT4_FL_INLINE_DATA;
	memset(in->iblock, 0, sizeof(in->iblock));
	if (in->fs->incompat & EXT4_INCOMPAT_EXTENTS)
		ext4_extent_init_root(in);
}

/* The names of an inline directory, in the order in which they stand there. */
static int refill_dir(struct ext4_op *op, struct ext4_inode *dir, uint8_t *data, uint32_t len)
{
	uint32_t at = 0;
	int err = 0;

	while (at < len && !err) {
		const struct ext4_dirent_disk *de = (const void *)(data + at);
		static const uint32_t modes[] = { 0,       S_IFREG, S_IFDIR,  S_IFCHR,
						  S_IFBLK, S_IFIFO, S_IFSOCK, S_IFLNK };
		const uint32_t mode = de->file_type < ARRAY_SIZE(modes) ? modes[de->file_type] : 0;

		if (de->ino)
			err = ext4_dir_add(op, dir, de->name, de->name_len, le32_to_cpu(de->ino),
					   mode, NULL);
		at += ext4_rec_len(de->rec_len, dir->fs->block_size);
	}
	return err;
}

static int dir_to_blocks(struct ext4_op *op, struct ext4_inode *dir, uint8_t *copy, uint32_t len)
{
	const uint32_t parent = get_unaligned_le32(copy);
	int err;

	dir->size = 0;
	err = ext4_dir_make(op, dir, parent);
	if (!err)
		err = refill_dir(op, dir, copy + INLINE_PARENT_LEN,
				 EXT4_IBLOCK_LEN - INLINE_PARENT_LEN);
	if (!err && len > EXT4_IBLOCK_LEN)
		err = refill_dir(op, dir, copy + EXT4_IBLOCK_LEN, len - EXT4_IBLOCK_LEN);
	return err;
}

/* Contents are data: they are on the device before the transaction that points to them ends. */
static int file_to_blocks(struct ext4_op *op, struct ext4_inode *in, const uint8_t *copy,
			  uint32_t len)
{
	const uint32_t bs = in->fs->block_size;
	const uint32_t used = (uint32_t)MIN(in->size, (uint64_t)len);
	struct ext4_map map;
	uint8_t *block;
	bool fresh;
	int err;

	if (!used)
		return 0;
	ASSERT(used <= bs);
	block = ext4_alloc(op->fs, bs);
	if (!block)
		return -ENOMEM;
	memcpy(block, copy, used);
	err = ext4_map_alloc(op, in, 0, 1, false, &map, &fresh);
	if (!err)
		err = blk_write(in->fs->bd, map.block << (in->fs->block_bits - BLK_SECTOR_SHIFT),
				block, bs, 0);
	kfree(block);
	return err;
}

int ext4_inline_to_blocks(struct ext4_op *op, struct ext4_inode *in)
{
	const uint32_t len = ext4_inline_capacity(in);
	const uint64_t size = in->size;
	uint8_t *copy;
	int err;

	ASSERT(in->flags & EXT4_FL_INLINE_DATA);
	/* At most three blocks: ask before anything is taken apart. */
	if (ext4_avail(op, in) < 4)
		return -ENOSPC;
	copy = ext4_alloc(op->fs, len);
	if (!copy)
		return -ENOMEM;
	ext4_inline_copy(in, 0, copy, len);
	err = ext4_ibody_remove_data(in);
	if (!err) {
		forget_inline(in);
		if (ext4_is_dir(in))
			err = dir_to_blocks(op, in, copy, len);
		else
			err = file_to_blocks(op, in, copy, len);
		if (!ext4_is_dir(in))
			in->size = size;
		if (err)
			err = ext4_op_abort(op, err, "moving contents out of an inode");
	}
	kfree(copy);
	return err;
}
