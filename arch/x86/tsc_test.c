/* SPDX-License-Identifier: MIT */
/*
 * The offset of two CPUs' counters, as exchanges between them show it.
 */
#include <lib/ktest.h>
#include <lib/prng.h>

#include "smp.h"

static void agreeing_counters_have_no_offset(struct ktest *t)
{
	static const struct tsc_round rounds[] = {
		{ 1000, 1010, 1020 },
		{ 2000, 2000, 2500 },  /* at the very start of the window */
		{ 3000, 3900, 3900 },  /* and at its end */
		{ 4000, 9000, 900000 } /* a CPU was stopped in between */
	};
	uint64_t uncertain;

	EXPECT_EQ(t, tsc_offset(rounds, ARRAY_SIZE(rounds), &uncertain), 0);
	EXPECT_EQ(t, uncertain, 10);
}

static void the_narrowest_window_counts(struct ktest *t)
{
	static const struct tsc_round behind[] = {
		{ 100000, 50, 200000 },
		{ 300000, 200010, 300020 }, /* 100000 behind */
		{ 400000, 320000, 500000 },
	};
	static const struct tsc_round ahead[] = {
		{ 100000, 1100005, 100010 },
		{ 200000, 1250000, 300000 },
	};
	/* Only one of them shows it: by chance the others fit. */
	static const struct tsc_round once[] = {
		{ 1000, 1500, 2000 },
		{ 3000, 2990, 3020 },
	};
	uint64_t uncertain;

	EXPECT_EQ(t, tsc_offset(behind, ARRAY_SIZE(behind), &uncertain), 100000);
	EXPECT_EQ(t, uncertain, 10);
	EXPECT_EQ(t, tsc_offset(ahead, ARRAY_SIZE(ahead), &uncertain), -1000000);
	EXPECT_EQ(t, tsc_offset(once, ARRAY_SIZE(once), &uncertain), 20);
}

/* Any offset beyond the window is found, to within it; around the wrap of the counter too. */
static void offsets_are_found(struct ktest *t)
{
	struct prng rng;

	prng_seed(&rng, 9);
	for (unsigned int i = 0; i < 1000; i++) {
		const int64_t off = (int64_t)prng_below(&rng, 1ull << 40) - (1ll << 39);
		uint64_t now = prng_next(&rng);
		struct tsc_round r[5];
		uint64_t uncertain;
		int64_t found;

		for (unsigned int k = 0; k < ARRAY_SIZE(r); k++) {
			r[k].t0 = now;
			now += prng_below(&rng, 500);
			r[k].t = now - (uint64_t)off;
			now += prng_below(&rng, 500);
			r[k].t1 = now;
			now += 1000;
		}
		found = tsc_offset(r, ARRAY_SIZE(r), &uncertain);
		EXPECT_LE(t, uncertain, 500);
		if (off > 1000 || off < -1000) {
			EXPECT_LE(t, found - off, (int64_t)uncertain + 1);
			EXPECT_GE(t, found - off, -(int64_t)uncertain - 1);
		}
	}
}

static const struct ktest_case tsc_cases[] = {
	KTEST(agreeing_counters_have_no_offset),
	KTEST(the_narrowest_window_counts),
	KTEST(offsets_are_found),
	{ 0 },
};
static const struct ktest_suite tsc_suite = { .name = "arch.tsc", .cases = tsc_cases };
KTEST_SUITE(tsc_suite);
