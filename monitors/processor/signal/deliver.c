/* SPDX-License-Identifier: MIT */
/*
 * Signals on the way to user mode: handlers, default actions, stopping, and the restart of system
 * calls.
 *
 * Flow:	signal_return_work() runs while the task has flags set: it ends, or stops until
 *		SIGCONT, or takes one signal after the other; each handler gets a frame, so the last
 *		one taken runs first. The task that takes a stop signal sets
 *		process.sig.stop_signo; every task stops when it comes by; the last one tells the
 *		parent. A SIGCONT clears the stop when it is posted.
 * See:		docs/design/signals.md
 */
#define PR_FMT "signal: "

#include <arch/trap.h>
#include <kernel/panic.h>
#include <kernel/printk.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <processor/ipc/async.h>
#include <processor/process/core.h>
#include <processor/process/process.h>
#include <processor/syscall/strace.h>

#include "queue_private.h"
#include "signal_private.h"

#define SYSCALL_LEN   2 /* bytes of the SYSCALL instruction */
#define NOT_A_SYSCALL UINT64_MAX

/* --- restart -------------------------------------------------------------------------- */

static void run_again(struct pt_regs *regs, uint64_t nr)
{
	regs->rax = nr;
	regs->rip -= SYSCALL_LEN;
}

/*
 * A system call that a signal has interrupted: see the table in signal.h. @act NULL: no handler
 * runs. Only once, before the first frame: what the handler's frame says is what the handler
 * returns to.
 */
static void restart_fixup(struct pt_regs *regs, const struct linux_sigaction *act)
{
	const uint64_t nr = regs->orig_rax;

	if (nr == NOT_A_SYSCALL)
		return;
	switch ((long)regs->rax) {
	case -ERESTARTNOINTR:
		run_again(regs, nr);
		break;
	case -ERESTARTSYS:
		if (!act || (act->flags & SA_RESTART))
			run_again(regs, nr);
		else
			regs->rax = (uint64_t)-EINTR;
		break;
	case -ERESTARTNOHAND:
	case -ERESTART_RESTARTBLOCK:
		if (act)
			regs->rax = (uint64_t)-EINTR;
		else if ((long)regs->rax == -ERESTARTNOHAND)
			run_again(regs, nr);
		else
			run_again(regs, __NR_restart_syscall);
		break;
	default:
		break;
	}
	regs->orig_rax = NOT_A_SYSCALL;
}

long signal_restart_later(long (*fn)(const uint64_t args[RESTART_ARGS]),
			  const uint64_t args[RESTART_ARGS])
{
	struct restart_block *rb = &task_current()->sig.restart;

	rb->fn = fn;
	memcpy(rb->args, args, sizeof(rb->args));
	return -ERESTART_RESTARTBLOCK;
}

/* --- taking --------------------------------------------------------------------------- */

int signal_take_locked(struct task *t, uint64_t set, struct linux_siginfo *info)
{
	struct sigqueue *q = &t->sig.pending;
	int signo = sigqueue_first(q, set);
	struct ptimer *timer;

	assert_spin_held(&t->process->sig_lock);
	if (!signo) {
		q = &t->process->sig.pending;
		signo = sigqueue_first(q, set);
	}
	if (!signo)
		return 0;
	timer = sigqueue_take(q, signo, info);
	if (timer)
		ptimer_taken_locked(timer, info);
	return signo;
}

/* The action for @signo, which @t takes now. */
static void action_take_locked(struct task *t, int signo, struct linux_sigaction *act)
{
	struct sighand *sh = t->process->sig.sighand;

	assert_spin_held(&t->process->sig_lock);
	spin_lock(&sh->lock);
	*act = sh->actions[signo];
	if (act->handler > SIG_IGN && (act->flags & SA_RESETHAND))
		sh->actions[signo].handler = SIG_DFL;
	spin_unlock(&sh->lock);
}

/* --- stop ----------------------------------------------------------------------------- */

bool signal_stop_complete_locked(struct process *p)
{
	assert_spin_held(&p->sig_lock);
	if (!p->sig.stop_signo || p->sig.stop_done || p->exiting || !p->nr_tasks ||
	    p->sig.nr_stopped < p->nr_tasks)
		return false;
	p->sig.stop_done = true;
	p->sig.stop_report = p->sig.stop_signo;
	return true;
}

static void begin_stop(struct process *p, int signo, uint32_t cont_seq)
{
	struct task *t;

	/* No parent could continue an orphaned group: only SIGSTOP stops it. */
	if (signo != SIGSTOP && process_group_orphaned(p))
		return;
	spin_lock(&p->sig_lock);
	if (p->sig.cont_seq == cont_seq && !p->exiting && !p->sig.stop_signo) {
		p->sig.stop_signo = signo;
		p->sig.stop_done = false;
		p->sig.nr_stopped = 0;
		p->sig.cont_report = false;
		list_for_each_entry(t, &p->tasks, link)
			thread_notify(t->thread, THREAD_F_SIGNAL);
	}
	spin_unlock(&p->sig_lock);
}

/* The calling task stops until SIGCONT or the end. */
static void stop_here(struct process *p, struct task *t)
{
	int report = 0;

	spin_lock(&p->sig_lock);
	if (p->sig.stop_signo && !t->sig.stopped && !task_ending_locked(t)) {
		t->sig.stopped = true;
		p->sig.nr_stopped++;
		ASSERT(p->sig.nr_stopped <= p->nr_tasks);
		if (signal_stop_complete_locked(p))
			report = p->sig.stop_signo;
	}
	spin_unlock(&p->sig_lock);
	if (report)
		process_report_child(p, CLD_STOPPED, report);
	/*
	 * It ends with the stop, with the process (-EINTR), or with the first stop for a tracer:
	 * the caller looks which. A core file is written with all tasks standing elsewhere.
	 */
	(void)wait_event_killable(&p->sig.go_on, !READ_ONCE(t->sig.stopped) ||
							 READ_ONCE(t->trace.trap) ||
							 READ_ONCE(p->core_task));
}

int signal_take_stopped(struct process *p, bool keep)
{
	int signo;

	spin_lock(&p->sig_lock);
	signo = p->sig.stop_report;
	if (!keep)
		p->sig.stop_report = 0;
	spin_unlock(&p->sig_lock);
	return signo;
}

bool signal_take_continued(struct process *p, bool keep)
{
	bool continued;

	spin_lock(&p->sig_lock);
	continued = p->sig.cont_report;
	if (!keep)
		p->sig.cont_report = false;
	spin_unlock(&p->sig_lock);
	return continued;
}

/* --- actions -------------------------------------------------------------------------- */

static void act_default(struct process *p, const struct linux_siginfo *info, uint32_t cont_seq)
{
	uint32_t status = (uint32_t)info->signo;

	switch (signal_default_action(info->signo)) {
	case ACT_IGNORE:
		return;
	case ACT_STOP:
		begin_stop(p, info->signo, cont_seq);
		return;
	case ACT_CORE:
		pr_info("pid %u (%s): signal %d at %#llx, ip %#llx, sp %#llx\n", p->pid, p->comm,
			info->signo, (unsigned long long)info->addr,
			(unsigned long long)user_regs_current()->rip,
			(unsigned long long)user_regs_current()->rsp);
		if (core_dump(info))
			status |= WAIT_CORE_FLAG;
		break;
	case ACT_TERM:
		break;
	}
	trace_exiting(status);
	process_exit_group(p, status);
	core_over();
	task_exit(status);
}

/*
 * No stack for a frame: SIGSEGV instead, which may have a handler on a stack of its own, but not
 * for itself.
 */
static void no_frame(struct task *t, int signo)
{
	const struct linux_siginfo segv = { .signo = SIGSEGV, .code = SI_KERNEL };

	if (signo == SIGSEGV)
		act_default(t->process, &segv, 0);
	signal_force(t, &segv);
}

static void run_handler(struct task *t, struct pt_regs *regs, const struct linux_siginfo *info,
			const struct linux_sigaction *act)
{
	/* The mask is the task's own to change; what others may look at changes under the lock. */
	const uint64_t old = t->sig.has_saved_mask ? t->sig.saved_mask : t->sig.mask;
	const bool stepped = trace_step_end(t, regs);

	if (rseq_leave(t, regs) || signal_frame_push(regs, info, act, old)) {
		no_frame(t, info->signo);
		return;
	}
	spin_lock(&t->process->sig_lock);
	t->sig.has_saved_mask = false;
	signal_set_mask_locked(t, t->sig.mask | act->mask |
					  (act->flags & SA_NODEFER ? 0 : SIGMASK(info->signo)));
	spin_unlock(&t->process->sig_lock);
	if (unlikely(stepped))
		trace_handler_begins(t);
}

/* The mask of before a call that had one of its own, if no handler's frame has taken it. */
static bool mask_restore(struct task *t)
{
	bool restored;

	spin_lock(&t->process->sig_lock);
	restored = t->sig.has_saved_mask;
	t->sig.has_saved_mask = false;
	if (restored)
		signal_set_mask_locked(t, t->sig.saved_mask);
	spin_unlock(&t->process->sig_lock);
	return restored;
}

enum next {
	NEXT_NOTHING,
	NEXT_SIGNAL,
	NEXT_STOP,
	NEXT_TRAP,
	NEXT_PARK,
	NEXT_REPORT,
	NEXT_END,
};

struct step {
	struct linux_siginfo info;
	struct linux_sigaction act;
	uint32_t cont_seq;
	bool traced; /* what is to be done about the signal is not looked up yet */
	int report;  /* CLD_* that the parent hears */
	int stopped; /* NEXT_TRAP: the process's stop that is complete with this task; or 0 */
};

/* A traced task stops for its tracer instead of with the others, but counts as one of them. */
static int count_as_stopped_locked(struct task *t)
{
	struct process *p = t->process;

	assert_spin_held(&p->sig_lock);
	t->sig.stopped = true;
	p->sig.nr_stopped++;
	ASSERT(p->sig.nr_stopped <= p->nr_tasks);
	return signal_stop_complete_locked(p) ? p->sig.stop_signo : 0;
}

static enum next next_step(struct process *p, struct task *t, struct step *s)
{
	enum next next = NEXT_NOTHING;

	spin_lock(&p->sig_lock);
	thread_clear_flags(t->thread, THREAD_F_SIGNAL | THREAD_F_WORK);
	if (unlikely(p->core_task) && p->core_task != t) {
		next = NEXT_PARK;
	} else if (task_ending_locked(t)) {
		next = NEXT_END;
	} else if (p->sig.tell_parent) {
		next = NEXT_REPORT;
		s->report = p->sig.tell_parent;
		p->sig.tell_parent = 0;
	} else if (signal_is_to_stop_locked(t)) {
		next = t->trace.tracer ? NEXT_TRAP : NEXT_STOP;
		s->stopped = 0;
		if (next == NEXT_TRAP && p->sig.stop_signo && !t->sig.stopped)
			s->stopped = count_as_stopped_locked(t);
		t->trace.trap = false;
	} else if (unlikely(t->sig.ends_by)) {
		next = NEXT_SIGNAL;
		if (!signal_take_locked(t, SIGMASK(t->sig.ends_by), &s->info))
			s->info = (struct linux_siginfo){ .signo = t->sig.ends_by };
		s->cont_seq = p->sig.cont_seq;
		s->traced = false;
		s->act = (struct linux_sigaction){ .handler = SIG_DFL };
	} else if (signal_take_locked(t, signal_deliverable_locked(t), &s->info)) {
		next = NEXT_SIGNAL;
		s->cont_seq = p->sig.cont_seq;
		s->traced = t->trace.tracer;
		if (likely(!s->traced))
			action_take_locked(t, s->info.signo, &s->act);
	}
	spin_unlock(&p->sig_lock);
	return next;
}

/* The tracer of @t decides about the signal. False: there is none any more. */
static bool ask_tracer(struct process *p, struct task *t, struct step *s)
{
	if (!trace_signal(t, &s->info))
		return false;
	spin_lock(&p->sig_lock);
	s->cont_seq = p->sig.cont_seq;
	action_take_locked(t, s->info.signo, &s->act);
	spin_unlock(&p->sig_lock);
	return true;
}

static void deliver(struct process *p, struct task *t, struct pt_regs *regs, struct step *s)
{
	if (unlikely(s->traced) && !ask_tracer(p, t, s))
		return;
	if (unlikely(strace_on))
		strace_signal(s->info.signo, s->info.code,
			      s->act.handler == SIG_DFL   ? "default action"
			      : s->act.handler == SIG_IGN ? "ignored"
							  : "handler");
	if (s->act.handler == SIG_DFL) {
		/* Number 1 of a PID namespace: it was blocked, or its tracer has sent it. */
		if (!READ_ONCE(p->sig.unkillable) || (SIGMASK(s->info.signo) & SIGMASK_UNBLOCKABLE))
			act_default(p, &s->info, s->cont_seq);
	} else if (s->act.handler != SIG_IGN) {
		restart_fixup(regs, &s->act);
		run_handler(t, regs, &s->info, &s->act);
	}
}

void signal_return_work(struct pt_regs *regs)
{
	struct task *t = task_current();
	struct process *p = t->process;
	struct step s = { 0 };

	async_send(); /* its own call may have made a file ready */
	for (;;) {
		switch (next_step(p, t, &s)) {
		case NEXT_END:
			task_exit(READ_ONCE(p->wait_status)); /* final: p->exiting is set */
		case NEXT_REPORT:
			process_report_child(p, s.report, s.report == CLD_CONTINUED ? SIGCONT : 0);
			break;
		case NEXT_STOP:
			stop_here(p, t);
			break;
		case NEXT_TRAP:
			if (s.stopped)
				process_report_child(p, CLD_STOPPED, s.stopped);
			trace_trap(t);
			break;
		case NEXT_PARK:
			core_park(t);
			break;
		case NEXT_SIGNAL:
			deliver(p, t, regs, &s);
			break;
		case NEXT_NOTHING:
			if (mask_restore(t))
				break; /* the old mask may let another one through */
			restart_fixup(regs, NULL);
			if (likely(!rseq_return(t, regs)))
				return;
			no_frame(t, 0);
			break;
		}
	}
}
