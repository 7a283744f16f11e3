/* SPDX-License-Identifier: MIT */
/*
 * The kernel memory of this node that programs make it use.
 *
 * Flow:	what a program can make the kernel keep by itself is bounded where it is made, by a
 *		share of the node's memory or a limit of Linux. Beyond that an eighth of what was
 *		free at start is a reserve: when less is free, a program that has much gets no more,
 *		while the others go on in the reserve.
 */
#pragma once

#include <lib/types.h>

struct aspace;

/* Once at start, when the cache has its frames. */
void kmem_init(void);
/* Less is free than the reserve. */
bool kmem_is_short(void);
/*
 * A call is about to add up to two vmas to @as: -ENOMEM when it has max_map_count of them, or many
 * while memory is short.
 */
int kmem_may_map(struct aspace *as) __must_check;
/* /proc/sys/vm/max_map_count */
uint32_t kmem_max_map_count(void);
/*
 * Before a fault of @as: when memory is short and its page tables have much of it, they are emptied
 * and freed. They come back by faults that find the lines. No lock held.
 */
void kmem_trim(struct aspace *as);
