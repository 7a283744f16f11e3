/* SPDX-License-Identifier: MIT */
/*
 * Local APIC: end of interrupt, the one-shot timer, IPIs.
 *
 * Access:	x2APIC by MSR where the CPU has it, else xAPIC by MMIO; behind
 *		struct apic_ops, chosen once.
 * Timer:	TSC deadline where the CPU has it; else one-shot count-down whose rate
 *		is measured against the TSC for 1 ms at start-up.
 */
#define PR_FMT "apic: "

#include "apic.h"

#include <arch/clockevent.h>
#include <arch/cpu.h>
#include <arch/io.h>
#include <arch/tsc.h>
#include <kernel/panic.h>
#include <kernel/printk.h>
#include <kernel/time.h>
#include <mm/kmap.h>

#include "arch_private.h"

#define REG_ID        0x020u
#define REG_EOI       0x0b0u
#define REG_SVR       0x0f0u
#define REG_TPR       0x080u
#define REG_ICR_LO    0x300u
#define REG_ICR_HI    0x310u
#define REG_LVT_TIMER 0x320u
#define REG_LVT_LINT0 0x350u
#define REG_LVT_LINT1 0x360u
#define REG_LVT_ERROR 0x370u
#define REG_TMR_INIT  0x380u
#define REG_TMR_CURR  0x390u
#define REG_TMR_DIV   0x3e0u

#define SVR_ENABLE       BIT(8)
#define LVT_MASKED       BIT(16)
#define LVT_NMI          (4u << 8)
#define LVT_TSC_DEADLINE BIT(18)
#define DIV_BY_1         0xbu
#define ICR_PENDING      BIT(12)
#define ICR_ASSERT       BIT(14)

#define APIC_BASE_ENABLE BIT64(11)
#define APIC_BASE_X2APIC BIT64(10)
#define APIC_BASE_ADDR   0x000ffffffffff000ull

struct apic_ops {
	const char *name;
	uint32_t (*read)(uint32_t reg);
	void (*write)(uint32_t reg, uint32_t val);
	void (*send)(uint32_t apic_id, uint32_t low);
	uint32_t (*id)(void);
};

static void __iomem *xapic_base;
static const struct apic_ops *apic;
static uint64_t timer_mult; /* timer ticks per ns, 32.32 fixed point; 0: TSC deadline */
uint32_t cpu_apic_ids[MAX_CPUS];

static uint32_t xapic_read(uint32_t reg)
{
	return mmio_read32((char __iomem *)xapic_base + reg);
}

static void xapic_write(uint32_t reg, uint32_t val)
{
	mmio_write32((char __iomem *)xapic_base + reg, val);
}

static void xapic_send(uint32_t apic_id, uint32_t low)
{
	const unsigned long flags = local_irq_save();

	while (xapic_read(REG_ICR_LO) & ICR_PENDING)
		cpu_relax();
	xapic_write(REG_ICR_HI, apic_id << 24);
	xapic_write(REG_ICR_LO, low);
	local_irq_restore(flags);
}

static uint32_t xapic_id(void)
{
	return xapic_read(REG_ID) >> 24;
}

static uint32_t x2apic_read(uint32_t reg)
{
	return (uint32_t)rdmsr(MSR_X2APIC + (reg >> 4));
}

static void x2apic_write(uint32_t reg, uint32_t val)
{
	wrmsr(MSR_X2APIC + (reg >> 4), val);
}

static void x2apic_send(uint32_t apic_id, uint32_t low)
{
	smp_mb(); /* the MSR write is not ordered after earlier stores */
	wrmsr(MSR_X2APIC + (REG_ICR_LO >> 4), (uint64_t)apic_id << 32 | low);
}

static uint32_t x2apic_id(void)
{
	return x2apic_read(REG_ID);
}

static const struct apic_ops xapic_ops = {
	.name = "xAPIC",
	.read = xapic_read,
	.write = xapic_write,
	.send = xapic_send,
	.id = xapic_id,
};

static const struct apic_ops x2apic_ops = {
	.name = "x2APIC",
	.read = x2apic_read,
	.write = x2apic_write,
	.send = x2apic_send,
	.id = x2apic_id,
};

void apic_eoi(void)
{
	apic->write(REG_EOI, 0);
}

uint32_t apic_id_of_cpu(unsigned int cpu)
{
	return cpu_apic_ids[cpu];
}

/* Count of the free-running timer, paired with the narrowest of a few TSC windows. */
static uint32_t timer_sample(uint64_t *tsc)
{
	uint64_t best = UINT64_MAX;
	uint32_t count = 0;

	for (unsigned int i = 0; i < 4; i++) {
		const uint64_t t0 = tsc_read();
		const uint32_t c = apic->read(REG_TMR_CURR);
		const uint64_t t1 = tsc_read();

		if (t1 - t0 < best) {
			best = t1 - t0;
			count = c;
			*tsc = t0 + best / 2;
		}
	}
	return count;
}

static void timer_calibrate(void)
{
	uint64_t tsc0;
	uint64_t tsc1;
	uint32_t c0;
	uint32_t c1;
	uint64_t ns;

	apic->write(REG_TMR_DIV, DIV_BY_1);
	apic->write(REG_LVT_TIMER, LVT_MASKED | VECTOR_TIMER);
	apic->write(REG_TMR_INIT, UINT32_MAX);
	c0 = timer_sample(&tsc0);
	delay_ns(NSEC_PER_MSEC);
	c1 = timer_sample(&tsc1);
	apic->write(REG_TMR_INIT, 0);
	ns = tsc_to_ns(tsc1 - tsc0);
	if (c1 >= c0 || ns == 0)
		panic("the local APIC timer does not count");
	timer_mult = ((uint64_t)(c0 - c1) << 32) / ns;
}

void apic_init_cpu(void)
{
	if (apic == &x2apic_ops)
		wrmsr(MSR_APIC_BASE, rdmsr(MSR_APIC_BASE) | APIC_BASE_ENABLE | APIC_BASE_X2APIC);
	else
		wrmsr(MSR_APIC_BASE, rdmsr(MSR_APIC_BASE) | APIC_BASE_ENABLE);
	apic->write(REG_TPR, 0);
	apic->write(REG_LVT_LINT0, LVT_MASKED);
	apic->write(REG_LVT_LINT1, LVT_NMI);
	apic->write(REG_LVT_ERROR, LVT_MASKED);
	apic->write(REG_SVR, SVR_ENABLE | VECTOR_SPURIOUS);
	cpu_apic_ids[cpu_id()] = apic->id();
	if (cpu_features.tsc_deadline) {
		apic->write(REG_LVT_TIMER, LVT_TSC_DEADLINE | VECTOR_TIMER);
		mb(); /* the mode change must be done before the first deadline is written */
	} else if (timer_mult) {
		apic->write(REG_TMR_DIV, DIV_BY_1);
		apic->write(REG_LVT_TIMER, VECTOR_TIMER);
	}
}

void apic_init(void)
{
	const paddr_t base = rdmsr(MSR_APIC_BASE) & APIC_BASE_ADDR;

	if (cpu_features.x2apic) {
		apic = &x2apic_ops;
	} else {
		apic = &xapic_ops;
		xapic_base = mmio_map(base, PAGE_SIZE);
		if (!xapic_base)
			panic("no memory to map the local APIC");
	}
	apic_init_cpu();
	if (!cpu_features.tsc_deadline) {
		timer_calibrate();
		apic_init_cpu();
	}
	pr_info("%s, id %u, timer %s", apic->name, cpu_apic_ids[cpu_id()],
		cpu_features.tsc_deadline ? "by TSC deadline\n" : "");
	if (!cpu_features.tsc_deadline)
		pr_info("timer at %lu kHz\n", (timer_mult * 1000000u) >> 32);
}

void clockevent_set(uint64_t deadline_ns)
{
	uint64_t now;
	uint64_t ticks;

	if (cpu_features.tsc_deadline) {
		wrmsr(MSR_TSC_DEADLINE,
		      deadline_ns == UINT64_MAX ? 0 : tsc_scale.base + tsc_from_ns(deadline_ns));
		return;
	}
	if (deadline_ns == UINT64_MAX) {
		apic->write(REG_TMR_INIT, 0);
		return;
	}
	now = time_now_ns();
	ticks = deadline_ns > now ? MIN(deadline_ns - now, 2 * NSEC_PER_SEC) : 0;
	ticks = (uint64_t)(((unsigned __int128)ticks * timer_mult) >> 32) + 1;
	apic->write(REG_TMR_INIT, (uint32_t)MIN(ticks, (uint64_t)UINT32_MAX));
}

void ipi_resched(unsigned int cpu)
{
	apic->send(cpu_apic_ids[cpu], ICR_ASSERT | VECTOR_RESCHED);
}
