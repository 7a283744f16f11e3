/* SPDX-License-Identifier: MIT */
#include <arch/cpu.h>
#include <arch/kpgtable.h>
#include <arch/layout.h>
#include <arch/pgtable.h>
#include <kernel/boot.h>
#include <kernel/preempt.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/ktest.h>
#include <mm/frame.h>
#include <mm/kmap.h>

#include "arch_private.h"
#include "pte.h"

#define VA    0x123456789000ul
#define TABLE 0x123456600000ul /* where a level-1 table begins */

static void map_query_unmap(struct ktest *t)
{
	struct pgtable *pt = pgtable_create();
	struct pgtable_entry e;

	ASSERT_FALSE(t, IS_ERR(pt));
	EXPECT_FALSE(t, pgtable_query(pt, VA, &e));
	ASSERT_EQ(t, pgtable_map(pt, VA, 0x5000, PGT_READ | PGT_WRITE), 0);
	EXPECT_EQ(t, pgtable_table_pages(pt), 4);
	ASSERT_TRUE(t, pgtable_query(pt, VA, &e));
	EXPECT_EQ(t, e.paddr, 0x5000);
	EXPECT_EQ(t, e.prot, PGT_READ | PGT_WRITE);
	EXPECT_FALSE(t, e.accessed || e.dirty);
	EXPECT_FALSE(t, pgtable_query(pt, VA + PAGE_SIZE, &e));
	EXPECT_TRUE(t, pgtable_protect(pt, VA, PGT_READ | PGT_EXEC));
	EXPECT_TRUE(t, pgtable_query(pt, VA, &e));
	EXPECT_EQ(t, e.prot, PGT_READ | PGT_EXEC);
	/* No access at all keeps the frame. */
	EXPECT_TRUE(t, pgtable_protect(pt, VA, PGT_NONE));
	EXPECT_TRUE(t, pgtable_query(pt, VA, &e));
	EXPECT_EQ(t, e.prot, PGT_NONE);
	EXPECT_EQ(t, e.paddr, 0x5000);
	pgtable_unmap(pt, VA, &e);
	EXPECT_TRUE(t, e.present);
	EXPECT_EQ(t, e.paddr, 0x5000);
	EXPECT_FALSE(t, pgtable_query(pt, VA, &e));
	EXPECT_FALSE(t, pgtable_protect(pt, VA, PGT_READ));
	pgtable_unmap(pt, VA, &e);
	EXPECT_FALSE(t, e.present);
	EXPECT_EQ(t, pgtable_table_pages(pt), 4); /* they stay */
	pgtable_destroy(pt);
}

static void empty_tables_are_pruned(struct ktest *t)
{
	const vaddr_t far = VA + 3 * pt_level_size(3), next = VA + pt_level_size(2);
	struct pgtable *pt = pgtable_create();
	struct pgtable_entry e;

	ASSERT_FALSE(t, IS_ERR(pt));
	EXPECT_EQ(t, pgtable_prune(pt), 0);
	for (unsigned int round = 0; round < 2; round++) {
		ASSERT_EQ(t, pgtable_map(pt, VA, 0x5000, PGT_READ), 0);
		ASSERT_EQ(t, pgtable_map(pt, next, 0x6000, PGT_READ), 0);
		ASSERT_EQ(t, pgtable_map(pt, far, 0x7000, PGT_READ), 0);
		EXPECT_EQ(t, pgtable_table_pages(pt), 7);
		EXPECT_EQ(t, pgtable_prune(pt), 0);
		EXPECT_TRUE(t, pgtable_protect(pt, next, PGT_NONE)); /* it keeps its frame */
		EXPECT_EQ(t, pgtable_prune(pt), 0);
		pgtable_unmap(pt, far, NULL);
		EXPECT_EQ(t, pgtable_prune(pt), 2);
		EXPECT_TRUE(t, pgtable_query(pt, VA, &e));
		EXPECT_TRUE(t, pgtable_query(pt, next, &e));
		pgtable_unmap(pt, next, NULL);
		pgtable_unmap(pt, VA, NULL);
		EXPECT_EQ(t, pgtable_prune(pt), 4);
		EXPECT_EQ(t, pgtable_table_pages(pt), 1);
		EXPECT_FALSE(t, pgtable_query(pt, VA, &e));
	}
	pgtable_destroy(pt);
}

/* Neighbours go to the table that was used last. */
static void new_pages_replace_nothing(struct ktest *t)
{
	struct pgtable *pt = pgtable_create();
	struct pgtable_entry e;

	ASSERT_FALSE(t, IS_ERR(pt));
	for (unsigned int round = 0; round < 2; round++) {
		EXPECT_EQ(t, pgtable_map_new(pt, VA, 0x5000, PGT_READ), 0);
		EXPECT_EQ(t, pgtable_map_new(pt, VA + PAGE_SIZE, 0x6000, PGT_READ), 0);
		EXPECT_EQ(t, pgtable_map_new(pt, VA + pt_level_size(2), 0x7000, PGT_READ), 0);
		EXPECT_EQ(t, pgtable_table_pages(pt), 5);
		EXPECT_EQ(t, pgtable_map_new(pt, VA + PAGE_SIZE, 0x8000, PGT_READ), -EEXIST);
		EXPECT_TRUE(t, pgtable_protect(pt, VA, PGT_NONE));
		EXPECT_EQ(t, pgtable_map_new(pt, VA, 0x8000, PGT_READ), -EEXIST);
		EXPECT_EQ(t, pgtable_map_new(pt, VA | 1, 0x8000, PGT_READ), -EINVAL);
		ASSERT_TRUE(t, pgtable_query(pt, VA + PAGE_SIZE, &e));
		EXPECT_EQ(t, e.paddr, 0x6000);
		ASSERT_TRUE(t, pgtable_query(pt, VA + pt_level_size(2), &e));
		EXPECT_EQ(t, e.paddr, 0x7000);
		EXPECT_TRUE(t, pgtable_clear(pt, VA));
		EXPECT_FALSE(t, pgtable_clear(pt, VA));
		EXPECT_TRUE(t, pgtable_clear(pt, VA + pt_level_size(2)));
		EXPECT_TRUE(t, pgtable_clear(pt, VA + PAGE_SIZE));
		EXPECT_FALSE(t, pgtable_query(pt, VA + PAGE_SIZE, &e));
	}
	pgtable_destroy(pt);
}

static void write_protection_keeps_the_rest(struct ktest *t)
{
	struct pgtable *pt = pgtable_create();
	static const struct {
		vaddr_t vaddr;
		unsigned int prot, want;
	} pages[] = {
		{ VA - PAGE_SIZE, PGT_READ | PGT_WRITE,
		  PGT_READ | PGT_WRITE }, /* below the range */
		{ VA, PGT_READ | PGT_WRITE, PGT_READ },
		{ VA + PAGE_SIZE, PGT_READ | PGT_WRITE | PGT_EXEC, PGT_READ | PGT_EXEC },
		{ VA + 2 * PAGE_SIZE, PGT_READ, PGT_READ },
		{ VA + 3 * PAGE_SIZE, PGT_NONE, PGT_NONE },
		{ VA + (1ul << 30), PGT_READ | PGT_WRITE, PGT_READ },
		{ VA + (1ul << 31), PGT_READ | PGT_WRITE, PGT_READ | PGT_WRITE }, /* the end */
	};
	struct pgtable_entry e;

	ASSERT_FALSE(t, IS_ERR(pt));
	for (size_t i = 0; i < ARRAY_SIZE(pages); i++)
		ASSERT_EQ(t, pgtable_map(pt, pages[i].vaddr, 0x5000 + i * PAGE_SIZE, pages[i].prot),
			  0);
	EXPECT_EQ(t, pgtable_write_protect(pt, VA, VA + (1ul << 31)), 3u);
	EXPECT_EQ(t, pgtable_write_protect(pt, VA, VA + (1ul << 31)), 0u);
	for (size_t i = 0; i < ARRAY_SIZE(pages); i++) {
		EXPECT_TRUE(t, pgtable_query(pt, pages[i].vaddr, &e));
		EXPECT_EQ(t, e.prot, pages[i].want);
		EXPECT_EQ(t, e.paddr, 0x5000 + i * PAGE_SIZE);
		pgtable_unmap(pt, pages[i].vaddr, NULL);
	}
	pgtable_destroy(pt);
}

static int count_entries(vaddr_t vaddr, const struct pgtable_entry *e, void *arg)
{
	(*(unsigned int *)arg)++;
	return 0;
}

/* Across the end of a table, around what is there; and these entries can be passed over. */
static void absent_pages_are_mapped_together(struct ktest *t)
{
	struct pgtable *pt = pgtable_create();
	const vaddr_t base = TABLE + 510 * PAGE_SIZE;
	const paddr_t frames[] = { 0x5000, 0, 0x6000, 0x7000, 0x8000 };
	unsigned int all = 0, tracked = 0;
	struct pgtable_entry e;

	ASSERT_FALSE(t, IS_ERR(pt));
	ASSERT_EQ(t, pgtable_map(pt, base + 3 * PAGE_SIZE, 0x9000, PGT_READ), 0);
	EXPECT_EQ(t,
		  pgtable_map_absent(pt, base, frames, ARRAY_SIZE(frames),
				     PGT_READ | PGT_EXEC | PGT_AROUND),
		  0x15u);
	for (unsigned int i = 0; i < ARRAY_SIZE(frames); i++) {
		EXPECT_EQ(t, pgtable_query(pt, base + i * PAGE_SIZE, &e), i != 1);
		EXPECT_EQ(t, e.paddr, i == 3 ? 0x9000u : frames[i]);
		EXPECT_EQ(t, e.prot,
			  i == 3   ? PGT_READ
			  : i == 1 ? 0u
				   : (PGT_READ | PGT_EXEC | PGT_AROUND));
	}
	(void)pgtable_walk(pt, 0, USER_TOP, count_entries, &all);
	(void)pgtable_walk_tracked(pt, 0, USER_TOP, count_entries, &tracked);
	EXPECT_EQ(t, all, 4u);
	EXPECT_EQ(t, tracked, 1u);
	EXPECT_TRUE(t, pgtable_protect(pt, base, PGT_READ));
	EXPECT_TRUE(t, pgtable_query(pt, base, &e));
	EXPECT_EQ(t, e.prot, PGT_READ);
	pgtable_destroy(pt);
}

static void bad_addresses_are_refused(struct ktest *t)
{
	struct pgtable *pt = pgtable_create();
	struct pgtable_entry e;

	ASSERT_FALSE(t, IS_ERR(pt));
	EXPECT_EQ(t, pgtable_map(pt, USER_TOP, 0x5000, PGT_READ), -EINVAL);
	EXPECT_EQ(t, pgtable_map(pt, KERNEL_BASE, 0x5000, PGT_READ), -EINVAL);
	EXPECT_EQ(t, pgtable_map(pt, VA + 1, 0x5000, PGT_READ), -EINVAL);
	EXPECT_EQ(t, pgtable_map(pt, VA, 0x5001, PGT_READ), -EINVAL);
	EXPECT_EQ(t, pgtable_map(pt, VA, 1ul << 60, PGT_READ), -EINVAL);
	EXPECT_FALSE(t, pgtable_query(pt, KERNEL_BASE + KERNEL_PHYS, &e));
	EXPECT_FALSE(t, pgtable_protect(pt, DIRECT_MAP_BASE, PGT_WRITE));
	pgtable_unmap(pt, KERNEL_BASE + KERNEL_PHYS, &e);
	EXPECT_FALSE(t, e.present);
	pgtable_destroy(pt);
}

/* Through the loaded tables, at kernel privilege with SMAP lifted. */
static void cpu_sets_accessed_and_dirty(struct ktest *t)
{
	struct pgtable *pt = pgtable_create();
	struct frame *f = frame_alloc(0, FRAME_ZERO);
	volatile uint64_t *p = (volatile uint64_t *)VA;
	struct pgtable_entry e;

	ASSERT_TRUE(t, !IS_ERR(pt) && f);
	ASSERT_EQ(t, pgtable_map(pt, VA, frame_to_paddr(f), PGT_READ | PGT_WRITE), 0);
	preempt_disable();
	pgtable_activate(pt);
	if (cpu_features.smap)
		__asm__ volatile("stac" ::: "cc", "memory");
	EXPECT_EQ(t, *p, 0);
	EXPECT_TRUE(t, pgtable_query(pt, VA, &e));
	EXPECT_TRUE(t, e.accessed);
	EXPECT_FALSE(t, e.dirty);
	*p = 5;
	EXPECT_TRUE(t, pgtable_query(pt, VA, &e));
	EXPECT_TRUE(t, e.dirty);
	EXPECT_TRUE(t, pgtable_test_clear_accessed(pt, VA));
	EXPECT_FALSE(t, pgtable_test_clear_accessed(pt, VA));
	EXPECT_TRUE(t, pgtable_test_clear_dirty(pt, VA));
	EXPECT_FALSE(t, pgtable_test_clear_dirty(pt, VA));
	EXPECT_TRUE(t, pgtable_set_dirty(pt, VA));
	EXPECT_FALSE(t, pgtable_set_dirty(pt, VA + PAGE_SIZE));
	EXPECT_TRUE(t, pgtable_test_clear_dirty(pt, VA));
	tlb_flush_range(pt, VA, VA + PAGE_SIZE);
	EXPECT_EQ(t, *p, 5u); /* loaded into the TLB as clean */
	EXPECT_FALSE(t, pgtable_test_clear_dirty(pt, VA));
	*p = 6;
	if (cpu_features.smap)
		__asm__ volatile("clac" ::: "cc", "memory");
	pgtable_unmap(pt, VA, &e);
	pgtable_activate(NULL);
	preempt_enable();
	EXPECT_TRUE(t, e.dirty && e.accessed);
	EXPECT_EQ(t, *(uint64_t *)frame_to_virt(f), 6);
	frame_free(f, 0);
	pgtable_destroy(pt);
}

struct walk_log {
	unsigned int nr;
	vaddr_t at[16];
	unsigned int stop_at;
};

static int log_entry(vaddr_t vaddr, const struct pgtable_entry *e, void *arg)
{
	struct walk_log *l = arg;

	if (l->nr < ARRAY_SIZE(l->at))
		l->at[l->nr] = vaddr;
	return ++l->nr == l->stop_at ? 42 : 0;
}

static void walk_finds_the_range(struct ktest *t)
{
	static const vaddr_t at[] = { 0x1000,     0x2000,       0x200000,
				      0x40000000, 0x8000000000, USER_TOP - PAGE_SIZE };
	struct pgtable *pt = pgtable_create();
	struct walk_log all = { 0 };
	struct walk_log some = { 0 };
	struct walk_log first = { .stop_at = 1 };

	ASSERT_FALSE(t, IS_ERR(pt));
	for (unsigned int i = 0; i < ARRAY_SIZE(at); i++)
		ASSERT_EQ(t, pgtable_map(pt, at[i], 0x9000, i & 1 ? PGT_NONE : PGT_READ), 0);
	EXPECT_EQ(t, pgtable_walk(pt, 0, UINT64_MAX, log_entry, &all), 0);
	ASSERT_EQ(t, all.nr, ARRAY_SIZE(at));
	for (unsigned int i = 0; i < ARRAY_SIZE(at); i++)
		EXPECT_EQ(t, all.at[i], at[i]);
	EXPECT_EQ(t, pgtable_walk(pt, 0x2000, 0x40000000, log_entry, &some), 0);
	EXPECT_EQ(t, some.nr, 2);
	EXPECT_EQ(t, some.at[0], 0x2000);
	EXPECT_EQ(t, some.at[1], 0x200000);
	EXPECT_EQ(t, pgtable_walk(pt, 0x2001, UINT64_MAX, log_entry, &first), 42);
	EXPECT_EQ(t, first.at[0], 0x200000);
	EXPECT_EQ(t, pgtable_walk(pt, 0x3000, 0x3000, log_entry, &some), 0);
	EXPECT_EQ(t, some.nr, 2);
	pgtable_destroy(pt);
}

/*
 * Walks look at groups of entries that were used: pages at the edges of groups, used again after
 * unmapping.
 */
static void edges_of_groups_are_walked(struct ktest *t)
{
	static const unsigned int index[] = { 0, 7, 8, 63, 64, 448, 503, 504, 511 };
	struct pgtable *pt = pgtable_create();
	struct walk_log all = { 0 };

	ASSERT_FALSE(t, IS_ERR(pt));
	for (unsigned int round = 0; round < 2; round++) {
		all.nr = 0;
		for (unsigned int i = 0; i < ARRAY_SIZE(index); i++)
			ASSERT_EQ(t,
				  pgtable_map(pt, TABLE + index[i] * PAGE_SIZE, 0x9000,
					      PGT_READ | PGT_WRITE),
				  0);
		EXPECT_EQ(t, pgtable_walk(pt, 0, USER_TOP, log_entry, &all), 0);
		ASSERT_EQ(t, all.nr, ARRAY_SIZE(index));
		for (unsigned int i = 0; i < ARRAY_SIZE(index); i++)
			EXPECT_EQ(t, all.at[i], TABLE + index[i] * PAGE_SIZE);
		EXPECT_EQ(t, pgtable_write_protect(pt, 0, USER_TOP), ARRAY_SIZE(index));
		for (unsigned int i = 0; i < ARRAY_SIZE(index); i++)
			pgtable_unmap(pt, TABLE + index[i] * PAGE_SIZE, NULL);
		EXPECT_EQ(t, pgtable_table_pages(pt), 4u);
	}
	pgtable_destroy(pt);
}

static void all_table_pages_come_back(struct ktest *t)
{
	const uint64_t before = frames_free_count();
	struct pgtable *pt = pgtable_create();

	ASSERT_FALSE(t, IS_ERR(pt));
	for (vaddr_t v = 0x10000; v < USER_TOP - 0x40000000; v += USER_TOP / 37 & ~PAGE_MASK_LOW)
		ASSERT_EQ(t, pgtable_map(pt, v, 0x9000, PGT_READ), 0);
	pgtable_destroy(pt);
	EXPECT_GE(t, frames_free_count() + 1, before); /* a slab page may stay */
}

/* W^X over the whole kernel image, and nothing executable outside its text. */
static void kernel_image_is_w_xor_x(struct ktest *t)
{
	paddr_t paddr;
	bool write;
	bool exec;

	for (vaddr_t v = (vaddr_t)image_start; v < (vaddr_t)image_end; v += PAGE_SIZE) {
		const bool text = v < (vaddr_t)text_end;
		const bool data = v >= (vaddr_t)data_start;

		ASSERT_TRUE(t, kpt_query(v, &paddr, &write, &exec));
		ASSERT_EQ(t, exec, text);
		ASSERT_EQ(t, write, data);
		ASSERT_EQ(t, paddr, v - KERNEL_BASE);
		/* The same page in the direct map. */
		ASSERT_TRUE(t, kpt_query(DIRECT_MAP_BASE + paddr, &paddr, &write, &exec));
		ASSERT_FALSE(t, exec);
		ASSERT_EQ(t, write, data);
	}
	EXPECT_FALSE(t, kpt_query(0, &paddr, &write, &exec));
	EXPECT_FALSE(t, kpt_query(KERNEL_PHYS, &paddr, &write, &exec));
	for (unsigned int i = 0; i < boot_info.nr_mem; i++) {
		const struct boot_mem *m = &boot_info.mem[i];

		for (paddr_t p = ALIGN_UP(m->base, PAGE_SIZE);
		     m->type == BOOT_MEM_RAM && p + PAGE_SIZE <= m->base + m->size;
		     p += 511 * PAGE_SIZE) {
			ASSERT_TRUE(t, kpt_query(DIRECT_MAP_BASE + p, &paddr, &write, &exec));
			ASSERT_EQ(t, paddr, p);
			ASSERT_FALSE(t, exec);
		}
	}
}

static const struct ktest_case pgtable_cases[] = {
	KTEST(map_query_unmap),
	KTEST(empty_tables_are_pruned),
	KTEST(new_pages_replace_nothing),
	KTEST(write_protection_keeps_the_rest),
	KTEST(absent_pages_are_mapped_together),
	KTEST(bad_addresses_are_refused),
	KTEST(cpu_sets_accessed_and_dirty),
	KTEST(walk_finds_the_range),
	KTEST(all_table_pages_come_back),
	KTEST(edges_of_groups_are_walked),
	KTEST(kernel_image_is_w_xor_x),
	{ 0 },
};
static const struct ktest_suite pgtable_suite = { .name = "arch.pgtable", .cases = pgtable_cases };
KTEST_SUITE(pgtable_suite);
