/* SPDX-License-Identifier: MIT */
/*
 * Operations of host tests on the shim's page tables.
 */
#pragma once

#include <lib/types.h>

struct pgtable;

/* As a program's access would: sets accessed (and dirty). False: it would fault. */
bool shim_pgtable_touch(struct pgtable *pt, vaddr_t vaddr, bool write);

/*
 * The calling thread has a TLB from here on, until shim_cpu_leave(): what it caches as writable and
 * dirty it stores to without a look at the entry. A flush, by whichever thread, waits for the
 * access that is under way and empties all TLBs.
 */
void shim_cpu_enter(void);
void shim_cpu_leave(void);
/* Load or store the word at @vaddr through the TLB. False: it would fault. */
bool shim_cpu_access(struct pgtable *pt, vaddr_t vaddr, uint64_t *val, bool write);

/* Flushes of any kind so far. */
extern unsigned int shim_nr_tlb_flushes;

/* User accesses of the range fault from now on; length 0: none do. */
void shim_user_bad(const void *start, size_t len);
/* Called after each cmpxchg_user_u32() that found its word, unless NULL. */
extern void (*shim_user_changed)(uint32_t *at);
/* The next access of @page faults, which maps it. NULL: none does. */
void shim_user_unmapped(const void *page);
/* How many have, since then. */
extern unsigned int shim_nr_user_faults;
/* Called in each such fault, if set: it may wait. */
extern void (*shim_user_fault)(void);
