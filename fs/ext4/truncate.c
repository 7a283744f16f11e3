/* SPDX-License-Identifier: MIT */
/*
 * ext4: files that get shorter, and inodes that go.
 *
 * A large removal takes several transactions.  Before the first ends the inode is on the list of
 * orphans with its new size, so that a crash in between is finished at the next mount.
 *
 * Locking:	in->lock for writing.
 */
#include <drivers/blkdev.h>
#include <kernel/panic.h>
#include <kernel/rwsem.h>
#include <lib/errno.h>
#include <lib/list.h>
#include <lib/string.h>
#include <mm/slab.h>

#include "ext4_write.h"
#include "extent_priv.h"

int ext4_zero_part(struct ext4_op *op, struct ext4_inode *in, uint64_t from, uint64_t to)
{
	struct ext4_fs *fs = op->fs;
	const uint32_t at = (uint32_t)(from & (fs->block_size - 1));
	struct ext4_map map;
	uint64_t sector;
	uint8_t *block;
	int err;

	if (from >= to)
		return 0;
	ASSERT(from >> fs->block_bits == (to - 1) >> fs->block_bits);
	err = ext4_map_blocks(in, (uint32_t)(from >> fs->block_bits), 1, &map);
	if (err || map.type != EXT4_MAP_DATA)
		return err;
	block = ext4_alloc(fs, fs->block_size);
	if (!block)
		return -ENOMEM;
	sector = map.block << (fs->block_bits - BLK_SECTOR_SHIFT);
	err = blk_read(fs->bd, sector, block, fs->block_size);
	if (!err) {
		memset(block + at, 0, (size_t)(to - from));
		err = blk_write(fs->bd, sector, block, fs->block_size, 0);
	}
	kfree(block);
	return err;
}

static int truncate_inline(struct ext4_op *op, struct ext4_inode *in, uint64_t size)
{
	const uint32_t room = ext4_inline_capacity(in);

	int err;

	if (size > room) {
		err = ext4_inline_to_blocks(op, in);
		if (err)
			return err;
	} else {
		/* Bytes behind the end are zeros, in case the file grows again. */
		for (uint32_t i = (uint32_t)size; i < room; i++) {
			if (i < EXT4_IBLOCK_LEN)
				in->iblock[i] = 0;
			else
				in->inline_more[i - EXT4_IBLOCK_LEN] = 0;
		}
		ext4_inline_sync(in);
	}
	in->size = size;
	err = ext4_inode_write(op, in);
	return err ? ext4_op_abort(op, err, "truncating a file") : 0;
}

/* Read the whole map from block @from on: what cannot be read is told before anything changes. */
static int check_map(struct ext4_inode *in, uint64_t from)
{
	const uint64_t stop = ext4_max_size(in) >> in->fs->block_bits;
	struct ext4_map map = { 0 };
	int err = 0;

	for (; from < stop && !err; from += map.len) {
		err = ext4_map_blocks(in, (uint32_t)from, (uint32_t)(stop - from), &map);
		ASSERT(err || map.len);
	}
	return err;
}

int ext4_truncate(struct ext4_op *op, struct ext4_inode *in, uint64_t size)
{
	struct ext4_fs *fs = op->fs;
	const uint64_t end = DIV_ROUND_UP(size, (uint64_t)fs->block_size);
	const bool was_orphan = in->orphan;
	int err, del_err;

	assert_rwsem_held_write(&in->lock);
	if (in->flags & EXT4_FL_INLINE_DATA)
		return truncate_inline(op, in, size);
	/* It may fail, and then nothing has changed: not the size, not the bytes behind it. */
	err = check_map(in, end);
	if (err)
		return err;
	if (!was_orphan) {
		err = ext4_orphan_add(op->h, in->ino);
		if (err)
			return err;
		in->orphan = true;
	}
	if (size < in->size) {
		err = ext4_zero_part(op, in, size, MIN(end << fs->block_bits, in->size));
		if (err) {
			if (!was_orphan && !ext4_orphan_del(op->h, in->ino))
				in->orphan = false;
			return err;
		}
	}
	in->size = size;
	err = ext4_inode_write(op, in);
	/* From here on the truncation is done, if need be by the next mount. */
	if (!err)
		err = ext4_op_record(op, in);
	if (!err)
		err = ext4_map_remove(op, in, end, (uint64_t)UINT32_MAX + 1);
	if (!err)
		err = ext4_op_step(op, in);
	if (!err && !was_orphan) {
		del_err = ext4_orphan_del(op->h, in->ino);
		in->orphan = del_err != 0;
		err = del_err;
	}
	if (!err)
		err = ext4_inode_write(op, in);
	/* Blocks behind the end would show what is in them when the file grows. */
	return err ? ext4_op_abort(op, err, "truncating a file") : 0;
}

/* Does the inode have blocks of its own to free? */
static bool has_blocks(const struct ext4_inode *in)
{
	switch (in->mode & S_IFMT) {
	case S_IFREG:
	case S_IFDIR:
		return !(in->flags & EXT4_FL_INLINE_DATA);
	case S_IFLNK:
		return !(in->flags & EXT4_FL_INLINE_DATA) && !ext4_link_is_fast(in);
	}
	return false;
}

bool ext4_goes_at_once(struct ext4_inode *in)
{
	const struct ext4_extent_header *root = (const void *)in->iblock;

	/* One that failed to be truncated may still be on the list. */
	if (ext4_is_dir(in) || in->open || in->orphan || in->file_acl)
		return false;
	if (!has_blocks(in))
		return true;
	if ((in->mode & S_IFMT) != S_IFREG || !(in->flags & EXT4_FL_EXTENTS) ||
	    le16_to_cpu(root->depth) || ext4_node_entries(root) > 1)
		return false;
	/* One step, of blocks of two groups at most. */
	return !check_map(in, 0) && (!ext4_node_entries(root) ||
				     extent_len(extents_of(root)) <= in->fs->blocks_per_group);
}

/* Its blocks are free, and it is on no list: free the inode. */
static int free_inode(struct ext4_op *op, struct ext4_inode *in)
{
	struct ext4_inode_disk *d = (void *)in->raw;
	const struct fs_time now = ext4_op_now(op);
	int err;

	/* A number as small as an inode's would look like a link of the list of orphans. */
	d->dtime = cpu_to_le32((uint32_t)MAX(now.sec, (int64_t)op->fs->nr_inodes + 1));
	err = ext4_inode_write(op, in);
	return err ? err : ext4_ifree(op, in);
}

int ext4_evict_at_once(struct ext4_op *op, struct ext4_inode *in)
{
	int err = 0;

	ASSERT(!in->nlink && !in->orphan && !in->open && !in->gone);
	WRITE_ONCE(op->fs->delayed, op->fs->delayed - in->delayed);
	WRITE_ONCE(in->delayed, 0);
	if (has_blocks(in)) {
		in->size = 0;
		op->whole = true;
		err = ext4_map_remove(op, in, 0, (uint64_t)UINT32_MAX + 1);
		op->whole = false;
	}
	if (!err)
		err = free_inode(op, in);
	if (err)
		return err;
	ext4_inode_forget(in);
	return 0;
}

int ext4_evict(struct ext4_op *op, struct ext4_inode *in)
{
	int err = 0;

	ASSERT(!in->nlink && in->orphan && !in->gone);
	WRITE_ONCE(op->fs->delayed, op->fs->delayed - in->delayed);
	WRITE_ONCE(in->delayed, 0);
	if (has_blocks(in))
		err = check_map(in, 0);
	if (err)
		return err;
	if ((in->mode & S_IFMT) == S_IFREG && !(in->flags & EXT4_FL_INLINE_DATA))
		in->size = 0;
	if (has_blocks(in)) {
		err = ext4_map_remove(op, in, 0, (uint64_t)UINT32_MAX + 1);
		if (err && !ext4_aborted(op->fs))
			return ext4_op_abort(op, err, "freeing a file");
	}
	if (!err)
		err = ext4_op_step(op, in);
	if (!err)
		err = ext4_xattr_drop_block(op, in);
	if (!err)
		err = ext4_orphan_del(op->h, in->ino);
	if (err)
		return err;
	in->orphan = false;
	err = free_inode(op, in);
	if (err)
		return err;
	list_del(&in->orphan_link);
	op->fs->nr_unfreed -= in->unfreed;
	in->unfreed = false;
	ext4_inode_forget(in);
	return 0;
}
