/* SPDX-License-Identifier: MIT */
/*
 * Processor identification and the control register bits that follow from it.
 *
 * Flow:	cpu_detect() once on the boot CPU; cpu_init_control() on every CPU, once it knows
 *		its number.
 */
#include <arch/cpu.h>
#include <kernel/printk.h>
#include <lib/fmt.h>
#include <lib/string.h>

#include "arch_private.h"

struct cpu_features cpu_features;
uint64_t percpu_offsets[MAX_CPUS];
DEFINE_PERCPU(uint64_t, percpu_offset);
DEFINE_PERCPU(uint32_t, percpu_cpu_id);

unsigned int cpu_nr_online = 1;
static unsigned int nr_possible = 1;
static bool rewrite_quirk;

static void put_reg(char *dst, uint32_t reg)
{
	memcpy(dst, &reg, sizeof(reg));
}

static void detect_names(struct cpu_features *f, uint32_t max_ext)
{
	struct cpuid_regs r = cpuid(0, 0);

	put_reg(f->vendor, r.ebx);
	put_reg(f->vendor + 4, r.edx);
	put_reg(f->vendor + 8, r.ecx);
	if (max_ext >= 0x80000004u) {
		for (uint32_t i = 0; i < 3; i++) {
			r = cpuid(0x80000002u + i, 0);
			put_reg(f->brand + 16 * i, r.eax);
			put_reg(f->brand + 16 * i + 4, r.ebx);
			put_reg(f->brand + 16 * i + 8, r.ecx);
			put_reg(f->brand + 16 * i + 12, r.edx);
		}
	}
	if (cpuid(1, 0).ecx & BIT(31)) {
		r = cpuid(0x40000000u, 0);
		put_reg(f->hypervisor, r.ebx);
		put_reg(f->hypervisor + 4, r.ecx);
		put_reg(f->hypervisor + 8, r.edx);
	}
}

static void detect_leaf7(struct cpu_features *f)
{
	const struct cpuid_regs r = cpuid(7, 0);

	f->fsgsbase = r.ebx & BIT(0);
	f->tsc_adjust = r.ebx & BIT(1);
	f->avx2 = f->avx && (r.ebx & BIT(5));
	f->smep = r.ebx & BIT(7);
	f->erms = r.ebx & BIT(9);
	f->rdseed = r.ebx & BIT(18);
	f->smap = r.ebx & BIT(20);
	f->umip = r.ecx & BIT(2);
}

bool cpu_pause_is_slow;

void cpu_detect(void)
{
	struct cpu_features *f = &cpu_features;
	const uint32_t max_std = cpuid(0, 0).eax;
	const uint32_t max_ext = cpuid(0x80000000u, 0).eax;
	struct cpuid_regs r = cpuid(1, 0);

	detect_names(f, max_ext);
	cpu_pause_is_slow = cpu_is_tcg();
	f->pcid = r.ecx & BIT(17);
	f->x2apic = r.ecx & BIT(21);
	f->tsc_deadline = r.ecx & BIT(24);
	f->xsave = r.ecx & BIT(26);
	f->avx = f->xsave && (r.ecx & BIT(28));
	f->rdrand = r.ecx & BIT(30);
	f->pge = r.edx & BIT(13);
	if (max_std >= 7)
		detect_leaf7(f);
	if (max_std >= 0xd && f->xsave)
		f->xsaveopt = cpuid(0xd, 1).eax & BIT(0);
	r = cpuid(0x80000001u, 0);
	f->nx = r.edx & BIT(20);
	f->pdpe1gb = r.edx & BIT(26);
	f->rdtscp = r.edx & BIT(27);
	if (max_ext >= 0x80000007u)
		f->tsc_invariant = cpuid(0x80000007u, 0).edx & BIT(8);
	f->phys_bits = max_ext >= 0x80000008u ? (uint8_t)cpuid(0x80000008u, 0).eax : 36;
}

#define CR4_OSFXSR     BIT64(9)
#define CR4_OSXMMEXCPT BIT64(10)
#define CR4_PGE        BIT64(7)
#define CR4_UMIP       BIT64(11)
#define CR4_OSXSAVE    BIT64(18)
#define CR4_SMEP       BIT64(20)
#define CR4_SMAP       BIT64(21)
#define EFER_SCE       BIT64(0)
#define EFER_NXE       BIT64(11)

void cpu_init_control(void)
{
	const struct cpu_features *f = &cpu_features;
	uint64_t cr4;

	__asm__ volatile("mov %%cr4, %0" : "=r"(cr4));
	cr4 |= CR4_OSFXSR | CR4_OSXMMEXCPT;
	cr4 |= f->pge ? CR4_PGE : 0;
	cr4 |= f->umip ? CR4_UMIP : 0;
	cr4 |= f->xsave ? CR4_OSXSAVE : 0;
	cr4 |= f->smep ? CR4_SMEP : 0;
	cr4 |= f->smap ? CR4_SMAP : 0;
	__asm__ volatile("mov %0, %%cr4" ::"r"(cr4) : "memory");
	wrmsr(MSR_EFER, rdmsr(MSR_EFER) | EFER_SCE | (f->nx ? EFER_NXE : 0));
	if (f->rdtscp)
		wrmsr(MSR_TSC_AUX, cpu_id()); /* what RDTSCP tells programs */
}

/* User code reads the number of its CPU by RDTSCP. */
void cpu_init_number(void)
{
	if (cpu_features.rdtscp)
		wrmsr(MSR_TSC_AUX, cpu_id());
}

bool cpu_is_tcg(void)
{
	return strcmp(cpu_features.hypervisor, "TCGTCGTCGTCG") == 0;
}

bool cpu_is_virtual(void)
{
	return cpu_features.hypervisor[0] != '\0';
}

unsigned int cpu_possible_count(void)
{
	return nr_possible;
}

void cpu_set_online(unsigned int cpu)
{
	__atomic_store_n(&cpu_nr_online, cpu + 1, __ATOMIC_RELEASE);
}

void cpu_set_possible(unsigned int nr)
{
	nr_possible = MIN(nr, MAX_CPUS);
}

void cpu_describe(char *buf, size_t len)
{
	const struct cpu_features *f = &cpu_features;
	const char *brand = f->brand;

	while (*brand == ' ')
		brand++;
	snprintf(buf, len, "%s%s%s%s:%s%s%s%s%s%s%s%s", *brand ? brand : f->vendor,
		 f->hypervisor[0] ? " under " : "", f->hypervisor, "", f->nx ? " nx" : "",
		 f->smep ? " smep" : "", f->smap ? " smap" : "", f->umip ? " umip" : "",
		 f->avx2  ? " avx2"
		 : f->avx ? " avx"
			  : "",
		 f->xsaveopt ? " xsaveopt"
		 : f->xsave  ? " xsave"
			     : "",
		 f->x2apic ? " x2apic" : "", f->tsc_deadline ? " tsc-deadline" : "");
}

void frame_rewrite_quirk_set(bool on)
{
	rewrite_quirk = on;
	if (on)
		pr_info("quirk: frames are rewritten before execution\n");
}

void frame_rewrite_for_exec(void *page)
{
	volatile uint64_t *q = page;

	if (!rewrite_quirk)
		return;
	for (size_t i = 0; i < PAGE_SIZE / sizeof(*q); i++)
		q[i] = q[i];
}
