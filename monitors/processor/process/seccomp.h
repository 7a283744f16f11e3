/* SPDX-License-Identifier: MIT */
/*
 * Filters of system calls: seccomp(2).
 *
 * Flow:	a task with a filter, or in the strict mode, is watched as a traced one is
 *		(TRACE_WATCH_SECCOMP), so other tasks' calls pay nothing for it. Each of its calls
 *		asks all filters, and the strictest answer counts.
 * Locking:	process.sig_lock to change a task's mode and filters, which other threads may do
 *		(SECCOMP_FILTER_FLAG_TSYNC); the task itself reads them without it.
 * Invariants:	a task only gains filters. Those that it had are behind its new ones, so what it
 *		is running just now stays.
 * See:		docs/design/seccomp.md
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

struct pt_regs;
struct task;

enum seccomp_mode {
	SECCOMP_DISABLED,
	SECCOMP_STRICT,
	SECCOMP_FILTER,
};

struct seccomp_filter;

struct task_seccomp {
	uint32_t mode;                 /* sig_lock; own task: any time */
	bool no_new_privs_due;         /* the same: another thread has given it filters */
	struct seccomp_filter *filter; /* the same: the newest one, counted; or NULL */
};

/* A new task of @t's process has what its maker @from has. Its sig_lock is held. */
void seccomp_inherit_locked(struct task *t, const struct task *from);
/* @t, which makes no more calls, has left its process. Its sig_lock is held. */
void seccomp_task_left_locked(struct task *t);
/* The last reference of @t is gone. */
void seccomp_task_free(struct task *t);
/*
 * Before a call of a watched task. False: the call is not to be made, and regs->rax is its result.
 * It does not return when the task is to end.
 */
bool seccomp_call_begin(struct task *t, struct pt_regs *regs);
/* How many filters it has. */
uint32_t seccomp_nr_filters(const struct task *t);
/* prctl(PR_SET_SECCOMP, @mode, @ufilter) */
long seccomp_prctl(uint64_t mode, uint64_t ufilter);
