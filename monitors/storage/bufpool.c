/* SPDX-License-Identifier: MIT */
/*
 * Storage monitor: buffers between the disk and the fabric.
 *
 * One run of frames, registered for sending only: the disk writes into a buffer, the HCA reads it
 * out into the memory node's frames, and no CPU touches the bytes in between.
 *
 * Context:	bufpool_get() sleeps; bufpool_put() runs anywhere but in interrupts.
 * Locking:	pool.lock (RANK_SPIN_MONITOR) guards the free list.
 * Limits:	as many reads at a time as there are buffers (storage.buffers=); more wait for one.
 */
#include <kernel/panic.h>
#include <kernel/spinlock.h>
#include <kernel/wait.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <mm/frame.h>
#include <mm/slab.h>
#include <net/rpc.h>

#include "storage.h"

#define BUF_BYTES ((uint64_t)MS_READ_MAX_PAGES << PAGE_SHIFT)
#define MIN_BUFS  4u

static struct {
	struct spinlock lock;
	struct storage_buf *free __guarded_by(&lock);
	struct waitqueue wait;
	struct rpc_mem *mem; /* const */
} pool = {
	.lock = SPINLOCK_INIT("storage-bufs", RANK_SPIN_MONITOR),
	.wait = WAITQUEUE_INIT(pool.wait),
};

int bufpool_init(uint64_t bytes)
{
	const uint64_t nr = MAX(bytes / BUF_BYTES, (uint64_t)MIN_BUFS);
	struct storage_buf *bufs = kcalloc(nr, sizeof(*bufs));
	struct frame *f;

	if (!bufs)
		return -ENOMEM;
	f = frame_alloc_contig(nr * MS_READ_MAX_PAGES, 1);
	if (!f) {
		kfree(bufs);
		return -ENOMEM;
	}
	pool.mem = rpc_mem_register(frame_to_paddr(f), nr * BUF_BYTES, RPC_ROLE(NODE_ROLE_MEMORY),
				    RPC_ROLES_NONE);
	if (IS_ERR(pool.mem)) {
		const int err = (int)PTR_ERR(pool.mem);

		pool.mem = NULL;
		frame_free_contig(f, nr * MS_READ_MAX_PAGES);
		kfree(bufs);
		return err;
	}
	for (uint64_t i = 0; i < nr; i++) {
		uint8_t *data = (uint8_t *)frame_to_virt(f) + i * BUF_BYTES;

		bufs[i].paddr = frame_to_paddr(f) + i * BUF_BYTES;
		for (uint32_t page = 0; page < MS_READ_MAX_PAGES; page++)
			bufs[i].pages[page] = data + page * PAGE_SIZE;
		bufpool_put(&bufs[i]);
	}
	return 0;
}

static struct storage_buf *take(void)
{
	struct storage_buf *buf;

	spin_lock(&pool.lock);
	buf = pool.free;
	if (buf)
		pool.free = buf->next;
	spin_unlock(&pool.lock);
	return buf;
}

struct storage_buf *bufpool_get(void)
{
	struct storage_buf *buf = NULL;

	wait_event(&pool.wait, (buf = take()) != NULL);
	return buf;
}

void bufpool_put(struct storage_buf *buf)
{
	spin_lock(&pool.lock);
	ASSERT(buf != pool.free); /* one request has a buffer, and puts it once */
	buf->next = pool.free;
	pool.free = buf;
	spin_unlock(&pool.lock);
	wake_one(&pool.wait);
}

const struct rpc_mem *bufpool_mem(void)
{
	return pool.mem;
}
