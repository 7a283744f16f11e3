/* SPDX-License-Identifier: MIT */
/*
 * Threads that are killed while memory nodes are silent, wherever they wait: behind another
 * thread's lock, for write-backs of what they unmap, for a collapse. They leave at once. A call
 * that was not sent has done nothing; one that was ends what shares its space, and comes to its end
 * by itself.
 */
#include <stdlib.h>
#include <unistd.h>

#include <abi/mman.h>
#include <kernel/thread.h>
#include <lib/err.h>
#include <lib/ktest.h>
#include <processor/excache/credit.h>
#include <processor/excache/excache.h>
#include <processor/excache/object.h>
#include <processor/mm/aspace.h>
#include <processor/process/process.h>
#include <processor/syscall/syscall.h>
#include <proto/pm.h>
#include <shim/shim.h>

#include "fake_owner.h"
#include "user_word.h"

#define BASE  0x400000ull
#define PAGES 40ull

extern unsigned int fake_kills;

#define wait_for(cond)                                       \
	do {                                                 \
		for (int _i = 0; _i < 5000 && !(cond); _i++) \
			usleep(1000);                        \
	} while (0)

static struct process process;
static struct task task = { .process = &process };
static size_t spaces_before;

static void cache_start(void)
{
	fake_cache();
	fake_reset();
	fake_settle();
	fake_kills = 0;
	spaces_before = object_space_count();
}

/* With the words 1, 2, ... in its first PAGES pages, and as many unwritten ones behind them. */
static struct aspace *program_start(struct ktest *t)
{
	const struct vma v = { .start = BASE,
			       .end = BASE + 2 * PAGES * PAGE_SIZE,
			       .prot = VMA_PROT_READ | VMA_PROT_WRITE };
	struct aspace *as = aspace_create(object_id(1, object_new_number()), 1);

	if (IS_ERR(as) || aspace_set_vma(as, &v, SEQ_ANY))
		abort();
	as->anon->vregion_size = FAKE_VREGION_SIZE;
	as->brk_start = BASE;
	as->brk = v.end;
	process.as = as;
	for (uint64_t i = 0; i < PAGES; i++) {
		uint64_t word = i + 1;

		EXPECT_EQ(t, user_word(as, BASE, i, &word, true), 0);
	}
	return as;
}

static void expect_kept(struct ktest *t, struct aspace *as)
{
	for (uint64_t i = 0; i < PAGES && !t->nr_failed; i++) {
		uint64_t word = 0;

		EXPECT_EQ(t, user_word(as, BASE, i, &word, false), 0);
		EXPECT_EQ(t, word, i + 1);
	}
}

/* Nothing is left of any space. */
static void all_gone(struct ktest *t)
{
	wait_for(object_space_count() == spaces_before);
	fake_settle();
	EXPECT_EQ(t, object_space_count(), spaces_before);
	EXPECT_EQ(t, excache_free_count(), excache_line_count());
	EXPECT_EQ(t, fake_pages(), 0u);
	credit_reconcile();
	EXPECT_EQ(t, credit_total(), fake_promised());
	EXPECT_EQ(t, fake_kills, 0u);
}

static void silence_all(uint16_t opcode)
{
	for (uint32_t node = 1; node <= FAKE_NODES; node++)
		fake_silence(node, opcode);
}

/* --- threads that are killed --------------------------------------------------------------- */

struct victim {
	struct thread *thread;
	long (*call)(struct victim *v);
	struct object *obj;
	struct aspace *as, *child;
	uint64_t page, word;
	long ret;
	bool over; /* atomic */
};

static void victim_main(void *arg)
{
	struct victim *v = arg;

	thread_current()->private = &task;
	v->ret = v->call(v);
	__atomic_store_n(&v->over, true, __ATOMIC_RELEASE);
}

static bool is_over(struct victim *v)
{
	return __atomic_load_n(&v->over, __ATOMIC_ACQUIRE);
}

/* It waits when this returns: a kill ends the wait. */
static void victim_start(struct ktest *t, struct victim *v)
{
	v->thread = thread_create("victim", victim_main, v);
	ASSERT_FALSE(t, IS_ERR(v->thread));
	wait_for(is_over(v) || shim_thread_waits_killable(v->thread));
	EXPECT_FALSE(t, is_over(v));
}

static void victim_kill(struct ktest *t, struct victim *v, long ret)
{
	thread_notify(v->thread, THREAD_F_KILL);
	wait_for(is_over(v));
	EXPECT_TRUE(t, is_over(v));
	if (!is_over(v))
		fake_speak();
	thread_join(v->thread);
	EXPECT_EQ(t, v->ret, ret);
}

/* --- ranges: all of the pages, or as many behind them --------------------------------------- */

#define LEN (PAGES * PAGE_SIZE)

static long call_munmap(struct victim *v)
{
	return sys_munmap(&(struct syscall_args){ .a = { BASE, LEN } });
}

static long call_mmap(struct victim *v)
{
	return sys_mmap(&(struct syscall_args){ .a = { BASE, LEN, PROT_READ | PROT_WRITE,
						       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED } });
}

static long call_brk(struct victim *v)
{
	return sys_brk(&(struct syscall_args){ .a = { BASE } });
}

static long call_madvise(struct victim *v)
{
	return sys_madvise(&(struct syscall_args){ .a = { BASE, LEN, MADV_DONTNEED } });
}

/* Away from there: every page is written back first. */
static long call_mremap(struct victim *v)
{
	return sys_mremap(&(struct syscall_args){
		.a = { BASE, LEN, LEN, MREMAP_MAYMOVE | MREMAP_FIXED, BASE + LEN } });
}

static const struct {
	long (*call)(struct victim *v);
	uint16_t opcode;
} calls[] = {
	{ call_munmap, PM_MUNMAP },   { call_mmap, PM_MMAP },     { call_brk, PM_BRK },
	{ call_madvise, PM_DISCARD }, { call_mremap, PM_MREMAP },
};

/* The result for a thread that was killed; brk() answers the break that holds. */
static long killed(size_t i, long err)
{
	return calls[i].opcode == PM_BRK ? (long)process.as->brk : err;
}

static long do_flush(struct victim *v)
{
	return excache_flush(v->as->anon, v->page, v->page + PAGES);
}

/* Write-backs of what is to be unmapped are under way to silent owners. */
static void a_range_under_way_holds_up_no_kill(struct ktest *t)
{
	for (size_t i = 0; i < ARRAY_SIZE(calls) && !t->nr_failed; i++) {
		struct victim flush = { .call = do_flush, .page = BASE >> PAGE_SHIFT };
		struct victim v = { .call = calls[i].call };

		cache_start();
		flush.as = program_start(t);
		silence_all(PM_WRITEBACK);
		victim_start(t, &flush);
		victim_start(t, &v);
		victim_kill(t, &v, killed(i, -EINTR));
		victim_kill(t, &flush, -EINTR);
		EXPECT_EQ(t, flush.as->failed, 0);
		fake_speak();
		expect_kept(t, flush.as);
		aspace_put(flush.as);
		(void)aspace_drain();
		all_gone(t);
	}
}

/* A mapping that moves waits for the write-backs that it has begun itself. */
static void a_move_that_is_killed_loses_nothing(struct ktest *t)
{
	struct victim v = { .call = call_mremap };
	struct aspace *as;

	cache_start();
	as = program_start(t);
	silence_all(PM_WRITEBACK);
	victim_start(t, &v);
	victim_kill(t, &v, -EINTR);
	EXPECT_EQ(t, as->failed, 0);
	fake_speak();
	expect_kept(t, as);
	aspace_put(as);
	(void)aspace_drain();
	all_gone(t);
}

/* Another thread of the space is in a call to a silent home: it goes on. */
static void a_queue_for_the_layout_is_left(struct ktest *t)
{
	for (size_t i = 0; i < ARRAY_SIZE(calls) && !t->nr_failed; i++) {
		struct victim first = { .call = call_munmap }, v = { .call = calls[i].call };
		struct aspace *as;

		cache_start();
		as = program_start(t);
		fake_silence(1, PM_MUNMAP);
		victim_start(t, &first);
		victim_start(t, &v);
		victim_kill(t, &v, -EINTR);
		EXPECT_EQ(t, as->failed, 0);
		EXPECT_FALSE(t, is_over(&first));
		fake_speak();
		thread_join(first.thread);
		EXPECT_EQ(t, first.ret, 0);
		aspace_put(as);
		(void)aspace_drain();
		all_gone(t);
	}
}

static long do_fork(struct victim *v)
{
	return aspace_fork(process.as, &v->child);
}

/* No slot is free, so the home hears of nothing: what shares the space goes on. */
static void a_call_that_was_not_sent_has_done_nothing(struct ktest *t)
{
	for (size_t i = 0; i < ARRAY_SIZE(calls) && !t->nr_failed; i++) {
		struct victim v = { .call = calls[i].call };
		struct aspace *as;

		cache_start();
		as = program_start(t);
		ASSERT_EQ(t,
			  excache_flush(as->anon, BASE >> PAGE_SHIFT, (BASE >> PAGE_SHIFT) + PAGES),
			  0);
		fake_full(true);
		victim_start(t, &v);
		victim_kill(t, &v, killed(i, -EINTR));
		EXPECT_EQ(t, as->failed, 0);
		fake_full(false);
		expect_kept(t, as);
		aspace_put(as);
		(void)aspace_drain();
		all_gone(t);
	}
}

static void a_fork_that_was_not_sent_has_done_nothing(struct ktest *t)
{
	struct victim v = { .call = do_fork };
	struct fake_counts counts;
	struct aspace *as;

	cache_start();
	as = program_start(t);
	fake_full(true);
	victim_start(t, &v);
	victim_kill(t, &v, -EINTR);
	EXPECT_EQ(t, as->failed, 0);
	fake_full(false);
	expect_kept(t, as);
	aspace_put(as);
	(void)aspace_drain();
	fake_counts(&counts);
	EXPECT_EQ(t, counts.forks, 0u);
	EXPECT_EQ(t, counts.destroys, 1u); /* the home has not heard of the other two */
	all_gone(t);
}

/* One that was sent may be executed or not: nothing goes on with the space. */
static void a_call_that_was_left_ends_the_space(struct ktest *t)
{
	for (size_t i = 0; i < ARRAY_SIZE(calls) && !t->nr_failed; i++) {
		struct victim v = { .call = calls[i].call };
		struct aspace *as;

		cache_start();
		as = program_start(t);
		ASSERT_EQ(t,
			  excache_flush(as->anon, BASE >> PAGE_SHIFT, (BASE >> PAGE_SHIFT) + PAGES),
			  0);
		fake_silence(1, calls[i].opcode);
		victim_start(t, &v);
		victim_kill(t, &v, killed(i, -ECANCELED));
		EXPECT_EQ(t, as->failed, -EINTR);
		aspace_put(as);
		fake_speak();
		(void)aspace_drain();
		all_gone(t);
	}
}

/* A worker has the layout of the parent, as a child has ended, and waits for the home. */
static void a_collapse_holds_up_no_kill(struct ktest *t)
{
	struct victim v = { .call = call_munmap };
	struct aspace *as, *child;
	uint64_t word = 7;

	cache_start();
	as = program_start(t);
	ASSERT_EQ(t, excache_flush(as->anon, BASE >> PAGE_SHIFT, (BASE >> PAGE_SHIFT) + PAGES), 0);
	ASSERT_EQ(t, aspace_fork(as, &child), 0);
	EXPECT_EQ(t, user_word(as, BASE, 1, &word, true), 0);
	fake_silence(1, PM_COLLAPSE);
	aspace_put(child);
	wait_for(fake_under_way() > 0);
	victim_start(t, &v);
	victim_kill(t, &v, -EINTR);
	EXPECT_EQ(t, as->failed, 0);
	fake_speak();
	aspace_put(as);
	(void)aspace_drain();
	all_gone(t);
}

/* --- shared objects -------------------------------------------------------------------------- */

static long do_cut(struct victim *v)
{
	return object_shared_set_size(v->obj, PAGE_SIZE);
}

static long do_punch(struct victim *v)
{
	return object_shared_punch(v->obj, 1, PAGES);
}

static long do_write(struct victim *v)
{
	struct line *line;
	const int err = object_shared_get(v->obj, v->page, true, &line);

	if (err)
		return err;
	*(uint64_t *)line_data(line) = v->word;
	line_mark_dirty(line);
	excache_put(line);
	return 0;
}

static uint64_t word_of(struct ktest *t, struct object *obj, uint64_t page)
{
	struct line *line;
	uint64_t word = 0;
	const int err = object_shared_get(obj, page, false, &line);

	EXPECT_TRUE(t, err == 0 || err == -ENOENT);
	if (!err) {
		word = *(uint64_t *)line_data(line);
		excache_put(line);
	}
	return word;
}

static struct object *file_start(struct ktest *t, bool stored)
{
	struct object *obj = object_shared_create(PAGES * PAGE_SIZE, false);

	if (IS_ERR(obj))
		abort();
	for (uint64_t i = 0; i < PAGES; i++)
		EXPECT_EQ(t, do_write(&(struct victim){ .obj = obj, .page = i, .word = i + 1 }), 0);
	if (stored)
		EXPECT_EQ(t, excache_flush(obj, 0, PAGES), 0);
	return obj;
}

/*
 * The owners execute a request to drop pages when its thread is gone. Pages that others write there
 * later are not dropped: the writers wait.
 */
static void a_late_discard_drops_no_newer_page(struct ktest *t)
{
	long (*const cuts[])(struct victim *v) = { do_cut, do_punch };

	for (size_t i = 0; i < ARRAY_SIZE(cuts) && !t->nr_failed; i++) {
		struct victim v = { .call = cuts[i] };
		struct victim w = { .call = do_write, .page = 3, .word = 99 };
		struct victim again = { .call = do_punch };

		cache_start();
		v.obj = w.obj = again.obj = file_start(t, true);
		fake_silence(1, PM_DISCARD);
		victim_start(t, &v);
		victim_kill(t, &v, cuts[i] == do_cut ? 0 : -EINTR);
		victim_start(t, &w);
		victim_start(t, &again);
		victim_kill(t, &again, -EINTR);
		EXPECT_FALSE(t, is_over(&w));
		fake_speak();
		thread_join(w.thread);
		EXPECT_EQ(t, w.ret, 0);
		EXPECT_EQ(t, excache_flush(v.obj, 0, PAGES), 0);
		fake_quiesce();
		EXPECT_EQ(t, word_of(t, v.obj, 0), 1u);
		EXPECT_EQ(t, word_of(t, v.obj, 3), 99u);
		EXPECT_EQ(t, word_of(t, v.obj, 4), 0u);
		object_put(v.obj);
		(void)aspace_drain();
		all_gone(t);
	}
}

static long do_flush_file(struct victim *v)
{
	return excache_flush(v->obj, 0, PAGES);
}

/* Pages that are to go are being written back. */
static void a_cut_of_pages_under_way_holds_up_no_kill(struct ktest *t)
{
	struct victim flush = { .call = do_flush_file }, v = { .call = do_cut };

	cache_start();
	flush.obj = v.obj = file_start(t, false);
	silence_all(PM_WRITEBACK);
	victim_start(t, &flush);
	victim_start(t, &v);
	victim_kill(t, &v, 0);
	victim_kill(t, &flush, -EINTR);
	EXPECT_EQ(t, object_shared_size(v.obj), PAGE_SIZE);
	fake_speak();
	EXPECT_EQ(t, word_of(t, v.obj, 0), 1u);
	for (uint64_t i = 1; i < PAGES; i++)
		EXPECT_EQ(t, word_of(t, v.obj, i), 0u);
	object_put(v.obj);
	(void)aspace_drain();
	all_gone(t);
}

static const struct ktest_case cases[] = {
	KTEST(a_range_under_way_holds_up_no_kill),
	KTEST(a_move_that_is_killed_loses_nothing),
	KTEST(a_queue_for_the_layout_is_left),
	KTEST(a_call_that_was_not_sent_has_done_nothing),
	KTEST(a_fork_that_was_not_sent_has_done_nothing),
	KTEST(a_call_that_was_left_ends_the_space),
	KTEST(a_collapse_holds_up_no_kill),
	KTEST(a_late_discard_drops_no_newer_page),
	KTEST(a_cut_of_pages_under_way_holds_up_no_kill),
	{ 0 },
};
static const struct ktest_suite suite = { .name = "processor.kills", .cases = cases };
KTEST_SUITE(suite);
