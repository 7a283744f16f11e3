/* SPDX-License-Identifier: MIT */
/*
 * Owner: what only region_apply() uses: the trees and the page table.
 *
 * Locking:	owner.lock for the trees; a region's lock for which pages it has, and inside it a
 *		bucket's lock for the chain.
 */
#pragma once

#include "owner.h"

struct memory;
struct mpage;

struct owner_space *owner_space_find_locked(struct owner *o, uint64_t aspace) __must_hold(&o->lock);
void owner_space_link_locked(struct owner *o, struct owner_space *s) __must_hold(&o->lock);
void owner_space_unlink_locked(struct owner *o, struct owner_space *s) __must_hold(&o->lock);
/* Is there a region already where @r would be? */
bool region_overlaps_locked(struct owner *o, const struct region *r) __must_hold(&o->lock);
void region_link_locked(struct owner *o, struct region *r) __must_hold(&o->lock);
void region_unlink_locked(struct owner *o, struct region *r) __must_hold(&o->lock);
/* Change what has been prepared for a space; false when the space is gone, or has less. */
bool owner_prepared(struct memory *m, uint64_t aspace, int64_t delta) __must_check;

void page_insert_locked(struct memory *m, struct region *r, struct mpage *page, uint64_t vaddr)
	__must_hold(&r->lock);
void page_remove_locked(struct memory *m, struct region *r, struct mpage *page)
	__must_hold(&r->lock);
/* All pages of @a become those of @b, and the reverse. */
void pages_swap_locked(struct region *a, struct region *b) __must_hold(&a->lock)
	__must_hold(&b->lock);
