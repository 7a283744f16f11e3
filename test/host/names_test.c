/* SPDX-License-Identifier: MIT */
/*
 * Names of a vNode's sockets between simulated nodes: two processors and the managers, which are
 * started again; a processor that is killed; and what a processor may not say.
 *
 * Node 1 is the storage node that hosts the managers, 2 and 3 are processors.
 */
#include <unistd.h>

#include <cluster/cluster.h>
#include <cluster/membership.h>
#include <kernel/counter.h>
#include <kernel/time.h>
#include <kernel/wait.h>
#include <lib/errno.h>
#include <lib/fmt.h>
#include <lib/ktest.h>
#include <lib/string.h>
#include <net/rpc.h>
#include <processor/client/names.h>
#include <proto/pg.h>
#include <rdma/verbs.h>
#include <shim/shim.h>

#include "memverbs/sim.h"

#define HOST     1u
#define P0       2u
#define P1       3u
#define NR_NODES 3u

static const uint8_t home[16] = { [10] = 0xff, 0xff, 127, 0, 0, 1 };

static enum node_role role_of(uint32_t id)
{
	return id == HOST ? NODE_ROLE_STORAGE : NODE_ROLE_PROCESSOR;
}

static void note_status(const char *line)
{
}

static void view_changed(const struct cluster_view *v)
{
	if (sim_node_id() != HOST)
		names_view_changed();
}

static const struct cluster_ops ops = { .status = note_status, .changed = view_changed };

static void key_set(void)
{
	static const uint8_t cluster_key[RPC_KEY_LEN] = { 'n' };
	uint8_t own[RPC_KEY_LEN];
	char text[2 * RPC_KEY_LEN + 1];

	rpc_node_key(cluster_key, sim_node_id(), role_of(sim_node_id()), 0, own);
	for (size_t i = 0; i < RPC_KEY_LEN; i++)
		scnprintf(text + 2 * i, 3, "%02x", sim_node_id() == HOST ? cluster_key[i] : own[i]);
	shim_bootparam_set("cluster.key", text);
}

static void join(struct ktest *t)
{
	struct rdma_device *dev = rdma_device_wait(NULL, time_now_ns() + NSEC_PER_SEC);

	key_set();
	EXPECT_EQ(t, shim_initcalls_run(), 0);
	if (sim_node_id() == HOST)
		EXPECT_EQ(t, shim_bootparam_set("cluster", "p2,s1"), 0);
	else
		EXPECT_EQ(t, shim_bootparam_set("rendezvous", "lid:1"), 0);
	shim_bootparam_set("cluster.heartbeat_ms", "100");
	shim_bootparam_set("cluster.lease_ms", "1500");
	EXPECT_EQ(t, rpc_start(dev, role_of(sim_node_id())), 0);
	if (sim_node_id() != HOST)
		EXPECT_EQ(t, names_start(), 0);
	ASSERT_EQ(t, cluster_join(&ops), 0);
	/* A processor's view may be older than "complete" here. */
	for (int i = 0; i < 5000 && cluster_nodes(NODE_ROLE_PROCESSOR, NULL, 0) < 2; i++)
		usleep(1000);
	sim_cmd("barrier 0 %u", NR_NODES);
}

static int set(struct name_entry **e, uint32_t kind, uint16_t port, unsigned int flags)
{
	struct vnode_name name = { .port = port, .kind = (uint8_t)kind, .flags = (uint8_t)flags };

	memcpy(name.addr, home, sizeof(home));
	return names_set(e, &name, NULL);
}

static int find(uint16_t port, uint32_t *node)
{
	struct vnode_name name = { .port = port, .kind = NAME_TCP };

	memcpy(name.addr, home, sizeof(home));
	*node = 0;
	return names_find(&name, time_now_ns() + 10 * NSEC_PER_SEC, node);
}

/* Does the look-up come to answer @want? */
static bool wait_find(uint16_t port, int want)
{
	uint32_t node;

	for (int i = 0; i < 10000; i++) {
		if (find(port, &node) == want)
			return true;
		usleep(1000);
	}
	return false;
}

/* Does the name come free? Names are let go without waiting for the manager. */
static bool wait_set(struct name_entry **e, uint32_t kind)
{
	for (int i = 0; i < 10000; i++) {
		if (set(e, kind, 0, 0) == 0)
			return true;
		usleep(1000);
	}
	return false;
}

/* A port of the system's choice, from the run that is leased. */
static uint16_t first_leased(void)
{
	for (uint32_t port = 32768; port < 61000; port++) {
		if (!names_skip_ports((uint16_t)port))
			return (uint16_t)port;
	}
	return 0;
}

static uint64_t counter(const char *name)
{
	uint64_t v = 0;

	counter_find(name, &v);
	return v;
}

/* --- two processors ---------------------------------------------------------------------- */

static void listening_processor(struct ktest *t)
{
	struct name_entry *a = NULL, *b = NULL, *c = NULL;

	EXPECT_EQ(t, set(&a, NAME_TCP, 80, 0), 0);
	EXPECT_EQ(t, set(&b, NAME_UNIX_STREAM, 0, 0), 0);
	sim_cmd("barrier 1 2");
	/* The other one looks: it is bound, and does not listen. */
	sim_cmd("barrier 2 2");
	EXPECT_EQ(t, set(&a, NAME_TCP, 80, NAME_LISTENING), 0);
	EXPECT_EQ(t, set(&c, NAME_TCP, 81, NAME_LISTENING), 0);
	EXPECT_EQ(t, names_lease(), 0);
	sim_shared[20] = first_leased();
	sim_cmd("barrier 3 2");
	sim_cmd("barrier 4 2");
	names_drop(a);
	names_drop(b);
	sim_cmd("barrier 5 2");
	sim_cmd("barrier 6 3");
	names_drop(c);
}

static void other_processor(struct ktest *t)
{
	struct name_entry *a = NULL, *b = NULL, *c = NULL;
	uint32_t node;

	sim_cmd("barrier 1 2");
	EXPECT_EQ(t, set(&a, NAME_TCP, 80, 0), -EADDRINUSE);
	EXPECT_EQ(t, set(&b, NAME_UNIX_STREAM, 0, 0), -EADDRINUSE);
	EXPECT_EQ(t, set(&c, NAME_UDP, 80, 0), 0);
	EXPECT_EQ(t, find(80, &node), -ECONNREFUSED);
	sim_cmd("barrier 2 2");
	sim_cmd("barrier 3 2");
	EXPECT_EQ(t, find(80, &node), 0);
	EXPECT_EQ(t, node, P0);
	EXPECT_EQ(t, find(81, &node), 0);
	EXPECT_EQ(t, find(82, &node), -ECONNREFUSED);
	EXPECT_EQ(t, names_lease(), 0);
	EXPECT_NE(t, first_leased(), 0);
	EXPECT_NE(t, first_leased(), sim_get(20));
	EXPECT_NE(t, names_skip_ports((uint16_t)sim_get(20)), 0);
	sim_cmd("barrier 4 2");
	sim_cmd("barrier 5 2");
	EXPECT_TRUE(t, wait_find(80, -ECONNREFUSED));
	EXPECT_EQ(t, set(&a, NAME_TCP, 80, NAME_LISTENING), 0);
	EXPECT_TRUE(t, wait_set(&b, NAME_UNIX_STREAM));
	sim_cmd("barrier 6 3");
	names_drop(a);
	names_drop(b);
	names_drop(c);
}

static void two_processors(struct ktest *t)
{
	join(t);
	if (sim_node_id() == P0) {
		listening_processor(t);
	} else if (sim_node_id() == P1) {
		other_processor(t);
	} else {
		sim_cmd("barrier 6 3");
		EXPECT_GE(t, counter("names.in_use"), 2);
		EXPECT_EQ(t, counter("names.leases"), 2);
	}
	sim_cmd("barrier 7 3");
}

static void names_are_the_vnodes(struct ktest *t)
{
	static const struct sim_node nodes[] = { { .id = HOST, .fn = two_processors },
						 { .id = P0, .fn = two_processors },
						 { .id = P1, .fn = two_processors } };

	sim_run(t, nodes, 3, 40);
}

/* --- a processor is killed --------------------------------------------------------------- */

static void one_is_killed(struct ktest *t)
{
	struct name_entry *a = NULL, *b = NULL;
	uint32_t node;

	join(t);
	if (sim_node_id() == P0) {
		EXPECT_EQ(t, set(&a, NAME_TCP, 80, NAME_LISTENING), 0);
		EXPECT_EQ(t, names_lease(), 0);
		sim_cmd("barrier 1 2");
		sleep(30); /* killed meanwhile */
	} else if (sim_node_id() == P1) {
		sim_cmd("barrier 1 2");
		EXPECT_EQ(t, find(80, &node), 0);
		EXPECT_EQ(t, sim_cmd("kill %u", P0), 0);
		/* Its names stay until its lease ends, and then go. */
		EXPECT_EQ(t, set(&a, NAME_TCP, 80, 0), -EADDRINUSE);
		EXPECT_TRUE(t, wait_find(80, -ECONNREFUSED));
		EXPECT_EQ(t, set(&b, NAME_TCP, 80, NAME_LISTENING), 0);
		EXPECT_EQ(t, names_lease(), 0);
		EXPECT_EQ(t, first_leased(), 32768);
		sim_cmd("barrier 2 2");
	} else {
		sim_cmd("barrier 2 2");
		EXPECT_EQ(t, counter("cluster.expired"), 1);
	}
}

static void names_of_the_dead_go(struct ktest *t)
{
	static const struct sim_node nodes[] = { { .id = HOST, .fn = one_is_killed },
						 { .id = P0, .fn = one_is_killed },
						 { .id = P1, .fn = one_is_killed } };

	sim_run(t, nodes, 3, 40);
}

/* --- the managers are started again ------------------------------------------------------ */

static void expect_members(struct ktest *t)
{
	static char text[128];

	scnprintf(text, sizeof(text), "%u,p2:%x:2,p3:%x:3", (uint32_t)sim_get(10),
		  (uint32_t)sim_get(12), (uint32_t)sim_get(13));
	EXPECT_EQ(t, shim_bootparam_set("cluster.again", text), 0);
}

/* More than one message of names. */
#define MANY 450u

static void headless_processor(struct ktest *t)
{
	static struct name_entry *mine[MANY];
	struct name_entry *e = NULL, *during = NULL;
	const uint16_t first = (uint16_t)(sim_node_id() * 1000);
	const uint32_t other = sim_node_id() == P0 ? P1 : P0;
	uint32_t node;

	for (uint16_t i = 0; i < MANY; i++)
		EXPECT_EQ(t, set(&mine[i], NAME_TCP, (uint16_t)(first + i), NAME_LISTENING), 0);
	EXPECT_EQ(t, names_lease(), 0);
	sim_shared[20 + sim_node_id()] = first_leased();
	sim_cmd("barrier 1 3");
	if (sim_node_id() == P0) {
		EXPECT_EQ(t, sim_cmd("kill %u", HOST), 0);
		EXPECT_EQ(t, sim_cmd("spawn %u", HOST), 0);
	}
	/* Calls made while the managers are away, or know nothing yet, wait. */
	names_drop(mine[0]);
	EXPECT_EQ(t, set(&during, NAME_TCP, (uint16_t)(first + 900), NAME_LISTENING), 0);
	EXPECT_EQ(t, set(&e, NAME_TCP, (uint16_t)(other * 1000 + MANY - 1), 0), -EADDRINUSE);
	EXPECT_EQ(t, find((uint16_t)(other * 1000 + MANY - 1), &node), 0);
	EXPECT_EQ(t, node, other);
	sim_cmd("barrier 2 3");
	EXPECT_EQ(t, find((uint16_t)(other * 1000), &node), -ECONNREFUSED);
	EXPECT_EQ(t, find((uint16_t)(other * 1000 + 900), &node), 0);
	/* Leases are kept. */
	EXPECT_EQ(t, names_lease(), 0);
	EXPECT_NE(t, names_skip_ports((uint16_t)sim_get(20 + other)), 0);
	EXPECT_GE(t, counter("names.told_all"), 2);
	sim_cmd("barrier 3 3");
}

static void headless(struct ktest *t)
{
	if (sim_node_id() == HOST && sim_incarnation() == 1)
		expect_members(t);
	if (sim_incarnation() == 1) {
		struct rdma_device *dev = rdma_device_wait(NULL, time_now_ns() + NSEC_PER_SEC);

		key_set();
		EXPECT_EQ(t, shim_initcalls_run(), 0);
		EXPECT_EQ(t, shim_bootparam_set("cluster", "p2,s1"), 0);
		shim_bootparam_set("cluster.heartbeat_ms", "100");
		EXPECT_EQ(t, rpc_start(dev, NODE_ROLE_STORAGE), 0);
		ASSERT_EQ(t, cluster_join(&ops), 0);
		sim_cmd("barrier 2 3");
		sim_cmd("barrier 3 3");
		return;
	}
	join(t);
	if (sim_node_id() == HOST)
		sim_shared[10] = cluster_epoch();
	else
		sim_shared[10 + sim_node_id()] = node_self()->incarn;
	if (sim_node_id() != HOST) {
		headless_processor(t);
		return;
	}
	sim_cmd("barrier 1 3");
	sleep(30); /* killed meanwhile */
}

static void managers_are_started_again(struct ktest *t)
{
	static const struct sim_node nodes[] = { { .id = HOST, .fn = headless },
						 { .id = P0, .fn = headless },
						 { .id = P1, .fn = headless } };

	sim_run(t, nodes, 3, 60);
}

/* --- what a processor may not say -------------------------------------------------------- */

static int say(uint16_t opcode, const void *body, size_t len)
{
	uint8_t reply[64];

	return rpc_call_sync(HOST, RPC_CLASS_CONTROL, opcode, body, (uint32_t)len, reply,
			     sizeof(reply), 0);
}

static int say_name(uint32_t vnode)
{
	const struct pg_name name = {
		.id = 1ull << 40, .vnode = vnode, .port = 80, .kind = PG_TCP
	};
	struct pg_name_wire w;

	pg_name_encode(&name, &w);
	return say(PG_NAME, &w, sizeof(w));
}

static void hostile_processor(struct ktest *t)
{
	static uint8_t junk[8192];
	const struct pg_find_req find_req = { .vnode = 9, .port = 80, .kind = PG_TCP };
	struct pg_find_req_wire w;

	/* It is no use before it has told all that it has; the thread here has done that. */
	EXPECT_EQ(t, names_lease(), 0);
	EXPECT_EQ(t, say_name(PROTO_VNODE_ROOT), 0);
	EXPECT_EQ(t, say_name(9), -EACCES);
	pg_find_req_encode(&find_req, &w);
	EXPECT_EQ(t, say(PG_FIND, &w, sizeof(w)), -EACCES);
	memset(junk, 0xa5, sizeof(junk));
	for (uint16_t op = PG_NAME; op <= PG_REPORT; op++) {
		EXPECT_LT(t, say(op, junk, 0), 0);
		for (size_t len = 1; len <= sizeof(junk); len = len * 2 + 3)
			EXPECT_LT(t, say(op, junk, len), 0);
	}
	for (unsigned int i = 0; i < 40; i++) {
		struct name_entry *e = NULL;

		EXPECT_EQ(t, set(&e, NAME_TCP, (uint16_t)(100 + i), 0), i < 15 ? 0 : -ENOBUFS);
	}
}

static void hostile(struct ktest *t)
{
	if (sim_node_id() == HOST)
		shim_bootparam_set("names.max", "16");
	join(t);
	if (sim_node_id() == P1)
		hostile_processor(t);
	sim_cmd("barrier 1 3");
	if (sim_node_id() == P0) {
		struct name_entry *e = NULL;

		EXPECT_EQ(t, set(&e, NAME_TCP, 99, 0), 0);
	}
	sim_cmd("barrier 2 3");
}

static void a_processor_says_what_it_may_not(struct ktest *t)
{
	static const struct sim_node nodes[] = { { .id = HOST, .fn = hostile },
						 { .id = P0, .fn = hostile },
						 { .id = P1, .fn = hostile } };

	sim_run(t, nodes, 3, 40);
}

static const struct ktest_case cases[] = {
	KTEST(names_are_the_vnodes),
	KTEST(names_of_the_dead_go),
	KTEST(managers_are_started_again),
	KTEST(a_processor_says_what_it_may_not),
	{ 0 },
};
static const struct ktest_suite suite = { .name = "socket.names", .cases = cases };
KTEST_SUITE(suite);
