/* SPDX-License-Identifier: MIT */
/*
 * ext4: mounts that may write: recovery, the marks in the superblock, the end.
 *
 * Flow:	open the journal -> replay it if the superblock says so -> set its formats -> start
 *		transactions -> mark the superblock "needs recovery" (with a journal) or "not clean"
 *		(without).  At the end: commit, checkpoint, counts, marks off.
 * Context:	mount and unmount: one thread; sleeps.
 * Ordering:	the mark is durable before the first transaction, and goes when the log is empty.
 * Failure:	after an abort the end writes nothing: the next mount recovers what was committed.
 */
#define PR_FMT "ext4: "

#include <drivers/blkdev.h>
#include <kernel/printk.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/errno.h>

#include "group.h"
#include "journal_priv.h"

/* Formats that our transactions have: as Linux would choose for this disk. */
static void choose_formats(const struct ext4_fs *fs, struct log *log)
{
	struct jbd2_super *sb = log_super(log);
	uint32_t incompat = JBD2_INCOMPAT_REVOKE;

	if (fs->has_csum)
		incompat |= JBD2_INCOMPAT_CSUM_V3;
	if (fs->incompat & EXT4_INCOMPAT_64BIT)
		incompat |= JBD2_INCOMPAT_64BIT;
	sb->h.type = cpu_to_be32(JBD2_SUPER_V2);
	sb->compat = cpu_to_be32(0);
	sb->incompat = cpu_to_be32(incompat);
	/* The area of fast commits, which we do not make, is log. */
	sb->nr_fc_blocks = cpu_to_be32(0);
	log->end += log->nr_fc;
	log->nr_fc = 0;
	log_formats(log);
}

int ext4_rw_recover(struct ext4_fs *fs, const struct ext4_super_disk *sb, struct log **out,
		    uint32_t *seq)
{
	const bool needs = fs->incompat & EXT4_INCOMPAT_RECOVER;
	struct log *log;
	int err = 0;

	*out = NULL;
	if (!(fs->compat & EXT4_COMPAT_HAS_JOURNAL))
		return needs ? ext4_corrupt(fs, "needs recovery, but has no journal")
			     : ext4_state_check(fs, sb, true);
	if (le32_to_cpu(sb->journal_dev) || !le32_to_cpu(sb->journal_inum))
		return ext4_refuse(fs, -EOPNOTSUPP, "its journal is on another device");
	log = log_open(fs, le32_to_cpu(sb->journal_inum));
	if (IS_ERR(log))
		return (int)PTR_ERR(log);
	if (be32_to_cpu(log_super(log)->error))
		err = ext4_refuse(fs, -EOPNOTSUPP, "its journal notes an error (%d); run e2fsck",
				  (int)be32_to_cpu(log_super(log)->error));
	*seq = be32_to_cpu(log_super(log)->sequence);
	if (!err && needs && log_super(log)->start) {
		err = log_recover(fs, log, seq);
		err = err ? err : 1;
	} else if (!err && log_super(log)->start) {
		/* The log was seen to when the mark was cleared; its numbers are used up. */
		*seq += log->end;
	}
	if (!err)
		err = ext4_state_check(fs, sb, true);
	if (err) {
		log_free(log);
		return err;
	}
	*out = log;
	return 0;
}

static int write_super(struct ext4_fs *fs)
{
	const uint64_t sector = fs->super_block * (fs->block_size >> BLK_SECTOR_SHIFT);

	ext4_super_csum_set(fs, ext4_super_in(fs, fs->super_buf));
	return blk_write(fs->bd, sector, fs->super_buf->data, fs->block_size, BLK_FUA);
}

static int mark_in_use(struct ext4_fs *fs)
{
	struct ext4_super_disk *sb = ext4_super_in(fs, fs->super_buf);
	const uint16_t state = le16_to_cpu(sb->state);

	if (fs->journal->log)
		sb->incompat = cpu_to_le32(fs->incompat | EXT4_INCOMPAT_RECOVER);
	else
		sb->state = cpu_to_le16((uint16_t)(state & ~EXT4_STATE_VALID));
	sb->mtime = cpu_to_le32((uint32_t)(time_real_ns() / NSEC_PER_SEC));
	sb->mnt_count = cpu_to_le16((uint16_t)(le16_to_cpu(sb->mnt_count) + 1));
	return write_super(fs);
}

int ext4_rw_start(struct ext4_fs *fs, struct log *log, uint32_t seq, bool timed)
{
	struct bcache_buf *buf;
	int err = ext4_mmp_confirm(fs);

	if (!err)
		err = ext4_groups_check(fs);
	if (!err)
		err = ext4_zones_make(fs, log);
	if (!err && log) {
		choose_formats(fs, log);
		err = log_write_super(log, 0, seq, 0);
	}
	if (!err) {
		buf = bcache_get(fs->bc, fs->super_block);
		if (IS_ERR(buf))
			err = (int)PTR_ERR(buf);
		else
			fs->super_buf = buf;
	}
	if (!err)
		err = ext4_journal_start(fs, log, seq, timed);
	if (err) {
		if (log)
			log_free(log);
		return err;
	}
	err = mark_in_use(fs);
	if (err) /* nothing was changed, so nothing is to be done at the end */
		(void)journal_abort(fs->journal, err);
	return err;
}

static int mark_clean(struct ext4_fs *fs)
{
	struct ext4_super_disk *sb = ext4_super_in(fs, fs->super_buf);
	const uint64_t blocks = (uint64_t)atomic64_read(&fs->free_blocks) / fs->cluster_ratio;

	sb->free_blocks_lo = cpu_to_le32((uint32_t)blocks);
	if (fs->incompat & EXT4_INCOMPAT_64BIT)
		sb->free_blocks_hi = cpu_to_le32((uint32_t)(blocks >> 32));
	sb->free_inodes = cpu_to_le32((uint32_t)atomic64_read(&fs->free_inodes));
	sb->incompat = cpu_to_le32(le32_to_cpu(sb->incompat) & ~(uint32_t)EXT4_INCOMPAT_RECOVER);
	sb->state = cpu_to_le16(
		(uint16_t)((le16_to_cpu(sb->state) & ~EXT4_STATE_ORPHAN) | EXT4_STATE_VALID));
	sb->wtime = cpu_to_le32((uint32_t)(time_real_ns() / NSEC_PER_SEC));
	return write_super(fs);
}

bool ext4_rw_stop(struct ext4_fs *fs)
{
	int err;

	(void)!ext4_mmp_confirm(fs); /* or the journal is aborted, and nothing is written below */
	err = ext4_journal_quiesce(fs);
	if (!err)
		err = mark_clean(fs);
	if (err && err != -EROFS)
		pr_err("%s: the end of the mount could not be written (%d)\n", fs->bd->name, err);
	ext4_journal_free(fs);
	return !err;
}
