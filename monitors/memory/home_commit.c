/* SPDX-License-Identifier: MIT */
/*
 * Home: what the policy of commitment says about a whole mapping, before its owners are asked.
 *
 * Flow:	the heuristic mode refuses what can never be had: more than all memory nodes
 *		together have, or more in one vRegion than any one of them has. They are asked what
 *		they have when the view of the cluster changes, so that no mapping waits for it.
 * Failure:	a node that has not answered may have any amount: nothing is refused.
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

/* The cluster as the nodes have told. False: one has not told yet. */
static bool cluster_size(struct memory *m, uint64_t own, struct commit_size *size)
{
	bool known = true;

	spin_lock(&m->nodes_lock);
	for (size_t i = 0; i < m->nr_nodes && known; i++) {
		const uint64_t programs = m->nodes[i] == m->node ? own : m->programs[i];

		size->total += programs;
		size->largest = MAX(size->largest, programs);
		known = programs != 0;
	}
	spin_unlock(&m->nodes_lock);
	return known;
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
	if (pages <= s.programs || !cluster_size(m, s.programs, &size))
		return 0;
	if (!commit_is_hopeless(&size))
		return 0;
	STAT_INC(m, enomem);
	return -ENOMEM;
}

/* --- what the nodes tell each other -------------------------------------------------------- */

static void note_programs(struct memory *m, uint32_t node, uint64_t programs)
{
	spin_lock(&m->nodes_lock);
	for (size_t i = 0; i < m->nr_nodes; i++)
		if (m->nodes[i] == node)
			m->programs[i] = programs;
	spin_unlock(&m->nodes_lock);
}

static int ask_size(struct memory *m, uint32_t node)
{
	struct pm_meminfo_rep_wire w;
	struct pm_meminfo_rep info;
	const int ret = memory_call(m, node, PM_MEMINFO, NULL, 0, &w, sizeof(w));
	const int err = ret < 0 ? ret : pm_meminfo_rep_decode(&w, (size_t)ret, &info);

	if (!err)
		note_programs(m, node, info.programs);
	return err;
}

/* It may know a newer policy. One that does not answer hears of it from another, or later. */
static int tell_policy(struct memory *m, uint32_t node)
{
	const struct pm_commit ask = { 0 };
	struct pm_commit_wire w, rw;
	struct pm_commit now;
	int ret;

	pool_set_policy(&m->pool, &ask, 0, &now);
	if (!now.version)
		return 0;
	pm_commit_encode(&now, &w);
	ret = memory_call(m, node, PM_COMMIT, &w, sizeof(w), &rw, sizeof(rw));
	if (ret >= 0)
		ret = pm_commit_decode(&rw, (size_t)ret, &now);
	if (!ret)
		pool_set_policy(&m->pool, &now, 0, &now);
	return ret;
}

bool memory_ask_nodes(struct memory *m)
{
	bool again = false;
	uint32_t *nodes;
	size_t nr;

	if (memory_get_nodes(m, &nodes, &nr))
		return false;
	for (size_t i = 0; i < nr; i++) {
		if (nodes[i] == m->node)
			continue;
		again |= ask_size(m, nodes[i]) == -ETIMEDOUT ||
			 tell_policy(m, nodes[i]) == -ETIMEDOUT;
	}
	lib_free(nodes);
	return again;
}
