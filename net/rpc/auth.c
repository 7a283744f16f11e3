/* SPDX-License-Identifier: MIT */
/*
 * RPC: a node that joins proves that it has the cluster's key.
 *
 * Flow:	the cluster has one key.  The managers' node has it; each other node has the key
 *		that follows from it for that node's id, role and start (rpc_node_key()), so no
 *		node can pass for another one, in another role, or for a later start.  A node that
 *		the host does not know sends a REQ with a nonce; the host refuses it with a
 *		challenge, a nonce of its own.  The node's next REQ carries a keyed hash over all
 *		that it says, the challenge, and the addresses of both ends as each sees them; the
 *		host's REP carries one over that REQ and the REP itself.  No key travels.
 * Invariants:	a challenge is good once, for one address, and not for long: a recorded REQ is of no
 *		use.  A REP answers one REQ, whose nonce is fresh.
 * Locking:	challenges_lock, a leaf.  Keys are set before the first connection.
 * Limits:	one open challenge for each address, CHALLENGES in all; the oldest gives way.
 */
#define PR_FMT "rpc: "

#include "rpc_priv.h"

#include <kernel/printk.h>
#include <kernel/random.h>
#include <kernel/time.h>
#include <lib/blake2b.h>
#include <lib/errno.h>
#include <lib/string.h>

#define CHALLENGES     64u
#define CHALLENGE_NS   (10 * NSEC_PER_SEC)
#define NODE_KEY_LABEL "tessera node key"
#define REQ_LABEL      "tessera join req"
#define REP_LABEL      "tessera join rep"
#define DATAGRAM_LABEL "tessera datagram"
#define LABEL_LEN      16u

static struct {
	bool is_set;  /* const once connections are made, as the rest */
	bool is_host; /* @key is the cluster's; else this node's own */
	uint8_t key[RPC_KEY_LEN];
} auth;

void rpc_node_key(const uint8_t cluster_key[RPC_KEY_LEN], uint32_t node, enum node_role role,
		  uint32_t start, uint8_t out[RPC_KEY_LEN])
{
	struct {
		uint8_t label[LABEL_LEN];
		le32_t node;
		uint8_t role;
		le32_t start;
	} __packed in = { .node = cpu_to_le32(node),
			  .role = (uint8_t)role,
			  .start = cpu_to_le32(start) };

	memcpy(in.label, NODE_KEY_LABEL, LABEL_LEN);
	blake2b(out, RPC_KEY_LEN, cluster_key, RPC_KEY_LEN, &in, sizeof(in));
}

void rpc_key_set(const uint8_t key[RPC_KEY_LEN], bool is_host)
{
	memcpy(auth.key, key, RPC_KEY_LEN);
	auth.is_host = is_host;
	auth.is_set = true;
}

/* --- hashes ------------------------------------------------------------------------------- */

/* An address as both ends of a connection know it. */
struct auth_addr {
	uint8_t kind; /* 1 LID, 2 GID */
	uint8_t addr[16];
};

static struct auth_addr auth_addr(const struct rdma_addr *a)
{
	struct auth_addr out = { .kind = a->dlid ? 1 : 2 };
	const le16_t lid = cpu_to_le16(a->dlid);

	if (a->dlid)
		memcpy(out.addr, &lid, sizeof(lid));
	else
		memcpy(out.addr, a->dgid.raw, sizeof(out.addr));
	return out;
}

struct req_input {
	uint8_t label[LABEL_LEN];
	uint8_t challenge[RPC_NONCE_LEN];
	uint8_t req[offsetof(struct rpc_conn_wire, proof)];
	struct auth_addr joiner, host;
};

static void prove_req(const uint8_t key[RPC_KEY_LEN], const struct rpc_conn_wire *req,
		      const uint8_t challenge[RPC_NONCE_LEN], const struct rdma_addr *joiner,
		      const struct rdma_addr *host, uint8_t proof[RPC_PROOF_LEN])
{
	struct req_input in = { .joiner = auth_addr(joiner), .host = auth_addr(host) };

	memcpy(in.label, REQ_LABEL, LABEL_LEN);
	memcpy(in.challenge, challenge, RPC_NONCE_LEN);
	memcpy(in.req, req, sizeof(in.req));
	blake2b(proof, RPC_PROOF_LEN, key, RPC_KEY_LEN, &in, sizeof(in));
}

struct rep_input {
	uint8_t label[LABEL_LEN];
	uint8_t req[sizeof(struct rpc_conn_wire)];
	uint8_t rep[offsetof(struct rpc_conn_wire, proof)];
};

static void prove_rep(const uint8_t key[RPC_KEY_LEN], const struct rpc_conn_wire *req,
		      const struct rpc_conn_wire *rep, uint8_t proof[RPC_PROOF_LEN])
{
	struct rep_input in;

	memcpy(in.label, REP_LABEL, LABEL_LEN);
	memcpy(in.req, req, sizeof(in.req));
	memcpy(in.rep, rep, sizeof(in.rep));
	blake2b(proof, RPC_PROOF_LEN, key, RPC_KEY_LEN, &in, sizeof(in));
}

bool rpc_auth_pair_key(uint32_t id, enum node_role role, uint32_t incarn, bool is_host,
		       uint8_t key[RPC_KEY_LEN])
{
	if (!auth.is_set || auth.is_host == is_host)
		return false;
	if (auth.is_host)
		rpc_node_key(auth.key, id, role, node_start_of(incarn), key);
	else
		memcpy(key, auth.key, RPC_KEY_LEN);
	return true;
}

void rpc_auth_datagram(const uint8_t key[RPC_KEY_LEN], const struct rpc_dgram_wire *hdr,
		       const void *body, size_t len, uint8_t mac[RPC_PROOF_LEN])
{
	struct {
		uint8_t label[LABEL_LEN];
		uint8_t hdr[offsetof(struct rpc_dgram_wire, mac)];
		uint8_t body[BLAKE2B_MAX];
	} in;

	memcpy(in.label, DATAGRAM_LABEL, LABEL_LEN);
	memcpy(in.hdr, hdr, sizeof(in.hdr));
	blake2b(in.body, sizeof(in.body), NULL, 0, body, len);
	blake2b(mac, RPC_PROOF_LEN, key, RPC_KEY_LEN, &in, sizeof(in));
}

/* --- the node that joins ------------------------------------------------------------------- */

void rpc_auth_req(struct rpc_conn_wire *req, const uint8_t *challenge, const struct rdma_addr *to)
{
	random_bytes(req->nonce, sizeof(req->nonce));
	if (auth.is_set && challenge)
		prove_req(auth.key, req, challenge, &node_self()->addr, to, req->proof);
}

bool rpc_auth_rep_is_good(const struct rpc_conn_wire *req, const struct rpc_conn_wire *rep)
{
	uint8_t proof[RPC_PROOF_LEN];

	if (!auth.is_set)
		return false;
	prove_rep(auth.key, req, rep, proof);
	if (bytes_equal(proof, rep->proof, sizeof(proof)))
		return true;
	counter_inc(&rpc_c_auth_refused);
	pr_warn_ratelimited("node %u answers for the managers, but cannot prove that it has the "
			    "cluster's key\n",
			    le32_to_cpu(rep->node));
	return false;
}

/* --- the host ------------------------------------------------------------------------------ */

struct challenge {
	struct auth_addr from;
	uint8_t nonce[RPC_NONCE_LEN];
	uint64_t made_ns; /* 0 = free */
};

static struct spinlock challenges_lock = SPINLOCK_INIT("rpc.challenges", RANK_SPIN_NET);
static struct challenge challenges[CHALLENGES] __guarded_by(&challenges_lock);

/* The open challenge of @from; else the entry for a new one. */
static struct challenge *challenge_find_locked(const struct auth_addr *from, uint64_t now,
					       bool *is_open)
{
	struct challenge *oldest = &challenges[0];

	assert_spin_held(&challenges_lock);
	for (uint32_t i = 0; i < CHALLENGES; i++) {
		struct challenge *c = &challenges[i];

		if (c->made_ns && memcmp(&c->from, from, sizeof(*from)) == 0) {
			*is_open = now - c->made_ns < CHALLENGE_NS;
			return c;
		}
		if (c->made_ns < oldest->made_ns)
			oldest = c;
	}
	*is_open = false;
	return oldest;
}

/* True: @nonce is what was open, and is so no more. */
static bool challenge_take(const struct rdma_addr *from, uint8_t nonce[RPC_NONCE_LEN])
{
	const struct auth_addr a = auth_addr(from);
	struct challenge *c;
	bool is_open;

	spin_lock(&challenges_lock);
	c = challenge_find_locked(&a, time_now_ns(), &is_open);
	if (is_open) {
		memcpy(nonce, c->nonce, RPC_NONCE_LEN);
		c->made_ns = 0;
	}
	spin_unlock(&challenges_lock);
	return is_open;
}

/* One that is open already stays: a REQ may come twice. */
static void challenge_make(const struct rdma_addr *from, uint8_t nonce[RPC_NONCE_LEN])
{
	const struct auth_addr a = auth_addr(from);
	const uint64_t now = time_now_ns();
	struct challenge *c;
	bool is_open;

	random_bytes(nonce, RPC_NONCE_LEN);
	spin_lock(&challenges_lock);
	c = challenge_find_locked(&a, now, &is_open);
	if (!is_open) {
		*c = (struct challenge){ .from = a, .made_ns = MAX(now, 1ull) };
		memcpy(c->nonce, nonce, RPC_NONCE_LEN);
	}
	memcpy(nonce, c->nonce, RPC_NONCE_LEN);
	spin_unlock(&challenges_lock);
}

static void host_key_of(const struct rpc_conn_wire *req, uint8_t key[RPC_KEY_LEN])
{
	rpc_node_key(auth.key, le32_to_cpu(req->node), (enum node_role)req->role,
		     node_start_of(le32_to_cpu(req->incarn)), key);
}

uint8_t rpc_auth_check_req(const struct rpc_conn_wire *req, const struct rdma_addr *from,
			   uint8_t challenge[RPC_NONCE_LEN])
{
	static const uint8_t none[RPC_PROOF_LEN];
	uint8_t key[RPC_KEY_LEN], proof[RPC_PROOF_LEN], nonce[RPC_NONCE_LEN];

	if (!auth.is_set || !auth.is_host)
		return RPC_REJ_KEY;
	if (bytes_equal(req->proof, none, sizeof(none)) || !challenge_take(from, nonce)) {
		challenge_make(from, challenge);
		return RPC_REJ_CHALLENGE;
	}
	host_key_of(req, key);
	prove_req(key, req, nonce, from, &node_self()->addr, proof);
	if (bytes_equal(proof, req->proof, sizeof(proof)))
		return 0;
	counter_inc(&rpc_c_auth_refused);
	pr_warn_ratelimited("lid %u wants to be node %u (%s), but does not have that node's key: "
			    "refused\n",
			    from->dlid, le32_to_cpu(req->node),
			    node_role_name((enum node_role)req->role));
	return RPC_REJ_KEY;
}

void rpc_auth_rep(struct rpc_conn_wire *rep, const struct rpc_conn_wire *req)
{
	uint8_t key[RPC_KEY_LEN];

	if (!auth.is_set || !auth.is_host)
		return;
	host_key_of(req, key);
	prove_rep(key, req, rep, rep->proof);
}
