/* SPDX-License-Identifier: MIT */
/*
 * ext4: the list of orphans: inodes that a crash must not leave as they are.
 *
 * On disk it is a chain from s_last_orphan over i_dtime of each inode on it; in memory a list in
 * the same order, so that an inode's predecessor is known, and a tree to find it by.
 *
 * Context:	threads with a handle; sleeps.
 * Locking:	fs->orphan_lock guards the list, and the chain on the disk.
 * Limits:	a chain read from the disk may be anything: it costs one step, of logarithmic time,
 *		for each inode, and a loop, or an inode that cannot be an orphan, ends the mount
 *		before anything is changed.
 */
#include <kernel/panic.h>
#include <lib/bitmap.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/string.h>

#include "group.h"
#include "journal_priv.h"

struct orphan {
	struct list_head link; /* ext4_fs.orphans */
	struct rb_node node;   /* ext4_fs.orphan_tree */
	uint32_t ino;
};
static_assert(sizeof(struct orphan) <= EXT4_SMALL_LEN, "a small object");

static int cmp_orphan(const struct rb_node *a, const struct rb_node *b)
{
	const uint32_t x = rb_entry(a, struct orphan, node)->ino;
	const uint32_t y = rb_entry(b, struct orphan, node)->ino;

	return x < y ? -1 : x > y;
}

static struct orphan *find_locked(struct ext4_fs *fs, uint32_t ino) __must_hold(&fs->orphan_lock)
{
	const struct orphan key = { .ino = ino };
	struct rb_node *n = fs->orphan_tree.node;

	assert_mutex_held(&fs->orphan_lock);
	while (n) {
		const int cmp = cmp_orphan(&key.node, n);

		if (!cmp)
			return rb_entry(n, struct orphan, node);
		n = cmp < 0 ? n->left : n->right;
	}
	return NULL;
}

/* Let inode @ino point to @next. */
static int set_next(struct ext4_handle *h, uint32_t ino, uint32_t next)
{
	struct ext4_fs *fs = ext4_handle_fs(h);
	struct bcache_buf *buf;
	uint8_t *raw;
	int err;

	err = ext4_raw_inode(fs, ino, &buf, &raw);
	if (err)
		return err;
	err = ext4_write_access(h, buf);
	if (!err) {
		ext4_raw_lock(fs, ino);
		ext4_inode_dtime_set(fs, raw, next);
		ext4_raw_unlock(fs, ino);
		err = ext4_dirty(h, buf);
	}
	bcache_put(buf);
	return err;
}

static int set_first(struct ext4_handle *h, uint32_t ino)
{
	return ext4_super_set_orphan(ext4_handle_fs(h), h, ino);
}

int ext4_orphan_add(struct ext4_handle *h, uint32_t ino)
{
	struct ext4_fs *fs = ext4_handle_fs(h);
	struct orphan *o = ext4_small_alloc(fs);
	uint32_t first = 0;
	int err = 0;

	if (!o)
		return -ENOMEM;
	o->ino = ino;
	mutex_lock(&fs->orphan_lock);
	if (find_locked(fs, ino))
		goto out;
	if (!list_empty(&fs->orphans))
		first = list_first_entry(&fs->orphans, struct orphan, link)->ino;
	err = set_next(h, ino, first);
	if (!err)
		err = set_first(h, ino);
	if (err)
		goto out;
	list_add(&o->link, &fs->orphans);
	rb_insert(&o->node, &fs->orphan_tree, cmp_orphan);
	o = NULL;
out:
	mutex_unlock(&fs->orphan_lock);
	ext4_small_free(fs, o);
	return err;
}

int ext4_orphan_del(struct ext4_handle *h, uint32_t ino)
{
	struct ext4_fs *fs = ext4_handle_fs(h);
	uint32_t next = 0;
	struct orphan *o;
	int err = 0;

	mutex_lock(&fs->orphan_lock);
	o = find_locked(fs, ino);
	if (o) {
		if (!list_is_last(&o->link, &fs->orphans))
			next = list_next_entry(o, link)->ino;
		if (o->link.prev == &fs->orphans)
			err = set_first(h, next);
		else
			err = set_next(h, list_entry(o->link.prev, struct orphan, link)->ino, next);
		if (!err)
			err = set_next(h, ino, 0);
		if (!err) {
			list_del(&o->link);
			rb_erase(&o->node, &fs->orphan_tree);
		} else {
			o = NULL;
		}
	}
	mutex_unlock(&fs->orphan_lock);
	ext4_small_free(fs, o);
	return err;
}

/* Only an inode that is in use can be an orphan. */
static int check_in_use(struct ext4_fs *fs, uint32_t ino)
{
	const uint32_t group = (ino - 1) / fs->inodes_per_group;
	struct bcache_buf *buf = NULL;
	struct ext4_gd gd;
	int err;

	ext4_group_lock(fs, group);
	err = ext4_gd_read(fs, group, &gd);
	if (!err) {
		buf = ext4_inode_bitmap(fs, group, &gd);
		if (IS_ERR(buf)) {
			err = (int)PTR_ERR(buf);
			buf = NULL;
		}
	}
	if (!err && !bitmap_test((const uint64_t *)(const void *)buf->data,
				 (ino - 1) % fs->inodes_per_group))
		err = ext4_corrupt(fs, "orphan list: inode %u is free", ino);
	if (buf)
		bcache_put(buf);
	ext4_group_unlock(fs, group);
	return err;
}

/* Put @ino at the list's end. */
static int append(struct ext4_fs *fs, uint32_t ino)
{
	struct orphan *o = ext4_small_alloc(fs);
	bool again;

	if (!o)
		return -ENOMEM;
	o->ino = ino;
	mutex_lock(&fs->orphan_lock);
	again = rb_insert(&o->node, &fs->orphan_tree, cmp_orphan) != NULL;
	if (!again)
		list_add_tail(&o->link, &fs->orphans);
	mutex_unlock(&fs->orphan_lock);
	if (!again)
		return 0;
	ext4_small_free(fs, o);
	return ext4_corrupt(fs, "orphan list: inode %u is on it twice", ino);
}

/* Read the chain into the list; inodes that cannot be orphans, or a loop, are corruption. */
static int read_chain(struct ext4_fs *fs)
{
	uint32_t ino = le32_to_cpu(ext4_super_in(fs, fs->super_buf)->last_orphan);
	struct bcache_buf *buf;
	uint8_t *raw;
	int err;

	while (ino) {
		if (ino < fs->first_ino || ino > fs->nr_inodes)
			return ext4_corrupt(fs, "orphan list: inode %u", ino);
		err = check_in_use(fs, ino);
		if (!err)
			err = append(fs, ino);
		if (!err)
			err = ext4_raw_inode(fs, ino, &buf, &raw);
		if (err)
			return err;
		ino = get_unaligned_le32(raw + offsetof(struct ext4_inode_disk, dtime));
		bcache_put(buf);
	}
	return 0;
}

int ext4_orphans_process(struct ext4_fs *fs, int (*fn)(struct ext4_fs *fs, uint32_t ino))
{
	struct orphan *o, *next;
	int err = read_chain(fs);

	lock_not_needed(&fs->orphan_lock, "the mount is not there for others yet");
	if (err)
		return err;
	list_for_each_entry_safe(o, next, &fs->orphans, link) {
		err = fn(fs, o->ino); /* takes at most this one off the list */
		if (err)
			return err;
	}
	return 0;
}

void ext4_orphans_free(struct ext4_fs *fs)
{
	struct orphan *o, *next;

	lock_not_needed(&fs->orphan_lock, "the mount is over");
	list_for_each_entry_safe(o, next, &fs->orphans, link) {
		list_del(&o->link);
		rb_erase(&o->node, &fs->orphan_tree);
		ext4_small_free(fs, o);
	}
}
