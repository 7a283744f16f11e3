/* SPDX-License-Identifier: MIT */
/*
 * A sparse set of page numbers.
 */
#include "page_bits.h"

#include <kernel/panic.h>
#include <lib/errno.h>
#include <mm/frame.h>

#define WORDS           (1u << (PAGE_BITS_SHIFT - 6))
#define PAGE_WORD(page) (((page) & ((1u << PAGE_BITS_SHIFT) - 1)) / 64)
#define PAGE_BIT(page)  (1ULL << ((page) % 64))

static_assert(WORDS * sizeof(uint64_t) == PAGE_SIZE, "a bitmap page is a page");

void page_bits_init(struct page_bits *b)
{
	radix_init(&b->pages);
	b->nr = 0;
}

void page_bits_destroy(struct page_bits *b)
{
	uint64_t index;
	void *words;

	radix_for_each(words, &b->pages, index)
		frame_free(virt_to_frame(words), 0);
	radix_destroy(&b->pages);
	b->nr = 0;
}

static uint64_t *words_of(const struct page_bits *b, uint64_t page)
{
	return radix_lookup(&b->pages, page >> PAGE_BITS_SHIFT);
}

bool page_bits_look(const struct page_bits *b, uint64_t page)
{
	const uint64_t *words = words_of(b, page);

	return words && (words[PAGE_WORD(page)] & PAGE_BIT(page));
}

int page_bits_reserve(struct page_bits *b, uint64_t page)
{
	struct frame *f;
	int err;

	if (words_of(b, page))
		return 0;
	f = frame_alloc(0, FRAME_ZERO | FRAME_NOWAIT);
	if (!f)
		return -ENOMEM;
	err = radix_insert(&b->pages, page >> PAGE_BITS_SHIFT, frame_to_virt(f));
	if (err)
		frame_free(f, 0);
	return err;
}

int page_bits_set(struct page_bits *b, uint64_t page)
{
	const int err = page_bits_reserve(b, page);
	uint64_t *word;

	if (err)
		return err;
	word = &words_of(b, page)[PAGE_WORD(page)];
	b->nr += !(*word & PAGE_BIT(page));
	*word |= PAGE_BIT(page);
	return 0;
}

void page_bits_clear(struct page_bits *b, uint64_t page)
{
	uint64_t *words = words_of(b, page);
	uint64_t *word;

	if (!words)
		return;
	word = &words[PAGE_WORD(page)];
	b->nr -= !!(*word & PAGE_BIT(page));
	*word &= ~PAGE_BIT(page);
}

uint64_t page_bits_next(const struct page_bits *b, uint64_t page, uint64_t end)
{
	while (page < end) {
		uint64_t index = page >> PAGE_BITS_SHIFT;
		const uint64_t *words = radix_next(&b->pages, &index);

		if (!words)
			return end;
		page = MAX(page, index << PAGE_BITS_SHIFT);
		for (; page < end && page >> PAGE_BITS_SHIFT == index; page++) {
			if (!words[PAGE_WORD(page)])
				page |= 63;
			else if (words[PAGE_WORD(page)] & PAGE_BIT(page))
				return page;
		}
	}
	return end;
}

/* The bits of word @page / 64 that stand for pages of [page, end). */
static uint64_t word_mask(uint64_t page, uint64_t end)
{
	const uint64_t from = ~0ull << (page & 63);

	return end - (page & ~63ull) >= 64 ? from : from & ((1ull << (end & 63)) - 1);
}

uint64_t page_bits_count(const struct page_bits *b, uint64_t first, uint64_t end)
{
	uint64_t nr = 0, index, page = first;

	while (page < end) {
		const uint64_t *words;

		index = page >> PAGE_BITS_SHIFT;
		words = radix_next(&b->pages, &index);
		if (!words)
			break;
		page = MAX(page, index << PAGE_BITS_SHIFT);
		for (; page < end && page >> PAGE_BITS_SHIFT == index; page = (page | 63) + 1)
			nr += (uint64_t)__builtin_popcountll(words[PAGE_WORD(page)] &
							     word_mask(page, end));
	}
	return nr;
}

uint64_t page_bits_clear_range(struct page_bits *b, uint64_t first, uint64_t end)
{
	uint64_t nr = 0;

	for (uint64_t page = page_bits_next(b, first, end); page < end;
	     page = page_bits_next(b, page + 1, end)) {
		page_bits_clear(b, page);
		nr++;
	}
	return nr;
}

int page_bits_reserve_all(struct page_bits *to, const struct page_bits *from)
{
	uint64_t index;
	void *words;
	int err = 0;

	radix_for_each(words, &from->pages, index) {
		err = page_bits_reserve(to, index << PAGE_BITS_SHIFT);
		if (err)
			break;
	}
	return err;
}

void page_bits_merge(struct page_bits *to, const struct page_bits *from)
{
	const uint64_t *words;
	uint64_t index;

	radix_for_each(words, &from->pages, index) {
		uint64_t *dst = words_of(to, index << PAGE_BITS_SHIFT);

		BUG_ON(!dst);
		for (size_t i = 0; i < WORDS; i++) {
			to->nr += (uint64_t)__builtin_popcountll(words[i] & ~dst[i]);
			dst[i] |= words[i];
		}
	}
}
