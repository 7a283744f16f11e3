/* SPDX-License-Identifier: MIT */
/*
 * Placement on every node: the policies of GMM and GSM, applied to the members that this node
 * knows of.
 */
#include <managers/placement.h>

#include <cluster/cluster.h>
#include <kernel/boot.h>
#include <kernel/bootparam.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <managers/policy.h>

static const struct gmm_ops *const gmm = &gmm_round_robin;
static const struct gsm_ops *const gsm = &gsm_hash;

bool gpm_one_processor(void)
{
	return cluster_has_one(NODE_ROLE_PROCESSOR);
}

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

/* --- file systems ------------------------------------------------------------------------- */

static struct {
	struct gsm_mount all[CLUSTER_MAX_MEMBERS];
	size_t nr;
} mounts; /* const once boot parameters are read */

static char mounts_text[sizeof(((struct boot_info *)NULL)->cmdline)];

static int set_mounts(const char *value)
{
	if (strlcpy(mounts_text, value, sizeof(mounts_text)) >= sizeof(mounts_text))
		return -EINVAL;
	return gsm_mounts_parse(mounts_text, mounts.all, ARRAY_SIZE(mounts.all), &mounts.nr);
}
BOOT_PARAM_CB("mounts", set_mounts,
	      "file systems beside the root: where, and the storage node that has it: "
	      "/data:5,/srv:6");

const char *gsm_mount_at(size_t i)
{
	return i < mounts.nr ? mounts.all[i].at : NULL;
}

static uint32_t choose_storage(const uint32_t *ids, size_t nr, const void *arg)
{
	return gsm->storage(&(struct storage_nodes){ ids, nr, mounts.all, mounts.nr }, arg);
}

uint32_t gsm_storage_for(const char *at)
{
	/* One that is configured needs no member to be there. */
	const uint32_t node = choose_storage(NULL, 0, at);

	return node ? node : cluster_choose(NODE_ROLE_STORAGE, choose_storage, at);
}
