/* SPDX-License-Identifier: MIT */
/*
 * Host shim of <kernel/preempt.h>: counts, so that sleeping in atomic context is caught.
 */
#pragma once

#include <arch/barrier.h>
#include <arch/percpu.h>
#include <lib/compiler.h>
#include <lib/types.h>

/* Of the running host thread. */
extern _Thread_local unsigned int shim_preempt_depth;
extern _Thread_local bool shim_in_interrupt;

static inline void preempt_disable(void)
{
	shim_preempt_depth++;
	barrier();
}

static inline void preempt_enable(void)
{
	barrier();
	shim_preempt_depth--;
}

static inline void preempt_enable_no_resched(void)
{
	preempt_enable();
}

static inline bool in_interrupt(void)
{
	return shim_in_interrupt;
}

static inline bool preemptible(void)
{
	return shim_preempt_depth == 0 && !shim_in_interrupt;
}
