/* SPDX-License-Identifier: MIT */
/*
 * RPC between simulated nodes that are silent, die, come back, are fenced, or late at the
 * rendezvous.
 */
#include "rpc_pair.h"

#include <unistd.h>

#include <kernel/thread.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <shim/shim.h>

#include "../../net/rpc/rpc_priv.h"

/* --- silence, death, restart, fencing --------------------------------------------------------- */

/* Node 2: knows the server, and probes often. */
static void watch_server(struct ktest *t, struct target *tg)
{
	shim_bootparam_set("rpc.probe_ms", "100");
	node_join(t, 2);
	target_init(t, tg);
	EXPECT_EQ(t, echo(1, RPC_CLASS_DEMAND, 8), 0);
}

/* The answer to @call has not come after @ms. */
static bool waits_still(struct rpc_call *call, uint32_t *released, uint32_t ms)
{
	return !wait_flag(released, ms) && call->status == 0;
}

/* Nothing is heard of a peer: its calls wait, for as long as membership does not say more. */
static void silence_client(struct ktest *t)
{
	struct target tg;
	struct rpc_call *call;
	uint32_t released;

	watch_server(t, &tg);
	sim_cmd("hold 1 2");
	call = slow_submit(t, &tg, 1, 0, &released);
	EXPECT_TRUE(t, waits_still(call, &released, 2000));
	sim_cmd("release 1 2");
	EXPECT_EQ(t, rpc_call_wait(call), 0);
	EXPECT_TRUE(t, target_is_good(&tg));
	rpc_call_put(call);

	/* Nor does the end of all connections end a call. */
	call = slow_submit(t, &tg, 300, 0, &released);
	sim_cmd("breaks 10000");
	EXPECT_TRUE(t, waits_still(call, &released, 2000));
	sim_cmd("breaks 0");
	EXPECT_EQ(t, rpc_call_wait(call), 0);
	EXPECT_TRUE(t, target_is_good(&tg));
	EXPECT_EQ(t, counter("rpc.timeouts"), 0);
	rpc_call_put(call);
	sim_cmd("barrier 1 2");
}

static void silence_is_not_death(struct ktest *t)
{
	sim_two(t, server2, silence_client, 40);
}

/* A thread that is told to die leaves its call, whatever the peer does. */
static uint32_t killed_status; /* atomic: of the call, negated; 0 = it is under way */

static void victim_main(void *arg)
{
	__atomic_store_n(&killed_status,
			 (uint32_t)-rpc_call_sync_killable(1, RPC_CLASS_CONTROL, OP_ECHO, NULL, 0,
							   NULL, 0, 0),
			 __ATOMIC_RELEASE);
}

static void kill_client(struct ktest *t)
{
	struct thread *victim;

	node_join(t, 2);
	EXPECT_EQ(t, echo(1, RPC_CLASS_CONTROL, 8), 0);
	sim_cmd("hold 1 2");
	victim = thread_create("victim", victim_main, NULL);
	ASSERT_FALSE(t, IS_ERR(victim));
	usleep(300000);
	EXPECT_EQ(t, killed_status, 0);
	thread_notify(victim, THREAD_F_KILL);
	EXPECT_TRUE(t, wait_flag(&killed_status, 1000));
	EXPECT_EQ(t, killed_status, EINTR);
	sim_cmd("release 1 2");
	thread_join(victim);
	EXPECT_EQ(t, echo(1, RPC_CLASS_CONTROL, 8), 0);
	sim_cmd("barrier 1 2");
}

static void kill_ends_a_call(struct ktest *t)
{
	sim_two(t, server2, kill_client, 30);
}

/* The server's end of the connection goes, with the request, and the news of it is lost. */
static void lost_end_client(struct ktest *t)
{
	struct target tg;
	struct rpc_call *call;
	uint32_t released;

	watch_server(t, &tg);
	call = slow_submit(t, &tg, 500, 0, &released);
	sim_cmd("loss 100");
	sim_cmd("lose 1 2");
	usleep(1000000);
	sim_cmd("loss 0");
	EXPECT_TRUE(t, wait_flag(&released, 5000));
	EXPECT_EQ(t, rpc_call_wait(call), 0);
	EXPECT_TRUE(t, target_is_good(&tg));
	EXPECT_GT(t, counter("rpc.probes"), 0);
	rpc_call_put(call);
	sim_cmd("barrier 1 2");
}

static void lost_end_is_noticed(struct ktest *t)
{
	sim_two(t, server2, lost_end_client, 30);
}

static uint32_t spawn_server(void)
{
	sim_shared[SH_BASE + 1] = 0;
	sim_cmd("spawn 1");
	return (uint32_t)rpc_node_incarn(1);
}

/* A peer is dead when membership says so, and at once. */
static void death_client(struct ktest *t)
{
	struct node_info info = { .id = 1, .role = NODE_ROLE_MEMORY, .addr = { .dlid = 1 } };
	struct target tg;
	struct rpc_call *call;
	uint32_t released;
	uint64_t start;

	watch_server(t, &tg);

	/* It dies with a request in its hands. */
	call = slow_submit(t, &tg, 20000, 0, &released);
	EXPECT_EQ(t, sim_cmd("kill 1"), 0);
	EXPECT_TRUE(t, waits_still(call, &released, 1500));
	start = time_now_ns();
	rpc_peer_fence(1, (uint32_t)sim_get(SH_BASE + 1));
	EXPECT_EQ(t, rpc_call_wait(call), -EHOSTDOWN);
	EXPECT_LT(t, time_now_ns() - start, 500 * NSEC_PER_MSEC);
	EXPECT_TRUE(t, wait_flag(&released, 2000));
	rpc_call_put(call);
	EXPECT_EQ(t, echo(1, RPC_CLASS_DEMAND, 8), -EHOSTDOWN);

	/* It comes back as another incarnation. */
	info.incarn = spawn_server();
	EXPECT_EQ(t, rpc_peer_add(&info), 0);
	EXPECT_EQ(t, echo(1, RPC_CLASS_DEMAND, 8), 0);

	/* And once more: that the next one is a member says that this one is gone. */
	call = slow_submit(t, &tg, 20000, 0, &released);
	EXPECT_EQ(t, sim_cmd("kill 1"), 0);
	info.incarn = spawn_server();
	EXPECT_EQ(t, rpc_peer_add(&info), 0);
	EXPECT_EQ(t, rpc_call_wait(call), -EHOSTDOWN);
	rpc_call_put(call);
	EXPECT_EQ(t, echo(1, RPC_CLASS_DEMAND, 8), 0);
	sim_cmd("barrier 1 2");
}

/* Called once, when a submit has found its peer usable and has no slot yet. */
static void (*after_look)(void);

struct rpc_peer;
int __real_rpc_peer_usable(struct rpc_peer *peer);
int __wrap_rpc_peer_usable(struct rpc_peer *peer);

int __wrap_rpc_peer_usable(struct rpc_peer *peer)
{
	const int err = __real_rpc_peer_usable(peer);
	void (*fn)(void) = after_look;

	after_look = NULL;
	if (fn)
		fn();
	return err;
}

static void server_leaves(void)
{
	rpc_peer_remove(1);
}

/* The peer leaves, and its calls are ended, just before another call takes a slot. */
static void late_submit_client(struct ktest *t)
{
	struct rpc_call *call;
	int err;

	node_join(t, 2);
	EXPECT_EQ(t, echo(1, RPC_CLASS_DEMAND, 8), 0);
	call = rpc_call_create(1, RPC_CLASS_DEMAND, OP_ECHO, NULL, 0);
	ASSERT_TRUE(t, call != NULL);
	after_look = server_leaves;
	err = rpc_call_submit(call);
	EXPECT_TRUE(t, after_look == NULL);
	EXPECT_EQ(t, err, -EHOSTDOWN); /* it was submitted: nothing would ever end it */
	rpc_call_put(call);
	sim_cmd("barrier 1 2");
}

static void submit_to_one_that_leaves(struct ktest *t)
{
	sim_two(t, server2, late_submit_client, 30);
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
	sim_two(t, death_server, death_client, 40);
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
	sim_two(t, fence_server, fence_client, 30);
}

/* --- views --------------------------------------------------------------------------------- */

static bool learns; /* the client gets the new view when it hears of one */
static uint32_t nr_told;

static void newer_epoch(void)
{
	__atomic_add_fetch(&nr_told, 1, __ATOMIC_SEQ_CST);
	if (learns)
		rpc_epoch_set(5);
}

static void newer_server(struct ktest *t)
{
	node_join(t, 2);
	rpc_epoch_set(5);
	sim_cmd("barrier 1 2");
	sim_cmd("barrier 2 2");
	EXPECT_EQ(t, sim_get(SH_EXECUTED), 1);
	EXPECT_GE(t, counter("rpc.behind"), learns ? 1 : 2);
}

/* Its caller sees nothing of it but the time. */
static void older_client(struct ktest *t)
{
	const uint32_t key = 1;
	uint64_t start;

	node_join(t, 2);
	rpc_epoch_notify(newer_epoch);
	rpc_epoch_set(3);
	sim_cmd("barrier 1 2");
	EXPECT_EQ(t, rpc_ping(1, 8 * NSEC_PER_SEC), 0); /* asks for nothing that a view decides */
	EXPECT_EQ(t, nr_told, 0);
	start = time_now_ns();
	EXPECT_EQ(t, rpc_call_sync(1, RPC_CLASS_CONTROL, OP_COUNT, &key, 4, NULL, 0, 0), 0);
	if (learns) {
		EXPECT_GE(t, nr_told, 1);
		EXPECT_EQ(t, rpc_epoch(), 5);
	} else {
		/* A node that cannot get the view is served all the same. */
		EXPECT_GE(t, nr_told, 2);
		EXPECT_GE(t, time_now_ns() - start, NSEC_PER_SEC);
		EXPECT_LT(t, time_now_ns() - start, 8 * NSEC_PER_SEC);
	}
	sim_cmd("barrier 2 2");
}

static void an_older_view_comes_first(struct ktest *t)
{
	learns = true;
	sim_two(t, newer_server, older_client, 30);
	learns = false;
	sim_two(t, newer_server, older_client, 30);
}

/* --- the rendezvous --------------------------------------------------------------------------- */

static const uint8_t cluster_key[RPC_KEY_LEN] = { 'k', 'e', 'y' };

static void rendezvous_host(struct ktest *t)
{
	usleep(300000); /* up later than its clients */
	node_start(t, NODE_ROLE_STORAGE);
	rpc_key_set(cluster_key, true);
	rpc_accept_strangers(true);
	sim_cmd("barrier 1 2");
}

static void rendezvous_client(struct ktest *t)
{
	const struct rdma_addr addr = { .dlid = 1 };
	uint8_t own[RPC_KEY_LEN];
	struct node_info info;
	uint32_t id = 0;

	node_start(t, NODE_ROLE_MEMORY);
	rpc_node_key(cluster_key, sim_node_id(), NODE_ROLE_MEMORY, 0, own);
	rpc_key_set(own, false);
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
	sim_two(t, rendezvous_host, rendezvous_client, 30);
}

/* The host's first life, then a node without a key in its place, then the host again. */
static void replaced_host(struct ktest *t)
{
	uint8_t key[RPC_KEY_LEN];

	/* No case before this one has left the cluster's key in the process. */
	EXPECT_FALSE(t, rpc_auth_pair_key(2, NODE_ROLE_MEMORY, 1, false, key));
	node_start(t, NODE_ROLE_STORAGE);
	if (sim_incarnation() == 1) {
		peer_add(t, 2); /* so it asks for no proof */
	} else {
		rpc_key_set(cluster_key, true);
		rpc_accept_strangers(true);
	}
	sim_cmd("barrier 1 2");
}

static int echo_within(enum rpc_class cls, uint32_t ms)
{
	return rpc_call_sync(1, cls, OP_ECHO, NULL, 0, NULL, 0, ms * NSEC_PER_MSEC);
}

static void wary_client(struct ktest *t)
{
	const struct rdma_addr addr = { .dlid = 1 };
	uint8_t own[RPC_KEY_LEN];
	struct node_info info;
	uint32_t id = 0, first;
	int ret;

	shim_bootparam_set("rpc.probe_ms", "100");
	node_start(t, NODE_ROLE_MEMORY);
	rpc_node_key(cluster_key, sim_node_id(), NODE_ROLE_MEMORY, 0, own);
	rpc_key_set(own, false);
	while (rpc_peer_add_rendezvous(&addr, &id) == -EHOSTDOWN)
		;
	EXPECT_EQ(t, echo(1, RPC_CLASS_CONTROL, 8), 0);
	first = (uint32_t)sim_get(SH_BASE + 1);

	sim_cmd("kill 1");
	spawn_server();
	EXPECT_EQ(t, echo_within(RPC_CLASS_DEMAND, 1000), -ETIMEDOUT);
	EXPECT_EQ(t, echo_within(RPC_CLASS_CONTROL, 1000), -ETIMEDOUT);
	EXPECT_GT(t, counter("rpc.auth_refused"), 0);
	EXPECT_TRUE(t, rpc_peer_info(1, &info));
	EXPECT_EQ(t, info.incarn, first);

	sim_cmd("kill 1");
	first = spawn_server();
	while ((ret = echo_within(RPC_CLASS_CONTROL, 5000)) == -EHOSTDOWN)
		; /* the call met the restart */
	EXPECT_EQ(t, ret, 0);
	EXPECT_TRUE(t, rpc_peer_info(1, &info));
	EXPECT_EQ(t, info.incarn, first);
	sim_cmd("barrier 1 2");
}

static void a_restarted_host_proves_the_key(struct ktest *t)
{
	sim_two(t, replaced_host, wary_client, 40);
}

/* Two lives of node 2, at two addresses: the second one joins while the first one is connected. */
static void two_lives_host(struct ktest *t)
{
	node_start(t, NODE_ROLE_STORAGE);
	rpc_key_set(cluster_key, true);
	rpc_accept_strangers(true);
	sim_cmd("barrier 2 3");
	sim_cmd("barrier 3 3");
	sim_cmd("barrier 1 3");
}

static void node_2_joins(struct ktest *t, uint32_t start)
{
	const struct rdma_addr addr = { .dlid = 1 };
	uint8_t own[RPC_KEY_LEN];
	uint32_t id = 0;

	shim_node_id_set(2);
	node_start_set(start);
	node_start(t, NODE_ROLE_MEMORY);
	rpc_node_key(cluster_key, 2, NODE_ROLE_MEMORY, start, own);
	rpc_key_set(own, false);
	while (rpc_peer_add_rendezvous(&addr, &id) == -EHOSTDOWN)
		;
	EXPECT_EQ(t, echo(1, RPC_CLASS_CONTROL, 8), 0);
}

static void first_life(struct ktest *t)
{
	node_2_joins(t, 0);
	EXPECT_EQ(t, echo(1, RPC_CLASS_DEMAND, 8), 0);
	sim_cmd("barrier 2 3");
	sim_cmd("barrier 3 3");
	EXPECT_EQ(t, echo_within(RPC_CLASS_DEMAND, 3000), -ESTALE);
	EXPECT_TRUE(t, rpc_peer_fenced_us(1));
	sim_cmd("barrier 1 3");
}

static void second_life(struct ktest *t)
{
	sim_cmd("barrier 2 3");
	node_2_joins(t, 0);
	sim_cmd("barrier 3 3");
	EXPECT_EQ(t, echo(1, RPC_CLASS_DEMAND, 8), 0);
	EXPECT_EQ(t, echo(1, RPC_CLASS_CONTROL, 8), 0);
	sim_cmd("barrier 1 3");
}

static void a_replaced_life_is_not_served(struct ktest *t)
{
	static const struct sim_node nodes[] = { { .id = 1, .fn = two_lives_host },
						 { .id = 2, .fn = first_life },
						 { .id = 3, .fn = second_life } };

	sim_run(t, nodes, 3, 30);
}

/*
 * Three starts of node 2: the first one is alive still, and proves its key, when the third one has
 * joined.
 */
static void three_starts_host(struct ktest *t)
{
	node_start(t, NODE_ROLE_STORAGE);
	rpc_key_set(cluster_key, true);
	rpc_accept_strangers(true);
	for (uint32_t step = 2; step <= 5; step++)
		sim_cmd("barrier %u 4", step);
	sim_cmd("barrier 1 4");
}

static void each_start(struct ktest *t)
{
	const uint32_t start = sim_node_id() - 1; /* before it is node 2 */

	for (uint32_t step = 2; step <= start; step++)
		sim_cmd("barrier %u 4", step);
	node_2_joins(t, start);
	for (uint32_t step = start + 1; step <= 4; step++)
		sim_cmd("barrier %u 4", step);
	if (start == 1) {
		EXPECT_EQ(t, echo_within(RPC_CLASS_CONTROL, 3000), -ESTALE);
		EXPECT_TRUE(t, rpc_peer_fenced_us(1));
	}
	sim_cmd("barrier 5 4");
	if (start == 3) {
		EXPECT_EQ(t, echo(1, RPC_CLASS_CONTROL, 8), 0);
		EXPECT_EQ(t, echo(1, RPC_CLASS_DEMAND, 8), 0);
		EXPECT_FALSE(t, rpc_peer_fenced_us(1));
	}
	sim_cmd("barrier 1 4");
}

static void an_earlier_start_displaces_none(struct ktest *t)
{
	static const struct sim_node nodes[] = { { .id = 1, .fn = three_starts_host },
						 { .id = 2, .fn = each_start },
						 { .id = 3, .fn = each_start },
						 { .id = 4, .fn = each_start } };

	sim_run(t, nodes, 4, 40);
}

/* A host that was stopped goes on when its successor has the cluster. */
static void late_host(struct ktest *t)
{
	const uint32_t start = sim_node_id() == 1 ? 2 : 1;

	shim_node_id_set(1);
	node_start_set(start);
	node_start(t, NODE_ROLE_STORAGE);
	rpc_key_set(cluster_key, true);
	rpc_accept_strangers(true);
	sim_cmd("barrier 2 3");
	sim_cmd("barrier 1 3");
}

static void member_of_two_hosts(struct ktest *t)
{
	struct node_info info = { .id = 1, .role = NODE_ROLE_STORAGE };
	struct rdma_addr addr = { .dlid = 1 };
	uint8_t own[RPC_KEY_LEN];
	uint32_t id = 0, first;

	shim_bootparam_set("rpc.probe_ms", "100");
	node_start(t, NODE_ROLE_MEMORY);
	rpc_node_key(cluster_key, sim_node_id(), NODE_ROLE_MEMORY, 0, own);
	rpc_key_set(own, false);
	while (rpc_peer_add_rendezvous(&addr, &id) == -EHOSTDOWN)
		;
	EXPECT_EQ(t, echo(1, RPC_CLASS_CONTROL, 8), 0);
	sim_cmd("barrier 2 3");
	EXPECT_TRUE(t, rpc_peer_info(1, &info));
	first = info.incarn;
	EXPECT_EQ(t, node_start_of(first), 2);
	/* Its successor is silent, and it is at that address now. */
	sim_cmd("kill 1");
	info.addr.dlid = 2;
	EXPECT_EQ(t, rpc_peer_add(&info), 0);
	EXPECT_EQ(t, echo_within(RPC_CLASS_CONTROL, 1000), -ETIMEDOUT);
	EXPECT_TRUE(t, rpc_peer_info(1, &info));
	EXPECT_EQ(t, info.incarn, first);
	EXPECT_TRUE(t, wait_counter("rpc.stale", 1)); /* the refusal may be later than the call */
	sim_cmd("barrier 1 2");
}

static void an_earlier_host_displaces_none(struct ktest *t)
{
	static const struct sim_node nodes[] = { { .id = 1, .fn = late_host },
						 { .id = 2, .fn = late_host },
						 { .id = 3, .fn = member_of_two_hosts } };

	sim_run(t, nodes, 3, 40);
}

static const struct ktest_case cases[] = {
	KTEST(silence_is_not_death),
	KTEST(lost_end_is_noticed),
	KTEST(kill_ends_a_call),
	KTEST(submit_to_one_that_leaves),
	KTEST(death_and_restart),
	KTEST(fencing),
	KTEST(an_older_view_comes_first),
	KTEST(rendezvous_late),
	KTEST(a_restarted_host_proves_the_key),
	KTEST(a_replaced_life_is_not_served),
	KTEST(an_earlier_start_displaces_none),
	KTEST(an_earlier_host_displaces_none),
	{ 0 },
};
static const struct ktest_suite rpc_lives_suite = { .name = "rpc.lives", .cases = cases };
KTEST_SUITE(rpc_lives_suite);
