/* SPDX-License-Identifier: MIT */
/* A program's access to its memory, for host tests of address spaces. */
#pragma once

#include <processor/mm/aspace.h>

/* RLIMIT_MEMLOCK of the caller in bytes; UINT64_MAX, as it begins: it may lock all that it maps. */
extern uint64_t user_memlock;

/*
 * Read or write one 64-bit word of the page @page above @base, as a program does: through the page
 * table, faulting until it works.  Which word depends on the page, so that a page in a wrong place
 * shows.
 *
 * Context:	threads, @as->lock not held.
 * Return:	0, or the fault's error; then *@val and the memory are as before.
 */
int user_word(struct aspace *as, vaddr_t base, uint64_t page, uint64_t *val, bool write);
