/* SPDX-License-Identifier: MIT */
/*
 * Descriptions of changes are complete: random calls change two memory monitors; beside each
 * stands a second one that receives nothing but the descriptions of region_apply(), from a log
 * that a thread works off. Both of a pair must then be the same: states, areas, pages, credits,
 * commitments.
 *
 * Each call waits until the second monitor has answered for its changes, so completion is late
 * here.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kernel/thread.h>
#include <lib/alloc.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/ktest.h>
#include <lib/prng.h>

#include "../../../monitors/memory/region_apply.h"
#include "fixture.h"

#define NODES  2u
#define FRAMES 1024u
#define SPACES 8u
#define PINS   8u
#define BASE   0x40000000ull
#define PAGES  1280u /* 5 MiB: 3 vRegions */
#define KINDS  (CHANGE_ACCOUNT + 1)

/* A description, copied: what it points to lies behind it. */
struct record {
	struct record *next;
	uint64_t aspace, start;
	bool has_region;
	struct region_change change;
	struct region_completion *completion;
	struct pm_vregion entry;
	struct pm_vma area;
	uint64_t addrs[COLLAPSE_BATCH];
	uint8_t data[PAGE_SIZE];
};

struct second {
	struct memory m;
	void *arena;
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct record *head, **tail;
	bool stop;
	pthread_t thread;
	uint32_t seen[KINDS];
	uint32_t steps[3];
	uint32_t credits, swaps; /* stores that used one up; swapped collapses */
	uint32_t failed;         /* replays */
};

struct pair {
	struct ktest *t;
	struct fake f;
	struct second second[NODES];
	struct prng rnd;
	struct fake_proc spaces[SPACES];
	uint64_t next_id;
	struct {
		struct memory *m;
		struct mpage *page;
	} pins[PINS];
};

static uint8_t data[PAGE_SIZE] __aligned(8);

/* --- the log, and the thread that works it off --------------------------------------------- */

static void log_change(void *arg, struct region *r, const struct region_change *c,
		       struct region_completion *completion)
{
	struct second *s = arg;
	struct record *rec = calloc(1, sizeof(*rec));

	rec->change = *c;
	rec->has_region = r;
	if (r) {
		rec->aspace = r->aspace;
		rec->start = r->start;
	}
	if ((c->kind == CHANGE_STATE || c->kind == CHANGE_RESET) && c->state.entry)
		rec->entry = *c->state.entry;
	if (c->kind == CHANGE_MAP)
		rec->area = *c->map.area;
	if (c->kind == CHANGE_STORE)
		memcpy(rec->data, c->store.data, PAGE_SIZE);
	if (c->kind == CHANGE_COLLAPSE)
		memcpy(rec->addrs, c->collapse.addrs, c->collapse.nr * sizeof(rec->addrs[0]));
	rec->completion = completion;
	region_completion_get(completion);
	pthread_mutex_lock(&s->lock);
	*s->tail = rec;
	s->tail = &rec->next;
	pthread_cond_signal(&s->more);
	pthread_mutex_unlock(&s->lock);
}

static void point_to_copies(struct record *rec)
{
	struct region_change *c = &rec->change;

	if ((c->kind == CHANGE_STATE || c->kind == CHANGE_RESET) && c->state.entry)
		c->state.entry = &rec->entry;
	if (c->kind == CHANGE_MAP)
		c->map.area = &rec->area;
	if (c->kind == CHANGE_STORE)
		c->store.data = rec->data;
	if (c->kind == CHANGE_COLLAPSE)
		c->collapse.addrs = rec->addrs;
}

static int replay_make(struct memory *m, const struct record *rec)
{
	const struct region_change *c = &rec->change;
	const struct region_init init = { c->make.state, c->make.holes, c->make.version,
					  c->make.proc,  c->make.vnode, false };
	const struct home_id home = { c->make.home, 0 };
	struct region *r = region_make(m, rec->aspace, home, rec->start >> c->make.shift,
				       c->make.shift, &init);

	if (IS_ERR(r))
		return (int)PTR_ERR(r);
	region_put(r);
	return 0;
}

/* Give @op its needs beside the description: nodes, and the other region. */
static int replay_prepare(struct memory *m, const struct record *rec, struct region *r,
			  struct region_op *op, struct area_spare *spare)
{
	const struct region_change *c = &rec->change;
	size_t nodes = 0;

	if (c->kind == CHANGE_CLONE)
		nodes = r->areas.count;
	else if (c->kind == CHANGE_MAP)
		nodes = AREA_SPARE_MAX;
	if (nodes)
		op->spare = spare;
	if (area_spare_fill(spare, nodes) || (r && region_reserve(r, true)))
		return -ENOMEM;
	if (c->kind == CHANGE_MOVE_PAGE)
		op->other = region_get(m, rec->aspace, c->page.to);
	else if (c->kind == CHANGE_CLONE || c->kind == CHANGE_GIVE || c->kind == CHANGE_TAKE_BACK ||
		 c->kind == CHANGE_COLLAPSE)
		op->other = region_get(m, c->other, rec->start);
	return 0;
}

static int replay(struct second *s, struct record *rec)
{
	struct collapse_batch batch = { .nr_dead = 0 };
	struct region_op op = {
		.from = REGION_ANY,
		.may_sleep = true,
		.replay = true,
		.batch = &batch,
	};
	struct area_spare spare = { 0 };
	struct region *r = NULL;
	int err = 0;

	point_to_copies(rec);
	if (rec->change.kind == CHANGE_MAKE)
		return replay_make(&s->m, rec);
	if (rec->has_region) {
		r = region_get(&s->m, rec->aspace, rec->start);
		if (!r)
			return -ESRCH;
		spare = AREA_SPARE(&s->m, r->proc);
	}
	op.change = rec->change;
	if (op.change.kind == CHANGE_EXPECT)
		op.space = owner_space_alloc(&s->m, op.change.expect.aspace, op.change.expect.home,
					     op.change.expect.proc, op.change.expect.vnode);
	err = replay_prepare(&s->m, rec, r, &op, &spare);
	if (!err)
		err = region_apply(&s->m, r, &op);
	if (!err && rec->change.kind == CHANGE_ACCOUNT &&
	    op.change.account.credits != rec->change.account.credits)
		err = -EPROTO;
	owner_space_free(&s->m, op.space);
	if (op.other)
		region_put(op.other);
	if (r)
		region_put(r);
	area_spare_free(&spare);
	return err;
}

static void note(struct second *s, const struct region_change *c)
{
	s->seen[c->kind]++;
	if (c->kind == CHANGE_COLLAPSE) {
		s->steps[c->collapse.step]++;
		s->swaps += c->collapse.swap;
	}
	if (c->kind == CHANGE_STORE)
		s->credits += c->store.credit;
}

static void work_off(void *arg)
{
	struct second *s = arg;
	struct record *rec;
	int err;

	for (;;) {
		pthread_mutex_lock(&s->lock);
		while (!s->head && !s->stop)
			pthread_cond_wait(&s->more, &s->lock);
		rec = s->head;
		if (rec) {
			s->head = rec->next;
			if (!s->head)
				s->tail = &s->head;
		}
		pthread_mutex_unlock(&s->lock);
		if (!rec)
			return;
		note(s, &rec->change);
		err = replay(s, rec);
		if (err) {
			fprintf(stderr, "replay of kind %d: %d\n", rec->change.kind, err);
			s->failed++;
		}
		region_completion_put(rec->completion, 0);
		free(rec);
	}
}

/* --- comparing ----------------------------------------------------------------------------- */

static bool same_areas(const struct region *a, const struct region *b)
{
	const struct area *x = area_above(&a->areas, 0);
	const struct area *y = area_above(&b->areas, 0);

	for (; x && y; x = area_next(x), y = area_next(y)) {
		struct pm_vma_wire v, w; /* without padding */

		pm_vma_encode(&x->v, &v);
		pm_vma_encode(&y->v, &w);
		if (memcmp(&v, &w, sizeof(v)))
			return false;
	}
	return !x && !y;
}

static bool same_pages(struct memory *m, struct region *a, struct memory *n, struct region *b)
{
	struct mpage *x, *y;
	bool same = a->nr_pages == b->nr_pages;

	spin_lock(&b->lock);
	list_for_each_entry(x, &a->pages, link) {
		if (!same)
			break;
		y = page_lookup_locked(n, b, x->index);
		same = y && x->seq == y->seq &&
		       !memcmp(mpage_virt(&m->pool, x), mpage_virt(&n->pool, y), PAGE_SIZE);
	}
	spin_unlock(&b->lock);
	return same;
}

static void compare_regions(struct pair *p, struct memory *m, struct memory *n)
{
	struct region *a;

	ASSERT_EQ(p->t, m->owner.nr_regions, n->owner.nr_regions);
	rb_for_each_entry(a, &m->owner.regions, node) {
		struct region *b = region_get(n, a->aspace, a->start);

		ASSERT_TRUE(p->t, b != NULL);
		EXPECT_EQ(p->t, a->end, b->end);
		EXPECT_EQ(p->t, a->state, b->state);
		EXPECT_EQ(p->t, a->holes, b->holes);
		EXPECT_TRUE(p->t, !memcmp(&a->entry, &b->entry, sizeof(a->entry)));
		EXPECT_TRUE(p->t, same_areas(a, b));
		EXPECT_TRUE(p->t, same_pages(m, a, n, b));
		region_put(b);
	}
}

static void compare(struct pair *p)
{
	for (uint32_t i = 0; i < NODES; i++) {
		struct memory *m = &p->f.mem[i], *n = &p->second[i].m;
		struct owner_space *s, *s2;

		compare_regions(p, m, n);
		ASSERT_EQ(p->t, m->owner.nr_spaces, n->owner.nr_spaces);
		s2 = rb_entry_or_null(rb_first(&n->owner.spaces), struct owner_space, node);
		rb_for_each_entry(s, &m->owner.spaces, node) {
			EXPECT_EQ(p->t, s->aspace, s2->aspace);
			EXPECT_EQ(p->t, s->home, s2->home);
			EXPECT_EQ(p->t, s->prepared, s2->prepared);
			s2 = rb_entry_or_null(rb_next(&s2->node), struct owner_space, node);
		}
		EXPECT_EQ(p->t, m->pool.committed, n->pool.committed);
		EXPECT_EQ(p->t, m->pool.reserved, n->pool.reserved);
		EXPECT_EQ(p->t, pool_credits(&m->pool, FAKE_PROC),
			  pool_credits(&n->pool, FAKE_PROC));
		EXPECT_EQ(p->t, p->second[i].failed, 0);
	}
}

/* --- start and end ------------------------------------------------------------------------- */

static void second_start(struct pair *p, uint32_t i)
{
	struct second *s = &p->second[i];
	struct pool_run run;
	struct memory_config cfg = {
		.node = p->f.mem[i].node,
		.vregion_shift = SHIFT_2M,
		.net = p->f.mem[i].net,
		.runs = &run,
		.nr_runs = 1,
		.file_min = FRAMES / 16,
		.kernel_max = UINT64_MAX,
	};

	memset(s, 0, sizeof(*s));
	s->arena = aligned_alloc(PAGE_SIZE, FRAMES * PAGE_SIZE);
	run = (struct pool_run){ .virt = s->arena,
				 .paddr = (uintptr_t)s->arena,
				 .nr_pages = FRAMES };
	if (memory_init(&s->m, &cfg))
		abort();
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->more, NULL);
	s->tail = &s->head;
	owner_set_log(&p->f.mem[i], log_change, s);
}

static void second_stop(struct second *s, struct thread *thread)
{
	pthread_mutex_lock(&s->lock);
	s->stop = true;
	pthread_cond_signal(&s->more);
	pthread_mutex_unlock(&s->lock);
	thread_join(thread);
	memory_processor_gone(&s->m, FAKE_PROC);
	memory_destroy(&s->m);
	free(s->arena);
}

/* --- calls --------------------------------------------------------------------------------- */

static uint32_t below(struct pair *p, uint32_t n)
{
	return (uint32_t)prng_below(&p->rnd, n);
}

static struct fake_proc *any_space(struct pair *p)
{
	return &p->spaces[below(p, SPACES)];
}

static uint64_t any_page(struct pair *p)
{
	return BASE + below(p, PAGES) * PAGE_SIZE;
}

static void fresh_space(struct pair *p, struct fake_proc *proc, uint32_t home)
{
	(void)proc_destroy(proc);
	proc_done(proc);
	proc_init(proc, &p->f, FAKE_SPACE(home, ++p->next_id), home);
}

static void write_pages(struct pair *p, struct fake_proc *proc, uint32_t nr)
{
	const uint32_t first = below(p, PAGES);

	for (uint32_t i = 0; i < nr && first + i < PAGES; i++) {
		page_stamp(data, prng_next(&p->rnd));
		(void)proc_writeback(proc, BASE + (first + i) * PAGE_SIZE, data);
	}
}

/* Keep a page from being written in place, or let it go. */
static void pin(struct pair *p)
{
	const uint32_t i = below(p, PINS);
	const struct pm_fetch_req req = { .aspace = any_space(p)->aspace, .vaddr = any_page(p) };
	struct memory *m = &p->f.mem[below(p, NODES)];
	struct pm_vregion redirect;
	struct pm_fetch_rep rep;
	struct mpage *page;

	if (p->pins[i].page)
		mpage_put(&p->pins[i].m->pool, p->pins[i].page);
	p->pins[i].page = NULL;
	if (owner_fetch(m, FAKE_PROC, &req, NULL, true, &rep, &page, &redirect, NULL))
		return;
	p->pins[i].m = m;
	p->pins[i].page = page;
}

static void fork_space(struct pair *p)
{
	struct fake_proc *proc = any_space(p), *parent = any_space(p), *child = any_space(p);

	if (proc == parent || proc == child || parent == child)
		return;
	fresh_space(p, parent, proc->home);
	fresh_space(p, child, proc->home);
	write_pages(p, proc, 100);
	if (proc_fork(proc, parent, child))
		return;
	if (below(p, 2))
		write_pages(p, parent, 1 + below(p, 200));
	if (below(p, 2))
		(void)proc_munmap(parent, any_page(p), (1 + below(p, 40)) * PAGE_SIZE);
	if (below(p, 2))
		(void)proc_destroy(child);
	(void)proc_collapse(proc, parent, NULL, 0);
}

/* Map something, write to it, move it. */
static void move_mapping(struct pair *p, struct fake_proc *proc)
{
	const uint64_t len = 40 * PAGE_SIZE;
	const uint64_t at = BASE + below(p, PAGES - 40) * PAGE_SIZE;
	uint64_t out;

	if (proc_mmap(proc, at, len, RW, PM_MAP_FIXED, &out))
		return;
	for (uint32_t i = 0; i < 8; i++)
		(void)proc_writeback(proc, at + below(p, 40) * PAGE_SIZE, data);
	(void)proc_mremap(proc, at, len, len, PM_MREMAP_MAYMOVE | PM_MREMAP_FIXED,
			  BASE + ((8ull + 2 * below(p, 3)) << 20), &out);
}

static void one_call(struct pair *p)
{
	struct fake_proc *proc = any_space(p);
	const uint64_t at = any_page(p), len = (1 + below(p, 400)) * PAGE_SIZE;
	const struct pm_page_range range = { at, len };
	uint64_t out;
	uint32_t got; /* or asked for */

	switch (below(p, 16)) {
	case 0:
		fresh_space(p, proc, FAKE_MEM_FIRST + below(p, NODES));
		if (below(p, 4))
			(void)proc_space(proc);
		else
			(void)proc_object(proc, len, below(p, 2) ? PM_SPACE_RESERVE : 0);
		break;
	case 1:
	case 2:
	case 3:
		(void)proc_mmap(proc, at, len, below(p, 4) ? RW : PM_PROT_READ,
				PM_MAP_FIXED | (below(p, 2) ? PM_MAP_NORESERVE : 0), &out);
		break;
	case 4:
		(void)proc_munmap(proc, at, len);
		break;
	case 5:
		(void)proc_mprotect(proc, at, len, below(p, 2) ? RW : PM_PROT_READ);
		break;
	case 6:
		move_mapping(p, proc);
		break;
	case 7:
		(void)proc_credit(proc, FAKE_MEM_FIRST + below(p, NODES), below(p, 30),
				  below(p, 10), &got);
		break;
	case 8:
		got = FAKE_MEM_FIRST + below(p, NODES);
		if (home_move_vregion(fake_node(&p->f, proc->home), proc->aspace, at >> SHIFT_2M,
				      got) == -ETIMEDOUT)
			ktest_fail(p->t, __FILE__, __LINE__, "a move timed out");
		break;
	case 9:
		(void)proc_discard(proc, &range, 1);
		break;
	case 10:
		pin(p);
		break;
	case 11:
	case 12:
		fork_space(p);
		break;
	default:
		write_pages(p, proc, 1 + below(p, 80));
		break;
	}
}

static void expect_all_seen(struct pair *p)
{
	uint32_t seen[KINDS] = { 0 }, steps[3] = { 0 }, credits = 0, swaps = 0;

	for (uint32_t i = 0; i < NODES; i++) {
		const struct second *s = &p->second[i];

		for (uint32_t k = 0; k < KINDS; k++)
			seen[k] += s->seen[k];
		for (uint32_t k = 0; k < 3; k++)
			steps[k] += s->steps[k];
		credits += s->credits;
		swaps += s->swaps;
	}
	for (uint32_t k = 0; k < KINDS; k++)
		if (!seen[k] && k != CHANGE_TAKE_BACK) /* only after a fork that failed halfway */
			ktest_fail(p->t, __FILE__, __LINE__, "change %u never came", k);
	for (uint32_t k = 0; k < 3; k++)
		EXPECT_TRUE(p->t, steps[k] > 0);
	EXPECT_TRUE(p->t, credits > 0);
	EXPECT_TRUE(p->t, swaps > 0);
}

static void descriptions_are_complete(struct ktest *t)
{
	static struct pair p;
	struct thread *threads[NODES];

	memset(&p, 0, sizeof(p));
	p.t = t;
	prng_seed(&p.rnd, 10);
	fake_start(&p.f, NODES, FRAMES, SHIFT_2M);
	for (uint32_t i = 0; i < NODES; i++) {
		second_start(&p, i);
		threads[i] = thread_create("second", work_off, &p.second[i]);
		ASSERT_TRUE(t, !IS_ERR(threads[i]));
	}
	for (uint32_t i = 0; i < SPACES; i++)
		proc_init(&p.spaces[i], &p.f, FAKE_ASPACE(++p.next_id), FAKE_MEM_FIRST);
	for (uint32_t i = 0; i < 3000; i++) {
		one_call(&p);
		if (i % 10 == 0)
			compare(&p);
	}
	compare(&p);
	expect_all_seen(&p);
	for (uint32_t i = 0; i < PINS; i++)
		if (p.pins[i].page)
			mpage_put(&p.pins[i].m->pool, p.pins[i].page);
	for (uint32_t i = 0; i < NODES; i++)
		memory_processor_gone(&p.f.mem[i], FAKE_PROC);
	for (uint32_t i = 0; i < NODES; i++)
		second_stop(&p.second[i], threads[i]);
	for (uint32_t i = 0; i < SPACES; i++)
		proc_done(&p.spaces[i]);
	EXPECT_TRUE(t, fake_stop(&p.f));
}

static const struct ktest_case cases[] = {
	KTEST(descriptions_are_complete),
	{ 0 },
};

static const struct ktest_suite suite = { .name = "memory.apply", .cases = cases };
KTEST_SUITE(suite);
