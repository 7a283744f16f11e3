/* SPDX-License-Identifier: MIT */
/*
 * ext4: blocks that are promised to a file before its data come.
 *
 * Flow:	fs_promise() says how many pages without blocks the file is to get, all in all; it
 *		counts the blocks for them, those of the file's map included. ext4_balloc() takes
 *		from the file's promise first, and leaves the other files' alone.
 * Invariants:	fs->delayed is the sum of the inodes' delayed. An inode with a promise stays in the
 *		cache of inodes. The end of the file ends its promise (ext4_evict()).
 * Locking:	fs->change guards the promises; in->lock the map that is looked at.
 * Failure:	-ENOSPC: the promise is as it was before. One that is told again, when this node was
 *		started again, comes before room for names, which was kept anew before it came.
 */
#include <kernel/mutex.h>
#include <kernel/rwsem.h>
#include <lib/errno.h>
#include <lib/string.h>

#include "ext4_write.h"
#include "extent_priv.h"

#define ROOT_ENTRIES 4u
#define LOOKS        64u /* pieces of a map, for one answer */
#define INLINE_MOVE  4u  /* what ext4_inline_to_blocks() asks for */
/* Idle promises of one file are at most this part of what is there: others find room, too. */
#define AHEAD_PART   64u

static uint64_t blocks_per_page(const struct ext4_fs *fs)
{
	return MAX(PAGE_SIZE >> fs->block_bits, 1u);
}

static uint64_t saturating_mul(uint64_t a, uint64_t b)
{
	uint64_t product;

	return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX / 4
						      : MIN(product, UINT64_MAX / 4);
}

/* Blocks that a tree of extents may grow by when @pages pages anywhere get their blocks. */
static uint64_t tree_growth(const struct ext4_inode *in, uint64_t pages)
{
	const struct ext4_extent_header *root = (const void *)in->iblock;
	const uint32_t depth = le16_to_cpu(root->depth);
	const uint64_t extents = pages * blocks_per_page(in->fs); /* each block one, at worst */
	const uint64_t max = (in->fs->block_size - sizeof(*root)) / sizeof(struct ext4_extent);
	const uint64_t half = max / 2; /* what a node has at least after it was split */
	uint64_t nodes = ROOT_ENTRIES, splits = 0;

	if (!depth && ext4_node_entries(root) + extents <= ROOT_ENTRIES)
		return 0;
	/* Each full node that is there is split once, then those that were split fill up again. */
	for (uint32_t level = 0; level < depth; level++) {
		splits += MIN(pages, nodes);
		nodes = saturating_mul(nodes, max);
	}
	splits += 2 * DIV_ROUND_UP(extents, half);
	/* And the root moves down, perhaps more than once. */
	splits += pages == 1 ? 0 : 3;
	return MIN(splits, pages == 1 ? depth + 1 : pages * (depth + 2));
}

uint64_t ext4_promise_blocks(const struct ext4_inode *in, uint64_t pages)
{
	const uint64_t data = pages * blocks_per_page(in->fs);

	if (!pages)
		return 0;
	if (in->flags & EXT4_FL_INLINE_DATA)
		return data + tree_growth(in, pages) + INLINE_MOVE;
	if (in->flags & EXT4_FL_EXTENTS)
		return data + tree_growth(in, pages);
	return data + 3 * pages; /* one block at each level */
}

/* Does the page lack a block? *@run: so many pages from it on do, or do not, at least 1. */
static int look_at(struct ext4_inode *in, uint64_t index, uint64_t max, bool *hole, uint64_t *run)
{
	const struct ext4_fs *fs = in->fs;
	const uint64_t per = blocks_per_page(fs);
	const uint64_t first = (index << PAGE_SHIFT) >> fs->block_bits;
	uint64_t at = first, stop;
	struct ext4_map map;
	int err;

	*hole = true;
	*run = max;
	if ((in->flags & EXT4_FL_INLINE_DATA) || first >= UINT32_MAX - 1)
		return 0;
	stop = MIN(first + max * per, (uint64_t)UINT32_MAX - 1);
	err = ext4_map_blocks(in, (uint32_t)first, (uint32_t)(stop - first), &map);
	if (err)
		return err;
	*hole = map.type == EXT4_MAP_HOLE;
	*run = map.len / per;
	if (*run)
		return 0;
	/* A page of several pieces: one that is missing is enough. */
	*run = 1;
	for (at += map.len; at < MIN(first + per, stop) && !*hole; at += map.len) {
		err = ext4_map_blocks(in, (uint32_t)at, (uint32_t)(first + per - at), &map);
		if (err)
			return err;
		*hole = map.type == EXT4_MAP_HOLE;
	}
	return 0;
}

/* The pages of the range that lack blocks, and how many: of the first p->need, and of all. */
static int look_at_range(struct ext4_inode *in, struct fs_promise *p, uint64_t *needed,
			 uint64_t *all)
{
	uint64_t run;
	bool hole;
	int err = 0;

	*needed = *all = 0;
	for (uint32_t i = 0; i < p->nr && !err; i += (uint32_t)run) {
		err = look_at(in, p->index + i, p->nr - i, &hole, &run);
		if (err)
			break;
		run = MIN(run, (uint64_t)p->nr - i);
		for (uint32_t k = i; hole && k < i + run; k++) {
			p->holes[k / 64] |= 1ull << (k % 64);
			*needed += k < p->need;
			++*all;
		}
	}
	return err;
}

/* How many pages from the range's begin on have all their blocks, behind the range, too. */
static int look_ahead(struct ext4_inode *in, struct fs_promise *p)
{
	uint64_t run;
	bool hole;
	int err = 0;

	for (uint32_t looks = 0; p->nr && looks < LOOKS; looks++) {
		err = look_at(in, p->index + p->mapped, UINT32_MAX, &hole, &run);
		if (err || hole)
			break;
		p->mapped += run;
	}
	return err;
}

static void set_promise(struct ext4_inode *in, uint64_t blocks)
{
	struct ext4_fs *fs = in->fs;

	assert_mutex_held(&fs->change);
	WRITE_ONCE(fs->delayed, fs->delayed - in->delayed + blocks);
	WRITE_ONCE(in->delayed, blocks);
}

static void forget_behind(struct fs_promise *p, uint32_t nr)
{
	for (uint32_t i = nr; i < FS_PROMISE_MAX; i++)
		p->holes[i / 64] &= ~(1ull << (i % 64));
}

static int promise_locked(struct ext4_inode *in, struct fs_promise *p, const struct fs_change *ch)
{
	const struct ext4_op op = { .fs = in->fs, .ch = ch };
	/* Without pages to look at, nothing is asked for that was not promised before. */
	const uint64_t avail = p->nr ? ext4_avail(&op, in) : ext4_avail_with_rooms(&op, in);
	uint64_t needed, all, least, most;
	int err;

	assert_mutex_held(&in->fs->change);
	err = in->gone ? -ESTALE : look_at_range(in, p, &needed, &all);
	if (!err)
		err = look_ahead(in, p);
	if (err)
		return err;
	least = ext4_promise_blocks(in, p->others + needed);
	most = ext4_promise_blocks(in, p->others + all);
	/* The pages that have a promise keep it, whatever has happened to the disk. */
	if (needed && least > avail)
		return -ENOSPC;
	p->covered = p->nr;
	if (all > needed && (most > avail || most - least > avail / AHEAD_PART)) {
		p->covered = p->need;
		most = least;
		forget_behind(p, p->need);
	}
	/* Of the others it was not asked whether they fit: no more is kept than is there. */
	set_promise(in, MIN(most, avail));
	ext4_rooms_fit(in->fs);
	return 0;
}

int ext4_promise(struct ext4_inode *in, struct fs_promise *p, const struct fs_change *ch)
{
	struct ext4_fs *fs = in->fs;
	int err;

	memset(p->holes, 0, sizeof(p->holes));
	p->mapped = 0;
	p->covered = 0;
	if (ext4_is_dir(in))
		return -EISDIR;
	if ((in->mode & S_IFMT) != S_IFREG)
		return -EINVAL;
	if (p->index > ext4_max_size(in) >> PAGE_SHIFT ||
	    p->others > ext4_max_size(in) >> PAGE_SHIFT)
		return -EFBIG;
	mutex_lock(&fs->change);
	rwsem_read_lock(&in->lock);
	err = promise_locked(in, p, ch);
	rwsem_read_unlock(&in->lock);
	mutex_unlock(&fs->change);
	return err;
}
