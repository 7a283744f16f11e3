/* SPDX-License-Identifier: MIT */
/* RPC between simulated nodes, with delays, broken connections and held frames. */
#include "rpc_pair.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include <kernel/bootparam.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <kernel/wait.h>
#include <lib/err.h>
#include <lib/prng.h>
#include <mm/kmap.h>
#include <rdma/verbs.h>
#include <shim/shim.h>

static void server3(struct ktest *t)
{
	server_n(t, 3);
}

/* --- plain calls --------------------------------------------------------------------------- */

static void plain_client(struct ktest *t)
{
	static const uint32_t lens[] = { 0, 1, 64, 80, 81, 2048 };
	uint8_t big[4096] = { 0 };
	struct target tg;

	node_join(t, 2);
	for (int cls = 0; cls < RPC_NR_MSG_CLASSES; cls++) {
		for (size_t i = 0; i < ARRAY_SIZE(lens); i++)
			EXPECT_EQ(t, echo(1, (enum rpc_class)cls, lens[i]), 0);
	}
	target_init(t, &tg);
	EXPECT_EQ(t, fetch(1, OP_PAGE, &tg), 0);
	EXPECT_EQ(t, rpc_call_sync(1, RPC_CLASS_CONTROL, 0x0fff, NULL, 0, NULL, 0, 0), -ENOSYS);
	EXPECT_EQ(t, rpc_call_sync(1, RPC_CLASS_DEMAND, OP_ECHO, big, 2049, NULL, 0, 0), -EMSGSIZE);
	EXPECT_EQ(t, rpc_call_sync(1, RPC_CLASS_DEMAND, OP_ECHO, big, 100, big, 99, 0), -EMSGSIZE);
	EXPECT_EQ(t, rpc_call_sync(7, RPC_CLASS_DEMAND, OP_ECHO, NULL, 0, NULL, 0, 0), -EHOSTDOWN);
	EXPECT_EQ(t, rpc_call_sync(1, RPC_CLASS_CONTROL, OP_AGAIN, NULL, 0, NULL, 0, 0), -EXDEV);
	EXPECT_EQ(t, sim_get(SH_SENT), 1 + 1);
	EXPECT_EQ(t, counter("rpc.malformed"), 0);
	EXPECT_EQ(t, counter("rpc.connects"), 4);
	sim_cmd("barrier 1 2");
}

static void plain_calls(struct ktest *t)
{
	sim_two(t, server2, plain_client, 30);
}

/* --- broken connections -------------------------------------------------------------------- */

#define ONCE_CALLS 300

static void once_client(struct ktest *t)
{
	const uint32_t base = (sim_node_id() - 1) * 1000;

	node_join(t, 3);
	for (uint32_t i = 0; i < ONCE_CALLS; i++) {
		const uint32_t key = base + i;
		uint32_t n = 0;

		EXPECT_EQ(t,
			  rpc_call_sync(1, RPC_CLASS_CONTROL, OP_COUNT, &key, sizeof(key), &n,
					sizeof(n), 0),
			  4);
		EXPECT_EQ(t, n, 1); /* a second execution would have said 2 */
	}
	sim_add(SH_STEP, counter("rpc.retries"));
	sim_cmd("barrier 1 3");
}

static void once_server(struct ktest *t)
{
	node_start(t, NODE_ROLE_MEMORY);
	sim_cmd("delay 0 1500");
	sim_cmd("breaks 200");
	sim_cmd("loss 10"); /* of what sets connections up */
	sim_cmd("dup 10");
	peer_add(t, 2);
	peer_add(t, 3);
	sim_cmd("barrier 0 3");
	sim_cmd("barrier 1 3");
	EXPECT_EQ(t, executed_most(), 1);
	EXPECT_EQ(t, sim_get(SH_EXECUTED), 2 * ONCE_CALLS);
	EXPECT_GT(t, sim_cmd("count broken"), 3);
	EXPECT_GT(t, sim_cmd("count delayed"), 1000);
	EXPECT_GT(t, sim_get(SH_STEP), 0); /* retries of the clients */
	EXPECT_GT(t, counter("rpc.dup_answered") + counter("rpc.dup_busy"), 0);
	EXPECT_EQ(t, counter("rpc.malformed"), 0);
}

static void at_most_once(struct ktest *t)
{
	static const struct sim_node nodes[] = { { .id = 1, .fn = once_server },
						 { .id = 2, .fn = once_client },
						 { .id = 3, .fn = once_client } };

	sim_run(t, nodes, 3, 50);
}

/* Data replies and bulk requests, some repeatable, some not, over connections that break. */
static void data_client(struct ktest *t)
{
	struct target tg;
	struct frame *f = frame_alloc(4, 0);
	struct rpc_mem *mem;
	uint8_t *p = frame_to_virt(f);
	uint32_t want = 0;

	node_join(t, 2);
	target_init(t, &tg);
	mem = rpc_mem_register(frame_to_paddr(f), 16 * PAGE_SIZE, RPC_ROLES_ALL, RPC_ROLES_NONE);
	for (uint32_t i = 0; i < 16 * PAGE_SIZE; i++) {
		p[i] = (uint8_t)(i * 13 + i / 4096);
		want = want * 31 + p[i];
	}
	sim_cmd("breaks 100");
	for (uint32_t i = 0; i < 150; i++) {
		struct rpc_call *call = rpc_call_alloc();
		struct rpc_sge sge[16];
		uint32_t sum = 0;

		EXPECT_EQ(t, fetch(1, i & 1 ? OP_PAGE : OP_PAGES_ONCE, &tg), 0);
		for (uint32_t k = 0; k < 16; k++)
			sge[k] = (struct rpc_sge){ mem, frame_to_paddr(f) + k * PAGE_SIZE,
						   PAGE_SIZE };
		call->peer = 1;
		call->cls = RPC_CLASS_WRITEBACK;
		call->opcode = OP_STORE;
		call->body = "abc";
		call->body_len = 3;
		call->bulk = sge;
		call->nr_bulk = 16;
		call->reply = &sum;
		call->reply_max = sizeof(sum);
		ASSERT_EQ(t, rpc_call_submit_wait(call, WAIT_FOREVER), 0);
		EXPECT_EQ(t, rpc_call_wait(call), 0);
		EXPECT_EQ(t, sum, want);
		rpc_call_put(call);
	}
	sim_cmd("breaks 0");
	EXPECT_GT(t, sim_cmd("count broken"), 2);
	EXPECT_GT(t, counter("rpc.reconnects"), 0);
	EXPECT_EQ(t, counter("rpc.timeouts"), 0);
	sim_cmd("barrier 1 2");
}

static void data_over_breaks(struct ktest *t)
{
	sim_two(t, server2, data_client, 50);
}

/* sent() must come soon even when nothing follows. */
static void sent_client(struct ktest *t)
{
	struct target tg;

	node_join(t, 2);
	target_init(t, &tg);
	for (int i = 0; i < 3; i++)
		EXPECT_EQ(t, fetch(1, OP_PAGE, &tg), 0);
	for (int i = 0; i < 100 && sim_get(SH_SENT) < 3; i++)
		usleep(10000);
	EXPECT_EQ(t, sim_get(SH_SENT), 3);
	EXPECT_EQ(t, sim_get(SH_EXECUTED), 3);
	sim_cmd("barrier 1 2");
}

static void sent_when_idle(struct ktest *t)
{
	sim_two(t, server2, sent_client, 20);
}

/* --- deadlines, quarantine ------------------------------------------------------------------ */

static bool page_is(const struct target *tg, uint8_t val)
{
	const uint8_t *p = frame_to_virt(tg->frame);

	for (uint32_t i = 0; i < PAGE_SIZE; i++) {
		if (p[i] != val)
			return false;
	}
	return true;
}

/* The late reply comes: it is what ends the quarantine. */
static void late_client(struct ktest *t)
{
	struct target tg;
	struct rpc_call *call;
	uint32_t released;
	uint64_t start;

	node_join(t, 2);
	target_init(t, &tg);
	EXPECT_EQ(t, echo(1, RPC_CLASS_DEMAND, 8), 0);
	start = time_now_ns();
	call = slow_submit(t, &tg, 600, 150, &released);
	EXPECT_EQ(t, rpc_call_wait(call), -ETIMEDOUT);
	EXPECT_LT(t, time_now_ns() - start, 400 * NSEC_PER_MSEC);
	EXPECT_EQ(t, released, 0);
	EXPECT_EQ(t, counter("rpc.quarantined"), 1);
	rpc_call_put(call);
	EXPECT_EQ(t, echo(1, RPC_CLASS_DEMAND, 8), 0); /* other slots go on */
	EXPECT_TRUE(t, wait_flag(&released, 2000));
	EXPECT_TRUE(t, target_is_good(&tg)); /* it was written, and before release */
	EXPECT_EQ(t, counter("rpc.late_replies"), 1);
	EXPECT_EQ(t, counter("rpc.reconnects"), 0);

	/* Cancelled instead of timed out. */
	call = slow_submit(t, &tg, 300, 5000, &released);
	rpc_call_cancel(call);
	EXPECT_EQ(t, rpc_call_wait(call), -ECANCELED);
	EXPECT_EQ(t, released, 0);
	rpc_call_put(call);
	EXPECT_TRUE(t, wait_flag(&released, 2000));
	sim_cmd("barrier 1 2");
}

static void late_reply(struct ktest *t)
{
	sim_two(t, server2, late_client, 30);
}

/*
 * The reply takes too long: the connection is reset, and the reply never reaches the memory;
 * neither when its slot is used again, nor when it stays empty.
 */
static void reset_client(struct ktest *t, bool reuse)
{
	struct target tg, other;
	struct rpc_call *call, *keeper;
	uint32_t released, keeper_released;

	shim_bootparam_set("rpc.quarantine_ms", "300");
	node_join(t, 2);
	target_init(t, &tg);
	target_init(t, &other);
	EXPECT_EQ(t, echo(1, RPC_CLASS_DEMAND, 8), 0);
	call = slow_submit(t, &tg, 1500, 100, &released);
	/* This one outlives the reset, and is why a new connection is made. */
	keeper = slow_submit(t, &other, 2200, 10000, &keeper_released);
	EXPECT_EQ(t, rpc_call_wait(call), -ETIMEDOUT);
	rpc_call_put(call);
	EXPECT_TRUE(t, wait_flag(&released, 1000));
	EXPECT_EQ(t, counter("rpc.quarantine_resets"), 1);
	memset(frame_to_virt(tg.frame), 0x5a, PAGE_SIZE); /* reused */
	if (reuse)
		EXPECT_EQ(t, echo(1, RPC_CLASS_DEMAND, 8), 0);
	while (!sim_get(SH_EXECUTED))
		usleep(1000);
	usleep(200000);
	EXPECT_TRUE(t, page_is(&tg, 0x5a));
	EXPECT_EQ(t, sim_get(SH_SENT), 1); /* the server has let go of its sources */
	EXPECT_EQ(t, rpc_call_wait(keeper), 0);
	EXPECT_TRUE(t, target_is_good(&other));
	EXPECT_EQ(t, sim_get(SH_EXECUTED), 2); /* the keeper once, though it was sent twice */
	EXPECT_EQ(t, counter("rpc.retries"), 1);
	EXPECT_EQ(t, counter("rpc.malformed"), 0);
	rpc_call_put(keeper);
	sim_cmd("barrier 1 2");
}

static void reset_reuse_client(struct ktest *t)
{
	reset_client(t, true);
}

static void reset_empty_client(struct ktest *t)
{
	reset_client(t, false);
}

static void quarantine_reset_empty(struct ktest *t)
{
	sim_two(t, server2, reset_empty_client, 30);
}

static void quarantine_reset(struct ktest *t)
{
	sim_two(t, server2, reset_reuse_client, 30);
}

/* Frames held back: the call ends at its deadline, other directions and peers do not mind. */
static void hold_client(struct ktest *t)
{
	uint64_t start;

	node_join(t, 2);
	EXPECT_EQ(t, echo(1, RPC_CLASS_DEMAND, 8), 0);
	sim_cmd("hold 1 2");
	start = time_now_ns();
	EXPECT_EQ(t,
		  rpc_call_sync(1, RPC_CLASS_DEMAND, OP_ECHO, "x", 1, NULL, 0, 200 * NSEC_PER_MSEC),
		  -ETIMEDOUT);
	EXPECT_LT(t, time_now_ns() - start, 600 * NSEC_PER_MSEC);
	sim_cmd("release 1 2");
	EXPECT_EQ(t, echo(1, RPC_CLASS_DEMAND, 8), 0);
	EXPECT_EQ(t, counter("rpc.late_replies"), 1);
	sim_cmd("barrier 1 2");
}

static void held_frames(struct ktest *t)
{
	sim_two(t, server2, hold_client, 30);
}

/* --- bursts ----------------------------------------------------------------------------------- */

#define BURST  16u
#define BURSTS 20u

struct burst {
	uint32_t left, done; /* atomic: calls still to be made; calls that ended */
	uint32_t failed;     /* atomic */
};

static void burst_submit(struct burst *b);

/* Polling context: the next call goes out from here. */
static void burst_done(struct rpc_call *call)
{
	struct burst *b = call->arg;

	if (call->status)
		__atomic_add_fetch(&b->failed, 1, __ATOMIC_SEQ_CST);
}

static void burst_released(struct rpc_call *call)
{
	struct burst *b = call->arg;

	burst_submit(b);
	__atomic_add_fetch(&b->done, 1, __ATOMIC_SEQ_CST);
}

static void burst_submit(struct burst *b)
{
	struct rpc_call *call;
	uint32_t left = __atomic_load_n(&b->left, __ATOMIC_SEQ_CST);

	do {
		if (!left)
			return;
	} while (!__atomic_compare_exchange_n(&b->left, &left, left - 1, false, __ATOMIC_SEQ_CST,
					      __ATOMIC_SEQ_CST));
	call = rpc_call_alloc();
	call->peer = 1;
	call->cls = RPC_CLASS_DEMAND;
	call->opcode = OP_ECHO;
	call->body = "a body";
	call->body_len = 6;
	call->done = burst_done;
	call->release = burst_released;
	call->arg = b;
	if (rpc_call_submit(call)) {
		__atomic_add_fetch(&b->failed, 1, __ATOMIC_SEQ_CST);
		__atomic_add_fetch(&b->done, 1, __ATOMIC_SEQ_CST);
	}
	rpc_call_put(call);
}

/* All requests come at once, then all replies, to which the answer is as many requests. */
static void burst_once(struct ktest *t)
{
	struct burst b = { .left = 3 * BURST };

	sim_cmd("hold 2 1");
	for (uint32_t i = 0; i < BURST; i++)
		burst_submit(&b);
	sim_cmd("hold 1 2");
	sim_cmd("release 2 1");
	usleep(2000); /* for replies to gather; however many do, the result is the same */
	sim_cmd("release 1 2");
	for (int i = 0; i < 8000 && __atomic_load_n(&b.done, __ATOMIC_SEQ_CST) < 3 * BURST; i++)
		usleep(1000);
	EXPECT_EQ(t, b.done, 3 * BURST);
	EXPECT_EQ(t, b.failed, 0);
}

/* Requests that are posted while a poll processes several completions share one doorbell. */
static void burst_node(struct ktest *t)
{
	const bool server = sim_node_id() == 1;
	const char *const messages = server ? "rpc.replies" : "rpc.requests";
	uint64_t rung, sent;

	node_join(t, 2);
	if (!server)
		EXPECT_EQ(t, echo(1, RPC_CLASS_DEMAND, 8), 0);
	sim_cmd("barrier 1 2");
	rung = counter("rpc.doorbells");
	sent = counter(messages);
	sim_cmd("barrier 4 2"); /* both have looked */
	for (uint32_t i = 0; i < BURSTS && !server; i++)
		burst_once(t);
	sim_cmd("barrier 2 2");
	rung = counter("rpc.doorbells") - rung;
	sent = counter(messages) - sent;
	EXPECT_GE(t, sent, (uint64_t)3 * BURST * BURSTS);
	EXPECT_LT(t, rung, sent);
	EXPECT_EQ(t, counter("rpc.timeouts"), 0);
	sim_cmd("barrier 3 2");
}

static void bursts_share_doorbells(struct ktest *t)
{
	sim_two(t, burst_node, burst_node, 40);
}

/* --- credits and classes --------------------------------------------------------------------- */

static void count_done(struct rpc_call *call)
{
	__atomic_add_fetch((uint32_t *)call->arg, 1, __ATOMIC_SEQ_CST);
}

static uint32_t flood(struct ktest *t, enum rpc_class cls, struct target *tg, uint32_t *done)
{
	uint32_t n;

	for (n = 0; n < 1000; n++) {
		struct rpc_call *call = rpc_call_alloc();
		int err;

		call->peer = 1;
		call->cls = cls;
		call->opcode = OP_SLOW;
		call->body = &tg->req;
		call->body_len = sizeof(tg->req);
		call->done = count_done;
		call->arg = done;
		err = rpc_call_submit(call);
		rpc_call_put(call);
		if (err) {
			EXPECT_EQ(t, err, -EAGAIN);
			break;
		}
	}
	return n;
}

static struct rpc_call *echo_call(enum rpc_class cls)
{
	struct rpc_call *call = rpc_call_alloc();

	call->peer = 1;
	call->cls = cls;
	call->opcode = OP_ECHO;
	return call;
}

static void credits_client(struct ktest *t)
{
	struct rpc_call *call;
	struct target tg;
	uint32_t done = 0;
	uint64_t start;

	node_join(t, 2);
	target_init(t, &tg);
	tg.req.arg = 300;
	EXPECT_EQ(t, echo(1, RPC_CLASS_PREFETCH, 8), 0);
	EXPECT_EQ(t, echo(1, RPC_CLASS_DEMAND, 8), 0);
	EXPECT_EQ(t, flood(t, RPC_CLASS_PREFETCH, &tg, &done), 16);
	/* Sixteen slow ones are under way; another class does not wait behind them. */
	start = time_now_ns();
	EXPECT_EQ(t, echo(1, RPC_CLASS_DEMAND, 100), 0);
	EXPECT_LT(t, time_now_ns() - start, 150 * NSEC_PER_MSEC);
	EXPECT_EQ(t, done, 0);
	/* A submitter that waits a shorter time than the slow ones take gives up. */
	call = echo_call(RPC_CLASS_PREFETCH);
	EXPECT_EQ(t, rpc_call_submit_wait(call, NSEC_PER_MSEC), -ETIMEDOUT);
	call->deadline_ns = time_now_ns() + NSEC_PER_MSEC;
	EXPECT_EQ(t, rpc_call_submit_wait(call, 0), -ETIMEDOUT);
	EXPECT_EQ(t, done, 0);
	/* One that waits longer gets the first slot that comes free. */
	call->deadline_ns = 0;
	EXPECT_EQ(t, rpc_call_submit_wait(call, WAIT_FOREVER), 0);
	EXPECT_GT(t, __atomic_load_n(&done, __ATOMIC_SEQ_CST), 0);
	EXPECT_EQ(t, rpc_call_wait(call), 0);
	rpc_call_put(call);
	/* A slot comes free, and is used. */
	EXPECT_EQ(t, echo(1, RPC_CLASS_PREFETCH, 8), 0);
	for (int i = 0; i < 3000 && __atomic_load_n(&done, __ATOMIC_SEQ_CST) < 16; i++)
		usleep(1000);
	EXPECT_EQ(t, done, 16);
	call = echo_call(RPC_CLASS_PREFETCH);
	call->peer = 9;
	EXPECT_EQ(t, rpc_call_submit_wait(call, WAIT_FOREVER), -EHOSTDOWN);
	rpc_call_put(call);
	sim_cmd("barrier 1 2");
}

static void credits_and_classes(struct ktest *t)
{
	sim_two(t, server2, credits_client, 30);
}

/* Handlers that wait for each other, deeper than there are workers. */
static void nest_node(struct ktest *t)
{
	const uint32_t hops[2] = { 1, 30 };
	const uint32_t other = 3 - sim_node_id();

	shim_bootparam_set("rpc.workers", "1");
	node_join(t, 2);
	for (int i = 0; i < 5; i++)
		EXPECT_EQ(t,
			  rpc_call_sync(other, RPC_CLASS_CONTROL, OP_NEST, hops, sizeof(hops), NULL,
					0, 0),
			  0);
	sim_cmd("barrier 1 2");
}

static void nested_waits(struct ktest *t)
{
	shim_bootparam_set("rpc.slots.control", "64");
	sim_two(t, nest_node, nest_node, 30);
	shim_bootparam_set("rpc.slots.control", "16");
}

/* --- both connect at once -------------------------------------------------------------------- */

static void crossing_node(struct ktest *t)
{
	const uint32_t other = 3 - sim_node_id();

	node_join(t, 2);
	if (sim_node_id() == 1)
		sim_cmd("delay 500 4000");
	for (uint32_t round = 0; round < 15; round++) {
		sim_cmd("barrier 2 2");
		for (int cls = 0; cls < RPC_NR_MSG_CLASSES; cls++)
			EXPECT_EQ(t, echo(other, (enum rpc_class)cls, 100 + round), 0);
		sim_cmd("barrier 3 2");
		if (sim_node_id() == 1)
			sim_cmd("break 1 2");
	}
	sim_add(SH_CALLS, counter("rpc.crossed"));
	sim_cmd("barrier 4 2");
	EXPECT_GT(t, sim_get(SH_CALLS), 0);
	EXPECT_EQ(t, counter("rpc.malformed"), 0);
	sim_cmd("barrier 1 2");
}

static void crossing_connects(struct ktest *t)
{
	sim_two(t, crossing_node, crossing_node, 40);
}

/* --- a caller that rests is a server like any other ------------------------------------------- */

static void rested_node(struct ktest *t)
{
	node_join(t, 2);
	if (sim_node_id() == 2) {
		for (int i = 0; i < 50; i++)
			EXPECT_EQ(t, echo(1, RPC_CLASS_DEMAND, 64), 0);
		sim_cmd("barrier 2 2");
	} else {
		sim_cmd("barrier 2 2");
		for (int i = 0; i < 5; i++) {
			const uint64_t start = time_now_ns();

			/* Its net thread had put re-arming off: that must end by itself. */
			EXPECT_EQ(t, echo(2, RPC_CLASS_DEMAND, 64), 0);
			EXPECT_LT(t, time_now_ns() - start, 400 * NSEC_PER_MSEC);
		}
	}
	sim_cmd("barrier 1 2");
}

static void serves_after_calls(struct ktest *t)
{
	sim_two(t, rested_node, rested_node, 30);
}

/* --- multicast -------------------------------------------------------------------------------- */

static void multicast_client(struct ktest *t)
{
	struct rpc_call *calls[6], *many[11];
	uint32_t reply[6] = { 0 };
	uint64_t start;

	node_join(t, 3);
	EXPECT_EQ(t, echo(1, RPC_CLASS_CONTROL, 1), 0);
	EXPECT_EQ(t, echo(2, RPC_CLASS_CONTROL, 1), 0);
	for (uint32_t i = 0; i < 6; i++) {
		calls[i] = rpc_call_alloc();
		calls[i]->peer = 1 + i % 2;
		calls[i]->cls = RPC_CLASS_CONTROL;
		calls[i]->opcode = i == 5 ? OP_AGAIN : OP_ECHO;
		calls[i]->body = &i;
		calls[i]->body_len = sizeof(i);
		calls[i]->reply = &reply[i];
		calls[i]->reply_max = sizeof(reply[i]);
		calls[i]->body = "\1\2\3\4";
	}
	EXPECT_EQ(t, rpc_multicast(calls, 6), -EXDEV);
	for (uint32_t i = 0; i < 6; i++) {
		EXPECT_EQ(t, calls[i]->status, i == 5 ? -EXDEV : 0);
		EXPECT_EQ(t, reply[i], i == 5 ? 0 : 0x04030201);
		rpc_call_put(calls[i]);
	}
	/*
	 * Ten to two nodes, each of which takes 100 ms: together not much more than one. One
	 * target is none.
	 */
	sim_cmd("delay 50000 50000");
	start = time_now_ns();
	for (uint32_t i = 0; i < 11; i++) {
		many[i] = rpc_call_alloc();
		many[i]->peer = i == 4 ? 77 : 1 + i % 2;
		many[i]->cls = RPC_CLASS_CONTROL;
		many[i]->opcode = OP_ECHO;
	}
	EXPECT_EQ(t, rpc_multicast(many, 11), -EHOSTDOWN);
	EXPECT_GE(t, time_now_ns() - start, 100 * NSEC_PER_MSEC);
	EXPECT_LT(t, time_now_ns() - start, 300 * NSEC_PER_MSEC);
	sim_cmd("delay 0 0");
	for (uint32_t i = 0; i < 11; i++) {
		EXPECT_EQ(t, many[i]->status, i == 4 ? -EHOSTDOWN : 0);
		rpc_call_put(many[i]);
	}
	sim_cmd("barrier 1 3");
}

static void multicast(struct ktest *t)
{
	static const struct sim_node nodes[] = { { .id = 1, .fn = server3 },
						 { .id = 2, .fn = server3 },
						 { .id = 3, .fn = multicast_client } };

	sim_run(t, nodes, 3, 20);
}

/* --- slow network ----------------------------------------------------------------------------- */

static void delay_client(struct ktest *t)
{
	struct target tg;

	node_join(t, 2);
	target_init(t, &tg);
	sim_cmd("delay 50000 60000");
	for (int i = 0; i < 5; i++)
		EXPECT_EQ(t, fetch(1, OP_PAGE, &tg), 0);
	EXPECT_EQ(t, counter("rpc.retries"), 0);
	EXPECT_EQ(t, counter("rpc.timeouts"), 0);
	sim_cmd("delay 0 0");
	sim_cmd("barrier 1 2");
}

static void slow_network(struct ktest *t)
{
	sim_two(t, server2, delay_client, 30);
}

/* --- a client that gives requests up and sends others ----------------------------------------- */

#define GIVEN_UP_SLOTS 2u

static void given_up_server(struct ktest *t)
{
	server_n(t, 2);
	EXPECT_GT(t, counter("rpc.refused"), 0);
	EXPECT_EQ(t, counter("rpc.malformed"), 0);
}

static void given_up_client(struct ktest *t)
{
	struct rpc_call *held[GIVEN_UP_SLOTS], *last;

	shim_bootparam_set("rpc.quarantine_ms", "20");
	node_join(t, 2);
	for (int round = 0; round < 6; round++) {
		for (size_t i = 0; i < ARRAY_SIZE(held); i++) {
			held[i] = echo_call(RPC_CLASS_DEMAND);
			held[i]->opcode = OP_HOLD;
			held[i]->deadline_ns = time_after_ns(100 * NSEC_PER_MSEC);
			/* Slots get free when the connection has been reset. */
			ASSERT_EQ(t, rpc_call_submit_wait(held[i], WAIT_FOREVER), 0);
		}
		for (size_t i = 0; i < ARRAY_SIZE(held); i++) {
			EXPECT_EQ(t, rpc_call_wait(held[i]), -ETIMEDOUT);
			rpc_call_put(held[i]);
		}
	}
	EXPECT_LE(t, sim_get(SH_HELD_MOST), 2 * GIVEN_UP_SLOTS);
	EXPECT_GT(t, counter("rpc.refusals"), 0);
	/* One with time enough is run once there is room, and its caller sees nothing of it. */
	last = echo_call(RPC_CLASS_DEMAND);
	last->deadline_ns = time_after_ns(20 * NSEC_PER_SEC);
	ASSERT_EQ(t, rpc_call_submit_wait(last, WAIT_FOREVER), 0);
	sim_add(SH_RELEASE, 1);
	EXPECT_EQ(t, rpc_call_wait(last), 0);
	rpc_call_put(last);
	sim_cmd("barrier 1 2");
}

static void given_up_requests_are_bounded(struct ktest *t)
{
	shim_bootparam_set("rpc.slots.demand", "2");
	sim_two(t, given_up_server, given_up_client, 30);
	shim_bootparam_set("rpc.slots.demand", "32");
}

/* --- handlers that wait for a third node which is silent ------------------------------------ */

#define WAITS_SLOTS 4u

static bool op_waits(uint16_t opcode)
{
	return opcode == OP_HOLD || opcode == OP_HOLD_KILLABLE;
}

/*
 * As many as the session takes, then none: their slots get free with the next reset. @waits: the
 * callers say that they wait.
 */
static uint32_t fill_and_give_up(struct ktest *t, uint16_t opcode, bool waits)
{
	struct rpc_call *held[WAITS_SLOTS];
	uint32_t nr = 0;

	do {
		held[nr] = echo_call(RPC_CLASS_DEMAND);
		held[nr]->opcode = opcode;
		held[nr]->waits = waits;
	} while (rpc_call_submit_wait(held[nr], (nr ? 50 : 5000) * NSEC_PER_MSEC) == 0 &&
		 ++nr < WAITS_SLOTS);
	if (nr < WAITS_SLOTS)
		rpc_call_put(held[nr]);
	/* A request that does not wait is answered beside them. */
	EXPECT_EQ(t, echo(1, RPC_CLASS_DEMAND, 8), 0);
	for (uint32_t i = 0; i < nr; i++) {
		rpc_call_cancel(held[i]);
		EXPECT_EQ(t, rpc_call_wait(held[i]), -ECANCELED);
		rpc_call_put(held[i]);
	}
	return nr;
}

static void waits_client(struct ktest *t)
{
	shim_bootparam_set("rpc.quarantine_ms", "20");
	node_join(t, 2);
	for (uint64_t round = 0; round < 4; round++) {
		rpc_set_waits(round % 2 ? op_waits : NULL);
		EXPECT_EQ(t, fill_and_give_up(t, OP_HOLD, round % 2 == 0), WAITS_SLOTS / 2);
		EXPECT_EQ(t, echo(1, RPC_CLASS_DEMAND, 8), 0);
	}
	EXPECT_LE(t, sim_get(SH_HELD_MOST), WAITS_SLOTS);
	EXPECT_GT(t, counter("rpc.refusals"), 0);
	sim_add(SH_RELEASE, 1);
	sim_cmd("barrier 1 2");
}

static void waits_have_a_share(struct ktest *t)
{
	shim_bootparam_set("rpc.slots.demand", "4");
	sim_two(t, server2, waits_client, 30);
	shim_bootparam_set("rpc.slots.demand", "32");
}

/* Those that nobody waits for end, so that others of their kind are served. */
static void orphans_client(struct ktest *t)
{
	shim_bootparam_set("rpc.quarantine_ms", "20");
	rpc_set_waits(op_waits);
	node_join(t, 2);
	for (uint64_t round = 0; round < 4; round++)
		EXPECT_EQ(t, fill_and_give_up(t, OP_HOLD_KILLABLE, false), WAITS_SLOTS / 2);
	/* No more than one for each slot has not been found out. */
	for (int i = 0; i < 5000 && sim_get(SH_HELD) > WAITS_SLOTS; i++)
		usleep(1000);
	EXPECT_LE(t, sim_get(SH_HELD), WAITS_SLOTS);
	sim_add(SH_RELEASE, 1);
	EXPECT_EQ(t,
		  rpc_call_sync(1, RPC_CLASS_DEMAND, OP_HOLD, NULL, 0, NULL, 0, 10 * NSEC_PER_SEC),
		  0);
	EXPECT_EQ(t, echo(1, RPC_CLASS_DEMAND, 8), 0);
	sim_cmd("barrier 1 2");
}

static void waits_of_orphans_end(struct ktest *t)
{
	shim_bootparam_set("rpc.slots.demand", "4");
	sim_two(t, server2, orphans_client, 30);
	shim_bootparam_set("rpc.slots.demand", "32");
}

/* --- a waiter that comes while its call ends -------------------------------------------------- */

#define HOLD_US 2000

static uint32_t ending; /* a call's done() runs: the call is off its slot and not yet DONE */

static void hold_done(struct rpc_call *call)
{
	(void)call;
	__atomic_store_n(&ending, 1, __ATOMIC_SEQ_CST);
	usleep(HOLD_US); /* so that the waiter as a rule looks meanwhile */
}

static void ending_client(struct ktest *t)
{
	node_join(t, 2);
	for (int i = 0; i < 20; i++) {
		struct rpc_call *call = echo_call(RPC_CLASS_DEMAND);

		call->done = hold_done;
		__atomic_store_n(&ending, 0, __ATOMIC_SEQ_CST);
		ASSERT_EQ(t, rpc_call_submit_wait(call, 0), 0);
		EXPECT_TRUE(t, wait_flag(&ending, 5000));
		EXPECT_EQ(t, rpc_call_wait(call), 0);
		rpc_call_put(call);
	}
	sim_cmd("barrier 1 2");
}

static void a_wait_while_the_call_ends(struct ktest *t)
{
	sim_two(t, server2, ending_client, 30);
}

/* --- a completion of a queue pair that is being destroyed ------------------------------------- */

static void late_flush_client(struct ktest *t)
{
	node_join(t, 2);
	for (int round = 0; round < 5; round++) {
		EXPECT_EQ(t, echo(1, RPC_CLASS_DEMAND, 64), 0);
		sim_cmd("break 1 2");
	}
	EXPECT_EQ(t, echo(1, RPC_CLASS_DEMAND, 64), 0);
	sim_cmd("barrier 1 2");
}

static void late_flush(struct ktest *t)
{
	sim_late_flush = true;
	sim_two(t, server2, late_flush_client, 30);
	sim_late_flush = false;
}

static const struct ktest_case cases[] = {
	KTEST(plain_calls),
	KTEST(at_most_once),
	KTEST(data_over_breaks),
	KTEST(sent_when_idle),
	KTEST(late_reply),
	KTEST(quarantine_reset),
	KTEST(quarantine_reset_empty),
	KTEST(held_frames),
	KTEST(bursts_share_doorbells),
	KTEST(credits_and_classes),
	KTEST(nested_waits),
	KTEST(crossing_connects),
	KTEST(multicast),
	KTEST(given_up_requests_are_bounded),
	KTEST(waits_have_a_share),
	KTEST(waits_of_orphans_end),
	KTEST(a_wait_while_the_call_ends),
	KTEST(late_flush),
	KTEST(serves_after_calls),
	KTEST(slow_network),
	{ 0 },
};
static const struct ktest_suite rpc_pair_suite = { .name = "rpc.pair", .cases = cases };
KTEST_SUITE(rpc_pair_suite);
