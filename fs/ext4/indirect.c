/* SPDX-License-Identifier: MIT */
/*
 * ext2 and ext3: from a file's blocks to the disk's by direct pointers and up to three
 * levels of indirect blocks.
 *
 * A walk reads at most three blocks, so pointers that form a cycle cannot hold it up.
 * Indirect blocks have no checksum; every pointer is checked when it is used.
 */
#include <lib/err.h>
#include <lib/errno.h>

#include "indirect_priv.h"

bool ext4_indirect_path(const struct ext4_fs *fs, uint32_t lblk, struct indirect_path *p)
{
	const unsigned int bits = fs->block_bits - 2; /* pointers of 4 bytes */
	uint64_t rest = lblk;

	if (rest < EXT4_NR_DIRECT) {
		*p = (struct indirect_path){ .levels = 0, .slot = lblk, .index = 0 };
		return true;
	}
	rest -= EXT4_NR_DIRECT;
	for (unsigned int level = 1; level <= 3; level++) {
		const uint64_t covers = 1ull << bits * level;

		if (rest < covers) {
			p->levels = level;
			p->slot = EXT4_NR_DIRECT + level - 1;
			p->index = rest;
			return true;
		}
		rest -= covers;
	}
	return false;
}

/* How many entries of @ptrs from @i to @nr continue the run (of blocks or holes) that begins. */
static uint32_t run_length(const le32_t *ptrs, uint32_t i, uint32_t nr, uint32_t max)
{
	const uint32_t first = le32_to_cpu(ptrs[i]);
	uint32_t len = 1;

	while (len < max && i + len < nr) {
		const uint32_t p = le32_to_cpu(ptrs[i + len]);

		if (p != (first ? first + len : 0))
			break;
		len++;
	}
	return len;
}

static int map_run(struct ext4_inode *in, const le32_t *ptrs, uint32_t i, uint32_t nr, uint32_t max,
		   struct ext4_map *map)
{
	map->block = le32_to_cpu(ptrs[i]);
	map->len = run_length(ptrs, i, nr, max);
	map->type = map->block ? EXT4_MAP_DATA : EXT4_MAP_HOLE;
	if (map->block && !ext4_blocks_ok(in->fs, map->block, map->len))
		return ext4_corrupt(in->fs, "inode %u: points to block %llu", in->ino,
				    (unsigned long long)map->block);
	return 0;
}

/* A zero pointer at some level: all that it covers from @index on is a hole. */
static int map_hole(struct ext4_map *map, uint64_t covers, uint64_t index, uint32_t max)
{
	const uint64_t left = covers - (index & (covers - 1));

	map->type = EXT4_MAP_HOLE;
	map->block = 0;
	map->len = left < max ? (uint32_t)left : max;
	return 0;
}

int ext4_indirect_map(struct ext4_inode *in, uint32_t lblk, uint32_t max, struct ext4_map *map)
{
	struct ext4_fs *fs = in->fs;
	const unsigned int bits = fs->block_bits - 2;
	const uint32_t per_block = 1u << bits;
	struct bcache_buf *buf;
	const le32_t *ptrs;
	struct indirect_path p;
	uint64_t block;
	int err;

	if (!ext4_indirect_path(fs, lblk, &p))
		return map_hole(map, 1, 0, 1); /* past what pointers can reach */
	if (!p.levels)
		return map_run(in, in->block, p.slot, EXT4_NR_DIRECT, max, map);

	block = le32_to_cpu(in->block[p.slot]);
	for (unsigned int level = p.levels; level > 0; level--) {
		const uint32_t i = (p.index >> bits * (level - 1)) & (per_block - 1);

		if (!block)
			return map_hole(map, 1ull << bits * level, p.index, max);
		if (!ext4_block_of_file(fs, block))
			return ext4_corrupt(fs, "inode %u: indirect block %llu", in->ino,
					    (unsigned long long)block);
		buf = bcache_get(fs->bc, block);
		if (IS_ERR(buf))
			return (int)PTR_ERR(buf);
		ptrs = (const void *)buf->data;
		if (level == 1) {
			err = map_run(in, ptrs, i, per_block, max, map);
			bcache_put(buf);
			return err;
		}
		block = le32_to_cpu(ptrs[i]);
		bcache_put(buf);
	}
	return -EUCLEAN; /* not reached */
}
