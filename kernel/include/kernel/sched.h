/* SPDX-License-Identifier: MIT */
/*
 * Between the scheduler, the timers and start-up; not for drivers or monitors.
 */
#pragma once

#include <lib/types.h>

struct thread;

/* Make the running boot context the idle thread of the boot CPU. */
void sched_init(void);
void sched_idle(void) __attribute__((noreturn));

/* The idle thread of another CPU, before that starts: NULL when out of memory. */
struct thread *sched_create_idle(void);
void sched_free_idle(struct thread *idle);
/*
 * On that CPU: the running context becomes @idle.  From then on threads may be queued
 * there; they run once it is in sched_idle().
 */
void sched_init_cpu(struct thread *idle);

/* Another CPU wants this one to look at its queue again; interrupt context. */
void sched_interrupt(void);
/* The running thread's time slice is over; interrupt context. */
void sched_slice_end(void);

/*
 * Does a user thread run? Then its time up to @now was spent in user mode or not. Interrupt
 * context.
 */
bool sched_tick(bool user, uint64_t now);

/* A user thread runs from now on: have ticks; interrupts off. */
void timer_tick_start(void);
/* Reschedule at @end_ns (UINT64_MAX: no time slice); interrupts off. */
void timer_slice_set(uint64_t end_ns);
/* Timers of this CPU can be set, and: its clock events work from now on. */
void timer_init_cpu(void);
void timer_start_cpu(void);

/* arch: prepare the stack of a new thread; returns its first kernel_sp. */
uint64_t thread_stack_init(uint64_t top);
/* arch: per-CPU state that follows the running thread. */
void thread_switch_arch(struct thread *prev, struct thread *next);
/* arch: save and change stacks; returns when @prev runs again. */
void switch_context(uint64_t *prev_sp, uint64_t next_sp);
