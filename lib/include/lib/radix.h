/* SPDX-License-Identifier: MIT */
/*
 * Radix tree: a sparse map from a 64-bit index to a pointer, 64 slots a node,
 * as high as the largest index needs.
 *
 * Locking: the caller's; lookups may run together, changes may not.
 */
#pragma once

#include <lib/types.h>

struct radix_node;

struct radix_tree {
	struct radix_node *root;
	unsigned int height; /* levels of nodes; 0 when empty */
	size_t count;        /* stored entries */
};

#define RADIX_TREE_INIT { NULL, 0, 0 }

void radix_init(struct radix_tree *tree);

/* Free the nodes; what the entries point to is the caller's. */
void radix_destroy(struct radix_tree *tree);

/* NULL when nothing is stored there. */
void *radix_lookup(const struct radix_tree *tree, uint64_t index);

/* Store @entry (not NULL); -EEXIST when the place is taken, -ENOMEM. */
int radix_insert(struct radix_tree *tree, uint64_t index, void *entry) __must_check;

/* Remove and return what was stored, or NULL. Never allocates. */
void *radix_remove(struct radix_tree *tree, uint64_t index);

/* The first entry at or after *index; *index becomes its place. NULL when there is none. */
void *radix_next(const struct radix_tree *tree, uint64_t *index);

/* Every entry in order; the body may remove the current entry. @index is a uint64_t. */
#define radix_for_each(entry, tree, index)                               \
	for ((index) = 0, (entry) = radix_next(tree, &(index)); (entry); \
	     (entry) = ((index) == UINT64_MAX) ? NULL : ((index)++, radix_next(tree, &(index))))
