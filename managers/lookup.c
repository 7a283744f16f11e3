/* SPDX-License-Identifier: MIT */
/*
 * Placement on every node: the policies of GMM and GSM, applied to the members that this node
 * knows of.
 */
#include <managers/placement.h>

#include <cluster/cluster.h>
#include <managers/policy.h>

static const struct gmm_ops *const gmm = &gmm_round_robin;
static const struct gsm_ops *const gsm = &gsm_hash;

static uint32_t choose_home(const uint32_t *ids, size_t nr, const void *arg)
{
	const uint64_t *aspace = arg;

	return gmm->home(&(struct memory_nodes){ ids, nr }, *aspace);
}

uint32_t gmm_home_for(uint64_t aspace)
{
	return cluster_choose(NODE_ROLE_MEMORY, choose_home, &aspace);
}

struct vregion {
	uint64_t index;
	uint32_t home;
};

static uint32_t choose_owner(const uint32_t *ids, size_t nr, const void *arg)
{
	const struct vregion *vr = arg;

	return gmm->owner(&(struct memory_nodes){ ids, nr }, vr->index, vr->home);
}

uint32_t gmm_owner_for(uint64_t aspace, uint64_t index, uint32_t home)
{
	const struct vregion vr = { .index = index, .home = home };

	return cluster_choose(NODE_ROLE_MEMORY, choose_owner, &vr);
}

static uint32_t choose_cache_node(const uint32_t *ids, size_t nr, const void *arg)
{
	return gsm->cache_node(&(struct memory_nodes){ ids, nr }, arg);
}

uint32_t gsm_cache_node_for(const struct proto_file *file)
{
	return cluster_choose(NODE_ROLE_MEMORY, choose_cache_node, file);
}

static uint32_t choose_storage(const uint32_t *ids, size_t nr, const void *arg)
{
	return gsm->storage(&(struct storage_nodes){ ids, nr }, arg);
}

uint32_t gsm_storage_for(const char *path)
{
	return cluster_choose(NODE_ROLE_STORAGE, choose_storage, path);
}
