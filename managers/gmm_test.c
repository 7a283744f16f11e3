/* SPDX-License-Identifier: MIT */
/* GMM: homes and vRegions over the memory nodes. */
#include <lib/ktest.h>
#include <managers/policy.h>

static const uint32_t ids[] = { 3, 5, 9 };
static const struct memory_nodes three = { ids, 3 };
static const struct memory_nodes one = { ids, 1 };

static void homes_take_turns(struct ktest *t)
{
	const struct gmm_ops *gmm = &gmm_round_robin;

	EXPECT_EQ(t, gmm->home(&three, 0), 3u);
	EXPECT_EQ(t, gmm->home(&three, 1), 5u);
	EXPECT_EQ(t, gmm->home(&three, 2), 9u);
	EXPECT_EQ(t, gmm->home(&three, 3), 3u);
	EXPECT_EQ(t, gmm->home(&one, 7), 3u);
}

static void regions_alternate(struct ktest *t)
{
	const struct gmm_ops *gmm = &gmm_round_robin;

	EXPECT_EQ(t, gmm->owner(&three, 0, 5), 5u);
	EXPECT_EQ(t, gmm->owner(&three, 1, 5), 9u);
	EXPECT_EQ(t, gmm->owner(&three, 2, 5), 3u);
	EXPECT_EQ(t, gmm->owner(&one, 12, 3), 3u);
}

static void a_home_that_has_left_is_no_obstacle(struct ktest *t)
{
	for (uint64_t index = 0; index < 4; index++)
		EXPECT_NE(t, gmm_round_robin.owner(&three, index, 77), 0u);
}

static const struct ktest_case cases[] = {
	KTEST(homes_take_turns),
	KTEST(regions_alternate),
	KTEST(a_home_that_has_left_is_no_obstacle),
	{ 0 },
};
static const struct ktest_suite suite = { .name = "managers.gmm", .cases = cases };
KTEST_SUITE(suite);
