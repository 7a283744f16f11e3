/* SPDX-License-Identifier: MIT */
/*
 * Benchmark of fetches: 4 KiB pages with 1, 4, 16 and 64 of them in flight, and the doorbells
 * that each took.
 *
 * Flow:	bench.fetches=<node>,<n> on one node starts it; <node> must be a peer.  One JSON
 *		line goes to the log.  The thread sends as many fetches as may be in flight;
 *		each that ends sends the next.  Each fetch in flight has a page of its own.
 *		Done and release functions run in polling context; the last ones give their
 *		pages back by bits in free_pages, and when all are back the pages are
 *		unregistered.  The number of doorbells is the difference of rpc.doorbells on
 *		both nodes; a quiet cluster adds next to none of its own.
 * Limits:	more fetches in flight than the demand class has slots wait for one:
 *		rpc.slots.demand=64 has enough.
 * Context:	a kernel thread; it polls for completions itself, and sleeps after SPIN_NS
 *		without any.
 * Failure:	one log line says why, and nothing else happens.
 */
#define PR_FMT "bench: "

#include "bench.h"

#include <kernel/bootparam.h>
#include <kernel/initcall.h>
#include <kernel/printk.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <kernel/wait.h>
#include <lib/err.h>
#include <lib/fmt.h>
#include <mm/frame.h>

#include "rpc_priv.h"

#define MAX_DEPTH   64u
#define PAGES_ORDER 6u /* MAX_DEPTH pages */
#define SPIN_NS     (200 * NSEC_PER_USEC)

static const uint32_t depths[] = { 1, 4, 16, MAX_DEPTH };

static uint32_t target_node;
static uint32_t nr_rounds;

static int parse_fetches(const char *value)
{
	return bench_parse_target(value, &target_node, &nr_rounds);
}
BOOT_PARAM_CB("bench.fetches", parse_fetches,
	      "measure 4 KiB fetches from a node: <node>,<rounds>; one JSON line to the log");

struct fetches;

struct target {
	struct fetches *owner;
	uint32_t index;
};

struct fetches {
	struct frame *frames;
	struct rpc_mem *mem;
	uint64_t free_pages; /* atomic: a bit for each page that no fetch may write */
	uint32_t left;       /* atomic: fetches still to be sent */
	int err;             /* atomic: the first one */
	struct waitqueue wq;
	struct target targets[MAX_DEPTH];
};

struct result {
	uint64_t ns, doorbells, served_doorbells;
	int err;
};

static uint32_t in_flight(const struct fetches *f)
{
	return (uint32_t)__builtin_popcountll(~__atomic_load_n(&f->free_pages, __ATOMIC_ACQUIRE));
}

static void note_error(struct fetches *f, int err)
{
	int none = 0;

	(void)__atomic_compare_exchange_n(&f->err, &none, err, false, __ATOMIC_RELAXED,
					  __ATOMIC_RELAXED);
}

static void fetch_done(struct rpc_call *call)
{
	const struct target *t = call->arg;

	if (call->status < 0)
		note_error(t->owner, call->status);
}

/* One of the fetches that are still to be made. False: there are none, or one has failed. */
static bool take_one(struct fetches *f)
{
	uint32_t left = __atomic_load_n(&f->left, __ATOMIC_RELAXED);

	do {
		if (!left || __atomic_load_n(&f->err, __ATOMIC_RELAXED))
			return false;
	} while (!__atomic_compare_exchange_n(&f->left, &left, left - 1, true, __ATOMIC_RELAXED,
					      __ATOMIC_RELAXED));
	return true;
}

static int fetch_into(struct fetches *f, uint32_t index);

/* As long as there are more to do, one that ends makes way for the next, which it sends itself. */
static void fetch_release(struct rpc_call *call)
{
	const struct target *t = call->arg;
	struct fetches *f = t->owner;
	int err;

	if (take_one(f)) {
		err = fetch_into(f, t->index);
		if (!err)
			return;
		if (err == -EAGAIN) /* another has taken the slot: fetch_all() sends it later */
			__atomic_add_fetch(&f->left, 1, __ATOMIC_RELAXED);
		else
			note_error(f, err);
	}
	(void)__atomic_or_fetch(&f->free_pages, BIT64(t->index), __ATOMIC_ACQ_REL);
	wake_all(&f->wq);
}

/* Until nothing is in flight: poll, and sleep after a while without anything. */
static void wait_all(struct fetches *f)
{
	uint64_t until = time_after_ns(SPIN_NS);

	while (in_flight(f) && time_now_ns() < until) {
		if (rpc_poll())
			until = time_after_ns(SPIN_NS);
		else
			cpu_relax();
	}
	if (!in_flight(f))
		return;
	rpc_poll_before_sleep();
	wait_event(&f->wq, !in_flight(f));
}

/* Waits for a slot.  0, or what submitting it answered: the page is the caller's then. */
static int fetch_into(struct fetches *f, uint32_t index)
{
	const struct bench_page_wire w = {
		.addr = cpu_to_le64(frame_to_paddr(f->frames) + (uint64_t)index * PAGE_SIZE),
		.rkey = cpu_to_le32(rpc_mem_rkey(f->mem, target_node)),
	};
	struct rpc_call *call = rpc_call_alloc();
	int err;

	if (!call)
		return -ENOMEM;
	call->peer = target_node;
	call->cls = RPC_CLASS_DEMAND;
	call->opcode = BENCH_PAGE;
	call->body = &w;
	call->body_len = sizeof(w);
	call->done = fetch_done;
	call->release = fetch_release;
	call->arg = &f->targets[index];
	err = rpc_call_submit_wait(call, WAIT_FOREVER);
	rpc_call_put(call);
	return err;
}

/* Into a page that is free, waiting for a slot as long as it takes. */
static int fetch_one(struct fetches *f)
{
	const uint32_t index =
		(uint32_t)__builtin_ctzll(__atomic_load_n(&f->free_pages, __ATOMIC_ACQUIRE));
	int err;

	(void)__atomic_and_fetch(&f->free_pages, ~BIT64(index), __ATOMIC_ACQ_REL);
	err = fetch_into(f, index);
	if (err)
		(void)__atomic_or_fetch(&f->free_pages, BIT64(index), __ATOMIC_ACQ_REL);
	return err;
}

int bench_read_counts(uint32_t node, struct bench_counts *out)
{
	struct bench_doorbells_wire w;
	int n = rpc_call_sync(node, RPC_CLASS_CONTROL, BENCH_DOORBELLS, NULL, 0, &w, sizeof(w), 0);

	if (n >= 0 && n != (int)sizeof(w))
		n = -EPROTO;
	if (n < 0)
		return n;
	out->served_doorbells = le64_to_cpu(w.count);
	out->served_requests = le64_to_cpu(w.requests);
	out->doorbells = counter_read(&rpc_c_doorbells);
	return 0;
}

static int fetch_all(struct fetches *f, uint32_t depth, uint32_t n)
{
	f->err = 0;
	__atomic_store_n(&f->left, n, __ATOMIC_RELAXED);
	do {
		while (in_flight(f) < depth && take_one(f)) {
			const int err = fetch_one(f);

			if (err)
				note_error(f, err);
		}
		wait_all(f);
	} while (__atomic_load_n(&f->left, __ATOMIC_RELAXED) && !f->err);
	return f->err;
}

static void measure(struct fetches *f, uint32_t depth, struct result *r)
{
	struct bench_counts before, after;
	uint64_t start;

	r->err = fetch_all(f, depth, 4 * depth); /* connect, warm up */
	if (!r->err)
		r->err = bench_read_counts(target_node, &before);
	if (r->err)
		return;
	start = time_now_ns();
	r->err = fetch_all(f, depth, nr_rounds);
	r->ns = time_now_ns() - start;
	if (!r->err)
		r->err = bench_read_counts(target_node, &after);
	if (r->err)
		return;
	/* Less those of the second question and its answer, each of which saw its own side's. */
	r->doorbells = after.doorbells - before.doorbells - 1;
	r->served_doorbells = after.served_doorbells - before.served_doorbells - 1;
}

static void report(const struct result *results)
{
	char line[512];
	size_t len = 0;

	for (size_t i = 0; i < ARRAY_SIZE(depths); i++) {
		const struct result *r = &results[i];

		len += scnprintf(line + len, sizeof(line) - len, "%s\"%u\":{", i ? "," : "",
				 depths[i]);
		if (r->err)
			len += scnprintf(line + len, sizeof(line) - len, "\"error\":%d}", r->err);
		else
			len += scnprintf(line + len, sizeof(line) - len,
					 "\"ns\":%llu,\"doorbells\":%llu,\"served\":%llu}",
					 (unsigned long long)r->ns,
					 (unsigned long long)r->doorbells,
					 (unsigned long long)r->served_doorbells);
	}
	pr_info("{\"bench\":\"fetches\",\"node\":%u,\"rounds\":%u,\"depth\":{%s}}\n", target_node,
		nr_rounds, line);
}

static void fetches_thread(void *arg)
{
	static struct fetches f; /* one thread, once */
	struct result results[ARRAY_SIZE(depths)] = { 0 };

	f.free_pages = UINT64_MAX;
	waitqueue_init(&f.wq);
	for (uint32_t i = 0; i < MAX_DEPTH; i++)
		f.targets[i] = (struct target){ &f, i };
	f.frames = frame_alloc(PAGES_ORDER, FRAME_ZERO);
	if (!f.frames) {
		pr_err("no memory for the pages to fetch\n");
		return;
	}
	bench_wait_target(target_node);
	f.mem = rpc_mem_register(frame_to_paddr(f.frames), MAX_DEPTH * PAGE_SIZE, RPC_ROLES_NONE,
				 RPC_ROLES_ALL);
	if (IS_ERR(f.mem)) {
		pr_err("the pages to fetch cannot be registered: %d\n", (int)PTR_ERR(f.mem));
	} else {
		for (size_t i = 0; i < ARRAY_SIZE(depths); i++)
			measure(&f, depths[i], &results[i]);
		rpc_mem_unregister(f.mem);
		report(results);
	}
	frame_free(f.frames, PAGES_ORDER);
}

static enum rpc_handler_result bench_doorbells(struct rpc_request *req, void *arg)
{
	const struct bench_doorbells_wire w = {
		.count = cpu_to_le64(counter_read(&rpc_c_doorbells)),
		.requests = cpu_to_le64(counter_read(&rpc_c_req_received)),
	};

	rpc_reply(req, 0, &w, sizeof(w));
	return RPC_DONE;
}

/* Context: inline. Races with nothing. Safe to run twice: yes. */
static const struct rpc_handler fetch_handlers[] = {
	{ BENCH_DOORBELLS, RPC_HANDLER_INLINE | RPC_HANDLER_IDEMPOTENT, "bench_doorbells",
	  bench_doorbells },
};

static int bench_fetch_init(void)
{
	struct thread *t;
	int err;

	err = rpc_handlers_register(fetch_handlers, ARRAY_SIZE(fetch_handlers), NULL);
	if (err || !target_node)
		return err;
	t = thread_create("bench-fetches", fetches_thread, NULL);
	if (IS_ERR(t))
		return (int)PTR_ERR(t);
	thread_detach(t);
	return 0;
}
INITCALL(cluster, bench_fetch_init);
