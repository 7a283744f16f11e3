/* SPDX-License-Identifier: MIT */
/*
 * Sealed memory: pages whose mappings no call may change or remove, by mseal().
 *
 * Flow:	a space knows its sealed ranges. Calls that change the layout ask first. Sealed
 *		memory stays mapped while the space lives, so a range never shrinks or moves, and
 *		the memory nodes need not know of it: every call that changes a layout comes
 *		through the space's processor.
 * Locking:	aspace.map_lock
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

struct aspace;

/* Before a call that may seal a range. -ENOMEM. */
int seal_prepare(struct aspace *as) __must_check;
/* [start, end), which is mapped, is sealed from now on. */
void seal_extend(struct aspace *as, vaddr_t start, vaddr_t end);
/* Both. */
int seal_add(struct aspace *as, vaddr_t start, vaddr_t end) __must_check;
/* -EPERM: some page of [start, +len) is sealed. */
int seal_check(struct aspace *as, vaddr_t start, uint64_t len) __must_check;
/*
 * The same for a call that drops the pages of the range, which is mapped: only what is sealed,
 * private, of no file, and cannot be written is kept from it. -ENOMEM: a hole.
 */
int seal_check_discard(struct aspace *as, vaddr_t start, uint64_t len) __must_check;
