/* SPDX-License-Identifier: MIT */
/*
 * ExCache: which pages of a file are fetched before a program asks for them.
 *
 * Flow:	a fault that had to fetch a page of a mapped file asks for the pages behind it. A
 *		reader that goes forward asks for a window ahead of itself, twice as long each
 *		time; a reader that jumps starts again with a short one. fill.c sends the request,
 *		in a class of its own, and a page that is there already ends it.
 * Context:	the faulting or reading thread; never sleeps for long.
 * See:		around.c, which maps pages that are there already; docs/design/excache.md,
 *		"Fetching ahead"
 */
#include "prefetch.h"

#include <lib/compiler.h>

#include "cache_private.h"
#include "owner.h"

#define READ_AHEAD_MIN   4u  /* pages */
#define READ_AHEAD_MAX   32u /* pages: one message */
#define FAULT_READ_PAGES 16u /* pages behind one that a fault has fetched */

static_assert(READ_AHEAD_MAX <= FILE_FETCH_MAX, "one message");

void prefetch_fault(struct object *file, uint64_t pgoff, uint64_t nr_mapped)
{
	if (nr_mapped > 0)
		fill_ahead(file, pgoff + 1,
			   (unsigned int)MIN(nr_mapped, (uint64_t)FAULT_READ_PAGES));
}

void prefetch_read(struct object *file, struct read_ahead *ra, uint64_t pgoff)
{
	if (pgoff != ra->next && pgoff + 1 != ra->next) {
		ra->window = READ_AHEAD_MIN;
		ra->end = pgoff + 1;
	} else if (!ra->window) {
		ra->window = READ_AHEAD_MIN;
	}
	ra->next = pgoff + 1;
	ra->end = MAX(ra->end, pgoff + 1);
	/* Two windows: the reader is inside one while the next is on its way. */
	if (ra->end - pgoff > ra->window)
		return;
	fill_ahead(file, ra->end, ra->window);
	ra->end += ra->window;
	ra->window = MIN(ra->window * 2, READ_AHEAD_MAX);
}
