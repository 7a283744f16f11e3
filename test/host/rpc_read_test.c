/* SPDX-License-Identifier: MIT */
/*
 * One-sided reads: they bring what is there, only to the node that was given the run, only as long
 * as it is given, and never write a target that was released. A peer that sends what nobody
 * expects disturbs none.
 *
 * Flow:	node 1 has a page that node 2 alone may read. Its key is in sim_shared.
 */
#include <unistd.h>

#include <kernel/time.h>
#include <lib/err.h>
#include <lib/string.h>
#include <mm/kmap.h>

#include "../../net/rpc/rpc_priv.h"
#include "rpc_pair.h"

enum {
	SH_KEY = 40,
	SH_NEXT_KEY,
	SH_DEMAND_BREAKS
};

static struct frame *page;

static struct rpc_mem *give(struct ktest *t, uint8_t fill, unsigned int key)
{
	struct rpc_mem *mem;

	memset(frame_to_virt(page), fill, PAGE_SIZE);
	mem = rpc_mem_register_read(frame_to_paddr(page), PAGE_SIZE, 2);
	if (IS_ERR(mem)) {
		EXPECT_EQ(t, PTR_ERR(mem), 0);
		return NULL;
	}
	EXPECT_EQ(t, rpc_mem_rkey(mem, 3), 0);
	EXPECT_NE(t, rpc_mem_rkey(mem, 2), 0);
	sim_add(key, rpc_mem_rkey(mem, 2) - sim_get(key));
	return mem;
}

static struct rpc_call *read_submit(struct ktest *t, struct target *tg, uint64_t key)
{
	const struct rpc_sge into = { .mem = tg->mem, .addr = tg->req.addr, .len = PAGE_SIZE };
	struct rpc_call *call = rpc_call_create(1, RPC_CLASS_READ, 0, NULL, 0);

	memset(frame_to_virt(tg->frame), 0xee, PAGE_SIZE);
	call->bulk = &into;
	call->nr_bulk = 1;
	call->remote_addr = 0; /* addresses of what is given count from there */
	call->rkey = (uint32_t)key;
	EXPECT_EQ(t, rpc_call_submit_wait(call, WAIT_FOREVER), 0);
	return call;
}

static bool was_refused; /* the last read_page(), by the device */

static int read_page(struct ktest *t, struct target *tg, uint64_t key)
{
	struct rpc_call *call = read_submit(t, tg, key);
	const int err = rpc_call_wait(call);

	was_refused = call->refused;
	rpc_call_put(call);
	return err;
}

static bool is_filled(const struct target *tg, uint8_t fill)
{
	const uint8_t *p = frame_to_virt(tg->frame);

	for (uint32_t i = 0; i < PAGE_SIZE; i++)
		if (p[i] != fill)
			return false;
	return true;
}

static void giver(struct ktest *t)
{
	struct rpc_mem *mem;

	node_join(t, 3);
	page = frame_alloc(0, 0);
	mem = give(t, 0x11, SH_KEY);
	sim_cmd("barrier 0 3");
	sim_cmd("barrier 1 3"); /* node 2 has read it, 3 was refused */
	rpc_mem_unregister(mem);
	memset(frame_to_virt(page), 0x22, PAGE_SIZE); /* it is another one's now */
	sim_cmd("barrier 2 3");
	sim_cmd("barrier 3 3");
	mem = give(t, 0x33, SH_NEXT_KEY);
	sim_cmd("barrier 4 3");
	sim_cmd("barrier 5 3");
	rpc_mem_unregister(mem);
	EXPECT_EQ(t, counter("rpc.requests_received"), sim_get(SH_CALLS));
}

/* A read that is refused tells, and disturbs nothing else. */
static void reader(struct ktest *t)
{
	struct target tg;
	uint64_t breaks;

	node_join(t, 3);
	target_init(t, &tg);
	sim_cmd("barrier 0 3");
	for (int i = 0; i < 100; i++) {
		EXPECT_EQ(t, read_page(t, &tg, sim_get(SH_KEY)), 0);
		EXPECT_TRUE(t, is_filled(&tg, 0x11));
	}
	EXPECT_EQ(t, counter("rpc.reads"), 100);
	EXPECT_EQ(t, echo(1, RPC_CLASS_DEMAND, 8), 0);
	sim_add(SH_CALLS, 1);
	sim_cmd("barrier 1 3");
	sim_cmd("barrier 2 3");
	breaks = counter("rpc.breaks");
	EXPECT_EQ(t, read_page(t, &tg, sim_get(SH_KEY)), -EIO);
	EXPECT_TRUE(t, is_filled(&tg, 0xee));
	EXPECT_TRUE(t, was_refused);
	EXPECT_EQ(t, counter("rpc.reads_refused"), 1);
	EXPECT_EQ(t, echo(1, RPC_CLASS_DEMAND, 8), 0);
	sim_add(SH_CALLS, 1);
	EXPECT_EQ(t, counter("rpc.breaks"), breaks + 1);
	sim_cmd("barrier 3 3");
	sim_cmd("barrier 4 3");
	EXPECT_EQ(t, read_page(t, &tg, sim_get(SH_NEXT_KEY)), 0);
	EXPECT_TRUE(t, is_filled(&tg, 0x33));
	sim_cmd("barrier 5 3");
}

static void stranger(struct ktest *t)
{
	struct target tg;

	node_join(t, 3);
	target_init(t, &tg);
	sim_cmd("barrier 0 3");
	EXPECT_EQ(t, read_page(t, &tg, sim_get(SH_KEY)), -EIO);
	EXPECT_TRUE(t, is_filled(&tg, 0xee));
	for (int i = 1; i <= 5; i++)
		sim_cmd("barrier %d 3", i);
}

static void a_read_brings_what_was_given(struct ktest *t)
{
	static const struct sim_node nodes[] = { { .id = 1, .fn = giver },
						 { .id = 2, .fn = reader },
						 { .id = 3, .fn = stranger } };

	sim_run(t, nodes, 3, 15);
}

static void still_giver(struct ktest *t)
{
	node_join(t, 2);
	page = frame_alloc(0, 0);
	(void)give(t, 0x11, SH_KEY);
	sim_cmd("barrier 0 2");
	sim_cmd("barrier 1 2");
}

/* Connections break at any moment: a read brings the page, or says that it has not. */
static void read_over_breaks(struct ktest *t)
{
	uint32_t nr_good = 0, nr_failed = 0;
	struct target tg;

	node_join(t, 2);
	target_init(t, &tg);
	sim_cmd("barrier 0 2");
	sim_cmd("breaks 300");
	for (int i = 0; i < 1500; i++) {
		const int err = read_page(t, &tg, sim_get(SH_KEY));

		EXPECT_TRUE(t, err == 0 || err == -EIO);
		EXPECT_FALSE(t, was_refused);
		if (!err)
			EXPECT_TRUE(t, is_filled(&tg, 0x11));
		nr_good += !err;
		nr_failed += err != 0;
	}
	sim_cmd("breaks 0");
	EXPECT_GT(t, nr_good, 1000);
	EXPECT_GT(t, nr_failed, 5);
	sim_cmd("barrier 1 2");
}

static void breaks_are_told(struct ktest *t)
{
	sim_two(t, still_giver, read_over_breaks, 30);
}

static void read_released(struct rpc_call *call)
{
	__atomic_store_n((uint32_t *)call->arg, 1, __ATOMIC_RELEASE);
}

/* A read that was given up may still come: its target is not free before. */
static void give_up(struct ktest *t)
{
	uint32_t released = 0;
	struct rpc_call *call;
	struct rpc_sge into;
	struct target tg;

	node_join(t, 2);
	target_init(t, &tg);
	sim_cmd("barrier 0 2");
	EXPECT_EQ(t, read_page(t, &tg, sim_get(SH_KEY)), 0);
	memset(frame_to_virt(tg.frame), 0xee, PAGE_SIZE);
	sim_cmd("hold 1 2");
	call = rpc_call_create(1, RPC_CLASS_READ, 0, NULL, 0);
	into = (struct rpc_sge){ .mem = tg.mem, .addr = tg.req.addr, .len = PAGE_SIZE };
	call->bulk = &into;
	call->nr_bulk = 1;
	call->remote_addr = 0; /* addresses of what is given count from there */
	call->rkey = (uint32_t)sim_get(SH_KEY);
	call->release = read_released;
	call->arg = &released;
	EXPECT_EQ(t, rpc_call_submit_wait(call, WAIT_FOREVER), 0);
	rpc_call_cancel(call);
	EXPECT_EQ(t, rpc_call_wait(call), -ECANCELED);
	EXPECT_EQ(t, released, 0);
	EXPECT_TRUE(t, is_filled(&tg, 0xee));
	sim_cmd("release 1 2");
	EXPECT_TRUE(t, wait_flag(&released, 2000));
	EXPECT_TRUE(t, is_filled(&tg, 0x11));
	rpc_call_put(call);
	sim_cmd("barrier 1 2");
}

static void a_given_up_read_keeps_its_target(struct ktest *t)
{
	sim_two(t, still_giver, give_up, 15);
}

enum {
	NR_READS = 20
}; /* more than the send queue holds */

/* A message of a kind that no node sends, on the connection that it is read by. */
static void send_nothing(struct ktest *t, uint32_t node)
{
	const struct rdma_send_wr wr = { .opcode = RDMA_WR_SEND };
	struct rpc_peer *peer = rpc_peer_find(node);
	const struct rdma_send_wr *bad;
	struct rpc_session *s;

	ASSERT(peer);
	s = &peer->sessions[RPC_CLASS_READ];
	spin_lock(&s->lock);
	EXPECT_TRUE(t, s->conn && s->conn->state == RPC_CONN_UP);
	if (s->conn)
		EXPECT_EQ(t, rdma_post_send(s->conn->qp, &wr, &bad), 0);
	spin_unlock(&s->lock);
}

static void hostile_giver(struct ktest *t)
{
	node_join(t, 2);
	page = frame_alloc(0, 0);
	(void)give(t, 0x11, SH_KEY);
	sim_cmd("barrier 0 2");
	sim_cmd("barrier 1 2"); /* it has read */
	send_nothing(t, 2);
	sim_cmd("barrier 2 2");
}

/* A message of a peer is no completion of a read. */
static void read_on(struct ktest *t)
{
	struct target tg;
	uint64_t malformed, breaks;

	node_join(t, 2);
	target_init(t, &tg);
	sim_cmd("barrier 0 2");
	for (int i = 0; i < NR_READS; i++)
		EXPECT_EQ(t, read_page(t, &tg, sim_get(SH_KEY)), 0);
	EXPECT_GT(t, NR_READS, rpc_class_cfg[RPC_CLASS_READ].nr_slots + 1);
	malformed = counter("rpc.malformed");
	breaks = counter("rpc.breaks");
	sim_cmd("barrier 1 2");
	EXPECT_TRUE(t, wait_counter("rpc.malformed", malformed + 1));
	EXPECT_EQ(t, read_page(t, &tg, sim_get(SH_KEY)), 0);
	EXPECT_TRUE(t, is_filled(&tg, 0x11));
	EXPECT_EQ(t, counter("rpc.malformed"), malformed + 1);
	EXPECT_EQ(t, counter("rpc.breaks"), breaks);
	sim_cmd("barrier 2 2");
}

static void a_send_is_no_completion(struct ktest *t)
{
	sim_two(t, hostile_giver, read_on, 15);
}

enum {
	NR_CHAINED = 4,
	HALF = PAGE_SIZE / 2
};

/* Reads that are submitted together, each into two halves of a page the wrong way round. */
static void read_chained(struct ktest *t)
{
	struct rpc_call *calls[NR_CHAINED];
	struct target tg[NR_CHAINED];
	struct rpc_sge into[NR_CHAINED][2], many[32];
	uint64_t doorbells, requests;
	size_t nr = 0;

	node_join(t, 2);
	for (int i = 0; i < NR_CHAINED; i++)
		target_init(t, &tg[i]);
	sim_cmd("barrier 0 2");
	/* The first question asks for a connection. */
	while (rpc_slots_free(1, RPC_CLASS_READ_AHEAD) == 0)
		usleep(1000);
	doorbells = counter("rpc.doorbells");
	requests = counter("rpc.work_requests");
	for (int i = 0; i < NR_CHAINED; i++) {
		memset(frame_to_virt(tg[i].frame), 0xee, PAGE_SIZE);
		into[i][0] = (struct rpc_sge){ .mem = tg[i].mem,
					       .addr = tg[i].req.addr + HALF,
					       .len = HALF };
		into[i][1] =
			(struct rpc_sge){ .mem = tg[i].mem, .addr = tg[i].req.addr, .len = HALF };
		calls[i] = rpc_call_create(1, RPC_CLASS_READ_AHEAD, 0, NULL, 0);
		calls[i]->bulk = into[i];
		calls[i]->nr_bulk = 2;
		calls[i]->rkey = (uint32_t)sim_get(SH_KEY);
	}
	EXPECT_EQ(t, rpc_calls_submit(calls, NR_CHAINED, &nr), 0);
	EXPECT_EQ(t, nr, NR_CHAINED);
	for (int i = 0; i < NR_CHAINED; i++) {
		const uint8_t *p = frame_to_virt(tg[i].frame);

		EXPECT_EQ(t, rpc_call_wait(calls[i]), 0);
		rpc_call_put(calls[i]);
		/* As halves_giver() has it: 0x11, but 0x77 in the second half. */
		EXPECT_EQ(t, p[0], 0x77);
		EXPECT_EQ(t, p[HALF - 1], 0x77);
		EXPECT_EQ(t, p[HALF], 0x11);
		EXPECT_EQ(t, p[PAGE_SIZE - 1], 0x11);
	}
	EXPECT_EQ(t, counter("rpc.doorbells"), doorbells + 1);
	EXPECT_EQ(t, counter("rpc.work_requests"), requests + NR_CHAINED);
	EXPECT_EQ(t, counter("rpc.reads"), NR_CHAINED);
	/* One work request has no more pieces than the device allows. */
	for (uint32_t i = 0; i < ARRAY_SIZE(many); i++)
		many[i] = (struct rpc_sge){ .mem = tg[0].mem, .addr = tg[0].req.addr, .len = 8 };
	calls[0] = rpc_call_create(1, RPC_CLASS_READ_AHEAD, 0, NULL, 0);
	calls[0]->bulk = many;
	calls[0]->nr_bulk = rpc_read_pieces_max() + 1;
	calls[0]->rkey = (uint32_t)sim_get(SH_KEY);
	EXPECT_EQ(t, rpc_call_submit(calls[0]), -EMSGSIZE);
	rpc_call_put(calls[0]);
	sim_cmd("barrier 1 2");
}

static void halves_giver(struct ktest *t)
{
	node_join(t, 2);
	page = frame_alloc(0, 0);
	(void)give(t, 0x11, SH_KEY);
	memset((uint8_t *)frame_to_virt(page) + HALF, 0x77, HALF);
	sim_cmd("barrier 0 2");
	sim_cmd("barrier 1 2");
}

static void reads_share_a_doorbell(struct ktest *t)
{
	sim_two(t, halves_giver, read_chained, 15);
}

static const struct ktest_case cases[] = {
	KTEST(a_read_brings_what_was_given),     KTEST(breaks_are_told),
	KTEST(a_given_up_read_keeps_its_target), KTEST(a_send_is_no_completion),
	KTEST(reads_share_a_doorbell),           { 0 },
};
static const struct ktest_suite suite = { .name = "rpc.reads", .cases = cases };
KTEST_SUITE(suite);
