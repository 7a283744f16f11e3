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

static const struct oom_candidate *chosen(const struct oom_candidate *c, size_t nr, uint64_t total)
{
	const struct oom_candidate *best = NULL;

	for (size_t i = 0; i < nr; i++)
		if (oom_is_worse(&c[i], best, total))
			best = &c[i];
	return best;
}

static void choice(struct ktest *t)
{
	struct oom_candidate c[] = {
		{ .frames = 100, .start_ns = 1, .pid = 1 },
		{ .frames = 300, .start_ns = 2, .pid = 2 },
		{ .frames = 200, .start_ns = 3, .pid = 3 },
		{ .frames = 300, .start_ns = 4, .pid = 4 },
	};

	/* The most frames; of equals the younger, wherever it stands. */
	EXPECT_EQ(t, chosen(c, 4, 1000)->pid, 4);
	c[1].start_ns = 9;
	EXPECT_EQ(t, chosen(c, 4, 1000)->pid, 2);
	/* The weight counts against it. */
	c[1].adj = -100;
	EXPECT_EQ(t, chosen(c, 4, 1000)->pid, 4);
	c[0].adj = 500;
	EXPECT_EQ(t, chosen(c, 4, 1000)->pid, 1);
	/* But one that has nothing there does not help, however willing. */
	c[0].frames = 0;
	c[0].adj = 1000;
	EXPECT_EQ(t, chosen(c, 4, 1000)->pid, 4);
	/* All of them are spared: there is none. */
	for (size_t i = 0; i < 4; i++)
		c[i].adj = -1000;
	EXPECT_TRUE(t, !chosen(c, 4, 1000));
	EXPECT_TRUE(t, !chosen(c, 0, 1000));
}

static const struct ktest_case cases[] = {
	KTEST(points),
	KTEST(scores),
	KTEST(choice),
	{ 0 },
};
static const struct ktest_suite suite = { .name = "processor.oom", .cases = cases };
KTEST_SUITE(suite);
