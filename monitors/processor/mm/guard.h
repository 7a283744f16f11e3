/* SPDX-License-Identifier: MIT */
/*
 * Guard pages: pages of mappings that no access reaches, by madvise(MADV_GUARD_INSTALL), without a
 * mapping of their own.
 *
 * Flow:	the set of them is the space's, beside its vmas, and follows each change of the
 *		layout: the home and the owners know the mappings alone. A fault at a guard is
 *		answered as one where nothing is mapped.
 * Locking:	aspace.map_lock and aspace.lock to change the set, either to read it.
 * Failure:	what a call may need is made by guard_prepare() before it changes anything.
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

struct aspace;

/* Before a call that may cut or move guards, or add some. map_lock is held. -ENOMEM. */
int guard_prepare(struct aspace *as, bool adds) __must_check;
/* The pages of [start, end), which is blocked and has no pages, are guards. */
void guard_add(struct aspace *as, vaddr_t start, vaddr_t end);
/* They are none any more. */
void guard_cut(struct aspace *as, vaddr_t start, vaddr_t end);
/* The mapping at [from, +old_len) is at [to, +new_len) now. */
void guard_move(struct aspace *as, vaddr_t from, uint64_t old_len, vaddr_t to, uint64_t new_len);
/* Is there one in [start, end)? No lock held. */
bool guard_meets(struct aspace *as, vaddr_t start, vaddr_t end);
