/* SPDX-License-Identifier: MIT */
/*
 * Home: what the policy of commitment says about a whole mapping, before its owners are asked.
 *
 * Flow:	the heuristic mode refuses what can never be had: more than all memory nodes
 *		together have, or more in one vRegion than any one of them has. Small mappings are
 *		decided without a question; for a large one each node is asked.
 * Failure:	a node that does not answer may have any amount: nothing is refused.
 */
#include <lib/alloc.h>
#include <lib/errno.h>

#include "commit.h"
#include "memory.h"

/* The most bytes of [start, end) in one vRegion. */
static uint64_t largest_part(const struct memory *m, uint64_t start, uint64_t end)
{
	const uint64_t size = 1ull << m->vregion_shift;
	const uint64_t first_end = ALIGN_DOWN(start, size) + size;
	const uint64_t last_start = ALIGN_DOWN(end - 1, size);

	if (end <= first_end)
		return end - start;
	return first_end < last_start ? size : MAX(first_end - start, end - last_start);
}

static int add_node(struct memory *m, uint32_t node, struct commit_size *size)
{
	struct pm_meminfo_rep_wire w;
	struct pm_meminfo_rep info;
	const int ret = memory_call(m, node, PM_MEMINFO, NULL, 0, &w, sizeof(w));
	const int err = ret < 0 ? ret : pm_meminfo_rep_decode(&w, (size_t)ret, &info);

	if (err)
		return err;
	size->total += info.programs;
	size->largest = MAX(size->largest, info.programs);
	return 0;
}

/* Ask every memory node. */
static int add_nodes(struct memory *m, struct commit_size *size)
{
	uint32_t *nodes;
	size_t nr;
	int err = memory_get_nodes(m, &nodes, &nr);

	for (size_t i = 0; i < nr && !err; i++)
		err = add_node(m, nodes[i], size);
	lib_free(nodes);
	return err;
}

int home_may_commit(struct memory *m, uint64_t start, uint64_t end, uint64_t pages)
{
	struct commit_size size = {
		.pages = pages,
		.part = MIN(pages, largest_part(m, start, end) >> PAGE_SHIFT),
	};
	struct pool_stats s;

	if (!pages || pool_commit_mode(&m->pool) != PM_COMMIT_HEURISTIC)
		return 0;
	pool_stats(&m->pool, &s);
	if (pages <= s.programs || add_nodes(m, &size))
		return 0;
	if (!commit_is_hopeless(&size))
		return 0;
	STAT_INC(m, enomem);
	return -ENOMEM;
}
