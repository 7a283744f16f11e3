/* SPDX-License-Identifier: MIT */
/*
 * Signals: pending queues, dispositions, stop and continue, and the restart of system calls.
 *
 * A wait that a signal ends answers -EINTR (kernel/wait.h). A blocking system call must turn that
 * into the answer that signal(7) gives for it:
 *
 *   -ERESTARTSYS again if no handler ran or its action has SA_RESTART: read, write, open,
 *                           wait4, waitid, ioctl, futex without a timeout, flock, F_SETLKW
 *   -ERESTARTNOHAND         again only if no handler ran: select, pselect6, ppoll, pause,
 *                           rt_sigsuspend, clock_nanosleep(TIMER_ABSTIME)
 *   signal_restart_later()  as -ERESTARTNOHAND, but goes on for the rest of a relative timeout:
 *                           nanosleep, poll, futex with a timeout
 *   -ERESTARTNOINTR         again always: calls whose program must not see a signal at all (clone)
 *   -EINTR                  never again: rt_sigtimedwait, epoll_wait, semop, io_getevents
 *
 * On the way to user mode that becomes -EINTR or the call runs again. The call also runs again when
 * another thread took the signal, or the process was stopped and continued.
 *
 * Context:	signals may be posted in any context but interrupts: timers post from a work queue.
 * Locking:	process.sig_lock guards the fields that name it; sighand.lock (inside it) the
 *		dispositions, because CLONE_SIGHAND shares them between processes.
 * See:		docs/design/signals.md
 */
#pragma once

#include <abi/signal.h>
#include <kernel/spinlock.h>
#include <kernel/wait.h>
#include <lib/atomic.h>
#include <lib/compiler.h>
#include <lib/list.h>
#include <lib/types.h>

struct process;
struct process_timers;
struct pt_regs;
struct task;

#define NR_SIGNALS 65 /* 1 to 64 */

#define SIGMASK(signo)      (1ull << ((signo) - 1))
#define SIGMASK_UNBLOCKABLE (SIGMASK(SIGKILL) | SIGMASK(SIGSTOP))

/* Signals that are pending for a task or a process. */
struct sigqueue {
	uint64_t set; /* one bit a pending signal */
	struct list_head
		/* what is said about them, oldest first; may lack some for want of memory */
		entries;
};

/* Dispositions. */
struct sighand {
	refcount_t refs;
	struct spinlock lock; /* RANK_SPIN_SIGHAND */
	struct linux_sigaction actions[NR_SIGNALS] __guarded_by(&lock);
};

#define RESTART_ARGS 5

/* How a call goes on that answered signal_restart_later(). */
struct restart_block {
	long (*fn)(const uint64_t args[RESTART_ARGS]);
	uint64_t args[RESTART_ARGS];
};

/* The part of a task; fields without a word belong to process.sig_lock. */
struct signal_task {
	uint64_t mask;
	uint64_t saved_mask; /* comes back after a call with a mask of its own */
	bool has_saved_mask;
	uint64_t wait_set; /* rt_sigtimedwait: taken out of the mask while it waits */
	struct sigqueue pending;
	bool stopped;                 /* with its process; a tracer may have let it go on since */
	int ends_by;                  /* the signal of signal_force_end(); 0: none */
	struct linux_stack altstack;  /* own */
	struct restart_block restart; /* own */
	uint32_t trapno;              /* own: of the last fault that raised a signal */
	uint64_t error, cr2;          /* own: likewise */
};

/* The part of a process; fields without a word belong to process.sig_lock. */
struct signal_process {
	struct sighand *sighand; /* counted; changes in exec, with one task left */
	struct sigqueue pending; /* for whichever task takes it first */
	int stop_signo;          /* not 0: tasks stop on their way to user mode */
	uint32_t nr_stopped;     /* tasks that have */
	uint32_t
		/* counts SIGCONT: one that came after a stop signal was taken cancels it */
		cont_seq;
	bool stop_done;          /* all have stopped */
	int stop_report;         /* stop signal that wait(WUNTRACED) has not seen yet */
	bool cont_report;        /* wait(WCONTINUED) has not seen yet that it goes on */
	int tell_parent;         /* CLD_* that a task tells the parent on its way to user mode */
	struct waitqueue go_on;  /* stopped tasks */
	struct waitqueue posted; /* signalfd: something was queued */
	struct process_timers *timers; /* process.lock: NULL until there is one */
	bool timers_over;              /* process.lock: it has ended, there will be none */
	uint64_t dead_cpu_ns;          /* CPU time of tasks that are gone */
	uint64_t dead_user_ns;         /* the part of it in user mode */
	/* Number 1 of a PID namespace: it takes no default action but what is forced upon it. */
	bool unkillable;
};

/* --- posting -------------------------------------------------------------------------- */

/*
 * To one task (tkill) or to the process (kill). 0; -EAGAIN: a real-time signal whose siginfo would
 * be lost, because RLIMIT_SIGPENDING is reached. Not from interrupts.
 */
int signal_post_task(struct task *t, const struct linux_siginfo *info);
int signal_post(struct process *p, const struct linux_siginfo *info);
/* To the task with @tid of @p. -ESRCH: there is none; @info NULL: only look. */
int signal_post_tid(struct process *p, uint32_t tid, const struct linux_siginfo *info);
/* To every process of group @pgid; sleeps. */
void signal_post_group(uint32_t pgid, const struct linux_siginfo *info);
/* Does the calling task block or ignore @signo? */
bool signal_is_held(int signo);
/* A fault of the running instruction: cannot be blocked or ignored. */
void signal_force(struct task *t, const struct linux_siginfo *info);
/*
 * The same, and the process ends by it: whatever its action is by then, whoever has it dropped, and
 * unseen by a tracer (Linux: SA_IMMUTABLE).
 */
void signal_force_end(struct task *t, const struct linux_siginfo *info);
/*
 * SIGPIPE for the calling task, as a write to a pipe, stream or socket that nobody reads raises it,
 * whatever part of it was written before. send() with MSG_NOSIGNAL answers EPIPE without it.
 */
void signal_raise_sigpipe(void);
/*
 * SIGCHLD about a child that has ended, stopped or continued (@info->code). True: the parent wants
 * no zombies (SIG_IGN or SA_NOCLDWAIT).
 */
bool signal_post_child(struct process *parent, const struct linux_siginfo *info);

/* RLIMIT_CPU of @p is @seconds now: SIGXCPU then. process.lock held. -ENOMEM */
int signal_cpu_limit_locked(struct process *p, uint64_t seconds) __must_check;
/* How many signals are queued for the user of @p, and how many may be. For /proc. */
void signal_queue_use(const struct process *p, uint64_t *queued, uint64_t *limit);
/* RLIMIT_SIGPENDING of a new program: queued signals of one user. */
uint64_t signal_queue_limit(void);

/* --- on the way to user mode ------------------------------------------------------------ */

/* Deliver what is pending; stop; end; may not return. */
void signal_return_work(struct pt_regs *regs);
/* Is something deliverable pending for the calling task, or is it to end? */
bool signal_pending(void);
/*
 * Calls that wait with a signal mask of their own (ppoll, pselect, sigsuspend): the mask holds from
 * begin on. After a wait that a signal has interrupted (@ret -EINTR or one of -ERESTART*) it stays
 * until that signal is delivered.
 */
void signal_mask_begin(uint64_t mask);
/*
 * The same with the mask of @size bytes that the program passes at @umask, if any (not 0). 0;
 * -EINVAL: another size; -EFAULT.
 */
int signal_mask_begin_user(uint64_t umask, uint64_t size) __must_check;
long signal_mask_end(long ret);
/* Change the mask of the calling task as rt_sigprocmask does. */
void signal_set_mask(uint64_t mask);
/* The same of @t, which is stopped for its tracer. */
void signal_set_mask_of(struct task *t, uint64_t mask);
/* The entry behind @nr others of @q, whose sig_lock is held; false: there is none. */
bool signal_queue_peek(const struct sigqueue *q, uint64_t nr, struct linux_siginfo *info);
/* See Restart above: @fn runs when the call goes on. */
long signal_restart_later(long (*fn)(const uint64_t args[RESTART_ARGS]),
			  const uint64_t args[RESTART_ARGS]);

/* --- life of tasks and processes ---------------------------------------------------------- */

/* A process without a parent: default dispositions. -ENOMEM */
int signal_process_init(struct process *p) __must_check;
/*
 * clone() without CLONE_THREAD: dispositions of @parent, copied or shared; nothing is pending, no
 * timer runs. The rlimits are there already. -ENOMEM
 */
int signal_process_fork(struct process *p, struct process *parent, bool share) __must_check;
/* CLONE_CLEAR_SIGHAND and exec: handlers go back to the default; what is ignored stays so. */
void signal_reset_handlers(struct process *p);
/*
 * exec, with one task left: unshare, reset the handlers, no alternate stack, no POSIX timers.
 * -ENOMEM
 */
int signal_exec(struct task *t) __must_check;
/*
 * A task that is not yet on process.tasks. @from: whose mask it gets, or NULL; a thread gets no
 * altstack.
 */
void signal_task_init(struct task *t, const struct task *from, bool keep_altstack);
/*
 * A new task is on process.tasks (sig_lock held), before it is started: a stop that is under way
 * stops it too.
 */
void signal_task_added_locked(struct task *t);
/* The task comes off process.tasks (sig_lock held): it counts as stopped no longer. */
void signal_task_left_locked(struct task *t);
/*
 * The task is off process.tasks and nr_tasks is counted down: drop what is pending for it, let
 * others take what it was to take, finish a stop that waited for it.
 */
void signal_task_exit(struct task *t);
/* The last task is gone: timers stop. */
void signal_process_exit(struct process *p);
/* The process structure goes. */
void signal_process_free(struct process *p);

/* --- stop, continue, and the parent -------------------------------------------------------- */

/*
 * For wait(): has @p stopped (WUNTRACED: the signal) or gone on (WCONTINUED) since that was last
 * seen? @keep: WNOWAIT.
 */
int signal_take_stopped(struct process *p, bool keep);
bool signal_take_continued(struct process *p, bool keep);
/*
 * Provided by process/: tell the parent that @p has stopped or continued (@code CLD_*, @status the
 * signal).
 */
void process_report_child(struct process *p, int code, int status);
/*
 * Provided by process/: has no member of @p's group a parent that could continue it? Such groups
 * ignore SIGTSTP,
 * TTIN, TTOU.
 */
bool process_group_orphaned(struct process *p);
