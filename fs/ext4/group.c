/* SPDX-License-Identifier: MIT */
/*
 * ext4: group descriptors, read through the block cache as they are needed; how they change.
 *
 * Context:	threads; may sleep for the disk.
 * Locking:	readers take none and may see fields of different ages; the checksum is therefore
 *		verified once, when the block comes into the cache.  Writers: see group.h.
 * Failure:	a descriptor with a wrong checksum or a table outside the disk is
 *		-EUCLEAN each time it is asked for; other groups stay usable.
 */
#include "group.h"

#include <kernel/panic.h>
#include <lib/crc.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/string.h>

#include "ext4_priv.h"

static bool is_power_of(uint32_t n, uint32_t base)
{
	while (n > 1 && n % base == 0)
		n /= base;
	return n == 1;
}

bool ext4_group_has_super(const struct ext4_fs *fs, uint32_t group)
{
	if (group == 0)
		return true;
	if (fs->compat & EXT4_COMPAT_SPARSE_SUPER2)
		return group == fs->backup_bgs[0] || group == fs->backup_bgs[1];
	if (group == 1 || !(fs->ro_compat & EXT4_RO_COMPAT_SPARSE_SUPER))
		return true;
	return is_power_of(group, 3) || is_power_of(group, 5) || is_power_of(group, 7);
}

/* The block that holds number @nr of the blocks of descriptors. */
static uint64_t desc_block(const struct ext4_fs *fs, uint32_t nr)
{
	const uint32_t per_block = fs->block_size / fs->desc_size;
	uint64_t group, block;

	if (nr < fs->first_meta_bg)
		return fs->super_block + 1 + nr;

	/* meta_bg: in the first group of those that it describes. */
	group = (uint64_t)nr * per_block;
	block = fs->first_data_block + group * fs->blocks_per_group;
	if (ext4_group_has_super(fs, (uint32_t)group))
		block++;
	/* 1 KiB blocks from block 0 on (bigalloc): the boot block pushes one further. */
	if (fs->block_size == 1024 && nr == 0 && fs->first_data_block == 0)
		block++;
	return block;
}

static uint16_t desc_csum(const struct ext4_fs *fs, uint32_t group, const uint8_t *raw)
{
	const size_t at = offsetof(struct ext4_group_disk, checksum);
	const le32_t le_group = cpu_to_le32(group);
	const le16_t zero = cpu_to_le16(0);

	if (fs->has_csum) {
		uint32_t crc = crc32c(fs->csum_seed, &le_group, sizeof(le_group));

		crc = crc32c(crc, raw, at);
		crc = crc32c(crc, &zero, sizeof(zero));
		crc = crc32c(crc, raw + at + 2, fs->desc_size - at - 2);
		return (uint16_t)crc;
	}
	if (fs->ro_compat & EXT4_RO_COMPAT_GDT_CSUM) {
		uint16_t crc = crc16(0xffff, fs->uuid, sizeof(fs->uuid));

		crc = crc16(crc, &le_group, sizeof(le_group));
		crc = crc16(crc, raw, at);
		if (fs->desc_size > at + 2)
			crc = crc16(crc, raw + at + 2, fs->desc_size - at - 2);
		return crc;
	}
	return 0;
}

static bool has_desc_csum(const struct ext4_fs *fs)
{
	return fs->has_csum || (fs->ro_compat & EXT4_RO_COMPAT_GDT_CSUM);
}

static bool csum_ok(const struct ext4_fs *fs, uint32_t group, const uint8_t *raw)
{
	const size_t at = offsetof(struct ext4_group_disk, checksum);

	return !has_desc_csum(fs) || desc_csum(fs, group, raw) == get_unaligned_le16(raw + at);
}

static bool is_wide(const struct ext4_fs *fs)
{
	return fs->desc_size >= sizeof(struct ext4_group_disk);
}

static uint64_t wide32(bool wide, le32_t lo, le32_t hi)
{
	return le32_to_cpu(lo) | (wide ? (uint64_t)le32_to_cpu(hi) << 32 : 0);
}

static uint32_t wide16(bool wide, le16_t lo, le16_t hi)
{
	return le16_to_cpu(lo) | (wide ? (uint32_t)le16_to_cpu(hi) << 16 : 0);
}

static int decode(struct ext4_fs *fs, uint32_t group, const uint8_t *raw, struct ext4_gd *out)
{
	const bool wide = is_wide(fs);
	const uint32_t itable_blocks =
		DIV_ROUND_UP((uint64_t)fs->inodes_per_group * fs->inode_size, fs->block_size);
	struct ext4_group_disk gd;

	memset(&gd, 0, sizeof(gd));
	memcpy(&gd, raw, MIN((size_t)fs->desc_size, sizeof(gd)));
	out->block_bitmap = wide32(wide, gd.block_bitmap_lo, gd.block_bitmap_hi);
	out->inode_bitmap = wide32(wide, gd.inode_bitmap_lo, gd.inode_bitmap_hi);
	out->inode_table = wide32(wide, gd.inode_table_lo, gd.inode_table_hi);
	out->free_blocks = wide16(wide, gd.free_blocks_lo, gd.free_blocks_hi);
	out->free_inodes = wide16(wide, gd.free_inodes_lo, gd.free_inodes_hi);
	out->used_dirs = wide16(wide, gd.used_dirs_lo, gd.used_dirs_hi);
	out->block_bitmap_csum = wide16(wide, gd.block_bitmap_csum_lo, gd.block_bitmap_csum_hi);
	out->inode_bitmap_csum = wide16(wide, gd.inode_bitmap_csum_lo, gd.inode_bitmap_csum_hi);
	out->itable_unused = 0;
	out->flags = 0;
	if (!ext4_blocks_ok(fs, out->inode_table, itable_blocks))
		return ext4_corrupt(fs, "group %u: inode table at block %llu", group,
				    (unsigned long long)out->inode_table);

	/* These fields mean something only where a checksum guards them. */
	if (has_desc_csum(fs)) {
		out->flags = le16_to_cpu(gd.flags);
		out->itable_unused = wide16(wide, gd.itable_unused_lo, gd.itable_unused_hi);
		if (out->itable_unused > fs->inodes_per_group)
			return ext4_corrupt(fs, "group %u: %u unused inodes", group,
					    out->itable_unused);
	}
	return 0;
}

/* The block with the descriptor of @group, and where in it that is. */
static struct bcache_buf *desc_get(struct ext4_fs *fs, uint32_t group, uint32_t *at)
{
	const uint32_t per_block = fs->block_size / fs->desc_size;
	const uint64_t block = desc_block(fs, group / per_block);

	if (!ext4_blocks_ok(fs, block, 1))
		return ERR_PTR(ext4_corrupt(fs, "group %u: descriptor at block %llu", group,
					    (unsigned long long)block));
	*at = group % per_block * fs->desc_size;
	return bcache_get(fs->bc, block);
}

int ext4_gd_read(struct ext4_fs *fs, uint32_t group, struct ext4_gd *out)
{
	struct bcache_buf *buf;
	uint32_t at;
	int err;

	ASSERT(group < fs->nr_groups);
	buf = desc_get(fs, group, &at);
	if (IS_ERR(buf))
		return (int)PTR_ERR(buf);
	/* A mount that writes changes descriptors under readers: their checksums flicker. */
	if (!fs->journal && !csum_ok(fs, group, buf->data + at))
		err = ext4_corrupt(fs, "group %u: descriptor checksum", group);
	else
		err = decode(fs, group, buf->data + at, out);
	bcache_put(buf);
	return err;
}

int ext4_group_read(struct ext4_fs *fs, uint32_t group, struct ext4_group *out)
{
	struct ext4_gd gd;
	const int err = ext4_gd_read(fs, group, &gd);

	if (err)
		return err;
	out->inode_table = gd.inode_table;
	out->nr_inodes_used = fs->inodes_per_group - gd.itable_unused;
	if (gd.flags & EXT4_GROUP_INODE_UNINIT)
		out->nr_inodes_used = 0;
	return 0;
}

int ext4_groups_check(struct ext4_fs *fs)
{
	int64_t blocks = 0, inodes = 0;
	struct ext4_gd gd;
	int err;

	for (uint32_t g = 0; g < fs->nr_groups; g++) {
		err = ext4_gd_read(fs, g, &gd);
		if (err)
			return err;
		blocks += gd.free_blocks;
		inodes += gd.free_inodes;
	}
	atomic64_set(&fs->free_blocks, MIN(blocks * fs->cluster_ratio, (int64_t)fs->nr_blocks));
	atomic64_set(&fs->free_inodes, MIN(inodes, (int64_t)fs->nr_inodes));
	return 0;
}

/* --- changes --- */

void ext4_group_lock(struct ext4_fs *fs, uint32_t group)
{
	mutex_lock(&fs->locks->group[group % EXT4_GROUP_LOCKS]);
}

void ext4_group_unlock(struct ext4_fs *fs, uint32_t group)
{
	mutex_unlock(&fs->locks->group[group % EXT4_GROUP_LOCKS]);
}

static void encode(const struct ext4_fs *fs, const struct ext4_gd *gd, uint8_t *raw)
{
	struct ext4_group_disk d;
	const size_t len = MIN((size_t)fs->desc_size, sizeof(d));

	memset(&d, 0, sizeof(d));
	memcpy(&d, raw, len);
	d.free_blocks_lo = cpu_to_le16((uint16_t)gd->free_blocks);
	d.free_inodes_lo = cpu_to_le16((uint16_t)gd->free_inodes);
	d.used_dirs_lo = cpu_to_le16((uint16_t)gd->used_dirs);
	if (has_desc_csum(fs)) {
		d.flags = cpu_to_le16((uint16_t)gd->flags);
		d.itable_unused_lo = cpu_to_le16((uint16_t)gd->itable_unused);
	}
	if (fs->has_csum) {
		d.block_bitmap_csum_lo = cpu_to_le16((uint16_t)gd->block_bitmap_csum);
		d.inode_bitmap_csum_lo = cpu_to_le16((uint16_t)gd->inode_bitmap_csum);
	}
	if (is_wide(fs)) {
		d.free_blocks_hi = cpu_to_le16((uint16_t)(gd->free_blocks >> 16));
		d.free_inodes_hi = cpu_to_le16((uint16_t)(gd->free_inodes >> 16));
		d.used_dirs_hi = cpu_to_le16((uint16_t)(gd->used_dirs >> 16));
		if (has_desc_csum(fs))
			d.itable_unused_hi = cpu_to_le16((uint16_t)(gd->itable_unused >> 16));
		if (fs->has_csum) {
			d.block_bitmap_csum_hi =
				cpu_to_le16((uint16_t)(gd->block_bitmap_csum >> 16));
			d.inode_bitmap_csum_hi =
				cpu_to_le16((uint16_t)(gd->inode_bitmap_csum >> 16));
		}
	}
	memcpy(raw, &d, len);
}

int ext4_gd_write(struct ext4_handle *h, uint32_t group, const struct ext4_gd *gd)
{
	struct ext4_fs *fs = ext4_handle_fs(h);
	struct bcache_buf *buf;
	uint32_t at;
	int err;

	assert_mutex_held(&fs->locks->group[group % EXT4_GROUP_LOCKS]);
	buf = desc_get(fs, group, &at);
	if (IS_ERR(buf))
		return (int)PTR_ERR(buf);
	err = ext4_write_access(h, buf);
	if (!err) {
		encode(fs, gd, buf->data + at);
		if (has_desc_csum(fs))
			put_unaligned_le16(desc_csum(fs, group, buf->data + at),
					   buf->data + at +
						   offsetof(struct ext4_group_disk, checksum));
		err = ext4_dirty(h, buf);
	}
	bcache_put(buf);
	return err;
}

uint32_t ext4_group_nr_blocks(const struct ext4_fs *fs, uint32_t group)
{
	const uint64_t left = fs->nr_blocks - ext4_group_first_block(fs, group);

	return (uint32_t)MIN(left, (uint64_t)fs->blocks_per_group);
}

uint64_t ext4_group_first_block(const struct ext4_fs *fs, uint32_t group)
{
	return fs->first_data_block + (uint64_t)group * fs->blocks_per_group;
}

/* Blocks at the start of @group that hold the superblock's copy and descriptors. */
uint32_t ext4_group_base_blocks(const struct ext4_fs *fs, uint32_t group)
{
	const uint32_t per_block = fs->block_size / fs->desc_size;
	const uint32_t meta = group / per_block; /* which block of descriptors is this group's */
	uint32_t n = ext4_group_has_super(fs, group);

	if (meta >= fs->first_meta_bg) {
		const uint32_t in_meta = group % per_block;

		return n + (in_meta == 0 || in_meta == 1 || in_meta == per_block - 1);
	}
	if (n) {
		const uint32_t descs = DIV_ROUND_UP(fs->nr_groups, per_block);

		n += MIN(descs, fs->first_meta_bg) + fs->reserved_gdt_blocks;
	}
	return n;
}

void ext4_count_free_blocks(struct ext4_fs *fs, int64_t delta)
{
	atomic64_add(&fs->free_blocks, delta);
}

void ext4_count_free_inodes(struct ext4_fs *fs, int64_t delta)
{
	atomic64_add(&fs->free_inodes, delta);
}
