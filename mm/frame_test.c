/* SPDX-License-Identifier: MIT */
#include <lib/ktest.h>
#include <lib/list.h>
#include <lib/prng.h>
#include <lib/string.h>
#include <mm/frame.h>
#include <mm/kmap.h>

static void alloc_and_free(struct ktest *t)
{
	const uint64_t before = frames_free_count();

	for (unsigned int order = 0; order <= 10; order++) {
		struct frame *f = frame_alloc(order, 0);

		ASSERT_TRUE(t, f != NULL);
		EXPECT_EQ(t, f->state, FRAME_USED);
		EXPECT_EQ(t, f->order, order);
		EXPECT_TRUE(t, (frame_to_pfn(f) & ((1ul << order) - 1)) == 0);
		EXPECT_EQ(t, frames_free_count(), before - (1ul << order));
		EXPECT_TRUE(t, paddr_to_frame(frame_to_paddr(f)) == f);
		EXPECT_TRUE(t, virt_to_frame(frame_to_virt(f)) == f);
		frame_free(f, order);
	}
	EXPECT_EQ(t, frames_free_count(), before);
	EXPECT_EQ(t, frame_check(), 0);
}

static void zero_flag_zeroes(struct ktest *t)
{
	for (unsigned int i = 0; i < 8; i++) {
		struct frame *f = frame_alloc(1, FRAME_ZERO);
		const uint64_t *q;

		ASSERT_TRUE(t, f != NULL);
		q = frame_to_virt(f);
		for (unsigned int k = 0; k < 2 * PAGE_SIZE / 8; k++)
			ASSERT_EQ(t, q[k], 0);
		memset(frame_to_virt(f), 0x77, 2 * PAGE_SIZE);
		frame_free(f, 1);
	}
}

/* No two live blocks overlap: each carries its own mark over all its pages. */
static void random_orders_do_not_overlap(struct ktest *t)
{
	const uint64_t before = frames_free_count();
	struct frame *held[64] = { NULL };
	unsigned int orders[64] = { 0 };
	struct prng rng;

	prng_seed(&rng, 7);
	for (unsigned int i = 0; i < 4000; i++) {
		const unsigned int k = (unsigned int)prng_below(&rng, 64);

		if (held[k]) {
			const uint64_t *q = frame_to_virt(held[k]);

			for (uint64_t p = 0; p < 1ul << orders[k]; p++)
				ASSERT_EQ(t, q[p * PAGE_SIZE / 8], k + 1);
			frame_free(held[k], orders[k]);
			held[k] = NULL;
		} else {
			uint64_t *q;

			orders[k] = (unsigned int)prng_below(&rng, 6);
			held[k] = frame_alloc(orders[k], 0);
			ASSERT_TRUE(t, held[k] != NULL);
			q = frame_to_virt(held[k]);
			for (uint64_t p = 0; p < 1ul << orders[k]; p++)
				q[p * PAGE_SIZE / 8] = k + 1;
		}
	}
	for (unsigned int k = 0; k < 64; k++) {
		if (held[k])
			frame_free(held[k], orders[k]);
	}
	EXPECT_EQ(t, frames_free_count(), before);
	EXPECT_EQ(t, frame_check(), 0);
}

static void exhaustion_is_null(struct ktest *t)
{
	const uint64_t before = frames_free_count();
	LIST_HEAD(all);
	uint64_t n = 0;
	struct frame *f;

	EXPECT_TRUE(t, frame_alloc(FRAME_MAX_ORDER + 1, 0) == NULL);
	while ((f = frame_alloc(0, 0))) {
		list_add(&f->link, &all);
		n++;
	}
	EXPECT_EQ(t, frames_free_count(), 0);
	EXPECT_TRUE(t, frame_alloc(3, 0) == NULL);
	EXPECT_TRUE(t, frame_alloc_contig(3, 1) == NULL);
	while ((f = list_first_entry_or_null(&all, struct frame, link))) {
		list_del(&f->link);
		frame_free(f, 0);
	}
	EXPECT_EQ(t, n, before);
	EXPECT_EQ(t, frames_free_count(), before);
	EXPECT_EQ(t, frame_check(), 0);
}

static void contiguous_ranges(struct ktest *t)
{
	static const struct {
		uint64_t nr, align;
	} cases[] = {
		{ 1, 1 },   { 3, 1 },    { 5, 8 },      { 511, 1 },     { 512, 512 },
		{ 513, 1 }, { 3000, 1 }, { 700, 1024 }, { 5000, 4096 }, { 16384, 1 },
	};
	const uint64_t before = frames_free_count();

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct frame *f = frame_alloc_contig(cases[i].nr, cases[i].align);
		struct frame *g;

		ASSERT_TRUE(t, f != NULL);
		EXPECT_EQ(t, frame_to_pfn(f) % cases[i].align, 0);
		EXPECT_EQ(t, frames_free_count(), before - cases[i].nr);
		EXPECT_EQ(t, frame_check(), 0);
		/* The next frame lies outside. */
		g = frame_alloc(0, 0);
		ASSERT_TRUE(t, g != NULL);
		EXPECT_TRUE(t, g < f || g >= f + cases[i].nr);
		frame_free(g, 0);
		frame_free_contig(f, cases[i].nr);
		EXPECT_EQ(t, frames_free_count(), before);
		EXPECT_EQ(t, frame_check(), 0);
	}
	EXPECT_TRUE(t, frame_alloc_contig(0, 1) == NULL);
	EXPECT_TRUE(t, frame_alloc_contig(8, 3) == NULL);
	EXPECT_TRUE(t, frame_alloc_contig(UINT64_MAX / 2, 1) == NULL);
}

static const struct ktest_case frame_cases[] = {
	KTEST(alloc_and_free),     KTEST(zero_flag_zeroes),  KTEST(random_orders_do_not_overlap),
	KTEST(exhaustion_is_null), KTEST(contiguous_ranges), { 0 },
};
static const struct ktest_suite frame_suite = { .name = "mm.frame", .cases = frame_cases };
KTEST_SUITE(frame_suite);
