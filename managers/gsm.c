/* SPDX-License-Identifier: MIT */
/* GSM: the policy. */
#include <managers/policy.h>

#include <lib/hash.h>

static uint32_t hash_cache_node(const struct memory_nodes *nodes, const struct proto_file *file)
{
	const uint64_t hash = hash64_pair(file->ino, (uint64_t)file->gen << 32 | file->node);

	return nodes->ids[hash % nodes->nr];
}

/* The placement of files comes with several storage nodes. */
static uint32_t first_storage(const struct storage_nodes *nodes, const char *path)
{
	return nodes->ids[0];
}

const struct gsm_ops gsm_hash = {
	.name = "hash",
	.cache_node = hash_cache_node,
	.storage = first_storage,
};
