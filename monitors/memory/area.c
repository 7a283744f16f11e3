/* SPDX-License-Identifier: MIT */
/*
 * Sets of virtual memory areas, kept as a red-black tree ordered by address.
 *
 * Invariants:	areas do not overlap. Two neighbours are one area when cutting the joined area at
 *		their border would give the two back, so a set does not depend on the order in
 *		which it was built.
 */
#include "area.h"

#include <lib/alloc.h>
#include <lib/errno.h>

#include "memory.h"

static struct area *entry(struct rb_node *node)
{
	return rb_entry_or_null(node, struct area, node);
}

static void spare_uncharge(const struct area_spare *spare, size_t nr)
{
	if (spare->m && nr)
		memory_uncharge(spare->m, spare->proc, nr * sizeof(struct area));
}

/* The nodes up to @nr have been charged. */
static int spare_alloc(struct area_spare *spare, size_t nr)
{
	while (spare->count < nr) {
		struct area *area = lib_alloc(sizeof(*area));

		if (!area) {
			spare_uncharge(spare, nr - spare->count);
			return -ENOMEM;
		}
		area->next = spare->list;
		spare->list = area;
		spare->count++;
	}
	return 0;
}

int area_spare_fill(struct area_spare *spare, size_t nr)
{
	if (spare->count >= nr)
		return 0;
	if (spare->m &&
	    memory_charge(spare->m, spare->proc, (nr - spare->count) * sizeof(struct area)))
		return -ENOMEM;
	return spare_alloc(spare, nr);
}

int area_spare_borrow(struct area_spare *spare, size_t nr)
{
	if (spare->count >= nr)
		return 0;
	if (spare->m)
		pool_charge_more(&spare->m->pool, spare->proc,
				 (nr - spare->count) * sizeof(struct area));
	return spare_alloc(spare, nr);
}

void area_spare_free(struct area_spare *spare)
{
	spare_uncharge(spare, spare->count);
	while (spare->list) {
		struct area *area = spare->list;

		spare->list = area->next;
		lib_free(area);
	}
	spare->count = 0;
}

static struct area *spare_take(struct area_spare *spare)
{
	struct area *area = spare->list;

	spare->list = area->next;
	spare->count--;
	return area;
}

static void spare_give(struct area_spare *spare, struct area *area)
{
	area->next = spare->list;
	spare->list = area;
	spare->count++;
}

void area_set_init(struct area_set *set)
{
	set->root = RB_ROOT;
	set->count = 0;
}

static void erase(struct area_set *set, struct area *area, struct area_spare *spare)
{
	rb_erase(&area->node, &set->root);
	set->count--;
	spare_give(spare, area);
}

void area_set_clear(struct area_set *set, struct area_spare *spare)
{
	struct rb_node *node;

	while ((node = set->root.node))
		erase(set, entry(node), spare);
}

struct area *area_above(const struct area_set *set, uint64_t addr)
{
	struct rb_node *node = set->root.node;
	struct area *best = NULL;

	while (node) {
		struct area *area = entry(node);

		if (area->v.end > addr) {
			best = area;
			node = node->left;
		} else {
			node = node->right;
		}
	}
	return best;
}

struct area *area_at(const struct area_set *set, uint64_t addr)
{
	struct area *area = area_above(set, addr);

	return area && area->v.start <= addr ? area : NULL;
}

struct area *area_next(const struct area *area)
{
	return entry(rb_next(&area->node));
}

struct area *area_prev(const struct area *area)
{
	return entry(rb_prev(&area->node));
}

struct pm_vma area_clip(const struct pm_vma *v, uint64_t start, uint64_t end)
{
	const uint64_t skip = start - v->start;
	struct pm_vma out = *v;

	out.start = start;
	out.end = end;
	if (!(v->flags & (PM_VMA_FILE | PM_VMA_OBJECT)))
		return out;
	out.pgoff += skip >> PAGE_SHIFT;
	if (v->file_bytes != UINT64_MAX)
		out.file_bytes = v->file_bytes > skip ? v->file_bytes - skip : 0;
	return out;
}

static bool area_joins(const struct pm_vma *low, const struct pm_vma *high)
{
	struct pm_vma joined = *low;
	struct pm_vma tail;

	if (low->end != high->start || low->prot != high->prot || low->flags != high->flags)
		return false;
	if (!(low->flags & (PM_VMA_FILE | PM_VMA_OBJECT)))
		return true;
	if (!proto_file_equal(&low->file, &high->file) || low->object != high->object)
		return false;
	joined.end = high->end;
	tail = area_clip(&joined, high->start, high->end);
	return tail.pgoff == high->pgoff && tail.file_bytes == high->file_bytes;
}

bool area_range_is_free(const struct area_set *set, uint64_t start, uint64_t end)
{
	const struct area *area = area_above(set, start);

	return !area || area->v.start >= end;
}

bool area_range_is_inside(const struct area_set *set, uint64_t start, uint64_t end)
{
	const struct area *area = area_at(set, start);

	return area && area->v.start < start && area->v.end > end;
}

uint64_t area_mapped_until(const struct area_set *set, uint64_t start, uint64_t end)
{
	const struct area *area = area_at(set, start);
	uint64_t until = start;

	while (area && until < end && area->v.start <= until) {
		until = area->v.end;
		area = area_next(area);
	}
	return MIN(until, end);
}

static void link_area(struct area_set *set, struct area *area)
{
	struct rb_node **link = &set->root.node;
	struct rb_node *parent = NULL;

	while (*link) {
		parent = *link;
		link = area->v.start < entry(parent)->v.start ? &parent->left : &parent->right;
	}
	rb_link_node(&area->node, parent, link);
	rb_insert_color(&area->node, &set->root);
	set->count++;
}

/* Join @vma with the area above it if they match. */
static void join_above(struct area_set *set, struct area *area, struct area_spare *spare)
{
	struct area *next = area_next(area);

	if (next && area_joins(&area->v, &next->v)) {
		area->v.end = next->v.end;
		erase(set, next, spare);
	}
}

void area_insert(struct area_set *set, const struct pm_vma *v, struct area_spare *spare)
{
	struct area *area = spare_take(spare);
	struct area *prev;

	area->v = *v;
	link_area(set, area);
	join_above(set, area, spare);
	prev = area_prev(area);
	if (prev)
		join_above(set, prev, spare);
}

void area_set_clone(struct area_set *to, const struct area_set *from, struct area_spare *spare)
{
	const struct area *area;

	for (area = entry(rb_first(&from->root)); area; area = area_next(area)) {
		struct area *copy = spare_take(spare);

		copy->v = area->v;
		link_area(to, copy);
	}
}

struct pm_vma area_pages_only(uint64_t start, uint64_t end)
{
	return (struct pm_vma){
		.start = start,
		.end = end,
		.prot = PM_PROT_READ | PM_PROT_WRITE,
		.flags = PM_VMA_SHARED | PM_VMA_NORESERVE,
	};
}

static void area_split(struct area_set *set, uint64_t addr, struct area_spare *spare)
{
	struct area *low = area_at(set, addr);
	struct area *high;

	if (!low || low->v.start == addr)
		return;
	high = spare_take(spare);
	high->v = area_clip(&low->v, addr, low->v.end);
	low->v.end = addr;
	link_area(set, high);
}

void area_remove(struct area_set *set, uint64_t start, uint64_t end, struct area_spare *spare)
{
	struct area *area;

	area_split(set, start, spare);
	area_split(set, end, spare);
	area = area_above(set, start);
	while (area && area->v.start < end) {
		struct area *next = area_next(area);

		erase(set, area, spare);
		area = next;
	}
}

/* Private anonymous memory, reserved or leased or neither. */
static bool is_plain(const struct pm_vma *v)
{
	return !(v->flags & ~(uint32_t)(PM_VMA_NORESERVE | PM_VMA_LEASE));
}

static bool becomes_lease(const struct pm_vma *v, uint32_t prot)
{
	return (prot & MM_PROT_LEASE) && is_plain(v);
}

bool area_range_is_plain(const struct area_set *set, uint64_t start, uint64_t end)
{
	const struct area *area;

	if (area_mapped_until(set, start, end) < end)
		return false;
	for (area = area_above(set, start); area && area->v.start < end; area = area_next(area))
		if (!is_plain(&area->v))
			return false;
	return true;
}

void area_protect(struct area_set *set, uint64_t start, uint64_t end, uint32_t prot,
		  struct area_spare *spare)
{
	struct area *area;

	area_split(set, start, spare);
	area_split(set, end, spare);
	for (area = area_above(set, start); area && area->v.start < end; area = area_next(area)) {
		if (becomes_lease(&area->v, prot))
			area->v.flags = PM_VMA_LEASE;
		else
			area->v.flags &= ~(uint32_t)PM_VMA_LEASE;
		area->v.prot = prot & PM_PROT_ALL;
	}

	area = start ? area_at(set, start - 1) : NULL;
	if (!area)
		area = area_above(set, start);
	while (area && area->v.end <= end) {
		const uint64_t old_end = area->v.end;

		join_above(set, area, spare);
		if (area->v.end == old_end)
			area = area_next(area);
	}
}

static uint64_t charge_as(const struct pm_vma *v, uint32_t prot)
{
	const bool file = v->flags & (PM_VMA_FILE | PM_VMA_OBJECT);

	if (becomes_lease(v, prot))
		return (v->end - v->start) >> PAGE_SHIFT;
	if (v->flags & (PM_VMA_NORESERVE | PM_VMA_STACK))
		return 0;
	if (v->flags & PM_VMA_SHARED ? file : !(prot & PM_PROT_WRITE))
		return 0;
	return (v->end - v->start) >> PAGE_SHIFT;
}

uint64_t area_charge(const struct pm_vma *v)
{
	return charge_as(v, v->prot);
}

/* The part of @vma in [start, end). */
static struct pm_vma part(const struct area *area, uint64_t start, uint64_t end)
{
	return area_clip(&area->v, MAX(area->v.start, start), MIN(area->v.end, end));
}

uint64_t area_range_charge(const struct area_set *set, uint64_t start, uint64_t end)
{
	const struct area *area;
	uint64_t sum = 0;

	for (area = area_above(set, start); area && area->v.start < end; area = area_next(area)) {
		const struct pm_vma v = part(area, start, end);

		sum += area_charge(&v);
	}
	return sum;
}

uint64_t area_range_charge_as(const struct area_set *set, uint64_t start, uint64_t end,
			      uint32_t prot)
{
	const struct area *area;
	uint64_t sum = 0;

	for (area = area_above(set, start); area && area->v.start < end; area = area_next(area)) {
		const struct pm_vma v = part(area, start, end);

		sum += charge_as(&v, prot);
	}
	return sum;
}

bool area_set_check(const struct area_set *set)
{
	const struct area *area = entry(rb_first(&set->root));
	uint64_t end = 0;
	size_t count = 0;

	for (; area; area = area_next(area)) {
		if (area->v.start < end || area->v.end <= area->v.start ||
		    ((area->v.start | area->v.end) & PAGE_MASK_LOW))
			return false;
		end = area->v.end;
		count++;
	}
	return count == set->count && rb_check(&set->root);
}
