/* SPDX-License-Identifier: MIT */
/*
 * Signals: numbers, sets, pending queues, dispositions.
 *
 * Locking:	everything of a process is guarded by process.sig_lock.
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

struct process;
struct pt_regs;
struct task;

#define NR_SIGNALS 65 /* 1 to 64 */

enum {
	SIGHUP = 1,
	SIGINT = 2,
	SIGQUIT = 3,
	SIGILL = 4,
	SIGTRAP = 5,
	SIGABRT = 6,
	SIGBUS = 7,
	SIGFPE = 8,
	SIGKILL = 9,
	SIGUSR1 = 10,
	SIGSEGV = 11,
	SIGUSR2 = 12,
	SIGPIPE = 13,
	SIGALRM = 14,
	SIGTERM = 15,
	SIGSTKFLT = 16,
	SIGCHLD = 17,
	SIGCONT = 18,
	SIGSTOP = 19,
	SIGTSTP = 20,
	SIGTTIN = 21,
	SIGTTOU = 22,
	SIGURG = 23,
	SIGXCPU = 24,
	SIGXFSZ = 25,
	SIGVTALRM = 26,
	SIGPROF = 27,
	SIGWINCH = 28,
	SIGIO = 29,
	SIGPWR = 30,
	SIGSYS = 31,
};

#define SIG_DFL 0ull
#define SIG_IGN 1ull

#define SIGMASK(signo) (1ull << ((signo) - 1))

/* struct sigaction as rt_sigaction passes it. */
struct sigaction_k {
	uint64_t handler;
	uint64_t flags;
	uint64_t restorer;
	uint64_t mask;
};

#define SA_NOCLDSTOP 0x00000001ull
#define SA_SIGINFO   0x00000004ull
#define SA_RESTORER  0x04000000ull
#define SA_ONSTACK   0x08000000ull
#define SA_RESTART   0x10000000ull
#define SA_NODEFER   0x40000000ull
#define SA_RESETHAND 0x80000000ull

/* stack_t as sigaltstack passes it. */
struct sigaltstack_k {
	uint64_t sp;
	uint32_t flags; /* SS_* */
	uint32_t pad;
	uint64_t size;
};

#define SS_ONSTACK    1u
#define SS_DISABLE    2u
#define SS_AUTODISARM 0x80000000u

/* What is said about one pending signal: the parts of siginfo_t. */
struct siginfo_k {
	int signo;
	int code;
	uint64_t addr;     /* faults */
	uint32_t pid, uid; /* kill */
	uint32_t trapno;
	uint64_t error;
};

#define SI_USER     0
#define SI_KERNEL   0x80
#define SI_TKILL    (-6)
#define SEGV_MAPERR 1
#define SEGV_ACCERR 2
#define BUS_ADRERR  2

/* Standard signals: one pending instance each, with its siginfo. */
struct sigqueue {
	uint64_t set;
	struct siginfo_k info[NR_SIGNALS];
};

/* Post to one task (fault, tkill) or to the process (kill). Any context. */
void signal_post_task(struct task *t, const struct siginfo_k *info);
void signal_post(struct process *p, const struct siginfo_k *info);
/* A fault of the running instruction: cannot be blocked or ignored. */
void signal_force(struct task *t, const struct siginfo_k *info);
/* On the way to user mode: deliver what is pending; may not return. */
void signal_return_work(struct pt_regs *regs);
/* Is something deliverable pending for the calling task? */
bool signal_pending(void);
/*
 * Calls that wait with a signal mask of their own (ppoll, pselect, sigsuspend): the mask holds from begin on.
 * After a wait that a signal has interrupted (@ret -EINTR) it stays until that signal is delivered.
 */
void signal_mask_begin(uint64_t mask);
long signal_mask_end(long ret);
/* exec: handlers go back to the default. */
void signal_reset_handlers(struct process *p);
