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
#include <processor/account/account.h>
#include <processor/excache/prefetch.h>

#include "aspace.h"

#define SPACE_BYTES   4096u /* of one space: what it always has */
#define MAP_COUNT_MIN 256
#define MAP_COUNT_MAX (1u << 24)
#define VMA_BATCH     32u
#define FIRST_TABLES  8u /* what a small program needs */
#define TABLE_BATCH   16u
#define FEW_TABLES    64u /* a space may have so many in any case */

static uint32_t max_map_count = 65530; /* atomic */
BOOT_PARAM_RANGE("vm.max_map_count", u32, max_map_count, MAP_COUNT_MIN, MAP_COUNT_MAX,
		 "mappings that one address space may have");

COUNTER(kmem_trims, "kmem.trims",
	"page tables freed of programs, when the kernel's memory was short");
COUNTER(maps_refused, "kmem.maps_refused", "mappings refused, as their program has too many");

uint32_t kmem_max_map_count(void)
{
	return READ_ONCE(max_map_count);
}

int kmem_set_max_map_count(uint64_t nr)
{
	if (nr < MAP_COUNT_MIN || nr > MAP_COUNT_MAX)
		return -EINVAL;
	WRITE_ONCE(max_map_count, (uint32_t)nr);
	return 0;
}

/* Its structures, vmas beside: the space, its object, its lease. */
static size_t space_bytes(uint64_t nr_vmas, size_t nr_tables)
{
	return SPACE_BYTES + nr_vmas * sizeof(struct vma) + nr_tables * PAGE_SIZE;
}

int kmem_charge_space(struct aspace *as, struct kmem_account *a, uint64_t nr_vmas)
{
	const uint64_t vmas = nr_vmas + VMA_BATCH;
	int err;

	ASSERT(!as->kmem);
	if (!a)
		return 0;
	err = kmem_charge(a, space_bytes(vmas, FIRST_TABLES));
	if (err)
		return err;
	as->kmem = a;
	as->vmas_charged = vmas;
	spin_lock(&as->lock);
	as->tables_charged = FIRST_TABLES;
	pgtable_set_budget(as->pt, FIRST_TABLES);
	spin_unlock(&as->lock);
	object_charge_to(as->anon, a);
	return 0;
}

void kmem_uncharge_space(struct aspace *as)
{
	lock_not_needed(&as->lock, "the last reference is gone");
	if (as->kmem)
		kmem_uncharge(as->kmem, space_bytes(as->vmas_charged, as->tables_charged));
}

/* --- vmas ------------------------------------------------------------------------------ */

static uint64_t count_vmas(struct aspace *as)
{
	uint64_t nr;

	spin_lock(&as->lock);
	nr = as->nr_vmas;
	spin_unlock(&as->lock);
	return nr;
}

static int charge_vmas(struct aspace *as, uint64_t nr)
{
	const uint64_t more = nr + VMA_BATCH - as->vmas_charged;
	const int err = kmem_charge(as->kmem, more * sizeof(struct vma));

	if (!err)
		as->vmas_charged += more;
	return err;
}

int kmem_may_map(struct aspace *as)
{
	const uint64_t nr = count_vmas(as) + 2;

	assert_mutex_held(&as->map_lock);
	if (nr <= kmem_max_map_count() &&
	    (nr <= as->vmas_charged || !as->kmem || !charge_vmas(as, nr)))
		return 0;
	counter_inc(&maps_refused);
	return -ENOMEM;
}

void kmem_unmapped(struct aspace *as)
{
	uint64_t nr, less;

	assert_mutex_held(&as->map_lock);
	if (as->vmas_charged <= 4 * VMA_BATCH)
		return;
	nr = count_vmas(as);
	if (nr + 4 * VMA_BATCH >= as->vmas_charged)
		return;
	less = as->vmas_charged - nr - VMA_BATCH;
	as->vmas_charged -= less;
	kmem_uncharge(as->kmem, less * sizeof(struct vma));
}

/* --- page tables ----------------------------------------------------------------------- */

static bool has_many_tables(struct aspace *as)
{
	size_t nr;

	spin_lock(&as->lock);
	nr = pgtable_table_pages(as->pt);
	spin_unlock(&as->lock);
	return nr > FEW_TABLES;
}

/* @as may have @nr tables more. */
static void raise_budget(struct aspace *as, size_t nr)
{
	spin_lock(&as->lock);
	as->tables_charged += nr;
	pgtable_set_budget(as->pt, as->tables_charged);
	spin_unlock(&as->lock);
}

/* Free what maps nothing, and give back all of the budget that it does not need. */
static void prune(struct aspace *as)
{
	size_t less;

	spin_lock(&as->lock);
	counter_add(&kmem_trims, pgtable_prune(as->pt));
	less = as->tables_charged -
	       MIN(as->tables_charged, pgtable_table_pages(as->pt) + FIRST_TABLES);
	if (less) {
		as->tables_charged -= less;
		pgtable_set_budget(as->pt, as->tables_charged);
	}
	spin_unlock(&as->lock);
	kmem_uncharge(as->kmem, less * PAGE_SIZE);
}

void kmem_more_tables(struct aspace *as)
{
	size_t nr;

	spin_lock(&as->lock);
	nr = as->tables_charged;
	spin_unlock(&as->lock);
	if (kmem_charge(as->kmem, TABLE_BATCH * PAGE_SIZE) == 0) {
		raise_budget(as, TABLE_BATCH);
	} else if (nr < FEW_TABLES) {
		kmem_charge_anyway(as->kmem, TABLE_BATCH * PAGE_SIZE);
		raise_budget(as, TABLE_BATCH);
	} else {
		aspace_unmap_range(as, 0, SPACE_TOP);
		prune(as);
	}
}

void kmem_trim(struct aspace *as)
{
	if (!has_many_tables(as))
		return;
	aspace_unmap_range(as, 0, SPACE_TOP);
	prune(as);
}
