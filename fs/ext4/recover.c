/* SPDX-License-Identifier: MIT */
/*
 * ext4: recovery of the journal, ours or Linux's.
 *
 * Flow:	three passes from the log's tail: SCAN finds the last transaction that has its
 *		commit block; REVOKE collects the blocks that may not be replayed, and up to which
 *		transaction; REPLAY writes the others in place.
 * Context:	mount, one thread; sleeps for the disk.
 * Limits:	a pass looks at no more blocks than the log has.  Memory: the revoke records of the
 *		log, each checked to lie in the file system.
 * Failure:	a transaction with a wrong checksum ends the log, as in Linux: nothing from there
 *		on is replayed.  A replayed block with a wrong checksum is left out, and recovery
 *		ends in -EUCLEAN; so it does for tags that point outside of the file system.
 * See:		docs/design/storage.md
 */
#define PR_FMT "ext4: "

#include <drivers/blkdev.h>
#include <kernel/printk.h>
#include <lib/crc.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <mm/slab.h>

#include "journal_priv.h"

enum pass {
	PASS_SCAN,
	PASS_REVOKE,
	PASS_REPLAY,
};

#define READ_AHEAD 32u /* blocks */

struct recovery {
	struct ext4_fs *fs;
	struct log *log;
	enum pass pass;
	uint32_t end_seq; /* the number after the last transaction to be replayed */
	struct rb_root revoked;
	uint32_t nr_replayed;
	uint32_t nr_transactions;
	bool bad_block; /* one was left out */
	/* Of PASS_SCAN. */
	uint32_t crc_v1;
	bool suspect; /* a descriptor or revoke block has a wrong checksum */
	uint64_t last_commit_sec;
	/* The piece of the log that was read last. */
	uint8_t *ahead;
	uint32_t ahead_at;
	uint32_t ahead_nr;
	/* A copy of the block that is being decoded, and of one to be replayed. */
	uint8_t *block;
	uint8_t *data;
};

struct revoked {
	struct rb_node node;
	uint64_t block;
	uint32_t seq; /* the newest transaction that revoked it */
};

/* Sequence numbers wrap. */
static bool seq_after(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) > 0;
}

static uint32_t next_lblk(const struct log *log, uint32_t lblk)
{
	return lblk + 1 == log->end ? log->first : lblk + 1;
}

/* Read block @lblk of the log into @buf. */
static int read_block(struct recovery *r, uint32_t lblk, uint8_t *buf)
{
	const struct log *log = r->log;
	const uint64_t first = log_sector(log, lblk);
	const uint32_t sectors = log->block_size >> BLK_SECTOR_SHIFT;
	uint32_t nr = 1;
	int err;

	if (lblk < r->ahead_at || lblk - r->ahead_at >= r->ahead_nr) {
		while (nr < READ_AHEAD && lblk + nr < log->end &&
		       log_sector(log, lblk + nr) == first + (uint64_t)nr * sectors)
			nr++;
		r->ahead_nr = 0;
		err = blk_read(log->bd, first, r->ahead, nr * log->block_size);
		if (err)
			return ext4_refuse(r->fs, err, "reading the journal failed (%d)", err);
		r->ahead_at = lblk;
		r->ahead_nr = nr;
	}
	memcpy(buf, r->ahead + (size_t)(lblk - r->ahead_at) * log->block_size, log->block_size);
	return 0;
}

/* --- revoke records --- */

static int cmp_revoked(const struct rb_node *a, const struct rb_node *b)
{
	const uint64_t x = rb_entry(a, struct revoked, node)->block;
	const uint64_t y = rb_entry(b, struct revoked, node)->block;

	return x < y ? -1 : x > y;
}

static int revoke(struct recovery *r, uint64_t block, uint32_t seq)
{
	struct revoked *rec = kzalloc(sizeof(*rec));
	struct rb_node *old;

	if (!rec)
		return -ENOMEM;
	rec->block = block;
	rec->seq = seq;
	old = rb_insert(&rec->node, &r->revoked, cmp_revoked);
	if (old) {
		kfree(rec);
		rec = rb_entry(old, struct revoked, node);
		if (seq_after(seq, rec->seq))
			rec->seq = seq;
	}
	return 0;
}

/* May transaction @seq not write @block, since it or a later one revoked it? */
static bool is_revoked(const struct recovery *r, uint64_t block, uint32_t seq)
{
	struct revoked key = { .block = block };
	const struct rb_node *n = r->revoked.node;

	while (n) {
		const int cmp = cmp_revoked(&key.node, n);

		if (!cmp)
			return !seq_after(seq, rb_entry(n, struct revoked, node)->seq);
		n = cmp < 0 ? n->left : n->right;
	}
	return false;
}

static void free_revoked(struct recovery *r)
{
	struct rb_node *n;

	while ((n = rb_first(&r->revoked)) != NULL) {
		rb_erase(n, &r->revoked);
		kfree(rb_entry(n, struct revoked, node));
	}
}

static bool tail_csum_ok(const struct log *log, const uint8_t *data)
{
	if (!log_has_csum(log))
		return true;
	return get_unaligned_be32(data + log->block_size - JBD2_TAIL_LEN) ==
	       log_block_csum(log, data);
}

static int on_revoke_block(struct recovery *r, uint32_t seq)
{
	const struct log *log = r->log;
	const uint32_t len = log->wide ? 8 : 4;
	const struct jbd2_revoke_header *h = (const void *)r->block;
	const uint32_t max = log->block_size - (log_has_csum(log) ? JBD2_TAIL_LEN : 0);
	const uint32_t count = be32_to_cpu(h->count);
	int err = 0;

	if (r->pass == PASS_SCAN && !tail_csum_ok(log, r->block))
		r->suspect = true;
	if (r->pass != PASS_REVOKE)
		return 0;
	if (count < sizeof(*h) || count > max || !tail_csum_ok(log, r->block))
		return ext4_corrupt(r->fs, "journal: revoke block of transaction %u", seq);
	for (uint32_t at = sizeof(*h); at + len <= count && !err; at += len) {
		const uint64_t block = log->wide ? get_unaligned_be64(r->block + at)
						 : get_unaligned_be32(r->block + at);

		if (!ext4_blocks_ok(r->fs, block, 1))
			return ext4_corrupt(r->fs, "journal: revoked block %llu",
					    (unsigned long long)block);
		err = revoke(r, block, seq);
	}
	return err;
}

/* --- descriptors --- */

struct tag {
	uint64_t block;
	uint32_t flags;
	uint32_t csum;
};

/* The tag at @at of the descriptor in r->block; moves @at behind it.  False: no more fits. */
static bool next_tag(const struct recovery *r, uint32_t *at, struct tag *out)
{
	const struct log *log = r->log;
	const uint32_t end = log->block_size - (log_has_csum(log) ? JBD2_TAIL_LEN : 0);
	const uint8_t *p = r->block + *at;

	if (*at + log->tag_len > end)
		return false;
	out->block = get_unaligned_be32(p);
	if (log->csum_v3) {
		out->flags = get_unaligned_be32(p + offsetof(struct jbd2_tag3, flags));
		out->csum = get_unaligned_be32(p + offsetof(struct jbd2_tag3, checksum));
		if (log->wide)
			out->block |= (uint64_t)get_unaligned_be32(
					      p + offsetof(struct jbd2_tag3, block_hi))
				      << 32;
	} else {
		out->flags = get_unaligned_be16(p + offsetof(struct jbd2_tag, flags));
		out->csum = get_unaligned_be16(p + offsetof(struct jbd2_tag, checksum));
		if (log->wide)
			out->block |= (uint64_t)get_unaligned_be32(
					      p + offsetof(struct jbd2_tag, block_hi))
				      << 32;
	}
	*at += log->tag_len;
	if (!(out->flags & JBD2_TAG_SAME_UUID))
		*at += JBD2_UUID_LEN;
	return true;
}

static bool data_csum_ok(const struct recovery *r, const struct tag *tag, uint32_t seq)
{
	const struct log *log = r->log;
	const be32_t be_seq = cpu_to_be32(seq);
	uint32_t crc;

	if (!log_has_csum(log))
		return true;
	crc = crc32c(log->csum_seed, &be_seq, sizeof(be_seq));
	crc = crc32c(crc, r->data, log->block_size);
	return log->csum_v3 ? crc == tag->csum : (crc & 0xffff) == tag->csum;
}

/* Write the block of @tag, whose copy is at @lblk of the log, in place. */
static int replay(struct recovery *r, const struct tag *tag, uint32_t lblk, uint32_t seq)
{
	struct log *log = r->log;
	int err;

	if (is_revoked(r, tag->block, seq))
		return 0;
	/* The superblock is one that a transaction may change, though it lies at the very start. */
	if (tag->block != r->fs->super_block && !ext4_blocks_ok(r->fs, tag->block, 1))
		return ext4_corrupt(r->fs, "journal: it holds a copy of block %llu",
				    (unsigned long long)tag->block);
	err = read_block(r, lblk, r->data);
	if (err)
		return err;
	if (!data_csum_ok(r, tag, seq)) {
		(void)ext4_corrupt(r->fs, "journal: checksum of the copy of block %llu",
				   (unsigned long long)tag->block);
		r->bad_block = true;
		return 0;
	}
	if (tag->flags & JBD2_TAG_ESCAPE)
		put_unaligned_be32(JBD2_MAGIC, r->data);
	r->nr_replayed++;
	return blk_write(log->bd, tag->block * (log->block_size >> BLK_SECTOR_SHIFT), r->data,
			 log->block_size, 0);
}

/* Version 1 checksums are those of zlib with the bits the other way round. */
static uint32_t crc32_be(uint32_t crc, const uint8_t *p, size_t len)
{
	while (len--) {
		crc ^= (uint32_t)*p++ << 24;
		for (int i = 0; i < 8; i++)
			crc = crc << 1 ^ (crc & 0x80000000u ? 0x04c11db7u : 0);
	}
	return crc;
}

/* Go over the descriptor in r->block, which is at *@lblk; leaves *@lblk behind its data. */
static int on_descriptor(struct recovery *r, uint32_t *lblk, uint32_t seq, uint32_t *budget)
{
	const struct log *log = r->log;
	uint32_t at = sizeof(struct jbd2_header);
	struct tag tag;
	int err = 0;

	if (!tail_csum_ok(log, r->block)) {
		/* A left-over of an older log may look like ours: the commit block decides. */
		if (r->pass != PASS_SCAN)
			return ext4_corrupt(r->fs, "journal: descriptor of transaction %u", seq);
		r->suspect = true;
	}
	if (r->pass == PASS_SCAN && log->csum_v1)
		r->crc_v1 = crc32_be(r->crc_v1, r->block, log->block_size);
	while (next_tag(r, &at, &tag) && *budget) {
		*lblk = next_lblk(log, *lblk);
		(*budget)--;
		if (r->pass == PASS_REPLAY)
			err = replay(r, &tag, *lblk, seq);
		if (r->pass == PASS_SCAN && log->csum_v1) {
			err = read_block(r, *lblk, r->data);
			r->crc_v1 = crc32_be(r->crc_v1, r->data, log->block_size);
		}
		if (err || (tag.flags & JBD2_TAG_LAST))
			break;
	}
	return err;
}

/* --- commit blocks, in PASS_SCAN --- */

static bool commit_csum_ok(const struct recovery *r)
{
	const struct log *log = r->log;
	const size_t at = offsetof(struct jbd2_commit, checksum);
	const be32_t zero = cpu_to_be32(0);
	const struct jbd2_commit *c = (const void *)r->block;
	const uint32_t want = be32_to_cpu(c->checksum[0]);
	uint32_t crc;

	if (log_has_csum(log)) {
		crc = crc32c(log->csum_seed, r->block, at);
		crc = crc32c(crc, &zero, sizeof(zero));
		crc = crc32c(crc, r->block + at + sizeof(zero),
			     log->block_size - at - sizeof(zero));
		return crc == want;
	}
	if (!log->csum_v1)
		return true;
	if (c->checksum_type == JBD2_CSUM_CRC32 && c->checksum_size == sizeof(be32_t))
		return want == r->crc_v1;
	/* Written before the feature was switched on. */
	return !c->checksum_type && !c->checksum_size && !want;
}

/* 0: the transaction counts; 1: the log ended before it; -errno. */
static int on_commit_block(struct recovery *r, uint32_t seq)
{
	const struct jbd2_commit *c = (const void *)r->block;
	const uint64_t sec = be64_to_cpu(c->sec);
	const bool stale = sec < r->last_commit_sec;

	if (r->suspect) {
		/* Older than what came before: not of this log, and no error. */
		if (stale)
			return 1;
		return ext4_corrupt(r->fs, "journal: checksum in transaction %u", seq);
	}
	if (!commit_csum_ok(r)) {
		if (!stale && !r->log->async_commit)
			pr_warn("%s: journal: transaction %u has a wrong checksum; the log ends "
				"there\n",
				r->fs->bd->name, seq);
		return 1;
	}
	r->crc_v1 = ~0u;
	r->last_commit_sec = sec;
	r->nr_transactions++;
	return 0;
}

/* One walk from the tail on; *@seq: the number after the last whole transaction. */
static int run_pass(struct recovery *r, enum pass pass, uint32_t *seq)
{
	const struct jbd2_super *sb = log_super(r->log);
	uint32_t lblk = be32_to_cpu(sb->start);
	uint32_t budget = r->log->end - r->log->first; /* blocks: a log is no longer than this */
	int err = 0;

	r->pass = pass;
	r->crc_v1 = ~0u;
	r->suspect = false;
	*seq = be32_to_cpu(sb->sequence);
	while (budget--) {
		const struct jbd2_header *h = (const void *)r->block;

		if (pass != PASS_SCAN && *seq == r->end_seq)
			break;
		err = read_block(r, lblk, r->block);
		if (err)
			return err;
		if (be32_to_cpu(h->magic) != JBD2_MAGIC || be32_to_cpu(h->sequence) != *seq)
			break;
		switch (be32_to_cpu(h->type)) {
		case JBD2_DESCRIPTOR:
			err = on_descriptor(r, &lblk, *seq, &budget);
			break;
		case JBD2_COMMIT:
			if (pass == PASS_SCAN)
				err = on_commit_block(r, *seq);
			if (!err)
				(*seq)++;
			break;
		case JBD2_REVOKE:
			err = on_revoke_block(r, *seq);
			break;
		default:
			err = 1;
			break;
		}
		if (err)
			return err < 0 ? err : 0;
		if (!budget)
			break;
		lblk = next_lblk(r->log, lblk);
	}
	return 0;
}

static int run_passes(struct recovery *r)
{
	uint32_t seq;
	int err;

	err = run_pass(r, PASS_SCAN, &r->end_seq);
	if (!err)
		err = run_pass(r, PASS_REVOKE, &seq);
	if (!err && seq != r->end_seq)
		err = ext4_corrupt(r->fs, "journal: it changed between two readings");
	if (!err)
		err = run_pass(r, PASS_REPLAY, &seq);
	if (!err && (seq != r->end_seq || r->bad_block))
		err = -EUCLEAN;
	return err;
}

/* Does the fast-commit area begin with changes that follow transaction @end - 1? */
static int check_fast_commits(struct recovery *r)
{
	const struct jbd2_fc_head *h = (const void *)r->block;
	int err;

	if (!r->log->nr_fc)
		return 0;
	err = blk_read(r->log->bd, log_sector(r->log, r->log->end), r->block, r->log->block_size);
	if (err)
		return ext4_refuse(r->fs, err, "reading the journal failed (%d)", err);
	if (le16_to_cpu(h->tag) == JBD2_FC_TAG_HEAD && le16_to_cpu(h->len) == 8 &&
	    le32_to_cpu(h->tid) == r->end_seq)
		return ext4_refuse(r->fs, -EOPNOTSUPP,
				   "its journal has fast commits of Linux; run e2fsck");
	return 0;
}

int log_recover(struct ext4_fs *fs, struct log *log, uint32_t *seq)
{
	struct recovery r = { .fs = fs, .log = log, .revoked = { NULL } };
	const struct jbd2_super *sb = log_super(log);
	int err;

	*seq = be32_to_cpu(sb->sequence);
	r.end_seq = *seq;
	r.ahead = kmalloc((size_t)READ_AHEAD * log->block_size);
	r.block = kmalloc(log->block_size);
	r.data = kmalloc(log->block_size);
	err = r.ahead && r.block && r.data ? 0 : -ENOMEM;
	if (!err && sb->start)
		err = run_pass(&r, PASS_SCAN, &r.end_seq);
	/* Before anything is written: e2fsck wants the image as it is. */
	if (!err)
		err = check_fast_commits(&r);
	r.nr_transactions = 0;
	r.last_commit_sec = 0;
	if (!err && sb->start)
		err = run_passes(&r);
	free_revoked(&r);
	kfree(r.ahead);
	kfree(r.block);
	kfree(r.data);
	if (err)
		return err;
	if (sb->start) {
		pr_info("%s: journal: %u transactions, %u blocks replayed\n", fs->bd->name,
			r.nr_transactions, r.nr_replayed);
		/* Numbers of the past are not used again, not even of what was not whole. */
		*seq = r.end_seq + 1;
	}
	err = blk_flush(fs->bd);
	if (!err)
		err = log_write_super(log, 0, *seq, 0);
	return err ? ext4_refuse(fs, err, "writing the journal's superblock failed (%d)", err) : 0;
}
