/* SPDX-License-Identifier: MIT */
/*
 * ext4: memory that is set aside before a change, so that a change that has begun never lacks any.
 *
 * Flow:	ext4_op_begin() -> ext4_reserve_begin(), which answers -ENOMEM while nothing has
 *		changed yet; in the change ext4_alloc() takes from here what kmalloc() does not
 *		give.  A long change asks ext4_reserve_fill() before each step, and restarts its
 *		transaction when that fails: the commit and the checkpoint that follow give back
 *		what the transaction had (ext4_restart()).
 * Context:	threads; never sleeps for the disk.
 * Locking:	res->lock.  The owner is the thread that holds fs->change.
 * Limits:	for the credits of the change: a buffer for each block and a few to read, two small
 *		objects for each; and a few pieces of the size of two blocks.  That is 700 KiB for a
 *		rename on a disk with blocks of 4 KiB, kept until the end of the mount.
 * See:		docs/design/storage.md
 */
#include <kernel/panic.h>
#include <kernel/spinlock.h>
#include <kernel/thread.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <mm/slab.h>

#include "ext4_write.h"
#include "journal_priv.h"

#define READ_BUFS  16u /* that a change holds or reads beside those that it changes */
#define FREED_STEP 96u /* small objects of one step that frees blocks */
#define BIG_PIECES 6u

static size_t big_len(const struct ext4_fs *fs)
{
	return 2 * (size_t)fs->block_size + MAX(fs->inode_size, 1024u);
}

static int fill_pile(struct ext4_reserve *res, struct ext4_pile *pile, uint32_t want, size_t size)
{
	uint32_t have;

	spin_lock(&res->lock);
	have = pile->nr;
	spin_unlock(&res->lock);
	for (; have < want; have++) {
		struct list_head *piece = kmalloc(size);

		if (!piece)
			return -ENOMEM;
		spin_lock(&res->lock);
		list_add(piece, &pile->pieces);
		pile->nr++;
		spin_unlock(&res->lock);
	}
	return 0;
}

int ext4_reserve_fill(struct ext4_fs *fs, uint32_t credits)
{
	struct ext4_reserve *res = &fs->reserve;
	const uint32_t want = 2 * credits + FREED_STEP;
	int err;

	spin_lock(&res->lock);
	res->want_small = MAX(res->want_small, want);
	spin_unlock(&res->lock);
	err = fill_pile(res, &res->small, want, EXT4_SMALL_LEN);
	if (!err)
		err = bcache_set_aside(fs->bc, credits + READ_BUFS);
	return err ? err : journal_set_aside(fs->journal);
}

static void set_owner(struct ext4_fs *fs, struct thread *owner)
{
	spin_lock(&fs->reserve.lock);
	fs->reserve.owner = owner;
	spin_unlock(&fs->reserve.lock);
	bcache_set_owner(fs->bc, owner);
}

int ext4_reserve_begin(struct ext4_fs *fs, uint32_t credits)
{
	struct ext4_reserve *res = &fs->reserve;
	int err;

	assert_mutex_held(&fs->change);
	err = fs->journal ? ext4_reserve_fill(fs, credits) : -EROFS;
	if (!err)
		err = fill_pile(res, &res->big, BIG_PIECES, big_len(fs));
	if (err)
		return err;
	set_owner(fs, thread_current());
	return 0;
}

void ext4_reserve_end(struct ext4_fs *fs)
{
	assert_mutex_held(&fs->change);
	set_owner(fs, NULL);
}

static void *take(struct ext4_reserve *res, struct ext4_pile *pile)
{
	struct list_head *piece = NULL;

	spin_lock(&res->lock);
	if (pile->nr && res->owner == thread_current()) {
		piece = pile->pieces.next;
		list_del(piece);
		pile->nr--;
	}
	spin_unlock(&res->lock);
	return piece;
}

void *ext4_alloc(struct ext4_fs *fs, size_t size)
{
	struct ext4_reserve *res = &fs->reserve;
	void *p = kmalloc(size);

	if (!p && size <= big_len(fs))
		p = take(res, &res->big);
	if (p)
		memset(p, 0, size);
	return p;
}

void *ext4_small_alloc(struct ext4_fs *fs)
{
	struct ext4_reserve *res = &fs->reserve;
	void *p = kmalloc(EXT4_SMALL_LEN);

	if (!p)
		p = take(res, &res->small);
	if (p)
		memset(p, 0, EXT4_SMALL_LEN);
	return p;
}

void ext4_small_free(struct ext4_fs *fs, void *p)
{
	struct ext4_reserve *res = &fs->reserve;
	struct list_head *piece = p;

	if (!p)
		return;
	spin_lock(&res->lock);
	if (res->small.nr < res->want_small) {
		list_add(piece, &res->small.pieces);
		res->small.nr++;
		piece = NULL;
	}
	spin_unlock(&res->lock);
	kfree(piece);
}

void ext4_reserve_init(struct ext4_fs *fs)
{
	struct ext4_reserve *res = &fs->reserve;

	spin_lock_init(&res->lock, "ext4-reserve", RANK_SPIN_FS);
	list_init(&res->small.pieces);
	list_init(&res->big.pieces);
}

static void free_pile(struct ext4_pile *pile)
{
	while (!list_empty(&pile->pieces)) {
		struct list_head *piece = pile->pieces.next;

		list_del(piece);
		kfree(piece);
	}
	pile->nr = 0;
}

void ext4_reserve_exit(struct ext4_fs *fs)
{
	struct ext4_reserve *res = &fs->reserve;

	lock_not_needed(&res->lock, "the mount is over");
	free_pile(&res->small);
	free_pile(&res->big);
}
