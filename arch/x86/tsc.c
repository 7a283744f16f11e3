/* SPDX-License-Identifier: MIT */
/*
 * TSC frequency: from CPUID where it says, else measured against the PIT.
 *
 * Flow:	Measuring: channel 2 of the PIT counts down at 1193182 Hz.  A sample reads it
 *		between two TSC reads; of several the narrowest counts, because a virtual
 *		CPU may be stopped at any instruction.  Two such samples about 5 ms apart
 *		give the rate to about 0.05 %.  Channel 2 ends after 55 ms, and its output
 *		says so: a CPU that was stopped across that, or inside both samples, begins
 *		again.
 */
#define PR_FMT "tsc: "

#include <arch/cpu.h>
#include <arch/io.h>
#include <arch/tsc.h>
#include <kernel/printk.h>
#include <kernel/time.h>
#include <lib/string.h>

#define PIT_HZ     1193182u
#define PIT_CH2    0x42
#define PIT_CMD    0x43
#define PIT_GATE   0x61
#define PIT_WINDOW 6000u /* ticks: 5.03 ms */
#define NR_SAMPLES 6u
#define NR_TRIES   64u
#define GATE_OUT2  0x20 /* in PIT_GATE: channel 2 has come to its end */

#define KHZ_MIN 50000u
#define KHZ_MAX 20000000u

struct tsc_scale tsc_scale = { .mult = 0, .shift = 32 };

struct pit_sample {
	uint64_t tsc, width;
	uint16_t count;
};

static uint16_t pit_count(void)
{
	uint8_t lo;

	outb(PIT_CMD, 0x80); /* latch channel 2 */
	lo = inb(PIT_CH2);
	return (uint16_t)(lo | inb(PIT_CH2) << 8);
}

static struct pit_sample pit_sample(void)
{
	struct pit_sample s = { 0 };
	uint64_t best = UINT64_MAX;

	for (unsigned int i = 0; i < NR_SAMPLES; i++) {
		const uint64_t t0 = tsc_read();
		const uint16_t count = pit_count();
		const uint64_t t1 = tsc_read();

		if (t1 - t0 < best) {
			best = t1 - t0;
			s = (struct pit_sample){ .tsc = t0 + best / 2,
						 .width = best,
						 .count = count };
		}
	}
	return s;
}

/* One measurement; true if nothing has disturbed it. */
static bool measure(uint64_t *khz)
{
	struct pit_sample a;
	struct pit_sample b;
	uint32_t ticks;
	bool ended;

	outb(PIT_GATE, (inb(PIT_GATE) & ~0x2) | 0x1); /* gate on, speaker off */
	outb(PIT_CMD, 0xb0);                          /* channel 2, both bytes, mode 0 */
	outb(PIT_CH2, 0xff);
	outb(PIT_CH2, 0xff);
	a = pit_sample();
	for (unsigned int i = 0; i < 100000; i++) {
		if ((uint16_t)(a.count - pit_count()) >= PIT_WINDOW)
			break;
	}
	b = pit_sample();
	ended = inb(PIT_GATE) & GATE_OUT2;
	ticks = (uint16_t)(a.count - b.count);
	*khz = ticks ? (b.tsc - a.tsc) * PIT_HZ / ticks / 1000u : 0;
	return !ended && a.width + b.width < (b.tsc - a.tsc) / 256;
}

/* Of a machine whose output always says that it has ended: the last one. */
static uint64_t khz_from_pit(void)
{
	uint64_t khz = 0;

	for (unsigned int i = 0; i < NR_TRIES && !measure(&khz); i++)
		;
	return khz;
}

static uint64_t khz_from_cpuid(void)
{
	const uint32_t max = cpuid(0, 0).eax;
	struct cpuid_regs r;

	if (strcmp(cpu_features.hypervisor, "KVMKVMKVM") == 0 &&
	    cpuid(0x40000000u, 0).eax >= 0x40000010u)
		return cpuid(0x40000010u, 0).eax;
	if (max < 0x15)
		return 0;
	r = cpuid(0x15, 0);
	if (!r.eax || !r.ebx || !r.ecx)
		return 0;
	return (uint64_t)r.ecx * r.ebx / r.eax / 1000u;
}

static void set_scale(uint64_t khz)
{
	struct tsc_scale s = { .base = tsc_scale.base, .khz = khz, .shift = 32 };

	/* mult = 10^6 * 2^shift / khz, as many bits as fit. */
	while ((1000000ull << s.shift) / khz > UINT32_MAX)
		s.shift--;
	s.per_ns = (khz << 32) / 1000000u;
	s.mult = (uint32_t)((1000000ull << s.shift) / khz);
	tsc_scale = s;
}

uint64_t tsc_from_ns(uint64_t ns)
{
	return (uint64_t)(((unsigned __int128)ns * tsc_scale.per_ns) >> 32);
}

void tsc_init(void)
{
	const char *from = "CPUID";
	uint64_t khz = khz_from_cpuid();

	if (khz < KHZ_MIN || khz > KHZ_MAX) {
		from = "PIT";
		khz = khz_from_pit();
	}
	if (khz < KHZ_MIN || khz > KHZ_MAX) {
		pr_err("no believable clock rate (%lu kHz), taking 1 GHz\n", khz);
		khz = 1000000;
	}
	set_scale(khz);
	pr_info("%lu.%03lu MHz by %s\n", khz / 1000, khz % 1000, from);
}

void delay_ns(uint64_t ns)
{
	const uint64_t start = tsc_read();

	while (tsc_to_ns(tsc_read() - start) < ns)
		cpu_relax();
}
