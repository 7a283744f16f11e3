/* SPDX-License-Identifier: MIT */
/*
 * Sets of ranges: random changes beside a model that knows each page, copies, and a lack of memory.
 */
#include <kernel/panic.h>
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

/* --- values ------------------------------------------------------------------------------ */

/* Values are the same when their last digits are; each is counted as often as a range has it. */
#define NR_VALUES 30u
static unsigned int holders[NR_VALUES];

static void value_get(uint64_t value)
{
	holders[value]++;
}

static void value_put(uint64_t value)
{
	BUG_ON(!holders[value]);
	holders[value]--;
}

static bool value_same(uint64_t a, uint64_t b)
{
	return a % 10 == b % 10;
}

static const struct range_values test_values = { value_get, value_put, value_same };

/* The model of a page: 0 without the mark, else the last digit of its value. */
static void compare_values(struct ktest *t, const struct ranges *r, const unsigned int *model)
{
	unsigned int want[PAGES] = { 0 }, seen[NR_VALUES] = { 0 };
	const struct addr_range *last = NULL;

	for (const struct addr_range *a = ranges_behind(r, 0); a; a = ranges_next(a)) {
		EXPECT_TRUE(t,
			    !last || last->end < a->start ||
				    (last->end == a->start && !value_same(last->value, a->value)));
		for (unsigned int i = 0; i < PAGES; i++) {
			if (P(i) >= a->start && P(i) < a->end)
				want[i] = (unsigned int)(a->value % 10);
		}
		seen[a->value]++;
		last = a;
	}
	EXPECT_EQ(t, memcmp(want, model, sizeof(want)), 0);
	EXPECT_EQ(t, memcmp(seen, holders, sizeof(seen)), 0);
}

static void change_values(struct ktest *t, struct ranges *r, unsigned int *model, struct prng *prng)
{
	const uint64_t first = prng_below(prng, PAGES);
	const uint64_t nr = 1 + prng_below(prng, MIN(PAGES - first, 12ul));
	const uint64_t to = prng_below(prng, PAGES - nr + 1), kept = 1 + prng_below(prng, nr);
	const uint64_t value = 10 * prng_below(prng, NR_VALUES / 10) + 1 + prng_below(prng, 3);
	unsigned int moved[PAGES];

	ASSERT_EQ(t, ranges_prepare(r, NULL, 4), 0);
	switch (prng_below(prng, 4)) {
	case 0:
	case 1:
		ranges_set(r, P(first), P(first + nr), value);
		for (uint64_t i = first; i < first + nr; i++)
			model[i] = (unsigned int)(value % 10);
		break;
	case 2:
		ranges_cut(r, P(first), P(first + nr));
		memset(model + first, 0, nr * sizeof(*model));
		break;
	default:
		if (first < to + nr && to < first + nr)
			return;
		ranges_cut(r, P(to), P(to + kept));
		ranges_move(r, P(first), P(nr), P(to), P(kept));
		memcpy(moved, model + first, nr * sizeof(*model));
		memset(model + first, 0, nr * sizeof(*model));
		memset(model + to, 0, kept * sizeof(*model));
		memcpy(model + to, moved, kept * sizeof(*model));
		break;
	}
}

static void values_go_with_their_pages(struct ktest *t)
{
	struct ranges r = { .values = &test_values };
	unsigned int model[PAGES] = { 0 };
	struct prng prng;

	prng_seed(&prng, 78);
	for (unsigned int i = 0; i < 20000; i++) {
		change_values(t, &r, model, &prng);
		compare_values(t, &r, model);
		if (i % 500 == 0) {
			struct ranges copy = { 0 };

			EXPECT_EQ(t, ranges_copy(&r, &copy, NULL), 0);
			ranges_end(&r);
			r = copy;
			compare_values(t, &r, model);
		}
	}
	ranges_end(&r);
	for (unsigned int i = 0; i < NR_VALUES; i++)
		EXPECT_EQ(t, holders[i], 0);
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
	KTEST(values_go_with_their_pages),
	KTEST(memory_is_taken_before_a_change),
	{ 0 },
};
static const struct ktest_suite ranges_suite = { .name = "mm.ranges", .cases = ranges_cases };
KTEST_SUITE(ranges_suite);
