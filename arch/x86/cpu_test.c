/* SPDX-License-Identifier: MIT */
/*
 * All CPUs are set up alike, and each knows its number.
 */
#include <arch/cpu.h>
#include <arch/ipi.h>
#include <kernel/preempt.h>
#include <kernel/thread.h>
#include <lib/ktest.h>
#include <lib/string.h>
#include <mm/frame.h>

#include "arch_private.h"

#define MSR_PAT 0x277u

struct set_up {
	uint64_t efer, star, lstar, sfmask, pat, cr0, cr4, xcr0;
	uint32_t number, aux;
};

static struct set_up found[MAX_CPUS];

static void look(void *arg)
{
	struct set_up *s = &found[cpu_id()];
	uint32_t lo = 0;
	uint32_t hi = 0;

	s->efer = rdmsr(MSR_EFER);
	s->star = rdmsr(MSR_STAR);
	s->lstar = rdmsr(MSR_LSTAR);
	s->sfmask = rdmsr(MSR_SFMASK);
	s->pat = rdmsr(MSR_PAT);
	__asm__ volatile("mov %%cr0, %0" : "=r"(s->cr0));
	__asm__ volatile("mov %%cr4, %0" : "=r"(s->cr4));
	if (cpu_features.xsave)
		__asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
	s->xcr0 = (uint64_t)hi << 32 | lo;
	s->number = cpu_id();
	s->aux = cpu_id();
	if (cpu_features.rdtscp)
		__asm__ volatile("rdtscp" : "=c"(s->aux)::"eax", "edx");
}

#define CR0_TS (1ul << 3) /* nobody sets it, but it may differ by right */

static void all_cpus_are_set_up_alike(struct ktest *t)
{
	smp_call_all(look, NULL);
	EXPECT_TRUE(t, found[0].efer & 1);          /* SYSCALL */
	EXPECT_TRUE(t, found[0].cr0 & (1ul << 16)); /* write protection in ring 0 too */
	for_each_cpu(cpu) {
		const struct set_up *s = &found[cpu];

		EXPECT_EQ(t, s->efer, found[0].efer);
		EXPECT_EQ(t, s->star, found[0].star);
		EXPECT_EQ(t, s->lstar, found[0].lstar);
		EXPECT_EQ(t, s->sfmask, found[0].sfmask);
		EXPECT_EQ(t, s->pat, found[0].pat);
		EXPECT_EQ(t, s->cr0 & ~CR0_TS, found[0].cr0 & ~CR0_TS);
		EXPECT_EQ(t, s->cr4, found[0].cr4);
		EXPECT_EQ(t, s->xcr0, found[0].xcr0);
		EXPECT_EQ(t, s->number, cpu);
		EXPECT_EQ(t, s->aux, cpu);
	}
}

/*
 * Three pages in a row, of which clear_page() clears the middle one and nothing else, the user's
 * registers included.
 */
static void clear_pages(struct ktest *t, bool by_sse)
{
	struct frame *f = frame_alloc(2, 0);
	const bool before = clear_page_by_sse;
	uint8_t user[16], seen[16], saved[16];
	uint8_t *p;
	size_t bad = 0;

	ASSERT_TRUE(t, f != NULL);
	p = frame_to_virt(f);
	memset(p, 0x5a, 3 * PAGE_SIZE);
	memset(user, 0xa5, sizeof(user));
	preempt_disable();
	clear_page_by_sse = by_sse;
	__asm__ volatile("movups %%xmm0, %0\n\tmovups %1, %%xmm0" : "=m"(saved) : "m"(user));
	clear_page(p + PAGE_SIZE);
	__asm__ volatile("movups %%xmm0, %0\n\tmovups %1, %%xmm0" : "=m"(seen) : "m"(saved));
	clear_page_by_sse = before;
	preempt_enable();
	for (size_t i = 0; i < 3 * PAGE_SIZE; i++)
		bad += p[i] != (i / PAGE_SIZE == 1 ? 0 : 0x5a);
	EXPECT_EQ(t, bad, 0);
	EXPECT_EQ(t, memcmp(seen, user, sizeof(user)), 0);
	frame_free(f, 2);
}

static void clear_page_clears_a_page(struct ktest *t)
{
	clear_pages(t, false);
	clear_pages(t, true);
	EXPECT_TRUE(t, preemptible());
}

static const struct ktest_case cpu_cases[] = {
	KTEST(all_cpus_are_set_up_alike),
	KTEST(clear_page_clears_a_page),
	{ 0 },
};
static const struct ktest_suite cpu_suite = { .name = "arch.cpu", .cases = cpu_cases };
KTEST_SUITE(cpu_suite);
