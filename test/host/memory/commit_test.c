/* SPDX-License-Identifier: MIT */
/*
 * Commitment in a cluster: what each mode refuses, how nodes come to one policy, and that the
 * accounts add up whatever the modes are.
 */
#include <lib/alloc.h>
#include <lib/errno.h>
#include <lib/ktest.h>
#include <lib/prng.h>

#include "fixture.h"

#define FIXED_AT 0x20000000ull

/* The @count'th version of FAKE_PROC. */
static uint64_t version(uint64_t count)
{
	return count << PM_COMMIT_NODE_BITS | FAKE_PROC;
}

/* Send @policy to @node as processor @peer does; returns what holds there. */
static struct pm_commit tell_as(struct ktest *t, struct fake *f, uint32_t peer, uint32_t node,
				struct pm_commit policy)
{
	struct pm_commit_wire w, rw;
	struct pm_commit now = { 0 };

	pm_commit_encode(&policy, &w);
	EXPECT_EQ(t,
		  memory_serve(fake_node(f, node), peer, PM_COMMIT, &w, sizeof(w), NULL, 0, &rw,
			       sizeof(rw), NULL),
		  (int)sizeof(rw));
	EXPECT_EQ(t, pm_commit_decode(&rw, sizeof(rw), &now), 0);
	return now;
}

static struct pm_commit tell(struct ktest *t, struct fake *f, uint32_t node,
			     struct pm_commit policy)
{
	return tell_as(t, f, FAKE_PROC, node, policy);
}

/* All nodes get @mode. */
static void set_mode(struct ktest *t, struct fake *f, uint64_t count, uint32_t mode)
{
	const struct pm_commit policy = { .version = version(count), .mode = mode, .ratio = 100 };

	for (uint32_t i = 0; i < f->nr_mem; i++)
		EXPECT_EQ(t, tell(t, f, FAKE_MEM_FIRST + i, policy).mode, mode);
}

static uint64_t committed(struct fake *f)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < f->nr_mem; i++) {
		struct pool_stats s;

		pool_stats(&f->mem[i].pool, &s);
		sum += s.committed;
	}
	return sum;
}

/* 1024 frames a node, of which 960 are for programs. */
static void start(struct ktest *t, struct fake *f, struct fake_proc *p, size_t nr)
{
	fake_start(f, nr, 1024, SHIFT_2M);
	proc_init(p, f, FAKE_ASPACE(1), FAKE_MEM_FIRST);
	ASSERT_EQ(t, proc_space(p), 0);
}

static void stop(struct ktest *t, struct fake *f, struct fake_proc *p)
{
	EXPECT_EQ(t, proc_destroy(p), 0);
	proc_done(p);
	EXPECT_EQ(t, committed(f), 0);
	EXPECT_TRUE(t, fake_stop(f));
}

static void fork_of_more_than_half(struct ktest *t)
{
	static const int answers[] = { [PM_COMMIT_HEURISTIC] = 0,
				       [PM_COMMIT_ALWAYS] = 0,
				       [PM_COMMIT_STRICT] = -ENOMEM };

	for (uint32_t mode = 0; mode < PM_COMMIT_MODES; mode++) {
		struct fake_proc p, parent, child;
		struct fake f;
		uint64_t addr;

		start(t, &f, &p, 1);
		set_mode(t, &f, 1, mode);
		ASSERT_EQ(t, proc_mmap(&p, FIXED_AT, 3 * MB, RW, PM_MAP_FIXED, &addr), 0);
		proc_init(&parent, &f, FAKE_ASPACE(2), FAKE_MEM_FIRST);
		proc_init(&child, &f, FAKE_ASPACE(3), FAKE_MEM_FIRST);
		EXPECT_EQ(t, proc_fork(&p, &parent, &child), answers[mode]);
		EXPECT_EQ(t, committed(&f), answers[mode] ? 768 : 2 * 768);
		if (!answers[mode]) {
			EXPECT_EQ(t, proc_destroy(&child), 0);
			EXPECT_EQ(t, committed(&f), 768);
			EXPECT_EQ(t, proc_destroy(&parent), 0);
		}
		proc_done(&parent);
		proc_done(&child);
		stop(t, &f, &p);
	}
}

static void heuristic_refuses_what_can_never_be_had(struct ktest *t)
{
	struct fake_proc p;
	struct fake f;
	uint64_t addr;

	start(t, &f, &p, 2);
	set_mode(t, &f, 1, PM_COMMIT_HEURISTIC);
	/* Together they have 1920 frames: 7 MiB can be had, and again, and 8 cannot. */
	EXPECT_EQ(t, proc_mmap(&p, 0, 7 * MB, RW, 0, &addr), 0);
	EXPECT_EQ(t, proc_mmap(&p, 0, 7 * MB, RW, 0, &addr), 0);
	EXPECT_EQ(t, proc_mmap(&p, 0, 8 * MB, RW, 0, &addr), -ENOMEM);
	EXPECT_EQ(t, proc_mmap(&p, FIXED_AT, 8 * MB, PM_PROT_READ, PM_MAP_FIXED, &addr), 0);
	EXPECT_EQ(t, proc_mprotect(&p, FIXED_AT, 8 * MB, RW), -ENOMEM);
	EXPECT_EQ(t, proc_mprotect(&p, FIXED_AT, 7 * MB, RW), 0);
	EXPECT_EQ(t, proc_brk(&p, 0x10000000 + 8 * MB, &addr), 0);
	EXPECT_EQ(t, addr, 0x10000000);
	EXPECT_EQ(t, committed(&f), 3 * 7 * MB / PAGE_SIZE);
	/* Not reserved, or without limit, it may be of any size. */
	EXPECT_EQ(t, proc_mmap(&p, 0, 64 * MB, RW, PM_MAP_NORESERVE, &addr), 0);
	set_mode(t, &f, 2, PM_COMMIT_ALWAYS);
	EXPECT_EQ(t, proc_mmap(&p, 0, 64 * MB, RW, 0, &addr), 0);
	stop(t, &f, &p);
}

/* The home knows what a node has before that is silent, and no mapping asks. */
static void no_mapping_waits_for_a_silent_node(struct ktest *t)
{
	struct fake_proc p;
	struct fake f;
	uint32_t *nodes;
	uint64_t addr;
	size_t nr;

	start(t, &f, &p, 2);
	set_mode(t, &f, 1, PM_COMMIT_HEURISTIC);
	f.fail_opcode = PM_MEMINFO;
	f.fail_error = -ETIMEDOUT;
	EXPECT_EQ(t, proc_mmap(&p, 0, 8 * MB, RW, 0, &addr), -ENOMEM);
	/* One that has never told may have anything. */
	ASSERT_EQ(t, memory_get_nodes(&f.mem[0], &nodes, &nr), 0);
	ASSERT_EQ(t, memory_set_nodes(&f.mem[0], &f.mem[0].node, 1), 0);
	ASSERT_EQ(t, memory_set_nodes(&f.mem[0], nodes, nr), 0);
	EXPECT_TRUE(t, memory_ask_nodes(&f.mem[0]));
	EXPECT_EQ(t, proc_mmap(&p, 0, 8 * MB, RW, 0, &addr), 0);
	f.fail_opcode = 0;
	EXPECT_FALSE(t, memory_ask_nodes(&f.mem[0]));
	EXPECT_EQ(t, proc_mmap(&p, 0, 8 * MB, RW, 0, &addr), -ENOMEM);
	lib_free(nodes);
	stop(t, &f, &p);
}

/* Others get the policy meanwhile, and that node when it answers. */
static void a_silent_node_keeps_no_policy_back(struct ktest *t)
{
	struct pm_commit p = { .version = version(5), .mode = PM_COMMIT_ALWAYS, .ratio = 50 };
	const struct pm_commit ask = { 0 };
	struct fake f;

	fake_start(&f, 3, 1024, SHIFT_2M);
	(void)tell(t, &f, FAKE_MEM_FIRST, p);
	f.fail_opcode = PM_COMMIT;
	f.fail_once = true;
	f.fail_error = -ETIMEDOUT;
	EXPECT_TRUE(t, memory_ask_nodes(&f.mem[0]));
	EXPECT_EQ(t, tell(t, &f, FAKE_MEM_FIRST + 1, ask).mode, PM_COMMIT_STRICT);
	EXPECT_EQ(t, tell(t, &f, FAKE_MEM_FIRST + 2, ask).mode, PM_COMMIT_ALWAYS);
	EXPECT_FALSE(t, memory_ask_nodes(&f.mem[0]));
	EXPECT_EQ(t, tell(t, &f, FAKE_MEM_FIRST + 1, ask).mode, PM_COMMIT_ALWAYS);
	EXPECT_TRUE(t, fake_stop(&f));
}

/* Pages of one vRegion lie on one node. */
static void heuristic_looks_at_one_vregion(struct ktest *t)
{
	struct fake_proc p;
	struct fake f;
	uint64_t addr;

	ASSERT_TRUE(t, space_start(&f, &p, 2, 1024, 23)); /* vRegions of 8 MiB */
	set_mode(t, &f, 1, PM_COMMIT_HEURISTIC);
	EXPECT_EQ(t, proc_mmap(&p, 8 * MB * 100, 4 * MB, RW, PM_MAP_FIXED, &addr), -ENOMEM);
	EXPECT_EQ(t, proc_mmap(&p, 8 * MB * 101 - 2 * MB, 4 * MB, RW, PM_MAP_FIXED, &addr), 0);
	stop(t, &f, &p);
}

static void noreserve_counts_in_the_strict_mode(struct ktest *t)
{
	struct fake_proc p;
	struct fake f;
	uint64_t addr;

	start(t, &f, &p, 1);
	EXPECT_EQ(t, proc_mmap(&p, 0, 4 * MB, RW, PM_MAP_NORESERVE, &addr), -ENOMEM);
	EXPECT_EQ(t, proc_mmap(&p, 0, 2 * MB, RW, PM_MAP_NORESERVE, &addr), 0);
	EXPECT_EQ(t, committed(&f), 512);
	set_mode(t, &f, 1, PM_COMMIT_HEURISTIC);
	EXPECT_EQ(t, proc_mmap(&p, FIXED_AT, 2 * MB, RW, PM_MAP_NORESERVE | PM_MAP_FIXED, &addr),
		  0);
	EXPECT_EQ(t, committed(&f), 512);
	set_mode(t, &f, 2, PM_COMMIT_STRICT);
	EXPECT_EQ(t, proc_munmap(&p, FIXED_AT, 2 * MB), 0);
	EXPECT_EQ(t, committed(&f), 512);
	stop(t, &f, &p);
}

static void newest_policy_holds(struct ktest *t)
{
	struct pm_commit p = { .version = version(5), .mode = PM_COMMIT_ALWAYS, .ratio = 50 };
	struct pool_stats s;
	struct fake f;

	fake_start(&f, 1, 1024, SHIFT_2M);
	EXPECT_EQ(t, tell(t, &f, FAKE_MEM_FIRST, p).mode, PM_COMMIT_ALWAYS);
	p.mode = PM_COMMIT_STRICT;
	for (uint64_t count = 0; count <= 5; count++) {
		p.version = count ? version(count) : 0;
		EXPECT_EQ(t, tell(t, &f, FAKE_MEM_FIRST, p).mode, PM_COMMIT_ALWAYS);
	}
	pool_stats(&f.mem[0].pool, &s);
	EXPECT_EQ(t, s.commit_limit, 480);
	p.version = version(6);
	p.kbytes = 4000;
	p.programs = 9600;
	EXPECT_EQ(t, tell(t, &f, FAKE_MEM_FIRST, p).mode, PM_COMMIT_STRICT);
	pool_stats(&f.mem[0].pool, &s);
	EXPECT_EQ(t, s.commit_limit, 100);
	EXPECT_TRUE(t, fake_stop(&f));
}

/* No version of a hostile node is the last one, or another's. */
static void policy_cannot_be_frozen(struct ktest *t)
{
	struct pm_commit p = { .version = UINT64_MAX, .mode = PM_COMMIT_STRICT };
	const struct pm_commit next = { .version = 1 << 16 | 3, .mode = PM_COMMIT_ALWAYS };
	struct pm_commit_wire w;
	struct fake f;

	fake_start(&f, 2, 1024, SHIFT_2M);
	pm_commit_encode(&p, &w);
	for (uint32_t peer = FAKE_PROC; peer <= FAKE_MEM_FIRST + 1; peer += FAKE_MEM_FIRST)
		EXPECT_EQ(t,
			  memory_serve(&f.mem[0], peer, PM_COMMIT, &w, sizeof(w), NULL, 0, &w,
				       sizeof(w), NULL),
			  -EPROTO);
	/* Too far ahead; another's. */
	p.version = version(UINT32_MAX);
	EXPECT_EQ(t, tell(t, &f, FAKE_MEM_FIRST, p).version, 0);
	p.version = version(2000);
	EXPECT_EQ(t, tell(t, &f, FAKE_MEM_FIRST, p).version, 0);
	p.version = next.version;
	EXPECT_EQ(t, tell(t, &f, FAKE_MEM_FIRST, p).version, 0);
	EXPECT_EQ(t, tell_as(t, &f, 3, FAKE_MEM_FIRST, next).version, next.version);
	/* From a memory node: no far jump either, but for one that has just started. */
	p.version = version(100000);
	EXPECT_EQ(t, tell_as(t, &f, FAKE_MEM_FIRST + 1, FAKE_MEM_FIRST, p).version, next.version);
	EXPECT_EQ(t, tell_as(t, &f, FAKE_MEM_FIRST, FAKE_MEM_FIRST + 1, p).version, p.version);
	EXPECT_TRUE(t, fake_stop(&f));
}

/* Nodes of different modes, which change at random between the calls. */
static void accounts_bear_any_mode(struct ktest *t)
{
	struct prng rng;
	struct fake_proc p;
	struct fake f;
	uint64_t addr;

	prng_seed(&rng, 11);
	start(t, &f, &p, 3);
	for (uint64_t i = 1; i < 3000; i++) {
		const uint64_t at = FIXED_AT + prng_below(&rng, 16) * MB / 2;
		const uint64_t len = (prng_below(&rng, 6) + 1) * MB / 2;
		const uint32_t prot = prng_below(&rng, 2) ? RW : PM_PROT_READ;
		const struct pm_commit policy = { .version = version(i),
						  .mode = (uint32_t)prng_below(&rng, 3),
						  .ratio = 100 };

		(void)tell(t, &f, FAKE_MEM_FIRST + (uint32_t)prng_below(&rng, 3), policy);
		switch (prng_below(&rng, 3)) {
		case 0:
			(void)proc_mmap(&p, at, len, prot,
					PM_MAP_FIXED | (prng_below(&rng, 2) ? PM_MAP_NORESERVE : 0),
					&addr);
			break;
		case 1:
			(void)proc_mprotect(&p, at, len, prot);
			break;
		default:
			EXPECT_EQ(t, proc_munmap(&p, at, len), 0);
		}
	}
	EXPECT_EQ(t, proc_munmap(&p, FIXED_AT, 16 * MB), 0);
	EXPECT_EQ(t, committed(&f), 0);
	stop(t, &f, &p);
}

static const struct ktest_case cases[] = {
	KTEST(fork_of_more_than_half),
	KTEST(heuristic_refuses_what_can_never_be_had),
	KTEST(no_mapping_waits_for_a_silent_node),
	KTEST(a_silent_node_keeps_no_policy_back),
	KTEST(heuristic_looks_at_one_vregion),
	KTEST(noreserve_counts_in_the_strict_mode),
	KTEST(newest_policy_holds),
	KTEST(policy_cannot_be_frozen),
	KTEST(accounts_bear_any_mode),
	{ 0 },
};
static const struct ktest_suite suite = { .name = "memory.commitment", .cases = cases };
KTEST_SUITE(suite);
