/* SPDX-License-Identifier: MIT */
/*
 * The cluster's policy of commitment: each memory node has a copy, and none is the first.
 *
 * Flow:	to ask is to send the policy of version 0, which changes nothing: the newest
 *		answer holds. To set is to ask, and to send the changed policy with a version above
 *		all that have been seen.
 * Ordering:	two processors that set at the same time use different versions, as a version ends
 *		with the node that made it: the same one of the two holds everywhere.
 * Context:	threads; no lock is held across a message.
 */
#include "commit.h"

#include <cluster/cluster.h>
#include <lib/errno.h>
#include <mm/slab.h>
#include <net/node.h>

/* Frames that programs may have at @node; 0: it does not answer. */
static uint64_t programs_of(uint32_t node)
{
	struct node_memory m;

	return node_memory(node, &m) ? 0 : m.programs;
}

/* The memory nodes, kmalloc()ed. */
static uint32_t *memory_nodes(size_t *nr)
{
	const size_t max = cluster_nodes(NODE_ROLE_MEMORY, NULL, 0);
	uint32_t *nodes = kcalloc(max + 1, sizeof(*nodes));

	*nr = nodes ? MIN(max, cluster_nodes(NODE_ROLE_MEMORY, nodes, max)) : 0;
	return nodes;
}

static int newest(const uint32_t *nodes, size_t nr, struct commit_policy *out)
{
	const struct commit_policy ask = { 0 };
	int err = -EHOSTDOWN;

	for (size_t i = 0; i < nr; i++) {
		struct commit_policy p;

		if (node_commit(nodes[i], &ask, &p))
			continue;
		if (err || p.version > out->version)
			*out = p;
		err = 0;
	}
	return err;
}

int commit_policy_get(struct commit_policy *policy)
{
	size_t nr;
	uint32_t *nodes = memory_nodes(&nr);
	const int err = nodes ? newest(nodes, nr, policy) : -ENOMEM;

	kfree(nodes);
	return err;
}

int commit_policy_set(void (*change)(struct commit_policy *policy, uint64_t value), uint64_t value)
{
	struct commit_policy policy, now;
	size_t nr;
	uint32_t *nodes = memory_nodes(&nr);
	int err = nodes ? newest(nodes, nr, &policy) : -ENOMEM;

	if (err)
		goto out;
	change(&policy, value);
	policy.version =
		((policy.version >> COMMIT_NODE_BITS) + 1) << COMMIT_NODE_BITS | node_self()->id;
	policy.programs = 0;
	for (size_t i = 0; i < nr; i++)
		policy.programs += programs_of(nodes[i]);
	for (size_t i = 0; i < nr; i++)
		/* A newer one that another processor has set holds as well as ours. */
		if (node_commit(nodes[i], &policy, &now) || now.version < policy.version)
			err = -EIO;
out:
	kfree(nodes);
	return err;
}

bool commit_is_strict(void)
{
	struct commit_policy policy;

	return !commit_policy_get(&policy) && policy.mode == COMMIT_STRICT;
}
