/* SPDX-License-Identifier: MIT */
/*
 * The cluster's policy of commitment: each memory node has a copy, and none is the first.
 *
 * Flow:	to ask is to send the policy of version 0, which changes nothing: the newest
 *		answer holds. To set is to ask, and to send the changed policy with a version above
 *		all that have been seen.
 * Ordering:	two processors that set at the same time use different versions, as a version ends
 *		with the node that made it: the same one of the two holds everywhere.
 * Failure:	a node that does not answer for a second has not answered. Nothing is set unless
 *		all answer the question before.
 * Context:	threads; no lock is held across a message.
 */
#include "commit.h"

#include <cluster/cluster.h>
#include <lib/errno.h>
#include <mm/slab.h>
#include <net/node.h>

/* Add the frames that programs may have at each of @nodes. */
static int add_programs(const uint32_t *nodes, size_t nr, uint64_t *programs)
{
	struct node_memory m;

	for (size_t i = 0; i < nr; i++) {
		if (node_memory(nodes[i], &m))
			return -EIO;
		*programs += m.programs;
	}
	return 0;
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
	err = add_programs(nodes, nr, &policy.programs);
	if (err)
		goto out;
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
