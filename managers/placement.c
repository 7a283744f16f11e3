/* SPDX-License-Identifier: MIT */
/* Placement policies as pure functions. */
#include "placement.h"

uint32_t place_home(uint64_t aspace, const uint32_t *nodes, size_t nr)
{
	return nodes[aspace % nr];
}

uint32_t place_vregion(uint64_t index, uint32_t home, const uint32_t *nodes, size_t nr)
{
	size_t at = 0;

	while (at < nr - 1 && nodes[at] != home)
		at++;
	return nodes[(at + index) % nr];
}
