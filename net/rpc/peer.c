/* SPDX-License-Identifier: MIT */
/*
 * RPC peers: the table by node id, introduction, removal and restart.
 *
 * Invariants:	the table is an insert-only hash, read without a lock.  A peer is never freed,
 *		as calls and connections point to it: it is marked removed, and renewed when it
 *		comes back.
 * Failure:	a peer that is silent stays a peer, and its calls wait: only membership says that
 *		one is gone.  Then its calls end with -EHOSTDOWN, its connections are reset and
 *		its requests answered -ESTALE; so are those of an incarnation that was replaced.
 * Context:	functions here sleep, except find and usable.
 */
#define PR_FMT "rpc: "

#include "rpc_priv.h"

#include <kernel/printk.h>
#include <lib/err.h>
#include <lib/string.h>
#include <mm/slab.h>

#define PEER_HASH 64u

static struct rpc_peer *peer_hash[PEER_HASH]; /* atomic heads */
static LIST_HEAD(peer_list);                  /* published peers; added to under table_lock */
static struct mutex table_lock = MUTEX_INIT(table_lock, "rpc.peers", RANK_NET_SETUP);

struct rpc_peer *rpc_peer_find(uint32_t node)
{
	struct rpc_peer *p = __atomic_load_n(&peer_hash[node % PEER_HASH], __ATOMIC_ACQUIRE);

	while (p && p->info.id != node)
		p = p->hash_next;
	return p;
}

/* Threads only: entries are never taken off the list, so the walk itself needs no lock. */
void rpc_peers_for_each(void (*fn)(struct rpc_peer *peer, void *arg), void *arg)
{
	const struct list_head *pos = __atomic_load_n(&peer_list.next, __ATOMIC_ACQUIRE);

	while (pos != &peer_list) {
		fn(list_entry(pos, struct rpc_peer, link), arg);
		pos = __atomic_load_n(&pos->next, __ATOMIC_ACQUIRE);
	}
}

/*
 * Membership removes a peer, and only an introduction, or a new incarnation at its address, brings
 * it back.
 */
static void peer_set_state_locked(struct rpc_peer *peer, enum rpc_peer_state to)
{
	assert_spin_held(&peer->lock);
	peer->state = (uint8_t)to;
}

/* Add to the end of a list that is walked without a lock; table_lock is held. */
static void list_append(struct list_head *node, struct list_head *head)
{
	node->next = head;
	node->prev = head->prev;
	/* Readers see a complete entry: pairs with their acquire loads. */
	__atomic_store_n(&head->prev->next, node, __ATOMIC_RELEASE);
	head->prev = node;
}

/* --- the table ------------------------------------------------------------------------ */

/* Of one that was not published. */
static void peer_free(struct rpc_peer *peer)
{
	if (!IS_ERR_OR_NULL(peer->pd))
		rdma_pd_destroy(peer->pd);
	rpc_mem_forget_peer(peer);
	kfree(peer);
}

struct rpc_peer *rpc_peer_alloc(const struct node_info *info)
{
	struct rpc_peer *peer = kzalloc(sizeof(*peer));

	if (!peer)
		return NULL;
	peer->pd = rdma_pd_create(rpc_net.dev);
	if (IS_ERR(peer->pd)) {
		peer_free(peer);
		return NULL;
	}
	spin_lock_init(&peer->lock, "rpc.peer", RANK_SPIN_NET);
	peer->info = *info;
	peer->state = RPC_PEER_ALIVE;
	for (uint8_t i = 0; i < RPC_NR_CLASSES; i++)
		rpc_session_init(&peer->sessions[i], peer, i);
	return peer;
}

static void publish_locked(struct rpc_peer *peer)
{
	const uint32_t n = peer->info.id % PEER_HASH;

	assert_mutex_held(&table_lock);
	peer->hash_next = peer_hash[n];
	list_append(&peer->link, &peer_list);
	__atomic_store_n(&peer_hash[n], peer, __ATOMIC_RELEASE);
}

int rpc_peer_publish(struct rpc_peer *peer)
{
	int err = 0;

	mutex_lock(&table_lock);
	if (rpc_peer_find(peer->info.id))
		err = -EEXIST;
	else
		publish_locked(peer);
	mutex_unlock(&table_lock);
	return err;
}

/* --- state changes -------------------------------------------------------------------- */

static void reset_conns(struct rpc_peer *peer)
{
	for (uint32_t i = 0; i < RPC_NR_CLASSES; i++) {
		struct rpc_session *s = &peer->sessions[i];

		spin_lock(&s->lock);
		if (s->conn)
			rpc_conn_break_locked(s, s->conn);
		spin_unlock(&s->lock);
	}
}

/* Of other incarnations than @incarn, one of which may be up already; @own is being set up. */
static void reset_others(struct rpc_peer *peer, uint32_t incarn, const struct rpc_conn *own)
{
	for (uint32_t i = 0; i < RPC_NR_CLASSES; i++) {
		struct rpc_session *s = &peer->sessions[i];

		spin_lock(&s->lock);
		if (s->conn && s->conn != own &&
		    (s->conn->is_known ? s->conn->peer_incarn : s->conn->target_incarn) != incarn)
			rpc_conn_break_locked(s, s->conn);
		WRITE_ONCE(s->next_attempt_ns, 0);
		spin_unlock(&s->lock);
	}
}

void rpc_peer_reconnect(uint32_t peer, enum rpc_class cls)
{
	struct rpc_peer *p = rpc_peer_find(peer);
	struct rpc_session *s = p ? &p->sessions[cls] : NULL;

	if (!s)
		return;
	spin_lock(&s->lock);
	if (s->conn && s->conn->state == RPC_CONN_UP)
		rpc_conn_break_locked(s, s->conn);
	spin_unlock(&s->lock);
}

static void fail_all_calls(struct rpc_peer *peer, int status)
{
	for (uint32_t i = 0; i < RPC_NR_CLASSES; i++)
		rpc_session_fail_calls(&peer->sessions[i], status);
}

/* The peer says that our incarnation is over. */
void rpc_peer_fenced(struct rpc_peer *peer)
{
	spin_lock(&peer->lock);
	peer->fenced_us = true;
	spin_unlock(&peer->lock);
	counter_inc(&rpc_c_stale);
	pr_err("node %u has fenced this node\n", peer->info.id);
	fail_all_calls(peer, -ESTALE);
}

bool rpc_peer_fenced_us(uint32_t node)
{
	const struct rpc_peer *peer = rpc_peer_find(node);

	return peer && READ_ONCE(peer->fenced_us);
}

/* Learnt from connection @own: another incarnation lives at that address (or the first one). */
void rpc_peer_restarted(struct rpc_peer *peer, const struct rpc_conn_info *info,
			const struct rpc_conn *own)
{
	bool restarted;

	spin_lock(&peer->lock);
	restarted = peer->info.incarn && peer->info.incarn != info->incarn;
	if (restarted)
		peer->prev_incarn = peer->info.incarn;
	peer->info.incarn = info->incarn;
	peer->info.role = (enum node_role)info->role;
	spin_unlock(&peer->lock);
	if (!restarted)
		return;
	pr_warn("node %u has restarted\n", peer->info.id);
	reset_others(peer, info->incarn, own);
	fail_all_calls(peer, -EHOSTDOWN);
}

int rpc_peer_usable(struct rpc_peer *peer)
{
	const uint8_t state = READ_ONCE(peer->state);
	int err = 0;

	if (likely(state == RPC_PEER_ALIVE && !READ_ONCE(peer->fenced_us)))
		return 0;
	spin_lock(&peer->lock);
	if (peer->fenced_us)
		err = -ESTALE;
	else if (peer->state == RPC_PEER_REMOVED)
		err = -EHOSTDOWN;
	spin_unlock(&peer->lock);
	return err;
}

/* --- introduction --------------------------------------------------------------------- */

static void peer_renew(struct rpc_peer *peer, const struct node_info *info)
{
	bool restarted, was_removed;

	spin_lock(&peer->lock);
	restarted = peer->info.incarn && peer->info.incarn != info->incarn;
	was_removed = peer->state == RPC_PEER_REMOVED;
	if (restarted)
		peer->prev_incarn = peer->info.incarn;
	peer->info.role = info->role;
	peer->info.incarn = info->incarn;
	peer->info.addr = info->addr;
	peer_set_state_locked(peer, RPC_PEER_ALIVE);
	peer->is_stranger = false;
	if (restarted || was_removed) {
		peer->fenced_us = false;
	}
	spin_unlock(&peer->lock);
	if (!restarted)
		return;
	reset_others(peer, info->incarn, NULL);
	fail_all_calls(peer, -EHOSTDOWN);
}

int rpc_peer_add(const struct node_info *info)
{
	struct rpc_peer *peer;
	int err;

	if (info->id == 0 || info->id > 0xffff || info->incarn == 0)
		return -EINVAL;
	if (info->id == node_self()->id)
		return -EINVAL;
	peer = rpc_peer_find(info->id);
	if (!peer) {
		peer = rpc_peer_alloc(info);
		if (!peer)
			return -ENOMEM;
		err = rpc_mem_grant(peer, info->role, true);
		if (!err)
			return 0;
		peer_free(peer);
		if (err != -EEXIST)
			return err;
		peer = rpc_peer_find(info->id); /* somebody was faster */
	}
	err = rpc_mem_grant(peer, info->role, false);
	if (err)
		return err;
	peer_renew(peer, info);
	return 0;
}

static void peer_remove(struct rpc_peer *peer, bool any, uint32_t incarn)
{
	bool gone = false;

	spin_lock(&peer->lock);
	if (any || peer->info.incarn == incarn) {
		gone = peer->state != RPC_PEER_REMOVED;
		peer_set_state_locked(peer, RPC_PEER_REMOVED);
		incarn = peer->info.incarn;
	}
	peer->prev_incarn = incarn;
	spin_unlock(&peer->lock);
	if (!gone)
		return;
	reset_conns(peer);
	fail_all_calls(peer, -EHOSTDOWN);
}

void rpc_peer_remove(uint32_t node)
{
	struct rpc_peer *peer = rpc_peer_find(node);

	if (peer)
		peer_remove(peer, true, 0);
}

void rpc_peer_fence(uint32_t node, uint32_t incarn)
{
	struct rpc_peer *peer = rpc_peer_find(node);

	if (peer)
		peer_remove(peer, false, incarn);
}

int rpc_peer_reachable(uint32_t node)
{
	struct rpc_peer *peer = rpc_peer_find(node);

	return peer ? rpc_peer_usable(peer) : -EHOSTDOWN;
}

bool rpc_peer_info(uint32_t node, struct node_info *info)
{
	struct rpc_peer *peer = rpc_peer_find(node);

	if (!peer)
		return false;
	spin_lock(&peer->lock);
	*info = peer->info;
	spin_unlock(&peer->lock);
	return true;
}

bool rpc_peer_is_out(uint32_t node)
{
	struct rpc_peer *peer = rpc_peer_find(node);
	bool out = false;

	if (peer) {
		spin_lock(&peer->lock);
		out = peer->state == RPC_PEER_REMOVED;
		spin_unlock(&peer->lock);
	}
	return out;
}

bool rpc_peer_has_left(uint32_t node, uint32_t incarn)
{
	struct rpc_peer *peer = rpc_peer_find(node);
	bool left = false;

	if (peer) {
		spin_lock(&peer->lock);
		left = peer->prev_incarn == incarn;
		spin_unlock(&peer->lock);
	}
	return left;
}

static struct rpc_peer *stranger_add(const struct rpc_conn_info *info, const struct rdma_addr *from,
				     struct rpc_rej *rej)
{
	const struct node_info ni = { .id = info->node,
				      .role = (enum node_role)info->role,
				      .incarn = info->incarn,
				      .addr = *from };
	struct rpc_peer *peer = rpc_peer_alloc(&ni);
	int err;

	rej->code = RPC_REJ_NO_MEMORY;
	if (!peer)
		return NULL;
	peer->is_stranger = true;
	err = rpc_peer_publish(peer);
	if (err) {
		peer_free(peer);
		rej->code = RPC_REJ_BUSY;
		return NULL;
	}
	return peer;
}

/* Which REJ is due to a REQ of a node that is here already, or was; 0: none. */
static uint8_t known_check_locked(const struct rpc_peer *peer, const struct rpc_conn_info *info,
				  const struct rdma_addr *from, bool strangers)
{
	assert_spin_held(&peer->lock);
	if (info->incarn != peer->info.incarn) {
		if (info->incarn == peer->prev_incarn ||
		    node_start_of(info->incarn) < node_start_of(peer->info.incarn))
			return RPC_REJ_STALE;
		return strangers ? 0 : RPC_REJ_UNKNOWN; /* membership will tell us */
	}
	if (peer->state == RPC_PEER_REMOVED)
		return RPC_REJ_STALE;
	if (!rdma_addr_equal(from, &peer->info.addr) || info->role != peer->info.role)
		return RPC_REJ_MALFORMED; /* somebody else in its name, or in another role */
	return 0;
}

/* A new incarnation has proved that it is this node. */
static void peer_replace(struct rpc_peer *peer, const struct rpc_conn_info *info,
			 const struct rdma_addr *from)
{
	spin_lock(&peer->lock);
	peer->info.addr = *from;
	spin_unlock(&peer->lock);
	rpc_peer_restarted(peer, info, NULL);
	spin_lock(&peer->lock);
	peer_set_state_locked(peer, RPC_PEER_ALIVE);
	peer->fenced_us = false;
	spin_unlock(&peer->lock);
}

struct rpc_peer *rpc_peer_of_req(const struct rpc_conn_info *info, const struct rpc_conn_wire *wire,
				 const struct rdma_addr *from, struct rpc_rej *rej)
{
	const bool strangers = rpc_net.accept_strangers && info->cls == RPC_CLASS_CONTROL;
	struct rpc_peer *peer = rpc_peer_find(info->node);
	bool is_new = true;

	rej->code = strangers ? 0 : RPC_REJ_UNKNOWN;
	if (peer) {
		spin_lock(&peer->lock);
		is_new = info->incarn != peer->info.incarn;
		rej->code = known_check_locked(peer, info, from, strangers);
		spin_unlock(&peer->lock);
	}
	if (info->node == node_self()->id)
		rej->code = RPC_REJ_MALFORMED;
	if (!rej->code && is_new)
		rej->code = rpc_auth_check_req(wire, from, rej->challenge);
	if (rej->code)
		return NULL;
	if (!peer)
		return stranger_add(info, from, rej);
	if (is_new)
		peer_replace(peer, info, from);
	return peer;
}
