/* SPDX-License-Identifier: MIT */
/*
 * A peer with a valid connection reaches only what it was given, whatever its role is and whosever
 * key it uses.
 *
 * Flow:	node 1 is the victim, in each role in turn; nodes 2 to 4 are a processor, a memory
 *		and a storage node that attack it.  The victim asks an attacker for a page (OP_PAGE)
 *		and names a target that was not given to it, so that a WRITE with a key that the
 *		attacker should not have goes out on its own, valid connection.
 */
#include <unistd.h>

#include <kernel/time.h>
#include <lib/err.h>
#include <mm/kmap.h>
#include <shim/shim.h>

#include "../../net/rpc/rpc_priv.h"
#include "rpc_pair.h"

#define VICTIM    1u
#define NR_NODES  4u
#define REFUSE_NS (150 * NSEC_PER_MSEC)

static enum node_role victim_role;

static enum node_role role_of(uint32_t id)
{
	return id == VICTIM ? victim_role : (enum node_role)(id - 1);
}

static uint32_t node_of(enum node_role role)
{
	return (uint32_t)role + 1;
}

/* The regions of the victim: one for each role to write, and one that is only sent. */
static struct target given[NODE_ROLE_STORAGE + 1], sent_only;

static void region_make(struct ktest *t, struct target *tg, uint32_t sent_to, uint32_t written_by)
{
	tg->frame = frame_alloc(0, FRAME_ZERO);
	tg->mem = rpc_mem_register(frame_to_paddr(tg->frame), PAGE_SIZE, sent_to, written_by);
	ASSERT_FALSE(t, IS_ERR(tg->mem));
	tg->req.addr = frame_to_paddr(tg->frame);
	memset(frame_to_virt(tg->frame), 0xa5, PAGE_SIZE);
}

static bool is_untouched(const struct target *tg)
{
	const uint8_t *p = frame_to_virt(tg->frame);

	for (uint32_t i = 0; i < PAGE_SIZE; i++)
		if (p[i] != 0xa5)
			return false;
	return true;
}

static int ask(uint32_t node, const struct page_req *req, uint64_t timeout_ns)
{
	uint32_t arg;

	return rpc_call_sync(node, RPC_CLASS_DEMAND, OP_PAGE, req, sizeof(*req), &arg, sizeof(arg),
			     timeout_ns);
}

/* @node writes to @addr with @rkey: it is refused, counted, and ends the connection. */
static void expect_refused(struct ktest *t, uint32_t node, uint64_t addr, uint32_t rkey,
			   const char *what)
{
	const struct page_req req = { .addr = addr, .rkey = rkey, .arg = 0x600d };
	const uint64_t before = counter("rpc.access_refused");
	bool refused = false;

	for (int i = 0; i < 40 && !refused; i++) {
		const int ret = ask(node, &req, REFUSE_NS);

		EXPECT_LT(t, ret, 0);
		if (ret >= 0)
			break;
		refused = counter("rpc.access_refused") > before;
	}
	if (!refused)
		ktest_fail(t, __FILE__, __LINE__, "node %u was not refused %s", node, what);
	for (enum node_role r = NODE_ROLE_PROCESSOR; r <= NODE_ROLE_STORAGE; r++)
		EXPECT_TRUE(t, is_untouched(&given[r]));
	EXPECT_TRUE(t, is_untouched(&sent_only));
}

/* A request slot of the ring that @owner alone writes; nobody uses the last one. */
static void ring_of(struct ktest *t, uint32_t owner, uint64_t *addr, uint32_t *rkey)
{
	struct rpc_session *s = &rpc_peer_find(owner)->sessions[RPC_CLASS_DEMAND];
	const struct rpc_ring *r;

	/* An attack before may have ended the connection. */
	for (int i = 0; i < 50 && echo(owner, RPC_CLASS_DEMAND, 8); i++)
		;
	ASSERT_TRUE(t, s->conn != NULL);
	r = s->conn->ring;
	*addr = r->phys + (uint64_t)(r->nr_slots - 1) * r->req_size;
	*rkey = rdma_mr_rkey(r->mr);
}

static void attack_by(struct ktest *t, enum node_role attacker)
{
	const uint32_t node = node_of(attacker);
	const struct target *own = &given[attacker];
	const uint32_t own_key = rpc_mem_rkey(own->mem, node);
	uint64_t addr;
	uint32_t rkey;

	for (enum node_role r = NODE_ROLE_PROCESSOR; r <= NODE_ROLE_STORAGE; r++) {
		if (r == attacker)
			continue;
		/* It has no key to what others may write, and theirs does not open it. */
		EXPECT_EQ(t, rpc_mem_rkey(given[r].mem, node), 0);
		expect_refused(t, node, given[r].req.addr, rpc_mem_rkey(given[r].mem, node_of(r)),
			       "another role's region");
		ring_of(t, node_of(r), &addr, &rkey);
		expect_refused(t, node, addr, rkey, "another peer's ring");
	}
	/* The key of a region that is only sent is good in its domain, but not for writing. */
	EXPECT_EQ(t, rpc_mem_rkey(sent_only.mem, node), 0);
	expect_refused(t, node, sent_only.req.addr,
		       rpc_mem_lkey(sent_only.mem, rpc_peer_find(node)),
		       "a region that is only sent");
	expect_refused(t, node, own->req.addr + 64, own_key, "the end of its own region");
	expect_refused(t, node, own->req.addr, own_key + 1, "a key of nobody");
}

/* A run that was taken back may be another one's by now: the key of before opens it no more. */
static void attack_what_is_over(struct ktest *t, enum node_role attacker)
{
	const uint32_t node = node_of(attacker);
	struct target over;

	region_make(t, &over, RPC_ROLES_NONE, RPC_ROLE(attacker));
	over.req.rkey = rpc_mem_rkey(over.mem, node);
	over.req.arg = 0x600d;
	/* The refused attempts have ended the connection. */
	for (int i = 0; i < 50 && fetch(node, OP_PAGE, &over); i++)
		;
	EXPECT_FALSE(t, is_untouched(&over));
	rpc_mem_unregister(over.mem);
	memset(frame_to_virt(over.frame), 0xa5, PAGE_SIZE);
	expect_refused(t, node, over.req.addr, over.req.rkey, "what was its own");
	EXPECT_TRUE(t, is_untouched(&over));
}

static void victim(struct ktest *t)
{
	node_start(t, victim_role);
	for (enum node_role r = NODE_ROLE_PROCESSOR; r <= NODE_ROLE_STORAGE; r++)
		region_make(t, &given[r], RPC_ROLES_NONE, RPC_ROLE(r));
	for (uint32_t id = 2; id <= NR_NODES; id++)
		peer_add_role(t, id, role_of(id));
	/* Registered when the peers are there: they get it, too. */
	region_make(t, &sent_only, RPC_ROLES_ALL, RPC_ROLES_NONE);
	sim_cmd("barrier 0 %u", NR_NODES);
	for (uint32_t id = 2; id <= NR_NODES; id++) {
		struct target *own = &given[role_of(id)];

		own->req.rkey = rpc_mem_rkey(own->mem, id);
		own->req.arg = 0x600d;
		EXPECT_NE(t, own->req.rkey, 0);
		EXPECT_EQ(t, fetch(id, OP_PAGE, own), 0);
		memset(frame_to_virt(own->frame), 0xa5, PAGE_SIZE);
	}
	for (enum node_role r = NODE_ROLE_PROCESSOR; r <= NODE_ROLE_STORAGE; r++)
		attack_by(t, r);
	for (enum node_role r = NODE_ROLE_PROCESSOR; r <= NODE_ROLE_STORAGE; r++)
		attack_what_is_over(t, r);
	sim_cmd("barrier 1 %u", NR_NODES);
}

static void attacker(struct ktest *t)
{
	node_start(t, role_of(sim_node_id()));
	peer_add_role(t, VICTIM, victim_role);
	sim_cmd("barrier 0 %u", NR_NODES);
	sim_cmd("barrier 1 %u", NR_NODES);
	EXPECT_TRUE(t, wait_counter("rpc.access_errors", 1));
}

static void attack_all(struct ktest *t, enum node_role role)
{
	static const struct sim_node nodes[] = {
		{ .id = 1, .fn = victim },
		{ .id = 2, .fn = attacker },
		{ .id = 3, .fn = attacker },
		{ .id = 4, .fn = attacker },
	};

	victim_role = role;
	sim_run(t, nodes, NR_NODES, 60);
}

static void processor_gives_only_what_it_gave(struct ktest *t)
{
	attack_all(t, NODE_ROLE_PROCESSOR);
}

static void memory_gives_only_what_it_gave(struct ktest *t)
{
	attack_all(t, NODE_ROLE_MEMORY);
}

static void storage_gives_only_what_it_gave(struct ktest *t)
{
	attack_all(t, NODE_ROLE_STORAGE);
}

/* --- requests -------------------------------------------------------------------------------- */

#define OP_FOR(role) ((uint16_t)(0x0f20 + (role)))

static enum rpc_handler_result h_nothing(struct rpc_request *req, void *arg)
{
	rpc_reply(req, 0, NULL, 0);
	return RPC_DONE;
}

static const struct rpc_handler role_handlers[] = {
	{ OP_FOR(NODE_ROLE_PROCESSOR), RPC_HANDLER_FROM_PROCESSOR, "for processors", h_nothing },
	{ OP_FOR(NODE_ROLE_MEMORY), RPC_HANDLER_FROM_MEMORY | RPC_HANDLER_INLINE, "for memories",
	  h_nothing },
	{ OP_FOR(NODE_ROLE_STORAGE), RPC_HANDLER_FROM_STORAGE, "for storages", h_nothing },
};

static void role_server(struct ktest *t)
{
	node_start(t, NODE_ROLE_MEMORY);
	ASSERT_EQ(t, rpc_handlers_register(role_handlers, ARRAY_SIZE(role_handlers), NULL), 0);
	for (uint32_t id = 2; id <= NR_NODES; id++)
		peer_add_role(t, id, (enum node_role)(id - 1));
	sim_cmd("barrier 0 %u", NR_NODES);
	sim_cmd("barrier 1 %u", NR_NODES);
	EXPECT_EQ(t, counter("rpc.wrong_role"), 6);
}

static void role_client(struct ktest *t)
{
	const enum node_role own = (enum node_role)(sim_node_id() - 1);

	node_start(t, own);
	peer_add_role(t, 1, NODE_ROLE_MEMORY);
	sim_cmd("barrier 0 %u", NR_NODES);
	for (enum node_role r = NODE_ROLE_PROCESSOR; r <= NODE_ROLE_STORAGE; r++)
		EXPECT_EQ(t, rpc_call_sync(1, RPC_CLASS_CONTROL, OP_FOR(r), NULL, 0, NULL, 0, 0),
			  r == own ? 0 : -EPERM);
	sim_cmd("barrier 1 %u", NR_NODES);
}

static void a_request_is_for_a_role(struct ktest *t)
{
	static const struct sim_node nodes[] = {
		{ .id = 1, .fn = role_server },
		{ .id = 2, .fn = role_client },
		{ .id = 3, .fn = role_client },
		{ .id = 4, .fn = role_client },
	};

	sim_run(t, nodes, NR_NODES, 30);
}

/* One worker: what comes behind a slow request waits for it. */
static bool fences;

static void busy_server(struct ktest *t)
{
	EXPECT_EQ(t, shim_bootparam_set("rpc.workers", "1"), 0);
	node_start(t, NODE_ROLE_MEMORY);
	rpc_node_join(t, 2);
	EXPECT_TRUE(t, wait_counter("rpc.requests_received", 2));
	/* A request that is received may be one that its worker has not begun. */
	while (!sim_get(SH_HELD) && !sim_get(SH_EXECUTED))
		usleep(1000);
	if (fences)
		rpc_peer_fence(2, rpc_node_incarn(2));
	sim_cmd("barrier 1 2");
	EXPECT_TRUE(t, wait_counter("rpc.expired", 1));
	EXPECT_EQ(t, sim_get(SH_EXECUTED), 1); /* the slow one */
}

static void hasty_client(struct ktest *t)
{
	struct rpc_call *slow;
	struct target tg;
	uint32_t released, key = 7;

	node_start(t, NODE_ROLE_MEMORY);
	rpc_node_join(t, 2);
	target_init(t, &tg);
	slow = slow_submit(t, &tg, 1000, 5000, &released);
	EXPECT_LT(t,
		  rpc_call_sync(1, RPC_CLASS_DEMAND, OP_COUNT, &key, sizeof(key), NULL, 0,
				(fences ? 3000 : 300) * NSEC_PER_MSEC),
		  0);
	rpc_call_wait(slow);
	rpc_call_put(slow);
	sim_cmd("barrier 1 2");
}

static void too_late(struct ktest *t, bool by_fence)
{
	fences = by_fence;
	sim_two(t, busy_server, hasty_client, 30);
}

static void an_expired_request_is_not_executed(struct ktest *t)
{
	too_late(t, false);
}

static void a_request_of_a_fenced_node_is_not_executed(struct ktest *t)
{
	too_late(t, true);
}

/* --- joining --------------------------------------------------------------------------------- */

static const uint8_t cluster_key[RPC_KEY_LEN] = { 'k', 'e', 'y' };

static struct rpc_conn_wire req_of(uint32_t node, enum node_role role)
{
	return (struct rpc_conn_wire){ .node = cpu_to_le32(node),
				       .incarn = cpu_to_le32(77),
				       .role = (uint8_t)role };
}

static void have_key(uint32_t node, enum node_role role)
{
	uint8_t own[RPC_KEY_LEN];

	rpc_node_key(cluster_key, node, role, 0, own);
	rpc_key_set(own, false);
}

/* A key that is set stays set: in a process that ends with the case. */
static void with_keys(struct ktest *t, void (*fn)(struct ktest *t))
{
	const struct sim_node node = { .id = 1, .fn = fn };

	sim_run(t, &node, 1, 30);
}

/* The joiner's REQ for that challenge, and the host's answer to it. */
static uint8_t host_checks(const struct rpc_conn_wire *req, const struct rdma_addr *from,
			   uint8_t challenge[RPC_NONCE_LEN])
{
	rpc_key_set(cluster_key, true);
	return rpc_auth_check_req(req, from, challenge);
}

/* No node runs here: node_self() has no address, and neither has the host. */
static void join_checks(struct ktest *t)
{
	struct rpc_conn_wire req = req_of(7, NODE_ROLE_PROCESSOR), forged;
	const struct rdma_addr here = node_self()->addr, there = { .dlid = 9 };
	uint8_t c1[RPC_NONCE_LEN], c2[RPC_NONCE_LEN], none[RPC_NONCE_LEN] = { 0 };

	have_key(7, NODE_ROLE_PROCESSOR);
	rpc_auth_req(&req, NULL, &here);
	EXPECT_EQ(t, host_checks(&req, &here, c1), RPC_REJ_CHALLENGE);
	EXPECT_NE(t, memcmp(c1, none, sizeof(c1)), 0);
	/* A REQ that comes twice gets the same challenge. */
	EXPECT_EQ(t, host_checks(&req, &here, c2), RPC_REJ_CHALLENGE);
	EXPECT_MEMEQ(t, c1, c2, sizeof(c1));

	have_key(7, NODE_ROLE_PROCESSOR);
	rpc_auth_req(&req, c1, &here);
	EXPECT_EQ(t, host_checks(&req, &here, c2), 0);
	/* Recorded and sent again: at once, or to answer the next challenge. */
	EXPECT_EQ(t, host_checks(&req, &here, c2), RPC_REJ_CHALLENGE);
	EXPECT_NE(t, memcmp(c1, c2, sizeof(c1)), 0);
	EXPECT_EQ(t, host_checks(&req, &here, c2), RPC_REJ_KEY);
	/* From another address: it has a challenge of its own. */
	forged = req_of(7, NODE_ROLE_PROCESSOR);
	EXPECT_EQ(t, host_checks(&forged, &here, c1), RPC_REJ_CHALLENGE);
	have_key(7, NODE_ROLE_PROCESSOR);
	rpc_auth_req(&req, c1, &here);
	EXPECT_EQ(t, host_checks(&req, &there, c2), RPC_REJ_CHALLENGE);
	EXPECT_EQ(t, host_checks(&req, &there, c2), RPC_REJ_KEY);
	/* Another role, node, ring or incarnation than the proof is for. */
	for (int what = 0; what < 4; what++) {
		forged = req_of(7, NODE_ROLE_PROCESSOR);
		EXPECT_EQ(t, host_checks(&forged, &here, c1), RPC_REJ_CHALLENGE);
		have_key(7, NODE_ROLE_PROCESSOR);
		rpc_auth_req(&forged, c1, &here);
		if (what == 0)
			forged.role = NODE_ROLE_MEMORY;
		else if (what == 1)
			forged.node = cpu_to_le32(8);
		else if (what == 2)
			forged.ring_addr = cpu_to_le64(4096);
		else
			forged.incarn = cpu_to_le32(78);
		EXPECT_EQ(t, host_checks(&forged, &here, c2), RPC_REJ_KEY);
	}
}

static void a_join_proves_the_key_once(struct ktest *t)
{
	with_keys(t, join_checks);
}

static void host_proof_checks(struct ktest *t)
{
	static const uint8_t other_key[RPC_KEY_LEN] = { 'y', 'e', 'k' };
	struct rpc_conn_wire req = req_of(7, NODE_ROLE_PROCESSOR);
	struct rpc_conn_wire rep = req_of(1, NODE_ROLE_STORAGE), next;
	const struct rdma_addr here = node_self()->addr;

	have_key(7, NODE_ROLE_PROCESSOR);
	rpc_auth_req(&req, NULL, &here);
	next = req;
	rpc_auth_req(&next, NULL, &here);
	rpc_key_set(cluster_key, true);
	rpc_auth_rep(&rep, &req);
	have_key(7, NODE_ROLE_PROCESSOR);
	EXPECT_TRUE(t, rpc_auth_rep_is_good(&req, &rep));
	EXPECT_FALSE(t, rpc_auth_rep_is_good(&next, &rep)); /* recorded, for another REQ */
	rep.ring_rkey = cpu_to_le32(1);
	EXPECT_FALSE(t, rpc_auth_rep_is_good(&req, &rep));
	rpc_key_set(other_key, true);
	rpc_auth_rep(&rep, &req);
	have_key(7, NODE_ROLE_PROCESSOR);
	EXPECT_FALSE(t, rpc_auth_rep_is_good(&req, &rep));
}

static void a_host_proves_the_key(struct ktest *t)
{
	with_keys(t, host_proof_checks);
}

/* The keyed hash of a datagram is over all of it, and with the key of one pair. */
static void datagram_checks(struct ktest *t)
{
	uint8_t own[RPC_KEY_LEN], key[RPC_KEY_LEN], body[40] = { 1 };
	uint8_t mac[RPC_PROOF_LEN], other[RPC_PROOF_LEN];
	const struct rpc_dgram_hdr hdr = { .kind = RPC_DGRAM_REQUEST,
					   .opcode = 1,
					   .body_len = sizeof(body),
					   .src_node = 7,
					   .req_id = 9,
					   .incarn = 77,
					   .dst_incarn = 78 };
	struct rpc_dgram_wire w;

	/* Both ends have the same key; other pairs, and two nodes, have none of theirs. */
	have_key(7, NODE_ROLE_PROCESSOR);
	EXPECT_TRUE(t, rpc_auth_pair_key(1, NODE_ROLE_STORAGE, 5, true, own));
	EXPECT_FALSE(t, rpc_auth_pair_key(2, NODE_ROLE_MEMORY, 5, false, key));
	rpc_key_set(cluster_key, true);
	EXPECT_TRUE(t, rpc_auth_pair_key(7, NODE_ROLE_PROCESSOR, 77, false, key));
	EXPECT_MEMEQ(t, own, key, sizeof(key));
	EXPECT_TRUE(t, rpc_auth_pair_key(8, NODE_ROLE_PROCESSOR, 77, false, key));
	EXPECT_NE(t, memcmp(own, key, sizeof(key)), 0);

	rpc_dgram_encode(&hdr, &w);
	rpc_auth_datagram(own, &w, body, sizeof(body), mac);
	rpc_auth_datagram(key, &w, body, sizeof(body), other);
	EXPECT_NE(t, memcmp(mac, other, sizeof(mac)), 0);
	for (size_t i = 0; i < offsetof(struct rpc_dgram_wire, mac) + sizeof(body); i++) {
		uint8_t *at = i < offsetof(struct rpc_dgram_wire, mac)
				      ? (uint8_t *)&w + i
				      : body + i - offsetof(struct rpc_dgram_wire, mac);

		*at ^= 0x40;
		rpc_auth_datagram(own, &w, body, sizeof(body), other);
		EXPECT_NE(t, memcmp(mac, other, sizeof(mac)), 0);
		*at ^= 0x40;
	}
	rpc_auth_datagram(own, &w, body, sizeof(body) - 1, other);
	EXPECT_NE(t, memcmp(mac, other, sizeof(mac)), 0);
}

static void a_datagram_is_its_senders(struct ktest *t)
{
	with_keys(t, datagram_checks);
}

/* The launcher's node_key() has the same example: test/launcher/test_options.py. */
static void the_launcher_makes_the_same_keys(struct ktest *t)
{
	static const uint8_t want[RPC_KEY_LEN] = {
		0xfe, 0x64, 0x08, 0x72, 0x2f, 0xc7, 0x39, 0xd5, 0xe2, 0xf4, 0x14,
		0x4d, 0x97, 0xec, 0xb8, 0xdf, 0xd6, 0x67, 0x28, 0x8d, 0xc4, 0x03,
		0x8e, 0x87, 0x95, 0x31, 0xa5, 0xb4, 0x9c, 0x92, 0x4a, 0x8d,
	};
	uint8_t key[RPC_KEY_LEN], out[RPC_KEY_LEN];

	for (uint8_t i = 0; i < RPC_KEY_LEN; i++)
		key[i] = i;
	rpc_node_key(key, 4, NODE_ROLE_PROCESSOR, 3, out);
	EXPECT_MEMEQ(t, out, want, sizeof(want));
}

static const struct ktest_case cases[] = {
	KTEST(a_request_is_for_a_role),
	KTEST(an_expired_request_is_not_executed),
	KTEST(a_request_of_a_fenced_node_is_not_executed),
	KTEST(a_join_proves_the_key_once),
	KTEST(a_host_proves_the_key),
	KTEST(a_datagram_is_its_senders),
	KTEST(the_launcher_makes_the_same_keys),
	KTEST(processor_gives_only_what_it_gave),
	KTEST(memory_gives_only_what_it_gave),
	KTEST(storage_gives_only_what_it_gave),
	{ 0 },
};
static const struct ktest_suite rpc_doors_suite = { .name = "rpc.doors", .cases = cases };
KTEST_SUITE(rpc_doors_suite);
