/* SPDX-License-Identifier: MIT */
/* The membership view: order, completeness, parsing. */
#include <cluster/membership.h>

#include <kernel/panic.h>
#include <lib/errno.h>
#include <lib/ktest.h>
#include <lib/string.h>

static struct cluster_view v; /* large */

static void put(struct ktest *t, uint32_t id, uint8_t role)
{
	const struct cluster_member m = { .id = id, .incarn = 1, .role = role };

	EXPECT_EQ(t, view_put(&v, &m), 0);
}

static void members_stay_in_order(struct ktest *t)
{
	memset(&v, 0, sizeof(v));
	put(t, 5, 2);
	put(t, 1, 3);
	put(t, 3, 1);
	put(t, 5, 2);
	ASSERT_EQ(t, v.nr_members, 3u);
	EXPECT_EQ(t, v.members[0].id, 1u);
	EXPECT_EQ(t, v.members[1].id, 3u);
	EXPECT_EQ(t, v.members[2].id, 5u);
	EXPECT_TRUE(t, view_remove(&v, 3));
	EXPECT_FALSE(t, view_remove(&v, 3));
	EXPECT_EQ(t, v.members[1].id, 5u);
}

static void full_view_refuses(struct ktest *t)
{
	const struct cluster_member m = { .id = 9999, .incarn = 1, .role = 1 };

	memset(&v, 0, sizeof(v));
	for (uint32_t i = 1; i <= CLUSTER_MAX_MEMBERS; i++)
		put(t, i, 2);
	EXPECT_EQ(t, view_put(&v, &m), -ENOSPC);
}

static void missing_nodes_are_named(struct ktest *t)
{
	char line[128];

	memset(&v, 0, sizeof(v));
	EXPECT_EQ(t, view_parse_wanted("p1,m2,s1", v.wanted), 0);
	put(t, 1, 3);
	put(t, 2, 2);
	EXPECT_FALSE(t, view_is_complete(&v));
	view_describe_missing(&v, line, sizeof(line));
	EXPECT_STREQ(
		t, line,
		"waiting for processor nodes (0 of 1 are here), memory nodes (1 of 2 are here)");
	put(t, 3, 2);
	put(t, 4, 1);
	EXPECT_TRUE(t, view_is_complete(&v));
}

static void wanted_rejects(struct ktest *t)
{
	static const char *const bad[] = { "",       "p",         "1",     "p1,",    "p1,p1",
					   "x1",     "p1 m1",     "p501",  "m99999", "p-1",
					   "p1,,m1", "p300,m300", "p1,m2x" };
	uint16_t wanted[CLUSTER_NR_ROLES] = { 7, 7, 7 };

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		EXPECT_EQ(t, view_parse_wanted(bad[i], wanted), -EINVAL);
	EXPECT_EQ(t, wanted[0], 7u);
	EXPECT_EQ(t, view_parse_wanted("s1", wanted), 0);
	EXPECT_EQ(t, wanted[0], 0u);
	EXPECT_EQ(t, wanted[2], 1u);
}

static struct cluster_view before, now;

static struct cluster_member processor(uint32_t id, uint32_t incarn)
{
	return (struct cluster_member){ .id = id, .incarn = incarn, .role = CLUSTER_ROLE_PROC };
}

static void put_two(struct cluster_view *view, uint32_t incarn_a, uint32_t incarn_b)
{
	const struct cluster_member a = processor(3, incarn_a), b = processor(5, incarn_b);

	*view = (struct cluster_view){ 0 };
	if (view_put(view, &a) || view_put(view, &b) || view_place(view, 1, 0))
		BUG_ON(true);
}

static void a_host_that_does_not_know_withdraws_nothing(struct ktest *t)
{
	put_two(&before, 30, 50);
	EXPECT_EQ(t, view_place(&before, 2, 3), 0);
	EXPECT_EQ(t, view_place(&before, 2, 5), 0);
	put_two(&now, 30, 51);
	EXPECT_TRUE(t, view_has_withdrawn(&before, &now));
	view_keep_placed(&now, &before);
	view_check(&now);
	EXPECT_FALSE(t, view_has_withdrawn(&before, &now));
	EXPECT_TRUE(t, view_is_placed(&now, 1, 5));
	EXPECT_TRUE(t, view_is_placed(&now, 2, 3));
	EXPECT_FALSE(t, view_is_placed(&now, 2, 5)); /* another life */
	EXPECT_TRUE(t, view_unplace(&now, 2, 3));
	EXPECT_FALSE(t, view_unplace(&now, 2, 3));
	EXPECT_TRUE(t, view_has_withdrawn(&before, &now));
	/* One that leaves loses nothing: what it had is gone with it. */
	EXPECT_TRUE(t, view_remove(&now, 3));
	EXPECT_FALSE(t, view_has_withdrawn(&before, &now));
	EXPECT_EQ(t, view_place(&now, 2, 5), 0);
	EXPECT_TRUE(t, view_remove(&now, 5));
	EXPECT_EQ(t, now.nr_placed, 1);
	EXPECT_TRUE(t, view_is_placed(&now, 1, 5)); /* as on each */
}

static const struct ktest_case cases[] = {
	KTEST(a_host_that_does_not_know_withdraws_nothing),
	KTEST(members_stay_in_order),
	KTEST(full_view_refuses),
	KTEST(missing_nodes_are_named),
	KTEST(wanted_rejects),
	{ 0 },
};
static const struct ktest_suite suite = { .name = "cluster.view", .cases = cases };
KTEST_SUITE(suite);
