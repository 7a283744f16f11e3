/* SPDX-License-Identifier: MIT */
/*
 * Sets of ranges: random changes beside a model that knows each page, copies, and a lack of memory.
 */
#include <lib/errno.h>
#include <lib/ktest.h>
#include <lib/prng.h>
#include <lib/string.h>
#include <processor/mm/ranges.h>
#include <shim/shim.h>

#define PAGES 64
#define P(n)  ((uint64_t)(n) * PAGE_SIZE) /* the first page is the one at 0 */

/* How many ranges the pages of the model are. */
static uint64_t count(const bool *model)
{
	uint64_t nr = 0;

	for (unsigned int i = 0; i < PAGES; i++)
		nr += model[i] && (!i || !model[i - 1]);
	return nr;
}

static void compare(struct ktest *t, const struct ranges *r, const bool *model)
{
	const struct addr_range *last = NULL;

	EXPECT_EQ(t, r->nr, count(model));
	for (unsigned int i = 0; i < PAGES; i++) {
		EXPECT_EQ(t, ranges_meet(r, P(i), P(i + 1)), model[i]);
		EXPECT_EQ(t, ranges_meet(r, P(i) + 1, P(i) + 2), model[i]);
	}
	for (const struct addr_range *a = ranges_behind(r, 0); a; a = ranges_next(a)) {
		EXPECT_TRUE(t, a->start < a->end && (!last || last->end < a->start));
		last = a;
	}
}

/* One random change of both. */
static void change(struct ktest *t, struct ranges *r, bool *model, struct prng *prng)
{
	const uint64_t first = prng_below(prng, PAGES);
	const uint64_t nr = 1 + prng_below(prng, MIN(PAGES - first, 12ul));
	const uint64_t to = prng_below(prng, PAGES - nr + 1), kept = 1 + prng_below(prng, nr);
	bool moved[PAGES];

	ASSERT_EQ(t, ranges_prepare(r, NULL, 4), 0);
	switch (prng_below(prng, 3)) {
	case 0:
		ranges_add(r, P(first), P(first + nr));
		memset(model + first, true, nr);
		break;
	case 1:
		ranges_cut(r, P(first), P(first + nr));
		memset(model + first, false, nr);
		break;
	default:
		if (first < to + nr && to < first + nr)
			return;
		ranges_cut(r, P(to), P(to + kept));
		ranges_move(r, P(first), P(nr), P(to), P(kept));
		memcpy(moved, model + first, nr);
		memset(model + first, false, nr);
		memcpy(model + to, moved, kept);
		break;
	}
}

static void ranges_are_what_their_pages_are(struct ktest *t)
{
	bool model[PAGES] = { false };
	struct ranges r = { 0 };
	struct prng prng;

	prng_seed(&prng, 77);
	for (unsigned int i = 0; i < 20000; i++) {
		change(t, &r, model, &prng);
		compare(t, &r, model);
		if (i % 500 == 0) {
			struct ranges copy = { 0 };

			EXPECT_EQ(t, ranges_copy(&r, &copy, NULL), 0);
			compare(t, &copy, model);
			ranges_end(&r);
			EXPECT_TRUE(t, ranges_empty(&r) && r.nr == 0 && !r.spares);
			r = copy;
		}
	}
	ranges_end(&r);
}

static void memory_is_taken_before_a_change(struct ktest *t)
{
	struct ranges r = { 0 }, copy = { 0 };

	EXPECT_EQ(t, ranges_prepare(&r, NULL, 3), 0);
	ranges_add(&r, P(1), P(9));
	shim_fail_alloc_after(0);
	ranges_cut(&r, P(3), P(4)); /* from what was prepared */
	ranges_cut(&r, P(6), P(7));
	EXPECT_EQ(t, ranges_prepare(&r, NULL, 1), -ENOMEM);
	EXPECT_EQ(t, ranges_copy(&r, &copy, NULL), -ENOMEM);
	shim_fail_alloc_after(-1);
	EXPECT_EQ(t, r.nr, 3);
	/* The next change keeps what this one leaves, and no more than it asks for. */
	ranges_cut(&r, P(0), P(PAGES));
	EXPECT_EQ(t, ranges_prepare(&r, NULL, 1), 0);
	EXPECT_TRUE(t, r.spares && !r.spares->next_spare);
	ranges_end(&copy);
	ranges_end(&r);
}

static const struct ktest_case ranges_cases[] = {
	KTEST(ranges_are_what_their_pages_are),
	KTEST(memory_is_taken_before_a_change),
	{ 0 },
};
static const struct ktest_suite ranges_suite = { .name = "mm.ranges", .cases = ranges_cases };
KTEST_SUITE(ranges_suite);
