/* SPDX-License-Identifier: MIT */
/*
 * Sets of virtual memory areas, kept as a red-black tree ordered by address.
 *
 * Joining:	two neighbours become one area when cutting the joined area at their border would
 *		give the two back; so a set does not depend on the order in which it was built.
 */
#include "area.h"

#include <lib/alloc.h>
#include <lib/errno.h>

static struct vma *entry(struct rb_node *node)
{
	return rb_entry_or_null(node, struct vma, node);
}

int vma_spare_fill(struct vma_spare *spare, size_t nr)
{
	while (spare->count < nr) {
		struct vma *vma = lib_alloc(sizeof(*vma));

		if (!vma)
			return -ENOMEM;
		vma->next = spare->list;
		spare->list = vma;
		spare->count++;
	}
	return 0;
}

void vma_spare_free(struct vma_spare *spare)
{
	while (spare->list) {
		struct vma *vma = spare->list;

		spare->list = vma->next;
		lib_free(vma);
	}
	spare->count = 0;
}

static struct vma *spare_take(struct vma_spare *spare)
{
	struct vma *vma = spare->list;

	spare->list = vma->next;
	spare->count--;
	return vma;
}

static void spare_give(struct vma_spare *spare, struct vma *vma)
{
	vma->next = spare->list;
	spare->list = vma;
	spare->count++;
}

void vma_set_init(struct vma_set *set)
{
	set->root = RB_ROOT;
	set->count = 0;
}

static void erase(struct vma_set *set, struct vma *vma, struct vma_spare *spare)
{
	rb_erase(&vma->node, &set->root);
	set->count--;
	spare_give(spare, vma);
}

void vma_set_clear(struct vma_set *set, struct vma_spare *spare)
{
	struct rb_node *node;

	while ((node = set->root.node))
		erase(set, entry(node), spare);
}

struct vma *vma_above(const struct vma_set *set, uint64_t addr)
{
	struct rb_node *node = set->root.node;
	struct vma *best = NULL;

	while (node) {
		struct vma *vma = entry(node);

		if (vma->v.end > addr) {
			best = vma;
			node = node->left;
		} else {
			node = node->right;
		}
	}
	return best;
}

struct vma *vma_at(const struct vma_set *set, uint64_t addr)
{
	struct vma *vma = vma_above(set, addr);

	return vma && vma->v.start <= addr ? vma : NULL;
}

struct vma *vma_next(const struct vma *vma)
{
	return entry(rb_next(&vma->node));
}

struct vma *vma_prev(const struct vma *vma)
{
	return entry(rb_prev(&vma->node));
}

struct pm_vma vma_clip(const struct pm_vma *v, uint64_t start, uint64_t end)
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

bool vma_joins(const struct pm_vma *low, const struct pm_vma *high)
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
	tail = vma_clip(&joined, high->start, high->end);
	return tail.pgoff == high->pgoff && tail.file_bytes == high->file_bytes;
}

bool vma_range_is_free(const struct vma_set *set, uint64_t start, uint64_t end)
{
	const struct vma *vma = vma_above(set, start);

	return !vma || vma->v.start >= end;
}

uint64_t vma_mapped_until(const struct vma_set *set, uint64_t start, uint64_t end)
{
	const struct vma *vma = vma_at(set, start);
	uint64_t until = start;

	while (vma && until < end && vma->v.start <= until) {
		until = vma->v.end;
		vma = vma_next(vma);
	}
	return MIN(until, end);
}

static void link_vma(struct vma_set *set, struct vma *vma)
{
	struct rb_node **link = &set->root.node;
	struct rb_node *parent = NULL;

	while (*link) {
		parent = *link;
		link = vma->v.start < entry(parent)->v.start ? &parent->left : &parent->right;
	}
	rb_link_node(&vma->node, parent, link);
	rb_insert_color(&vma->node, &set->root);
	set->count++;
}

/* Join @vma with the area above it if they match. */
static void join_above(struct vma_set *set, struct vma *vma, struct vma_spare *spare)
{
	struct vma *next = vma_next(vma);

	if (next && vma_joins(&vma->v, &next->v)) {
		vma->v.end = next->v.end;
		erase(set, next, spare);
	}
}

void vma_insert(struct vma_set *set, const struct pm_vma *v, struct vma_spare *spare)
{
	struct vma *vma = spare_take(spare);
	struct vma *prev;

	vma->v = *v;
	link_vma(set, vma);
	join_above(set, vma, spare);
	prev = vma_prev(vma);
	if (prev)
		join_above(set, prev, spare);
}

void vma_set_clone(struct vma_set *to, const struct vma_set *from, struct vma_spare *spare)
{
	const struct vma *vma;

	for (vma = entry(rb_first(&from->root)); vma; vma = vma_next(vma)) {
		struct vma *copy = spare_take(spare);

		copy->v = vma->v;
		link_vma(to, copy);
	}
}

struct pm_vma vma_pages_only(uint64_t start, uint64_t end)
{
	return (struct pm_vma){
		.start = start,
		.end = end,
		.prot = PM_PROT_READ | PM_PROT_WRITE,
		.flags = PM_VMA_SHARED | PM_VMA_NORESERVE,
	};
}

void vma_split(struct vma_set *set, uint64_t addr, struct vma_spare *spare)
{
	struct vma *low = vma_at(set, addr);
	struct vma *high;

	if (!low || low->v.start == addr)
		return;
	high = spare_take(spare);
	high->v = vma_clip(&low->v, addr, low->v.end);
	low->v.end = addr;
	link_vma(set, high);
}

void vma_remove(struct vma_set *set, uint64_t start, uint64_t end, struct vma_spare *spare)
{
	struct vma *vma;

	vma_split(set, start, spare);
	vma_split(set, end, spare);
	vma = vma_above(set, start);
	while (vma && vma->v.start < end) {
		struct vma *next = vma_next(vma);

		erase(set, vma, spare);
		vma = next;
	}
}

void vma_protect(struct vma_set *set, uint64_t start, uint64_t end, uint32_t prot,
		 struct vma_spare *spare)
{
	struct vma *vma;

	vma_split(set, start, spare);
	vma_split(set, end, spare);
	for (vma = vma_above(set, start); vma && vma->v.start < end; vma = vma_next(vma))
		vma->v.prot = prot;

	vma = start ? vma_at(set, start - 1) : NULL;
	if (!vma)
		vma = vma_above(set, start);
	while (vma && vma->v.end <= end) {
		const uint64_t old_end = vma->v.end;

		join_above(set, vma, spare);
		if (vma->v.end == old_end)
			vma = vma_next(vma);
	}
}

static uint64_t charge_as(const struct pm_vma *v, uint32_t prot)
{
	const bool file = v->flags & (PM_VMA_FILE | PM_VMA_OBJECT);

	if (v->flags & (PM_VMA_NORESERVE | PM_VMA_STACK))
		return 0;
	if (v->flags & PM_VMA_SHARED ? file : !(prot & PM_PROT_WRITE))
		return 0;
	return (v->end - v->start) >> PAGE_SHIFT;
}

uint64_t vma_charge(const struct pm_vma *v)
{
	return charge_as(v, v->prot);
}

/* The part of @vma in [start, end). */
static struct pm_vma part(const struct vma *vma, uint64_t start, uint64_t end)
{
	return vma_clip(&vma->v, MAX(vma->v.start, start), MIN(vma->v.end, end));
}

uint64_t vma_range_charge(const struct vma_set *set, uint64_t start, uint64_t end)
{
	const struct vma *vma;
	uint64_t sum = 0;

	for (vma = vma_above(set, start); vma && vma->v.start < end; vma = vma_next(vma)) {
		const struct pm_vma v = part(vma, start, end);

		sum += vma_charge(&v);
	}
	return sum;
}

uint64_t vma_range_charge_as(const struct vma_set *set, uint64_t start, uint64_t end, uint32_t prot)
{
	const struct vma *vma;
	uint64_t sum = 0;

	for (vma = vma_above(set, start); vma && vma->v.start < end; vma = vma_next(vma)) {
		const struct pm_vma v = part(vma, start, end);

		sum += charge_as(&v, prot);
	}
	return sum;
}

bool vma_set_check(const struct vma_set *set)
{
	const struct vma *vma = entry(rb_first(&set->root));
	uint64_t end = 0;
	size_t count = 0;

	for (; vma; vma = vma_next(vma)) {
		if (vma->v.start < end || vma->v.end <= vma->v.start ||
		    ((vma->v.start | vma->v.end) & PAGE_MASK_LOW))
			return false;
		end = vma->v.end;
		count++;
	}
	return count == set->count && rb_check(&set->root);
}
