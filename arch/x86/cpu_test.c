/* SPDX-License-Identifier: MIT */
/*
 * All CPUs are set up alike, and each knows its number.
 */
#include <arch/cpu.h>
#include <arch/ipi.h>
#include <kernel/thread.h>
#include <lib/ktest.h>

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

static const struct ktest_case cpu_cases[] = {
	KTEST(all_cpus_are_set_up_alike),
	{ 0 },
};
static const struct ktest_suite cpu_suite = { .name = "arch.cpu", .cases = cpu_cases };
KTEST_SUITE(cpu_suite);
