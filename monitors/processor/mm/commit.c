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
#include <net/rpc.h>

#define NODE_BITS 16
static_assert(PROTO_NODE_MAX < 1u << NODE_BITS, "a version has room for a node");

/* Send @policy to @node; what holds there then goes to *@now. */
static int tell(uint32_t node, const struct pm_commit *policy, struct pm_commit *now)
{
	struct pm_commit_wire w, rw;
	int ret;

	pm_commit_encode(policy, &w);
	ret = rpc_call_sync(node, RPC_CLASS_CONTROL, PM_COMMIT, &w, sizeof(w), &rw, sizeof(rw), 0);
	return ret < 0 ? ret : pm_commit_decode(&rw, (size_t)ret, now);
}

/* Frames that programs may have at @node; 0: it does not answer. */
static uint64_t programs_of(uint32_t node)
{
	struct pm_meminfo_rep_wire w;
	struct pm_meminfo_rep r;
	const int ret =
		rpc_call_sync(node, RPC_CLASS_CONTROL, PM_MEMINFO, NULL, 0, &w, sizeof(w), 0);

	return ret < 0 || pm_meminfo_rep_decode(&w, (size_t)ret, &r) ? 0 : r.programs;
}

/* The memory nodes, kmalloc()ed. */
static uint32_t *memory_nodes(size_t *nr)
{
	const size_t max = cluster_nodes(NODE_ROLE_MEMORY, NULL, 0);
	uint32_t *nodes = kcalloc(max + 1, sizeof(*nodes));

	*nr = nodes ? MIN(max, cluster_nodes(NODE_ROLE_MEMORY, nodes, max)) : 0;
	return nodes;
}

static int newest(const uint32_t *nodes, size_t nr, struct pm_commit *out)
{
	const struct pm_commit ask = { 0 };
	int err = -EHOSTDOWN;

	for (size_t i = 0; i < nr; i++) {
		struct pm_commit p;

		if (tell(nodes[i], &ask, &p))
			continue;
		if (err || p.version > out->version)
			*out = p;
		err = 0;
	}
	return err;
}

int commit_policy_get(struct pm_commit *policy)
{
	size_t nr;
	uint32_t *nodes = memory_nodes(&nr);
	const int err = nodes ? newest(nodes, nr, policy) : -ENOMEM;

	kfree(nodes);
	return err;
}

int commit_policy_set(void (*change)(struct pm_commit *policy, uint64_t value), uint64_t value)
{
	struct pm_commit policy, now;
	size_t nr;
	uint32_t *nodes = memory_nodes(&nr);
	int err = nodes ? newest(nodes, nr, &policy) : -ENOMEM;

	if (err)
		goto out;
	change(&policy, value);
	policy.version = ((policy.version >> NODE_BITS) + 1) << NODE_BITS | node_self()->id;
	policy.programs = 0;
	for (size_t i = 0; i < nr; i++)
		policy.programs += programs_of(nodes[i]);
	for (size_t i = 0; i < nr; i++)
		if (tell(nodes[i], &policy, &now))
			err = -EIO;
out:
	kfree(nodes);
	return err;
}

bool commit_is_strict(void)
{
	struct pm_commit policy;

	return !commit_policy_get(&policy) && policy.mode == PM_COMMIT_STRICT;
}
