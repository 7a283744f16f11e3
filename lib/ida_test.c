/* SPDX-License-Identifier: MIT */
#include <lib/errno.h>
#include <lib/ida.h>
#include <lib/ktest.h>

static void lowest_first(struct ktest *t)
{
	DEFINE_IDA(ida);

	for (int i = 0; i < 1000; i++)
		ASSERT_EQ(t, ida_alloc_range(&ida, 0, INT32_MAX), i);
	EXPECT_TRUE(t, ida_free(&ida, 700));
	EXPECT_TRUE(t, ida_free(&ida, 3));
	EXPECT_EQ(t, ida_alloc_range(&ida, 0, INT32_MAX), 3);
	EXPECT_EQ(t, ida_alloc_range(&ida, 0, INT32_MAX), 700);
	EXPECT_EQ(t, ida_alloc_range(&ida, 0, INT32_MAX), 1000);
	ida_destroy(&ida);
}

static void in_a_range(struct ktest *t)
{
	DEFINE_IDA(ida);

	EXPECT_EQ(t, ida_alloc_range(&ida, 5, 6), 5);
	EXPECT_EQ(t, ida_alloc_range(&ida, 5, 6), 6);
	EXPECT_EQ(t, ida_alloc_range(&ida, 5, 6), -ENOSPC);
	EXPECT_EQ(t, ida_alloc_range(&ida, 6, 5), -EINVAL);
	EXPECT_EQ(t, ida_alloc_range(&ida, -1, 5), -EINVAL);
	EXPECT_EQ(t, ida_alloc_range(&ida, 100000, 100000), 100000);
	EXPECT_EQ(t, ida_alloc_range(&ida, 100000, 100000), -ENOSPC);
	EXPECT_EQ(t, ida_alloc_range(&ida, 0, INT32_MAX), 0);
	EXPECT_TRUE(t, ida_free(&ida, 6));
	EXPECT_EQ(t, ida_alloc_range(&ida, 5, 6), 6);
	ida_destroy(&ida);
}

static void only_used_ids_are_freed(struct ktest *t)
{
	DEFINE_IDA(ida);

	EXPECT_FALSE(t, ida_free(&ida, 0));
	EXPECT_EQ(t, ida_alloc_range(&ida, 0, INT32_MAX), 0);
	EXPECT_TRUE(t, ida_is_used(&ida, 0));
	EXPECT_FALSE(t, ida_free(&ida, 1));
	EXPECT_FALSE(t, ida_free(&ida, -1));
	EXPECT_FALSE(t, ida_free(&ida, INT32_MAX));
	EXPECT_TRUE(t, ida_free(&ida, 0));
	EXPECT_FALSE(t, ida_free(&ida, 0));
	EXPECT_FALSE(t, ida_is_used(&ida, 0));
	ida_destroy(&ida);
}

static const struct ktest_case ida_cases[] = {
	KTEST(lowest_first),
	KTEST(in_a_range),
	KTEST(only_used_ids_are_freed),
	{ 0 },
};
static const struct ktest_suite ida_suite = { .name = "lib.ida", .cases = ida_cases };
KTEST_SUITE(ida_suite);
