/* SPDX-License-Identifier: MIT */
/*
 * Fetching anonymous and shared pages ahead, against the model of the owners: which pages come, and
 * what happens when a message finds no slot, is answered late, or the range goes away.
 */
#include <stdlib.h>

#include <kernel/thread.h>
#include <lib/err.h>
#include <lib/ktest.h>
#include <lib/prng.h>
#include <lib/string.h>
#include <processor/excache/cache_private.h>

#include "fake_owner.h"
#include "user_word.h"

#define BASE     0x400000ull
#define NR_PAGES 480ull /* less than a vRegion; the cache has 128 */

static struct aspace *as;
static bool has_places;      /* the owners tell them */
static bool frames_in_order; /* neighbours lie side by side there */

/* Two mappings side by side; all pages of both were written and have left the cache. */
static void start(struct ktest *t)
{
	const struct vma v[2] = {
		{ .start = BASE,
		  .end = BASE + NR_PAGES / 2 * PAGE_SIZE,
		  .prot = VMA_PROT_READ | VMA_PROT_WRITE },
		{ .start = BASE + NR_PAGES / 2 * PAGE_SIZE,
		  .end = BASE + NR_PAGES * PAGE_SIZE,
		  .prot = VMA_PROT_READ | VMA_PROT_WRITE },
	};

	fake_cache();
	fake_reset();
	fake_places(has_places);
	fake_frames_in_order(frames_in_order);
	as = aspace_create(object_id(1, object_new_number()), 1);
	if (IS_ERR(as))
		abort();
	as->anon->vregion_size = FAKE_VREGION_SIZE;
	EXPECT_EQ(t, aspace_set_vma(as, &v[0], SEQ_ANY), 0);
	EXPECT_EQ(t, aspace_set_vma(as, &v[1], SEQ_ANY), 0);
	for (uint64_t n = 0; n < NR_PAGES; n++) {
		uint64_t word = n * 3 + 1;

		EXPECT_EQ(t, user_word(as, BASE, n, &word, true), 0);
	}
	EXPECT_EQ(t, excache_flush(as->anon, 0, UINT64_MAX), 0);
	fake_quiesce();
	EXPECT_EQ(t, fake_pages(), NR_PAGES);
	fake_ahead(true);
}

static void stop(struct ktest *t)
{
	aspace_put(as);
	fake_settle();
	EXPECT_EQ(t, excache_free_count(), excache_line_count());
}

static void read_page(struct ktest *t, uint64_t n)
{
	uint64_t word = 0;

	EXPECT_EQ(t, user_word(as, BASE, n, &word, false), 0);
	EXPECT_EQ(t, word, n * 3 + 1);
	fake_quiesce(); /* what was asked for ahead is there before the next access */
}

/* @again: pages that may be fetched twice, as they went before they were used. */
static void scan(struct ktest *t, const char *policy, uint64_t again)
{
	const struct excache_policy *before;
	struct fake_counts c;

	fake_cache();
	before = excache.policy;
	excache.policy = policy_find(policy);
	start(t);
	for (uint64_t n = 0; n < NR_PAGES / 2; n++)
		read_page(t, n);
	fake_counts(&c);
	EXPECT_LE(t, c.fetches, 8u);
	EXPECT_LE(t, c.fetches + c.ahead_pages, NR_PAGES / 2 + again);
	EXPECT_GE(t, c.fetches + c.ahead_pages, NR_PAGES / 2);
	EXPECT_LE(t, c.aheads, NR_PAGES / 2 / 8);
	/* The pages behind belong to another mapping. */
	EXPECT_EQ(t, c.ahead_last, BASE + (NR_PAGES / 2 - 1) * PAGE_SIZE);
	stop(t);
	excache.policy = before;
}

static void a_scan_is_fetched_ahead(struct ktest *t)
{
	scan(t, "fifo", 0);
	scan(t, "drrip", NR_PAGES / 2 / 32);
}

/* Pages with places are read there, neighbours together, and by no message. */
static void neighbours_are_one_read(struct ktest *t)
{
	struct fake_counts c;

	has_places = frames_in_order = true;
	start(t);
	for (uint64_t n = 0; n < NR_PAGES / 2; n++)
		read_page(t, n);
	fake_counts(&c);
	EXPECT_EQ(t, c.aheads, 0u);
	EXPECT_GE(t, c.ahead_pages, NR_PAGES / 2 - 8);
	EXPECT_LE(t, c.ahead_reads, c.ahead_pages / 4);
	EXPECT_EQ(t, c.reads_failed, 0u);
	stop(t);
	/* Downwards as well. */
	start(t);
	for (uint64_t n = NR_PAGES / 2; n-- > 0;)
		read_page(t, n);
	fake_counts(&c);
	EXPECT_EQ(t, c.aheads, 0u);
	EXPECT_LE(t, c.ahead_reads, c.ahead_pages / 4);
	stop(t);
	has_places = frames_in_order = false;
}

/* As far as the slots for reads go; the others are asked for. */
static void what_finds_no_slot_is_asked_for(struct ktest *t)
{
	struct fake_counts c;

	has_places = true;
	for (uint32_t nr = 0; nr <= 4; nr += 4) {
		start(t);
		fake_read_slots(nr);
		for (uint64_t n = 0; n < NR_PAGES / 2; n++)
			read_page(t, n);
		fake_counts(&c);
		EXPECT_LE(t, c.fetches + c.reads, 8u);
		EXPECT_GT(t, c.aheads, 0u);
		EXPECT_EQ(t, c.ahead_reads > 0, nr > 0);
		stop(t);
	}
	has_places = false;
}

static void backwards_and_strided_too(struct ktest *t)
{
	struct fake_counts c;

	start(t);
	for (uint64_t n = NR_PAGES / 2; n-- > 0;)
		read_page(t, n);
	fake_counts(&c);
	EXPECT_LE(t, c.fetches, 8u);
	stop(t);

	start(t);
	for (uint64_t n = 0; n < NR_PAGES / 2; n += 5)
		read_page(t, n);
	fake_counts(&c);
	EXPECT_LE(t, c.fetches, 8u);
	EXPECT_LE(t, c.fetches + c.ahead_pages, NR_PAGES / 2 / 5 + 8);
	stop(t);
}

/* Several streams of one thread at a time, as a partition of quicksort has. */
static void streams_do_not_disturb_each_other(struct ktest *t)
{
	struct fake_counts c;

	start(t);
	for (uint64_t n = 0; n < 100; n++) {
		read_page(t, n);
		read_page(t, NR_PAGES / 2 - 1 - n);
		read_page(t, NR_PAGES / 2 + n * 2);
	}
	fake_counts(&c);
	EXPECT_LE(t, c.fetches, 40u); /* of 300 */
	stop(t);
}

/* Most strides are the same, but too large for the first of a stream: Leap's case. */
static void a_majority_is_a_stream(struct ktest *t)
{
	struct fake_counts c;
	uint64_t n = 0;

	start(t);
	for (uint64_t i = 0; i < 120; i++) {
		read_page(t, n);
		n = (n + 67) % (NR_PAGES / 2);
	}
	fake_counts(&c);
	EXPECT_GT(t, c.ahead_pages, 10u);
	stop(t);
}

static void random_reads_fetch_nothing_ahead(struct ktest *t)
{
	struct fake_counts c;
	struct prng rng;

	prng_seed(&rng, 4711);
	start(t);
	for (uint64_t n = 0; n < 1000; n++)
		read_page(t, prng_below(&rng, NR_PAGES));
	fake_counts(&c);
	EXPECT_LE(t, c.ahead_pages, c.fetches / 5); /* there are few pages to choose from */
	stop(t);
}

/* No slot, no eviction: what is in the cache stays. */
static void nothing_is_evicted(struct ktest *t)
{
	struct fake_counts c;
	uint64_t free;

	start(t);
	for (uint64_t n = 0; n < 2; n++)
		read_page(t, n);
	fake_no_slots(true);
	free = excache_free_count();
	for (uint64_t n = 2; n < 12; n++)
		read_page(t, n);
	fake_counts(&c);
	EXPECT_EQ(t, c.aheads + c.ahead_reads, 0u);
	EXPECT_EQ(t, excache_free_count(), free - 10);
	fake_no_slots(false);
	stop(t);
}

static void nothing_is_evicted_for_what_is_not_sent(struct ktest *t)
{
	nothing_is_evicted(t);
	has_places = true;
	nothing_is_evicted(t);
	has_places = false;
}

/* A page that was never stored is made here. */
static void zero_pages_are_not_asked_for(struct ktest *t)
{
	struct fake_counts c;

	start(t);
	excache_drop(as->anon, (BASE >> PAGE_SHIFT) + 4, (BASE >> PAGE_SHIFT) + NR_PAGES);
	object_clear_stored(as->anon, (BASE >> PAGE_SHIFT) + 4, (BASE >> PAGE_SHIFT) + NR_PAGES);
	for (uint64_t n = 0; n < 4; n++)
		read_page(t, n);
	for (uint64_t n = 4; n < 40; n++) {
		uint64_t word = 1;

		EXPECT_EQ(t, user_word(as, BASE, n, &word, false), 0);
		EXPECT_EQ(t, word, 0u);
	}
	fake_counts(&c);
	EXPECT_LE(t, c.ahead_pages, 4u);
	stop(t);
}

static void late_answers(struct ktest *t)
{
	start(t);
	fake_ahead_timeout_every(2);
	for (uint64_t round = 0; round < 4; round++) {
		for (uint64_t n = 0; n < NR_PAGES; n++) {
			uint64_t word = 0;

			EXPECT_EQ(t, user_word(as, BASE, n, &word, false), 0);
			EXPECT_EQ(t, word, n * 3 + 1);
		}
	}
	stop(t);
}

static void late_answers_hurt_nobody(struct ktest *t)
{
	late_answers(t);
	has_places = true;
	late_answers(t);
	has_places = false;
}

/* The range goes away while pages of it are on their way. */
static void range_goes(struct ktest *t)
{
	start(t);
	for (uint64_t n = 0; n < 20; n++) {
		uint64_t word = 0;

		if (n == 10)
			fake_delay_us(20000);
		EXPECT_EQ(t, user_word(as, BASE, n, &word, false), 0);
	}
	EXPECT_EQ(t, excache_keep(as, BASE >> PAGE_SHIFT, (BASE >> PAGE_SHIFT) + NR_PAGES), 0);
	EXPECT_EQ(t, as->anon->nr_ahead, 0u);
	excache_keep_end(as);
	fake_delay_us(0);
	stop(t);
}

static void a_range_that_goes_waits(struct ktest *t)
{
	range_goes(t);
	has_places = true;
	range_goes(t);
	has_places = false;
}

static void it_can_be_switched_off(struct ktest *t)
{
	struct fake_counts c;

	start(t);
	fake_ahead(false);
	for (uint64_t n = 0; n < 100; n++)
		read_page(t, n);
	fake_counts(&c);
	EXPECT_EQ(t, c.fetches, 100u);
	EXPECT_EQ(t, c.ahead_pages, 0u);
	stop(t);
}

#define NR_THREADS 4

static void scan_and_write(void *arg)
{
	const uint64_t first = (uint64_t)(uintptr_t)arg * (NR_PAGES / NR_THREADS);
	struct prng rng;

	prng_seed(&rng, first + 1);
	for (uint64_t round = 1; round <= 12; round++) {
		const bool down = round % 3 == 0;

		for (uint64_t i = 0; i < NR_PAGES / NR_THREADS; i++) {
			const uint64_t n = first + (down ? NR_PAGES / NR_THREADS - 1 - i : i);
			uint64_t word = 0;

			if (user_word(as, BASE, n, &word, false) ||
			    word % 1000 != (n * 3 + 1) % 1000)
				abort();
			word += 1000;
			if (prng_below(&rng, 2) && user_word(as, BASE, n, &word, true))
				abort();
		}
	}
}

/* Messages of all kinds are late or lost; each thread finds what it has written. */
static void threads_scan_and_write(struct ktest *t)
{
	struct thread *threads[NR_THREADS];

	start(t);
	for (uint64_t n = 0; n < NR_PAGES; n++) {
		uint64_t word = (n * 3 + 1) % 1000;

		EXPECT_EQ(t, user_word(as, BASE, n, &word, true), 0);
	}
	fake_delay_us(300);
	fake_ahead_timeout_every(5);
	fake_writeback_timeout_every(9);
	for (uintptr_t i = 0; i < NR_THREADS; i++)
		threads[i] = thread_create("scan", scan_and_write, (void *)i);
	for (uintptr_t i = 0; i < NR_THREADS; i++)
		thread_join(threads[i]);
	stop(t);
}

static void threads_find_what_they_wrote(struct ktest *t)
{
	threads_scan_and_write(t);
	has_places = true;
	threads_scan_and_write(t);
	has_places = false;
}

static const struct ktest_case ahead_cases[] = {
	KTEST(a_scan_is_fetched_ahead),
	KTEST(neighbours_are_one_read),
	KTEST(what_finds_no_slot_is_asked_for),
	KTEST(backwards_and_strided_too),
	KTEST(streams_do_not_disturb_each_other),
	KTEST(a_majority_is_a_stream),
	KTEST(random_reads_fetch_nothing_ahead),
	KTEST(nothing_is_evicted_for_what_is_not_sent),
	KTEST(zero_pages_are_not_asked_for),
	KTEST(late_answers_hurt_nobody),
	KTEST(it_can_be_switched_off),
	KTEST(threads_find_what_they_wrote),
	KTEST(a_range_that_goes_waits),
	{ 0 },
};
static const struct ktest_suite ahead_suite = {
	.name = "processor.ahead",
	.cases = ahead_cases,
};
KTEST_SUITE(ahead_suite);
