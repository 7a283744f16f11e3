/* SPDX-License-Identifier: MIT */
/*
 * Bitmaps in arrays of 64-bit words. Positions and lengths count bits; the
 * find functions return @nr when there is no such bit.
 *
 * Locking: the caller's; nothing here is atomic.
 */
#pragma once

#include <lib/types.h>

#define BITMAP_WORD_BITS         64
#define BITMAP_WORDS(nr)         DIV_ROUND_UP(nr, BITMAP_WORD_BITS)
#define BITMAP_BYTES(nr)         (BITMAP_WORDS(nr) * sizeof(uint64_t))
#define DECLARE_BITMAP(name, nr) uint64_t name[BITMAP_WORDS(nr)]

static inline bool bitmap_test(const uint64_t *map, size_t bit)
{
	return (map[bit / BITMAP_WORD_BITS] >> (bit % BITMAP_WORD_BITS)) & 1;
}

static inline void bitmap_set(uint64_t *map, size_t bit)
{
	map[bit / BITMAP_WORD_BITS] |= BIT64(bit % BITMAP_WORD_BITS);
}

static inline void bitmap_clear(uint64_t *map, size_t bit)
{
	map[bit / BITMAP_WORD_BITS] &= ~BIT64(bit % BITMAP_WORD_BITS);
}

static inline bool bitmap_test_and_set(uint64_t *map, size_t bit)
{
	const bool was = bitmap_test(map, bit);

	bitmap_set(map, bit);
	return was;
}

static inline bool bitmap_test_and_clear(uint64_t *map, size_t bit)
{
	const bool was = bitmap_test(map, bit);

	bitmap_clear(map, bit);
	return was;
}

void bitmap_set_range(uint64_t *map, size_t start, size_t len);
void bitmap_clear_range(uint64_t *map, size_t start, size_t len);

/* First set (clear) bit at or after @start and below @nr. */
size_t bitmap_find_next(const uint64_t *map, size_t nr, size_t start) __pure;
size_t bitmap_find_next_zero(const uint64_t *map, size_t nr, size_t start) __pure;

/* Start of the first run of @len clear bits at or after @start, on a multiple of @align. */
size_t bitmap_find_zero_area(const uint64_t *map, size_t nr, size_t start, size_t len,
			     size_t align) __pure;

static inline size_t bitmap_find_first(const uint64_t *map, size_t nr)
{
	return bitmap_find_next(map, nr, 0);
}

static inline size_t bitmap_find_first_zero(const uint64_t *map, size_t nr)
{
	return bitmap_find_next_zero(map, nr, 0);
}

#define bitmap_for_each(bit, map, nr)                            \
	for ((bit) = bitmap_find_next(map, nr, 0); (bit) < (nr); \
	     (bit) = bitmap_find_next(map, nr, (bit) + 1))
