/* SPDX-License-Identifier: MIT */
#include <lib/bitmap.h>
#include <lib/ktest.h>
#include <lib/prng.h>
#include <lib/string.h>

#define NR_BITS 200

static void single_bits(struct ktest *t)
{
	DECLARE_BITMAP(map, NR_BITS) = { 0 };

	EXPECT_FALSE(t, bitmap_test_and_set(map, 63));
	EXPECT_TRUE(t, bitmap_test_and_set(map, 63));
	bitmap_set(map, 64);
	bitmap_set(map, 199);
	EXPECT_EQ(t, map[0], 1ULL << 63);
	EXPECT_EQ(t, map[1], 1);
	EXPECT_EQ(t, map[3], 1ULL << 7);
	EXPECT_TRUE(t, bitmap_test_and_clear(map, 63));
	EXPECT_FALSE(t, bitmap_test(map, 63));
}

static void ranges(struct ktest *t)
{
	static const struct {
		size_t start;
		size_t len;
	} cases[] = { { 0, 0 },  { 0, 1 },   { 0, 64 },  { 1, 63 },
		      { 63, 2 }, { 5, 180 }, { 64, 64 }, { 0, 200 } };
	DECLARE_BITMAP(map, NR_BITS);

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const size_t end = cases[i].start + cases[i].len;

		memset(map, 0, sizeof(map));
		bitmap_set_range(map, cases[i].start, cases[i].len);
		for (size_t bit = 0; bit < NR_BITS; bit++)
			EXPECT_EQ(t, bitmap_test(map, bit), bit >= cases[i].start && bit < end);
		bitmap_clear_range(map, cases[i].start, cases[i].len);
		EXPECT_EQ(t, bitmap_find_first(map, NR_BITS), NR_BITS);
	}
}

static void searches(struct ktest *t)
{
	DECLARE_BITMAP(map, NR_BITS) = { 0 };
	size_t bit;
	size_t sum = 0;

	EXPECT_EQ(t, bitmap_find_first(map, NR_BITS), NR_BITS);
	EXPECT_EQ(t, bitmap_find_first_zero(map, NR_BITS), 0);
	bitmap_set(map, 3);
	bitmap_set(map, 130);
	EXPECT_EQ(t, bitmap_find_first(map, NR_BITS), 3);
	EXPECT_EQ(t, bitmap_find_next(map, NR_BITS, 4), 130);
	EXPECT_EQ(t, bitmap_find_next(map, 130, 4), 130); /* found nothing below 130 */
	EXPECT_EQ(t, bitmap_find_next(map, NR_BITS, 131), NR_BITS);
	EXPECT_EQ(t, bitmap_find_next(map, NR_BITS, NR_BITS), NR_BITS);
	bitmap_for_each(bit, map, NR_BITS)
		sum += bit;
	EXPECT_EQ(t, sum, 133);

	memset(map, 0xff, sizeof(map)); /* also beyond the end, which must not be seen */
	EXPECT_EQ(t, bitmap_find_first_zero(map, NR_BITS), NR_BITS);
	bitmap_clear(map, 199);
	EXPECT_EQ(t, bitmap_find_first_zero(map, NR_BITS), 199);
	EXPECT_EQ(t, bitmap_find_first_zero(map, 199), 199);
}

static void zero_areas(struct ktest *t)
{
	DECLARE_BITMAP(map, NR_BITS) = { 0 };

	bitmap_set(map, 10);
	bitmap_set(map, 70);
	EXPECT_EQ(t, bitmap_find_zero_area(map, NR_BITS, 0, 10, 1), 0);
	EXPECT_EQ(t, bitmap_find_zero_area(map, NR_BITS, 0, 11, 1), 11);
	EXPECT_EQ(t, bitmap_find_zero_area(map, NR_BITS, 0, 60, 1), 71);
	EXPECT_EQ(t, bitmap_find_zero_area(map, NR_BITS, 0, 32, 32), 32);
	EXPECT_EQ(t, bitmap_find_zero_area(map, NR_BITS, 33, 32, 32), 96);
	EXPECT_EQ(t, bitmap_find_zero_area(map, NR_BITS, 0, 130, 1), NR_BITS);
	EXPECT_EQ(t, bitmap_find_zero_area(map, NR_BITS, 0, 129, 1), 71);
}

/* Against a bool per bit. */
static void random_changes(struct ktest *t)
{
	DECLARE_BITMAP(map, NR_BITS) = { 0 };
	bool model[NR_BITS] = { false };
	struct prng rng;

	prng_seed(&rng, 7);
	for (int step = 0; step < 2000; step++) {
		const size_t start = prng_below(&rng, NR_BITS);
		const size_t len = prng_below(&rng, NR_BITS - start + 1);
		const bool value = prng_below(&rng, 2);
		size_t next = start;

		if (value)
			bitmap_set_range(map, start, len);
		else
			bitmap_clear_range(map, start, len);
		for (size_t i = start; i < start + len; i++)
			model[i] = value;
		while (next < NR_BITS && model[next])
			next++;
		ASSERT_EQ(t, bitmap_find_next_zero(map, NR_BITS, start), next);
	}
}

static const struct ktest_case bitmap_cases[] = {
	KTEST(single_bits), KTEST(ranges),         KTEST(searches),
	KTEST(zero_areas),  KTEST(random_changes), { 0 },
};
static const struct ktest_suite bitmap_suite = { .name = "lib.bitmap", .cases = bitmap_cases };
KTEST_SUITE(bitmap_suite);
