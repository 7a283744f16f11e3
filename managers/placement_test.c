/* SPDX-License-Identifier: MIT */
/* Placement policies. */
#include "placement.h"

#include <lib/ktest.h>

static const uint32_t nodes[] = { 3, 5, 9 };

static void homes_take_turns(struct ktest *t)
{
	EXPECT_EQ(t, place_home(0, nodes, 3), 3u);
	EXPECT_EQ(t, place_home(1, nodes, 3), 5u);
	EXPECT_EQ(t, place_home(2, nodes, 3), 9u);
	EXPECT_EQ(t, place_home(3, nodes, 3), 3u);
	EXPECT_EQ(t, place_home(7, nodes, 1), 3u);
}

static void regions_alternate(struct ktest *t)
{
	EXPECT_EQ(t, place_vregion(0, 5, nodes, 3), 5u);
	EXPECT_EQ(t, place_vregion(1, 5, nodes, 3), 9u);
	EXPECT_EQ(t, place_vregion(2, 5, nodes, 3), 3u);
	/* A home that has left is no obstacle. */
	EXPECT_NE(t, place_vregion(0, 77, nodes, 3), 0u);
	EXPECT_EQ(t, place_vregion(12, 3, nodes, 1), 3u);
}

static const struct ktest_case cases[] = {
	KTEST(homes_take_turns),
	KTEST(regions_alternate),
	{ 0 },
};
static const struct ktest_suite suite = { .name = "managers.placement", .cases = cases };
KTEST_SUITE(suite);
