/* SPDX-License-Identifier: MIT */
/*
 * Which program has to end: frames, weights, ties.
 */
#include "oom_score.h"

#include <lib/ktest.h>

static void points(struct ktest *t)
{
	EXPECT_EQ(t, oom_badness(500, 10000, 0), 500);
	EXPECT_EQ(t, oom_badness(500, 10000, 100), 1500);
	EXPECT_EQ(t, oom_badness(500, 10000, -100), -500);
	EXPECT_EQ(t, oom_badness(500, 10000, -999), 500 - 9990);
	EXPECT_EQ(t, oom_badness(500, 10000, -1000), OOM_NEVER);
	/* A peer's nonsense overflows nothing. */
	EXPECT_EQ(t, oom_badness(UINT64_MAX, UINT64_MAX, 0), 1ll << 44);
	EXPECT_TRUE(t, oom_badness(UINT64_MAX, UINT64_MAX, 1000) > 0);
}

static void scores(struct ktest *t)
{
	/* As Linux shows them: a small program 666, all of the memory 1333. */
	EXPECT_EQ(t, oom_score(oom_badness(0, 10000, 0), 10000), 666);
	EXPECT_EQ(t, oom_score(oom_badness(10000, 10000, 0), 10000), 1333);
	EXPECT_EQ(t, oom_score(oom_badness(0, 10000, 500), 10000), 1000);
	EXPECT_EQ(t, oom_score(oom_badness(0, 10000, 1000), 10000), 1333);
	EXPECT_EQ(t, oom_score(oom_badness(0, 10000, -999), 10000), 0);
	EXPECT_EQ(t, oom_score(OOM_NEVER, 10000), 0);
	EXPECT_EQ(t, oom_score(0, 0), 666);
	EXPECT_EQ(t, oom_score(oom_badness(1ull << 44, 1, 0), 1), 2000);
}

static const struct ktest_case cases[] = {
	KTEST(points),
	KTEST(scores),
	{ 0 },
};
static const struct ktest_suite suite = { .name = "processor.oom", .cases = cases };
KTEST_SUITE(suite);
