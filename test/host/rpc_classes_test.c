/* SPDX-License-Identifier: MIT */
/*
 * Traffic classes between simulated nodes: one that is slow or stands still delays no other.
 *
 * The classes have service levels of their own here, by which the fabric tells them apart.
 */
#include "rpc_pair.h"

#include <unistd.h>

#include <kernel/thread.h>
#include <kernel/time.h>
#include <kernel/wait.h>
#include <lib/err.h>
#include <mm/kmap.h>
#include <net/rpc.h>
#include <shim/shim.h>

#include "../../net/rpc/rpc_priv.h"

#define SL_WRITEBACK 3
#define NR_ECHOES    50

enum {
	OP_BLOCK = 0x0f30, /* inline: keeps the poll until SH_RELEASE */
	OP_WHERE = 0x0f31, /* inline: answers whether it may sleep */
};

static enum rpc_handler_result h_block(struct rpc_request *req, void *arg)
{
	(void)arg;
	sim_add(SH_HELD, 1);
	while (!sim_get(SH_RELEASE))
		usleep(1000);
	rpc_reply(req, 0, NULL, 0);
	return RPC_DONE;
}

static enum rpc_handler_result h_where(struct rpc_request *req, void *arg)
{
	const uint32_t may_sleep = rpc_request_may_sleep(req);

	(void)arg;
	rpc_reply(req, 0, &may_sleep, sizeof(may_sleep));
	return RPC_DONE;
}

static const struct rpc_handler handlers[] = {
	{ OP_BLOCK, RPC_HANDLER_INLINE | RPC_HANDLER_IDEMPOTENT, "block", h_block },
	{ OP_WHERE, RPC_HANDLER_INLINE | RPC_HANDLER_IDEMPOTENT, "where", h_where },
};

static void join(struct ktest *t)
{
	shim_bootparam_set("rpc.sl.writeback", "3");
	ASSERT_EQ(t, rpc_handlers_register(handlers, ARRAY_SIZE(handlers), NULL), 0);
	node_join(t, 2);
}

static void server(struct ktest *t)
{
	join(t);
	sim_cmd("barrier 1 2");
	EXPECT_EQ(t, counter("rpc.malformed"), 0);
}

static uint32_t nr_done;

static void count_done(struct rpc_call *call)
{
	if (call->status == 0)
		__atomic_add_fetch(&nr_done, 1, __ATOMIC_SEQ_CST);
}

static void submit_writeback(struct ktest *t, uint16_t opcode)
{
	struct rpc_call *call = rpc_call_create(1, RPC_CLASS_WRITEBACK, opcode, NULL, 0);

	call->done = count_done;
	EXPECT_EQ(t, rpc_call_submit_wait(call, WAIT_FOREVER), 0);
	rpc_call_put(call);
}

static void wait_done(struct ktest *t, uint32_t nr)
{
	for (int i = 0; i < 5000 && __atomic_load_n(&nr_done, __ATOMIC_SEQ_CST) < nr; i++)
		usleep(1000);
	EXPECT_EQ(t, nr_done, nr);
}

/* --- the fabric keeps a class back ---------------------------------------------------------- */

/* The shim has one CPU, which would have one queue. */
static void by_class(struct ktest *t, void (*client)(struct ktest *t))
{
	shim_bootparam_set("rpc.queues", "class");
	sim_two(t, server, client, 30);
	shim_bootparam_set("rpc.queues", "auto");
}

static void held_client(struct ktest *t)
{
	struct target tg;

	join(t);
	target_init(t, &tg);
	EXPECT_EQ(t, echo(1, RPC_CLASS_WRITEBACK, 8), 0);
	sim_cmd("hold 2 1 %d", SL_WRITEBACK);
	for (int i = 0; i < 8; i++)
		submit_writeback(t, OP_WHERE); /* all slots */
	EXPECT_FALSE(t, rpc_slot_is_free(1, RPC_CLASS_WRITEBACK));
	for (int i = 0; i < NR_ECHOES; i++) {
		EXPECT_EQ(t, fetch(1, OP_PAGE, &tg), 0);
		EXPECT_EQ(t, echo(1, RPC_CLASS_PREFETCH, 64), 0);
		EXPECT_EQ(t, echo(1, RPC_CLASS_CONTROL, 64), 0);
	}
	EXPECT_EQ(t, nr_done, 0);
	sim_cmd("release 2 1 %d", SL_WRITEBACK);
	wait_done(t, 8);
	sim_cmd("barrier 1 2");
}

static void a_held_class_holds_no_other(struct ktest *t)
{
	by_class(t, held_client);
}

/* --- a handler keeps the poll of its class -------------------------------------------------- */

static int short_echo(void)
{
	return rpc_call_sync(1, RPC_CLASS_DEMAND, OP_ECHO, "x", 1, NULL, 0, 200 * NSEC_PER_MSEC);
}

static void blocked_client(struct ktest *t, int wanted)
{
	join(t);
	EXPECT_EQ(t, echo(1, RPC_CLASS_DEMAND, 8), 0);
	submit_writeback(t, OP_BLOCK);
	while (!sim_get(SH_HELD))
		usleep(1000);
	EXPECT_EQ(t, short_echo(), wanted);
	for (int i = 0; i < NR_ECHOES && wanted == 0; i++) {
		EXPECT_EQ(t, echo(1, RPC_CLASS_DEMAND, 64), 0);
		EXPECT_EQ(t, echo(1, RPC_CLASS_PREFETCH, 64), 0);
	}
	EXPECT_EQ(t, nr_done, 0);
	sim_add(SH_RELEASE, 1);
	wait_done(t, 1);
	EXPECT_EQ(t, echo(1, RPC_CLASS_DEMAND, 8), 0);
	sim_cmd("barrier 1 2");
}

static void own_queues_client(struct ktest *t)
{
	blocked_client(t, 0);
}

static void one_queue_client(struct ktest *t)
{
	blocked_client(t, -ETIMEDOUT);
}

static void a_handler_delays_no_other_class(struct ktest *t)
{
	by_class(t, own_queues_client);
}

/* The shim has one CPU. */
static void one_cpu_has_one_queue(struct ktest *t)
{
	sim_two(t, server, one_queue_client, 30);
}

static void unless_there_is_one_queue(struct ktest *t)
{
	shim_bootparam_set("rpc.queues", "one");
	sim_two(t, server, one_queue_client, 30);
	shim_bootparam_set("rpc.queues", "auto");
}

/* --- what brings many pages is not run in the poll ------------------------------------------ */

static uint32_t where(struct ktest *t, struct rpc_mem *mem, paddr_t addr, uint32_t len)
{
	struct rpc_call *call = rpc_call_create(1, RPC_CLASS_WRITEBACK, OP_WHERE, NULL, 0);
	const struct rpc_sge sge = { mem, addr, len };
	uint32_t may_sleep = 7;

	call->bulk = &sge;
	call->nr_bulk = 1;
	call->reply = &may_sleep;
	call->reply_max = sizeof(may_sleep);
	EXPECT_EQ(t, rpc_call_submit_wait(call, WAIT_FOREVER), 0);
	EXPECT_EQ(t, rpc_call_wait(call), 0);
	rpc_call_put(call);
	return may_sleep;
}

static void long_client(struct ktest *t)
{
	struct frame *f = frame_alloc(5, FRAME_ZERO);
	struct rpc_mem *mem;

	join(t);
	mem = rpc_mem_register(frame_to_paddr(f), 32 * PAGE_SIZE, RPC_ROLES_ALL, RPC_ROLES_NONE);
	ASSERT_FALSE(t, IS_ERR(mem));
	EXPECT_EQ(t, where(t, mem, frame_to_paddr(f), PAGE_SIZE), 0);
	EXPECT_EQ(t, where(t, mem, frame_to_paddr(f), PAGE_SIZE + 1), 1);
	EXPECT_EQ(t, where(t, mem, frame_to_paddr(f), 32 * PAGE_SIZE), 1);
	sim_cmd("barrier 1 2");
}

static void long_requests_leave_the_poll(struct ktest *t)
{
	by_class(t, long_client);
}

/* --- one work request, one doorbell, one window ---------------------------------------------- */

#define NR_LINES 32

struct posted {
	uint64_t work_requests, doorbells;
};

static struct posted posted_since(const struct posted *before)
{
	struct posted p = { counter("rpc.work_requests"), counter("rpc.doorbells") };

	if (before) {
		p.work_requests -= before->work_requests;
		p.doorbells -= before->doorbells;
	}
	return p;
}

static void expect_posted(struct ktest *t, const struct posted *before, uint64_t work_requests,
			  uint64_t doorbells)
{
	const struct posted p = posted_since(before);

	EXPECT_EQ(t, p.work_requests, work_requests);
	EXPECT_EQ(t, p.doorbells, doorbells);
}

static struct rpc_call *store_call(const struct rpc_sge *sge, uint32_t nr, uint32_t *sum)
{
	struct rpc_call *call = rpc_call_create(1, RPC_CLASS_WRITEBACK, OP_STORE, NULL, 0);

	call->bulk = sge;
	call->nr_bulk = nr;
	call->reply = sum;
	call->reply_max = sizeof(*sum);
	return call;
}

static struct rpc_mem *lines_mem(struct ktest *t, struct frame **f)
{
	struct rpc_mem *mem;

	*f = frame_alloc(6, 0);
	for (uint32_t i = 0; i < 64 * PAGE_SIZE; i++)
		((uint8_t *)frame_to_virt(*f))[i] = (uint8_t)(i * 13 + i / PAGE_SIZE);
	mem = rpc_mem_register(frame_to_paddr(*f), 64 * PAGE_SIZE, RPC_ROLES_ALL, RPC_ROLES_NONE);
	EXPECT_FALSE(t, IS_ERR(mem));
	return mem;
}

/* The answer of OP_STORE for lines @first, @first + @step, ... */
static uint32_t sum_of(struct frame *f, uint32_t first, uint32_t step, uint32_t nr)
{
	const uint8_t *p = frame_to_virt(f);
	uint32_t sum = 0;

	for (uint32_t k = first; nr; nr--, k += step) {
		for (uint32_t i = 0; i < PAGE_SIZE; i++)
			sum = sum * 31 + p[k * PAGE_SIZE + i];
	}
	return sum;
}

/* One message of 32 lines that lie side by side, or each apart from the next. */
static void store_lines(struct ktest *t, struct rpc_mem *mem, struct frame *f, uint32_t step,
			uint64_t work_requests)
{
	struct rpc_sge sge[NR_LINES];
	uint32_t sum = 0;
	struct posted before;
	struct rpc_call *call;

	for (uint32_t i = 0; i < NR_LINES; i++)
		sge[i] = (struct rpc_sge){ mem, frame_to_paddr(f) + i * step * PAGE_SIZE,
					   PAGE_SIZE };
	call = store_call(sge, NR_LINES, &sum);
	before = posted_since(NULL);
	EXPECT_EQ(t, rpc_call_submit(call), 0);
	expect_posted(t, &before, work_requests, 1);
	EXPECT_EQ(t, rpc_call_wait(call), 0);
	EXPECT_EQ(t, sum, sum_of(f, 0, step, NR_LINES));
	rpc_call_put(call);
}

/* 32 messages of a line each. */
static void store_chain(struct ktest *t, struct rpc_mem *mem, struct frame *f, uint64_t doorbells)
{
	struct rpc_call *calls[NR_LINES];
	struct rpc_sge pieces[NR_LINES];
	uint32_t sums[NR_LINES];
	struct posted before;
	size_t nr = 0;

	for (uint32_t i = 0; i < NR_LINES; i++) {
		pieces[i] =
			(struct rpc_sge){ mem, frame_to_paddr(f) + 2 * i * PAGE_SIZE, PAGE_SIZE };
		calls[i] = store_call(&pieces[i], 1, &sums[i]);
	}
	before = posted_since(NULL);
	EXPECT_EQ(t, rpc_calls_submit(calls, NR_LINES, &nr), 0);
	EXPECT_EQ(t, nr, NR_LINES);
	expect_posted(t, &before, NR_LINES, doorbells);
	for (uint32_t i = 0; i < NR_LINES; i++) {
		EXPECT_EQ(t, rpc_call_wait(calls[i]), 0);
		EXPECT_EQ(t, sums[i], sum_of(f, 2 * i, 1, 1));
		rpc_call_put(calls[i]);
	}
}

static void merge_client(struct ktest *t)
{
	struct frame *f;
	struct rpc_mem *mem;

	join(t);
	mem = lines_mem(t, &f);
	EXPECT_EQ(t, echo(1, RPC_CLASS_WRITEBACK, 8), 0);
	store_lines(t, mem, f, 1, 1);
	/* The provider gathers from 8 pieces, so the rest goes ahead: 7 + 25 pieces. */
	store_lines(t, mem, f, 2, 1 + 4);
	store_chain(t, mem, f, 1);
	sim_cmd("barrier 1 2");
}

static void neighbours_are_one_work_request(struct ktest *t)
{
	shim_bootparam_set("rpc.slots.writeback", "32");
	sim_two(t, server, merge_client, 30);
	shim_bootparam_set("rpc.slots.writeback", "8");
}

static void apart_client(struct ktest *t)
{
	struct frame *f;
	struct rpc_mem *mem;

	join(t);
	mem = lines_mem(t, &f);
	EXPECT_EQ(t, echo(1, RPC_CLASS_WRITEBACK, 8), 0);
	store_lines(t, mem, f, 1, 1 + 4);
	store_chain(t, mem, f, NR_LINES);
	sim_cmd("barrier 1 2");
}

static void unless_nothing_is_merged(struct ktest *t)
{
	shim_bootparam_set("rpc.slots.writeback", "32");
	shim_bootparam_set("rpc.merge", "0");
	sim_two(t, server, apart_client, 30);
	shim_bootparam_set("rpc.merge", "1");
	shim_bootparam_set("rpc.slots.writeback", "8");
}

static void chain_client(struct ktest *t)
{
	struct rpc_call *calls[12];
	size_t nr = 7;

	join(t);
	EXPECT_EQ(t, rpc_calls_submit(calls, 0, &nr), 0);
	EXPECT_EQ(t, nr, 0);
	EXPECT_EQ(t, echo(1, RPC_CLASS_WRITEBACK, 8), 0);
	sim_cmd("hold 2 1 %d", SL_WRITEBACK);
	/* One that is for another class ends the chain; so does one that finds no slot. */
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		calls[i] = rpc_call_create(1, i == 3 ? RPC_CLASS_DEMAND : RPC_CLASS_WRITEBACK,
					   OP_WHERE, NULL, 0);
	EXPECT_EQ(t, rpc_calls_submit(calls, ARRAY_SIZE(calls), &nr), -EINVAL);
	EXPECT_EQ(t, nr, 3);
	EXPECT_EQ(t, rpc_calls_submit(calls + 4, ARRAY_SIZE(calls) - 4, &nr), -EAGAIN);
	EXPECT_EQ(t, nr, 5);
	sim_cmd("release 2 1 %d", SL_WRITEBACK);
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		if (i < 9 && i != 3)
			EXPECT_EQ(t, rpc_call_wait(calls[i]), 0);
		rpc_call_put(calls[i]);
	}
	sim_cmd("barrier 1 2");
}

static void a_chain_ends_where_it_cannot_go_on(struct ktest *t)
{
	by_class(t, chain_client);
}

/* Calls of @bytes in the window, until there is no room. */
static uint32_t fill_window(struct ktest *t, enum rpc_class cls, uint32_t bytes)
{
	uint32_t nr = 0;
	int err;

	do {
		struct rpc_call *call = rpc_call_create(1, cls, OP_WHERE, NULL, 0);

		call->data_len = bytes;
		call->done = count_done;
		err = rpc_call_submit(call);
		rpc_call_put(call);
		nr += !err;
	} while (!err && nr < 64);
	EXPECT_EQ(t, err, -EAGAIN);
	return nr;
}

static void window_client(struct ktest *t)
{
	join(t);
	for (int cls = 0; cls < RPC_NR_MSG_CLASSES; cls++)
		EXPECT_EQ(t, echo(1, (enum rpc_class)cls, 8), 0);
	sim_cmd("hold 2 1");
	/* 16 KiB: three of a page and a header. One alone may be larger. */
	EXPECT_EQ(t, fill_window(t, RPC_CLASS_PREFETCH, PAGE_SIZE), 3);
	EXPECT_FALSE(t, rpc_slot_is_free(1, RPC_CLASS_PREFETCH));
	EXPECT_EQ(t, fill_window(t, RPC_CLASS_WRITEBACK, 1u << 20), 1);
	EXPECT_EQ(t, fill_window(t, RPC_CLASS_CONTROL, 1u << 20), 16);
	EXPECT_EQ(t, fill_window(t, RPC_CLASS_DEMAND, PAGE_SIZE), 32);
	sim_cmd("release 2 1");
	wait_done(t, 3 + 1 + 16 + 32);
	EXPECT_TRUE(t, rpc_slot_is_free(1, RPC_CLASS_PREFETCH));
	sim_cmd("barrier 1 2");
}

static void each_class_has_a_window(struct ktest *t)
{
	shim_bootparam_set("rpc.window.prefetch", "16");
	by_class(t, window_client);
	shim_bootparam_set("rpc.window.prefetch", "2048");
}

/* --- who polls ------------------------------------------------------------------------------- */

/* Waits for calls of @cls that ended while the caller polled, and those in which it slept. */
static void waits_of(struct ktest *t, enum rpc_class cls, uint64_t *won, uint64_t *slept)
{
	EXPECT_EQ(t, echo(1, cls, 8), 0); /* the connection is there */
	*won = counter("rpc.spins_won");
	*slept = counter("rpc.sleeps");
	for (int i = 0; i < NR_ECHOES; i++)
		EXPECT_EQ(t, echo(1, cls, 64), 0);
	*won = counter("rpc.spins_won") - *won;
	*slept = counter("rpc.sleeps") - *slept;
}

static void hybrid_client(struct ktest *t)
{
	uint64_t won, slept;

	shim_bootparam_set("rpc.spin_us", "1000000");
	join(t);
	waits_of(t, RPC_CLASS_DEMAND, &won, &slept);
	EXPECT_GT(t, won, 0);
	waits_of(t, RPC_CLASS_WRITEBACK, &won, &slept);
	EXPECT_EQ(t, won, 0);
	waits_of(t, RPC_CLASS_PREFETCH, &won, &slept);
	EXPECT_EQ(t, won, 0);
	sim_cmd("barrier 1 2");
}

static void poll_client(struct ktest *t)
{
	uint64_t won, slept;

	join(t);
	for (int cls = 0; cls < RPC_NR_MSG_CLASSES; cls++) {
		waits_of(t, (enum rpc_class)cls, &won, &slept);
		EXPECT_EQ(t, slept, 0);
	}
	sim_cmd("barrier 1 2");
}

static void interrupt_client(struct ktest *t)
{
	uint64_t won, slept;

	join(t);
	for (int cls = 0; cls < RPC_NR_MSG_CLASSES; cls++) {
		waits_of(t, (enum rpc_class)cls, &won, &slept);
		EXPECT_EQ(t, won, 0);
	}
	EXPECT_GT(t, counter("rpc.interrupts"), NR_ECHOES);
	EXPECT_EQ(t, counter("rpc.spins_lost"), 0);
	sim_cmd("barrier 1 2");
}

static void completion_says_who_polls(struct ktest *t)
{
	by_class(t, hybrid_client);
	shim_bootparam_set("rpc.completion", "poll");
	by_class(t, poll_client);
	shim_bootparam_set("rpc.completion", "interrupt");
	by_class(t, interrupt_client);
	shim_bootparam_set("rpc.completion", "hybrid");
}

/* --- what comes before a connection is closed counts ----------------------------------------- */

/*
 * While withheld is set, its queue gives only what the test has taken off it, give_max completions
 * a poll, and only to the test's thread. It is not armed either: once the queue's own thread sleeps
 * it goes on sleeping, and nobody but the test's thread polls.
 */
#define NR_TAKEN 4
static struct rdma_cq *withheld; /* atomic */
static uint32_t arms_withheld;   /* atomic */
static _Thread_local bool is_tester;
static struct rdma_wc taken[NR_TAKEN];
static int nr_given, give_max;

int __real_rdma_poll_cq(struct rdma_cq *cq, struct rdma_wc *wc, int max);
int __wrap_rdma_poll_cq(struct rdma_cq *cq, struct rdma_wc *wc, int max);

int __wrap_rdma_poll_cq(struct rdma_cq *cq, struct rdma_wc *wc, int max)
{
	int n = 0;

	if (cq != __atomic_load_n(&withheld, __ATOMIC_SEQ_CST))
		return __real_rdma_poll_cq(cq, wc, max);
	if (!is_tester)
		return 0;
	while (n < MIN(max, give_max) && nr_given < NR_TAKEN)
		wc[n++] = taken[nr_given++];
	return n;
}

void __real_rdma_arm_cq(struct rdma_cq *cq, bool solicited_only);
void __wrap_rdma_arm_cq(struct rdma_cq *cq, bool solicited_only);

void __wrap_rdma_arm_cq(struct rdma_cq *cq, bool solicited_only)
{
	if (cq != __atomic_load_n(&withheld, __ATOMIC_SEQ_CST))
		__real_rdma_arm_cq(cq, solicited_only);
	else
		__atomic_add_fetch(&arms_withheld, 1, __ATOMIC_SEQ_CST);
}

static bool can_rest;  /* the device; it rests for no time */
static int rests_kept; /* of a CPU that a thread waited for */

bool __real_rdma_wait(struct rdma_device *dev, uint64_t ns);
bool __wrap_rdma_wait(struct rdma_device *dev, uint64_t ns);

bool __wrap_rdma_wait(struct rdma_device *dev, uint64_t ns)
{
	if (!can_rest)
		return __real_rdma_wait(dev, ns);
	rests_kept += thread_waits_above(THREAD_PRIO_LOW);
	return true;
}

/* A message that the last look finds wakes a thread on this CPU. */
static bool wakes_another(void *arg)
{
	int *nr_looks = arg;

	if (++*nr_looks == 20)
		__atomic_store_n(&shim_thread_waits, true, __ATOMIC_RELAXED);
	return false;
}

static void rest_client(struct ktest *t)
{
	struct rpc_spin spin = { 0 };
	int nr_looks = 0;

	shim_bootparam_set("rpc.spin_us", "1000000");
	join(t);
	can_rest = true;
	EXPECT_FALSE(t, rpc_poll_until(&spin, wakes_another, &nr_looks));
	__atomic_store_n(&shim_thread_waits, false, __ATOMIC_RELAXED);
	EXPECT_GE(t, nr_looks, 20);
	EXPECT_GT(t, counter("rpc.rests"), 0);
	EXPECT_EQ(t, rests_kept, 0);
	sim_cmd("barrier 1 2");
}

static void nobody_waits_for_a_cpu_that_rests(struct ktest *t)
{
	by_class(t, rest_client);
}

/* Until the thread of @q waits for an event, and none has come. */
static void wait_asleep(struct ktest *t, struct rpc_queue *q)
{
	int i;

	for (i = 0; i < 5000; i++) {
		if (atomic_read(&q->armed) && waitqueue_active(&q->event_wq) &&
		    !atomic_read(&q->event_pending))
			break;
		usleep(1000);
	}
	EXPECT_LT(t, i, 5000);
}

static struct rpc_queue *queue_of(enum rpc_class cls)
{
	for (uint32_t i = 0; i < rpc_net.nr_queues; i++) {
		if (rpc_net.queues[i].classes & BIT(cls))
			return &rpc_net.queues[i];
	}
	return NULL;
}

static void barrier_client(struct ktest *t)
{
	struct rpc_queue *q;
	int nr = 0;

	join(t);
	EXPECT_EQ(t, echo(1, RPC_CLASS_WRITEBACK, 8), 0);
	q = queue_of(RPC_CLASS_WRITEBACK);
	ASSERT_TRUE(t, q != NULL && q->gives_way);
	is_tester = true;
	wait_asleep(t, q);
	__atomic_store_n(&withheld, q->cq, __ATOMIC_SEQ_CST);
	rpc_poll_barrier(q); /* all who look at the queue from now on see nothing */
	for (int i = 0; i < NR_TAKEN; i++)
		submit_writeback(t, OP_WHERE);
	while (nr < NR_TAKEN) {
		nr += __real_rdma_poll_cq(q->cq, taken + nr, NR_TAKEN - nr);
		usleep(100);
	}
	/* The event of the first comes: the queue's thread finds nothing, and sleeps again. */
	for (int i = 0; i < 5000 && !__atomic_load_n(&arms_withheld, __ATOMIC_SEQ_CST); i++)
		usleep(1000);
	EXPECT_EQ(t, arms_withheld, 1);
	wait_asleep(t, q);
	/* Three are taken, of which one is processed before the poller gives way. */
	__atomic_store_n(&shim_thread_waits, true, __ATOMIC_RELAXED);
	give_max = 3;
	EXPECT_TRUE(t, rpc_poll_try_once(q));
	EXPECT_EQ(t, nr_done, 1);
	EXPECT_EQ(t, nr_given, 3);
	/* As conn_close() does: what then still lies in the queue is lost with the queue pair. */
	rpc_poll_barrier(q);
	EXPECT_EQ(t, nr_done, NR_TAKEN);
	rpc_poll_barrier(q);
	__atomic_store_n(&shim_thread_waits, false, __ATOMIC_RELAXED);
	__atomic_store_n(&withheld, NULL, __ATOMIC_SEQ_CST);
	__real_rdma_arm_cq(q->cq, false); /* as q->armed says */
	wait_done(t, NR_TAKEN);
	EXPECT_EQ(t, echo(1, RPC_CLASS_WRITEBACK, 8), 0);
	sim_cmd("barrier 1 2");
}

static void a_barrier_drains_the_queue(struct ktest *t)
{
	shim_bootparam_set("rpc.lazy_us",
			   "0"); /* the queue's thread sleeps only when it is armed */
	by_class(t, barrier_client);
	shim_bootparam_set("rpc.lazy_us", "500");
}

static bool at_once(void *arg)
{
	return ++*(int *)arg % 8 == 0;
}

/*
 * Readers that always win keep the queue from being armed. When the last one has gone its way, the
 * queue is armed two periods later, however long that went on.
 */
static void winners_client(struct ktest *t)
{
	const uint64_t period_ns = 100 * NSEC_PER_MSEC;
	struct rpc_spin spin = { 0 };
	struct rpc_queue *q;
	uint64_t since;
	int nr = 0;

	shim_bootparam_set("rpc.lazy_us", "100000");
	shim_bootparam_set("rpc.spin_us", "1000000");
	join(t);
	q = queue_of(RPC_CLASS_DEMAND);
	ASSERT_TRUE(t, q != NULL);
	EXPECT_EQ(t, echo(1, RPC_CLASS_DEMAND, 8), 0);
	for (int i = 0; i < 5000 && atomic_read(&q->armed); i++)
		usleep(1000);
	for (since = time_now_ns(); time_now_ns() - since < 17 * period_ns / 2;)
		EXPECT_TRUE(t, rpc_poll_until(&spin, at_once, &nr));
	since = time_now_ns();
	for (int i = 0; i < 5000 && !atomic_read(&q->armed); i++)
		usleep(1000);
	EXPECT_LT(t, time_now_ns() - since, 4 * period_ns);
	EXPECT_EQ(t, echo(1, RPC_CLASS_DEMAND, 8), 0);
	sim_cmd("barrier 1 2");
}

static void a_queue_is_armed_after_the_last_reader(struct ktest *t)
{
	by_class(t, winners_client);
}

static const struct ktest_case cases[] = {
	KTEST(a_held_class_holds_no_other),
	KTEST(a_handler_delays_no_other_class),
	KTEST(unless_there_is_one_queue),
	KTEST(one_cpu_has_one_queue),
	KTEST(long_requests_leave_the_poll),
	KTEST(neighbours_are_one_work_request),
	KTEST(unless_nothing_is_merged),
	KTEST(a_chain_ends_where_it_cannot_go_on),
	KTEST(each_class_has_a_window),
	KTEST(completion_says_who_polls),
	KTEST(a_barrier_drains_the_queue),
	KTEST(nobody_waits_for_a_cpu_that_rests),
	KTEST(a_queue_is_armed_after_the_last_reader),
	{ 0 },
};
static const struct ktest_suite rpc_classes_suite = { .name = "rpc.classes", .cases = cases };
KTEST_SUITE(rpc_classes_suite);
