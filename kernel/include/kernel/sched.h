/* SPDX-License-Identifier: MIT */
/*
 * Between the scheduler, the timers and start-up; not for drivers or monitors.
 */
#pragma once

#include <lib/types.h>

/* Make the running boot context the idle thread of this CPU. */
void sched_init(void);
void sched_idle(void) __attribute__((noreturn));

/* Reschedule at @end_ns (UINT64_MAX: no time slice); interrupts off. */
void timer_slice_set(uint64_t end_ns);
/* Clock events of this CPU work from now on. */
void timer_start_cpu(void);

/* arch: prepare the stack of a new thread; returns its first kernel_sp. */
uint64_t thread_stack_init(uint64_t top);
/* arch: per-CPU state that follows the running thread. */
struct thread;
void thread_switch_arch(struct thread *prev, struct thread *next);
/* arch: save and change stacks; returns when @prev runs again. */
void switch_context(uint64_t *prev_sp, uint64_t next_sp);
