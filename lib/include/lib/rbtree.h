/* SPDX-License-Identifier: MIT */
/*
 * Intrusive red-black tree: the caller walks and compares, this file balances.
 *
 * Flow:	Insert: walk from &root->node down to an empty link, remembering the parent;
 *		rb_link_node(node, parent, link); rb_insert_color(node, root).
 *		rb_insert() does it all, given a comparison.
 *		Augmented: nodes that keep something about their subtree (its smallest value, say)
 *		use the _update forms for every change, always with the same function.
 * Locking:	the caller's.
 */
#pragma once

#include <lib/types.h>

struct rb_node {
	uintptr_t parent_color; /* parent pointer; bit 0 set when black */
	struct rb_node *left;
	struct rb_node *right;
};

struct rb_root {
	struct rb_node *node;
};

#define RB_ROOT                     ((struct rb_root){ NULL })
#define rb_entry(ptr, type, member) container_of(ptr, type, member)
#define rb_entry_or_null(ptr, type, member)                       \
	({                                                        \
		struct rb_node *rb_ptr_ = (ptr);                  \
		rb_ptr_ ? rb_entry(rb_ptr_, type, member) : NULL; \
	})

static inline bool rb_empty(const struct rb_root *root)
{
	return !root->node;
}

static inline struct rb_node *rb_parent(const struct rb_node *node)
{
	return (struct rb_node *)(node->parent_color & ~(uintptr_t)1);
}

/* Hang @node, red, below @parent (NULL: it becomes the root) at @link. */
static inline void rb_link_node(struct rb_node *node, struct rb_node *parent, struct rb_node **link)
{
	node->parent_color = (uintptr_t)parent;
	node->left = NULL;
	node->right = NULL;
	*link = node;
}

/* @node becomes the only one of @root, whatever was there. */
static inline void rb_only_node(struct rb_node *node, struct rb_root *root)
{
	node->parent_color = 1; /* black */
	node->left = NULL;
	node->right = NULL;
	root->node = node;
}

/* Restore the balance after rb_link_node(). */
void rb_insert_color(struct rb_node *node, struct rb_root *root);

/* Remove @node, which must be in @root. */
void rb_erase(struct rb_node *node, struct rb_root *root);

/* Find anew what @node keeps about its subtree, from itself and from its children, if any. */
typedef void (*rb_update_fn)(struct rb_node *node);
void rb_insert_color_update(struct rb_node *node, struct rb_root *root, rb_update_fn update);
void rb_erase_update(struct rb_node *node, struct rb_root *root, rb_update_fn update);

/* In order; NULL at the end. */
struct rb_node *rb_first(const struct rb_root *root);
struct rb_node *rb_last(const struct rb_root *root);
struct rb_node *rb_next(const struct rb_node *node);
struct rb_node *rb_prev(const struct rb_node *node);

/* Negative, 0 or positive, as @a sorts before, with or after @b. */
typedef int (*rb_cmp_fn)(const struct rb_node *a, const struct rb_node *b);

/* Insert @node; when an equal one is there, change nothing and return that one. */
struct rb_node *rb_insert(struct rb_node *node, struct rb_root *root, rb_cmp_fn cmp);

/* Check colours, depths and parent links (not the order); false when broken. For tests. */
bool rb_check(const struct rb_root *root);

#define rb_for_each_entry(pos, root, member)                                              \
	for ((pos) = rb_entry_or_null(rb_first(root), __typeof__(*(pos)), member); (pos); \
	     (pos) = rb_entry_or_null(rb_next(&(pos)->member), __typeof__(*(pos)), member))
