/* SPDX-License-Identifier: MIT */
/*
 * The processor: identification, features, interrupt flag, MSRs.
 */
#pragma once

#include <arch/percpu.h>
#include <lib/compiler.h>
#include <lib/types.h>

#define RFLAGS_CF   0x00000001u
#define RFLAGS_TF   0x00000100u
#define RFLAGS_IF   0x00000200u
#define RFLAGS_DF   0x00000400u
#define RFLAGS_IOPL 0x00003000u
#define RFLAGS_NT   0x00004000u
#define RFLAGS_RF   0x00010000u
#define RFLAGS_AC   0x00040000u
#define RFLAGS_ID   0x00200000u

#define MSR_APIC_BASE      0x0000001bu
#define MSR_TSC_ADJUST     0x0000003bu
#define MSR_TSC_DEADLINE   0x000006e0u
#define MSR_X2APIC         0x00000800u
#define MSR_EFER           0xc0000080u
#define MSR_STAR           0xc0000081u
#define MSR_LSTAR          0xc0000082u
#define MSR_CSTAR          0xc0000083u
#define MSR_SFMASK         0xc0000084u
#define MSR_FS_BASE        0xc0000100u
#define MSR_GS_BASE        0xc0000101u
#define MSR_KERNEL_GS_BASE 0xc0000102u
#define MSR_TSC_AUX        0xc0000103u
#define MSR_TSC_AUX        0xc0000103u

/* Features found on the boot CPU; constant after cpu_detect(). */
struct cpu_features {
	char vendor[13];
	char brand[49];
	char hypervisor[13]; /* empty string on bare hardware */
	bool nx, smep, smap, umip, pge, pdpe1gb, fsgsbase, pcid;
	bool xsave, xsaveopt, avx, avx2;
	bool x2apic, tsc_deadline, tsc_adjust, tsc_invariant, rdtscp;
	bool rdrand, rdseed, erms;
	uint8_t phys_bits;
};
extern struct cpu_features cpu_features;

struct cpuid_regs {
	uint32_t eax, ebx, ecx, edx;
};

static inline struct cpuid_regs cpuid(uint32_t leaf, uint32_t sub)
{
	struct cpuid_regs r;

	__asm__ volatile("cpuid"
			 : "=a"(r.eax), "=b"(r.ebx), "=c"(r.ecx), "=d"(r.edx)
			 : "a"(leaf), "c"(sub));
	return r;
}

static inline uint64_t rdmsr(uint32_t msr)
{
	uint32_t lo, hi;

	__asm__ volatile("rdmsr" : "=a"(lo), "=d"(hi) : "c"(msr) : "memory");
	return (uint64_t)hi << 32 | lo;
}

static inline void wrmsr(uint32_t msr, uint64_t val)
{
	__asm__ volatile("wrmsr" ::"c"(msr), "a"((uint32_t)val), "d"((uint32_t)(val >> 32))
			 : "memory");
}

static inline void cpu_relax(void)
{
	__asm__ volatile("pause" ::: "memory");
}

static inline unsigned long local_irq_flags(void)
{
	unsigned long flags;

	__asm__ volatile("pushfq; popq %0" : "=r"(flags)::"memory");
	return flags;
}

static inline void local_irq_disable(void)
{
	__asm__ volatile("cli" ::: "memory");
}

static inline void local_irq_enable(void)
{
	__asm__ volatile("sti" ::: "memory");
}

static inline bool local_irqs_enabled(void)
{
	return local_irq_flags() & RFLAGS_IF;
}

static inline unsigned long local_irq_save(void)
{
	const unsigned long flags = local_irq_flags();

	local_irq_disable();
	return flags;
}

static inline void local_irq_restore(unsigned long flags)
{
	if (flags & RFLAGS_IF)
		local_irq_enable();
}

/* Enable interrupts and sleep until one comes, without a gap between the two. */
static inline void cpu_wait_irq(void)
{
	__asm__ volatile("sti; hlt" ::: "memory");
}

/* True when QEMU's TCG runs us (CPUID hypervisor leaf "TCGTCGTCGTCG"). */
bool cpu_is_tcg(void);
bool cpu_is_virtual(void);

extern unsigned int cpu_nr_online; /* atomic; does not change once threads run */

/* Number of CPUs that run, and the highest number that the tables named. */
static inline unsigned int cpu_online_count(void)
{
	return __atomic_load_n(&cpu_nr_online, __ATOMIC_ACQUIRE);
}
unsigned int cpu_possible_count(void);

#define for_each_cpu(cpu) for (unsigned int cpu = 0; cpu < cpu_online_count(); cpu++)

/* One line about the processor (model, hypervisor, features) into @buf. */
void cpu_describe(char *buf, size_t len);

/*
 * Quirk for emulated instruction fetch: a host process that fills guest
 * memory is not seen by TCG's translation cache.  Copy each quadword of the
 * page at @page (kernel address) onto itself so that stale code is dropped.
 * Does nothing unless the quirk is on.
 */
void frame_rewrite_for_exec(void *page);
void frame_rewrite_quirk_set(bool on);
