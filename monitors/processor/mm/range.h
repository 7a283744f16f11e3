/* SPDX-License-Identifier: MIT */
/*
 * Ranges of an address space that go away: the steps of the calls in mmap_calls.c, which says in
 * what order they come, and of mremap.
 *
 * Locking:	aspace.map_lock is held.
 */
#pragma once

#include "aspace.h"

static inline uint64_t page_up(uint64_t len)
{
	return (len + PAGE_SIZE - 1) & ~(uint64_t)(PAGE_SIZE - 1);
}

/*
 * Before a call that may cut, move or (@attaches, @locks) add what the space knows of its ranges.
 * -ENOMEM.
 */
int layout_prepare(struct aspace *as, bool attaches, bool locks) __must_check;
/* Page aligned, where mappings may be, after rounding the length up: 0, else @err. */
int range_check(uint64_t start, uint64_t *len, int err) __must_check;
/*
 * Before the home is asked: no fault begins in the range, and every line of it stays. -ENOMEM,
 * or -EINTR as the thread is to be killed: nothing has happened, and it is not blocked.
 */
int range_begin(struct aspace *as, struct blocked_range *r, vaddr_t start, uint64_t len)
	__must_check;
void range_end(struct aspace *as, struct blocked_range *r);
/*
 * It has been agreed: none of the pages is left, here and in objects behind the top. Returns how
 * many of them owners have.
 */
uint64_t pages_forget(struct aspace *as, vaddr_t start, uint64_t len);
/*
 * A call that was to unmap pages from @start on has failed with @err. A refusal has changed
 * nothing, at the home or here. After any other error the home, or some owners, may have done it:
 * which contents are right cannot be told, so the program ends.
 */
void range_failed(struct aspace *as, vaddr_t start, int err);
/*
 * The pages of [start, +len) go, the mapping stays: private anonymous ones read as zero afterwards,
 * those of files as the file. -ENOMEM, -EINTR; others as of range_failed().
 */
int range_discard(struct aspace *as, vaddr_t start, uint64_t len) __must_check;
/* All that belonged to the mapping at [start, +len) goes: another lies over it, or none. */
void range_replaced(struct aspace *as, vaddr_t start, uint64_t len);
/* The same, and the mapping. */
void range_forget(struct aspace *as, vaddr_t start, uint64_t len);
/*
 * range_failed() for a call that puts a mapping over [start, +len): the home may have unmapped what
 * was there and have no memory for what was to come, -EIDRM. Returns the error for the program.
 */
int range_over_failed(struct aspace *as, vaddr_t start, uint64_t len, int err) __must_check;
