/* SPDX-License-Identifier: MIT */
/*
 * Programs' turns on a CPU of a model: which class runs, and for how long.
 */
#include <lib/ktest.h>

#include "turns.h"

#define MS (1000000ull)

static struct turns turns;
static uint64_t ran[NR_PRIOS];
static unsigned int looks; /* how often the timer has come */

static void start(void)
{
	turns = (struct turns){ 0 };
	looks = 0;
	for (unsigned int i = 0; i < NR_PRIOS; i++)
		ran[i] = 0;
}

/* Those of @ready want all of the CPU for @ns, and a turn may be over with each look. */
static void run(uint32_t ready, uint64_t ns)
{
	while (ns) {
		const unsigned int prio = turns_choose(&turns, ready);
		const uint32_t waiting = ready & ~BIT(prio);
		uint64_t d = MIN(ns, turns_left_ns(&turns, prio, waiting));

		turns_charge(&turns, prio, waiting, (int64_t)d);
		ran[prio] += d;
		ns -= d;
		looks++;
	}
}

static bool about_a_tenth(uint64_t part, uint64_t all)
{
	return part * 11 > all && part * 9 < all;
}

static void programs_have_a_tenth_of_a_flood(struct ktest *t)
{
	start();
	run(BIT(THREAD_PRIO_USER) | BIT(THREAD_PRIO_NORMAL), 1000 * MS);
	EXPECT_TRUE(t, about_a_tenth(ran[THREAD_PRIO_USER], 1000 * MS));
	EXPECT_LT(t, looks, 50);
	start();
	run(BIT(THREAD_PRIO_USER) | BIT(THREAD_PRIO_REALTIME), 1000 * MS);
	EXPECT_TRUE(t, about_a_tenth(ran[THREAD_PRIO_USER], 1000 * MS));
	EXPECT_LT(t, looks, 50);
}

/* A program that sleeps in its turn gives it up: later, it waits for the next. */
static void a_turn_ends_with_a_sleep(struct ktest *t)
{
	const uint32_t above[] = { THREAD_PRIO_REALTIME, THREAD_PRIO_NORMAL };

	for (unsigned int i = 0; i < 2; i++) {
		const uint32_t both = BIT(THREAD_PRIO_USER) | BIT(above[i]);

		start();
		run(both, 46 * MS);
		EXPECT_EQ(t, ran[THREAD_PRIO_USER], MS);
		run(BIT(above[i]), MS); /* it sleeps */
		run(BIT(THREAD_PRIO_USER), MS);
		EXPECT_FALSE(t, turns_keep(&turns, THREAD_PRIO_USER, above[i]));
		looks = 0;
		run(both, 45 * MS);
		EXPECT_EQ(t, ran[THREAD_PRIO_USER], 2 * MS);
		EXPECT_LT(t, looks, 3);
		run(both, 5 * MS);
		EXPECT_EQ(t, ran[THREAD_PRIO_USER], 7 * MS);
	}
}

/* Real-time programs are programs: they have that part of the CPU, and leave some of it. */
static void real_time_has_its_part_of_a_flood(struct ktest *t)
{
	start();
	run(BIT(THREAD_PRIO_REALTIME) | BIT(THREAD_PRIO_NORMAL), 1000 * MS);
	EXPECT_TRUE(t, about_a_tenth(ran[THREAD_PRIO_REALTIME], 1000 * MS));
	EXPECT_LT(t, looks, 50);
	start();
	run(BIT(THREAD_PRIO_USER) | BIT(THREAD_PRIO_REALTIME) | BIT(THREAD_PRIO_HIGH), 10000 * MS);
	EXPECT_TRUE(t,
		    about_a_tenth(ran[THREAD_PRIO_USER] + ran[THREAD_PRIO_REALTIME], 10000 * MS));
	EXPECT_TRUE(t, about_a_tenth(ran[THREAD_PRIO_USER], 1000 * MS));
	EXPECT_LT(t, looks, 500);
}

/* A higher class wakes: the one that runs may go on. */
static void a_turn_is_kept(struct ktest *t)
{
	start();
	run(BIT(THREAD_PRIO_REALTIME) | BIT(THREAD_PRIO_NORMAL), 46 * MS);
	EXPECT_TRUE(t, turns_keep(&turns, THREAD_PRIO_REALTIME, THREAD_PRIO_HIGH));
	EXPECT_TRUE(t, turns_keep(&turns, THREAD_PRIO_USER, THREAD_PRIO_NORMAL));
	EXPECT_FALSE(t, turns_keep(&turns, THREAD_PRIO_USER, THREAD_PRIO_REALTIME));
	EXPECT_FALSE(t, turns_keep(&turns, THREAD_PRIO_NORMAL, THREAD_PRIO_HIGH));
	start();
	run(BIT(THREAD_PRIO_USER) | BIT(THREAD_PRIO_REALTIME), 46 * MS);
	EXPECT_TRUE(t, turns_keep(&turns, THREAD_PRIO_USER, THREAD_PRIO_REALTIME));
	EXPECT_FALSE(t, turns_keep(&turns, THREAD_PRIO_USER, THREAD_PRIO_NORMAL));
}

static const struct ktest_case turns_cases[] = {
	KTEST(programs_have_a_tenth_of_a_flood),
	KTEST(a_turn_ends_with_a_sleep),
	KTEST(real_time_has_its_part_of_a_flood),
	KTEST(a_turn_is_kept),
	{ 0 },
};
static const struct ktest_suite turns_suite = { .name = "kernel.turns", .cases = turns_cases };
KTEST_SUITE(turns_suite);
