/* SPDX-License-Identifier: MIT */
/*
 * Sets of vmas: cutting, joining, charges; and where new mappings are put.
 */
#include "area.h"

#include <lib/ktest.h>

#include "home.h"

#define RW  (PM_PROT_READ | PM_PROT_WRITE)
#define PG  PAGE_SIZE
#define TOP 0x7000000000ull

static struct pm_vma anon(uint64_t start, uint64_t end, uint32_t prot)
{
	return (struct pm_vma){ .start = start, .end = end, .prot = prot };
}

static struct pm_vma of_file(uint64_t start, uint64_t end, uint64_t pgoff, uint64_t bytes)
{
	return (struct pm_vma){ .start = start,
				.end = end,
				.pgoff = pgoff,
				.file_bytes = bytes,
				.file = { .ino = 5, .gen = 1, .node = 3 },
				.prot = RW,
				.flags = PM_VMA_FILE,
				.cache_node = 2 };
}

static void insert(struct ktest *t, struct area_set *set, struct pm_vma v)
{
	struct area_spare spare = { 0 };

	ASSERT_EQ(t, area_spare_fill(&spare, AREA_SPARE_MAX), 0);
	area_insert(set, &v, &spare);
	area_spare_free(&spare);
	EXPECT_TRUE(t, area_set_check(set));
}

static void remove_range(struct ktest *t, struct area_set *set, uint64_t start, uint64_t end)
{
	struct area_spare spare = { 0 };

	ASSERT_EQ(t, area_spare_fill(&spare, AREA_SPARE_MAX), 0);
	area_remove(set, start, end, &spare);
	area_spare_free(&spare);
	EXPECT_TRUE(t, area_set_check(set));
}

static void protect(struct ktest *t, struct area_set *set, uint64_t start, uint64_t end,
		    uint32_t prot)
{
	struct area_spare spare = { 0 };

	ASSERT_EQ(t, area_spare_fill(&spare, AREA_SPARE_MAX), 0);
	area_protect(set, start, end, prot, &spare);
	area_spare_free(&spare);
	EXPECT_TRUE(t, area_set_check(set));
}

static void clear(struct area_set *set)
{
	struct area_spare spare = { 0 };

	area_set_clear(set, &spare);
	area_spare_free(&spare);
}

static void neighbours_join_and_part(struct ktest *t)
{
	struct area_set set;

	area_set_init(&set);
	insert(t, &set, anon(2 * PG, 4 * PG, RW));
	insert(t, &set, anon(6 * PG, 8 * PG, RW));
	EXPECT_EQ(t, set.count, 2);
	EXPECT_LT(t, area_mapped_until(&set, 2 * PG, 8 * PG), 8 * PG);
	insert(t, &set, anon(4 * PG, 6 * PG, RW));
	EXPECT_EQ(t, set.count, 1);
	EXPECT_EQ(t, area_mapped_until(&set, 2 * PG, 8 * PG), 8 * PG);
	protect(t, &set, 3 * PG, 5 * PG, PM_PROT_READ);
	EXPECT_EQ(t, set.count, 3);
	EXPECT_EQ(t, area_mapped_until(&set, 2 * PG, 8 * PG), 8 * PG);
	EXPECT_EQ(t, area_at(&set, 3 * PG)->v.end, 5 * PG);
	protect(t, &set, 3 * PG, 5 * PG, RW);
	EXPECT_EQ(t, set.count, 1);
	remove_range(t, &set, 3 * PG, 4 * PG);
	EXPECT_EQ(t, set.count, 2);
	EXPECT_TRUE(t, area_range_is_free(&set, 3 * PG, 4 * PG));
	EXPECT_FALSE(t, area_range_is_free(&set, 3 * PG, 5 * PG));
	EXPECT_EQ(t, area_at(&set, 3 * PG), NULL);
	EXPECT_EQ(t, area_above(&set, 3 * PG)->v.start, 4 * PG);
	clear(&set);
	EXPECT_EQ(t, set.count, 0);
}

static void file_offsets_follow_cuts(struct ktest *t)
{
	struct area_set set;
	const struct area *v;

	area_set_init(&set);
	insert(t, &set, of_file(0x10 * PG, 0x20 * PG, 100, 5 * PG + 7));
	remove_range(t, &set, 0x12 * PG, 0x13 * PG);
	v = area_at(&set, 0x13 * PG);
	ASSERT_TRUE(t, v);
	EXPECT_EQ(t, v->v.pgoff, 103);
	EXPECT_EQ(t, v->v.file_bytes, 2 * PG + 7);
	remove_range(t, &set, 0x16 * PG, 0x17 * PG);
	EXPECT_EQ(t, area_at(&set, 0x17 * PG)->v.file_bytes, 0);
	EXPECT_EQ(t, set.count, 3);
	/* The pieces that were taken out fit in again; anything else does not join. */
	insert(t, &set, of_file(0x12 * PG, 0x13 * PG, 102, 3 * PG + 7));
	EXPECT_EQ(t, set.count, 2);
	insert(t, &set, of_file(0x16 * PG, 0x17 * PG, 107, 0));
	EXPECT_EQ(t, set.count, 3);
	clear(&set);
}

static void charges(struct ktest *t)
{
	struct pm_vma v = anon(0, 16 * PG, RW);
	struct area_set set;

	EXPECT_EQ(t, area_charge(&v), 16);
	v.prot = PM_PROT_READ;
	EXPECT_EQ(t, area_charge(&v), 0);
	v.flags = PM_VMA_SHARED;
	EXPECT_EQ(t, area_charge(&v), 16);
	v.flags = PM_VMA_NORESERVE;
	v.prot = RW;
	EXPECT_EQ(t, area_charge(&v), 0);
	v = of_file(0, 16 * PG, 0, UINT64_MAX);
	EXPECT_EQ(t, area_charge(&v), 16);
	v.flags |= PM_VMA_SHARED;
	EXPECT_EQ(t, area_charge(&v), 0);

	area_set_init(&set);
	insert(t, &set, anon(PG, 5 * PG, RW));
	insert(t, &set, anon(5 * PG, 9 * PG, PM_PROT_READ));
	EXPECT_EQ(t, area_range_charge(&set, 3 * PG, 8 * PG), 2);
	EXPECT_EQ(t, area_range_charge_as(&set, 3 * PG, 8 * PG, RW), 5);
	clear(&set);
}

static void places(struct ktest *t)
{
	struct area_set set;
	uint64_t a;

	area_set_init(&set);
	EXPECT_EQ(t, place_find(&set, TOP, 0, PG, false), TOP - PG);
	insert(t, &set, anon(TOP - 4 * PG, TOP, RW));
	insert(t, &set, anon(TOP - 16 * PG, TOP - 6 * PG, RW));
	EXPECT_EQ(t, place_find(&set, TOP, 0, 2 * PG, false), TOP - 6 * PG);
	EXPECT_EQ(t, place_find(&set, TOP, 0, 3 * PG, false), TOP - 19 * PG);
	/* A hint is taken if it is free. */
	EXPECT_EQ(t, place_find(&set, TOP, 0x5000000, PG, false), 0x5000000);
	EXPECT_EQ(t, place_find(&set, TOP, TOP - 2 * PG, PG, false), TOP - 5 * PG);
	EXPECT_EQ(t, place_find(&set, TOP, PG, PG, false), TOP - 5 * PG);
	/* Below 2 GB, whatever is wanted. */
	EXPECT_EQ(t, place_find_low(&set, 0, PG), PM_LOW_TOP - PG);
	EXPECT_EQ(t, place_find_low(&set, 0x5000000, PG), 0x5000000);
	EXPECT_EQ(t, place_find_low(&set, PM_LOW_TOP - PG, 2 * PG), PM_LOW_TOP - 2 * PG);
	EXPECT_EQ(t, place_find_low(&set, TOP - 5 * PG, PG), PM_LOW_TOP - PG);
	EXPECT_EQ(t, place_find_low(&set, 0, PM_LOW_TOP), 0);
	EXPECT_EQ(t, place_find_low(&set, 0, UINT64_MAX & ~(PG - 1)), 0);
	/* Room behind a large mapping. */
	a = place_find(&set, TOP, 0, 1 << 20, true);
	EXPECT_EQ(t, a, TOP - 16 * PG - (1 << 20) - PLACE_GROW_ROOM);
	EXPECT_EQ(t, place_find(&set, TOP, 0, PG, true), TOP - 5 * PG);
	/* Only the first page is free, then nothing. */
	insert(t, &set, anon(HOME_MMAP_MIN + PG, TOP - 16 * PG, PM_PROT_EXEC));
	EXPECT_EQ(t, place_find(&set, TOP - 16 * PG, 0, PG, true), HOME_MMAP_MIN);
	insert(t, &set, anon(TOP, PM_USER_TOP, PM_PROT_EXEC));
	EXPECT_EQ(t, place_find(&set, TOP, 0, 3 * PG, true), 0);
	clear(&set);
}

/* A stack has room below it, and is not joined to memory that does not grow. */
static void places_below_what_grows(struct ktest *t)
{
	const uint64_t low = TOP - 4 * PG, top = low - PM_STACK_GUARD;
	struct pm_vma grows = anon(low, TOP, RW);
	struct area_set set;

	grows.flags |= PM_VMA_GROWS;
	area_set_init(&set);
	insert(t, &set, grows);
	EXPECT_EQ(t, place_find(&set, TOP, 0, PG, false), top - PG);
	EXPECT_EQ(t, place_find(&set, TOP - 2 * PG, 0, PG, false), top - PG);
	EXPECT_EQ(t, place_find(&set, top - PG, 0, PG, false), top - 2 * PG);
	/* A hint inside the room is not taken. */
	EXPECT_EQ(t, place_find(&set, TOP, low - PG, PG, false), top - PG);
	EXPECT_EQ(t, place_find(&set, TOP, top - PG, 2 * PG, false), top - 2 * PG);
	EXPECT_EQ(t, place_find(&set, TOP, top - 9 * PG, 9 * PG, false), top - 9 * PG);
	/* Memory that is there already stays, and there is no place between the two. */
	insert(t, &set, anon(low - 9 * PG, low, RW));
	EXPECT_EQ(t, place_find(&set, TOP, 0, PG, false), low - 10 * PG);
	EXPECT_EQ(t, set.count, 2);
	clear(&set);
	/* One at the bottom of everything. */
	grows = anon(HOME_MMAP_MIN, HOME_MMAP_MIN + PG, RW);
	grows.flags |= PM_VMA_GROWS;
	insert(t, &set, grows);
	EXPECT_EQ(t, place_find(&set, HOME_MMAP_MIN + PG, 0, PG, false), PM_USER_TOP - PG);
	clear(&set);
}

static const struct ktest_case cases[] = {
	KTEST(neighbours_join_and_part),
	KTEST(file_offsets_follow_cuts),
	KTEST(charges),
	KTEST(places),
	KTEST(places_below_what_grows),
	{ 0 },
};
static const struct ktest_suite suite = { .name = "memory.area", .cases = cases };
KTEST_SUITE(suite);
