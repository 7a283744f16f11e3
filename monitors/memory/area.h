/* SPDX-License-Identifier: MIT */
/*
 * Sets of virtual memory areas: which addresses of a space are mapped, and how.
 *
 * The home keeps one set for a whole space; an owner keeps one for each vRegion. On the wire an
 * area is a struct pm_vma.
 *
 * Context:	any: nothing here allocates or frees. An operation that may have to cut areas takes
 *		its new nodes from a struct area_spare, which the caller filled before it took its
 *		lock, and puts dead nodes there.
 * Locking:	the caller's.
 */
#pragma once

#include <lib/compiler.h>
#include <lib/rbtree.h>
#include <lib/types.h>
#include <proto/pm.h>

struct memory;

struct area {
	struct rb_node node;
	struct pm_vma v;
	struct area *next; /* in a struct area_spare */
};

struct area_set {
	struct rb_root root; /* by address; areas do not overlap */
	size_t count;
};

/* Nodes to come or to go; they are charged to a processor from their making to their end. */
struct area_spare {
	struct area *list;
	size_t count;
	struct memory *m; /* where; NULL: they are charged to no processor */
	uint32_t proc;
};

#define AREA_SPARE(memory, processor) ((struct area_spare){ .m = (memory), .proc = (processor) })

/* Nodes that one operation can need: two cuts and one new area. */
#define AREA_SPARE_MAX 3

/* Have @nr nodes there. -ENOMEM: no memory, or the processor has had its part. */
int area_spare_fill(struct area_spare *spare, size_t nr) __must_check;
/*
 * The same whatever the processor has had: for a change after which there will be no more areas
 * than before. A caller frees what is left over at once.
 */
int area_spare_borrow(struct area_spare *spare, size_t nr) __must_check;
void area_spare_free(struct area_spare *spare);

void area_set_init(struct area_set *set);
/* Move every area to @spare. */
void area_set_clear(struct area_set *set, struct area_spare *spare);

/* The area that holds @addr, or NULL. */
struct area *area_at(const struct area_set *set, uint64_t addr);
/* The lowest area that ends above @addr, or NULL. */
struct area *area_above(const struct area_set *set, uint64_t addr);
struct area *area_next(const struct area *area);
struct area *area_prev(const struct area *area);

/* @v as it looks from @start to @end, which lie within it: file offset and length follow. */
struct pm_vma area_clip(const struct pm_vma *v, uint64_t start, uint64_t end);

bool area_range_is_free(const struct area_set *set, uint64_t start, uint64_t end);
/* Is [start, end) in the middle of one area, which would be two without it? */
bool area_range_is_inside(const struct area_set *set, uint64_t start, uint64_t end);
/* Make @to, which is empty, a copy of @from.  Needs from->count spares. */
void area_set_clone(struct area_set *to, const struct area_set *from, struct area_spare *spare);
/*
 * The area that stands for mappings where there are none, in frozen and page-only spaces: every
 * page of [start, end) may be written back and fetched, and nothing is charged.
 */
struct pm_vma area_pages_only(uint64_t start, uint64_t end);

/* How far [start, end) is mapped without a hole: @start when it is not, @end when all of it is. */
uint64_t area_mapped_until(const struct area_set *set, uint64_t start, uint64_t end);

/* Is all of [start, end) mapped, as private anonymous memory? */
bool area_range_is_plain(const struct area_set *set, uint64_t start, uint64_t end);

/* Insert @v, whose range is free; joins neighbours that match.  Needs one spare. */
void area_insert(struct area_set *set, const struct pm_vma *v, struct area_spare *spare);
/* Remove [start, end).  Needs two spares. */
void area_remove(struct area_set *set, uint64_t start, uint64_t end, struct area_spare *spare);
/*
 * Give every area in [start, end) @prot, and end leases there; with MM_PROT_LEASE, private
 * anonymous ones become leases. Joins what matches afterwards. Needs two spares.
 */
void area_protect(struct area_set *set, uint64_t start, uint64_t end, uint32_t prot,
		  struct area_spare *spare);

/*
 * Pages that an area is charged for: those that may need a frame of their own and whose frame must
 * therefore exist when they do.
 */
uint64_t area_charge(const struct pm_vma *v);
/* Sum over [start, end). */
uint64_t area_range_charge(const struct area_set *set, uint64_t start, uint64_t end);
/* The same if the range had protection @prot. */
uint64_t area_range_charge_as(const struct area_set *set, uint64_t start, uint64_t end,
			      uint32_t prot);

/* True when the tree and every area are in order.  For tests. */
bool area_set_check(const struct area_set *set);
