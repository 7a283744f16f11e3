/* SPDX-License-Identifier: MIT */
/*
 * The one instance of a memory node, and its frames: set aside and registered at boot, zeroed
 * ahead.
 *
 * All frames are in a few runs; neighbouring runs are registered as one. They are sent to
 * processors and to other memory nodes, which can neither read nor write them. Pages of files go
 * straight into their frames: the extents of files are regions of their own, which storage nodes
 * write. The runs hold page frames and nothing else.
 *
 * Context:	boot; one thread of low priority that zeroes free frames, and one that changes the
 *		use of extents.
 */
#define PR_FMT "memory: "

#include "service.h"

#include <cluster/cluster.h>
#include <cluster/patience.h>
#include <kernel/bootparam.h>
#include <kernel/printk.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <mm/frame.h>
#include <mm/slab.h>
#include <net/rpc.h>

#include "file_live.h"
#include "memory.h"

#define RUN_PAGES     16384ull /* of one run: 64 MiB */
#define RUN_PAGES_MIN 64ull
#define RUNS_MAX      4096u
#define RESERVE_MIN   (24ull << 20) /* bytes left to the kernel, beside a sixteenth of all */
#define ZERO_BUDGET   32

#define EXTENT_RETRY_NS (5 * NSEC_PER_MSEC)

struct memory memory_node;
static bool memory_up;

static uint64_t memory_limit;
static uint32_t extent_kbytes = 2048;
static uint32_t zero_ahead = 256;
static uint32_t overcommit = PM_COMMIT_HEURISTIC;
static uint32_t overcommit_ratio = 100;

BOOT_PARAM("memory.limit", size, memory_limit,
	   "memory for pages of programs and files; 0 = all but what the kernel needs");
BOOT_PARAM_RANGE("memory.extent_kbytes", u32, extent_kbytes, 64, 1u << 20,
		 "piece of memory for pages of files or of programs; rounded to a power of two");
BOOT_PARAM_SAME("memory.overcommit", u32, overcommit, PM_COMMIT_HEURISTIC, PM_COMMIT_MODES - 1,
		"as vm.overcommit_memory: 0 heuristic, 1 without limit, 2 strict");
BOOT_PARAM_SAME("memory.overcommit_ratio", u32, overcommit_ratio, 0, INT32_MAX,
		"as vm.overcommit_ratio: the strict limit, in percent of the frames for programs");
BOOT_PARAM("memory.zero_ahead", u32, zero_ahead, "frames that are kept zeroed ahead");

struct memory *memory_self(void)
{
	return __atomic_load_n(&memory_up, __ATOMIC_ACQUIRE) ? &memory_node : NULL;
}

/* Pages for the pool, of @total frames in the machine. */
static uint64_t pool_pages(uint64_t total)
{
	const uint64_t reserve = total / 16 + (RESERVE_MIN >> PAGE_SHIFT);
	const uint64_t avail = frames_free_count() > reserve ? frames_free_count() - reserve : 0;

	return memory_limit ? MIN(memory_limit >> PAGE_SHIFT, avail) : avail;
}

/* Set a run of up to @want pages aside; smaller ones as memory is fragmented. */
static int take_run(struct pool_run *run, uint64_t want, uint64_t align)
{
	uint64_t pages = MIN(want, MAX(RUN_PAGES, align));
	struct frame *f;

	/* An aligned extent is one entry of the device's tables. */
	while (!(f = frame_alloc_contig(pages, MIN(align, pages & -pages))) &&
	       pages > RUN_PAGES_MIN)
		pages /= 2;
	if (!f)
		return -ENOMEM;
	*run = (struct pool_run){
		.virt = frame_to_virt(f),
		.paddr = frame_to_paddr(f),
		.nr_pages = pages,
	};
	return 0;
}

/* Insert the last of @nr runs where it belongs: they ascend by address. */
static void sort_last(struct pool_run *runs, size_t nr)
{
	const struct pool_run run = runs[nr - 1];
	size_t at = nr - 1;

	for (; at > 0 && runs[at - 1].paddr > run.paddr; at--)
		runs[at] = runs[at - 1];
	runs[at] = run;
}

/* Register all runs, in ascending order, those that touch as one. */
static int register_runs(struct pool_run *runs, size_t nr)
{
	for (size_t first = 0, end; first < nr; first = end) {
		uint64_t len = runs[first].nr_pages * PAGE_SIZE;
		struct rpc_mem *mem;

		for (end = first + 1; end < nr && runs[end].paddr == runs[first].paddr + len; end++)
			len += runs[end].nr_pages * PAGE_SIZE;
		mem = rpc_mem_register(runs[first].paddr, len,
				       RPC_ROLE(NODE_ROLE_PROCESSOR) | RPC_ROLE(NODE_ROLE_MEMORY),
				       RPC_ROLES_NONE);
		if (IS_ERR(mem))
			return (int)PTR_ERR(mem);
		for (size_t i = first; i < end; i++)
			runs[i].mem = mem;
	}
	return 0;
}

static bool reclaim_file_page(void *arg)
{
	return page_cache_reclaim(arg);
}

static void empty_extent(void *arg, struct mpage *first, uint64_t nr)
{
	page_cache_empty(arg, first, nr);
}

static struct mpage *oldest_file_page(void *arg)
{
	return page_cache_oldest(arg);
}

static int open_extent(void *arg, struct extent *e)
{
	struct rpc_mem *mem = rpc_mem_register(e->paddr, (uint64_t)e->nr_pages * PAGE_SIZE,
					       RPC_ROLES_NONE, RPC_ROLE(NODE_ROLE_STORAGE));

	if (IS_ERR(mem))
		return (int)PTR_ERR(mem);
	e->mem = mem;
	return 0;
}

static void close_extent(void *arg, struct extent *e)
{
	rpc_mem_unregister(e->mem);
	e->mem = NULL;
}

/* A peer that is no member any more gets no key, and no extent. */
static int lend_extent(void *arg, struct extent *e, uint32_t *key)
{
	struct rpc_mem *mem =
		rpc_mem_register_read(e->paddr, (uint64_t)e->nr_pages * PAGE_SIZE, e->proc);

	if (IS_ERR(mem))
		return (int)PTR_ERR(mem);
	*key = rpc_mem_rkey(mem, e->proc);
	if (!*key) {
		rpc_mem_unregister(mem);
		return -EHOSTDOWN;
	}
	e->mem = mem;
	return 0;
}

static int revoke_places(void *arg, uint32_t proc, uint32_t number, bool below)
{
	return memory_revoke(arg, proc, number, below);
}

static const struct pool_ops node_pool_ops = {
	.reclaim = reclaim_file_page,
	.open = open_extent,
	.close = close_extent,
	.empty = empty_extent,
	.oldest = oldest_file_page,
	.lend = lend_extent,
	.take_back = close_extent,
	.revoke = revoke_places,
};

/*
 * Pages of files may be in use when their extent is to be emptied, and nothing tells when one has
 * been sent: look again after a while.
 */
static void extent_thread(void *arg)
{
	struct pool *pool = &memory_node.pool;

	for (;;) {
		wait_event(&pool->changer, extents_want_change(pool));
		if (extents_change(pool, NULL) == EXTENTS_NOTHING)
			thread_sleep_ns(EXTENT_RETRY_NS);
	}
}

/* How many frames are kept free in extents of either kind. */
static struct extent_need extents_ahead(const struct pool *pool)
{
	const uint64_t size = 1ull << pool->extent_shift;

	return (struct extent_need){
		.anon = pool->slack + MAX(2 * size, pool->total / 32),
		.file = MAX(size / 2, pool->total / 64),
	};
}

/* Extents for the files that the node is to have at least; then a thread has the others. */
static int start_extent_thread(struct pool *pool)
{
	struct thread *t;

	while (extents_change(pool, &(struct extent_need){ 0 }) == EXTENTS_CHANGED)
		;
	pool->open_retry_ns = NSEC_PER_SEC;
	pool->ahead = extents_ahead(pool);
	pool->has_changer = true;
	t = thread_create("extents", extent_thread, NULL);
	if (IS_ERR(t))
		return (int)PTR_ERR(t);
	thread_detach(t);
	return 0;
}

static void zero_thread(void *arg)
{
	for (;;) {
		wait_event(&memory_node.pool.zeroer, pool_wants_zeroing(&memory_node.pool));
		(void)pool_zero_dirty(&memory_node.pool, ZERO_BUDGET);
		thread_yield();
	}
}

static void relief_thread(void *arg)
{
	for (;;) {
		wait_event(&memory_node.relief.wake, relief_is_wanted(&memory_node));
		relief_run(&memory_node);
	}
}

static int start_relief_thread(void)
{
	struct thread *t = thread_create("relief", relief_thread, NULL);

	if (IS_ERR(t))
		return (int)PTR_ERR(t);
	thread_detach(t);
	memory_node.relief.on = true;
	return 0;
}

#define WRITE_BEHIND_NS NSEC_PER_SEC /* between looks for pages that have been dirty for long */

static void write_behind_thread(void *arg)
{
	struct page_cache *pc = &memory_node.page_cache;

	for (;;) {
		(void)wait_event_timeout(&pc->writer, file_write_behind_wanted(&memory_node),
					 time_now_ns() + WRITE_BEHIND_NS);
		if (file_write_behind_wanted(&memory_node) &&
		    !file_write_behind(&memory_node, false))
			thread_sleep_ns(WRITE_BEHIND_NS); /* storage does not take it now */
	}
}

static int start_write_behind_thread(void)
{
	struct thread *t = thread_create("write-behind", write_behind_thread, NULL);

	if (IS_ERR(t))
		return (int)PTR_ERR(t);
	thread_detach(t);
	return 0;
}

static int start_zero_thread(void)
{
	struct thread *t = thread_create_prio("zero", zero_thread, NULL, THREAD_PRIO_LOW);

	if (IS_ERR(t))
		return (int)PTR_ERR(t);
	thread_detach(t);
	return 0;
}

int memory_node_make(uint32_t vregion_shift)
{
	uint64_t want = pool_pages(frames_total_count());
	struct pool_run *runs = kcalloc(RUNS_MAX, sizeof(*runs));
	struct memory_config cfg = {
		.node = node_self()->id,
		.vregion_shift = vregion_shift,
		.file_key = cluster_file_key(),
		.net = &node_net,
		.runs = runs,
		.ops = &node_pool_ops,
	};
	uint64_t got = 0;
	int err = runs ? 0 : -ENOMEM;

	cfg.extent_pages = extent_pages_for((uint64_t)extent_kbytes * 1024 / PAGE_SIZE, want);
	want = ALIGN_DOWN(want, cfg.extent_pages);

	while (!err && got < want && cfg.nr_runs < RUNS_MAX) {
		err = take_run(&runs[cfg.nr_runs], want - got, cfg.extent_pages);
		if (err)
			break;
		got += runs[cfg.nr_runs++].nr_pages;
		sort_last(runs, cfg.nr_runs);
	}
	if (got)
		err = register_runs(runs, cfg.nr_runs);
	cfg.policy = (struct pm_commit){ .mode = overcommit, .ratio = overcommit_ratio };
	cfg.file_min = MAX(got / 16, MIN(got / 4, 512ull));
	cfg.kernel_max = frames_free_count() * PAGE_SIZE / 2; /* of what is left to the kernel */
	cfg.storage_wait_ns = patience_ns();
	if (!err)
		err = memory_init(&memory_node, &cfg);
	kfree(runs);
	if (err)
		return err;
	memory_node.pool.zero_ahead = zero_ahead;
	err = start_extent_thread(&memory_node.pool);
	if (err)
		return err;
	__atomic_store_n(&memory_up, true, __ATOMIC_RELEASE);
	pr_info("%lu MiB for pages in %zu runs, extents of %lu KiB, vRegions of %lu MiB\n",
		(unsigned long)(got >> 8), cfg.nr_runs,
		(unsigned long)(cfg.extent_pages * PAGE_SIZE >> 10), 1ul << (vregion_shift - 20));
	err = start_relief_thread();
	if (!err)
		err = start_write_behind_thread();
	return err ? err : start_zero_thread();
}
