/* SPDX-License-Identifier: MIT */
/*
 * ext4: the mapping of a file's blocks, allocated and freed, whichever way the file keeps it.
 *
 * Locking:	in->lock for writing.
 */
#include <kernel/panic.h>
#include <kernel/rwsem.h>
#include <lib/errno.h>

#include "ext4_write.h"

/* Behind the block before @lblk, if that has one; or where the last allocation ended. */
static uint64_t goal_for(struct ext4_inode *in, uint32_t lblk)
{
	struct ext4_map map;

	if (lblk && !ext4_map_blocks(in, lblk - 1, 1, &map) && map.type != EXT4_MAP_HOLE)
		return map.block + 1;
	return in->last_goal ? in->last_goal : ext4_goal_of(in);
}

int ext4_map_alloc(struct ext4_op *op, struct ext4_inode *in, uint32_t lblk, uint32_t max,
		   bool unwritten, struct ext4_map *map, bool *fresh)
{
	const bool extents = in->flags & EXT4_FL_EXTENTS;
	uint64_t goal;
	uint32_t nr;
	int err;

	assert_rwsem_held_write(&in->lock);
	*fresh = false;
	err = ext4_map_blocks(in, lblk, max, map);
	if (err || map->type != EXT4_MAP_HOLE)
		return err;
	goal = goal_for(in, lblk);
	nr = MIN(map->len, max);
	if (!extents) {
		if (unwritten)
			return -EOPNOTSUPP;
		err = ext4_indirect_alloc(op, in, lblk, nr, goal, map);
	} else {
		/* Extents are at most so long, and one of them at a time keeps credits bounded. */
		nr = MIN(nr, EXT4_EXTENT_MAX_INIT - 1);
		err = ext4_balloc(op, in, goal, &nr, &map->block);
		if (err)
			return err;
		err = ext4_extent_insert(op, in, lblk, nr, map->block, unwritten);
		if (err) {
			const int free_err = ext4_bfree(op, in, map->block, nr, false);

			return free_err ? free_err : err;
		}
		map->len = nr;
		map->type = unwritten ? EXT4_MAP_UNWRITTEN : EXT4_MAP_DATA;
	}
	if (err)
		return err;
	in->last_goal = map->block + map->len;
	*fresh = true;
	return 0;
}

int ext4_map_remove(struct ext4_op *op, struct ext4_inode *in, uint64_t from, uint64_t to)
{
	assert_rwsem_held_write(&in->lock);
	if (from >= to)
		return 0;
	if (in->flags & EXT4_FL_EXTENTS)
		return ext4_extent_remove(op, in, from, to);
	return ext4_indirect_remove(op, in, from, to);
}
