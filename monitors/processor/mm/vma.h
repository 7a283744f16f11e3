/* SPDX-License-Identifier: MIT */
/*
 * The tree of vmas of an address space, for the files that change it.
 */
#pragma once

#include "aspace.h"

/* The lowest vma that ends above @addr, or NULL. */
struct vma *vma_first_behind_locked(struct aspace *as, vaddr_t addr) __must_hold(&as->lock);
/* Move the start of @v to @start, keeping what it shows there. */
void vma_trim_front(struct vma *v, vaddr_t start);
/* The order of the tree. */
int vma_cmp(const struct rb_node *a, const struct rb_node *b);
