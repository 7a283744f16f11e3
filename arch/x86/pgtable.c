/* SPDX-License-Identifier: MIT */
/*
 * User page tables.
 *
 * Flow:	the upper half of the level-4 table is a copy of the kernel's, which
 *		never changes; the lower half belongs to the user.
 * Invariants:	a table's frame has a bit for each group of 8 entries that may be in use
 *		(private): walks look at those only. A bit is set before its entry and stays
 *		until the table is freed, with its space or by pgtable_prune().
 *		Near: changes to neighbouring pages find their table without the walk.
 * Locking:	the caller's for changes.  Entries are read and written whole; the CPU
 *		sets accessed and dirty bits concurrently, so changes to a live entry are
 *		atomic read-modify-writes.
 * See:		tlb.c for flushes.
 */
#include <arch/cpu.h>
#include <arch/pgtable.h>
#include <kernel/panic.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <mm/frame.h>
#include <mm/kmap.h>
#include <mm/slab.h>

#include "arch_private.h"
#include "pgtable_private.h"
#include "pte.h"

#define GROUP (PT_ENTRIES / 64)

static uint64_t *entry_table(uint64_t e)
{
	return phys_to_virt(e & PTE_ADDR);
}

static uint64_t *groups_of(const uint64_t *t)
{
	return &virt_to_frame(t)->private;
}

static void note_used(uint64_t *t, unsigned int i)
{
	*groups_of(t) |= BIT64(i / GROUP);
}

/* The first entry of @t from @i on that may be in use; PT_ENTRIES: there is none. */
static unsigned int next_used(const uint64_t *t, unsigned int i)
{
	const uint64_t groups = i < PT_ENTRIES ? *groups_of(t) >> (i / GROUP) : 0;

	if (!groups)
		return PT_ENTRIES;
	return groups & 1 ? i : (i / GROUP + (unsigned int)__builtin_ctzll(groups)) * GROUP;
}

#define for_each_used(i, t, first) \
	for (i = next_used(t, first); i < PT_ENTRIES; i = next_used(t, i + 1))

static uint64_t *table_alloc(struct pgtable *pt)
{
	struct frame *f = pt->nr_tables < pt->budget ? frame_alloc(0, FRAME_ZERO) : NULL;

	if (!f)
		return NULL;
	pt->nr_tables++;
	return frame_to_virt(f);
}

static void table_free(struct pgtable *pt, uint64_t *t)
{
	ASSERT(pt->nr_tables > 0);
	pt->nr_tables--;
	frame_free(virt_to_frame(t), 0);
}

struct pgtable *pgtable_create(void)
{
	struct pgtable *pt = kzalloc(sizeof(*pt));

	if (!pt)
		return ERR_PTR(-ENOMEM);
	pt->budget = SIZE_MAX;
	pt->pml4 = table_alloc(pt);
	if (!pt->pml4) {
		kfree(pt);
		return ERR_PTR(-ENOMEM);
	}
	memcpy(pt->pml4 + PT_ENTRIES / 2, kernel_pml4 + PT_ENTRIES / 2, PAGE_SIZE / 2);
	pt->cr3 = virt_to_phys(pt->pml4);
	return pt;
}

static void free_level(struct pgtable *pt, uint64_t *t, unsigned int level)
{
	unsigned int i;

	if (level > 1) {
		for_each_used(i, t, 0) {
			if (t[i] & PTE_P)
				free_level(pt, entry_table(t[i]), level - 1);
		}
	}
	table_free(pt, t);
}

/*
 * Take the tables below @t out that map nothing, and add them to *@dead. CPUs may still walk them:
 * they stay empty until the flush. False: something is left in @t.
 */
static bool prune_level(uint64_t *t, unsigned int level, struct frame **dead)
{
	bool is_empty = true;
	unsigned int i;

	for_each_used(i, t, 0) {
		const uint64_t e = READ_ONCE(t[i]);
		struct frame *f;

		if (!(e & (PTE_P | PTE_NONE)))
			continue;
		if (level == 1 || !prune_level(entry_table(e), level - 1, dead)) {
			is_empty = false;
			continue;
		}
		WRITE_ONCE(t[i], 0);
		f = virt_to_frame(entry_table(e));
		f->private = (uintptr_t)*dead; /* no thread walks it any more */
		*dead = f;
	}
	return is_empty;
}

size_t pgtable_prune(struct pgtable *pt)
{
	struct frame *dead = NULL, *next;
	size_t nr = 0;

	pt->near = NULL;
	(void)prune_level(pt->pml4, 4, &dead);
	if (dead)
		tlb_flush_all(pt); /* what CPUs remember of the upper levels goes, too */
	for (; dead; dead = next, nr++) {
		next = (struct frame *)(uintptr_t)dead->private;
		table_free(pt, frame_to_virt(dead));
	}
	return nr;
}

void pgtable_destroy(struct pgtable *pt)
{
	pgtable_drop(pt);
	free_level(pt, pt->pml4, 4); /* the kernel's half is noted nowhere */
	ASSERT(pt->nr_tables == 0);
	kfree(pt);
}

void pgtable_set_budget(struct pgtable *pt, size_t nr)
{
	pt->budget = nr;
}

/* Why a table could not be made. */
static int no_table(const struct pgtable *pt)
{
	return pt->nr_tables < pt->budget ? -ENOMEM : -EDQUOT;
}

size_t pgtable_table_pages(const struct pgtable *pt)
{
	return pt->nr_tables;
}

/* The level-1 entry of @vaddr, or NULL while a table on the way is missing. */
static uint64_t *find_pte(const struct pgtable *pt, vaddr_t vaddr)
{
	uint64_t *t = pt->pml4;

	if (vaddr >= USER_TOP)
		return NULL;
	for (unsigned int level = 4; level > 1; level--) {
		const uint64_t e = READ_ONCE(t[pt_index(vaddr, level)]);

		if (!(e & PTE_P))
			return NULL;
		t = entry_table(e);
	}
	return &t[pt_index(vaddr, 1)];
}

static uint64_t *near_pte(const struct pgtable *pt, vaddr_t vaddr)
{
	if (!pt->near || vaddr - pt->near_base >= pt_level_size(2))
		return NULL;
	return &pt->near[pt_index(vaddr, 1)];
}

static void note_near(struct pgtable *pt, uint64_t *t, vaddr_t vaddr)
{
	ASSERT(IS_ALIGNED((uintptr_t)t, PAGE_SIZE));
	pt->near = t;
	pt->near_base = vaddr & ~(pt_level_size(2) - 1);
}

static uint64_t *make_far_pte(struct pgtable *pt, vaddr_t vaddr)
{
	uint64_t *t = pt->pml4;

	ASSERT(vaddr < USER_TOP);
	for (unsigned int level = 4; level > 1; level--) {
		uint64_t *e = &t[pt_index(vaddr, level)];

		if (!(*e & PTE_P)) {
			uint64_t *next = table_alloc(pt);

			if (!next)
				return NULL;
			note_used(t, pt_index(vaddr, level));
			/*
			 * The zeroed table must be visible before the entry: x86 keeps that order.
			 */
			WRITE_ONCE(*e, virt_to_phys(next) | PTE_P | PTE_W | PTE_U);
		}
		t = entry_table(*e);
	}
	note_used(t, pt_index(vaddr, 1));
	note_near(pt, t, vaddr);
	return &t[pt_index(vaddr, 1)];
}

static inline uint64_t *make_pte(struct pgtable *pt, vaddr_t vaddr)
{
	uint64_t *pte = near_pte(pt, vaddr);

	if (unlikely(!pte))
		return make_far_pte(pt, vaddr);
	note_used(pt->near, pt_index(vaddr, 1));
	return pte;
}

static uint64_t prot_bits(unsigned int prot)
{
	if (!(prot & (PGT_READ | PGT_WRITE | PGT_EXEC)))
		return PTE_NONE;
	return PTE_P | PTE_U | (prot & PGT_WRITE ? PTE_W : 0) |
	       (prot & PGT_AROUND ? PTE_AROUND : 0) |
	       (!(prot & PGT_EXEC) && cpu_features.nx ? PTE_NX : 0);
}

#define PROT_BITS (PTE_P | PTE_U | PTE_W | PTE_NX | PTE_NONE | PTE_AROUND)

static void decode(uint64_t e, struct pgtable_entry *out)
{
	*out = (struct pgtable_entry){
		.paddr = e & PTE_ADDR,
		.present = e & (PTE_P | PTE_NONE),
		.accessed = e & PTE_A,
		.dirty = e & PTE_D,
	};
	if (e & PTE_P)
		out->prot = PGT_READ | (e & PTE_W ? PGT_WRITE : 0) | (e & PTE_NX ? 0 : PGT_EXEC) |
			    (e & PTE_AROUND ? PGT_AROUND : 0);
}

static inline void count_mapped(struct pgtable *pt, uint64_t old)
{
	if (old & (PTE_P | PTE_NONE))
		return;
	pt->nr_pages++;
	if (pt->nr_pages > pt->nr_pages_most)
		pt->nr_pages_most = pt->nr_pages;
}

size_t pgtable_most_pages(const struct pgtable *pt)
{
	return READ_ONCE(pt->nr_pages_most);
}

int pgtable_map(struct pgtable *pt, vaddr_t vaddr, paddr_t paddr, unsigned int prot)
{
	uint64_t *pte;

	if (vaddr >= USER_TOP || (vaddr & PAGE_MASK_LOW) || (paddr & ~PTE_ADDR))
		return -EINVAL;
	pte = make_pte(pt, vaddr);
	if (!pte)
		return no_table(pt);
	count_mapped(pt, READ_ONCE(*pte));
	__atomic_store_n(pte, paddr | prot_bits(prot), __ATOMIC_RELEASE);
	return 0;
}

uint64_t pgtable_map_absent(struct pgtable *pt, vaddr_t vaddr, const paddr_t *frames,
			    unsigned int nr, unsigned int prot)
{
	const uint64_t bits = prot_bits(prot);
	uint64_t *table = NULL, mapped = 0;

	ASSERT(nr <= 64 && vaddr + ((uint64_t)nr << PAGE_SHIFT) <= USER_TOP);
	for (unsigned int i = 0; i < nr; i++, vaddr += PAGE_SIZE) {
		const unsigned int at = pt_index(vaddr, 1);

		if (!table || at == 0) {
			uint64_t *pte = make_pte(pt, vaddr);

			if (!pte)
				break;
			table = pte - at;
		}
		if (!frames[i] || (table[at] & (PTE_P | PTE_NONE)))
			continue;
		note_used(table, at);
		count_mapped(pt, 0);
		__atomic_store_n(&table[at], frames[i] | bits, __ATOMIC_RELEASE);
		mapped |= BIT64(i);
	}
	return mapped;
}

int pgtable_map_new(struct pgtable *pt, vaddr_t vaddr, paddr_t paddr, unsigned int prot)
{
	uint64_t *pte;

	if (vaddr >= USER_TOP || (vaddr & PAGE_MASK_LOW) || (paddr & ~PTE_ADDR))
		return -EINVAL;
	pte = make_pte(pt, vaddr);
	if (!pte)
		return no_table(pt);
	if (READ_ONCE(*pte) & (PTE_P | PTE_NONE))
		return -EEXIST;
	count_mapped(pt, 0);
	__atomic_store_n(pte, paddr | prot_bits(prot), __ATOMIC_RELEASE);
	return 0;
}

static uint64_t take_pte(struct pgtable *pt, vaddr_t vaddr)
{
	uint64_t *pte = near_pte(pt, vaddr);
	uint64_t e;

	if (unlikely(!pte)) {
		pte = find_pte(pt, vaddr);
		if (pte)
			note_near(pt, pte - pt_index(vaddr, 1), vaddr);
	}
	if (!pte)
		return 0;
	e = __atomic_exchange_n(pte, 0, __ATOMIC_ACQ_REL);
	if (e & (PTE_P | PTE_NONE)) {
		ASSERT(pt->nr_pages > 0);
		pt->nr_pages--;
	}
	return e;
}

void pgtable_unmap(struct pgtable *pt, vaddr_t vaddr, struct pgtable_entry *old)
{
	const uint64_t e = take_pte(pt, vaddr);

	if (old)
		decode(e, old);
}

bool pgtable_clear(struct pgtable *pt, vaddr_t vaddr)
{
	return take_pte(pt, vaddr) & (PTE_P | PTE_NONE);
}

bool pgtable_protect(struct pgtable *pt, vaddr_t vaddr, unsigned int prot)
{
	uint64_t *pte = find_pte(pt, vaddr);
	uint64_t e;

	if (!pte)
		return false;
	e = __atomic_load_n(pte, __ATOMIC_RELAXED);
	do {
		if (!(e & (PTE_P | PTE_NONE)))
			return false;
	} while (!__atomic_compare_exchange_n(pte, &e, (e & ~PROT_BITS) | prot_bits(prot), false,
					      __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
	return true;
}

bool pgtable_query(const struct pgtable *pt, vaddr_t vaddr, struct pgtable_entry *out)
{
	const uint64_t *pte = find_pte(pt, vaddr);

	decode(pte ? __atomic_load_n(pte, __ATOMIC_ACQUIRE) : 0, out);
	return out->present;
}

bool pgtable_test_clear_accessed(struct pgtable *pt, vaddr_t vaddr)
{
	uint64_t *pte = find_pte(pt, vaddr);

	return pte && (__atomic_fetch_and(pte, ~PTE_A, __ATOMIC_ACQ_REL) & PTE_A);
}

bool pgtable_test_clear_dirty(struct pgtable *pt, vaddr_t vaddr)
{
	uint64_t *pte = find_pte(pt, vaddr);

	return pte && (__atomic_fetch_and(pte, ~PTE_D, __ATOMIC_ACQ_REL) & PTE_D);
}

bool pgtable_set_dirty(struct pgtable *pt, vaddr_t vaddr)
{
	uint64_t *pte = find_pte(pt, vaddr);
	uint64_t e = pte ? __atomic_load_n(pte, __ATOMIC_RELAXED) : 0;

	do {
		if (!(e & PTE_P))
			return false;
	} while (!__atomic_compare_exchange_n(pte, &e, e | PTE_D, false, __ATOMIC_ACQ_REL,
					      __ATOMIC_RELAXED));
	return true;
}

struct walk {
	int (*fn)(vaddr_t vaddr, const struct pgtable_entry *e, void *arg);
	void *arg;
	vaddr_t start, end;
	uint64_t skip; /* bits of entries that are passed over */
};

static int walk_level(const uint64_t *t, unsigned int level, vaddr_t base, const struct walk *w)
{
	const uint64_t size = pt_level_size(level);
	const unsigned int first = w->start > base ? (unsigned int)((w->start - base) / size) : 0;
	unsigned int i;
	int err = 0;

	for_each_used(i, t, first) {
		const vaddr_t v = base + i * size;
		const uint64_t e = READ_ONCE(t[i]);
		struct pgtable_entry out;

		if (v >= w->end || err)
			break;
		if (!(e & (PTE_P | PTE_NONE)) || (e & w->skip))
			continue;
		if (level > 1) {
			err = walk_level(entry_table(e), level - 1, v, w);
			continue;
		}
		decode(e, &out);
		if (v >= w->start)
			err = w->fn(v, &out, w->arg);
	}
	return err;
}

int pgtable_walk(struct pgtable *pt, vaddr_t start, vaddr_t end,
		 int (*fn)(vaddr_t vaddr, const struct pgtable_entry *e, void *arg), void *arg)
{
	const struct walk w = { .fn = fn, .arg = arg, .start = start, .end = MIN(end, USER_TOP) };

	return w.start < w.end ? walk_level(pt->pml4, 4, 0, &w) : 0;
}

int pgtable_walk_tracked(struct pgtable *pt, vaddr_t start, vaddr_t end,
			 int (*fn)(vaddr_t vaddr, const struct pgtable_entry *e, void *arg),
			 void *arg)
{
	const struct walk w = {
		.fn = fn, .arg = arg, .start = start, .end = MIN(end, USER_TOP), .skip = PTE_AROUND
	}; /* in no entry that names a table */

	return w.start < w.end ? walk_level(pt->pml4, 4, 0, &w) : 0;
}

static size_t write_protect_level(uint64_t *t, unsigned int level, vaddr_t base, vaddr_t start,
				  vaddr_t end)
{
	const uint64_t size = pt_level_size(level);
	const unsigned int first = start > base ? (unsigned int)((start - base) / size) : 0;
	unsigned int i;
	size_t nr = 0;

	for_each_used(i, t, first) {
		const uint64_t e = READ_ONCE(t[i]);

		if (base + i * size >= end)
			break;
		if (!(e & PTE_P))
			continue;
		if (level > 1)
			nr += write_protect_level(entry_table(e), level - 1, base + i * size, start,
						  end);
		else if (e & PTE_W)
			/*
			 * One instruction, so that a dirty bit which a CPU sets meanwhile is not
			 * lost.
			 */
			nr += (__atomic_fetch_and(&t[i], ~PTE_W, __ATOMIC_ACQ_REL) & PTE_W) != 0;
	}
	return nr;
}

size_t pgtable_write_protect(struct pgtable *pt, vaddr_t start, vaddr_t end)
{
	end = MIN(end, USER_TOP);
	return start < end ? write_protect_level(pt->pml4, 4, 0, start, end) : 0;
}
