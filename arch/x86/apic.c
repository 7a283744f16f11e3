/* SPDX-License-Identifier: MIT */
/*
 * Local APIC: end of interrupt, the one-shot timer, IPIs.
 *
 * Flow:	Access: x2APIC by MSR where the CPU has it, else xAPIC by MMIO; behind
 *		struct apic_ops, chosen once.  Below it struct apic_hw touches the machine, or
 *		is a test's fake.  The registers are part of the CPU, so they do not go
 *		through the mmio_ functions with their quirks for devices.
 *		Timer: TSC deadline where the CPU has it; else one-shot count-down whose rate
 *		is measured against the TSC for 1 ms at start-up.
 */
#define PR_FMT "apic: "

#include "apic.h"

#include <arch/barrier.h>
#include <arch/clockevent.h>
#include <arch/cpu.h>
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
#define ICR_NMI          (4u << 8)
#define ICR_INIT         (5u << 8)
#define ICR_STARTUP      (6u << 8)
#define ICR_PENDING      BIT(12)
#define ICR_ASSERT       BIT(14)

#define APIC_BASE_ENABLE BIT64(11)
#define APIC_BASE_X2APIC BIT64(10)
#define APIC_BASE_ADDR   0x000ffffffffff000ull

#define MAX_TIMER_NS (2 * NSEC_PER_SEC) /* the count has 32 bits */

/* Part of the CPU: read and written as memory, not by the mmio_ accessors and their lock. */
static volatile uint32_t *xapic_base;
static struct apic lapic;
static uint32_t cpu_apic_ids[MAX_CPUS];

/* --- the machine ---------------------------------------------------------------------- */

static uint32_t hw_mmio_read(uint32_t reg)
{
	return xapic_base[reg / 4];
}

static void hw_mmio_write(uint32_t reg, uint32_t val)
{
	xapic_base[reg / 4] = val;
}

static const struct apic_hw machine = {
	.mmio_read = hw_mmio_read,
	.mmio_write = hw_mmio_write,
	.msr_read = rdmsr,
	.msr_write = wrmsr,
};

/* --- xAPIC and x2APIC ------------------------------------------------------------------- */

static uint32_t xapic_read(const struct apic *a, uint32_t reg)
{
	return a->hw->mmio_read(reg);
}

static void xapic_write(const struct apic *a, uint32_t reg, uint32_t val)
{
	a->hw->mmio_write(reg, val);
}

static void xapic_send(const struct apic *a, uint32_t apic_id, uint32_t low)
{
	const unsigned long flags = local_irq_save();

	while (a->hw->mmio_read(REG_ICR_LO) & ICR_PENDING)
		cpu_relax();
	a->hw->mmio_write(REG_ICR_HI, apic_id << 24);
	a->hw->mmio_write(REG_ICR_LO, low);
	local_irq_restore(flags);
}

static uint32_t xapic_id(const struct apic *a)
{
	return a->hw->mmio_read(REG_ID) >> 24;
}

static uint32_t x2apic_read(const struct apic *a, uint32_t reg)
{
	return (uint32_t)a->hw->msr_read(MSR_X2APIC + (reg >> 4));
}

static void x2apic_write(const struct apic *a, uint32_t reg, uint32_t val)
{
	a->hw->msr_write(MSR_X2APIC + (reg >> 4), val);
}

static void x2apic_send(const struct apic *a, uint32_t apic_id, uint32_t low)
{
	mb(); /* the MSR write is not ordered after earlier stores */
	a->hw->msr_write(MSR_X2APIC + (REG_ICR_LO >> 4), (uint64_t)apic_id << 32 | low);
}

static uint32_t x2apic_id(const struct apic *a)
{
	return x2apic_read(a, REG_ID);
}

const struct apic_ops xapic_ops = {
	.name = "xAPIC",
	.mode = APIC_BASE_ENABLE,
	.max_id = 0xfe,
	.read = xapic_read,
	.write = xapic_write,
	.send = xapic_send,
	.id = xapic_id,
};

const struct apic_ops x2apic_ops = {
	.name = "x2APIC",
	.mode = APIC_BASE_ENABLE | APIC_BASE_X2APIC,
	.max_id = UINT32_MAX - 1,
	.read = x2apic_read,
	.write = x2apic_write,
	.send = x2apic_send,
	.id = x2apic_id,
};

/* --- on any struct apic ------------------------------------------------------------------- */

void apic_choose(struct apic *a, const struct apic_hw *hw, bool has_x2apic, bool has_deadline)
{
	*a = (struct apic){
		.ops = has_x2apic ? &x2apic_ops : &xapic_ops,
		.hw = hw,
		.deadline = has_deadline,
	};
}

void apic_enable(const struct apic *a)
{
	a->hw->msr_write(MSR_APIC_BASE, a->hw->msr_read(MSR_APIC_BASE) | a->ops->mode);
	a->ops->write(a, REG_TPR, 0);
	a->ops->write(a, REG_LVT_LINT0, LVT_MASKED);
	a->ops->write(a, REG_LVT_LINT1, LVT_NMI);
	a->ops->write(a, REG_LVT_ERROR, LVT_MASKED);
	a->ops->write(a, REG_SVR, SVR_ENABLE | VECTOR_SPURIOUS);
	if (a->deadline) {
		a->ops->write(a, REG_LVT_TIMER, LVT_TSC_DEADLINE | VECTOR_TIMER);
		mb(); /* the mode change must be done before the first deadline is written */
	} else if (a->timer_mult) {
		a->ops->write(a, REG_TMR_DIV, DIV_BY_1);
		a->ops->write(a, REG_LVT_TIMER, VECTOR_TIMER);
	}
}

void apic_timer_set(const struct apic *a, uint64_t deadline_ns, uint64_t now_ns)
{
	uint64_t ticks;

	if (a->deadline) {
		a->hw->msr_write(
			MSR_TSC_DEADLINE,
			deadline_ns == UINT64_MAX ? 0 : tsc_scale.base + tsc_from_ns(deadline_ns));
		return;
	}
	if (deadline_ns == UINT64_MAX) {
		a->ops->write(a, REG_TMR_INIT, 0);
		return;
	}
	ticks = deadline_ns > now_ns ? MIN(deadline_ns - now_ns, MAX_TIMER_NS) : 0;
	ticks = (uint64_t)(((unsigned __int128)ticks * a->timer_mult) >> 32) + 1;
	a->ops->write(a, REG_TMR_INIT, (uint32_t)MIN(ticks, (uint64_t)UINT32_MAX));
}

/* --- this machine's -------------------------------------------------------------------------- */

void apic_eoi(void)
{
	lapic.ops->write(&lapic, REG_EOI, 0);
}

uint32_t apic_id_of_cpu(unsigned int cpu)
{
	return cpu_apic_ids[cpu];
}

void apic_set_id(unsigned int cpu, uint32_t apic_id)
{
	cpu_apic_ids[cpu] = apic_id;
}

bool apic_id_reachable(uint32_t apic_id)
{
	return apic_id <= lapic.ops->max_id;
}

/* Count of the free-running timer, paired with the narrowest of a few TSC windows. */
static uint32_t timer_sample(uint64_t *tsc)
{
	uint64_t best = UINT64_MAX;
	uint32_t count = 0;

	for (unsigned int i = 0; i < 4; i++) {
		const uint64_t t0 = tsc_read();
		const uint32_t c = lapic.ops->read(&lapic, REG_TMR_CURR);
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

	lapic.ops->write(&lapic, REG_TMR_DIV, DIV_BY_1);
	lapic.ops->write(&lapic, REG_LVT_TIMER, LVT_MASKED | VECTOR_TIMER);
	lapic.ops->write(&lapic, REG_TMR_INIT, UINT32_MAX);
	c0 = timer_sample(&tsc0);
	delay_ns(NSEC_PER_MSEC);
	c1 = timer_sample(&tsc1);
	lapic.ops->write(&lapic, REG_TMR_INIT, 0);
	ns = tsc_to_ns(tsc1 - tsc0);
	if (c1 >= c0 || ns == 0)
		panic("the local APIC timer does not count");
	lapic.timer_mult = ((uint64_t)(c0 - c1) << 32) / ns;
}

void apic_init_cpu(void)
{
	apic_enable(&lapic);
}

void apic_init(void)
{
	const paddr_t base = rdmsr(MSR_APIC_BASE) & APIC_BASE_ADDR;

	apic_choose(&lapic, &machine, cpu_features.x2apic, cpu_features.tsc_deadline);
	if (!cpu_features.x2apic) {
		xapic_base = (volatile uint32_t __force *)mmio_map(base, PAGE_SIZE);
		if (!xapic_base)
			panic("no memory to map the local APIC");
	}
	apic_enable(&lapic);
	if (!lapic.deadline) {
		timer_calibrate();
		apic_enable(&lapic);
	}
	apic_set_id(0, lapic.ops->id(&lapic));
	pr_info("%s, id %u, timer %s", lapic.ops->name, cpu_apic_ids[0],
		lapic.deadline ? "by TSC deadline\n" : "");
	if (!lapic.deadline)
		pr_info("timer at %lu kHz\n", (lapic.timer_mult * 1000000u) >> 32);
}

void clockevent_set(uint64_t deadline_ns)
{
	apic_timer_set(&lapic, deadline_ns, time_now_ns());
}

void apic_send(unsigned int cpu, unsigned int vector)
{
	lapic.ops->send(&lapic, cpu_apic_ids[cpu], ICR_ASSERT | vector);
}

void apic_send_nmi(unsigned int cpu)
{
	lapic.ops->send(&lapic, cpu_apic_ids[cpu], ICR_ASSERT | ICR_NMI);
}

void apic_send_init(uint32_t apic_id)
{
	lapic.ops->send(&lapic, apic_id, ICR_ASSERT | ICR_INIT);
}

void apic_send_startup(uint32_t apic_id, paddr_t page)
{
	lapic.ops->send(&lapic, apic_id, ICR_ASSERT | ICR_STARTUP | (uint32_t)(page >> PAGE_SHIFT));
}
