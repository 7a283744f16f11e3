/* SPDX-License-Identifier: MIT */
/*
 * Reclaim on the host: lines are written back before they must go, stay readable and writable
 * meanwhile, and no store is lost, whatever races with it.
 */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include <kernel/counter.h>
#include <lib/err.h>
#include <lib/ktest.h>
#include <processor/excache/cache_private.h>
#include <processor/excache/excache.h>
#include <processor/excache/reclaim.h>
#include <processor/excache/usage.h>
#include <processor/mm/aspace.h>
#include <proto/pm.h>
#include <shim/pgtable.h>
#include <shim/shim.h>

#include "fake_owner.h"
#include "user_word.h"

#define BASE  0x400000ull
#define LINES 128u /* 16 sets of 8 */

extern unsigned int fake_kills;

static struct aspace *make_space(uint64_t pages)
{
	static uint64_t next_id = 0x5ec1a000;
	const struct vma v = { .start = BASE,
			       .end = BASE + pages * PAGE_SIZE,
			       .prot = VMA_PROT_READ | VMA_PROT_WRITE };
	struct aspace *as;

	fake_cache();
	fake_reset();
	fake_reclaim(true);
	fake_kills = 0;
	as = aspace_create(next_id++, 1);
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
	reclaim_barrier(); /* a batch may just be over */
	EXPECT_EQ(t, excache_free_count(), excache_line_count());
	EXPECT_EQ(t, object_stored_count(OBJECT_ANON), 0u);
	EXPECT_EQ(t, fake_kills, 0u);
	fake_reset();
}

/* Does reclaim have something to do? As is_needed() of reclaim.c. */
static bool reclaim_is_due(void)
{
	uint32_t nr = 0;

	for (uint32_t i = 0; i < excache.nr_sets; i++)
		nr += __atomic_load_n(&excache.sets[i].noted, __ATOMIC_ACQUIRE);
	return nr >= 16 || (nr > 0 && excache_free_count() <= excache.nr_spare / 2);
}

/* Its thread has all the time that it needs, however busy the host is. */
static void reclaim_has_a_turn(void)
{
	while (reclaim_is_due()) {
		reclaim_kick();
		usleep(100);
	}
	reclaim_barrier();
	fake_quiesce();
}

static void pages_come_back(struct ktest *t)
{
	struct aspace *as = make_space(400);
	unsigned int flushes = shim_nr_tlb_flushes;
	struct fake_counts c;
	uint64_t v;

	for (unsigned int r = 1; r <= 3; r++) {
		for (uint64_t i = 0; i < 400; i++) {
			v = i * 1000 + r;
			ASSERT_EQ(t, user_word(as, BASE, i, &v, true), 0);
			reclaim_has_a_turn();
		}
		for (uint64_t i = 0; i < 400; i++) {
			ASSERT_EQ(t, user_word(as, BASE, i, &v, false), 0);
			reclaim_has_a_turn();
			EXPECT_EQ(t, v, i * 1000 + r);
		}
	}
	fake_counts(&c);
	flushes = shim_nr_tlb_flushes - flushes;
	/* Few victims ride or go alone, and few are unmapped one by one. */
	EXPECT_GE(t, c.writeback_pages + c.rides, 3 * 272u);
	EXPECT_LT(t, c.rides, c.fetches / 2);
	EXPECT_LT(t, c.writeback_msgs * 3, c.writeback_pages);
	EXPECT_LT(t, flushes, c.fetches / 2);
	space_destroy(t, as);
}

static uint8_t state_of(struct object *obj, uint64_t page, uint8_t *flags)
{
	const uint64_t pgoff = (BASE >> PAGE_SHIFT) + page;
	struct cache_set *set = &excache.sets[set_index(obj, pgoff)];
	const struct line *line;
	uint8_t state;

	spin_lock(&set->lock);
	line = set_find_locked(set, obj, pgoff);
	state = line ? line->state : LINE_FREE;
	*flags = line ? line->flags : 0;
	spin_unlock(&set->lock);
	return state;
}

/* Reclaim looks at every set; true when all that it began is over, unless a node is silent. */
static void look_at_all(void)
{
	for (uint32_t i = 0; i < excache.nr_sets; i++) {
		spin_lock(&excache.sets[i].lock);
		reclaim_note(&excache.sets[i]);
		spin_unlock(&excache.sets[i].lock);
	}
	reclaim_kick();
	for (uint32_t i = 0; i < excache.nr_sets; i++) {
		while (__atomic_load_n(&excache.sets[i].noted, __ATOMIC_ACQUIRE))
			usleep(100);
	}
	reclaim_barrier();
}

/* The first page of each set is written back where it is: read and written meanwhile. */
static void lines_under_way_are_used(struct ktest *t)
{
	struct aspace *as = make_space(LINES);
	const struct excache_policy *before = excache.policy;
	struct memory_usage u;
	struct fake_counts c;
	struct line *line;
	uint64_t v, word;
	uint32_t owner;
	uint8_t flags;

	excache.policy = policy_find("fifo"); /* the first of a set is the next to go */
	for (uint64_t i = 0; i < LINES; i++) {
		v = i + 1;
		ASSERT_EQ(t, user_word(as, BASE, i, &v, true), 0);
	}
	ASSERT_EQ(t, object_owner(as->anon, BASE >> PAGE_SHIFT, &owner), 0);
	fake_silence(owner, PM_WRITEBACK);
	look_at_all();
	EXPECT_EQ(t, state_of(as->anon, 0, &flags), LINE_CLEANING);
	EXPECT_EQ(t, state_of(as->anon, 16, &flags), LINE_VALID);
	memory_usage(&u);
	EXPECT_EQ(t, u.writeback, 16u);
	EXPECT_EQ(t, u.anon, (uint64_t)LINES);
	EXPECT_EQ(t, u.dirty, LINES - 16u);
	ASSERT_EQ(t, user_word(as, BASE, 0, &v, false), 0);
	EXPECT_EQ(t, v, 1u);
	v = 77;
	ASSERT_EQ(t, user_word(as, BASE, 1, &v, true), 0);
	/* Through the kernel's mapping, as read(2) into shared memory does. */
	ASSERT_EQ(t, excache_get(as->anon, (BASE >> PAGE_SHIFT) + 2, EXCACHE_FIND, &line), 0);
	((uint64_t *)line_data(line))[2] = 88;
	line_mark_dirty(line);
	excache_put(line);
	fake_counts(&c);
	EXPECT_EQ(t, c.fetches, 0u);
	fake_speak();
	for (uint64_t i = 0; i < 16; i++) {
		while (state_of(as->anon, i, &flags) != LINE_VALID)
			usleep(100);
	}
	EXPECT_TRUE(t, fake_stored(aspace_id(as), BASE, &word));
	memory_usage(&u);
	EXPECT_EQ(t, u.writeback, 0u);
	EXPECT_EQ(t, u.dirty, LINES - 14u); /* pages 1 and 2 are dirty again */
	/* Once only: these two wait for their end, the others are clean. */
	look_at_all();
	fake_quiesce();
	fake_counts(&c);
	EXPECT_EQ(t, c.writeback_pages, 16u);
	ASSERT_EQ(t, excache_flush(as->anon, 0, UINT64_MAX), 0);
	fake_counts(&c);
	EXPECT_EQ(t, c.writeback_pages, LINES + 2u);
	ASSERT_EQ(t, user_word(as, BASE, 1, &v, false), 0);
	EXPECT_EQ(t, v, 77u);
	ASSERT_EQ(t, user_word(as, BASE, 2, &v, false), 0);
	EXPECT_EQ(t, v, 88u);
	space_destroy(t, as);
	excache.policy = before;
}

static uint64_t counter(const char *name)
{
	uint64_t v = UINT64_MAX;

	counter_find(name, &v);
	return v;
}

/* All lines of page 0's set are as if they had been fetched ahead. Returns how many there are. */
static uint32_t mark_fetched_ahead(struct aspace *as)
{
	struct cache_set *set = &excache.sets[set_index(as->anon, BASE >> PAGE_SHIFT)];
	uint32_t nr = 0;

	for (uint64_t i = 0; i <= LINES; i += excache.nr_sets) {
		struct line *line;

		spin_lock(&set->lock);
		line = set_find_locked(set, as->anon, (BASE >> PAGE_SHIFT) + i);
		if (line && line->state == LINE_VALID) {
			(void)line_clear_accessed_locked(set, line);
			line->flags |= LINE_PREFETCH;
			nr++;
		}
		spin_unlock(&set->lock);
	}
	return nr;
}

/* A line that reclaim evicts was fetched ahead: in vain if no program has used it. */
static void one_fetched_ahead_goes(struct ktest *t, bool used)
{
	struct aspace *as = make_space(LINES + 1);
	const uint32_t nr_ways = excache.nr_ways;
	uint64_t wasted, evicted, v = 1;

	for (uint64_t i = 0; i <= LINES; i++)
		ASSERT_EQ(t, user_word(as, BASE, i, &v, true), 0);
	ASSERT_EQ(t, excache_flush(as->anon, 0, UINT64_MAX), 0);
	/* Clean lines; the last is one too many for its set. */
	for (uint64_t i = 0; i <= LINES; i++)
		ASSERT_EQ(t, user_word(as, BASE, i, &v, false), 0);
	ASSERT_EQ(t, mark_fetched_ahead(as), nr_ways + 1);
	for (uint64_t i = 0; i <= LINES && used; i += excache.nr_sets)
		ASSERT_EQ(t, user_word(as, BASE, i, &v, false), 0);
	wasted = counter("prefetch.wasted");
	evicted = counter("reclaim.evicted");
	look_at_all();
	EXPECT_EQ(t, counter("reclaim.evicted") - evicted, 1u);
	EXPECT_EQ(t, counter("prefetch.wasted") - wasted, used ? 0u : 1u);
	EXPECT_EQ(t, as->anon->ahead_wasted, used ? 0u : 1u);
	space_destroy(t, as);
}

static void pages_fetched_in_vain_are_counted(struct ktest *t)
{
	one_fetched_ahead_goes(t, false);
	one_fetched_ahead_goes(t, true);
}

/* Pages of zeroes are told, not sent, and those beside them keep their data. */
static void zeroes_are_told(struct ktest *t)
{
	struct aspace *as = make_space(40);
	struct fake_counts c;
	uint64_t v;

	for (unsigned int r = 0; r < 2; r++) {
		for (uint64_t i = 0; i < 40; i++) {
			v = i % 3 == r ? 0 : i + r;
			ASSERT_EQ(t, user_word(as, BASE, i, &v, true), 0);
		}
		ASSERT_EQ(t, excache_flush(as->anon, 0, UINT64_MAX), 0);
		for (uint64_t i = 0; i < 40; i++) {
			v = 99;
			ASSERT_EQ(t, user_word(as, BASE, i, &v, false), 0);
			EXPECT_EQ(t, v, i % 3 == r ? 0 : i + r);
		}
	}
	fake_counts(&c);
	EXPECT_EQ(t, c.writeback_pages, 80u);
	EXPECT_EQ(t, c.zeroes, 14u + 13u);
	/* A message without any data. */
	for (uint64_t i = 0; i < 40; i++) {
		v = 0;
		ASSERT_EQ(t, user_word(as, BASE, i, &v, true), 0);
	}
	ASSERT_EQ(t, excache_flush(as->anon, 0, UINT64_MAX), 0);
	for (uint64_t i = 0; i < 40; i++) {
		ASSERT_EQ(t, user_word(as, BASE, i, &v, false), 0);
		EXPECT_EQ(t, v, 0u);
	}
	fake_counts(&c);
	EXPECT_EQ(t, c.zeroes, 14u + 13u + 40u);
	space_destroy(t, as);
}

/* The owner does not answer at first: the line stays, and is sent again. */
static void an_answer_that_does_not_come_is_asked_for_again(struct ktest *t)
{
	struct aspace *as = make_space(LINES);
	const struct excache_policy *before = excache.policy;
	struct fake_counts c;
	uint64_t v;

	excache.policy = policy_find("fifo"); /* drrip cleans no line that it has not looked at */
	for (uint64_t i = 0; i < LINES; i++) {
		v = i + 1;
		ASSERT_EQ(t, user_word(as, BASE, i, &v, true), 0);
	}
	fake_writeback_timeout_every(1);
	look_at_all();
	do {
		usleep(100);
		fake_counts(&c);
	} while (c.writeback_pages == 0);
	fake_writeback_timeout_every(0);
	ASSERT_EQ(t, excache_flush(as->anon, 0, UINT64_MAX), 0);
	fake_counts(&c);
	EXPECT_GT(t, c.writeback_pages, (uint64_t)LINES);
	for (uint64_t i = 0; i < LINES; i++) {
		ASSERT_EQ(t, user_word(as, BASE, i, &v, false), 0);
		EXPECT_EQ(t, v, i + 1);
	}
	space_destroy(t, as);
	excache.policy = before;
}

/* A range goes away, and a space ends, while lines are written back where they are. */
static void ranges_wait_for_what_is_under_way(struct ktest *t)
{
	for (unsigned int round = 0; round < 40; round++) {
		struct aspace *as = make_space(LINES);
		struct blocked_range r;
		uint64_t v = 9;

		fake_delay_us(round * 20);
		for (uint64_t i = 0; i < LINES; i++)
			ASSERT_EQ(t, user_word(as, BASE, i, &v, true), 0);
		look_at_all();
		if (round % 2) {
			const uint64_t first = BASE >> PAGE_SHIFT;

			aspace_block(as, &r, BASE, BASE + 64 * PAGE_SIZE);
			EXPECT_EQ(t, excache_keep(as, first, first + 64), 0);
			aspace_unmap_range(as, BASE, BASE + 64 * PAGE_SIZE);
			excache_drop_top(as, first, first + 64);
			object_clear_stored(as->anon, first, first + 64);
			excache_keep_end(as);
			aspace_unblock(as, &r);
			for (uint64_t i = 0; i < LINES; i++) {
				ASSERT_EQ(t, user_word(as, BASE, i, &v, false), 0);
				EXPECT_EQ(t, v, i < 64 ? 0u : 9u);
			}
		}
		space_destroy(t, as);
	}
}

/* --- stores race with it -------------------------------------------------------------- */

#define NR_CPUS    3
#define PAGES_EACH 150u
#define ACCESSES   30000u

struct worker {
	struct aspace *as;
	unsigned int id, nr_bad;
};

static bool cpu_word(struct aspace *as, uint64_t page, uint64_t *val, bool write)
{
	const vaddr_t va = BASE + page * PAGE_SIZE + page % 512 * sizeof(*val);

	while (!shim_cpu_access(as->pt, va, val, write)) {
		if (aspace_fault(as, va, write ? FAULT_ACC_WRITE : FAULT_ACC_READ))
			return false;
	}
	return true;
}

/* Mostly in a small part of the pages, which therefore are in the TLB and dirty. */
static void *work(void *arg)
{
	struct worker *w = arg;
	uint64_t expect[PAGES_EACH] = { 0 };
	unsigned int seed = w->id * 7919 + 1;

	shim_cpu_enter();
	for (unsigned int n = 0; n < ACCESSES; n++) {
		const unsigned int r = (unsigned int)rand_r(&seed);
		const uint64_t i = (r >> 4) % (r % 8 ? 24 : PAGES_EACH);
		const uint64_t page = i * NR_CPUS + w->id;
		uint64_t v = (uint64_t)n << 8 | w->id;

		if (r & 8) {
			w->nr_bad += !cpu_word(w->as, page, &v, true);
			expect[i] = v;
		} else {
			w->nr_bad += !cpu_word(w->as, page, &v, false) || v != expect[i];
		}
	}
	for (uint64_t i = 0; i < PAGES_EACH; i++) {
		uint64_t v;

		w->nr_bad += !cpu_word(w->as, i * NR_CPUS + w->id, &v, false) || v != expect[i];
	}
	shim_cpu_leave();
	return NULL;
}

static void no_store_is_lost(struct ktest *t, const char *policy)
{
	const struct excache_policy *before = excache.policy;
	struct aspace *as = make_space(PAGES_EACH * NR_CPUS);
	struct worker w[NR_CPUS];
	pthread_t threads[NR_CPUS];
	struct fake_counts c;

	excache.policy = policy_find(policy);
	ASSERT_TRUE(t, excache.policy != NULL);
	fake_delay_us(100);
	fake_writeback_timeout_every(11);
	for (unsigned int i = 0; i < NR_CPUS; i++) {
		w[i] = (struct worker){ .as = as, .id = i };
		ASSERT_EQ(t, pthread_create(&threads[i], NULL, work, &w[i]), 0);
	}
	for (unsigned int i = 0; i < NR_CPUS; i++) {
		pthread_join(threads[i], NULL);
		EXPECT_EQ(t, w[i].nr_bad, 0u);
	}
	fake_counts(&c);
	EXPECT_GT(t, c.writeback_pages, 200u);
	excache.policy = before;
	space_destroy(t, as);
}

static void no_store_is_lost_under_fifo(struct ktest *t)
{
	no_store_is_lost(t, "fifo");
}

static void no_store_is_lost_under_clock(struct ktest *t)
{
	no_store_is_lost(t, "clock");
}

static void no_store_is_lost_under_drrip(struct ktest *t)
{
	no_store_is_lost(t, "drrip");
}

/* Pages that are written again before they go are not written back ahead every time. */
static void rewritten_pages_are_left_alone(struct ktest *t)
{
	struct aspace *as = make_space(160);
	unsigned int seed = 5;
	struct fake_counts c;

	for (unsigned int n = 0; n < 40000; n++) {
		uint64_t v = n;

		ASSERT_EQ(t, user_word(as, BASE, (uint64_t)rand_r(&seed) % 160, &v, true), 0);
	}
	fake_quiesce();
	fake_counts(&c);
	EXPECT_GT(t, c.fetches, 2000u);
	/* Each fetch has a dirty victim. */
	EXPECT_LT(t, c.writeback_pages + c.rides, c.fetches + c.fetches / 8);
	space_destroy(t, as);
}

static const struct ktest_case reclaim_cases[] = {
	KTEST(pages_come_back),
	KTEST(lines_under_way_are_used),
	KTEST(pages_fetched_in_vain_are_counted),
	KTEST(zeroes_are_told),
	KTEST(an_answer_that_does_not_come_is_asked_for_again),
	KTEST(rewritten_pages_are_left_alone),
	KTEST(ranges_wait_for_what_is_under_way),
	KTEST(no_store_is_lost_under_fifo),
	KTEST(no_store_is_lost_under_clock),
	KTEST(no_store_is_lost_under_drrip),
	{ 0 },
};
static const struct ktest_suite reclaim_suite = { .name = "processor.reclaim",
						  .cases = reclaim_cases };
KTEST_SUITE(reclaim_suite);
