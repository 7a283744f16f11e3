/* SPDX-License-Identifier: MIT */
/*
 * Kernel memory of programs: see kmem.h.
 *
 * Ordering:	page table entries go as for any eviction, lines' own first; then the tables, under
 *		the space's lock, after a flush.
 */
#include "kmem.h"

#include <arch/pgtable.h>
#include <kernel/bootparam.h>
#include <kernel/counter.h>
#include <lib/errno.h>
#include <mm/frame.h>
#include <processor/excache/prefetch.h>

#include "aspace.h"

#define RESERVE_SHARE 8u
#define FEW_TABLES    64u  /* a space may have so many in any case */
#define FEW_VMAS      256u /* and so many vmas */

static uint64_t reserve_frames; /* const after start */
static uint32_t max_map_count = 65530;
BOOT_PARAM_RANGE("vm.max_map_count", u32, max_map_count, 256, 1u << 24,
		 "mappings that one address space may have");

COUNTER(kmem_trims, "kmem.trims",
	"page tables freed of programs, when the kernel's memory was short");
COUNTER(kmem_refused, "kmem.refused", "mappings refused, as their program has too many");

void kmem_init(void)
{
	reserve_frames = frames_free_count() / RESERVE_SHARE;
}

bool kmem_is_short(void)
{
	return frames_free_count() < reserve_frames;
}

uint32_t kmem_max_map_count(void)
{
	return max_map_count;
}

int kmem_may_map(struct aspace *as)
{
	uint64_t nr;

	spin_lock(&as->lock);
	nr = as->nr_vmas;
	spin_unlock(&as->lock);
	if (nr + 2 <= max_map_count && (nr < FEW_VMAS || !kmem_is_short()))
		return 0;
	counter_inc(&kmem_refused);
	return -ENOMEM;
}

static bool has_many_tables(struct aspace *as)
{
	size_t nr;

	spin_lock(&as->lock);
	nr = pgtable_table_pages(as->pt);
	spin_unlock(&as->lock);
	return nr > FEW_TABLES;
}

void kmem_trim(struct aspace *as)
{
	if (!has_many_tables(as))
		return;
	aspace_unmap_range(as, 0, SPACE_TOP);
	spin_lock(&as->lock);
	counter_add(&kmem_trims, pgtable_prune(as->pt));
	spin_unlock(&as->lock);
}
