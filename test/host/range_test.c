/* SPDX-License-Identifier: MIT */
/*
 * munmap, mmap over something, mremap, brk and madvise on the host, with homes that refuse or do
 * not say what they did: a refusal loses nothing, an unknown outcome ends the program, and no page
 * of a range that is going away is written back.
 */
#include <pthread.h>
#include <stdlib.h>

#include <abi/mman.h>
#include <kernel/thread.h>
#include <lib/err.h>
#include <lib/ktest.h>
#include <processor/excache/excache.h>
#include <processor/mm/aspace.h>
#include <processor/mm/commit.h>
#include <processor/process/process.h>
#include <processor/syscall/syscall.h>
#include <processor/vfs/file.h>
#include <proto/pm.h>

#include "fake_owner.h"
#include "user_word.h"

#define BASE  0x400000ull
#define PAGES 200ull /* more than the cache has lines for */

extern unsigned int fake_kills;

/* --- what the calls ask for beside memory -------------------------------------------- */

bool file_noexec(const struct file *f)
{
	return false;
}

struct file *fd_get(int fd)
{
	return ERR_PTR(-EBADF);
}

void file_put(struct file *f)
{
}

int file_may_share(const struct file *f)
{
	return 0;
}

bool commit_is_strict(void)
{
	return false;
}

/* --- one program --------------------------------------------------------------------- */

static struct process process;
static struct task task = { .process = &process };

static struct aspace *program_start(struct ktest *t)
{
	const struct vma v = { .start = BASE,
			       .end = BASE + 2 * PAGES * PAGE_SIZE,
			       .prot = VMA_PROT_READ | VMA_PROT_WRITE };
	struct aspace *as;

	fake_cache();
	fake_reset();
	fake_kills = 0;
	as = aspace_create(object_id(1, object_new_number()), 1);
	if (IS_ERR(as) || aspace_set_vma(as, &v, SEQ_ANY))
		abort();
	as->anon->vregion_size = FAKE_VREGION_SIZE;
	as->brk_start = BASE;
	as->brk = v.end;
	process.as = as;
	thread_current()->private = &task;
	for (uint64_t i = 0; i < PAGES; i++) {
		uint64_t word = i + 1;

		EXPECT_EQ(t, user_word(as, BASE, i, &word, true), 0);
	}
	return as;
}

static void program_end(struct ktest *t, struct aspace *as)
{
	aspace_put(as);
	(void)aspace_drain();
	fake_quiesce();
	EXPECT_EQ(t, excache_free_count(), excache_line_count());
}

/* All pages of [first, end) have what was written to them. */
static void expect_kept(struct ktest *t, struct aspace *as, uint64_t first, uint64_t end)
{
	for (uint64_t i = first; i < end && !t->nr_failed; i++) {
		uint64_t word = 0;

		EXPECT_EQ(t, user_word(as, BASE, i, &word, false), 0);
		EXPECT_EQ(t, word, i + 1);
	}
}

static void expect_zero(struct ktest *t, struct aspace *as, uint64_t first, uint64_t end)
{
	for (uint64_t i = first; i < end && !t->nr_failed; i++) {
		uint64_t word = 1;

		EXPECT_EQ(t, user_word(as, BASE, i, &word, false), 0);
		EXPECT_EQ(t, word, 0u);
	}
}

/* --- the calls, all about pages 50 to 150 -------------------------------------------- */

#define FIRST 50ull
#define END   150ull
#define AT(i) (BASE + (i) * PAGE_SIZE)

static long call_munmap(void)
{
	return sys_munmap(&(struct syscall_args){ .a = { AT(FIRST), (END - FIRST) * PAGE_SIZE } });
}

static long call_mmap(void)
{
	return sys_mmap(&(struct syscall_args){ .a = { AT(FIRST), (END - FIRST) * PAGE_SIZE,
						       PROT_READ | PROT_WRITE,
						       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED } });
}

/* Onto them, from behind what was written. */
static long call_mremap(void)
{
	return sys_mremap(&(struct syscall_args){
		.a = { AT(PAGES), (END - FIRST) * PAGE_SIZE, (END - FIRST) * PAGE_SIZE,
		       MREMAP_MAYMOVE | MREMAP_FIXED, AT(FIRST) } });
}

/* Everything from FIRST on. */
static long call_brk(void)
{
	return sys_brk(&(struct syscall_args){ .a = { AT(FIRST) } });
}

static long call_madvise(void)
{
	return sys_madvise(&(struct syscall_args){
		.a = { AT(FIRST), (END - FIRST) * PAGE_SIZE, MADV_DONTNEED } });
}

static const struct {
	long (*call)(void);
	uint16_t opcode;
	bool over; /* something else is mapped there afterwards */
} calls[] = {
	{ call_munmap, PM_MUNMAP, false },  { call_mmap, PM_MMAP, true },
	{ call_mremap, PM_MREMAP, true },   { call_brk, PM_BRK, false },
	{ call_madvise, PM_DISCARD, true },
};

static void a_call_that_is_done_leaves_nothing(struct ktest *t)
{
	for (size_t i = 0; i < ARRAY_SIZE(calls) && !t->nr_failed; i++) {
		struct aspace *as = program_start(t);
		const uint64_t end = calls[i].opcode == PM_BRK ? PAGES : END;
		uint64_t word;

		EXPECT_GE(t, calls[i].call(), 0);
		expect_kept(t, as, 0, FIRST);
		expect_kept(t, as, end, PAGES);
		if (calls[i].over)
			expect_zero(t, as, FIRST, END);
		else
			EXPECT_EQ(t, user_word(as, BASE, FIRST, &word, false), -EFAULT);
		EXPECT_EQ(t, fake_kills, 0u);
		program_end(t, as);
	}
}

static void a_call_that_is_refused_loses_nothing(struct ktest *t)
{
	for (size_t i = 0; i < ARRAY_SIZE(calls) && !t->nr_failed; i++) {
		struct aspace *as = program_start(t);
		long ret;

		fake_fail_times(calls[i].opcode, -ENOMEM, 2, false);
		ret = calls[i].call();
		EXPECT_TRUE(t, calls[i].opcode == PM_BRK ? ret == (long)as->brk : ret == -ENOMEM);
		expect_kept(t, as, 0, PAGES);
		EXPECT_EQ(t, fake_kills, 0u);
		program_end(t, as);
	}
}

/* Never zeroes in the place of what was written. */
static void an_unknown_outcome_ends_the_program(struct ktest *t)
{
	for (size_t i = 0; i < 2 * ARRAY_SIZE(calls) && !t->nr_failed; i++) {
		const bool done = i & 1;
		struct aspace *as = program_start(t);
		uint64_t word;

		fake_fail_times(calls[i / 2].opcode, -EHOSTDOWN, 8, done);
		(void)calls[i / 2].call();
		EXPECT_EQ(t, fake_kills, 1u);
		EXPECT_EQ(t, user_word(as, BASE, PAGES + 1, &word, true), -ENOMEM);
		program_end(t, as);
	}
}

/* The old mapping has gone, and the new one could not be had: a hole, and nothing else. */
static void a_mapping_may_go_for_nothing(struct ktest *t)
{
	for (size_t i = 0; i < ARRAY_SIZE(calls) && !t->nr_failed; i++) {
		struct aspace *as;
		uint64_t word;

		if (calls[i].opcode != PM_MMAP && calls[i].opcode != PM_MREMAP)
			continue;
		as = program_start(t);
		fake_fail(calls[i].opcode, -EIDRM);
		EXPECT_EQ(t, calls[i].call(), -ENOMEM);
		expect_kept(t, as, 0, FIRST);
		expect_kept(t, as, END, PAGES);
		EXPECT_EQ(t, user_word(as, BASE, FIRST, &word, false), -EFAULT);
		EXPECT_EQ(t, fake_kills, 0u);
		program_end(t, as);
	}
}

/* --- under load ---------------------------------------------------------------------- */

struct worker {
	struct aspace *as;
	unsigned int nr_bad;
	bool stop; /* atomic */
};

/* Turns the cache over, so that lines of the range would be evicted if they could. */
static void *sweep(void *arg)
{
	struct worker *w = arg;

	while (!__atomic_load_n(&w->stop, __ATOMIC_RELAXED)) {
		for (uint64_t i = PAGES; i < 2 * PAGES; i++) {
			uint64_t word = i;

			w->nr_bad += user_word(w->as, BASE, i, &word, true) != 0;
		}
	}
	return NULL;
}

static void refusals_under_load_lose_nothing(struct ktest *t)
{
	struct aspace *as = program_start(t);
	struct worker w = { .as = as };
	pthread_t thread;

	fake_delay_us(300);
	ASSERT_EQ(t, pthread_create(&thread, NULL, sweep, &w), 0);
	for (unsigned int n = 0; n < 60 && !t->nr_failed; n++) {
		fake_fail_times(PM_MUNMAP, -ENOMEM, 2, false);
		EXPECT_EQ(t, call_munmap(), -ENOMEM);
		expect_kept(t, as, FIRST, END);
	}
	for (unsigned int n = 0; n < 60 && !t->nr_failed; n++) {
		EXPECT_EQ(t, call_madvise(), 0);
		expect_zero(t, as, FIRST, END);
		for (uint64_t i = FIRST; i < END; i++) {
			uint64_t word = n + 1;

			EXPECT_EQ(t, user_word(as, BASE, i, &word, true), 0);
		}
	}
	__atomic_store_n(&w.stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	EXPECT_EQ(t, w.nr_bad, 0u);
	EXPECT_EQ(t, fake_kills, 0u);
	program_end(t, as);
}

static const struct ktest_case cases[] = {
	KTEST(a_call_that_is_done_leaves_nothing),  KTEST(a_call_that_is_refused_loses_nothing),
	KTEST(an_unknown_outcome_ends_the_program), KTEST(a_mapping_may_go_for_nothing),
	KTEST(refusals_under_load_lose_nothing),    { 0 },
};
static const struct ktest_suite suite = { .name = "processor.ranges", .cases = cases };
KTEST_SUITE(suite);
