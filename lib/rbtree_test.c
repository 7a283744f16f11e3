/* SPDX-License-Identifier: MIT */
#include <lib/ktest.h>
#include <lib/prng.h>
#include <lib/rbtree.h>

#define NR_ITEMS 400

struct item {
	uint32_t key;
	bool in_tree;
	struct rb_node node;
};

static struct item items[NR_ITEMS];

static int by_key(const struct rb_node *a, const struct rb_node *b)
{
	const struct item *x = rb_entry(a, struct item, node);
	const struct item *y = rb_entry(b, struct item, node);

	return x->key < y->key ? -1 : x->key > y->key;
}

/* Balanced, in order both ways, and with exactly the items that are marked. */
static bool tree_is_right(const struct rb_root *root)
{
	const struct item *it;
	uint32_t last = 0;
	size_t forward = 0;
	size_t backward = 0;
	size_t want = 0;

	rb_for_each_entry(it, root, node) {
		if (!it->in_tree || (forward && it->key <= last))
			return false;
		last = it->key;
		forward++;
	}
	for (const struct rb_node *n = rb_last(root); n; n = rb_prev(n))
		backward++;
	for (size_t i = 0; i < NR_ITEMS; i++)
		want += items[i].in_tree;
	return rb_check(root) && forward == want && backward == want;
}

static void empty_tree(struct ktest *t)
{
	struct rb_root root = RB_ROOT;

	EXPECT_TRUE(t, rb_empty(&root));
	EXPECT_TRUE(t, rb_first(&root) == NULL);
	EXPECT_TRUE(t, rb_last(&root) == NULL);
	EXPECT_TRUE(t, rb_check(&root));
}

/* Insert in the given order, then erase in it, checking the rules at each step. */
static void insert_and_erase(struct ktest *t, uint32_t (*key)(uint32_t i))
{
	struct rb_root root = RB_ROOT;

	for (uint32_t i = 0; i < NR_ITEMS; i++) {
		items[i] = (struct item){ .key = key(i), .in_tree = true };
		ASSERT_TRUE(t, rb_insert(&items[i].node, &root, by_key) == NULL);
		if (i % 16 == 0)
			ASSERT_TRUE(t, rb_check(&root));
	}
	ASSERT_TRUE(t, rb_check(&root));
	for (uint32_t i = 0; i < NR_ITEMS; i++) {
		rb_erase(&items[i].node, &root);
		items[i].in_tree = false;
		ASSERT_TRUE(t, rb_check(&root));
	}
	EXPECT_TRUE(t, rb_empty(&root));
}

static uint32_t rising(uint32_t i)
{
	return i;
}

static uint32_t falling(uint32_t i)
{
	return NR_ITEMS - i;
}

static uint32_t from_both_ends(uint32_t i)
{
	return i % 2 ? NR_ITEMS + i : NR_ITEMS - i;
}

static void ordered_keys(struct ktest *t)
{
	insert_and_erase(t, rising);
	insert_and_erase(t, falling);
	insert_and_erase(t, from_both_ends);
}

static void equal_keys_are_refused(struct ktest *t)
{
	struct item a = { .key = 7 };
	struct item b = { .key = 7 };
	struct rb_root root = RB_ROOT;

	EXPECT_TRUE(t, rb_insert(&a.node, &root, by_key) == NULL);
	EXPECT_TRUE(t, rb_insert(&b.node, &root, by_key) == &a.node);
	EXPECT_TRUE(t, rb_first(&root) == &a.node && rb_last(&root) == &a.node);
}

static void random_changes(struct ktest *t)
{
	struct rb_root root = RB_ROOT;
	struct prng rng;

	prng_seed(&rng, 42);
	for (uint32_t i = 0; i < NR_ITEMS; i++)
		items[i] = (struct item){ .key = i * 2654435761U };
	for (int step = 0; step < 6000; step++) {
		struct item *it = &items[prng_below(&rng, NR_ITEMS)];

		if (it->in_tree)
			rb_erase(&it->node, &root);
		else
			ASSERT_TRUE(t, rb_insert(&it->node, &root, by_key) == NULL);
		it->in_tree = !it->in_tree;
		if (step % 64 == 0)
			ASSERT_TRUE(t, tree_is_right(&root));
	}
	EXPECT_TRUE(t, tree_is_right(&root));
}

/* --- augmented: the greatest weight below each node ------------------------------------- */

struct weighed {
	uint32_t key, weight, heaviest;
	bool in_tree;
	struct rb_node node;
};

static struct weighed weighed[NR_ITEMS];

static uint32_t heaviest_of(const struct rb_node *node)
{
	return node ? rb_entry(node, struct weighed, node)->heaviest : 0;
}

static uint32_t heaviest_below(const struct weighed *w)
{
	return MAX(w->weight, MAX(heaviest_of(w->node.left), heaviest_of(w->node.right)));
}

static void heaviest_update(struct rb_node *node)
{
	struct weighed *w = rb_entry(node, struct weighed, node);

	w->heaviest = heaviest_below(w);
}

static void weighed_insert(struct weighed *w, struct rb_root *root)
{
	struct rb_node **link = &root->node, *parent = NULL;

	while (*link) {
		parent = *link;
		link = w->key < rb_entry(parent, struct weighed, node)->key ? &parent->left
									    : &parent->right;
	}
	rb_link_node(&w->node, parent, link);
	rb_insert_color_update(&w->node, root, heaviest_update);
}

static bool all_updated(const struct rb_root *root)
{
	const struct weighed *w;

	rb_for_each_entry(w, root, node) {
		if (w->heaviest != heaviest_below(w))
			return false;
	}
	return rb_check(root);
}

static void subtrees_are_kept_up_to_date(struct ktest *t)
{
	struct rb_root root = RB_ROOT;
	struct prng rng;

	prng_seed(&rng, 7);
	for (int step = 0; step < 6000; step++) {
		struct weighed *w = &weighed[prng_below(&rng, NR_ITEMS)];

		if (w->in_tree) {
			rb_erase_update(&w->node, &root, heaviest_update);
		} else {
			w->key = (uint32_t)prng_below(&rng, 200);
			w->weight = (uint32_t)prng_below(&rng, 1000000);
			weighed_insert(w, &root);
		}
		w->in_tree = !w->in_tree;
		ASSERT_TRUE(t, all_updated(&root));
	}
}

static void check_sees_damage(struct ktest *t)
{
	struct rb_root root = RB_ROOT;

	for (uint32_t i = 0; i < 8; i++) {
		items[i] = (struct item){ .key = i };
		(void)rb_insert(&items[i].node, &root, by_key);
	}
	EXPECT_TRUE(t, rb_check(&root));
	root.node->parent_color &= ~1UL; /* a red root */
	EXPECT_FALSE(t, rb_check(&root));
	root.node->parent_color |= 1UL;
	rb_first(&root)->parent_color ^= 1UL; /* one path with another count of black nodes */
	EXPECT_FALSE(t, rb_check(&root));
}

static const struct ktest_case rbtree_cases[] = {
	KTEST(empty_tree),
	KTEST(ordered_keys),
	KTEST(equal_keys_are_refused),
	KTEST(random_changes),
	KTEST(subtrees_are_kept_up_to_date),
	KTEST(check_sees_damage),
	{ 0 },
};
static const struct ktest_suite rbtree_suite = { .name = "lib.rbtree", .cases = rbtree_cases };
KTEST_SUITE(rbtree_suite);
