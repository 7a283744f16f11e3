/* SPDX-License-Identifier: MIT */
/*
 * The arithmetic of commitment.
 */
#include "commit.h"

#include <lib/ktest.h>

static void limits(struct ktest *t)
{
	struct pm_commit p = { .mode = PM_COMMIT_STRICT, .ratio = 100 };

	EXPECT_EQ(t, commit_limit(&p, 960), 960);
	p.ratio = 50;
	EXPECT_EQ(t, commit_limit(&p, 960), 480);
	EXPECT_EQ(t, commit_limit(&p, 3), 1);
	p.ratio = 250; /* as on Linux, more than there is */
	EXPECT_EQ(t, commit_limit(&p, 960), 2400);
	p.ratio = 0;
	EXPECT_EQ(t, commit_limit(&p, 960), 0);
	/* No product overflows. */
	p.ratio = INT32_MAX;
	EXPECT_EQ(t, commit_limit(&p, 100), INT32_MAX);
	EXPECT_EQ(t, commit_limit(&p, 1ull << 31), PM_COMMITTED_MAX);
}

static void kbytes_are_divided(struct ktest *t)
{
	struct pm_commit p = { .mode = PM_COMMIT_STRICT, .kbytes = 4000, .programs = 400 };

	EXPECT_EQ(t, commit_limit(&p, 100), 250);
	EXPECT_EQ(t, commit_limit(&p, 300), 750);
	EXPECT_EQ(t, commit_limit(&p, 400), 1000);
	/* A node that is larger than all were when it was set: not more than all of it. */
	EXPECT_EQ(t, commit_limit(&p, 5000), 1000);
	p.programs = 0; /* a peer's nonsense */
	EXPECT_EQ(t, commit_limit(&p, 100), 0);
	p.programs = 1ull << 44;
	p.kbytes = INT64_MAX;
	EXPECT_EQ(t, commit_limit(&p, 1ull << 44), PM_COMMITTED_MAX);
	p.kbytes = 4ull << 43;
	EXPECT_EQ(t, commit_limit(&p, 1ull << 44), 1ull << 43);
	EXPECT_EQ(t, commit_limit(&p, 1ull << 43), 1ull << 42);
}

static void modes(struct ktest *t)
{
	struct pm_commit p = { .ratio = 100 };

	for (p.mode = PM_COMMIT_HEURISTIC; p.mode <= PM_COMMIT_ALWAYS; p.mode++) {
		EXPECT_TRUE(t, commit_allows(&p, 100, 0, 100));
		EXPECT_TRUE(t, commit_allows(&p, 100, 100, 100));
		EXPECT_TRUE(t, commit_allows(&p, 100, 5000, 1));
		EXPECT_FALSE(t, commit_allows(&p, 100, 5000, PM_COMMITTED_MAX));
	}
	p.mode = PM_COMMIT_STRICT;
	EXPECT_TRUE(t, commit_allows(&p, 100, 0, 100));
	EXPECT_FALSE(t, commit_allows(&p, 100, 0, 101));
	EXPECT_FALSE(t, commit_allows(&p, 100, 100, 1));
	EXPECT_TRUE(t, commit_allows(&p, 100, 100, 0));
	/* More than that had been charged when the mode became strict. */
	EXPECT_FALSE(t, commit_allows(&p, 100, 5000, 1));
	EXPECT_TRUE(t, commit_allows(&p, 100, 5000, 0));
}

static void hopeless(struct ktest *t)
{
	EXPECT_FALSE(t, commit_is_hopeless(&(struct commit_size){ 200, 100, 200, 100 }));
	EXPECT_TRUE(t, commit_is_hopeless(&(struct commit_size){ 201, 100, 200, 100 }));
	EXPECT_TRUE(t, commit_is_hopeless(&(struct commit_size){ 150, 101, 200, 100 }));
	EXPECT_FALSE(t, commit_is_hopeless(&(struct commit_size){ 0, 0, 0, 0 }));
}

static const struct ktest_case cases[] = {
	KTEST(limits), KTEST(kbytes_are_divided), KTEST(modes), KTEST(hopeless), { 0 },
};
static const struct ktest_suite suite = { .name = "memory.commit", .cases = cases };
KTEST_SUITE(suite);
