/* SPDX-License-Identifier: MIT */
/*
 * Kernel address space: direct map, vmalloc area, device memory.
 *
 * Context:	phys_to_virt() and virt_to_phys(): anywhere.  The others: threads.
 * Failure:	NULL.
 */
#pragma once

#include <arch/layout.h>
#include <lib/compiler.h>
#include <lib/types.h>

/* RAM only (the direct map). */
static inline void *phys_to_virt(paddr_t paddr)
{
	return (void *)(DIRECT_MAP_BASE + paddr);
}

/* Direct-map and kernel-image addresses; for vmalloc use vmalloc_to_phys(). */
static inline paddr_t virt_to_phys(const volatile void *virt)
{
	const uint64_t v = (uint64_t)virt;

	return v >= KERNEL_BASE ? v - KERNEL_BASE : v - DIRECT_MAP_BASE;
}

/* Map device registers uncached.  @paddr and @len need no alignment. */
void __iomem *mmio_map(paddr_t paddr, size_t len);
/* The same, write-combining (BlueFlame pages, frame buffers). */
void __iomem *mmio_map_wc(paddr_t paddr, size_t len);
void mmio_unmap(volatile void __iomem *addr);

/*
 * An address that was freed usually comes again after this many bytes or more were handed out:
 * late enough that a stray pointer faults, early enough that page tables stay few (4 KiB for
 * 2 MiB).
 */
#define KMAP_REUSE_SPAN (128ul << 20)

/* Virtually contiguous memory, zeroed, with an unmapped guard page on each side. */
void *vmalloc(size_t len);
void vfree(const void *p);
paddr_t vmalloc_to_phys(const void *p);

/*
 * For tests, which need large areas of few frames: map @nr frames (physical addresses, page
 * aligned) read-write.
 */
void *vmap(const paddr_t *pages, size_t nr);
void vunmap(const void *p);

/*
 * Memory for a device: zeroed, physically contiguous, page aligned.  Freed with
 * the same @size.
 */
void *dma_alloc(size_t size, paddr_t *paddr);
void dma_free(void *p, size_t size);

/* Boot. */
void kmap_init(void);
