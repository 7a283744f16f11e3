/* SPDX-License-Identifier: MIT */
/* The block cache's own structure. */
#pragma once

#include <fs/bcache.h>
#include <kernel/spinlock.h>
#include <kernel/wait.h>
#include <lib/list.h>

struct thread;

enum buf_state {
	BUF_READING,
	BUF_VALID,
	BUF_FAILED,
};

struct bcache {
	struct spinlock lock;                     /* RANK_SPIN_FS */
	struct list_head *table;                  /* const; the buckets: lock */
	struct list_head lru __guarded_by(&lock); /* unused buffers, oldest first */
	struct list_head dirty __guarded_by(&lock);
	uint64_t nr_bufs __guarded_by(&lock);
	uint64_t nr_dirty __guarded_by(&lock);
	struct bcache_stats stats __guarded_by(&lock);
	struct list_head spare __guarded_by(&lock); /* buffers for the owner, by their lru */
	uint32_t nr_spare __guarded_by(&lock);
	struct thread *owner __guarded_by(&lock); /* may take spare buffers */
	struct waitqueue read_done;
	struct waitqueue write_done;
	struct blkdev *bd;   /* const */
	uint64_t nr_blocks;  /* const */
	uint64_t max_bufs;   /* const */
	uint32_t block_size; /* const */
	uint32_t mask;       /* const: table size - 1 */
};
