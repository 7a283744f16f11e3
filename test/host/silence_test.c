/* SPDX-License-Identifier: MIT */
/*
 * A memory node is silent, and membership has not decided yet: programs that are not concerned go
 * on, those that are to end do so at once, and nothing is left anywhere when the node speaks again.
 */
#include <stdlib.h>
#include <unistd.h>

#include <kernel/time.h>
#include <lib/err.h>
#include <lib/ktest.h>
#include <processor/excache/credit.h>
#include <processor/excache/excache.h>
#include <processor/excache/object.h>
#include <processor/mm/aspace.h>
#include <proto/pm.h>

#include "fake_owner.h"
#include "user_word.h"

#define BASE      0x400000ull
#define SOON_NS   (300 * NSEC_PER_MSEC)
#define ENDING_NS (1000 * NSEC_PER_MSEC) /* no program takes longer to end */

extern unsigned int fake_kills;

/* A node that has just begun to speak again is not waited for by a drain. */
#define wait_for(cond)                                       \
	do {                                                 \
		for (int _i = 0; _i < 5000 && !(cond); _i++) \
			usleep(1000);                        \
	} while (0)

static size_t spaces_before;
static int64_t credits_before; /* what other tests have made up */

static void cache_start(void)
{
	fake_cache();
	fake_reset();
	aspace_drain();
	fake_kills = 0;
	spaces_before = object_space_count();
	credits_before = (int64_t)credit_held() - fake_promised();
}

static struct aspace *space_create(uint32_t home, uint64_t pages)
{
	const struct vma v = { .start = BASE,
			       .end = BASE + pages * PAGE_SIZE,
			       .prot = VMA_PROT_READ | VMA_PROT_WRITE };
	struct aspace *as = aspace_create(object_id(home, object_new_number()), home);

	if (IS_ERR(as))
		abort();
	as->anon->vregion_size = FAKE_VREGION_SIZE;
	if (aspace_set_vma(as, &v, SEQ_ANY))
		abort();
	return as;
}

static void put(struct ktest *t, struct aspace *as, uint64_t page, uint64_t v)
{
	EXPECT_EQ(t, user_word(as, BASE, page, &v, true), 0);
}

/* How long the end of a program with @as takes, until it is reported. */
static uint64_t end_ns(struct aspace *as)
{
	const uint64_t start = time_now_ns();

	aspace_put(as);
	aspace_drain();
	return time_now_ns() - start;
}

/* Nothing is left of any space. */
static void all_gone(struct ktest *t)
{
	aspace_drain();
	fake_quiesce();
	EXPECT_EQ(t, object_space_count(), spaces_before);
	EXPECT_EQ(t, excache_free_count(), excache_line_count());
	EXPECT_EQ(t, fake_pages(), 0u);
	EXPECT_EQ(t, (int64_t)credit_held() - fake_promised(), credits_before);
	EXPECT_EQ(t, fake_kills, 0u);
}

static unsigned int destroys(void)
{
	struct fake_counts counts;

	fake_counts(&counts);
	return counts.destroys;
}

/* Homes are told of ends beside each other, and nobody waits for a silent one for long. */
static void a_silent_home_holds_up_no_end(struct ktest *t)
{
	struct aspace *there[3], *here;
	struct object *file;

	cache_start();
	here = space_create(2, 4);
	put(t, here, 1, 11);
	for (unsigned int i = 0; i < 3; i++) {
		there[i] = space_create(1, 4);
		put(t, there[i], 1, 22);
	}
	file = object_shared_create(4 * PAGE_SIZE, true);
	ASSERT_FALSE(t, IS_ERR(file));
	fake_silence(1, PM_DESTROY);
	EXPECT_LT(t, end_ns(there[0]), ENDING_NS);
	EXPECT_LT(t, end_ns(here), SOON_NS);
	EXPECT_EQ(t, destroys(), 1u);
	/* It has been silent for so long already. */
	object_put(file);
	EXPECT_LT(t, end_ns(there[1]), SOON_NS);
	EXPECT_LT(t, end_ns(there[2]), SOON_NS);
	EXPECT_EQ(t, destroys(), 1u);
	fake_speak();
	wait_for(destroys() == 5);
	EXPECT_EQ(t, destroys(), 5u);
	all_gone(t);
}

/* Credits beyond need go back, but the end does not wait for it. */
static void credits_of_a_silent_node_hold_up_no_end(struct ktest *t)
{
	struct fake_counts before, after;
	struct aspace *as;

	cache_start();
	as = space_create(2, 4);
	put(t, as, 1, 11);
	credit_add(3, 10000);
	fake_counts(&before);
	fake_silence(3, PM_CREDIT);
	EXPECT_LT(t, end_ns(as), SOON_NS);
	fake_speak();
	wait_for((fake_counts(&after), after.given > before.given + 7000));
	EXPECT_GT(t, after.given, before.given + 7000);
}

static const struct ktest_case cases[] = {
	KTEST(a_silent_home_holds_up_no_end),
	KTEST(credits_of_a_silent_node_hold_up_no_end),
	{ 0 },
};
static const struct ktest_suite suite = { .name = "processor.silence", .cases = cases };
KTEST_SUITE(suite);
