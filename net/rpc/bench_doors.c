/* SPDX-License-Identifier: MIT */
/*
 * RPC: does the device refuse a peer that uses a key for what it was not given?
 *
 * Flow:	bench.doors=<node>: this node registers a page that is only sent, and asks <node>
 *		to write it (BENCH_PAGE) with the key that it has in that node's protection domain;
 *		then a page that it may write, with another key.  One JSON line each tells the
 *		outcome and whether the page is untouched.
 * Context:	one thread, once.
 */
#define PR_FMT "bench: "

#include <kernel/bootparam.h>
#include <kernel/initcall.h>
#include <kernel/printk.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <mm/frame.h>

#include "bench.h"
#include "rpc_priv.h"

#define PATTERN 0x5aa5a55a5aa5a55aull

static uint32_t target_node;
BOOT_PARAM_RANGE(
	"bench.doors", u32, target_node, 1, 0xffff,
	"have this node write where it may not; one JSON line to the log tells the outcome");

/* 0: it has written; else the error of the call. */
static int have_written(struct frame *f, uint32_t key)
{
	const struct bench_page_wire w = { .addr = cpu_to_le64(frame_to_paddr(f)),
					   .rkey = cpu_to_le32(key) };
	const int ret = rpc_call_sync(target_node, RPC_CLASS_DEMAND, BENCH_PAGE, &w, sizeof(w),
				      NULL, 0, NSEC_PER_SEC);

	return MIN(ret, 0);
}

static bool is_untouched(struct frame *f)
{
	const uint64_t *p = frame_to_virt(f);

	for (size_t i = 0; i < PAGE_SIZE / sizeof(*p); i++)
		if (p[i] != PATTERN)
			return false;
	return true;
}

/* With the key of a run that was registered, changed by @key_change; @over: it is no more. */
static void attempt(const char *what, uint32_t written_by, uint32_t key_change, bool over)
{
	struct frame *f = frame_alloc(0, 0);
	const struct rpc_peer *peer = rpc_peer_find(target_node);
	uint64_t *p = f ? frame_to_virt(f) : NULL;
	struct rpc_mem *mem;
	uint32_t key;
	int err;

	if (!f)
		return;
	for (size_t i = 0; i < PAGE_SIZE / sizeof(*p); i++)
		p[i] = PATTERN;
	mem = rpc_mem_register(frame_to_paddr(f), PAGE_SIZE, RPC_ROLES_ALL, written_by);
	if (!IS_ERR(mem)) {
		key = rpc_mem_lkey(mem, peer) ^ key_change;
		if (over)
			rpc_mem_unregister(mem);
		err = have_written(f, key);
		pr_info("{\"bench\":\"doors\",\"what\":\"%s\",\"err\":%d,\"untouched\":%s}\n", what,
			err, is_untouched(f) ? "true" : "false");
		if (!over)
			rpc_mem_unregister(mem);
	}
	frame_free(f, 0);
}

static void doors_thread(void *arg)
{
	bench_wait_target(target_node);
	attempt("given", RPC_ROLES_ALL, 0, false);
	attempt("only sent", RPC_ROLES_NONE, 0, false);
	attempt("taken back", RPC_ROLES_ALL, 0, true);
	attempt("another key", RPC_ROLES_ALL, 0x80, false);
}

static int bench_doors_init(void)
{
	struct thread *t;

	if (!target_node)
		return 0;
	t = thread_create("bench-doors", doors_thread, NULL);
	if (IS_ERR(t))
		return (int)PTR_ERR(t);
	thread_detach(t);
	return 0;
}
INITCALL(cluster, bench_doors_init);
