/* SPDX-License-Identifier: MIT */
/*
 * Places: what the owner says about where a processor may read its pages by itself, and what it has
 * the processor forget before it does something else with their frames.
 */
#include <string.h>

#include <lib/errno.h>
#include <lib/ktest.h>

#include "fixture.h"

#define AT     (64 * MB)
#define PAGES  32u
#define EXTENT 16u
#define FRAMES 1024u

static uint8_t data[PAGE_SIZE];

static struct pm_place write_back(struct ktest *t, struct fake_proc *p, uint32_t page)
{
	static uint64_t seq = 1000000;
	const struct pm_writeback_req req = { .aspace = p->aspace,
					      .nr_pages = 1,
					      .pages = { { AT + page * PAGE_SIZE, ++seq } } };
	struct pm_writeback_rep rep;

	page_stamp(data, page);
	EXPECT_EQ(t, owner_writeback(&p->f->mem[0], p->proc, &req, data, true, &rep, NULL), 0);
	EXPECT_EQ(t, rep.pages[0].status, 0);
	return rep.pages[0].place;
}

static struct pm_place fetch(struct ktest *t, struct fake_proc *p, uint32_t page)
{
	const struct pm_fetch_req req = { .aspace = p->aspace, .vaddr = AT + page * PAGE_SIZE };
	struct pm_vregion redirect;
	struct pm_fetch_rep rep;
	struct mpage *got;

	EXPECT_EQ(
		t,
		owner_fetch(&p->f->mem[0], p->proc, &req, NULL, true, &rep, &got, &redirect, NULL),
		0);
	EXPECT_TRUE(t, got);
	if (got)
		mpage_put(&p->f->mem[0].pool, got);
	return rep.page;
}

/* The thread of a node, without its wait. */
static void change_all(struct fake *f)
{
	while (extents_change(&f->mem[0].pool, NULL) != EXTENTS_NOTHING)
		;
}

static bool start(struct fake *f, struct fake_proc *p)
{
	uint64_t addr;
	bool ok;

	fake_extent_pages = EXTENT;
	ok = space_start(f, p, 2, FRAMES, SHIFT_2M);
	fake_extent_pages = 1;
	if (!ok || proc_mmap(p, AT, PAGES * PAGE_SIZE, RW, PM_MAP_FIXED, &addr))
		return false;
	f->mem[0].pool.has_changer = true;
	f->mem[0].pool.ahead = (struct extent_need){ .anon = f->mem[0].pool.slack + 1 };
	return true; /* vRegions alternate: this one is the first node's */
}

static bool same(struct pm_place a, struct pm_place b)
{
	return a.extent == b.extent && a.rkey == b.rkey && a.frame == b.frame;
}

/* The first page finds no extent; then each has a place, which answers of both kinds tell. */
static void answers_tell_places(struct ktest *t)
{
	struct pm_place place, other;
	struct fake_proc p;
	struct fake f;

	ASSERT_TRUE(t, start(&f, &p));
	EXPECT_EQ(t, write_back(t, &p, 0).extent, 0);
	EXPECT_EQ(t, f.nr_lent, 0);
	change_all(&f);
	EXPECT_EQ(t, f.nr_lent, 1);
	place = write_back(t, &p, 1);
	other = write_back(t, &p, 2);
	EXPECT_EQ(t, place.extent, 1);
	EXPECT_EQ(t, place.rkey, 1);
	EXPECT_NE(t, place.frame, other.frame);
	EXPECT_TRUE(t, same(fetch(t, &p, 1), place));
	EXPECT_TRUE(t, same(write_back(t, &p, 1), place)); /* in place */
	/* A page that lies elsewhere moves when it is fetched, or written back again. */
	EXPECT_EQ(t, fetch(t, &p, 0).extent, 1);
	EXPECT_EQ(t, proc_fetch(&p, AT, false, data), PM_FETCH_DATA);
	EXPECT_EQ(t, data[0] | data[PAGE_SIZE - 1], 0); /* its stamp */
	extents_recall(&f.mem[0].pool, p.proc, true);
	f.nr_revokes = 0;
	EXPECT_EQ(t, write_back(t, &p, 3).extent, 0);
	change_all(&f);
	EXPECT_EQ(t, write_back(t, &p, 3).extent, 2);
	EXPECT_EQ(t, write_back(t, &p, 0).extent, 2);
	EXPECT_EQ(t, fetch(t, &p, 0).extent, 2);
	EXPECT_EQ(t, f.nr_revokes, 0);
	EXPECT_TRUE(t, space_stop(&f, &p));
}

/* Before its frames have other contents the processor forgets that the pages are there. */
static void a_vregion_that_leaves_is_forgotten(struct ktest *t)
{
	struct fake_proc p;
	struct fake f;

	ASSERT_TRUE(t, start(&f, &p));
	(void)write_back(t, &p, 0);
	change_all(&f);
	EXPECT_EQ(t, write_back(t, &p, 1).extent, 1);
	ASSERT_EQ(t, home_move_vregion(&f.mem[0], p.aspace, AT >> SHIFT_2M, FAKE_MEM_FIRST + 1), 0);
	EXPECT_EQ(t, f.nr_revokes, 1);
	EXPECT_EQ(t, f.revoked_by, p.proc);
	EXPECT_EQ(t, f.revoked.extent, 1);
	EXPECT_EQ(t, f.revoked.flags, MP_REVOKE_BELOW);
	EXPECT_EQ(t, f.mem[0].pool.lent_frames, 0);
	EXPECT_TRUE(t, space_stop(&f, &p));
}

/* It says nothing: it may read no more, and gets no other extent until it has said so. */
static void who_does_not_forget_reads_no_more(struct ktest *t)
{
	struct fake_proc p;
	struct fake f;

	ASSERT_TRUE(t, start(&f, &p));
	(void)write_back(t, &p, 0);
	change_all(&f);
	EXPECT_EQ(t, write_back(t, &p, 1).extent, 1);
	f.revoke_error = -ETIMEDOUT;
	extents_recall(&f.mem[0].pool, p.proc, true);
	EXPECT_EQ(t, f.mem[0].stats.revokes_unheard, 1);
	EXPECT_EQ(t, fetch(t, &p, 1).extent, 0);
	(void)write_back(t, &p, 2);
	change_all(&f);
	EXPECT_EQ(t, f.nr_lent, 1);
	f.revoke_error = 0;
	(void)write_back(t, &p, 3);
	change_all(&f);
	EXPECT_EQ(t, f.nr_lent, 2);
	EXPECT_GT(t, write_back(t, &p, 4).extent, 1);
	EXPECT_TRUE(t, space_stop(&f, &p));
}

/* A processor that is gone, and one that has lost a vNode, may read nothing. */
static void who_is_gone_reads_no_more(struct ktest *t)
{
	struct fake_proc p;
	struct fake f;

	ASSERT_TRUE(t, start(&f, &p));
	(void)write_back(t, &p, 0);
	change_all(&f);
	EXPECT_EQ(t, write_back(t, &p, 1).extent, 1);
	memory_vnode_withdrawn(&f.mem[0]);
	change_all(&f);
	EXPECT_EQ(t, f.nr_revokes, 1);
	EXPECT_NE(t, fetch(t, &p, 1).extent, 1);
	(void)write_back(t, &p, 2);
	change_all(&f);
	EXPECT_GT(t, write_back(t, &p, 3).extent, 1);
	memory_processor_gone(&f.mem[0], p.proc);
	EXPECT_EQ(t, f.nr_revokes, 1); /* it is not asked */
	EXPECT_EQ(t, f.mem[0].pool.lent_frames, 0);
	memory_processor_gone(&f.mem[1], p.proc);
	memory_processor_joined(&f.mem[0], p.proc);
	memory_processor_joined(&f.mem[1], p.proc);
	proc_done(&p);
	EXPECT_TRUE(t, fake_stop(&f));
}

/*
 * A home is gone, and its owners free the pages of its spaces: a processor that does not know yet
 * reads them no more when this is over, and is told by the thread.
 */
static void a_home_that_is_gone_leaves_no_places(struct ktest *t)
{
	struct fake_proc p;
	struct fake f;

	ASSERT_TRUE(t, start(&f, &p));
	(void)write_back(t, &p, 0);
	change_all(&f);
	EXPECT_EQ(t, write_back(t, &p, 1).extent, 1);
	EXPECT_EQ(t, memory_node_gone(&f.mem[0], FAKE_MEM_FIRST + 1), 0); /* no home of its */
	EXPECT_GT(t, f.mem[0].pool.lent_frames, 0);
	EXPECT_EQ(t, memory_node_gone(&f.mem[0], FAKE_MEM_FIRST), 0);
	EXPECT_EQ(t, f.mem[0].pool.lent_frames, 0);
	EXPECT_EQ(t, f.nr_revokes, 0); /* the caller waits for nobody */
	change_all(&f);
	EXPECT_EQ(t, f.nr_revokes, 1);
	EXPECT_EQ(t, f.revoked_by, p.proc);
	EXPECT_EQ(t, f.revoked.extent, 1);
	EXPECT_EQ(t, f.revoked.flags, MP_REVOKE_BELOW);
	EXPECT_EQ(t, memory_node_gone(&f.mem[1], FAKE_MEM_FIRST), 0);
	EXPECT_TRUE(t, space_stop(&f, &p));
}

/* It is asked once and not for each extent, and what it forgets it does not keep at its owner. */
static void who_is_silent_is_asked_once(struct ktest *t)
{
	const uint32_t more = EXTENT + 4;
	struct fake_proc p;
	struct fake f;

	ASSERT_TRUE(t, start(&f, &p));
	for (uint32_t i = 0; i < more; i++) {
		(void)write_back(t, &p, i);
		change_all(&f);
	}
	EXPECT_GT(t, f.nr_lent, 1);
	EXPECT_GT(t, f.mem[0].pool.lent_frames, EXTENT);
	f.revoke_error = -ETIMEDOUT;
	extents_recall_all(&f.mem[0].pool);
	change_all(&f);
	EXPECT_EQ(t, f.nr_revokes, 1);
	EXPECT_EQ(t, f.revoked.flags, MP_REVOKE_BELOW);
	EXPECT_EQ(t, f.mem[0].stats.revokes_unheard, 1);
	EXPECT_EQ(t, f.mem[0].pool.lent_frames, 0);
	EXPECT_TRUE(t, space_stop(&f, &p));
}

static const struct ktest_case cases[] = {
	KTEST(answers_tell_places),
	KTEST(a_vregion_that_leaves_is_forgotten),
	KTEST(who_does_not_forget_reads_no_more),
	KTEST(who_is_gone_reads_no_more),
	KTEST(a_home_that_is_gone_leaves_no_places),
	KTEST(who_is_silent_is_asked_once),
	{ 0 },
};
static const struct ktest_suite suite = { .name = "memory.places", .cases = cases };
KTEST_SUITE(suite);
