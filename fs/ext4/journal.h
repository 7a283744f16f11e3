/* SPDX-License-Identifier: MIT */
/*
 * ext4 transactions: all changes of metadata go through a handle.
 *
 * A handle belongs to the running transaction; handles of one transaction reach the disk together
 * or not at all.  With a journal (jbd2's format) a commit writes the changed blocks to the log, and
 * a checkpoint later writes them in place.  Without one a commit writes them in place at once.
 *
 * Flow:	h = ext4_begin(fs, credits)
 *		for each block: bcache_get() -> ext4_write_access(h, buf) -> change ->
 *		ext4_dirty(h, buf) -> bcache_put(); a fresh block: ext4_new_block()
 *		tid = ext4_handle_tid(h); ext4_end(h)
 *		fsync: ext4_commit_wait(fs, tid)
 * Context:	threads that hold no spinlock; all but ext4_order_end() may sleep.  Any number
 *		of threads may have a handle.
 * Locking:	a handle is like a lock that ext4_begin() takes: outside of RANK_FS_ORPHAN,
 *		RANK_FS_GROUP and of locks inside them, inside of inode locks (RANK_FS_INODE).  A
 *		thread with a handle must not take a lock of RANK_FS_INODE, wait for another
 *		thread that begins one, or wait for a commit.
 * Invariants:	a block is changed only between ext4_write_access() and the end of that handle; it
 *		is not written in place before the commit.  A block that is freed is not used again
 *		before the transaction that freed it has committed (ext4_on_commit()).
 * Failure:	after ext4_abort(), or a failed write to the log, nothing is written any more: calls
 *		answer -EROFS.  An operation that fails half-way undoes its changes or aborts.
 * See:		docs/design/storage.md
 */
#pragma once

#include <fs/bcache.h>
#include <lib/atomic.h>
#include <lib/compiler.h>
#include <lib/list.h>
#include <lib/types.h>

struct ext4_fs;
struct ext4_handle;
struct ext4_transaction;

/* Number of a transaction: rises by one, never wraps; 0 is none. */
typedef uint64_t ext4_tid_t;

/*
 * Join the running transaction, with the right to change @credits blocks.  A thread that has a
 * handle gets the same one again (@credits counts only the first time); each ext4_begin() has its
 * ext4_end().  Waits for room in the log.  ERR_PTR: -EROFS (read only, or aborted), -ENOMEM,
 * -ENOSPC (more credits than ext4_max_credits()).  So far for tests.
 */
struct ext4_handle *ext4_begin(struct ext4_fs *fs, uint32_t credits);
/* 0, or -EROFS when the file system was aborted meanwhile.  So far for tests, as what follows. */
int ext4_end(struct ext4_handle *h);
/* Credits that one handle can have at most. */
uint32_t ext4_max_credits(const struct ext4_fs *fs);
/* Credits that @h has left. */
uint32_t ext4_credits_left(const struct ext4_handle *h);

/*
 * Before the change of a held buffer.  Waits while the log or the disk is written from it.  -EROFS,
 * -ENOMEM; -ENOSPC when the handle has no credit left (ask ext4_extend() before).
 * ext4_new_block(),
 * ext4_revoke(): so far for tests.
 */
int __must_check ext4_write_access(struct ext4_handle *h, struct bcache_buf *buf);
/*
 * A block that was just allocated: held, zeroed, never read, with write access.  Errors as of
 * ext4_write_access().
 */
struct bcache_buf *ext4_new_block(struct ext4_handle *h, uint64_t block);
/* After the change, checksum included: the buffer belongs into the commit. */
int __must_check ext4_dirty(struct ext4_handle *h, struct bcache_buf *buf);
/*
 * A block of metadata is freed: no replay of older transactions may write it again, nor a
 * checkpoint.  @buf, if not NULL, is held by the caller and stays so.  -ENOMEM, -EROFS, -ENOSPC.
 */
int __must_check ext4_revoke(struct ext4_handle *h, uint64_t block, struct bcache_buf *buf);

/*
 * See to it that @h has @credits left.  0; 1: call ext4_restart(); -EROFS.  Never waits.  So far
 * for
 * tests.
 */
int __must_check ext4_extend(struct ext4_handle *h, uint32_t credits);
/*
 * End the handle's part in its transaction and join the running one with @credits.  All that was
 * changed so far must be consistent (orphan list).  -EROFS: the handle is still to be ended.
 */
int __must_check ext4_restart(struct ext4_handle *h, uint32_t credits);

/*
 * Data ordered before metadata: the transaction of @h does not commit between the two calls, so
 * that its metadata never points to blocks whose data is not written.  @err: how the writes ended.
 * ext4_order_end() may be called from any context, also after ext4_end().  So far for tests.
 */
struct ext4_ordered {
	struct ext4_transaction *t;
};
/* So far for tests. */
void ext4_order_begin(struct ext4_handle *h, struct ext4_ordered *o);
void ext4_order_end(struct ext4_fs *fs, struct ext4_ordered *o, int err);

/*
 * Call @fn once the transaction of @h is durable (@err 0) or has failed, from the committing
 * thread; freed blocks become usable here.  @fn may take locks of RANK_FS_GROUP and begins no
 * handle.
 */
struct ext4_commit_cb {
	struct list_head link;
	void (*fn)(struct ext4_fs *fs, struct ext4_commit_cb *cb, int err);
};
/* So far for tests. */
void ext4_on_commit(struct ext4_handle *h, struct ext4_commit_cb *cb);

/* So far for tests. */
struct ext4_fs *ext4_handle_fs(const struct ext4_handle *h);
ext4_tid_t ext4_handle_tid(const struct ext4_handle *h);
/*
 * Wait until transaction @tid (0: none) is durable, and commit it if need be; callers that come
 * together share a commit.  @data: data was written as well that @tid may not cover, so the
 * device's cache is flushed if the commit did not do that after this call.  -EROFS, -EIO.
 */
int __must_check ext4_commit_wait(struct ext4_fs *fs, ext4_tid_t tid, bool data);
/* Everything so far is durable: a commit, or at least a flush. */
int __must_check ext4_sync(struct ext4_fs *fs);

/*
 * The metadata is wrong or cannot be written: one line, and the mount is read-only from now on.
 * These three: so far for tests.
 */
void ext4_abort(struct ext4_fs *fs, const char *why);
bool ext4_aborted(const struct ext4_fs *fs);
/* May the file system be changed?  Mounted so, and not aborted. */
bool ext4_writable(const struct ext4_fs *fs);

/* --- the orphan list: inodes to be truncated or freed after a crash --- */

/*
 * Put inode @ino into the list, or take it off; twice is once.  The caller's inode lock serialises
 * calls for one inode.  One to three credits (EXT4_ORPHAN_CREDITS).  The list uses i_dtime of
 * inodes on it: other code leaves the field alone until ext4_orphan_del().
 */
#define EXT4_ORPHAN_CREDITS 3u
/* So far for tests. */
int __must_check ext4_orphan_add(struct ext4_handle *h, uint32_t ino);
int __must_check ext4_orphan_del(struct ext4_handle *h, uint32_t ino);
/*
 * At mount, after recovery: @fn for each inode that was on the list; it truncates the inode to its
 * size or frees it, and takes it off.  An inode that it leaves there stays for the next mount.  So
 * far for tests.
 */
int __must_check ext4_orphans_process(struct ext4_fs *fs,
				      int (*fn)(struct ext4_fs *fs, uint32_t ino));

/* --- what was done: answers to change requests, in the transaction that did them --- */

#define EXT4_CHANGE_ANSWER_MAX 88u
#define EXT4_CHANGE_CREDITS    1u

/*
 * Note that change @seq of @client was done in the transaction of @h, and what was answered
 * (@len bytes, at most EXT4_CHANGE_ANSWER_MAX).  The oldest record makes room.  The caller holds
 * fs->change.  0 as well when the disk has no record.  -ENOMEM, -EIO, -EROFS, -ENOSPC, -EINVAL.
 */
int __must_check ext4_record_change(struct ext4_handle *h, uint64_t client, uint64_t seq,
				    const void *answer, size_t len);
/*
 * The answer of a change that was done: its length, or -ENOENT, -EIO, -ENOMEM.  @answer has room
 * for the most.
 */
int __must_check ext4_find_change(struct ext4_fs *fs, uint64_t client, uint64_t seq, void *answer);
