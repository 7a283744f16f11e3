/* SPDX-License-Identifier: MIT */
/*
 * ext4 transactions: the commit.
 *
 * Flow:	lock the transaction -> wait for its handles -> from here on handles join the next
 *		one -> wait for its ordered data -> write revoke records, descriptors and blocks to
 *		the log -> flush -> commit block (FUA) -> refile the blocks: they may be written in
 *		place.  Without a log: write the blocks in place -> flush.
 * Context:	the thread that needs the commit first; others that come meanwhile wait for the
 *		same one, or for the next one together.
 * Ordering:	data and log are durable before the commit block is written, by the flush; the
 *		commit block before journal_commit() returns, by FUA.
 * Failure:	a log that cannot be written aborts the file system; what the transaction changed
 *		stays in memory, unwritten.
 */
#define PR_FMT "ext4: "

#include <drivers/blkbatch.h>
#include <drivers/blkdev.h>
#include <kernel/panic.h>
#include <kernel/printk.h>
#include <kernel/time.h>
#include <lib/crc.h>
#include <lib/errno.h>
#include <lib/string.h>

#include "journal_priv.h"

#define IN_PLACE_BATCH 64u

/* The log while one transaction is written to it. */
struct log_writer {
	struct journal *j;
	struct ext4_transaction *t;
	struct blk_batch *batch;
	uint32_t nr_control; /* of journal.control */
	bool escaped;        /* journal.escaped is in the batch */
	int err;             /* the first of the writes that are over */
	uint32_t head;
	uint32_t used;
	/* The descriptor that is being filled, in its place in the batch before its blocks. */
	uint8_t *desc;
	uint32_t desc_lblk;
	uint32_t desc_run; /* blk_batch_nr_runs() when it was added */
	uint32_t at;
	uint8_t *last_tag;
};

/* The next block of the log. */
static uint32_t take_block(struct log_writer *w)
{
	const struct log *log = w->j->log;
	const uint32_t lblk = w->head;

	BUG_ON(w->used == w->t->log_need); /* what was set aside is enough */
	w->used++;
	w->head = lblk + 1 == log->end ? log->first : lblk + 1;
	return lblk;
}

static void write_block(struct log_writer *w, uint32_t lblk, uint8_t *data)
{
	const struct log *log = w->j->log;

	blk_batch_add(w->batch, BLK_WRITE, log_sector(log, lblk), data, log->block_size);
}

static void run_batch(struct log_writer *w)
{
	const int err = blk_batch_run(w->batch);

	w->err = w->err ? w->err : err;
	w->escaped = false;
}

static uint8_t *new_control(struct log_writer *w, enum jbd2_block_type type)
{
	const struct log *log = w->j->log;
	struct jbd2_header *h;
	uint8_t *block;

	ASSERT(!w->desc);
	if (w->nr_control == JOURNAL_CONTROL) { /* all of them are in the batch: write it */
		run_batch(w);
		w->nr_control = 0;
	}
	block = w->j->control + (size_t)w->nr_control++ * log->block_size;
	h = (void *)block;
	memset(block, 0, log->block_size);
	h->magic = cpu_to_be32(JBD2_MAGIC);
	h->type = cpu_to_be32(type);
	h->sequence = cpu_to_be32(w->t->seq);
	return block;
}

/* All is in @block. */
static void seal_control(const struct log_writer *w, uint8_t *block)
{
	const struct log *log = w->j->log;

	if (log_has_csum(log))
		put_unaligned_be32(log_block_csum(log, block),
				   block + log->block_size - JBD2_TAIL_LEN);
}

static void write_revokes(struct log_writer *w)
{
	const struct log *log = w->j->log;
	const uint32_t len = log->wide ? 8 : 4;
	const uint32_t per_block = log_revokes_per_block(log);
	struct jbd2_revoke_header *h = NULL;
	struct revoke_record *rec;
	uint8_t *block = NULL;
	uint32_t n = 0;

	rb_for_each_entry(rec, &w->t->revokes, node) {
		if (!block) {
			block = new_control(w, JBD2_REVOKE);
			h = (void *)block;
			n = 0;
		}
		if (log->wide)
			put_unaligned_be64(rec->block, block + sizeof(*h) + n * len);
		else
			put_unaligned_be32((uint32_t)rec->block, block + sizeof(*h) + n * len);
		n++;
		h->count = cpu_to_be32((uint32_t)sizeof(*h) + n * len);
		if (n == per_block) {
			seal_control(w, block);
			write_block(w, take_block(w), block);
			block = NULL;
		}
	}
	if (block) {
		seal_control(w, block);
		write_block(w, take_block(w), block);
	}
}

/* --- descriptors and blocks --- */

static void close_descriptor(struct log_writer *w)
{
	const struct log *log = w->j->log;

	if (!w->desc)
		return;
	if (log->csum_v3) {
		struct jbd2_tag3 *tag = (void *)w->last_tag;

		tag->flags |= cpu_to_be32(JBD2_TAG_LAST);
	} else {
		struct jbd2_tag *tag = (void *)w->last_tag;

		tag->flags |= cpu_to_be16(JBD2_TAG_LAST);
	}
	seal_control(w, w->desc);
	/* A batch that was full, or had an escaped block, has written it as it was then. */
	if (blk_batch_nr_runs(w->batch) != w->desc_run)
		write_block(w, w->desc_lblk, w->desc);
	w->desc = NULL;
}

static void add_tag(struct log_writer *w, uint64_t block, uint32_t flags, uint32_t csum)
{
	const struct log *log = w->j->log;
	const uint32_t end = log->block_size - (log_has_csum(log) ? JBD2_TAIL_LEN : 0);
	uint8_t *p;

	if (w->desc && w->at + log->tag_len > end)
		close_descriptor(w);
	if (!w->desc) {
		w->desc = new_control(w, JBD2_DESCRIPTOR);
		w->desc_lblk = take_block(w);
		write_block(w, w->desc_lblk, w->desc);
		w->desc_run = blk_batch_nr_runs(w->batch);
		w->at = sizeof(struct jbd2_header);
	} else {
		flags |= JBD2_TAG_SAME_UUID;
	}
	p = w->desc + w->at;
	w->last_tag = p;
	put_unaligned_be32((uint32_t)block, p);
	if (log->csum_v3) {
		put_unaligned_be32(flags, p + offsetof(struct jbd2_tag3, flags));
		put_unaligned_be32(csum, p + offsetof(struct jbd2_tag3, checksum));
		put_unaligned_be32((uint32_t)(block >> 32),
				   p + offsetof(struct jbd2_tag3, block_hi));
	} else {
		put_unaligned_be16((uint16_t)flags, p + offsetof(struct jbd2_tag, flags));
		put_unaligned_be16((uint16_t)csum, p + offsetof(struct jbd2_tag, checksum));
		if (log->wide)
			put_unaligned_be32((uint32_t)(block >> 32),
					   p + offsetof(struct jbd2_tag, block_hi));
	}
	w->at += log->tag_len;
	if (!(flags & JBD2_TAG_SAME_UUID)) {
		memcpy(w->desc + w->at, log_super(log)->uuid, JBD2_UUID_LEN);
		w->at += JBD2_UUID_LEN;
	}
}

static uint32_t data_csum(const struct log_writer *w, const uint8_t *data)
{
	const struct log *log = w->j->log;
	const be32_t seq = cpu_to_be32(w->t->seq);
	uint32_t crc;

	if (!log_has_csum(log))
		return 0;
	crc = crc32c(log->csum_seed, &seq, sizeof(seq));
	return crc32c(crc, data, log->block_size);
}

/* The bytes of @jb that go into the log; nothing changes them until the shadow is gone. */
static uint8_t *log_contents(struct journal *j, struct jbuf *jb)
{
	uint8_t *data;

	spin_lock(&j->lock);
	if (!jb->frozen)
		jb->shadow = true;
	data = jb->frozen ? jb->frozen : jb->buf->data;
	spin_unlock(&j->lock);
	return data;
}

/*
 * A block that begins as the log's own blocks do is logged with zeros there: a copy of it, for
 * which there is one place.
 */
static uint8_t *escape(struct log_writer *w, const uint8_t *data)
{
	struct journal *j = w->j;

	if (w->escaped)
		run_batch(w);
	w->escaped = true;
	memcpy(j->escaped, data, j->fs->block_size);
	put_unaligned_be32(0, j->escaped);
	return j->escaped;
}

static void write_blocks(struct log_writer *w)
{
	struct jbuf *jb;

	list_for_each_entry(jb, &w->t->bufs, link) {
		uint32_t flags = 0;
		uint8_t *data;

		if (!jb->modified)
			continue;
		data = log_contents(w->j, jb);
		if (get_unaligned_be32(data) == JBD2_MAGIC) {
			data = escape(w, data);
			flags = JBD2_TAG_ESCAPE;
		}
		add_tag(w, jb->buf->block, flags, data_csum(w, data));
		write_block(w, take_block(w), data);
	}
	close_descriptor(w);
}

/* The log has all of @t: its blocks may be changed again without copies. */
static void end_shadows(struct journal *j, struct ext4_transaction *t)
{
	struct jbuf *jb;

	spin_lock(&j->lock);
	list_for_each_entry(jb, &t->bufs, link) {
		jb->shadow = false;
		jb->logged = true;
	}
	spin_unlock(&j->lock);
	wake_all(&j->wait);
}

static int write_commit_block(struct log_writer *w)
{
	const struct log *log = w->j->log;
	uint8_t *block = new_control(w, JBD2_COMMIT);
	struct jbd2_commit *c = (void *)block;
	const uint64_t now = time_real_ns();

	c->sec = cpu_to_be64(now / NSEC_PER_SEC);
	c->nsec = cpu_to_be32((uint32_t)(now % NSEC_PER_SEC));
	if (log_has_csum(log))
		c->checksum[0] = cpu_to_be32(crc32c(log->csum_seed, block, log->block_size));
	return blk_write(log->bd, log_sector(log, take_block(w)), block, log->block_size, BLK_FUA);
}

static void set_state(struct journal *j, struct ext4_transaction *t, enum txn_state state)
{
	spin_lock(&j->lock);
	ASSERT(t->state < state);
	t->state = state;
	spin_unlock(&j->lock);
}

static int log_transaction(struct log_writer *w)
{
	struct journal *j = w->j;
	int err;

	if (!j->started) {
		err = log_write_super(j->log, w->head, w->t->seq, 0);
		if (err)
			return err;
		j->started = true;
	}
	write_revokes(w);
	write_blocks(w);
	run_batch(w);
	end_shadows(j, w->t);
	if (w->err)
		return w->err;
	set_state(j, w->t, TXN_SEALING);
	err = blk_flush(j->log->bd);
	return err ? err : write_commit_block(w);
}

static int write_log(struct journal *j, struct ext4_transaction *t)
{
	struct log_writer w = { .j = j, .t = t, .batch = j->batch, .head = t->log_start };
	const int err = log_transaction(&w);

	spin_lock(&j->lock);
	j->head = w.head;
	j->free += t->log_need - w.used;
	spin_unlock(&j->lock);
	return err;
}

/* Without a log: write the blocks of @t in place. */
static int write_in_place(struct journal *j, struct ext4_transaction *t)
{
	struct bcache_buf *bufs[IN_PLACE_BATCH];
	uint32_t n = 0;
	struct jbuf *jb;
	int err = 0;

	list_for_each_entry(jb, &t->bufs, link) {
		if (!jb->modified)
			continue;
		(void)log_contents(j, jb);
		bcache_mark_dirty(jb->buf);
		bufs[n++] = jb->buf;
		if (n < IN_PLACE_BATCH)
			continue;
		if (!err)
			err = bcache_write(j->fs->bc, j->batch, bufs, n, true);
		n = 0;
	}
	if (!err)
		err = bcache_write(j->fs->bc, j->batch, bufs, n, true);
	end_shadows(j, t);
	set_state(j, t, TXN_SEALING);
	return err ? err : blk_flush(j->fs->bd);
}

/* --- the steps around it --- */

static bool handles_left(struct journal *j, const struct ext4_transaction *t)
{
	bool left;

	spin_lock(&j->lock);
	left = t->nr_updates != 0;
	spin_unlock(&j->lock);
	return left;
}

/* Take the running transaction away from those who begin handles. */
static struct ext4_transaction *detach_running(struct journal *j)
{
	struct ext4_transaction *t;

	spin_lock(&j->lock);
	t = j->running;
	if (t)
		t->state = TXN_LOCKED;
	spin_unlock(&j->lock);
	if (!t)
		return NULL;
	wait_event(&j->wait, !handles_left(j, t));
	spin_lock(&j->lock);
	ASSERT(!t->reserved && !j->committing);
	t->state = TXN_LOGGING;
	t->seq = j->seq;
	t->log_start = j->head;
	t->log_need = txn_log_need(j, t->nr_bufs, t->nr_revokes);
	if (j->log) {
		BUG_ON(j->free < t->log_need);
		j->free -= t->log_need;
	}
	j->committing = t;
	j->running = NULL;
	spin_unlock(&j->lock);
	wake_all(&j->wait);
	return t;
}

/* Let go of blocks that were not changed after all; returns how many were. */
static uint32_t drop_unmodified(struct journal *j, struct ext4_transaction *t)
{
	struct jbuf *jb, *next;
	uint32_t n = 0;

	spin_lock(&j->lock);
	list_for_each_entry_safe(jb, next, &t->bufs, link) {
		if (jb->modified)
			n++;
		else if (!jb->freed)
			jbuf_refile_locked(j, jb);
	}
	spin_unlock(&j->lock);
	return n;
}

/* @jb, of the committed @t, is to be written in place some day, or never any more. */
static void settle_locked(struct journal *j, struct ext4_transaction *t, struct jbuf *jb)
	__must_hold(&j->lock)
{
	assert_spin_held(&j->lock);
	ASSERT(jb->t == t);
	if (jb->cp) { /* the log has a newer copy now, or the block is free */
		list_del(&jb->cp_link);
		jb->cp = NULL;
	}
	if (jb->freed) {
		bcache_mark_clean(jb->buf);
	} else if (j->log) {
		bcache_mark_dirty(jb->buf);
		jb->cp = t;
		list_add_tail(&jb->cp_link, &t->cp);
	}
	jbuf_refile_locked(j, jb);
}

static void finish(struct journal *j, struct ext4_transaction *t, bool logged, int err)
{
	struct ext4_commit_cb *cb, *next_cb;
	struct jbuf *jb, *next;
	bool gone = false;

	spin_lock(&j->lock);
	if (err) {
		list_add_tail(&t->link, &j->dead);
	} else {
		t->state = TXN_DONE;
		list_for_each_entry_safe(jb, next, &t->bufs, link)
			settle_locked(j, t, jb);
		if (logged) {
			j->seq++;
			j->nr_commits++;
			j->flushed_tid = t->tid;
		}
		/* Without blocks to be written in place it may go: the log needs it no more. */
		gone = list_empty(&t->cp);
		if (!gone)
			list_add_tail(&t->link, &j->committed);
	}
	spin_unlock(&j->lock);
	list_for_each_entry_safe(cb, next_cb, &t->callbacks, link) {
		list_del(&cb->link);
		cb->fn(j->fs, cb, err);
	}
	txn_free_revokes(j->fs, t);
	spin_lock(&j->lock);
	j->committing = NULL;
	if (!err)
		j->committed_tid = t->tid;
	spin_unlock(&j->lock);
	if (gone)
		txn_free(j, t);
	wake_all(&j->wait);
}

/* Nothing goes into the log: give back what was set aside. */
static void return_room(struct journal *j, struct ext4_transaction *t)
{
	spin_lock(&j->lock);
	if (j->log)
		j->free += t->log_need;
	spin_unlock(&j->lock);
}

static int commit_running(struct journal *j)
{
	struct ext4_transaction *t = detach_running(j);
	uint32_t nr;
	bool any;
	int err = 0;

	if (!t)
		return 0;
	wait_event(&j->wait, atomic_read(&t->nr_ordered) == 0);
	nr = drop_unmodified(j, t);
	any = nr || t->nr_revokes;
	if (ext4_mmp_confirm(j->fs) || journal_error(j))
		err = -EROFS;
	if (err || !any)
		return_room(j, t);
	else if (j->log)
		err = write_log(j, t);
	else
		err = write_in_place(j, t);
	if (err && journal_abort(j, err))
		pr_err("%s: a commit failed (%d): the file system is read-only from now on\n",
		       j->fs->bd->name, err);
	finish(j, t, any, err);
	return err;
}

static bool committer_gone(struct journal *j)
{
	bool gone;

	spin_lock(&j->lock);
	gone = !j->committer;
	spin_unlock(&j->lock);
	return gone;
}

int journal_commit(struct journal *j, ext4_tid_t tid)
{
	int err = 0;

	for (;;) {
		bool mine = false;

		spin_lock(&j->lock);
		if (j->committed_tid >= tid) {
			spin_unlock(&j->lock);
			return 0;
		}
		if (j->error) {
			spin_unlock(&j->lock);
			return -EROFS;
		}
		if (!j->committer) {
			mine = true;
			j->committer = true;
		}
		spin_unlock(&j->lock);
		if (!mine) {
			wait_event(&j->wait, committer_gone(j));
			continue;
		}
		err = commit_running(j);
		spin_lock(&j->lock);
		j->committer = false;
		spin_unlock(&j->lock);
		wake_all(&j->wait);
		if (err)
			return err == -EROFS ? -EROFS : -EIO;
	}
}
