/* SPDX-License-Identifier: MIT */
/*
 * Frame allocator: a buddy system over all RAM, orders 0 (4 KiB) to
 * FRAME_MAX_ORDER (1 GiB).
 *
 * Flow:	Metadata: frame_table has one entry per page up to the highest RAM address.  At
 *		boot only the first entry of each 2 MiB chunk is written; the others of a
 *		chunk when the chunk is split for the first time (chunk_init()).
 *		Chunks: chunk_free says for each chunk whether it lies wholly inside a free
 *		block; frame_alloc_contig() searches it for ranges larger than a block.
 * Locking:	pool_lock guards lists, states and both chunk arrays.
 * Failure:	NULL; callers turn it into -ENOMEM.
 */
#define PR_FMT "frame: "

#include <mm/frame.h>

#include <kernel/boot.h>
#include <kernel/counter.h>
#include <kernel/panic.h>
#include <kernel/printk.h>
#include <kernel/spinlock.h>
#include <lib/string.h>
#include <mm/early.h>
#include <mm/kmap.h>

#define CHUNK_PAGES  (1ull << FRAME_LAZY_ORDER)
#define ORDER_CONTIG 0xffu /* frame_alloc_contig(): size is the caller's to remember */

struct frame *frame_table;
pfn_t frame_max_pfn;

static struct spinlock pool_lock = SPINLOCK_INIT("frames", RANK_FRAME_POOL);
static struct list_head free_lists[FRAME_MAX_ORDER + 1] __guarded_by(&pool_lock);
static uint32_t free_orders __guarded_by(&pool_lock); /* bit: that list is not empty */
static uint64_t nr_free __guarded_by(&pool_lock);
static uint64_t nr_total;                            /* const after boot */
static uint8_t *chunk_done __guarded_by(&pool_lock); /* metadata of the whole chunk is valid */
static uint8_t *chunk_free __guarded_by(&pool_lock);

COUNTER(count_alloc, "frame.alloc", "frame blocks handed out");
COUNTER(count_fail, "frame.exhausted", "frame requests that found nothing");

uint64_t frames_free_count(void)
{
	return READ_ONCE(nr_free);
}

uint64_t frames_total_count(void)
{
	return nr_total;
}

GAUGE(gauge_free, "frame.free", "free 4 KiB frames", frames_free_count);
GAUGE(gauge_total, "frame.total", "4 KiB frames that the allocator manages", frames_total_count);

static void chunk_init(pfn_t pfn) __must_hold(&pool_lock)
{
	const pfn_t first = ALIGN_DOWN(pfn, CHUNK_PAGES);

	if (chunk_done[first / CHUNK_PAGES])
		return;
	chunk_done[first / CHUNK_PAGES] = 1;
	for (pfn_t p = first + 1; p < first + CHUNK_PAGES && p < frame_max_pfn; p++)
		frame_table[p] = (struct frame){ .state = FRAME_TAIL };
}

static void chunks_mark(pfn_t pfn, unsigned int order, uint8_t free) __must_hold(&pool_lock)
{
	if (order >= FRAME_LAZY_ORDER)
		memset(chunk_free + pfn / CHUNK_PAGES, free, 1ull << (order - FRAME_LAZY_ORDER));
}

static void list_insert(pfn_t pfn, unsigned int order) __must_hold(&pool_lock)
{
	struct frame *f = &frame_table[pfn];

	ASSERT(f->state != FRAME_FREE && IS_ALIGNED(pfn, 1ull << order));
	f->state = FRAME_FREE;
	f->order = (uint8_t)order;
	list_add(&f->link, &free_lists[order]);
	free_orders |= BIT(order);
	chunks_mark(pfn, order, 1);
}

static void list_remove(pfn_t pfn, unsigned int order) __must_hold(&pool_lock)
{
	struct frame *f = &frame_table[pfn];

	ASSERT(f->state == FRAME_FREE && f->order == order);
	list_del(&f->link);
	f->state = FRAME_TAIL;
	if (list_empty(&free_lists[order]))
		free_orders &= ~BIT(order);
	chunks_mark(pfn, order, 0);
}

static void free_block(pfn_t pfn, unsigned int order) __must_hold(&pool_lock)
{
	nr_free += 1ull << order;
	while (order < FRAME_MAX_ORDER) {
		const pfn_t buddy = pfn ^ (1ull << order);
		const struct frame *b = &frame_table[buddy];

		if (buddy + (1ull << order) > frame_max_pfn || b->state != FRAME_FREE ||
		    b->order != order)
			break;
		list_remove(buddy, order);
		frame_table[pfn].state = FRAME_TAIL;
		pfn &= ~(1ull << order);
		order++;
	}
	list_insert(pfn, order);
}

/* Free any range: cut into the largest aligned blocks. */
static void free_range(pfn_t start, pfn_t end) __must_hold(&pool_lock)
{
	while (start < end) {
		unsigned int order = start ? (unsigned int)__builtin_ctzll(start) : FRAME_MAX_ORDER;

		order = MIN(order, FRAME_MAX_ORDER);
		while ((1ull << order) > end - start)
			order--;
		if (order < FRAME_LAZY_ORDER)
			chunk_init(start);
		free_block(start, order);
		start += 1ull << order;
	}
}

/* Take the block at @pfn off its list and cut it down to @order; the rest goes back. */
static void split(pfn_t pfn, unsigned int from, unsigned int order) __must_hold(&pool_lock)
{
	list_remove(pfn, from);
	while (from > order) {
		from--;
		if (from == FRAME_LAZY_ORDER - 1)
			chunk_init(pfn);
		list_insert(pfn + (1ull << from), from);
	}
}

static struct frame *take_block(unsigned int order) __must_hold(&pool_lock)
{
	const uint32_t fitting = free_orders & ~(BIT(order) - 1);
	unsigned int from;
	struct frame *f;

	if (!fitting)
		return NULL;
	from = (unsigned int)__builtin_ctz(fitting);
	f = list_first_entry(&free_lists[from], struct frame, link);
	ASSERT(nr_free >= 1ull << from);
	split(frame_to_pfn(f), from, order);
	nr_free -= 1ull << order;
	return f;
}

static void make_used(struct frame *f, unsigned int order)
{
	list_init(&f->link);
	f->private = 0;
	f->tag = 0;
	f->order = (uint8_t)order;
	f->state = FRAME_USED;
}

struct frame *frame_alloc(unsigned int order, unsigned int flags)
{
	struct frame *f = NULL;
	unsigned long irq;

	if (order > FRAME_MAX_ORDER)
		return NULL;
	irq = spin_lock_irqsave(&pool_lock);
	f = take_block(order);
	if (f)
		make_used(f, order);
	spin_unlock_irqrestore(&pool_lock, irq);
	if (!f) {
		counter_inc(&count_fail);
		return NULL;
	}
	counter_inc(&count_alloc);
	if (flags & FRAME_ZERO) {
		for (uint64_t i = 0; i < 1ull << order; i++)
			clear_page((uint8_t *)frame_to_virt(f) + i * PAGE_SIZE);
	}
	return f;
}

void frame_free(struct frame *f, unsigned int order)
{
	const unsigned long irq = spin_lock_irqsave(&pool_lock);

	BUG_ON(f->state != FRAME_USED || f->order != order);
	free_block(frame_to_pfn(f), order);
	spin_unlock_irqrestore(&pool_lock, irq);
}

/* First run of @nr free chunks at a multiple of @align chunks; UINT64_MAX if none. */
static uint64_t find_chunks(uint64_t nr, uint64_t align) __must_hold(&pool_lock)
{
	const uint64_t total = frame_max_pfn / CHUNK_PAGES;
	uint64_t at = 0;

	while (at + nr <= total) {
		uint64_t i = 0;

		while (i < nr && chunk_free[at + i])
			i++;
		if (i == nr)
			return at;
		at = ALIGN_UP(at + i + 1, align);
	}
	return UINT64_MAX;
}

/* The free block that holds chunk @c: its head is at one of the aligned places below. */
static pfn_t block_of_chunk(uint64_t c, unsigned int *order) __must_hold(&pool_lock)
{
	for (unsigned int o = FRAME_LAZY_ORDER; o <= FRAME_MAX_ORDER; o++) {
		const pfn_t head = ALIGN_DOWN(c * CHUNK_PAGES, 1ull << o);
		const struct frame *f = &frame_table[head];

		if (f->state == FRAME_FREE && f->order >= o) {
			*order = f->order;
			return head;
		}
	}
	BUG_ON(true);
	return 0;
}

/* Take [start, end) out of the free lists; its chunks are all free. */
static void carve(pfn_t start, pfn_t end) __must_hold(&pool_lock)
{
	pfn_t at = start;

	while (at < end) {
		unsigned int order;
		const pfn_t head = block_of_chunk(at / CHUNK_PAGES, &order);
		const pfn_t block_end = head + (1ull << order);

		list_remove(head, order);
		nr_free -= 1ull << order;
		if (head < start)
			free_range(head, start);
		if (block_end > end)
			free_range(end, block_end);
		at = block_end;
	}
}

static struct frame *contig_small(uint64_t nr, uint64_t align)
{
	unsigned int order = 0;
	struct frame *f;
	unsigned long irq;

	while ((1ull << order) < MAX(nr, align))
		order++;
	f = frame_alloc(order, 0);
	if (!f)
		return NULL;
	irq = spin_lock_irqsave(&pool_lock);
	f->order = ORDER_CONTIG;
	free_range(frame_to_pfn(f) + nr, frame_to_pfn(f) + (1ull << order));
	spin_unlock_irqrestore(&pool_lock, irq);
	return f;
}

struct frame *frame_alloc_contig(uint64_t nr, uint64_t align)
{
	const uint64_t chunks = DIV_ROUND_UP(nr, CHUNK_PAGES);
	struct frame *f = NULL;
	unsigned long irq;
	uint64_t at;

	if (nr == 0 || nr > frame_max_pfn || !IS_POWER_OF_2(align))
		return NULL;
	if (MAX(nr, align) < CHUNK_PAGES)
		return contig_small(nr, align);
	irq = spin_lock_irqsave(&pool_lock);
	at = find_chunks(chunks, MAX(align / CHUNK_PAGES, 1ull));
	if (at != UINT64_MAX) {
		const pfn_t pfn = at * CHUNK_PAGES;

		carve(pfn, pfn + nr);
		f = &frame_table[pfn];
		make_used(f, ORDER_CONTIG);
	}
	spin_unlock_irqrestore(&pool_lock, irq);
	if (!f)
		counter_inc(&count_fail);
	return f;
}

void frame_free_contig(struct frame *f, uint64_t nr)
{
	const unsigned long irq = spin_lock_irqsave(&pool_lock);

	BUG_ON(f->state != FRAME_USED || f->order != ORDER_CONTIG);
	f->state = FRAME_TAIL;
	free_range(frame_to_pfn(f), frame_to_pfn(f) + nr);
	spin_unlock_irqrestore(&pool_lock, irq);
}

static void add_ram(paddr_t start, paddr_t end) __must_hold(&pool_lock)
{
	unsigned int nr;
	const struct early_range *r = early_reserved(&nr);

	start = ALIGN_UP(start, PAGE_SIZE);
	end = MIN(ALIGN_DOWN(end, PAGE_SIZE), (paddr_t)frame_max_pfn << PAGE_SHIFT);
	for (unsigned int i = 0; i < nr && start < end; i++) {
		if (r[i].end <= start || r[i].start >= end)
			continue;
		if (r[i].start > start)
			free_range(start >> PAGE_SHIFT, r[i].start >> PAGE_SHIFT);
		start = r[i].end;
	}
	if (start < end)
		free_range(start >> PAGE_SHIFT, end >> PAGE_SHIFT);
}

static void *boot_pages(uint64_t size)
{
	return phys_to_virt(early_alloc(size, PAGE_SIZE, DIRECT_MAP_SIZE));
}

void frame_init(void)
{
	uint64_t nr_chunks;

	lock_not_needed(&pool_lock, "no other CPU or thread yet");
	for (unsigned int i = 0; i < boot_info.nr_mem; i++) {
		const struct boot_mem *m = &boot_info.mem[i];
		const paddr_t end = MIN(m->base + m->size, DIRECT_MAP_SIZE);

		if (m->type == BOOT_MEM_RAM && m->base < end)
			frame_max_pfn = MAX(frame_max_pfn, end >> PAGE_SHIFT);
	}
	nr_chunks = DIV_ROUND_UP(frame_max_pfn, CHUNK_PAGES);
	frame_table = boot_pages(frame_max_pfn * sizeof(struct frame));
	chunk_done = boot_pages(nr_chunks);
	chunk_free = boot_pages(nr_chunks);
	memset(chunk_done, 0, nr_chunks);
	memset(chunk_free, 0, nr_chunks);
	for (pfn_t p = 0; p < frame_max_pfn; p += CHUNK_PAGES)
		frame_table[p] = (struct frame){ .state = FRAME_RESERVED };
	for (unsigned int o = 0; o <= FRAME_MAX_ORDER; o++)
		list_init(&free_lists[o]);
	for (unsigned int i = 0; i < boot_info.nr_mem; i++) {
		const struct boot_mem *m = &boot_info.mem[i];

		if (m->type == BOOT_MEM_RAM)
			add_ram(m->base, m->base + m->size);
	}
	nr_total = nr_free;
}

unsigned int frame_check(void)
{
	const unsigned long irq = spin_lock_irqsave(&pool_lock);
	unsigned int faults = 0;
	uint64_t seen = 0;

	for (unsigned int o = 0; o <= FRAME_MAX_ORDER; o++) {
		struct frame *f;

		faults += list_empty(&free_lists[o]) == !!(free_orders & BIT(o));
		list_for_each_entry(f, &free_lists[o], link) {
			seen += 1ull << o;
			faults += f->state != FRAME_FREE || f->order != o;
			faults += !IS_ALIGNED(frame_to_pfn(f), 1ull << o);
		}
	}
	faults += seen != nr_free;
	spin_unlock_irqrestore(&pool_lock, irq);
	return faults;
}
