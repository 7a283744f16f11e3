/* SPDX-License-Identifier: MIT */
/* Library code that allocates, when memory runs out at each possible point. */
#include <lib/errno.h>
#include <lib/ida.h>
#include <lib/ktest.h>
#include <lib/radix.h>
#include <shim/shim.h>

static char marks[4];

/* Insert with exactly @budget allocations to spend; the tree must be as before when it fails. */
static int insert_within(struct ktest *t, struct radix_tree *tree, uint64_t index, long budget)
{
	const size_t live = shim_allocs_live();
	const size_t count = tree->count;
	int err;

	shim_fail_alloc_after(budget);
	err = radix_insert(tree, index, &marks[1]);
	shim_fail_alloc_after(-1);
	if (err) {
		EXPECT_EQ(t, err, -ENOMEM);
		EXPECT_EQ(t, shim_allocs_live(), live);
		EXPECT_EQ(t, tree->count, count);
		EXPECT_TRUE(t, radix_lookup(tree, index) == NULL);
		EXPECT_TRUE(t, radix_lookup(tree, 7) == &marks[0]);
	}
	return err;
}

static void radix_insert_is_all_or_nothing(struct ktest *t)
{
	const size_t live = shim_allocs_live();
	struct radix_tree tree = RADIX_TREE_INIT;
	long budget = 0;

	ASSERT_EQ(t, radix_insert(&tree, 7, &marks[0]), 0);
	while (insert_within(t, &tree, 1ULL << 60, budget) != 0)
		budget++;
	EXPECT_EQ(t, budget, 20); /* ten new roots, and ten nodes on the new path */
	EXPECT_TRUE(t, radix_remove(&tree, 1ULL << 60) == &marks[1]);
	EXPECT_EQ(t, tree.height, 1);
	EXPECT_TRUE(t, radix_remove(&tree, 7) == &marks[0]);
	EXPECT_EQ(t, shim_allocs_live(), live);
}

static void ida_keeps_its_ids(struct ktest *t)
{
	DEFINE_IDA(ida);
	int n = 0;

	shim_fail_alloc_after(0);
	EXPECT_EQ(t, ida_alloc_range(&ida, 0, INT32_MAX), -ENOMEM);
	shim_fail_alloc_after(1);
	while (ida_alloc_range(&ida, 0, INT32_MAX) >= 0)
		n++;
	EXPECT_EQ(t, n, 256);
	shim_fail_alloc_after(-1);
	EXPECT_EQ(t, ida_alloc_range(&ida, 0, INT32_MAX), 256);
	EXPECT_TRUE(t, ida_is_used(&ida, 0));
	ida_destroy(&ida);
}

static const struct ktest_case oom_cases[] = {
	KTEST(radix_insert_is_all_or_nothing),
	KTEST(ida_keeps_its_ids),
	{ 0 },
};
static const struct ktest_suite oom_suite = { .name = "lib.oom", .cases = oom_cases };
KTEST_SUITE(oom_suite);
