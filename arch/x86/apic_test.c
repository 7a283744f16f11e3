/* SPDX-License-Identifier: MIT */
/*
 * xAPIC and x2APIC, the count-down timer and the TSC deadline, on a fake APIC: no
 * machine has all of them.
 */
#include <arch/cpu.h>
#include <arch/tsc.h>
#include <lib/ktest.h>
#include <lib/string.h>

#include "apic.h"

#define NR_LOG 64u

#define X2APIC(reg) (MSR_X2APIC + (reg) / 16)

/* Every write, in order; reads answer the last value written, or what a test put there. */
static struct {
	bool msr;
	uint32_t at;
	uint64_t val;
} written[NR_LOG];
static unsigned int nr_written;
static uint32_t regs[0x400 / 4];
static uint64_t apic_base;
static unsigned int busy; /* reads of the command register that still say "pending" */

static void note(bool msr, uint32_t at, uint64_t val)
{
	if (nr_written < NR_LOG) {
		written[nr_written].msr = msr;
		written[nr_written].at = at;
		written[nr_written].val = val;
	}
	nr_written++;
}

static uint32_t fake_mmio_read(uint32_t reg)
{
	if (reg == 0x300 && busy) {
		busy--;
		return 1u << 12;
	}
	return regs[reg / 4];
}

static void fake_mmio_write(uint32_t reg, uint32_t val)
{
	regs[reg / 4] = val;
	note(false, reg, val);
}

static uint64_t fake_msr_read(uint32_t msr)
{
	if (msr == MSR_APIC_BASE)
		return apic_base;
	return msr >= MSR_X2APIC && msr < MSR_X2APIC + 0x40 ? regs[(msr - MSR_X2APIC) * 4] : 0;
}

static void fake_msr_write(uint32_t msr, uint64_t val)
{
	if (msr == MSR_APIC_BASE)
		apic_base = val;
	note(true, msr, val);
}

static const struct apic_hw fake = {
	.mmio_read = fake_mmio_read,
	.mmio_write = fake_mmio_write,
	.msr_read = fake_msr_read,
	.msr_write = fake_msr_write,
};

static void reset(struct apic *a, bool x2apic, bool deadline)
{
	memset(regs, 0, sizeof(regs));
	nr_written = 0;
	busy = 0;
	apic_base = 0xfee00900; /* enabled, boot CPU */
	apic_choose(a, &fake, x2apic, deadline);
}

/* The last value written to a place; ~0 when there was none. */
static uint64_t last(bool msr, uint32_t at)
{
	uint64_t val = ~0ull;

	for (unsigned int i = 0; i < MIN(nr_written, NR_LOG); i++) {
		if (written[i].msr == msr && written[i].at == at)
			val = written[i].val;
	}
	return val;
}

static void xapic_goes_through_memory(struct ktest *t)
{
	struct apic a;

	reset(&a, false, false);
	a.timer_mult = 1ull << 32;
	regs[0x20 / 4] = 0x0c000000;
	EXPECT_EQ(t, a.ops->id(&a), 12);
	EXPECT_EQ(t, a.ops->max_id, 0xfe);
	apic_enable(&a);
	EXPECT_EQ(t, apic_base, 0xfee00900);
	EXPECT_EQ(t, last(false, 0x80), 0);
	EXPECT_EQ(t, last(false, 0xf0), 0x100 | VECTOR_SPURIOUS);
	EXPECT_EQ(t, last(false, 0x350), 1u << 16);
	EXPECT_EQ(t, last(false, 0x360), 4u << 8);
	EXPECT_EQ(t, last(false, 0x3e0), 0xb);
	EXPECT_EQ(t, last(false, 0x320), VECTOR_TIMER);
	nr_written = 0;
	busy = 3; /* the interrupt before is still on its way */
	a.ops->send(&a, 7, 0x4000 | VECTOR_CALL);
	EXPECT_EQ(t, busy, 0);
	ASSERT_EQ(t, nr_written, 2);
	EXPECT_EQ(t, written[0].at, 0x310); /* the target first: the other half sends */
	EXPECT_EQ(t, written[0].val, 7u << 24);
	EXPECT_EQ(t, written[1].at, 0x300);
	EXPECT_EQ(t, written[1].val, 0x4000 | VECTOR_CALL);
}

static void x2apic_goes_through_msrs(struct ktest *t)
{
	struct apic a;

	reset(&a, true, false);
	regs[0x20 / 4] = 300;
	EXPECT_EQ(t, a.ops->id(&a), 300);
	EXPECT_EQ(t, a.ops->max_id, UINT32_MAX - 1);
	apic_enable(&a);
	EXPECT_EQ(t, apic_base, 0xfee00d00);
	EXPECT_EQ(t, written[0].at, MSR_APIC_BASE); /* its registers exist from then on */
	EXPECT_EQ(t, last(true, X2APIC(0xf0)), 0x100 | VECTOR_SPURIOUS);
	EXPECT_EQ(t, last(true, X2APIC(0x360)), 4u << 8);
	for (unsigned int i = 0; i < nr_written; i++)
		EXPECT_TRUE(t, written[i].msr);
	nr_written = 0;
	a.ops->send(&a, 300, 0x4000 | VECTOR_CALL);
	ASSERT_EQ(t, nr_written, 1);
	EXPECT_EQ(t, written[0].at, X2APIC(0x300));
	EXPECT_EQ(t, written[0].val, 300ull << 32 | 0x4000 | VECTOR_CALL);
}

static void timer_counts_down(struct ktest *t)
{
	struct apic a;

	for (unsigned int x2 = 0; x2 < 2; x2++) {
		const uint32_t at = x2 ? X2APIC(0x380) : 0x380;

		reset(&a, x2, false);
		a.timer_mult = 3ull << 31; /* 1.5 ticks a nanosecond */
		apic_timer_set(&a, 5000, 3000);
		EXPECT_EQ(t, last(x2, at), 3001);
		apic_timer_set(&a, 3000, 5000); /* gone by: at once, and 0 would mean never */
		EXPECT_EQ(t, last(x2, at), 1);
		apic_timer_set(&a, UINT64_MAX - 1, 0); /* more than the counter holds: earlier */
		EXPECT_EQ(t, last(x2, at), 3000000001ull);
		a.timer_mult = 8ull << 32;
		apic_timer_set(&a, UINT64_MAX - 1, 0);
		EXPECT_EQ(t, last(x2, at), UINT32_MAX);
		apic_timer_set(&a, UINT64_MAX, 0);
		EXPECT_EQ(t, last(x2, at), 0);
	}
}

static void timer_takes_a_deadline(struct ktest *t)
{
	struct apic a;

	for (unsigned int x2 = 0; x2 < 2; x2++) {
		reset(&a, x2, true);
		apic_enable(&a);
		EXPECT_EQ(t, last(x2, x2 ? X2APIC(0x320) : 0x320), 1u << 18 | VECTOR_TIMER);
		apic_timer_set(&a, 1000000, 500);
		EXPECT_EQ(t, last(true, MSR_TSC_DEADLINE), tsc_scale.base + tsc_from_ns(1000000));
		apic_timer_set(&a, UINT64_MAX, 500); /* 0 disarms */
		EXPECT_EQ(t, last(true, MSR_TSC_DEADLINE), 0);
		EXPECT_EQ(t, last(x2, x2 ? X2APIC(0x380) : 0x380), ~0ull);
	}
}

static const struct ktest_case apic_cases[] = {
	KTEST(xapic_goes_through_memory),
	KTEST(x2apic_goes_through_msrs),
	KTEST(timer_counts_down),
	KTEST(timer_takes_a_deadline),
	{ 0 },
};
static const struct ktest_suite apic_suite = { .name = "arch.apic", .cases = apic_cases };
KTEST_SUITE(apic_suite);
