/* SPDX-License-Identifier: MIT */
/*
 * Radix tree of 64-slot nodes.
 *
 * Invariants:	height h covers indices below 64^h; the tree grows by new roots above
 *		the old one, and shrinks again when only slot 0 of the root is left.
 *		A node with no entries is freed at once, so an empty tree has no nodes.
 * Failure:	an insert that runs out of memory leaves the tree as it was.
 */
#include <lib/radix.h>

#include <lib/alloc.h>
#include <lib/assert.h>
#include <lib/errno.h>

#define RADIX_BITS       6
#define RADIX_SLOTS      (1U << RADIX_BITS)
#define RADIX_MAX_HEIGHT DIV_ROUND_UP(64, RADIX_BITS)

struct radix_node {
	uint64_t used; /* bit per slot that is not NULL: a search jumps over the others */
	void *slots[RADIX_SLOTS]; /* nodes, or at level 1 entries */
};
static_assert(RADIX_SLOTS == 64, "a node's bitmap is one word");

void radix_init(struct radix_tree *tree)
{
	*tree = (struct radix_tree)RADIX_TREE_INIT;
}

/* Which slot of a node @level levels above the entries (1: just above) leads to @index. */
static unsigned int slot_of(uint64_t index, unsigned int level)
{
	return (unsigned int)(index >> (RADIX_BITS * (level - 1))) % RADIX_SLOTS;
}

static void slot_set(struct radix_node *node, unsigned int slot, void *what)
{
	ASSERT(!(node->used & 1ull << slot));
	node->slots[slot] = what;
	node->used |= 1ull << slot;
}

static void slot_clear(struct radix_node *node, unsigned int slot)
{
	ASSERT(node->used & 1ull << slot);
	node->slots[slot] = NULL;
	node->used &= ~(1ull << slot);
}

/* Does a tree of this height reach @index? */
static bool covers(unsigned int height, uint64_t index)
{
	if (height >= RADIX_MAX_HEIGHT)
		return true;
	return height != 0 && index >> (RADIX_BITS * height) == 0;
}

/* Depth is bounded by RADIX_MAX_HEIGHT, so recursion is safe here. */
static void free_nodes(struct radix_node *node, unsigned int level)
{
	if (level > 1) {
		for (uint64_t used = node->used; used; used &= used - 1)
			free_nodes(node->slots[__builtin_ctzll(used)], level - 1);
	}
	lib_free(node);
}

void radix_destroy(struct radix_tree *tree)
{
	if (tree->root)
		free_nodes(tree->root, tree->height);
	radix_init(tree);
}

void *radix_lookup(const struct radix_tree *tree, uint64_t index)
{
	const struct radix_node *node = tree->root;

	if (!node || !covers(tree->height, index))
		return NULL;
	for (unsigned int level = tree->height; level > 1; level--) {
		node = node->slots[slot_of(index, level)];
		if (!node)
			return NULL;
	}
	return node->slots[slot_of(index, 1)];
}

/* Drop roots that lead only to slot 0, and an empty one. */
static void shrink(struct radix_tree *tree)
{
	ASSERT((tree->height == 0) == (tree->root == NULL));
	while (tree->height > 1 && tree->root->used == 1) {
		struct radix_node *old = tree->root;

		tree->root = old->slots[0];
		tree->height--;
		lib_free(old);
	}
	if (tree->root && !tree->root->used) {
		lib_free(tree->root);
		tree->root = NULL;
		tree->height = 0;
	}
}

static int grow_to_cover(struct radix_tree *tree, uint64_t index)
{
	while (!covers(tree->height, index)) {
		struct radix_node *node = lib_zalloc(sizeof(*node));

		if (!node)
			return -ENOMEM;
		if (tree->root)
			slot_set(node, 0, tree->root);
		tree->root = node;
		tree->height++;
	}
	return 0;
}

/*
 * Walk the path to @index and free the nodes on it that hold nothing. @path[l] is the node at
 * level l, down to @lowest.
 */
static void prune(struct radix_tree *tree, struct radix_node **path, unsigned int lowest,
		  uint64_t index)
{
	for (unsigned int level = lowest; level < tree->height && !path[level]->used; level++) {
		struct radix_node *parent = path[level + 1];

		lib_free(path[level]);
		slot_clear(parent, slot_of(index, level + 1));
	}
	shrink(tree);
}

int radix_insert(struct radix_tree *tree, uint64_t index, void *entry)
{
	struct radix_node *path[RADIX_MAX_HEIGHT + 1];
	struct radix_node *node;
	unsigned int level;
	int err;

	err = grow_to_cover(tree, index);
	if (err) {
		shrink(tree);
		return err;
	}

	node = tree->root;
	path[tree->height] = node;
	for (level = tree->height; level > 1; level--) {
		struct radix_node *next = node->slots[slot_of(index, level)];

		if (!next) {
			next = lib_zalloc(sizeof(*next));
			if (!next) {
				prune(tree, path, level, index);
				return -ENOMEM;
			}
			slot_set(node, slot_of(index, level), next);
		}
		node = next;
		path[level - 1] = node;
	}

	if (node->slots[slot_of(index, 1)])
		return -EEXIST; /* the path was complete before, nothing to undo */
	slot_set(node, slot_of(index, 1), entry);
	tree->count++;
	return 0;
}

void *radix_remove(struct radix_tree *tree, uint64_t index)
{
	struct radix_node *path[RADIX_MAX_HEIGHT + 1];
	struct radix_node *node = tree->root;
	void *entry;

	if (!node || !covers(tree->height, index))
		return NULL;
	path[tree->height] = node;
	for (unsigned int level = tree->height; level > 1; level--) {
		node = node->slots[slot_of(index, level)];
		if (!node)
			return NULL;
		path[level - 1] = node;
	}
	entry = node->slots[slot_of(index, 1)];
	if (!entry)
		return NULL;
	slot_clear(node, slot_of(index, 1));
	ASSERT(tree->count > 0);
	tree->count--;
	prune(tree, path, 1, index);
	return entry;
}

/*
 * One step down or along: from *index, look for the first used slot. Returns false when
 * *index had to jump to the next used slot of a node, or past the node (*index is then the next
 * place to look at, or has wrapped to 0).
 */
static bool descend(const struct radix_tree *tree, uint64_t *index, void **entry)
{
	const struct radix_node *node = tree->root;

	for (unsigned int level = tree->height;; level--) {
		const unsigned int shift = RADIX_BITS * (level - 1);
		const unsigned int slot = slot_of(*index, level);
		const uint64_t behind = node->used >> slot;
		void *next = node->slots[slot];

		if (!next) {
			const unsigned int skip =
				behind ? (unsigned int)__builtin_ctzll(behind) : RADIX_SLOTS - slot;

			*index = ((*index >> shift) + skip) << shift;
			return false;
		}
		if (level == 1) {
			*entry = next;
			return true;
		}
		node = next;
	}
}

void *radix_next(const struct radix_tree *tree, uint64_t *index)
{
	uint64_t at = *index;
	void *entry;

	while (tree->root && covers(tree->height, at)) {
		const uint64_t before = at;

		if (descend(tree, &at, &entry)) {
			*index = at;
			return entry;
		}
		if (at <= before) /* wrapped past the last index */
			return NULL;
	}
	return NULL;
}
