/* SPDX-License-Identifier: MIT */
/*
 * Cache of a block device's metadata blocks, bounded, least recently used first out.
 *
 * A buffer may be changed by one who has pinned it: a pinned buffer is not written, and a buffer
 * that is being written cannot be pinned, so the device never gets half of a change.  The owner of
 * the pins (a journal) decides when a dirty buffer may be written.
 *
 * Context:	bcache_get() sleeps while the block is read.  Any number of threads.
 * Locking:	none that callers see.  Readers of a buffer's data agree with its writers by locks
 *		of their own.
 * Limits:	at most max_bytes of unused blocks are kept; blocks in use, dirty ones included,
 *		may exceed it.  The owner of dirty blocks keeps bcache_nr_dirty() in bounds.
 * Failure:	a write that fails leaves its buffers dirty.
 */
#pragma once

#include <lib/compiler.h>
#include <lib/list.h>
#include <lib/types.h>

struct blk_batch;
struct blkdev;
struct bcache;
struct thread;

struct bcache_buf {
	uint8_t *data;  /* block_size bytes; changed only while pinned */
	uint64_t block; /* const */
	/*
	 * As which kind of block it was last found good: a number that its reader chooses, from
	 * block type and owner.  0: not checked yet.  A plain hint, so races are harmless.
	 */
	uint64_t checked_as; /* atomic */
	void *journal;       /* the owner of the pins; guarded by its lock */

	/* The cache's. */
	struct bcache *bc;
	struct list_head hash;
	struct list_head lru;
	struct list_head dirty_link;
	unsigned int refs;
	int state;
	unsigned int pins;
	bool dirty;
	bool writing;
};

struct bcache_stats {
	uint64_t hits;
	uint64_t misses;
	uint64_t evictions;
	uint64_t writes;
	uint64_t nr_bufs;
	uint64_t nr_dirty;
};

/* ERR_PTR(-ENOMEM), or -EINVAL when the device cannot do blocks of @block_size bytes. */
struct bcache *bcache_create(struct blkdev *bd, uint32_t block_size, uint64_t max_bytes);
/* No buffer may be held.  Dirty contents are lost. */
void bcache_destroy(struct bcache *bc);

/*
 * The buffer of @block, read and held.  ERR_PTR(-EIO) when the device failed or the block
 * is outside of it, -ENOMEM.
 */
struct bcache_buf *bcache_get(struct bcache *bc, uint64_t block);
/*
 * The same for a block that will be written whole: it is not read.  If it is not cached it is all
 * zeros, otherwise as it was.
 */
struct bcache_buf *bcache_get_new(struct bcache *bc, uint64_t block);
/* The buffer if the block is cached and read, held, or NULL. */
struct bcache_buf *bcache_find(struct bcache *bc, uint64_t block);
/* Hold a buffer once more that the caller holds already. */
void bcache_hold(struct bcache_buf *buf);
void bcache_put(struct bcache_buf *buf);

/*
 * From now on @buf is not written.  False: it is being written just now; see bcache_await_write().
 * Never sleeps.
 */
bool __must_check bcache_try_pin(struct bcache_buf *buf);
void bcache_unpin(struct bcache_buf *buf);
/* Sleep until @buf, which is held, is not being written. */
void bcache_await_write(struct bcache_buf *buf);

/*
 * Its contents differ from the device's; the cache holds it until it is written or cleaned.
 * Neither sleeps.
 */
void bcache_mark_dirty(struct bcache_buf *buf);
void bcache_mark_clean(struct bcache_buf *buf);
bool bcache_is_dirty(struct bcache_buf *buf);

/*
 * Write those of the @nr held buffers that are dirty and not pinned, and wait for it.  Returns the
 * first error, after trying all.  Sorts @bufs by block.  Durable after blk_flush() only.
 * @pinned: write pinned ones too; the caller, whose pins they are, sees to it that none changes.
 * @batch: empty, of the cache's device; so that no memory is needed.
 */
int __must_check bcache_write(struct bcache *bc, struct blk_batch *batch, struct bcache_buf **bufs,
			      size_t nr, bool pinned);

/*
 * Have @nr spare buffers at least, for the owner: bcache_get() takes them when there is no memory
 * for others and no unused buffer to use again.  -ENOMEM.
 */
int __must_check bcache_set_aside(struct bcache *bc, uint32_t nr);
/* The one thread that may take spare buffers; NULL: none. */
void bcache_set_owner(struct bcache *bc, struct thread *owner);

uint64_t bcache_nr_dirty(struct bcache *bc);
/* Buffers that the cache was made for. */
uint64_t bcache_max_bufs(const struct bcache *bc);
void bcache_stats(struct bcache *bc, struct bcache_stats *out);
