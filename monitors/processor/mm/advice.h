/* SPDX-License-Identifier: MIT */
/*
 * Memory that a child of fork() does not get, or gets empty: MADV_DONTFORK and MADV_WIPEONFORK.
 *
 * Flow:	the pages are two sets of the space's, beside its vmas, and follow each change of
 *		the layout, as guards do: the home and the owners know the mappings alone, and copy
 *		all of them. A child takes away what it is not to have before it runs.
 * Locking:	aspace.map_lock
 * Failure:	what a call may need is made by advice_prepare() before it changes anything.
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

struct aspace;

/* Before a call that may cut or move marks, or add some. -ENOMEM. */
int advice_prepare(struct aspace *as, bool adds) __must_check;
/* The mapping at [start, end) goes. */
void advice_cut(struct aspace *as, vaddr_t start, vaddr_t end);
/* The mapping at [from, +old_len) is at [to, +new_len) now. */
void advice_move(struct aspace *as, vaddr_t from, uint64_t old_len, vaddr_t to, uint64_t new_len);
/* [start, end), which is new, belongs to the mapping that has page @at. */
void advice_extend(struct aspace *as, vaddr_t at, vaddr_t start, vaddr_t end);
/*
 * madvise() with one of the two, or what undoes them. -ENOMEM: there are holes, or no memory;
 * -EINVAL: memory of files, or that is shared, cannot be wiped. All that stands before is marked.
 */
int advice_set(struct aspace *as, vaddr_t start, vaddr_t end, int advice) __must_check;
/* fork: @child, which no other thread knows yet, has the marks of @parent. -ENOMEM. */
int advice_copy(struct aspace *parent, struct aspace *child) __must_check;
/* It loses what it is not to have. -ENOMEM, -EINTR, and errors of memory nodes: it must end. */
int advice_fork(struct aspace *child) __must_check;
