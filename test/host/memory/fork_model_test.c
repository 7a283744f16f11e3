/* SPDX-License-Identifier: MIT */
/*
 * Chains of spaces against a reference model: random writes, mappings, forks, collapses, discards,
 * ends and moves of vRegions on one to three memory monitors, with allocations and messages that
 * fail.
 *
 * The model plays the processor: it knows which object has which page and what is hidden, and
 * collapses when an object has one in front of it, at the top as the processor does and sometimes
 * in the middle.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lib/errno.h>
#include <lib/ktest.h>
#include <shim/shim.h>

#include "fixture.h"

#define BASE    0x40000000ull
#define PAGES   3072u /* 12 MiB: 6 vRegions of 2 MiB */
#define OBJECTS 64u
#define TOPS    5u

struct obj {
	struct fake_proc p;
	struct obj *behind;
	uint32_t shadows;
	bool used, top;
	bool mapped[PAGES]; /* top: as now; frozen: as it was */
	bool writable[PAGES];
	bool hides[PAGES];     /* of what is behind it */
	uint64_t value[PAGES]; /* 0: it has no such page */
};

struct model {
	struct ktest *t;
	struct fake f;
	struct prng r;
	struct obj objs[OBJECTS];
	uint64_t next_id;
	uint64_t next_value;
	uint32_t home;
};

static uint8_t page[PAGE_SIZE] __aligned(8);

static uint64_t va(uint32_t pg)
{
	return BASE + (uint64_t)pg * PAGE_SIZE;
}

static uint32_t below(struct model *m, uint32_t n)
{
	return (uint32_t)prng_below(&m->r, n);
}

static struct obj *obj_new(struct model *m)
{
	for (uint32_t i = 0; i < OBJECTS; i++) {
		struct obj *o = &m->objs[i];

		if (o->used)
			continue;
		memset(o, 0, sizeof(*o));
		o->used = true;
		proc_init(&o->p, &m->f, FAKE_SPACE(m->home, ++m->next_id), m->home);
		return o;
	}
	return NULL;
}

static void obj_free(struct obj *o)
{
	proc_done(&o->p);
	o->used = false;
}

static uint32_t count(const struct model *m, bool tops_only)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < OBJECTS; i++)
		n += m->objs[i].used && (m->objs[i].top || !tops_only);
	return n;
}

/* A random object: a top, or any. */
static struct obj *pick(struct model *m, bool top)
{
	uint32_t skip = below(m, count(m, top));

	for (uint32_t i = 0; i < OBJECTS; i++)
		if (m->objs[i].used && (m->objs[i].top || !top) && !skip--)
			return &m->objs[i];
	return NULL;
}

static struct obj *only_front(struct model *m, const struct obj *behind)
{
	for (uint32_t i = 0; i < OBJECTS; i++)
		if (m->objs[i].used && m->objs[i].behind == behind)
			return &m->objs[i];
	return NULL;
}

/* --- what programs do ----------------------------------------------------------------------- */

static void do_write(struct model *m)
{
	struct obj *o = pick(m, true);
	const uint32_t pg = below(m, PAGES);
	int res;

	page_stamp(page, ++m->next_value);
	res = proc_writeback(&o->p, va(pg), page);
	/* Where nothing is mapped, the region may be gone, too. */
	EXPECT_TRUE(m->t, o->mapped[pg] ? res == 0 : res == -EFAULT || res == -ESRCH);
	if (o->mapped[pg])
		o->value[pg] = m->next_value;
}

/* A page as the program sees it: through the chain. */
static void do_read(struct model *m)
{
	struct obj *top = pick(m, true), *o = top;
	const uint32_t pg = below(m, PAGES);
	int res;

	if (!top->mapped[pg]) {
		res = proc_fetch(&top->p, va(pg), false, page);
		EXPECT_TRUE(m->t, res == -EFAULT || res == -ESRCH);
		return;
	}
	while (o && !o->value[pg])
		o = o->hides[pg] ? NULL : o->behind;
	if (!o) {
		EXPECT_EQ(m->t, proc_fetch(&top->p, va(pg), false, page), PM_FETCH_ZERO);
		return;
	}
	res = proc_fetch(&o->p, va(pg), false, page);
	ASSERT_EQ(m->t, res, PM_FETCH_DATA);
	EXPECT_EQ(m->t, page_value(page), o->value[pg]);
}

static void unmap(struct obj *o, uint32_t first, uint32_t nr)
{
	for (uint32_t i = first; i < first + nr; i++) {
		o->mapped[i] = false;
		o->writable[i] = false;
		o->value[i] = 0;
		for (const struct obj *b = o->behind; b; b = b->behind)
			o->hides[i] |= b->value[i] != 0;
	}
}

static void do_mapping(struct model *m)
{
	struct obj *o = pick(m, true);
	const uint32_t nr = 1 + below(m, 600);
	const uint32_t first = below(m, PAGES - nr + 1);
	const uint32_t prot = below(m, 4) ? RW : PM_PROT_READ;
	uint64_t addr;
	int res;

	if (below(m, 2)) {
		ASSERT_EQ(m->t, proc_munmap(&o->p, va(first), (uint64_t)nr * PAGE_SIZE), 0);
		unmap(o, first, nr);
		return;
	}
	res = proc_mmap(&o->p, va(first), (uint64_t)nr * PAGE_SIZE, prot, PM_MAP_FIXED, &addr);
	ASSERT_EQ(m->t, res, 0);
	unmap(o, first, nr);
	for (uint32_t i = first; i < first + nr; i++) {
		o->mapped[i] = true;
		o->writable[i] = prot == RW;
	}
}

static void do_protect(struct model *m)
{
	struct obj *o = pick(m, true);
	const uint32_t first = below(m, PAGES - 300);
	const uint32_t prot = below(m, 2) ? RW : PM_PROT_READ;
	uint32_t whole = 0;
	int res;

	while (whole < 300 && o->mapped[first + whole])
		whole++;
	res = proc_mprotect(&o->p, va(first), 300 * PAGE_SIZE, prot);
	ASSERT_EQ(m->t, res, whole == 300 ? 0 : -ENOMEM);
	for (uint32_t i = first; i < first + whole; i++)
		o->writable[i] = prot == RW;
}

/* --- collapse and end ------------------------------------------------------------------------- */

/* The ranges that the processor tells the owners to drop: pages that @y hides. */
static uint32_t hidden_ranges(const struct obj *x, const struct obj *y, struct pm_page_range *out,
			      uint32_t max, uint32_t *from)
{
	uint32_t nr = 0, pg = *from;

	while (pg < PAGES && nr < max) {
		if (!x->value[pg] || !y->hides[pg] || y->value[pg]) {
			pg++;
			continue;
		}
		out[nr].addr = va(pg);
		while (pg < PAGES && y->hides[pg])
			pg++;
		out[nr].len = va(pg) - out[nr].addr;
		nr++;
	}
	*from = pg;
	return nr;
}

static void collapse(struct model *m, struct obj *x, struct obj *y)
{
	static struct pm_page_range ranges[PM_DISCARD_MAX_RANGES];
	const uint32_t max = 1 + below(m, PM_DISCARD_MAX_RANGES);
	uint32_t nr, pg = 0;
	int res;

	while ((nr = hidden_ranges(x, y, ranges, max, &pg)) == max && pg < PAGES)
		ASSERT_EQ(m->t, proc_discard(&x->p, ranges, nr), 0);
	if (!below(m, 3)) {
		m->f.fail_opcode = below(m, 2) ? MM_COLLAPSE : MM_VREGION_TAKE;
		m->f.fail_after = (int)below(m, 3);
		m->f.fail_late = below(m, 2);
		m->f.fail_once = true;
		m->f.fail_error = -ETIMEDOUT;
	}
	res = proc_collapse(&x->p, &y->p, ranges, nr);
	m->f.fail_opcode = 0;
	while (res == -ETIMEDOUT)
		res = proc_collapse(&x->p, &y->p, ranges, nr);
	ASSERT_EQ(m->t, res, 0);
	for (uint32_t i = 0; i < PAGES; i++) {
		if (!y->value[i] && !y->hides[i])
			y->value[i] = x->value[i];
		y->hides[i] |= x->hides[i];
	}
	y->behind = x->behind;
	obj_free(x);
}

/* @o has lost one that was in front of it. */
static void lost_front(struct model *m, struct obj *o)
{
	while (o && !o->shadows) {
		struct obj *behind = o->behind;

		ASSERT_EQ(m->t, proc_destroy(&o->p), 0);
		obj_free(o);
		if (behind)
			behind->shadows--;
		o = behind;
	}
	if (o && o->shadows == 1) {
		struct obj *front = only_front(m, o);

		if (front->top || below(m, 2))
			collapse(m, o, front);
	}
}

static void end(struct model *m, struct obj *o)
{
	struct obj *behind = o->behind;

	ASSERT_EQ(m->t, proc_destroy(&o->p), 0);
	obj_free(o);
	if (behind)
		behind->shadows--;
	lost_front(m, behind);
}

static void do_end(struct model *m)
{
	if (count(m, true) > 1)
		end(m, pick(m, true));
}

/* --- fork ------------------------------------------------------------------------------------- */

static void fork_failures(struct model *m)
{
	const uint32_t how = below(m, 4);

	if (how == 0)
		shim_fail_alloc_after(below(m, 60));
	if (how != 1)
		return;
	m->f.fail_opcode = MM_FORK;
	m->f.fail_after = (int)below(m, 5);
	m->f.fail_late = below(m, 2);
	m->f.fail_once = true;
	m->f.fail_error = -ETIMEDOUT;
}

static void do_fork(struct model *m)
{
	struct obj *o = pick(m, true), *parent, *child;
	int res;

	if (count(m, true) == TOPS)
		return;
	if (o->behind && o->behind->shadows == 1)
		collapse(m, o->behind, o);
	parent = obj_new(m);
	child = obj_new(m);
	ASSERT_TRUE(m->t, parent && child);
	fork_failures(m);
	res = proc_fork(&o->p, &parent->p, &child->p);
	shim_fail_alloc_after(-1);
	m->f.fail_opcode = 0;
	if (res) {
		EXPECT_TRUE(m->t, res == -ENOMEM || res == -ETIMEDOUT);
		obj_free(parent);
		obj_free(child);
		return;
	}
	o->top = false;
	o->shadows = 2;
	parent->top = child->top = true;
	parent->behind = child->behind = o;
	memcpy(parent->mapped, o->mapped, sizeof(o->mapped));
	memcpy(child->mapped, o->mapped, sizeof(o->mapped));
	memcpy(parent->writable, o->writable, sizeof(o->writable));
	memcpy(child->writable, o->writable, sizeof(o->writable));
}

/* A line that was dirty when its object was frozen is evicted now. */
static void do_late_write(struct model *m)
{
	struct obj *o = pick(m, false);
	const uint32_t pg = below(m, PAGES);

	if (o->top || !o->value[pg])
		return;
	page_stamp(page, ++m->next_value);
	EXPECT_EQ(m->t, proc_writeback(&o->p, va(pg), page), 0);
	o->value[pg] = m->next_value;
}

static void do_discard(struct model *m)
{
	struct obj *o = pick(m, false);
	const uint32_t nr = 1 + below(m, 40);
	const uint32_t first = below(m, PAGES - nr + 1);
	const struct pm_page_range range = { va(first), (uint64_t)nr * PAGE_SIZE };

	ASSERT_EQ(m->t, proc_discard(&o->p, &range, 1), 0);
	for (uint32_t i = first; i < first + nr; i++)
		o->value[i] = 0;
}

static void do_move(struct model *m)
{
	struct obj *o = pick(m, false);
	const uint64_t index = (BASE >> SHIFT_2M) + below(m, PAGES / 512);
	const uint32_t to = FAKE_MEM_FIRST + below(m, (uint32_t)m->f.nr_mem);
	int res;

	if (!below(m, 3)) {
		m->f.fail_opcode = below(m, 2) ? MM_VREGION_TAKE : MM_PAGES;
		m->f.fail_after = (int)below(m, 3);
		m->f.fail_late = below(m, 2);
		m->f.fail_once = true;
		m->f.fail_error = -ETIMEDOUT;
	}
	res = home_move_vregion(fake_node(&m->f, m->home), o->p.aspace, index, to);
	m->f.fail_opcode = 0;
	EXPECT_TRUE(m->t, res == 0 || res == -ENOENT || res == -EALREADY || res == -ETIMEDOUT);
}

/* --- run -------------------------------------------------------------------------------------- */

static void step(struct model *m)
{
	const uint32_t op = below(m, 100);

	if (op < 4)
		do_fork(m);
	else if (op < 7)
		do_end(m);
	else if (op < 13)
		do_mapping(m);
	else if (op < 16)
		do_protect(m);
	else if (op < 19)
		do_move(m);
	else if (op < 22)
		do_discard(m);
	else if (op < 28)
		do_late_write(m);
	else if (op < 55)
		do_read(m);
	else
		do_write(m);
}

/* Frames and charges are exactly those of the model; a processor has each of its frames once. */
static void check_accounts(struct model *m)
{
	uint64_t used = 0, committed = 0, has = 0, charged = 0;
	struct pool_stats s;

	for (size_t i = 0; i < m->f.nr_mem; i++) {
		pool_stats(&m->f.mem[i].pool, &s);
		EXPECT_EQ(m->t, owner_pages_of(&m->f.mem[i], FAKE_PROC), s.used);
		has += s.used;
		charged += s.committed;
	}
	for (uint32_t i = 0; i < OBJECTS; i++) {
		const struct obj *o = &m->objs[i];

		for (uint32_t pg = 0; pg < PAGES && o->used; pg++) {
			used += o->value[pg] != 0;
			committed += o->top && o->writable[pg];
		}
	}
	EXPECT_EQ(m->t, has, used);
	EXPECT_EQ(m->t, charged, committed);
}

static void check_pages(struct model *m)
{
	for (uint32_t i = 0; i < OBJECTS; i++) {
		struct obj *o = &m->objs[i];

		for (uint32_t pg = 0; pg < PAGES && o->used && !m->t->nr_failed; pg++) {
			if (!o->value[pg])
				continue;
			ASSERT_EQ(m->t, proc_fetch(&o->p, va(pg), false, page), PM_FETCH_DATA);
			EXPECT_EQ(m->t, page_value(page), o->value[pg]);
		}
	}
}

static void run(struct ktest *t, uint64_t seed, int steps, size_t nr_mem)
{
	struct model *m = calloc(1, sizeof(*m));
	struct obj *first;

	m->t = t;
	m->home = FAKE_MEM_FIRST + (uint32_t)(seed % nr_mem);
	prng_seed(&m->r, seed);
	fake_start(&m->f, nr_mem, 32768, SHIFT_2M);
	first = obj_new(m);
	first->top = true;
	EXPECT_EQ(t, proc_space(&first->p), 0);
	for (int i = 0; i < steps && !t->nr_failed; i++) {
		step(m);
		if (i % 100 == 0)
			check_accounts(m);
	}
	check_accounts(m);
	check_pages(m);
	if (t->nr_failed)
		fprintf(stderr, "seed %lu, %zu memory nodes, %u objects\n", (unsigned long)seed,
			nr_mem, count(m, false));
	while (count(m, true) && !t->nr_failed)
		end(m, pick(m, true));
	EXPECT_EQ(t, count(m, false), 0);
	EXPECT_TRUE(t, t->nr_failed || fake_stop(&m->f));
	free(m);
}

static void random_forks_match_the_model(struct ktest *t)
{
	for (uint64_t seed = 1; seed <= 9 && !t->nr_failed; seed++)
		run(t, seed, 4000, 1 + seed % 3);
}

static const struct ktest_case cases[] = {
	KTEST(random_forks_match_the_model),
	{ 0 },
};
static const struct ktest_suite suite = { .name = "memory.fork_model", .cases = cases };
KTEST_SUITE(suite);
