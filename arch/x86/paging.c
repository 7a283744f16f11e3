/* SPDX-License-Identifier: MIT */
/*
 * Kernel page tables: the final map built at start-up, and changes to the
 * vmalloc area later.
 *
 * Flow:	Map: docs/design/boot.md.  Text ro+x, read-only data ro, data rw nx; the
 *		direct map is rw nx in 1 GiB and 2 MiB pages, except that the image's
 *		text and read-only data are read-only there too.
 * Locking:	the level-4 table never changes after paging_init(), so user tables copy
 *		its upper half once.  Lower levels of the vmalloc area: table_lock.
 * Failure:	paging_init() panics when out of memory, kpt_map() returns -ENOMEM.
 */
#include <arch/cpu.h>
#include <arch/kpgtable.h>
#include <arch/layout.h>
#include <arch/start.h>
#include <kernel/boot.h>
#include <kernel/panic.h>
#include <kernel/spinlock.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <mm/early.h>
#include <mm/frame.h>
#include <mm/kmap.h>

#include "arch_private.h"
#include "pte.h"

#define EARLY_LIMIT 0x100000000ull /* reach of the boot page tables */
#define NO_PADDR    (~(paddr_t)0)

#define MSR_PAT   0x277u
/* Entries 0-3 as after reset (WB, WT, UC-, UC), entry 4 WC: PTE_PAT alone means WC. */
#define PAT_VALUE 0x0007040100070406ull

uint64_t kernel_pml4[PT_ENTRIES] __section(".bss.page_aligned") __aligned(4096);
static struct spinlock table_lock = SPINLOCK_INIT("kernel-tables", RANK_LEAF);
static bool frames_ready;

static uint64_t *table_of(uint64_t entry)
{
	return phys_to_virt(entry & PTE_ADDR);
}

static uint64_t *early_table(void)
{
	uint64_t *t = phys_to_virt(early_alloc(PAGE_SIZE, PAGE_SIZE, EARLY_LIMIT));

	memset(t, 0, PAGE_SIZE);
	return t;
}

/* The entry for @vaddr at @level, making tables on the way (start-up only). */
static uint64_t *early_entry(vaddr_t vaddr, unsigned int level)
{
	uint64_t *t = kernel_pml4;

	for (unsigned int l = 4; l > level; l--) {
		uint64_t *e = &t[pt_index(vaddr, l)];

		if (!(*e & PTE_P))
			*e = virt_to_phys(early_table()) | PTE_P | PTE_W;
		BUG_ON(*e & PTE_LARGE);
		t = table_of(*e);
	}
	return &t[pt_index(vaddr, level)];
}

static void early_map(vaddr_t vaddr, paddr_t paddr, uint64_t len, uint64_t bits)
{
	const uint64_t nx = cpu_features.nx ? ~0ull : ~PTE_NX;

	while (len) {
		unsigned int level = 1;

		if (cpu_features.pdpe1gb && IS_ALIGNED(vaddr | paddr, 1ull << 30) &&
		    len >= 1ull << 30)
			level = 3;
		else if (IS_ALIGNED(vaddr | paddr, 1ull << 21) && len >= 1ull << 21)
			level = 2;
		*early_entry(vaddr, level) =
			(paddr | bits | PTE_P | (level > 1 ? PTE_LARGE : 0)) & nx;
		vaddr += pt_level_size(level);
		paddr += pt_level_size(level);
		len -= pt_level_size(level);
	}
}

static void direct_map(paddr_t start, paddr_t end, uint64_t bits)
{
	start = ALIGN_UP(start, PAGE_SIZE);
	end = ALIGN_DOWN(end, PAGE_SIZE);
	if (start < end)
		early_map(DIRECT_MAP_BASE + start, start, end - start, bits | PTE_NX | PTE_G);
}

/* RAM of [start, end) without what the image's read-only part occupies. */
static void direct_map_ram(paddr_t start, paddr_t end)
{
	const paddr_t ro_start = virt_to_phys(image_start);
	const paddr_t ro_end = virt_to_phys(rodata_end);

	direct_map(start, MIN(end, MAX(ro_start, start)), PTE_W);
	direct_map(MAX(start, ro_start), MIN(end, ro_end), 0);
	direct_map(MAX(start, MIN(ro_end, end)), end, PTE_W);
}

static void map_image(const char *start, const char *end, uint64_t bits)
{
	const vaddr_t v = (vaddr_t)start;

	early_map(v, virt_to_phys(start), (uint64_t)(end - start), bits | PTE_G);
}

uint64_t kernel_cr3(void)
{
	return virt_to_phys(kernel_pml4);
}

void paging_load_cpu(void)
{
	wrmsr(MSR_PAT, PAT_VALUE);
	__asm__ volatile("mov %0, %%cr3" ::"r"(kernel_cr3()) : "memory");
}

void paging_init(void)
{
	const struct boot_info *bi = &boot_info;

	for (unsigned int i = 0; i < bi->nr_mem; i++) {
		const struct boot_mem *m = &bi->mem[i];
		const paddr_t end = MIN(m->base + m->size, DIRECT_MAP_SIZE);

		if (m->base >= DIRECT_MAP_SIZE)
			continue;
		if (m->type == BOOT_MEM_RAM)
			direct_map_ram(m->base, end);
	}
	map_image(text_start, text_end, 0);
	map_image(rodata_start, rodata_end, PTE_NX);
	map_image(data_start, image_end, PTE_W | PTE_NX);
	/* The vmalloc area's level-3 table exists from now on: user tables share it. */
	(void)early_entry(VMALLOC_BASE, 3);
	paging_load_cpu();
}

/* From here on table pages come from the frame allocator. */
void paging_frames_ready(void)
{
	frames_ready = true;
}

static uint64_t *walk(vaddr_t vaddr, unsigned int *level)
{
	uint64_t *t = kernel_pml4;

	for (unsigned int l = 4;; l--) {
		uint64_t *e = &t[pt_index(vaddr, l)];

		if (l == 1 || !(*e & PTE_P) || (l < 4 && (*e & PTE_LARGE))) {
			*level = l;
			return e;
		}
		t = table_of(*e);
	}
}

static int install_table(uint64_t *entry)
{
	struct frame *f = frame_alloc(0, FRAME_ZERO);
	unsigned long flags;

	if (!f)
		return -ENOMEM;
	flags = spin_lock_irqsave(&table_lock);
	if (*entry & PTE_P) { /* another CPU was faster */
		spin_unlock_irqrestore(&table_lock, flags);
		frame_free(f, 0);
		return 0;
	}
	WRITE_ONCE(*entry, frame_to_paddr(f) | PTE_P | PTE_W);
	spin_unlock_irqrestore(&table_lock, flags);
	return 0;
}

int kpt_map(vaddr_t vaddr, paddr_t paddr, unsigned int flags)
{
	uint64_t bits = PTE_P | PTE_G | PTE_A | PTE_D;
	unsigned int level;
	uint64_t *e;

	BUG_ON(vaddr < VMALLOC_BASE || vaddr >= VMALLOC_END || !frames_ready);
	BUG_ON((flags & KPT_WRITE) && (flags & KPT_EXEC));
	while (e = walk(vaddr, &level), level > 1) {
		if (install_table(e))
			return -ENOMEM;
	}
	BUG_ON(*e & PTE_P);
	bits |= flags & KPT_WRITE ? PTE_W : 0;
	bits |= flags & KPT_NOCACHE ? PTE_PCD | PTE_PWT : 0;
	bits |= flags & KPT_WC ? PTE_PAT : 0;
	bits |= !(flags & KPT_EXEC) && cpu_features.nx ? PTE_NX : 0;
	WRITE_ONCE(*e, (paddr & PTE_ADDR) | bits);
	return 0;
}

paddr_t kpt_unmap(vaddr_t vaddr)
{
	unsigned int level;
	uint64_t *e = walk(vaddr, &level);
	const uint64_t old = *e;

	if (level != 1 || !(old & PTE_P))
		return NO_PADDR;
	WRITE_ONCE(*e, 0);
	return old & PTE_ADDR;
}

bool kpt_query(vaddr_t vaddr, paddr_t *paddr, bool *write, bool *exec)
{
	unsigned int level;
	const uint64_t e = *walk(vaddr, &level);
	const uint64_t off = vaddr & (pt_level_size(level) - 1);

	if (!(e & PTE_P))
		return false;
	*paddr = (e & PTE_ADDR & ~(pt_level_size(level) - 1)) + off;
	*write = e & PTE_W; /* upper levels allow everything */
	*exec = !(e & PTE_NX);
	return true;
}

paddr_t kpt_lookup(vaddr_t vaddr)
{
	paddr_t paddr;
	bool w;
	bool x;

	return kpt_query(vaddr, &paddr, &w, &x) ? paddr : NO_PADDR;
}
