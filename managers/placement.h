/* SPDX-License-Identifier: MIT */
/*
 * Placement policies as pure functions: they also link into a host simulator.
 *
 * @nodes: ids of the live memory nodes, ascending; nr >= 1.
 */
#pragma once

#include <lib/types.h>

/* GMM: the home of a new address space. Spaces of one processor take turns over the nodes. */
uint32_t place_home(uint64_t aspace, const uint32_t *nodes, size_t nr);
/* GMM: the owner of vRegion @index of a space: regions alternate over the nodes, beginning at the home. */
uint32_t place_vregion(uint64_t index, uint32_t home, const uint32_t *nodes, size_t nr);
