/* SPDX-License-Identifier: MIT */
/*
 * A sparse set of page numbers: bitmap pages in a radix tree.
 *
 * It grows with the pages that are in it, 32768 neighbours a bitmap page, never with the address
 * range.
 *
 * Invariants:	`nr` is how many pages are in the set.
 * Locking:	the caller's.
 */
#pragma once

#include <lib/compiler.h>
#include <lib/radix.h>

struct page_bits {
	struct radix_tree pages; /* page >> PAGE_BITS_SHIFT -> bitmap page */
	uint64_t nr;
};

#define PAGE_BITS_SHIFT 15 /* pages in one bitmap page */

void page_bits_init(struct page_bits *b);
void page_bits_destroy(struct page_bits *b);
bool page_bits_look(const struct page_bits *b, uint64_t page);
static inline bool page_bits_test(const struct page_bits *b, uint64_t page)
{
	return b->pages.count > 0 && page_bits_look(b, page); /* most sets are empty */
}
/* Make room for @page, so that page_bits_set() of it cannot fail. Never sleeps. -ENOMEM. */
int page_bits_reserve(struct page_bits *b, uint64_t page) __must_check;
int page_bits_set(struct page_bits *b, uint64_t page) __must_check;
void page_bits_clear(struct page_bits *b, uint64_t page);
/* The first page of [page, end) that is in the set, or end. */
uint64_t page_bits_next(const struct page_bits *b, uint64_t page, uint64_t end);
/* How many of [first, end) are in the set. */
uint64_t page_bits_count(const struct page_bits *b, uint64_t first, uint64_t end);
/* How many of [first, end) were in the set; none is afterwards. */
uint64_t page_bits_clear_range(struct page_bits *b, uint64_t first, uint64_t end);
/* Room in @to for everything that @from has.  -ENOMEM. */
int page_bits_reserve_all(struct page_bits *to, const struct page_bits *from) __must_check;
/* Add all of @from to @to, for which there is room. */
void page_bits_merge(struct page_bits *to, const struct page_bits *from);
