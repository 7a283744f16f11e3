/* SPDX-License-Identifier: MIT */
/*
 * Extents: any operations on a pool, in the order of a random generator, beside a model that knows
 * which frames storage nodes may write, and which processors may read.
 *
 * The model checks after each step: a frame of a program is never writable, one of
 * a file that is held is; a frame that a processor may read holds a page of its own or nothing, and
 * was cleared before it might; a place that it was told is the page's, until it was told to forget
 * it; a credit always gets a frame; what is open, lent, free and in use adds up; when
 * programs find no frame, extents_change() makes them one unless files have only what is theirs.
 */
#include "extent.h"

#include <lib/alloc.h>
#include <lib/errno.h>
#include <lib/ktest.h>
#include <lib/prng.h>
#include <lib/string.h>

#include "pool.h"

#define SIZE     16u /* frames of an extent */
#define FRAMES_0 (12u * SIZE)
#define FRAMES_1 (SIZE + 7u) /* the last one is short */
#define FRAMES   (FRAMES_0 + FRAMES_1)
#define FILE_MIN 48u
#define PROC     7u
#define OTHER    9u
#define NUMBERS  65536u
#define STEPS    30000u
#define PHASE    2500u
#define PADDR_0  0x40000000ull
#define PADDR_1  0x50000000ull

struct model {
	struct ktest *t;
	struct prng rng;
	struct pool pool;
	struct mpage *anon[FRAMES];
	uint32_t proc[FRAMES];      /* ... whose it is */
	struct mpage *file[FRAMES]; /* the cache's; FIFO */
	bool reading[FRAMES];       /* ... storage still owes it */
	bool pinned[FRAMES];        /* ... somebody sends it: it cannot be given up */
	uint32_t nr_anon, nr_file;
	struct mpage *instead; /* new content of a page that is being sent */
	bool writable[FRAMES];
	uint32_t nr_writable;
	bool fail_open;
	uint32_t nr_opened, nr_closed, nr_failed, nr_stuck, nr_instead;
	/* what is lent */
	bool deaf;                 /* processors do not answer */
	uint32_t reader[FRAMES];   /* the processor that may read it; 0: none */
	bool unheard[OTHER + 1];   /* one has not said that it has forgotten a place */
	bool forgotten[NUMBERS];   /* by the number of an extent */
	uint32_t below[OTHER + 1]; /* all of this one up to that number */
	/* one time in so many all of its processor are recalled while one is lent; 0: never */
	uint32_t recall_in_lend;
	bool short_in_lend; /* then one is recalled, as programs lack frames */
	uint32_t nr_in_lend;
	uint32_t keys, nr_lent, nr_back, nr_silent, nr_placed, nr_moved;
};

static struct model model;

static uint32_t number(const struct pool *pool, const struct mpage *page)
{
	const paddr_t paddr = mpage_paddr(pool, page);

	return paddr >= PADDR_1 ? FRAMES_0 + (uint32_t)((paddr - PADDR_1) / PAGE_SIZE)
				: (uint32_t)((paddr - PADDR_0) / PAGE_SIZE);
}

static void set_writable(struct model *m, const struct extent *e, bool writable)
{
	const uint32_t first = number(&m->pool, e->first);

	for (uint32_t i = first; i < first + e->nr_pages; i++) {
		EXPECT_NE(m->t, m->writable[i], writable);
		m->writable[i] = writable;
	}
	m->nr_writable += writable ? e->nr_pages : -e->nr_pages;
}

static int model_open(void *arg, struct extent *e)
{
	struct model *m = arg;

	if (m->fail_open && prng_below(&m->rng, 2)) {
		m->nr_failed++;
		return -ENOSPC;
	}
	set_writable(m, e, true);
	m->nr_opened++;
	return 0;
}

/* Nothing of it is in use; from now on what comes late is refused. */
static void model_close(void *arg, struct extent *e)
{
	struct model *m = arg;
	const uint32_t first = number(&m->pool, e->first);

	for (uint32_t i = 0; i < m->nr_file; i++) {
		const uint32_t at = number(&m->pool, m->file[i]);

		EXPECT_FALSE(m->t, at >= first && at < first + e->nr_pages);
	}
	set_writable(m, e, false);
	m->nr_closed++;
}

static void drop_file(struct model *m, uint32_t i)
{
	struct mpage *page = m->file[i];

	m->nr_file--;
	memmove(&m->file[i], &m->file[i + 1], (m->nr_file - i) * sizeof(m->file[0]));
	memmove(&m->reading[i], &m->reading[i + 1], (m->nr_file - i) * sizeof(m->reading[0]));
	memmove(&m->pinned[i], &m->pinned[i + 1], (m->nr_file - i) * sizeof(m->pinned[0]));
	mpage_put(&m->pool, page);
}

static bool can_drop(const struct model *m, uint32_t i)
{
	return !m->reading[i] && !m->pinned[i];
}

static bool model_reclaim(void *arg)
{
	struct model *m = arg;

	for (uint32_t i = 0; i < m->nr_file; i++) {
		if (can_drop(m, i)) {
			drop_file(m, i);
			return true;
		}
	}
	return false;
}

static void model_empty(void *arg, struct mpage *first, uint64_t nr)
{
	struct model *m = arg;

	for (uint32_t i = m->nr_file; i-- > 0;)
		if (m->file[i] >= first && m->file[i] < first + nr && can_drop(m, i))
			drop_file(m, i);
}

static struct mpage *model_oldest(void *arg)
{
	struct model *m = arg;

	for (uint32_t i = 0; i < m->nr_file; i++)
		if (can_drop(m, i))
			return m->file[i];
	return NULL;
}

static int model_lend(void *arg, struct extent *e, uint32_t *key)
{
	struct model *m = arg;
	const uint32_t first = number(&m->pool, e->first);
	const uint8_t *bytes = mpage_virt(&m->pool, e->first);

	if (m->fail_open && prng_below(&m->rng, 2)) {
		m->nr_failed++;
		return -ENOSPC;
	}
	EXPECT_TRUE(m->t, e->proc == PROC || e->proc == OTHER);
	EXPECT_FALSE(m->t, m->unheard[e->proc]);
	for (uint32_t i = first; i < first + e->nr_pages; i++) {
		EXPECT_EQ(m->t, m->reader[i], 0);
		EXPECT_FALSE(m->t, m->writable[i]);
		m->reader[i] = e->proc;
	}
	for (uint32_t i = 0; i < e->nr_pages * PAGE_SIZE; i++)
		if (bytes[i])
			EXPECT_EQ(m->t, bytes[i], 0);
	*key = ++m->keys;
	m->nr_lent++;
	if (m->recall_in_lend && !prng_below(&m->rng, m->recall_in_lend)) {
		m->nr_in_lend++;
		if (m->short_in_lend)
			(void)extents_change(&m->pool, &(struct extent_need){ FRAMES, 0 });
		else
			extents_recall(&m->pool, e->proc, true);
	}
	return 0;
}

static void model_take_back(void *arg, struct extent *e)
{
	struct model *m = arg;
	const uint32_t first = number(&m->pool, e->first);

	for (uint32_t i = first; i < first + e->nr_pages; i++) {
		EXPECT_NE(m->t, m->reader[i], 0);
		m->reader[i] = 0;
	}
	EXPECT_EQ(m->t, e->place, 0);
	m->nr_back++;
}

static int model_revoke(void *arg, uint32_t proc, uint32_t extent, bool below)
{
	struct model *m = arg;

	EXPECT_TRUE(m->t, extent > 0 && extent < NUMBERS);
	if (!below)
		EXPECT_FALSE(m->t, m->unheard[proc]); /* each question may last a second */
	if (m->deaf) {
		m->unheard[proc] = true;
		m->nr_silent++;
		return -ETIMEDOUT;
	}
	if (below) {
		m->unheard[proc] = false;
		m->below[proc] = MAX(m->below[proc], extent);
	} else {
		EXPECT_FALSE(m->t, m->forgotten[extent]); /* there is one of that number */
		m->forgotten[extent] = true;
	}
	return 0;
}

static const struct pool_ops model_ops = {
	.reclaim = model_reclaim,
	.open = model_open,
	.close = model_close,
	.empty = model_empty,
	.oldest = model_oldest,
	.lend = model_lend,
	.take_back = model_take_back,
	.revoke = model_revoke,
};

static void take_file(struct model *m)
{
	struct mpage *page = pool_alloc_file(&m->pool, prng_below(&m->rng, 4));

	if (!page)
		return;
	m->reading[m->nr_file] = true;
	m->pinned[m->nr_file] = false;
	m->file[m->nr_file++] = page;
}

static void add_anon(struct model *m, struct mpage *page, uint32_t proc)
{
	memset(mpage_virt(&m->pool, page), 0xa5, PAGE_SIZE);
	m->proc[m->nr_anon] = proc;
	m->anon[m->nr_anon++] = page;
}

/* A credit is worth a frame, whatever files have; else there may be none for the moment. */
static void take_anon(struct model *m, uint32_t proc)
{
	const bool must = proc && pool_credits(&m->pool, proc);
	struct mpage *page;
	bool credit;

	page = pool_alloc_anon(&m->pool, proc, &credit);
	EXPECT_EQ(m->t, credit, must);
	EXPECT_TRUE(m->t, page || !must);
	if (page)
		add_anon(m, page, proc);
}

/* New content of a page that is here goes where its processor may read it, if it can. */
static void write_again(struct model *m)
{
	const uint32_t i = m->nr_anon ? (uint32_t)prng_below(&m->rng, m->nr_anon) : 0;
	struct mpage *fresh;

	if (!m->nr_anon || !m->proc[i])
		return;
	fresh = pool_alloc_readable(&m->pool, m->proc[i], m->anon[i]);
	if (!fresh)
		return;
	EXPECT_NE(m->t, mpage_place(&m->pool, fresh, m->proc[i]).extent, 0);
	m->nr_moved++;
	mpage_put(&m->pool, m->anon[i]);
	m->anon[i] = fresh;
}

static void read_end(struct model *m, uint32_t i)
{
	if (m->reading[i])
		pool_file_read(&m->pool, m->file[i]);
	m->reading[i] = false;
}

/* Sometimes storage is slow, and at times nobody sends anything. */
static void change_file(struct model *m)
{
	const uint64_t what = prng_below(&m->rng, 32);

	if (!m->nr_file)
		return;
	if (what < 16)
		read_end(m, (uint32_t)prng_below(&m->rng, m->nr_file));
	else if (what < 24)
		m->pinned[prng_below(&m->rng, m->nr_file)] ^= true;
	for (uint32_t i = 0; what >= 30 && i < m->nr_file; i++) {
		read_end(m, i);
		m->pinned[i] &= what == 30;
	}
}

static void put_anon(struct model *m)
{
	const uint32_t i = m->nr_anon ? (uint32_t)prng_below(&m->rng, m->nr_anon) : 0;

	if (!m->nr_anon)
		return;
	mpage_put(&m->pool, m->anon[i]);
	m->anon[i] = m->anon[--m->nr_anon];
	m->proc[i] = m->proc[m->nr_anon];
}

static void account(struct model *m)
{
	static uint64_t report;
	uint64_t had;
	int64_t delta;
	uint32_t now;

	switch (prng_below(&m->rng, 4)) {
	case 0:
		(void)pool_grant(&m->pool, prng_below(&m->rng, 4) ? PROC : OTHER,
				 (uint32_t)prng_below(&m->rng, 60), false, &had);
		break;
	case 1:
		(void)pool_revoke(&m->pool, PROC, (uint32_t)prng_below(&m->rng, 60));
		break;
	case 2:
		EXPECT_EQ(m->t,
			  pool_report(&m->pool, PROC, ++report, (uint32_t)prng_below(&m->rng, 60),
				      (uint32_t)prng_below(&m->rng, 20), false, &delta, &now),
			  0);
		break;
	default:
		(void)pool_zero_dirty(&m->pool, prng_below(&m->rng, 4));
	}
}

/* One at a time there is always, whatever programs have. */
static void instead(struct model *m)
{
	if (m->instead) {
		mpage_put(&m->pool, m->instead);
		m->instead = NULL;
		return;
	}
	m->instead = pool_alloc_instead(&m->pool);
	EXPECT_TRUE(m->t, m->instead);
	m->nr_instead++;
}

/* A processor may read its own pages, and is told where just when it may. */
static void check_anon(struct model *m, const struct mpage *page, uint32_t proc)
{
	const uint32_t at = number(&m->pool, page);
	const struct pm_place place = mpage_place(&m->pool, page, proc);
	const struct extent *e = extent_of(&m->pool, page);

	EXPECT_FALSE(m->t, m->writable[at]);
	EXPECT_TRUE(m->t, !m->reader[at] || m->reader[at] == proc);
	EXPECT_EQ(m->t, place.extent != 0, m->reader[at] != 0);
	if (!place.extent)
		return;
	EXPECT_EQ(m->t, &e->first[place.frame], page);
	EXPECT_FALSE(m->t, m->forgotten[place.extent]);
	EXPECT_GT(m->t, place.extent, m->below[proc]); /* it reads there again */
	EXPECT_NE(m->t, place.rkey, 0);
	EXPECT_EQ(m->t, mpage_place(&m->pool, page, proc + 1).extent, 0);
	m->nr_placed++;
}

/* Both sides of the account of what is lent; credits do not count what is free in it. */
static void check_lent(struct model *m, const struct pool_stats *s)
{
	uint64_t readable = 0, in_use = 0, of[2] = { 0 };

	for (uint32_t i = 0; i < FRAMES; i++) {
		readable += m->reader[i] != 0;
		of[0] += m->reader[i] == PROC;
		of[1] += m->reader[i] == OTHER;
	}
	for (uint32_t i = 0; i < m->nr_anon; i++) {
		const uint32_t reader = m->reader[number(&m->pool, m->anon[i])];

		in_use += reader != 0;
		of[0] -= reader == PROC;
		of[1] -= reader == OTHER;
	}
	EXPECT_EQ(m->t, s->lent_frames, readable);
	EXPECT_EQ(m->t, s->lent_free, readable - in_use);
	EXPECT_EQ(m->t, s->lent_free, of[0] + of[1]);
	spin_lock(&m->pool.lock);
	EXPECT_EQ(m->t, m->pool.capacity, FRAMES - s->file_extents - s->lent_free);
	for (uint32_t i = 0; i < 2; i++) {
		const struct pool_account *a = pool_account_locked(&m->pool, i ? OTHER : PROC);

		EXPECT_EQ(m->t, a ? a->lent_free : 0, of[i]);
	}
	spin_unlock(&m->pool.lock);
}

static void check(struct model *m)
{
	struct pool_stats s;

	pool_stats(&m->pool, &s);
	EXPECT_EQ(m->t, s.used, m->nr_anon + (m->instead != NULL));
	EXPECT_EQ(m->t, s.file, m->nr_file);
	EXPECT_EQ(m->t, s.zero + s.dirty + s.used + s.file, FRAMES);
	EXPECT_EQ(m->t, s.file_extents, m->nr_writable);
	EXPECT_LE(m->t, s.used + s.reserved + s.file_extents, FRAMES);
	EXPECT_LE(m->t, s.used + s.reserved, s.programs + 1);
	for (uint32_t i = 0; i < m->nr_anon; i++)
		check_anon(m, m->anon[i], m->proc[i]);
	check_lent(m, &s);
	for (uint32_t i = 0; i < m->nr_file; i++)
		EXPECT_TRUE(m->t, m->writable[number(&m->pool, m->file[i])]);
}

/* The thread of a node, without its wait: only pages in use may keep it from what is wanted. */
static void change_all(struct model *m)
{
	enum extent_result result;

	while ((result = extents_change(&m->pool, NULL)) != EXTENTS_NOTHING)
		m->nr_stuck += result == EXTENTS_STUCK;
}

/* Programs can have all that is theirs, and files what is left: no use starves by the other. */
static void all_can_be_had(struct model *m)
{
	struct pool_stats s;

	while (m->nr_file) {
		read_end(m, 0);
		drop_file(m, 0);
	}
	(void)pool_revoke(&m->pool, PROC, UINT32_MAX);
	(void)pool_revoke(&m->pool, OTHER, UINT32_MAX);
	change_all(m);
	for (uint32_t i = 0; i < 2 * FRAMES; i++) {
		take_file(m);
		if (m->nr_file)
			read_end(m, m->nr_file - 1);
		change_all(m);
	}
	check(m);
	EXPECT_GE(m->t, m->nr_file, m->pool.file_floor);
	pool_stats(&m->pool, &s);
	while (m->nr_anon < s.programs && !m->t->nr_failed) {
		const uint32_t before = m->nr_anon;

		take_anon(m, 0);
		change_all(m);
		if (before == m->nr_anon)
			take_anon(m, 0);
		EXPECT_GT(m->t, m->nr_anon, before);
	}
	check(m);
	EXPECT_GE(m->t, m->nr_writable, m->pool.file_floor);
	EXPECT_EQ(m->t, pool_room(&m->pool), 0);
}

/* @grows: programs take more than they give; else files get it back. */
static void step(struct model *m, bool grows)
{
	switch (prng_below(&m->rng, 12)) {
	case 0:
	case 1:
		take_file(m);
		break;
	case 2:
		if (!grows)
			put_anon(m);
		break;
	case 3:
		if (!grows)
			break;
		fallthrough;
	case 4:
		take_anon(m, (uint32_t[]){ PROC, PROC, OTHER, 0 }[prng_below(&m->rng, 4)]);
		break;
	case 5:
	case 6:
		change_file(m);
		break;
	case 7:
		put_anon(m);
		break;
	case 8:
		if (!grows)
			put_anon(m);
		break;
	case 9:
		account(m);
		break;
	case 10:
		for (int i = 0; i < 4; i++)
			write_again(m);
		if (!prng_below(&m->rng, 8))
			instead(m);
		if (!prng_below(&m->rng, 64))
			extents_recall(&m->pool, PROC, true); /* a vRegion goes */
		if (!prng_below(&m->rng, 64))
			extents_recall_all(&m->pool);
		m->deaf = !prng_below(&m->rng, 3);
		break;
	default:
		if (m->pool.has_changer)
			change_all(m);
	}
}

static bool start(struct ktest *t, struct model *m, uint8_t *arena)
{
	const struct pm_commit policy = { .mode = PM_COMMIT_ALWAYS };
	const struct pool_run runs[] = {
		{ .virt = arena, .paddr = PADDR_0, .nr_pages = FRAMES_0 },
		{ .virt = arena + FRAMES_0 * PAGE_SIZE, .paddr = PADDR_1, .nr_pages = FRAMES_1 },
	};

	memset(m, 0, sizeof(*m));
	m->t = t;
	if (!arena || pool_init(&m->pool, runs, ARRAY_SIZE(runs), SIZE, FILE_MIN, &policy))
		return false;
	m->pool.ops = &model_ops;
	m->pool.ops_arg = m;
	m->pool.zero_ahead = 8;
	return true;
}

static void stop(struct model *m)
{
	while (m->nr_anon)
		mpage_put(&m->pool, m->anon[--m->nr_anon]);
	while (m->nr_file)
		drop_file(m, 0);
	check(m);
	pool_destroy(&m->pool);
}

/* @lends: files get no extent ahead of need, so that there are some to lend. */
static void run_random(struct ktest *t, uint64_t seed, bool has_changer, bool fail_open, bool lends)
{
	uint8_t *arena = lib_alloc(FRAMES * PAGE_SIZE);
	struct model *m = &model;

	ASSERT_TRUE(t, start(t, m, arena));
	prng_seed(&m->rng, seed);
	m->fail_open = fail_open;
	m->recall_in_lend = 3;
	m->pool.has_changer = has_changer;
	if (has_changer)
		m->pool.ahead = (struct extent_need){ m->pool.slack + (lends ? 1 : SIZE),
						      lends ? 0 : SIZE };
	for (uint32_t i = 0; i < STEPS && !t->nr_failed; i++) {
		step(m, i / PHASE % 2);
		/* Programs end, and the next find extents of no use. */
		while (lends && !(i % 500) && m->nr_anon)
			put_anon(m);
		check(m);
	}
	EXPECT_GT(t, m->nr_instead, 10);
	EXPECT_EQ(t, m->nr_failed > 0, fail_open);
	if (!lends) {
		EXPECT_GT(t, m->nr_opened, 10);
		EXPECT_GT(t, m->nr_closed, 10);
	}
	if (has_changer && !lends)
		EXPECT_GT(t, m->nr_stuck, 10);
	if (lends) {
		EXPECT_GT(t, m->nr_lent, 10);
		EXPECT_GT(t, m->nr_back, 10);
		EXPECT_GT(t, m->nr_silent, 3);
		EXPECT_GT(t, m->nr_in_lend, 3);
		EXPECT_GT(t, m->nr_placed, 1000);
		EXPECT_GT(t, m->nr_moved, 10);
	}
	m->fail_open = m->deaf = false;
	m->recall_in_lend = 0;
	if (m->instead)
		instead(m);
	all_can_be_had(m);
	stop(m);
	lib_free(arena);
}

static void programs_frames_are_never_writable(struct ktest *t)
{
	run_random(t, 20261124, true, false, false);
}

static void also_where_the_taker_changes_them(struct ktest *t)
{
	for (uint64_t seed = 1; seed <= 8 && !t->nr_failed; seed++)
		run_random(t, seed, false, false, false);
}

static void also_when_regions_cannot_be_made(struct ktest *t)
{
	run_random(t, 20261126, true, true, false);
}

static void a_processor_reads_its_own_frames_alone(struct ktest *t)
{
	for (uint64_t seed = 1; seed <= 4 && !t->nr_failed; seed++)
		run_random(t, seed, true, seed == 4, true);
}

/* Credits wait for no file: neither for a page that storage owes, nor for one that is sent. */
static void a_credit_has_its_frame(struct ktest *t)
{
	uint8_t *arena = lib_alloc(FRAMES * PAGE_SIZE);
	struct model *m = &model;
	uint64_t report;
	uint32_t got;

	ASSERT_TRUE(t, start(t, m, arena));
	prng_seed(&m->rng, 1);
	got = pool_grant(&m->pool, PROC, 40, false, &report);
	EXPECT_EQ(t, got, 40);
	for (uint32_t i = 0; i < FRAMES; i++)
		take_file(m); /* and all are owed */
	while (got--)
		take_anon(m, PROC);
	EXPECT_EQ(t, m->nr_anon, 40);
	/* The taker finds no more: files have the rest, and it is not theirs to give. */
	for (uint32_t i = 0; i < SIZE; i++)
		take_anon(m, 0);
	EXPECT_LT(t, m->nr_anon, 40 + SIZE);
	/* A processor that is gone has none. */
	EXPECT_EQ(t, pool_revoke(&m->pool, PROC, 1), 0);
	pool_fence(&m->pool, PROC);
	EXPECT_EQ(t, pool_grant(&m->pool, PROC, 1, false, &report), 0);
	for (uint32_t i = 0; i < m->nr_file; i++)
		read_end(m, i);
	stop(m);
	lib_free(arena);
}

/* A pool that lends @nr extents to PROC, with one page in each. */
static bool start_lent(struct ktest *t, struct model *m, uint8_t *arena, uint32_t nr)
{
	if (!start(t, m, arena))
		return false;
	prng_seed(&m->rng, 1);
	m->pool.has_changer = true;
	m->pool.ahead.anon = m->pool.slack + 1;
	for (uint32_t i = 0; i < 2 * SIZE * nr && m->nr_lent < nr; i++) {
		uint64_t report;

		EXPECT_GT(t, pool_grant(&m->pool, PROC, 1, false, &report), 0);
		take_anon(m, PROC);
		change_all(m);
	}
	return m->nr_lent == nr;
}

/* While an extent is being lent its processor is told to forget, or is silent: not this one. */
static void what_is_recalled_is_not_lent(struct ktest *t)
{
	for (int deaf = 0; deaf < 2; deaf++) {
		uint8_t *arena = lib_alloc(FRAMES * PAGE_SIZE);
		struct model *m = &model;
		struct pool_stats s;

		ASSERT_TRUE(t, start_lent(t, m, arena, 1));
		m->recall_in_lend = 1;
		m->deaf = m->short_in_lend = deaf;
		spin_lock(&m->pool.lock);
		m->pool.wants_extent = PROC;
		spin_unlock(&m->pool.lock);
		change_all(m);
		EXPECT_EQ(t, m->nr_in_lend, 1);
		pool_stats(&m->pool, &s);
		EXPECT_EQ(t, s.lent_frames, 0);
		check(m);
		stop(m);
		lib_free(arena);
	}
}

/* One that was silent is asked for no other extent; when it speaks again it has forgotten all. */
static void who_is_silent_is_asked_no_more(struct ktest *t)
{
	uint8_t *arena = lib_alloc(FRAMES * PAGE_SIZE);
	const struct extent_need all = { FRAMES, 0 };
	struct model *m = &model;

	ASSERT_TRUE(t, start_lent(t, m, arena, 3));
	m->deaf = true;
	EXPECT_EQ(t, extents_change(&m->pool, &all), EXTENTS_CHANGED);
	EXPECT_EQ(t, extents_change(&m->pool, &all), EXTENTS_CHANGED);
	EXPECT_EQ(t, m->nr_back, 2);
	EXPECT_EQ(t, m->nr_silent, 1);
	EXPECT_EQ(t, m->pool.lent_frames, SIZE); /* full of pages */
	m->deaf = false;
	spin_lock(&m->pool.lock);
	m->pool.wants_extent = PROC;
	spin_unlock(&m->pool.lock);
	change_all(m);
	EXPECT_EQ(t, m->nr_lent, 4);
	EXPECT_EQ(t, m->pool.lent_frames, SIZE); /* the new one */
	check(m);
	stop(m);
	lib_free(arena);
}

/* A few frames are not worth their processor's places, as long as files can give way. */
static void files_give_way_before_what_is_used(struct ktest *t)
{
	uint8_t *arena = lib_alloc(FRAMES * PAGE_SIZE);
	struct model *m = &model;
	struct pool_stats s;

	ASSERT_TRUE(t, start_lent(t, m, arena, 1));
	while (m->pool.lent_free > SIZE / 4) {
		uint64_t report;

		EXPECT_GT(t, pool_grant(&m->pool, PROC, 1, false, &report), 0);
		take_anon(m, PROC);
	}
	m->pool.ahead = (struct extent_need){ 0, FRAMES };
	change_all(m);
	m->pool.ahead = (struct extent_need){ FRAMES / 2, 0 };
	change_all(m);
	pool_stats(&m->pool, &s);
	EXPECT_EQ(t, s.lent_frames, SIZE);
	EXPECT_GT(t, m->nr_closed, 0);
	/* All of them have given way. */
	m->pool.ahead.anon = FRAMES;
	change_all(m);
	pool_stats(&m->pool, &s);
	EXPECT_EQ(t, s.lent_frames, 0);
	check(m);
	stop(m);
	lib_free(arena);
}

static void sizes_fit_the_pool(struct ktest *t)
{
	EXPECT_EQ(t, extent_pages_for(512, 512ull << 8), 512);
	EXPECT_EQ(t, extent_pages_for(700, 512ull << 8), 512);
	EXPECT_EQ(t, extent_pages_for(512, 32ull << 8), 256); /* 32 MiB: 32 extents */
	EXPECT_EQ(t, extent_pages_for(512, 100), 16);
	EXPECT_EQ(t, extent_pages_for(1, 1 << 20), 512); /* no more than 2048 extents */
	EXPECT_EQ(t, extent_pages_for(512, 64ull << 18), 8192);
}

static const struct ktest_case cases[] = {
	KTEST(programs_frames_are_never_writable),
	KTEST(also_where_the_taker_changes_them),
	KTEST(also_when_regions_cannot_be_made),
	KTEST(a_processor_reads_its_own_frames_alone),
	KTEST(a_credit_has_its_frame),
	KTEST(what_is_recalled_is_not_lent),
	KTEST(who_is_silent_is_asked_no_more),
	KTEST(files_give_way_before_what_is_used),
	KTEST(sizes_fit_the_pool),
	{ 0 },
};
static const struct ktest_suite suite = { .name = "memory.extents", .cases = cases };
KTEST_SUITE(suite);
