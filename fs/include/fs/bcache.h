/* SPDX-License-Identifier: MIT */
/*
 * Cache of a block device's metadata blocks, bounded, least recently used first out.
 *
 * Context:	bcache_get() sleeps while the block is read.  Any number of threads.
 * Limits:	at most max_bytes of unused blocks are kept; blocks in use may exceed it
 *		for as long as they are held (a thread holds a handful).  Nothing is written.
 */
#pragma once

#include <lib/compiler.h>
#include <lib/list.h>
#include <lib/types.h>

struct blkdev;
struct bcache;

struct bcache_buf {
	const uint8_t *data; /* block_size bytes; const while no user can write */
	uint64_t block;      /* const */
	/*
	 * As which kind of block it was last found good: a number that its reader chooses, from
	 * block type and owner.  0: not checked yet.  A plain hint, so races are harmless.
	 */
	uint64_t checked_as; /* atomic */

	/* The cache's. */
	struct bcache *bc;
	struct list_head hash;
	struct list_head lru;
	unsigned int refs;
	int state;
};

struct bcache_stats {
	uint64_t hits;
	uint64_t misses;
	uint64_t evictions;
	uint64_t nr_bufs;
};

/* ERR_PTR(-ENOMEM), or -EINVAL when the device cannot do blocks of @block_size bytes. */
struct bcache *bcache_create(struct blkdev *bd, uint32_t block_size, uint64_t max_bytes);
/* No buffer may be held. */
void bcache_destroy(struct bcache *bc);

/*
 * The buffer of @block, read and held.  ERR_PTR(-EIO) when the device failed or the block
 * is outside of it, -ENOMEM.
 */
struct bcache_buf *bcache_get(struct bcache *bc, uint64_t block);
void bcache_put(struct bcache_buf *buf);

void bcache_stats(struct bcache *bc, struct bcache_stats *out);
