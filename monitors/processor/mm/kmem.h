/* SPDX-License-Identifier: MIT */
/*
 * The kernel memory of this node that programs make it use.
 *
 * Flow:	what a program can make the kernel keep by itself is bounded where it is made, by a
 *		share of the node's memory or a limit of Linux. Beyond that the program's account
 *		bounds the sum: see <processor/account/account.h>.
 *		An address space is charged for its vmas in batches, by the calls that may make
 *		some, and for page tables by a budget that faults use up without a look at the
 *		account. When the program has had its share, a fault that needs another table
 *		empties all tables of the space: they are a cache.
 */
#pragma once

#include <lib/types.h>

struct aspace;
struct kmem_account;

/*
 * New space @as belongs to a program with account @a and is to get @nr_vmas: charge it. -ENOMEM.
 */
int kmem_charge_space(struct aspace *as, struct kmem_account *a, uint64_t nr_vmas) __must_check;
/* At its end. */
void kmem_uncharge_space(struct aspace *as);
/* A fault has got -EDQUOT for a page table: make it possible. No lock held. */
void kmem_more_tables(struct aspace *as);
/*
 * A call is about to add up to two vmas to @as: -ENOMEM when it has max_map_count of them, or its
 * program has had its share. map_lock is held.
 */
int kmem_may_map(struct aspace *as) __must_check;
/* A call has taken vmas away: the charge for many of them is given back. map_lock is held. */
void kmem_unmapped(struct aspace *as);
/* /proc/sys/vm/max_map_count */
uint32_t kmem_max_map_count(void);
/* For spaces that grow from now on. -EINVAL: fewer than programs need to start, or too many. */
int kmem_set_max_map_count(uint64_t nr) __must_check;
/*
 * Before a fault of @as: when memory is short and its page tables have much of it, they are emptied
 * and freed. They come back by faults that find the lines. No lock held.
 */
void kmem_trim(struct aspace *as);
