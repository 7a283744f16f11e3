/* SPDX-License-Identifier: MIT */
/*
 * Between thread.c and sched.c.
 */
#pragma once

#include <kernel/thread.h>

void thread_setup(struct thread *t, const char *name, enum thread_prio prio);
void thread_register(struct thread *t);
/* The switch away from @t is complete: nobody uses its stack any more. */
void thread_dead(struct thread *t);
/* Leave the CPU for good. */
void sched_exit(void) __attribute__((noreturn));
/* If @t runs on another CPU, make that CPU pass through its exit path. */
void sched_kick(const struct thread *t);
