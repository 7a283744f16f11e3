/* SPDX-License-Identifier: MIT */
/*
 * ext4: group descriptors, bitmaps and the superblock, for those who change them.
 *
 * Flow:	h = ext4_begin(); ext4_group_lock(fs, g); ext4_gd_read(); buf = ext4_block_bitmap();
 *		ext4_write_access(h, buf); change bits; ext4_block_bitmap_dirty(); ext4_gd_write();
 *		bcache_put(buf); ext4_group_unlock(fs, g); ext4_count_free_blocks()
 * Locking:	ext4_group_lock() (RANK_FS_GROUP, sleeping) guards bitmaps and descriptor of a
 *		group; a thread holds one at a time, inside a handle.
 * Failure:	-EUCLEAN (checksum, blocks outside the disk), -EIO, -ENOMEM.  Descriptors are
 *		verified when they are mounted for writing, bitmaps once while they are cached.
 */
#pragma once

#include "ext4_priv.h"
#include "journal.h"

/* A group descriptor in host order. */
struct ext4_gd {
	uint64_t block_bitmap;
	uint64_t inode_bitmap;
	uint64_t inode_table;
	uint32_t free_blocks; /* clusters, with bigalloc */
	uint32_t free_inodes;
	uint32_t used_dirs;
	uint32_t itable_unused; /* inodes at the table's end that were never used */
	uint32_t flags;         /* EXT4_GROUP_* */
	uint32_t block_bitmap_csum;
	uint32_t inode_bitmap_csum;
};

/* So far for tests. */
void ext4_group_lock(struct ext4_fs *fs, uint32_t group)
	__acquires(&fs->locks->group[group % EXT4_GROUP_LOCKS]);
void ext4_group_unlock(struct ext4_fs *fs, uint32_t group)
	__releases(&fs->locks->group[group % EXT4_GROUP_LOCKS]);

/* Without the lock: a snapshot, of which single fields may be older than others. */
int __must_check ext4_gd_read(struct ext4_fs *fs, uint32_t group, struct ext4_gd *out);
/*
 * Write what may change (counts, flags, bitmap checksums) and the checksum.  One credit.  So far
 * for tests.
 */
int __must_check ext4_gd_write(struct ext4_handle *h, uint32_t group, const struct ext4_gd *gd);

/*
 * The bitmap of a group, held: verified, or built when the descriptor says that it was never
 * written (then the caller of a change clears EXT4_GROUP_*_UNINIT in @gd).  Under the group's
 * lock.  So far
 * for tests.
 */
struct bcache_buf *ext4_block_bitmap(struct ext4_fs *fs, uint32_t group, const struct ext4_gd *gd);
struct bcache_buf *ext4_inode_bitmap(struct ext4_fs *fs, uint32_t group, const struct ext4_gd *gd);
/*
 * ext4_dirty() of a changed bitmap; its new checksum goes into @gd, to be written afterwards.  For
 * tests so far.
 */
int __must_check ext4_block_bitmap_dirty(struct ext4_handle *h, struct ext4_gd *gd,
					 struct bcache_buf *buf);
int __must_check ext4_inode_bitmap_dirty(struct ext4_handle *h, struct ext4_gd *gd,
					 struct bcache_buf *buf);
/*
 * Change bit @bit of an inode bitmap with write access, and its checksum in @gd by that;
 * ext4_dirty().
 */
int __must_check ext4_inode_bitmap_flip(struct ext4_handle *h, struct ext4_gd *gd,
					struct bcache_buf *buf, uint32_t bit);
/* Blocks (not clusters) of @group: fewer in the last one. */
uint32_t ext4_group_nr_blocks(const struct ext4_fs *fs, uint32_t group);
uint64_t ext4_group_first_block(const struct ext4_fs *fs, uint32_t group);
/* Does @group begin with a copy of the superblock?  So far for tests. */
bool ext4_group_has_super(const struct ext4_fs *fs, uint32_t group);

/* Blocks at the start of @group that hold the copies of superblock and descriptors. */
uint32_t ext4_group_base_blocks(const struct ext4_fs *fs, uint32_t group);
/* Read all descriptors, verify their checksums, and take the free counts from them. */
int __must_check ext4_groups_check(struct ext4_fs *fs);

/*
 * The inode's bytes in its table (fs->inode_size), in a held buffer *@buf.  For changes:
 * ext4_write_access(), ext4_raw_lock(), change, ext4_inode_csum_set(), ext4_raw_unlock(),
 * ext4_dirty().  The lock (RANK_FS_RAW) keeps others from the same bytes: the inode's owner, and
 * the orphan list, which changes i_dtime of the inode before.
 */
int __must_check ext4_raw_inode(struct ext4_fs *fs, uint32_t ino, struct bcache_buf **buf,
				uint8_t **raw);
/* The same of an inode that is held, whose place is kept. */
int __must_check ext4_raw_inode_of(struct ext4_inode *in, struct bcache_buf **buf, uint8_t **raw);
void ext4_raw_lock(struct ext4_fs *fs, uint32_t ino)
	__acquires(&fs->locks->raw[ino % EXT4_GROUP_LOCKS]);
void ext4_raw_unlock(struct ext4_fs *fs, uint32_t ino)
	__releases(&fs->locks->raw[ino % EXT4_GROUP_LOCKS]);
/* Put the right checksum into the bytes of inode @ino, if the disk has such. */
void ext4_inode_csum_set(const struct ext4_fs *fs, uint32_t ino, uint8_t *raw);
/* Change i_dtime of an inode whose checksum is right, and that. */
void ext4_inode_dtime_set(const struct ext4_fs *fs, uint8_t *raw, uint32_t dtime);

/*
 * The superblock in its buffer, with write access, until ext4_super_put(), which computes the
 * checksum and dirties it.  One credit.  RANK_FS_SUPER is held between the two.
 */
int __must_check ext4_super_get(struct ext4_fs *fs, struct ext4_handle *h,
				struct ext4_super_disk **sb) __acquires_if_0(&fs->super_lock);
int __must_check ext4_super_put(struct ext4_fs *fs, struct ext4_handle *h)
	__releases(&fs->super_lock);

/* Change the begin of the list of orphans in it, whose checksum is right, and that.  One credit. */
int __must_check ext4_super_set_orphan(struct ext4_fs *fs, struct ext4_handle *h, uint32_t ino);

/* The counts of statfs; the superblock gets them at unmount.  Blocks, not clusters.  For tests. */
void ext4_count_free_blocks(struct ext4_fs *fs, int64_t delta);
void ext4_count_free_inodes(struct ext4_fs *fs, int64_t delta);
