/* SPDX-License-Identifier: MIT */
#include <lib/ktest.h>
#include <mm/frame.h>
#include <mm/kmap.h>
#include <mm/slab.h>

#define LENGTH (8ul << 20) /* of an area in most cases */
#define ROUNDS (4 * KMAP_REUSE_SPAN / LENGTH)

/* One frame over and over, as a long area that costs only page tables. */
static void *map_one_frame(struct frame *f, size_t nr)
{
	paddr_t *pages = kcalloc(nr, sizeof(*pages));
	void *p;

	if (!pages)
		return NULL;
	for (size_t i = 0; i < nr; i++)
		pages[i] = frame_to_paddr(f);
	p = vmap(pages, nr);
	kfree(pages);
	return p;
}

static void freed_addresses_come_again_late(struct ktest *t)
{
	struct frame *f = frame_alloc(0, 0);
	vaddr_t *seen = kcalloc(ROUNDS, sizeof(*seen));
	size_t again = 0;

	ASSERT_TRUE(t, f != NULL);
	ASSERT_TRUE(t, seen != NULL);
	for (size_t i = 0; i < ROUNDS && !again; i++) {
		void *p = map_one_frame(f, LENGTH >> PAGE_SHIFT);

		ASSERT_TRUE(t, p != NULL);
		seen[i] = (vaddr_t)p;
		for (size_t j = 0; j < i; j++) {
			/* Areas of other threads may shift this one; its pages are used again. */
			if (seen[i] < seen[j] + LENGTH && seen[j] < seen[i] + LENGTH)
				again = i - j;
		}
		vunmap(p);
	}
	EXPECT_GE(t, again, KMAP_REUSE_SPAN / LENGTH / 2);
	kfree(seen);
	frame_free(f, 0);
}

static bool is_outside(const uint8_t *p, const uint8_t *area, size_t nr_pages)
{
	return p + PAGE_SIZE < area || p > area + (nr_pages << PAGE_SHIFT);
}

static void areas_larger_than_the_span(struct ktest *t)
{
	const size_t nr = 2 * KMAP_REUSE_SPAN >> PAGE_SHIFT;
	struct frame *f = frame_alloc(0, FRAME_ZERO);
	uint8_t *large[2];
	uint8_t *small;

	ASSERT_TRUE(t, f != NULL);
	for (size_t i = 0; i < ARRAY_SIZE(large); i++) {
		large[i] = map_one_frame(f, nr);
		ASSERT_TRUE(t, large[i] != NULL);
		large[i][(nr << PAGE_SHIFT) - 1] = (uint8_t)(i + 1);
		EXPECT_EQ(t, large[0][PAGE_SIZE - 1], i + 1);
	}
	small = vmalloc(3 * PAGE_SIZE);
	ASSERT_TRUE(t, small != NULL);
	for (size_t i = 0; i < ARRAY_SIZE(large); i++) {
		EXPECT_TRUE(t, is_outside(small, large[i], nr));
		vunmap(large[i]);
	}
	vfree(small);
	/* A large area's place is not used again at once: the search goes on behind it. */
	small = vmalloc(3 * PAGE_SIZE);
	ASSERT_TRUE(t, small != NULL);
	EXPECT_TRUE(t, small > large[1] + (nr << PAGE_SHIFT));
	vfree(small);
	frame_free(f, 0);
}

static void more_than_the_area_has_is_null(struct ktest *t)
{
	EXPECT_TRUE(t, vmalloc(VMALLOC_SIZE) == NULL);
	EXPECT_TRUE(t, vmalloc(0) == NULL);
	/* It would fit if nothing else were there. */
	EXPECT_TRUE(t, mmio_map(0, VMALLOC_SIZE - 2 * PAGE_SIZE) == NULL);
	EXPECT_TRUE(t, mmio_map(UINT64_MAX - 1, 2) == NULL);
}

static const struct ktest_case kmap_cases[] = {
	KTEST(freed_addresses_come_again_late),
	KTEST(areas_larger_than_the_span),
	KTEST(more_than_the_area_has_is_null),
	{ 0 },
};
static const struct ktest_suite kmap_suite = { .name = "mm.kmap", .cases = kmap_cases };
KTEST_SUITE(kmap_suite);
