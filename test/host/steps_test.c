/* SPDX-License-Identifier: MIT */
/* Steps of a miss: what is measured, and that faults run as before while it is. */
#include <kernel/thread.h>
#include <lib/err.h>
#include <lib/ktest.h>
#include <processor/excache/steps.h>
#include <processor/mm/aspace.h>
#include <shim/shim.h>

#include "fake_owner.h"
#include "user_word.h"

#define BASE  0x400000ull
#define PAGES 300u /* more than the cache has lines */

static void steps_add_up(struct ktest *t)
{
	struct miss_steps s;
	uint64_t sum = 0;

	steps_begin(&s);
	steps_mark_at(STEP_CHOOSE, s.begin_ns + 10);
	steps_mark_at(STEP_POST, s.begin_ns + 30);
	/* The reply was there before the thread looked. */
	steps_mark_at(STEP_REPLY, s.begin_ns + 25);
	steps_mark_at(STEP_REPLY, 0);
	steps_mark_at(STEP_RUN, s.begin_ns + 31);
	EXPECT_EQ(t, s.step_ns[STEP_CHOOSE], 10u);
	EXPECT_EQ(t, s.step_ns[STEP_POST], 20u);
	EXPECT_EQ(t, s.step_ns[STEP_REPLY], 0u);
	EXPECT_EQ(t, s.step_ns[STEP_RUN], 1u);
	steps_end(&s);
	for (unsigned int i = 0; i < NR_MISS_STEPS; i++)
		sum += s.step_ns[i];
	EXPECT_EQ(t, sum, s.last_ns - s.begin_ns);
	EXPECT_TRUE(t, thread_current()->fault_steps == NULL);
	steps_mark_at(STEP_CHOOSE, UINT64_MAX); /* no fault is under way: nothing happens */
	EXPECT_EQ(t, s.step_ns[STEP_CHOOSE], 10u);
}

static void measured_faults_do_the_same(struct ktest *t)
{
	const struct vma v = { .start = BASE,
			       .end = BASE + PAGES * PAGE_SIZE,
			       .prot = VMA_PROT_READ | VMA_PROT_WRITE };
	struct fake_counts c;
	struct aspace *as;
	uint64_t val;

	fake_cache();
	fake_reset();
	ASSERT_EQ(t, shim_bootparam_set("excache.steps", "on"), 0);
	as = aspace_create(0x57e9, 1);
	ASSERT_TRUE(t, !IS_ERR(as));
	as->anon->vregion_size = FAKE_VREGION_SIZE;
	ASSERT_EQ(t, aspace_set_vma(as, &v, SEQ_ANY), 0);
	for (uint64_t i = 0; i < PAGES; i++) {
		val = i + 3;
		EXPECT_EQ(t, user_word(as, BASE, i, &val, true), 0);
	}
	for (uint64_t i = 0; i < PAGES; i++) {
		EXPECT_EQ(t, user_word(as, BASE, i, &val, false), 0);
		EXPECT_EQ(t, val, i + 3);
		EXPECT_TRUE(t, thread_current()->fault_steps == NULL);
	}
	fake_counts(&c);
	EXPECT_GT(t, c.fetches, 0u);
	EXPECT_EQ(t, shim_bootparam_set("excache.steps", "off"), 0);
	aspace_put(as);
	fake_settle();
}

static const struct ktest_case steps_cases[] = {
	KTEST(steps_add_up),
	KTEST(measured_faults_do_the_same),
	{ 0 },
};
static const struct ktest_suite steps_suite = { .name = "processor.steps", .cases = steps_cases };
KTEST_SUITE(steps_suite);
