/* SPDX-License-Identifier: MIT */
/*
 * ExCache on the host: contents survive eviction, riding victims, batched write-back, timeouts
 * with late data, moving owners and range drops, under several threads; credits and lines are all
 * accounted for at the end.
 */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include <kernel/counter.h>
#include <kernel/thread.h>
#include <lib/err.h>
#include <lib/ktest.h>
#include <mm/kmap.h>
#include <processor/excache/cache_private.h>
#include <processor/excache/credit.h>
#include <processor/excache/excache.h>
#include <processor/excache/object.h>
#include <processor/excache/usage.h>
#include <processor/mm/aspace.h>
#include <proto/pm.h>
#include <shim/pgtable.h>
#include <shim/shim.h>

#include "fake_owner.h"
#include "user_word.h"

#define BASE  0x400000ull /* vRegion 2 of 2 MiB */
#define LINES 128         /* 16 sets of 8 */

extern unsigned int fake_kills;

static bool cache_start(struct ktest *t)
{
	fake_cache();
	fake_reset();
	return t->nr_failed == 0;
}

static struct aspace *make_space(uint64_t pages)
{
	static uint64_t next_id = 1;
	const struct vma v = { .start = BASE,
			       .end = BASE + pages * PAGE_SIZE,
			       .prot = VMA_PROT_READ | VMA_PROT_WRITE };
	struct aspace *as = aspace_create(next_id++, 1);

	if (IS_ERR(as))
		abort();
	as->anon->vregion_size = FAKE_VREGION_SIZE;
	if (aspace_set_vma(as, &v, SEQ_ANY))
		abort();
	return as;
}

static void space_destroy(struct ktest *t, struct aspace *as)
{
	aspace_put(as);
	fake_settle();
	EXPECT_EQ(t, excache_free_count(), excache_line_count());
	EXPECT_EQ(t, object_stored_count(OBJECT_ANON), 0u);
}

static void first_touch_sends_nothing(struct ktest *t)
{
	struct fake_counts c;
	struct aspace *as;
	uint64_t v;

	ASSERT_TRUE(t, cache_start(t));
	as = make_space(64);
	for (uint64_t i = 0; i < 64; i++) {
		v = ~0ull;
		ASSERT_EQ(t, user_word(as, BASE, i, &v, false), 0);
		EXPECT_EQ(t, v, 0u);
	}
	fake_counts(&c);
	EXPECT_EQ(t, c.fetches, 0u);
	EXPECT_EQ(t, c.writeback_msgs, 0u);
	EXPECT_LE(t, c.credit_requests, 1u);
	space_destroy(t, as);
}

/* All in one pass, or nothing: the slow path afterwards finds things as they were. */
static void first_touch_is_all_or_nothing(struct ktest *t)
{
	struct pgtable_entry e;
	struct touch touch;
	struct aspace *as;
	uint64_t held, nr_free, v = 7;

	ASSERT_TRUE(t, cache_start(t));
	as = make_space(4);
	EXPECT_EQ(t, aspace_touch_begin(as, BASE + 4 * PAGE_SIZE, FAULT_ACC_READ).prot, 0u);
	EXPECT_EQ(t, aspace_touch_begin(as, BASE, FAULT_ACC_EXEC).prot, 0u);
	/* The owner and a credit are at hand from here on. */
	ASSERT_EQ(t, user_word(as, BASE, 3, &v, true), 0);
	held = credit_held();
	nr_free = excache_free_count();
	touch = aspace_touch_begin(as, BASE, FAULT_ACC_WRITE);
	ASSERT_EQ(t, touch.prot, (uint32_t)(VMA_PROT_READ | VMA_PROT_WRITE));
	EXPECT_FALSE(t, excache_touch(as, BASE, touch.prot, touch.seq + 1));
	EXPECT_EQ(t, credit_held(), held);
	EXPECT_EQ(t, excache_free_count(), nr_free);
	EXPECT_TRUE(t, excache_touch(as, BASE, touch.prot, touch.seq));
	EXPECT_TRUE(t, pgtable_query(as->pt, BASE, &e) && e.prot == (PGT_READ | PGT_WRITE));
	EXPECT_FALSE(t, excache_touch(as, BASE, touch.prot, touch.seq));
	EXPECT_EQ(t, credit_held(), held - 1);
	EXPECT_EQ(t, excache_free_count(), nr_free - 1);
	/* A page that the owner has is not zero. */
	ASSERT_EQ(t, object_set_stored(as->anon, (BASE >> PAGE_SHIFT) + 1, PLACE_NONE), 0);
	EXPECT_FALSE(t, excache_touch(as, BASE + PAGE_SIZE, touch.prot, touch.seq));
	object_clear_stored(as->anon, BASE >> PAGE_SHIFT, (BASE >> PAGE_SHIFT) + 4);
	EXPECT_TRUE(t, excache_touch(as, BASE + PAGE_SIZE, touch.prot, touch.seq));
	aspace_fault_end(as);
	space_destroy(t, as);
	EXPECT_EQ(t, credit_held(), held + 1);
}

/* Lines of a range that goes away share TLB flushes and are free afterwards. */
static void dropped_lines_share_flushes(struct ktest *t)
{
	struct blocked_range r;
	struct pgtable_entry e;
	unsigned int flushes;
	struct aspace *as;
	uint64_t v = 1;

	ASSERT_TRUE(t, cache_start(t));
	as = make_space(100);
	for (uint64_t i = 0; i < 100; i++)
		ASSERT_EQ(t, user_word(as, BASE, i, &v, true), 0);
	flushes = shim_nr_tlb_flushes;
	aspace_block(as, &r, BASE, BASE + 99 * PAGE_SIZE);
	excache_drop_top(as, BASE >> PAGE_SHIFT, (BASE >> PAGE_SHIFT) + 99);
	EXPECT_LE(t, shim_nr_tlb_flushes - flushes, 2u);
	EXPECT_EQ(t, excache_free_count(), excache_line_count() - 1);
	for (uint64_t i = 0; i < 99; i++)
		EXPECT_FALSE(t, pgtable_query(as->pt, BASE + i * PAGE_SIZE, &e));
	EXPECT_TRUE(t, pgtable_query(as->pt, BASE + 99 * PAGE_SIZE, &e));
	aspace_unblock(as, &r);
	space_destroy(t, as);
}

/* @pages written and read back, several times what fits; what the owner saw in *c. */
static void sweep(struct ktest *t, uint64_t pages, unsigned int rounds, struct fake_counts *c)
{
	struct aspace *as = make_space(pages);
	uint64_t v;

	for (unsigned int r = 1; r <= rounds; r++) {
		for (uint64_t i = 0; i < pages; i++) {
			v = i * 1000 + r;
			ASSERT_EQ(t, user_word(as, BASE, i, &v, true), 0);
		}
		for (uint64_t i = 0; i < pages; i++) {
			ASSERT_EQ(t, user_word(as, BASE, i, &v, false), 0);
			EXPECT_EQ(t, v, i * 1000 + r);
		}
	}
	fake_counts(c);
	space_destroy(t, as);
}

static void evicted_pages_come_back(struct ktest *t)
{
	struct fake_counts c;

	ASSERT_TRUE(t, cache_start(t));
	sweep(t, 400, 2, &c);
	EXPECT_GT(t, c.fetches, 400u);
	EXPECT_GE(t, c.writeback_pages + c.rides, 400u);
	/* Victims that do not ride share messages. */
	EXPECT_LT(t, c.writeback_msgs, c.writeback_pages);
	EXPECT_GT(t, c.rides, 0u);
	EXPECT_EQ(t, c.stale, 0u);
}

static void owners_alternate_over_regions(struct ktest *t)
{
	struct fake_counts c;

	ASSERT_TRUE(t, cache_start(t));
	sweep(t, 1600, 1, &c); /* more than three vRegions of 512 pages */
	EXPECT_EQ(t, c.redirects, 0u);
	EXPECT_GT(t, c.fetches, 0u);
}

static void redirected_owner_is_asked_once(struct ktest *t)
{
	struct fake_counts c;
	struct aspace *as;
	uint64_t v, word;

	ASSERT_TRUE(t, cache_start(t));
	as = make_space(16);
	for (uint64_t i = 0; i < 16; i++) {
		v = i + 7;
		ASSERT_EQ(t, user_word(as, BASE, i, &v, true), 0);
	}
	ASSERT_EQ(t, excache_flush(as->anon, 0, UINT64_MAX), 0);
	EXPECT_TRUE(t, fake_stored(aspace_id(as), BASE, &word));
	EXPECT_EQ(t, word, 7u);
	fake_move(BASE / FAKE_VREGION_SIZE, 2);
	for (uint64_t i = 0; i < 16; i++) {
		ASSERT_EQ(t, user_word(as, BASE, i, &v, false), 0);
		EXPECT_EQ(t, v, i + 7);
	}
	fake_counts(&c);
	EXPECT_EQ(t, c.redirects, 1u);
	EXPECT_EQ(t, c.fetches, 17u);
	space_destroy(t, as);
}

/* Another thread hears of a move, and then that it must ask the home. */
static void overtake(void *arg)
{
	const uint64_t index = BASE / FAKE_VREGION_SIZE;
	const struct vregion v = { .owner = 2, .version = 2 };
	struct aspace *as = arg;

	fake_move(index, v.owner);
	if (object_set_vregion(as->anon, index, &v) ||
	    object_redirected(as->anon, BASE >> PAGE_SHIFT, NULL, 0, 0))
		abort();
}

/*
 * The home's answer is out of date when it comes, and the copy knows no owner: that says nothing
 * about whether there is one.
 */
static void an_overtaken_answer_still_names_an_owner(struct ktest *t)
{
	struct aspace *as;
	uint64_t v = 7, word;

	ASSERT_TRUE(t, cache_start(t));
	fake_kills = 0;
	as = make_space(2);
	ASSERT_EQ(t, user_word(as, BASE, 0, &v, true), 0);
	ASSERT_EQ(t, excache_flush(as->anon, 0, UINT64_MAX), 0);
	EXPECT_EQ(t, object_redirected(as->anon, BASE >> PAGE_SHIFT, NULL, 0, 0), 0);
	fake_before_vregions(overtake, as);
	EXPECT_EQ(t, user_word(as, BASE, 0, &v, false), 0);
	EXPECT_EQ(t, v, 7u);
	space_destroy(t, as);

	/* The write-back thread asks in the same way, and loses nothing. */
	ASSERT_TRUE(t, cache_start(t));
	as = make_space(2);
	v = 8;
	ASSERT_EQ(t, user_word(as, BASE, 0, &v, true), 0);
	EXPECT_EQ(t, object_redirected(as->anon, BASE >> PAGE_SHIFT, NULL, 0, 0), 0);
	fake_before_vregions(overtake, as);
	ASSERT_EQ(t, excache_flush(as->anon, 0, UINT64_MAX), 0);
	EXPECT_TRUE(t, fake_stored(aspace_id(as), BASE, &word));
	EXPECT_EQ(t, user_word(as, BASE, 0, &v, false), 0);
	EXPECT_EQ(t, v, 8u);
	EXPECT_EQ(t, fake_kills, 0u);
	space_destroy(t, as);
}

static void late_data_never_lands_in_a_reused_line(struct ktest *t)
{
	struct fake_counts c;
	struct aspace *as;
	uint64_t v, nr_failed = 0;

	ASSERT_TRUE(t, cache_start(t));
	as = make_space(300);
	for (uint64_t i = 0; i < 300; i++) {
		v = i ^ 0x5555;
		ASSERT_EQ(t, user_word(as, BASE, i, &v, true), 0);
	}
	fake_timeout_every(5);
	for (uint64_t i = 0; i < 300; i++) {
		int err = user_word(as, BASE, i, &v, false);

		if (err) {
			EXPECT_EQ(t, err, -ETIMEDOUT);
			nr_failed++;
			continue;
		}
		EXPECT_EQ(t, v, i ^ 0x5555);
	}
	fake_timeout_every(0);
	fake_quiesce();
	/*
	 * Backwards: the pages that are still in the cache, which late data might have hit, come
	 * first.
	 */
	for (uint64_t i = 300; i-- > 0;) {
		ASSERT_EQ(t, user_word(as, BASE, i, &v, false), 0);
		EXPECT_EQ(t, v, i ^ 0x5555);
	}
	fake_counts(&c);
	EXPECT_GT(t, nr_failed, 0u);
	EXPECT_EQ(t, c.late, nr_failed);
	space_destroy(t, as);
}

static void dropped_range_reads_zero(struct ktest *t)
{
	struct blocked_range r;
	struct aspace *as;
	uint64_t v;

	ASSERT_TRUE(t, cache_start(t));
	as = make_space(40);
	for (uint64_t i = 0; i < 40; i++) {
		v = i + 1;
		ASSERT_EQ(t, user_word(as, BASE, i, &v, true), 0);
	}
	aspace_block(as, &r, BASE, BASE + 20 * PAGE_SIZE);
	aspace_unmap_range(as, BASE, BASE + 20 * PAGE_SIZE);
	excache_drop(as->anon, BASE >> PAGE_SHIFT, (BASE >> PAGE_SHIFT) + 20);
	object_clear_stored(as->anon, BASE >> PAGE_SHIFT, (BASE >> PAGE_SHIFT) + 20);
	aspace_unblock(as, &r);
	for (uint64_t i = 0; i < 40; i++) {
		ASSERT_EQ(t, user_word(as, BASE, i, &v, false), 0);
		EXPECT_EQ(t, v, i < 20 ? 0 : i + 1);
	}
	space_destroy(t, as);
}

static void credits_are_given_back(struct ktest *t)
{
	struct aspace *as;
	uint64_t before, v = 1;

	ASSERT_TRUE(t, cache_start(t));
	as = make_space(32);
	ASSERT_EQ(t, user_word(as, BASE, 0, &v, true), 0);
	before = credit_held();
	for (uint64_t i = 1; i < 32; i++)
		ASSERT_EQ(t, user_word(as, BASE, i, &v, true), 0);
	EXPECT_EQ(t, credit_held(), before - 31);
	space_destroy(t, as);
	EXPECT_EQ(t, credit_held(), before + 1);
}

static void excess_credits_go_back(struct ktest *t)
{
	struct aspace *as;

	ASSERT_TRUE(t, cache_start(t));
	/*
	 * No report is due: one between these grants would make them void, and one that is under
	 * way at the end would put off, for a second, what is told then.
	 */
	fake_settle();
	credit_reconcile();
	as = make_space(1);
	ASSERT_EQ(t, user_word(as, BASE, 0, &(uint64_t){ 1 }, true), 0);
	for (unsigned int i = 0; i < 10; i++)
		credit_add(&(struct granted){ 3, 1000, credit_hint(3)->report });
	EXPECT_GE(t, credit_held(), 10000u);
	space_destroy(t, as);
	EXPECT_LE(t, credit_held(), 2048u * FAKE_NODES);
	fake_quiesce();
	EXPECT_EQ(t, credit_total(), fake_promised());
}

static void rights_are_checked(struct ktest *t)
{
	struct aspace *as;
	uint64_t v = 1;

	ASSERT_TRUE(t, cache_start(t));
	as = make_space(2);
	EXPECT_EQ(t, aspace_fault(as, BASE + 2 * PAGE_SIZE, FAULT_ACC_READ), -EFAULT);
	EXPECT_EQ(t, aspace_fault(as, BASE, FAULT_ACC_EXEC), -EACCES);
	EXPECT_EQ(t, aspace_fault(as, 0xffff888000000000ull, FAULT_ACC_READ), -EFAULT);
	aspace_protect_vmas(as, BASE, BASE + PAGE_SIZE, VMA_PROT_READ);
	EXPECT_EQ(t, user_word(as, BASE, 0, &v, true), -EACCES);
	EXPECT_EQ(t, user_word(as, BASE, 1, &v, true), 0);
	space_destroy(t, as);
}

/* --- several threads ----------------------------------------------------------------- */

#define NR_THREADS 6
#define PAGES_EACH 120

struct worker {
	struct aspace *as;
	unsigned int id;
	unsigned int nr_bad;
	uint64_t round;
};

static void *work(void *arg)
{
	struct worker *w = arg;
	uint64_t expect[PAGES_EACH] = { 0 };
	unsigned int seed = w->id * 7919 + 1;

	for (unsigned int n = 0; n < 6000; n++) {
		const uint64_t i = (uint64_t)rand_r(&seed) % PAGES_EACH;
		const uint64_t page = i * NR_THREADS + w->id;
		uint64_t v;

		if (rand_r(&seed) & 1) {
			v = (uint64_t)n << 8 | w->id;
			w->nr_bad += user_word(w->as, BASE, page, &v, true) != 0;
			expect[i] = v;
		} else {
			w->nr_bad += user_word(w->as, BASE, page, &v, false) != 0 || v != expect[i];
		}
	}
	return NULL;
}

static void threads_see_their_own_data(struct ktest *t)
{
	struct worker w[NR_THREADS];
	pthread_t threads[NR_THREADS];
	struct aspace *as;

	ASSERT_TRUE(t, cache_start(t));
	fake_delay_us(200);
	as = make_space(PAGES_EACH * NR_THREADS);
	for (unsigned int i = 0; i < NR_THREADS; i++) {
		w[i] = (struct worker){ .as = as, .id = i };
		ASSERT_EQ(t, pthread_create(&threads[i], NULL, work, &w[i]), 0);
	}
	for (unsigned int i = 0; i < NR_THREADS; i++) {
		pthread_join(threads[i], NULL);
		EXPECT_EQ(t, w[i].nr_bad, 0u);
	}
	EXPECT_EQ(t, fake_kills, 0u);
	space_destroy(t, as);
}

/* --- frames -------------------------------------------------------------------------- */

/* One set takes every spare frame; the others must still be able to turn their lines over. */
static void threads_see_their_own_data_under_clock(struct ktest *t)
{
	ASSERT_TRUE(t, cache_start(t));
	excache.policy = policy_find("clock");
	threads_see_their_own_data(t);
	excache.policy = policy_find("fifo");
}

static void a_set_that_has_grown_starves_nobody(struct ktest *t)
{
	struct line *lines[LINES / 8 * 8];
	const uint64_t nr_sets = 16, ways = 8, spare = 32;
	struct aspace *as;
	uint64_t v;

	ASSERT_TRUE(t, cache_start(t));
	as = make_space(16 * 64);
	for (uint64_t i = 0; i < ways + spare; i++)
		ASSERT_EQ(t,
			  excache_get(as->anon, (BASE >> PAGE_SHIFT) + i * nr_sets, EXCACHE_ZERO,
				      &lines[i]),
			  0);
	thread_current()->nr_pins = 0; /* from here on we are other threads, which fault */
	for (uint64_t i = 0; i < nr_sets * ways; i++) {
		v = i + 1;
		if (i % nr_sets)
			ASSERT_EQ(t, user_word(as, BASE, i, &v, true), 0);
	}
	EXPECT_EQ(t, excache_free_count(), 0u);
	thread_current()->nr_pins = (unsigned int)(ways + spare);
	for (uint64_t i = 0; i < ways + spare; i++)
		excache_put(lines[i]);
	for (uint64_t i = 0; i < nr_sets * 64; i++) {
		v = i + 5;
		if (i % nr_sets)
			ASSERT_EQ(t, user_word(as, BASE, i, &v, true), 0);
	}
	for (uint64_t i = 0; i < nr_sets * 64; i++) {
		ASSERT_EQ(t, user_word(as, BASE, i, &v, false), 0);
		EXPECT_EQ(t, v, i % nr_sets ? i + 5 : 0);
	}
	/* The set that had grown is as small as the others again. */
	EXPECT_GT(t, excache_free_count(), 0u);
	space_destroy(t, as);
}

static void write_back_without_answer_is_sent_again(struct ktest *t)
{
	struct fake_counts c;

	ASSERT_TRUE(t, cache_start(t));
	fake_kills = 0;
	fake_writeback_timeout_every(3);
	sweep(t, 400, 2, &c);
	EXPECT_GT(t, c.late, 0u);
	EXPECT_EQ(t, fake_kills, 0u);
}

/*
 * An owner that has dropped the region, or maps nothing there, cannot know why: a range that this
 * processor unmaps has no line any more when its owners hear of it. So the page is lost.
 */
static void a_page_unknown_to_its_owner_is_lost(struct ktest *t)
{
	static const int answers[] = { -EFAULT, -ESRCH };
	struct aspace *as;

	for (size_t i = 0; i < ARRAY_SIZE(answers); i++) {
		uint64_t v = 1;

		ASSERT_TRUE(t, cache_start(t));
		fake_kills = 0;
		as = make_space(4);
		ASSERT_EQ(t, user_word(as, BASE, 0, &v, true), 0);
		fake_refuse(BASE, answers[i]);
		EXPECT_EQ(t, excache_flush(as->anon, 0, UINT64_MAX), answers[i]);
		EXPECT_EQ(t, fake_kills, 1u);
		/* Not zeroes. */
		EXPECT_EQ(t, user_word(as, BASE, 0, &v, false), -ENOMEM);
		fake_refuse(0, 0);
		space_destroy(t, as);
	}
}

/* Nothing is mapped there, says a home that has the space; without it, all is lost. */
static void an_owner_without_the_space_is_not_believed(struct ktest *t)
{
	struct aspace *as;

	ASSERT_TRUE(t, cache_start(t));
	fake_kills = 0;
	as = make_space(4);
	fake_fail(PM_FILL_VMA, -ESRCH);
	EXPECT_EQ(t, aspace_fault(as, BASE + 8 * PAGE_SIZE, FAULT_ACC_READ), -EFAULT);
	EXPECT_EQ(t, fake_kills, 0u);
	fake_fail(PM_FILL_VMA, -ESRCH);
	fake_fail(PM_VREGIONS, -EHOSTDOWN);
	EXPECT_EQ(t, aspace_fault(as, BASE + 8 * PAGE_SIZE, FAULT_ACC_READ), -EHOSTDOWN);
	EXPECT_EQ(t, fake_kills, 1u);
	space_destroy(t, as);
}

static void refused_page_kills_its_program(struct ktest *t)
{
	struct fake_counts c;
	struct aspace *as;
	uint64_t v = 1;

	ASSERT_TRUE(t, cache_start(t));
	fake_kills = 0;
	as = make_space(300);
	fake_refuse(BASE + 10 * PAGE_SIZE, -EIO);
	for (uint64_t i = 0; i < 300; i++)
		(void)user_word(as, BASE, i, &v, true);
	EXPECT_EQ(t, excache_flush(as->anon, 0, UINT64_MAX), -EIO);
	EXPECT_EQ(t, fake_kills, 1u);
	fake_counts(&c);
	EXPECT_GT(t, c.refused, 0u);
	fake_refuse(0, 0);
	space_destroy(t, as);
}

/* A victim that is refused while it rides goes by itself, and then is lost like any other. */
static void refused_rider_is_settled(struct ktest *t)
{
	struct fake_counts c;
	struct aspace *as;
	uint64_t v;

	ASSERT_TRUE(t, cache_start(t));
	as = make_space(500);
	for (uint64_t i = 0; i < 250; i++) {
		v = i;
		ASSERT_EQ(t, user_word(as, BASE, i, &v, true), 0);
	}
	ASSERT_EQ(t, excache_flush(as->anon, 0, UINT64_MAX), 0);
	for (uint64_t i = 250; i < 500; i++) {
		v = i;
		ASSERT_EQ(t, user_word(as, BASE, i, &v, true), 0);
	}
	fake_kills = 0;
	fake_refuse(BASE + 250 * PAGE_SIZE, -EROFS);
	for (uint64_t i = 0; i < 250 && user_word(as, BASE, i, &v, false) == 0; i++)
		EXPECT_EQ(t, v, i);
	EXPECT_EQ(t, excache_flush(as->anon, 0, UINT64_MAX), -EROFS);
	EXPECT_EQ(t, fake_kills, 1u);
	fake_counts(&c);
	EXPECT_GT(t, c.rides, 0u);
	EXPECT_GT(t, c.refused, 0u);
	fake_refuse(0, 0);
	space_destroy(t, as);
}

static void exhausted_credits_answer_enomem(struct ktest *t)
{
	struct aspace *as;
	uint64_t held, v = 1;
	unsigned int n = 0;
	int err = 0;

	ASSERT_TRUE(t, cache_start(t));
	as = make_space(6000);
	fake_frames(0);
	held = credit_held();
	while (!err && n < 6000)
		err = user_word(as, BASE, n++, &v, true);
	EXPECT_EQ(t, err, -ENOMEM);
	EXPECT_LE(t, n - 1, held);
	fake_frames(UINT32_MAX);
	space_destroy(t, as);
}

/* A node that makes room is asked again as long as it says so; a killed thread does not wait. */
static void a_node_that_makes_room_is_asked_again(struct ktest *t)
{
	struct fake_counts before, after;

	ASSERT_TRUE(t, cache_start(t));
	(void)credit_recall(1);
	fake_counts(&before);
	fake_fail_times(PM_CREDIT, -EAGAIN, 3, false);
	EXPECT_EQ(t, credit_take(1), 0);
	fake_counts(&after);
	EXPECT_EQ(t, after.credit_requests - before.credit_requests, 1u);
	credit_put(1);
	EXPECT_TRUE(t, credit_recall(1));
	EXPECT_FALSE(t, credit_recall(1));
	fake_fail_times(PM_CREDIT, -EAGAIN, 1000000, false);
	thread_notify(thread_current(), THREAD_F_KILL);
	EXPECT_EQ(t, credit_take(1), -EINTR);
	thread_clear_flags(thread_current(), THREAD_F_KILL);
	fake_fail_times(PM_CREDIT, 0, 0, false);
	EXPECT_EQ(t, credit_take(1), 0);
	credit_put(1);
}

/* A killed thread does not wait for its page; the frame is set aside until the page has come. */
static void a_kill_ends_the_wait_for_a_fetch(struct ktest *t)
{
	unsigned int nr_killed = 0;
	struct aspace *as;
	uint64_t v;

	ASSERT_TRUE(t, cache_start(t));
	as = make_space(20);
	for (uint64_t i = 0; i < 20; i++) {
		v = i + 3;
		ASSERT_EQ(t, user_word(as, BASE, i, &v, true), 0);
	}
	ASSERT_EQ(t, excache_flush(as->anon, 0, UINT64_MAX), 0);
	fake_delay_us(20000);
	thread_notify(thread_current(), THREAD_F_KILL);
	for (uint64_t i = 0; i < 20; i++) {
		const int err = user_word(as, BASE, i, &v, false);

		EXPECT_TRUE(t, err == 0 || err == -EINTR);
		nr_killed += err == -EINTR;
	}
	thread_clear_flags(thread_current(), THREAD_F_KILL);
	EXPECT_GT(t, nr_killed, 0u);
	fake_delay_us(0);
	for (uint64_t i = 0; i < 20; i++) {
		ASSERT_EQ(t, user_word(as, BASE, i, &v, false), 0);
		EXPECT_EQ(t, v, i + 3);
	}
	space_destroy(t, as);
}

/* --- one silent node ----------------------------------------------------------------- */

struct flusher {
	struct aspace *as;
	int err;
	bool done; /* atomic */
	pthread_t thread;
};

static void *flush_all(void *arg)
{
	struct flusher *f = arg;

	f->err = excache_flush(f->as->anon, 0, UINT64_MAX);
	__atomic_store_n(&f->done, true, __ATOMIC_RELEASE);
	return NULL;
}

static void flusher_start(struct ktest *t, struct flusher *f, vaddr_t base)
{
	uint64_t v = 3;

	*f = (struct flusher){ .as = make_space(2048) };
	EXPECT_EQ(t, user_word(f->as, base, 0, &v, true), 0);
}

/* Within 5 seconds. */
static bool flusher_is_done(const struct flusher *f)
{
	for (unsigned int n = 0; n < 5000 && !__atomic_load_n(&f->done, __ATOMIC_ACQUIRE); n++)
		thread_sleep_ns(1000000);
	return f->done;
}

/* Dirty pages of one owner, or of a space whose home is asked, do not hold up those of others. */
static void a_silent_node_holds_up_its_own_pages_only(struct ktest *t)
{
	enum {
		SILENT = 2,
		NR = 40 /* a message each: more than there are */
	};
	const vaddr_t silent = 4 * FAKE_VREGION_SIZE, other = 3 * FAKE_VREGION_SIZE;
	struct flusher f[NR], last;

	ASSERT_TRUE(t, cache_start(t));
	for (unsigned int i = 0; i < NR; i++)
		flusher_start(t, &f[i], silent);
	flusher_start(t, &last, other);
	f[0].as->anon->home = SILENT;
	EXPECT_EQ(t, object_redirected(f[0].as->anon, silent >> PAGE_SHIFT, NULL, 0, 0), 0);
	fake_silence(SILENT, FAKE_ALL);
	for (unsigned int i = 0; i < NR; i++)
		ASSERT_EQ(t, pthread_create(&f[i].thread, NULL, flush_all, &f[i]), 0);
	thread_sleep_ns(50000000);
	ASSERT_EQ(t, pthread_create(&last.thread, NULL, flush_all, &last), 0);
	EXPECT_TRUE(t, flusher_is_done(&last));
	EXPECT_FALSE(t, __atomic_load_n(&f[0].done, __ATOMIC_ACQUIRE));
	fake_speak();
	for (unsigned int i = 0; i < NR; i++) {
		pthread_join(f[i].thread, NULL);
		EXPECT_EQ(t, f[i].err, 0);
		aspace_put(f[i].as);
	}
	pthread_join(last.thread, NULL);
	EXPECT_EQ(t, last.err, 0);
	space_destroy(t, last.as);
}

/* --- files --------------------------------------------------------------------------- */

#define FILE_BASE  0x6000000ull
#define FILE_PAGES 20

static struct object *map_file(struct ktest *t, struct aspace *as, uint64_t pages, uint64_t bytes)
{
	static uint64_t next_ino = 100;
	const struct file_attr attr = { .file = { .ino = next_ino++, .node = 9 },
					.version = 1,
					.size = FILE_PAGES * PAGE_SIZE };
	struct object *obj = object_file_get(&attr);
	const struct vma v = { .start = FILE_BASE,
			       .end = FILE_BASE + pages * PAGE_SIZE,
			       .prot = VMA_PROT_READ | VMA_PROT_WRITE,
			       .flags = VMA_FILE,
			       .file = obj,
			       .file_bytes = bytes };

	if (IS_ERR(obj))
		abort();
	EXPECT_EQ(t, aspace_set_vma(as, &v, SEQ_ANY), 0);
	return obj;
}

static int file_word(struct aspace *as, uint64_t off, uint64_t *val, bool write)
{
	const vaddr_t page = FILE_BASE + (off & ~(PAGE_SIZE - 1ull));

	for (;;) {
		struct pgtable_entry e;
		int err;

		spin_lock(&as->lock);
		if (pgtable_query(as->pt, page, &e) && shim_pgtable_touch(as->pt, page, write)) {
			uint64_t *word = (uint64_t *)((uint8_t *)phys_to_virt(e.paddr) +
						      (off & (PAGE_SIZE - 1)));

			if (write)
				*word = *val;
			else
				*val = *word;
			spin_unlock(&as->lock);
			return 0;
		}
		spin_unlock(&as->lock);
		err = aspace_fault(as, page, write ? FAULT_ACC_WRITE : FAULT_ACC_READ);
		if (err)
			return err;
	}
}

static void private_file_page_is_copied_on_write(struct ktest *t)
{
	struct fake_counts c;
	struct object *obj;
	struct aspace *as;
	struct line *line;
	uint64_t v;

	ASSERT_TRUE(t, cache_start(t));
	fake_file(FILE_PAGES, UINT64_MAX);
	as = make_space(1);
	/* The mapping shows two pages and a half; behind them it is zero. */
	obj = map_file(t, as, 4, 2 * PAGE_SIZE + 2048);
	ASSERT_EQ(t, file_word(as, PAGE_SIZE + 8, &v, false), 0);
	EXPECT_EQ(t, v, PAGE_SIZE + 8);
	v = 77;
	ASSERT_EQ(t, file_word(as, PAGE_SIZE + 8, &v, true), 0);
	ASSERT_EQ(t, file_word(as, PAGE_SIZE + 16, &v, false), 0);
	EXPECT_EQ(t, v, PAGE_SIZE + 16);
	ASSERT_EQ(t, file_word(as, PAGE_SIZE + 8, &v, false), 0);
	EXPECT_EQ(t, v, 77u);
	ASSERT_EQ(t, file_word(as, 2 * PAGE_SIZE + 2040, &v, false), 0);
	EXPECT_EQ(t, v, 2 * PAGE_SIZE + 2040);
	ASSERT_EQ(t, file_word(as, 2 * PAGE_SIZE + 2048, &v, false), 0);
	EXPECT_EQ(t, v, 0u);
	ASSERT_EQ(t, file_word(as, 3 * PAGE_SIZE, &v, false), 0);
	EXPECT_EQ(t, v, 0u);
	/* The file itself is as it was. */
	ASSERT_EQ(t, excache_get(obj, 1, EXCACHE_FETCH, &line), 0);
	EXPECT_EQ(t, ((uint64_t *)line_data(line))[1], PAGE_SIZE + 8);
	excache_put(line);
	/* The copy survives its eviction. */
	ASSERT_EQ(t, excache_flush(as->anon, 0, UINT64_MAX), 0);
	ASSERT_EQ(t, file_word(as, PAGE_SIZE + 8, &v, false), 0);
	EXPECT_EQ(t, v, 77u);
	fake_quiesce();
	fake_counts(&c);
	EXPECT_LE(t, c.file_fetches, 4u);
	excache_drop(obj, 0, UINT64_MAX);
	object_put(obj);
	space_destroy(t, as);
}

static void file_errors_reach_the_fault(struct ktest *t)
{
	struct object *obj;
	struct aspace *as;
	uint64_t v = 1;

	ASSERT_TRUE(t, cache_start(t));
	fake_file(FILE_PAGES, 5);
	as = make_space(1);
	obj = map_file(t, as, FILE_PAGES + 2, UINT64_MAX);
	EXPECT_EQ(t, file_word(as, 4 * PAGE_SIZE, &v, false), 0);
	EXPECT_EQ(t, file_word(as, 5 * PAGE_SIZE, &v, false), -EIO);
	EXPECT_EQ(t, file_word(as, 5 * PAGE_SIZE, &v, true), -EIO);
	EXPECT_EQ(t, file_word(as, 6 * PAGE_SIZE, &v, false), 0);
	EXPECT_EQ(t, v, 6 * PAGE_SIZE);
	EXPECT_EQ(t, file_word(as, FILE_PAGES * PAGE_SIZE, &v, false), -EIO);
	excache_drop(obj, 0, UINT64_MAX);
	object_put(obj);
	space_destroy(t, as);
}

/* A shared mapping of a file can never make the file's line dirty, whatever the vma claims. */
static void shared_file_line_is_never_writable(struct ktest *t)
{
	struct object *obj;
	struct aspace *as;
	struct vma v = { .start = FILE_BASE,
			 .end = FILE_BASE + PAGE_SIZE,
			 .prot = VMA_PROT_READ | VMA_PROT_WRITE,
			 .flags = VMA_FILE | VMA_SHARED,
			 .file_bytes = UINT64_MAX };
	uint64_t word = 1;

	ASSERT_TRUE(t, cache_start(t));
	fake_file(FILE_PAGES, UINT64_MAX);
	as = make_space(1);
	obj = map_file(t, as, 1, UINT64_MAX);
	v.file = obj;
	ASSERT_EQ(t, aspace_set_vma(as, &v, SEQ_ANY), 0);
	EXPECT_EQ(t, file_word(as, 8, &word, false), 0);
	EXPECT_EQ(t, word, 8u);
	EXPECT_EQ(t, file_word(as, 8, &word, true), -EACCES);
	fake_quiesce();
	excache_drop(obj, 0, UINT64_MAX);
	object_put(obj);
	space_destroy(t, as);
}

/* --- ranges that go away under faults ------------------------------------------------ */

static void *touch_all(void *arg)
{
	struct worker *w = arg;
	unsigned int seed = w->id + 3;

	while (!__atomic_load_n(&w->nr_bad, __ATOMIC_RELAXED)) {
		uint64_t v = __atomic_load_n(&w->round, __ATOMIC_ACQUIRE);

		(void)user_word(w->as, BASE, (uint64_t)rand_r(&seed) % 200, &v, true);
	}
	return NULL;
}

/* No data from before a drop is seen after it. */
static void drop_leaves_nothing_behind(struct ktest *t)
{
	static struct worker w[3];
	pthread_t threads[3];
	struct blocked_range r;
	struct aspace *as;

	ASSERT_TRUE(t, cache_start(t));
	fake_delay_us(100);
	as = make_space(200);
	for (unsigned int i = 0; i < 3; i++) {
		w[i] = (struct worker){ .as = as, .id = i, .round = 1 };
		ASSERT_EQ(t, pthread_create(&threads[i], NULL, touch_all, &w[i]), 0);
	}
	for (uint64_t round = 2; round < 60; round++) {
		struct pgtable_entry e;
		struct line *line;

		aspace_block(as, &r, BASE, BASE + 200 * PAGE_SIZE);
		aspace_unmap_range(as, BASE, BASE + 200 * PAGE_SIZE);
		excache_drop(as->anon, BASE >> PAGE_SHIFT, (BASE >> PAGE_SHIFT) + 200);
		object_clear_stored(as->anon, BASE >> PAGE_SHIFT, (BASE >> PAGE_SHIFT) + 200);
		/* Nothing of it is left, and nothing comes back until it is unblocked. */
		for (uint64_t i = 0; i < 200; i++) {
			const uint64_t vpn = (BASE >> PAGE_SHIFT) + i;

			EXPECT_EQ(t, excache_get(as->anon, vpn, EXCACHE_FIND, &line), -ENOENT);
			spin_lock(&as->lock);
			EXPECT_FALSE(t, pgtable_query(as->pt, vpn << PAGE_SHIFT, &e));
			spin_unlock(&as->lock);
		}
		for (unsigned int i = 0; i < 3; i++)
			__atomic_store_n(&w[i].round, round, __ATOMIC_RELEASE);
		aspace_unblock(as, &r);
		if (t->nr_failed)
			break;
	}
	for (unsigned int i = 0; i < 3; i++)
		__atomic_store_n(&w[i].nr_bad, 1, __ATOMIC_RELAXED);
	for (unsigned int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	space_destroy(t, as);
}

/* Sets of pages over several bitmap pages, counted one by one and at once. */
static void pages_are_counted(struct ktest *t)
{
	const uint64_t top = 3ull << PAGE_BITS_SHIFT;
	struct page_bits b;
	uint64_t state = 7;

	page_bits_init(&b);
	for (int i = 0; i < 2000; i++) {
		state = state * 6364136223846793005ull + 1442695040888963407ull;
		/* None in the middle third. */
		EXPECT_EQ(t, page_bits_set(&b, (state >> 40) % (top / 3) + (i & 1) * (top / 3) * 2),
			  0);
	}
	for (int i = 0; i < 300; i++) {
		uint64_t first, end, nr = 0;

		state = state * 6364136223846793005ull + 1442695040888963407ull;
		first = (state >> 40) % top;
		end = first + (state >> 20) % (i & 1 ? 200 : top);
		for (uint64_t p = page_bits_next(&b, first, end); p < end;
		     p = page_bits_next(&b, p + 1, end))
			nr++;
		EXPECT_EQ(t, page_bits_count(&b, first, end), nr);
	}
	EXPECT_EQ(t, page_bits_count(&b, 5, 5), 0);
	EXPECT_EQ(t, page_bits_count(&b, 0, UINT64_MAX), page_bits_count(&b, 0, top));
	EXPECT_EQ(t, b.nr, page_bits_count(&b, 0, top));
	page_bits_clear_range(&b, 100, 20000);
	EXPECT_EQ(t, b.nr, page_bits_count(&b, 0, top));
	page_bits_destroy(&b);
}

static void expect_usage(struct ktest *t, uint64_t dirty, uint64_t writeback, uint64_t anon)
{
	struct memory_usage u;

	memory_usage(&u);
	EXPECT_EQ(t, u.dirty, dirty);
	EXPECT_EQ(t, u.writeback, writeback);
	EXPECT_EQ(t, u.anon, anon);
	EXPECT_EQ(t, u.mapped, 0u);
	EXPECT_EQ(t, u.shared, 0u);
}

static void *ask_usage(void *arg)
{
	struct memory_usage u;

	memory_usage(&u);
	*(uint64_t *)arg = u.anon;
	return NULL;
}

static uint64_t usage_counter(const char *name)
{
	uint64_t v = 0;

	counter_find(name, &v);
	return v;
}

/* One look at a time, which answers all that asked before it began. */
static void one_look_answers_many(struct ktest *t)
{
	uint64_t asked = usage_counter("excache.usage_asked");
	uint64_t scans = usage_counter("excache.usage_scans");
	pthread_t threads[6];
	uint64_t anon[6], v;
	struct aspace *as;

	ASSERT_TRUE(t, cache_start(t));
	as = make_space(40);
	for (uint64_t i = 0; i < 10; i++)
		ASSERT_EQ(t, user_word(as, BASE, i, &v, true), 0);
	spin_lock(&excache.sets[0].lock);
	for (uint32_t i = 0; i < ARRAY_SIZE(threads); i++) {
		ASSERT_EQ(t, pthread_create(&threads[i], NULL, ask_usage, &anon[i]), 0);
		while (usage_counter("excache.usage_asked") < asked + i + 1)
			usleep(1000);
	}
	spin_unlock(&excache.sets[0].lock);
	for (uint32_t i = 0; i < ARRAY_SIZE(threads); i++) {
		pthread_join(threads[i], NULL);
		EXPECT_EQ(t, anon[i], 10);
	}
	EXPECT_LE(t, usage_counter("excache.usage_scans"), scans + 2);
	space_destroy(t, as);
	aspace_drain();
}

/* Read, written, written back, fetched, written again, dropped: each page counts for what it is. */
static void anonymous_pages_are_counted_as_what_they_are(struct ktest *t)
{
	const uint64_t first = BASE >> PAGE_SHIFT;
	struct memory_usage u;
	struct aspace *as;
	uint64_t v;

	ASSERT_TRUE(t, cache_start(t));
	as = make_space(400);
	expect_usage(t, 0, 0, 0);
	for (uint64_t i = 0; i < 40; i++)
		ASSERT_EQ(t, user_word(as, BASE, i, &v, false), 0);
	expect_usage(t, 0, 0, 40);
	for (uint64_t i = 20; i < 60; i++)
		ASSERT_EQ(t, user_word(as, BASE, i, &v, true), 0);
	expect_usage(t, 40, 0, 60);
	/* Those that were only read are dropped; they were zero. */
	ASSERT_EQ(t, excache_flush(as->anon, first, first + 30), 0);
	expect_usage(t, 30, 0, 40);
	for (uint64_t i = 20; i < 30; i++)
		ASSERT_EQ(t, user_word(as, BASE, i, &v, false), 0);
	expect_usage(t, 30, 0, 40);
	for (uint64_t i = 20; i < 25; i++)
		ASSERT_EQ(t, user_word(as, BASE, i, &v, true), 0);
	expect_usage(t, 35, 0, 40);
	/* More than the cache holds. */
	for (uint64_t i = 0; i < 400; i++)
		ASSERT_EQ(t, user_word(as, BASE, i, &v, true), 0);
	memory_usage(&u);
	EXPECT_EQ(t, u.anon, 400u);
	EXPECT_LE(t, u.dirty + u.writeback, excache_line_count());
	EXPECT_GE(t, u.dirty, LINES / 2u);
	fake_quiesce();
	ASSERT_EQ(t, excache_flush(as->anon, 0, UINT64_MAX), 0);
	expect_usage(t, 0, 0, 400);
	space_destroy(t, as);
	aspace_drain();
	expect_usage(t, 0, 0, 0);
}

/* The line of page @pgoff, on its way to its owner: the caller queues it. */
static struct line *begin_writeback(struct ktest *t, struct object *obj, uint64_t pgoff)
{
	struct cache_set *set = &excache.sets[set_index(obj, pgoff)];
	struct line *line;

	spin_lock(&set->lock);
	line = set_find_locked(set, obj, pgoff);
	line_unmap_all_locked(line);
	EXPECT_TRUE(t, writeback_begin(obj, pgoff));
	start_writeback_locked(set, line);
	spin_unlock(&set->lock);
	return line;
}

static void pages_under_way_are_counted(struct ktest *t)
{
	struct line *lines[3];
	struct aspace *as;
	uint64_t v = 5;

	ASSERT_TRUE(t, cache_start(t));
	as = make_space(8);
	for (uint64_t i = 0; i < 8; i++)
		ASSERT_EQ(t, user_word(as, BASE, i, &v, true), 0);
	expect_usage(t, 8, 0, 8);
	for (uint64_t i = 0; i < 3; i++)
		lines[i] = begin_writeback(t, as->anon, (BASE >> PAGE_SHIFT) + i);
	expect_usage(t, 5, 3, 8);
	for (uint64_t i = 0; i < 3; i++)
		writeback_queue(lines[i]);
	ASSERT_EQ(t, excache_flush(as->anon, 0, UINT64_MAX), 0);
	expect_usage(t, 0, 0, 8);
	space_destroy(t, as);
}

static const struct ktest_case cases[] = {
	KTEST(pages_are_counted),
	KTEST(one_look_answers_many),
	KTEST(anonymous_pages_are_counted_as_what_they_are),
	KTEST(pages_under_way_are_counted),
	KTEST(first_touch_sends_nothing),
	KTEST(evicted_pages_come_back),
	KTEST(owners_alternate_over_regions),
	KTEST(redirected_owner_is_asked_once),
	KTEST(an_overtaken_answer_still_names_an_owner),
	KTEST(late_data_never_lands_in_a_reused_line),
	KTEST(dropped_range_reads_zero),
	KTEST(credits_are_given_back),
	KTEST(a_node_that_makes_room_is_asked_again),
	KTEST(excess_credits_go_back),
	KTEST(rights_are_checked),
	KTEST(first_touch_is_all_or_nothing),
	KTEST(dropped_lines_share_flushes),
	KTEST(threads_see_their_own_data),
	KTEST(threads_see_their_own_data_under_clock),
	KTEST(a_set_that_has_grown_starves_nobody),
	KTEST(write_back_without_answer_is_sent_again),
	KTEST(a_silent_node_holds_up_its_own_pages_only),
	KTEST(a_page_unknown_to_its_owner_is_lost),
	KTEST(an_owner_without_the_space_is_not_believed),
	KTEST(refused_page_kills_its_program),
	KTEST(refused_rider_is_settled),
	KTEST(exhausted_credits_answer_enomem),
	KTEST(a_kill_ends_the_wait_for_a_fetch),
	KTEST(private_file_page_is_copied_on_write),
	KTEST(file_errors_reach_the_fault),
	KTEST(shared_file_line_is_never_writable),
	KTEST(drop_leaves_nothing_behind),
	{ 0 },
};
static const struct ktest_suite suite = { .name = "processor.excache", .cases = cases };
KTEST_SUITE(suite);
