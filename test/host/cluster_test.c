/* SPDX-License-Identifier: MIT */
/*
 * Membership between simulated nodes: they come in any order, late, twice, or not at all; they die,
 * restart and are fenced.
 *
 * Node 1 is the storage node that hosts the managers, 2 and 3 are memory nodes, 4 is a processor.
 */
#include <signal.h>
#include <unistd.h>

#include <cluster/cluster.h>
#include <cluster/membership.h>
#include <cluster/patience.h>
#include <kernel/counter.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <lib/byteorder.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/fmt.h>
#include <lib/ktest.h>
#include <managers/host.h>
#include <managers/placement.h>
#include <net/rpc.h>
#include <proto/cluster.h>
#include <rdma/verbs.h>
#include <shim/shim.h>

#include "memverbs/sim.h"

#define HOST      1u
#define MEMORY_A  2u
#define MEMORY_B  3u
#define PROCESSOR 4u

static char status_text[4096];
static uint32_t nr_joined, nr_gone, last_gone, nr_withdrawn, withdrawn_early;
static uint32_t nr_too_early; /* calls about a node that look-ups could choose meanwhile */

static void note_status(const char *line)
{
	const size_t len = strlen(status_text);

	scnprintf(status_text + len, sizeof(status_text) - len, "%s\n", line);
}

/* Is it among those that look-ups choose from? */
static bool is_listed(const struct node_info *node)
{
	uint32_t ids[8] = { 0 };
	const size_t nr = cluster_nodes(node->role, ids, 8);

	for (size_t i = 0; i < nr; i++) {
		if (ids[i] == node->id)
			return true;
	}
	return false;
}

static void note_joined(const struct node_info *node)
{
	if (is_listed(node))
		__atomic_add_fetch(&nr_too_early, 1, __ATOMIC_SEQ_CST);
	__atomic_add_fetch(&nr_joined, 1, __ATOMIC_SEQ_CST);
}

static void note_gone(const struct node_info *node)
{
	if (is_listed(node))
		__atomic_add_fetch(&nr_too_early, 1, __ATOMIC_SEQ_CST);
	last_gone = node->id;
	__atomic_add_fetch(&nr_gone, 1, __ATOMIC_SEQ_CST);
}

static uint32_t nr_loads, nr_fenced;

static void tell_load(struct cluster_load *load)
{
	__atomic_add_fetch(&nr_loads, 1, __ATOMIC_SEQ_CST);
	*load = (struct cluster_load){ .runnable = 3, .tasks = 9, .cpus = 1, .free_lines = 7 };
}

static char fenced_why[128];

static void note_fenced(const char *why)
{
	strlcpy(fenced_why, why, sizeof(fenced_why));
	__atomic_add_fetch(&nr_fenced, 1, __ATOMIC_SEQ_CST);
}

/* By then an answer cannot be the one of before. */
static void note_withdrawn(void)
{
	if (cluster_vnode_check(2, PROCESSOR, false) == 0)
		__atomic_add_fetch(&withdrawn_early, 1, __ATOMIC_SEQ_CST);
	__atomic_add_fetch(&nr_withdrawn, 1, __ATOMIC_SEQ_CST);
}

static const struct cluster_ops ops = { .status = note_status,
					.withdrawn = note_withdrawn,
					.joined = note_joined,
					.gone = note_gone,
					.fenced = note_fenced,
					.load = tell_load };

static enum node_role role_of(uint32_t id)
{
	return id == HOST        ? NODE_ROLE_STORAGE
	       : id == PROCESSOR ? NODE_ROLE_PROCESSOR
				 : NODE_ROLE_MEMORY;
}

static const uint8_t cluster_key[RPC_KEY_LEN] = { 'k', 'e', 'y' };

static void key_set(const uint8_t key[RPC_KEY_LEN])
{
	char text[2 * RPC_KEY_LEN + 1];

	for (size_t i = 0; i < RPC_KEY_LEN; i++)
		scnprintf(text + 2 * i, 3, "%02x", key[i]);
	shim_bootparam_set("cluster.key", text);
}

/* The key that the launcher would give node @id in @role. */
static void key_set_for(uint32_t id, enum node_role role)
{
	uint8_t own[RPC_KEY_LEN];

	rpc_node_key(cluster_key, id, role, 0, own);
	key_set(id == HOST ? cluster_key : own);
}

/* With the key that it has. */
static int join_as_with(struct ktest *t, enum node_role role, const struct cluster_ops *with)
{
	struct rdma_device *dev = rdma_device_wait(NULL, time_now_ns() + NSEC_PER_SEC);

	EXPECT_EQ(t, shim_initcalls_run(), 0);
	if (sim_node_id() == HOST)
		EXPECT_EQ(t, shim_bootparam_set("cluster", "p1,m2,s1"), 0);
	else
		EXPECT_EQ(t, shim_bootparam_set("rendezvous", "lid:1"), 0);
	shim_bootparam_set("cluster.heartbeat_ms", "100");
	EXPECT_EQ(t, rpc_start(dev, role), 0);
	return cluster_join(with);
}

static int join_as(struct ktest *t, enum node_role role)
{
	return join_as_with(t, role, &ops);
}

static int join_with(struct ktest *t, const struct cluster_ops *with)
{
	key_set_for(sim_node_id(), role_of(sim_node_id()));
	return join_as_with(t, role_of(sim_node_id()), with);
}

static int join(struct ktest *t)
{
	return join_with(t, &ops);
}

static bool wait_for(const uint32_t *n, uint32_t at_least)
{
	for (int i = 0; i < 8000 && __atomic_load_n(n, __ATOMIC_SEQ_CST) < at_least; i++)
		usleep(1000);
	return __atomic_load_n(n, __ATOMIC_SEQ_CST) >= at_least;
}

/* A view's look-ups and epoch come after its gone and joined callbacks. */
static bool wait_epoch_after(uint32_t epoch)
{
	for (int i = 0; i < 8000 && cluster_epoch() <= epoch; i++)
		usleep(1000);
	return cluster_epoch() > epoch;
}

static void expect_everybody(struct ktest *t)
{
	uint32_t ids[4] = { 0 };

	EXPECT_EQ(t, cluster_nodes(NODE_ROLE_MEMORY, ids, 4), 2);
	EXPECT_EQ(t, ids[0], MEMORY_A);
	EXPECT_EQ(t, ids[1], MEMORY_B);
	EXPECT_EQ(t, cluster_nodes(NODE_ROLE_PROCESSOR, ids, 4), 1);
	EXPECT_TRUE(t, cluster_has_one(NODE_ROLE_PROCESSOR) && gpm_one_processor());
	EXPECT_FALSE(t, cluster_has_one(NODE_ROLE_MEMORY));
	EXPECT_EQ(t, ids[0], PROCESSOR);
	EXPECT_EQ(t, cluster_nodes(NODE_ROLE_STORAGE, ids, 4), 1);
	EXPECT_EQ(t, ids[0], HOST);
	EXPECT_GE(t, cluster_epoch(), 4);
	EXPECT_EQ(t, cluster_epoch(), rpc_epoch());
}

static uint64_t counter(const char *name)
{
	uint64_t v = 0;

	counter_find(name, &v);
	return v;
}

static bool wait_for_counter(const char *name, uint64_t at_least)
{
	for (int i = 0; i < 8000 && counter(name) < at_least; i++)
		usleep(1000);
	return counter(name) >= at_least;
}

static int ping(uint32_t node, enum rpc_class cls)
{
	return rpc_call_sync(node, cls, 0x0001, NULL, 0, NULL, 0, 5 * NSEC_PER_SEC);
}

/* --- any order ------------------------------------------------------------------------------ */

static void in_any_order(struct ktest *t)
{
	/* The host comes last, and the others not together. */
	static const uint32_t delay_ms[] = { 0, 700, 300, 0, 100 };
	uint64_t malformed = 0;

	usleep(delay_ms[sim_node_id()] * 1000);
	ASSERT_EQ(t, join(t), 0);
	expect_everybody(t);
	for (uint32_t id = 1; id <= 4; id++) {
		if (id != sim_node_id())
			EXPECT_EQ(t, ping(id, RPC_CLASS_DEMAND), 0);
	}
	EXPECT_TRUE(t, counter_find("rpc.malformed", &malformed) && malformed == 0);
	sim_cmd("barrier 1 4");
}

static void any_order(struct ktest *t)
{
	static const struct sim_node nodes[] = { { .id = HOST, .fn = in_any_order },
						 { .id = MEMORY_A, .fn = in_any_order },
						 { .id = MEMORY_B, .fn = in_any_order },
						 { .id = PROCESSOR, .fn = in_any_order } };

	sim_run(t, nodes, 4, 30);
}

/* --- one is late, or never comes -------------------------------------------------------------- */

static void one_is_late(struct ktest *t)
{
	if (sim_node_id() == MEMORY_B)
		sleep(5);
	ASSERT_EQ(t, join(t), 0);
	expect_everybody(t);
	if (sim_node_id() == HOST)
		EXPECT_TRUE(t, strstr(status_text, "memory nodes (1 of 2 are here)") != NULL);
	sim_cmd("barrier 1 4");
}

static void late_memory(struct ktest *t)
{
	static const struct sim_node nodes[] = { { .id = HOST, .fn = one_is_late },
						 { .id = MEMORY_A, .fn = one_is_late },
						 { .id = MEMORY_B, .fn = one_is_late },
						 { .id = PROCESSOR, .fn = one_is_late } };

	sim_run(t, nodes, 4, 30);
}

static void give_up(struct ktest *t)
{
	shim_bootparam_set("cluster.wait_ms", "1200");
	EXPECT_EQ(t, join(t), -ETIMEDOUT);
	EXPECT_TRUE(t, strstr(status_text, "gave up after 1200 ms: waiting for") != NULL);
	EXPECT_TRUE(t, strstr(status_text, "memory nodes (1 of 2 are here)") != NULL);
	sim_cmd("barrier 1 2");
}

static void never_complete(struct ktest *t)
{
	static const struct sim_node nodes[] = { { .id = HOST, .fn = give_up },
						 { .id = MEMORY_A, .fn = give_up } };

	sim_run(t, nodes, 2, 30);
}

static void alone(struct ktest *t)
{
	shim_bootparam_set("cluster.wait_ms", "800");
	shim_bootparam_set("rpc.probe_ms", "100");
	EXPECT_EQ(t, join(t), -ETIMEDOUT);
	EXPECT_TRUE(t, strstr(status_text, "managers' node at lid 1") != NULL);
}

static void no_host(struct ktest *t)
{
	static const struct sim_node nodes[] = { { .id = MEMORY_A, .fn = alone } };

	sim_run(t, nodes, 1, 30);
}

/* --- placing programs ------------------------------------------------------------------------- */

#define PROCESSOR_B 3u /* in the place of a memory node */

static enum node_role two_roles(uint32_t id)
{
	return id == HOST       ? NODE_ROLE_STORAGE
	       : id == MEMORY_A ? NODE_ROLE_MEMORY
				: NODE_ROLE_PROCESSOR;
}

static void tell_no_load(struct cluster_load *load)
{
	__atomic_add_fetch(&nr_loads, 1, __ATOMIC_SEQ_CST);
}

static void place_node(struct ktest *t)
{
	static struct cluster_ops own;
	struct rdma_device *dev = rdma_device_wait(NULL, time_now_ns() + NSEC_PER_SEC);
	uint32_t node = 0, other = 0, loads;

	own = ops;
	if (sim_node_id() == PROCESSOR_B)
		own.load = tell_no_load;
	if (sim_node_id() == HOST)
		EXPECT_EQ(t, shim_bootparam_set("cluster", "p2,m1,s1"), 0);
	else
		EXPECT_EQ(t, shim_bootparam_set("rendezvous", "lid:1"), 0);
	shim_bootparam_set("cluster.heartbeat_ms", "100");
	EXPECT_EQ(t, rpc_start(dev, two_roles(sim_node_id())), 0);
	EXPECT_EQ(t, shim_initcalls_run(), 0);
	key_set_for(sim_node_id(), two_roles(sim_node_id()));
	ASSERT_EQ(t, cluster_join(&own), 0);
	/* Two more heartbeats: the first of them may have begun before. */
	loads = __atomic_load_n(&nr_loads, __ATOMIC_SEQ_CST);
	if (sim_node_id() != HOST)
		EXPECT_TRUE(t, wait_for(&nr_loads, loads + 3));
	sim_cmd("barrier 1 4");
	if (sim_node_id() == HOST) {
		/* One says that it has three to run, the other none. */
		EXPECT_EQ(t, gpm_place_program(PROTO_VNODE_ROOT, &node), 0);
		EXPECT_EQ(t, node, PROCESSOR_B);
		for (int i = 0; i < 200 && other != PROCESSOR; i++)
			EXPECT_EQ(t, gpm_place_program(PROTO_VNODE_ROOT, &other), 0);
		EXPECT_EQ(t, other, PROCESSOR);
	} else {
		EXPECT_EQ(t, gpm_place_program(PROTO_VNODE_ROOT, &node), -ENOSYS);
	}
	sim_cmd("barrier 2 4");
}

static void programs_are_placed(struct ktest *t)
{
	static const struct sim_node nodes[] = { { .id = HOST, .fn = place_node },
						 { .id = MEMORY_A, .fn = place_node },
						 { .id = PROCESSOR_B, .fn = place_node },
						 { .id = PROCESSOR, .fn = place_node } };

	sim_run(t, nodes, 4, 30);
}

/* --- the order of a view's parts ------------------------------------------------------------- */

static uint32_t calls_left; /* gone() while a call to one that went in the same view would wait */
static uint32_t comers[8], nr_comers;
static uint32_t peers_early; /* joined() when the peer could send requests already */

static void look_gone(const struct node_info *node)
{
	for (uint32_t id = MEMORY_B; id <= PROCESSOR; id++) {
		if (rpc_call_sync(id, RPC_CLASS_CONTROL, 0x0001, NULL, 0, NULL, 0, NSEC_PER_SEC) !=
		    -EHOSTDOWN)
			calls_left++;
	}
	note_gone(node);
}

static void look_joined(const struct node_info *node)
{
	struct node_info peer;

	if (rpc_peer_info(node->id, &peer) && peer.incarn == node->incarn)
		peers_early++;
	if (nr_comers < ARRAY_SIZE(comers))
		comers[nr_comers++] = node->id;
	note_joined(node);
}

static void member_of(uint32_t id, struct cluster_member *m)
{
	struct node_info info;

	if (!rpc_peer_info(id, &info))
		info = *node_self();
	*m = (struct cluster_member){
		.id = id, .incarn = info.incarn, .lid = info.addr.dlid, .role = (uint8_t)info.role
	};
}

/* Those that do what others ask for come before those that ask. */
static void comers_have_an_order(struct ktest *t, struct cluster_view *v)
{
	static const uint8_t roles[] = { NODE_ROLE_PROCESSOR, NODE_ROLE_MEMORY, NODE_ROLE_STORAGE };

	nr_comers = 0;
	for (uint32_t i = 0; i < ARRAY_SIZE(roles); i++)
		v->members[v->nr_members++] = (struct cluster_member){
			.id = 50 + i, .incarn = 7, .lid = (uint16_t)(50 + i), .role = roles[i]
		};
	v->epoch++;
	cluster_apply(v);
	ASSERT_EQ(t, nr_comers, 3);
	EXPECT_EQ(t, comers[0], 52);
	EXPECT_EQ(t, comers[1], 51);
	EXPECT_EQ(t, comers[2], 50);
}

/* Two leave in one view; in the next they are here again, restarted. */
static void views_by_hand(struct ktest *t)
{
	static struct cluster_view v;
	const uint32_t lost = __atomic_load_n(&nr_gone, __ATOMIC_SEQ_CST);
	const uint32_t came = __atomic_load_n(&nr_joined, __ATOMIC_SEQ_CST);

	v = (struct cluster_view){ .epoch = 1000, .lease_ms = 10000, .nr_members = 2 };
	for (uint32_t id = HOST; id <= PROCESSOR; id++)
		member_of(id, &v.members[id - 1]);
	peers_early = 0;
	cluster_apply(&v);
	EXPECT_EQ(t, nr_gone, lost + 2);
	EXPECT_EQ(t, calls_left, 0);
	v.epoch++;
	v.nr_members = 4;
	v.members[MEMORY_B - 1].incarn++;
	v.members[PROCESSOR - 1].incarn++;
	cluster_apply(&v);
	EXPECT_EQ(t, nr_joined, came + 2);
	EXPECT_EQ(t, peers_early, 0);

	/* A host that does not know where vNodes are takes none away; one that knows does. */
	v.epoch++;
	v.flags |= CLUSTER_PLACED;
	v.nr_placed = 2;
	v.placed[0] = (struct cluster_placed){ PROTO_VNODE_ROOT, 0 };
	v.placed[1] = (struct cluster_placed){ 2, PROCESSOR };
	cluster_apply(&v);
	v.epoch++;
	v.flags &= ~(uint32_t)CLUSTER_PLACED;
	v.nr_placed = 1;
	cluster_apply(&v);
	EXPECT_EQ(t, cluster_vnode_check(2, PROCESSOR, false), 0);
	EXPECT_EQ(t, nr_withdrawn, 0);
	v.epoch++;
	v.flags |= CLUSTER_PLACED;
	cluster_apply(&v);
	EXPECT_EQ(t, cluster_vnode_check(2, PROCESSOR, false), -EACCES);
	EXPECT_EQ(t, nr_withdrawn, 1);
	EXPECT_EQ(t, withdrawn_early, 0);
	comers_have_an_order(t, &v);
}

static void order_node(struct ktest *t)
{
	static struct cluster_ops own;

	own = ops;
	nr_withdrawn = 0;
	own.gone = look_gone;
	own.joined = look_joined;
	ASSERT_EQ(t, join_with(t, &own), 0);
	sim_cmd("barrier 1 4");
	if (sim_node_id() == MEMORY_A)
		views_by_hand(t);
	sim_cmd("barrier 2 4");
}

static void leavers_first_then_comers(struct ktest *t)
{
	static const struct sim_node nodes[] = { { .id = HOST, .fn = order_node },
						 { .id = MEMORY_A, .fn = order_node },
						 { .id = MEMORY_B, .fn = order_node },
						 { .id = PROCESSOR, .fn = order_node } };

	sim_run(t, nodes, 4, 30);
}

/* --- a member that has left is in a view again ---------------------------------------------- */

#define SH_VETO_OVER 22u

static uint32_t veto_sent;        /* atomic */
static uint64_t timeouts_at_veto; /* const once it was sent */

int __real_cluster_veto_decode(const void *buf, size_t len, struct cluster_veto *out);
int __wrap_cluster_veto_decode(const void *buf, size_t len, struct cluster_veto *out);

static struct ktest *holding; /* of the host, until it has had a veto */

/* The host has the first veto: from here on its answers come only when they are released. */
int __wrap_cluster_veto_decode(const void *buf, size_t len, struct cluster_veto *out)
{
	if (holding)
		EXPECT_EQ(holding, sim_cmd("hold %u %u", HOST, MEMORY_A), 0);
	holding = NULL;
	return __real_cluster_veto_decode(buf, len, out);
}

/* Of the thread that is going to wait for the answer. */
static void note_the_veto(uint32_t peer, uint16_t opcode)
{
	if (opcode != CLUSTER_VETO || veto_sent)
		return;
	timeouts_at_veto = counter("rpc.timeouts");
	__atomic_store_n(&veto_sent, 1, __ATOMIC_SEQ_CST);
}

/* A veto that has no answer in time is said again with a later heartbeat, and then no more. */
static void lost_veto(struct ktest *t)
{
	static struct cluster_view v;
	uint32_t loads;

	v = (struct cluster_view){ .epoch = 1000, .lease_ms = 8000, .nr_members = 3 };
	for (uint32_t id = HOST; id <= PROCESSOR; id++)
		member_of(id, &v.members[id - 1]);
	rpc_set_observer(note_the_veto);
	cluster_apply(&v);
	v.epoch++;
	v.nr_members = 4;
	cluster_apply(&v);
	EXPECT_TRUE(t, wait_for(&veto_sent, 1));
	EXPECT_TRUE(t, wait_for_counter("rpc.timeouts", timeouts_at_veto + 1));
	sim_cmd("release %u %u", HOST, MEMORY_A);
	EXPECT_TRUE(t, wait_for_counter("cluster.vetoes", 2));
	loads = __atomic_load_n(&nr_loads, __ATOMIC_SEQ_CST);
	EXPECT_TRUE(t, wait_for(&nr_loads, loads + 4));
	EXPECT_EQ(t, counter("cluster.vetoes"), 2);
	EXPECT_EQ(t, nr_fenced, 0);
}

static void veto_node(struct ktest *t)
{
	shim_bootparam_set("cluster.lease_ms", "8000"); /* an answer in 2 s is in time */
	if (sim_node_id() == HOST)
		holding = t;
	ASSERT_EQ(t, join(t), 0);
	sim_cmd("barrier 1 4");
	if (sim_node_id() == MEMORY_A) {
		lost_veto(t);
		sim_shared[SH_VETO_OVER] = 1;
	}
	/* A command of the simulation: no other of this node, so no hold, goes beside it. */
	while (!sim_get(SH_VETO_OVER))
		usleep(1000);
	sim_cmd("barrier 2 4");
}

static void a_veto_without_answer_is_repeated(struct ktest *t)
{
	static const struct sim_node nodes[] = { { .id = HOST, .fn = veto_node },
						 { .id = MEMORY_A, .fn = veto_node },
						 { .id = MEMORY_B, .fn = veto_node },
						 { .id = PROCESSOR, .fn = veto_node } };

	sim_run(t, nodes, 4, 30);
}

/* --- death, restart, fencing ------------------------------------------------------------------ */

static void lease_node(struct ktest *t)
{
	uint32_t epoch;

	shim_bootparam_set("cluster.lease_ms", "1000");
	shim_bootparam_set("rpc.probe_ms", "500");
	ASSERT_EQ(t, join(t), 0);
	epoch = cluster_epoch();
	sim_cmd("barrier 1 4");
	if (sim_node_id() == MEMORY_A)
		EXPECT_EQ(t, sim_cmd("kill %u", PROCESSOR), 0);
	EXPECT_TRUE(t, wait_for(&nr_gone, 1));
	EXPECT_EQ(t, last_gone, PROCESSOR);
	EXPECT_TRUE(t, wait_epoch_after(epoch));
	EXPECT_EQ(t, cluster_nodes(NODE_ROLE_PROCESSOR, (uint32_t[1]){ 0 }, 1), 0);
	EXPECT_EQ(t, ping(PROCESSOR, RPC_CLASS_CONTROL), -EHOSTDOWN);
	EXPECT_EQ(t, ping(sim_node_id() == HOST ? MEMORY_A : HOST, RPC_CLASS_CONTROL), 0);
	sim_cmd("barrier 2 3");
}

static void lease_ends(struct ktest *t)
{
	static const struct sim_node nodes[] = { { .id = HOST, .fn = lease_node },
						 { .id = MEMORY_A, .fn = lease_node },
						 { .id = MEMORY_B, .fn = lease_node },
						 { .id = PROCESSOR, .fn = lease_node } };

	sim_run(t, nodes, 4, 40);
}

static void restart_node(struct ktest *t)
{
	const bool again = sim_incarnation() == 1;
	uint32_t epoch;

	ASSERT_EQ(t, join(t), 0);
	if (again) {
		expect_everybody(t);
		for (uint32_t id = 1; id <= 4; id++) {
			if (id != MEMORY_B)
				EXPECT_EQ(t, ping(id, RPC_CLASS_DEMAND), 0);
		}
		sim_cmd("barrier 2 4");
		return;
	}
	if (sim_node_id() != MEMORY_B)
		EXPECT_EQ(t, ping(MEMORY_B, RPC_CLASS_DEMAND), 0);
	epoch = cluster_epoch();
	sim_cmd("barrier 1 4");
	if (sim_node_id() == MEMORY_B) {
		sleep(30); /* killed meanwhile */
		return;
	}
	if (sim_node_id() == PROCESSOR) {
		EXPECT_EQ(t, sim_cmd("kill %u", MEMORY_B), 0);
		EXPECT_EQ(t, sim_cmd("spawn %u", MEMORY_B), 0);
	}
	/* The old one is gone, the new one is here, all in one view. */
	EXPECT_TRUE(t, wait_for(&nr_gone, 1));
	EXPECT_TRUE(t, wait_for(&nr_joined, 4));
	EXPECT_EQ(t, last_gone, MEMORY_B);
	EXPECT_TRUE(t, wait_epoch_after(epoch));
	EXPECT_EQ(t, nr_too_early, 0);
	EXPECT_EQ(t, ping(MEMORY_B, RPC_CLASS_DEMAND), 0);
	expect_everybody(t);
	sim_cmd("barrier 2 4");
}

static void restarted_node(struct ktest *t)
{
	static const struct sim_node nodes[] = { { .id = HOST, .fn = restart_node },
						 { .id = MEMORY_A, .fn = restart_node },
						 { .id = MEMORY_B, .fn = restart_node },
						 { .id = PROCESSOR, .fn = restart_node } };

	sim_run(t, nodes, 4, 40);
}

/* --- under load ------------------------------------------------------------------------------- */

#define LIVES   50u
#define SH_LIFE 20u /* of the second memory node, once it has joined */
#define SH_OVER 21u

static uint32_t nr_answered, nr_refused;

#define OP_WORK 0x7001u

static enum rpc_handler_result work(struct rpc_request *req, void *arg)
{
	rpc_reply(req, 0, NULL, 0);
	return RPC_DONE;
}

static const struct rpc_handler workers[] = { { OP_WORK, RPC_HANDLER_INLINE, "work", work } };

/* A member that stays answers all the time, whoever comes and goes. */
static void ask_for_ever(void *arg)
{
	while (!sim_get(SH_OVER)) {
		if (rpc_call_sync(MEMORY_A, RPC_CLASS_DEMAND, OP_WORK, NULL, 0, NULL, 0, 0))
			__atomic_add_fetch(&nr_refused, 1, __ATOMIC_SEQ_CST);
		else
			__atomic_add_fetch(&nr_answered, 1, __ATOMIC_SEQ_CST);
		/* This one answers, or is gone. */
		(void)ping(MEMORY_B, RPC_CLASS_DEMAND);
	}
}

static void kill_and_start(struct ktest *t)
{
	struct thread *load = thread_create("load", ask_for_ever, NULL);
	uint32_t answered;

	for (uint32_t life = 1; life <= LIVES; life++) {
		answered = __atomic_load_n(&nr_answered, __ATOMIC_SEQ_CST);
		EXPECT_EQ(t, sim_cmd("kill %u", MEMORY_B), 0);
		EXPECT_EQ(t, sim_cmd("spawn %u", MEMORY_B), 0);
		for (int i = 0; i < 20000 && sim_get(SH_LIFE) != life; i++)
			usleep(1000);
		ASSERT_EQ(t, sim_get(SH_LIFE), life);
		EXPECT_TRUE(t, wait_for(&nr_answered, answered + 1));
	}
	sim_shared[SH_OVER] = 1;
	thread_join(load);
	EXPECT_EQ(t, nr_refused, 0);
	EXPECT_GE(t, nr_answered, LIVES);
	EXPECT_GE(t, nr_gone, 1);
}

static void come_and_go_node(struct ktest *t)
{
	EXPECT_EQ(t, rpc_handlers_register(workers, ARRAY_SIZE(workers), NULL), 0);
	ASSERT_EQ(t, join(t), 0);
	if (sim_incarnation() == 0)
		sim_cmd("barrier 1 4");
	else
		sim_shared[SH_LIFE] = sim_incarnation();
	if (sim_node_id() == PROCESSOR)
		kill_and_start(t);
	while (!sim_get(SH_OVER))
		usleep(1000);
	if (sim_node_id() == HOST)
		EXPECT_EQ(t, counter("cluster.joins"), 3 + LIVES);
	expect_everybody(t);
	EXPECT_EQ(t, nr_fenced, 0);
	sim_cmd("barrier 2 4");
}

static void many_come_and_go_under_load(struct ktest *t)
{
	static const struct sim_node nodes[] = { { .id = HOST, .fn = come_and_go_node },
						 { .id = MEMORY_A, .fn = come_and_go_node },
						 { .id = MEMORY_B, .fn = come_and_go_node },
						 { .id = PROCESSOR, .fn = come_and_go_node } };

	sim_run(t, nodes, 4, 90);
}

/* --- the host is started again ---------------------------------------------------------------- */

/* As the launcher does: what it had heard of the earlier host, from the nodes themselves. */
static void expect_members(struct ktest *t)
{
	static char text[128];

	scnprintf(text, sizeof(text), "%u,m2:%x:2,m3:%x:3,p4:%x:4", (uint32_t)sim_get(10),
		  (uint32_t)sim_get(12), (uint32_t)sim_get(13), (uint32_t)sim_get(14));
	EXPECT_EQ(t, shim_bootparam_set("cluster.again", text), 0);
}

/* Does the check for @node end with @want, now or a while later? */
static bool wait_vnode(uint32_t vnode, uint32_t node, int want)
{
	for (int i = 0; i < 5000; i++) {
		if (cluster_vnode_check(vnode, node, true) == want)
			return true;
		usleep(1000);
	}
	return false;
}

/* Of the transport, and how long the host is away; set before the nodes start. */
static uint32_t patience_us, away_us = 3000000;

/* The host is away for longer than a lease, and is started again. */
static void headless_node(struct ktest *t)
{
	uint32_t epoch, gone;

	shim_bootparam_set("cluster.lease_ms", "1200");
	EXPECT_EQ(t, sim_cmd("patience %u", patience_us), 0);
	if (sim_incarnation() == 1)
		expect_members(t);
	ASSERT_EQ(t, join(t), 0);
	sim_shared[10] = cluster_epoch();
	sim_shared[10 + sim_node_id()] = node_self()->incarn;
	if (sim_incarnation() == 1) {
		/* Its members come by themselves, with what they know. */
		expect_everybody(t);
		EXPECT_TRUE(t, wait_for_counter("cluster.rejoins", 3));
		EXPECT_EQ(t, counter("cluster.joins"), 0);
		sim_cmd("barrier 2 4");
		usleep(2000000);
		EXPECT_EQ(t, counter("cluster.expired"), 0);
		EXPECT_GT(t, counter("cluster.heartbeats"), 5);
		expect_everybody(t);
		/* The memory nodes have told it where the vNodes are. */
		EXPECT_EQ(t, cluster_vnode_check(2, PROCESSOR, true), 0);
		sim_cmd("barrier 6 4");
		EXPECT_EQ(t, managers_end_vnode(2), 0);
		EXPECT_TRUE(t, wait_vnode(2, PROCESSOR, -EACCES));
		sim_cmd("barrier 3 4");
		return;
	}
	for (uint32_t id = 1; id <= 4; id++) {
		if (id != sim_node_id())
			EXPECT_EQ(t, ping(id, RPC_CLASS_DEMAND), 0);
	}
	EXPECT_EQ(t, cluster_vnode_check(2, PROCESSOR, true), -EACCES);
	EXPECT_EQ(t, cluster_vnode_check(PROTO_VNODE_ROOT, PROCESSOR, false), 0);
	sim_cmd("barrier 5 4");
	if (sim_node_id() == HOST)
		EXPECT_EQ(t, managers_place_vnode(2, PROCESSOR), 0);
	EXPECT_TRUE(t, wait_vnode(2, PROCESSOR, 0));
	EXPECT_EQ(t, cluster_vnode_check(2, MEMORY_A, true), -EACCES);
	epoch = cluster_epoch();
	sim_cmd("barrier 1 4");
	if (sim_node_id() == HOST) {
		sleep(30); /* killed meanwhile */
		return;
	}
	if (sim_node_id() == PROCESSOR)
		EXPECT_EQ(t, sim_cmd("kill %u", HOST), 0);
	usleep(away_us);
	/* No node is declared dead, and what does not need the host goes on. */
	EXPECT_EQ(t, nr_gone, 0);
	expect_everybody(t);
	EXPECT_EQ(t, ping(sim_node_id() == MEMORY_A ? MEMORY_B : MEMORY_A, RPC_CLASS_DEMAND), 0);
	EXPECT_TRUE(t, cluster_lease_holds()); /* a program that ends now is told so */
	EXPECT_EQ(t, nr_fenced, 0);
	sim_cmd("barrier 4 3");
	if (sim_node_id() == PROCESSOR)
		EXPECT_EQ(t, sim_cmd("spawn %u", HOST), 0);
	EXPECT_TRUE(t, wait_for(&nr_gone, 1));
	EXPECT_EQ(t, last_gone, HOST);
	EXPECT_TRUE(t, wait_epoch_after(epoch));
	/* The new host's first view does not have it. */
	EXPECT_EQ(t, cluster_vnode_check(2, PROCESSOR, false), 0);
	EXPECT_EQ(t, nr_withdrawn, 0);
	sim_cmd("barrier 2 4");
	gone = nr_gone;
	usleep(2000000);
	EXPECT_EQ(t, gone, nr_gone);
	EXPECT_EQ(t, nr_fenced, 0);
	expect_everybody(t);
	for (uint32_t id = 1; id <= 4; id++) {
		if (id != sim_node_id())
			EXPECT_EQ(t, ping(id, RPC_CLASS_DEMAND), 0);
	}
	EXPECT_EQ(t, nr_withdrawn, 0);
	sim_cmd("barrier 6 4");
	EXPECT_TRUE(t, wait_vnode(2, PROCESSOR, -EACCES));
	EXPECT_TRUE(t, wait_for(&nr_withdrawn, 1));
	EXPECT_EQ(t, cluster_vnode_check(PROTO_VNODE_ROOT, PROCESSOR, false), 0);
	sim_cmd("barrier 3 4");
}

static void host_is_started_again(struct ktest *t)
{
	static const struct sim_node nodes[] = { { .id = HOST, .fn = headless_node },
						 { .id = MEMORY_A, .fn = headless_node },
						 { .id = MEMORY_B, .fn = headless_node },
						 { .id = PROCESSOR, .fn = headless_node } };

	sim_run(t, nodes, 4, 40);
}

/*
 * The host comes again at once, and the transport gives an old connection up only after longer
 * than a lease (8.6 s with our timeout and retries).  The nodes find the new host before.
 */
static void a_new_host_is_found_while_the_transport_tries(struct ktest *t)
{
	patience_us = 8000000;
	away_us = 100000;
	host_is_started_again(t);
	patience_us = 0;
	away_us = 3000000;
}

/* --- a storage node that is away ------------------------------------------------------------ */

static struct rpc_call *make_ping(void *arg)
{
	return rpc_call_create(*(uint32_t *)arg, RPC_CLASS_CONTROL, 0x0001, NULL, 0);
}

static int patient_ping(uint32_t node)
{
	return patient_call(node, make_ping, &node, true);
}

static int patient_result = 1; /* atomic: 1, there is none yet */

static void ping_patiently(void *arg)
{
	__atomic_store_n(&patient_result, patient_ping((uint32_t)(uintptr_t)arg), __ATOMIC_SEQ_CST);
}

/* Kill @node, start to ask it, and let it come again after a while: the thread has its answer. */
static void ask_while_it_comes_again(struct ktest *t, uint32_t node, bool until_gone)
{
	struct thread *thread;

	EXPECT_EQ(t, sim_cmd("kill %u", node), 0);
	if (until_gone)
		EXPECT_TRUE(t, wait_for(&nr_gone, 1));
	patient_result = 1;
	thread = thread_create("patient", ping_patiently, (void *)(uintptr_t)node);
	ASSERT_FALSE(t, IS_ERR(thread));
	usleep(500000);
	EXPECT_EQ(t, __atomic_load_n(&patient_result, __ATOMIC_SEQ_CST), 1);
	EXPECT_EQ(t, sim_cmd("spawn %u", node), 0);
	thread_join(thread);
	EXPECT_EQ(t, patient_result, 0);
}

static void wait_patiently(struct ktest *t)
{
	uint64_t start;

	EXPECT_EQ(t, patient_ping(HOST), 0);
	/* One that the view has taken out, then the managers' node. */
	ask_while_it_comes_again(t, MEMORY_B, true);
	EXPECT_EQ(t, counter("cluster.storage_in_vain"), 0);
	sim_cmd("barrier 2 4");
	sim_shared[10] = cluster_epoch();
	ask_while_it_comes_again(t, HOST, false);
	EXPECT_GE(t, counter("cluster.storage_again"), 1);
	sim_cmd("barrier 3 4");
	EXPECT_EQ(t, shim_bootparam_set("storage.wait_s", "1"), 0);
	EXPECT_EQ(t, sim_cmd("kill %u", MEMORY_A), 0);
	start = time_now_ns();
	EXPECT_EQ(t, patient_ping(MEMORY_A), -EHOSTDOWN);
	EXPECT_GE(t, time_now_ns() - start, NSEC_PER_SEC);
	EXPECT_EQ(t, counter("cluster.storage_in_vain"), 1);
	sim_cmd("barrier 4 3");
}

static void patient_node(struct ktest *t)
{
	const uint32_t self = sim_node_id();
	const bool again = sim_incarnation() == 1;

	shim_bootparam_set("cluster.lease_ms", "1200");
	if (self == HOST && again)
		expect_members(t);
	ASSERT_EQ(t, join(t), 0);
	sim_shared[10] = cluster_epoch();
	sim_shared[10 + self] = node_self()->incarn;
	if (!again)
		sim_cmd("barrier 1 4");
	if (self == PROCESSOR) {
		wait_patiently(t);
		return;
	}
	if (self == MEMORY_B && !again)
		sleep(30); /* killed meanwhile */
	if (self != HOST || !again)
		sim_cmd("barrier 2 4");
	if (self == HOST && !again)
		sleep(30);
	sim_cmd("barrier 3 4");
	if (self == MEMORY_A)
		sleep(30);
	sim_cmd("barrier 4 3");
}

static void a_storage_node_is_waited_for(struct ktest *t)
{
	static const struct sim_node nodes[] = { { .id = HOST, .fn = patient_node },
						 { .id = MEMORY_A, .fn = patient_node },
						 { .id = MEMORY_B, .fn = patient_node },
						 { .id = PROCESSOR, .fn = patient_node } };

	sim_run(t, nodes, 4, 40);
}

/* A node that was cut off for longer than its lease has been fenced, and hears of it. */
static void fenced_node(struct ktest *t)
{
	int err;

	shim_bootparam_set("cluster.lease_ms", "800");
	ASSERT_EQ(t, join(t), 0);
	sim_cmd("barrier 1 4");
	if (sim_node_id() == PROCESSOR) {
		sim_cmd("hold %u %u", PROCESSOR, HOST);
		sim_cmd("barrier 2 4");
		sim_cmd("release %u %u", PROCESSOR, HOST);
		for (int i = 0; i < 8000 && !strstr(status_text, "was fenced"); i++)
			usleep(1000);
		EXPECT_TRUE(t, strstr(status_text, "was fenced") != NULL);
		EXPECT_TRUE(t, wait_for(&nr_fenced, 1));
		EXPECT_EQ(t, ping(HOST, RPC_CLASS_CONTROL), -ESTALE);
		/* It asks no more, unless it has asked MEMORY_A for its lease before it knew. */
		err = ping(MEMORY_A, RPC_CLASS_CONTROL);
		EXPECT_TRUE(t, err == -EHOSTDOWN || err == -ESTALE);
	} else {
		EXPECT_TRUE(t, wait_for(&nr_gone, 1));
		sim_cmd("barrier 2 4");
	}
	sim_cmd("barrier 3 4");
}

static void cut_off_too_long(struct ktest *t)
{
	static const struct sim_node nodes[] = { { .id = HOST, .fn = fenced_node },
						 { .id = MEMORY_A, .fn = fenced_node },
						 { .id = MEMORY_B, .fn = fenced_node },
						 { .id = PROCESSOR, .fn = fenced_node } };

	sim_run(t, nodes, 4, 40);
}

/* A node that no member answers ends by its own clock: its programs, its calls, its service. */
static void cut_off_node(struct ktest *t)
{
	shim_bootparam_set("cluster.lease_ms", "1200");
	ASSERT_EQ(t, join(t), 0);
	for (uint32_t id = 1; id <= 4; id++) {
		if (id != sim_node_id())
			EXPECT_EQ(t, ping(id, RPC_CLASS_CONTROL), 0);
	}
	sim_cmd("barrier 1 4");
	if (sim_node_id() == PROCESSOR) {
		for (uint32_t id = 1; id < 4; id++) {
			sim_cmd("hold %u %u", PROCESSOR, id);
			sim_cmd("hold %u %u", id, PROCESSOR);
		}
		/* Without a deadline: what ends it is that this node is a member no more. */
		EXPECT_EQ(t, rpc_call_sync(MEMORY_A, RPC_CLASS_DEMAND, 0x0001, NULL, 0, NULL, 0, 0),
			  -EHOSTDOWN);
		EXPECT_TRUE(t, strstr(fenced_why, "was cut off") != NULL);
		EXPECT_FALSE(t, cluster_lease_holds());
		EXPECT_EQ(t, nr_fenced, 1);
		EXPECT_GE(t, counter("cluster.asked"), 2);
	} else {
		EXPECT_TRUE(t, wait_for(&nr_gone, 1));
		EXPECT_EQ(t, last_gone, PROCESSOR);
		EXPECT_TRUE(t, cluster_lease_holds());
		EXPECT_EQ(t, nr_fenced, 0);
	}
	sim_cmd("barrier 2 4");
}

static void a_node_that_is_cut_off_ends(struct ktest *t)
{
	static const struct sim_node nodes[] = { { .id = HOST, .fn = cut_off_node },
						 { .id = MEMORY_A, .fn = cut_off_node },
						 { .id = MEMORY_B, .fn = cut_off_node },
						 { .id = PROCESSOR, .fn = cut_off_node } };

	sim_run(t, nodes, 4, 40);
}

#define OTHER 5u /* a second processor */

/*
 * Host and memory nodes have taken a processor out, which does not hear of it; another processor
 * answers it all the time. It ends by itself.
 */
static void answered_by_another_node(struct ktest *t)
{
	shim_bootparam_set("cluster.lease_ms", "1200");
	if (sim_node_id() == OTHER) {
		key_set_for(OTHER, NODE_ROLE_PROCESSOR);
		ASSERT_EQ(t, join_as(t, NODE_ROLE_PROCESSOR), 0);
	} else {
		ASSERT_EQ(t, join(t), 0);
	}
	/* The cluster is complete without the last one. */
	for (int i = 0; i < 8000 && cluster_nodes(NODE_ROLE_PROCESSOR, NULL, 0) < 2; i++)
		usleep(1000);
	for (uint32_t id = 1; id <= 5; id++) {
		if (id != sim_node_id())
			EXPECT_EQ(t, ping(id, RPC_CLASS_CONTROL), 0);
	}
	sim_cmd("barrier 1 5");
	if (sim_node_id() == PROCESSOR) {
		for (uint32_t id = 1; id < 4; id++) {
			sim_cmd("hold %u %u", PROCESSOR, id);
			sim_cmd("hold %u %u", id, PROCESSOR);
		}
		for (int i = 0; i < 10000 && !__atomic_load_n(&nr_fenced, __ATOMIC_SEQ_CST); i++)
			usleep(1000);
		EXPECT_TRUE(t, strstr(fenced_why, "was cut off") != NULL);
		EXPECT_FALSE(t, cluster_lease_holds());
	} else {
		if (sim_node_id() == OTHER) /* it does not hear that the other is out */
			sim_cmd("hold %u %u", HOST, OTHER);
		usleep(5000000);
	}
	sim_cmd("barrier 2 5");
}

static void only_memory_vouches_for_a_processor(struct ktest *t)
{
	static const struct sim_node nodes[] = { { .id = HOST, .fn = answered_by_another_node },
						 { .id = MEMORY_A, .fn = answered_by_another_node },
						 { .id = MEMORY_B, .fn = answered_by_another_node },
						 { .id = PROCESSOR,
						   .fn = answered_by_another_node },
						 { .id = OTHER, .fn = answered_by_another_node } };

	sim_run(t, nodes, 5, 40);
}

/*
 * The host does not reach the processor, nor one of the memory nodes; that one answers the
 * processor, the other has the newer view. Its word counts.
 */
static void contradicted_node(struct ktest *t)
{
	shim_bootparam_set("cluster.lease_ms", "1200");
	ASSERT_EQ(t, join(t), 0);
	for (uint32_t id = 1; id <= 4; id++) {
		if (id != sim_node_id())
			EXPECT_EQ(t, ping(id, RPC_CLASS_CONTROL), 0);
	}
	sim_cmd("barrier 1 4");
	if (sim_node_id() == PROCESSOR) {
		sim_cmd("hold %u %u", PROCESSOR, HOST);
		sim_cmd("hold %u %u", HOST, PROCESSOR);
		sim_cmd("hold %u %u", HOST,
			MEMORY_A); /* what it sends arrives: it stays a member */
		for (int i = 0; i < 10000 && !__atomic_load_n(&nr_fenced, __ATOMIC_SEQ_CST); i++)
			usleep(1000);
		EXPECT_TRUE(t, strstr(fenced_why, "members have taken it out") != NULL);
	}
	sim_cmd("barrier 2 4");
}

static void the_newer_view_wins(struct ktest *t)
{
	static const struct sim_node nodes[] = { { .id = HOST, .fn = contradicted_node },
						 { .id = MEMORY_A, .fn = contradicted_node },
						 { .id = MEMORY_B, .fn = contradicted_node },
						 { .id = PROCESSOR, .fn = contradicted_node } };

	sim_run(t, nodes, 4, 40);
}

/* A member shows an epoch that there is none of: its clients do not ask the host all the time. */
static void pretending_node(struct ktest *t)
{
	EXPECT_EQ(t, rpc_handlers_register(workers, ARRAY_SIZE(workers), NULL), 0);
	ASSERT_EQ(t, join(t), 0);
	expect_everybody(t);
	sim_cmd("barrier 1 4");
	if (sim_node_id() == MEMORY_A)
		rpc_epoch_set(1000000);
	sim_cmd("barrier 2 4");
	if (sim_node_id() == PROCESSOR) {
		const uint64_t start = time_now_ns(), before = counter("cluster.views_asked");
		uint64_t beats;

		for (int i = 0; i < 3; i++)
			EXPECT_EQ(t,
				  rpc_call_sync(MEMORY_A, RPC_CLASS_DEMAND, OP_WORK, NULL, 0, NULL,
						0, 0),
				  0);
		beats = (time_now_ns() - start) / (100 * NSEC_PER_MSEC);
		EXPECT_GT(t, counter("cluster.views_asked"), before);
		EXPECT_LE(t, counter("cluster.views_asked") - before, beats + 8);
	}
	sim_cmd("barrier 3 4");
}

static void a_pretended_view_is_not_asked_for(struct ktest *t)
{
	static const struct sim_node nodes[] = { { .id = HOST, .fn = pretending_node },
						 { .id = MEMORY_A, .fn = pretending_node },
						 { .id = MEMORY_B, .fn = pretending_node },
						 { .id = PROCESSOR, .fn = pretending_node } };

	sim_run(t, nodes, 4, 40);
}

/* --- heartbeats ------------------------------------------------------------------------------- */

/* Either way to send a heartbeat keeps a node alive while the other one is gone. */
static void one_way_node(struct ktest *t)
{
	shim_bootparam_set("cluster.lease_ms", "1200");
	ASSERT_EQ(t, join(t), 0);
	sim_cmd("barrier 1 4");
	if (sim_node_id() == HOST)
		sim_cmd("loss 100"); /* no datagrams */
	sim_cmd("barrier 2 4");
	usleep(2000000);
	if (sim_node_id() != HOST)
		EXPECT_GT(t, counter("cluster.heartbeats_by_connection"), 0);
	sim_cmd("barrier 3 4");
	if (sim_node_id() == HOST) {
		sim_cmd("loss 0");
		sim_cmd("breaks 10000"); /* no connections */
	}
	sim_cmd("barrier 4 4");
	/* While heartbeats go by datagram nothing else need use a connection. */
	for (int i = 0; i < 80 && sim_node_id() == HOST && sim_cmd("count broken") == 0; i++)
		(void)rpc_call_sync(MEMORY_A, RPC_CLASS_CONTROL, 0x0001, NULL, 0, NULL, 0,
				    NSEC_PER_SEC / 10);
	usleep(2000000);
	if (sim_node_id() == HOST) {
		EXPECT_GT(t, sim_cmd("count lost"), 10);
		EXPECT_GT(t, sim_cmd("count broken"), 0);
		EXPECT_GT(t, counter("rpc.datagram.answered"), 10);
		EXPECT_GT(t, counter("cluster.heartbeats"), 20);
		sim_cmd("breaks 0");
	}
	sim_cmd("barrier 5 4");
	EXPECT_EQ(t, nr_gone, 0);
	expect_everybody(t);
	EXPECT_EQ(t, ping(sim_node_id() == HOST ? MEMORY_A : HOST, RPC_CLASS_CONTROL), 0);
	sim_cmd("barrier 6 4");
}

static void heartbeats_one_way(struct ktest *t)
{
	static const struct sim_node nodes[] = { { .id = HOST, .fn = one_way_node },
						 { .id = MEMORY_A, .fn = one_way_node },
						 { .id = MEMORY_B, .fn = one_way_node },
						 { .id = PROCESSOR, .fn = one_way_node } };

	sim_run(t, nodes, 4, 40);
}

/* The host stands still for longer than a lease: nobody has had a chance, so nobody is fenced. */
static void stopped_host_node(struct ktest *t)
{
	shim_bootparam_set("cluster.lease_ms", "1200");
	ASSERT_EQ(t, join(t), 0);
	if (sim_node_id() == HOST)
		sim_shared[0] = (uint64_t)getpid();
	sim_cmd("barrier 1 4");
	for (int i = 0; i < 2 && sim_node_id() == MEMORY_A; i++) {
		EXPECT_EQ(t, kill((pid_t)sim_get(0), SIGSTOP), 0);
		usleep(2200000);
		EXPECT_EQ(t, kill((pid_t)sim_get(0), SIGCONT), 0);
		usleep(800000);
	}
	sim_cmd("barrier 2 4");
	EXPECT_EQ(t, nr_gone, 0);
	expect_everybody(t);
	/* The heartbeat after one in vain does not wait for a datagram first. */
	if (sim_node_id() != HOST)
		EXPECT_GE(t, counter("cluster.heartbeats_connection_first"), 2);
	sim_cmd("barrier 3 4");
}

static void host_stands_still(struct ktest *t)
{
	static const struct sim_node nodes[] = { { .id = HOST, .fn = stopped_host_node },
						 { .id = MEMORY_A, .fn = stopped_host_node },
						 { .id = MEMORY_B, .fn = stopped_host_node },
						 { .id = PROCESSOR, .fn = stopped_host_node } };

	sim_run(t, nodes, 4, 40);
}

/*
 * A processor stands still for longer than a lease whose length only the host was told. The first
 * thing that it does afterwards is to ask whether it still has its lease, as a program's end
 * would.
 */
static void still_node(struct ktest *t)
{
	if (sim_node_id() == HOST)
		shim_bootparam_set("cluster.lease_ms", "1200");
	ASSERT_EQ(t, join(t), 0);
	EXPECT_TRUE(t, cluster_lease_holds());
	if (sim_node_id() == PROCESSOR)
		sim_shared[0] = (uint64_t)getpid();
	sim_cmd("barrier 1 4");
	if (sim_node_id() == PROCESSOR) {
		while (!sim_get(1))
			usleep(1000);
		EXPECT_FALSE(t, cluster_lease_holds());
		EXPECT_TRUE(t, wait_for(&nr_fenced, 1));
	} else {
		if (sim_node_id() == MEMORY_A)
			EXPECT_EQ(t, kill((pid_t)sim_get(0), SIGSTOP), 0);
		EXPECT_TRUE(t, wait_for(&nr_gone, 1));
		EXPECT_EQ(t, last_gone, PROCESSOR);
		EXPECT_TRUE(t, cluster_lease_holds());
	}
	if (sim_node_id() == MEMORY_A) {
		sim_shared[1] = 1;
		EXPECT_EQ(t, kill((pid_t)sim_get(0), SIGCONT), 0);
	}
	sim_cmd("barrier 2 4");
}

static void node_stands_still(struct ktest *t)
{
	static const struct sim_node nodes[] = { { .id = HOST, .fn = still_node },
						 { .id = MEMORY_A, .fn = still_node },
						 { .id = MEMORY_B, .fn = still_node },
						 { .id = PROCESSOR, .fn = still_node } };

	sim_run(t, nodes, 4, 40);
}

static uint32_t host_incarn(void)
{
	struct node_info info = { 0 };

	return rpc_peer_info(HOST, &info) ? info.incarn : 0;
}

/* By datagram and by connection; both must say the same. */
static int heartbeat(struct ktest *t, uint64_t seq)
{
	const struct cluster_heartbeat b = { .incarn = node_self()->incarn,
					     .seq = seq,
					     .host = host_incarn() };
	static uint8_t reply[RPC_BODY_MAX_CTL];
	struct cluster_heartbeat_wire w;
	int one, other;

	cluster_heartbeat_encode(&b, &w);
	one = rpc_datagram_sync(HOST, CLUSTER_HEARTBEAT, &w, sizeof(w), reply, sizeof(reply),
				500000000);
	other = rpc_call_sync(HOST, RPC_CLASS_CONTROL, CLUSTER_HEARTBEAT, &w, sizeof(w), reply,
			      sizeof(reply), 500000000);
	if (one >= 0 && other >= 0)
		EXPECT_GE(t, one, (int)sizeof(struct cluster_view_wire));
	return MIN(other, 0);
}

/* A member that sends its heartbeats by hand. */
static void handmade_node(struct ktest *t)
{
	struct rdma_device *dev = rdma_device_wait(NULL, time_now_ns() + NSEC_PER_SEC);
	const struct rdma_addr addr = { .dlid = HOST };
	struct cluster_member m = { .id = PROCESSOR,
				    .lid = PROCESSOR,
				    .role = NODE_ROLE_PROCESSOR };
	static uint8_t reply[RPC_BODY_MAX_CTL];
	struct cluster_member_wire w;
	uint64_t start, last = 0;
	uint32_t host;
	int err = 0;

	key_set_for(PROCESSOR, NODE_ROLE_PROCESSOR);
	EXPECT_EQ(t, cluster_key_find(), 0);
	EXPECT_EQ(t, rpc_start(dev, NODE_ROLE_PROCESSOR), 0);
	while (rpc_peer_add_rendezvous(&addr, &host))
		;
	m.incarn = node_self()->incarn;
	cluster_member_encode(&m, &w);
	EXPECT_GT(t,
		  rpc_call_sync(host, RPC_CLASS_CONTROL, CLUSTER_JOIN, &w, sizeof(w), reply,
				sizeof(reply), 0),
		  0);
	sim_cmd("barrier 1 4");
	start = time_now_ns();
	for (uint64_t seq = 1; time_now_ns() - start < 2000000000ull; seq++) {
		last = time_now_ns();
		EXPECT_EQ(t, heartbeat(t, seq), 0);
		EXPECT_EQ(t, nr_gone, 0);
		usleep(50000);
	}
	/* From here on only one that is long known, again and again. */
	while (!err && time_now_ns() - start < 10000000000ull) {
		err = heartbeat(t, 1);
		usleep(50000);
	}
	EXPECT_TRUE(t, err == -ESTALE || err == -EHOSTDOWN);
	EXPECT_GE(t, time_now_ns() - last, 1000000000ull);
	EXPECT_LT(t, time_now_ns() - last, 4000000000ull);
	EXPECT_EQ(t,
		  rpc_datagram_sync(host, CLUSTER_HEARTBEAT, &w,
				    sizeof(struct cluster_heartbeat_wire), NULL, 0, 0),
		  -ESTALE);
	sim_cmd("barrier 2 4");
}

static void other_node(struct ktest *t)
{
	shim_bootparam_set("cluster.lease_ms", "1000");
	ASSERT_EQ(t, join(t), 0);
	sim_cmd("barrier 1 4");
	EXPECT_TRUE(t, wait_for(&nr_gone, 1));
	EXPECT_EQ(t, last_gone, PROCESSOR);
	sim_cmd("barrier 2 4");
	EXPECT_EQ(t, nr_gone, 1);
	if (sim_node_id() == HOST)
		EXPECT_GT(t, counter("cluster.heartbeats_old"), 10);
}

static void heartbeats_late_or_twice(struct ktest *t)
{
	static const struct sim_node nodes[] = { { .id = HOST, .fn = other_node },
						 { .id = MEMORY_A, .fn = other_node },
						 { .id = MEMORY_B, .fn = other_node },
						 { .id = PROCESSOR, .fn = handmade_node } };

	sim_run(t, nodes, 4, 40);
}

/* --- malformed messages ----------------------------------------------------------------------- */

static int send(uint32_t node, uint16_t opcode, const void *body, uint32_t len)
{
	static uint8_t reply[RPC_BODY_MAX_CTL];

	return rpc_call_sync(node, RPC_CLASS_CONTROL, opcode, body, len, reply, sizeof(reply), 0);
}

static void nonsense_to_host(struct ktest *t)
{
	const struct node_info *self = node_self();
	struct cluster_member m = { .id = self->id, .incarn = self->incarn, .lid = 4, .role = 1 };
	struct cluster_member_wire w;
	struct cluster_heartbeat heartbeat = { .incarn = self->incarn + 1,
					       .seq = 1,
					       .host = host_incarn() };
	const struct cluster_veto veto = { .id = MEMORY_A, .incarn = 1 };
	struct cluster_veto_wire vw;
	struct cluster_heartbeat_wire bw;
	uint32_t epoch;

	memset(&w, 0xff, sizeof(w));
	EXPECT_EQ(t, send(HOST, CLUSTER_JOIN, &w, sizeof(w)), -EPROTO);
	EXPECT_EQ(t, send(HOST, CLUSTER_JOIN, &w, sizeof(w) - 1), -EMSGSIZE);
	EXPECT_EQ(t, send(HOST, CLUSTER_JOIN, NULL, 0), -EMSGSIZE);
	m.id = MEMORY_A; /* in another's name */
	cluster_member_encode(&m, &w);
	EXPECT_EQ(t, send(HOST, CLUSTER_JOIN, &w, sizeof(w)), -EPROTO);
	m.id = self->id;
	m.incarn++;
	cluster_member_encode(&m, &w);
	EXPECT_EQ(t, send(HOST, CLUSTER_JOIN, &w, sizeof(w)), -EPROTO);
	cluster_heartbeat_encode(&heartbeat, &bw);
	EXPECT_EQ(t, send(HOST, CLUSTER_HEARTBEAT, &bw, sizeof(bw)), -ESTALE);
	EXPECT_EQ(t, send(HOST, CLUSTER_HEARTBEAT, &bw, sizeof(bw) - 1), -EMSGSIZE);
	/* Of another host than this one; about members, in which a processor has no say. */
	heartbeat.host++;
	cluster_heartbeat_encode(&heartbeat, &bw);
	EXPECT_EQ(t, send(HOST, CLUSTER_HEARTBEAT, &bw, sizeof(bw)), -EAGAIN);
	cluster_veto_encode(&veto, &vw);
	EXPECT_EQ(t, send(HOST, CLUSTER_VETO, &vw, sizeof(vw)), -EPERM);
	EXPECT_EQ(t, send(HOST, CLUSTER_VETO, &vw, sizeof(vw) - 1), -EPERM);
	/* Twice is once: no new epoch. */
	m.incarn = self->incarn;
	cluster_member_encode(&m, &w);
	epoch = cluster_epoch();
	EXPECT_GT(t, send(HOST, CLUSTER_JOIN, &w, sizeof(w)), 0);
	EXPECT_GT(t, send(HOST, CLUSTER_JOIN, &w, sizeof(w)), 0);
	EXPECT_EQ(t, cluster_epoch(), epoch);
}

static void nonsense_node(struct ktest *t)
{
	struct cluster_view_wire v = { .epoch = cpu_to_le32(1000) };

	ASSERT_EQ(t, join(t), 0);
	sim_cmd("barrier 1 4");
	if (sim_node_id() == PROCESSOR) {
		nonsense_to_host(t);
		/* Views are the host's to send. */
		EXPECT_EQ(t, send(MEMORY_A, CLUSTER_VIEW, &v, sizeof(v)), -EPERM);
		EXPECT_EQ(t, send(HOST, CLUSTER_VIEW, &v, sizeof(v)), -ENOSYS);
	}
	sim_cmd("barrier 2 4");
	expect_everybody(t);
	EXPECT_LT(t, cluster_epoch(), 1000);
	EXPECT_EQ(t, nr_gone, 0);
	sim_cmd("barrier 3 4");
}

static void nonsense(struct ktest *t)
{
	static const struct sim_node nodes[] = { { .id = HOST, .fn = nonsense_node },
						 { .id = MEMORY_A, .fn = nonsense_node },
						 { .id = MEMORY_B, .fn = nonsense_node },
						 { .id = PROCESSOR, .fn = nonsense_node } };

	sim_run(t, nodes, 4, 30);
}

/* --- over a bad network ----------------------------------------------------------------------- */

static void bad_network_node(struct ktest *t)
{
	if (sim_node_id() == HOST) {
		sim_cmd("loss 20");
		sim_cmd("dup 20");
		sim_cmd("delay 0 20000");
		sim_cmd("breaks 300");
	}
	ASSERT_EQ(t, join(t), 0);
	expect_everybody(t);
	sim_cmd("barrier 1 4");
	if (sim_node_id() == HOST) {
		EXPECT_GT(t, sim_cmd("count lost"), 0);
		sim_cmd("loss 0");
		sim_cmd("breaks 0");
	}
	sim_cmd("barrier 2 4");
}

static void bad_network(struct ktest *t)
{
	static const struct sim_node nodes[] = { { .id = HOST, .fn = bad_network_node },
						 { .id = MEMORY_A, .fn = bad_network_node },
						 { .id = MEMORY_B, .fn = bad_network_node },
						 { .id = PROCESSOR, .fn = bad_network_node } };

	sim_run(t, nodes, 4, 50);
}

/* --- strangers ------------------------------------------------------------------------------ */

static enum {
	NO_KEY,
	ANY_KEY,
	OTHER_NODE,
	OTHER_ROLE
} lie;

static void waiting_host(struct ktest *t)
{
	uint32_t id;

	EXPECT_EQ(t, shim_bootparam_set("cluster.wait_ms", "1500"), 0);
	EXPECT_EQ(t, join(t), -ETIMEDOUT);
	EXPECT_EQ(t, cluster_nodes(NODE_ROLE_PROCESSOR, &id, 1), 0);
	EXPECT_EQ(t, cluster_nodes(NODE_ROLE_MEMORY, &id, 1), 0);
	EXPECT_FALSE(t, rpc_peer_info(PROCESSOR, &(struct node_info){ 0 }));
	if (lie != NO_KEY)
		EXPECT_GE(t, counter("rpc.auth_refused"), 1);
	sim_cmd("barrier 1 2");
}

static void stranger(struct ktest *t)
{
	static const uint8_t any[RPC_KEY_LEN] = { 'y', 'e', 'k' };

	if (lie == ANY_KEY)
		key_set(any);
	if (lie == OTHER_NODE)
		key_set_for(MEMORY_A, NODE_ROLE_PROCESSOR);
	if (lie == OTHER_ROLE)
		key_set_for(PROCESSOR, NODE_ROLE_MEMORY);
	/* In each case it says that it is node 4, a processor. */
	EXPECT_EQ(t, join_as(t, NODE_ROLE_PROCESSOR), lie == NO_KEY ? -ENOKEY : -EACCES);
	EXPECT_EQ(t, cluster_epoch(), 0);
	sim_cmd("barrier 1 2");
}

static void strangers_are_not_let_in(struct ktest *t)
{
	static const struct sim_node nodes[] = { { .id = HOST, .fn = waiting_host },
						 { .id = PROCESSOR, .fn = stranger } };

	for (lie = NO_KEY; lie <= OTHER_ROLE; lie++)
		sim_run(t, nodes, 2, 20);
}

/* --- parameters ------------------------------------------------------------------------------- */

static void leases_and_heartbeats_have_limits(struct ktest *t)
{
	static const char *const bad[] = { "", "0", "9", "86400001", "4294967296", "-1", "1s" };

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		EXPECT_EQ(t, shim_bootparam_set("cluster.lease_ms", bad[i]), -EINVAL);
		EXPECT_EQ(t, shim_bootparam_set("cluster.heartbeat_ms", bad[i]), -EINVAL);
	}
	EXPECT_EQ(t, shim_bootparam_set("cluster.lease_ms", "99"), -EINVAL);
	EXPECT_EQ(t, shim_bootparam_set("cluster.lease_ms", "100"), 0);
	EXPECT_EQ(t, shim_bootparam_set("cluster.heartbeat_ms", "10"), 0);
	EXPECT_EQ(t, shim_bootparam_set("cluster.heartbeat_ms", "2000"), 0);
	EXPECT_EQ(t, shim_bootparam_set("cluster.lease_ms", "15000"), 0);
}

static void members_of_an_earlier_host_are_parsed(struct ktest *t)
{
	static const char *const bad[] = {
		"",
		"x",
		"5,",
		"5,m2",
		"5,m2:1",
		"5,m2:1:",
		"5,m2:0:2",
		"5,m0:1:2",
		"5,q2:1:2",
		"5,m2:1:49152",
		"5,m2:1:2,",
		"5 m2:1:2",
		"5,m2:g:2",
		"5,2:1:2",
		"-1,m2:1:2",
		"5,m3:1:3,m2:1:2",
		"5,m2:1:2,m2:1:2",
		"5,m2:123456789:2",
		"5,m65536:1:2",
		"5,:1:2",
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		EXPECT_EQ(t, shim_bootparam_set("cluster.again", bad[i]), -EINVAL);
	EXPECT_EQ(t, shim_bootparam_set("cluster.again", "7"), 0);
	EXPECT_EQ(t, shim_bootparam_set("cluster.again", "7,m2:ffffffff:2,s65535:1:49151"), 0);
}

#define KEY64 "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define KEY32 "ff968da9f802e614bcc30d987ea588a8"

/* The launcher's file_key() has the same example: test/launcher/test_options.py. */
static void keys_are_parsed(struct ktest *t)
{
	static const char *const bad[] = {
		"",
		KEY64 "0",
		KEY64 ":",
		KEY64 "::" KEY32,
		KEY64 ":3:",
		KEY64 ":4096",
		KEY64 ":-1",
		KEY64 ":3:" KEY32 "0",
		KEY64 ":3:" KEY32 "\n\n",
		KEY64 ":3:g" KEY32,
		KEY64 ":3 :" KEY32,
		KEY64 ":3:ff968da9f802e614bcc30d987ea588a",
	};
	uint8_t key[RPC_KEY_LEN], of[CLUSTER_FILE_KEY_LEN];
	static const uint8_t want[] = {
		0xff, 0x96, 0x8d, 0xa9, 0xf8, 0x02, 0xe6, 0x14,
		0xbc, 0xc3, 0x0d, 0x98, 0x7e, 0xa5, 0x88, 0xa8,
	};

	for (uint8_t i = 0; i < RPC_KEY_LEN; i++)
		key[i] = i;
	cluster_file_key_of(key, of);
	EXPECT_MEMEQ(t, of, want, sizeof(want));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		EXPECT_EQ(t, shim_bootparam_set("cluster.key", bad[i]), -EINVAL);
	EXPECT_EQ(t, shim_bootparam_set("cluster.key", KEY64), 0);
	EXPECT_TRUE(t, cluster_file_key() == NULL);
	EXPECT_EQ(t, shim_bootparam_set("cluster.key", KEY64 ":3\n"), 0);
	EXPECT_TRUE(t, cluster_file_key() == NULL);
	EXPECT_EQ(t, shim_bootparam_set("cluster.key", KEY64 ":4095:" KEY32 "\n"), 0);
	ASSERT_TRUE(t, cluster_file_key());
	EXPECT_EQ(t, cluster_file_key()->k0, 0x14e602f8a98d96ffull);
	EXPECT_EQ(t, cluster_file_key()->k1, 0xa888a57e980dc3bcull);
}

static const struct ktest_case cases[] = {
	KTEST(any_order),
	KTEST(late_memory),
	KTEST(never_complete),
	KTEST(no_host),
	KTEST(programs_are_placed),
	KTEST(leavers_first_then_comers),
	KTEST(a_veto_without_answer_is_repeated),
	KTEST(lease_ends),
	KTEST(restarted_node),
	KTEST(many_come_and_go_under_load),
	KTEST(host_is_started_again),
	KTEST(a_storage_node_is_waited_for),
	KTEST(cut_off_too_long),
	KTEST(a_node_that_is_cut_off_ends),
	KTEST(only_memory_vouches_for_a_processor),
	KTEST(the_newer_view_wins),
	KTEST(a_pretended_view_is_not_asked_for),
	KTEST(nonsense),
	KTEST(bad_network),
	KTEST(heartbeats_one_way),
	KTEST(heartbeats_late_or_twice),
	KTEST(a_new_host_is_found_while_the_transport_tries),
	KTEST(host_stands_still),
	KTEST(node_stands_still),
	KTEST(strangers_are_not_let_in),
	KTEST(leases_and_heartbeats_have_limits),
	KTEST(members_of_an_earlier_host_are_parsed), /* the last, as they leave some behind */
	KTEST(keys_are_parsed),
	{ 0 },
};
static const struct ktest_suite cluster_suite = { .name = "cluster.nodes", .cases = cases };
KTEST_SUITE(cluster_suite);
