/* SPDX-License-Identifier: MIT */
/*
 * The vmalloc area: virtual ranges for stacks, large tables and device memory.
 *
 * Flow:	Ranges: a tree of areas by address; the search goes up from the last area handed
 *		out, so that a freed address is not reused soon, and starts again at the
 *		bottom when the window is full, since page tables stay once they were
 *		needed.  Each area starts with a guard page, which also ends the one before.
 * Locking:	kmap_lock guards the tree; mapping happens outside it, on ranges that
 *		the caller owns.
 */
#define PR_FMT "kmap: "

#include <mm/kmap.h>

#include <arch/kpgtable.h>
#include <kernel/panic.h>
#include <kernel/printk.h>
#include <kernel/spinlock.h>
#include <lib/errno.h>
#include <lib/rbtree.h>
#include <lib/string.h>
#include <mm/frame.h>
#include <mm/slab.h>

#define UNMAP_BATCH 32u /* pages for one invalidation */

enum area_kind {
	AREA_VMALLOC,
	AREA_MAP
};

struct area {
	struct rb_node node;
	vaddr_t start; /* guard page */
	vaddr_t end;
	enum area_kind kind;
};

static struct spinlock kmap_lock = SPINLOCK_INIT("vmalloc", RANK_VMALLOC);
static struct rb_root areas __guarded_by(&kmap_lock);
static vaddr_t hint __guarded_by(&kmap_lock) = VMALLOC_BASE;
static uint64_t used __guarded_by(&kmap_lock);   /* bytes of all areas */
static uint64_t window __guarded_by(&kmap_lock); /* bytes from VMALLOC_BASE on; only grows */

static struct area *area_of(struct rb_node *n)
{
	return rb_entry_or_null(n, struct area, node);
}

/* First area that ends above @addr. */
static struct area *first_above(vaddr_t addr) __must_hold(&kmap_lock)
{
	struct rb_node *n = areas.node;
	struct area *best = NULL;

	while (n) {
		struct area *a = area_of(n);

		if (a->end > addr) {
			best = a;
			n = n->left;
		} else {
			n = n->right;
		}
	}
	return best;
}

/* Lowest gap of @len in [from, to); 0 if none. */
static vaddr_t find_gap(vaddr_t from, vaddr_t to, uint64_t len) __must_hold(&kmap_lock)
{
	struct area *a = first_above(from);

	while (from < to && to - from >= len) {
		if (!a || (a->start >= from && a->start - from >= len))
			return from;
		from = a->end;
		a = area_of(rb_next(&a->node));
	}
	return 0;
}

/*
 * Where the search from the hint ends: room for @len and what is in use, gaps between included,
 * and for KMAP_REUSE_SPAN more.
 */
static vaddr_t search_end(uint64_t len) __must_hold(&kmap_lock)
{
	window = MIN(MAX(window, KMAP_REUSE_SPAN + 2 * (used + len)), VMALLOC_SIZE);
	return VMALLOC_BASE + window;
}

static void insert_area(struct area *a) __must_hold(&kmap_lock)
{
	struct rb_node **link = &areas.node;
	struct rb_node *parent = NULL;

	while (*link) {
		parent = *link;
		ASSERT(a->end <= area_of(parent)->start || a->start >= area_of(parent)->end);
		link = a->start < area_of(parent)->start ? &parent->left : &parent->right;
	}
	rb_link_node(&a->node, parent, link);
	rb_insert_color(&a->node, &areas);
}

/* @nr pages of address space behind a guard page. */
static struct area *area_alloc(size_t nr, enum area_kind kind)
{
	struct area *a;
	uint64_t len;
	unsigned long flags;

	if (nr == 0 || nr >= VMALLOC_SIZE >> PAGE_SHIFT)
		return NULL;
	len = (nr + 1) << PAGE_SHIFT;
	a = kmalloc(sizeof(*a));
	if (!a)
		return NULL;
	a->kind = kind;
	flags = spin_lock_irqsave(&kmap_lock);
	a->start = find_gap(hint, search_end(len), len);
	if (!a->start)
		a->start = find_gap(VMALLOC_BASE, VMALLOC_END, len);
	if (a->start) {
		a->end = a->start + len;
		hint = a->end;
		used += len;
		insert_area(a);
	}
	spin_unlock_irqrestore(&kmap_lock, flags);
	if (!a->start) {
		kfree(a);
		return NULL;
	}
	return a;
}

static void area_free(struct area *a)
{
	const unsigned long flags = spin_lock_irqsave(&kmap_lock);

	rb_erase(&a->node, &areas);
	used -= a->end - a->start;
	spin_unlock_irqrestore(&kmap_lock, flags);
	kfree(a);
}

static struct area *area_find(vaddr_t addr)
{
	const unsigned long flags = spin_lock_irqsave(&kmap_lock);
	struct area *a = first_above(addr);

	if (a && a->start > addr)
		a = NULL;
	spin_unlock_irqrestore(&kmap_lock, flags);
	return a;
}

static vaddr_t area_base(const struct area *a)
{
	return a->start + PAGE_SIZE;
}

/*
 * Unmap what is mapped of @a below @end; vmalloc's own frames go back, each batch after
 * one invalidation on all CPUs: no CPU may still reach a frame that is handed out again.
 */
static void area_unmap(const struct area *a, vaddr_t end)
{
	paddr_t frames[UNMAP_BATCH];

	for (vaddr_t start = area_base(a); start < end; start += UNMAP_BATCH * PAGE_SIZE) {
		const vaddr_t stop = MIN(end, start + UNMAP_BATCH * PAGE_SIZE);
		unsigned int nr = 0;

		for (vaddr_t v = start; v < stop; v += PAGE_SIZE) {
			const paddr_t paddr = kpt_unmap(v);

			if (a->kind == AREA_VMALLOC && paddr != ~(paddr_t)0)
				frames[nr++] = paddr;
		}
		kpt_flush(start, stop);
		while (nr)
			frame_free(paddr_to_frame(frames[--nr]), 0);
	}
}

void *vmalloc(size_t len)
{
	const size_t nr = DIV_ROUND_UP(len, PAGE_SIZE);
	struct area *a = area_alloc(nr, AREA_VMALLOC);

	if (!a)
		return NULL;
	for (vaddr_t v = area_base(a); v < a->end; v += PAGE_SIZE) {
		struct frame *f = frame_alloc(0, FRAME_ZERO);

		if (!f || kpt_map(v, frame_to_paddr(f), KPT_WRITE)) {
			if (f)
				frame_free(f, 0);
			area_unmap(a, v);
			area_free(a);
			return NULL;
		}
	}
	return (void *)area_base(a);
}

static void release(vaddr_t addr, enum area_kind kind)
{
	struct area *a = area_find(addr);

	if (!a || a->kind != kind || ALIGN_DOWN(addr, PAGE_SIZE) != area_base(a))
		panic("address %#lx was not handed out by the vmalloc area", addr);
	area_unmap(a, a->end);
	area_free(a);
}

void vfree(const void *p)
{
	if (p)
		release((vaddr_t)p, AREA_VMALLOC);
}

void *vmap(const paddr_t *pages, size_t nr)
{
	struct area *a = area_alloc(nr, AREA_MAP);

	if (!a)
		return NULL;
	for (size_t i = 0; i < nr; i++) {
		if (kpt_map(area_base(a) + i * PAGE_SIZE, pages[i], KPT_WRITE)) {
			area_unmap(a, area_base(a) + i * PAGE_SIZE);
			area_free(a);
			return NULL;
		}
	}
	return (void *)area_base(a);
}

void vunmap(const void *p)
{
	if (p)
		release((vaddr_t)p, AREA_MAP);
}

static void __iomem *map_device(paddr_t paddr, size_t len, unsigned int flags)
{
	const uint64_t off = paddr & PAGE_MASK_LOW;
	struct area *a;

	if (len == 0 || len > UINT64_MAX - off - PAGE_SIZE || paddr > UINT64_MAX - len)
		return NULL;
	a = area_alloc(DIV_ROUND_UP(off + len, PAGE_SIZE), AREA_MAP);
	if (!a)
		return NULL;
	for (vaddr_t v = area_base(a); v < a->end; v += PAGE_SIZE) {
		if (kpt_map(v, paddr - off + (v - area_base(a)), flags)) {
			area_unmap(a, v);
			area_free(a);
			return NULL;
		}
	}
	return (void __iomem *)(area_base(a) + off);
}

void __iomem *mmio_map(paddr_t paddr, size_t len)
{
	return map_device(paddr, len, KPT_WRITE | KPT_NOCACHE);
}

void __iomem *mmio_map_wc(paddr_t paddr, size_t len)
{
	return map_device(paddr, len, KPT_WRITE | KPT_WC);
}

void mmio_unmap(volatile void __iomem *addr)
{
	if (addr)
		release((vaddr_t)addr, AREA_MAP);
}

paddr_t vmalloc_to_phys(const void *p)
{
	return kpt_lookup((vaddr_t)p);
}

void *dma_alloc(size_t size, paddr_t *paddr)
{
	const uint64_t nr = DIV_ROUND_UP(size, PAGE_SIZE);
	struct frame *f = size ? frame_alloc_contig(nr, 1) : NULL;
	uint8_t *p;

	if (!f)
		return NULL;
	p = frame_to_virt(f);
	for (uint64_t i = 0; i < nr; i++)
		clear_page(p + i * PAGE_SIZE);
	*paddr = frame_to_paddr(f);
	return p;
}

void dma_free(void *p, size_t size)
{
	if (p)
		frame_free_contig(virt_to_frame(p), DIV_ROUND_UP(size, PAGE_SIZE));
}

void kmap_init(void)
{
	pr_debug("vmalloc area %#lx-%#lx\n", VMALLOC_BASE, VMALLOC_END);
}
