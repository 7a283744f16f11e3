/* SPDX-License-Identifier: MIT */
/*
 * Fork, collapse, discard and page-only spaces over several memory monitors: single calls, what is
 * refused, failures halfway, and collapses under way while others use the pages.
 */
#include <stdlib.h>
#include <string.h>

#include <kernel/thread.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/ktest.h>
#include <shim/shim.h>

#include "../../../monitors/memory/region_apply.h"
#include "fixture.h"

#define FIXED_AT 0x40000000ull

static uint8_t page[PAGE_SIZE] __aligned(8);

static void sums(struct fake *f, struct pool_stats *out)
{
	struct pool_stats s;

	*out = (struct pool_stats){ 0 };
	for (size_t i = 0; i < f->nr_mem; i++) {
		pool_stats(&f->mem[i].pool, &s);
		out->used += s.used;
		out->committed += s.committed;
		out->reserved += s.reserved;
	}
}

static uint64_t used(struct fake *f)
{
	struct pool_stats s;

	sums(f, &s);
	return s.used;
}

static uint64_t committed(struct fake *f)
{
	struct pool_stats s;

	sums(f, &s);
	return s.committed;
}

static int put(struct fake_proc *p, uint64_t vaddr, uint64_t value)
{
	page_stamp(page, value);
	return proc_writeback(p, vaddr, page);
}

/* The page's value, 0 when the space has none, or a negative errno. */
static int64_t get(struct fake_proc *p, uint64_t vaddr)
{
	const int res = proc_fetch(p, vaddr, false, page);

	if (res == PM_FETCH_DATA)
		return (int64_t)page_value(page);
	return res == PM_FETCH_ZERO ? 0 : res;
}

/* Spaces 1, 2 and 3: one with 8 MiB mapped and page 0 of each MiB written, a parent and a child. */
struct family {
	struct fake f;
	struct fake_proc a, parent, child;
};

static struct family fam;

static void family_start(struct ktest *t, size_t nr_mem)
{
	uint64_t addr;

	fake_start(&fam.f, nr_mem, 16384, SHIFT_2M);
	proc_init(&fam.a, &fam.f, FAKE_ASPACE(1), FAKE_MEM_FIRST);
	proc_init(&fam.parent, &fam.f, FAKE_ASPACE(2), FAKE_MEM_FIRST);
	proc_init(&fam.child, &fam.f, FAKE_ASPACE(3), FAKE_MEM_FIRST);
	EXPECT_EQ(t, proc_space(&fam.a), 0);
	EXPECT_EQ(t, proc_mmap(&fam.a, FIXED_AT, 8 * MB, RW, PM_MAP_FIXED, &addr), 0);
	for (uint64_t i = 0; i < 8; i++)
		EXPECT_EQ(t, put(&fam.a, FIXED_AT + i * MB, i + 1), 0);
}

static void family_end(struct ktest *t)
{
	EXPECT_EQ(t, proc_destroy(&fam.a), 0);
	EXPECT_EQ(t, proc_destroy(&fam.parent), 0);
	EXPECT_EQ(t, proc_destroy(&fam.child), 0);
	proc_done(&fam.a);
	proc_done(&fam.parent);
	proc_done(&fam.child);
	EXPECT_TRUE(t, fake_stop(&fam.f));
}

/* --- fork -------------------------------------------------------------------------------- */

static void fork_shares_what_was_written(struct ktest *t)
{
	uint64_t addr;

	family_start(t, 2);
	EXPECT_EQ(t, committed(&fam.f), 2048);
	ASSERT_EQ(t, proc_fork(&fam.a, &fam.parent, &fam.child), 0);
	EXPECT_EQ(t, committed(&fam.f), 4096);
	EXPECT_EQ(t, used(&fam.f), 8);
	for (uint64_t i = 0; i < 8; i++) {
		EXPECT_EQ(t, get(&fam.a, FIXED_AT + i * MB), i + 1);
		EXPECT_EQ(t, get(&fam.parent, FIXED_AT + i * MB), 0);
		EXPECT_EQ(t, get(&fam.child, FIXED_AT + i * MB), 0);
	}
	/* A line that was dirty at the fork is written back to the frozen space. */
	EXPECT_EQ(t, put(&fam.a, FIXED_AT + PAGE_SIZE, 20), 0);
	EXPECT_EQ(t, get(&fam.a, FIXED_AT + PAGE_SIZE), 20);
	/* Each space sees its own writes only. */
	EXPECT_EQ(t, put(&fam.parent, FIXED_AT, 30), 0);
	EXPECT_EQ(t, put(&fam.child, FIXED_AT, 40), 0);
	EXPECT_EQ(t, get(&fam.a, FIXED_AT), 1);
	EXPECT_EQ(t, get(&fam.parent, FIXED_AT), 30);
	EXPECT_EQ(t, get(&fam.child, FIXED_AT), 40);
	/* The two go their own ways. */
	EXPECT_EQ(t, proc_munmap(&fam.child, FIXED_AT + MB, 4 * MB), 0);
	EXPECT_EQ(t, get(&fam.child, FIXED_AT + 2 * MB), -EFAULT);
	EXPECT_EQ(t, get(&fam.parent, FIXED_AT + 2 * MB), 0);
	EXPECT_EQ(t, get(&fam.a, FIXED_AT + 2 * MB), 3);
	EXPECT_EQ(t, proc_brk(&fam.child, 0x10000000 + MB, &addr), 0);
	EXPECT_EQ(t, addr, 0x10000000 + MB);
	EXPECT_EQ(t, proc_brk(&fam.parent, 0, &addr), 0);
	EXPECT_EQ(t, addr, 0x10000000);
	/* Nothing can be mapped in the frozen one. */
	EXPECT_EQ(t, proc_mmap(&fam.a, FIXED_AT, MB, RW, PM_MAP_FIXED, &addr), -EINVAL);
	EXPECT_EQ(t, proc_munmap(&fam.a, FIXED_AT, MB), -EINVAL);
	EXPECT_EQ(t, proc_brk(&fam.a, 0, &addr), -EINVAL);
	family_end(t);
}

static void fork_again_answers_again(struct ktest *t)
{
	struct fake_proc other, third;

	family_start(t, 2);
	ASSERT_EQ(t, proc_fork(&fam.a, &fam.parent, &fam.child), 0);
	EXPECT_EQ(t, proc_fork(&fam.a, &fam.parent, &fam.child), 0);
	EXPECT_EQ(t, committed(&fam.f), 4096);
	/* By now its pages may have another owner than those of the two. */
	ASSERT_EQ(t,
		  home_move_vregion(&fam.f.mem[0], fam.a.aspace, FIXED_AT >> fam.a.shift,
				    FAKE_MEM_FIRST + 1),
		  0);
	EXPECT_EQ(t, proc_fork(&fam.a, &fam.parent, &fam.child), 0);
	EXPECT_EQ(t, get(&fam.parent, FIXED_AT), 0);
	EXPECT_EQ(t, get(&fam.child, FIXED_AT), 0);
	/* Other ids: it is frozen. */
	proc_init(&other, &fam.f, FAKE_ASPACE(4), FAKE_MEM_FIRST);
	EXPECT_EQ(t, proc_fork(&fam.a, &fam.parent, &other), -EINVAL);
	/* Ids that are taken, or of another home; a space that is not there. */
	EXPECT_EQ(t, proc_fork(&fam.parent, &other, &fam.child), -EEXIST);
	other.aspace = FAKE_SPACE(FAKE_MEM_FIRST + 1, 4);
	EXPECT_EQ(t, proc_fork(&fam.parent, &other, &other), -EPROTO);
	proc_init(&third, &fam.f, FAKE_ASPACE(5), FAKE_MEM_FIRST);
	EXPECT_EQ(t, proc_fork(&fam.parent, &third, &other), -EINVAL);
	proc_done(&third);
	EXPECT_EQ(t, proc_fork(&other, &fam.parent, &fam.child), -ESRCH);
	proc_done(&other);
	family_end(t);
}

static void fork_needs_memory_for_the_child(struct ktest *t)
{
	uint64_t addr;

	family_start(t, 1); /* 15360 pages for programs */
	ASSERT_EQ(t, proc_mmap(&fam.a, FIXED_AT + 64 * MB, 24 * MB, RW, PM_MAP_FIXED, &addr), 0);
	EXPECT_EQ(t, committed(&fam.f), 8192);
	EXPECT_EQ(t, proc_fork(&fam.a, &fam.parent, &fam.child), -ENOMEM);
	EXPECT_EQ(t, committed(&fam.f), 8192);
	EXPECT_EQ(t, fam.f.mem[0].owner.nr_spaces, 1);
	EXPECT_EQ(t, fam.f.mem[0].home.nr_spaces, 1);
	EXPECT_EQ(t, get(&fam.a, FIXED_AT + MB), 2);
	EXPECT_EQ(t, get(&fam.a, FIXED_AT + MB + PAGE_SIZE), 0);
	/* Memory that is not reserved costs nothing. */
	ASSERT_EQ(t, proc_mprotect(&fam.a, FIXED_AT + 64 * MB, 24 * MB, PM_PROT_READ), 0);
	EXPECT_EQ(t, proc_fork(&fam.a, &fam.parent, &fam.child), 0);
	EXPECT_EQ(t, committed(&fam.f), 4096);
	family_end(t);
}

/* Each message, or its answer, is lost in turn: the space is whole, the new ones are nowhere. */
static void fork_on_all_owners_or_none(struct ktest *t)
{
	family_start(t, 3);
	for (int i = 0; i < 4; i++) {
		fam.f.fail_opcode = MM_FORK;
		fam.f.fail_after = i / 2; /* to the other two */
		fam.f.fail_late = i % 2;
		fam.f.fail_once = true;
		fam.f.fail_error = -ETIMEDOUT;
		EXPECT_EQ(t, proc_fork(&fam.a, &fam.parent, &fam.child), -ETIMEDOUT);
		EXPECT_EQ(t, fam.f.fail_opcode, 0);
		for (int n = 0; n < 3; n++) {
			EXPECT_EQ(t, fam.f.mem[n].owner.nr_spaces, 1);
			EXPECT_EQ(t, fam.f.mem[n].home.nr_spaces, n == 0);
		}
		EXPECT_EQ(t, committed(&fam.f), 2048);
		for (uint64_t p = 0; p < 8; p++)
			EXPECT_EQ(t, get(&fam.a, FIXED_AT + p * MB), p + 1);
		EXPECT_EQ(t, get(&fam.a, FIXED_AT + 8 * MB), -EFAULT);
		EXPECT_EQ(t, proc_munmap(&fam.a, FIXED_AT + (1 + i) * PAGE_SIZE, PAGE_SIZE), 0);
		EXPECT_EQ(t, get(&fam.a, FIXED_AT + (1 + i) * PAGE_SIZE), -EFAULT);
		EXPECT_EQ(t,
			  proc_mmap(&fam.a, FIXED_AT + (1 + i) * PAGE_SIZE, PAGE_SIZE, RW,
				    PM_MAP_FIXED, &(uint64_t){ 0 }),
			  0);
	}
	family_end(t);
}

/* Credits that came before the fork failed are void with the processor's next report. */
static void failed_fork_promises_nothing(struct ktest *t)
{
	struct pool_stats s;
	uint32_t got;

	family_start(t, 3);
	fam.f.fail_opcode = MM_FORK;
	fam.f.fail_after = 1; /* node 13 */
	fam.f.fail_once = true;
	fam.f.fail_error = -ENOMEM;
	EXPECT_EQ(t, proc_fork_credits(&fam.a, &fam.parent, &fam.child, 30, &got), -ENOMEM);
	for (uint32_t i = 0; i < 3; i++)
		EXPECT_EQ(t, proc_credit(&fam.a, FAKE_MEM_FIRST + i, 0, 0, &got), 0);
	sums(&fam.f, &s);
	EXPECT_EQ(t, s.reserved, 0);
	EXPECT_EQ(t, proc_fork_credits(&fam.a, &fam.parent, &fam.child, 30, &got), 0);
	EXPECT_EQ(t, got, 30);
	sums(&fam.f, &s);
	EXPECT_EQ(t, s.reserved, 30);
	/* Said again, without grants. */
	EXPECT_EQ(t, proc_fork_credits(&fam.a, &fam.parent, &fam.child, 30, &got), 0);
	EXPECT_EQ(t, got, 0);
	family_end(t);
}

/* Each allocation fails in turn: the fork happens whole or not at all. */
static void fork_without_allocations(struct ktest *t)
{
	int err = -ENOMEM;

	family_start(t, 2);
	for (long n = 0; n < 200 && err; n++) {
		shim_fail_alloc_after(n);
		err = proc_fork(&fam.a, &fam.parent, &fam.child);
		shim_fail_alloc_after(-1);
		if (!err)
			break;
		ASSERT_EQ(t, err, -ENOMEM);
		EXPECT_EQ(t, committed(&fam.f), 2048);
		EXPECT_EQ(t, fam.f.mem[0].owner.nr_spaces + fam.f.mem[1].owner.nr_spaces, 2);
		EXPECT_EQ(t, fam.f.mem[0].home.nr_spaces, 1);
		EXPECT_EQ(t, get(&fam.a, FIXED_AT + MB), 2);
		EXPECT_EQ(t, put(&fam.a, FIXED_AT + MB + PAGE_SIZE, 5), 0);
	}
	EXPECT_EQ(t, err, 0);
	family_end(t);
}

/* One message to the home, one to each other owner; so with the end and the collapse. */
static void fork_sends_one_message_per_owner(struct ktest *t)
{
	uint64_t calls;

	family_start(t, 3);
	calls = fam.f.nr_calls;
	ASSERT_EQ(t, proc_fork(&fam.a, &fam.parent, &fam.child), 0);
	EXPECT_EQ(t, fam.f.nr_calls, calls + 2);
	ASSERT_EQ(t, proc_destroy(&fam.child), 0);
	EXPECT_EQ(t, fam.f.nr_calls, calls + 4);
	ASSERT_EQ(t, proc_collapse(&fam.a, &fam.parent, NULL, 0), 0);
	EXPECT_EQ(t, fam.f.nr_calls, calls + 6);
	EXPECT_EQ(t, fam.f.mem[0].stats.forks, 1);
	EXPECT_EQ(t, fam.f.mem[0].stats.collapses, 1);
	EXPECT_EQ(t,
		  fam.f.mem[0].stats.pages_renamed + fam.f.mem[1].stats.pages_renamed +
			  fam.f.mem[2].stats.pages_renamed,
		  8);
	family_end(t);
}

/* --- collapse ------------------------------------------------------------------------------- */

static void collapse_gives_pages_to_the_one_in_front(struct ktest *t)
{
	const struct pm_page_range hidden[] = { { FIXED_AT + 3 * MB, PAGE_SIZE },
						{ FIXED_AT + 5 * MB, 2 * PAGE_SIZE } };

	family_start(t, 2);
	ASSERT_EQ(t, proc_fork(&fam.a, &fam.parent, &fam.child), 0);
	EXPECT_EQ(t, put(&fam.parent, FIXED_AT, 30), 0);
	EXPECT_EQ(t, proc_munmap(&fam.parent, FIXED_AT + 2 * MB, PAGE_SIZE), 0);
	EXPECT_EQ(t, proc_destroy(&fam.child), 0);
	ASSERT_EQ(t, proc_collapse(&fam.a, &fam.parent, hidden, 2), 0);
	EXPECT_EQ(t, get(&fam.parent, FIXED_AT), 30);
	EXPECT_EQ(t, get(&fam.parent, FIXED_AT + MB), 2);
	EXPECT_EQ(t, get(&fam.parent, FIXED_AT + 2 * MB), -EFAULT);
	EXPECT_EQ(t, get(&fam.parent, FIXED_AT + 3 * MB), 0);
	EXPECT_EQ(t, get(&fam.parent, FIXED_AT + 4 * MB), 5);
	EXPECT_EQ(t, get(&fam.parent, FIXED_AT + 5 * MB), 0);
	EXPECT_EQ(t, used(&fam.f), 5);
	EXPECT_EQ(t, committed(&fam.f), 2047);
	EXPECT_EQ(t, get(&fam.a, FIXED_AT + MB), -ESRCH);
	/* The answer may have been lost. */
	EXPECT_EQ(t, proc_collapse(&fam.a, &fam.parent, hidden, 2), 0);
	EXPECT_EQ(t, proc_collapse(&fam.child, &fam.parent, NULL, 0), -ESRCH);
	/* A page keeps its number: an old write-back does not replace it. */
	fam.f.seq = 1;
	EXPECT_EQ(t, put(&fam.parent, FIXED_AT + 4 * MB, 99), 0);
	EXPECT_EQ(t, get(&fam.parent, FIXED_AT + 4 * MB), 5);
	family_end(t);
}

/* Both ways of renaming, beyond what one batch takes, with something unmapped in front. */
static void collapse_of_many_pages(struct ktest *t)
{
	static const uint32_t sizes[][2] = { { 500, 20 }, { 20, 500 }, { 300, 300 }, { 0, 9 } };

	for (size_t s = 0; s < ARRAY_SIZE(sizes); s++) {
		const uint32_t behind = sizes[s][0], front = sizes[s][1];
		uint64_t want = 0;

		family_start(t, 1);
		for (uint64_t i = 0; i < behind; i++)
			ASSERT_EQ(t, put(&fam.a, FIXED_AT + i * PAGE_SIZE, 1000 + i), 0);
		ASSERT_EQ(t, proc_fork(&fam.a, &fam.parent, &fam.child), 0);
		for (uint64_t i = 0; i < front; i++)
			ASSERT_EQ(t, put(&fam.parent, FIXED_AT + (i + 5) * PAGE_SIZE, 2000 + i), 0);
		ASSERT_EQ(t, proc_munmap(&fam.parent, FIXED_AT + 10 * PAGE_SIZE, 3 * PAGE_SIZE), 0);
		ASSERT_EQ(t, proc_destroy(&fam.child), 0);
		ASSERT_EQ(t, proc_collapse(&fam.a, &fam.parent, NULL, 0), 0);
		for (uint64_t i = 0; i < 512 && !t->nr_failed; i++) {
			int64_t value = i < behind ? (int64_t)(1000 + i) : i ? 0 : 1;

			if (i == 256 && i >= behind)
				value = 2;
			if (i >= 5 && i < 5 + front)
				value = (int64_t)(2000 + i - 5);
			if (i >= 10 && i < 13)
				value = -EFAULT;
			want += value > 0;
			EXPECT_EQ(t, get(&fam.parent, FIXED_AT + i * PAGE_SIZE), value);
		}
		EXPECT_EQ(t, used(&fam.f), want + 6);
		family_end(t);
	}
}

static void collapse_brings_vregions_together(struct ktest *t)
{
	const uint64_t index = FIXED_AT >> SHIFT_2M;

	family_start(t, 2);
	ASSERT_EQ(t, proc_fork(&fam.a, &fam.parent, &fam.child), 0);
	EXPECT_EQ(t, put(&fam.parent, FIXED_AT, 30), 0);
	ASSERT_EQ(t, home_move_vregion(&fam.f.mem[0], fam.a.aspace, index, FAKE_MEM_FIRST + 1), 0);
	ASSERT_EQ(t, home_move_vregion(&fam.f.mem[0], fam.parent.aspace, index + 1, FAKE_MEM_FIRST),
		  0);
	EXPECT_EQ(t, get(&fam.a, FIXED_AT + MB), 2);
	EXPECT_EQ(t, fam.a.redirects, 1);
	EXPECT_EQ(t, put(&fam.a, FIXED_AT + PAGE_SIZE, 50), 0);
	ASSERT_EQ(t, proc_destroy(&fam.child), 0);
	ASSERT_EQ(t, proc_collapse(&fam.a, &fam.parent, NULL, 0), 0);
	for (uint64_t i = 0; i < 8; i++)
		EXPECT_EQ(t, get(&fam.parent, FIXED_AT + i * MB), i ? i + 1 : 30);
	EXPECT_EQ(t, get(&fam.parent, FIXED_AT + PAGE_SIZE), 50);
	EXPECT_EQ(t, used(&fam.f), 9);
	family_end(t);
}

/* A vRegion goes to another node, loses a mapping there and comes back. */
static void collapse_drops_what_was_unmapped_elsewhere(struct ktest *t)
{
	const uint64_t index = FIXED_AT >> SHIFT_2M;

	family_start(t, 2);
	ASSERT_EQ(t, proc_fork(&fam.a, &fam.parent, &fam.child), 0);
	ASSERT_EQ(t, home_move_vregion(&fam.f.mem[0], fam.parent.aspace, index, FAKE_MEM_FIRST + 1),
		  0);
	ASSERT_EQ(t, proc_munmap(&fam.parent, FIXED_AT, PAGE_SIZE), 0);
	ASSERT_EQ(t, home_move_vregion(&fam.f.mem[0], fam.parent.aspace, index, FAKE_MEM_FIRST), 0);
	ASSERT_EQ(t, proc_destroy(&fam.child), 0);
	ASSERT_EQ(t, proc_collapse(&fam.a, &fam.parent, NULL, 0), 0);
	EXPECT_EQ(t, used(&fam.f), 7);
	EXPECT_EQ(t, get(&fam.parent, FIXED_AT + MB), 2);
	family_end(t);
}

/* A collapse needs no memory but where a vRegion has to be moved first. */
static void collapse_without_allocations(struct ktest *t)
{
	const uint64_t index = FIXED_AT >> SHIFT_2M;
	int err = -ENOMEM;

	family_start(t, 2);
	ASSERT_EQ(t, proc_fork(&fam.a, &fam.parent, &fam.child), 0);
	ASSERT_EQ(t, home_move_vregion(&fam.f.mem[0], fam.a.aspace, index, FAKE_MEM_FIRST + 1), 0);
	ASSERT_EQ(t, proc_destroy(&fam.child), 0);
	for (long n = 0; n < 100; n++) {
		shim_fail_alloc_after(n);
		err = proc_collapse(&fam.a, &fam.parent, NULL, 0);
		shim_fail_alloc_after(-1);
		if (!err)
			break;
		ASSERT_EQ(t, err, -ENOMEM);
		EXPECT_EQ(t, get(&fam.a, FIXED_AT + MB), 2);
		EXPECT_EQ(t, get(&fam.a, FIXED_AT + 3 * MB), 4);
	}
	ASSERT_EQ(t, err, 0);
	EXPECT_EQ(t, get(&fam.parent, FIXED_AT + MB), 2);
	EXPECT_EQ(t, get(&fam.parent, FIXED_AT + 3 * MB), 4);
	family_end(t);
}

static void collapse_can_be_repeated(struct ktest *t)
{
	family_start(t, 3);
	ASSERT_EQ(t, proc_fork(&fam.a, &fam.parent, &fam.child), 0);
	ASSERT_EQ(t, proc_destroy(&fam.child), 0);
	fam.f.fail_opcode = MM_COLLAPSE;
	fam.f.fail_after = 1;
	fam.f.fail_error = -ETIMEDOUT;
	EXPECT_EQ(t, proc_collapse(&fam.a, &fam.parent, NULL, 0), -ETIMEDOUT);
	fam.f.fail_opcode = 0;
	EXPECT_EQ(t, proc_collapse(&fam.a, &fam.parent, NULL, 0), 0);
	for (uint64_t i = 0; i < 8; i++)
		EXPECT_EQ(t, get(&fam.parent, FIXED_AT + i * MB), i + 1);
	/* Kinds: only a frozen space can collapse, and not into one of pages only. */
	EXPECT_EQ(t, proc_object(&fam.child, 0, 0), 0);
	EXPECT_EQ(t, proc_collapse(&fam.parent, &fam.child, NULL, 0), -EINVAL);
	EXPECT_EQ(t, proc_collapse(&fam.child, &fam.parent, NULL, 0), -EINVAL);
	family_end(t);
}

/* One in the middle of a chain. */
static void collapse_into_a_frozen_space(struct ktest *t)
{
	struct fake_proc top, other;

	family_start(t, 2);
	proc_init(&top, &fam.f, FAKE_ASPACE(4), FAKE_MEM_FIRST);
	proc_init(&other, &fam.f, FAKE_ASPACE(5), FAKE_MEM_FIRST);
	ASSERT_EQ(t, proc_fork(&fam.a, &fam.parent, &fam.child), 0);
	EXPECT_EQ(t, put(&fam.parent, FIXED_AT + MB, 30), 0);
	ASSERT_EQ(t, proc_fork(&fam.parent, &top, &other), 0);
	ASSERT_EQ(t, proc_destroy(&fam.child), 0);
	ASSERT_EQ(t, proc_collapse(&fam.a, &fam.parent, NULL, 0), 0);
	EXPECT_EQ(t, get(&fam.parent, FIXED_AT), 1);
	EXPECT_EQ(t, get(&fam.parent, FIXED_AT + MB), 30);
	EXPECT_EQ(t, get(&top, FIXED_AT), 0);
	EXPECT_EQ(t, proc_destroy(&other), 0);
	ASSERT_EQ(t, proc_collapse(&fam.parent, &top, NULL, 0), 0);
	EXPECT_EQ(t, get(&top, FIXED_AT), 1);
	EXPECT_EQ(t, get(&top, FIXED_AT + MB), 30);
	EXPECT_EQ(t, used(&fam.f), 8);
	EXPECT_EQ(t, proc_destroy(&top), 0);
	proc_done(&top);
	proc_done(&other);
	family_end(t);
}

struct user {
	struct fake_proc *p;
	bool stop;    /* atomic */
	uint64_t bad; /* atomic */
};

/* Writes back and fetches its own pages of the space that others collapse into. */
static void use_pages(void *arg)
{
	struct user *u = arg;
	uint8_t *buf = malloc(PAGE_SIZE);

	for (uint64_t n = 1; !__atomic_load_n(&u->stop, __ATOMIC_RELAXED); n++) {
		const uint64_t at = FIXED_AT + MB + n % 7 * PAGE_SIZE;

		page_stamp(buf, n);
		if (proc_writeback(u->p, at, buf) ||
		    proc_fetch(u->p, at, true, buf) != PM_FETCH_DATA || page_value(buf) != n)
			__atomic_fetch_add(&u->bad, 1, __ATOMIC_RELAXED);
	}
	free(buf);
}

static void collapses_while_pages_are_used(struct ktest *t)
{
	for (uint32_t round = 0; round < 12; round++) {
		struct user user = { .p = &fam.parent };
		struct thread *thread;
		uint64_t at;

		family_start(t, 1);
		for (uint64_t i = 0; i < 400; i++)
			ASSERT_EQ(t, put(&fam.a, FIXED_AT + 2 * MB + i * PAGE_SIZE, i + 1), 0);
		for (uint64_t i = 0; i < 7; i++)
			ASSERT_EQ(t, put(&fam.a, FIXED_AT + MB + i * PAGE_SIZE, 999), 0);
		ASSERT_EQ(t, proc_fork(&fam.a, &fam.parent, &fam.child), 0);
		for (uint64_t i = 0; i < (round % 2 ? 250 : 0); i++)
			ASSERT_EQ(t, put(&fam.parent, FIXED_AT + i * PAGE_SIZE, 7), 0);
		for (uint64_t i = 0; i < 7; i++)
			ASSERT_EQ(t, put(&fam.parent, FIXED_AT + MB + i * PAGE_SIZE, 998), 0);
		thread = thread_create("user", use_pages, &user);
		ASSERT_FALSE(t, IS_ERR(thread));
		thread_sleep_ns(300 * 1000);
		EXPECT_EQ(t, proc_collapse(&fam.a, &fam.parent, NULL, 0), 0);
		thread_sleep_ns(300 * 1000);
		__atomic_store_n(&user.stop, true, __ATOMIC_RELAXED);
		thread_join(thread);
		EXPECT_EQ(t, user.bad, 0);
		for (uint64_t i = 0; i < 400; i++) {
			at = FIXED_AT + 2 * MB + i * PAGE_SIZE;
			EXPECT_EQ(t, get(&fam.parent, at), i + 1);
		}
		family_end(t);
	}
}

/*
 * A collapse that its log holds after the first batch: by then the 300 pages of a frozen vRegion
 * are the parent's, which scans them for what is not mapped. Only the owner's part: the home would
 * let no other call in.
 */
struct held_collapse {
	struct region *from, *into;
	struct region_completion *completion; /* atomic: the first batch's */
	struct thread *thread;
	int err;
};

static struct held_collapse held;
static struct pm_collapse_req held_req;

static void hold_first_batch(void *arg, struct region *r, const struct region_change *change,
			     struct region_completion *completion)
{
	if (change->kind != CHANGE_COLLAPSE || __atomic_load_n(&held.completion, __ATOMIC_RELAXED))
		return;
	region_completion_get(completion);
	__atomic_store_n(&held.completion, completion, __ATOMIC_RELEASE);
}

static void collapse_thread(void *arg)
{
	struct mm_range_rep rep = { 0 };

	held.err = owner_collapse(&fam.f.mem[0], &held_req, &rep);
}

static void held_start(struct ktest *t)
{
	struct memory *m = &fam.f.mem[0];

	family_start(t, 1);
	for (uint64_t i = 0; i < 300; i++)
		ASSERT_EQ(t, put(&fam.a, FIXED_AT + i * PAGE_SIZE, 1000 + i), 0);
	ASSERT_EQ(t, proc_fork(&fam.a, &fam.parent, &fam.child), 0);
	ASSERT_EQ(t, proc_munmap(&fam.parent, FIXED_AT + MB, PAGE_SIZE), 0);
	ASSERT_EQ(t, put(&fam.parent, FIXED_AT, 2000), 0);
	held = (struct held_collapse){ .from = region_get(m, fam.a.aspace, FIXED_AT),
				       .into = region_get(m, fam.parent.aspace, FIXED_AT) };
	held_req = (struct pm_collapse_req){ .from = fam.a.aspace, .into = fam.parent.aspace };
	owner_set_log(m, hold_first_batch, NULL);
	held.thread = thread_create("collapse", collapse_thread, NULL);
	ASSERT_FALSE(t, IS_ERR(held.thread));
	for (int i = 0; i < 20000 && !__atomic_load_n(&held.completion, __ATOMIC_ACQUIRE); i++)
		thread_sleep_ns(1000 * 1000);
	ASSERT_TRUE(t, held.completion != NULL);
	EXPECT_EQ(t, held.from->state, REGION_COLLAPSING);
	EXPECT_EQ(t, held.into->state, REGION_COLLAPSING);
}

/* Let the other batches come: how the collapse ended. */
static int held_finish(void)
{
	region_completion_put(held.completion, 0);
	thread_join(held.thread);
	owner_set_log(&fam.f.mem[0], NULL, NULL);
	return held.err;
}

static void held_end(struct ktest *t)
{
	region_put(held.from);
	region_put(held.into);
	family_end(t);
}

/* A second MM_COLLAPSE comes between two batches of the first. */
static void refused_collapse_leaves_the_first_alone(struct ktest *t)
{
	struct mm_range_rep rep = { 0 };

	held_start(t);
	EXPECT_EQ(t, owner_collapse(&fam.f.mem[0], &held_req, &rep), -ESTALE);
	EXPECT_EQ(t, held.from->state, REGION_COLLAPSING);
	EXPECT_EQ(t, held.into->state, REGION_COLLAPSING);
	EXPECT_EQ(t, held_finish(), 0);
	EXPECT_EQ(t, get(&fam.parent, FIXED_AT), 2000);
	EXPECT_EQ(t, get(&fam.parent, FIXED_AT + MB), -EFAULT);
	EXPECT_EQ(t, get(&fam.parent, FIXED_AT + 299 * PAGE_SIZE), 1299);
	EXPECT_EQ(t, used(&fam.f), 299 + 6);
	held_end(t);
}

struct wake_count {
	struct watcher watcher;
	uint32_t nr; /* atomic */
};

static bool count_wake(struct watcher *w)
{
	__atomic_fetch_add(&container_of(w, struct wake_count, watcher)->nr, 1, __ATOMIC_RELAXED);
	return true;
}

/* One of the two regions is killed between two batches: the other serves again, and says so. */
static void collapse_that_is_cut_off_wakes_waiters(struct ktest *t)
{
	struct wake_count from = { .watcher.notify = count_wake };
	struct wake_count into = { .watcher.notify = count_wake };

	held_start(t);
	owner_destroy_space(&fam.f.mem[0], fam.parent.aspace);
	EXPECT_EQ(t, held.into->state, REGION_DEAD);
	watch_begin(&held.from->idle, &from.watcher);
	watch_begin(&held.into->idle, &into.watcher);
	EXPECT_EQ(t, held_finish(), -ESTALE);
	watch_end(&held.from->idle, &from.watcher);
	watch_end(&held.into->idle, &into.watcher);
	EXPECT_EQ(t, held.from->state, REGION_ACTIVE);
	EXPECT_EQ(t, held.into->state, REGION_DEAD);
	EXPECT_GT(t, from.nr, 0);
	EXPECT_GT(t, into.nr, 0);
	held_end(t);
}

/* --- discard ----------------------------------------------------------------------------- */

static void discard_drops_pages(struct ktest *t)
{
	const struct pm_page_range ranges[] = { { FIXED_AT, PAGE_SIZE },
						{ FIXED_AT + 2 * MB, 3 * MB } };
	uint64_t calls;

	family_start(t, 2);
	ASSERT_EQ(t, proc_fork(&fam.a, &fam.parent, &fam.child), 0);
	ASSERT_EQ(t, proc_discard(&fam.a, ranges, 2), 0);
	EXPECT_EQ(t, used(&fam.f), 4);
	EXPECT_EQ(t, get(&fam.a, FIXED_AT), 0);
	EXPECT_EQ(t, get(&fam.a, FIXED_AT + MB), 2);
	EXPECT_EQ(t, get(&fam.a, FIXED_AT + 4 * MB), 0);
	EXPECT_EQ(t, get(&fam.a, FIXED_AT + 5 * MB), 6);
	EXPECT_EQ(t, fam.f.mem[0].stats.pages_discarded + fam.f.mem[1].stats.pages_discarded, 4);
	/* Only who owns one of the vRegions hears of it. */
	calls = fam.f.nr_calls;
	EXPECT_EQ(t, proc_discard(&fam.a, ranges, 1), 0);
	EXPECT_EQ(t, fam.f.nr_calls, calls);
	EXPECT_EQ(t, proc_destroy(&fam.a), 0);
	EXPECT_EQ(t, proc_discard(&fam.a, ranges, 1), -ESRCH);
	family_end(t);
}

/* Pages go between two batches of the collapse that is to scan them: all, or but the unmapped. */
static void discard_between_batches_of_a_collapse(struct ktest *t)
{
	for (uint32_t rest = 0; rest < 2; rest++) {
		static struct pm_discard_req req;
		struct mm_range_rep rep = { 0 };

		held_start(t);
		req = (struct pm_discard_req){
			.aspace = fam.parent.aspace,
			.nr_ranges = 2,
			.ranges = { { FIXED_AT, MB + (rest ? 0 : PAGE_SIZE) },
				    { FIXED_AT + MB + PAGE_SIZE, MB - PAGE_SIZE } },
		};
		EXPECT_EQ(t, owner_discard(&fam.f.mem[0], &req, &rep), 0);
		EXPECT_EQ(t, rep.pages, 300 - rest);
		EXPECT_EQ(t, held.into->nr_pages, rest);
		EXPECT_EQ(t, held_finish(), 0);
		EXPECT_EQ(t, held.into->state, REGION_ACTIVE);
		EXPECT_EQ(t, held.into->nr_pages, 0);
		EXPECT_EQ(t, get(&fam.parent, FIXED_AT), 0);
		EXPECT_EQ(t, get(&fam.parent, FIXED_AT + 2 * MB), 3);
		EXPECT_EQ(t, put(&fam.parent, FIXED_AT, 7), 0);
		EXPECT_EQ(t, get(&fam.parent, FIXED_AT), 7);
		EXPECT_EQ(t, used(&fam.f), 1 + 6);
		held_end(t);
	}
}

/* A second node has done all of an MM_DISCARD, of which the first had done a part by this batch. */
static void a_replayed_collapse_bears_a_discard(struct ktest *t)
{
	const uint64_t addrs[] = { FIXED_AT + PAGE_SIZE, FIXED_AT + 299 * PAGE_SIZE };
	struct collapse_batch batch = { .nr_dead = 0 };
	static struct pm_discard_req req;
	struct mm_range_rep rep = { 0 };
	struct region_op op = {
		.change = { .kind = CHANGE_COLLAPSE,
			    .collapse = { .step = COLLAPSE_SCAN, .nr = 2, .addrs = addrs } },
		.from = REGION_ANY,
		.replay = true,
		.batch = &batch,
	};

	held_start(t);
	req = (struct pm_discard_req){ .aspace = fam.parent.aspace,
				       .nr_ranges = 1,
				       .ranges = { { FIXED_AT + PAGE_SIZE, PAGE_SIZE } } };
	EXPECT_EQ(t, owner_discard(&fam.f.mem[0], &req, &rep), 0);
	EXPECT_EQ(t, rep.pages, 1);
	op.change.other = fam.parent.aspace;
	op.other = held.into;
	EXPECT_EQ(t, region_apply_wait(&fam.f.mem[0], held.from, &op), 0);
	EXPECT_EQ(t, held.into->nr_pages, 300 - 2);
	EXPECT_EQ(t, held_finish(), 0);
	EXPECT_EQ(t, get(&fam.parent, FIXED_AT), 2000);
	held_end(t);
}

/* --- page-only spaces ---------------------------------------------------------------------- */

static void objects_have_pages_from_zero(struct ktest *t)
{
	const struct pm_page_range cut = { PAGE_SIZE, 11 * MB };
	struct pool_stats s;
	struct fake_proc o;
	uint64_t addr;
	uint32_t got;
	struct fake f;

	fake_start(&f, 2, 4096, SHIFT_2M);
	proc_init(&o, &f, FAKE_ASPACE(9), FAKE_MEM_FIRST);
	ASSERT_EQ(t, proc_object(&o, 3 * MB, 0), 0);
	EXPECT_EQ(t, proc_object(&o, 3 * MB, 0), -EEXIST);
	EXPECT_EQ(t, o.nr_owners, 2);
	EXPECT_EQ(t, put(&o, 0, 1), 0);
	EXPECT_EQ(t, put(&o, 4 * MB - PAGE_SIZE, 2), 0);
	EXPECT_EQ(t, get(&o, 0), 1);
	EXPECT_EQ(t, get(&o, PAGE_SIZE), 0);
	EXPECT_EQ(t, put(&o, 10 * MB, 3), -ESRCH);
	ASSERT_EQ(t, proc_activate(&o, 4, 3, 5, &got), 0);
	EXPECT_EQ(t, got, 6); /* a share of each of two owners */
	EXPECT_EQ(t, put(&o, 10 * MB, 3), 0);
	EXPECT_EQ(t, get(&o, 10 * MB), 3);
	/* Those that are active stay as they are. */
	ASSERT_EQ(t, proc_activate(&o, 0, 7, 0, &got), 0);
	EXPECT_EQ(t, put(&o, 7 * MB, 4), 0);
	EXPECT_EQ(t, get(&o, 10 * MB), 3);
	sums(&f, &s);
	EXPECT_EQ(t, s.committed, 0);
	EXPECT_EQ(t, s.used, 4);
	/* Its vRegions can be moved, and its end be cut off. */
	ASSERT_EQ(t, home_move_vregion(&f.mem[0], o.aspace, 5, FAKE_MEM_FIRST), 0);
	EXPECT_EQ(t, get(&o, 10 * MB), 3);
	EXPECT_EQ(t, o.redirects, 1);
	EXPECT_EQ(t, proc_discard(&o, &cut, 1), 0);
	EXPECT_EQ(t, get(&o, 10 * MB), 0);
	EXPECT_EQ(t, get(&o, 0), 1);
	/* It is no address space. */
	EXPECT_EQ(t, proc_mmap(&o, 0, MB, RW, 0, &addr), -EINVAL);
	EXPECT_EQ(t, proc_destroy(&o), 0);
	EXPECT_EQ(t, proc_activate(&o, 0, 1, 0, &got), -ESRCH);
	o.aspace = FAKE_SPACE(FAKE_MEM_FIRST + 1, 9);
	EXPECT_EQ(t, proc_object(&o, 0, 0), -EINVAL);
	proc_done(&o);
	EXPECT_TRUE(t, fake_stop(&f));
}

static void reserved_objects_are_charged_once(struct ktest *t)
{
	struct fake_proc o, others;
	struct pm_vma v;
	uint64_t addr;
	uint32_t got;

	family_start(t, 2);
	proc_init(&o, &fam.f, FAKE_ASPACE(9), FAKE_MEM_FIRST);
	EXPECT_EQ(t, proc_object(&o, 256 * MB, PM_SPACE_RESERVE), -ENOMEM);
	ASSERT_EQ(t, proc_object(&o, 5 * MB, PM_SPACE_RESERVE), 0);
	EXPECT_EQ(t, committed(&fam.f), 2048 + 1280);
	EXPECT_EQ(t, put(&o, 5 * MB - PAGE_SIZE, 1), 0);
	EXPECT_EQ(t, put(&o, 5 * MB, 1), -EFAULT);
	EXPECT_EQ(t, proc_activate(&o, 0, 3, 0, &got), -EINVAL);
	/* Its mappings are not charged again, nor are those of a child; private ones are. */
	ASSERT_EQ(t,
		  proc_mmap_object(&fam.a, FIXED_AT + 16 * MB, 4 * MB, RW,
				   PM_MAP_FIXED | PM_MAP_SHARED, o.aspace, 256, &addr),
		  0);
	EXPECT_EQ(t, committed(&fam.f), 2048 + 1280);
	ASSERT_EQ(t,
		  proc_mmap_object(&fam.a, FIXED_AT + 32 * MB, MB, RW, PM_MAP_FIXED, o.aspace, 0,
				   &addr),
		  0);
	EXPECT_EQ(t, committed(&fam.f), 2048 + 1280 + 256);
	ASSERT_EQ(t, proc_fork(&fam.a, &fam.parent, &fam.child), 0);
	EXPECT_EQ(t, committed(&fam.f), 2 * 2304 + 1280);
	/* The second vRegion of the mapping tells which page of which object it shows. */
	ASSERT_EQ(t, proc_fill_vma(&fam.child, FIXED_AT + 18 * MB, &v), 0);
	EXPECT_EQ(t, v.start, FIXED_AT + 18 * MB);
	EXPECT_EQ(t, v.object, o.aspace);
	EXPECT_EQ(t, v.pgoff, 768);
	EXPECT_EQ(t, v.flags, PM_VMA_SHARED | PM_VMA_OBJECT);
	EXPECT_EQ(t, put(&fam.child, FIXED_AT + 18 * MB, 1), -EROFS);
	EXPECT_EQ(t, proc_fetch(&fam.child, FIXED_AT + 32 * MB, false, page), PM_FETCH_FILE);
	EXPECT_EQ(t, put(&fam.child, FIXED_AT + 32 * MB, 6), 0);
	EXPECT_EQ(t, get(&fam.child, FIXED_AT + 32 * MB), 6);
	/* Somebody else's object. */
	proc_init(&others, &fam.f, FAKE_SPACE_BY(FAKE_PROC + 1, FAKE_MEM_FIRST, 10),
		  FAKE_MEM_FIRST);
	others.proc = FAKE_PROC + 1;
	ASSERT_EQ(t, proc_object(&others, MB, 0), 0);
	EXPECT_EQ(t,
		  proc_mmap_object(&fam.child, 0, MB, RW, PM_MAP_SHARED, others.aspace, 0, &addr),
		  -ESRCH);
	EXPECT_EQ(t, proc_destroy(&others), 0);
	proc_done(&others);
	EXPECT_EQ(t, proc_fork(&o, &fam.parent, &fam.child), -EINVAL);
	EXPECT_EQ(t, proc_destroy(&o), 0);
	EXPECT_EQ(t, committed(&fam.f), 2 * 2304);
	proc_done(&o);
	family_end(t);
}

/* --- the end ------------------------------------------------------------------------------- */

static void nothing_is_left_of_a_processor(struct ktest *t)
{
	struct fake_proc o;
	uint64_t addr;
	uint32_t got;

	family_start(t, 2);
	proc_init(&o, &fam.f, FAKE_SPACE(FAKE_MEM_FIRST + 1, 9), FAKE_MEM_FIRST + 1);
	ASSERT_EQ(t, proc_object(&o, 5 * MB, PM_SPACE_RESERVE), 0);
	EXPECT_EQ(t, put(&o, 0, 1), 0);
	ASSERT_EQ(t, proc_fork(&fam.a, &fam.parent, &fam.child), 0);
	for (int n = 0; n < 2; n++)
		memory_processor_gone(&fam.f.mem[n], FAKE_PROC);
	EXPECT_EQ(t, used(&fam.f), 0);
	EXPECT_EQ(t, get(&fam.a, FIXED_AT), -ESRCH);
	proc_done(&o);
	family_end(t);

	/*
	 * One node knows already that the processor is gone, the home does not yet: nothing comes
	 * back there.
	 */
	family_start(t, 2);
	memory_processor_gone(&fam.f.mem[1], FAKE_PROC);
	EXPECT_EQ(t, proc_mmap(&fam.a, FIXED_AT + 64 * MB, 8 * MB, RW, PM_MAP_FIXED, &addr),
		  -ESTALE);
	proc_init(&o, &fam.f, FAKE_SPACE(FAKE_MEM_FIRST + 1, 9), FAKE_MEM_FIRST + 1);
	EXPECT_EQ(t, proc_space(&o), -ESTALE);
	EXPECT_EQ(t, proc_credit(&o, FAKE_MEM_FIRST + 1, 0, 5, &got), -ESTALE);
	EXPECT_EQ(t, fam.f.mem[1].owner.nr_spaces, 0);
	EXPECT_EQ(t, fam.f.mem[1].home.nr_spaces, 0);
	memory_processor_gone(&fam.f.mem[0], FAKE_PROC);
	EXPECT_EQ(t, used(&fam.f), 0);
	EXPECT_EQ(t, pool_credits(&fam.f.mem[1].pool, FAKE_PROC), 0);
	/* Once it has joined again it is as good as any. */
	memory_processor_joined(&fam.f.mem[0], FAKE_PROC);
	memory_processor_joined(&fam.f.mem[1], FAKE_PROC);
	EXPECT_EQ(t, proc_space(&o), 0);
	EXPECT_EQ(t, proc_destroy(&o), 0);
	proc_done(&o);
	family_end(t);

	/* The home is lost: what the other node has goes. */
	family_start(t, 2);
	ASSERT_EQ(t, proc_fork(&fam.a, &fam.parent, &fam.child), 0);
	EXPECT_EQ(t, memory_node_gone(&fam.f.mem[1], FAKE_MEM_FIRST), 0);
	EXPECT_EQ(t, fam.f.mem[1].owner.nr_spaces, 0);
	EXPECT_EQ(t, used(&fam.f), 4);
	family_end(t);
}

#define WALK_PAGES 4096u /* half of them are there: a discard of most goes by the list */

struct discarder {
	struct memory *m;
	struct pm_discard_req req;
	int err;
	bool stop; /* atomic */
};

static void discard_always(void *arg)
{
	struct discarder *d = arg;
	struct mm_range_rep rep;

	while (!__atomic_load_n(&d->stop, __ATOMIC_ACQUIRE))
		d->err |= owner_discard(d->m, &d->req, &rep);
}

/*
 * A collapse looks for pages where nothing is mapped, and a discard walks the same region: neither
 * misses one because the other has moved it in the region's list.
 */
static void walks_of_one_region_miss_no_page(struct ktest *t)
{
	const uint64_t base = 1ull << 24, end = base + WALK_PAGES * PAGE_SIZE;
	const uint64_t kept = WALK_PAGES / 4 * 3 * PAGE_SIZE;
	struct discarder *d = calloc(1, sizeof(*d));

	for (int round = 0; round < 20; round++) {
		struct fake_proc p, parent, child;
		struct thread *th;
		struct region *r;
		struct fake f;
		uint64_t addr;

		fake_start(&f, 1, 16384, 24);
		proc_init(&p, &f, FAKE_ASPACE(1), FAKE_MEM_FIRST);
		ASSERT_EQ(t, proc_space(&p), 0);
		ASSERT_EQ(t,
			  proc_mmap(&p, base, end - base, PM_PROT_READ | PM_PROT_WRITE,
				    PM_MAP_FIXED, &addr),
			  0);
		for (uint64_t at = base; at < end; at += 2 * PAGE_SIZE)
			ASSERT_EQ(t, proc_writeback(&p, at, page), 0);
		proc_init(&parent, &f, FAKE_ASPACE(2), FAKE_MEM_FIRST);
		proc_init(&child, &f, FAKE_ASPACE(3), FAKE_MEM_FIRST);
		ASSERT_EQ(t, proc_fork(&p, &parent, &child), 0);
		ASSERT_EQ(t, proc_munmap(&parent, base + kept, end - base - kept), 0);
		*d = (struct discarder){ .m = &f.mem[0] };
		d->req.aspace = parent.aspace;
		d->req.nr_ranges = 1;
		d->req.ranges[0] = (struct pm_page_range){ base, kept };
		th = thread_create("discard", discard_always, d);
		ASSERT_FALSE(t, IS_ERR(th));
		EXPECT_EQ(t, proc_collapse(&p, &parent, NULL, 0), 0);
		__atomic_store_n(&d->stop, true, __ATOMIC_RELEASE);
		thread_join(th);
		EXPECT_EQ(t, d->err, 0);
		r = region_get(&f.mem[0], parent.aspace, base);
		ASSERT_TRUE(t, r);
		for (uint64_t at = base + kept; at < end; at += PAGE_SIZE) {
			bool found;

			spin_lock(&r->lock);
			found = page_lookup_locked(&f.mem[0], r, at);
			spin_unlock(&r->lock);
			ASSERT_FALSE(t, found);
		}
		region_put(r);
		EXPECT_EQ(t, proc_destroy(&parent), 0);
		EXPECT_EQ(t, proc_destroy(&child), 0);
		proc_done(&p);
		proc_done(&parent);
		proc_done(&child);
		EXPECT_TRUE(t, fake_stop(&f));
	}
	free(d);
}

static const struct ktest_case cases[] = {
	KTEST(fork_shares_what_was_written),
	KTEST(fork_again_answers_again),
	KTEST(fork_needs_memory_for_the_child),
	KTEST(fork_on_all_owners_or_none),
	KTEST(failed_fork_promises_nothing),
	KTEST(fork_without_allocations),
	KTEST(fork_sends_one_message_per_owner),
	KTEST(collapse_gives_pages_to_the_one_in_front),
	KTEST(collapse_of_many_pages),
	KTEST(collapse_brings_vregions_together),
	KTEST(collapse_drops_what_was_unmapped_elsewhere),
	KTEST(collapse_without_allocations),
	KTEST(collapse_can_be_repeated),
	KTEST(collapse_into_a_frozen_space),
	KTEST(collapses_while_pages_are_used),
	KTEST(refused_collapse_leaves_the_first_alone),
	KTEST(collapse_that_is_cut_off_wakes_waiters),
	KTEST(discard_between_batches_of_a_collapse),
	KTEST(a_replayed_collapse_bears_a_discard),
	KTEST(discard_drops_pages),
	KTEST(objects_have_pages_from_zero),
	KTEST(reserved_objects_are_charged_once),
	KTEST(nothing_is_left_of_a_processor),
	KTEST(walks_of_one_region_miss_no_page),
	{ 0 },
};
static const struct ktest_suite suite = { .name = "memory.fork", .cases = cases };
KTEST_SUITE(suite);
