/* SPDX-License-Identifier: MIT */
/*
 * ext4: group descriptors, read through the block cache as they are needed.
 *
 * Context:	threads; may sleep for the disk.
 * Failure:	a descriptor with a wrong checksum or a table outside the disk is
 *		-EUCLEAN each time it is asked for; other groups stay usable.
 */
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

/* Does @group begin with a copy of the superblock? */
static bool has_super(const struct ext4_fs *fs, uint32_t group)
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
	if (has_super(fs, (uint32_t)group))
		block++;
	/* 1 KiB blocks from block 0 on (bigalloc): the boot block pushes one further. */
	if (fs->block_size == 1024 && nr == 0 && fs->first_data_block == 0)
		block++;
	return block;
}

static bool csum_ok(const struct ext4_fs *fs, uint32_t group, const struct ext4_group_disk *gd)
{
	const size_t at = offsetof(struct ext4_group_disk, checksum);
	const uint8_t *raw = (const uint8_t *)gd;
	const le32_t le_group = cpu_to_le32(group);
	const le16_t zero = cpu_to_le16(0);

	if (fs->has_csum) {
		uint32_t crc = crc32c(fs->csum_seed, &le_group, sizeof(le_group));

		crc = crc32c(crc, raw, at);
		crc = crc32c(crc, &zero, sizeof(zero));
		crc = crc32c(crc, raw + at + 2, fs->desc_size - at - 2);
		return (crc & 0xffff) == le16_to_cpu(gd->checksum);
	}
	if (fs->ro_compat & EXT4_RO_COMPAT_GDT_CSUM) {
		uint16_t crc = crc16(0xffff, fs->uuid, sizeof(fs->uuid));

		crc = crc16(crc, &le_group, sizeof(le_group));
		crc = crc16(crc, raw, at);
		if (fs->desc_size > at + 2)
			crc = crc16(crc, raw + at + 2, fs->desc_size - at - 2);
		return crc == le16_to_cpu(gd->checksum);
	}
	return true;
}

static int decode(struct ext4_fs *fs, uint32_t group, const struct ext4_group_disk *gd,
		  struct ext4_group *out)
{
	const bool wide = fs->desc_size >= sizeof(*gd);
	const uint32_t itable_blocks =
		DIV_ROUND_UP((uint64_t)fs->inodes_per_group * fs->inode_size, fs->block_size);
	uint32_t unused = 0;

	out->inode_table = le32_to_cpu(gd->inode_table_lo);
	if (wide)
		out->inode_table |= (uint64_t)le32_to_cpu(gd->inode_table_hi) << 32;
	if (!ext4_blocks_ok(fs, out->inode_table, itable_blocks))
		return ext4_corrupt(fs, "group %u: inode table at block %llu", group,
				    (unsigned long long)out->inode_table);

	/* These fields mean something only where a checksum guards them. */
	if (fs->has_csum || (fs->ro_compat & EXT4_RO_COMPAT_GDT_CSUM)) {
		unused = le16_to_cpu(gd->itable_unused_lo);
		if (wide)
			unused |= (uint32_t)le16_to_cpu(gd->itable_unused_hi) << 16;
		if (unused > fs->inodes_per_group)
			return ext4_corrupt(fs, "group %u: %u unused inodes", group, unused);
		if (le16_to_cpu(gd->flags) & EXT4_GROUP_INODE_UNINIT)
			unused = fs->inodes_per_group;
	}
	out->nr_inodes_used = fs->inodes_per_group - unused;
	return 0;
}

int ext4_group_read(struct ext4_fs *fs, uint32_t group, struct ext4_group *out)
{
	const uint32_t per_block = fs->block_size / fs->desc_size;
	const uint64_t block = desc_block(fs, group / per_block);
	struct ext4_group_disk gd;
	struct bcache_buf *buf;
	const void *raw;
	int err;

	if (!ext4_blocks_ok(fs, block, 1))
		return ext4_corrupt(fs, "group %u: descriptor at block %llu", group,
				    (unsigned long long)block);
	buf = bcache_get(fs->bc, block);
	if (IS_ERR(buf))
		return (int)PTR_ERR(buf);
	raw = buf->data + (size_t)(group % per_block) * fs->desc_size;
	if (!csum_ok(fs, group, raw)) {
		err = ext4_corrupt(fs, "group %u: descriptor checksum", group);
	} else {
		memset(&gd, 0, sizeof(gd));
		memcpy(&gd, raw, MIN((size_t)fs->desc_size, sizeof(gd)));
		err = decode(fs, group, &gd, out);
	}
	bcache_put(buf);
	return err;
}
