/* SPDX-License-Identifier: MIT */
#include <lib/errno.h>
#include <lib/hash.h>
#include <lib/ktest.h>
#include <lib/radix.h>

static char marks[512];

static void lookup_and_remove(struct ktest *t)
{
	static const uint64_t indices[] = {
		0, 63, 64, 4095, 4096, 1ULL << 40, UINT64_MAX - 1, UINT64_MAX
	};
	struct radix_tree tree = RADIX_TREE_INIT;

	EXPECT_TRUE(t, radix_lookup(&tree, 0) == NULL);
	EXPECT_TRUE(t, radix_remove(&tree, 0) == NULL);
	for (size_t i = 0; i < ARRAY_SIZE(indices); i++) {
		EXPECT_TRUE(t, radix_lookup(&tree, indices[i]) == NULL);
		EXPECT_EQ(t, radix_insert(&tree, indices[i], &marks[i]), 0);
		EXPECT_EQ(t, radix_insert(&tree, indices[i], &marks[i]), -EEXIST);
	}
	EXPECT_EQ(t, tree.count, ARRAY_SIZE(indices));
	for (size_t i = 0; i < ARRAY_SIZE(indices); i++) {
		EXPECT_TRUE(t, radix_lookup(&tree, indices[i]) == &marks[i]);
		EXPECT_TRUE(t, radix_lookup(&tree, indices[i] ^ (1ULL << 50)) == NULL);
	}
	for (size_t i = ARRAY_SIZE(indices); i-- > 0;) {
		EXPECT_TRUE(t, radix_remove(&tree, indices[i]) == &marks[i]);
		EXPECT_TRUE(t, radix_remove(&tree, indices[i]) == NULL);
		for (size_t j = 0; j < i; j++)
			EXPECT_TRUE(t, radix_lookup(&tree, indices[j]) == &marks[j]);
	}
	EXPECT_TRUE(t, tree.root == NULL); /* an empty tree holds no memory */
	EXPECT_EQ(t, tree.height, 0);
}

static void walk_in_order(struct ktest *t)
{
	struct radix_tree tree = RADIX_TREE_INIT;
	uint64_t index;
	uint64_t last = 0;
	size_t n = 0;
	char *mark;

	for (size_t i = 0; i < ARRAY_SIZE(marks); i++) /* spread, with clusters and both ends */
		ASSERT_EQ(t, radix_insert(&tree, i % 3 ? i : hash64(i), &marks[i]), 0);
	ASSERT_EQ(t, radix_insert(&tree, UINT64_MAX, marks), 0);
	radix_for_each(mark, &tree, index) {
		EXPECT_TRUE(t, n == 0 || index > last);
		EXPECT_TRUE(t, radix_lookup(&tree, index) == mark);
		last = index;
		n++;
	}
	EXPECT_EQ(t, n, ARRAY_SIZE(marks) + 1);
	EXPECT_EQ(t, last, UINT64_MAX);

	radix_for_each(mark, &tree, index)
		EXPECT_TRUE(t, radix_remove(&tree, index) == mark);
	EXPECT_EQ(t, tree.count, 0);
	EXPECT_TRUE(t, tree.root == NULL);
}

static void next_from_the_middle(struct ktest *t)
{
	struct radix_tree tree = RADIX_TREE_INIT;
	uint64_t index = 0;

	EXPECT_TRUE(t, radix_next(&tree, &index) == NULL);
	ASSERT_EQ(t, radix_insert(&tree, 1000, &marks[1]), 0);
	ASSERT_EQ(t, radix_insert(&tree, 100000, &marks[2]), 0);
	index = 1000;
	EXPECT_TRUE(t, radix_next(&tree, &index) == &marks[1]);
	EXPECT_EQ(t, index, 1000);
	index = 1001;
	EXPECT_TRUE(t, radix_next(&tree, &index) == &marks[2]);
	EXPECT_EQ(t, index, 100000);
	index = 100001;
	EXPECT_TRUE(t, radix_next(&tree, &index) == NULL);
	index = UINT64_MAX;
	EXPECT_TRUE(t, radix_next(&tree, &index) == NULL);
	radix_destroy(&tree);
}

static const struct ktest_case radix_cases[] = {
	KTEST(lookup_and_remove),
	KTEST(walk_in_order),
	KTEST(next_from_the_middle),
	{ 0 },
};
static const struct ktest_suite radix_suite = { .name = "lib.radix", .cases = radix_cases };
KTEST_SUITE(radix_suite);
