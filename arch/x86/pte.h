/* SPDX-License-Identifier: MIT */
/*
 * Page table entry bits, shared by kernel and user tables.
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

#define PTE_P      BIT64(0)
#define PTE_W      BIT64(1)
#define PTE_U      BIT64(2)
#define PTE_PWT    BIT64(3)
#define PTE_PCD    BIT64(4)
#define PTE_A      BIT64(5)
#define PTE_D      BIT64(6)
#define PTE_LARGE  BIT64(7) /* level 2 and 3 */
#define PTE_PAT    BIT64(7) /* level 1 */
#define PTE_G      BIT64(8)
#define PTE_NONE   BIT64(9)  /* ours: holds a frame, allows no access (P is clear) */
#define PTE_AROUND BIT64(10) /* ours: PGT_AROUND */
#define PTE_NX     BIT64(63)
#define PTE_ADDR   0x000ffffffffff000ull

#define PT_ENTRIES 512u

/* Level 1 is the lowest: 4 KiB per entry. */
static inline unsigned int pt_index(vaddr_t vaddr, unsigned int level)
{
	return (unsigned int)(vaddr >> (PAGE_SHIFT + 9 * (level - 1))) & (PT_ENTRIES - 1);
}

static inline uint64_t pt_level_size(unsigned int level)
{
	return 1ull << (PAGE_SHIFT + 9 * (level - 1));
}
