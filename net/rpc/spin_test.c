/* SPDX-License-Identifier: MIT */
/* RPC: the score that decides whether spinning pays. */
#include <lib/ktest.h>
#include <lib/prng.h>

#include "rpc_priv.h"

/* Feed @rounds spins of which @percent are won; returns how many waits spun. */
static unsigned int feed(struct rpc_spin_gauge *g, unsigned int rounds, unsigned int percent)
{
	unsigned int nr_spun = 0;
	struct prng rnd;

	prng_seed(&rnd, percent + 1);
	for (unsigned int i = 0; i < rounds; i++) {
		if (!rpc_spin_pays(g))
			continue;
		nr_spun++;
		rpc_spin_note(g, prng_below(&rnd, 100) < percent);
	}
	return nr_spun;
}

static void spins_that_win_go_on(struct ktest *t)
{
	struct rpc_spin_gauge g = { .score = RPC_SPIN_SCORE_MAX };

	EXPECT_EQ(t, feed(&g, 1000, 100), 1000);
	EXPECT_EQ(t, g.score, RPC_SPIN_SCORE_MAX);
	EXPECT_GT(t, feed(&g, 1000, 80), 950);
}

static void spins_that_lose_end(struct ktest *t)
{
	struct rpc_spin_gauge g = { .score = RPC_SPIN_SCORE_MAX };
	const unsigned int nr = feed(&g, 1000, 0);

	/* A few until the score is down, then one in eight. */
	EXPECT_GE(t, nr, 1000 / 8);
	EXPECT_LE(t, nr, 1000 / 8 + 20);
	EXPECT_EQ(t, g.score, 0);
}

static void spins_come_back(struct ktest *t)
{
	struct rpc_spin_gauge g = { .score = 0 };

	/* One probe after seven waits without is enough. */
	EXPECT_EQ(t, feed(&g, 24, 100), 24 - RPC_SPIN_SKIP);
	EXPECT_GE(t, g.score, RPC_SPIN_SCORE_GOOD);
	EXPECT_EQ(t, feed(&g, 100, 100), 100);
}

/* A sleep costs several round trips, so a spin that is won one time in four still pays. */
static void spins_that_win_now_and_then_go_on(struct ktest *t)
{
	struct rpc_spin_gauge g = { .score = RPC_SPIN_SCORE_MAX };

	EXPECT_GT(t, feed(&g, 1000, 25), 600);
	EXPECT_LT(t, feed(&g, 1000, 4), 400);
}

static void low_average_follows_the_fast_ones(struct ktest *t)
{
	uint64_t avg = 0;

	avg = rpc_low_average(avg, 50000);
	EXPECT_EQ(t, avg, 50000);
	/* Nine in ten take 50 us, the others are stalled: the stalls hardly show. */
	for (int i = 0; i < 1000; i++)
		avg = rpc_low_average(avg, i % 10 ? 50000 : 5000000);
	EXPECT_GE(t, avg, 50000);
	EXPECT_LT(t, avg, 53000);
	/* When all take longer it follows, and comes back faster. */
	for (int i = 0; i < 200; i++)
		avg = rpc_low_average(avg, 200000);
	EXPECT_GT(t, avg, 180000);
	for (int i = 0; i < 20; i++)
		avg = rpc_low_average(avg, 50000);
	EXPECT_LT(t, avg, 51000);
}

static const struct ktest_case cases[] = { KTEST(spins_that_win_go_on),
					   KTEST(spins_that_lose_end),
					   KTEST(spins_come_back),
					   KTEST(spins_that_win_now_and_then_go_on),
					   KTEST(low_average_follows_the_fast_ones),
					   { 0 } };
static const struct ktest_suite rpc_spin_suite = { .name = "rpc.spin", .cases = cases };
KTEST_SUITE(rpc_spin_suite);
