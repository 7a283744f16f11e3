/* SPDX-License-Identifier: MIT */
/*
 * ext4: fallocate(): space ahead of the data, holes, zeros, and parts taken out.
 *
 * Locking:	in->lock for writing, for the whole operation.
 * Failure:	-ENOSPC may leave a part of the range allocated, as Linux does.
 */
#include <abi/fcntl.h>
#include <kernel/panic.h>
#include <lib/errno.h>

#include "ext4_write.h"

/* Allocate what is a hole in blocks [@lblk, @stop), unwritten. */
static int allocate(struct ext4_op *op, struct ext4_inode *in, uint64_t lblk, uint64_t stop)
{
	struct ext4_map map;
	bool fresh;
	int err;

	while (lblk < stop) {
		err = ext4_op_step(op, in);
		if (err)
			return err;
		err = ext4_map_alloc(op, in, (uint32_t)lblk, (uint32_t)(stop - lblk), true, &map,
				     &fresh);
		if (err)
			return err;
		lblk += map.len;
	}
	return 0;
}

/*
 * Zero the parts of [@off, @end) at its ends that are no whole blocks; *@first and
 * *@last: the rest.
 */
static int zero_edges(struct ext4_op *op, struct ext4_inode *in, uint64_t off, uint64_t end,
		      uint64_t *first, uint64_t *last)
{
	const uint64_t bs = in->fs->block_size;
	int err = 0;

	*first = DIV_ROUND_UP(off, bs);
	*last = end / bs;
	if (*first > *last) /* inside one block */
		return ext4_zero_part(op, in, off, end);
	if (off % bs)
		err = ext4_zero_part(op, in, off, *first * bs);
	if (!err && end % bs)
		err = ext4_zero_part(op, in, *last * bs, end);
	return err;
}

static int punch(struct ext4_op *op, struct ext4_inode *in, uint64_t off, uint64_t end)
{
	uint64_t first, last;
	int err;

	if (off >= in->size)
		return 0;
	err = zero_edges(op, in, off, end, &first, &last);
	/* Behind the end of the file there may be blocks too; they stay, as Linux has it. */
	return err ? err : ext4_map_remove(op, in, first, last);
}

static int zero_range(struct ext4_op *op, struct ext4_inode *in, uint64_t off, uint64_t end)
{
	uint64_t first, last, at;
	struct ext4_map map;
	int err;

	err = zero_edges(op, in, off, end, &first, &last);
	if (!err)
		err = allocate(op, in, off / in->fs->block_size,
			       DIV_ROUND_UP(end, (uint64_t)in->fs->block_size));
	for (at = first; at < last && !err; at += map.len) {
		err = ext4_op_step(op, in);
		if (!err)
			err = ext4_map_blocks(in, (uint32_t)at, (uint32_t)(last - at), &map);
		if (!err && map.type == EXT4_MAP_DATA)
			err = ext4_extent_mark(op, in, (uint32_t)at, map.len, true);
		if (err)
			break;
	}
	return err;
}

/* The inode, and nodes that the tree may gain when a part of the map is removed. */
#define COLLAPSE_MORE (2 * EXT4_EXTENT_MAX_DEPTH + 1)

/*
 * First the part becomes a hole, which may take several transactions and may be done again after a
 * crash; then what is behind it moves, in one, in which the change's id is recorded as well.
 */
static int collapse(struct ext4_op *op, struct ext4_inode *in, uint64_t off, uint64_t end)
{
	const uint64_t bs = in->fs->block_size;
	uint32_t nr;
	int err;

	if (!(in->flags & EXT4_FL_EXTENTS))
		return -EOPNOTSUPP;
	if (off % bs || end % bs || end >= in->size)
		return -EINVAL;
	err = ext4_extent_count_nodes(in, (uint32_t)(off / bs), &nr);
	if (!err && nr + COLLAPSE_MORE + EXT4_CHANGE_CREDITS > ext4_max_credits(in->fs))
		err = -EOPNOTSUPP; /* more extents than the journal takes at once */
	if (!err)
		err = ext4_map_remove(op, in, off / bs, end / bs);
	if (!err)
		err = ext4_op_big_step(op, in, nr + COLLAPSE_MORE);
	if (!err)
		err = ext4_extent_shift(op, in, (uint32_t)(end / bs), (uint32_t)((end - off) / bs));
	if (!err)
		in->size -= end - off;
	return err;
}

static int do_it(struct ext4_op *op, struct ext4_inode *in, uint32_t mode, uint64_t off,
		 uint64_t end)
{
	const uint64_t bs = in->fs->block_size;
	int err = 0;

	if (in->gone)
		return -ESTALE;
	if (in->flags & EXT4_FL_INLINE_DATA)
		err = ext4_inline_to_blocks(op, in);
	if (err)
		return err;
	if (mode & FALLOC_FL_PUNCH_HOLE)
		return punch(op, in, off, end);
	if (mode & FALLOC_FL_COLLAPSE_RANGE)
		return collapse(op, in, off, end);
	if (!(in->flags & EXT4_FL_EXTENTS))
		return -EOPNOTSUPP;
	if (mode & FALLOC_FL_ZERO_RANGE)
		err = zero_range(op, in, off, end);
	else
		err = allocate(op, in, off / bs, DIV_ROUND_UP(end, bs));
	if (!err && !(mode & FALLOC_FL_KEEP_SIZE) && end > in->size)
		in->size = end;
	return err;
}

static int check_mode(uint32_t mode)
{
	switch (mode) {
	case 0:
	case FALLOC_FL_KEEP_SIZE:
	case FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE:
	case FALLOC_FL_ZERO_RANGE:
	case FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE:
	case FALLOC_FL_COLLAPSE_RANGE:
		return 0;
	}
	return -EOPNOTSUPP;
}

int ext4_fallocate(struct ext4_inode *in, uint32_t mode, uint64_t off, uint64_t len,
		   const struct fs_change *ch)
{
	unsigned int tries = 0;
	struct ext4_op op;
	int err;

	err = check_mode(mode);
	if (err)
		return err;
	if ((in->mode & S_IFMT) != S_IFREG)
		return ext4_is_dir(in) ? -EISDIR : -ENODEV;
	if (!len)
		return -EINVAL;
	if (off > ext4_max_size(in) || len > ext4_max_size(in) - off)
		return -EFBIG;
	do {
		err = ext4_op_begin(&op, in->fs, EXT4_CREDITS_NAMES, ch, &in, 1);
		if (err)
			return err;
		err = do_it(&op, in, mode, off, off + len);
		if (!in->gone && !ext4_aborted(in->fs)) {
			/* Also after an error: what was allocated before it stays. */
			ext4_inode_touch(&op, in,
					 !(mode & FALLOC_FL_KEEP_SIZE) ||
						 (mode & ~FALLOC_FL_KEEP_SIZE));
			if (ext4_inode_write(&op, in) && !err)
				err = -EIO;
		}
		err = ext4_op_end(&op, in, err);
	} while (err == -ENOSPC && !tries++ && ext4_room_after_sync(in->fs));
	return err;
}
