/* SPDX-License-Identifier: MIT */
/*
 * Pages of files that come before they are asked for: fetched ahead of a fault or a reader
 * (prefetch.c), or, when they are in the cache already, mapped around a fault (around.c).
 */
#pragma once

#include <lib/types.h>

#include "read_ahead.h"

struct aspace;
struct layout_seq;
struct object;
struct vma;

/* --- prefetch.c ------------------------------------------------------------------------ */

/* A fault has fetched page @pgoff of @file; its mapping shows @nr_mapped pages behind it. */
void prefetch_fault(struct object *file, uint64_t pgoff, uint64_t nr_mapped);

/* The reader is about to read page @pgoff of @file, the first of @nr_pages of one read(2). */
void prefetch_read(struct object *file, struct read_ahead *ra, uint64_t pgoff, uint64_t nr_pages);

/* --- prefetch.c: anonymous and shared memory --------------------------------------------- */

/*
 * A fault in @v, of a space whose layout was read at @seq, is under way, and is over: the pages
 * that it asks for may start a stream, clipped at @v.
 */
void prefetch_begin(struct aspace *as, const struct vma *v, uint64_t seq);
void prefetch_end(void);
/* The request for page @pgoff of @obj, which is no file, has been sent. */
void prefetch_miss(struct object *obj, uint64_t pgoff);
/* Page @pgoff of @obj, which is no file, was fetched ahead and is asked for now, the first time. */
void prefetch_used_page(struct object *obj, uint64_t pgoff);
/* For the counters, of any object: a page that was fetched ahead is asked for, ... */
void prefetch_note_used(struct object *obj, bool late);
/* ... or goes without. */
void prefetch_note_wasted(struct object *obj);

/* --- around.c -------------------------------------------------------------------------- */

#define AROUND_PAGES 64u /* pages of a window */

/*
 * A fault at @vaddr of @v, a mapping of a file, that is no write: map what is cached of the file
 * next to it, unless the layout has changed since @seq. True: the page itself is mapped. Never
 * sleeps.
 */
bool around_map(struct aspace *as, const struct vma *v, vaddr_t vaddr,
		const struct layout_seq *seq);
/*
 * Nothing that was mapped so is left in [start, end). @keep: in a fault, where records must stay.
 */
void around_unmap(struct aspace *as, vaddr_t start, vaddr_t end, bool keep);
/* No thread uses @as any more: forget what was mapped, before its page table is destroyed. */
void around_end(struct aspace *as);
