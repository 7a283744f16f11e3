/* SPDX-License-Identifier: MIT */
/* GPM: the reports that its policy needs, and the policy. */
#include <managers/policy.h>

#include <kernel/panic.h>

static struct gpm_node *find(struct gpm *g, uint32_t node)
{
	for (size_t i = 0; i < CLUSTER_MAX_MEMBERS; i++)
		if (g->nodes[i].id == node)
			return &g->nodes[i];
	return NULL;
}

/* The entry of @node, made if need be.  NULL: full. */
static struct gpm_node *entry(struct gpm *g, uint32_t node)
{
	struct gpm_node *n = find(g, node);

	if (!n) {
		n = find(g, 0);
		if (n)
			*n = (struct gpm_node){ .id = node };
	}
	return n;
}

void gpm_report(struct gpm *g, uint32_t node, const struct cluster_load *load)
{
	struct gpm_node *n = entry(g, node);

	if (!n)
		return;
	n->load = *load;
	n->placed = 0;
}

void gpm_forget(struct gpm *g, uint32_t node)
{
	struct gpm_node *n = find(g, node);

	if (n)
		*n = (struct gpm_node){ 0 };
}

/* --- the policy -------------------------------------------------------------------------- */

static bool is_less_busy(const struct gpm_node *a, const struct gpm_node *b)
{
	/* Reports are 32 bits wide, so nothing here overflows. */
	const uint64_t a_tasks = (uint64_t)a->load.tasks + a->placed;
	const uint64_t b_tasks = (uint64_t)b->load.tasks + b->placed;
	const uint64_t a_busy = ((uint64_t)a->load.runnable + a->placed) * b->load.cpus;
	const uint64_t b_busy = ((uint64_t)b->load.runnable + b->placed) * a->load.cpus;

	if (a_busy != b_busy)
		return a_busy < b_busy;
	if (a_tasks != b_tasks)
		return a_tasks < b_tasks;
	return a->load.free_lines > b->load.free_lines;
}

static size_t least_busy_place(const struct gpm_node *nodes, size_t nr)
{
	size_t best = 0;

	for (size_t i = 1; i < nr; i++)
		if (is_less_busy(&nodes[i], &nodes[best]))
			best = i;
	return best;
}

const struct gpm_ops gpm_least_busy = { .name = "least-busy", .place = least_busy_place };

/* --- placing ----------------------------------------------------------------------------- */

/* A node that has not reported yet is taken for an idle one. */
static struct gpm_node candidate(struct gpm *g, uint32_t node)
{
	const struct gpm_node *n = find(g, node);
	struct gpm_node out = n ? *n : (struct gpm_node){ .id = node };

	if (out.load.cpus == 0)
		out.load.cpus = 1;
	return out;
}

uint32_t gpm_place(struct gpm *g, const uint32_t *nodes, size_t nr)
{
	struct gpm_node *e;
	size_t at;

	ASSERT(nr <= CLUSTER_MAX_MEMBERS);
	if (!nr)
		return 0;
	for (size_t i = 0; i < nr; i++) {
		g->candidates[i] = candidate(g, nodes[i]);
		ASSERT(!i || nodes[i] > nodes[i - 1]);
	}
	at = g->ops->place(g->candidates, nr);
	ASSERT(at < nr);
	e = entry(g, nodes[at]);
	if (e && e->placed < UINT32_MAX)
		e->placed++;
	return nodes[at];
}
