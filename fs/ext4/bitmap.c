/* SPDX-License-Identifier: MIT */
/*
 * ext4: bitmaps of blocks and inodes, raw inodes and the superblock, for those who change them.
 *
 * Context:	threads; sleeps for the disk.
 * Locking:	see group.h.
 * Failure:	a bitmap with a wrong checksum, or outside of the disk, is -EUCLEAN each time.
 */
#include <lib/crc.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/string.h>

#include "group.h"

static void set_bits(uint8_t *map, uint32_t from, uint32_t to)
{
	for (; from < to && from % 8; from++)
		map[from / 8] |= (uint8_t)(1u << from % 8);
	for (; to - from >= 8; from += 8)
		map[from / 8] = 0xff;
	for (; from < to; from++)
		map[from / 8] |= (uint8_t)(1u << from % 8);
}

static void mark_block(const struct ext4_fs *fs, uint32_t group, uint8_t *map, uint64_t block)
{
	const uint64_t first = ext4_group_first_block(fs, group);
	uint32_t bit;

	if (block < first || block - first >= ext4_group_nr_blocks(fs, group))
		return; /* another group keeps it, as flex_bg allows */
	bit = (uint32_t)(block - first) / fs->cluster_ratio;
	set_bits(map, bit, bit + 1);
}

/* Build the block bitmap of a group in which nothing was allocated yet. */
static void build_block_bitmap(const struct ext4_fs *fs, uint32_t group, const struct ext4_gd *gd,
			       uint8_t *map)
{
	const uint32_t nr_blocks = ext4_group_nr_blocks(fs, group);
	const uint32_t base = ext4_group_base_blocks(fs, group);
	const uint32_t itable =
		DIV_ROUND_UP((uint64_t)fs->inodes_per_group * fs->inode_size, fs->block_size);

	memset(map, 0, fs->block_size);
	if (base)
		set_bits(map, 0, DIV_ROUND_UP(base, fs->cluster_ratio));
	mark_block(fs, group, map, gd->block_bitmap);
	mark_block(fs, group, map, gd->inode_bitmap);
	for (uint32_t i = 0; i < itable; i++)
		mark_block(fs, group, map, gd->inode_table + i);
	set_bits(map, DIV_ROUND_UP(nr_blocks, fs->cluster_ratio), fs->block_size * 8);
}

static uint32_t bitmap_csum(const struct ext4_fs *fs, const uint8_t *map, uint32_t len)
{
	const uint32_t crc = crc32c(fs->csum_seed, map, len);

	return fs->desc_size >= sizeof(struct ext4_group_disk) ? crc : crc & 0xffff;
}

static uint32_t block_bitmap_csum(const struct ext4_fs *fs, const uint8_t *map)
{
	return bitmap_csum(fs, map, fs->blocks_per_group / fs->cluster_ratio / 8);
}

static uint32_t inode_bitmap_csum(const struct ext4_fs *fs, const uint8_t *map)
{
	return bitmap_csum(fs, map, fs->inodes_per_group / 8);
}

static bool is_set(const uint8_t *map, uint64_t bit)
{
	return map[bit / 8] >> bit % 8 & 1;
}

/* A block bitmap that calls the group's own metadata free would have it overwritten. */
static bool covers_metadata(const struct ext4_fs *fs, uint32_t group, const struct ext4_gd *gd,
			    const uint8_t *map)
{
	const uint64_t first = ext4_group_first_block(fs, group);
	const uint64_t own[] = { gd->block_bitmap, gd->inode_bitmap, gd->inode_table };

	for (size_t i = 0; i < ARRAY_SIZE(own); i++) {
		if (own[i] < first || own[i] - first >= ext4_group_nr_blocks(fs, group))
			continue;
		if (!is_set(map, (own[i] - first) / fs->cluster_ratio))
			return false;
	}
	return true;
}

struct bcache_buf *ext4_block_bitmap(struct ext4_fs *fs, uint32_t group, const struct ext4_gd *gd)
{
	const bool uninit = gd->flags & EXT4_GROUP_BLOCK_UNINIT;
	struct bcache_buf *buf;

	assert_mutex_held(&fs->locks->group[group % EXT4_GROUP_LOCKS]);
	if (!ext4_blocks_ok(fs, gd->block_bitmap, 1))
		return ERR_PTR(ext4_corrupt(fs, "group %u: block bitmap at block %llu", group,
					    (unsigned long long)gd->block_bitmap));
	buf = uninit ? bcache_get_new(fs->bc, gd->block_bitmap)
		     : bcache_get(fs->bc, gd->block_bitmap);
	if (IS_ERR(buf) || ext4_checked(buf, group, EXT4_CHECK_BLOCK_BITMAP))
		return buf;
	if (uninit) {
		build_block_bitmap(fs, group, gd, buf->data);
	} else if ((fs->has_csum && block_bitmap_csum(fs, buf->data) != gd->block_bitmap_csum) ||
		   !covers_metadata(fs, group, gd, buf->data)) {
		bcache_put(buf);
		return ERR_PTR(ext4_corrupt(fs, "group %u: block bitmap", group));
	}
	ext4_set_checked(buf, group, EXT4_CHECK_BLOCK_BITMAP);
	return buf;
}

struct bcache_buf *ext4_inode_bitmap(struct ext4_fs *fs, uint32_t group, const struct ext4_gd *gd)
{
	const bool uninit = gd->flags & EXT4_GROUP_INODE_UNINIT;
	struct bcache_buf *buf;

	assert_mutex_held(&fs->locks->group[group % EXT4_GROUP_LOCKS]);
	if (!ext4_blocks_ok(fs, gd->inode_bitmap, 1))
		return ERR_PTR(ext4_corrupt(fs, "group %u: inode bitmap at block %llu", group,
					    (unsigned long long)gd->inode_bitmap));
	buf = uninit ? bcache_get_new(fs->bc, gd->inode_bitmap)
		     : bcache_get(fs->bc, gd->inode_bitmap);
	if (IS_ERR(buf) || ext4_checked(buf, group, EXT4_CHECK_INODE_BITMAP))
		return buf;
	if (uninit) {
		memset(buf->data, 0, fs->block_size);
		set_bits(buf->data, fs->inodes_per_group, fs->block_size * 8);
	} else if (fs->has_csum && inode_bitmap_csum(fs, buf->data) != gd->inode_bitmap_csum) {
		bcache_put(buf);
		return ERR_PTR(ext4_corrupt(fs, "group %u: inode bitmap", group));
	}
	ext4_set_checked(buf, group, EXT4_CHECK_INODE_BITMAP);
	return buf;
}

int ext4_block_bitmap_dirty(struct ext4_handle *h, struct ext4_gd *gd, struct bcache_buf *buf)
{
	const struct ext4_fs *fs = ext4_handle_fs(h);

	gd->block_bitmap_csum = fs->has_csum ? block_bitmap_csum(fs, buf->data) : 0;
	return ext4_dirty(h, buf);
}

int ext4_inode_bitmap_dirty(struct ext4_handle *h, struct ext4_gd *gd, struct bcache_buf *buf)
{
	const struct ext4_fs *fs = ext4_handle_fs(h);

	gd->inode_bitmap_csum = fs->has_csum ? inode_bitmap_csum(fs, buf->data) : 0;
	return ext4_dirty(h, buf);
}

int ext4_inode_bitmap_flip(struct ext4_handle *h, struct ext4_gd *gd, struct bcache_buf *buf,
			   uint32_t bit)
{
	const struct ext4_fs *fs = ext4_handle_fs(h);
	const uint32_t len = fs->inodes_per_group / 8;
	const uint8_t flip = (uint8_t)(1u << bit % 8);
	uint32_t change;

	buf->data[bit / 8] ^= flip;
	/* One that nobody has written has no checksum yet. */
	if (!fs->has_csum || (gd->flags & EXT4_GROUP_INODE_UNINIT) || bit / 8 >= len) {
		gd->flags &= ~EXT4_GROUP_INODE_UNINIT;
		return ext4_inode_bitmap_dirty(h, gd, buf);
	}
	change = crc32c_zeros(crc32c(0, &flip, 1), len - bit / 8 - 1);
	gd->inode_bitmap_csum ^=
		fs->desc_size >= sizeof(struct ext4_group_disk) ? change : change & 0xffff;
	return ext4_dirty(h, buf);
}

/* --- raw inodes --- */

void ext4_raw_lock(struct ext4_fs *fs, uint32_t ino)
{
	mutex_lock(&fs->locks->raw[ino % EXT4_GROUP_LOCKS]);
}

void ext4_raw_unlock(struct ext4_fs *fs, uint32_t ino)
{
	mutex_unlock(&fs->locks->raw[ino % EXT4_GROUP_LOCKS]);
}

int ext4_raw_inode(struct ext4_fs *fs, uint32_t ino, struct bcache_buf **buf, uint8_t **raw)
{
	const uint64_t at = (uint64_t)((ino - 1) % fs->inodes_per_group) * fs->inode_size;
	struct ext4_gd gd;
	int err;

	if (!ino || ino > fs->nr_inodes)
		return ext4_corrupt(fs, "inode %u: there is no such inode", ino);
	err = ext4_gd_read(fs, (ino - 1) / fs->inodes_per_group, &gd);
	if (err)
		return err;
	*buf = bcache_get(fs->bc, gd.inode_table + (at >> fs->block_bits));
	if (IS_ERR(*buf))
		return (int)PTR_ERR(*buf);
	*raw = (*buf)->data + (at & (fs->block_size - 1));
	return 0;
}

int ext4_raw_inode_of(struct ext4_inode *in, struct bcache_buf **buf, uint8_t **raw)
{
	struct ext4_fs *fs = in->fs;
	const uint64_t at = (uint64_t)((in->ino - 1) % fs->inodes_per_group) * fs->inode_size;
	int err;

	if (!in->raw_block) {
		err = ext4_raw_inode(fs, in->ino, buf, raw);
		if (!err)
			in->raw_block = (*buf)->block;
		return err;
	}
	*buf = bcache_get(fs->bc, in->raw_block);
	if (IS_ERR(*buf))
		return (int)PTR_ERR(*buf);
	*raw = (*buf)->data + (at & (fs->block_size - 1));
	return 0;
}

#define CSUM_LO_AT offsetof(struct ext4_inode_disk, checksum_lo)
#define CSUM_HI_AT offsetof(struct ext4_inode_disk, checksum_hi)

/* Has the inode the upper half of the checksum? */
static bool has_csum_hi(const struct ext4_fs *fs, const uint8_t *raw)
{
	const size_t extra_at = offsetof(struct ext4_inode_disk, extra_isize);

	return fs->inode_size > EXT4_GOOD_INODE_SIZE &&
	       EXT4_GOOD_INODE_SIZE + get_unaligned_le16(raw + extra_at) >= CSUM_HI_AT + 2;
}

void ext4_inode_csum_set(const struct ext4_fs *fs, uint32_t ino, uint8_t *raw)
{
	const le32_t le_ino = cpu_to_le32(ino);
	uint32_t crc;
	bool has_hi;

	if (!fs->has_csum)
		return;
	has_hi = has_csum_hi(fs, raw);
	put_unaligned_le16(0, raw + CSUM_LO_AT);
	if (has_hi)
		put_unaligned_le16(0, raw + CSUM_HI_AT);
	crc = crc32c(fs->csum_seed, &le_ino, sizeof(le_ino));
	crc = crc32c(crc, raw + offsetof(struct ext4_inode_disk, generation), sizeof(le32_t));
	crc = crc32c(crc, raw, fs->inode_size);
	put_unaligned_le16((uint16_t)crc, raw + CSUM_LO_AT);
	if (has_hi)
		put_unaligned_le16((uint16_t)(crc >> 16), raw + CSUM_HI_AT);
}

void ext4_inode_dtime_set(const struct ext4_fs *fs, uint8_t *raw, uint32_t dtime)
{
	const size_t at = offsetof(struct ext4_inode_disk, dtime);
	const le32_t change = cpu_to_le32(get_unaligned_le32(raw + at) ^ dtime);
	uint32_t crc;

	put_unaligned_le32(dtime, raw + at);
	if (!fs->has_csum)
		return;
	crc = crc32c_zeros(crc32c(0, &change, sizeof(change)),
			   fs->inode_size - (uint32_t)(at + sizeof(change)));
	put_unaligned_le16(get_unaligned_le16(raw + CSUM_LO_AT) ^ (uint16_t)crc, raw + CSUM_LO_AT);
	if (has_csum_hi(fs, raw))
		put_unaligned_le16(get_unaligned_le16(raw + CSUM_HI_AT) ^ (uint16_t)(crc >> 16),
				   raw + CSUM_HI_AT);
}

/* --- the superblock --- */

int ext4_super_get(struct ext4_fs *fs, struct ext4_handle *h, struct ext4_super_disk **sb)
{
	int err;

	mutex_lock(&fs->super_lock);
	err = ext4_write_access(h, fs->super_buf);
	if (err) {
		mutex_unlock(&fs->super_lock);
		return err;
	}
	*sb = ext4_super_in(fs, fs->super_buf);
	return 0;
}

int ext4_super_set_orphan(struct ext4_fs *fs, struct ext4_handle *h, uint32_t ino)
{
	const size_t at = offsetof(struct ext4_super_disk, last_orphan);
	const size_t csum_at = offsetof(struct ext4_super_disk, checksum);
	struct ext4_super_disk *sb;
	le32_t change;
	int err;

	err = ext4_super_get(fs, h, &sb);
	if (err)
		return err;
	change = cpu_to_le32(le32_to_cpu(sb->last_orphan) ^ ino);
	sb->last_orphan = cpu_to_le32(ino);
	if (fs->has_csum)
		sb->checksum = cpu_to_le32(le32_to_cpu(sb->checksum) ^
					   crc32c_zeros(crc32c(0, &change, sizeof(change)),
							(uint32_t)(csum_at - at - sizeof(change))));
	err = ext4_dirty(h, fs->super_buf);
	mutex_unlock(&fs->super_lock);
	return err;
}

int ext4_super_put(struct ext4_fs *fs, struct ext4_handle *h)
{
	int err;

	assert_mutex_held(&fs->super_lock);
	ext4_super_csum_set(fs, ext4_super_in(fs, fs->super_buf));
	err = ext4_dirty(h, fs->super_buf);
	mutex_unlock(&fs->super_lock);
	return err;
}
