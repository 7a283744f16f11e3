/* SPDX-License-Identifier: MIT */
/*
 * A set of addresses as ranges: pages that are sealed, pages that are guards. Each range may have a
 * value: the memory policy of its pages, their name.
 *
 * Flow:	ranges_prepare() makes what a change may need; the changes then cannot fail and do
 *		not sleep.
 * Invariants:	ranges do not overlap, and neighbours that touch have different values.
 * Locking:	the caller's.
 */
#pragma once

#include <lib/compiler.h>
#include <lib/rbtree.h>
#include <lib/types.h>

struct kmem_account;

struct addr_range {
	union {
		struct rb_node node; /* of ranges.root, by start */
		struct addr_range *next_spare;
	};
	vaddr_t start, end;
	uint64_t value; /* 0 in a set without values */
};

/* Values that are more than numbers. */
struct range_values {
	void (*get)(uint64_t value); /* one range more has it */
	void (*put)(uint64_t value);
	bool (*same)(uint64_t a, uint64_t b);
};

struct ranges {
	struct rb_root root;
	uint64_t nr;
	struct addr_range *spares;
	const struct range_values *values; /* const while there are ranges; NULL: numbers */
};

static inline bool ranges_empty(const struct ranges *r)
{
	return rb_empty(&r->root);
}

/* The lowest range that ends above @addr, or NULL. */
struct addr_range *ranges_behind(const struct ranges *r, vaddr_t addr);
struct addr_range *ranges_next(const struct addr_range *a);
/* Is some address of [start, end) in the set? */
bool ranges_meet(const struct ranges *r, vaddr_t start, vaddr_t end);
/*
 * @spares there for the changes that follow, charged to @account; what earlier changes have left
 * beyond that is freed. -ENOMEM.
 */
int ranges_prepare(struct ranges *r, struct kmem_account *account, unsigned int spares)
	__must_check;
/* [start, end), which is not empty, is in the set. Needs one spare. */
void ranges_add(struct ranges *r, vaddr_t start, vaddr_t end);
/* The same with @value, whatever was there. Needs two spares. */
void ranges_set(struct ranges *r, vaddr_t start, vaddr_t end, uint64_t value);
/* It is not. Needs one spare. */
void ranges_cut(struct ranges *r, vaddr_t start, vaddr_t end);
/*
 * The set has at [to, +new_len), where nothing was, what it had at [from, +old_len), and nothing
 * there any more. Needs two spares.
 */
void ranges_move(struct ranges *r, vaddr_t from, uint64_t old_len, vaddr_t to, uint64_t new_len);
/* @to, which is empty, gets the same. -ENOMEM: some of it. */
int ranges_copy(const struct ranges *from, struct ranges *to, struct kmem_account *account)
	__must_check;
void ranges_end(struct ranges *r);
