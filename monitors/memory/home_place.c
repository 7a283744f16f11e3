/* SPDX-License-Identifier: MIT */
/*
 * Home: the place of a new mapping.
 *
 * Flow:	search downwards from the top of the mapping area, as Linux does. A large anonymous
 *		mapping gets free room behind it, so that mremap usually grows it in place: moving
 *		it would make the processor write back and drop all its lines.
 * Limits:	one walk over the areas from the top, which a program with many holes pays for.
 */
#include "home.h"

/*
 * The highest place below @top with @need free bytes, or 0; the mapping is to begin at its start.
 */
static uint64_t highest_gap(const struct area_set *map, uint64_t top, uint64_t need)
{
	const struct area *above = area_above(map, top - 1);
	const struct area *below = NULL;
	uint64_t end = top;

	if (above && above->v.start < top)
		end = above->v.start;
	if (above)
		below = area_prev(above);
	else if (map->root.node)
		below = rb_entry(rb_last(&map->root), struct area, node);
	for (;;) {
		const uint64_t start = below ? MAX(below->v.end, HOME_MMAP_MIN) : HOME_MMAP_MIN;

		if (end > start && end - start >= need)
			return end - need;
		if (!below || below->v.start <= HOME_MMAP_MIN)
			return 0;
		end = below->v.start;
		below = area_prev(below);
	}
}

uint64_t place_find(const struct area_set *map, uint64_t top, uint64_t hint, uint64_t len,
		    bool room)
{
	uint64_t addr = 0;

	if (hint >= HOME_MMAP_MIN && len <= PM_USER_TOP && hint <= PM_USER_TOP - len &&
	    area_range_is_free(map, hint, hint + len))
		return hint;
	if (room && len >= PLACE_GROW_MIN && len < PM_USER_TOP / 4) {
		addr = highest_gap(map, top, len + MAX(len, PLACE_GROW_ROOM));
		if (!addr)
			addr = highest_gap(map, top, 2 * len);
	}
	if (!addr)
		addr = highest_gap(map, top, len);
	if (!addr && top < PM_USER_TOP) /* above the usual area, between it and the stack */
		addr = highest_gap(map, PM_USER_TOP, len);
	return addr;
}

uint64_t place_find_low(const struct area_set *map, uint64_t hint, uint64_t len)
{
	if (hint >= HOME_MMAP_MIN && len <= PM_LOW_TOP && hint <= PM_LOW_TOP - len &&
	    area_range_is_free(map, hint, hint + len))
		return hint;
	return highest_gap(map, PM_LOW_TOP, len);
}
