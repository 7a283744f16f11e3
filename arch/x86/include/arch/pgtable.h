/* SPDX-License-Identifier: MIT */
/*
 * User page tables (four levels) and TLB invalidation.
 *
 * Locking:	the caller serialises changes to one page table (its address space
 *		lock); pgtable_query() may run beside changes and sees each entry whole.
 * Ordering:	entries change first, the TLB is flushed after: a range that was
 *		unmapped or lost rights must be flushed by tlb_batch_flush() or
 *		tlb_flush_range() before its frames are reused.
 * Failure:	-ENOMEM when a table page cannot be had; nothing is mapped then.
 */
#pragma once

#include <arch/layout.h>
#include <lib/compiler.h>
#include <lib/types.h>

struct pgtable; /* one user address space's tables, kernel half shared */

#define PGT_READ   0x1u
#define PGT_WRITE  0x2u
#define PGT_EXEC   0x4u
#define PGT_AROUND 0x8u /* mapped beside a page that was asked for: kept and told */
#define PGT_NONE   0x0u /* keeps the frame, allows no access */

struct pgtable_entry {
	paddr_t paddr;
	unsigned int prot; /* PGT_* */
	bool present;      /* something is mapped, PGT_NONE included */
	bool accessed;
	bool dirty;
};

/* ERR_PTR(-ENOMEM) when out of frames. */
struct pgtable *pgtable_create(void);
/* Frees the table pages, not what they map.  Not in use by any thread any more. */
void pgtable_destroy(struct pgtable *pt);

/*
 * Map one 4 KiB page; an older entry is replaced (the caller flushes if it was present). -ENOMEM;
 * -EDQUOT: see pgtable_set_budget().
 */
int pgtable_map(struct pgtable *pt, vaddr_t vaddr, paddr_t paddr, unsigned int prot) __must_check;
/* The same where nothing is mapped: else -EEXIST. */
int pgtable_map_new(struct pgtable *pt, vaddr_t vaddr, paddr_t paddr, unsigned int prot)
	__must_check;
/*
 * Map up to 64 pages from @vaddr on where nothing is mapped, those whose frame is not 0. Which
 * ones, a bit each: fewer when out of frames.
 */
uint64_t pgtable_map_absent(struct pgtable *pt, vaddr_t vaddr, const paddr_t *frames,
			    unsigned int nr, unsigned int prot);
/* Clear one entry; *old, when not NULL, gets what was there, with its dirty bit at that moment. */
void pgtable_unmap(struct pgtable *pt, vaddr_t vaddr, struct pgtable_entry *old);
/* The same when only this matters: was something there? */
bool pgtable_clear(struct pgtable *pt, vaddr_t vaddr);
/* Change rights; keeps accessed and dirty.  Returns false when nothing is mapped there. */
bool pgtable_protect(struct pgtable *pt, vaddr_t vaddr, unsigned int prot);
/*
 * Take the right to write from every page of the range; keeps accessed and dirty. How many had it.
 */
size_t pgtable_write_protect(struct pgtable *pt, vaddr_t start, vaddr_t end);
/* Returns false (and present = false) when nothing is mapped. */
bool pgtable_query(const struct pgtable *pt, vaddr_t vaddr, struct pgtable_entry *out);
/* Clear the accessed bit, returning what it was; the caller flushes when it matters. */
bool pgtable_test_clear_accessed(struct pgtable *pt, vaddr_t vaddr);
/*
 * Clear the dirty bit, returning what it was. Until the caller has flushed, a CPU that has the
 * entry cached as dirty may store without setting the bit again.
 */
bool pgtable_test_clear_dirty(struct pgtable *pt, vaddr_t vaddr);
/* The page is written by another way than through the entry. False: nothing is mapped there. */
bool pgtable_set_dirty(struct pgtable *pt, vaddr_t vaddr);
/*
 * Walk the present entries of [start, end), lowest first, skipping empty
 * tables quickly; stops when @fn returns non-zero and returns that.
 */
int pgtable_walk(struct pgtable *pt, vaddr_t start, vaddr_t end,
		 int (*fn)(vaddr_t vaddr, const struct pgtable_entry *e, void *arg), void *arg);
/* The same without entries that say PGT_AROUND. */
int pgtable_walk_tracked(struct pgtable *pt, vaddr_t start, vaddr_t end,
			 int (*fn)(vaddr_t vaddr, const struct pgtable_entry *e, void *arg),
			 void *arg);
size_t pgtable_table_pages(const struct pgtable *pt);
/*
 * @pt shall have at most @nr tables (at first: any number): what needs another one answers -EDQUOT.
 * Those that it has already stay.
 */
void pgtable_set_budget(struct pgtable *pt, size_t nr);
/* The most pages that it has mapped at a time; any context. */
size_t pgtable_most_pages(const struct pgtable *pt);
/* Free the tables in which nothing is mapped, after a flush; how many they were. */
size_t pgtable_prune(struct pgtable *pt);

/* Load @pt on this CPU (NULL: the kernel's own tables); preemption off. */
void pgtable_activate(struct pgtable *pt);

/* Invalidate [start, end) of @pt on every CPU that may have it cached; waits until done. */
void tlb_flush_range(struct pgtable *pt, vaddr_t start, vaddr_t end);
void tlb_flush_all(struct pgtable *pt);

/*
 * Collect invalidations of one page table, then flush once.  The batch turns
 * into a full flush when it grows past TLB_BATCH_MAX pages.
 */
#define TLB_BATCH_MAX 32u
struct tlb_batch {
	struct pgtable *pt;
	unsigned int nr;
	bool full;
	vaddr_t pages[TLB_BATCH_MAX];
};

static inline void tlb_batch_init(struct tlb_batch *b, struct pgtable *pt)
{
	b->pt = pt;
	b->nr = 0;
	b->full = false;
}

static inline void tlb_batch_add(struct tlb_batch *b, vaddr_t vaddr)
{
	if (b->nr < TLB_BATCH_MAX)
		b->pages[b->nr++] = vaddr;
	else
		b->full = true;
}

void tlb_batch_flush(struct tlb_batch *b);
