/* SPDX-License-Identifier: MIT */
/*
 * ext4: free inodes that are lent: a caller names its files by them before it makes these.
 *
 * Flow:	fs_lend() -> fs_create() with the number, by which it is lent no more, or
 *		fs_unlend_all().
 * Locking:	fs->change.
 * Limits:	MAX_LENT at a time.
 * Failure:	nothing of it is on the disk, so after a mount the numbers are free for all; one
 *		that another file has got meanwhile is -EEXIST for the caller that was lent it.
 */
#include <kernel/mutex.h>
#include <kernel/panic.h>
#include <kernel/rwsem.h>
#include <lib/bitmap.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/hash.h>
#include <lib/list.h>
#include <mm/slab.h>

#include "ext4_write.h"

#define MAX_LENT 256u
#define BUCKETS  64u

struct lent {
	struct list_head link;
	uint32_t ino;
};

struct ext4_lending {
	uint32_t nr;
	struct list_head buckets[BUCKETS]; /* by number */
};

static struct list_head *bucket_of(struct ext4_lending *all, uint32_t ino)
{
	return &all->buckets[hash64(ino) % BUCKETS];
}

static struct lent *find(struct ext4_lending *all, uint32_t ino)
{
	struct lent *l;

	list_for_each_entry(l, bucket_of(all, ino), link) {
		if (l->ino == ino)
			return l;
	}
	return NULL;
}

bool ext4_is_lent(struct ext4_fs *fs, uint32_t ino)
{
	return fs->lending && fs->lending->nr && find(fs->lending, ino);
}

void ext4_unlend(struct ext4_fs *fs, uint32_t ino)
{
	struct lent *l = fs->lending ? find(fs->lending, ino) : NULL;

	if (!l)
		return;
	list_del(&l->link);
	kfree(l);
	fs->lending->nr--;
}

void ext4_unlend_all(struct ext4_fs *fs)
{
	struct ext4_lending *all = fs->lending;
	struct lent *l, *next;

	if (!all)
		return;
	for (size_t i = 0; i < BUCKETS; i++) {
		list_for_each_entry_safe(l, next, &all->buckets[i], link)
			kfree(l);
	}
	kfree(all);
	fs->lending = NULL;
}

static struct ext4_lending *lending_of(struct ext4_fs *fs)
{
	struct ext4_lending *all = fs->lending ? fs->lending : kzalloc(sizeof(*all));

	if (!all || fs->lending)
		return all;
	for (size_t i = 0; i < BUCKETS; i++)
		list_init(&all->buckets[i]);
	fs->lending = all;
	return all;
}

/* Lend up to @nr inodes of @group, whose lock is held: how many, or -errno. */
static int lend_of_group(struct ext4_fs *fs, uint32_t group, uint32_t nr, struct fs_lent *out)
{
	struct ext4_lending *all = fs->lending;
	const uint32_t per = fs->inodes_per_group;
	const uint64_t *map;
	struct bcache_buf *buf;
	struct ext4_gd gd;
	uint32_t n = 0;
	size_t bit = group ? 0 : fs->first_ino - 1;
	int err;

	err = ext4_gd_read(fs, group, &gd);
	if (err || !gd.free_inodes)
		return err;
	buf = ext4_inode_bitmap(fs, group, &gd);
	if (IS_ERR(buf))
		return (int)PTR_ERR(buf);
	map = (const void *)buf->data;
	for (; n < nr && all->nr < MAX_LENT; bit++) {
		struct lent *l;

		bit = bitmap_find_next_zero(map, per, bit);
		if (bit >= per)
			break;
		if (ext4_is_lent(fs, group * per + (uint32_t)bit + 1))
			continue;
		l = kmalloc(sizeof(*l));
		if (!l) {
			err = -ENOMEM;
			break;
		}
		l->ino = group * per + (uint32_t)bit + 1;
		list_add(&l->link, bucket_of(all, l->ino));
		all->nr++;
		out[n++] = (struct fs_lent){ .ino = l->ino, .gen = ext4_next_gen(fs) };
	}
	bcache_put(buf);
	return n ? (int)n : err;
}

int ext4_lend(struct ext4_inode *dir, uint32_t nr, struct fs_lent *out)
{
	struct ext4_fs *fs = dir->fs;
	const uint32_t first = (dir->ino - 1) / fs->inodes_per_group;
	uint32_t n = 0;
	int got = 0;

	mutex_lock(&fs->change);
	if (!lending_of(fs))
		got = -ENOMEM;
	for (uint32_t i = 0; i < fs->nr_groups && n < nr && got >= 0; i++) {
		const uint32_t g = (first + i) % fs->nr_groups;

		if (fs->lending->nr >= MAX_LENT)
			break;
		ext4_group_lock(fs, g);
		got = lend_of_group(fs, g, nr - n, out + n);
		ext4_group_unlock(fs, g);
		n += got > 0 ? (uint32_t)got : 0;
	}
	mutex_unlock(&fs->change);
	return n ? (int)n : MIN(got, 0);
}
