/* SPDX-License-Identifier: MIT */
/*
 * RPC between simulated nodes, with delays, broken connections, held frames and killed peers.
 *
 * Flow:	each case is a small cluster (memverbs/sim.h); node 1 is the server, the others call.
 *		Numbers that both sides must agree on are in sim_shared.
 */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include <kernel/bootparam.h>
#include <kernel/counter.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/ktest.h>
#include <lib/prng.h>
#include <mm/frame.h>
#include <mm/kmap.h>
#include <net/rpc.h>
#include <rdma/verbs.h>
#include <shim/shim.h>

#include "memverbs/sim.h"

enum {                          /* opcodes of the test's handlers */
	OP_ECHO = 0x0f10,       /* inline, idempotent */
	OP_COUNT = 0x0f11,      /* worker, not idempotent: counts executions per key */
	OP_PAGE = 0x0f12,       /* idempotent: writes one page to the caller */
	OP_SLOW = 0x0f13,       /* worker: sleeps for the given milliseconds, then writes a page */
	OP_STORE = 0x0f14,      /* takes bulk, answers its checksum */
	OP_AGAIN = 0x0f15,      /* inline first, then worker */
	OP_NEST = 0x0f16,       /* waits for another node */
	OP_PAGES_ONCE = 0x0f17, /* not idempotent, with data */
};

enum {                 /* sim_shared */
	SH_INCARN = 0, /* of node 1 */
	SH_STEP = 1,
	SH_EXECUTED = 2,
	SH_SENT = 3,
	SH_CALLS = 4,
	SH_BASE = 16, /* incarnation of node i at SH_BASE + i */
};

struct page_req {
	uint64_t addr;
	uint32_t rkey;
	uint32_t arg;
};

static uint64_t counter(const char *name)
{
	uint64_t v = 0;

	counter_find(name, &v);
	return v;
}

/* --- server -------------------------------------------------------------------------------- */

static struct frame *src_frame;
static struct rpc_mem *src_mem;
static uint32_t key_count[4096];

static enum rpc_handler_result h_echo(struct rpc_request *req, void *arg)
{
	uint32_t len;
	const void *body = rpc_request_body(req, &len);

	(void)arg;
	rpc_reply(req, 0, body, len);
	return RPC_DONE;
}

static enum rpc_handler_result h_count(struct rpc_request *req, void *arg)
{
	uint32_t len, key = 0, n;
	const void *body = rpc_request_body(req, &len);

	(void)arg;
	if (len == sizeof(key))
		memcpy(&key, body, len);
	n = __atomic_add_fetch(&key_count[key % ARRAY_SIZE(key_count)], 1, __ATOMIC_SEQ_CST);
	sim_add(SH_EXECUTED, 1);
	rpc_reply(req, 0, &n, sizeof(n));
	return RPC_DONE;
}

static void sent_one(void *arg)
{
	(void)arg;
	sim_add(SH_SENT, 1);
}

static void reply_page(struct rpc_request *req, const struct page_req *pr, uint32_t nr)
{
	struct rpc_write w[4];

	for (uint32_t i = 0; i < nr; i++) {
		w[i].src.mem = src_mem;
		w[i].src.addr = frame_to_paddr(src_frame) + i * 1024;
		w[i].src.len = 4096 / nr;
		w[i].remote_addr = pr->addr + i * (4096 / nr);
		w[i].rkey = pr->rkey;
	}
	rpc_reply_bulk(req, 0, &pr->arg, sizeof(pr->arg), w, nr, sent_one, NULL);
}

static enum rpc_handler_result h_page(struct rpc_request *req, void *arg)
{
	struct page_req pr;
	uint32_t len;
	const void *body = rpc_request_body(req, &len);

	(void)arg;
	sim_add(SH_EXECUTED, 1);
	if (len != sizeof(pr)) {
		rpc_reply(req, -EMSGSIZE, NULL, 0);
		return RPC_DONE;
	}
	memcpy(&pr, body, sizeof(pr));
	reply_page(req, &pr, 4);
	return RPC_DONE;
}

static enum rpc_handler_result h_slow(struct rpc_request *req, void *arg)
{
	struct page_req pr;
	uint32_t len;
	const void *body = rpc_request_body(req, &len);

	(void)arg;
	memcpy(&pr, body, sizeof(pr));
	thread_sleep_until(time_now_ns() + pr.arg * NSEC_PER_MSEC);
	sim_add(SH_EXECUTED, 1);
	reply_page(req, &pr, 1);
	return RPC_DONE;
}

static enum rpc_handler_result h_store(struct rpc_request *req, void *arg)
{
	uint32_t len, sum = 0;
	const uint8_t *bulk = rpc_request_bulk(req, &len);

	(void)arg;
	for (uint32_t i = 0; i < len; i++)
		sum = sum * 31 + bulk[i];
	sim_add(SH_EXECUTED, 1);
	rpc_reply(req, 0, &sum, sizeof(sum));
	return RPC_DONE;
}

static enum rpc_handler_result h_again(struct rpc_request *req, void *arg)
{
	(void)arg;
	if (!rpc_request_may_sleep(req)) {
		sim_add(SH_SENT, 1);
		return RPC_AGAIN;
	}
	sim_add(SH_EXECUTED, 1);
	rpc_reply(req, -EXDEV, NULL, 0);
	return RPC_DONE;
}

/* The body names the node to ask next; 0 ends the chain. */
static enum rpc_handler_result h_nest(struct rpc_request *req, void *arg)
{
	uint32_t len, hops[2] = { 0, 0 };
	const void *body = rpc_request_body(req, &len);
	int err = 0;

	(void)arg;
	memcpy(hops, body, MIN(len, (uint32_t)sizeof(hops)));
	if (hops[1]) {
		const uint32_t next[2] = { hops[0], hops[1] - 1 };

		err = rpc_call_sync(hops[0] == 1 && node_self()->id == 1 ? 2 : 1, RPC_CLASS_CONTROL,
				    OP_NEST, next, sizeof(next), NULL, 0, 0);
	}
	rpc_reply(req, err < 0 ? err : 0, NULL, 0);
	return RPC_DONE;
}

static enum rpc_handler_result h_pages_once(struct rpc_request *req, void *arg)
{
	return h_page(req, arg);
}

static const struct rpc_handler handlers[] = {
	{ OP_ECHO, RPC_HANDLER_INLINE | RPC_HANDLER_IDEMPOTENT, "echo", h_echo },
	{ OP_COUNT, 0, "count", h_count },
	{ OP_PAGE, RPC_HANDLER_INLINE | RPC_HANDLER_IDEMPOTENT, "page", h_page },
	{ OP_SLOW, RPC_HANDLER_IDEMPOTENT, "slow", h_slow },
	{ OP_STORE, RPC_HANDLER_IDEMPOTENT, "store", h_store },
	{ OP_AGAIN, RPC_HANDLER_INLINE, "again", h_again },
	{ OP_NEST, RPC_HANDLER_WAITS, "nest", h_nest },
	{ OP_PAGES_ONCE, 0, "pages_once", h_pages_once },
};

/* --- set-up -------------------------------------------------------------------------------- */

static void node_start(struct ktest *t, enum node_role role)
{
	struct rdma_device *dev = rdma_device_wait(time_now_ns() + NSEC_PER_SEC);
	uint8_t *p;

	ASSERT_TRUE(t, dev != NULL);
	ASSERT_EQ(t, rpc_handlers_register(handlers, ARRAY_SIZE(handlers), NULL), 0);
	ASSERT_EQ(t, rpc_start(dev, role), 0);
	src_frame = frame_alloc(0, 0);
	src_mem = rpc_mem_register(frame_to_paddr(src_frame), PAGE_SIZE, false);
	ASSERT_FALSE(t, IS_ERR(src_mem));
	p = frame_to_virt(src_frame);
	for (uint32_t i = 0; i < PAGE_SIZE; i++)
		p[i] = (uint8_t)(i * 7 + i / 256);
	__atomic_store_n(&sim_shared[SH_BASE + sim_node_id()], node_self()->incarn,
			 __ATOMIC_SEQ_CST);
}

static void peer_add(struct ktest *t, uint32_t id)
{
	struct node_info info = { .id = id,
				  .role = NODE_ROLE_MEMORY,
				  .addr = { .dlid = (uint16_t)id } };

	while (!sim_get(SH_BASE + id))
		usleep(1000);
	info.incarn = (uint32_t)sim_get(SH_BASE + id);
	EXPECT_EQ(t, rpc_peer_add(&info), 0);
}

/* Start, and know all other nodes of 1..n. */
static void node_join(struct ktest *t, uint32_t n)
{
	node_start(t, NODE_ROLE_MEMORY);
	for (uint32_t id = 1; id <= n; id++) {
		if (id != sim_node_id())
			peer_add(t, id);
	}
	sim_cmd("barrier 0 %u", n);
}

static void server_n(struct ktest *t, uint32_t n)
{
	node_join(t, n);
	sim_cmd("barrier 1 %u", n); /* the clients are done */
}

static void server2(struct ktest *t)
{
	server_n(t, 2);
}

static void server3(struct ktest *t)
{
	server_n(t, 3);
}

static int echo(uint32_t peer, enum rpc_class cls, uint32_t len)
{
	uint8_t out[2048], in[2048];
	int n;

	for (uint32_t i = 0; i < len; i++)
		out[i] = (uint8_t)(i + len);
	memset(in, 0xee, sizeof(in));
	n = rpc_call_sync(peer, cls, OP_ECHO, out, len, in, sizeof(in), 0);
	if (n < 0)
		return n;
	return (uint32_t)n == len && memcmp(in, out, len) == 0 ? 0 : -EBADMSG;
}

/* A registered page of the client that replies are written into. */
struct target {
	struct frame *frame;
	struct rpc_mem *mem;
	struct page_req req;
};

static void target_init(struct ktest *t, struct target *tg)
{
	tg->frame = frame_alloc(0, FRAME_ZERO);
	tg->mem = rpc_mem_register(frame_to_paddr(tg->frame), PAGE_SIZE, true);
	ASSERT_FALSE(t, IS_ERR(tg->mem));
	tg->req.addr = frame_to_paddr(tg->frame);
	tg->req.rkey = rpc_mem_rkey(tg->mem);
	tg->req.arg = 0x600d;
}

static bool target_is_good(const struct target *tg)
{
	const uint8_t *p = frame_to_virt(tg->frame);

	for (uint32_t i = 0; i < PAGE_SIZE; i++) {
		if (p[i] != (uint8_t)(i * 7 + i / 256))
			return false;
	}
	return true;
}

static int fetch(uint32_t peer, uint16_t opcode, struct target *tg)
{
	uint32_t arg = 0;
	int n;

	memset(frame_to_virt(tg->frame), 0, PAGE_SIZE);
	n = rpc_call_sync(peer, RPC_CLASS_DEMAND, opcode, &tg->req, sizeof(tg->req), &arg,
			  sizeof(arg), 0);
	if (n < 0)
		return n;
	return n == sizeof(arg) && arg == tg->req.arg && target_is_good(tg) ? 0 : -EBADMSG;
}

/* --- plain calls --------------------------------------------------------------------------- */

static void plain_client(struct ktest *t)
{
	static const uint32_t lens[] = { 0, 1, 64, 80, 81, 2048 };
	uint8_t big[4096] = { 0 };
	struct target tg;

	node_join(t, 2);
	for (int cls = 0; cls < RPC_NR_CLASSES; cls++) {
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
	static const struct sim_node nodes[] = { { .id = 1, .fn = server2 },
						 { .id = 2, .fn = plain_client } };

	sim_run(t, nodes, 2, 30);
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
	for (uint32_t i = 0; i < ARRAY_SIZE(key_count); i++)
		EXPECT_LE(t, key_count[i], 1);
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
	mem = rpc_mem_register(frame_to_paddr(f), 16 * PAGE_SIZE, false);
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
		ASSERT_EQ(t, rpc_slot_wait(1, RPC_CLASS_WRITEBACK, 0), 0);
		ASSERT_EQ(t, rpc_call_submit(call), 0);
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
	static const struct sim_node nodes[] = { { .id = 1, .fn = server2 },
						 { .id = 2, .fn = data_client } };

	sim_run(t, nodes, 2, 50);
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
	static const struct sim_node nodes[] = { { .id = 1, .fn = server2 },
						 { .id = 2, .fn = sent_client } };

	sim_run(t, nodes, 2, 20);
}

/* --- deadlines, quarantine ------------------------------------------------------------------ */

static void note_release(struct rpc_call *call)
{
	__atomic_store_n((uint32_t *)call->arg, 1, __ATOMIC_SEQ_CST);
}

static struct rpc_call *slow_submit(struct ktest *t, struct target *tg, uint32_t ms,
				    uint32_t limit_ms, uint32_t *released)
{
	struct rpc_call *call = rpc_call_alloc();

	tg->req.arg = ms;
	*released = 0;
	call->peer = 1;
	call->cls = RPC_CLASS_DEMAND;
	call->opcode = OP_SLOW;
	call->body = &tg->req;
	call->body_len = sizeof(tg->req);
	call->deadline_ns = time_now_ns() + limit_ms * NSEC_PER_MSEC;
	call->release = note_release;
	call->arg = released;
	EXPECT_EQ(t, rpc_slot_wait(1, RPC_CLASS_DEMAND, 0), 0);
	EXPECT_EQ(t, rpc_call_submit(call), 0);
	return call;
}

static bool wait_flag(const uint32_t *flag, uint32_t ms)
{
	for (uint32_t i = 0; i < ms && !__atomic_load_n(flag, __ATOMIC_SEQ_CST); i++)
		usleep(1000);
	return __atomic_load_n(flag, __ATOMIC_SEQ_CST) != 0;
}

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
	static const struct sim_node nodes[] = { { .id = 1, .fn = server2 },
						 { .id = 2, .fn = late_client } };

	sim_run(t, nodes, 2, 30);
}

/*
 * The reply takes too long: the connection is reset, and the reply never reaches the memory; neither
 * when its slot is used again, nor when it stays empty.
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
	static const struct sim_node nodes[] = { { .id = 1, .fn = server2 },
						 { .id = 2, .fn = reset_empty_client } };

	sim_run(t, nodes, 2, 30);
}

static void quarantine_reset(struct ktest *t)
{
	static const struct sim_node nodes[] = { { .id = 1, .fn = server2 },
						 { .id = 2, .fn = reset_reuse_client } };

	sim_run(t, nodes, 2, 30);
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
	static const struct sim_node nodes[] = { { .id = 1, .fn = server2 },
						 { .id = 2, .fn = hold_client } };

	sim_run(t, nodes, 2, 30);
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

static void credits_client(struct ktest *t)
{
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
	/* A slot comes free, and is used. */
	EXPECT_EQ(t, rpc_slot_wait(1, RPC_CLASS_PREFETCH, time_now_ns() + 3 * NSEC_PER_SEC), 0);
	EXPECT_EQ(t, echo(1, RPC_CLASS_PREFETCH, 8), 0);
	for (int i = 0; i < 3000 && __atomic_load_n(&done, __ATOMIC_SEQ_CST) < 16; i++)
		usleep(1000);
	EXPECT_EQ(t, done, 16);
	EXPECT_EQ(t, rpc_slot_wait(9, RPC_CLASS_PREFETCH, 0), -EHOSTDOWN);
	sim_cmd("barrier 1 2");
}

static void credits_and_classes(struct ktest *t)
{
	static const struct sim_node nodes[] = { { .id = 1, .fn = server2 },
						 { .id = 2, .fn = credits_client } };

	sim_run(t, nodes, 2, 30);
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
	static const struct sim_node nodes[] = { { .id = 1, .fn = nest_node },
						 { .id = 2, .fn = nest_node } };

	shim_bootparam_set("rpc.slots.control", "64");
	sim_run(t, nodes, 2, 30);
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
		for (int cls = 0; cls < RPC_NR_CLASSES; cls++)
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
	static const struct sim_node nodes[] = { { .id = 1, .fn = crossing_node },
						 { .id = 2, .fn = crossing_node } };

	sim_run(t, nodes, 2, 40);
}

/* --- a caller that rests is a server like any other --------------------------------------------- */

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
	static const struct sim_node nodes[] = { { .id = 1, .fn = rested_node },
						 { .id = 2, .fn = rested_node } };

	sim_run(t, nodes, 2, 30);
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
	/* Ten to two nodes, each of which takes 100 ms: together not much more than one. One target is none. */
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
	static const struct sim_node nodes[] = { { .id = 1, .fn = server2 },
						 { .id = 2, .fn = delay_client } };

	sim_run(t, nodes, 2, 30);
}

/* --- death, restart, fencing ------------------------------------------------------------------- */

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
	while (!sim_get(SH_BASE + 1))
		usleep(1000);
	info.incarn = (uint32_t)sim_get(SH_BASE + 1);
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

/* --- the rendezvous ------------------------------------------------------------------------------ */

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
	KTEST(plain_calls),
	KTEST(at_most_once),
	KTEST(data_over_breaks),
	KTEST(sent_when_idle),
	KTEST(late_reply),
	KTEST(quarantine_reset),
	KTEST(quarantine_reset_empty),
	KTEST(held_frames),
	KTEST(credits_and_classes),
	KTEST(nested_waits),
	KTEST(crossing_connects),
	KTEST(multicast),
	KTEST(serves_after_calls),
	KTEST(slow_network),
	KTEST(death_and_restart),
	KTEST(slow_is_not_dead),
	KTEST(fencing),
	KTEST(rendezvous_late),
	{ 0 },
};
static const struct ktest_suite rpc_pair_suite = { .name = "rpc.pair", .cases = cases };
KTEST_SUITE(rpc_pair_suite);
