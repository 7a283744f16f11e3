/* SPDX-License-Identifier: MIT */
/*
 * Restartable sequences: code of a program that works on data of one CPU without atomic
 * instructions. The program says where such a sequence begins and ends. When another thread may
 * have run meanwhile, or a signal's handler is about to, the task goes on at the sequence's abort
 * address instead of in the middle.
 *
 * Flow:	rseq() registers an area in the program's memory for the calling task. From then on
 *		its thread notes switches (thread_note_switches()), and rseq_return() writes the
 *		CPU's number into the area and leaves an interrupted sequence. A child of fork keeps
 *		the area, in its copy of the memory; a thread that shares the memory has none, nor
 *		has a program that exec has begun.
 * See:		Linux's rseq(2) and Documentation/userspace-api/rseq.rst
 */
#pragma once

#include <abi/rseq.h>
#include <lib/compiler.h>

struct aspace;
struct pt_regs;
struct task;

/* AT_RSEQ_FEATURE_SIZE: the fields of struct rseq that are written. */
#define RSEQ_FEATURE_SIZE offsetof(struct linux_rseq, end)
#define RSEQ_ALIGN        32u

struct task_rseq {
	uint64_t area; /* user address of a struct linux_rseq; 0: none is registered */
	uint32_t len;  /* of the area, as it was registered */
	uint32_t sig;  /* this word stands before each abort address */
};

/* @t, not started yet, is a child of the calling task; @flags are those of clone(). */
void rseq_clone(struct task *t, uint64_t flags);
/* The calling task has no area any more, as when it has begun another program. */
void rseq_forget(struct task *t);

/*
 * On the way to user mode with @regs, for the calling task: if its thread has been switched out,
 * tell the area the CPU and leave a sequence. -EFAULT, -EINVAL: area or sequence are not as they
 * must be, and the task gets SIGSEGV. May sleep.
 */
int rseq_return(struct task *t, struct pt_regs *regs) __must_check;
/* The same for a task whose handler of a signal is about to run: it always leaves a sequence. */
int rseq_leave(struct task *t, struct pt_regs *regs) __must_check;

/* Every thread of the space @as that runs now, on @cpu or, with -1, anywhere, leaves a sequence. */
void rseq_leave_all(const struct aspace *as, int cpu);
