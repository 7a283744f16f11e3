/* SPDX-License-Identifier: MIT */
/*
 * ExCache on the host: contents survive eviction, riding victims, batched write-back, timeouts with late data,
 * moving owners and range drops, under several threads; credits and lines are all accounted for at the end.
 */
#include <pthread.h>
#include <stdlib.h>

#include <lib/err.h>
#include <lib/ktest.h>
#include <mm/kmap.h>
#include <processor/aspace.h>
#include <processor/credit.h>
#include <processor/excache.h>
#include <shim/pgtable.h>
#include <shim/shim.h>

#include "fake_owner.h"

#define BASE  0x400000ull /* vRegion 2 of 2 MiB */
#define LINES 128         /* 16 sets of 8 */

extern unsigned int fake_kills;

static bool cache_start(struct ktest *t)
{
	static bool started;

	if (!started) {
		EXPECT_EQ(t, shim_bootparam_set("excache", "512K"), 0);
		EXPECT_EQ(t, shim_bootparam_set("excache.ways", "8"), 0);
		EXPECT_EQ(t, shim_bootparam_set("excache.spare", "32"), 0);
		EXPECT_EQ(t, excache_init(), 0);
		started = true;
	}
	fake_reset();
	return t->nr_failed == 0;
}

static struct aspace *space_create(uint64_t pages)
{
	static uint64_t next_id = 1;
	const struct pm_vma v = { .start = BASE,
				  .end = BASE + pages * PAGE_SIZE,
				  .prot = PM_PROT_READ | PM_PROT_WRITE };
	struct aspace *as = aspace_create(next_id++, 1);

	if (IS_ERR(as))
		abort();
	as->vregion_size = FAKE_VREGION_SIZE;
	if (aspace_set_vma(as, &v, NULL))
		abort();
	return as;
}

/* As a program's access: through the page table, faulting until it works. Returns the fault's error. */
static int access_word(struct aspace *as, uint64_t page, uint64_t *val, bool write)
{
	const vaddr_t va = BASE + page * PAGE_SIZE + 8 * (page % 512);

	for (;;) {
		struct pgtable_entry e;
		bool ok;
		int err;

		spin_lock(&as->lock);
		ok = pgtable_query(as->pt, va & ~(PAGE_SIZE - 1ull), &e) &&
		     shim_pgtable_touch(as->pt, va & ~(PAGE_SIZE - 1ull), write);
		if (ok) {
			uint64_t *word = (uint64_t *)((uint8_t *)phys_to_virt(e.paddr) +
						      (va & (PAGE_SIZE - 1)));

			if (write)
				*word = *val;
			else
				*val = *word;
		}
		spin_unlock(&as->lock);
		if (ok)
			return 0;
		err = aspace_fault(as, va, write ? FAULT_ACC_WRITE : FAULT_ACC_READ);
		if (err)
			return err;
	}
}

static void space_destroy(struct ktest *t, struct aspace *as)
{
	aspace_put(as);
	fake_quiesce();
	EXPECT_EQ(t, excache_free_count(), excache_line_count());
}

static void first_touch_sends_nothing(struct ktest *t)
{
	struct fake_counts c;
	struct aspace *as;
	uint64_t v;

	ASSERT_TRUE(t, cache_start(t));
	as = space_create(64);
	for (uint64_t i = 0; i < 64; i++) {
		v = ~0ull;
		ASSERT_EQ(t, access_word(as, i, &v, false), 0);
		EXPECT_EQ(t, v, 0u);
	}
	fake_counts(&c);
	EXPECT_EQ(t, c.fetches, 0u);
	EXPECT_EQ(t, c.writeback_msgs, 0u);
	EXPECT_LE(t, c.credit_requests, 1u);
	space_destroy(t, as);
}

/* @pages written and read back, several times what fits; what the owner saw in *c. */
static void sweep(struct ktest *t, uint64_t pages, unsigned int rounds, struct fake_counts *c)
{
	struct aspace *as = space_create(pages);
	uint64_t v;

	for (unsigned int r = 1; r <= rounds; r++) {
		for (uint64_t i = 0; i < pages; i++) {
			v = i * 1000 + r;
			ASSERT_EQ(t, access_word(as, i, &v, true), 0);
		}
		for (uint64_t i = 0; i < pages; i++) {
			ASSERT_EQ(t, access_word(as, i, &v, false), 0);
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
	EXPECT_EQ(t, c.moved, 0u);
	EXPECT_GT(t, c.fetches, 0u);
}

static void moved_owner_is_asked_once(struct ktest *t)
{
	struct fake_counts c;
	struct aspace *as;
	uint64_t v, word;

	ASSERT_TRUE(t, cache_start(t));
	as = space_create(16);
	for (uint64_t i = 0; i < 16; i++) {
		v = i + 7;
		ASSERT_EQ(t, access_word(as, i, &v, true), 0);
	}
	ASSERT_EQ(t, excache_flush(&as->anon, 0, UINT64_MAX), 0);
	EXPECT_TRUE(t, fake_stored(as->id, BASE, &word));
	EXPECT_EQ(t, word, 7u);
	fake_move(BASE / FAKE_VREGION_SIZE, 2);
	for (uint64_t i = 0; i < 16; i++) {
		ASSERT_EQ(t, access_word(as, i, &v, false), 0);
		EXPECT_EQ(t, v, i + 7);
	}
	fake_counts(&c);
	EXPECT_EQ(t, c.moved, 1u);
	EXPECT_EQ(t, c.fetches, 17u);
	space_destroy(t, as);
}

static void late_data_never_lands_in_a_reused_line(struct ktest *t)
{
	struct fake_counts c;
	struct aspace *as;
	uint64_t v, nr_failed = 0;

	ASSERT_TRUE(t, cache_start(t));
	as = space_create(300);
	for (uint64_t i = 0; i < 300; i++) {
		v = i ^ 0x5555;
		ASSERT_EQ(t, access_word(as, i, &v, true), 0);
	}
	fake_timeout_every(5);
	for (uint64_t i = 0; i < 300; i++) {
		int err = access_word(as, i, &v, false);

		if (err) {
			EXPECT_EQ(t, err, -ETIMEDOUT);
			nr_failed++;
			continue;
		}
		EXPECT_EQ(t, v, i ^ 0x5555);
	}
	fake_timeout_every(0);
	fake_quiesce();
	/* Backwards: the pages that are still in the cache, which late data might have hit, come first. */
	for (uint64_t i = 300; i-- > 0;) {
		ASSERT_EQ(t, access_word(as, i, &v, false), 0);
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
	as = space_create(40);
	for (uint64_t i = 0; i < 40; i++) {
		v = i + 1;
		ASSERT_EQ(t, access_word(as, i, &v, true), 0);
	}
	aspace_block(as, &r, BASE, BASE + 20 * PAGE_SIZE);
	aspace_unmap_range(as, BASE, BASE + 20 * PAGE_SIZE);
	excache_drop(&as->anon, BASE >> PAGE_SHIFT, (BASE >> PAGE_SHIFT) + 20);
	aspace_clear_stored(as, BASE >> PAGE_SHIFT, (BASE >> PAGE_SHIFT) + 20);
	aspace_unblock(as, &r);
	for (uint64_t i = 0; i < 40; i++) {
		ASSERT_EQ(t, access_word(as, i, &v, false), 0);
		EXPECT_EQ(t, v, i < 20 ? 0 : i + 1);
	}
	space_destroy(t, as);
}

static void credits_are_given_back(struct ktest *t)
{
	struct aspace *as;
	uint64_t before, v = 1;

	ASSERT_TRUE(t, cache_start(t));
	as = space_create(32);
	ASSERT_EQ(t, access_word(as, 0, &v, true), 0);
	before = credit_held();
	for (uint64_t i = 1; i < 32; i++)
		ASSERT_EQ(t, access_word(as, i, &v, true), 0);
	EXPECT_EQ(t, credit_held(), before - 31);
	space_destroy(t, as);
	EXPECT_EQ(t, credit_held(), before + 1);
}

static void rights_are_checked(struct ktest *t)
{
	struct aspace *as;
	uint64_t v = 1;

	ASSERT_TRUE(t, cache_start(t));
	as = space_create(2);
	EXPECT_EQ(t, aspace_fault(as, BASE + 2 * PAGE_SIZE, FAULT_ACC_READ), -EFAULT);
	EXPECT_EQ(t, aspace_fault(as, BASE, FAULT_ACC_EXEC), -EACCES);
	EXPECT_EQ(t, aspace_fault(as, 0xffff888000000000ull, FAULT_ACC_READ), -EFAULT);
	aspace_protect_vmas(as, BASE, BASE + PAGE_SIZE, PM_PROT_READ);
	EXPECT_EQ(t, access_word(as, 0, &v, true), -EACCES);
	EXPECT_EQ(t, access_word(as, 1, &v, true), 0);
	space_destroy(t, as);
}

/* --- several threads ----------------------------------------------------------------- */

#define NR_THREADS 6
#define PAGES_EACH 120

struct worker {
	struct aspace *as;
	unsigned int id;
	unsigned int nr_bad;
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
			w->nr_bad += access_word(w->as, page, &v, true) != 0;
			expect[i] = v;
		} else {
			w->nr_bad += access_word(w->as, page, &v, false) != 0 || v != expect[i];
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
	as = space_create(PAGES_EACH * NR_THREADS);
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

static const struct ktest_case cases[] = {
	KTEST(first_touch_sends_nothing),
	KTEST(evicted_pages_come_back),
	KTEST(owners_alternate_over_regions),
	KTEST(moved_owner_is_asked_once),
	KTEST(late_data_never_lands_in_a_reused_line),
	KTEST(dropped_range_reads_zero),
	KTEST(credits_are_given_back),
	KTEST(rights_are_checked),
	KTEST(threads_see_their_own_data),
	{ 0 },
};
static const struct ktest_suite suite = { .name = "processor.excache", .cases = cases };
KTEST_SUITE(suite);
