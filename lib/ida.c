/* SPDX-License-Identifier: MIT */
/*
 * Integer ids from a growing bitmap.
 *
 * Invariants:	every word below hint is full, so the lowest free id is found
 *		without looking at them; words past nr_words count as free.
 */
#include <lib/ida.h>

#include <lib/alloc.h>
#include <lib/assert.h>
#include <lib/bitmap.h>
#include <lib/errno.h>
#include <lib/string.h>

#define IDA_MIN_WORDS 4

static void ida_init(struct ida *ida)
{
	*ida = (struct ida)IDA_INIT;
}

void ida_destroy(struct ida *ida)
{
	lib_free(ida->map);
	ida_init(ida);
}

/* Make room for @id. */
static int grow(struct ida *ida, size_t id)
{
	const size_t need = id / BITMAP_WORD_BITS + 1;
	size_t words = ida->nr_words ? ida->nr_words : IDA_MIN_WORDS;
	uint64_t *map;

	ASSERT(ida->hint <= ida->nr_words);
	if (need <= ida->nr_words)
		return 0;
	while (words < need)
		words *= 2;
	map = lib_zalloc(words * sizeof(*map));
	if (!map)
		return -ENOMEM;
	if (ida->nr_words)
		memcpy(map, ida->map, ida->nr_words * sizeof(*map));
	lib_free(ida->map);
	ida->map = map;
	ida->nr_words = words;
	return 0;
}

int ida_alloc_range(struct ida *ida, int min, int max)
{
	const size_t first = MAX((size_t)min, ida->hint * BITMAP_WORD_BITS);
	const size_t nr_bits = ida->nr_words * BITMAP_WORD_BITS;
	size_t id;
	int err;

	if (min < 0 || min > max)
		return -EINVAL;

	id = first < nr_bits ? bitmap_find_next_zero(ida->map, nr_bits, first) : first;
	if (id > (size_t)max)
		return -ENOSPC;
	err = grow(ida, id);
	if (err)
		return err;

	ASSERT(!bitmap_test(ida->map, id));
	bitmap_set(ida->map, id);
	while (ida->hint < ida->nr_words && ida->map[ida->hint] == UINT64_MAX)
		ida->hint++;
	return (int)id;
}

bool ida_is_used(const struct ida *ida, int id)
{
	if (id < 0 || (size_t)id / BITMAP_WORD_BITS >= ida->nr_words)
		return false;
	return bitmap_test(ida->map, (size_t)id);
}

bool ida_free(struct ida *ida, int id)
{
	if (!ida_is_used(ida, id))
		return false;
	ASSERT((size_t)id / 64 < ida->nr_words);
	bitmap_clear(ida->map, (size_t)id);
	ida->hint = MIN(ida->hint, (size_t)id / BITMAP_WORD_BITS);
	return true;
}
