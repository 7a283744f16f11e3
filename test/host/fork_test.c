/* SPDX-License-Identifier: MIT */
/*
 * fork of address spaces on the host: chains of objects over a small cache, so that pages are
 * evicted and come back; ranges that go away on one side; merging, with every line, credit and
 * stored page accounted for; threads that write while one of them forks; and a random walk against
 * a model.
 */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include <kernel/thread.h>
#include <lib/err.h>
#include <lib/hash.h>
#include <lib/ktest.h>
#include <lib/string.h>
#include <processor/excache/cache_private.h>
#include <processor/excache/credit.h>
#include <processor/excache/excache.h>
#include <processor/excache/home.h>
#include <processor/excache/object.h>
#include <processor/excache/usage.h>
#include <processor/mm/anon.h>
#include <processor/mm/aspace.h>
#include <proto/pm.h>
#include <shim/shim.h>

#include "fake_owner.h"
#include "user_word.h"

#define BASE     0x400000ull
#define BASE_VPN (BASE >> PAGE_SHIFT)

extern unsigned int fake_kills;

static size_t spaces_before;

static bool cache_start(struct ktest *t)
{
	fake_cache();
	fake_reset();
	fake_kills = 0;
	spaces_before = object_space_count();
	return t->nr_failed == 0;
}

static struct aspace *space_create(uint64_t pages)
{
	const struct vma v = { .start = BASE,
			       .end = BASE + pages * PAGE_SIZE,
			       .prot = VMA_PROT_READ | VMA_PROT_WRITE };
	struct aspace *as = aspace_create(object_id(1, object_new_number()), 1);

	if (IS_ERR(as))
		abort();
	as->anon->vregion_size = FAKE_VREGION_SIZE;
	if (aspace_set_vma(as, &v, SEQ_ANY))
		abort();
	return as;
}

static uint64_t get(struct ktest *t, struct aspace *as, uint64_t page)
{
	uint64_t v = ~0ull;

	EXPECT_EQ(t, user_word(as, BASE, page, &v, false), 0);
	return v;
}

static void put(struct ktest *t, struct aspace *as, uint64_t page, uint64_t v)
{
	EXPECT_EQ(t, user_word(as, BASE, page, &v, true), 0);
}

static struct aspace *fork_of(struct ktest *t, struct aspace *parent)
{
	struct aspace *child = NULL;

	EXPECT_EQ(t, aspace_fork(parent, &child), 0);
	return child;
}

/* And what follows from it. */
static void space_end(struct aspace *as)
{
	aspace_put(as);
	fake_settle();
}

static unsigned int chain_length(const struct aspace *as)
{
	unsigned int n = 0;

	for (const struct object *o = as->anon; o; o = o->backing)
		n++;
	return n;
}

/* munmap and mmap of the same again, as the calls do it. */
static void renew(struct ktest *t, struct aspace *as, uint64_t first, uint64_t nr)
{
	const uint64_t start = BASE_VPN + first, end = start + nr;
	const struct page_range range = { .first = start, .end = start + nr };
	struct blocked_range r;

	mutex_lock(&as->map_lock);
	aspace_block(as, &r, start << PAGE_SHIFT, end << PAGE_SHIFT);
	EXPECT_EQ(t, anon_hide_reserve(as, start, end), 0);
	aspace_unmap_range(as, start << PAGE_SHIFT, end << PAGE_SHIFT);
	excache_drop(as->anon, start, end);
	EXPECT_EQ(t, home_discard(as->anon, &range, 1), 0);
	object_clear_stored(as->anon, start, end);
	anon_hide(as, start, end);
	aspace_unblock(as, &r);
	mutex_unlock(&as->map_lock);
}

/* Nothing is left of any space. */
static void all_gone(struct ktest *t)
{
	fake_settle();
	EXPECT_EQ(t, object_space_count(), spaces_before);
	EXPECT_EQ(t, object_stored_count(OBJECT_ANON), 0u);
	EXPECT_EQ(t, object_stored_count(OBJECT_SHARED), 0u);
	EXPECT_EQ(t, excache_free_count(), excache_line_count());
	EXPECT_EQ(t, fake_pages(), 0u);
	EXPECT_EQ(t, (int64_t)credit_held(), credit_total());
	/* The owners hear in a second of answers that came late, and of stored pages. */
	credit_reconcile();
	EXPECT_EQ(t, credit_total(), fake_promised());
	EXPECT_EQ(t, fake_kills, 0u);
}

/* --- one fork ------------------------------------------------------------------------ */

static void both_sides_see_what_was_there(struct ktest *t)
{
	struct aspace *p, *c;

	ASSERT_TRUE(t, cache_start(t));
	p = space_create(32);
	for (uint64_t i = 0; i < 16; i++)
		put(t, p, i, 100 + i);
	c = fork_of(t, p);
	ASSERT_TRUE(t, c != NULL);
	for (uint64_t i = 0; i < 16; i++) {
		put(t, p, i, 200 + i);
		EXPECT_EQ(t, get(t, c, i), 100 + i);
		put(t, c, i, 300 + i);
		EXPECT_EQ(t, get(t, p, i), 200 + i);
		EXPECT_EQ(t, get(t, c, i), 300 + i);
	}
	for (uint64_t i = 16; i < 32; i++) {
		put(t, c, i, i);
		EXPECT_EQ(t, get(t, p, i), 0u);
	}
	space_end(p);
	for (uint64_t i = 0; i < 16; i++)
		EXPECT_EQ(t, get(t, c, i), 300 + i);
	space_end(c);
	all_gone(t);
}

/* Nothing is fetched, written back or asked for but the fork itself, and copies need no message. */
static void a_fork_is_one_message(struct ktest *t)
{
	struct fake_counts before, after;
	struct memory_usage u;
	struct aspace *p, *c;

	ASSERT_TRUE(t, cache_start(t));
	p = space_create(40);
	for (uint64_t i = 0; i < 40; i++)
		put(t, p, i, i + 1);
	fake_counts(&before);
	c = fork_of(t, p);
	for (uint64_t i = 0; i < 40; i++)
		EXPECT_EQ(t, get(t, c, i), i + 1);
	for (uint64_t i = 0; i < 20; i++)
		put(t, i & 1 ? c : p, i, i);
	fake_counts(&after);
	EXPECT_EQ(t, after.forks, before.forks + 1);
	EXPECT_EQ(t, after.fetches, before.fetches);
	EXPECT_EQ(t, after.writeback_msgs, before.writeback_msgs);
	EXPECT_EQ(t, after.credit_requests, before.credit_requests);
	/* A page that both see counts once, one that either has copied once more. */
	memory_usage(&u);
	EXPECT_EQ(t, u.anon, 40u + 20u);
	EXPECT_EQ(t, u.dirty, 40u + 20u);
	space_end(c);
	space_end(p);
	all_gone(t);
}

static void pages_are_found_after_eviction(struct ktest *t)
{
	enum {
		PAGES = 500
	}; /* several times the cache */
	struct aspace *p, *c;

	ASSERT_TRUE(t, cache_start(t));
	p = space_create(PAGES);
	for (uint64_t i = 0; i < PAGES; i++)
		put(t, p, i, 7000 + i);
	c = fork_of(t, p);
	for (uint64_t i = 0; i < PAGES; i++)
		EXPECT_EQ(t, get(t, c, i), 7000 + i);
	for (uint64_t i = 0; i < PAGES; i += 2)
		put(t, p, i, i);
	for (uint64_t i = 0; i < PAGES; i += 3)
		put(t, c, i, 9000 + i);
	for (uint64_t i = 0; i < PAGES; i++) {
		EXPECT_EQ(t, get(t, p, i), i % 2 ? 7000 + i : i);
		EXPECT_EQ(t, get(t, c, i), i % 3 ? 7000 + i : 9000 + i);
	}
	space_end(c);
	EXPECT_EQ(t, chain_length(p), 1u);
	for (uint64_t i = 0; i < PAGES; i++)
		EXPECT_EQ(t, get(t, p, i), i % 2 ? 7000 + i : i);
	space_end(p);
	all_gone(t);
}

static void a_range_that_went_away_stays_away(struct ktest *t)
{
	struct aspace *p, *c;

	ASSERT_TRUE(t, cache_start(t));
	p = space_create(300);
	for (uint64_t i = 0; i < 300; i++)
		put(t, p, i, 1 + i);
	c = fork_of(t, p);
	renew(t, p, 10, 20);
	renew(t, c, 0, 12);
	for (uint64_t i = 0; i < 40; i++) {
		EXPECT_EQ(t, get(t, p, i), i >= 10 && i < 30 ? 0 : 1 + i);
		EXPECT_EQ(t, get(t, c, i), i < 12 ? 0 : 1 + i);
	}
	put(t, p, 15, 4711);
	/* After the collapse as well, in the cache and at the owners. */
	space_end(c);
	EXPECT_EQ(t, chain_length(p), 1u);
	for (unsigned int round = 0; round < 2; round++) {
		for (uint64_t i = 0; i < 300; i++)
			EXPECT_EQ(t, get(t, p, i), i == 15 ? 4711 : i >= 10 && i < 30 ? 0 : 1 + i);
	}
	space_end(p);
	all_gone(t);
}

/* mremap moves pages of frozen objects by copying them into the top first. */
static void pull_makes_pages_ones_own(struct ktest *t)
{
	struct blocked_range r;
	struct aspace *p, *c;

	ASSERT_TRUE(t, cache_start(t));
	p = space_create(200);
	for (uint64_t i = 0; i < 200; i += 2)
		put(t, p, i, 50 + i);
	c = fork_of(t, p);
	mutex_lock(&p->map_lock);
	aspace_block(p, &r, BASE, BASE + 200 * PAGE_SIZE);
	aspace_unmap_range(p, BASE, BASE + 200 * PAGE_SIZE);
	EXPECT_EQ(t, anon_pull(p, BASE_VPN, BASE_VPN + 200), 0);
	EXPECT_EQ(t, excache_flush(p->anon, BASE_VPN, BASE_VPN + 200), 0);
	for (uint64_t i = 0; i < 200; i++) {
		uint64_t word;

		EXPECT_EQ(t, fake_stored(aspace_id(p), BASE + i * PAGE_SIZE, &word), i % 2 == 0);
		EXPECT_EQ(t, object_stored(p->anon, BASE_VPN + i), i % 2 == 0);
	}
	aspace_unblock(p, &r);
	mutex_unlock(&p->map_lock);
	for (uint64_t i = 0; i < 200; i++)
		EXPECT_EQ(t, get(t, c, i), i % 2 ? 0 : 50 + i);
	space_end(p);
	space_end(c);
	all_gone(t);
}

static void refused_fork_leaves_the_parent(struct ktest *t)
{
	struct aspace *p, *c;

	ASSERT_TRUE(t, cache_start(t));
	p = space_create(8);
	put(t, p, 3, 33);
	fake_fail(PM_FORK, -ENOMEM);
	EXPECT_EQ(t, aspace_fork(p, &c), -ENOMEM);
	EXPECT_TRUE(t, c == NULL);
	EXPECT_EQ(t, chain_length(p), 1u);
	EXPECT_EQ(t, get(t, p, 3), 33u);
	put(t, p, 3, 34);
	/* An answer that did not come is asked for again. */
	fake_fail(PM_FORK, -ETIMEDOUT);
	ASSERT_EQ(t, aspace_fork(p, &c), 0);
	EXPECT_EQ(t, get(t, c, 3), 34u);
	put(t, p, 3, 35);
	EXPECT_EQ(t, get(t, c, 3), 34u);
	space_end(p);
	space_end(c);
	all_gone(t);
}

/* The home may have frozen the parent: nothing of it can be trusted any more. */
static void a_fork_without_an_answer_ends_the_parent(struct ktest *t)
{
	static const int answers[] = { -ETIMEDOUT, -EHOSTDOWN, -EPROTO };

	for (size_t i = 0; i < 2 * ARRAY_SIZE(answers); i++) {
		struct fake_counts counts;
		struct aspace *p, *c;
		uint64_t v = 1;

		ASSERT_TRUE(t, cache_start(t));
		p = space_create(8);
		put(t, p, 3, 33);
		fake_fail_times(PM_FORK, answers[i / 2], 100, i & 1);
		EXPECT_EQ(t, aspace_fork(p, &c), answers[i / 2]);
		EXPECT_TRUE(t, c == NULL);
		EXPECT_EQ(t, fake_kills, 1u);
		EXPECT_EQ(t, user_word(p, BASE, 4, &v, true), -ENOMEM);
		space_end(p);
		fake_kills = 0;
		all_gone(t);
		/* The home may have made the two new ones: it hears of their end, too. */
		fake_counts(&counts);
		EXPECT_EQ(t, counts.destroys, 3u);
	}
}

static void failing_allocations_leave_the_parent(struct ktest *t)
{
	struct aspace *p, *c = NULL;
	int err = -ENOMEM;

	ASSERT_TRUE(t, cache_start(t));
	p = space_create(100);
	for (uint64_t i = 0; i < 100; i++)
		put(t, p, i, i + 9);
	for (unsigned int n = 0; err; n++) {
		shim_fail_alloc_after((long)n);
		err = aspace_fork(p, &c);
		shim_fail_alloc_after(-1);
		EXPECT_TRUE(t, err == 0 || err == -ENOMEM);
		if (n > 200)
			break;
		if (err) {
			EXPECT_TRUE(t, c == NULL);
			for (uint64_t i = 0; i < 100; i += 17)
				put(t, p, i, i + 9);
		}
	}
	ASSERT_EQ(t, err, 0);
	for (uint64_t i = 0; i < 100; i++)
		EXPECT_EQ(t, get(t, c, i), i + 9);
	space_end(c);
	for (uint64_t i = 0; i < 100; i++)
		EXPECT_EQ(t, get(t, p, i), i + 9);
	space_end(p);
	all_gone(t);
}

/* --- chains -------------------------------------------------------------------------- */

static void deep_chains_shrink_again(struct ktest *t)
{
	enum {
		DEPTH = 6
	};
	struct aspace *as[DEPTH + 1];

	ASSERT_TRUE(t, cache_start(t));
	as[0] = space_create(64);
	for (uint64_t i = 0; i < 64; i++)
		put(t, as[0], i, i);
	for (unsigned int d = 0; d < DEPTH; d++) {
		as[d + 1] = fork_of(t, as[d]);
		for (uint64_t i = d; i < 64; i += 7)
			put(t, as[d + 1], i, (d + 1) * 1000 + i);
	}
	EXPECT_EQ(t, chain_length(as[DEPTH]), (unsigned int)DEPTH + 1);
	/* From the root: what is in the middle becomes one with the last when its turn comes. */
	for (unsigned int d = 0; d < DEPTH; d++)
		space_end(as[d]);
	EXPECT_EQ(t, chain_length(as[DEPTH]), 1u);
	for (uint64_t i = 0; i < 64; i++) {
		uint64_t want = i;

		for (unsigned int d = 0; d < DEPTH; d++) {
			if (i >= d && (i - d) % 7 == 0)
				want = (d + 1) * 1000 + i;
		}
		EXPECT_EQ(t, get(t, as[DEPTH], i), want);
	}
	space_end(as[DEPTH]);
	all_gone(t);
}

/* A shell that forks all day: lines, credits, objects and stored pages stay where they were. */
static void many_forks_leave_nothing_behind(struct ktest *t)
{
	struct fake_counts counts;
	size_t objects, pages = 0;
	uint64_t free_lines = 0, credits = 0;
	struct aspace *p;

	ASSERT_TRUE(t, cache_start(t));
	p = space_create(90);
	for (uint64_t i = 0; i < 90; i++)
		put(t, p, i, i);
	objects = object_space_count();
	for (unsigned int n = 0; n < 2000; n++) {
		struct aspace *c = fork_of(t, p);

		ASSERT_TRUE(t, c != NULL);
		EXPECT_LE(t, chain_length(c), 2u);
		put(t, p, n % 90, n);
		put(t, c, (n + 1) % 90, n);
		put(t, c, (n + 2) % 90, n);
		space_end(c);
		EXPECT_EQ(t, chain_length(p), 1u);
		if (n == 200) {
			ASSERT_EQ(t, excache_flush(p->anon, 0, UINT64_MAX), 0);
			for (uint64_t i = 0; i < 90; i++)
				(void)get(t, p, i);
			free_lines = excache_free_count();
			credits = credit_held();
			pages = fake_pages();
		}
	}
	EXPECT_EQ(t, object_space_count(), objects);
	EXPECT_EQ(t, excache_free_count(), free_lines);
	EXPECT_EQ(t, credit_held(), credits);
	EXPECT_EQ(t, fake_pages(), pages);
	fake_counts(&counts);
	EXPECT_EQ(t, counts.forks, 2000u);
	/*
	 * Of each fork two spaces end: the child's, and the frozen one by a collapse or, if no page
	 * is stored, alone.
	 */
	EXPECT_EQ(t, counts.collapses + counts.destroys, 4000u);
	EXPECT_GT(t, counts.collapses, 0u);
	space_end(p);
	all_gone(t);
}

/* A server that always has a child alive: what only it and younger children see becomes one. */
static void overlapping_children_keep_the_chain_short(struct ktest *t)
{
	enum {
		PAGES = 150 /* more than the cache has lines for */
	};
	const struct excache_policy *before;
	uint64_t in_p[PAGES], in_c[PAGES], in_old[PAGES];
	struct aspace *p, *old, *c;
	uint64_t free_lines = 0;
	size_t pages = 0;

	ASSERT_TRUE(t, cache_start(t));
	before = excache.policy;
	excache.policy = policy_find("fifo");
	p = space_create(PAGES);
	for (uint64_t i = 0; i < PAGES; i++)
		put(t, p, i, in_p[i] = in_old[i] = i);
	old = fork_of(t, p);
	for (unsigned int n = 0; n < 2000; n++) {
		c = fork_of(t, p);
		ASSERT_TRUE(t, c != NULL);
		memcpy(in_c, in_p, sizeof(in_c));
		put(t, p, n % PAGES, in_p[n % PAGES] = 10000 + n);
		put(t, c, (n + 7) % PAGES, in_c[(n + 7) % PAGES] = 20000 + n);
		EXPECT_EQ(t, get(t, old, n % PAGES), in_old[n % PAGES]);
		EXPECT_LE(t, chain_length(p), 3u);
		space_end(old);
		EXPECT_EQ(t, chain_length(p), 2u);
		EXPECT_EQ(t, object_space_count(), spaces_before + 3);
		for (uint64_t i = n % 16; i < PAGES; i += 16) {
			EXPECT_EQ(t, get(t, p, i), in_p[i]);
			EXPECT_EQ(t, get(t, c, i), in_c[i]);
		}
		old = c;
		memcpy(in_old, in_c, sizeof(in_old));
		if (n % 1000 == 999) {
			for (uint64_t i = 0; i < PAGES; i++) {
				EXPECT_EQ(t, get(t, p, i), in_p[i]);
				EXPECT_EQ(t, get(t, old, i), in_old[i]);
			}
			EXPECT_LE(t, fake_pages(), 3u * PAGES);
			EXPECT_GE(t, excache_free_count() + PAGES, free_lines);
			fake_settle();
			credit_reconcile();
			EXPECT_EQ(t, credit_total(), fake_promised());
			EXPECT_LE(t, credit_total() - (int64_t)credit_held(),
				  (int64_t)(excache_line_count() - excache_free_count()));
			pages = fake_pages();
			free_lines = excache_free_count();
		}
	}
	EXPECT_GT(t, pages, 0u);
	space_end(p);
	space_end(old);
	all_gone(t);
	excache.policy = before;
}

/* Nothing is stored: a fork is one message, and the ends of 16 spaces are one. */
static void ends_of_spaces_share_messages(struct ktest *t)
{
	struct fake_counts counts;
	struct aspace *p;

	ASSERT_TRUE(t, cache_start(t));
	p = space_create(20);
	for (uint64_t i = 0; i < 20; i++)
		put(t, p, i, i);
	shim_time_freeze(true); /* nothing has waited long */
	for (unsigned int n = 0; n < 200; n++) {
		struct aspace *c = fork_of(t, p);

		put(t, p, n % 20, n);
		put(t, c, n % 20, n + 1);
		aspace_put(c);
		EXPECT_EQ(t, chain_length(p), 1u);
	}
	(void)aspace_drain();
	shim_time_freeze(false);
	fake_counts(&counts);
	EXPECT_EQ(t, counts.forks, 200u);
	EXPECT_EQ(t, counts.collapses, 0u);
	EXPECT_EQ(t, counts.destroys, 400u);
	EXPECT_LE(t, counts.destroy_msgs, 400u / 16 + 1);
	space_end(p);
	all_gone(t);
}

/*
 * The home has no memory while it has not heard of spaces that ended: it is told, and asked again.
 */
static void a_refusal_is_no_lie(struct ktest *t)
{
	struct fake_counts counts;
	struct aspace *p, *c;

	ASSERT_TRUE(t, cache_start(t));
	p = space_create(20);
	put(t, p, 1, 11);
	shim_time_freeze(true);
	aspace_put(fork_of(t, p));
	fake_counts(&counts);
	EXPECT_EQ(t, counts.destroys, 0u);
	fake_fail(PM_FORK, -ENOMEM);
	ASSERT_EQ(t, aspace_fork(p, &c), 0);
	shim_time_freeze(false);
	fake_counts(&counts);
	EXPECT_EQ(t, counts.destroys, 2u);
	EXPECT_EQ(t, counts.destroy_msgs, 1u);
	EXPECT_EQ(t, get(t, c, 1), 11u);
	space_end(p);
	space_end(c);
	all_gone(t);
}

/* A collapse that the home refuses is made up for before the next fork. */
static void refused_collapse_is_tried_again(struct ktest *t)
{
	struct aspace *p, *c;

	ASSERT_TRUE(t, cache_start(t));
	p = space_create(150);
	for (uint64_t i = 0; i < 150; i++)
		put(t, p, i, i + 2);
	c = fork_of(t, p);
	for (uint64_t i = 0; i < 150; i += 5)
		put(t, p, i, i + 3);
	fake_fail(PM_COLLAPSE, -EHOSTDOWN);
	space_end(c);
	EXPECT_EQ(t, chain_length(p), 2u);
	for (uint64_t i = 0; i < 150; i++)
		EXPECT_EQ(t, get(t, p, i), i % 5 ? i + 2 : i + 3);
	c = fork_of(t, p);
	EXPECT_EQ(t, chain_length(p), 2u);
	for (uint64_t i = 0; i < 150; i++)
		EXPECT_EQ(t, get(t, c, i), i % 5 ? i + 2 : i + 3);
	space_end(p);
	space_end(c);
	all_gone(t);
}

/* A page that an object behind has lost kills everybody who can see it. */
static void a_lost_page_kills_all_who_see_it(struct ktest *t)
{
	const struct excache_policy *before;
	struct aspace *p, *c, *other, *child;
	uint64_t v = 1;

	ASSERT_TRUE(t, cache_start(t));
	before = excache.policy;
	excache.policy = policy_find("fifo"); /* the first page certainly goes */
	p = space_create(400);
	other = space_create(10);
	for (uint64_t i = 0; i < 60; i++)
		put(t, p, i, i);
	c = fork_of(t, p);
	fake_refuse(BASE, -EIO);
	for (uint64_t i = 60; i < 400; i++)
		(void)user_word(c, BASE, i, &v, true);
	fake_settle();
	EXPECT_TRUE(t, p->failed != 0);
	EXPECT_TRUE(t, c->failed != 0);
	EXPECT_EQ(t, other->failed, 0);
	EXPECT_GT(t, fake_kills, 0u);
	/* A space whose program must die serves no fault and no fork. */
	EXPECT_EQ(t, aspace_fault(c, BASE, FAULT_ACC_READ), -ENOMEM);
	EXPECT_EQ(t, aspace_fork(p, &child), -ENOMEM);
	fake_refuse(0, 0);
	space_end(p);
	space_end(c);
	space_end(other);
	fake_kills = 0;
	all_gone(t);
	excache.policy = before;
}

/* --- threads ------------------------------------------------------------------------- */

#define NR_WRITERS 4
#define EACH       60

struct writer {
	struct aspace *as;
	unsigned int id, nr_bad;
	uint64_t stop;
	uint64_t done[EACH]; /* the last value that was written, and is there to stay */
};

static void *write_all_the_time(void *arg)
{
	struct writer *w = arg;
	unsigned int seed = w->id + 1;

	for (uint64_t n = 1; !__atomic_load_n(&w->stop, __ATOMIC_ACQUIRE); n++) {
		const uint64_t i = (uint64_t)rand_r(&seed) % EACH;
		uint64_t v;

		w->nr_bad += user_word(w->as, BASE, i * NR_WRITERS + w->id, &v, false) != 0;
		w->nr_bad += v != w->done[i];
		v = n;
		w->nr_bad += user_word(w->as, BASE, i * NR_WRITERS + w->id, &v, true) != 0;
		__atomic_store_n(&w->done[i], n, __ATOMIC_RELEASE);
	}
	return NULL;
}

/*
 * Writers go on while one thread forks: a child has, of each page, a value between what was
 * written when the fork began and when it ended, and keeps it.
 */
static void threads_write_while_one_forks(struct ktest *t)
{
	static struct writer w[NR_WRITERS];
	pthread_t threads[NR_WRITERS];
	struct aspace *p;

	ASSERT_TRUE(t, cache_start(t));
	fake_delay_us(100);
	p = space_create(NR_WRITERS * EACH);
	for (unsigned int i = 0; i < NR_WRITERS; i++) {
		w[i] = (struct writer){ .as = p, .id = i };
		ASSERT_EQ(t, pthread_create(&threads[i], NULL, write_all_the_time, &w[i]), 0);
	}
	for (unsigned int n = 0; n < 20 && !t->nr_failed; n++) {
		uint64_t before[NR_WRITERS * EACH], seen[NR_WRITERS * EACH];
		struct aspace *c;

		for (uint64_t i = 0; i < NR_WRITERS * EACH; i++)
			before[i] = __atomic_load_n(&w[i % NR_WRITERS].done[i / NR_WRITERS],
						    __ATOMIC_ACQUIRE);
		c = fork_of(t, p);
		ASSERT_TRUE(t, c != NULL);
		for (uint64_t i = 0; i < NR_WRITERS * EACH; i++) {
			seen[i] = get(t, c, i);
			EXPECT_LE(t, before[i], seen[i]);
		}
		for (uint64_t i = 0; i < NR_WRITERS * EACH; i++)
			EXPECT_EQ(t, get(t, c, i), seen[i]);
		space_end(c);
	}
	for (unsigned int i = 0; i < NR_WRITERS; i++) {
		__atomic_store_n(&w[i].stop, 1, __ATOMIC_RELEASE);
		pthread_join(threads[i], NULL);
		EXPECT_EQ(t, w[i].nr_bad, 0u);
	}
	space_end(p);
	all_gone(t);
}

#define RACE_PAGES 300 /* more than fit: reads of the frozen object wait for their owner */

struct reader {
	struct aspace *as;
	uint64_t at; /* the page that the writer is about to write */
	uint64_t stop;
	unsigned int nr_bad;
};

static void *read_behind(void *arg)
{
	struct reader *r = arg;

	while (!__atomic_load_n(&r->stop, __ATOMIC_ACQUIRE)) {
		uint64_t v;

		if (user_word(r->as, BASE, __atomic_load_n(&r->at, __ATOMIC_ACQUIRE), &v, false))
			r->nr_bad++;
	}
	return NULL;
}

/* A read that has found the older page does not put it in the place of the private copy. */
static void a_read_never_undoes_a_copy(struct ktest *t)
{
	static struct reader r[2];
	pthread_t threads[2];
	struct aspace *p, *c;

	ASSERT_TRUE(t, cache_start(t));
	fake_delay_us(200);
	p = space_create(RACE_PAGES);
	for (uint64_t i = 0; i < RACE_PAGES; i++)
		put(t, p, i, 1);
	for (uint64_t round = 2; round < 6; round++) {
		c = fork_of(t, p);
		for (unsigned int i = 0; i < 2; i++) {
			r[i] = (struct reader){ .as = p };
			ASSERT_EQ(t, pthread_create(&threads[i], NULL, read_behind, &r[i]), 0);
		}
		for (uint64_t i = 0; i < RACE_PAGES; i++) {
			for (unsigned int k = 0; k < 2; k++)
				__atomic_store_n(&r[k].at, i, __ATOMIC_RELEASE);
			put(t, p, i, round);
			for (unsigned int n = 0; n < 4; n++)
				EXPECT_EQ(t, get(t, p, i), round);
		}
		for (unsigned int i = 0; i < 2; i++) {
			__atomic_store_n(&r[i].stop, 1, __ATOMIC_RELEASE);
			pthread_join(threads[i], NULL);
			EXPECT_EQ(t, r[i].nr_bad, 0u);
		}
		space_end(c);
	}
	space_end(p);
	all_gone(t);
}

/* The same, step by step: what a fault is about to map has been copied meanwhile. */
static void an_overtaken_read_begins_again(struct ktest *t)
{
	const vaddr_t va = BASE + 3 * PAGE_SIZE;
	struct object *from;
	struct layout_seq seq;
	struct aspace *p, *c;
	struct line *line;
	struct vma v;

	ASSERT_TRUE(t, cache_start(t));
	p = space_create(8);
	put(t, p, 3, 1);
	c = fork_of(t, p);
	ASSERT_EQ(t, aspace_fault_begin(p, va, &v, &seq), 0);
	ASSERT_EQ(t, anon_find(p, BASE_VPN + 3, seq.map, &from, &line), 0);
	EXPECT_TRUE(t, from == p->anon->backing);
	thread_current()->nr_pins--; /* another thread faults meanwhile */
	put(t, p, 3, 2);
	thread_current()->nr_pins++;
	EXPECT_EQ(t, excache_map(p, va, line, VMA_PROT_READ, &seq), -EAGAIN);
	excache_put(line);
	aspace_fault_end(p);
	EXPECT_EQ(t, get(t, p, 3), 2u);
	space_end(p);
	space_end(c);
	all_gone(t);
}

static void *fork_it(void *arg)
{
	struct aspace *child;
	struct aspace **p = arg;

	if (aspace_fork(p[0], &child) == 0)
		__atomic_store_n(&p[1], child, __ATOMIC_RELEASE);
	return NULL;
}

static void a_fork_waits_for_faults_under_way(struct ktest *t)
{
	struct aspace *as[2] = { NULL, NULL };
	struct layout_seq seq;
	struct object *top;
	pthread_t thread;
	struct vma v;

	ASSERT_TRUE(t, cache_start(t));
	as[0] = space_create(8);
	put(t, as[0], 1, 1);
	top = as[0]->anon;
	ASSERT_EQ(t, aspace_fault_begin(as[0], BASE, &v, &seq), 0);
	ASSERT_EQ(t, pthread_create(&thread, NULL, fork_it, as), 0);
	while (layout_is_at(as[0], seq.map, false))
		usleep(1000); /* until the fork has blocked the space */
	usleep(20000);
	EXPECT_TRUE(t, __atomic_load_n(&as[1], __ATOMIC_ACQUIRE) == NULL);
	EXPECT_TRUE(t, as[0]->anon == top);
	aspace_fault_end(as[0]);
	pthread_join(thread, NULL);
	ASSERT_TRUE(t, as[1] != NULL);
	EXPECT_EQ(t, get(t, as[1], 1), 1u);
	space_end(as[0]);
	space_end(as[1]);
	all_gone(t);
}

static void held_lines_are_not_written_back(struct ktest *t)
{
	struct aspace *p, *other;
	struct line *line;

	ASSERT_TRUE(t, cache_start(t));
	p = space_create(40);
	other = space_create(600);
	for (uint64_t i = 0; i < 40; i++)
		put(t, p, i, i);
	excache_hold(p->anon);
	for (uint64_t i = 0; i < 600; i++)
		put(t, other, i, i);
	for (uint64_t i = 0; i < 40; i++) {
		ASSERT_EQ(t, excache_get(p->anon, BASE_VPN + i, EXCACHE_FIND, &line), 0);
		excache_put(line);
	}
	excache_release(p->anon);
	for (uint64_t i = 0; i < 600; i++)
		put(t, other, i, i);
	EXPECT_TRUE(t, object_stored(p->anon, BASE_VPN));
	space_end(p);
	space_end(other);
	all_gone(t);
}

/* --- one silent owner ---------------------------------------------------------------- */

struct worker {
	struct ktest *t;
	struct aspace *as;
	uint64_t word;
	int err;
	bool done; /* atomic */
};

static void *read_first(void *arg)
{
	struct worker *w = arg;

	w->err = user_word(w->as, BASE, 0, &w->word, false);
	__atomic_store_n(&w->done, true, __ATOMIC_RELEASE);
	return NULL;
}

/* A family of its own: reads and writes behind a top, and a collapse. */
static void *fork_and_collapse(void *arg)
{
	struct worker *w = arg;
	struct aspace *c = fork_of(w->t, w->as);

	EXPECT_EQ(w->t, get(w->t, c, 0), 7u);
	put(w->t, c, 0, 8);
	aspace_put(w->as);
	put(w->t, c, 1, 9);
	w->as = c;
	__atomic_store_n(&w->done, true, __ATOMIC_RELEASE);
	return NULL;
}

/* A fetch that is not answered keeps no other family waiting, not even one with the same hash. */
static void a_silent_owner_keeps_one_family_waiting(struct ktest *t)
{
	enum {
		SILENT = 3, /* the owner of BASE */
		FAMILIES = 64
	};
	struct worker reader = { .t = t }, other = { .t = t };
	struct aspace *p, *c;
	pthread_t threads[2];

	ASSERT_TRUE(t, cache_start(t));
	p = space_create(8);
	put(t, p, 0, 5);
	ASSERT_EQ(t, excache_flush(p->anon, 0, UINT64_MAX), 0);
	c = fork_of(t, p);
	reader.as = c;
	for (other.as = space_create(8);
	     hash64(other.as->anon->seed) % FAMILIES != hash64(p->anon->seed) % FAMILIES;
	     other.as = space_create(8))
		space_end(other.as);
	put(t, other.as, 0, 7);
	fake_silence(SILENT, FAKE_ALL);
	ASSERT_EQ(t, pthread_create(&threads[0], NULL, read_first, &reader), 0);
	usleep(50000);
	ASSERT_EQ(t, pthread_create(&threads[1], NULL, fork_and_collapse, &other), 0);
	for (unsigned int n = 0; n < 5000 && !__atomic_load_n(&other.done, __ATOMIC_ACQUIRE); n++)
		usleep(1000);
	EXPECT_TRUE(t, __atomic_load_n(&other.done, __ATOMIC_ACQUIRE));
	EXPECT_FALSE(t, __atomic_load_n(&reader.done, __ATOMIC_ACQUIRE));
	fake_speak();
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	EXPECT_EQ(t, reader.err, 0);
	EXPECT_EQ(t, reader.word, 5u);
	EXPECT_EQ(t, get(t, other.as, 0), 8u);
	space_end(other.as);
	space_end(p);
	space_end(c);
	all_gone(t);
}

/* --- a random walk against a model --------------------------------------------------- */

#define MODEL_SPACES 8
#define MODEL_PAGES  220

struct model {
	struct aspace *as;
	uint64_t val[MODEL_PAGES];
};

static void model_step(struct ktest *t, struct model *m, unsigned int *seed, uint64_t n)
{
	struct model *s = &m[(unsigned int)rand_r(seed) % MODEL_SPACES];
	struct model *to = &m[(unsigned int)rand_r(seed) % MODEL_SPACES];
	const uint64_t page = (uint64_t)rand_r(seed) % MODEL_PAGES;
	const unsigned int what = (unsigned int)rand_r(seed) % 100;

	if (!s->as)
		return;
	if (what < 45) {
		put(t, s->as, page, n);
		s->val[page] = n;
	} else if (what < 90) {
		EXPECT_EQ(t, get(t, s->as, page), s->val[page]);
	} else if (what < 93) {
		const uint64_t nr = MIN((uint64_t)rand_r(seed) % 40 + 1, MODEL_PAGES - page);

		renew(t, s->as, page, nr);
		memset(&s->val[page], 0, nr * sizeof(uint64_t));
	} else if (what < 97 && !to->as) {
		to->as = fork_of(t, s->as);
		memcpy(to->val, s->val, sizeof(s->val));
	} else if (to->as && to != s) {
		space_end(to->as);
		to->as = NULL;
	}
}

static void walk(struct ktest *t, unsigned int seed, uint64_t steps)
{
	static struct model m[MODEL_SPACES];

	memset(m, 0, sizeof(m));
	m[0].as = space_create(MODEL_PAGES);
	for (uint64_t n = 1; n <= steps && !t->nr_failed; n++)
		model_step(t, m, &seed, n);
	for (unsigned int i = 0; i < MODEL_SPACES; i++) {
		if (!m[i].as)
			continue;
		for (uint64_t page = 0; page < MODEL_PAGES && !t->nr_failed; page++)
			EXPECT_EQ(t, get(t, m[i].as, page), m[i].val[page]);
		space_end(m[i].as);
	}
	all_gone(t);
}

static void random_walk_agrees_with_the_model(struct ktest *t)
{
	ASSERT_TRUE(t, cache_start(t));
	for (unsigned int seed = 1; seed <= 6 && !t->nr_failed; seed++)
		walk(t, seed, 8000);
}

/* The same with write-backs whose answers get lost and vRegions that move. */
static void random_walk_with_trouble(struct ktest *t)
{
	ASSERT_TRUE(t, cache_start(t));
	fake_delay_us(50);
	fake_writeback_timeout_every(7);
	for (unsigned int seed = 10; seed <= 12 && !t->nr_failed; seed++) {
		walk(t, seed, 2000);
		fake_move(BASE / FAKE_VREGION_SIZE, 1 + seed % FAKE_NODES);
	}
}

static const struct ktest_case cases[] = {
	KTEST(both_sides_see_what_was_there),
	KTEST(a_fork_is_one_message),
	KTEST(pages_are_found_after_eviction),
	KTEST(a_range_that_went_away_stays_away),
	KTEST(pull_makes_pages_ones_own),
	KTEST(refused_fork_leaves_the_parent),
	KTEST(a_fork_without_an_answer_ends_the_parent),
	KTEST(failing_allocations_leave_the_parent),
	KTEST(deep_chains_shrink_again),
	KTEST(many_forks_leave_nothing_behind),
	KTEST(ends_of_spaces_share_messages),
	KTEST(overlapping_children_keep_the_chain_short),
	KTEST(a_refusal_is_no_lie),
	KTEST(refused_collapse_is_tried_again),
	KTEST(a_lost_page_kills_all_who_see_it),
	KTEST(threads_write_while_one_forks),
	KTEST(a_read_never_undoes_a_copy),
	KTEST(an_overtaken_read_begins_again),
	KTEST(a_fork_waits_for_faults_under_way),
	KTEST(held_lines_are_not_written_back),
	KTEST(a_silent_owner_keeps_one_family_waiting),
	KTEST(random_walk_agrees_with_the_model),
	KTEST(random_walk_with_trouble),
	{ 0 },
};
static const struct ktest_suite suite = { .name = "processor.fork", .cases = cases };
KTEST_SUITE(suite);
