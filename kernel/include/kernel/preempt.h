/* SPDX-License-Identifier: MIT */
/*
 * Preemption control and "which context am I in".
 *
 * The per-CPU count holds preempt_disable() depth in its low 16 bits,
 * interrupt nesting in the next 8, NMI in the next.
 */
#pragma once

#include <arch/barrier.h>
#include <arch/percpu.h>
#include <lib/compiler.h>
#include <lib/types.h>

#define PREEMPT_UNIT 0x00000001u
#define PREEMPT_IRQ  0x00010000u
#define PREEMPT_NMI  0x01000000u

DECLARE_PERCPU(uint32_t, preempt_count);

/* Of a CPU: both are tested at once on each way to user mode (arch/x86/entry.S). */
struct exit_work {
	uint32_t resched;   /* another thread is to run */
	uint32_t fpu_stale; /* the registers must be loaded before the thread enters user mode */
} __aligned(8);
static_assert(offsetof(struct exit_work, resched) == 0, "entry.S tests it alone, too");
DECLARE_PERCPU(struct exit_work, exit_work);

/* Reschedule now if asked for and allowed (interrupts on, count zero). */
void preempt_schedule(void);
/* The same at the end of an interrupt: called and returns with interrupts off. */
void preempt_schedule_irq(void);

static inline void preempt_count_add(uint32_t n)
{
	__asm__ volatile("addl %1, %%gs:%0"
			 : "+m"(PERCPU_PLAIN(preempt_count))
			 : "ri"(n)
			 : "memory", "cc");
}

static inline void preempt_count_sub(uint32_t n)
{
	__asm__ volatile("subl %1, %%gs:%0"
			 : "+m"(PERCPU_PLAIN(preempt_count))
			 : "ri"(n)
			 : "memory", "cc");
}

static inline void preempt_disable(void)
{
	preempt_count_add(PREEMPT_UNIT);
	barrier();
}

static inline void preempt_enable(void)
{
	barrier();
	preempt_count_sub(PREEMPT_UNIT);
	if (unlikely(percpu_read(exit_work.resched)))
		preempt_schedule();
}

static inline void preempt_enable_no_resched(void)
{
	barrier();
	preempt_count_sub(PREEMPT_UNIT);
}

static inline bool in_interrupt(void)
{
	return percpu_read(preempt_count) >= PREEMPT_IRQ;
}

/* May the caller sleep?  (Interrupt flag is checked by the sleeping code itself.) */
static inline bool preemptible(void)
{
	return percpu_read(preempt_count) == 0;
}
