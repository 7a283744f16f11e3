/* SPDX-License-Identifier: MIT */
/*
 * Marks of pages, which a program has made and only this processor needs to know: MADV_DONTFORK and
 * MADV_WIPEONFORK (a child of fork() does not get them, or gets them empty), MADV_DONTDUMP, memory
 * policies, names of anonymous memory.
 *
 * Flow:	the pages of each mark are a set of the space's, beside its vmas, and follow each
 *		change of the layout, as guards do: the home and the owners know the mappings alone,
 *		and copy all of them. A child takes away what it is not to have before it runs.
 * Locking:	aspace.map_lock
 * Failure:	what a call may need is made by advice_prepare() before it changes anything.
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

#include "aspace.h"

/* Before a call that may cut or move marks. -ENOMEM. */
int advice_prepare(struct aspace *as) __must_check;
/* The mapping at [start, end) goes. */
void advice_cut(struct aspace *as, vaddr_t start, vaddr_t end);
/* The mapping at [from, +old_len) is at [to, +new_len) now. */
void advice_move(struct aspace *as, vaddr_t from, uint64_t old_len, vaddr_t to, uint64_t new_len);
/* [start, end), which is new, belongs to the mapping that has page @at. */
void advice_extend(struct aspace *as, vaddr_t at, vaddr_t start, vaddr_t end);

/* [start, end), which is mapped, has @mark with @value (0, where it has none). -ENOMEM. */
int advice_set(struct aspace *as, enum mark mark, vaddr_t start, vaddr_t end, uint64_t value)
	__must_check;
/* It has not. -ENOMEM. */
int advice_clear(struct aspace *as, enum mark mark, vaddr_t start, vaddr_t end) __must_check;

struct advice_part {
	vaddr_t end; /* up to here it is the same: marked with the value, or not */
	uint64_t value;
};
/* Has the page at @at the mark? */
bool advice_find(struct aspace *as, enum mark mark, vaddr_t at, struct advice_part *part);

/* The part [start, end) of @v. Not 0: the walk ends. */
typedef int advice_part_fn(struct aspace *as, const struct vma *v, vaddr_t start, vaddr_t end,
			   void *arg);
/*
 * @fn for each mapping of [start, end). Its answer, or -ENOMEM at the end if there are holes, or
 * as of aspace_vma_at().
 */
int advice_each(struct aspace *as, vaddr_t start, vaddr_t end, advice_part_fn *fn, void *arg)
	__must_check;
/*
 * madvise() with an advice that is a mark, or that takes one back. -ENOMEM: there are holes, or no
 * memory; -EINVAL: memory of files, or that is shared, cannot be wiped. All that stands before is
 * marked.
 */
int advice_give(struct aspace *as, vaddr_t start, vaddr_t end, int advice) __must_check;

/* fork: @child, which no other thread knows yet, has the marks of @parent. -ENOMEM. */
int advice_copy(struct aspace *parent, struct aspace *child) __must_check;
/* It loses what it is not to have. -ENOMEM, -EINTR, and errors of memory nodes: it must end. */
int advice_fork(struct aspace *child) __must_check;
/* The space ends. */
void advice_end(struct aspace *as);
