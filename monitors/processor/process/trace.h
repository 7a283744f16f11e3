/* SPDX-License-Identifier: MIT */
/*
 * Tracing of tasks by other processes: ptrace().
 *
 * A task (tracee) is traced by one thread of another process (tracer). It stops on its way to user
 * mode, at system calls and at events, tells the tracer (SIGCHLD, wait4) and sleeps until the
 * tracer lets it go on. While it is stopped, its registers are the tracer's to read and change.
 *
 * Flow:	signal/deliver.c asks for stops at signals, clone.c, execve.c and exit.c for those
 *		at events, syscall/dispatch.c for those at system calls; trace.c stops the task,
 *		trace_link.c begins and ends the tracing, ptrace.c serves the tracer.
 * Locking:	who traces whom changes under vnode.lock and the tracee's process.sig_lock, so
 *		either is enough to read it. The rest of struct task_trace belongs to sig_lock, or
 *		to the task as long as it runs and to the tracer while it is stopped ("held").
 * Ordering:	a tracer that looks at a stopped task freezes it first: a task that is killed
 *		meanwhile waits until it is thawed before it goes on to its end.
 * Failure:	a tracer that ends lets its tracees go on, or has them killed (PTRACE_O_EXITKILL).
 * See:		docs/design/ptrace.md
 */
#pragma once

#include <abi/signal.h>
#include <kernel/wait.h>
#include <lib/compiler.h>
#include <lib/list.h>
#include <lib/types.h>

struct process;
struct pt_regs;
struct task;

enum trace_state {
	TRACE_RUNS,    /* it is not stopped for its tracer */
	TRACE_STOPPED, /* until the tracer lets it go on */
	TRACE_LISTENS, /* stopped as well; a change of the process's stop makes it tell again */
};

/* Bits of task_trace.watch: the task's system calls take the slow way. */
#define TRACE_WATCH_CALLS   0x1u /* stop before and after each */
#define TRACE_WATCH_STEPS   0x2u /* it is single-stepped */
/* The same, but not for a tracer: <processor/process/seccomp.h>. */
#define TRACE_WATCH_SECCOMP 0x4u

struct task_trace {
	struct process *tracer; /* vnode.lock and sig_lock; NULL: not traced; not counted */
	uint32_t tracer_tid;    /* the same: the thread of it */
	uint32_t nr;            /* the same: the task's number, as the tracer sees it */
	struct list_head link;  /* vnode.lock: tracer->tracees */
	bool ended;             /* vnode.lock: off its process; the link counts a reference */
	uint32_t wait_status;   /* const once ended, of a task that is not its process's first */

	bool seized;      /* sig_lock: by PTRACE_SEIZE */
	bool trap;        /* sig_lock: it is to stop on its way to user mode */
	uint8_t state;    /* sig_lock: enum trace_state */
	uint32_t options; /* sig_lock: PTRACE_O_* */
	uint32_t report;  /* sig_lock: code of the stop that wait() has not seen; 0: none */
	uint32_t freezes; /* sig_lock: tracers that are looking at it (one, or none) */
	uint32_t watch;   /* sig_lock: TRACE_WATCH_*; the task reads it without */

	/* Of the present stop; held. */
	uint32_t code; /* as a wait status has it, without the low 8 bits */
	bool has_info;
	bool is_signal; /* at a signal that is about to be delivered */
	uint64_t message;
	struct linux_siginfo info;
	int go_on_with; /* the signal that it goes on with; 0: none */

	bool step_set; /* held: TF is the tracer's; the program does not see it */
	struct waitqueue resumed;
};

/* Is @t traced? A hint, unless vnode.lock or its sig_lock is held. */
#define task_is_traced(t) (READ_ONCE((t)->trace.tracer) != NULL)

void trace_task_init(struct task *t);

/* References to put when no lock is held: trace_put_all(). */
struct trace_gone {
	struct list_head tasks;     /* by trace.link */
	struct list_head processes; /* by all_link */
};

void trace_gone_init(struct trace_gone *gone);
void trace_put_all(struct trace_gone *gone);

/* --- trace_link.c: who traces whom. "_locked": vnode.lock is held ----------------------------- */

/*
 * Thread @tid of @tracer traces @t, a living task, from now on. -EPERM: it is traced already, or
 * one of the two is ending.
 */
int trace_link_locked(struct task *t, struct process *tracer, uint32_t tid, bool seized,
		      uint32_t options) __must_check;
/* @t is traced no longer; it goes on with signal @signo, or 0, if it was stopped. */
void trace_unlink_locked(struct task *t, int signo);
/* A new task that is in the tables, not started yet, is traced as its maker @from is. */
void trace_inherit_locked(struct task *t, const struct task *from);
/* @t has left its process: what it traces is let go, and its tracer hears of the end. */
void trace_task_left_locked(struct task *t, uint32_t wait_status, struct trace_gone *gone);
/* Of zombie @p: is its tracer to wait for it before its parent hears of the end? */
bool trace_holds_end_locked(struct process *p, struct trace_gone *gone);
/*
 * Ended task @t is not waited for any more. If that held the end of its process back from the
 * parent, that process is returned, for process_tell_end_locked(); else NULL.
 */
struct process *trace_forget_locked(struct task *t, struct trace_gone *gone) __must_check;
/* exec: @t, which had number @old_tid, has its process's now. */
void trace_exec_locked(struct task *t, uint32_t old_tid, struct trace_gone *gone);
/* Tell the tracer of @t, as a parent is told. True: it wants no zombies. */
bool trace_tell_locked(struct task *t, int code, int status);

/* --- trace.c: stops of the calling task --------------------------------------------------- */

/*
 * The task is about to take signal @info: what its tracer makes of it. False: there is nothing left
 * to deliver.
 */
bool trace_signal(struct task *t, struct linux_siginfo *info);
/* It stops with its process, or because the tracer wants it to (PTRACE_INTERRUPT). */
void trace_trap(struct task *t);
/* Does the tracer want to hear of PTRACE_EVENT_@event? */
bool trace_wants(const struct task *t, unsigned int event);
/* Stop at it, if so. */
void trace_event(struct task *t, unsigned int event, uint64_t message);
/* The same with the number of a task, which the tracer gets as it sees it. */
void trace_event_task(struct task *t, unsigned int event, uint32_t tid);
/* exec has succeeded; @old_tid is the number that the task had before. */
void trace_exec_done(struct task *t, uint32_t old_tid);
/* The calling task ends, or has its process end, with @wait_status. */
void trace_exiting(uint32_t wait_status);
/* Before and after a system call of a watched task. False: the call is not to be made. */
bool trace_call_begin(struct task *t, struct pt_regs *regs);
void trace_call_end(struct task *t, struct pt_regs *regs);
/*
 * A handler is to run: the frame must not have the tracer's TF. True: it is stepped, and is to stop
 * at the handler's first instruction (trace_handler_begins()).
 */
bool trace_step_end(struct task *t, struct pt_regs *regs);
void trace_handler_begins(struct task *t);
/* TRACE_WATCH_* for the tracer from now on. process.sig_lock is held. */
void trace_watch_locked(struct task *t, uint32_t bits);
/* The same of TRACE_WATCH_SECCOMP. */
void trace_watch_seccomp_locked(struct task *t, bool on);
