/* SPDX-License-Identifier: MIT */
#include <lib/errno.h>
#include <lib/fmt.h>
#include <lib/idmap.h>
#include <lib/ktest.h>
#include <lib/string.h>

static struct {
	struct id_map map;
	struct id_range ranges[3];
} sample = { { 3 }, { { 0, 1000, 1 }, { 1, 100000, 65535 }, { 4294967290u, 5, 5 } } };

static void there_and_back(struct ktest *t)
{
	static const struct {
		uint32_t inside, outside;
	} pairs[] = {
		{ 0, 1000 },        { 1, 100000 },      { 65535, 165534 },
		{ 4294967290u, 5 }, { 4294967294u, 9 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
		EXPECT_EQ(t, id_map_out(&sample.map, pairs[i].inside), pairs[i].outside);
		EXPECT_EQ(t, id_map_in(&sample.map, pairs[i].outside), pairs[i].inside);
	}
	EXPECT_EQ(t, id_map_out(&sample.map, 65536), ID_NONE);
	EXPECT_EQ(t, id_map_out(&sample.map, ID_NONE), ID_NONE);
	EXPECT_EQ(t, id_map_in(&sample.map, 0), ID_NONE);
	EXPECT_EQ(t, id_map_in(&sample.map, 10), ID_NONE);
	EXPECT_EQ(t, id_map_in(&sample.map, 165535), ID_NONE);
	EXPECT_EQ(t, id_map_in(&sample.map, ID_NONE), ID_NONE);
	EXPECT_EQ(t, id_map_out(NULL, 77), 77u);
	EXPECT_EQ(t, id_map_in(NULL, 77), 77u);
}

/* A range is found only as a whole, in one range of the map. */
static void whole_ranges(struct ktest *t)
{
	EXPECT_EQ(t, id_map_range_out(&sample.map, 1, 65535), 100000u);
	EXPECT_EQ(t, id_map_range_out(&sample.map, 2, 65534), 100001u);
	EXPECT_EQ(t, id_map_range_out(&sample.map, 2, 65535), ID_NONE);
	EXPECT_EQ(t, id_map_range_out(&sample.map, 0, 2), ID_NONE);
	EXPECT_EQ(t, id_map_range_out(&sample.map, 4294967291u, UINT32_MAX), ID_NONE);
}

static void texts(struct ktest *t)
{
	static const struct {
		const char *text;
		int err;
		uint32_t nr;
	} cases[] = {
		{ "0 1000 1", 0, 1 },
		{ "0 1000 1\n", 0, 1 },
		{ "\t 0  1000\t1 \n1 2000 5\n", 0, 2 },
		{ "0 0 4294967295", 0, 1 },
		{ "4294967294 4294967294 1", 0, 1 },
		{ "", -EINVAL, 0 },
		{ "\n", -EINVAL, 0 },
		{ "0 1000", -EINVAL, 0 },
		{ "0 1000 1 x", -EINVAL, 0 },
		{ "0 1000 1x", -EINVAL, 0 },
		{ "0 1000 -1", -EINVAL, 0 },
		{ "0x0 1000 1", -EINVAL, 0 },
		{ "0 1000 0", -EINVAL, 0 },
		{ "0 1000 1\n\n", -EINVAL, 0 },
		{ "0 1000\n1", -EINVAL, 0 },
		{ "4294967295 0 1", -EINVAL, 0 },
		{ "0 4294967295 1", -EINVAL, 0 },
		{ "1 0 4294967295", -EINVAL, 0 },
		{ "0 1 4294967295", -EINVAL, 0 },
		{ "4294967296 0 1", -EINVAL, 0 },
		{ "0 0 18446744073709551617", -EINVAL, 0 },
		{ "0 1000 10\n9 2000 1", -EINVAL, 0 },
		{ "0 1000 10\n10 1009 1", -EINVAL, 0 },
		{ "5 1000 10\n0 2000 6", -EINVAL, 0 },
		{ "0 1000 10\n10 1010 1\n11 990 10", 0, 3 },
	};
	static struct id_range ranges[ID_RANGES_MAX];
	uint32_t nr;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *text = cases[i].text;

		EXPECT_EQ(t, id_map_parse(text, strlen(text), ranges, &nr), cases[i].err);
		if (!cases[i].err)
			EXPECT_EQ(t, nr, cases[i].nr);
	}
	EXPECT_EQ(t, id_map_parse("0 1 1\0", 6, ranges, &nr), -EINVAL);
}

static void as_many_as_linux(struct ktest *t)
{
	static char text[ID_RANGES_MAX * 16 + 16];
	static struct id_range ranges[ID_RANGES_MAX];
	size_t len = 0;
	uint32_t nr;

	for (uint32_t i = 0; i < ID_RANGES_MAX; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%u %u 1\n", i, 5000 + i);
	EXPECT_EQ(t, id_map_parse(text, len, ranges, &nr), 0);
	EXPECT_EQ(t, nr, ID_RANGES_MAX);
	EXPECT_EQ(t, ranges[ID_RANGES_MAX - 1].outside, 5000 + ID_RANGES_MAX - 1);
	len += (size_t)snprintf(text + len, sizeof(text) - len, "9000 9000 1\n");
	EXPECT_EQ(t, id_map_parse(text, len, ranges, &nr), -EINVAL);
}

static const struct ktest_case idmap_cases[] = {
	KTEST(there_and_back), KTEST(whole_ranges), KTEST(texts), KTEST(as_many_as_linux), { 0 },
};
static const struct ktest_suite idmap_suite = { .name = "lib.idmap", .cases = idmap_cases };
KTEST_SUITE(idmap_suite);
