/* SPDX-License-Identifier: MIT */
/*
 * Frames: physical pages, handed out by a buddy allocator.
 *
 * Flow:	Metadata: one struct frame per page, found from the address by arithmetic.
 *		Only the first frame of a block of FRAME_LAZY_ORDER or more carries
 *		valid metadata: the rest is set up when such a block is split, so that
 *		boot does not touch it.
 * Invariants:	a block has one owner, the caller of frame_alloc(), until frame_free().
 * Context:	alloc and free anywhere, interrupt handlers included.
 * Failure:	NULL when nothing is left; never a panic.
 */
#pragma once

#include <arch/layout.h>
#include <lib/compiler.h>
#include <lib/list.h>
#include <lib/types.h>

#define FRAME_MAX_ORDER  18u /* 1 GiB */
#define FRAME_LAZY_ORDER 9u  /* 2 MiB */

#define FRAME_ZERO   0x1u /* filled with zeroes */
#define FRAME_NOWAIT 0x2u /* caller cannot wait (the allocator itself never does) */

enum frame_state {
	FRAME_RESERVED, /* not ours to hand out */
	FRAME_FREE,     /* head of a free block */
	FRAME_TAIL,     /* inside a block */
	FRAME_USED,     /* head of an allocated block */
};

struct frame {
	struct list_head link; /* free list; the owner's to use while allocated */
	uint64_t private;      /* the owner's */
	uint8_t order;
	uint8_t state; /* enum frame_state; frame pool lock */
	uint16_t tag;  /* the owner's; slab uses it for kfree() */
};

extern struct frame *frame_table; /* index: pfn */
extern pfn_t frame_max_pfn;

struct frame *frame_alloc(unsigned int order, unsigned int flags);
void frame_free(struct frame *f, unsigned int order);

/*
 * @nr_pages physically contiguous pages aligned to @align_pages (a power of
 * two), up to gigabytes; best at boot.  Freed whole by frame_free_contig().
 */
struct frame *frame_alloc_contig(uint64_t nr_pages, uint64_t align_pages);
void frame_free_contig(struct frame *f, uint64_t nr_pages);

static inline pfn_t frame_to_pfn(const struct frame *f)
{
	return (pfn_t)(f - frame_table);
}

static inline paddr_t frame_to_paddr(const struct frame *f)
{
	return (paddr_t)frame_to_pfn(f) << PAGE_SHIFT;
}

static inline void *frame_to_virt(const struct frame *f)
{
	return (void *)(DIRECT_MAP_BASE + frame_to_paddr(f));
}

/* @paddr must be RAM. */
static inline struct frame *paddr_to_frame(paddr_t paddr)
{
	return &frame_table[paddr >> PAGE_SHIFT];
}

static inline struct frame *virt_to_frame(const void *virt)
{
	return paddr_to_frame((uint64_t)virt - DIRECT_MAP_BASE);
}

uint64_t frames_free_count(void);
uint64_t frames_total_count(void);

/* arch/x86: page-sized fills and copies. */
void clear_page(void *page);
void copy_page(void *dst, const void *src);

/* Boot: hand the memory map over; called once. */
void frame_init(void);
/* Consistency walk for tests and panics; returns the number of faults found. */
unsigned int frame_check(void);
