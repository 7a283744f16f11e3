/* SPDX-License-Identifier: MIT */
/*
 * Between the files of signal/.
 */
#pragma once

#include <lib/compiler.h>
#include <processor/process/process.h>

#include "signal.h"

struct ptimer;
struct sig_charge;
struct sigentry;

enum default_action {
	ACT_TERM,
	ACT_CORE,
	ACT_IGNORE,
	ACT_STOP,
};

enum default_action signal_default_action(int signo);

#define SIGMASK_STOP (SIGMASK(SIGSTOP) | SIGMASK(SIGTSTP) | SIGMASK(SIGTTIN) | SIGMASK(SIGTTOU))

/* The 128 bytes of siginfo_t. */
int siginfo_to_user(uint64_t uinfo, const struct linux_siginfo *info) __must_check;

/* Would @signo be thrown away by the disposition, if it is not blocked? */
bool signal_ignored_by(const struct linux_sigaction *act, int signo);
/* Drop the signals in @set that are pending for the process or any of its tasks. */
void signal_drop_locked(struct process *p, uint64_t set);
/* The limit and the user that entries for @p are charged to. */
void signal_charge_of(const struct process *p, struct sig_charge *charge);
/* Post the entry of a timer, which the timer has filled in; @tid 0: to the process. */
void signal_post_timer_locked(struct process *p, uint32_t tid, struct sigentry *e);
/* signal_post() with sig_lock held. */
int signal_post_locked(struct process *p, const struct linux_siginfo *info);
/* Is @t to stop on its way to user mode, with its process or for its tracer? */
bool signal_is_to_stop_locked(const struct task *t);
/* The signals that may be delivered to @t now. */
uint64_t signal_deliverable_locked(const struct task *t);
/*
 * @set of @t's process's signals can no longer be taken by @t (blocked now, or @t ends): let others
 * look that can.
 */
void signal_retarget_locked(struct task *t, uint64_t set);
void signal_set_mask_locked(struct task *t, uint64_t mask);
/* Take the next signal of @set, its own before the process's. 0: none. */
int signal_take_locked(struct task *t, uint64_t set, struct linux_siginfo *info);
/*
 * A group stop may be complete now that @p's tasks are fewer or more of them stand. True: tell the
 * parent.
 */
bool signal_stop_complete_locked(struct process *p);

/*
 * The signal of a timer has been taken: what it says is filled in, and a periodic timer is set
 * again (timers.c).
 */
void ptimer_taken_locked(struct ptimer *t, struct linux_siginfo *info);
/* timers.c: exec, and the end, delete POSIX timers; the end stops the others too. */
void timers_exec(struct process *p);
void timers_free(struct process *p);

/*
 * frame.c: push a frame on the user's stack, as Linux lays it out on x86-64, and point @regs at the
 * handler. -EFAULT: the stack cannot be written.
 */
int signal_frame_push(struct pt_regs *regs, const struct linux_siginfo *info,
		      const struct linux_sigaction *act, uint64_t old_mask) __must_check;
