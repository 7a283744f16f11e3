/* SPDX-License-Identifier: MIT */
/* GMM: the policy. */
#include <managers/policy.h>

static uint32_t round_robin_home(const struct memory_nodes *nodes, uint64_t aspace)
{
	return nodes->ids[aspace % nodes->nr];
}

static uint32_t round_robin_owner(const struct memory_nodes *nodes, uint64_t index, uint32_t home)
{
	size_t at = 0;

	while (at < nodes->nr - 1 && nodes->ids[at] != home)
		at++;
	return nodes->ids[(at + index) % nodes->nr];
}

const struct gmm_ops gmm_round_robin = {
	.name = "round-robin",
	.home = round_robin_home,
	.owner = round_robin_owner,
};
