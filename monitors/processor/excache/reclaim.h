/* SPDX-License-Identifier: MIT */
/*
 * Reclaim: lines are written back and evicted before their frames are needed.
 *
 * Flow:	a miss in a full set takes a free frame, chooses the line that goes, and notes the
 *		set; when some sets are noted, or frames run short, the reclaim thread evicts what
 *		was chosen and writes back what goes next.
 * Context:	any, but for reclaim_barrier(), which sleeps.
 * See:		docs/design/excache.md, "Reclaim"
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

struct cache_set;

/* The thread, before the first miss. -ENOMEM. */
int reclaim_init(void) __must_check;
/* A full @set, whose lock is held, has a miss: the thread is to look at it. */
void reclaim_note(struct cache_set *set);
/*
 * May @set, whose lock is held, have a line too many for now?  @demand: a thread waits for the
 * line.
 */
bool reclaim_may_grow(const struct cache_set *set, bool demand);
/* Wake the thread if there is enough for it to do.  No lock of the cache is held. */
void reclaim_kick(void);
/*
 * Entries that the thread has removed from page tables are gone from TLBs, too, and it uses no
 * page table that nothing maps any more.
 */
void reclaim_barrier(void);
/* A thread that misses evicts a line itself. */
void reclaim_count_direct(void);
