/* SPDX-License-Identifier: MIT */
/*
 * Which ranges of a space are locked: mlock(), mlockall(), MAP_LOCKED.
 *
 * Flow:	nothing is evicted or kept because of it: there is no swap. It counts against
 *		RLIMIT_MEMLOCK, and calls that would take locked pages away are refused. munmap(), a
 *		mapping put over it and exec end a lock; mremap() takes it along; a fork's child has
 *		none.
 * Locking:	aspace.map_lock
 * Failure:	what a call may need is made by locked_prepare() before it changes anything.
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

#include "ranges.h"

struct aspace;

struct locked_ranges {
	struct ranges ranges;
	uint64_t nr_pages; /* in them; also read without the lock */
	bool future;       /* MCL_FUTURE: new mappings are locked */
	bool on_fault;     /* MCL_ONFAULT with it: and not touched; also read without the lock */
};

/* Before a call that may cut, move or (@adds) add a range. -ENOMEM. */
int locked_prepare(struct aspace *as, bool adds) __must_check;
/* [start, end) is locked from now on. */
void locked_add(struct aspace *as, vaddr_t start, vaddr_t end);
/* It is not any more, or not mapped. */
void locked_cut(struct aspace *as, vaddr_t start, vaddr_t end);
/*
 * The mapping at [from, +old_len) is at [to, +new_len) now: each page is locked there that was
 * here, and the new ones as locked_new() says.
 */
void locked_move(struct aspace *as, vaddr_t from, uint64_t old_len, vaddr_t to, uint64_t new_len);
/*
 * The pages that a move locks beyond those that are: all new ones, if the last old one is locked.
 * (On Linux a lock that ends within a mapping makes two of it, and only the last one can grow.)
 */
uint64_t locked_new(struct aspace *as, vaddr_t from, uint64_t old_len, uint64_t new_len);
/* The first locked part of [at, end), if there is one. */
bool locked_next(struct aspace *as, vaddr_t at, vaddr_t end, vaddr_t *from, vaddr_t *to);
/* Pages of [start, end) that are locked. */
uint64_t locked_in(struct aspace *as, vaddr_t start, vaddr_t end);

/* --- mmap_calls.c ----------------------------------------------------------------------------- */

/* May the calling process lock @more pages? -EPERM: it may lock nothing, -ENOMEM: not so many. */
int locked_check(struct aspace *as, uint64_t more) __must_check;
/*
 * New locked memory of the calling process is there at once (@asked: by MAP_LOCKED), as far as it
 * can be: what cannot be touched is no error, as on Linux. map_lock is not held.
 */
void locked_touch(vaddr_t start, uint64_t len, bool asked);
