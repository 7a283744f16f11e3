/* SPDX-License-Identifier: MIT */
/* RPC between simulated nodes that die, come back, are slow, fenced, or late at the rendezvous. */
#include "rpc_pair.h"

#include <unistd.h>

#include <kernel/time.h>
#include <lib/errno.h>
#include <shim/shim.h>

/* --- death, restart, fencing ------------------------------------------------------------------ */

static int watched_status[8];
static uint32_t nr_watched;

static void watch(struct rpc_peer_watcher *w, uint32_t node, int status)
{
	(void)w, (void)node;
	if (nr_watched < ARRAY_SIZE(watched_status))
		watched_status[nr_watched] = status;
	__atomic_add_fetch(&nr_watched, 1, __ATOMIC_SEQ_CST);
}

static struct rpc_peer_watcher watcher = { .fn = watch };

static bool wait_watched(uint32_t n)
{
	for (int i = 0; i < 5000 && __atomic_load_n(&nr_watched, __ATOMIC_SEQ_CST) < n; i++)
		usleep(1000);
	return __atomic_load_n(&nr_watched, __ATOMIC_SEQ_CST) >= n;
}

static void death_client(struct ktest *t)
{
	struct node_info info = { .id = 1, .role = NODE_ROLE_MEMORY, .addr = { .dlid = 1 } };
	struct target tg;
	struct rpc_call *call;
	uint32_t released;
	uint64_t start;

	shim_bootparam_set("rpc.dead_ms", "1500");
	shim_bootparam_set("rpc.keepalive_ms", "200");
	rpc_peer_watch(&watcher);
	node_join(t, 2);
	target_init(t, &tg);
	EXPECT_EQ(t, echo(1, RPC_CLASS_DEMAND, 8), 0);
	EXPECT_TRUE(t, wait_watched(1));
	EXPECT_EQ(t, watched_status[0], 0);

	/* It dies with a request in its hands. */
	call = slow_submit(t, &tg, 20000, 20000, &released);
	start = time_now_ns();
	EXPECT_EQ(t, sim_cmd("kill 1"), 0);
	EXPECT_EQ(t, rpc_call_wait(call), -EHOSTDOWN);
	EXPECT_LT(t, time_now_ns() - start, 4 * NSEC_PER_SEC);
	EXPECT_TRUE(t, wait_flag(&released, 2000));
	rpc_call_put(call);
	EXPECT_TRUE(t, wait_watched(2));
	EXPECT_EQ(t, watched_status[1], -EHOSTDOWN);
	EXPECT_EQ(t, echo(1, RPC_CLASS_DEMAND, 8), -EHOSTDOWN);

	/* It comes back as another incarnation. */
	sim_shared[SH_BASE + 1] = 0;
	EXPECT_EQ(t, sim_cmd("spawn 1"), 0);
	info.incarn = rpc_node_incarn(1);
	EXPECT_EQ(t, rpc_peer_add(&info), 0);
	EXPECT_TRUE(t, wait_watched(3));
	EXPECT_EQ(t, watched_status[2], -ESTALE);
	EXPECT_EQ(t, echo(1, RPC_CLASS_DEMAND, 8), 0);
	sim_cmd("barrier 1 2");
}

static void death_server(struct ktest *t)
{
	if (sim_incarnation() == 0) {
		server_n(t, 2);
		return;
	}
	node_start(t, NODE_ROLE_MEMORY);
	peer_add(t, 2);
	sim_cmd("barrier 1 2");
}

static void death_and_restart(struct ktest *t)
{
	static const struct sim_node nodes[] = { { .id = 1, .fn = death_server },
						 { .id = 2, .fn = death_client } };

	sim_run(t, nodes, 2, 40);
}

/* A slow but living server is not dead: its pings are answered. */
static void alive_client(struct ktest *t)
{
	struct target tg;
	struct rpc_call *call;
	uint32_t released;

	shim_bootparam_set("rpc.dead_ms", "500");
	shim_bootparam_set("rpc.keepalive_ms", "100");
	node_join(t, 2);
	target_init(t, &tg);
	call = slow_submit(t, &tg, 1800, 10000, &released);
	EXPECT_EQ(t, rpc_call_wait(call), 0);
	EXPECT_TRUE(t, target_is_good(&tg));
	EXPECT_GT(t, counter("rpc.pings"), 3);
	rpc_call_put(call);
	sim_cmd("barrier 1 2");
}

static void slow_is_not_dead(struct ktest *t)
{
	static const struct sim_node nodes[] = { { .id = 1, .fn = server2 },
						 { .id = 2, .fn = alive_client } };

	sim_run(t, nodes, 2, 30);
}

static void fence_server(struct ktest *t)
{
	node_join(t, 2);
	sim_cmd("barrier 2 2");
	rpc_peer_remove(2);
	sim_cmd("barrier 3 2");
	sim_cmd("barrier 1 2");
	EXPECT_EQ(t, sim_get(SH_EXECUTED), 0);
}

static void fence_client(struct ktest *t)
{
	const uint32_t key = 1;

	node_join(t, 2);
	EXPECT_EQ(t, echo(1, RPC_CLASS_CONTROL, 8), 0);
	sim_cmd("barrier 2 2");
	sim_cmd("barrier 3 2");
	EXPECT_EQ(t, rpc_call_sync(1, RPC_CLASS_CONTROL, OP_COUNT, &key, 4, NULL, 0, 0), -ESTALE);
	EXPECT_EQ(t, rpc_call_sync(1, RPC_CLASS_DEMAND, OP_COUNT, &key, 4, NULL, 0, 0), -ESTALE);
	EXPECT_TRUE(t, rpc_peer_fenced_us(1));
	sim_cmd("barrier 1 2");
}

static void fencing(struct ktest *t)
{
	static const struct sim_node nodes[] = { { .id = 1, .fn = fence_server },
						 { .id = 2, .fn = fence_client } };

	sim_run(t, nodes, 2, 30);
}

/* --- the rendezvous --------------------------------------------------------------------------- */

static void rendezvous_host(struct ktest *t)
{
	usleep(300000); /* up later than its clients */
	node_start(t, NODE_ROLE_STORAGE);
	rpc_accept_strangers(true);
	sim_cmd("barrier 1 2");
}

static void rendezvous_client(struct ktest *t)
{
	const struct rdma_addr addr = { .dlid = 1 };
	struct node_info info;
	uint32_t id = 0;

	node_start(t, NODE_ROLE_MEMORY);
	while (rpc_peer_add_rendezvous(&addr, &id) == -EHOSTDOWN)
		;
	EXPECT_EQ(t, id, 1);
	EXPECT_EQ(t, echo(1, RPC_CLASS_CONTROL, 77), 0);
	EXPECT_TRUE(t, rpc_peer_info(1, &info));
	EXPECT_EQ(t, info.role, NODE_ROLE_STORAGE);
	EXPECT_EQ(t, info.incarn, sim_get(SH_BASE + 1));
	/* Known by now: the other classes are open, too. */
	EXPECT_EQ(
		t,
		rpc_call_sync(1, RPC_CLASS_DEMAND, OP_ECHO, NULL, 0, NULL, 0, 300 * NSEC_PER_MSEC),
		0);
	sim_cmd("barrier 1 2");
}

static void rendezvous_late(struct ktest *t)
{
	static const struct sim_node nodes[] = { { .id = 1, .fn = rendezvous_host },
						 { .id = 2, .fn = rendezvous_client } };

	sim_run(t, nodes, 2, 30);
}

static const struct ktest_case cases[] = {
	KTEST(death_and_restart),
	KTEST(slow_is_not_dead),
	KTEST(fencing),
	KTEST(rendezvous_late),
	{ 0 },
};
static const struct ktest_suite rpc_lives_suite = { .name = "rpc.lives", .cases = cases };
KTEST_SUITE(rpc_lives_suite);
