/* SPDX-License-Identifier: MIT */
/*
 * ext4: allocating and freeing blocks.
 *
 * Flow:	ext4_balloc() looks at the goal, then in the goal's group for a run as long as asked
 *		for, then in the other groups; at last any free run will do.
 * Locking:	fs->change admits one allocator at a time; a group's lock is held for its bitmap.
 *		fs->busy_lock guards the busy maps, which the end of a commit clears.
 * Invariants:	a freed block is not given out before the transaction that freed it has
 *		committed: until then its bit is set in the group's busy map.  Without memory for
 *		a map none of the group's blocks is given out.
 * Failure:	-ENOSPC leaves nothing changed; a bit that is not what it must be is corruption.
 */
#include <drivers/blkdev.h>
#include <kernel/mutex.h>
#include <kernel/panic.h>
#include <lib/bitmap.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <mm/slab.h>

#include "ext4_write.h"
#include "journal_priv.h"

/* The blocks of one group that were freed by transactions that have not committed. */
struct ext4_busy {
	uint32_t nr;
	uint64_t map[];
};

struct freed_run {
	struct ext4_commit_cb cb;
	uint32_t group;
	uint32_t bit;
	uint32_t nr;
	bool whole; /* there was no map: all of the group is busy */
};
static_assert(sizeof(struct freed_run) <= EXT4_SMALL_LEN, "a small object");

int ext4_balloc_init(struct ext4_fs *fs)
{
	spin_lock_init(&fs->busy_lock, "ext4-busy", RANK_SPIN_FS);
	fs->busy = kcalloc(fs->nr_groups, sizeof(*fs->busy));
	fs->busy_whole = kcalloc(fs->nr_groups, sizeof(*fs->busy_whole));
	fs->scratch = kmalloc(fs->block_size);
	return fs->busy && fs->busy_whole && fs->scratch ? 0 : -ENOMEM;
}

void ext4_balloc_exit(struct ext4_fs *fs)
{
	for (uint32_t g = 0; fs->busy && g < fs->nr_groups; g++)
		kfree(fs->busy[g]);
	kfree(fs->busy);
	kfree(fs->busy_whole);
	kfree(fs->scratch);
	fs->busy = NULL;
	fs->busy_whole = NULL;
	fs->scratch = NULL;
}

/* The transaction that freed a run is durable: the blocks may be used again. */
static void run_committed(struct ext4_fs *fs, struct ext4_commit_cb *cb, int err)
{
	struct freed_run *r = container_of(cb, struct freed_run, cb);
	struct ext4_busy *b;

	if (!err) {
		spin_lock(&fs->busy_lock);
		b = fs->busy[r->group];
		if (r->whole) {
			ASSERT(fs->busy_whole[r->group] >= r->nr);
			fs->busy_whole[r->group] -= r->nr;
		} else {
			ASSERT(b && b->nr >= r->nr);
			bitmap_clear_range(b->map, r->bit, r->nr);
			b->nr -= r->nr;
		}
		spin_unlock(&fs->busy_lock);
		atomic64_add(&fs->nr_busy, -(int64_t)r->nr);
	}
	ext4_small_free(fs, r);
}

/* Have a map of the busy blocks of @group, if there is memory for it. */
static void busy_prepare(struct ext4_fs *fs, uint32_t group)
{
	struct ext4_busy *b;

	assert_mutex_held(&fs->change);
	if (fs->busy[group])
		return;
	b = kzalloc(sizeof(*b) + fs->block_size);
	spin_lock(&fs->busy_lock);
	fs->busy[group] = b;
	spin_unlock(&fs->busy_lock);
}

static void busy_add(struct ext4_fs *fs, struct freed_run *r)
{
	struct ext4_busy *b;

	spin_lock(&fs->busy_lock);
	b = fs->busy[r->group];
	r->whole = !b;
	if (b) {
		bitmap_set_range(b->map, r->bit, r->nr);
		b->nr += r->nr;
	} else {
		fs->busy_whole[r->group] += r->nr;
	}
	spin_unlock(&fs->busy_lock);
	atomic64_add(&fs->nr_busy, r->nr);
}

/* Must nothing of @group be given out now? */
static bool is_busy_whole(struct ext4_fs *fs, uint32_t group)
{
	bool busy;

	spin_lock(&fs->busy_lock);
	busy = fs->busy_whole[group] != 0;
	spin_unlock(&fs->busy_lock);
	return busy;
}

uint64_t ext4_goal_of(const struct ext4_inode *in)
{
	const struct ext4_fs *fs = in->fs;
	const uint32_t group = (in->ino - 1) / fs->inodes_per_group;

	return ext4_group_first_block(fs, group);
}

/* Blocks of @in's promise that @op may take. */
static uint64_t own_promise(const struct ext4_op *op, const struct ext4_inode *in)
{
	const uint64_t kept = op->ch ? ext4_promise_blocks(in, op->ch->kept) : 0;

	return in->delayed - MIN(in->delayed, kept);
}

/* So much may @op take for @in, when @kept of the free blocks are kept, for these two as well. */
static uint64_t avail_of(const struct ext4_op *op, const struct ext4_inode *in, uint64_t kept)
{
	const struct ext4_fs *fs = op->fs;
	const uint64_t promise = in ? own_promise(op, in) : 0;
	const uint64_t room = op->room ? EXT4_ROOM_BLOCKS : 0;
	const uint64_t own = promise + room - MIN(room, (uint64_t)op->taken);
	const uint64_t others = kept - promise - room;
	const uint64_t nr_free = ext4_free_blocks(fs);
	uint64_t left = nr_free > others ? nr_free - others : 0, spare;

	if (!op->ch || op->ch->privileged || left <= own)
		return left;
	/* A promise is kept, also one that root got out of the reserved blocks. */
	spare = left - own;
	return own + (spare > fs->r_blocks ? spare - fs->r_blocks : 0);
}

uint64_t ext4_avail(const struct ext4_op *op, const struct ext4_inode *in)
{
	return avail_of(op, in, ext4_kept_blocks(op->fs));
}

uint64_t ext4_avail_with_rooms(const struct ext4_op *op, const struct ext4_inode *in)
{
	ASSERT(!op->room);
	return avail_of(op, in, op->fs->delayed);
}

bool ext4_has_busy(struct ext4_fs *fs)
{
	return atomic64_read(&fs->nr_busy) > 0;
}

/* The bitmap to search: with the busy blocks set as well. */
static const uint64_t *free_map(struct ext4_fs *fs, uint32_t group, const struct bcache_buf *buf)
{
	const struct ext4_busy *b = fs->busy[group];
	const uint64_t *disk = (const void *)buf->data;

	if (!b)
		return disk;
	spin_lock(&fs->busy_lock);
	for (uint32_t i = 0; i < fs->block_size / sizeof(uint64_t); i++)
		fs->scratch[i] = disk[i] | b->map[i];
	spin_unlock(&fs->busy_lock);
	return fs->scratch;
}

struct found {
	uint32_t bit;
	uint32_t nr;
};

/* The first run of @want clear bits from @from on, or the longest that there is. */
static void find_run(const uint64_t *map, uint32_t bits, uint32_t from, uint32_t want,
		     struct found *best)
{
	size_t start = bitmap_find_next_zero(map, bits, from);

	while (start < bits && best->nr < want) {
		const size_t stop = MIN((size_t)bits, start + want);
		const size_t end = bitmap_find_next(map, stop, start);

		if (end - start > best->nr)
			*best = (struct found){ .bit = (uint32_t)start,
						.nr = (uint32_t)(end - start) };
		start = bitmap_find_next_zero(map, bits, end);
	}
}

/* Mark the run as used. */
static int take(struct ext4_op *op, uint32_t group, struct ext4_gd *gd, struct bcache_buf *buf,
		const struct found *f)
{
	int err = ext4_write_access(op->h, buf);

	if (err)
		return err;
	if (ext4_zones_hit(op->fs, ext4_group_first_block(op->fs, group) + f->bit, f->nr))
		return ext4_op_abort(
			op, ext4_corrupt(op->fs, "group %u: its bitmap calls metadata free", group),
			"allocating blocks");
	if (gd->free_blocks < f->nr)
		return ext4_op_abort(op,
				     ext4_corrupt(op->fs,
						  "group %u: %u free blocks, but more in "
						  "its bitmap",
						  group, gd->free_blocks),
				     "allocating blocks");
	bitmap_set_range((uint64_t *)(void *)buf->data, f->bit, f->nr);
	gd->free_blocks -= f->nr;
	gd->flags &= ~EXT4_GROUP_BLOCK_UNINIT;
	err = ext4_block_bitmap_dirty(op->h, gd, buf);
	if (!err)
		err = ext4_gd_write(op->h, group, gd);
	if (err)
		return ext4_op_abort(op, err, "allocating blocks");
	ext4_count_free_blocks(op->fs, -(int64_t)f->nr);
	return 0;
}

/*
 * Look in @group from bit @from on, then from its start.  Takes a run of at least @min blocks; 1:
 * it has none, -errno.
 */
static int try_group(struct ext4_op *op, uint32_t group, uint32_t from, uint32_t min, uint32_t want,
		     struct found *f)
{
	struct ext4_fs *fs = op->fs;
	const uint32_t bits = ext4_group_nr_blocks(fs, group);
	const uint64_t *map;
	struct bcache_buf *buf;
	struct ext4_gd gd;
	int err;

	ext4_group_lock(fs, group);
	err = ext4_gd_read(fs, group, &gd);
	if (err || gd.free_blocks < min || is_busy_whole(fs, group)) {
		ext4_group_unlock(fs, group);
		return err ? err : 1;
	}
	buf = ext4_block_bitmap(fs, group, &gd);
	if (IS_ERR(buf)) {
		ext4_group_unlock(fs, group);
		return (int)PTR_ERR(buf);
	}
	map = free_map(fs, group, buf);
	*f = (struct found){ 0 };
	if (from && from < bits && !bitmap_test(map, from))
		find_run(map, MIN(bits, from + want), from, want, f); /* what begins at the goal */
	if (f->nr < min)
		find_run(map, bits, from, want, f);
	if (f->nr < min && from)
		find_run(map, bits, 0, want, f);
	err = f->nr >= min && f->nr ? take(op, group, &gd, buf, f) : 1;
	bcache_put(buf);
	ext4_group_unlock(fs, group);
	return err;
}

static int search(struct ext4_op *op, uint64_t goal, uint32_t want, uint32_t *group,
		  struct found *f)
{
	struct ext4_fs *fs = op->fs;
	uint32_t first, from;
	int err = 1;

	if (goal <= fs->first_data_block || goal >= fs->nr_blocks)
		goal = fs->first_data_block;
	first = (uint32_t)((goal - fs->first_data_block) / fs->blocks_per_group);
	from = (uint32_t)((goal - fs->first_data_block) % fs->blocks_per_group);
	/* At the goal anything is welcome; elsewhere first all of it, then half, then any run. */
	for (uint32_t min = want; err == 1; min = min > 8 ? min / 8 : 1) {
		for (uint32_t i = 0; i < fs->nr_groups && err == 1; i++) {
			*group = (first + i) % fs->nr_groups;
			err = try_group(op, *group, i ? 0 : from, min, want, f);
		}
		if (min == 1)
			break;
	}
	return err == 1 ? -ENOSPC : err;
}

int ext4_balloc(struct ext4_op *op, struct ext4_inode *in, uint64_t goal, uint32_t *nr,
		uint64_t *block)
{
	struct ext4_fs *fs = op->fs;
	const uint64_t avail = ext4_avail(op, in);
	uint32_t group = 0, given;
	struct found f;
	int err;

	assert_mutex_held(&fs->change);
	ASSERT(*nr);
	if (!avail)
		return -ENOSPC;
	err = search(op, goal, (uint32_t)MIN((uint64_t)*nr, avail), &group, &f);
	if (err)
		return err;
	*nr = f.nr;
	*block = ext4_group_first_block(fs, group) + f.bit;
	if (!ext4_blocks_ok(fs, *block, f.nr))
		return ext4_op_abort(
			op,
			ext4_corrupt(fs, "group %u: block %u is free in its bitmap", group, f.bit),
			"allocating blocks");
	in->blocks += (uint64_t)f.nr << (fs->block_bits - BLK_SECTOR_SHIFT);
	given = (uint32_t)MIN((uint64_t)f.nr, own_promise(op, in));
	WRITE_ONCE(in->delayed, in->delayed - given);
	WRITE_ONCE(fs->delayed, fs->delayed - given);
	if (op->room)
		op->taken += f.nr - given;
	return 0;
}

struct bcache_buf *ext4_balloc_meta(struct ext4_op *op, struct ext4_inode *in, uint64_t goal)
{
	struct bcache_buf *buf;
	uint32_t nr = 1;
	uint64_t block;
	int err;

	err = ext4_balloc(op, in, goal ? goal : ext4_goal_of(in), &nr, &block);
	if (err)
		return ERR_PTR(err);
	buf = ext4_new_block(op->h, block);
	if (IS_ERR(buf)) {
		ext4_op_abort(op, (int)PTR_ERR(buf), "a new block of metadata");
		return buf;
	}
	memset(buf->data, 0, op->fs->block_size);
	WRITE_ONCE(buf->checked_as, 0);
	return buf;
}

struct bcache_buf *ext4_balloc_beside(struct ext4_op *op, struct ext4_inode *in, uint64_t goal)
{
	struct ext4_fs *fs = op->fs;
	const uint64_t own = in->delayed;
	struct bcache_buf *buf;

	assert_mutex_held(&fs->change);
	if (!ext4_avail(op, NULL))
		return ERR_PTR(-ENOSPC);
	buf = ext4_balloc_meta(op, in, goal);
	WRITE_ONCE(fs->delayed, fs->delayed + (own - in->delayed));
	WRITE_ONCE(in->delayed, own);
	return buf;
}

/* Give back @nr bits of one group. */
static int free_in_group(struct ext4_op *op, uint32_t group, uint32_t bit, uint32_t nr,
			 struct freed_run *r)
{
	struct ext4_fs *fs = op->fs;
	struct bcache_buf *buf;
	struct ext4_gd gd;
	uint64_t *map;
	int err;

	err = ext4_gd_read(fs, group, &gd);
	if (err)
		return err;
	buf = ext4_block_bitmap(fs, group, &gd);
	if (IS_ERR(buf))
		return (int)PTR_ERR(buf);
	map = (uint64_t *)(void *)buf->data;
	if (bitmap_find_next_zero(map, bit + nr, bit) != (size_t)bit + nr)
		err = ext4_corrupt(fs, "group %u: freeing free blocks from %u on", group, bit);
	if (!err)
		err = ext4_write_access(op->h, buf);
	if (!err) {
		bitmap_clear_range(map, bit, nr);
		*r = (struct freed_run){
			.cb = { .fn = run_committed }, .group = group, .bit = bit, .nr = nr
		};
		busy_add(fs, r);
		gd.free_blocks += nr;
		err = ext4_block_bitmap_dirty(op->h, &gd, buf);
	}
	bcache_put(buf);
	if (!err)
		err = ext4_gd_write(op->h, group, &gd);
	if (err)
		return err;
	ext4_count_free_blocks(fs, nr);
	ext4_on_commit(op->h, &r->cb);
	return 0;
}

int ext4_bfree(struct ext4_op *op, struct ext4_inode *in, uint64_t block, uint32_t nr, bool meta)
{
	struct ext4_fs *fs = op->fs;
	const uint64_t sectors = (uint64_t)nr << (fs->block_bits - BLK_SECTOR_SHIFT);
	int err = 0;

	assert_mutex_held(&fs->change);
	if (!ext4_blocks_ok(fs, block, nr))
		return ext4_op_abort(op,
				     ext4_corrupt(fs, "inode %u: freeing block %llu", in->ino,
						  (unsigned long long)block),
				     "freeing blocks");
	for (uint32_t i = 0; i < nr && meta && !err; i++)
		err = ext4_revoke(op->h, block + i, NULL);
	while (nr && !err) {
		const uint64_t rel = block - fs->first_data_block;
		const uint32_t group = (uint32_t)(rel / fs->blocks_per_group);
		const uint32_t bit = (uint32_t)(rel % fs->blocks_per_group);
		const uint32_t n = MIN(nr, fs->blocks_per_group - bit);
		struct freed_run *r = ext4_small_alloc(fs);

		err = r ? 0 : -ENOMEM;
		busy_prepare(fs, group);
		if (!err && ext4_zones_hit(fs, block, n))
			err = ext4_corrupt(fs, "inode %u: its block %llu is metadata", in->ino,
					   (unsigned long long)block);
		if (!err) {
			ext4_group_lock(fs, group);
			err = free_in_group(op, group, bit, n, r);
			ext4_group_unlock(fs, group);
		}
		if (err)
			ext4_small_free(fs, r);
		block += n;
		nr -= n;
	}
	if (err)
		return ext4_op_abort(op, err, "freeing blocks");
	in->blocks -= MIN(in->blocks, sectors);
	return 0;
}
