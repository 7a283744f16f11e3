/* SPDX-License-Identifier: MIT */
/*
 * Anonymous and shared pages that are fetched before they are asked for: ahead.c.
 */
#pragma once

#include <lib/types.h>

struct aspace;
struct object;

#define AHEAD_MAX 32 /* pages of one message */

struct ahead_list {
	uint32_t nr;
	uint64_t pgoffs[AHEAD_MAX];
};

/*
 * Ask the owner of @list's first page for all of them that are stored there and not in the cache,
 * up to the first that another node owns. A line is only made while the layout of @as (NULL: what
 * there is of the shared object) is at @seq. Never sleeps. How many pages of @list are done with; 0
 * also when no message could be sent.
 */
uint32_t ahead_fetch(struct object *obj, struct aspace *as, uint64_t seq,
		     const struct ahead_list *list);
