/* SPDX-License-Identifier: MIT */
/*
 * Which pages of a file a reader will want next.
 *
 * Flow:	a reader who goes forward, or begins at the begin of the file, gets a window ahead
 *		of itself, twice as long each time.  One who jumps gets what the same read(2) wants,
 *		in one request, and nothing that it may not want; if it then goes on from there, it
 *		goes forward.  A read(2) of more than the longest window goes forward by itself.
 */
#include "read_ahead.h"

#include <lib/compiler.h>

static void jump(struct read_ahead *ra, const struct read_step *step)
{
	ra->end = step->pgoff + 1;
	ra->sure = 0;
	ra->window = READ_AHEAD_MIN;
	if (step->nr_pages > READ_AHEAD_MAX + 1) {
		ra->window = READ_AHEAD_MAX;
	} else if (!step->goes_on) {
		ra->sure = step->pgoff + step->nr_pages;
		ra->window = 0;
	}
}

uint32_t read_ahead_step(struct read_ahead *ra, const struct read_step *step, uint64_t *first)
{
	const uint64_t pgoff = step->pgoff;
	const bool jumps = read_ahead_jumps(ra, pgoff);
	uint32_t nr;

	if (jumps)
		jump(ra, step);
	else if (!ra->window && pgoff >= ra->sure)
		ra->window = READ_AHEAD_MIN;
	ra->next = pgoff + 1;
	ra->end = MAX(ra->end, pgoff + 1);
	*first = ra->end;
	if (!ra->window) {
		nr = jumps ? (uint32_t)(ra->sure - ra->end) : 0;
		ra->end += nr;
		return nr;
	}
	/* Two windows: the reader is inside one while the next is on its way. */
	if (ra->end - pgoff > ra->window)
		return 0;
	nr = ra->window;
	ra->end += nr;
	ra->window = MIN(nr * 2, READ_AHEAD_MAX);
	return nr;
}
