/* SPDX-License-Identifier: MIT */
/*
 * The memory of this processor's programs, in numbers: lines are counted by their kind when the
 * numbers are asked for.
 *
 * Flow:	each set's lines are looked at under its lock; pages that owners have are counted
 *		where they are entered (object.c).
 * Invariants:	a p-local line's page is at no owner, any other line's page of programs is at one:
 *		so a page counts once, in the cache or at its owner. Both change under the set's
 *		lock; if pages were stored during a look there is another one.
 * Limits:	nothing is counted where lines are made, mapped or written: a miss costs no
 *		instruction more, and the dirty bits, which the CPU sets, are always true.  Reading
 *		takes time with the size of the cache instead. So one thread at a time looks, at
 *		most a tenth of the time; a thread that asks all the time waits, and disturbs others
 *		little. A set's lock is held for MAPS_MAX mappings of each line at most. Questions
 *		for one object look at no page table, and do not wait.
 */
#include "usage.h"

#include <kernel/counter.h>
#include <kernel/mutex.h>
#include <kernel/panic.h>
#include <kernel/thread.h>
#include <kernel/time.h>

#include "cache_private.h"

#define MAPS_MAX    32u /* a line that more page tables map is taken for dirty */
#define LOOKS_MAX   4u  /* under write-backs without a pause, the last is taken as it is */
#define PAUSE_TIMES 9u  /* as long as a look has taken, there is none */

COUNTER(usage_asked, "excache.usage_asked", "questions for the memory of programs in numbers");
COUNTER(usage_scans, "excache.usage_scans", "... looks at all lines, which answered them");

static struct {
	struct mutex lock;                    /* RANK_MONITOR + 1 */
	uint64_t begun;                       /* looks; atomic */
	uint64_t next_ns __guarded_by(&lock); /* no look begins before */
	struct memory_usage last __guarded_by(&lock);
} scan = { .lock = MUTEX_INIT(scan.lock, "excache.usage", RANK_MONITOR + 1) };

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
	case OBJECT_FILE:
		u->dirty += (line->file_dirty & FILE_DIRTY) != 0;
		u->writeback += (line->file_dirty & FILE_WRITING) != 0;
		u->mapped += line->nr_maps > 0 || window_is_mapped(line->obj, line);
		return;
	case OBJECT_SHARED:
		u->mapped += line->nr_maps > 0;
		break;
	case OBJECT_ANON:
		break;
	}
	u->dirty += line->nr_maps > MAPS_MAX || line_is_dirty_locked(line);
	count_plocal_locked(line, u);
}

static void count_set(struct cache_set *set, struct memory_usage *u)
{
	struct line *line;

	spin_lock(&set->lock);
	list_for_each_entry(line, &set->resident, set_link) {
		if (line_state_is_readable(line->state))
			count_valid_locked(line, u);
		u->writeback += line->state == LINE_CLEANING;
	}
	list_for_each_entry(line, &set->inflight, set_link) {
		u->writeback++;
		count_plocal_locked(line, u);
	}
	spin_unlock(&set->lock);
}

/* False: pages were stored or dropped meanwhile, and may count twice or not at all. */
static bool count_once(struct memory_usage *u)
{
	const uint64_t anon = object_stored_count(OBJECT_ANON);
	const uint64_t shared = object_stored_count(OBJECT_SHARED);

	*u = (struct memory_usage){ .anon = anon, .shared = shared };
	for (uint32_t i = 0; i < excache.nr_sets; i++)
		count_set(&excache.sets[i], u);
	return object_stored_count(OBJECT_ANON) == anon &&
	       object_stored_count(OBJECT_SHARED) == shared;
}

static void count_all(struct memory_usage *u)
{
	for (uint32_t i = 0; i < LOOKS_MAX && !count_once(u); i++)
		;
}

void memory_usage(struct memory_usage *u)
{
	const uint64_t begun = __atomic_load_n(&scan.begun, __ATOMIC_ACQUIRE);
	uint64_t start;

	counter_inc(&usage_asked);
	mutex_lock(&scan.lock);
	/* A look that has begun since then answers this question, too. */
	if (scan.begun == begun) {
		if (time_now_ns() < scan.next_ns)
			thread_sleep_until(scan.next_ns);
		start = time_now_ns();
		__atomic_store_n(&scan.begun, begun + 1, __ATOMIC_RELEASE);
		count_all(&scan.last);
		counter_inc(&usage_scans);
		scan.next_ns = time_now_ns() + PAUSE_TIMES * (time_now_ns() - start);
	}
	*u = scan.last;
	mutex_unlock(&scan.lock);
}

/* --- one object ------------------------------------------------------------------------ */

/* *@stored: pages in lines that their owner has, too. */
static void count_line_locked(const struct line *line, struct object_usage *u, uint64_t *stored)
{
	assert_spin_held(&set_of_line(line)->lock);
	if (line->state == LINE_FILLING)
		return;
	u->cached++;
	u->dirty += (line->file_dirty & FILE_DIRTY) != 0;
	u->writeback += (line->file_dirty & FILE_WRITING) != 0;
	if (line->obj->kind == OBJECT_SHARED)
		*stored += object_stored(line->obj, line->pgoff);
}

static void count_page(struct object *obj, uint64_t pgoff, struct object_usage *u, uint64_t *stored)
{
	struct cache_set *set = &excache.sets[set_index(obj, pgoff)];
	const struct line *line;

	spin_lock(&set->lock);
	line = set_find_locked(set, obj, pgoff);
	if (line)
		count_line_locked(line, u, stored);
	spin_unlock(&set->lock);
}

static void count_lines_of(struct cache_set *set, const struct object *obj, uint64_t first,
			   uint64_t end, struct object_usage *u, uint64_t *stored)
{
	const struct line *line;

	spin_lock(&set->lock);
	list_for_each_entry(line, &set->resident, set_link) {
		if (line->obj == obj && line->pgoff - first < end - first)
			count_line_locked(line, u, stored);
	}
	list_for_each_entry(line, &set->inflight, set_link) {
		if (line->obj == obj && line->pgoff - first < end - first)
			count_line_locked(line, u, stored);
	}
	spin_unlock(&set->lock);
}

void object_usage(struct object *obj, uint64_t first, uint64_t end, struct object_usage *u)
{
	uint64_t stored = 0, all;

	ASSERT(obj->kind != OBJECT_ANON);
	*u = (struct object_usage){ 0 };
	if (first >= end)
		return;
	if (end - first <= excache.nr_sets) {
		for (uint64_t page = first; page < end; page++)
			count_page(obj, page, u, &stored);
	} else {
		for (uint32_t i = 0; i < excache.nr_sets; i++)
			count_lines_of(&excache.sets[i], obj, first, end, u, &stored);
	}
	if (obj->kind != OBJECT_SHARED)
		return;
	spin_lock(&obj->lock);
	all = page_bits_count(&obj->stored, first, end);
	spin_unlock(&obj->lock);
	u->away = all - MIN(all, stored); /* fewer, if some have gone meanwhile */
}
