/* SPDX-License-Identifier: MIT */
/*
 * A node that has no frame left: files give way, a vRegion goes to another node, a program ends,
 * and nobody loses a page meanwhile.
 */
#include <kernel/thread.h>
#include <kernel/time.h>
#include <lib/errno.h>
#include <lib/ktest.h>
#include <lib/string.h>
#include <proto/mp.h>
#include <shim/shim.h>

#include "fixture.h"

#define REGION   (2 * MB)
#define FIXED_AT 0x20000000ull /* vRegions from here on take turns, beginning at the first node */
#define FRAMES   960ull        /* for programs, of 1024 */
#define EXTENT   16u           /* frames, where an extent has more than one */

static uint8_t page[PAGE_SIZE];

/* --- the choice ---------------------------------------------------------------------- */

static void choice(struct ktest *t)
{
	const struct relief_node nodes[] = { { 5, 100 }, { 6, 1000 }, { 7, 900 } };
	struct relief_region regions[] = {
		{ 1, 0, 200, false },
		{ 1, 1, 501, false },
		{ 2, 0, 500, false },
		{ 3, 9, 63, false },
	};
	size_t node = 9, region = 9;

	/* The largest that leaves half of the room. */
	EXPECT_TRUE(t, relief_choose(nodes, 3, regions, 4, &node, &region));
	EXPECT_EQ(t, node, 1);
	EXPECT_EQ(t, region, 2);
	regions[2].refused = true;
	EXPECT_TRUE(t, relief_choose(nodes, 3, regions, 4, &node, &region));
	EXPECT_EQ(t, region, 0);
	regions[0].refused = true;
	EXPECT_FALSE(t, relief_choose(nodes, 3, regions, 4, &node, &region));
	EXPECT_FALSE(t, relief_choose(nodes, 0, regions, 4, &node, &region));
	EXPECT_FALSE(t, relief_choose(nodes, 3, regions, 0, &node, &region));
	EXPECT_FALSE(t, relief_choose(nodes, 1, regions, 3, &node, &region));
}

/* --- steps --------------------------------------------------------------------------- */

static void start(struct ktest *t, struct fake *f, size_t nr)
{
	const struct pm_commit heuristic = { .version = 1 };
	struct pm_commit now;

	fake_start(f, nr, 1024, SHIFT_2M);
	for (size_t i = 0; i < nr; i++) {
		pool_set_policy(&f->mem[i].pool, &heuristic, 0, &now);
		f->mem[i].relief.on = true;
	}
}

static void space(struct ktest *t, struct fake *f, struct fake_proc *p, uint64_t id)
{
	proc_init(p, f, FAKE_ASPACE(id), FAKE_MEM_FIRST);
	ASSERT_EQ(t, proc_space(p), 0);
}

/* Map vRegion @at and store @nr pages in it. */
static void fill(struct ktest *t, struct fake_proc *p, uint64_t at, uint64_t nr)
{
	uint64_t addr;

	ASSERT_EQ(t, proc_mmap(p, at, REGION, RW, PM_MAP_FIXED, &addr), 0);
	for (uint64_t i = 0; i < nr; i++) {
		page_stamp(page, at + i);
		ASSERT_EQ(t, proc_writeback(p, at + i * PAGE_SIZE, page), 0);
	}
}

static void check(struct ktest *t, struct fake_proc *p, uint64_t at, uint64_t nr)
{
	for (uint64_t i = 0; i < nr; i++) {
		ASSERT_EQ(t, proc_fetch(p, at + i * PAGE_SIZE, true, page), PM_FETCH_DATA);
		ASSERT_EQ(t, page_value(page), at + i);
	}
}

static void end(struct ktest *t, struct fake_proc *p)
{
	EXPECT_EQ(t, proc_destroy(p), 0);
	proc_done(p);
}

/* All @nr frames that are left become credits of @proc, whatever its share is. */
static void take_all(struct ktest *t, struct fake *f, uint32_t proc, uint64_t nr)
{
	uint64_t report;

	EXPECT_EQ(t, pool_grant(&f->mem[0].pool, proc, UINT32_MAX, true, &report), nr);
}

static void vregion_goes_where_there_is_room(struct ktest *t)
{
	struct fake_proc p;
	struct fake f;
	uint32_t got = 0;

	start(t, &f, 2);
	space(t, &f, &p, 1);
	fill(t, &p, FIXED_AT, 512);
	fill(t, &p, FIXED_AT + 2 * REGION, FRAMES - 512);
	EXPECT_EQ(t, proc_credit(&p, FAKE_MEM_FIRST, 0, 10, &got), -EAGAIN);
	EXPECT_TRUE(t, relief_is_wanted(&f.mem[0]));
	EXPECT_EQ(t, relief_step(&f.mem[0]), RELIEF_MOVED); /* 512 are more than half of 960 */
	EXPECT_EQ(t, f.mem[0].stats.relief_moves, 1);
	EXPECT_EQ(t, relief_step(&f.mem[0]), RELIEF_ENOUGH);
	EXPECT_EQ(t, proc_credit(&p, FAKE_MEM_FIRST, 0, 10, &got), 0);
	EXPECT_EQ(t, got, 10);
	check(t, &p, FIXED_AT, 512);
	check(t, &p, FIXED_AT + 2 * REGION, FRAMES - 512);
	EXPECT_EQ(t, p.redirects, 1);
	EXPECT_EQ(t, proc_credit(&p, FAKE_MEM_FIRST, 0, 0, &got), 0);
	end(t, &p);
	EXPECT_TRUE(t, fake_stop(&f));
}

static void busy_space_is_passed_over(struct ktest *t)
{
	struct home_space *as;
	struct fake_proc p, q;
	struct fake f;

	start(t, &f, 2);
	space(t, &f, &p, 1);
	space(t, &f, &q, 2);
	fill(t, &p, FIXED_AT, 400);
	fill(t, &q, FIXED_AT, 300);
	fill(t, &q, FIXED_AT + 2 * REGION, FRAMES - 700);
	as = home_space_lock(&f.mem[0], p.aspace, FAKE_PROC, SPACE_ANY);
	EXPECT_EQ(t, relief_step(&f.mem[0]), RELIEF_MOVED);
	home_space_unlock(as);
	check(t, &p, FIXED_AT, 400);
	EXPECT_EQ(t, p.redirects, 0);
	check(t, &q, FIXED_AT, 300);
	EXPECT_EQ(t, q.redirects, 1);
	end(t, &p);
	end(t, &q);
	EXPECT_TRUE(t, fake_stop(&f));
}

static const struct proto_file file1 = { .ino = 1, .gen = 1, .node = FAKE_STORAGE };

static void files_give_way_first(struct ktest *t)
{
	static uint8_t buf[64 * PAGE_SIZE];
	struct pool_stats s;
	struct fake_proc p;
	struct fake f;
	uint32_t got;

	start(t, &f, 2);
	f.files[0] = (struct fake_file){ .size = 1024 * PAGE_SIZE, .version = 1 };
	for (uint64_t off = 0; off < 1024 * PAGE_SIZE; off += sizeof(buf))
		ASSERT_EQ(t, page_cache_copy(&f.mem[0], &file1, off, buf, sizeof(buf)),
			  (int)sizeof(buf));
	pool_stats(&f.mem[0].pool, &s);
	EXPECT_EQ(t, s.zero + s.dirty, f.mem[0].pool.slack);
	space(t, &f, &p, 1);
	fill(t, &p, FIXED_AT, 512);
	fill(t, &p, FIXED_AT + 2 * REGION, FRAMES - 512);
	EXPECT_EQ(t, f.mem[0].relief.kicks, 0);
	pool_stats(&f.mem[0].pool, &s);
	EXPECT_EQ(t, s.file, f.mem[0].pool.file_floor);
	EXPECT_EQ(t, proc_credit(&p, FAKE_MEM_FIRST, 0, 1, &got), -EAGAIN);
	end(t, &p);
	EXPECT_TRUE(t, fake_stop(&f));
}

/* --- programs that have to end ------------------------------------------------------- */

static struct {
	struct ktest *t;
	struct fake_proc *victim;
	uint32_t state;
	uint32_t asked, ended;
	uint64_t total;
} oom;

static int answer(struct fake *f, uint32_t proc, const void *body, uint32_t len, void *reply)
{
	struct mp_oom_rep rep = { .state = oom.state };
	struct mp_oom_req req;

	EXPECT_EQ(oom.t, mp_oom_req_decode(body, len, &req), 0);
	EXPECT_EQ(oom.t, proc, FAKE_PROC);
	oom.total = req.total;
	if (req.flags & MP_OOM_END) {
		EXPECT_EQ(oom.t, req.pid, 42);
		oom.ended++;
	} else {
		oom.asked++;
	}
	if (rep.state == MP_OOM_CANDIDATE)
		rep = (struct mp_oom_rep){
			.badness = 7, .frames = 7, .pid = 42, .state = rep.state
		};
	mp_oom_rep_encode(&rep, reply);
	return sizeof(struct mp_oom_rep_wire);
}

/* Extents of files are emptied by a thread: until it has been there nothing else is done. */
static void no_program_ends_for_what_files_have(struct ktest *t)
{
	static uint8_t buf[64 * PAGE_SIZE];
	struct pool *pool;
	struct fake_proc p;
	struct fake f;
	uint32_t got;

	shim_time_freeze(true);
	start(t, &f, 1);
	pool = &f.mem[0].pool;
	oom = (__typeof__(oom)){ .t = t, .state = MP_OOM_CANDIDATE };
	f.oom = answer;
	space(t, &f, &p, 1);
	fill(t, &p, FIXED_AT, 100);
	f.files[0] = (struct fake_file){ .size = 1024 * PAGE_SIZE, .version = 1 };
	for (uint64_t off = 0; off < 1024 * PAGE_SIZE; off += sizeof(buf))
		ASSERT_EQ(t, page_cache_copy(&f.mem[0], &file1, off, buf, sizeof(buf)),
			  (int)sizeof(buf));
	pool->ahead = (struct extent_need){ .anon = pool->slack + 64 };
	pool->has_changer = true;
	EXPECT_EQ(t, proc_credit(&p, FAKE_MEM_FIRST, 0, 10, &got), -EAGAIN);
	EXPECT_TRUE(t, extents_want_change(pool));
	EXPECT_EQ(t, relief_step(&f.mem[0]), RELIEF_WAITS);
	shim_time_advance_ns(60ull * 1000 * 1000 * 1000);
	EXPECT_EQ(t, relief_step(&f.mem[0]), RELIEF_WAITS);
	EXPECT_EQ(t, oom.asked, 0);
	while (extents_change(pool, NULL) == EXTENTS_CHANGED)
		;
	EXPECT_EQ(t, relief_step(&f.mem[0]), RELIEF_ENOUGH);
	EXPECT_EQ(t, proc_credit(&p, FAKE_MEM_FIRST, 0, 10, &got), 0);
	EXPECT_EQ(t, got, 10);
	shim_time_freeze(false);
	EXPECT_EQ(t, proc_credit(&p, FAKE_MEM_FIRST, 0, 0, &got), 0);
	end(t, &p);
	EXPECT_TRUE(t, fake_stop(&f));
}

/*
 * Each extent of files has one page in use for ever: storage keeps silent about a read (@reading),
 * or a processor does not take the page that it asked for. Both go on being members.
 */
struct kept {
	struct mpage *pages[1024 / EXTENT];
	uint32_t nr;
	bool reading;
};

static bool keeps_one_of(const struct kept *k, const struct pool *pool, const struct mpage *frame)
{
	for (uint32_t i = 0; i < k->nr; i++)
		if (extent_of(pool, k->pages[i]) == extent_of(pool, frame))
			return true;
	return false;
}

static void keep_reads(struct fake *f, struct kept *k)
{
	struct pool *pool = &f->mem[0].pool;
	struct mpage *others[1024];
	struct mpage *frame;
	uint32_t nr = 0;

	while ((frame = pool_alloc_file(pool, false))) {
		if (keeps_one_of(k, pool, frame))
			others[nr++] = frame;
		else
			k->pages[k->nr++] = frame;
	}
	while (nr)
		mpage_put(pool, others[--nr]);
}

static void keep_sent(struct ktest *t, struct fake *f, struct kept *k)
{
	static uint8_t buf[64 * PAGE_SIZE];
	struct memory *m = &f->mem[0];
	struct pm_file_fetch_rep rep;
	struct mpage *frame;

	f->files[0] = (struct fake_file){ .size = 1024 * PAGE_SIZE, .version = 1 };
	for (uint64_t off = 0; off < 1024 * PAGE_SIZE; off += sizeof(buf))
		ASSERT_EQ(t, page_cache_copy(m, &file1, off, buf, sizeof(buf)), (int)sizeof(buf));
	for (uint64_t i = 0; i < 1024; i++) {
		if (page_cache_get(m, &file1, i, 1, 0, false, &frame, &rep))
			continue;
		if (keeps_one_of(k, &m->pool, frame))
			mpage_put(&m->pool, frame);
		else
			k->pages[k->nr++] = frame;
	}
}

static void let_go(struct fake *f, struct kept *k)
{
	struct pool *pool = &f->mem[0].pool;
	struct mpage *frame = k->pages[--k->nr];

	if (k->reading)
		pool_file_read(pool, frame);
	mpage_put(pool, frame);
}

/* Programs take what is left, as pages from @at on: how many. */
static uint64_t fill_up(struct ktest *t, struct fake *f, struct fake_proc *p, uint64_t at)
{
	const uint64_t nr = pool_room_now(&f->mem[0].pool);

	fill(t, p, at, nr);
	return nr;
}

/* The thread that empties extents, and the one that makes room, for @ms: what came of it first. */
static enum relief_result both_for(struct fake *f, uint32_t ms)
{
	enum relief_result result = RELIEF_WAITS;

	for (uint32_t i = 0; i < ms && result == RELIEF_WAITS; i += 50) {
		while (extents_change(&f->mem[0].pool, NULL) != EXTENTS_NOTHING)
			;
		result = relief_step(&f->mem[0]);
		shim_time_advance_ns(50ull * 1000 * 1000);
	}
	return result;
}

/* A node where programs need frames that files keep. */
static void start_kept(struct ktest *t, struct fake *f, struct fake_proc *p, size_t nr,
		       struct kept *k)
{
	struct pool *pool = &f->mem[0].pool;

	shim_time_freeze(true);
	fake_extent_pages = EXTENT;
	start(t, f, nr);
	fake_extent_pages = 1;
	oom = (__typeof__(oom)){ .t = t, .state = MP_OOM_CANDIDATE };
	f->oom = answer;
	space(t, f, p, 1);
	fill(t, p, FIXED_AT, 100);
	if (k->reading)
		keep_reads(f, k);
	else
		keep_sent(t, f, k);
	EXPECT_GT(t, k->nr, pool->file_floor / EXTENT + 1);
	pool->ahead = (struct extent_need){ .anon = pool->slack + 2 * EXTENT };
	pool->has_changer = true;
	(void)fill_up(t, f, p, FIXED_AT + 2 * REGION);
	EXPECT_EQ(t, pool_room_now(pool), 0);
	EXPECT_GT(t, pool_room(pool), 0);
}

static void stop_kept(struct ktest *t, struct fake *f, struct fake_proc *p, struct kept *k)
{
	while (k->nr)
		let_go(f, k);
	EXPECT_EQ(t, both_for(f, 1000), RELIEF_ENOUGH);
	shim_time_freeze(false);
	end(t, p);
	EXPECT_TRUE(t, fake_stop(f));
}

/* Files that do not give way keep programs waiting for a while, and not for ever. */
static void files_that_are_kept_hold_nobody_up(struct ktest *t)
{
	for (uint32_t round = 0; round < 2; round++) {
		struct kept k = { .reading = round };
		struct fake_proc p;
		struct fake f;

		start_kept(t, &f, &p, 1, &k);
		EXPECT_EQ(t, both_for(&f, 15000), RELIEF_WAITS); /* storage may just be gone */
		EXPECT_EQ(t, oom.asked, 0);
		/* Time in which nobody tried to empty an extent does not count. */
		shim_time_advance_ns(60ull * 1000 * 1000 * 1000);
		EXPECT_EQ(t, relief_step(&f.mem[0]), RELIEF_WAITS);
		EXPECT_EQ(t, both_for(&f, 15000), RELIEF_WAITS);
		EXPECT_EQ(t, oom.asked, 0);
		EXPECT_EQ(t, both_for(&f, 10000), RELIEF_ENDED);
		EXPECT_EQ(t, oom.ended, 1);
		/* One that ends is waited for here, too. */
		oom.state = MP_OOM_ENDING;
		EXPECT_EQ(t, both_for(&f, 1000), RELIEF_WAITS);
		EXPECT_EQ(t, oom.ended, 1);
		/* In the next shortage nothing is known before an extent has been tried. */
		oom.state = MP_OOM_CANDIDATE;
		shim_time_advance_ns(60ull * 1000 * 1000 * 1000);
		EXPECT_EQ(t, relief_step(&f.mem[0]), RELIEF_WAITS);
		EXPECT_EQ(t, oom.ended, 1);
		stop_kept(t, &f, &p, &k);
	}
}

/* Tries in vain while there are frames say nothing about the shortage that comes after them. */
static void vain_tries_before_a_shortage_end_no_program(struct ktest *t)
{
	for (uint32_t round = 0; round < 2; round++) {
		struct kept k = { .reading = round };
		struct fake_proc p;
		struct fake f;

		start_kept(t, &f, &p, 1, &k);
		for (uint32_t i = 0; i < 500; i++) { /* 25 s, without a step */
			while (extents_change(&f.mem[0].pool, NULL) != EXTENTS_NOTHING)
				;
			shim_time_advance_ns(50ull * 1000 * 1000);
		}
		EXPECT_EQ(t, both_for(&f, 15000), RELIEF_WAITS);
		EXPECT_EQ(t, oom.asked, 0);
		EXPECT_EQ(t, both_for(&f, 10000), RELIEF_ENDED);
		stop_kept(t, &f, &p, &k);
	}
}

/* With each extent that gives way after all the time begins anew. */
static void files_that_give_way_slowly_end_no_program(struct ktest *t)
{
	for (uint32_t round = 0; round < 2; round++) {
		struct kept k = { .reading = round };
		struct fake_proc p;
		struct fake f;

		start_kept(t, &f, &p, 1, &k);
		for (uint32_t i = 0; i < 3; i++) {
			EXPECT_EQ(t, both_for(&f, 15000), RELIEF_WAITS);
			let_go(&f, &k);
			EXPECT_EQ(t, both_for(&f, 1000), RELIEF_ENOUGH);
			EXPECT_GT(t, fill_up(t, &f, &p, FIXED_AT + (4 + 2 * i) * REGION), 0);
		}
		EXPECT_EQ(t, oom.asked, 0);
		stop_kept(t, &f, &p, &k);
	}
}

/* A step that costs no program is not put off that long. */
static void kept_files_are_gone_round_by_a_move(struct ktest *t)
{
	for (uint32_t round = 0; round < 2; round++) {
		struct kept k = { .reading = round };
		struct fake_proc p;
		struct fake f;

		start_kept(t, &f, &p, 2, &k);
		EXPECT_EQ(t, both_for(&f, 2000), RELIEF_MOVED);
		EXPECT_EQ(t, oom.asked, 0);
		check(t, &p, FIXED_AT, 100);
		stop_kept(t, &f, &p, &k);
	}
}

static void program_ends_when_no_node_has_room(struct ktest *t)
{
	struct fake_proc p, q;
	struct fake f;
	uint32_t got;

	shim_time_freeze(true);
	start(t, &f, 2);
	oom = (__typeof__(oom)){ .t = t, .state = MP_OOM_CANDIDATE };
	f.oom = answer;
	space(t, &f, &p, 1);
	space(t, &f, &q, 2);
	for (uint64_t i = 0; i < 2; i++) { /* both nodes are full */
		fill(t, &p, FIXED_AT + i * REGION, 500);
		fill(t, &q, FIXED_AT + i * REGION, FRAMES - 500);
	}
	EXPECT_EQ(t, proc_credit(&p, FAKE_MEM_FIRST, 0, 1, &got), -EAGAIN);
	/* Not at once: what has ended may not have been told yet. */
	EXPECT_EQ(t, relief_step(&f.mem[0]), RELIEF_WAITS);
	EXPECT_EQ(t, oom.asked, 0);
	shim_time_advance_ns(300 * 1000 * 1000);
	EXPECT_EQ(t, relief_step(&f.mem[0]), RELIEF_ENDED);
	EXPECT_EQ(t, oom.asked, 1);
	EXPECT_EQ(t, oom.ended, 1);
	EXPECT_EQ(t, oom.total, FRAMES);
	/* While it ends no other one does. */
	oom.state = MP_OOM_ENDING;
	EXPECT_EQ(t, relief_step(&f.mem[0]), RELIEF_WAITS);
	EXPECT_EQ(t, oom.ended, 1);
	end(t, &q);
	EXPECT_EQ(t, relief_step(&f.mem[0]), RELIEF_ENOUGH);
	EXPECT_EQ(t, proc_credit(&p, FAKE_MEM_FIRST, 0, 1, &got), 0);
	check(t, &p, FIXED_AT, 500);
	check(t, &p, FIXED_AT + REGION, 500);
	EXPECT_EQ(t, proc_credit(&p, FAKE_MEM_FIRST, 0, 0, &got), 0);
	shim_time_freeze(false);
	end(t, &p);
	EXPECT_TRUE(t, fake_stop(&f));
}

static void nothing_can_be_done(struct ktest *t)
{
	struct fake_proc p;
	struct fake f;
	uint32_t got;

	shim_time_freeze(true);
	start(t, &f, 1);
	oom = (__typeof__(oom)){ .t = t, .state = MP_OOM_NONE };
	space(t, &f, &p, 1);
	fill(t, &p, FIXED_AT, 512);
	fill(t, &p, FIXED_AT + REGION, FRAMES - 512);
	EXPECT_EQ(t, proc_credit(&p, FAKE_MEM_FIRST, 0, 1, &got), -EAGAIN);
	EXPECT_EQ(t, relief_step(&f.mem[0]), RELIEF_WAITS);
	shim_time_advance_ns(300 * 1000 * 1000);
	/* No processor answers: it is not known that nothing can be done. */
	EXPECT_EQ(t, relief_step(&f.mem[0]), RELIEF_WAITS);
	f.oom = answer;
	relief_run(&f.mem[0]);
	EXPECT_FALSE(t, relief_is_wanted(&f.mem[0]));
	EXPECT_EQ(t, proc_credit(&p, FAKE_MEM_FIRST, 0, 1, &got), 0);
	EXPECT_EQ(t, got, 0);
	/* After a while it is tried again. */
	shim_time_advance_ns(2000ull * 1000 * 1000);
	EXPECT_EQ(t, proc_credit(&p, FAKE_MEM_FIRST, 0, 1, &got), -EAGAIN);
	EXPECT_TRUE(t, relief_is_wanted(&f.mem[0]));
	shim_time_freeze(false);
	end(t, &p);
	EXPECT_TRUE(t, fake_stop(&f));
}

/* The worst of two processors' programs: which is asked first does not matter. */
static int answer_of_two(struct fake *f, uint32_t proc, const void *body, uint32_t len, void *reply)
{
	struct mp_oom_rep rep = { .state = MP_OOM_CANDIDATE, .pid = proc, .frames = FRAMES / 2 };
	struct mp_oom_req req;

	EXPECT_EQ(oom.t, mp_oom_req_decode(body, len, &req), 0);
	if (req.flags & MP_OOM_END)
		oom.ended = proc;
	rep.badness = proc == oom.state ? 5 : -5;
	mp_oom_rep_encode(&rep, reply);
	return sizeof(struct mp_oom_rep_wire);
}

static void worst_of_all_processors_ends(struct ktest *t)
{
	const uint32_t other = FAKE_PROC + 1;

	for (uint32_t worst = FAKE_PROC; worst <= other; worst++) {
		const struct region_init init = { .state = REGION_ACTIVE,
						  .proc = FAKE_PROC + 1,
						  .vnode = PROTO_VNODE_ROOT };
		struct fake_proc p;
		struct region *r;
		struct fake f;

		shim_time_freeze(true);
		start(t, &f, 1);
		oom = (__typeof__(oom)){ .t = t, .state = worst };
		f.oom = answer_of_two;
		space(t, &f, &p, 1);
		fill(t, &p, FIXED_AT, 512);
		fill(t, &p, FIXED_AT + REGION, FRAMES - 512);
		r = region_make(&f.mem[0], FAKE_ASPACE(77), (struct home_id){ FAKE_MEM_FIRST, 0 },
				0, SHIFT_2M, &init);
		EXPECT_EQ(t, relief_step(&f.mem[0]), RELIEF_WAITS);
		shim_time_advance_ns(300 * 1000 * 1000);
		EXPECT_EQ(t, relief_step(&f.mem[0]), RELIEF_ENDED);
		EXPECT_EQ(t, oom.ended, worst);
		shim_time_freeze(false);
		region_put(r);
		owner_destroy_space(&f.mem[0], FAKE_ASPACE(77));
		end(t, &p);
		EXPECT_TRUE(t, fake_stop(&f));
	}
}

/* One processor answers as oom.state says, for ever; the other has a program to end. */
static int answer_of_liar(struct fake *f, uint32_t proc, const void *body, uint32_t len,
			  void *reply)
{
	const bool liar = proc == FAKE_PROC + 1;
	struct mp_oom_rep rep = { .state = liar ? oom.state : MP_OOM_CANDIDATE,
				  .pid = liar ? 0 : proc,
				  .frames = 9 };
	struct mp_oom_req req;

	EXPECT_EQ(oom.t, mp_oom_req_decode(body, len, &req), 0);
	if (liar && oom.total)
		return -ETIMEDOUT;
	if (req.flags & MP_OOM_END)
		oom.ended = proc;
	mp_oom_rep_encode(&rep, reply);
	return sizeof(struct mp_oom_rep_wire);
}

static void nobody_waits_for_a_liar(struct ktest *t)
{
	const uint64_t other = FAKE_ASPACE(77);

	for (uint32_t round = 0; round < 2; round++) {
		const struct region_init init = { .state = REGION_ACTIVE,
						  .proc = FAKE_PROC + 1,
						  .vnode = PROTO_VNODE_ROOT };
		struct fake_proc p;
		struct region *r;
		struct fake f;

		shim_time_freeze(true);
		start(t, &f, 1);
		/* It says for ever that one is ending, or nothing. */
		oom = (__typeof__(oom)){ .t = t, .state = MP_OOM_ENDING, .total = round };
		f.oom = answer_of_liar;
		space(t, &f, &p, 1);
		fill(t, &p, FIXED_AT, 300);
		r = region_make(&f.mem[0], other, (struct home_id){ FAKE_MEM_FIRST, 0 }, 0,
				SHIFT_2M, &init);
		take_all(t, &f, FAKE_PROC + 1, FRAMES - 300);
		EXPECT_EQ(t, relief_step(&f.mem[0]), RELIEF_WAITS);
		shim_time_advance_ns(1000ull * 1000 * 1000);
		EXPECT_EQ(t, relief_step(&f.mem[0]), RELIEF_WAITS);
		shim_time_advance_ns(10ull * 1000 * 1000 * 1000);
		/* First it loses the frames that it has not used ... */
		EXPECT_EQ(t, relief_step(&f.mem[0]), RELIEF_MOVED);
		EXPECT_EQ(t, oom.ended, 0);
		EXPECT_EQ(t, relief_step(&f.mem[0]), RELIEF_ENOUGH);
		/* ... and when these are gone as well the other's program ends. */
		fill(t, &p, FIXED_AT + REGION, 400);
		fill(t, &p, FIXED_AT + 2 * REGION, FRAMES - 700);
		EXPECT_EQ(t, relief_step(&f.mem[0]), RELIEF_WAITS);
		shim_time_advance_ns(60ull * 1000 * 1000 * 1000);
		EXPECT_EQ(t, relief_step(&f.mem[0]), RELIEF_ENDED);
		EXPECT_EQ(t, oom.ended, FAKE_PROC);
		shim_time_freeze(false);
		region_put(r);
		owner_destroy_space(&f.mem[0], other);
		end(t, &p);
		EXPECT_TRUE(t, fake_stop(&f));
	}
}

/* A processor without a space here has no use for credits, however many it has asked for. */
static void hoarded_credits_come_back(struct ktest *t)
{
	struct fake_proc p;
	struct fake f;

	start(t, &f, 1);
	space(t, &f, &p, 1);
	fill(t, &p, FIXED_AT, 300);
	take_all(t, &f, 700, FRAMES - 300);
	EXPECT_EQ(t, proc_writeback(&p, FIXED_AT + 400 * PAGE_SIZE, page), -EAGAIN);
	EXPECT_EQ(t, relief_step(&f.mem[0]), RELIEF_MOVED);
	EXPECT_EQ(t, proc_writeback(&p, FIXED_AT + 400 * PAGE_SIZE, page), 0);
	EXPECT_EQ(t, pool_credits(&f.mem[0].pool, 700), 0);
	end(t, &p);
	EXPECT_TRUE(t, fake_stop(&f));
}

/* --- shares -------------------------------------------------------------------------- */

/* However much one asks for, or says that it has, there is something for others. */
static void a_processor_leaves_some_to_others(struct ktest *t)
{
	const uint64_t share = FRAMES - FRAMES / 8;
	struct fake_proc p, q;
	uint32_t got, before;
	uint64_t report;
	struct fake f;

	shim_time_freeze(true);
	start(t, &f, 1);
	space(t, &f, &p, 1);
	proc_init(&q, &f, FAKE_SPACE_BY(FAKE_PROC + 1, FAKE_MEM_FIRST, 2), FAKE_MEM_FIRST);
	q.proc = FAKE_PROC + 1;
	EXPECT_EQ(t, pool_grant(&f.mem[0].pool, FAKE_PROC, UINT32_MAX, false, &report), share);
	EXPECT_EQ(t, pool_grant(&f.mem[0].pool, FAKE_PROC, UINT32_MAX, false, &report), 0);
	EXPECT_EQ(t, proc_credit(&p, FAKE_MEM_FIRST, UINT32_MAX, 0, &got), 0);
	EXPECT_EQ(t, got, share);
	EXPECT_EQ(t, proc_credit(&q, FAKE_MEM_FIRST, 0, UINT32_MAX, &got), 0);
	EXPECT_EQ(t, got, (FRAMES - share) / 8 * 7);
	/* It does need more: some at once, and then again and again, but never "no memory". */
	EXPECT_EQ(t, proc_credit(&p, FAKE_MEM_FIRST, (uint32_t)share, 100, &got), 0);
	EXPECT_GT(t, got, share);
	before = got;
	f.mem[0].relief.refused_ns = time_now_ns();
	EXPECT_EQ(t, proc_credit(&p, FAKE_MEM_FIRST, before, 100, &got), -EAGAIN);
	shim_time_advance_ns(100ull * 1000 * 1000);
	EXPECT_EQ(t, proc_credit(&p, FAKE_MEM_FIRST, before, 100, &got), 0);
	EXPECT_GT(t, got, before);
	/* Until there is none. */
	for (int i = 0; i < 30 && pool_room_now(&f.mem[0].pool); i++) {
		shim_time_advance_ns(100ull * 1000 * 1000);
		before = got;
		EXPECT_EQ(t, proc_credit(&p, FAKE_MEM_FIRST, before, 100, &got), 0);
	}
	EXPECT_EQ(t, pool_room_now(&f.mem[0].pool), 0);
	shim_time_freeze(false);
	EXPECT_EQ(t, proc_credit(&q, FAKE_MEM_FIRST, 0, 0, &got), 0);
	EXPECT_EQ(t, proc_credit(&p, FAKE_MEM_FIRST, 0, 0, &got), 0);
	end(t, &p);
	proc_done(&q);
	EXPECT_TRUE(t, fake_stop(&f));
}

/* FAKE_PROC + 1 offers oom.asked frames of its worst program, if oom.state says so. */
static int answer_of_hog(struct fake *f, uint32_t proc, const void *body, uint32_t len, void *reply)
{
	const bool hog = proc == FAKE_PROC + 1;
	struct mp_oom_rep rep = { .state = hog ? oom.state : MP_OOM_CANDIDATE };
	struct mp_oom_req req;

	EXPECT_EQ(oom.t, mp_oom_req_decode(body, len, &req), 0);
	if (req.flags & MP_OOM_END)
		oom.ended = proc;
	if (rep.state == MP_OOM_CANDIDATE) {
		rep.pid = proc;
		rep.frames = hog ? oom.asked : 300;
		rep.badness = (int64_t)rep.frames;
	}
	mp_oom_rep_encode(&rep, reply);
	return sizeof(struct mp_oom_rep_wire);
}

/* @offer 0: none. The hog has 500 pages stored, the other one 300: @ends is whose program ends. */
static void hog_offers(struct ktest *t, uint32_t offer, uint32_t ends, uint32_t ends_late)
{
	const bool little = ends != FAKE_PROC;
	struct fake_proc p, q;
	struct fake f;

	shim_time_freeze(true);
	start(t, &f, 1);
	oom = (__typeof__(oom)){ .t = t,
				 .asked = offer,
				 .state = offer ? MP_OOM_CANDIDATE : MP_OOM_NONE };
	f.oom = answer_of_hog;
	space(t, &f, &p, 1);
	proc_init(&q, &f, FAKE_SPACE_BY(FAKE_PROC + 1, FAKE_MEM_FIRST, 2), FAKE_MEM_FIRST);
	q.proc = FAKE_PROC + 1;
	ASSERT_EQ(t, proc_space(&q), 0);
	fill(t, &p, FIXED_AT, 300);
	fill(t, &q, FIXED_AT, 500);
	take_all(t, &f, q.proc, FRAMES - 800);
	EXPECT_EQ(t, relief_step(&f.mem[0]), RELIEF_WAITS);
	shim_time_advance_ns(300 * 1000 * 1000);
	if (little) { /* first it loses what it has not used, which others take */
		EXPECT_EQ(t, relief_step(&f.mem[0]), RELIEF_MOVED);
		EXPECT_EQ(t, pool_credits(&f.mem[0].pool, q.proc), 0);
		take_all(t, &f, FAKE_PROC, FRAMES - 800);
		EXPECT_EQ(t, oom.ended, 0);
	}
	EXPECT_EQ(t, relief_step(&f.mem[0]), ends ? RELIEF_ENDED : RELIEF_WAITS);
	EXPECT_EQ(t, oom.ended, ends);
	/* If that did not help, its frames are of another kind: the worst of all ends. */
	if (little && ends) {
		EXPECT_EQ(t, relief_step(&f.mem[0]), RELIEF_ENDED);
		EXPECT_EQ(t, oom.ended, FAKE_PROC);
	}
	/* It may have lied: others do not wait for ever. */
	shim_time_advance_ns(10ull * 1000 * 1000 * 1000);
	if (!little)
		EXPECT_EQ(t, relief_step(&f.mem[0]), RELIEF_MOVED);
	else
		EXPECT_EQ(t, relief_step(&f.mem[0]), RELIEF_ENDED);
	EXPECT_EQ(t, oom.ended, ends_late);
	shim_time_freeze(false);
	end(t, &p);
	end(t, &q);
	EXPECT_TRUE(t, fake_stop(&f));
}

static void a_worthless_offer_spares_nobody(struct ktest *t)
{
	hog_offers(t, 500 / 64 - 1, FAKE_PROC + 1, FAKE_PROC);
	hog_offers(t, 0, 0, FAKE_PROC);
	hog_offers(t, 660 / 64, FAKE_PROC,
		   FAKE_PROC); /* just worth it, and less than the other's */
}

/* --- write-backs --------------------------------------------------------------------- */

static void relief_thread(void *arg)
{
	struct memory *m = arg;

	relief_run(m);
}

/*
 * A page that comes without a credit: its vRegion has moved, say. Its writer is told to send it
 * again, and it is stored in the end.
 */
static void page_without_a_credit_is_not_lost(struct ktest *t)
{
	const uint64_t late = FIXED_AT + 511 * PAGE_SIZE;
	struct thread *thread;
	struct fake_proc p;
	struct fake f;
	int err;

	start(t, &f, 2);
	space(t, &f, &p, 1);
	fill(t, &p, FIXED_AT, 511);
	fill(t, &p, FIXED_AT + 2 * REGION, FRAMES - 511);
	thread = thread_create("relief", relief_thread, &f.mem[0]);
	page_stamp(page, late);
	do
		err = proc_writeback(&p, late, page);
	while (err == -EAGAIN);
	EXPECT_EQ(t, err, 0);
	thread_join(thread);
	EXPECT_EQ(t, proc_fetch(&p, late, true, page), PM_FETCH_DATA);
	EXPECT_EQ(t, page_value(page), late);
	check(t, &p, FIXED_AT, 511);
	check(t, &p, FIXED_AT + 2 * REGION, FRAMES - 511);
	end(t, &p);
	EXPECT_TRUE(t, fake_stop(&f));
}

/* Without anybody who makes room the answer is "again", not "lost"; then, that there is none. */
static void full_node_says_again(struct ktest *t)
{
	struct fake_proc p;
	struct fake f;

	start(t, &f, 1);
	space(t, &f, &p, 1);
	fill(t, &p, FIXED_AT, 511);
	fill(t, &p, FIXED_AT + REGION, FRAMES - 511);
	EXPECT_EQ(t, proc_writeback(&p, FIXED_AT + 511 * PAGE_SIZE, page), -EAGAIN);
	f.mem[0].relief.on = false;
	EXPECT_EQ(t, proc_writeback(&p, FIXED_AT + 511 * PAGE_SIZE, page), -ENOMEM);
	end(t, &p);
	EXPECT_TRUE(t, fake_stop(&f));
}

static const struct ktest_case cases[] = {
	KTEST(choice),
	KTEST(vregion_goes_where_there_is_room),
	KTEST(busy_space_is_passed_over),
	KTEST(files_give_way_first),
	KTEST(no_program_ends_for_what_files_have),
	KTEST(files_that_are_kept_hold_nobody_up),
	KTEST(vain_tries_before_a_shortage_end_no_program),
	KTEST(files_that_give_way_slowly_end_no_program),
	KTEST(kept_files_are_gone_round_by_a_move),
	KTEST(program_ends_when_no_node_has_room),
	KTEST(worst_of_all_processors_ends),
	KTEST(nobody_waits_for_a_liar),
	KTEST(hoarded_credits_come_back),
	KTEST(nothing_can_be_done),
	KTEST(a_processor_leaves_some_to_others),
	KTEST(a_worthless_offer_spares_nobody),
	KTEST(page_without_a_credit_is_not_lost),
	KTEST(full_node_says_again),
	{ 0 },
};
static const struct ktest_suite suite = { .name = "memory.relief", .cases = cases };
KTEST_SUITE(suite);
