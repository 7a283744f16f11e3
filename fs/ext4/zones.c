/* SPDX-License-Identifier: MIT */
/*
 * ext4: the blocks that no file may have.
 *
 * Flow:	a mount that may write enters what each group keeps (superblock, descriptors,
 *		bitmaps, inode table), the journal and the mark of mmp.  The allocator asks before
 *		it gives blocks out or frees them, ext4_map_blocks() before a file's blocks are read
 *		or written; pointers, extents and attributes by ext4_block_of_file().
 *		A bitmap or an extent may name such blocks though its checksum is right, or has
 *		none.
 * Invariants:	zones do not overlap; neighbours that were entered in order are one zone, so that a
 *		disk with flex_bg has few.
 * Locking:	const after mount.
 * Failure:	metadata that overlaps is corruption: the mount is refused.
 */
#include <lib/errno.h>
#include <mm/slab.h>

#include "ext4_write.h"
#include "journal_priv.h"

struct zone {
	struct rb_node node; /* by from */
	uint64_t from, to;   /* blocks; to is the one behind it */
};

/* The last zone that begins before block @to. */
static struct zone *zone_before(const struct ext4_fs *fs, uint64_t to)
{
	struct rb_node *n = fs->zones.node;
	struct zone *found = NULL;

	while (n) {
		struct zone *z = rb_entry(n, struct zone, node);

		if (z->from < to)
			found = z;
		n = z->from < to ? n->right : n->left;
	}
	return found;
}

bool ext4_zones_hit(const struct ext4_fs *fs, uint64_t block, uint64_t nr)
{
	const struct zone *z = zone_before(fs, block + nr);

	return z && z->to > block;
}

static int zone_cmp(const struct rb_node *a, const struct rb_node *b)
{
	const uint64_t x = rb_entry(a, struct zone, node)->from;
	const uint64_t y = rb_entry(b, struct zone, node)->from;

	return x < y ? -1 : x > y;
}

/* -EUCLEAN, unsaid: outside of the disk, or some of it is in a zone. */
static int add(struct ext4_fs *fs, uint64_t from, uint64_t nr)
{
	struct zone *z;

	if (!nr)
		return 0;
	if (from > fs->nr_blocks || nr > fs->nr_blocks - from || ext4_zones_hit(fs, from, nr))
		return -EUCLEAN;
	z = zone_before(fs, from);
	if (z && z->to == from) {
		z->to += nr;
		return 0;
	}
	z = kzalloc(sizeof(*z));
	if (!z)
		return -ENOMEM;
	z->from = from;
	z->to = from + nr;
	rb_insert(&z->node, &fs->zones, zone_cmp);
	return 0;
}

static int add_group(struct ext4_fs *fs, uint32_t group)
{
	const uint64_t itable =
		DIV_ROUND_UP((uint64_t)fs->inodes_per_group * fs->inode_size, fs->block_size);
	struct ext4_gd gd;
	int err = ext4_gd_read(fs, group, &gd);

	if (!err)
		err = add(fs, ext4_group_first_block(fs, group),
			  MIN(ext4_group_base_blocks(fs, group), ext4_group_nr_blocks(fs, group)));
	if (!err)
		err = add(fs, gd.block_bitmap, 1);
	if (!err)
		err = add(fs, gd.inode_bitmap, 1);
	if (!err)
		err = add(fs, gd.inode_table, itable);
	if (err == -EUCLEAN)
		err = ext4_corrupt(fs, "group %u: its metadata lies in that of another", group);
	return err;
}

static int add_of(struct ext4_fs *fs, const char *whose, uint64_t block, uint64_t nr)
{
	const int err = add(fs, block, nr);

	return err != -EUCLEAN ? err
			       : ext4_corrupt(fs, "%s: its block %llu is metadata", whose,
					      (unsigned long long)block);
}

int ext4_zones_make(struct ext4_fs *fs, const struct log *log)
{
	int err = 0;

	ext4_zones_free(fs);
	for (uint32_t g = 0; g < fs->nr_groups && !err; g++)
		err = add_group(fs, g);
	for (uint32_t i = 0; log && i < log->nr_runs && !err; i++)
		err = add_of(fs, "journal", log->runs[i].block, log->runs[i].len);
	if (!err && fs->mmp)
		err = add_of(fs, "mmp", ext4_mmp_block(fs), 1);
	return err;
}

void ext4_zones_free(struct ext4_fs *fs)
{
	struct rb_node *n;

	while ((n = fs->zones.node)) {
		rb_erase(n, &fs->zones);
		kfree(rb_entry(n, struct zone, node));
	}
}
