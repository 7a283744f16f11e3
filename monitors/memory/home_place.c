/* SPDX-License-Identifier: MIT */
/*
 * Home: the place of a new mapping.
 *
 * Flow:	search downwards from the top of the mapping area, as Linux does. A large anonymous
 *		mapping gets free room behind it, so that mremap usually grows it in place: moving
 *		it would make the processor write back and drop all its lines. Below one that grows
 *		down PM_STACK_GUARD bytes stay free, but for mappings at a fixed place.
 * Limits:	one walk over the areas from the top, which a program with many holes pays for.
 */
#include "home.h"

/* Where what is mapped below @area must end. */
static uint64_t limit_below(const struct area *area)
{
	if (!(area->v.flags & (PM_VMA_STACK | PM_VMA_GROWS)))
		return area->v.start;
	return area->v.start - MIN(area->v.start, PM_STACK_GUARD);
}

static bool is_free(const struct area_set *map, uint64_t start, uint64_t end)
{
	const struct area *above = area_above(map, end);

	return area_range_is_free(map, start, end) && (!above || limit_below(above) >= end);
}

/*
 * The highest place below @top with @need free bytes, or 0; the mapping is to begin at its start.
 */
static uint64_t highest_gap(const struct area_set *map, uint64_t top, uint64_t need)
{
	const struct area *above = area_above(map, top - 1);
	const struct area *below = NULL;
	uint64_t end = top;

	if (above)
		end = MIN(top, limit_below(above));
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
		end = limit_below(below);
		below = area_prev(below);
	}
}

uint64_t place_find(const struct area_set *map, uint64_t top, uint64_t hint, uint64_t len,
		    bool room)
{
	uint64_t addr = 0;

	if (hint >= HOME_MMAP_MIN && len <= PM_USER_TOP && hint <= PM_USER_TOP - len &&
	    is_free(map, hint, hint + len))
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
	    is_free(map, hint, hint + len))
		return hint;
	return highest_gap(map, PM_LOW_TOP, len);
}
