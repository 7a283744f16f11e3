/* SPDX-License-Identifier: MIT */
/*
 * The memory of this processor's programs, in pages, as /proc/meminfo shows it.
 *
 * See:		docs/design/procfs.md
 */
#pragma once

#include <lib/types.h>

struct object;

struct memory_usage {
	/* Lines of the ExCache. */
	uint64_t dirty;     /* hold what their owner does not have, not yet on their way to it */
	uint64_t writeback; /* on their way to their owner */
	uint64_t mapped;    /* of files and shared memory, in some page table */
	/* Pages that an owner has, or that are only in the cache. */
	uint64_t anon;   /* private memory; what a fork shares counts once */
	uint64_t shared; /* shared memory, memfd, tmpfs */
};

/*
 * Exact for all that has not changed since the call, but for lines that very many page tables map:
 * these are dirty. Looks at each line, with one set's lock at a time, and waits if others have
 * looked just before: threads only.
 */
void memory_usage(struct memory_usage *u);

struct object_usage {    /* pages of a part of a file, or of shared memory */
	uint64_t cached; /* in a line */
	/* Of a file that changes: stored to through mappings; on their way to its memory node. */
	uint64_t dirty, writeback;
	uint64_t away; /* of shared memory: at their owners, and in no line */
};

/*
 * Of pages [first, end) of @obj, which is none of private memory and which the caller holds. Exact
 * for all that does not change during the call. Takes as long as one look-up of each page or of
 * each line of the cache, whichever are fewer; with one set's lock at a time.
 */
void object_usage(struct object *obj, uint64_t first, uint64_t end, struct object_usage *u);
