/* SPDX-License-Identifier: MIT */
/*
 * Red-black tree.
 *
 * Invariants:	the root is black; a red node has black children; every path from a
 *		node down to a missing child passes the same number of black nodes.
 *		Missing children count as black.
 *		Augmented: with an update function, what each node keeps about its subtree is right
 *		between two calls. A rotation changes the subtrees of two nodes only; a node that
 *		comes or goes changes those on its way to the root.
 */
#include <lib/rbtree.h>

#include <lib/assert.h>

#define RB_BLACK 1UL

static bool is_black(const struct rb_node *node)
{
	return !node || (node->parent_color & RB_BLACK);
}

static bool is_red(const struct rb_node *node)
{
	return !is_black(node);
}

static void set_black(struct rb_node *node)
{
	node->parent_color |= RB_BLACK;
}

static void set_red(struct rb_node *node)
{
	node->parent_color &= ~RB_BLACK;
}

static void set_parent(struct rb_node *node, struct rb_node *parent)
{
	node->parent_color = (uintptr_t)parent | (node->parent_color & RB_BLACK);
}

static void copy_color(struct rb_node *to, const struct rb_node *from)
{
	to->parent_color = (to->parent_color & ~RB_BLACK) | (from->parent_color & RB_BLACK);
}

/* Make the link that led to @old lead to @node (which may be NULL). */
static void replace_child(struct rb_node *parent, struct rb_node *old, struct rb_node *node,
			  struct rb_root *root)
{
	ASSERT(parent ? parent->left == old || parent->right == old : root->node == old);
	if (!parent)
		root->node = node;
	else if (parent->left == old)
		parent->left = node;
	else
		parent->right = node;
}

/* @node and @up have changed places: @up is the upper one now. */
static inline void update_rotated(struct rb_node *node, struct rb_node *up, rb_update_fn update)
{
	if (update) {
		update(node);
		update(up);
	}
}

static inline void update_path(struct rb_node *node, rb_update_fn update)
{
	for (; update && node; node = rb_parent(node))
		update(node);
}

/* The right child takes @node's place, and @node becomes its left child. */
static void rotate_left(struct rb_node *node, struct rb_root *root, rb_update_fn update)
{
	struct rb_node *up = node->right;
	struct rb_node *parent = rb_parent(node);

	node->right = up->left;
	if (up->left)
		set_parent(up->left, node);
	up->left = node;
	replace_child(parent, node, up, root);
	set_parent(up, parent);
	set_parent(node, up);
	update_rotated(node, up, update);
}

static void rotate_right(struct rb_node *node, struct rb_root *root, rb_update_fn update)
{
	struct rb_node *up = node->left;
	struct rb_node *parent = rb_parent(node);

	node->left = up->right;
	if (up->right)
		set_parent(up->right, node);
	up->right = node;
	replace_child(parent, node, up, root);
	set_parent(up, parent);
	set_parent(node, up);
	update_rotated(node, up, update);
}

void rb_insert_color_update(struct rb_node *node, struct rb_root *root, rb_update_fn update)
{
	struct rb_node *parent;

	ASSERT(is_red(node) && !node->left && !node->right);
	update_path(node, update);
	while (is_red(parent = rb_parent(node)) && parent) {
		struct rb_node *grand = rb_parent(parent); /* exists: a red node is not the root */
		const bool left = grand->left == parent;
		struct rb_node *uncle = left ? grand->right : grand->left;

		ASSERT(is_black(grand)); /* its child is red */
		if (is_red(uncle)) {
			set_black(parent);
			set_black(uncle);
			set_red(grand);
			node = grand;
			continue;
		}
		if (left) {
			if (parent->right == node) {
				rotate_left(parent, root, update);
				parent = node;
			}
			rotate_right(grand, root, update);
		} else {
			if (parent->left == node) {
				rotate_right(parent, root, update);
				parent = node;
			}
			rotate_left(grand, root, update);
		}
		set_black(parent);
		set_red(grand);
		break;
	}
	set_black(root->node);
}

void rb_insert_color(struct rb_node *node, struct rb_root *root)
{
	ASSERT(root->node == node || rb_parent(node));
	rb_insert_color_update(node, root, NULL);
}

/*
 * The paths through @node (maybe NULL), a child of @parent, lack one black node. The sibling
 * exists: its side has at least one black node more.
 */
static void erase_color(struct rb_node *node, struct rb_node *parent, struct rb_root *root,
			rb_update_fn update)
{
	while (parent && is_black(node)) {
		const bool left = parent->left == node;
		struct rb_node *sibling = left ? parent->right : parent->left;
		struct rb_node *far;

		ASSERT(parent->left == node || parent->right == node);
		if (is_red(sibling)) {
			set_black(sibling);
			set_red(parent);
			if (left)
				rotate_left(parent, root, update);
			else
				rotate_right(parent, root, update);
			sibling = left ? parent->right : parent->left;
		}
		if (is_black(sibling->left) && is_black(sibling->right)) {
			set_red(sibling);
			node = parent;
			parent = rb_parent(node);
			continue;
		}
		far = left ? sibling->right : sibling->left;
		if (is_black(far)) {
			set_red(sibling);
			set_black(left ? sibling->left : sibling->right);
			if (left)
				rotate_right(sibling, root, update);
			else
				rotate_left(sibling, root, update);
			sibling = left ? parent->right : parent->left;
		}
		copy_color(sibling, parent);
		set_black(parent);
		set_black(left ? sibling->right : sibling->left);
		if (left)
			rotate_left(parent, root, update);
		else
			rotate_right(parent, root, update);
		return;
	}
	if (node)
		set_black(node);
}

/* Swap @node with its in-order successor, so that it has at most one child. */
static void swap_with_next(struct rb_node *node, struct rb_root *root)
{
	struct rb_node *next = rb_next(node);
	struct rb_node *next_parent = rb_parent(next);
	struct rb_node *next_right = next->right;
	const uintptr_t next_color = next->parent_color & RB_BLACK;

	replace_child(rb_parent(node), node, next, root);
	next->parent_color = node->parent_color;
	next->left = node->left;
	set_parent(next->left, next);
	if (next_parent == node) {
		next->right = node;
		next_parent = next;
	} else {
		next->right = node->right;
		set_parent(next->right, next);
		next_parent->left = node;
	}
	node->parent_color = (uintptr_t)next_parent | next_color;
	node->left = NULL;
	node->right = next_right;
	if (next_right)
		set_parent(next_right, node);
}

void rb_erase_update(struct rb_node *node, struct rb_root *root, rb_update_fn update)
{
	struct rb_node *child;
	struct rb_node *parent;

	if (node->left && node->right)
		swap_with_next(node, root);

	child = node->left ? node->left : node->right;
	parent = rb_parent(node);
	replace_child(parent, node, child, root);
	if (child)
		set_parent(child, parent);
	/* The node that has taken its place, if any, lies on this path. */
	update_path(parent, update);
	if (is_black(node))
		erase_color(child, parent, root, update);
}

void rb_erase(struct rb_node *node, struct rb_root *root)
{
	ASSERT(root->node == node || rb_parent(node));
	rb_erase_update(node, root, NULL);
}

static struct rb_node *leftmost(struct rb_node *node)
{
	while (node && node->left)
		node = node->left;
	return node;
}

static struct rb_node *rightmost(struct rb_node *node)
{
	while (node && node->right)
		node = node->right;
	return node;
}

struct rb_node *rb_first(const struct rb_root *root)
{
	return leftmost(root->node);
}

struct rb_node *rb_last(const struct rb_root *root)
{
	return rightmost(root->node);
}

struct rb_node *rb_next(const struct rb_node *node)
{
	struct rb_node *parent;

	if (node->right)
		return leftmost(node->right);
	while ((parent = rb_parent(node)) && parent->right == node)
		node = parent;
	return parent;
}

struct rb_node *rb_prev(const struct rb_node *node)
{
	struct rb_node *parent;

	if (node->left)
		return rightmost(node->left);
	while ((parent = rb_parent(node)) && parent->left == node)
		node = parent;
	return parent;
}

struct rb_node *rb_insert(struct rb_node *node, struct rb_root *root, rb_cmp_fn cmp)
{
	struct rb_node **link = &root->node;
	struct rb_node *parent = NULL;

	while (*link) {
		const int order = cmp(node, *link);

		if (order == 0)
			return *link;
		parent = *link;
		link = order < 0 ? &parent->left : &parent->right;
	}
	rb_link_node(node, parent, link);
	rb_insert_color(node, root);
	return NULL;
}

/* Black nodes on every path down from @node, or -1 when a rule is broken. */
static int black_height(const struct rb_node *node)
{
	int left;
	int right;

	if (!node)
		return 0;
	if (node->left && rb_parent(node->left) != node)
		return -1;
	if (node->right && rb_parent(node->right) != node)
		return -1;
	if (is_red(node) && (is_red(node->left) || is_red(node->right)))
		return -1;
	left = black_height(node->left);
	right = black_height(node->right);
	if (left < 0 || left != right)
		return -1;
	return left + (is_black(node) ? 1 : 0);
}

bool rb_check(const struct rb_root *root)
{
	if (!root->node)
		return true;
	return is_black(root->node) && !rb_parent(root->node) && black_height(root->node) >= 0;
}
