/* SPDX-License-Identifier: MIT */
/*
 * Fault-around: cached pages of a file, mapped before they are asked for.  See excache/around.c.
 */
#pragma once

#include <processor/mm/aspace.h>

#define AROUND_PAGES 64u

/*
 * A fault at @vaddr of @v, a mapping of a file, that is no write: map what is cached of the file next to it, unless the
 * layout has changed since @seq.  True: the page itself is mapped.  Never sleeps.
 */
bool around_map(struct aspace *as, const struct vma *v, vaddr_t vaddr,
		const struct layout_seq *seq);
/* Nothing that was mapped so is left in [start, end). @keep: in a fault, where records must stay. */
void around_unmap(struct aspace *as, vaddr_t start, vaddr_t end, bool keep);
/* No thread uses @as any more: forget what was mapped, for the page table to be destroyed as it is. */
void around_end(struct aspace *as);
