/* SPDX-License-Identifier: MIT */
/*
 * ext4: the journal's file as a log: where its blocks are, its superblock, its formats.
 *
 * Context:	threads; sleeps for the disk.
 * Locking:	none: mount, then the committer and the checkpointer, of which each writes the
 *		superblock only while the other cannot (see journal_priv.h).
 * Failure:	a journal that makes no sense is -EUCLEAN, one that we do not know -EOPNOTSUPP; each
 *		has one line in the log.
 */
#include <drivers/blkdev.h>
#include <lib/crc.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <mm/slab.h>

#include "journal_priv.h"

#define SUPER_LEN sizeof(struct jbd2_super)

static struct log_run *find_run(const struct log *log, uint32_t lblk)
{
	uint32_t lo = 0, hi = log->nr_runs;

	while (hi - lo > 1) {
		const uint32_t mid = lo + (hi - lo) / 2;

		if (log->runs[mid].lblk <= lblk)
			lo = mid;
		else
			hi = mid;
	}
	return &log->runs[lo];
}

uint64_t log_sector(const struct log *log, uint32_t lblk)
{
	const struct log_run *run = find_run(log, lblk);

	ASSERT(lblk >= run->lblk && lblk - run->lblk < run->len);
	return (run->block + (lblk - run->lblk)) * (log->block_size >> BLK_SECTOR_SHIFT);
}

static int add_run(struct log *log, uint32_t lblk, const struct ext4_map *map)
{
	struct log_run *runs;

	if (!(log->nr_runs & (log->nr_runs - 1))) { /* room for the next power of two */
		runs = krealloc(log->runs, MAX(2 * log->nr_runs, 1u) * sizeof(*runs));
		if (!runs)
			return -ENOMEM;
		log->runs = runs;
	}
	log->runs[log->nr_runs++] =
		(struct log_run){ .lblk = lblk, .len = map->len, .block = map->block };
	return 0;
}

/* Find the blocks of the journal's file; a log has no holes. */
static int map_file(struct ext4_fs *fs, struct log *log, struct ext4_inode *in)
{
	const uint64_t nr = in->size >> fs->block_bits;
	struct ext4_map map;
	int err;

	if ((in->mode & S_IFMT) != S_IFREG || nr < JBD2_MIN_BLOCKS || nr > UINT32_MAX)
		return ext4_corrupt(fs, "journal: inode %u is no journal", in->ino);
	for (uint32_t lblk = 0; lblk < nr; lblk += map.len) {
		err = ext4_map_blocks(in, lblk, (uint32_t)nr - lblk, &map);
		if (err)
			return err;
		if (map.type != EXT4_MAP_DATA || !ext4_blocks_ok(fs, map.block, map.len))
			return ext4_corrupt(fs, "journal: hole at block %u", lblk);
		err = add_run(log, lblk, &map);
		if (err)
			return err;
	}
	log->end = (uint32_t)nr;
	return 0;
}

static uint32_t super_csum(const struct jbd2_super *sb)
{
	const be32_t zero = cpu_to_be32(0);
	const size_t at = offsetof(struct jbd2_super, checksum);
	uint32_t crc = crc32c(~0u, sb, at);

	crc = crc32c(crc, &zero, sizeof(zero));
	return crc32c(crc, (const uint8_t *)sb + at + sizeof(zero), SUPER_LEN - at - sizeof(zero));
}

/* Learn what the feature bits of the superblock say about the log's blocks. */
void log_formats(struct log *log)
{
	const struct jbd2_super *sb = log_super(log);
	const uint32_t incompat = be32_to_cpu(sb->incompat);

	log->csum_v3 = incompat & JBD2_INCOMPAT_CSUM_V3;
	log->csum_v2 = incompat & JBD2_INCOMPAT_CSUM_V2;
	log->csum_v1 = be32_to_cpu(sb->compat) & JBD2_COMPAT_CHECKSUM;
	log->wide = incompat & JBD2_INCOMPAT_64BIT;
	log->async_commit = incompat & JBD2_INCOMPAT_ASYNC_COMMIT;
	log->csum_seed = crc32c(~0u, sb->uuid, sizeof(sb->uuid));
	if (log->csum_v3) {
		log->tag_len = sizeof(struct jbd2_tag3);
	} else {
		/* Version 2 has two bytes more that nothing uses. */
		log->tag_len = sizeof(struct jbd2_tag) + (log->csum_v2 ? 2 : 0) -
			       (log->wide ? 0 : sizeof(be32_t));
	}
}

static int check_features(struct ext4_fs *fs, const struct jbd2_super *sb)
{
	const uint32_t incompat = be32_to_cpu(sb->incompat);
	const uint32_t both = JBD2_INCOMPAT_CSUM_V2 | JBD2_INCOMPAT_CSUM_V3;

	if (incompat & ~JBD2_INCOMPAT_KNOWN || be32_to_cpu(sb->ro_compat))
		return ext4_refuse(fs, -EOPNOTSUPP, "journal: unknown features (%#x)", incompat);
	if ((incompat & both) == both)
		return ext4_corrupt(fs, "journal: two kinds of checksums");
	if (!(incompat & both))
		return 0;
	if (be32_to_cpu(sb->compat) & JBD2_COMPAT_CHECKSUM)
		return ext4_corrupt(fs, "journal: two kinds of checksums");
	if (sb->checksum_type != JBD2_CSUM_CRC32C)
		return ext4_corrupt(fs, "journal: checksum type %u", sb->checksum_type);
	if (be32_to_cpu(sb->checksum) != super_csum(sb))
		return ext4_corrupt(fs, "journal: superblock checksum");
	return 0;
}

static int check_super(struct ext4_fs *fs, struct log *log)
{
	const struct jbd2_super *sb = log_super(log);
	const uint32_t type = be32_to_cpu(sb->h.type);
	const uint32_t len = be32_to_cpu(sb->max_len);
	uint32_t start;
	int err;

	if (be32_to_cpu(sb->h.magic) != JBD2_MAGIC)
		return ext4_corrupt(fs, "journal: no superblock");
	if (type == JBD2_SUPER_V1) {
		/* Version 1 ends before the features; what is behind means nothing. */
		memset(log->sb + offsetof(struct jbd2_super, compat), 0,
		       SUPER_LEN - offsetof(struct jbd2_super, compat));
	} else if (type != JBD2_SUPER_V2) {
		return ext4_refuse(fs, -EOPNOTSUPP, "journal: superblock of type %u", type);
	}
	err = check_features(fs, sb);
	if (err)
		return err;
	if (be32_to_cpu(sb->block_size) != log->block_size)
		return ext4_corrupt(fs, "journal: block size %u", be32_to_cpu(sb->block_size));
	if (len > log->end || len < JBD2_MIN_BLOCKS)
		return ext4_corrupt(fs, "journal: %u blocks", len);
	log->end = len;
	if (be32_to_cpu(sb->incompat) & JBD2_INCOMPAT_FAST_COMMIT) {
		log->nr_fc = be32_to_cpu(sb->nr_fc_blocks);
		log->nr_fc = log->nr_fc ? log->nr_fc : 256;
		if (log->nr_fc > len - JBD2_MIN_BLOCKS / 2)
			return ext4_corrupt(fs, "journal: %u fast-commit blocks", log->nr_fc);
		log->end -= log->nr_fc;
	}
	log->first = be32_to_cpu(sb->first);
	if (!log->first || log->first >= log->end - JBD2_MIN_BLOCKS / 4)
		return ext4_corrupt(fs, "journal: its log begins at block %u", log->first);
	start = be32_to_cpu(sb->start);
	if (start && (start < log->first || start >= log->end))
		return ext4_corrupt(fs, "journal: its tail is at block %u", start);
	log_formats(log);
	return 0;
}

static int open_with(struct ext4_fs *fs, struct log *log, struct ext4_inode *in)
{
	int err;

	err = map_file(fs, log, in);
	if (err)
		return err;
	log->sb = kmalloc(log->block_size);
	if (!log->sb)
		return -ENOMEM;
	err = blk_read(log->bd, log_sector(log, 0), log->sb, log->block_size);
	if (err)
		return ext4_refuse(fs, err, "reading the journal's superblock failed (%d)", err);
	return check_super(fs, log);
}

struct log *log_open(struct ext4_fs *fs, uint32_t ino)
{
	struct ext4_inode *in = ext4_inode_get_special(fs, ino);
	struct log *log;
	int err;

	if (IS_ERR(in))
		return PTR_ERR(in) == -ESTALE
			       ? ERR_PTR(ext4_corrupt(fs, "journal: inode %u is free", ino))
			       : ERR_CAST(in);
	log = kzalloc(sizeof(*log));
	if (!log) {
		ext4_inode_put(in);
		return ERR_PTR(-ENOMEM);
	}
	log->bd = fs->bd;
	log->block_size = fs->block_size;
	err = open_with(fs, log, in);
	ext4_inode_put(in);
	if (err) {
		log_free(log);
		return ERR_PTR(err);
	}
	return log;
}

void log_free(struct log *log)
{
	kfree(log->runs);
	kfree(log->sb);
	kfree(log);
}

int log_write_super(struct log *log, uint32_t start, uint32_t seq, int error)
{
	struct jbd2_super *sb = log_super(log);

	sb->start = cpu_to_be32(start);
	sb->sequence = cpu_to_be32(seq);
	if (error)
		sb->error = cpu_to_be32((uint32_t)error);
	if (log_has_csum(log)) {
		sb->checksum_type = JBD2_CSUM_CRC32C;
		sb->checksum = cpu_to_be32(super_csum(sb));
	}
	return blk_write(log->bd, log_sector(log, 0), log->sb, log->block_size, BLK_FUA);
}

/* The checksum at the end of a descriptor or revoke block. */
uint32_t log_block_csum(const struct log *log, const uint8_t *data)
{
	const be32_t zero = cpu_to_be32(0);
	const uint32_t crc = crc32c(log->csum_seed, data, log->block_size - JBD2_TAIL_LEN);

	return crc32c(crc, &zero, sizeof(zero));
}

uint32_t log_tags_per_block(const struct log *log)
{
	const uint32_t tail = log_has_csum(log) ? JBD2_TAIL_LEN : 0;

	return (log->block_size - (uint32_t)sizeof(struct jbd2_header) - JBD2_UUID_LEN - tail) /
	       log->tag_len;
}

uint32_t log_revokes_per_block(const struct log *log)
{
	const uint32_t tail = log_has_csum(log) ? JBD2_TAIL_LEN : 0;

	return (log->block_size - (uint32_t)sizeof(struct jbd2_revoke_header) - tail) /
	       (log->wide ? 8u : 4u);
}
