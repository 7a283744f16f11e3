/* SPDX-License-Identifier: MIT */
/*
 * RPC: registered memory: what monitors register, who may reach it, and the rings.
 *
 * Flow:	a monitor registers a run once and names the roles that it is sent to and written
 *		by.  Each peer that membership introduces gets the runs of its role, as regions of
 *		its own protection domain; a run that is registered later goes to the peers that
 *		are there.  Rings and send buffers are made in their peer's domain at once.
 * Invariants:	a queue pair reaches the regions of its own domain alone, so somebody else's key
 *		is of no use to a peer.
 * Context:	register, grant and create sleep; rpc_ring_put() never does.
 * Locking:	mems_lock around the table of runs and all grants.  Keys are read without it: they
 *		are set before the peer is used, and stay until the run is unregistered.
 * Limits:	a ring is physically contiguous, so that a slot is, too; RPC_MEMS_MAX runs.
 */
#define PR_FMT "rpc: "

#include "rpc_priv.h"

#include <kernel/panic.h>
#include <kernel/printk.h>
#include <lib/err.h>
#include <mm/kmap.h>
#include <mm/slab.h>

static struct mutex mems_lock = MUTEX_INIT(mems_lock, "rpc.mems", RANK_NET_PEER + 1);
static struct rpc_mem *mems[RPC_MEMS_MAX] __guarded_by(&mems_lock);

/* --- grants -------------------------------------------------------------------------------- */

static struct rpc_grant *grant_make_locked(struct rpc_peer *peer, uint32_t index)
{
	struct rpc_grant **block = &peer->grants.blocks[index / RPC_GRANTS_BLOCK];
	struct rpc_grant *fresh;

	assert_mutex_held(&mems_lock);
	if (!*block) {
		fresh = kcalloc(RPC_GRANTS_BLOCK, sizeof(*fresh));
		if (!fresh)
			return NULL;
		__atomic_store_n(block, fresh, __ATOMIC_RELEASE);
	}
	return rpc_grant_find(peer, index);
}

void rpc_mem_forget_peer(struct rpc_peer *peer)
{
	for (uint32_t i = 0; i < ARRAY_SIZE(peer->grants.blocks); i++)
		kfree(peer->grants.blocks[i]);
}

static int grant_locked(struct rpc_peer *peer, const struct rpc_mem *mem)
{
	const struct rdma_phys_range range = { .paddr = mem->start, .len = mem->len };
	const bool writes = mem->written_by & RPC_ROLE(peer->granted);
	const bool reads = mem->read_by && mem->read_by == peer->info.id;
	const uint32_t access = (writes ? RDMA_ACCESS_LOCAL_WRITE | RDMA_ACCESS_REMOTE_WRITE : 0) |
				(reads ? RDMA_ACCESS_REMOTE_READ : 0);
	struct rpc_grant *g;
	struct rdma_mr *mr;

	assert_mutex_held(&mems_lock);
	if (!((mem->sent_to | mem->written_by) & RPC_ROLE(peer->granted)) && !reads)
		return 0;
	g = grant_make_locked(peer, mem->index);
	if (!g)
		return -ENOMEM;
	if (g->mr)
		return 0;
	mr = rdma_mr_create(peer->pd, reads ? 0 : mem->start, &range, 1, access);
	if (IS_ERR(mr))
		return (int)PTR_ERR(mr);
	g->mr = mr;
	WRITE_ONCE(g->rkey, writes || reads ? rdma_mr_rkey(mr) : 0);
	WRITE_ONCE(g->lkey, rdma_mr_lkey(mr));
	return 0;
}

static void revoke_locked(struct rpc_peer *peer, uint32_t index)
{
	struct rpc_grant *g = rpc_grant_find(peer, index);

	assert_mutex_held(&mems_lock);
	if (!g || !g->mr)
		return;
	WRITE_ONCE(g->rkey, 0);
	WRITE_ONCE(g->lkey, 0);
	rdma_mr_destroy(g->mr);
	g->mr = NULL;
}

static void revoke_all_locked(struct rpc_peer *peer)
{
	assert_mutex_held(&mems_lock);
	for (uint32_t i = 0; i < RPC_MEMS_MAX; i++)
		revoke_locked(peer, i);
	peer->granted = 0;
}

static int grant_all_locked(struct rpc_peer *peer, enum node_role role)
{
	int err = 0;

	assert_mutex_held(&mems_lock);
	if (peer->granted != role)
		revoke_all_locked(peer); /* the node id has changed hands */
	peer->granted = role;
	for (uint32_t i = 0; i < RPC_MEMS_MAX && !err; i++)
		if (mems[i])
			err = grant_locked(peer, mems[i]);
	return err;
}

int rpc_mem_grant(struct rpc_peer *peer, enum node_role role, bool publish)
{
	int err;

	mutex_lock(&mems_lock);
	err = grant_all_locked(peer, role);
	if (!err && publish)
		err = rpc_peer_publish(peer);
	if (err && publish)
		revoke_all_locked(peer);
	mutex_unlock(&mems_lock);
	if (err && err != -EEXIST)
		pr_err("node %u cannot be given its memory: error %d\n", peer->info.id, err);
	return err;
}

struct late_grant {
	const struct rpc_mem *mem;
	int err;
};

static void grant_late(struct rpc_peer *peer, void *arg)
{
	struct late_grant *g = arg;

	lock_not_needed(&mems_lock, "rpc_mem_register() holds it");
	if (peer->granted && !g->err)
		g->err = grant_locked(peer, g->mem);
}

static void revoke_late(struct rpc_peer *peer, void *arg)
{
	const struct rpc_mem *mem = arg;

	lock_not_needed(&mems_lock, "the caller holds it");
	revoke_locked(peer, mem->index);
}

static void forget_locked(struct rpc_mem *mem)
{
	assert_mutex_held(&mems_lock);
	rpc_peers_for_each(revoke_late, mem);
	mems[mem->index] = NULL;
}

static int remember_locked(struct rpc_mem *mem)
{
	struct late_grant late = { .mem = mem };

	assert_mutex_held(&mems_lock);
	while (mem->index < RPC_MEMS_MAX && mems[mem->index])
		mem->index++;
	if (mem->index == RPC_MEMS_MAX)
		return -ENOSPC;
	mems[mem->index] = mem;
	rpc_peers_for_each(grant_late, &late);
	if (late.err)
		forget_locked(mem);
	return late.err;
}

static struct rpc_mem *mem_register(const struct rpc_mem *what)
{
	struct rpc_mem *mem;
	int err;

	if (!rpc_net.is_started)
		return ERR_PTR(-ENODEV);
	mem = kzalloc(sizeof(*mem));
	if (!mem)
		return ERR_PTR(-ENOMEM);
	*mem = *what;
	mutex_lock(&mems_lock);
	err = remember_locked(mem);
	mutex_unlock(&mems_lock);
	if (!err)
		return mem;
	pr_err("%lu KiB of memory cannot be registered: error %d\n",
	       (unsigned long)(what->len >> 10), err);
	kfree(mem);
	return ERR_PTR(err);
}

struct rpc_mem *rpc_mem_register(paddr_t start, uint64_t len, uint32_t sent_to, uint32_t written_by)
{
	return mem_register(&(struct rpc_mem){
		.start = start, .len = len, .sent_to = sent_to, .written_by = written_by });
}

struct rpc_mem *rpc_mem_register_read(paddr_t start, uint64_t len, uint32_t node)
{
	return mem_register(&(struct rpc_mem){ .start = start, .len = len, .read_by = node });
}

void rpc_mem_unregister(struct rpc_mem *mem)
{
	mutex_lock(&mems_lock);
	forget_locked(mem);
	mutex_unlock(&mems_lock);
	kfree(mem);
}

uint32_t rpc_mem_rkey(const struct rpc_mem *mem, uint32_t node)
{
	const struct rpc_peer *peer = rpc_peer_find(node);

	const struct rpc_grant *g = peer ? rpc_grant_find(peer, mem->index) : NULL;

	return g ? READ_ONCE(g->rkey) : 0;
}

/* --- rings --------------------------------------------------------------------------------- */

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

struct rpc_ring *rpc_ring_create(struct rdma_pd *pd, const struct rpc_class_cfg *cfg)
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
	r->mr = rdma_mr_create(pd, r->phys, &range, 1,
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
