/* SPDX-License-Identifier: MIT */
/*
 * Placement as the nodes ask for it: the managers' policies, applied to the members that this node
 * knows of.
 *
 * Context:	anywhere but in interrupts; gpm_place_program() in threads that may sleep.
 * Failure:	0 when the cluster has no member of the role.
 */
#pragma once

#include <lib/compiler.h>
#include <lib/errno.h>
#include <lib/types.h>
#include <proto/types.h>

/* GMM: home memory node of a new address space. */
uint32_t gmm_home_for(uint64_t aspace);
/* GMM: memory node that is to own vRegion @index of @aspace, whose home is @home. */
uint32_t gmm_owner_for(uint64_t aspace, uint64_t index, uint32_t home);
/* GSM: memory node that holds the page cache of @file: the same answer on every node. */
uint32_t gsm_cache_node_for(const struct proto_file *file);
/* GSM: storage node of the file system mounted at @at; 0: it has not come yet. */
uint32_t gsm_storage_for(const char *at);
/* Where the file systems beside the root's are mounted, in no order; NULL: there are no more. */
const char *gsm_mount_at(size_t i);

/* GPM: was the cluster made with one processor? No second one comes to it then. */
bool gpm_one_processor(void);

/*
 * GPM: processor node for a new program of @vnode, from approximate load reports: one of those on
 * which the vNode is placed. 0; -ENOSYS: this node does not host the managers; -EHOSTDOWN: there is
 * no processor; -ENOENT: no such vNode.
 */
#ifdef CONFIG_MANAGERS
int gpm_place_program(uint32_t vnode, uint32_t *node) __must_check;
#else
static inline int __must_check gpm_place_program(uint32_t vnode, uint32_t *node)
{
	return -ENOSYS;
}
#endif
