/* SPDX-License-Identifier: MIT */
/*
 * Bitmaps: ranges and searches, a word at a time.
 *
 * Bits of the last word beyond the given length are never looked at or changed.
 */
#include <lib/bitmap.h>

#include <lib/assert.h>

/* The bits of one word from @start (inclusive) to the word's end. */
static uint64_t mask_from(size_t start)
{
	return ~0ULL << (start % BITMAP_WORD_BITS);
}

static void change_range(uint64_t *map, size_t start, size_t len, bool value)
{
	const size_t end = start + len;

	ASSERT(end >= start);
	while (start < end) {
		const size_t word = start / BITMAP_WORD_BITS;
		const size_t next = MIN((word + 1) * BITMAP_WORD_BITS, end);
		uint64_t mask = mask_from(start);

		if (next % BITMAP_WORD_BITS)
			mask &= ~mask_from(next);
		if (value)
			map[word] |= mask;
		else
			map[word] &= ~mask;
		start = next;
	}
}

void bitmap_set_range(uint64_t *map, size_t start, size_t len)
{
	change_range(map, start, len, true);
}

void bitmap_clear_range(uint64_t *map, size_t start, size_t len)
{
	change_range(map, start, len, false);
}

/* @flip is all ones to look for clear bits, 0 for set ones. */
static size_t find_next(const uint64_t *map, size_t nr, size_t start, uint64_t flip)
{
	size_t word = start / BITMAP_WORD_BITS;
	uint64_t mask = mask_from(start);

	for (; word * BITMAP_WORD_BITS < nr; word++, mask = ~0ULL) {
		const uint64_t bits = (map[word] ^ flip) & mask;

		if (bits)
			return MIN(word * BITMAP_WORD_BITS + (size_t)__builtin_ctzll(bits), nr);
	}
	return nr;
}

size_t bitmap_find_next(const uint64_t *map, size_t nr, size_t start)
{
	return start < nr ? find_next(map, nr, start, 0) : nr;
}

size_t bitmap_find_next_zero(const uint64_t *map, size_t nr, size_t start)
{
	return start < nr ? find_next(map, nr, start, ~0ULL) : nr;
}

size_t bitmap_find_zero_area(const uint64_t *map, size_t nr, size_t start, size_t len, size_t align)
{
	size_t at = start;

	while (at < nr) {
		size_t used;

		at = bitmap_find_next_zero(map, nr, at);
		at = DIV_ROUND_UP(at, align) * align;
		if (at >= nr || len > nr - at)
			return nr;
		used = bitmap_find_next(map, at + len, at);
		if (used == at + len)
			return at;
		at = used + 1;
	}
	return nr;
}
