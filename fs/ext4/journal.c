/* SPDX-License-Identifier: MIT */
/*
 * ext4 transactions: handles, opening and closing the journal, abort.
 *
 * Flow:	ext4_begin() joins the running transaction, if that has room for the credits and the
 *		log has room for the transaction; otherwise it commits or checkpoints first.  A
 *		thread of the journal commits by age.
 * Context:	threads; sleeps.
 * Locking:	see journal_priv.h.  A handle holds up the commit of its transaction, so a thread
 *		with a handle never waits for a commit: what may wait (begin, restart) does so
 *		before it joins.
 * Failure:	an abort is for ever: the log keeps what it has, for the recovery of the next mount.
 */
#define PR_FMT "ext4: "

#include "journal.h"

#include <drivers/blkbatch.h>
#include <drivers/blkdev.h>
#include <kernel/panic.h>
#include <kernel/printk.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/hash.h>
#include <lib/string.h>
#include <mm/slab.h>

#include "journal_priv.h"

#define COMMIT_AGE_NS  (5 * NSEC_PER_SEC)
#define MIN_TXN_BUFS   256u
#define MIN_DIRTY_BUFS 1024u

int journal_error(struct journal *j)
{
	int err;

	spin_lock(&j->lock);
	err = j->error;
	spin_unlock(&j->lock);
	return err;
}

bool journal_abort(struct journal *j, int err)
{
	bool first;

	spin_lock(&j->lock);
	first = !j->error;
	if (first)
		j->error = err;
	spin_unlock(&j->lock);
	ext4_mmp_leave(j->fs);
	wake_all(&j->wait);
	return first;
}

/* Blocks of the log that a transaction of this size may take. */
uint32_t txn_log_need(const struct journal *j, uint32_t nr_bufs, uint32_t nr_revokes)
{
	if (!j->log)
		return 0;
	return nr_bufs + DIV_ROUND_UP(nr_bufs, log_tags_per_block(j->log)) +
	       DIV_ROUND_UP(nr_revokes, log_revokes_per_block(j->log)) + 1;
}

/* --- handles --- */

static struct list_head *bucket_of(struct journal *j, const struct thread *owner)
{
	return &j->handles[hash64((uint64_t)(uintptr_t)owner) % HANDLE_BUCKETS];
}

static struct ext4_handle *find_mine_locked(struct journal *j, const struct thread *me)
	__must_hold(&j->lock)
{
	struct ext4_handle *h;

	assert_spin_held(&j->lock);
	list_for_each_entry(h, bucket_of(j, me), link) {
		if (h->owner == me)
			return h;
	}
	return NULL;
}

static struct ext4_transaction *take_spare(struct journal *j)
{
	struct ext4_transaction *t;

	spin_lock(&j->lock);
	t = j->spare;
	j->spare = NULL;
	spin_unlock(&j->lock);
	return t;
}

void txn_free(struct journal *j, struct ext4_transaction *t)
{
	spin_lock(&j->lock);
	if (!j->spare) {
		j->spare = t;
		t = NULL;
	}
	spin_unlock(&j->lock);
	kfree(t);
}

int journal_set_aside(struct journal *j)
{
	struct ext4_transaction *t;
	bool have;

	spin_lock(&j->lock);
	have = j->spare != NULL;
	spin_unlock(&j->lock);
	if (have)
		return 0;
	t = kmalloc(sizeof(*t));
	if (!t)
		return -ENOMEM;
	txn_free(j, t);
	return 0;
}

static struct ext4_transaction *txn_new(struct journal *j)
{
	struct ext4_transaction *t = kmalloc(sizeof(*t));

	if (!t)
		t = take_spare(j);
	if (!t)
		return NULL;
	memset(t, 0, sizeof(*t));
	t->state = TXN_RUNNING;
	t->started_ns = time_now_ns();
	list_init(&t->bufs);
	list_init(&t->callbacks);
	list_init(&t->cp);
	list_init(&t->link);
	return t;
}

/* Why a handle cannot join the running transaction now. */
enum obstacle {
	OB_NONE,
	OB_LOCKED, /* it is about to commit */
	OB_FULL,   /* it must commit first */
	OB_LOG,    /* the log must be checkpointed first */
	OB_DIRTY,  /* so must memory */
};

static enum obstacle obstacle_locked(struct journal *j, const struct ext4_transaction *t,
				     uint32_t credits) __must_hold(&j->lock)
{
	const uint32_t bufs = t->nr_bufs + t->reserved + credits;

	assert_spin_held(&j->lock);
	if (t->state != TXN_RUNNING)
		return OB_LOCKED;
	if (bufs > j->max_bufs)
		return OB_FULL;
	if (txn_log_need(j, bufs, t->nr_revokes) > j->free && j->log)
		return OB_LOG;
	if (!list_empty(&j->committed) && bcache_nr_dirty(j->fs->bc) > j->max_dirty)
		return OB_DIRTY;
	return OB_NONE;
}

static bool about_to_commit(struct journal *j, const struct ext4_transaction *t)
{
	bool locked;

	spin_lock(&j->lock);
	/* Compared only: it may be gone. */
	locked = j->running == t && t->state != TXN_RUNNING && !j->error;
	spin_unlock(&j->lock);
	return locked;
}

/* Make the obstacle go away, or at least smaller. */
static int overcome(struct journal *j, enum obstacle ob, struct ext4_transaction *t, ext4_tid_t tid,
		    uint32_t credits)
{
	switch (ob) {
	case OB_LOCKED:
		wait_event(&j->wait, !about_to_commit(j, t));
		return 0;
	case OB_FULL:
		return journal_commit(j, tid);
	case OB_LOG:
		return journal_checkpoint(j, txn_log_need(j, j->max_bufs, 0) + credits);
	default:
		return journal_checkpoint(j, 0);
	}
}

/* Let @h join the running transaction. */
static int join(struct journal *j, struct ext4_handle *h, uint32_t credits)
{
	struct ext4_transaction *fresh = NULL, *t;
	const uint32_t all = credits + 1; /* one for a block of revoke records */
	enum obstacle ob;
	ext4_tid_t tid;
	int err;

	if (all > j->max_bufs)
		return -ENOSPC;
	for (;;) {
		spin_lock(&j->lock);
		err = j->error;
		if (!j->running && fresh && !err) {
			fresh->tid = j->next_tid++;
			j->running = fresh;
			fresh = NULL;
		}
		t = j->running;
		ob = t ? obstacle_locked(j, t, all) : OB_NONE;
		tid = t ? t->tid : 0;
		if (t && ob == OB_NONE && !err) {
			h->t = t;
			h->credits = credits;
			h->revoke_credits = 1;
			t->reserved += all;
			t->nr_updates++;
			spin_unlock(&j->lock);
			break;
		}
		spin_unlock(&j->lock);
		if (err)
			break;
		if (t)
			err = overcome(j, ob, t, tid, all);
		else if (!(fresh = txn_new(j)))
			err = -ENOMEM;
		if (err)
			break;
	}
	if (fresh)
		txn_free(j, fresh);
	return err == -ENOMEM || !err ? err : -EROFS;
}

struct ext4_handle *ext4_begin(struct ext4_fs *fs, uint32_t credits)
{
	struct journal *j = fs->journal;
	struct thread *me = thread_current();
	struct ext4_handle *h;
	int err;

	if (!j)
		return ERR_PTR(-EROFS);
	spin_lock(&j->lock);
	h = find_mine_locked(j, me);
	if (h)
		h->nesting++;
	spin_unlock(&j->lock);
	if (h)
		return h;
	err = ext4_mmp_confirm(fs);
	if (err)
		return ERR_PTR(err);
	h = kzalloc(sizeof(*h));
	if (!h)
		return ERR_PTR(-ENOMEM);
	h->fs = fs;
	h->j = j;
	h->owner = me;
	h->nesting = 1;
	err = join(j, h, credits);
	if (err) {
		kfree(h);
		return ERR_PTR(err);
	}
	spin_lock(&j->lock);
	list_add(&h->link, bucket_of(j, me));
	spin_unlock(&j->lock);
	return h;
}

/* Give back what @h has of its transaction; it may commit then. */
static void leave(struct journal *j, struct ext4_handle *h)
{
	struct ext4_transaction *t = h->t;
	bool last;

	spin_lock(&j->lock);
	ASSERT(t->nr_updates && t->reserved >= h->credits + h->revoke_credits);
	t->reserved -= h->credits + h->revoke_credits;
	last = --t->nr_updates == 0;
	spin_unlock(&j->lock);
	h->t = NULL;
	if (last)
		wake_all(&j->wait);
}

int ext4_end(struct ext4_handle *h)
{
	struct journal *j = h->j;

	ASSERT(h->owner == thread_current() && h->nesting);
	if (--h->nesting)
		return 0;
	spin_lock(&j->lock);
	list_del(&h->link);
	spin_unlock(&j->lock);
	if (!h->ended)
		leave(j, h);
	kfree(h);
	return journal_error(j) ? -EROFS : 0;
}

uint32_t ext4_max_credits(const struct ext4_fs *fs)
{
	return fs->journal ? fs->journal->max_bufs - 1 : 0;
}

uint32_t ext4_credits_left(const struct ext4_handle *h)
{
	return h->credits;
}

int ext4_extend(struct ext4_handle *h, uint32_t credits)
{
	struct journal *j = h->j;
	struct ext4_transaction *t = h->t;
	uint32_t more;
	int ret = 0;

	if (h->ended)
		return -EROFS;
	if (h->credits >= credits)
		return 0;
	more = credits - h->credits;
	spin_lock(&j->lock);
	if (j->error) {
		ret = -EROFS;
	} else if (obstacle_locked(j, t, more) != OB_NONE) {
		ret = 1;
	} else {
		h->credits += more;
		t->reserved += more;
	}
	spin_unlock(&j->lock);
	return ret;
}

/* Let the journal give back the memory that its transactions have. */
static int give_back(struct journal *j)
{
	ext4_tid_t tid;
	int err;

	spin_lock(&j->lock);
	tid = j->running ? j->running->tid : 0;
	spin_unlock(&j->lock);
	err = tid ? journal_commit(j, tid) : 0;
	return err ? err : journal_checkpoint(j, UINT32_MAX);
}

int ext4_restart(struct ext4_handle *h, uint32_t credits)
{
	int err;

	if (h->ended)
		return -EROFS;
	leave(h->j, h);
	err = ext4_reserve_fill(h->fs, credits) ? give_back(h->j) : 0;
	if (err) /* the journal was aborted */
		err = -EROFS;
	else
		err = join(h->j, h, credits);
	h->ended = err != 0;
	if (err)
		h->credits = 0;
	return err;
}

struct ext4_fs *ext4_handle_fs(const struct ext4_handle *h)
{
	return h->fs;
}

ext4_tid_t ext4_handle_tid(const struct ext4_handle *h)
{
	return h->t ? h->t->tid : 0;
}

void ext4_order_begin(struct ext4_handle *h, struct ext4_ordered *o)
{
	o->t = h->t;
	if (o->t)
		atomic_inc(&o->t->nr_ordered);
}

void ext4_order_end(struct ext4_fs *fs, struct ext4_ordered *o, int err)
{
	/* A write that failed is the writer's to report; the metadata may point to old bytes. */
	(void)err;
	/* From here on the transaction may be gone, but the journal is not. */
	if (o->t && atomic_dec_and_test(&o->t->nr_ordered))
		wake_all(&fs->journal->wait);
	o->t = NULL;
}

void ext4_on_commit(struct ext4_handle *h, struct ext4_commit_cb *cb)
{
	struct journal *j = h->j;

	spin_lock(&j->lock);
	list_add_tail(&cb->link, &h->t->callbacks);
	spin_unlock(&j->lock);
}

/* --- the whole file system --- */

/* Is the running or committing transaction sure to flush the device's cache from now on? */
static bool will_flush_locked(struct journal *j, ext4_tid_t tid) __must_hold(&j->lock)
{
	assert_spin_held(&j->lock);
	if (j->committing && j->committing->tid == tid)
		return j->committing->state < TXN_SEALING;
	return j->running && j->running->tid == tid;
}

static bool has_handle(struct journal *j)
{
	bool has;

	spin_lock(&j->lock);
	has = find_mine_locked(j, thread_current()) != NULL;
	spin_unlock(&j->lock);
	return has;
}

int ext4_commit_wait(struct ext4_fs *fs, ext4_tid_t tid, bool data)
{
	struct journal *j = fs->journal;
	bool flush = data;
	int err;

	if (!j)
		return -EROFS;
	ASSERT(!has_handle(j)); /* it would wait for itself */
	if (data) {
		spin_lock(&j->lock);
		flush = !will_flush_locked(j, tid);
		spin_unlock(&j->lock);
	}
	err = tid ? journal_commit(j, tid) : journal_error(j) ? -EROFS : 0;
	if (!err && data && !flush) { /* an empty transaction has flushed nothing */
		spin_lock(&j->lock);
		flush = j->flushed_tid < tid;
		spin_unlock(&j->lock);
	}
	if (!err && flush)
		err = blk_flush(fs->bd);
	return err;
}

int ext4_sync(struct ext4_fs *fs)
{
	struct journal *j = fs->journal;
	ext4_tid_t tid;

	if (!j)
		return 0;
	spin_lock(&j->lock);
	tid = j->running ? j->running->tid : j->committing ? j->committing->tid : 0;
	spin_unlock(&j->lock);
	return ext4_commit_wait(fs, tid, true);
}

void ext4_abort(struct ext4_fs *fs, const char *why)
{
	if (fs->journal && journal_abort(fs->journal, -EUCLEAN))
		pr_err("%s: %s: the file system is read-only from now on; run e2fsck\n",
		       fs->bd->name, why);
}

bool ext4_aborted(const struct ext4_fs *fs)
{
	return fs->journal && journal_error(fs->journal);
}

bool ext4_writable(const struct ext4_fs *fs)
{
	return fs->journal && !journal_error(fs->journal);
}

/* --- the journal's thread: nothing stays uncommitted for long --- */

static bool stopping(struct journal *j)
{
	bool stop;

	spin_lock(&j->lock);
	stop = j->stop;
	spin_unlock(&j->lock);
	return stop;
}

static void commit_old(void *arg)
{
	struct journal *j = arg;
	uint64_t deadline = time_after_ns(j->commit_ns);
	ext4_tid_t tid;

	while (!wait_event_timeout(&j->wait, stopping(j), deadline)) {
		tid = 0;
		deadline = time_after_ns(j->commit_ns);
		spin_lock(&j->lock);
		if (j->running && !j->error) {
			const uint64_t due = j->running->started_ns + j->commit_ns;

			if (due <= time_now_ns())
				tid = j->running->tid;
			else
				deadline = due;
		}
		spin_unlock(&j->lock);
		if (tid && journal_commit(j, tid))
			pr_err("%s: a commit failed\n", j->fs->bd->name);
	}
}

/* --- open and close --- */

static void set_limits(struct journal *j)
{
	const uint64_t bufs = bcache_max_bufs(j->fs->bc);

	j->max_bufs =
		(uint32_t)MIN(MAX(bufs / 4, (uint64_t)MIN_TXN_BUFS), (uint64_t)UINT32_MAX / 8);
	j->max_dirty = MAX(bufs / 2, (uint64_t)MIN_DIRTY_BUFS);
	if (j->log) {
		const uint32_t len = j->log->end - j->log->first;

		j->max_bufs = MIN(j->max_bufs, len / 4);
		spin_lock(&j->lock);
		j->free = len - 1; /* so that tail and head are the same when it is empty only */
		j->head = j->log->first;
		j->tail = j->head;
		spin_unlock(&j->lock);
	}
}

int ext4_journal_start(struct ext4_fs *fs, struct log *log, uint32_t seq, bool timed)
{
	struct journal *j = kzalloc(sizeof(*j));
	int err = 0;

	if (!j)
		return -ENOMEM;
	spin_lock_init(&j->lock, "ext4-journal", RANK_SPIN_JOURNAL);
	mutex_init(&j->checkpoint_lock, "ext4-checkpoint", RANK_FS_JOURNAL);
	waitqueue_init(&j->wait);
	list_init(&j->committed);
	list_init(&j->dead);
	for (unsigned int i = 0; i < HANDLE_BUCKETS; i++)
		list_init(&j->handles[i]);
	j->fs = fs;
	j->log = log;
	j->next_tid = 1;
	j->seq = seq;
	j->tail_seq = seq;
	j->commit_ns = COMMIT_AGE_NS;
	set_limits(j);
	lock_not_needed(&j->checkpoint_lock, "no other thread is here yet");
	j->batch = blk_batch_new(fs->bd);
	j->cp_batch = blk_batch_new(fs->bd);
	j->cp_bufs = kcalloc(CHECKPOINT_BATCH, sizeof(struct bcache_buf *));
	if (!j->batch || !j->cp_batch || !j->cp_bufs)
		err = -ENOMEM;
	if (log) {
		j->control = kmalloc((size_t)JOURNAL_CONTROL * fs->block_size);
		j->escaped = kmalloc(fs->block_size);
		if (!j->control || !j->escaped)
			err = -ENOMEM;
	}
	fs->journal = j;
	if (!err && timed) {
		j->thread = thread_create("ext4-journal", commit_old, j);
		if (IS_ERR(j->thread)) {
			err = (int)PTR_ERR(j->thread);
			j->thread = NULL;
		}
	}
	if (err) {
		j->log = NULL; /* still the caller's */
		ext4_journal_free(fs);
	}
	return err;
}

int ext4_journal_quiesce(struct ext4_fs *fs)
{
	struct journal *j = fs->journal;
	uint32_t seq;
	int err;

	if (j->thread) {
		spin_lock(&j->lock);
		j->stop = true;
		spin_unlock(&j->lock);
		wake_all(&j->wait);
		thread_join(j->thread);
		j->thread = NULL;
	}
	err = ext4_sync(fs);
	if (!err)
		err = journal_checkpoint(j, UINT32_MAX);
	if (!err)
		err = blk_flush(fs->bd);
	spin_lock(&j->lock);
	seq = j->seq;
	spin_unlock(&j->lock);
	if (!err && j->log)
		err = log_write_super(j->log, 0, seq, 0);
	return err;
}

static void discard_list(struct journal *j, struct list_head *txns)
{
	struct ext4_commit_cb *cb, *next_cb;
	struct ext4_transaction *t, *next;
	struct jbuf *jb, *nb;

	list_for_each_entry_safe(t, next, txns, link) {
		list_for_each_entry_safe(jb, nb, &t->bufs, link)
			jbuf_discard(j, jb);
		list_for_each_entry_safe(jb, nb, &t->cp, cp_link)
			jbuf_discard(j, jb);
		list_for_each_entry_safe(cb, next_cb, &t->callbacks, link) {
			list_del(&cb->link);
			cb->fn(j->fs, cb, -EROFS);
		}
		txn_free_revokes(j->fs, t);
		list_del(&t->link);
		kfree(t);
	}
}

void ext4_journal_free(struct ext4_fs *fs)
{
	struct journal *j = fs->journal;

	ASSERT(!j->thread);
	lock_not_needed(&j->lock, "no handle is left, so no other thread is here");
	if (j->running)
		list_add_tail(&j->running->link, &j->dead);
	discard_list(j, &j->dead);
	discard_list(j, &j->committed);
	if (j->log)
		log_free(j->log);
	lock_not_needed(&j->checkpoint_lock, "no other thread is here any more");
	if (j->batch)
		blk_batch_free(j->batch);
	if (j->cp_batch)
		blk_batch_free(j->cp_batch);
	kfree(j->cp_bufs);
	kfree(j->control);
	kfree(j->escaped);
	kfree(j->spare);
	kfree(j);
	fs->journal = NULL;
}
