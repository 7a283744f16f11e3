/* SPDX-License-Identifier: MIT */
/*
 * Places that owners name: what is believed, for how long, and what a miss makes of it.
 */
#include <string.h>

#include <kernel/counter.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/ktest.h>
#include <lib/prng.h>
#include <mm/frame.h>
#include <processor/account/account.h>
#include <processor/excache/excache.h>
#include <processor/excache/places.h>
#include <processor/mm/aspace.h>
#include <shim/shim.h>

#include "fake_owner.h"
#include "user_word.h"

#define OWNER 77u /* none of the model's */

static uint64_t learn(uint32_t node, uint32_t extent, uint32_t rkey, uint32_t frame)
{
	const struct owner_place place = { .extent = extent, .rkey = rkey, .frame = frame };

	return place_learn(node, &place);
}

static bool is_good(uint64_t place)
{
	struct read_place from;

	if (!place_begin(place, &from))
		return false;
	place_end(from.lent, 0);
	return true;
}

static void a_place_is_what_was_told(struct ktest *t)
{
	const uint64_t place = learn(OWNER, 1, 0xabcd, 300);
	struct read_place from;

	EXPECT_EQ(t, learn(OWNER, 0, 0, 0), PLACE_NONE);
	ASSERT_TRUE(t, place_begin(place, &from));
	EXPECT_EQ(t, from.node, OWNER);
	EXPECT_EQ(t, from.rkey, 0xabcd);
	EXPECT_EQ(t, from.addr, 300 * PAGE_SIZE);
	place_end(from.lent, 0);
	EXPECT_FALSE(t, place_begin(PLACE_NONE, &from));
	EXPECT_FALSE(t, place_begin(UINT64_MAX, &from));
	/* Another key for the same extent: one of the two is a lie. */
	EXPECT_EQ(t, learn(OWNER, 1, 0xabce, 300), PLACE_NONE);
	/* Another owner's extent of that number is another one. */
	EXPECT_NE(t, learn(OWNER + 1, 1, 0xabcd, 300), place);
	places_node_gone(OWNER);
	places_node_gone(OWNER + 1);
}

static void what_is_revoked_stays_so(struct ktest *t)
{
	const uint64_t one = learn(OWNER, 1, 11, 0), two = learn(OWNER, 2, 12, 0);
	uint64_t again;

	places_revoke(OWNER, 1, false);
	EXPECT_FALSE(t, is_good(one));
	EXPECT_TRUE(t, is_good(two));
	EXPECT_EQ(t, learn(OWNER, 1, 11, 0), PLACE_NONE); /* an answer that was under way */
	/* One that no answer has told yet; a lower one that none has told either is lent still. */
	places_revoke(OWNER, 4, false);
	EXPECT_EQ(t, learn(OWNER, 4, 14, 0), PLACE_NONE);
	EXPECT_TRUE(t, is_good(learn(OWNER, 3, 13, 0)));
	EXPECT_TRUE(t, is_good(two));
	places_revoke(OWNER, 5, true);
	EXPECT_FALSE(t, is_good(two));
	EXPECT_EQ(t, learn(OWNER, 5, 15, 0), PLACE_NONE);
	EXPECT_TRUE(t, is_good(learn(OWNER, 6, 16, 0)));
	/* Its next life counts from 1 again: what is known of the one before is not found. */
	again = learn(OWNER, 6, 16, 0);
	places_node_gone(OWNER);
	EXPECT_FALSE(t, is_good(again));
	EXPECT_TRUE(t, is_good(learn(OWNER, 1, 21, 0)));
	EXPECT_FALSE(t, is_good(one));
	places_node_gone(OWNER);
}

/* Thousands that come and go leave nothing behind, and none of them comes back. */
static void the_dead_are_not_kept(struct ktest *t)
{
	const uint64_t kept = learn(OWNER, 1, 5, 0);

	for (uint32_t i = 2; i < 3000; i++) {
		EXPECT_NE(t, learn(OWNER, i, i, 0), PLACE_NONE);
		places_revoke(OWNER, i, false);
	}
	for (uint32_t i = 2; i < 3000; i++)
		EXPECT_EQ(t, learn(OWNER, i, i, 0), PLACE_NONE);
	EXPECT_TRUE(t, is_good(kept));
	places_node_gone(OWNER);
}

/* Of too many the older half goes: an extent among the others may be heard of later. */
static void the_dead_do_not_hide_the_living(struct ktest *t)
{
	for (uint32_t i = 2; i <= 2 * 64; i += 2)
		places_revoke(OWNER, i, false);
	EXPECT_EQ(t, learn(OWNER, 63, 63, 0), PLACE_NONE);
	for (uint32_t i = 66; i <= 2 * 64; i += 2)
		EXPECT_EQ(t, learn(OWNER, i, i, 0), PLACE_NONE);
	EXPECT_TRUE(t, is_good(learn(OWNER, 65, 65, 0)));
	EXPECT_TRUE(t, is_good(learn(OWNER, 127, 127, 0)));
	places_node_gone(OWNER);
}

/* Reads there are waited for, although it was dead before. */
static void reads_end_before_the_answer(struct ktest *t)
{
	const uint64_t place = learn(OWNER, 1, 11, 0), other = learn(OWNER, 2, 12, 0);
	struct read_place slow, from;
	uint64_t start;

	ASSERT_TRUE(t, place_begin(place, &slow));
	for (int i = 0; i < 3; i++) {
		ASSERT_TRUE(t, place_begin(place, &from));
		place_end(from.lent, -EACCES);
	}
	EXPECT_FALSE(t, is_good(place));
	EXPECT_TRUE(t, is_good(other));
	start = time_now_ns();
	places_revoke(OWNER, 1, false);
	EXPECT_GE(t, time_now_ns() - start, NSEC_PER_SEC);
	place_end(slow.lent, 0);
	places_revoke(OWNER, 2, true);
	EXPECT_FALSE(t, is_good(other));
	places_node_gone(OWNER);
}

/* An owner that names ever more extents is believed up to a limit. */
static void an_owner_cannot_fill_the_heap(struct ktest *t)
{
	uint32_t nr = 0;

	for (uint32_t i = 1; i <= 20000; i++)
		nr += learn(OWNER, i, i, 0) != PLACE_NONE;
	EXPECT_EQ(t, nr, 16384);
	places_node_gone(OWNER);
}

/* Three refusals in a row: it is not there any more. */
static void what_fails_is_left(struct ktest *t)
{
	const uint64_t place = learn(OWNER, 1, 11, 0);
	struct read_place from;

	/* The connection broke: for another read, perhaps. */
	for (int i = 0; i < 10; i++) {
		ASSERT_TRUE(t, place_begin(place, &from));
		place_end(from.lent, -EIO);
	}
	EXPECT_TRUE(t, is_good(place));
	for (int i = 0; i < 2; i++) {
		ASSERT_TRUE(t, place_begin(place, &from));
		place_end(from.lent, -EACCES);
	}
	EXPECT_TRUE(t, is_good(place));
	for (int i = 0; i < 3; i++) {
		ASSERT_TRUE(t, place_begin(place, &from));
		place_end(from.lent, -EACCES);
	}
	EXPECT_FALSE(t, is_good(place));
	places_node_gone(OWNER);
}

/* Far apart, each page costs a chunk: what a map has is charged, and it has its limits. */
static void maps_are_charged(struct ktest *t)
{
	struct kmem_account *a = kmem_account_create();
	const uint64_t limit = 64 * 1024;
	uint64_t nr = 0, charged;
	struct place_map m;

	ASSERT_TRUE(t, a != NULL);
	kmem_account_set_limits(limit, 0);
	place_map_init(&m);
	place_map_set(&m, 0, 7); /* before it is known whose it is */
	EXPECT_EQ(t, kmem_charged(a), 0u);
	place_map_charge_to(&m, a);
	charged = kmem_charged(a);
	EXPECT_GT(t, charged, 0u);
	EXPECT_LE(t, charged, 1024u);
	place_map_set(&m, 1, 8);
	EXPECT_EQ(t, kmem_charged(a), charged);
	for (uint64_t i = 1; i <= 1000; i++)
		place_map_set(&m, i << 18, i);
	EXPECT_LE(t, kmem_charged(a), limit / 2 + 512);
	for (uint64_t i = 1; i <= 1000; i++)
		nr += place_map_get(&m, i << 18) == i;
	EXPECT_GT(t, nr, 50u);
	EXPECT_LT(t, nr, 70u);
	/* The program gets what it asks for: the other half. */
	EXPECT_EQ(t, kmem_charge(a, limit / 2 - 512), 0);
	kmem_uncharge(a, limit / 2 - 512);
	place_map_clear(&m, 1, UINT64_MAX);
	EXPECT_EQ(t, place_map_get(&m, 0), 7u);
	EXPECT_EQ(t, place_map_get(&m, 1), PLACE_NONE);
	EXPECT_EQ(t, kmem_charged(a), charged);
	place_map_destroy(&m);
	EXPECT_EQ(t, kmem_charged(a), 0u);
	kmem_account_set_limits(UINT64_MAX, 0);
	kmem_account_put(a);
}

/* All maps have 1/32 of the memory. */
static void maps_are_bounded(struct ktest *t)
{
	const uint64_t most = frames_total_count() / 32 * PAGE_SIZE;
	uint64_t nr = 0, held = 0;
	struct place_map m;

	place_map_init(&m);
	for (uint64_t i = 0; i < most / 512 + 100; i++)
		place_map_set(&m, i << 18, i + 1);
	EXPECT_TRUE(t, counter_find("excache.place_bytes", &held));
	EXPECT_LE(t, held, most);
	EXPECT_GT(t, held, most - 1024);
	for (uint64_t i = 0; i < most / 512 + 100; i++)
		nr += place_map_get(&m, i << 18) == i + 1;
	EXPECT_LE(t, nr, most / 512);
	place_map_destroy(&m);
	EXPECT_TRUE(t, counter_find("excache.place_bytes", &held));
	EXPECT_EQ(t, held, 0u);
}

#define BASE  0x500000ull /* in the second half of one vRegion, and the next */
#define PAGES 400u

/*
 * Words are written and read in a cache that holds a part of them, ranges go and come back, owners
 * give frames other contents: by reads or by requests, each word is the last one written.
 */
static void newest(struct ktest *t, bool ahead)
{
	const struct vma v = { .start = BASE,
			       .end = BASE + PAGES * PAGE_SIZE,
			       .prot = VMA_PROT_READ | VMA_PROT_WRITE };
	static uint64_t want[PAGES];
	struct fake_counts c;
	struct aspace *as;
	struct prng rng;
	uint32_t at = 0;

	fake_cache();
	fake_reset();
	fake_places(true);
	fake_ahead(ahead);
	fake_ahead_timeout_every(ahead ? 37 : 0);
	prng_seed(&rng, 20261128);
	memset(want, 0, sizeof(want));
	as = aspace_create(0x10001, 1);
	ASSERT_FALSE(t, IS_ERR(as));
	as->anon->vregion_size = FAKE_VREGION_SIZE;
	ASSERT_EQ(t, aspace_set_vma(as, &v, SEQ_ANY), 0);
	for (uint32_t i = 0; i < 20000 && !t->nr_failed; i++) {
		const bool walks = ahead && prng_below(&rng, 16);
		const uint32_t page = walks ? (at + 1) % PAGES : (uint32_t)prng_below(&rng, PAGES);
		const bool write = prng_below(&rng, 2);
		uint64_t word = write ? i + 1 : ~0ull;

		at = page;
		ASSERT_EQ(t, user_word(as, BASE, page, &word, write), 0);
		if (write)
			want[page] = word;
		EXPECT_EQ(t, word, want[page]);
		if (i % 500 == 499) {
			const uint64_t first = (BASE >> PAGE_SHIFT) + page;
			const uint64_t end = MIN(first + 20, (BASE >> PAGE_SHIFT) + PAGES);

			excache_drop(as->anon, first, end);
			object_clear_stored(as->anon, first, end);
			fake_drop(as->anon->id, first << PAGE_SHIFT, (end - first) << PAGE_SHIFT);
			memset(&want[page], 0, (end - first) * sizeof(want[0]));
		}
		if (i % 700 == 699)
			fake_recall(1 + i / 700 % FAKE_NODES, i / 700 % 2);
		fake_read_fail_every(i / 4000 % 2 ? 7 : 0);
	}
	fake_counts(&c);
	if (ahead) {
		EXPECT_GT(t, c.ahead_reads, 300);
		EXPECT_GT(t, c.ahead_pages, 3000);
	} else {
		EXPECT_GT(t, c.reads, 2000);
		EXPECT_GT(t, c.fetches, c.reads_failed);
	}
	EXPECT_GT(t, c.reads_failed, 100);
	aspace_put(as);
	fake_settle();
	EXPECT_EQ(t, excache_free_count(), excache_line_count());
}

static void reads_bring_the_newest(struct ktest *t)
{
	newest(t, false);
}

static void reads_ahead_too(struct ktest *t)
{
	newest(t, true);
}

/* The last frame that a word can name has none behind it. */
static void the_next_extent_is_no_neighbour(struct ktest *t)
{
	EXPECT_TRUE(t, place_follows(1ull << 32 | 7, 1ull << 32 | 8));
	EXPECT_FALSE(t, place_follows(1ull << 32 | 7, 1ull << 32 | 9));
	EXPECT_FALSE(t, place_follows(1ull << 32 | UINT32_MAX, 2ull << 32));
}

static const struct ktest_case cases[] = {
	KTEST(a_place_is_what_was_told),
	KTEST(what_is_revoked_stays_so),
	KTEST(the_dead_are_not_kept),
	KTEST(the_dead_do_not_hide_the_living),
	KTEST(reads_end_before_the_answer),
	KTEST(an_owner_cannot_fill_the_heap),
	KTEST(what_fails_is_left),
	KTEST(maps_are_charged),
	KTEST(maps_are_bounded),
	KTEST(reads_bring_the_newest),
	KTEST(reads_ahead_too),
	KTEST(the_next_extent_is_no_neighbour),
	{ 0 },
};
static const struct ktest_suite suite = { .name = "excache.places", .cases = cases };
KTEST_SUITE(suite);
