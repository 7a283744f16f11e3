/* SPDX-License-Identifier: MIT */
/*
 * Sets of ranges of addresses: see ranges.h.
 */
#include "ranges.h"

#include <kernel/panic.h>
#include <lib/errno.h>
#include <processor/account/account.h>

static int cmp(const struct rb_node *a, const struct rb_node *b)
{
	const struct addr_range *x = rb_entry(a, struct addr_range, node);
	const struct addr_range *y = rb_entry(b, struct addr_range, node);

	return x->start < y->start ? -1 : x->start > y->start;
}

struct addr_range *ranges_next(const struct addr_range *a)
{
	return rb_entry_or_null(rb_next(&a->node), struct addr_range, node);
}

struct addr_range *ranges_behind(const struct ranges *r, vaddr_t addr)
{
	struct addr_range *best = NULL;
	struct rb_node *n = r->root.node;

	while (n) {
		struct addr_range *a = rb_entry(n, struct addr_range, node);

		if (a->end > addr) {
			best = a;
			n = n->left;
		} else {
			n = n->right;
		}
	}
	return best;
}

bool ranges_meet(const struct ranges *r, vaddr_t start, vaddr_t end)
{
	const struct addr_range *a = ranges_behind(r, start);

	return a && a->start < end;
}

int ranges_prepare(struct ranges *r, struct kmem_account *account, unsigned int spares)
{
	struct addr_range *a, **link = &r->spares;

	for (; spares; spares--, link = &(*link)->next_spare) {
		if (*link)
			continue;
		a = kmem_alloc(account, sizeof(*a));
		if (!a)
			return -ENOMEM;
		a->next_spare = NULL;
		*link = a;
	}
	while ((a = *link)) {
		*link = a->next_spare;
		kmem_free(a);
	}
	return 0;
}

static void insert(struct ranges *r, struct addr_range *a)
{
	struct rb_node *there = rb_insert(&a->node, &r->root, cmp);

	ASSERT(!there && a->start < a->end);
	r->nr++;
}

static void make(struct ranges *r, vaddr_t start, vaddr_t end, uint64_t value)
{
	struct addr_range *a = r->spares;

	BUG_ON(!a); /* ranges_prepare() */
	r->spares = a->next_spare;
	*a = (struct addr_range){ .start = start, .end = end, .value = value };
	if (r->values)
		r->values->get(value);
	insert(r, a);
}

static void take_out(struct ranges *r, struct addr_range *a)
{
	ASSERT(r->nr > 0);
	rb_erase(&a->node, &r->root);
	r->nr--;
}

static void make_spare(struct ranges *r, struct addr_range *a)
{
	a->next_spare = r->spares;
	r->spares = a;
}

static void drop(struct ranges *r, struct addr_range *a)
{
	take_out(r, a);
	if (r->values)
		r->values->put(a->value);
	make_spare(r, a);
}

static bool same(const struct ranges *r, uint64_t a, uint64_t b)
{
	return a == b || (r->values && r->values->same(a, b));
}

void ranges_add(struct ranges *r, vaddr_t start, vaddr_t end)
{
	/* One that ends where this one begins is its neighbour. */
	struct addr_range *a = ranges_behind(r, start ? start - 1 : 0), *next;

	ASSERT(!r->values);
	if (!a || a->start > end) {
		make(r, start, end, 0);
		return;
	}
	/* The order stays: nothing lies between the old start and the new one. */
	a->start = MIN(a->start, start);
	a->end = MAX(a->end, end);
	while ((next = ranges_next(a)) && next->start <= a->end) {
		a->end = MAX(a->end, next->end);
		drop(r, next);
	}
}

void ranges_set(struct ranges *r, vaddr_t start, vaddr_t end, uint64_t value)
{
	struct addr_range *before, *next;

	ranges_cut(r, start, end);
	before = ranges_behind(r, start ? start - 1 : 0);
	next = before && before->start < start ? ranges_next(before) : before;
	if (before && (before->end != start || !same(r, before->value, value)))
		before = NULL;
	if (next && (next->start != end || !same(r, next->value, value)))
		next = NULL;
	if (before && next) {
		before->end = next->end;
		drop(r, next);
	} else if (before) {
		before->end = end;
	} else if (next) {
		next->start = start;
	} else {
		make(r, start, end, value);
	}
}

void ranges_cut(struct ranges *r, vaddr_t start, vaddr_t end)
{
	struct addr_range *a;

	while ((a = ranges_behind(r, start)) && a->start < end) {
		const vaddr_t rest = a->end;

		if (a->start >= start && rest <= end) {
			drop(r, a);
		} else if (a->start >= start) {
			a->start = end;
		} else {
			a->end = start;
			if (rest > end)
				make(r, end, rest, a->value);
		}
	}
}

void ranges_move(struct ranges *r, vaddr_t from, uint64_t old_len, vaddr_t to, uint64_t new_len)
{
	const vaddr_t end = from + old_len;
	struct addr_range *a, *moved = NULL;

	if (from == to || !ranges_meet(r, from, end))
		return;
	/* A range that reaches over an edge is two from here on. */
	a = ranges_behind(r, from);
	if (a->start < from) {
		const vaddr_t rest = a->end;

		a->end = from;
		make(r, from, rest, a->value);
	}
	a = ranges_behind(r, end - 1);
	if (a && a->start < end && a->end > end) {
		const vaddr_t rest = a->end;

		a->end = end;
		make(r, end, rest, a->value);
	}
	while ((a = ranges_behind(r, from)) && a->start < end) {
		take_out(r, a);
		a->next_spare = moved;
		moved = a;
	}
	while ((a = moved)) {
		const uint64_t first = a->start - from, last = MIN(a->end - from, new_len);
		const uint64_t value = a->value;

		/* Its own structure is the spare that it may need at its new place. */
		moved = a->next_spare;
		make_spare(r, a);
		if (first < last)
			ranges_set(r, to + first, to + last, value);
		if (r->values)
			r->values->put(value);
	}
}

int ranges_copy(const struct ranges *from, struct ranges *to, struct kmem_account *account)
{
	const struct addr_range *a;

	to->values = from->values;
	rb_for_each_entry(a, &from->root, node) {
		const int err = ranges_prepare(to, account, 1);

		if (err)
			return err;
		make(to, a->start, a->end, a->value);
	}
	return 0;
}

void ranges_end(struct ranges *r)
{
	struct addr_range *a;

	while ((a = rb_entry_or_null(rb_first(&r->root), struct addr_range, node)))
		drop(r, a);
	while ((a = r->spares)) {
		r->spares = a->next_spare;
		kmem_free(a);
	}
}
