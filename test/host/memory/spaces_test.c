/* SPDX-License-Identifier: MIT */
/*
 * Address spaces over several memory monitors: against a reference model, with faults injected, and
 * with threads.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kernel/thread.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/ktest.h>
#include <shim/shim.h>

#include "../../../monitors/memory/dispatch.h"
#include "../../../monitors/memory/region_apply.h"
#include "fixture.h"

#define FIXED_AT 0x40000000ull

static uint8_t page[PAGE_SIZE] __aligned(8);

static uint64_t total_used(struct fake *f)
{
	struct pool_stats s;
	uint64_t sum = 0;

	for (size_t i = 0; i < f->nr_mem; i++) {
		pool_stats(&f->mem[i].pool, &s);
		sum += s.used;
	}
	return sum;
}

/* --- single calls ---------------------------------------------------------------------- */

static void range_over_two_owners(struct ktest *t)
{
	struct fake f;
	struct fake_proc p;
	uint64_t addr;

	ASSERT_TRUE(t, space_start(&f, &p, 2, 4096, SHIFT_2M));
	ASSERT_EQ(t, proc_mmap(&p, FIXED_AT + 0x1000, 8 * MB, RW, PM_MAP_FIXED, &addr), 0);
	EXPECT_EQ(t, addr, FIXED_AT + 0x1000);
	for (uint64_t off = 0; off < 8 * MB; off += MB) {
		EXPECT_EQ(t, proc_fetch(&p, addr + off, true, page), PM_FETCH_ZERO);
		page_stamp(page, off + 1);
		EXPECT_EQ(t, proc_writeback(&p, addr + off, page), 0);
	}
	EXPECT_EQ(t, total_used(&f), 8);
	EXPECT_GT(t, f.mem[0].stats.writebacks, 2);
	EXPECT_GT(t, f.mem[1].stats.writebacks, 2);
	for (uint64_t off = 0; off < 8 * MB; off += MB) {
		EXPECT_EQ(t, proc_fetch(&p, addr + off, false, page), PM_FETCH_DATA);
		EXPECT_EQ(t, page_value(page), off + 1);
	}
	EXPECT_EQ(t, proc_fetch(&p, addr - 0x1000, false, page), -EFAULT);
	EXPECT_EQ(t, proc_fetch(&p, addr + 8 * MB, false, page), -EFAULT);
	EXPECT_EQ(t, proc_mprotect(&p, addr, 4 * MB, PM_PROT_READ), 0);
	EXPECT_EQ(t, proc_fetch(&p, addr + MB, true, page), -EACCES);
	EXPECT_EQ(t, proc_fetch(&p, addr + 5 * MB, true, page), PM_FETCH_DATA);
	EXPECT_EQ(t, proc_munmap(&p, addr + MB, 3 * MB), 0);
	EXPECT_EQ(t, total_used(&f), 5);
	EXPECT_EQ(t, p.redirects, 0);
	EXPECT_EQ(t, proc_destroy(&p), 0);
	EXPECT_EQ(t, proc_destroy(&p), 0);
	EXPECT_EQ(t, proc_fetch(&p, addr, false, page), -ESRCH);
	proc_done(&p);
	EXPECT_TRUE(t, fake_stop(&f));
}

/* An owner that has lost what it had does not answer as one where nothing is mapped. */
static void unmapped_and_unknown_are_different_answers(struct ktest *t)
{
	struct pm_vma vma;
	struct fake_proc p;
	struct fake f;
	uint64_t addr;

	ASSERT_TRUE(t, space_start(&f, &p, 2, 4096, SHIFT_2M));
	ASSERT_EQ(t, proc_mmap(&p, FIXED_AT, 4 * MB, RW, PM_MAP_FIXED, &addr), 0);
	page_stamp(page, 1);
	for (uint64_t off = 0; off < 4 * MB; off += MB)
		ASSERT_EQ(t, proc_writeback(&p, addr + off, page), 0);
	ASSERT_EQ(t, proc_munmap(&p, addr, MB), 0);
	EXPECT_EQ(t, proc_writeback(&p, addr, page), -EFAULT);
	EXPECT_EQ(t, proc_fetch(&p, addr, false, page), -EFAULT);
	EXPECT_EQ(t, proc_fill_vma(&p, addr, &vma), -EFAULT);
	/* A home is fenced: its owners drop the regions of its spaces. */
	EXPECT_EQ(t, memory_node_gone(&f.mem[0], FAKE_MEM_FIRST), 0);
	EXPECT_EQ(t, memory_node_gone(&f.mem[1], FAKE_MEM_FIRST), 0);
	for (uint64_t off = MB; off < 4 * MB; off += MB) {
		EXPECT_EQ(t, proc_writeback(&p, addr + off, page), -ESRCH);
		EXPECT_EQ(t, proc_fetch(&p, addr + off, false, page), -ESRCH);
		EXPECT_EQ(t, proc_fill_vma(&p, addr + off, &vma), -ESRCH);
	}
	EXPECT_TRUE(t, space_stop(&f, &p));
}

/*
 * An owner leaves and is a member again, with nothing. A mapping there is lost, and the home says
 * so; a vRegion without one goes to a member.
 */
static void a_vregion_outlives_its_owner(struct ktest *t)
{
	const uint64_t there = FIXED_AT + 2 * MB, other = there + 4 * MB;
	const uint32_t at = FAKE_MEM_FIRST + 1;
	struct fake_proc p;
	struct pm_vma vma;
	struct fake f;
	uint64_t addr;

	ASSERT_TRUE(t, space_start(&f, &p, 2, 4096, SHIFT_2M));
	/* Both vRegions are the second node's; of one it keeps nothing. */
	ASSERT_EQ(t, proc_mmap(&p, there, MB, RW, PM_MAP_FIXED, &addr), 0);
	ASSERT_EQ(t, proc_mmap(&p, other, MB, RW, PM_MAP_FIXED, &addr), 0);
	ASSERT_EQ(t, proc_munmap(&p, other, MB), 0);
	ASSERT_EQ(t, proc_mmap(&p, FIXED_AT, MB, RW, PM_MAP_FIXED, &addr), 0);

	EXPECT_EQ(t, memory_node_gone(&f.mem[0], at), 0);
	EXPECT_EQ(t, memory_node_gone(&f.mem[1], FAKE_MEM_FIRST), 0); /* as a new life: nothing */
	EXPECT_EQ(t, proc_fill_vma(&p, there, &vma), -ESRCH);
	EXPECT_EQ(t, proc_refresh(&p, there), -EHOSTDOWN);
	EXPECT_EQ(t, proc_mprotect(&p, there, MB, PM_PROT_READ), -EHOSTDOWN);
	EXPECT_EQ(t, proc_munmap(&p, there, MB), -EHOSTDOWN);
	EXPECT_EQ(t, proc_mmap(&p, there + MB, MB, RW, PM_MAP_FIXED, &addr), -EHOSTDOWN);
	/* Where nothing was mapped, or all at a member, the space goes on. */
	EXPECT_EQ(t, proc_refresh(&p, FIXED_AT), 0);
	EXPECT_EQ(t, proc_fill_vma(&p, FIXED_AT, &vma), 0);
	EXPECT_EQ(t, proc_munmap(&p, other, 2 * MB), 0);
	EXPECT_EQ(t, proc_mmap(&p, other, MB, RW, PM_MAP_FIXED, &addr), 0);
	EXPECT_EQ(t, proc_fill_vma(&p, other, &vma), 0);
	page_stamp(page, 7);
	EXPECT_EQ(t, proc_writeback(&p, other, page), 0);
	EXPECT_EQ(t, proc_mprotect(&p, other, MB, PM_PROT_READ), 0);
	EXPECT_EQ(t, proc_munmap(&p, other, MB), 0);
	EXPECT_EQ(t, proc_munmap(&p, FIXED_AT, MB), 0);
	EXPECT_TRUE(t, space_stop(&f, &p));
}

static void moving_an_owner_counts_one_redirect(struct ktest *t)
{
	struct fake f;
	struct fake_proc p;
	uint64_t addr;

	ASSERT_TRUE(t, space_start(&f, &p, 2, 4096, SHIFT_2M));
	ASSERT_EQ(t, proc_mmap(&p, FIXED_AT, 4 * MB, RW, PM_MAP_FIXED, &addr), 0);
	for (uint64_t i = 0; i < 100; i++) {
		page_stamp(page, i + 1);
		ASSERT_EQ(t, proc_writeback(&p, addr + i * PAGE_SIZE, page), 0);
	}
	/* FIXED_AT is an even vRegion: the home's. */
	ASSERT_EQ(t,
		  home_move_vregion(&f.mem[0], p.aspace, FIXED_AT >> SHIFT_2M, FAKE_MEM_FIRST + 1),
		  0);
	EXPECT_EQ(t, f.mem[0].stats.pages_moved, 100);
	for (uint64_t i = 0; i < 100; i++) {
		EXPECT_EQ(t, proc_fetch(&p, addr + i * PAGE_SIZE, true, page), PM_FETCH_DATA);
		EXPECT_EQ(t, page_value(page), i + 1);
	}
	EXPECT_EQ(t, p.redirects, 1);
	EXPECT_EQ(t, f.mem[0].stats.redirects_sent, 1);
	EXPECT_EQ(t, f.mem[1].stats.redirects_sent, 0);
	EXPECT_EQ(t, total_used(&f), 100);
	/* And back again. */
	ASSERT_EQ(t, home_move_vregion(&f.mem[0], 0, UINT64_MAX, FAKE_MEM_FIRST), 0);
	EXPECT_EQ(t, proc_fetch(&p, addr, true, page), PM_FETCH_DATA);
	EXPECT_EQ(t, p.redirects, 2);
	EXPECT_TRUE(t, space_stop(&f, &p));
}

static void failed_move_leaves_the_old_owner(struct ktest *t)
{
	static const uint16_t opcodes[] = { MM_VREGION_TAKE, MM_PAGES };
	struct fake f;
	struct fake_proc p;
	uint64_t addr;

	ASSERT_TRUE(t, space_start(&f, &p, 2, 4096, SHIFT_2M));
	ASSERT_EQ(t, proc_mmap(&p, FIXED_AT, 2 * MB, RW, PM_MAP_FIXED, &addr), 0);
	page_stamp(page, 7);
	ASSERT_EQ(t, proc_writeback(&p, addr, page), 0);
	for (size_t i = 0; i < ARRAY_SIZE(opcodes); i++) {
		f.fail_opcode = opcodes[i];
		f.fail_after = 0;
		f.fail_error = -ETIMEDOUT;
		EXPECT_EQ(t,
			  home_move_vregion(&f.mem[0], p.aspace, FIXED_AT >> SHIFT_2M,
					    FAKE_MEM_FIRST + 1),
			  -ETIMEDOUT);
		f.fail_opcode = 0;
		EXPECT_EQ(t, proc_fetch(&p, addr, true, page), PM_FETCH_DATA);
		EXPECT_EQ(t, page_value(page), 7);
	}
	EXPECT_EQ(t, p.redirects, 0);
	EXPECT_EQ(t,
		  home_move_vregion(&f.mem[0], p.aspace, FIXED_AT >> SHIFT_2M, FAKE_MEM_FIRST + 1),
		  0);
	EXPECT_EQ(t, proc_fetch(&p, addr, true, page), PM_FETCH_DATA);
	EXPECT_TRUE(t, space_stop(&f, &p));
}

/*
 * The old owner has done it, or not even heard of it: the home finds out before it says anything
 * else.
 */
static void lost_answer_of_a_move_is_settled(struct ktest *t)
{
	uint64_t index = FIXED_AT >> SHIFT_2M;

	for (unsigned int round = 0; round < 8; round++) {
		struct fake f;
		struct fake_proc p;
		uint64_t addr;

		fake_start(&f, 3, 4096, SHIFT_2M);
		proc_init(&p, &f, FAKE_ASPACE(1), FAKE_MEM_FIRST);
		while (memory_owner_for(&f.mem[0], p.aspace, index) != FAKE_MEM_FIRST + 1)
			index++;
		ASSERT_EQ(t, proc_space(&p), 0);
		ASSERT_EQ(t,
			  proc_mmap(&p, (index - 1) << SHIFT_2M, 4 * MB, RW, PM_MAP_FIXED, &addr),
			  0);
		page_stamp(page, 7);
		ASSERT_EQ(t, proc_writeback(&p, addr + 2 * MB, page), 0);
		f.fail_opcode = MM_VREGION_MOVE;
		f.fail_after = 0;
		f.fail_error = -ETIMEDOUT;
		f.fail_late = round & 1;
		EXPECT_EQ(t, home_move_vregion(&f.mem[0], p.aspace, index, FAKE_MEM_FIRST + 2),
			  -ETIMEDOUT);
		/* While nobody answers, nothing is done on a guess. */
		EXPECT_EQ(t, proc_mprotect(&p, addr, 4 * MB, PM_PROT_READ), -ETIMEDOUT);
		f.fail_opcode = 0;
		switch (round / 2) {
		case 0: /* the processor asks first, and may be sent on to the new owner */
			EXPECT_EQ(t, proc_fetch(&p, addr + 2 * MB, true, page), PM_FETCH_DATA);
			EXPECT_EQ(t, page_value(page), 7);
			break;
		case 1:
			EXPECT_EQ(t, proc_mprotect(&p, addr, 4 * MB, PM_PROT_READ), 0);
			EXPECT_EQ(t, proc_mprotect(&p, addr, 4 * MB, RW), 0);
			break;
		case 2: /* the same again */
			EXPECT_EQ(t,
				  home_move_vregion(&f.mem[0], p.aspace, index, FAKE_MEM_FIRST + 2),
				  0);
			break;
		default: /* elsewhere */
			EXPECT_EQ(t, home_move_vregion(&f.mem[0], p.aspace, index, FAKE_MEM_FIRST),
				  0);
			break;
		}
		EXPECT_EQ(t, proc_fetch(&p, addr + 2 * MB, true, page), PM_FETCH_DATA);
		EXPECT_EQ(t, page_value(page), 7);
		EXPECT_EQ(t, proc_munmap(&p, addr, 4 * MB), 0);
		EXPECT_EQ(t, total_used(&f), 0);
		EXPECT_TRUE(t, space_stop(&f, &p));
	}
}

static void shortage_is_all_or_nothing(struct ktest *t)
{
	struct fake f;
	struct fake_proc p;
	struct pool_stats s;
	uint64_t addr;

	ASSERT_TRUE(t,
		    space_start(&f, &p, 2, 1024, SHIFT_2M)); /* 960 frames for programs on each */
	/* Node 12 is to run out first: give it 512 pages more. */
	ASSERT_EQ(t, proc_mmap(&p, FIXED_AT + 2 * MB, 2 * MB, RW, PM_MAP_FIXED, &addr), 0);
	EXPECT_EQ(t, proc_mmap(&p, FIXED_AT + 8 * MB, 4 * MB, RW, PM_MAP_FIXED, &addr), -ENOMEM);
	pool_stats(&f.mem[0].pool, &s);
	EXPECT_EQ(t, s.committed, 0);
	pool_stats(&f.mem[1].pool, &s);
	EXPECT_EQ(t, s.committed, 512);
	EXPECT_EQ(t, proc_fetch(&p, FIXED_AT + 8 * MB, false, page), -EFAULT);
	/* Without write permission, or not reserved, it costs nothing until mprotect asks. */
	EXPECT_EQ(t, proc_mmap(&p, FIXED_AT + 8 * MB, 4 * MB, PM_PROT_READ, PM_MAP_FIXED, &addr),
		  0);
	EXPECT_EQ(t, proc_mprotect(&p, FIXED_AT + 8 * MB, 4 * MB, RW), -ENOMEM);
	EXPECT_EQ(t, proc_fetch(&p, FIXED_AT + 8 * MB, true, page), -EACCES);
	EXPECT_EQ(t, proc_mprotect(&p, FIXED_AT + 8 * MB, 2 * MB, RW), 0);
	pool_stats(&f.mem[0].pool, &s);
	EXPECT_EQ(t, s.committed, 512);
	/* brk says it by not moving. */
	EXPECT_EQ(t, proc_brk(&p, 0x10000000 + 64 * MB, &addr), 0);
	EXPECT_EQ(t, addr, 0x10000000);
	EXPECT_TRUE(t, space_stop(&f, &p));
}

/* The processor has to know whether the old mapping has gone. */
static void a_mapping_that_goes_for_nothing_is_told_apart(struct ktest *t)
{
	struct fake f;
	struct fake_proc p;
	uint64_t addr;

	ASSERT_TRUE(t,
		    space_start(&f, &p, 2, 1024, SHIFT_2M)); /* 960 frames for programs on each */
	EXPECT_EQ(t, proc_mmap(&p, FIXED_AT, 16 * MB, RW, PM_MAP_FIXED, &addr), -ENOMEM);
	ASSERT_EQ(t, proc_mmap(&p, FIXED_AT, MB, RW, PM_MAP_FIXED, &addr), 0);
	page_stamp(page, 1);
	ASSERT_EQ(t, proc_writeback(&p, FIXED_AT, page), 0);
	EXPECT_EQ(t, proc_mmap(&p, FIXED_AT, 16 * MB, RW, PM_MAP_FIXED, &addr), -EIDRM);
	EXPECT_EQ(t, proc_fetch(&p, FIXED_AT, false, page), -EFAULT);
	EXPECT_EQ(t, total_used(&f), 0);
	ASSERT_EQ(t, proc_mmap(&p, FIXED_AT, MB, RW, PM_MAP_FIXED, &addr), 0);
	ASSERT_EQ(t, proc_mmap(&p, FIXED_AT + 16 * MB, MB, RW, PM_MAP_FIXED, &addr), 0);
	page_stamp(page, 2);
	ASSERT_EQ(t, proc_writeback(&p, FIXED_AT, page), 0);
	EXPECT_EQ(t,
		  proc_mremap(&p, FIXED_AT, MB, 8 * MB, PM_MREMAP_MAYMOVE | PM_MREMAP_FIXED,
			      FIXED_AT + 16 * MB, &addr),
		  -EIDRM);
	EXPECT_EQ(t, proc_fetch(&p, FIXED_AT + 16 * MB, false, page), -EFAULT);
	EXPECT_EQ(t, proc_fetch(&p, FIXED_AT, false, page), PM_FETCH_DATA);
	EXPECT_EQ(t, page_value(page), 2);
	EXPECT_TRUE(t, space_stop(&f, &p));
}

/*
 * An owner that fails when another one has dropped its pages: the home does not say that nothing
 * has changed. Of a mapping that is taken back in all places it does.
 */
static void half_a_change_is_no_refusal(struct ktest *t)
{
	struct fake f;
	struct fake_proc p;
	uint64_t addr;

	ASSERT_TRUE(t, space_start(&f, &p, 2, 4096, SHIFT_2M));
	f.fail_error = -ENOMEM;
	f.fail_once = true;
	f.fail_opcode = MM_MAP;
	f.fail_after = 1; /* node 12 has prepared it */
	EXPECT_EQ(t, proc_mmap(&p, FIXED_AT, 4 * MB, RW, PM_MAP_FIXED, &addr), -ENOMEM);
	EXPECT_EQ(t, f.fail_opcode, 0);
	EXPECT_EQ(t, total_used(&f), 0);
	ASSERT_EQ(t, proc_mmap(&p, FIXED_AT, 4 * MB, RW, PM_MAP_FIXED, &addr), 0);
	page_stamp(page, 1);
	ASSERT_EQ(t, proc_writeback(&p, FIXED_AT, page), 0);
	ASSERT_EQ(t, proc_writeback(&p, FIXED_AT + 2 * MB, page), 0);
	f.fail_opcode = MM_UNMAP;
	f.fail_after = 1;
	EXPECT_EQ(t, proc_munmap(&p, FIXED_AT, 4 * MB), -EIO);
	EXPECT_EQ(t, f.fail_opcode, 0);
	f.fail_opcode = MM_UNMAP;
	f.fail_after = 0; /* nobody has prepared it */
	EXPECT_EQ(t, proc_munmap(&p, FIXED_AT, 4 * MB), -ENOMEM);
	EXPECT_EQ(t, proc_munmap(&p, FIXED_AT, 4 * MB), 0);
	EXPECT_EQ(t, total_used(&f), 0);
	EXPECT_TRUE(t, space_stop(&f, &p));
}

/* Call MM_PROTECT of 2 MiB at FIXED_AT as its home does, at the owner and by its message. */
static int protect_from_peer(struct memory *m, uint32_t phase, uint64_t charge, bool message)
{
	const struct mm_range_req req = { .aspace = FAKE_ASPACE(1),
					  .addr = FIXED_AT,
					  .len = 2 * MB,
					  .charge = charge,
					  .prot = RW,
					  .phase = phase };
	struct mm_range_rep rep = { 0 };
	struct mm_range_rep_wire reply;
	struct mm_range_req_wire w;
	int ret;

	if (!message)
		return owner_protect(m, &req, &rep);
	mm_range_req_encode(&req, &w);
	ret = memory_serve(m, FAKE_MEM_FIRST, MM_PROTECT, &w, sizeof(w), NULL, 0, &reply,
			   sizeof(reply), NULL);
	return MIN(ret, 0);
}

/* The same charge in an MM_ABORT of MM_MAP. */
static int map_abort(struct memory *m, uint64_t charge)
{
	static struct mm_map_req req;
	struct mm_range_rep rep = { 0 };

	req.aspace = FAKE_ASPACE(1);
	req.vma = (struct pm_vma){ .start = FIXED_AT, .end = FIXED_AT + 2 * MB, .prot = RW };
	req.charge = charge;
	req.phase = MM_ABORT;
	req.nr_vregions = 1;
	req.vregion_shift = SHIFT_2M;
	req.vregions[0].index = FIXED_AT >> SHIFT_2M;
	return owner_map(m, (struct home_id){ m->node, 0 }, &req, &rep);
}

/* A home's request that is served when that life of the home has ended, and another has begun. */
static void a_late_home_makes_nothing(struct ktest *t)
{
	static struct mm_map_req map;
	static struct mm_load_req load;
	const struct home_id late = { FAKE_MEM_FIRST, 7 }, now = { FAKE_MEM_FIRST, 8 };
	struct mm_range_rep rep = { 0 };
	struct pool_stats s;
	struct memory *m;
	struct fake f;

	fake_start(&f, 2, 4096, SHIFT_2M);
	m = &f.mem[1];
	f.left_node = late.node;
	f.left_incarn = late.incarn;
	EXPECT_FALSE(t, memory_node_gone(m, late.node));
	map.aspace = load.aspace = FAKE_ASPACE(1);
	map.processor = load.processor = FAKE_PROC;
	map.vnode = load.vnode = PROTO_VNODE_ROOT;
	map.vma = (struct pm_vma){ .start = FIXED_AT, .end = FIXED_AT + 2 * MB, .prot = RW };
	map.phase = MM_ONCE;
	map.nr_vregions = load.nr_vregions = load.nr_vmas = 1;
	map.vregion_shift = load.vregion_shift = SHIFT_2M;
	map.vregions[0].index = load.vregions[0].index = FIXED_AT >> SHIFT_2M;
	load.vmas[0] = map.vma;
	EXPECT_EQ(t, owner_map(m, late, &map, &rep), -ESTALE);
	EXPECT_EQ(t, owner_load(m, late, &load, &rep), -ESTALE);
	EXPECT_EQ(t, m->owner.nr_spaces, 0);
	pool_stats(&m->pool, &s);
	EXPECT_EQ(t, s.committed, 0);
	EXPECT_EQ(t, owner_load(m, now, &load, &rep), 0);
	/* Nor does it give a fork a space. */
	{
		const struct mm_fork_req fork = { .aspace = FAKE_ASPACE(1),
						  .parent = FAKE_ASPACE(2),
						  .child = FAKE_ASPACE(3) };

		EXPECT_EQ(t, owner_fork(m, late, &fork, &rep), -ESTALE);
	}
	EXPECT_EQ(t, m->owner.nr_spaces, 1);
	/* Nor has it pages sent, nor does another owner bring a space that is not expected. */
	{
		const struct mm_expect_req expect = { .aspace = FAKE_ASPACE(4),
						      .from = FAKE_MEM_FIRST + 2,
						      .processor = FAKE_PROC,
						      .vnode = PROTO_VNODE_ROOT };
		struct mm_vregion_take_req *take = calloc(1, sizeof(*take));

		EXPECT_EQ(t, owner_expect(m, late, &expect), -ESTALE);
		take->aspace = expect.aspace;
		take->vregion = (struct pm_vregion){ .owner = m->node, .version = 2 };
		take->vregion_shift = SHIFT_2M;
		take->home = late.node;
		take->processor = FAKE_PROC;
		take->vnode = PROTO_VNODE_ROOT;
		take->stage = MM_TAKE_BEGIN;
		EXPECT_EQ(t, owner_vregion_take(m, expect.from, take), -ESTALE);
		free(take);
	}
	EXPECT_EQ(t, m->owner.nr_spaces, 1);
	EXPECT_FALSE(t, memory_node_gone(m, now.node));
	EXPECT_TRUE(t, fake_stop(&f));
}

static void peer_spends_only_what_is_prepared(struct ktest *t)
{
	static const uint64_t charges[] = { 513,        (PM_USER_TOP >> PAGE_SHIFT) + 1,
					    INT64_MAX,  (1ull << 63) + 1,
					    1ull << 63, 0ull - 512,
					    UINT64_MAX };
	struct pool_stats s;
	struct fake_proc p;
	struct memory *m;
	struct fake f;
	uint64_t addr;

	fake_start(&f, 2, 4096, SHIFT_2M);
	m = &f.mem[0];
	proc_init(&p, &f, FAKE_ASPACE(1), FAKE_MEM_FIRST);
	ASSERT_EQ(t, proc_space(&p), 0);
	ASSERT_EQ(t, proc_mmap(&p, FIXED_AT, 2 * MB, PM_PROT_READ, PM_MAP_FIXED, &addr), 0);
	ASSERT_EQ(t, protect_from_peer(m, MM_PREPARE, 0, true), 0);
	for (size_t i = 0; i < ARRAY_SIZE(charges); i++) {
		EXPECT_EQ(t, protect_from_peer(m, MM_ABORT, charges[i], true), -EPROTO);
		EXPECT_EQ(t, protect_from_peer(m, MM_ABORT, charges[i], false), -EPROTO);
		EXPECT_EQ(t, protect_from_peer(m, MM_APPLY, charges[i], false), -EPROTO);
		EXPECT_EQ(t, map_abort(m, charges[i]), -EPROTO);
	}
	pool_stats(&m->pool, &s);
	EXPECT_EQ(t, s.committed, 512);
	/* The prepared charge is still there to be spent, once. */
	EXPECT_EQ(t, protect_from_peer(m, MM_ABORT, 512, true), 0);
	EXPECT_EQ(t, protect_from_peer(m, MM_ABORT, 512, true), -EPROTO);
	pool_stats(&m->pool, &s);
	EXPECT_EQ(t, s.committed, 0);
	EXPECT_TRUE(t, space_stop(&f, &p));
}

static uint64_t committed(struct memory *m)
{
	struct pool_stats s;

	pool_stats(&m->pool, &s);
	return s.committed;
}

/*
 * A home may say APPLY for a range that is not what was measured: a vRegion has come since, or the
 * processor is gone. Each page is charged once and given back once, and no count goes below zero.
 */
static void an_apply_charges_what_is_there(struct ktest *t)
{
	struct fake_proc p;
	struct memory *m;
	struct fake f;
	uint64_t addr;

	fake_start(&f, 2, 4096, SHIFT_2M);
	m = &f.mem[0];
	proc_init(&p, &f, FAKE_ASPACE(1), FAKE_MEM_FIRST);
	ASSERT_EQ(t, proc_space(&p), 0);
	ASSERT_EQ(t, proc_mmap(&p, FIXED_AT, 2 * MB, PM_PROT_READ, PM_MAP_FIXED, &addr), 0);
	/* Nothing was prepared. */
	EXPECT_EQ(t, protect_from_peer(m, MM_APPLY, 0, true), 0);
	EXPECT_EQ(t, committed(m), 512);
	/* Prepared, but it has been charged since. */
	EXPECT_EQ(t, proc_mprotect(&p, FIXED_AT, 2 * MB, PM_PROT_READ), 0);
	EXPECT_EQ(t, committed(m), 0);
	ASSERT_EQ(t, protect_from_peer(m, MM_PREPARE, 0, true), 0);
	EXPECT_EQ(t, proc_mprotect(&p, FIXED_AT, 2 * MB, RW), 0);
	EXPECT_EQ(t, committed(m), 2 * 512);
	EXPECT_EQ(t, protect_from_peer(m, MM_APPLY, 512, true), 0);
	EXPECT_EQ(t, committed(m), 512);
	/* Prepared, and then the end of the processor. */
	EXPECT_EQ(t, proc_mprotect(&p, FIXED_AT, 2 * MB, PM_PROT_READ), 0);
	ASSERT_EQ(t, protect_from_peer(m, MM_PREPARE, 0, true), 0);
	owner_destroy_space(m, FAKE_ASPACE(1));
	EXPECT_EQ(t, committed(m), 0);
	EXPECT_EQ(t, protect_from_peer(m, MM_APPLY, 512, true), -EPROTO);
	EXPECT_EQ(t, protect_from_peer(m, MM_ABORT, 512, true), -EPROTO);
	EXPECT_EQ(t, committed(m), 0);
	EXPECT_TRUE(t, space_stop(&f, &p));
}

/* The processor of a fork is fenced when the child's region has been made and is still empty. */
static void a_dead_child_gets_no_areas(struct ktest *t)
{
	const struct region_init init = {
		REGION_ACTIVE, true, 1, FAKE_PROC, PROTO_VNODE_ROOT, false
	};
	struct area_spare spare = { 0 };
	struct region_op op = {
		.change = { .kind = CHANGE_CLONE, .other = FAKE_ASPACE(2) },
		.from = REGION_IN(REGION_ACTIVE),
		.spare = &spare,
	};
	struct fake_proc p;
	struct region *r;
	struct memory *m;
	struct fake f;
	uint64_t addr;

	fake_start(&f, 2, 4096, SHIFT_2M);
	m = &f.mem[0];
	proc_init(&p, &f, FAKE_ASPACE(1), FAKE_MEM_FIRST);
	ASSERT_EQ(t, proc_space(&p), 0);
	ASSERT_EQ(t, proc_mmap(&p, FIXED_AT, MB, RW, PM_MAP_FIXED, &addr), 0);
	r = region_get(m, FAKE_ASPACE(1), FIXED_AT);
	ASSERT_TRUE(t, r);
	op.other = region_make(m, FAKE_ASPACE(2), (struct home_id){ m->node, 0 }, r->index,
			       SHIFT_2M, &init);
	ASSERT_FALSE(t, IS_ERR(op.other));
	ASSERT_EQ(t, area_spare_fill(&spare, r->areas.count), 0);
	owner_destroy_space(m, FAKE_ASPACE(2));
	EXPECT_EQ(t, region_apply(m, r, &op), -ESTALE);
	EXPECT_EQ(t, committed(m), 256);
	area_spare_free(&spare);
	region_put(op.other);
	region_put(r);
	EXPECT_TRUE(t, space_stop(&f, &p));
}

/* A call of a program that waits for a node, and the end of the program's processor meanwhile. */
struct late_call {
	struct fake_proc *p;
	uint32_t done; /* atomic */
	int err;
};

static void late_mmap(void *arg)
{
	struct late_call *c = arg;
	uint64_t addr;

	c->err = proc_mmap(c->p, FIXED_AT + 8 * MB, 8 * MB, RW, PM_MAP_FIXED, &addr);
}

static void processor_goes(void *arg)
{
	struct late_call *c = arg;

	memory_processor_gone(&c->p->f->mem[0], FAKE_PROC);
	__atomic_store_n(&c->done, 1, __ATOMIC_RELEASE);
}

static bool is_done(struct late_call *c)
{
	for (int i = 0; i < 2000 && !__atomic_load_n(&c->done, __ATOMIC_ACQUIRE); i++)
		thread_sleep_ns(1000 * 1000);
	return __atomic_load_n(&c->done, __ATOMIC_ACQUIRE);
}

/*
 * The home learns of its processor's end while a call of it waits for a silent node: it does not
 * wait with it, and what the call still does at other nodes is undone.
 */
static void the_end_of_a_processor_waits_for_no_node(struct ktest *t)
{
	struct thread *mapper, *end;
	struct late_call map = { 0 };
	struct fake_proc p;
	struct fake f;
	uint64_t addr;

	ASSERT_TRUE(t, space_start(&f, &p, 2, 4096, SHIFT_2M));
	ASSERT_EQ(t, proc_mmap(&p, FIXED_AT, 4 * MB, RW, PM_MAP_FIXED, &addr), 0);
	map.p = &p;
	f.hold_opcode = MM_MAP;
	mapper = thread_create("mmap", late_mmap, &map);
	ASSERT_FALSE(t, IS_ERR(mapper));
	EXPECT_TRUE(t, fake_wait_held(&f));
	memory_processor_gone(&f.mem[1], FAKE_PROC);
	end = thread_create("gone", processor_goes, &map);
	ASSERT_FALSE(t, IS_ERR(end));
	EXPECT_TRUE(t, is_done(&map)); /* without an answer to the call */
	EXPECT_FALSE(t, home_space_exists(&f.mem[0], FAKE_ASPACE(1)));
	/* Its next incarnation is here when the answer comes. */
	memory_processor_joined(&f.mem[0], FAKE_PROC);
	memory_processor_joined(&f.mem[1], FAKE_PROC);
	__atomic_store_n(&f.release, true, __ATOMIC_RELEASE);
	thread_join(mapper);
	thread_join(end);
	for (int i = 0; i < 2; i++) {
		EXPECT_FALSE(t, owner_has_space(&f.mem[i], FAKE_ASPACE(1)));
		EXPECT_EQ(t, committed(&f.mem[i]), 0);
	}
	proc_done(&p);
	EXPECT_TRUE(t, fake_stop(&f));
}

static void late_fork(void *arg)
{
	struct late_call *c = arg;
	struct fake_proc parent, child;

	proc_init(&parent, c->p->f, FAKE_ASPACE(2), FAKE_MEM_FIRST);
	proc_init(&child, c->p->f, FAKE_ASPACE(3), FAKE_MEM_FIRST);
	c->err = proc_fork(c->p, &parent, &child);
	proc_done(&parent);
	proc_done(&child);
}

/* The same with a fork, which makes spaces when the owners have answered. */
static void a_late_fork_makes_no_space(struct ktest *t)
{
	struct late_call fork = { 0 };
	struct thread *forker, *end;
	struct fake_proc p;
	struct fake f;
	uint64_t addr;

	ASSERT_TRUE(t, space_start(&f, &p, 2, 8192, SHIFT_2M));
	ASSERT_EQ(t, proc_mmap(&p, FIXED_AT, 8 * MB, RW, PM_MAP_FIXED, &addr), 0);
	fork.p = &p;
	f.hold_opcode = MM_FORK;
	forker = thread_create("fork", late_fork, &fork);
	ASSERT_FALSE(t, IS_ERR(forker));
	EXPECT_TRUE(t, fake_wait_held(&f));
	end = thread_create("gone", processor_goes, &fork);
	ASSERT_FALSE(t, IS_ERR(end));
	EXPECT_TRUE(t, is_done(&fork));
	memory_processor_joined(&f.mem[0], FAKE_PROC);
	__atomic_store_n(&f.release, true, __ATOMIC_RELEASE);
	thread_join(forker);
	thread_join(end);
	EXPECT_LT(t, fork.err, 0);
	EXPECT_EQ(t, f.mem[0].home.nr_spaces, 0);
	for (int i = 0; i < 2; i++) {
		EXPECT_EQ(t, f.mem[i].owner.nr_spaces, 0);
		EXPECT_EQ(t, committed(&f.mem[i]), 0);
	}
	proc_done(&p);
	EXPECT_TRUE(t, fake_stop(&f));
}

/* Objects of FAKE_PROC until one is refused: how many. Then all but the first @keep end. */
static uint64_t make_objects(struct ktest *t, struct fake *f, uint64_t keep)
{
	struct fake_proc p;
	uint64_t nr = 0;
	int err;

	for (;; nr++) {
		proc_init(&p, f, FAKE_ASPACE(2 + nr), FAKE_MEM_FIRST);
		err = nr < 10000 ? proc_object(&p, 0, 0) : 0;
		proc_done(&p);
		if (err || nr == 10000)
			break;
	}
	EXPECT_EQ(t, err, -ENOMEM);
	for (uint64_t i = keep; i < nr; i++)
		EXPECT_EQ(t, home_destroy_space(&f->mem[0], FAKE_ASPACE(2 + i), FAKE_PROC), 0);
	return nr;
}

/* Kernel memory of a home: one processor's spaces and vRegions may have a part of it. */
static void one_processor_does_not_fill_a_home(struct ktest *t)
{
	const uint64_t other = FAKE_SPACE_BY(FAKE_PROC + 1, FAKE_MEM_FIRST, 1);
	struct home_space *as;
	struct fake_proc p;
	uint64_t addr, nr;
	struct fake f;

	fake_start(&f, 1, 1024, SHIFT_2M);
	f.mem[0].pool.policy.mode = PM_COMMIT_ALWAYS;
	f.mem[0].pool.kernel_max = 64 << 10;
	nr = make_objects(t, &f, 0);
	EXPECT_GT(t, nr, 30);
	EXPECT_EQ(t, f.mem[0].stats.kernel_full, 1);
	EXPECT_EQ(t, make_objects(t, &f, nr), nr);
	as = home_space_create(&f.mem[0], other, FAKE_PROC + 1, PROTO_VNODE_ROOT, SPACE_PAGES, 0);
	ASSERT_FALSE(t, IS_ERR(as));
	home_space_unlock(as);
	EXPECT_EQ(t, home_destroy_space(&f.mem[0], other, FAKE_PROC + 1), 0);
	memory_processor_gone(&f.mem[0], FAKE_PROC);
	pool_admit(&f.mem[0].pool, FAKE_PROC);

	proc_init(&p, &f, FAKE_ASPACE(1), FAKE_MEM_FIRST);
	ASSERT_EQ(t, proc_space(&p), 0);
	EXPECT_EQ(t, proc_mmap(&p, FIXED_AT, 1024 * MB, RW, PM_MAP_FIXED | PM_MAP_NORESERVE, &addr),
		  -ENOMEM);
	EXPECT_EQ(t, f.mem[0].stats.kernel_full, 3);
	EXPECT_EQ(t, proc_destroy(&p), 0);
	EXPECT_EQ(t, make_objects(t, &f, 0), nr);
	proc_done(&p);
	EXPECT_TRUE(t, fake_stop(&f));
}

/* @nr areas of one page each from @at on. */
static void make_areas(struct ktest *t, struct fake_proc *p, uint64_t at, uint64_t nr)
{
	uint64_t addr;

	ASSERT_EQ(t, proc_mmap(p, at, nr * PAGE_SIZE, RW, PM_MAP_FIXED, &addr), 0);
	for (uint64_t i = 1; i < nr; i += 2)
		ASSERT_EQ(t, proc_mprotect(p, at + i * PAGE_SIZE, PAGE_SIZE, PM_PROT_READ), 0);
}

/* Fork a space with many areas until node @full refuses: as the home, or as an owner alone. */
static void fill_by_forks(struct ktest *t, uint32_t full)
{
	const uint64_t at = FIXED_AT + full * 2 * MB, part = 512 << 10, areas = 400;
	struct fake_proc now, child, next;
	uint64_t forks = 0;
	struct memory *m;
	struct fake f;
	int err = 0;

	fake_start(&f, 2, 4096, SHIFT_2M);
	m = &f.mem[full];
	m->pool.kernel_max = part;
	proc_init(&now, &f, FAKE_ASPACE(1), FAKE_MEM_FIRST);
	ASSERT_EQ(t, proc_space(&now), 0);
	make_areas(t, &now, at, areas);
	EXPECT_GT(t, pool_kernel_bytes(&m->pool, FAKE_PROC), areas * sizeof(struct area));
	while (!err && forks < 100) {
		proc_init(&next, &f, FAKE_ASPACE(100 + 2 * forks), FAKE_MEM_FIRST);
		proc_init(&child, &f, FAKE_ASPACE(101 + 2 * forks), FAKE_MEM_FIRST);
		err = proc_fork(&now, &next, &child);
		proc_done(err ? &next : &now);
		proc_done(&child);
		if (err)
			break;
		now = next;
		forks++;
	}
	EXPECT_EQ(t, err, -ENOMEM);
	EXPECT_GT(t, forks, 2);
	EXPECT_LE(t, forks, part / (areas * sizeof(struct area)));
	EXPECT_LE(t, pool_kernel_bytes(&m->pool, FAKE_PROC), part);
	EXPECT_GT(t, m->stats.kernel_full, 0);
	proc_done(&now);
	memory_processor_gone(&f.mem[0], FAKE_PROC);
	memory_processor_gone(&f.mem[1], FAKE_PROC);
	EXPECT_TRUE(t, fake_stop(&f));
}

/* Copies that a fork makes are charged where they are kept. */
static void forks_fill_no_node(struct ktest *t)
{
	fill_by_forks(t, 0);
	fill_by_forks(t, 1);
}

/* A processor that has had its part may unmap what it has, but not cut areas in two. */
static void a_full_account_gives_back(struct ktest *t)
{
	const uint64_t at = FIXED_AT + 2 * MB; /* of the second node */
	struct fake_proc p;
	uint64_t addr, nr = 64;
	struct fake f;

	for (uint32_t full = 0; full < 2; full++) {
		struct pool *pool = &f.mem[full].pool;

		ASSERT_TRUE(t, space_start(&f, &p, 2, 4096, SHIFT_2M));
		make_areas(t, &p, at, nr);
		ASSERT_EQ(t, proc_mmap(&p, at + MB, 16 * PAGE_SIZE, RW, PM_MAP_FIXED, &addr), 0);
		pool->kernel_max = pool_kernel_bytes(pool, FAKE_PROC);
		EXPECT_EQ(t, proc_mmap(&p, FIXED_AT, PAGE_SIZE, RW, PM_MAP_FIXED, &addr),
			  full ? 0 : -ENOMEM);
		/* The owner has nodes to spare for one, and then no more. */
		for (int i = 2; i < 6; i += 2)
			(void)proc_munmap(&p, at + MB + (uint64_t)i * PAGE_SIZE, PAGE_SIZE);
		EXPECT_EQ(t, proc_munmap(&p, at + MB + 8 * PAGE_SIZE, PAGE_SIZE), -ENOMEM);
		EXPECT_EQ(t, proc_munmap(&p, at + MB + 12 * PAGE_SIZE, 4 * PAGE_SIZE), 0);
		EXPECT_EQ(t, proc_munmap(&p, at + (nr / 2) * PAGE_SIZE, nr / 2 * PAGE_SIZE), 0);
		EXPECT_EQ(t, proc_munmap(&p, at + MB + 8 * PAGE_SIZE, PAGE_SIZE), 0);
		EXPECT_TRUE(t, space_stop(&f, &p));
	}
}

/* A home has no frames kept for a processor that there is none of. */
static void a_phantom_gets_no_frames(struct ktest *t)
{
	static struct mm_map_req map;
	const struct home_id home = { FAKE_MEM_FIRST, 0 };
	struct mm_range_rep rep = { 0 };
	struct pool_stats s;
	struct memory *m;
	struct fake f;

	fake_start(&f, 2, 4096, SHIFT_2M);
	m = &f.mem[1];
	map.vma = (struct pm_vma){ .start = FIXED_AT, .end = FIXED_AT + 2 * MB, .prot = RW };
	map.phase = MM_ONCE;
	map.want_credits = 100;
	map.nr_vregions = 1;
	map.vregion_shift = SHIFT_2M;
	map.vregions[0].index = FIXED_AT >> SHIFT_2M;
	for (uint32_t i = 0; i < 2; i++) {
		map.processor = i ? FAKE_NO_PROC : FAKE_PROC;
		map.vnode = PROTO_VNODE_ROOT;
		map.aspace = FAKE_SPACE_BY(map.processor, home.node, 1);
		EXPECT_EQ(t, owner_map(m, home, &map, &rep), 0);
		EXPECT_EQ(t, rep.grant.frames, i ? 0 : 100);
		pool_stats(&m->pool, &s);
		EXPECT_EQ(t, s.reserved, 100);
	}
	memory_processor_gone(m, FAKE_PROC);
	memory_processor_gone(m, FAKE_NO_PROC);
	EXPECT_TRUE(t, fake_stop(&f));
}

/* A home makes up many processors: together they have no more at an owner than one may. */
static void phantoms_share_one_part(struct ktest *t)
{
	static struct mm_map_req map;
	const struct home_id home = { FAKE_MEM_FIRST, 0 };
	struct mm_range_rep rep = { 0 };
	uint64_t held = 0, nr = 0;
	struct memory *m;
	struct fake f;

	fake_start(&f, 2, 4096, SHIFT_2M);
	m = &f.mem[1];
	m->pool.kernel_max = 16384;
	map.vma = (struct pm_vma){ .start = FIXED_AT, .end = FIXED_AT + PAGE_SIZE, .prot = RW };
	map.phase = MM_ONCE;
	map.nr_vregions = 1;
	map.vregion_shift = SHIFT_2M;
	map.vregions[0].index = FIXED_AT >> SHIFT_2M;
	for (uint32_t proc = 1000; proc < 1400; proc++) {
		map.processor = proc;
		map.aspace = FAKE_SPACE_BY(proc, home.node, 1);
		nr += owner_map(m, home, &map, &rep) == 0;
		held += pool_kernel_bytes(&m->pool, proc);
	}
	EXPECT_GT(t, nr, 2u);
	EXPECT_LE(t, held, 16384u);
	map.processor = FAKE_PROC; /* a real one has its own part */
	map.aspace = FAKE_SPACE_BY(map.processor, home.node, 1);
	EXPECT_EQ(t, owner_map(m, home, &map, &rep), 0);
	for (uint32_t proc = 1000; proc < 1400; proc++)
		memory_processor_gone(m, proc);
	map.processor = 1399;
	map.aspace = FAKE_SPACE_BY(map.processor, home.node, 2);
	memory_processor_joined(m, 1399);
	EXPECT_EQ(t, owner_map(m, home, &map, &rep), 0); /* there is room again */
	memory_processor_gone(m, 1399);
	memory_processor_gone(m, FAKE_PROC);
	EXPECT_TRUE(t, fake_stop(&f));
}

/* A processor makes no space by a name that is for another one's. */
static void names_are_their_makers(struct ktest *t)
{
	struct home_space *as;
	struct fake f;

	fake_start(&f, 1, 1024, SHIFT_2M);
	as = home_space_create(&f.mem[0], FAKE_ASPACE(5), FAKE_PROC + 1, PROTO_VNODE_ROOT,
			       SPACE_PAGES, 0);
	ASSERT_TRUE(t, IS_ERR(as));
	EXPECT_EQ(t, PTR_ERR(as), -EINVAL);
	as = home_space_create(&f.mem[0], FAKE_ASPACE(5), FAKE_PROC, PROTO_VNODE_ROOT, SPACE_PAGES,
			       0);
	ASSERT_FALSE(t, IS_ERR(as));
	home_space_unlock(as);
	EXPECT_EQ(t, home_destroy_space(&f.mem[0], FAKE_ASPACE(5), FAKE_PROC), 0);
	EXPECT_TRUE(t, fake_stop(&f));
}

static void credits_promise_frames(struct ktest *t)
{
	struct fake f;
	struct fake_proc p;
	struct pm_meminfo_rep_wire w;
	struct pm_meminfo_rep info;
	struct pool_stats s;
	uint32_t got;
	uint64_t addr;

	ASSERT_TRUE(t, space_start(&f, &p, 1, 1024, 30)); /* 960 for programs */
	ASSERT_EQ(t, proc_mmap(&p, FIXED_AT, 3 * MB, RW, PM_MAP_FIXED, &addr), 0);
	ASSERT_EQ(t, proc_credit(&p, FAKE_MEM_FIRST, 0, 100, &got), 0);
	EXPECT_EQ(t, got, 100);
	for (uint64_t i = 0; i < 30; i++) {
		page_stamp(page, i);
		ASSERT_EQ(t, proc_writeback(&p, addr + i * PAGE_SIZE, page), 0);
	}
	pool_stats(&f.mem[0].pool, &s);
	EXPECT_EQ(t, s.used, 30);
	EXPECT_EQ(t, s.reserved, 70);
	ASSERT_EQ(t,
		  memory_serve(&f.mem[0], FAKE_PROC, PM_MEMINFO, NULL, 0, NULL, 0, &w, sizeof(w),
			       NULL),
		  (int)sizeof(w));
	ASSERT_EQ(t, pm_meminfo_rep_decode(&w, sizeof(w), &info), 0);
	EXPECT_EQ(t, info.total, 1024);
	EXPECT_EQ(t, info.free, 1024 - 30);
	EXPECT_EQ(t, info.granted, 70);
	EXPECT_EQ(t, info.committed, 3 * MB / PAGE_SIZE);
	EXPECT_EQ(
		t,
		memory_serve(&f.mem[0], FAKE_PROC, PM_MEMINFO, &w, 1, NULL, 0, &w, sizeof(w), NULL),
		-EMSGSIZE);
	/* A page that has a frame needs no credit. */
	ASSERT_EQ(t, proc_writeback(&p, addr, page), 0);
	pool_stats(&f.mem[0].pool, &s);
	EXPECT_EQ(t, s.reserved, 70);
	ASSERT_EQ(t, proc_credit(&p, FAKE_MEM_FIRST, 50, 5000, &got), 0);
	EXPECT_EQ(t, got, 930 - 117); /* an eighth is for others, or comes later */
	EXPECT_EQ(t, proc_credit(&p, FAKE_MEM_FIRST, got, 1, &got), 0);
	EXPECT_EQ(t, got, 930 - 116);
	EXPECT_EQ(t, proc_credit(&p, FAKE_MEM_FIRST, got - 10, 0, &got), 0);
	EXPECT_EQ(t, got, 930 - 126);
	/* A report that was overtaken says nothing any more. */
	f.nr_reports -= 2;
	EXPECT_EQ(t, proc_credit(&p, FAKE_MEM_FIRST, 3, 0, &got), -ESTALE);
	f.nr_reports++;
	pool_stats(&f.mem[0].pool, &s);
	EXPECT_EQ(t, s.reserved, 930 - 126);
	/* Others get no more than the frames that are not reserved. */
	memory_processor_gone(&f.mem[0], FAKE_PROC);
	pool_stats(&f.mem[0].pool, &s);
	EXPECT_EQ(t, s.reserved, 0);
	EXPECT_EQ(t, s.used, 0);
	EXPECT_EQ(t, proc_fetch(&p, addr, true, page), -ESRCH);
	proc_done(&p);
	EXPECT_TRUE(t, fake_stop(&f));
}

/*
 * Storage is silent, and reads have all the frames that they can get: those that are promised are
 * there for write-backs all the same. A page that is being sent needs none of them, either.
 */
static void promised_frames_do_not_wait_for_storage(struct ktest *t)
{
	enum {
		CREDITS = 300
	};
	struct mpage *reads[1024], *sent;
	struct region *r;
	uint32_t got, nr = 0;
	struct pool_stats s;
	struct fake_proc p;
	struct fake f;
	uint64_t addr;

	fake_start(&f, 1, 1024, 30); /* 960 for programs */
	proc_init(&p, &f, FAKE_ASPACE(1), FAKE_MEM_FIRST);
	ASSERT_EQ(t, proc_space(&p), 0);
	ASSERT_EQ(t, proc_mmap(&p, FIXED_AT, 3 * MB, RW, PM_MAP_FIXED, &addr), 0);
	ASSERT_EQ(t, proc_credit(&p, FAKE_MEM_FIRST, 0, CREDITS, &got), 0);
	EXPECT_EQ(t, got, (uint32_t)CREDITS);
	while (nr < 1024 && (reads[nr] = pool_alloc_file(&f.mem[0].pool, true)))
		nr++;
	EXPECT_GT(t, nr, 500u);
	for (uint64_t i = 0; i < CREDITS; i++) {
		page_stamp(page, i + 1);
		ASSERT_EQ(t, proc_writeback(&p, addr + i * PAGE_SIZE, page), 0);
	}
	pool_stats(&f.mem[0].pool, &s);
	EXPECT_EQ(t, s.reserved, 0);
	for (uint32_t i = 0; i < 20; i++)
		mpage_put(&f.mem[0].pool, reads[--nr]);
	ASSERT_EQ(t, proc_credit(&p, FAKE_MEM_FIRST, 0, 1024, &got), 0);
	EXPECT_GT(t, got, 0u);
	EXPECT_LE(t, got, 20u);
	/* New contents for pages that are being sent: not one credit is gone. */
	mpage_put(&f.mem[0].pool, reads[--nr]);
	r = region_get(&f.mem[0], p.aspace, addr);
	spin_lock(&r->lock);
	sent = page_lookup_locked(&f.mem[0], r, addr);
	spin_unlock(&r->lock);
	region_put(r);
	mpage_get(sent);
	ASSERT_EQ(t, proc_writeback(&p, addr, page), 0);
	EXPECT_EQ(t, pool_credits(&f.mem[0].pool, FAKE_PROC), got);
	mpage_put(&f.mem[0].pool, sent);
	while (nr > 0)
		mpage_put(&f.mem[0].pool, reads[--nr]);
	EXPECT_EQ(t, proc_destroy(&p), 0);
	memory_processor_gone(&f.mem[0], FAKE_PROC);
	proc_done(&p);
	EXPECT_TRUE(t, fake_stop(&f));
}

static void old_writeback_is_dropped(struct ktest *t)
{
	struct pm_writeback_req req = { .aspace = FAKE_ASPACE(1), .nr_pages = 1 };
	struct pm_writeback_rep rep;
	struct fake f;
	struct fake_proc p;
	uint64_t addr;

	ASSERT_TRUE(t, space_start(&f, &p, 1, 1024, 30));
	ASSERT_EQ(t, proc_mmap(&p, FIXED_AT, MB, RW, PM_MAP_FIXED, &addr), 0);
	req.pages[0].vaddr = addr;
	for (uint64_t i = 0; i < 3; i++) {
		static const uint64_t seqs[] = { 5, 4, 5 };

		req.pages[0].seq = seqs[i];
		page_stamp(page, i + 1);
		ASSERT_EQ(t, owner_writeback(&f.mem[0], FAKE_PROC, &req, page, true, &rep, NULL),
			  0);
		EXPECT_EQ(t, rep.pages[0].status, 0);
	}
	EXPECT_EQ(t, proc_fetch(&p, addr, false, page), PM_FETCH_DATA);
	EXPECT_EQ(t, page_value(page), 1);
	EXPECT_EQ(t, f.mem[0].stats.writeback_stale, 2);
	/* Somebody else's processor gets nowhere. */
	EXPECT_EQ(t, owner_writeback(&f.mem[0], FAKE_PROC + 1, &req, page, true, &rep, NULL), 0);
	EXPECT_EQ(t, rep.pages[0].status, -ESRCH);
	EXPECT_TRUE(t, space_stop(&f, &p));
}

/* Zeroes replace what was there, in the order of the pages, and count no bytes. */
static void zeroes_come_without_data(struct ktest *t)
{
	struct pm_writeback_req req = { .aspace = FAKE_ASPACE(1), .nr_pages = 3, .zeroes = 5 };
	struct pm_writeback_rep rep;
	struct fake_proc p;
	uint64_t addr, bytes;
	struct fake f;

	ASSERT_TRUE(t, space_start(&f, &p, 1, 1024, 30));
	ASSERT_EQ(t, proc_mmap(&p, FIXED_AT, MB, RW, PM_MAP_FIXED, &addr), 0);
	page_stamp(page, 7);
	ASSERT_EQ(t, proc_writeback(&p, addr, page), 0);
	bytes = f.mem[0].stats.bytes_in;
	for (uint32_t i = 0; i < 3; i++)
		req.pages[i] = (struct pm_writeback_page){ addr + i * PAGE_SIZE, 1000 };
	page_stamp(page, 8);
	ASSERT_EQ(t, owner_writeback(&f.mem[0], FAKE_PROC, &req, page, true, &rep, NULL), 0);
	for (uint32_t i = 0; i < 3; i++) {
		EXPECT_EQ(t, rep.pages[i].status, 0);
		EXPECT_EQ(t, proc_fetch(&p, addr + i * PAGE_SIZE, false, page), PM_FETCH_DATA);
		EXPECT_EQ(t, page_value(page), i == 1 ? 8u : 0u);
	}
	EXPECT_EQ(t, f.mem[0].stats.bytes_in - bytes, (uint64_t)PAGE_SIZE);
	EXPECT_TRUE(t, space_stop(&f, &p));
}

static void victim_rides_on_the_fetch(struct ktest *t)
{
	struct pm_fetch_req req = { .aspace = FAKE_ASPACE(1),
				    .flags = PM_FETCH_VICTIM,
				    .victim_aspace = FAKE_ASPACE(1),
				    .victim_seq = 9 };
	struct pm_fetch_rep rep;
	struct pm_vregion redirect;
	struct pool_stats s;
	uint32_t got;
	struct mpage *sent;
	struct fake f;
	struct fake_proc p;
	uint64_t addr;

	ASSERT_TRUE(t, space_start(&f, &p, 1, 1024, 30));
	ASSERT_EQ(t, proc_mmap(&p, FIXED_AT, MB, RW, PM_MAP_FIXED, &addr), 0);
	page_stamp(page, 1);
	ASSERT_EQ(t, proc_writeback(&p, addr, page), 0);
	req.vaddr = addr;
	req.victim_vaddr = addr + PAGE_SIZE;
	page_stamp(page, 2);
	ASSERT_EQ(
		t,
		owner_fetch(&f.mem[0], FAKE_PROC, &req, page, false, &rep, &sent, &redirect, NULL),
		0);
	EXPECT_EQ(t, rep.victim_status, 0);
	EXPECT_EQ(t, rep.result, PM_FETCH_DATA);
	/*
	 * The page is being sent: a write-back of it goes into another frame, and uses no credit
	 * up.
	 */
	ASSERT_EQ(t, proc_credit(&p, FAKE_MEM_FIRST, 0, 10, &got), 0);
	page_stamp(page, 3);
	ASSERT_EQ(t, proc_writeback(&p, addr, page), 0);
	pool_stats(&f.mem[0].pool, &s);
	EXPECT_EQ(t, s.reserved, 10);
	EXPECT_EQ(t, page_value(mpage_virt(&f.mem[0].pool, sent)), 1);
	EXPECT_EQ(t, total_used(&f), 3);
	mpage_put(&f.mem[0].pool, sent);
	EXPECT_EQ(t, total_used(&f), 2);
	EXPECT_EQ(t, proc_fetch(&p, addr, false, page), PM_FETCH_DATA);
	EXPECT_EQ(t, page_value(page), 3);
	EXPECT_EQ(t, proc_fetch(&p, addr + PAGE_SIZE, false, page), PM_FETCH_DATA);
	EXPECT_EQ(t, page_value(page), 2);
	/* A fetch that fails has not stored its victim. */
	req.vaddr = addr + 2 * MB;
	req.victim_vaddr = addr + 2 * PAGE_SIZE;
	EXPECT_EQ(
		t,
		owner_fetch(&f.mem[0], FAKE_PROC, &req, page, false, &rep, &sent, &redirect, NULL),
		-EFAULT);
	EXPECT_EQ(t, total_used(&f), 2);
	EXPECT_TRUE(t, space_stop(&f, &p));
}

static void pages_ahead_come_if_they_are_there(struct ktest *t)
{
	struct pm_fetch_ahead_req req = { .aspace = FAKE_ASPACE(1), .nr_pages = 5 };
	struct mpage *pages[PM_FETCH_AHEAD_MAX];
	struct fake f;
	struct fake_proc p;
	uint64_t addr;

	ASSERT_TRUE(t, space_start(&f, &p, 1, 1024, 30));
	ASSERT_EQ(t, proc_mmap(&p, FIXED_AT, MB, RW, PM_MAP_FIXED, &addr), 0);
	page_stamp(page, 7);
	ASSERT_EQ(t, proc_writeback(&p, addr + 2 * PAGE_SIZE, page), 0);
	page_stamp(page, 8);
	ASSERT_EQ(t, proc_writeback(&p, addr, page), 0);
	req.pages[0].vaddr = addr + 2 * PAGE_SIZE;
	req.pages[1].vaddr = addr + PAGE_SIZE; /* never written */
	req.pages[2].vaddr = addr + 2 * MB;    /* not mapped */
	req.pages[3].vaddr = addr;
	req.pages[4].vaddr = addr + (1ull << 40); /* no vRegion */
	EXPECT_EQ(t, owner_fetch_ahead(&f.mem[0], FAKE_PROC, &req, pages), 1u | 8u);
	ASSERT_TRUE(t, pages[0] && !pages[1] && !pages[2] && pages[3] && !pages[4]);
	EXPECT_EQ(t, page_value(mpage_virt(&f.mem[0].pool, pages[0])), 7);
	EXPECT_EQ(t, page_value(mpage_virt(&f.mem[0].pool, pages[3])), 8);
	EXPECT_EQ(t, f.mem[0].stats.fetch_ahead_pages, 2);
	mpage_put(&f.mem[0].pool, pages[0]);
	mpage_put(&f.mem[0].pool, pages[3]);
	/* Another processor gets none, nor does anybody from what may not be read. */
	EXPECT_EQ(t, owner_fetch_ahead(&f.mem[0], FAKE_PROC + 1, &req, pages), 0u);
	ASSERT_EQ(t, proc_mprotect(&p, addr, MB, 0), 0);
	EXPECT_EQ(t, owner_fetch_ahead(&f.mem[0], FAKE_PROC, &req, pages), 0u);
	EXPECT_TRUE(t, space_stop(&f, &p));
}

/* As busybox sort does: a mapping that grows by a little a thousand times. */
static void growing_mapping_rarely_moves(struct ktest *t)
{
	uint64_t addr, other, len = 256 << 10, moves = 0;
	struct fake f;
	struct fake_proc p;

	ASSERT_TRUE(t, space_start(&f, &p, 2, 16384, SHIFT_2M));
	ASSERT_EQ(t, proc_mmap(&p, 0, len, RW, 0, &addr), 0);
	page_stamp(page, 42);
	ASSERT_EQ(t, proc_writeback(&p, addr, page), 0);
	for (int i = 0; i < 1100; i++) {
		const uint64_t bigger = len + 5 * PAGE_SIZE;
		uint64_t now;
		int err;

		if (i % 10 == 0)
			ASSERT_EQ(t, proc_mmap(&p, 0, 2 * PAGE_SIZE, RW, 0, &other), 0);
		err = proc_mremap(&p, addr, len, bigger, 0, 0, &now);
		if (err == -ENOMEM) {
			moves++;
			err = proc_mremap(&p, addr, len, bigger, PM_MREMAP_MAYMOVE, 0, &now);
		}
		ASSERT_EQ(t, err, 0);
		addr = now;
		len = bigger;
	}
	EXPECT_EQ(t, moves, 0);
	EXPECT_EQ(t, proc_fetch(&p, addr, false, page), PM_FETCH_DATA);
	EXPECT_EQ(t, page_value(page), 42);
	EXPECT_TRUE(t, space_stop(&f, &p));
}

/* --- reference model ------------------------------------------------------------------- */

#define MODEL_BASE  FIXED_AT
#define MODEL_PAGES 6144u /* 24 MiB: 12 vRegions of 2 MiB */

struct model {
	uint8_t prot[MODEL_PAGES];
	bool mapped[MODEL_PAGES];
	uint64_t value[MODEL_PAGES]; /* 0: never written */
	uint64_t next;
};

struct span_of {
	uint32_t first, nr;
};

static struct span_of pick(struct prng *r, uint32_t max)
{
	struct span_of s;

	s.nr = 1 + (uint32_t)prng_below(r, max);
	s.first = (uint32_t)prng_below(r, MODEL_PAGES - s.nr + 1);
	return s;
}

static uint64_t va(uint32_t pg)
{
	return MODEL_BASE + (uint64_t)pg * PAGE_SIZE;
}

static bool all(const struct model *m, struct span_of s, bool mapped)
{
	for (uint32_t i = 0; i < s.nr; i++)
		if (m->mapped[s.first + i] != mapped)
			return false;
	return true;
}

static void model_clear(struct model *m, struct span_of s)
{
	for (uint32_t i = 0; i < s.nr; i++) {
		m->mapped[s.first + i] = false;
		m->value[s.first + i] = 0;
		m->prot[s.first + i] = 0;
	}
}

static void do_mmap(struct ktest *t, struct fake_proc *p, struct model *m, struct prng *r)
{
	const struct span_of s = pick(r, 1200);
	const bool replace = prng_below(r, 2);
	const uint32_t prot = prng_below(r, 4) ? RW : PM_PROT_READ;
	uint64_t addr;
	int err = proc_mmap(p, va(s.first), (uint64_t)s.nr * PAGE_SIZE, prot,
			    replace ? PM_MAP_FIXED : PM_MAP_FIXED_NOREPLACE, &addr);

	if (!replace && !all(m, s, false)) {
		EXPECT_EQ(t, err, -EEXIST);
		return;
	}
	ASSERT_EQ(t, err, 0);
	model_clear(m, s);
	for (uint32_t i = 0; i < s.nr; i++) {
		m->mapped[s.first + i] = true;
		m->prot[s.first + i] = (uint8_t)prot;
	}
}

static void do_munmap(struct ktest *t, struct fake_proc *p, struct model *m, struct prng *r)
{
	const struct span_of s = pick(r, 800);

	ASSERT_EQ(t, proc_munmap(p, va(s.first), (uint64_t)s.nr * PAGE_SIZE), 0);
	model_clear(m, s);
}

static void do_mprotect(struct ktest *t, struct fake_proc *p, struct model *m, struct prng *r)
{
	static const uint32_t prots[] = { 0, PM_PROT_READ, RW, RW | PM_PROT_EXEC };
	const struct span_of s = pick(r, 600);
	const uint32_t prot = prots[prng_below(r, ARRAY_SIZE(prots))];
	const int err = proc_mprotect(p, va(s.first), (uint64_t)s.nr * PAGE_SIZE, prot);

	uint32_t whole = 0;

	while (whole < s.nr && all(m, (struct span_of){ .first = s.first + whole, .nr = 1 }, true))
		whole++;
	/* The pages before a hole have changed. */
	ASSERT_EQ(t, err, whole == s.nr ? 0 : -ENOMEM);
	for (uint32_t i = 0; i < whole; i++)
		m->prot[s.first + i] = (uint8_t)prot;
}

/* mremap to a fixed place within the window. */
static void do_mremap(struct ktest *t, struct fake_proc *p, struct model *m, struct prng *r)
{
	const struct span_of from = pick(r, 700);
	struct span_of to = pick(r, 1);
	uint64_t now;
	int err;

	to.nr = 1 + (uint32_t)prng_below(r, 900);
	if (to.first + to.nr > MODEL_PAGES)
		return;
	err = proc_mremap(p, va(from.first), (uint64_t)from.nr * PAGE_SIZE,
			  (uint64_t)to.nr * PAGE_SIZE, PM_MREMAP_MAYMOVE | PM_MREMAP_FIXED,
			  va(to.first), &now);
	for (uint32_t i = 1; i < from.nr && err != -EFAULT; i++)
		if (m->prot[from.first + i] != m->prot[from.first])
			ASSERT_TRUE(t, err);
	if (!all(m, from, true))
		EXPECT_EQ(t, err, -EFAULT);
	if (err) {
		EXPECT_TRUE(t, err == -EFAULT || err == -EINVAL);
		return;
	}
	EXPECT_EQ(t, now, va(to.first));
	model_clear(m, to);
	for (uint32_t i = 0; i < to.nr; i++) {
		m->mapped[to.first + i] = true;
		m->prot[to.first + i] = m->prot[from.first];
		m->value[to.first + i] = i < from.nr ? m->value[from.first + i] : 0;
	}
	model_clear(m, from);
}

static void do_resize(struct ktest *t, struct fake_proc *p, struct model *m, struct prng *r)
{
	const struct span_of s = pick(r, 300);
	const uint32_t nr = 1 + (uint32_t)prng_below(r, 400);
	const struct span_of tail = { s.first + s.nr, nr > s.nr ? nr - s.nr : 0 };
	const struct span_of cut = { s.first + nr, nr < s.nr ? s.nr - nr : 0 };
	uint64_t now;
	int err;

	if (tail.first + tail.nr > MODEL_PAGES)
		return;
	err = proc_mremap(p, va(s.first), (uint64_t)s.nr * PAGE_SIZE, (uint64_t)nr * PAGE_SIZE, 0,
			  0, &now);
	if (!all(m, s, true)) {
		EXPECT_EQ(t, err, -EFAULT);
		return;
	}
	if (err == -EFAULT) /* more than one vma */
		return;
	if (!all(m, tail, false)) {
		EXPECT_EQ(t, err, -ENOMEM);
		return;
	}
	ASSERT_EQ(t, err, 0);
	model_clear(m, cut);
	for (uint32_t i = 0; i < tail.nr; i++) {
		m->mapped[tail.first + i] = true;
		m->prot[tail.first + i] = m->prot[s.first];
	}
}

static void do_write(struct ktest *t, struct fake_proc *p, struct model *m, struct prng *r)
{
	const uint32_t pg = (uint32_t)prng_below(r, MODEL_PAGES);

	page_stamp(page, ++m->next);
	if (!m->mapped[pg]) {
		const int err = proc_writeback(p, va(pg), page);

		EXPECT_TRUE(t, err == -EFAULT || err == -ESRCH); /* the region may be gone, too */
		return;
	}
	ASSERT_EQ(t, proc_writeback(p, va(pg), page), 0);
	m->value[pg] = m->next;
}

static void check_page(struct ktest *t, struct fake_proc *p, const struct model *m, uint32_t pg,
		       bool write)
{
	const int got = proc_fetch(p, va(pg), write, page);

	if (!m->mapped[pg]) {
		EXPECT_TRUE(t, got == -EFAULT || got == -ESRCH);
	} else if (!m->prot[pg] || (write && !(m->prot[pg] & PM_PROT_WRITE))) {
		EXPECT_EQ(t, got, -EACCES);
	} else if (!m->value[pg]) {
		EXPECT_EQ(t, got, PM_FETCH_ZERO);
	} else {
		ASSERT_EQ(t, got, PM_FETCH_DATA);
		EXPECT_EQ(t, page_value(page), m->value[pg]);
	}
}

static void do_move(struct ktest *t, struct fake_proc *p, struct prng *r)
{
	const uint64_t index = (MODEL_BASE >> SHIFT_2M) + prng_below(r, MODEL_PAGES / 512);
	const uint32_t to = FAKE_MEM_FIRST + (uint32_t)prng_below(r, p->f->nr_mem);
	const int err = home_move_vregion(fake_node(p->f, p->home), p->aspace, index, to);

	EXPECT_TRUE(t, err == 0 || err == -ENOENT || err == -EALREADY);
}

static uint64_t model_written(const struct model *m)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < MODEL_PAGES; i++)
		n += m->value[i] != 0;
	return n;
}

/* The frames of a node are the pages that its processors have there, each once. */
static void check_counts_once(struct ktest *t, struct fake *f)
{
	struct pool_stats s;

	for (size_t i = 0; i < f->nr_mem; i++) {
		pool_stats(&f->mem[i].pool, &s);
		EXPECT_EQ(t, owner_pages_of(&f->mem[i], FAKE_PROC), s.used);
	}
}

static void model_run(struct ktest *t, uint64_t seed, int ops, size_t nr_mem)
{
	const uint32_t home = FAKE_MEM_FIRST + (uint32_t)(seed % nr_mem);
	struct model *m = calloc(1, sizeof(*m));
	struct fake_proc p;
	struct prng r;
	struct fake f;

	prng_seed(&r, seed);
	fake_start(&f, nr_mem, 16384, SHIFT_2M);
	proc_init(&p, &f, FAKE_SPACE(home, 3), home);
	EXPECT_EQ(t, proc_space(&p), 0);
	for (int i = 0; i < ops && !t->nr_failed; i++) {
		switch (prng_below(&r, 16)) {
		case 0:
		case 1:
			do_mmap(t, &p, m, &r);
			break;
		case 2:
			do_munmap(t, &p, m, &r);
			break;
		case 3:
			do_mprotect(t, &p, m, &r);
			break;
		case 4:
			do_mremap(t, &p, m, &r);
			break;
		case 5:
			do_resize(t, &p, m, &r);
			break;
		case 6:
			do_move(t, &p, &r);
			break;
		case 7:
		case 8:
		case 9:
			check_page(t, &p, m, (uint32_t)prng_below(&r, MODEL_PAGES),
				   prng_below(&r, 2));
			break;
		default:
			do_write(t, &p, m, &r);
			break;
		}
		check_counts_once(t, &f);
	}
	for (uint32_t i = 0; i < MODEL_PAGES && !t->nr_failed; i++)
		check_page(t, &p, m, i, false);
	EXPECT_EQ(t, total_used(&f), model_written(m));
	if (t->nr_failed)
		fprintf(stderr, "seed %lu, %zu memory nodes\n", (unsigned long)seed, nr_mem);
	EXPECT_TRUE(t, space_stop(&f, &p));
	free(m);
}

static void random_ops_match_the_model(struct ktest *t)
{
	for (uint64_t seed = 1; seed <= 6 && !t->nr_failed; seed++)
		model_run(t, seed, 1500, 1 + seed % 3);
}

/* --- memory that fails ----------------------------------------------------------------- */

/* Each allocation fails in turn: the call happens whole or not at all, and nothing is lost. */
static void allocation_failures_change_nothing(struct ktest *t)
{
	struct fake f;
	struct fake_proc p;
	uint64_t addr, now;
	int err = 0;

	ASSERT_TRUE(t, space_start(&f, &p, 2, 4096, SHIFT_2M));
	for (long n = 0; n < 60; n++) {
		struct pool_stats s[2];

		shim_fail_alloc_after(n);
		err = proc_mmap(&p, FIXED_AT, 6 * MB, RW, PM_MAP_FIXED_NOREPLACE, &addr);
		shim_fail_alloc_after(-1);
		if (!err)
			break;
		EXPECT_EQ(t, err, -ENOMEM);
		for (int i = 0; i < 2; i++) {
			pool_stats(&f.mem[i].pool, &s[i]);
			EXPECT_EQ(t, s[i].committed, 0);
			EXPECT_EQ(t, f.mem[i].owner.nr_regions, 0);
		}
	}
	ASSERT_EQ(t, err, 0);
	page_stamp(page, 5);
	ASSERT_EQ(t, proc_writeback(&p, FIXED_AT + 4 * MB, page), 0);
	for (long n = 0; n < 60; n++) {
		shim_fail_alloc_after(n);
		err = proc_munmap(&p, FIXED_AT + MB, 2 * MB);
		shim_fail_alloc_after(-1);
		if (!err)
			break;
		EXPECT_EQ(t, err, -ENOMEM);
		EXPECT_EQ(t, proc_fetch(&p, FIXED_AT + MB, true, page), PM_FETCH_ZERO);
		EXPECT_EQ(t, proc_fetch(&p, FIXED_AT + 3 * MB - PAGE_SIZE, true, page),
			  PM_FETCH_ZERO);
	}
	ASSERT_EQ(t, err, 0);
	for (long n = 0; n < 90; n++) {
		shim_fail_alloc_after(n);
		err = proc_mremap(&p, FIXED_AT + 3 * MB, 3 * MB, 5 * MB,
				  PM_MREMAP_MAYMOVE | PM_MREMAP_FIXED, FIXED_AT + 16 * MB, &now);
		shim_fail_alloc_after(-1);
		if (!err)
			break;
		/* An attempt that could not be undone has left a mapping to be replaced. */
		EXPECT_TRUE(t, err == -ENOMEM || err == -EIDRM);
		EXPECT_EQ(t, proc_fetch(&p, FIXED_AT + 4 * MB, true, page), PM_FETCH_DATA);
		EXPECT_EQ(t, page_value(page), 5);
	}
	ASSERT_EQ(t, err, 0);
	EXPECT_EQ(t, proc_fetch(&p, FIXED_AT + 17 * MB, true, page), PM_FETCH_DATA);
	EXPECT_TRUE(t, space_stop(&f, &p));
}

/* --- threads --------------------------------------------------------------------------- */

#define RACE_PAGES   256u
#define RACE_THREADS 3u

struct race {
	struct fake f;
	struct fake_proc p[RACE_THREADS];
	uint64_t seq; /* atomic: one processor */
	bool stop;    /* atomic */
	uint64_t bad; /* atomic */
};

struct racer {
	struct race *race;
	uint32_t id;
};

/* Each thread has its own pages and must always read back what it wrote last. */
static void race_thread(void *arg)
{
	const struct racer *me = arg;
	struct race *race = me->race;
	struct fake_proc *p = &race->p[me->id];
	uint8_t *buf = malloc(PAGE_SIZE);
	uint64_t value[RACE_PAGES] = { 0 };
	struct prng r;

	prng_seed(&r, me->id + 1);
	for (uint64_t n = 1; !__atomic_load_n(&race->stop, __ATOMIC_RELAXED); n++) {
		const uint64_t i = prng_below(&r, RACE_PAGES);
		const uint64_t at = FIXED_AT + (i * RACE_THREADS + me->id) * PAGE_SIZE;
		int res;

		if (prng_below(&r, 2)) {
			page_stamp(buf, n);
			res = proc_writeback(p, at, buf);
			value[i] = n;
			if (res)
				__atomic_fetch_add(&race->bad, 1, __ATOMIC_RELAXED);
			continue;
		}
		res = proc_fetch(p, at, true, buf);
		if (res != (value[i] ? PM_FETCH_DATA : PM_FETCH_ZERO) ||
		    (value[i] && page_value(buf) != value[i]))
			__atomic_fetch_add(&race->bad, 1, __ATOMIC_RELAXED);
	}
	free(buf);
}

static void faults_race_with_moves(struct ktest *t)
{
	struct race *race = calloc(1, sizeof(*race));
	struct racer racers[RACE_THREADS];
	struct thread *threads[RACE_THREADS];
	uint64_t addr;

	fake_start(&race->f, 2, 4096, SHIFT_2M);
	for (uint32_t i = 0; i < RACE_THREADS; i++)
		proc_init(&race->p[i], &race->f, FAKE_ASPACE(1), FAKE_MEM_FIRST);
	ASSERT_EQ(t, proc_space(&race->p[0]), 0);
	ASSERT_EQ(t, proc_mmap(&race->p[0], FIXED_AT, 4 * MB, RW, PM_MAP_FIXED, &addr), 0);
	for (uint32_t i = 0; i < RACE_THREADS; i++) {
		EXPECT_EQ(t, proc_refresh(&race->p[i], FIXED_AT), 0);
		EXPECT_EQ(t, proc_refresh(&race->p[i], FIXED_AT + 2 * MB), 0);
		racers[i] = (struct racer){ race, i };
		threads[i] = thread_create("racer", race_thread, &racers[i]);
		ASSERT_FALSE(t, IS_ERR(threads[i]));
	}
	for (uint32_t i = 0; i < 60; i++) {
		const uint64_t index = (FIXED_AT >> SHIFT_2M) + i % 2;
		const uint32_t to = FAKE_MEM_FIRST + (i / 2) % 2;
		const int err = home_move_vregion(&race->f.mem[0], race->p[0].aspace, index, to);

		EXPECT_TRUE(t, err == 0 || err == -EALREADY);
		thread_sleep_ns(1000 * 1000);
	}
	__atomic_store_n(&race->stop, true, __ATOMIC_RELAXED);
	for (uint32_t i = 0; i < RACE_THREADS; i++)
		thread_join(threads[i]);
	EXPECT_EQ(t, race->bad, 0);
	EXPECT_GT(t, race->f.mem[0].stats.vregion_moves, 10);
	EXPECT_EQ(t, proc_destroy(&race->p[0]), 0);
	for (uint32_t i = 0; i < RACE_THREADS; i++)
		proc_done(&race->p[i]);
	EXPECT_TRUE(t, fake_stop(&race->f));
	free(race);
}

/* Only the home of a space commands it at its owners, whatever else is a memory node. */
static void another_memory_node_commands_no_space(struct ktest *t)
{
	const uint32_t home = FAKE_MEM_FIRST, other = FAKE_MEM_FIRST + 1;
	struct mm_range_req range = { .aspace = FAKE_ASPACE(1), .addr = FIXED_AT, .len = 2 * MB };
	struct mm_fork_req fork = { .aspace = FAKE_ASPACE(7),
				    .parent = FAKE_ASPACE(8),
				    .child = FAKE_ASPACE(1),
				    .phase = MM_ABORT };
	struct mm_range_rep_wire reply;
	struct mm_range_req_wire rw;
	struct mm_fork_req_wire fw;
	struct pm_destroy_req_wire dw;
	struct fake_proc p;
	struct memory *m;
	struct fake f;
	uint64_t addr;

	fake_start(&f, 2, 4096, SHIFT_2M);
	m = &f.mem[0];
	proc_init(&p, &f, range.aspace, home);
	ASSERT_EQ(t, proc_space(&p), 0);
	ASSERT_EQ(t, proc_mmap(&p, FIXED_AT, 2 * MB, RW, PM_MAP_FIXED, &addr), 0);
	page_stamp(page, 1);
	ASSERT_EQ(t, proc_writeback(&p, addr, page), 0);
	ASSERT_EQ(t, owner_has_space(m, range.aspace), true);

	mm_range_req_encode(&range, &rw);
	EXPECT_EQ(t,
		  memory_serve(m, other, MM_PROTECT, &rw, sizeof(rw), NULL, 0, &reply,
			       sizeof(reply), NULL),
		  -EPERM);
	EXPECT_EQ(t,
		  memory_serve(m, other, MM_UNMAP, &rw, sizeof(rw), NULL, 0, &reply, sizeof(reply),
			       NULL),
		  -EPERM);
	mm_fork_req_encode(&fork, &fw); /* its end would destroy the child */
	EXPECT_EQ(t,
		  memory_serve(m, other, MM_FORK, &fw, sizeof(fw), NULL, 0, &reply, sizeof(reply),
			       NULL),
		  -EPERM);
	pm_destroy_req_encode(range.aspace, &dw);
	EXPECT_EQ(t,
		  memory_serve(m, other, MM_DESTROY, &dw, sizeof(dw), NULL, 0, &reply,
			       sizeof(reply), NULL),
		  -EPERM);
	EXPECT_EQ(t, m->stats.not_home, 4);
	EXPECT_EQ(t, proc_fetch(&p, addr, true, page), PM_FETCH_DATA);
	EXPECT_EQ(t, page_value(page), 1);
	EXPECT_TRUE(t, space_stop(&f, &p));
}

static bool region_is_here(struct memory *m, uint64_t aspace, uint64_t vaddr)
{
	struct region *r = region_get(m, aspace, vaddr);

	if (r)
		region_put(r);
	return r != NULL;
}

/* The first request that makes a part of a space at an owner comes from its home. */
static void another_node_introduces_no_space(struct ktest *t)
{
	const uint32_t home = FAKE_MEM_FIRST, other = FAKE_MEM_FIRST + 1;
	struct mm_map_req map = { .aspace = FAKE_SPACE(home, 1),
				  .vma = { .start = 0, .end = PAGE_SIZE, .prot = PM_PROT_READ },
				  .phase = MM_ONCE,
				  .nr_vregions = 1,
				  .vregion_shift = SHIFT_2M,
				  .processor = FAKE_PROC,
				  .vnode = PROTO_VNODE_ROOT,
				  .vregions = { { 0, 1 } } };
	struct mm_load_req load = { .aspace = map.aspace,
				    .vregion_shift = SHIFT_2M,
				    .nr_vmas = 1,
				    .nr_vregions = 1,
				    .processor = FAKE_PROC,
				    .vnode = PROTO_VNODE_ROOT,
				    .vmas = { map.vma },
				    .vregions = { { 0, 1 } } };
	const struct mm_expect_req expect = { .aspace = map.aspace,
					      .from = other,
					      .processor = FAKE_PROC,
					      .vnode = PROTO_VNODE_ROOT };
	const struct mm_vregion_take_req take = { .aspace = map.aspace,
						  .vregion = { 0, FAKE_MEM_FIRST + 2, 0, 2 },
						  .stage = MM_TAKE_BEGIN,
						  .vregion_shift = SHIFT_2M,
						  .home = home,
						  .processor = FAKE_PROC,
						  .vnode = PROTO_VNODE_ROOT };
	struct mm_expect_req_wire ew;
	struct mm_range_rep_wire reply;
	static uint8_t body[4096];
	struct memory *m;
	struct fake f;
	ssize_t len;

	fake_start(&f, 3, 4096, SHIFT_2M);
	m = &f.mem[2];
	len = mm_map_req_encode(&map, body, sizeof(body));
	EXPECT_EQ(t,
		  memory_serve(m, other, MM_MAP, body, (uint32_t)len, NULL, 0, &reply,
			       sizeof(reply), NULL),
		  -EPERM);
	len = mm_load_req_encode(&load, body, sizeof(body));
	EXPECT_EQ(t,
		  memory_serve(m, other, MM_LOAD, body, (uint32_t)len, NULL, 0, &reply,
			       sizeof(reply), NULL),
		  -EPERM);
	mm_expect_req_encode(&expect, &ew);
	EXPECT_EQ(t, memory_serve(m, other, MM_EXPECT, &ew, sizeof(ew), NULL, 0, NULL, 0, NULL),
		  -EPERM);
	len = mm_vregion_take_req_encode(&take, body, sizeof(body));
	EXPECT_EQ(t,
		  memory_serve(m, other, MM_VREGION_TAKE, body, (uint32_t)len, NULL, 0, NULL, 0,
			       NULL),
		  -EPERM);
	EXPECT_EQ(t, m->stats.not_home, 4);
	EXPECT_FALSE(t, owner_has_space(m, map.aspace));
	/* The home may, and from then on takes place what it has told. */
	EXPECT_EQ(t, memory_serve(m, home, MM_EXPECT, &ew, sizeof(ew), NULL, 0, NULL, 0, NULL), 0);
	EXPECT_EQ(
		t,
		memory_serve(m, home, MM_VREGION_TAKE, body, (uint32_t)len, NULL, 0, NULL, 0, NULL),
		-EPERM);
	EXPECT_EQ(t,
		  memory_serve(m, other, MM_VREGION_TAKE, body, (uint32_t)len, NULL, 0, NULL, 0,
			       NULL),
		  0);
	owner_destroy_space(m, map.aspace);
	EXPECT_TRUE(t, fake_stop(&f));
}

/* A vma that is handed over lies in its vRegion, whatever has decoded the message. */
static void a_vma_that_moves_stays_in_its_vregion(struct ktest *t)
{
	const struct pm_vma outside[] = {
		{ .start = 4 * MB - PAGE_SIZE, .end = 4 * MB + PAGE_SIZE, .prot = RW },
		{ .start = 6 * MB - PAGE_SIZE, .end = 6 * MB + PAGE_SIZE, .prot = RW },
		{ .start = 0, .end = PAGE_SIZE, .prot = RW },
		{ .start = 8 * MB, .end = 8 * MB + PAGE_SIZE, .prot = RW },
	};
	struct mm_vregion_take_req *take = calloc(1, sizeof(*take));
	const uint32_t home = FAKE_MEM_FIRST, from = FAKE_MEM_FIRST + 1;
	const struct mm_expect_req expect = { .aspace = FAKE_ASPACE(1),
					      .from = from,
					      .processor = FAKE_PROC,
					      .vnode = PROTO_VNODE_ROOT };
	struct owner_counts counts;
	struct memory *m;
	struct fake f;

	fake_start(&f, 2, 4096, SHIFT_2M);
	m = &f.mem[0];
	ASSERT_EQ(t, owner_expect(m, (struct home_id){ home, 0 }, &expect), 0);
	take->aspace = expect.aspace;
	take->vregion = (struct pm_vregion){ .index = 2, .owner = home, .version = 2 };
	take->vregion_shift = SHIFT_2M;
	take->home = home;
	take->processor = FAKE_PROC;
	take->vnode = PROTO_VNODE_ROOT;
	take->stage = MM_TAKE_BEGIN;
	ASSERT_EQ(t, owner_vregion_take(m, from, take), 0);
	take->stage = MM_TAKE_VMAS;
	take->nr_vmas = 1;
	for (size_t i = 0; i < ARRAY_SIZE(outside); i++) {
		take->vmas[0] = outside[i];
		EXPECT_EQ(t, owner_vregion_take(m, from, take), -EPROTO);
	}
	owner_counts(m, &counts);
	EXPECT_EQ(t, counts.areas, 0);
	take->vmas[0] = (struct pm_vma){ .start = 4 * MB, .end = 6 * MB, .prot = RW };
	EXPECT_EQ(t, owner_vregion_take(m, from, take), 0);
	owner_counts(m, &counts);
	EXPECT_EQ(t, counts.areas, 1);
	owner_destroy_space(m, expect.aspace);
	EXPECT_TRUE(t, fake_stop(&f));
	free(take);
}

/* Pages come from the owner only that the home has named, and only until it says otherwise. */
static void pages_come_from_the_owner_named(struct ktest *t)
{
	const uint32_t home = FAKE_MEM_FIRST, other = FAKE_MEM_FIRST + 1;
	struct mm_pages_req req = { .aspace = FAKE_ASPACE(1), .nr_pages = 1 };
	struct mm_expect_req expect = { .aspace = req.aspace,
					.processor = FAKE_PROC,
					.vnode = PROTO_VNODE_ROOT };
	struct mm_expect_req_wire ew;
	static uint8_t body[128];
	struct fake_proc p;
	struct memory *m;
	struct fake f;
	uint64_t addr, to;
	ssize_t len;

	fake_start(&f, 2, 4096, SHIFT_2M);
	m = &f.mem[0];
	proc_init(&p, &f, req.aspace, home);
	ASSERT_EQ(t, proc_space(&p), 0);
	ASSERT_EQ(t, proc_mmap(&p, FIXED_AT, 4 * MB, RW, PM_MAP_FIXED, &addr), 0);
	if (!region_is_here(m, req.aspace, addr))
		addr += 2 * MB;
	page_stamp(page, 1);
	ASSERT_EQ(t, proc_writeback(&p, addr, page), 0);
	req.pages[0] = (struct pm_writeback_page){ .vaddr = addr, .seq = 1000 };
	len = mm_pages_req_encode(&req, body, sizeof(body));
	page_stamp(page, 2);
	for (uint32_t round = 0; round < 2; round++) {
		EXPECT_EQ(t,
			  memory_serve(m, other, MM_PAGES, body, (uint32_t)len, page, PAGE_SIZE,
				       NULL, 0, NULL),
			  -EPERM);
		EXPECT_EQ(t, m->stats.not_home, round + 1);
		expect.from = round ? 0 : other;
		mm_expect_req_encode(&expect, &ew);
		EXPECT_EQ(t,
			  memory_serve(m, home, MM_EXPECT, &ew, sizeof(ew), NULL, 0, NULL, 0, NULL),
			  0);
		expect.from = 0;
		mm_expect_req_encode(&expect, &ew);
		EXPECT_EQ(t,
			  memory_serve(m, home, MM_EXPECT, &ew, sizeof(ew), NULL, 0, NULL, 0, NULL),
			  0);
	}
	EXPECT_EQ(t, proc_fetch(&p, addr, true, page), PM_FETCH_DATA);
	EXPECT_EQ(t, page_value(page), 1);
	/* Nothing that the calls of the home have announced outlasts them. */
	ASSERT_EQ(t,
		  proc_mremap(&p, FIXED_AT, 4 * MB, 4 * MB, PM_MREMAP_MAYMOVE | PM_MREMAP_FIXED,
			      FIXED_AT + 10 * MB, &to),
		  0);
	EXPECT_EQ(t, proc_fetch(&p, to + (addr - FIXED_AT), true, page), PM_FETCH_DATA);
	EXPECT_EQ(t, page_value(page), 1);
	for (size_t i = 0; i < 2; i++)
		for (uint32_t node = home; node <= other; node++)
			EXPECT_NE(t, owner_masters(&f.mem[i], req.aspace).source, node);
	EXPECT_TRUE(t, space_stop(&f, &p));
}

/*
 * A fetch that its processor has given up is still being served, and its victim is of an address to
 * which another page has been moved since. Here and at another owner.
 */
static void an_old_victim_does_not_replace_a_moved_page(struct ktest *t)
{
	struct fake f;
	struct fake_proc p;
	uint64_t from, to;
	uint32_t nr_here = 0;

	ASSERT_TRUE(t, space_start(&f, &p, 2, 4096, SHIFT_2M));
	ASSERT_EQ(t, proc_mmap(&p, FIXED_AT, 8 * MB, RW, PM_MAP_FIXED, &from), 0);
	for (uint32_t i = 0; i < 4; i++) {
		struct pm_fetch_req req = { .aspace = FAKE_ASPACE(1),
					    .flags = PM_FETCH_VICTIM,
					    .victim_aspace = FAKE_ASPACE(1) };
		struct memory *m = &f.mem[0];
		struct pm_vregion redirect;
		struct pm_fetch_rep rep;
		struct mpage *sent;

		to = FIXED_AT + 16 * MB + i * 2 * MB;
		ASSERT_EQ(t, proc_mmap(&p, to, MB, RW, PM_MAP_FIXED, &to), 0);
		page_stamp(page, 1);
		ASSERT_EQ(t, proc_writeback(&p, to, page), 0);
		req.victim_seq = f.seq;
		ASSERT_EQ(t, proc_munmap(&p, to, MB), 0);
		page_stamp(page, 2);
		ASSERT_EQ(t, proc_writeback(&p, from, page), 0);
		ASSERT_EQ(
			t,
			proc_mremap(&p, from, MB, MB, PM_MREMAP_MAYMOVE | PM_MREMAP_FIXED, to, &to),
			0);
		ASSERT_EQ(t, proc_mmap(&p, from, MB, RW, PM_MAP_FIXED, &from), 0);
		if (!region_is_here(m, p.aspace, to))
			m = &f.mem[1];
		nr_here += region_is_here(m, p.aspace, from);
		req.vaddr = req.victim_vaddr = to;
		page_stamp(page, 1);
		EXPECT_EQ(
			t,
			owner_fetch(m, FAKE_PROC, &req, page, false, &rep, &sent, &redirect, NULL),
			0);
		if (rep.result == PM_FETCH_DATA)
			mpage_put(&m->pool, sent);
		EXPECT_EQ(t, proc_fetch(&p, to, false, page), PM_FETCH_DATA);
		EXPECT_EQ(t, page_value(page), 2);
		/* A newer one does. */
		page_stamp(page, 3);
		ASSERT_EQ(t, proc_writeback(&p, to, page), 0);
		EXPECT_EQ(t, proc_fetch(&p, to, false, page), PM_FETCH_DATA);
		EXPECT_EQ(t, page_value(page), 3);
	}
	EXPECT_TRUE(t, nr_here > 0 && nr_here < 4);
	EXPECT_TRUE(t, space_stop(&f, &p));
}

#define OTHERS(n) FAKE_SPACE_BY(FAKE_PROC + 1, FAKE_MEM_FIRST, n)

/* Only the processor that its home knows may use a space. */
static void a_space_is_one_processors(struct ktest *t)
{
	struct fake_proc p, q, parent, child;
	struct pm_vma v;
	struct fake f;
	uint64_t addr, brk;

	fake_start(&f, 2, 4096, SHIFT_2M);
	proc_init(&p, &f, OTHERS(1), FAKE_MEM_FIRST);
	p.proc = FAKE_PROC + 1;
	ASSERT_EQ(t, proc_space(&p), 0);
	ASSERT_EQ(t, proc_mmap(&p, FIXED_AT, 4 * MB, RW, PM_MAP_FIXED, &addr), 0);
	for (uint32_t i = 0; i < 2; i++) {
		page_stamp(page, 1 + i);
		ASSERT_EQ(t, proc_writeback(&p, addr + i * 2 * MB, page), 0);
	}
	/* Another one knows all that this one knows. */
	q = p;
	q.proc = FAKE_PROC;
	proc_init(&parent, &f, OTHERS(2), FAKE_MEM_FIRST);
	proc_init(&child, &f, OTHERS(3), FAKE_MEM_FIRST);
	for (uint32_t i = 0; i < 2; i++) {
		EXPECT_EQ(t, proc_fetch(&q, addr + i * 2 * MB, true, page), -ESRCH);
		page_stamp(page, 9);
		EXPECT_EQ(t, proc_writeback(&q, addr + i * 2 * MB, page), -ESRCH);
		EXPECT_EQ(t, proc_fill_vma(&q, addr + i * 2 * MB, &v), -ESRCH);
	}
	EXPECT_EQ(t, proc_mmap(&q, 0, MB, RW, 0, &addr), -ESRCH);
	EXPECT_EQ(t, proc_munmap(&q, FIXED_AT, 4 * MB), -ESRCH);
	EXPECT_EQ(t, proc_mprotect(&q, FIXED_AT, 4 * MB, 0), -ESRCH);
	EXPECT_EQ(t, proc_brk(&q, 0, &brk), -ESRCH);
	EXPECT_EQ(t, proc_fork(&q, &parent, &child), -ESRCH);
	EXPECT_EQ(t, proc_refresh(&q, FIXED_AT), -ESRCH);
	EXPECT_EQ(t, proc_destroy(&q), 0); /* as of one that is not there */
	/* Its end takes nothing along. */
	memory_processor_gone(&f.mem[0], FAKE_PROC);
	memory_processor_gone(&f.mem[1], FAKE_PROC);
	for (uint32_t i = 0; i < 2; i++) {
		EXPECT_EQ(t, proc_fetch(&p, FIXED_AT + i * 2 * MB, true, page), PM_FETCH_DATA);
		EXPECT_EQ(t, page_value(page), 1 + i);
	}
	/* A fork's spaces are the same one's. */
	parent.proc = child.proc = p.proc;
	ASSERT_EQ(t, proc_fork(&p, &parent, &child), 0);
	EXPECT_EQ(t, proc_mmap(&child, 0, MB, RW, 0, &addr), 0);
	memory_processor_gone(&f.mem[0], p.proc);
	memory_processor_gone(&f.mem[1], p.proc);
	for (size_t i = 0; i < 2; i++)
		EXPECT_EQ(t, f.mem[i].owner.nr_spaces, 0);
	EXPECT_EQ(t, f.mem[0].home.nr_spaces, 0);
	proc_done(&p);
	proc_done(&parent);
	proc_done(&child);
	EXPECT_TRUE(t, fake_stop(&f));
}

static const struct ktest_case cases[] = {
	KTEST(another_node_introduces_no_space),
	KTEST(a_vma_that_moves_stays_in_its_vregion),
	KTEST(pages_come_from_the_owner_named),
	KTEST(an_old_victim_does_not_replace_a_moved_page),
	KTEST(a_space_is_one_processors),
	KTEST(range_over_two_owners),
	KTEST(unmapped_and_unknown_are_different_answers),
	KTEST(a_vregion_outlives_its_owner),
	KTEST(moving_an_owner_counts_one_redirect),
	KTEST(failed_move_leaves_the_old_owner),
	KTEST(lost_answer_of_a_move_is_settled),
	KTEST(shortage_is_all_or_nothing),
	KTEST(a_mapping_that_goes_for_nothing_is_told_apart),
	KTEST(half_a_change_is_no_refusal),
	KTEST(peer_spends_only_what_is_prepared),
	KTEST(another_memory_node_commands_no_space),
	KTEST(a_late_home_makes_nothing),
	KTEST(an_apply_charges_what_is_there),
	KTEST(a_dead_child_gets_no_areas),
	KTEST(the_end_of_a_processor_waits_for_no_node),
	KTEST(a_late_fork_makes_no_space),
	KTEST(one_processor_does_not_fill_a_home),
	KTEST(forks_fill_no_node),
	KTEST(a_full_account_gives_back),
	KTEST(a_phantom_gets_no_frames),
	KTEST(phantoms_share_one_part),
	KTEST(names_are_their_makers),
	KTEST(credits_promise_frames),
	KTEST(promised_frames_do_not_wait_for_storage),
	KTEST(old_writeback_is_dropped),
	KTEST(zeroes_come_without_data),
	KTEST(victim_rides_on_the_fetch),
	KTEST(pages_ahead_come_if_they_are_there),
	KTEST(growing_mapping_rarely_moves),
	KTEST(random_ops_match_the_model),
	KTEST(allocation_failures_change_nothing),
	KTEST(faults_race_with_moves),
	{ 0 },
};
static const struct ktest_suite suite = { .name = "memory.spaces", .cases = cases };
KTEST_SUITE(suite);
