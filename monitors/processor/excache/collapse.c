/* SPDX-License-Identifier: MIT */
/*
 * ExCache: lines of two objects of a chain become those of one.
 *
 * Invariants:	objects of a chain have the same seed, so a page's line is in the same set
 *		whichever of them it belongs to: changing the tag moves nothing, and mappings stay.
 */
#include "cache_private.h"

#include <kernel/panic.h>

#include "credit.h"

COUNTER(excache_retagged, "fork.pages_retagged", "lines that a collapse gave to another object");

void excache_hold(struct object *obj)
{
	spin_lock(&obj->lock);
	obj->held = true;
	spin_unlock(&obj->lock);
	wait_event(&excache.quiet,
		   READ_ONCE(obj->nr_writebacks) == 0 && READ_ONCE(obj->nr_ahead) == 0);
}

bool excache_try_hold(struct object *obj)
{
	bool quiet;

	spin_lock(&obj->lock);
	quiet = obj->nr_writebacks == 0 && obj->nr_ahead == 0;
	if (quiet)
		obj->held = true;
	spin_unlock(&obj->lock);
	return quiet;
}

void excache_release(struct object *obj)
{
	spin_lock(&obj->lock);
	obj->held = false;
	spin_unlock(&obj->lock);
	releases_wake();
}

/* The line is VALID and idle: nothing but eviction of clean lines goes on beside us. */
static void retag_locked(struct line *line, struct object *from, struct object *to)
{
	bool stored;

	assert_spin_held(&set_of_line(line)->lock);
	spin_lock(&from->lock);
	list_del(&line->obj_link);
	from->nr_lines--;
	spin_unlock(&from->lock);
	line->obj = to;
	spin_lock(&to->lock);
	list_add_tail(&line->obj_link, &to->lines);
	to->nr_lines++;
	stored = page_bits_test(&to->stored, line->pgoff);
	spin_unlock(&to->lock);
	if (stored && (line->flags & LINE_PLOCAL)) {
		/* The owner has a frame for an older version of the page: no credit is needed. */
		line->flags &= (uint8_t)~LINE_PLOCAL;
		credit_put(line->credit_node);
	}
	counter_inc(&excache_retagged);
}

static bool first_page(struct object *obj, uint64_t *pgoff)
{
	struct line *line;

	spin_lock(&obj->lock);
	line = list_first_entry_or_null(&obj->lines, struct line, obj_link);
	if (line)
		*pgoff = line->pgoff;
	spin_unlock(&obj->lock);
	return line != NULL;
}

void excache_retag(struct object *from, struct object *to)
{
	uint64_t pgoff;

	while (first_page(from, &pgoff)) {
		struct cache_set *set = &excache.sets[set_index(from, pgoff)];
		struct line *line;
		uint64_t gen;
		bool busy;

		excache_drop(to, pgoff, pgoff + 1);
		spin_lock(&set->lock);
		gen = set->gen;
		line = set_find_locked(set, from, pgoff);
		busy = line && (line->state != LINE_VALID || line->pins > 0);
		if (line && !busy)
			retag_locked(line, from, to);
		spin_unlock(&set->lock);
		if (busy)
			(void)set_wait(set, gen, false);
	}
}
