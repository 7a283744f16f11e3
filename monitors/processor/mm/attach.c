/* SPDX-License-Identifier: MIT */
/*
 * Which ranges of a space show a segment that counts them: see attach.h.
 *
 * Locking:	aspace.map_lock
 * Failure:	a call splits at most three ranges: so many spares are there before it begins.
 */
#include "attach.h"

#include <kernel/panic.h>
#include <processor/account/account.h>

#include "aspace.h"

#define SPARES 4 /* a move splits two ranges and makes one; one for what the caller adds */

static int cmp(const struct rb_node *a, const struct rb_node *b)
{
	const struct attachment *x = rb_entry(a, struct attachment, node);
	const struct attachment *y = rb_entry(b, struct attachment, node);

	return x->start < y->start ? -1 : x->start > y->start;
}

/* The lowest range that ends above @addr. */
static struct attachment *first_behind(struct aspace *as, vaddr_t addr)
{
	struct attachment *best = NULL;
	struct rb_node *n = as->attachments.node;

	while (n) {
		struct attachment *a = rb_entry(n, struct attachment, node);

		if (a->end > addr) {
			best = a;
			n = n->left;
		} else {
			n = n->right;
		}
	}
	return best;
}

int attach_prepare(struct aspace *as, bool adds)
{
	unsigned int nr = 0;

	assert_mutex_held(&as->map_lock);
	if (!adds && rb_empty(&as->attachments))
		return 0;
	for (const struct attachment *a = as->spare_attachments; a; a = a->next_spare)
		nr++;
	for (; nr < SPARES; nr++) {
		struct attachment *a = kmem_alloc(as->kmem, sizeof(*a));

		if (!a)
			return -ENOMEM;
		a->next_spare = as->spare_attachments;
		as->spare_attachments = a;
	}
	return 0;
}

static void insert(struct aspace *as, struct attachment *a)
{
	struct rb_node *there = rb_insert(&a->node, &as->attachments, cmp);

	ASSERT(!there && a->start < a->end);
	a->what->attached(a->what, 1);
}

static void make(struct aspace *as, struct attachable *what, vaddr_t start, vaddr_t end,
		 vaddr_t base)
{
	struct attachment *a = as->spare_attachments;

	BUG_ON(!a); /* attach_prepare() */
	as->spare_attachments = a->next_spare;
	*a = (struct attachment){ .what = what, .start = start, .end = end, .base = base };
	insert(as, a);
}

static void drop(struct aspace *as, struct attachment *a)
{
	rb_erase(&a->node, &as->attachments);
	a->what->attached(a->what, -1);
	kmem_free(a);
}

/* As on Linux, where the part that goes is a mapping of its own for a moment. */
static void came_and_went(const struct attachment *a)
{
	a->what->attached(a->what, 1);
	a->what->attached(a->what, -1);
}

void attach_add(struct aspace *as, struct attachable *what, vaddr_t start, uint64_t len)
{
	assert_mutex_held(&as->map_lock);
	make(as, what, start, start + len, start);
}

void attach_cut(struct aspace *as, vaddr_t start, vaddr_t end)
{
	struct attachment *a;

	assert_mutex_held(&as->map_lock);
	while ((a = first_behind(as, start)) && a->start < end) {
		if (a->start < start && a->end > end) {
			const vaddr_t rest = a->end;

			a->end = start;
			make(as, a->what, end, rest, a->base);
		} else if (a->start < start) {
			a->end = start;
			came_and_went(a);
		} else if (a->end > end) {
			/* The order stays: nothing lies between the old start and the new one. */
			a->start = end;
			came_and_went(a);
		} else {
			drop(as, a);
		}
	}
}

void attach_move(struct aspace *as, vaddr_t from, uint64_t old_len, vaddr_t to, uint64_t new_len)
{
	struct attachment *a = first_behind(as, from);
	struct attachable *what;
	vaddr_t base;

	assert_mutex_held(&as->map_lock);
	if (!a || a->start > from)
		return; /* a move is of one mapping: it shows something else */
	what = a->what;
	base = a->base - from + to; /* modulo 2^64 */
	if (from == to) {           /* it grows, or shrinks, where it is */
		a->end = MAX(a->end, to + new_len);
		return;
	}
	make(as, what, to, to + new_len, base);
	attach_cut(as, from, from + old_len);
}

struct attachable *attach_at(struct aspace *as, vaddr_t addr)
{
	const struct attachment *a = first_behind(as, addr);

	assert_mutex_held(&as->map_lock);
	return a && a->start <= addr ? a->what : NULL;
}

void attach_part(struct aspace *as, struct attachable *what, vaddr_t start, uint64_t len,
		 vaddr_t base)
{
	assert_mutex_held(&as->map_lock);
	make(as, what, start, start + len, base);
}

void attach_again(struct aspace *as, vaddr_t from, vaddr_t to, uint64_t len)
{
	const struct attachment *a = first_behind(as, from);

	assert_mutex_held(&as->map_lock);
	if (a && a->start <= from)
		make(as, a->what, to, to + len, a->base - from + to);
}

int attach_copy(struct aspace *from, struct aspace *to)
{
	struct attachment *a;

	assert_mutex_held(&from->map_lock);
	rb_for_each_entry(a, &from->attachments, node) {
		struct attachment *copy = kmem_alloc(to->kmem, sizeof(*copy));

		if (!copy)
			return -ENOMEM;
		*copy = (struct attachment){
			.what = a->what, .start = a->start, .end = a->end, .base = a->base
		};
		insert(to, copy);
	}
	return 0;
}

void attach_end(struct aspace *as)
{
	struct attachment *a;

	while ((a = rb_entry_or_null(rb_first(&as->attachments), struct attachment, node)))
		drop(as, a);
	while ((a = as->spare_attachments)) {
		as->spare_attachments = a->next_spare;
		kmem_free(a);
	}
}

const struct attachment *attach_find(struct aspace *as, vaddr_t addr, struct attachable *what)
{
	struct attachment *a;

	assert_mutex_held(&as->map_lock);
	for (a = first_behind(as, addr); a;
	     a = rb_entry_or_null(rb_next(&a->node), struct attachment, node)) {
		if (a->base == addr && (!what || a->what == what))
			return a;
	}
	return NULL;
}
