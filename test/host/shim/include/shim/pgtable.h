/* SPDX-License-Identifier: MIT */
/*
 * What a host test can do to the shim's page tables.
 */
#pragma once

#include <lib/types.h>

struct pgtable;

/* As a program's access would: sets accessed (and dirty). False: it would fault. */
bool shim_pgtable_touch(struct pgtable *pt, vaddr_t vaddr, bool write);

/* Flushes of any kind so far. */
extern unsigned int shim_nr_tlb_flushes;
