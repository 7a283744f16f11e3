/* SPDX-License-Identifier: MIT */
/*
 * Between pgtable.c, which knows the entries, and tlb.c, which knows the CPUs.
 */
#pragma once

#include <arch/cpumask.h>
#include <lib/types.h>

struct pgtable {
	uint64_t *pml4;         /* const */
	paddr_t cr3;            /* const */
	size_t nr_tables;       /* caller's lock */
	size_t budget;          /* caller's lock: no more tables than that */
	uint64_t *near;         /* caller's lock: the level-1 table used last, or NULL */
	vaddr_t near_base;      /* caller's lock: the lowest address in it */
	size_t nr_pages;        /* caller's lock: entries that map a page */
	size_t nr_pages_most;   /* caller's lock: the most there were at a time */
	struct cpu_mask active; /* atomic: CPUs that have it loaded */
};

/* No CPU has @pt loaded any more; none may be running a thread of it. */
void pgtable_drop(struct pgtable *pt);
/* In a timer interrupt that came while a program ran; see tlb.c (Emulated). */
void tlb_refresh(uint64_t now_ns);
