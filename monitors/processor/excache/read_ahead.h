/* SPDX-License-Identifier: MIT */
/*
 * Which pages of a file a reader will want next.
 *
 * Context:	pure; the owner of the structure sees to it that one thread at a time asks.
 */
#pragma once

#include <lib/types.h>

#define READ_AHEAD_MIN 4u  /* pages */
#define READ_AHEAD_MAX 32u /* pages: one message */

/* Of one reader of a file; all 0 at first. */
struct read_ahead {
	uint64_t next;   /* page that a reader who goes forward wants next */
	uint64_t end;    /* page behind the last one asked for ahead */
	uint64_t sure;   /* page behind those of the read that jumped: more may not be wanted */
	uint32_t window; /* pages; 0: it has jumped, and has not gone on yet */
};

/* A page that the reader is about to read. */
struct read_step {
	uint64_t pgoff;
	uint64_t nr_pages; /* of this read(2) that are left, @pgoff among them */
	/* It jumps to @pgoff, but the page before is there: one of several streams may go on. */
	bool goes_on;
};

/* Does the reader jump to @pgoff? */
static inline bool read_ahead_jumps(const struct read_ahead *ra, uint64_t pgoff)
{
	return pgoff != ra->next && pgoff + 1 != ra->next;
}
/* How many pages, from page *@first on, to ask for now; 0: none. */
uint32_t read_ahead_step(struct read_ahead *ra, const struct read_step *step, uint64_t *first);
