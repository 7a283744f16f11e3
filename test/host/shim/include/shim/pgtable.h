/* SPDX-License-Identifier: MIT */
/*
 * Operations of host tests on the shim's page tables.
 */
#pragma once

#include <lib/types.h>

struct pgtable;

/* As a program's access would: sets accessed (and dirty). False: it would fault. */
bool shim_pgtable_touch(struct pgtable *pt, vaddr_t vaddr, bool write);

/* Flushes of any kind so far. */
extern unsigned int shim_nr_tlb_flushes;

/* User accesses of the range fault from now on; length 0: none do. */
void shim_user_bad(const void *start, size_t len);
/* The next access of @page faults, which maps it. NULL: none does. */
void shim_user_unmapped(const void *page);
/* How many have, since then. */
extern unsigned int shim_nr_user_faults;
