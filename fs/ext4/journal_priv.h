/* SPDX-License-Identifier: MIT */
/*
 * ext4 transactions: what the files of the journal share.
 *
 * A block that a transaction knows has a jbuf, which holds its buffer.  It is in up to three
 * places: in t, the running or committing transaction that changed it; in next, the running one
 * that changed it again while t commits; in cp, the committed transaction whose log copy is its
 * newest one, until the block is written in place.
 *
 * Locking:	journal.lock (RANK_SPIN_JOURNAL) guards all of transactions, handles and jbufs,
 *		bcache_buf.journal included; the block cache's lock nests inside.  checkpoint_lock
 *		(RANK_FS_JOURNAL) is held by the one thread that moves the log's tail.  The
 *		committer is the thread that set committer; it alone writes the log.
 */
#pragma once

#include <kernel/mutex.h>
#include <kernel/spinlock.h>
#include <kernel/wait.h>
#include <lib/atomic.h>
#include <lib/list.h>
#include <lib/rbtree.h>
#include <lib/types.h>

#include "ext4_priv.h"
#include "jbd2.h"
#include "journal.h"

struct blk_batch;
struct thread;

enum txn_state {
	TXN_RUNNING, /* handles may join */
	TXN_LOCKED,  /* waits for its handles to end */
	TXN_LOGGING, /* is written to the log; no handle is left */
	TXN_SEALING, /* the flush before its commit block is past, or has begun */
	TXN_DONE,    /* durable */
};

struct ext4_transaction {
	ext4_tid_t tid;       /* const */
	enum txn_state state; /* lock */
	uint32_t nr_updates;  /* lock: handles */
	uint32_t reserved;    /* lock: credits of handles */
	uint32_t nr_bufs;     /* lock: blocks that joined */
	uint32_t nr_revokes;  /* lock */
	struct list_head bufs;
	struct rb_root revokes;
	struct list_head callbacks;
	struct list_head cp;   /* lock: jbufs by cp_link */
	struct list_head link; /* lock: journal.committed or .dead */
	uint32_t seq;          /* number in the log; const from TXN_LOGGING on */
	uint32_t log_start;    /* first block in the log; const from TXN_LOGGING on */
	uint32_t log_need;     /* blocks set aside for it */
	uint64_t started_ns;   /* const */
	atomic_t nr_ordered;   /* data writes in flight */
};

struct jbuf {
	struct bcache_buf *buf; /* const, held; pinned while t is set */
	struct ext4_transaction *t;
	struct list_head link; /* t->bufs */
	struct ext4_transaction *next;
	struct ext4_transaction *cp;
	struct list_head cp_link;
	uint8_t *frozen;    /* what t writes to the log, when next has changed the buffer */
	bool shadow;        /* t writes the buffer itself just now */
	bool logged;        /* t's copy is in the log: no need to freeze it */
	bool modified;      /* by t */
	bool freed;         /* by t */
	bool next_modified; /* by next */
	bool next_freed;
};

struct revoke_record {
	struct rb_node node;
	uint64_t block;
};

static_assert(sizeof(struct jbuf) <= 96 && sizeof(struct revoke_record) <= 96, "EXT4_SMALL_LEN");

struct ext4_handle {
	struct ext4_fs *fs;
	struct journal *j;
	struct ext4_transaction *t;
	struct thread *owner;
	struct list_head link; /* journal.handles */
	uint32_t credits;
	uint32_t revoke_credits; /* blocks of revoke records */
	unsigned int nesting;
	bool ended; /* a restart failed */
};

/* A piece of the journal's file. */
struct log_run {
	uint32_t lblk;
	uint32_t len;
	uint64_t block;
};

/* Where the log is, and what its blocks look like. */
struct log {
	struct blkdev *bd;
	uint32_t block_size;
	struct log_run *runs;
	uint32_t nr_runs;
	uint8_t *sb; /* the superblock's block; the committer's and the checkpointer's in turn */
	uint32_t first;
	uint32_t end; /* block behind the log */
	bool csum_v2;
	bool csum_v3;
	bool csum_v1;
	bool wide; /* 64-bit block numbers */
	bool async_commit;
	uint32_t csum_seed;
	uint32_t tag_len;
	uint32_t nr_fc; /* fast-commit blocks behind end */
};

#define HANDLE_BUCKETS   64u
#define JOURNAL_CONTROL  64u  /* descriptors and their like that are written together */
#define CHECKPOINT_BATCH 256u /* blocks that a checkpoint writes together */

struct journal {
	struct ext4_fs *fs;
	struct log *log;       /* NULL: there is none, commits write in place */
	uint32_t max_bufs;     /* const: of a transaction */
	uint64_t max_dirty;    /* const: blocks that wait to be written in place */
	struct spinlock lock;  /* RANK_SPIN_JOURNAL */
	struct waitqueue wait; /* states of transactions, shadow, room */
	struct ext4_transaction *running __guarded_by(&lock);
	struct ext4_transaction *committing __guarded_by(&lock);
	struct list_head committed __guarded_by(&lock); /* with blocks to write, oldest first */
	struct list_head dead __guarded_by(&lock);      /* could not be committed */
	struct list_head handles[HANDLE_BUCKETS] __guarded_by(&lock);
	ext4_tid_t next_tid __guarded_by(&lock);
	ext4_tid_t committed_tid __guarded_by(&lock);
	bool committer __guarded_by(&lock);
	int error __guarded_by(&lock); /* -errno once aborted */
	/* The log, from tail to head. */
	uint32_t head __guarded_by(&lock);
	uint32_t tail __guarded_by(&lock);
	uint32_t free __guarded_by(&lock); /* blocks neither in use nor set aside */
	uint32_t seq __guarded_by(&lock);  /* of the next transaction */
	uint32_t tail_seq __guarded_by(&lock);
	bool started; /* the superblock on disk says where the log begins; the committer's */
	ext4_tid_t flushed_tid __guarded_by(&lock); /* the last one that was not empty */
	uint64_t nr_commits __guarded_by(&lock);
	struct ext4_transaction *spare __guarded_by(&lock);
	struct blk_batch *batch;      /* the committer's */
	uint8_t *control;             /* the committer's: JOURNAL_CONTROL blocks */
	uint8_t *escaped;             /* the committer's: a block that begins as the log's own do */
	struct mutex checkpoint_lock; /* RANK_FS_JOURNAL */
	struct blk_batch *cp_batch __guarded_by(&checkpoint_lock);
	struct bcache_buf **cp_bufs __guarded_by(&checkpoint_lock); /* CHECKPOINT_BATCH */
	struct thread *thread; /* commits by time; NULL: none */
	bool stop __guarded_by(&lock);
	uint64_t commit_ns; /* const: age at which a transaction is committed */
};

/* log.c */
/* Read and check the journal's superblock and map its file.  ERR_PTR. */
struct log *log_open(struct ext4_fs *fs, uint32_t ino);
void log_free(struct log *log);
uint64_t log_sector(const struct log *log, uint32_t lblk);
void log_formats(struct log *log);
int __must_check log_write_super(struct log *log, uint32_t start, uint32_t seq, int error);
uint32_t log_block_csum(const struct log *log, const uint8_t *data);
uint32_t log_tags_per_block(const struct log *log);
uint32_t log_revokes_per_block(const struct log *log);
static inline struct jbd2_super *log_super(const struct log *log)
{
	return (void *)log->sb;
}
static inline bool log_has_csum(const struct log *log)
{
	return log->csum_v2 || log->csum_v3;
}

/* orphan.c */
void ext4_orphans_free(struct ext4_fs *fs);

/* mmp.c: one node at a time writes a disk that has the feature mmp */
/*
 * Mark the disk as ours, before anything else is written.  Takes seconds (see the file's top).
 * -EBUSY: another node has it; -EUCLEAN, -EIO, -ENOMEM.
 */
int __must_check ext4_mmp_claim(struct ext4_fs *fs, const struct ext4_super_disk *sb,
				const struct fs_mount_options *opt);
/* Where the mark is, on a disk that has one. */
uint64_t ext4_mmp_block(const struct ext4_fs *fs);
/* Is the disk still ours?  Before each group of writes.  -EROFS: no, and the fs is aborted. */
int __must_check ext4_mmp_confirm(struct ext4_fs *fs);
/* After an abort: the mark is not written any more.  Does not wait; any lock may be held. */
void ext4_mmp_leave(struct ext4_fs *fs);
/* The mount ends; @clean: others need not wait for us. */
void ext4_mmp_release(struct ext4_fs *fs, bool clean);

/* rw.c: what a mount that may write needs beyond one that reads */
/*
 * After the superblock was decoded: recover the journal if that is needed.  *@log: the log, empty,
 * or NULL.  1: blocks were replayed, so all that was read before is old.
 */
int __must_check ext4_rw_recover(struct ext4_fs *fs, const struct ext4_super_disk *sb,
				 struct log **log, uint32_t *seq);
/* Start to write: takes @log over, also when it fails. */
int __must_check ext4_rw_start(struct ext4_fs *fs, struct log *log, uint32_t seq, bool timed);
/* Stop: all is durable and marked as clean; or (false) the disk is left to recovery. */
bool ext4_rw_stop(struct ext4_fs *fs);

/* recover.c: replay what is committed.  *@seq: the number after the last one. */
int __must_check log_recover(struct ext4_fs *fs, struct log *log, uint32_t *seq);

/* reserve.c: see also ext4_write.h */
#define EXT4_SMALL_LEN 96u
void ext4_reserve_init(struct ext4_fs *fs);
void ext4_reserve_exit(struct ext4_fs *fs);
/* As ext4_reserve_begin(), for the next step of the same change. */
int __must_check ext4_reserve_fill(struct ext4_fs *fs, uint32_t credits);
/* EXT4_SMALL_LEN zeroed bytes: for what a transaction keeps.  Freed by ext4_small_free(). */
void *ext4_small_alloc(struct ext4_fs *fs);
void ext4_small_free(struct ext4_fs *fs, void *p);

/* journal.c */
/* Have a transaction in hand, so that a restart needs no memory.  -ENOMEM. */
int __must_check journal_set_aside(struct journal *j);
void txn_free(struct journal *j, struct ext4_transaction *t);
uint32_t txn_log_need(const struct journal *j, uint32_t nr_bufs, uint32_t nr_revokes);
/* Take over @log (NULL: none) and begin; @timed: with a thread that commits by age. */
int __must_check ext4_journal_start(struct ext4_fs *fs, struct log *log, uint32_t seq, bool timed);
/* Commit and checkpoint everything; the log is empty then.  No handle may be left. */
int __must_check ext4_journal_quiesce(struct ext4_fs *fs);
void ext4_journal_free(struct ext4_fs *fs);
int journal_error(struct journal *j);
/* No more writes.  True for the first one that says so. */
bool journal_abort(struct journal *j, int err);

/* jbuf.c; with journal.lock held */
void jbuf_release_locked(struct journal *j, struct jbuf *jb) __must_hold(&j->lock);
void jbuf_refile_locked(struct journal *j, struct jbuf *jb) __must_hold(&j->lock);
void jbuf_discard(struct journal *j, struct jbuf *jb);
void txn_free_revokes(struct ext4_fs *fs, struct ext4_transaction *t);

/* commit.c */
/* Commit the running transaction if it is @tid or older, and wait for that. */
int __must_check journal_commit(struct journal *j, ext4_tid_t tid);

/* checkpoint.c: write old blocks in place until the log has @want free blocks, or all. */
int __must_check journal_checkpoint(struct journal *j, uint32_t want);

/* zones.c */
/* Enter all that no file may have; @log: or NULL, there is none. -EUCLEAN, -ENOMEM. */
int __must_check ext4_zones_make(struct ext4_fs *fs, const struct log *log);
