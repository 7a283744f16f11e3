/* SPDX-License-Identifier: MIT */
/*
 * ext4: inodes without a name: they live while they are open, and go afterwards.
 *
 * Invariants:	an inode without names is in fs->nameless, which holds it, and on the disk's list of
 *		orphans, until ext4_evict() freed it or fs_link() gave it a name.
 * Locking:	in->open and fs->nameless: fs->change.
 */
#include <kernel/mutex.h>
#include <kernel/panic.h>
#include <kernel/printk.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/list.h>

#include "ext4_write.h"
#include "journal_priv.h"

/* There was no memory to free @in: once more, later. */
static void note_unfreed(struct ext4_inode *in)
{
	mutex_lock(&in->fs->change);
	in->fs->nr_unfreed += !in->unfreed;
	in->unfreed = true;
	mutex_unlock(&in->fs->change);
}

static bool evict(struct ext4_inode *in)
{
	struct ext4_op op;
	bool freed = false;
	int err;

	err = ext4_op_begin(&op, in->fs, EXT4_CREDITS_MAP, NULL, &in, 1);
	if (err == -ENOMEM)
		note_unfreed(in);
	if (err)
		return false; /* it stays on the list, for the next mount at last */
	if (!in->nlink && !in->open && in->orphan && !in->gone) {
		err = ext4_evict(&op, in);
		freed = !err;
	}
	err = ext4_op_end(&op, in, err);
	if (err)
		pr_warn("inode %u is not freed: %d\n", in->ino, err);
	if (freed)
		ext4_inode_put(in); /* what the list of orphans held */
	return freed;
}

/* A file that could not be freed for want of memory, held, or NULL. */
static struct ext4_inode *take_unfreed(struct ext4_fs *fs)
{
	struct ext4_inode *in, *found = NULL;

	mutex_lock(&fs->change);
	if (fs->nr_unfreed) {
		list_for_each_entry(in, &fs->nameless, orphan_link) {
			if (!in->unfreed)
				continue;
			in->unfreed = false;
			fs->nr_unfreed--;
			ext4_inode_hold(in);
			found = in;
			break;
		}
	}
	mutex_unlock(&fs->change);
	return found;
}

void ext4_evict_again(struct ext4_fs *fs)
{
	struct ext4_inode *in;
	bool freed = true;

	while (freed && (in = take_unfreed(fs)) != NULL) {
		freed = evict(in);
		ext4_inode_put(in);
	}
}

void ext4_evict_unused(struct ext4_inode *in)
{
	if (evict(in))
		ext4_evict_again(in->fs);
}

bool ext4_room_after_sync(struct ext4_fs *fs)
{
	ext4_evict_again(fs);
	return ext4_has_busy(fs) && !ext4_sync(fs);
}

void ext4_open_ref(struct ext4_inode *in)
{
	mutex_lock(&in->fs->change);
	in->open++;
	if (in->open == 1)
		ext4_inode_hold(in);
	mutex_unlock(&in->fs->change);
}

void ext4_close_ref(struct ext4_inode *in)
{
	bool last, unused;

	mutex_lock(&in->fs->change);
	ASSERT(in->open);
	last = --in->open == 0;
	unused = last && in->orphan && !in->gone;
	mutex_unlock(&in->fs->change);
	if (unused)
		ext4_evict_unused(in);
	if (last)
		ext4_inode_put(in);
}

void ext4_orphans_release(struct ext4_fs *fs)
{
	struct ext4_inode *in, *found;

	do {
		found = NULL;
		mutex_lock(&fs->change);
		list_for_each_entry(in, &fs->nameless, orphan_link) {
			if (!in->open && !in->nlink && !in->stuck) {
				found = in;
				ext4_inode_hold(in);
				/* One try is enough, should it fail; the others come first. */
				in->stuck = true;
				list_del(&in->orphan_link);
				list_add_tail(&in->orphan_link, &fs->nameless);
				break;
			}
		}
		mutex_unlock(&fs->change);
		if (found) {
			ext4_evict_unused(found);
			ext4_inode_put(found);
		}
	} while (found && !ext4_aborted(fs));
}

/* At mount: finish a truncation, or keep a file without a name until fs_orphans_release(). */
static int adopt_orphan(struct ext4_fs *fs, uint32_t ino)
{
	struct ext4_inode *in = ext4_inode_get_orphan(fs, ino);
	struct ext4_op op;
	int err;

	if (PTR_ERR(in) == -ESTALE)
		return ext4_corrupt(fs, "orphan list: inode %u is not in use", ino);
	if (IS_ERR(in))
		return (int)PTR_ERR(in);
	err = ext4_op_begin(&op, fs, EXT4_CREDITS_NAMES, NULL, &in, 1);
	if (err)
		goto out;
	in->orphan = true;
	if (!in->nlink) {
		ext4_inode_hold(in);
		list_add_tail(&in->orphan_link, &fs->nameless);
	} else {
		if ((in->mode & S_IFMT) == S_IFREG)
			err = ext4_truncate(&op, in, in->size);
		if (!err)
			err = ext4_orphan_del(op.h, ino);
		in->orphan = err != 0;
		if (!err)
			err = ext4_inode_write(&op, in);
	}
	err = ext4_op_end(&op, in, err);
out:
	ext4_inode_put(in);
	return err;
}

int ext4_write_start(struct ext4_fs *fs)
{
	int err;

	err = ext4_balloc_init(fs);
	if (!err)
		err = ext4_orphans_process(fs, adopt_orphan);
	if (!err)
		err = ext4_changes_start(fs);
	if (err) {
		/* The changes that were begun do not reach the disk. */
		(void)journal_abort(fs->journal, err);
		return err;
	}
	fs->base.changes = &ext4_write_ops;
	WRITE_ONCE(fs->base.read_only, false);
	return 0;
}

void ext4_write_stop(struct ext4_fs *fs)
{
	struct ext4_inode *in, *next;

	if (!fs->busy)
		return;
	if (!ext4_aborted(fs)) {
		ext4_evict_again(fs);
		ext4_orphans_release(fs);
	}
	lock_not_needed(&fs->change, "no inode is held, so no other thread is here");
	list_for_each_entry_safe(in, next, &fs->nameless, orphan_link) {
		list_del(&in->orphan_link);
		ext4_inode_put(in);
	}
}
