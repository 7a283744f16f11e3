/* SPDX-License-Identifier: MIT */
/*
 * ext4 transactions: checkpoints, which make room in the log.
 *
 * Flow:	write the blocks of the oldest committed transactions in place -> flush -> move the
 *		log's tail behind them, in the journal's superblock.
 * Context:	threads without a handle; sleeps.
 * Locking:	checkpoint_lock for all of it.  A commit may run meanwhile, and be waited for.
 * Ordering:	blocks are durable in place before the tail leaves their copies in the log.
 * Failure:	a block that cannot be written aborts the file system; the log keeps its copy.
 */
#define PR_FMT "ext4: "

#include <drivers/blkdev.h>
#include <kernel/panic.h>
#include <kernel/printk.h>
#include <lib/errno.h>

#include "journal_priv.h"

/* Forget those of @bufs that are in place by now. */
static void release_written(struct journal *j, struct ext4_transaction *t, struct bcache_buf **bufs,
			    uint32_t nr)
{
	for (uint32_t i = 0; i < nr; i++) {
		struct jbuf *jb;

		spin_lock(&j->lock);
		jb = bufs[i]->journal;
		if (jb && jb->cp == t && !bcache_is_dirty(bufs[i])) {
			list_del(&jb->cp_link);
			jb->cp = NULL;
			jbuf_release_locked(j, jb);
		}
		spin_unlock(&j->lock);
		bcache_put(bufs[i]);
	}
}

/* Collect blocks of @t that no transaction has now; else *@tid: one that must commit first. */
static uint32_t collect_locked(struct journal *j, struct ext4_transaction *t,
			       struct bcache_buf **bufs, ext4_tid_t *tid) __must_hold(&j->lock)
{
	uint32_t n = 0;
	struct jbuf *jb;

	assert_spin_held(&j->lock);
	*tid = 0;
	list_for_each_entry(jb, &t->cp, cp_link) {
		if (n == CHECKPOINT_BATCH)
			break;
		if (jb->t) {
			*tid = jb->t->tid;
			continue;
		}
		bcache_hold(jb->buf);
		bufs[n++] = jb->buf;
	}
	return n;
}

/* A step for the oldest transaction: 0, or -errno; *@gone: it is done with. */
static int step(struct journal *j, bool *gone) __must_hold(&j->checkpoint_lock)
{
	struct bcache_buf **bufs = j->cp_bufs;
	struct ext4_transaction *t;
	ext4_tid_t tid = 0;
	uint32_t n = 0;
	int err = 0;

	assert_mutex_held(&j->checkpoint_lock);
	spin_lock(&j->lock);
	t = list_first_entry(&j->committed, struct ext4_transaction, link);
	/* The committer still looks at its transaction until committed_tid says otherwise. */
	*gone = list_empty(&t->cp) && t->tid <= j->committed_tid;
	if (*gone)
		list_del(&t->link);
	else
		n = collect_locked(j, t, bufs, &tid);
	if (!n && !tid)
		tid = t->tid;
	spin_unlock(&j->lock);
	if (*gone) {
		txn_free(j, t);
		return 0;
	}
	if (n) {
		err = ext4_mmp_confirm(j->fs);
		if (!err)
			err = bcache_write(j->fs->bc, j->cp_batch, bufs, n, false);
		release_written(j, t, bufs, n);
		if (err && journal_abort(j, err))
			pr_err("%s: a block cannot be written in place (%d): the file system is "
			       "read-only from now on\n",
			       j->fs->bd->name, err);
		return err;
	}
	return journal_commit(j, tid);
}

/* Tell the disk where the log begins now. */
static int move_tail(struct journal *j) __must_hold(&j->checkpoint_lock)
{
	uint32_t lblk, seq, len;
	bool moved;
	int err;

	assert_mutex_held(&j->checkpoint_lock);
	spin_lock(&j->lock);
	if (!list_empty(&j->committed)) {
		struct ext4_transaction *t =
			list_first_entry(&j->committed, struct ext4_transaction, link);

		lblk = t->log_start;
		seq = t->seq;
	} else if (j->committing) {
		lblk = j->committing->log_start;
		seq = j->committing->seq;
	} else {
		lblk = j->head;
		seq = j->seq;
	}
	moved = seq != j->tail_seq;
	spin_unlock(&j->lock);
	if (!moved)
		return 0;
	err = blk_flush(j->log->bd);
	if (!err)
		err = log_write_super(j->log, lblk, seq, 0);
	if (err) {
		if (journal_abort(j, err))
			pr_err("%s: the journal's superblock cannot be written (%d)\n",
			       j->fs->bd->name, err);
		return err;
	}
	len = j->log->end - j->log->first;
	spin_lock(&j->lock);
	j->free += (lblk + len - j->tail) % len;
	j->tail = lblk;
	j->tail_seq = seq;
	spin_unlock(&j->lock);
	wake_all(&j->wait);
	return 0;
}

/* Is there something to do for @want free blocks, or (0) for the limit of dirty ones? */
static bool wanting(struct journal *j, uint32_t want)
{
	bool yes;

	spin_lock(&j->lock);
	yes = !list_empty(&j->committed) && !j->error &&
	      (want ? j->free < want : bcache_nr_dirty(j->fs->bc) > j->max_dirty / 2);
	spin_unlock(&j->lock);
	return yes;
}

static bool has_old(struct journal *j)
{
	bool yes;

	spin_lock(&j->lock);
	yes = !list_empty(&j->committed);
	spin_unlock(&j->lock);
	return yes;
}

/* When nothing old is left, a commit must make the running transaction old. */
static int commit_something(struct journal *j)
{
	ext4_tid_t tid;

	spin_lock(&j->lock);
	tid = j->committing ? j->committing->tid : j->running ? j->running->tid : 0;
	spin_unlock(&j->lock);
	return tid ? journal_commit(j, tid) : 0;
}

int journal_checkpoint(struct journal *j, uint32_t want)
{
	bool gone = false;
	int err = 0;

	if (want != UINT32_MAX && !has_old(j))
		return commit_something(j);
	mutex_lock(&j->checkpoint_lock);
	while (!err && wanting(j, want)) {
		err = step(j, &gone);
		if (!err && gone && j->log)
			err = move_tail(j);
	}
	mutex_unlock(&j->checkpoint_lock);
	return err;
}
