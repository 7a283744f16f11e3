/* SPDX-License-Identifier: MIT */
/*
 * Bytes on their way to other processors: small buffers from the heap, whose bytes are copied into
 * a message, and large ones that the RDMA device reads.
 *
 * Locking:	pool.lock (RANK_SPIN_MONITOR) guards the free large buffers.
 * Failure:	when there is no large buffer, small ones do, and their messages are more.
 * Limits:	`sockets.buffers` large buffers in the node. Each is charged to the program that
 *		uses it, and counts as bytes of sockets.
 */
#include <kernel/bootparam.h>
#include <kernel/counter.h>
#include <kernel/panic.h>
#include <lib/err.h>
#include <mm/frame.h>
#include <mm/slab.h>
#include <net/node.h>
#include <net/rpc.h>

#include "queue.h"
#include "remote_private.h"

#define LARGE_ORDER 4u
static_assert(REMOTE_BLOCK == PAGE_SIZE << LARGE_ORDER, "a block of frames");

static uint32_t max_large = 64;
BOOT_PARAM_RANGE("sockets.buffers", u32, max_large, 0, 4096,
		 "64 KiB buffers for connections to other processors");

static struct {
	struct spinlock lock; /* RANK_SPIN_MONITOR */
	struct list_head free __guarded_by(&lock);
	uint32_t nr __guarded_by(&lock); /* made */
} pool = {
	.lock = SPINLOCK_INIT("socket buffers", RANK_SPIN_MONITOR),
	.free = LIST_HEAD_INIT(pool.free),
};

static uint64_t gauge_buffers(void)
{
	uint64_t nr;

	spin_lock(&pool.lock);
	nr = pool.nr;
	spin_unlock(&pool.lock);
	return nr;
}
GAUGE(buffers_gauge, "socket.remote.buffers", "64 KiB buffers made for other processors",
      gauge_buffers);

static struct remote_buf *large_new(void)
{
	struct remote_buf *b = kmalloc(sizeof(*b));
	struct frame *f = b ? frame_alloc(LARGE_ORDER, 0) : NULL;
	struct rpc_mem *mem;

	if (!f)
		goto out_free;
	mem = rpc_mem_register(frame_to_paddr(f), REMOTE_BLOCK, RPC_ROLE(NODE_ROLE_PROCESSOR),
			       RPC_ROLES_NONE);
	if (IS_ERR(mem))
		goto out_frames;
	*b = (struct remote_buf){ .data = (uint8_t *)frame_to_virt(f) + REMOTE_HEAD,
				  .cap = REMOTE_LARGE,
				  .paddr = frame_to_paddr(f) + REMOTE_HEAD,
				  .mem = mem };
	return b;

out_frames:
	frame_free(f, LARGE_ORDER);
out_free:
	kfree(b);
	return NULL;
}

static struct remote_buf *large_get(void)
{
	struct remote_buf *b;
	bool make = false;

	spin_lock(&pool.lock);
	b = list_first_entry_or_null(&pool.free, struct remote_buf, link);
	if (b)
		list_del(&b->link);
	else if (pool.nr < max_large)
		make = ++pool.nr > 0;
	spin_unlock(&pool.lock);
	if (!make)
		return b;
	b = large_new();
	if (!b) {
		spin_lock(&pool.lock);
		pool.nr--;
		spin_unlock(&pool.lock);
	}
	return b;
}

static void large_put(struct remote_buf *b)
{
	spin_lock(&pool.lock);
	list_add_tail(&b->link, &pool.free);
	spin_unlock(&pool.lock);
}

static struct remote_buf *small_new(uint32_t cap)
{
	struct remote_buf *b = kmalloc(sizeof(*b) + REMOTE_HEAD + cap);

	if (b)
		*b = (struct remote_buf){ .data = (uint8_t *)(b + 1) + REMOTE_HEAD, .cap = cap };
	return b;
}

/* A large one if there is one and it is wanted, else a small one with room for @cap bytes. */
static struct remote_buf *make(struct kmem_account *account, bool large, uint32_t cap)
{
	struct remote_buf *b = NULL;
	uint32_t cost = REMOTE_BLOCK;

	if (large && sock_charge_take(account, cost)) {
		b = large_get();
		if (!b)
			sock_charge_give(account, cost);
	}
	if (!b) {
		cost = cap;
		if (!sock_charge_take(account, cost))
			return NULL;
		b = small_new(cap);
		if (!b) {
			sock_charge_give(account, cost);
			return NULL;
		}
	}
	b->account = account;
	b->cost = cost;
	b->len = b->sent = 0;
	return b;
}

struct remote_buf *remote_buf_make(struct kmem_account *account, uint64_t len)
{
	return make(account, len > REMOTE_SMALL, REMOTE_SMALL);
}

struct remote_buf *remote_buf_make_whole(struct kmem_account *account, uint64_t len)
{
	return make(account, len > REMOTE_SMALL && len <= REMOTE_LARGE,
		    MAX((uint32_t)len, REMOTE_SMALL));
}

void remote_buf_free(struct remote_buf *b)
{
	if (!b)
		return;
	ASSERT(b->sent <= b->len && b->len <= b->cap);
	sock_charge_give(b->account, b->cost);
	if (b->mem)
		large_put(b);
	else
		kfree(b);
}
