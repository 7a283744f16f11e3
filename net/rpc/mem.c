/* SPDX-License-Identifier: MIT */
/*
 * RPC: registered memory: what monitors register, and the rings.
 *
 * Context:	register and create sleep; rpc_ring_put() never does.
 * Limits:	a ring is physically contiguous, so that a slot is, too.
 */
#include "rpc_priv.h"

#include <kernel/panic.h>
#include <lib/err.h>
#include <mm/kmap.h>
#include <mm/slab.h>

struct rpc_mem *rpc_mem_register(paddr_t start, uint64_t len, bool remote_write)
{
	const struct rdma_phys_range range = { .paddr = start, .len = len };
	struct rpc_mem *mem;
	struct rdma_mr *mr;

	if (!rpc_net.is_started)
		return ERR_PTR(-ENODEV);
	mem = kzalloc(sizeof(*mem));
	if (!mem)
		return ERR_PTR(-ENOMEM);
	mr = rdma_mr_create(rpc_net.pd, start, &range, 1,
			    remote_write ? RDMA_ACCESS_LOCAL_WRITE | RDMA_ACCESS_REMOTE_WRITE : 0);
	if (IS_ERR(mr)) {
		kfree(mem);
		return ERR_PTR(PTR_ERR(mr));
	}
	mem->mr = mr;
	mem->lkey = rdma_mr_lkey(mr);
	mem->rkey = rdma_mr_rkey(mr);
	return mem;
}

void rpc_mem_unregister(struct rpc_mem *mem)
{
	rdma_mr_destroy(mem->mr);
	kfree(mem);
}

uint32_t rpc_mem_rkey(const struct rpc_mem *mem)
{
	return mem->rkey;
}

/* Rings whose last user is gone; freed in a thread, one static work item for all. */
static struct spinlock dead_lock = SPINLOCK_INIT("rpc.dead_rings", RANK_NET_QP);
static struct rpc_ring *dead_rings __guarded_by(&dead_lock);

static void dead_rings_free(struct work *w)
{
	struct rpc_ring *r, *next;

	spin_lock(&dead_lock);
	r = dead_rings;
	dead_rings = NULL;
	spin_unlock(&dead_lock);
	for (; r; r = next) {
		next = r->next_dead;
		rdma_mr_destroy(r->mr);
		dma_free(r->virt, r->len);
		kfree(r);
	}
}

static struct work dead_work = { .link = LIST_HEAD_INIT(dead_work.link), .fn = dead_rings_free };

struct rpc_ring *rpc_ring_create(const struct rpc_class_cfg *cfg)
{
	struct rpc_ring *r = kzalloc(sizeof(*r));
	struct rdma_phys_range range;

	if (!r)
		return NULL;
	refcount_set(&r->refs, 1);
	r->nr_slots = cfg->nr_slots;
	r->req_size = rpc_req_slot_size(cfg);
	r->rep_size = rpc_rep_slot_size(cfg);
	r->len = ALIGN_UP((uint64_t)r->nr_slots * (r->req_size + r->rep_size), (uint64_t)PAGE_SIZE);
	r->virt = dma_alloc(r->len, &r->phys);
	if (!r->virt)
		goto out_free;
	range.paddr = r->phys;
	range.len = r->len;
	r->mr = rdma_mr_create(rpc_net.pd, r->phys, &range, 1,
			       RDMA_ACCESS_LOCAL_WRITE | RDMA_ACCESS_REMOTE_WRITE);
	if (IS_ERR(r->mr))
		goto out_dma;
	return r;

out_dma:
	dma_free(r->virt, r->len);
out_free:
	kfree(r);
	return NULL;
}

void rpc_ring_put(struct rpc_ring *r)
{
	if (!refcount_dec_and_test(&r->refs))
		return;
	spin_lock(&dead_lock);
	r->next_dead = dead_rings;
	dead_rings = r;
	spin_unlock(&dead_lock);
	work_queue(rpc_net.conn_wq, &dead_work);
}
