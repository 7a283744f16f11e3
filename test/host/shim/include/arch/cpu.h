/* SPDX-License-Identifier: MIT */
/*
 * Host shim of <arch/cpu.h>: one CPU without interrupts.
 */
#pragma once

#include <sched.h>

#include <arch/percpu.h>
#include <lib/compiler.h>
#include <lib/types.h>

/* A spinning thread gives way: there may be fewer host CPUs than threads. */
static inline void cpu_relax(void)
{
	sched_yield();
}

static inline void local_irq_disable(void)
{
}

static inline void local_irq_enable(void)
{
}

static inline bool local_irqs_enabled(void)
{
	return true;
}

static inline unsigned long local_irq_save(void)
{
	return 0;
}

static inline void local_irq_restore(unsigned long flags)
{
	(void)flags;
}

static inline bool cpu_is_tcg(void)
{
	return false;
}

static inline bool cpu_is_virtual(void)
{
	return false;
}

static inline unsigned int cpu_online_count(void)
{
	return 1;
}

static inline unsigned int cpu_possible_count(void)
{
	return 1;
}

#define for_each_cpu(cpu) for (unsigned int cpu = 0; cpu < cpu_online_count(); cpu++)

/* The quirk is off here; a test may count how often a page was rewritten for execution. */
extern unsigned int shim_nr_exec_rewrites;
void frame_rewrite_for_exec(void *page);
void frame_rewrite_quirk_set(bool on);
