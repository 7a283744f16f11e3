/* SPDX-License-Identifier: MIT */
/*
 * Page-granular memory before the frame allocator: first fit over the RAM of
 * the boot memory map, minus a short list of reservations.
 *
 * Context:	boot CPU only.  frame_init() takes what is left and closes this.
 * Failure:	panic: without these pages there is no kernel.
 */
#include <kernel/boot.h>
#include <kernel/panic.h>
#include <mm/early.h>
#include <mm/kmap.h>

#include "arch_private.h"

#define LOW_RESERVED 0x100000ull /* firmware, boot information, AP start-up */

static struct early_range reserved[EARLY_MAX_RESERVED];
static unsigned int nr_reserved;

static void reserve(paddr_t start, paddr_t end)
{
	unsigned int i;

	for (i = 0; i < nr_reserved; i++) {
		if (reserved[i].end == start) { /* the usual case: next to the last one */
			reserved[i].end = end;
			return;
		}
	}
	if (nr_reserved == EARLY_MAX_RESERVED)
		panic("early memory: too many reservations");
	for (i = nr_reserved; i > 0 && reserved[i - 1].start > start; i--)
		reserved[i] = reserved[i - 1];
	reserved[i] = (struct early_range){ start, end };
	nr_reserved++;
}

/* First page-aligned place in [start, end) that no reservation covers; 0 if none. */
static paddr_t fit(paddr_t start, paddr_t end, uint64_t size, uint64_t align)
{
	paddr_t at = ALIGN_UP(start, align);

	for (unsigned int i = 0; i < nr_reserved; i++) {
		if (reserved[i].end <= at)
			continue;
		if (at < end && size <= end - at && at + size <= reserved[i].start)
			return at;
		at = ALIGN_UP(MAX(at, reserved[i].end), align);
	}
	return at < end && size <= end - at ? at : 0;
}

paddr_t early_alloc(uint64_t size, uint64_t align, paddr_t limit)
{
	size = ALIGN_UP(size, PAGE_SIZE);
	for (unsigned int i = 0; i < boot_info.nr_mem; i++) {
		const struct boot_mem *m = &boot_info.mem[i];
		const paddr_t end = MIN(m->base + m->size, limit);
		paddr_t at;

		if (m->type != BOOT_MEM_RAM || m->base >= limit)
			continue;
		at = fit(MAX(m->base, LOW_RESERVED), end, size, align);
		if (at) {
			reserve(at, at + size);
			return at;
		}
	}
	panic("early memory: no room for %lu KiB", size >> 10);
}

const struct early_range *early_reserved(unsigned int *nr)
{
	*nr = nr_reserved;
	return reserved;
}

void early_alloc_init(void)
{
	reserve(0, LOW_RESERVED);
	reserve(virt_to_phys(image_start), virt_to_phys(image_end));
}
