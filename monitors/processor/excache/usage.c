/* SPDX-License-Identifier: MIT */
/*
 * The memory of this processor's programs, in numbers: lines are counted by their kind when the
 * numbers are asked for.
 *
 * Flow:	each set's lines are looked at under its lock; pages that owners have are counted
 *		where they are entered (object.c).
 * Invariants:	a p-local line's page is at no owner, any other line's page of programs is at one:
 *		so a page counts once, in the cache or at its owner.
 * Limits:	nothing is counted where lines are made, mapped or written: a miss costs no
 *		instruction more, and the dirty bits, which the CPU sets, are always true.  Reading
 *		takes time with the size of the cache instead.
 */
#include "usage.h"

#include "cache_private.h"

static bool map_is_dirty(const struct line_map *map)
{
	struct pgtable_entry e;
	bool dirty;

	spin_lock(&map->as->lock);
	dirty = pgtable_query(map->as->pt, map->vaddr, &e) && e.dirty;
	spin_unlock(&map->as->lock);
	return dirty;
}

static bool is_dirty_locked(const struct line *line)
{
	const struct line_map *map;

	assert_spin_held(&set_of_line(line)->lock);
	if (line->flags & LINE_DIRTY)
		return true;
	if (line->first_map.as && map_is_dirty(&line->first_map))
		return true;
	list_for_each_entry(map, &line->maps, link) {
		if (map_is_dirty(map))
			return true;
	}
	return false;
}

static void count_plocal_locked(const struct line *line, struct memory_usage *u)
{
	assert_spin_held(&set_of_line(line)->lock);
	if (!(line->flags & LINE_PLOCAL))
		return;
	if (line->obj->kind == OBJECT_ANON)
		u->anon++;
	else
		u->shared++;
}

static void count_valid_locked(struct line *line, struct memory_usage *u)
{
	assert_spin_held(&set_of_line(line)->lock);
	switch (line->obj->kind) {
	case OBJECT_FILE: /* never dirty */
		u->mapped += line->nr_maps > 0 || window_is_mapped(line->obj, line);
		return;
	case OBJECT_SHARED:
		u->mapped += line->nr_maps > 0;
		break;
	case OBJECT_ANON:
		break;
	}
	u->dirty += is_dirty_locked(line);
	count_plocal_locked(line, u);
}

static void count_set(struct cache_set *set, struct memory_usage *u)
{
	struct line *line;

	spin_lock(&set->lock);
	list_for_each_entry(line, &set->resident, set_link) {
		if (line->state == LINE_VALID)
			count_valid_locked(line, u);
	}
	list_for_each_entry(line, &set->inflight, set_link) {
		u->writeback++;
		count_plocal_locked(line, u);
	}
	spin_unlock(&set->lock);
}

void memory_usage(struct memory_usage *u)
{
	*u = (struct memory_usage){
		.anon = object_stored_count(OBJECT_ANON),
		.shared = object_stored_count(OBJECT_SHARED),
	};
	for (uint32_t i = 0; i < excache.nr_sets; i++)
		count_set(&excache.sets[i], u);
}
