/* SPDX-License-Identifier: MIT */
/*
 * Sets of virtual memory areas: which addresses of a space are mapped, and how.
 *
 * Users:	the home keeps one set for a whole space; an owner keeps one per vRegion.
 * Memory:	an operation that may have to cut areas takes its new nodes from a struct vma_spare
 *		that the caller filled before it took its lock, and puts dead nodes there: nothing
 *		here allocates or frees under the caller's lock.
 * Locking:	the caller's.
 */
#pragma once

#include <lib/compiler.h>
#include <lib/rbtree.h>
#include <lib/types.h>
#include <proto/pm.h>

struct vma {
	struct rb_node node;
	struct pm_vma v;
	struct vma *next; /* in a struct vma_spare */
};

struct vma_set {
	struct rb_root root; /* by address; areas do not overlap */
	size_t count;
};

struct vma_spare {
	struct vma *list;
	size_t count;
};

/* Nodes that one operation can need: two cuts and one new area. */
#define VMA_SPARE_MAX 3

int vma_spare_fill(struct vma_spare *spare, size_t nr) __must_check;
void vma_spare_free(struct vma_spare *spare);

void vma_set_init(struct vma_set *set);
/* Move every area to @spare. */
void vma_set_clear(struct vma_set *set, struct vma_spare *spare);

/* The area that holds @addr, or NULL. */
struct vma *vma_at(const struct vma_set *set, uint64_t addr);
/* The lowest area that ends above @addr, or NULL. */
struct vma *vma_above(const struct vma_set *set, uint64_t addr);
struct vma *vma_next(const struct vma *vma);
struct vma *vma_prev(const struct vma *vma);

/* @v as it looks from @start to @end, which lie within it: file offset and length follow. */
struct pm_vma vma_clip(const struct pm_vma *v, uint64_t start, uint64_t end);
/* Are the two neighbours parts of one mapping? */
bool vma_joins(const struct pm_vma *low, const struct pm_vma *high);

bool vma_range_is_free(const struct vma_set *set, uint64_t start, uint64_t end);
/* Make @to, which is empty, a copy of @from.  Needs from->count spares. */
void vma_set_clone(struct vma_set *to, const struct vma_set *from, struct vma_spare *spare);
/*
 * The area that stands for mappings where there are none, in frozen and page-only spaces: every page of
 * [start, end) may be written back and fetched, and nothing is charged.
 */
struct pm_vma vma_pages_only(uint64_t start, uint64_t end);

/* How far [start, end) is mapped without a hole: @start when it is not, @end when all of it is. */
uint64_t vma_mapped_until(const struct vma_set *set, uint64_t start, uint64_t end);

/* Insert @v, whose range is free; joins neighbours that match.  Needs one spare. */
void vma_insert(struct vma_set *set, const struct pm_vma *v, struct vma_spare *spare);
/* Cut areas so that none crosses @addr.  Needs one spare. */
void vma_split(struct vma_set *set, uint64_t addr, struct vma_spare *spare);
/* Remove [start, end).  Needs two spares. */
void vma_remove(struct vma_set *set, uint64_t start, uint64_t end, struct vma_spare *spare);
/* Give every area in [start, end) @prot; joins what matches afterwards.  Needs two spares. */
void vma_protect(struct vma_set *set, uint64_t start, uint64_t end, uint32_t prot,
		 struct vma_spare *spare);

/*
 * Pages that an area is charged for: those that may need a frame of their own and whose frame must
 * therefore exist when they do.
 */
uint64_t vma_charge(const struct pm_vma *v);
/* Sum over [start, end). */
uint64_t vma_range_charge(const struct vma_set *set, uint64_t start, uint64_t end);
/* The same if the range had protection @prot. */
uint64_t vma_range_charge_as(const struct vma_set *set, uint64_t start, uint64_t end,
			     uint32_t prot);

/* True when the tree and every area are in order.  For tests. */
bool vma_set_check(const struct vma_set *set);
