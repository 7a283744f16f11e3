/* SPDX-License-Identifier: MIT */
/*
 * ext4: room that is kept for names that are to come.
 *
 * Flow:	fs_rooms() says for how many; ext4_avail() leaves EXT4_ROOM_BLOCKS for each of them
 *		alone, but for the change that brings one (fs_change.room), which takes what it
 *		needs out of its own. A promise of blocks that is told again takes them back.
 * Locking:	fs->change.
 */
#include <kernel/mutex.h>
#include <kernel/panic.h>

#include "ext4_write.h"

uint32_t ext4_rooms(struct ext4_fs *fs, uint32_t nr)
{
	uint64_t taken, fit;

	mutex_lock(&fs->change);
	taken = fs->delayed + fs->r_blocks;
	fit = ext4_free_blocks(fs);
	fit = fit > taken ? (fit - taken) / EXT4_ROOM_BLOCKS : 0;
	if (nr > fit)
		nr = MAX((uint32_t)fit, MIN(nr, fs->rooms));
	WRITE_ONCE(fs->rooms, nr);
	mutex_unlock(&fs->change);
	return nr;
}

void ext4_rooms_fit(struct ext4_fs *fs)
{
	const uint64_t nr_free = ext4_free_blocks(fs), delayed = fs->delayed;
	const uint64_t fit = nr_free > delayed ? (nr_free - delayed) / EXT4_ROOM_BLOCKS : 0;

	assert_mutex_held(&fs->change);
	if (fs->rooms > fit)
		WRITE_ONCE(fs->rooms, (uint32_t)fit);
}

void ext4_room_used(struct ext4_op *op)
{
	assert_mutex_held(&op->fs->change);
	if (!op->room)
		return;
	ASSERT(op->fs->rooms);
	WRITE_ONCE(op->fs->rooms, op->fs->rooms - 1);
	op->room = false;
}
