/* SPDX-License-Identifier: MIT */
/*
 * The kernel's own page tables: the shared upper half.
 *
 * Invariants:	W^X: KPT_WRITE and KPT_EXEC never together.
 * Locking:	the caller owns the virtual range (mm/kmap.c hands ranges out).
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

#define KPT_READ    0x0u
#define KPT_WRITE   0x1u
#define KPT_EXEC    0x2u
#define KPT_NOCACHE 0x4u /* device registers */
#define KPT_WC      0x8u /* write-combining */

/* Map one 4 KiB page in the vmalloc area; -ENOMEM for want of a table page. */
int kpt_map(vaddr_t vaddr, paddr_t paddr, unsigned int flags) __must_check;
/* Clear one page's entry; returns the physical address that was mapped, or ~0. */
paddr_t kpt_unmap(vaddr_t vaddr);
/* Physical address behind any kernel address, or ~0. */
paddr_t kpt_lookup(vaddr_t vaddr);
/* After kpt_unmap(): on every CPU. */
void kpt_flush(vaddr_t start, vaddr_t end);
/* Is @vaddr mapped with these rights?  For tests of W^X. */
bool kpt_query(vaddr_t vaddr, paddr_t *paddr, bool *write, bool *exec);
