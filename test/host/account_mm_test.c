/* SPDX-License-Identifier: MIT */
/*
 * Kernel memory that a program takes by mappings, page tables and forks: it is refused, or its
 * tables are emptied, and at the end it is charged for nothing.
 */
#include <stdlib.h>

#include <abi/mman.h>
#include <arch/pgtable.h>
#include <kernel/counter.h>
#include <kernel/thread.h>
#include <lib/err.h>
#include <lib/ktest.h>
#include <processor/account/account.h>
#include <processor/mm/aspace.h>
#include <processor/mm/kmem.h>
#include <processor/process/process.h>
#include <processor/syscall/syscall.h>

#include "fake_map.h"
#include "fake_owner.h"
#include "user_word.h"

#define ANON  (MAP_PRIVATE | MAP_ANONYMOUS)
#define RW    (PROT_READ | PROT_WRITE)
#define TABLE (2ul << 20) /* bytes that one page table maps */
#define MANY  4000u

static struct program program;
static struct process process = { .program = &program };
static struct task task = { .process = &process };

static struct aspace *start(struct ktest *t, uint64_t limit)
{
	struct aspace *as;

	fake_cache();
	fake_reset();
	fake_map_on(true);
	as = aspace_create(object_id(1, object_new_number()), 1);
	if (IS_ERR(as))
		abort();
	as->anon->vregion_size = FAKE_VREGION_SIZE;
	process.as = as;
	thread_current()->private = &task;
	program.kmem = kmem_account_create();
	kmem_account_set_limits(limit, 0);
	EXPECT_EQ(t, kmem_charge_space(as, program.kmem, 4), 0);
	return as;
}

static void stop(struct ktest *t, struct aspace *as)
{
	aspace_put(as);
	(void)aspace_drain();
	fake_quiesce();
	EXPECT_EQ(t, kmem_charged(program.kmem), 0u);
	kmem_account_put(program.kmem);
	kmem_account_set_limits(UINT64_MAX, 0);
	thread_current()->private = NULL;
}

static long map(uint64_t addr, uint64_t len, uint32_t prot, uint32_t flags)
{
	return sys_mmap(
		&(struct syscall_args){ .a = { addr, len, prot, ANON | flags, (uint64_t)-1, 0 } });
}

static long unmap(uint64_t addr, uint64_t len)
{
	return sys_munmap(&(struct syscall_args){ .a = { addr, len } });
}

static long protect(uint64_t addr, uint64_t len, uint32_t prot)
{
	return sys_mprotect(&(struct syscall_args){ .a = { addr, len, prot } });
}

/* Every other page of one mapping gets rights of its own: two vmas more each time. */
static unsigned int split(uint64_t at, long *err)
{
	unsigned int n = 0;

	while (n < MANY && !(*err = protect(at + (2 * n + 1) * PAGE_SIZE, PAGE_SIZE, PROT_READ)))
		n++;
	return n;
}

static void mappings(struct ktest *t)
{
	struct aspace *as = start(t, 128u << 10);
	const long at = map(0, 2 * (MANY + 1) * PAGE_SIZE, RW, 0);
	unsigned int first, second;
	uint64_t most;
	long err;

	ASSERT_TRUE(t, at > 0);
	first = split((uint64_t)at, &err);
	EXPECT_EQ(t, err, -ENOMEM);
	EXPECT_GT(t, first, 100u);
	EXPECT_LT(t, first, MANY);
	EXPECT_EQ(t, map(0, PAGE_SIZE, RW, 0), -ENOMEM);
	most = kmem_charged(program.kmem);
	EXPECT_EQ(t, unmap((uint64_t)at, first * PAGE_SIZE), 0); /* half of them */
	EXPECT_LT(t, kmem_charged(program.kmem), most - (most - 40960) / 3);
	EXPECT_EQ(t, map((uint64_t)at, (MANY + 1) * PAGE_SIZE, RW, MAP_FIXED), at);
	second = split((uint64_t)at, &err);
	EXPECT_EQ(t, err, -ENOMEM);
	EXPECT_GT(t, second, first / 3);
	EXPECT_EQ(t, unmap((uint64_t)at, 2 * (MANY + 1) * PAGE_SIZE), 0); /* that needs none */
	EXPECT_TRUE(t, map(0, PAGE_SIZE, RW, 0) > 0);
	stop(t, as);
}

/* More page tables than the program may have: they are emptied, and no page is lost. */
static void page_tables(struct ktest *t)
{
	const uint64_t limit = 400u << 10, nr = 160;
	struct aspace *as = start(t, limit);
	uint64_t trims, before, word;
	const long at = map(0, nr * TABLE, RW, 0);

	ASSERT_TRUE(t, at > 0);
	ASSERT_TRUE(t, counter_find("kmem.trims", &before));
	for (uint64_t i = 0; i < nr; i++) {
		word = i;
		EXPECT_EQ(t, user_word(as, (uint64_t)at + i * TABLE, 0, &word, true), 0);
		EXPECT_LE(t, kmem_charged(program.kmem), limit);
	}
	ASSERT_TRUE(t, counter_find("kmem.trims", &trims));
	EXPECT_GT(t, trims - before, 50u);
	for (uint64_t i = 0; i < nr; i++) {
		EXPECT_EQ(t, user_word(as, (uint64_t)at + i * TABLE, 0, &word, false), 0);
		EXPECT_EQ(t, word, i);
	}
	stop(t, as);
}

/* A program that has had its share elsewhere still gets the tables that it needs to run. */
static void few_tables_in_any_case(struct ktest *t)
{
	struct aspace *as = start(t, 60u << 10);
	const long at = map(0, 60 * TABLE, RW, 0);
	uint64_t word = 1, trims, before;

	while (!kmem_charge(program.kmem, 8))
		word++;
	ASSERT_TRUE(t, counter_find("kmem.trims", &before));
	for (uint64_t i = 0; i < 60; i++)
		EXPECT_EQ(t, user_word(as, (uint64_t)at + i * TABLE, 0, &word, true), 0);
	ASSERT_TRUE(t, counter_find("kmem.trims", &trims));
	EXPECT_EQ(t, trims, before);
	kmem_uncharge(program.kmem, (word - 1) * 8);
	stop(t, as);
}

static void forks(struct ktest *t)
{
	struct aspace *as = start(t, 210u << 10), *child[6];
	size_t nr = 0;
	int err = 0;

	ASSERT_TRUE(t, map(0, PAGE_SIZE, RW, 0) > 0);
	while (nr < ARRAY_SIZE(child) && !(err = aspace_fork(as, &child[nr])))
		nr++;
	EXPECT_EQ(t, err, -ENOMEM);
	EXPECT_EQ(t, nr, 4u);
	aspace_put(child[--nr]);
	EXPECT_EQ(t, aspace_fork(as, &child[nr]), 0);
	nr++;
	while (nr)
		aspace_put(child[--nr]);
	stop(t, as);
}

static const struct ktest_case account_mm_cases[] = {
	KTEST(mappings), KTEST(page_tables), KTEST(few_tables_in_any_case), KTEST(forks), { 0 },
};
static const struct ktest_suite account_mm_suite = { .name = "account.mm",
						     .cases = account_mm_cases };
KTEST_SUITE(account_mm_suite);
