/* SPDX-License-Identifier: MIT */
/*
 * The memory of this processor's programs, in pages, as /proc/meminfo shows it.
 *
 * See:		docs/design/procfs.md
 */
#pragma once

#include <lib/types.h>

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
