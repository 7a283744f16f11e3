/* SPDX-License-Identifier: MIT */
/*
 * Debug registers of user threads: hardware breakpoints and watchpoints.
 *
 * A thread that uses them has THREAD_F_DEBUG; they are in the CPU while it runs, in the kernel too.
 * Only user addresses get in. A hit of the kernel's own copies of user memory is not told, as on
 * Linux.
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

struct thread;

#define NR_BREAKPOINTS 4

struct debug_regs {
	uint64_t addr[NR_BREAKPOINTS];
	uint64_t status;  /* DR6 of the last trap: the bits that are set, without reserved ones */
	uint64_t control; /* DR7, as it was asked for */
};

#define DR6_RESERVED 0xffff0ff0ull
#define DR6_HITS     0xfull
#define DR6_STEP     0x4000ull

/*
 * May these be loaded for a program? -EINVAL: an enabled breakpoint is outside user memory, not
 * aligned, or of a kind that there is not. Pure.
 */
int debug_regs_check(const struct debug_regs *d) __must_check;
/* DR7 as the CPU gets it. Pure. */
uint64_t debug_control_of(const struct debug_regs *d);

/* Of @t, which is in the kernel and comes by debug_reload() before user mode. */
void debug_set(struct thread *t, const struct debug_regs *d);
/* The current thread's are as debug_set() has left them. */
void debug_reload(void);
/* The current thread uses none any more. */
void debug_clear(void);

/* For the context switch: one of the two threads has THREAD_F_DEBUG. */
void debug_switch(const struct thread *prev, const struct thread *next);
/* For the trap: what has come, with DR6 made ready for the next. */
uint64_t debug_take_status(void);
