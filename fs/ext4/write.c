/* SPDX-License-Identifier: MIT */
/*
 * ext4: contents of files, written.
 *
 * Flow:	map or allocate the blocks in a transaction, end its handle, write the data.  The
 *		transaction does not commit before the data are on the device (ext4_order_begin()),
 *		so that no block shows what was in it before.
 * Locking:	in->lock is held until the data are written; fs->change only while blocks are
 *		mapped.
 * Failure:	a device that cannot write data of new blocks aborts the file system: the blocks
 *		would show older contents.
 */
#include <drivers/blkbatch.h>
#include <drivers/blkdev.h>
#include <kernel/panic.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/string.h>

#include "ext4_write.h"

/* A write under way: bytes [off, end) of the file, from @pages. */
struct write {
	struct ext4_op op;
	struct ext4_inode *in;
	struct blk_batch *batch;
	uint64_t off, end;
	void *const *pages;
	bool remapped; /* the file's map changed */
};

static uint8_t *byte_at(const struct write *w, uint64_t pos)
{
	const uint64_t rel = pos - w->off;

	return (uint8_t *)w->pages[rel >> PAGE_SHIFT] + (rel & PAGE_MASK_LOW);
}

/* Gather the data of blocks [@lblk, +@map->len). */
static void gather(struct write *w, uint32_t lblk, const struct ext4_map *map)
{
	const struct ext4_fs *fs = w->in->fs;
	const uint32_t shift = fs->block_bits - BLK_SECTOR_SHIFT;

	for (uint32_t i = 0; i < map->len; i++) {
		const uint64_t pos = (uint64_t)(lblk + i) << fs->block_bits;

		blk_batch_add(w->batch, BLK_WRITE, (map->block + i) << shift, byte_at(w, pos),
			      fs->block_size);
	}
}

/* Blocks that were mapped so far have to be written before their transaction can end. */
static int flush_part(struct write *w)
{
	int err = blk_batch_run(w->batch);

	if (err)
		return ext4_op_abort(&w->op, err, "writing data");
	err = ext4_inode_write(&w->op, w->in);
	return err ? err : ext4_op_restart(&w->op, EXT4_CREDITS_MAP);
}

static int map_all(struct write *w)
{
	const struct ext4_fs *fs = w->in->fs;
	const uint64_t stop = DIV_ROUND_UP(w->end, (uint64_t)fs->block_size);
	uint64_t lblk = w->off >> fs->block_bits;
	struct ext4_map map;
	bool fresh;
	int err = 0;

	while (lblk < stop && !err) {
		if (!ext4_op_more(&w->op, EXT4_CREDITS_MAP)) {
			err = flush_part(w);
			if (err)
				return err;
		}
		err = ext4_map_alloc(&w->op, w->in, (uint32_t)lblk, (uint32_t)(stop - lblk), false,
				     &map, &fresh);
		if (!err && map.type == EXT4_MAP_UNWRITTEN) {
			err = ext4_extent_mark(&w->op, w->in, (uint32_t)lblk, map.len, false);
			fresh = true;
		}
		if (err)
			return err;
		w->remapped |= fresh;
		gather(w, (uint32_t)lblk, &map);
		lblk += map.len;
	}
	return 0;
}

/* The rest of the file's last block is zeros, so that a larger file reads as zeros there. */
static void clear_rest(const struct write *w, uint64_t size)
{
	const uint32_t used = (uint32_t)(w->end & (w->in->fs->block_size - 1));

	if (used && w->end == size && w->end > w->off)
		memset(byte_at(w, w->end - used) + used, 0, w->in->fs->block_size - used);
}

static int write_inline(struct write *w)
{
	struct ext4_inode *in = w->in;

	for (uint64_t pos = w->off; pos < w->end; pos++) {
		const uint8_t byte = *byte_at(w, pos);

		if (pos < EXT4_IBLOCK_LEN)
			in->iblock[pos] = byte;
		else
			in->inline_more[pos - EXT4_IBLOCK_LEN] = byte;
	}
	ext4_inline_sync(in);
	w->remapped = true;
	return 0;
}

static int write_contents(struct write *w, uint64_t size)
{
	struct ext4_inode *in = w->in;
	const uint64_t data_tid = in->data_tid, old_size = in->size;
	int err = 0;

	if ((in->flags & EXT4_FL_INLINE_DATA) && size > ext4_inline_capacity(in))
		err = ext4_inline_to_blocks(&w->op, in);
	if (err)
		return err;
	if (in->flags & EXT4_FL_INLINE_DATA) {
		err = write_inline(w);
	} else {
		clear_rest(w, size);
		err = map_all(w);
	}
	/* Pages that got blocks before an error are written all the same, behind the end. */
	if (err)
		size = old_size;
	in->size = size;
	ext4_inode_written(&w->op, in);
	if (ext4_aborted(in->fs))
		return err ? err : -EROFS;
	if (ext4_inode_write(&w->op, in))
		return ext4_op_abort(&w->op, -EIO, "writing an inode");
	if (!w->remapped && size == old_size)
		in->data_tid = data_tid;
	return err;
}

static int write_it(struct write *w, uint64_t new_size)
{
	struct ext4_fs *fs = w->in->fs;
	struct ext4_ordered ordered;
	uint64_t size;
	int err, io_err;

	if (w->in->gone) {
		err = -ESTALE;
	} else {
		size = MAX(w->in->size, new_size);
		w->end = MAX(w->off, MIN(w->end, size));
		err = w->end > w->off || size > w->in->size ? write_contents(w, size) : 0;
	}
	ext4_order_begin(w->op.h, &ordered);
	err = ext4_op_finish(&w->op, w->in, err);
	io_err = blk_batch_run(w->batch);
	/* First the abort: a commit that waits for the data must not go on without them. */
	if (io_err && w->remapped)
		ext4_abort(fs, "writing data of new blocks");
	ext4_order_end(fs, &ordered, w->remapped ? io_err : 0);
	ext4_op_unlock(&w->op);
	return err ? err : io_err;
}

static int check_file(const struct ext4_inode *in)
{
	if (ext4_is_dir(in))
		return -EISDIR;
	return (in->mode & S_IFMT) == S_IFREG ? 0 : -EINVAL;
}

uint64_t ext4_max_size(const struct ext4_inode *in)
{
	const struct ext4_fs *fs = in->fs;
	const uint64_t per = fs->block_size / sizeof(le32_t);

	if (in->flags & EXT4_FL_EXTENTS)
		return (uint64_t)(UINT32_MAX - 1) << fs->block_bits;
	return MIN(EXT4_NR_DIRECT + per + per * per + per * per * per, (uint64_t)UINT32_MAX - 1)
	       << fs->block_bits;
}

static int write_once(struct ext4_inode *in, uint64_t off, uint64_t len, void *const *pages,
		      uint64_t new_size, const struct fs_change *ch)
{
	struct write w = { .in = in, .off = off, .end = off + len, .pages = pages };
	int err;

	w.batch = blk_batch_new(in->fs->bd);
	if (!w.batch)
		return -ENOMEM;
	err = ext4_op_begin(&w.op, in->fs, EXT4_CREDITS_MAP + EXT4_CREDITS_NAMES, ch, &in, 1);
	if (!err)
		err = write_it(&w, new_size);
	blk_batch_free(w.batch);
	return err;
}

int ext4_write_pages(struct ext4_inode *in, uint64_t off, uint64_t len, void *const *pages,
		     uint64_t new_size, const struct fs_change *ch)
{
	unsigned int tries = 0;
	int err;

	err = check_file(in);
	if (err)
		return err;
	if (off & PAGE_MASK_LOW)
		return -EINVAL;
	if (off > ext4_max_size(in) || len > ext4_max_size(in) - off ||
	    new_size > ext4_max_size(in))
		return -EFBIG;
	do {
		err = write_once(in, off, len, pages, new_size, ch);
	} while (err == -ENOSPC && !tries++ && ext4_room_after_sync(in->fs));
	return err;
}
