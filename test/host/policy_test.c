/* SPDX-License-Identifier: MIT */
/*
 * Replacement policies: the order of victims of each, against a model of its own, and what they
 * mean for the cache: a page in steady use goes under FIFO and stays under the others; most of a
 * loop that does not fit stays under DRRIP.
 */
#include <stdlib.h>

#include <kernel/counter.h>
#include <lib/err.h>
#include <lib/ktest.h>
#include <lib/prng.h>
#include <lib/string.h>
#include <processor/excache/cache_private.h>
#include <shim/pgtable.h>

#include "fake_owner.h"
#include "user_word.h"

#define WAYS 8

/* --- sets without a cache --------------------------------------------------------------- */

static struct cache_set set;
static struct object anon;
static struct line lines[WAYS];
static struct line *refused; /* by may_go() */

static const struct excache_policy *policy; /* the one under test */

static void set_start(const char *name)
{
	policy = policy_find(name);
	memset(&set, 0, sizeof(set));
	memset(lines, 0, sizeof(lines));
	spin_lock_init(&set.lock, "test.set", RANK_EXCACHE_SET);
	list_init(&set.resident);
	refused = NULL;
}

static void insert(struct line *line)
{
	line->obj = &anon;
	line->state = LINE_VALID;
	line->flags = 0;
	line->pins = 0;
	list_init(&line->maps);
	spin_lock(&set.lock);
	set.nr_resident++;
	policy->insert(&set, line);
	spin_unlock(&set.lock);
}

static void take_out(struct line *line)
{
	spin_lock(&set.lock);
	policy->forget(&set, line);
	spin_unlock(&set.lock);
	line->state = LINE_FREE;
	set.nr_resident--;
}

static void touch(struct line *line)
{
	spin_lock(&set.lock);
	policy->touch(&set, line);
	spin_unlock(&set.lock);
}

static bool may_go(struct line *line)
{
	return line != refused;
}

/* Index of the line that goes, or -1. */
static int victim(void)
{
	struct line *line;

	spin_lock(&set.lock);
	line = policy->victim(&set, may_go);
	spin_unlock(&set.lock);
	if (!line)
		return -1;
	take_out(line);
	return (int)(line - lines);
}

static void policies_are_found_by_name(struct ktest *t)
{
	EXPECT_STREQ(t, policy_find("fifo")->name, "fifo");
	EXPECT_STREQ(t, policy_find("clock")->name, "clock");
	EXPECT_STREQ(t, policy_find("lru")->name, "lru");
	EXPECT_STREQ(t, policy_find("drrip")->name, "drrip");
	EXPECT_EQ(t, policy_find("mru"), NULL);
	EXPECT_EQ(t, policy_find(""), NULL);
}

static void fifo_evicts_the_oldest(struct ktest *t)
{
	set_start("fifo");
	for (int i = 0; i < 5; i++)
		insert(&lines[i]);
	touch(&lines[0]); /* does not matter */
	lines[1].pins = 1;
	lines[2].state = LINE_FILLING;
	refused = &lines[3];
	EXPECT_EQ(t, victim(), 0);
	EXPECT_EQ(t, victim(), 4);
	EXPECT_EQ(t, victim(), -1);
	refused = NULL;
	lines[1].pins = 0;
	EXPECT_EQ(t, victim(), 1);
	EXPECT_EQ(t, victim(), 3);
	EXPECT_EQ(t, victim(), -1);
}

static void clock_gives_used_lines_another_round(struct ktest *t)
{
	set_start("clock");
	for (int i = 0; i < 4; i++)
		insert(&lines[i]);
	/* All are new: the hand goes round once, then the oldest goes. */
	EXPECT_EQ(t, victim(), 0);
	touch(&lines[1]);
	touch(&lines[3]);
	insert(&lines[0]);
	EXPECT_EQ(t, victim(), 2); /* 1 was used, and comes behind the new one */
	EXPECT_EQ(t, victim(), 1); /* 3 was used, 0 is new; 1 was not used again */
	EXPECT_EQ(t, victim(), 3);
	EXPECT_EQ(t, victim(), 0);
	EXPECT_EQ(t, victim(), -1);
}

static void clock_evicts_unused_prefetches_first(struct ktest *t)
{
	set_start("clock");
	insert(&lines[0]);
	insert(&lines[1]);
	insert(&lines[2]);
	lines[1].flags |= LINE_PREFETCH;
	EXPECT_EQ(t, victim(), 1);
}

static void clock_passes_what_cannot_go(struct ktest *t)
{
	set_start("clock");
	for (int i = 0; i < 3; i++)
		insert(&lines[i]);
	lines[0].pins = 1;
	lines[1].state = LINE_FILLING;
	refused = &lines[2];
	EXPECT_EQ(t, victim(), -1);
	refused = NULL;
	EXPECT_EQ(t, victim(), 2);
	EXPECT_EQ(t, victim(), -1);
}

static void lru_evicts_what_was_not_used_for_longest(struct ktest *t)
{
	set_start("lru");
	for (int i = 0; i < 5; i++)
		insert(&lines[i]);
	touch(&lines[0]);
	touch(&lines[2]);
	lines[1].pins = 1;
	lines[3].state = LINE_FILLING;
	refused = &lines[4];
	EXPECT_EQ(t, victim(), 0);
	EXPECT_EQ(t, victim(), 2);
	EXPECT_EQ(t, victim(), -1);
	refused = NULL;
	EXPECT_EQ(t, victim(), 4);
}

static void static_insertion_evicts_by_age(struct ktest *t)
{
	set_start("drrip");
	set.duel = DUEL_STATIC;
	for (int i = 0; i < 4; i++)
		insert(&lines[i]);
	touch(&lines[3]);
	EXPECT_EQ(t, victim(), 0); /* all but 3 are as old; it came first */
	lines[1].pins = 1;
	refused = &lines[2];
	EXPECT_EQ(t, victim(), 3); /* used, but alone */
	refused = NULL;
	EXPECT_EQ(t, victim(), 2);
	EXPECT_EQ(t, victim(), -1);
}

/* Of lines that come one after the other, and are not used again, how many of the old ones go? */
static int old_lines_lost(enum duel_side side)
{
	int lost = 0;

	set_start("drrip");
	set.duel = (uint8_t)side;
	/* Room for all; the last two have a full set's age. */
	for (int i = 0; i < WAYS; i++)
		insert(&lines[i]);
	for (int i = 0; i < WAYS - 1; i++)
		touch(&lines[i]);
	for (int n = 0; n < 20; n++) {
		const int i = victim();

		lost += i < WAYS - 1;
		insert(&lines[i]);
	}
	return lost;
}

static void bimodal_insertion_resists_a_scan(struct ktest *t)
{
	EXPECT_EQ(t, old_lines_lost(DUEL_BIMODAL), 0);
}

/* --- against models ------------------------------------------------------------------------ */

/*
 * FIFO: a queue. LRU: a queue where a use moves a page to the end. CLOCK: the textbook's ring with
 * a hand and a used bit for each, where a new page takes the place that the hand has just passed.
 */
static struct model {
	bool clock, lru;
	int ring[WAYS + 1]; /* indices of lines */
	int nr, hand;
	bool used[WAYS], pinned[WAYS]; /* by index */
} model;

static void model_insert(int i)
{
	const int at = model.clock ? model.hand : model.nr;

	memmove(&model.ring[at + 1], &model.ring[at], (size_t)(model.nr - at) * sizeof(int));
	model.ring[at] = i;
	model.nr++;
	if (model.clock)
		model.hand = (model.hand + 1) % model.nr;
	model.used[i] = true;
	model.pinned[i] = false;
}

static int model_remove(int at)
{
	const int i = model.ring[at];

	memmove(&model.ring[at], &model.ring[at + 1], (size_t)(model.nr - at - 1) * sizeof(int));
	if (--model.nr == model.hand)
		model.hand = 0;
	return i;
}

static void model_use(int i)
{
	int at = 0;

	model.used[i] = true;
	if (!model.lru)
		return;
	while (model.ring[at] != i)
		at++;
	model.ring[model.nr] = i;
	memmove(&model.ring[at], &model.ring[at + 1], (size_t)(model.nr - at) * sizeof(int));
}

static int model_victim(void)
{
	const int steps = model.clock ? 2 * model.nr : model.nr;

	for (int n = 0; n < steps; n++) {
		const int at = model.clock ? model.hand : n;
		const int i = model.ring[at];

		if (!model.pinned[i] && !(model.clock && model.used[i]))
			return model_remove(at);
		if (!model.pinned[i])
			model.used[i] = false;
		if (model.clock)
			model.hand = (model.hand + 1) % model.nr;
	}
	return -1;
}

static void random_step(struct ktest *t, struct prng *rng)
{
	const int i = (int)prng_below(rng, WAYS);
	struct line *line = &lines[i];

	switch (prng_below(rng, 4)) {
	case 0:
		if (line->state == LINE_FREE) {
			insert(line);
			model_insert(i);
		}
		break;
	case 1:
		if (line->state == LINE_VALID) {
			touch(line);
			model_use(i);
		}
		break;
	case 2:
		if (line->state == LINE_VALID) {
			line->pins = !line->pins;
			model.pinned[i] = line->pins;
		}
		break;
	default:
		EXPECT_EQ(t, victim(), model_victim());
	}
}

static void policies_agree_with_their_models(struct ktest *t)
{
	struct prng rng;

	for (uint64_t seed = 1; seed <= 24; seed++) {
		prng_seed(&rng, seed);
		memset(&model, 0, sizeof(model));
		model.clock = seed % 3 == 1;
		model.lru = seed % 3 == 2;
		set_start(model.clock ? "clock" : model.lru ? "lru" : "fifo");
		for (int n = 0; n < 10000 && t->nr_failed == 0; n++)
			random_step(t, &rng);
	}
}

/* --- in the cache --------------------------------------------------------------------------- */

#define BASE 0x400000ull

static struct aspace *start_space(struct ktest *t)
{
	const struct vma v = { .start = BASE,
			       .end = BASE + 4096 * PAGE_SIZE,
			       .prot = VMA_PROT_READ | VMA_PROT_WRITE };
	struct aspace *as = aspace_create(object_id(1, object_new_number()), 1);

	if (IS_ERR(as))
		abort();
	as->anon->vregion_size = FAKE_VREGION_SIZE;
	EXPECT_EQ(t, aspace_set_vma(as, &v, SEQ_ANY), 0);
	return as;
}

/* How often a page that is read again and again is gone while others of its set come and go. */
static unsigned int times_lost(struct ktest *t, const char *name)
{
	const struct excache_policy *before;
	struct pgtable_entry e;
	unsigned int lost = 0;
	struct aspace *as;

	fake_cache();
	fake_reset();
	before = excache.policy;
	excache.policy = policy_find(name);
	as = start_space(t);
	for (uint64_t n = 0; n < 200; n++) {
		uint64_t word = n, steady = 4711;

		EXPECT_EQ(t, user_word(as, BASE, n * excache.nr_sets, &word, n > 0), 0);
		lost += n > 0 && !pgtable_query(as->pt, BASE, &e);
		EXPECT_EQ(t, user_word(as, BASE, 0, &steady, false), 0);
		EXPECT_EQ(t, steady, 0u);
	}
	aspace_put(as);
	fake_settle();
	EXPECT_EQ(t, excache_free_count(), excache_line_count());
	excache.policy = before;
	return lost;
}

static void clock_keeps_a_page_in_use(struct ktest *t)
{
	EXPECT_GT(t, times_lost(t, "fifo"), 10u);
	/* Once: the hand finds all lines used the first time, and the page is the oldest. */
	EXPECT_LE(t, times_lost(t, "clock"), 1u);
	EXPECT_LE(t, times_lost(t, "lru"), 1u);
	/* Spaces in sets of each kind: static, bimodal, followers. */
	for (int i = 0; i < 30; i++)
		EXPECT_LE(t, times_lost(t, "drrip"), 1u);
}

static uint64_t value_of(struct ktest *t, const char *name)
{
	uint64_t value = 0;

	EXPECT_TRUE(t, counter_find(name, &value));
	return value;
}

/*
 * Fetches of 8 rounds over @nr_pages pages, in shares of all their accesses, per cent, in a cache
 * that 3 in 4 of them fit in.
 */
static unsigned int loop_fetches(struct ktest *t, const char *name)
{
	const struct excache_policy *before;
	struct fake_counts counts;
	struct aspace *as;
	uint64_t nr_pages;

	fake_cache();
	fake_reset();
	before = excache.policy;
	excache.policy = policy_find(name);
	nr_pages = (uint64_t)excache.nr_sets * excache.nr_ways * 4 / 3;
	as = start_space(t);
	for (uint64_t n = 0; n < 9 * nr_pages; n++) {
		uint64_t word = n;

		EXPECT_EQ(t, user_word(as, BASE, n % nr_pages, &word, n < nr_pages), 0);
		EXPECT_EQ(t, word, n % nr_pages);
	}
	fake_counts(&counts);
	aspace_put(as);
	fake_settle();
	EXPECT_EQ(t, excache_free_count(), excache_line_count());
	excache.policy = before;
	return counts.fetches * 100 / (unsigned int)(8 * nr_pages);
}

static void drrip_keeps_most_of_a_loop(struct ktest *t)
{
	EXPECT_GT(t, loop_fetches(t, "fifo"), 95u);
	EXPECT_GT(t, loop_fetches(t, "lru"), 95u);
	/* One way of eight is for what comes and goes: 1 - 3/4 * 7/8; a quarter tries the other. */
	EXPECT_LE(t, loop_fetches(t, "drrip"), 60u);
}

/* Not at all eight lines of a set for each that goes: those that are not old stay unseen. */
static void drrip_looks_at_few_lines(struct ktest *t)
{
	const uint64_t looks = value_of(t, "excache.looks");
	const uint64_t gone = value_of(t, "excache.evict_clean");

	loop_fetches(t, "drrip");
	EXPECT_LE(t, value_of(t, "excache.looks") - looks,
		  4 * (value_of(t, "excache.evict_clean") - gone));
}

/* Fully associative: one set has all lines. */
static void drrip_works_with_one_set(struct ktest *t)
{
	const struct excache before = excache;

	set_start("drrip");
	excache.sets = &set;
	excache.nr_sets = 1;
	excache.nr_ways = WAYS;
	policy_start();
	for (int i = 0; i < WAYS; i++) {
		insert(&lines[i]);
		policy->entered(&lines[i]);
	}
	EXPECT_GE(t, victim(), 0);
	excache.sets = before.sets;
	excache.nr_sets = before.nr_sets;
	excache.nr_ways = before.nr_ways;
	policy_start();
}

static const struct ktest_case policy_cases[] = {
	KTEST(policies_are_found_by_name),
	KTEST(fifo_evicts_the_oldest),
	KTEST(clock_gives_used_lines_another_round),
	KTEST(clock_evicts_unused_prefetches_first),
	KTEST(clock_passes_what_cannot_go),
	KTEST(lru_evicts_what_was_not_used_for_longest),
	KTEST(static_insertion_evicts_by_age),
	KTEST(bimodal_insertion_resists_a_scan),
	KTEST(policies_agree_with_their_models),
	KTEST(clock_keeps_a_page_in_use),
	KTEST(drrip_keeps_most_of_a_loop),
	KTEST(drrip_looks_at_few_lines),
	KTEST(drrip_works_with_one_set),
	{ 0 },
};
static const struct ktest_suite policy_suite = {
	.name = "processor.policy",
	.cases = policy_cases,
};
KTEST_SUITE(policy_suite);
