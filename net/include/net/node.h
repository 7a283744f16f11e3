/* SPDX-License-Identifier: MIT */
/*
 * Nodes and peers: the name of this node, and the nodes that it may talk to.
 *
 * Flow:	node_self() comes from boot parameters; membership (monitors/cluster/) adds and
 *		removes peers; connections are made at the first call to a peer, or accepted
 *		from one.
 * Context:	all may sleep except node_self() and the counters.
 * See:		docs/protocol/rpc.md, docs/protocol/cluster.md
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>
#include <rdma/verbs.h>

enum node_role {
	NODE_ROLE_PROCESSOR = 1,
	NODE_ROLE_MEMORY = 2,
	NODE_ROLE_STORAGE = 3,
};

struct node_info {
	uint32_t id; /* boot parameter node=; 1 to 0xffff, unique in the cluster */
	enum node_role role;
	uint32_t incarn; /* chosen at boot: see node_start_of() */
	struct rdma_addr addr;
};

const struct node_info *node_self(void);
/*
 * The incarnation of this node, the same from the first call on; not 0.  Its upper bits count how
 * often the launcher has started the node, as far as node_start_set() has told; the lower ones are
 * random.
 */
uint32_t node_incarnation(void);
#define NODE_START_BITS 12
#define NODE_START_MAX  ((1u << NODE_START_BITS) - 1)
/* Of which start an incarnation is: of two with different numbers the smaller one is over. */
static inline uint32_t node_start_of(uint32_t incarn)
{
	return incarn >> (32 - NODE_START_BITS);
}
/* Which start of this node this is, 0 = not known.  Before the first node_incarnation(). */
void node_start_set(uint32_t start);
const char *node_role_name(enum node_role role);

/* Add or renew a peer. A changed incarnation ends all calls to the old one with -EHOSTDOWN. */
int rpc_peer_add(const struct node_info *info) __must_check;
/*
 * Calls to it end with -EHOSTDOWN; its connections are reset; its requests are answered -ESTALE.
 * Membership uses rpc_peer_fence(); this one is for tests.
 */
void rpc_peer_remove(uint32_t node);
/* The same for one incarnation: when another one lives there already, that one stays. */
void rpc_peer_fence(uint32_t node, uint32_t incarn);
/* Add a peer of which only the address is known yet: the rendezvous node. */
int rpc_peer_add_rendezvous(const struct rdma_addr *addr, uint32_t *node) __must_check;

/*
 * Let strangers (nodes that membership has not introduced) connect in the control class, if they
 * prove that they have their key: for the rendezvous node.  Other nodes tell a stranger to try
 * again later.
 */
void rpc_accept_strangers(bool on);
#define RPC_KEY_LEN 32u
/*
 * The key that this node and the managers' node prove to each other.  @is_host: @key is the
 * cluster's; else it is the one that follows from it for this node.  Before the first connection.
 */
void rpc_key_set(const uint8_t key[RPC_KEY_LEN], bool is_host);
/* The key of start @start of node @node in @role.  The launcher computes the same (plan.py). */
void rpc_node_key(const uint8_t cluster_key[RPC_KEY_LEN], uint32_t node, enum node_role role,
		  uint32_t start, uint8_t out[RPC_KEY_LEN]);
/* The node's own view of the membership epoch, carried by every message. */
void rpc_epoch_set(uint32_t epoch);
/* @fn is called when a peer has a newer one; polling context. Set once. */
void rpc_epoch_notify(void (*fn)(void));
uint32_t rpc_epoch(void); /* for tests */
/* Has this node (this incarnation of it) been fenced by @node?  For tests. */
bool rpc_peer_fenced_us(uint32_t node);
/* All that this node knows of a peer; false when @node is none. */
bool rpc_peer_info(uint32_t node, struct node_info *info);
/* Has membership taken @node out, and not in again since? */
bool rpc_peer_is_out(uint32_t node);
/* Was the last incarnation of the node that this node has seen leave @incarn? */
bool rpc_peer_has_left(uint32_t node, uint32_t incarn);

/* Bring the RPC layer up on @dev, as @role. Called once, by the monitor. */
int rpc_start(struct rdma_device *dev, enum node_role role) __must_check;
