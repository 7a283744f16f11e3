/* SPDX-License-Identifier: MIT */
/* See rpc_pair.h. */
#include "rpc_pair.h"

#include <unistd.h>

#include <kernel/thread.h>
#include <kernel/time.h>
#include <kernel/wait.h>
#include <lib/err.h>
#include <mm/kmap.h>

/* --- server -------------------------------------------------------------------------------- */

static struct frame *src_frame;
static struct rpc_mem *src_mem;
static uint32_t key_count[4096];

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

uint32_t executed_most(void)
{
	uint32_t most = 0;

	for (uint32_t i = 0; i < ARRAY_SIZE(key_count); i++)
		most = MAX(most, key_count[i]);
	return most;
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
	sim_add(SH_HELD, 1);
	thread_sleep_until(time_now_ns() + pr.arg * NSEC_PER_MSEC);
	sim_add(SH_HELD, (uint64_t)-1);
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

static enum rpc_handler_result h_hold(struct rpc_request *req, void *arg)
{
	const uint64_t nr = sim_add(SH_HELD, 1);

	(void)arg;
	if (nr > sim_get(SH_HELD_MOST)) /* a lost update hides one of many */
		sim_add(SH_HELD_MOST, nr - sim_get(SH_HELD_MOST));
	while (!sim_get(SH_RELEASE))
		usleep(1000);
	sim_add(SH_HELD, (uint64_t)-1);
	rpc_reply(req, 0, NULL, 0);
	return RPC_DONE;
}

/* For an event that never comes. */
static enum rpc_handler_result h_hold_killable(struct rpc_request *req, void *arg)
{
	struct waitqueue never;
	int err;

	(void)arg;
	if (!rpc_request_may_sleep(req))
		return RPC_AGAIN;
	waitqueue_init(&never);
	sim_add(SH_HELD, 1);
	err = wait_event_killable(&never, sim_get(SH_RELEASE));
	sim_add(SH_HELD, (uint64_t)-1);
	rpc_reply(req, err, NULL, 0);
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
	{ OP_HOLD, RPC_HANDLER_WAITS, "hold", h_hold },
	{ OP_HOLD_KILLABLE, RPC_HANDLER_INLINE | RPC_HANDLER_WAITS, "hold_killable",
	  h_hold_killable },
};

/* --- set-up -------------------------------------------------------------------------------- */

void node_start(struct ktest *t, enum node_role role)
{
	uint8_t *p;

	rpc_node_start(t, role, handlers, ARRAY_SIZE(handlers));
	src_frame = frame_alloc(0, 0);
	src_mem = rpc_mem_register(frame_to_paddr(src_frame), PAGE_SIZE, RPC_ROLES_ALL,
				   RPC_ROLES_NONE);
	ASSERT_FALSE(t, IS_ERR(src_mem));
	p = frame_to_virt(src_frame);
	for (uint32_t i = 0; i < PAGE_SIZE; i++)
		p[i] = (uint8_t)(i * 7 + i / 256);
}

void node_join(struct ktest *t, uint32_t n)
{
	node_start(t, NODE_ROLE_MEMORY);
	rpc_node_join(t, n);
}

void server_n(struct ktest *t, uint32_t n)
{
	node_join(t, n);
	sim_cmd("barrier 1 %u", n); /* the clients are done */
}

void server2(struct ktest *t)
{
	server_n(t, 2);
}

int echo(uint32_t peer, enum rpc_class cls, uint32_t len)
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

void target_init(struct ktest *t, struct target *tg)
{
	tg->frame = frame_alloc(0, FRAME_ZERO);
	tg->mem = rpc_mem_register(frame_to_paddr(tg->frame), PAGE_SIZE, RPC_ROLES_NONE,
				   RPC_ROLES_ALL);
	ASSERT_FALSE(t, IS_ERR(tg->mem));
	tg->req.addr = frame_to_paddr(tg->frame);
	tg->req.rkey = rpc_mem_rkey(tg->mem, 1);
	tg->req.arg = 0x600d;
}

bool target_is_good(const struct target *tg)
{
	const uint8_t *p = frame_to_virt(tg->frame);

	for (uint32_t i = 0; i < PAGE_SIZE; i++) {
		if (p[i] != (uint8_t)(i * 7 + i / 256))
			return false;
	}
	return true;
}

int fetch(uint32_t peer, uint16_t opcode, struct target *tg)
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

static void note_release(struct rpc_call *call)
{
	__atomic_store_n((uint32_t *)call->arg, 1, __ATOMIC_SEQ_CST);
}

struct rpc_call *slow_submit(struct ktest *t, struct target *tg, uint32_t ms, uint32_t limit_ms,
			     uint32_t *released)
{
	struct rpc_call *call = rpc_call_alloc();

	tg->req.arg = ms;
	*released = 0;
	call->peer = 1;
	call->cls = RPC_CLASS_DEMAND;
	call->opcode = OP_SLOW;
	call->body = &tg->req;
	call->body_len = sizeof(tg->req);
	call->deadline_ns = limit_ms ? time_now_ns() + limit_ms * NSEC_PER_MSEC : 0;
	call->release = note_release;
	call->arg = released;
	EXPECT_EQ(t, rpc_call_submit_wait(call, WAIT_FOREVER), 0);
	return call;
}

bool wait_flag(const uint32_t *flag, uint32_t ms)
{
	for (uint32_t i = 0; i < ms && !__atomic_load_n(flag, __ATOMIC_SEQ_CST); i++)
		usleep(1000);
	return __atomic_load_n(flag, __ATOMIC_SEQ_CST) != 0;
}
