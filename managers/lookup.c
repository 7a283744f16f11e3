/* SPDX-License-Identifier: MIT */
/*
 * Placement on every node: the policies of GMM and GSM, applied to the members that this node knows of.
 */
#include <managers/placement.h>

#include <cluster/cluster.h>

#include "placement.h"

static uint32_t choose_home(const uint32_t *nodes, size_t nr, const void *arg)
{
	const uint64_t *aspace = arg;

	return place_home(*aspace, nodes, nr);
}

uint32_t gmm_home_for(uint64_t aspace)
{
	return cluster_choose(NODE_ROLE_MEMORY, choose_home, &aspace);
}

struct vregion {
	uint64_t index;
	uint32_t home;
};

static uint32_t choose_owner(const uint32_t *nodes, size_t nr, const void *arg)
{
	const struct vregion *vr = arg;

	return place_vregion(vr->index, vr->home, nodes, nr);
}

uint32_t gmm_owner_for(uint64_t aspace, uint64_t index, uint32_t home)
{
	const struct vregion vr = { .index = index, .home = home };

	return cluster_choose(NODE_ROLE_MEMORY, choose_owner, &vr);
}

static uint32_t choose_cache_node(const uint32_t *nodes, size_t nr, const void *arg)
{
	return proto_file_cache_node(arg, nodes, nr);
}

uint32_t gsm_cache_node_for(const struct proto_file *file)
{
	return cluster_choose(NODE_ROLE_MEMORY, choose_cache_node, file);
}

/* The placement of files comes with several storage nodes; the first one has them all. */
static uint32_t choose_storage(const uint32_t *nodes, size_t nr, const void *arg)
{
	return nodes[0];
}

uint32_t gsm_storage_for(const char *path)
{
	return cluster_choose(NODE_ROLE_STORAGE, choose_storage, path);
}
