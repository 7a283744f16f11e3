/* SPDX-License-Identifier: MIT */
/*
 * ext4: inodes back to their table.
 *
 * in->raw holds the inode's bytes as they were last on the disk, extended attributes included;
 * encode() puts the fields that changed over them.
 *
 * Locking:	the caller holds in->lock for writing, and fs->change.  fs->show_lock orders the
 *		bytes of the table and what fs_inode_stat() shows with their readers.
 */
#include <drivers/blkdev.h>
#include <kernel/panic.h>
#include <kernel/rwsem.h>
#include <kernel/spinlock.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/string.h>

#include "ext4_write.h"

#define CLOCKS_APART_S 10 /* clocks of components differ by less */

#define DTIME_AT offsetof(struct ext4_inode_disk, dtime)

/* Does the inode have the four bytes of a field that ends at @end? */
static bool has_field(const struct ext4_inode *in, size_t end)
{
	const struct ext4_inode_disk *d = (const void *)in->raw;

	return end <= in->fs->inode_size && in->fs->inode_size > EXT4_GOOD_INODE_SIZE &&
	       end <= EXT4_GOOD_INODE_SIZE + le16_to_cpu(d->extra_isize);
}

#define HAS(in, f) has_field(in, offsetof(struct ext4_inode_disk, f) + sizeof(le32_t))

/* Seconds of 34 bits where there is room for nanoseconds; otherwise what 31 bits can say. */
static le32_t encode_time(const struct fs_time *t, bool has_extra, le32_t *extra)
{
	int64_t sec = t->sec;

	if (!has_extra)
		sec = MIN(MAX(sec, (int64_t)INT32_MIN), (int64_t)INT32_MAX);
	else
		*extra = cpu_to_le32((uint32_t)(((sec - (int32_t)sec) >> 32) & 3) | t->nsec << 2);
	return cpu_to_le32((uint32_t)sec);
}

static void encode_blocks(struct ext4_inode *in, struct ext4_inode_disk *d)
{
	uint64_t n = in->blocks;

	in->flags &= ~(uint32_t)EXT4_FL_HUGE_FILE;
	if (n >= 1ull << 48) {
		in->flags |= EXT4_FL_HUGE_FILE;
		n >>= in->fs->block_bits - BLK_SECTOR_SHIFT;
	}
	d->blocks_lo = cpu_to_le32((uint32_t)n);
	if (in->fs->ro_compat & EXT4_RO_COMPAT_HUGE_FILE)
		d->blocks_hi = cpu_to_le16((uint16_t)(n >> 32));
}

static void encode(struct ext4_inode *in)
{
	struct ext4_inode_disk *d = (void *)in->raw;

	d->mode = cpu_to_le16((uint16_t)in->mode);
	d->uid_lo = cpu_to_le16((uint16_t)in->uid);
	d->uid_hi = cpu_to_le16((uint16_t)(in->uid >> 16));
	d->gid_lo = cpu_to_le16((uint16_t)in->gid);
	d->gid_hi = cpu_to_le16((uint16_t)(in->gid >> 16));
	d->links_count = cpu_to_le16((uint16_t)in->nlink);
	d->size_lo = cpu_to_le32((uint32_t)in->size);
	d->size_hi = cpu_to_le32((uint32_t)(in->size >> 32));
	encode_blocks(in, d);
	d->flags = cpu_to_le32(in->flags);
	d->version_lo = cpu_to_le32((uint32_t)in->version);
	memcpy(d->block, in->iblock, sizeof(in->iblock));
	d->generation = cpu_to_le32(in->gen);
	d->file_acl_lo = cpu_to_le32((uint32_t)in->file_acl);
	if (in->fs->incompat & EXT4_INCOMPAT_64BIT)
		d->file_acl_hi = cpu_to_le16((uint16_t)(in->file_acl >> 32));
	d->ctime = encode_time(&in->ctime, HAS(in, ctime_extra), &d->ctime_extra);
	d->mtime = encode_time(&in->mtime, HAS(in, mtime_extra), &d->mtime_extra);
	d->atime = encode_time(&in->atime, HAS(in, atime_extra), &d->atime_extra);
	if (HAS(in, crtime))
		d->crtime = encode_time(&in->crtime, HAS(in, crtime_extra), &d->crtime_extra);
	if (HAS(in, version_hi))
		d->version_hi = cpu_to_le32((uint32_t)(in->version >> 32));
}

void ext4_inode_show(struct ext4_inode *in)
{
	struct fs_stat st;

	ext4_inode_fill_stat(in, &st);
	spin_lock(&in->fs->show_lock);
	in->shown = st;
	spin_unlock(&in->fs->show_lock);
}

/* Files of 2 GiB and more need a feature flag, which old kernels must see. */
static int note_large_file(struct ext4_op *op)
{
	struct ext4_fs *fs = op->fs;
	struct ext4_super_disk *sb;
	int err;

	err = ext4_super_get(fs, op->h, &sb);
	if (err)
		return err;
	sb->ro_compat = cpu_to_le32(le32_to_cpu(sb->ro_compat) | EXT4_RO_COMPAT_LARGE_FILE);
	fs->ro_compat |= EXT4_RO_COMPAT_LARGE_FILE;
	return ext4_super_put(fs, op->h);
}

int ext4_inode_write(struct ext4_op *op, struct ext4_inode *in)
{
	struct ext4_fs *fs = op->fs;
	struct bcache_buf *buf;
	le32_t dtime;
	uint8_t *raw;
	int err;

	assert_rwsem_held_write(&in->lock);
	if (in->size > INT32_MAX && (in->mode & S_IFMT) == S_IFREG &&
	    !(fs->ro_compat & EXT4_RO_COMPAT_LARGE_FILE)) {
		err = note_large_file(op);
		if (err)
			return err;
	}
	err = ext4_raw_inode_of(in, &buf, &raw);
	if (err)
		return err;
	err = ext4_write_access(op->h, buf);
	if (err)
		goto out;
	in->version++;
	encode(in);
	ext4_raw_lock(fs, in->ino);
	spin_lock(&fs->show_lock);
	/* The list of orphans keeps its links in dtime; while an inode is on it they are its. */
	memcpy(&dtime, raw + DTIME_AT, sizeof(dtime));
	memcpy(raw, in->raw, fs->inode_size);
	if (in->orphan)
		memcpy(raw + DTIME_AT, &dtime, sizeof(dtime));
	ext4_inode_csum_set(fs, in->ino, raw);
	spin_unlock(&fs->show_lock);
	ext4_raw_unlock(fs, in->ino);
	err = ext4_dirty(op->h, buf);
	in->dirty_tid = in->data_tid = ext4_handle_tid(op->h);
	in->changed = true;
	ext4_inode_show(in);
out:
	bcache_put(buf);
	return err;
}

void ext4_inode_written(struct ext4_op *op, struct ext4_inode *in)
{
	const struct fs_time when = ext4_op_now(op);

	if (fs_time_is_same(when, in->mtime))
		return;
	in->mtime = when;
	if (fs_time_is_later(when, in->ctime))
		in->ctime = when;
}

/*
 * The time of a change of @in. The clock of a component that has written to it may be ahead of
 * ours: a change is not before the one that it follows. A ctime that is far off is no clock's.
 */
static struct fs_time change_time(const struct ext4_op *op, const struct ext4_inode *in)
{
	const struct fs_time now = ext4_op_now(op);
	struct fs_time last = in->ctime;

	if (!fs_time_is_later(last, now) || last.sec - now.sec > CLOCKS_APART_S)
		return now;
	if (++last.nsec == 1000000000u) {
		last.nsec = 0;
		last.sec++;
	}
	return last;
}

void ext4_inode_touch(struct ext4_op *op, struct ext4_inode *in, bool contents)
{
	in->ctime = change_time(op, in);
	if (contents)
		in->mtime = in->ctime;
}
