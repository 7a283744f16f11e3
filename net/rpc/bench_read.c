/* SPDX-License-Identifier: MIT */
/*
 * Benchmark of one-sided reads beside fetches by request: a 4 KiB page each way, one at a time in
 * turns, and the doorbells and requests that each took.
 *
 * Flow:	bench.reads=<node>,<n> on one node starts it; <node> must be a peer with
 *		bench.serve=1, which lets the asker read one page of a pattern. Two JSON lines go to
 *		the log.
 * Context:	a kernel thread, which waits for one page at a time as a fault does.
 * Failure:	one log line says why, and nothing else happens.
 */
#define PR_FMT "bench: "

#include "bench.h"

#include <kernel/bootparam.h>
#include <kernel/initcall.h>
#include <kernel/printk.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/string.h>
#include <mm/frame.h>
#include <mm/slab.h>

#include "rpc_priv.h"

#define PATTERN 0x7e55e7a0u

static uint32_t target_node;
static uint32_t nr_rounds;

static int parse_reads(const char *value)
{
	return bench_parse_target(value, &target_node, &nr_rounds);
}
BOOT_PARAM_CB("bench.reads", parse_reads,
	      "measure one-sided reads beside fetches: <node>,<rounds>; one JSON line to the log");

struct row {
	uint64_t *ns; /* of each round */
	uint64_t doorbells, served_doorbells, served_requests;
};

struct reads {
	struct frame *frame;
	struct rpc_mem *mem;
	struct bench_page_wire there; /* the page that may be read */
	struct row read, fetch;
};

/* --- the node that is read -------------------------------------------------------------- */

static struct rpc_mem *given; /* under the handler's lock */

/* One page, for the node that asked first and is a peer for as long as this one runs. */
static enum rpc_handler_result bench_give(struct rpc_request *req, void *arg)
{
	static struct mutex lock = MUTEX_INIT(lock, "rpc.bench_give", RANK_NET);
	const uint32_t node = rpc_request_peer(req);
	static struct frame *frame;
	struct bench_page_wire w = { .reserved = cpu_to_le32(0) };
	struct rpc_mem *mem;
	int err = bench_serves() ? 0 : -EPERM;

	mutex_lock(&lock);
	if (!err && !frame)
		frame = frame_alloc(0, 0);
	if (!err && !frame)
		err = -ENOMEM;
	if (!err && !given) {
		for (uint32_t i = 0; i < PAGE_SIZE / sizeof(uint32_t); i++)
			((uint32_t *)frame_to_virt(frame))[i] = PATTERN + i;
		mem = rpc_mem_register_read(frame_to_paddr(frame), PAGE_SIZE, node);
		if (IS_ERR(mem))
			err = (int)PTR_ERR(mem);
		else
			given = mem;
	}
	if (!err) {
		w.addr = cpu_to_le64(0); /* of what is given */
		w.rkey = cpu_to_le32(rpc_mem_rkey(given, node));
		err = w.rkey ? 0 : -EBUSY;
	}
	mutex_unlock(&lock);
	rpc_reply(req, err, &w, err ? 0 : sizeof(w));
	return RPC_DONE;
}

/* --- the node that reads ---------------------------------------------------------------- */

static bool page_is_good(const struct reads *r)
{
	const uint32_t *p = frame_to_virt(r->frame);

	for (uint32_t i = 0; i < PAGE_SIZE / sizeof(*p); i++)
		if (p[i] != PATTERN + i)
			return false;
	return true;
}

/* Submit, wait, and put. 0 or a negative errno. */
static int run(struct rpc_call *call)
{
	int err = rpc_call_submit_wait(call, WAIT_FOREVER);

	if (!err)
		err = rpc_call_wait(call);
	rpc_call_put(call);
	return err;
}

static int read_once(struct reads *r)
{
	const struct rpc_sge into = { .mem = r->mem,
				      .addr = frame_to_paddr(r->frame),
				      .len = PAGE_SIZE };
	struct rpc_call *call = rpc_call_create(target_node, RPC_CLASS_READ, 0, NULL, 0);

	if (!call)
		return -ENOMEM;
	call->bulk = &into;
	call->nr_bulk = 1;
	call->remote_addr = le64_to_cpu(r->there.addr);
	call->rkey = le32_to_cpu(r->there.rkey);
	return run(call);
}

static int fetch_once(struct reads *r)
{
	const struct bench_page_wire w = {
		.addr = cpu_to_le64(frame_to_paddr(r->frame)),
		.rkey = cpu_to_le32(rpc_mem_rkey(r->mem, target_node)),
	};
	struct rpc_call *call =
		rpc_call_create(target_node, RPC_CLASS_DEMAND, BENCH_PAGE, &w, sizeof(w));

	return call ? run(call) : -ENOMEM;
}

static int rounds(struct reads *r, struct row *row, int (*once)(struct reads *r), uint32_t n)
{
	struct bench_counts before, after;
	int err = bench_read_counts(target_node, &before);

	for (uint32_t i = 0; i < n && !err; i++) {
		const uint64_t start = time_now_ns();

		err = once(r);
		row->ns[i] = time_now_ns() - start;
	}
	if (!err)
		err = bench_read_counts(target_node, &after);
	if (err)
		return err;
	/* Less those of the second question and its answer. */
	row->doorbells = after.doorbells - before.doorbells - 1;
	row->served_doorbells = after.served_doorbells - before.served_doorbells - 1;
	row->served_requests = after.served_requests - before.served_requests - 1;
	return 0;
}

static int measure(struct reads *r)
{
	int err = rpc_call_sync(target_node, RPC_CLASS_CONTROL, BENCH_GIVE, NULL, 0, &r->there,
				sizeof(r->there), 0);

	if (err >= 0)
		err = err == (int)sizeof(r->there) ? 0 : -EPROTO;
	for (int i = 0; i < 2 && !err; i++) { /* connect and warm up, then measure */
		err = rounds(r, &r->fetch, fetch_once, i ? nr_rounds : 10);
		if (!err)
			err = rounds(r, &r->read, read_once, i ? nr_rounds : 10);
	}
	if (!err && !page_is_good(r))
		err = -EBADMSG;
	return err;
}

static void report_row(const char *what, struct row *row)
{
	bench_sort(row->ns, nr_rounds);
	pr_info("{\"bench\":\"reads\",\"what\":\"%s\",\"node\":%u,\"rounds\":%u,"
		"\"ns\":{\"p50\":%llu,"
		"\"p90\":%llu,"
		"\"p99\":%llu},"
		"\"doorbells\":%llu,\"served_doorbells\":%llu,\"served_requests\":%llu}\n",
		what, target_node, nr_rounds, (unsigned long long)row->ns[nr_rounds / 2],
		(unsigned long long)row->ns[nr_rounds * 9ull / 10],
		(unsigned long long)row->ns[nr_rounds * 99ull / 100],
		(unsigned long long)row->doorbells, (unsigned long long)row->served_doorbells,
		(unsigned long long)row->served_requests);
}

static void reads_thread(void *arg)
{
	static struct reads r; /* one thread, once */
	int err = -ENOMEM;

	r.frame = frame_alloc(0, FRAME_ZERO);
	r.read.ns = kcalloc(nr_rounds, sizeof(uint64_t));
	r.fetch.ns = kcalloc(nr_rounds, sizeof(uint64_t));
	if (r.frame && r.read.ns && r.fetch.ns) {
		bench_wait_target(target_node);
		r.mem = rpc_mem_register(frame_to_paddr(r.frame), PAGE_SIZE, RPC_ROLES_NONE,
					 RPC_ROLES_ALL);
		err = IS_ERR(r.mem) ? (int)PTR_ERR(r.mem) : measure(&r);
		if (!IS_ERR(r.mem))
			rpc_mem_unregister(r.mem);
	}
	if (err) {
		pr_err("reads cannot be measured: %d\n", err);
	} else {
		report_row("fetch", &r.fetch);
		report_row("read", &r.read);
	}
	if (r.frame)
		frame_free(r.frame, 0);
	kfree(r.read.ns);
	kfree(r.fetch.ns);
}

/* Context: worker. Races with itself: a lock. Safe to run twice: yes. */
static const struct rpc_handler give_handlers[] = {
	{ BENCH_GIVE, RPC_HANDLER_IDEMPOTENT, "bench_give", bench_give },
};

static int bench_read_init(void)
{
	struct thread *t;
	int err;

	err = rpc_handlers_register(give_handlers, ARRAY_SIZE(give_handlers), NULL);
	if (err || !target_node)
		return err;
	t = thread_create("bench-reads", reads_thread, NULL);
	if (IS_ERR(t))
		return (int)PTR_ERR(t);
	thread_detach(t);
	return 0;
}
INITCALL(cluster, bench_read_init);
