/* SPDX-License-Identifier: MIT */
/*
 * Signals: posting, dispositions, default actions.
 *
 * Flow:	a signal is queued on a task or a process and the tasks that may take it are notified; on the
 *		way to user mode signal_return_work() takes one after the other: handler (frame.c),
 *		default action, or nothing.
 * Locking:	process.sig_lock, a spinlock, so that faults and lost pages can post from any context.
 * Limits:	one pending instance per signal number, real-time ones included; stop signals have no effect
 *		yet (no job control): both are named in docs/syscalls.md.
 */
#define PR_FMT "signal: "

#include <processor/signal.h>

#include <arch/trap.h>
#include <kernel/printk.h>
#include <lib/errno.h>
#include <processor/process.h>

#include "frame.h"

enum default_action {
	ACT_TERM,
	ACT_CORE,
	ACT_IGNORE,
	ACT_STOP,
};

static enum default_action default_action(int signo)
{
	switch (signo) {
	case SIGCHLD:
	case SIGCONT:
	case SIGURG:
	case SIGWINCH:
		return ACT_IGNORE;
	case SIGSTOP:
	case SIGTSTP:
	case SIGTTIN:
	case SIGTTOU:
		return ACT_STOP;
	case SIGQUIT:
	case SIGILL:
	case SIGTRAP:
	case SIGABRT:
	case SIGBUS:
	case SIGFPE:
	case SIGSEGV:
	case SIGXCPU:
	case SIGXFSZ:
	case SIGSYS:
		return ACT_CORE;
	default:
		return ACT_TERM;
	}
}

/* A blocked signal waits even if it would be ignored: the disposition may change before it is unblocked. */
static bool ignored_locked(const struct process *p, int signo, uint64_t blocked)
{
	const uint64_t handler = p->actions[signo].handler;

	if (blocked & SIGMASK(signo))
		return false;
	if (handler == SIG_IGN)
		return signo != SIGKILL && signo != SIGSTOP;
	return handler == SIG_DFL &&
	       (default_action(signo) == ACT_IGNORE || default_action(signo) == ACT_STOP);
}

static void queue(struct sigqueue *q, const struct siginfo_k *info)
{
	if (q->set & SIGMASK(info->signo))
		return;
	q->set |= SIGMASK(info->signo);
	q->info[info->signo] = *info;
}

static void notify(struct task *t, int signo)
{
	thread_notify(t->thread,
		      signo == SIGKILL ? THREAD_F_SIGNAL | THREAD_F_KILL : THREAD_F_SIGNAL);
}

void signal_post(struct process *p, const struct siginfo_k *info)
{
	struct task *t;
	uint64_t blocked = UINT64_MAX;

	spin_lock(&p->sig_lock);
	list_for_each_entry(t, &p->tasks, link)
		blocked &=
			t->sigmask; /* by all of them; no task yet: looked at when there is one */
	if (!ignored_locked(p, info->signo, blocked)) {
		queue(&p->shared_pending, info);
		list_for_each_entry(t, &p->tasks, link) {
			if (info->signo == SIGKILL || !(t->sigmask & SIGMASK(info->signo)))
				notify(t, info->signo);
		}
	}
	spin_unlock(&p->sig_lock);
}

void signal_post_task(struct task *t, const struct siginfo_k *info)
{
	struct process *p = t->process;

	spin_lock(&p->sig_lock);
	if (!ignored_locked(p, info->signo, t->sigmask)) {
		queue(&t->pending, info);
		if (info->signo == SIGKILL || !(t->sigmask & SIGMASK(info->signo)))
			notify(t, info->signo);
	}
	spin_unlock(&p->sig_lock);
}

void signal_force(struct task *t, const struct siginfo_k *info)
{
	struct process *p = t->process;
	struct sigaction_k *act = &p->actions[info->signo];

	spin_lock(&p->sig_lock);
	/* A fault that is blocked or ignored would repeat for ever: it kills instead. */
	if (act->handler == SIG_IGN || (t->sigmask & SIGMASK(info->signo))) {
		act->handler = SIG_DFL;
		t->sigmask &= ~SIGMASK(info->signo);
	}
	t->pending.set &=
		~SIGMASK(info->signo); /* what is said about the fault counts, not an older one */
	queue(&t->pending, info);
	notify(t, info->signo);
	spin_unlock(&p->sig_lock);
}

static uint64_t deliverable_locked(const struct task *t)
{
	const uint64_t pending = t->pending.set | t->process->shared_pending.set;

	return pending & ~(t->sigmask & ~(SIGMASK(SIGKILL) | SIGMASK(SIGSTOP)));
}

bool signal_pending(void)
{
	struct task *t = task_current();
	bool pending;

	spin_lock(&t->process->sig_lock);
	pending = t->process->exiting || deliverable_locked(t) != 0;
	spin_unlock(&t->process->sig_lock);
	return pending;
}

/* SIGKILL first, then what the task's own instruction caused, then by number, its own first. */
static int choose_locked(const struct task *t, uint64_t set)
{
	const uint64_t faults = SIGMASK(SIGSEGV) | SIGMASK(SIGBUS) | SIGMASK(SIGILL) |
				SIGMASK(SIGTRAP) | SIGMASK(SIGFPE) | SIGMASK(SIGSYS);

	if (set & SIGMASK(SIGKILL))
		return SIGKILL;
	if (set & t->pending.set & faults)
		set &= t->pending.set & faults;
	else if (set & t->pending.set)
		set &= t->pending.set;
	return __builtin_ctzll(set) + 1;
}

static bool dequeue_locked(struct task *t, struct siginfo_k *info, struct sigaction_k *act)
{
	const uint64_t set = deliverable_locked(t);
	struct sigqueue *q;
	int signo;

	if (!set)
		return false;
	signo = choose_locked(t, set);
	q = (t->pending.set & SIGMASK(signo)) ? &t->pending : &t->process->shared_pending;
	q->set &= ~SIGMASK(signo);
	*info = q->info[signo];
	*act = t->process->actions[signo];
	if (act->handler > SIG_IGN && (act->flags & SA_RESETHAND))
		t->process->actions[signo].handler = SIG_DFL;
	return true;
}

static void act_default(struct process *p, const struct siginfo_k *info)
{
	const enum default_action act = default_action(info->signo);
	uint32_t status = (uint32_t)info->signo;

	if (act == ACT_IGNORE || act == ACT_STOP)
		return;
	if (act == ACT_CORE)
		pr_info("pid %u (%s): signal %d at %#llx, ip %#llx, sp %#llx\n", p->pid, p->comm,
			info->signo, (unsigned long long)info->addr,
			(unsigned long long)user_regs_current()->rip,
			(unsigned long long)user_regs_current()->rsp);
	process_exit_group(p, status);
	task_exit(status);
}

static void run_handler(struct task *t, struct pt_regs *regs, const struct siginfo_k *info,
			const struct sigaction_k *act)
{
	const struct siginfo_k segv = { .signo = SIGSEGV, .code = SI_KERNEL };
	uint64_t old;

	spin_lock(&t->process->sig_lock);
	old = t->has_saved_mask ? t->saved_mask : t->sigmask;
	t->has_saved_mask = false;
	t->sigmask |= act->mask;
	if (!(act->flags & SA_NODEFER))
		t->sigmask |= SIGMASK(info->signo);
	spin_unlock(&t->process->sig_lock);
	if (signal_frame_push(regs, info, act, old) < 0) {
		/* No stack for a frame: not even a handler of SIGSEGV can run. */
		spin_lock(&t->process->sig_lock);
		t->process->actions[SIGSEGV].handler = SIG_DFL;
		spin_unlock(&t->process->sig_lock);
		act_default(t->process, &segv);
	}
}

/* The mask of before a call that had one of its own, if no handler's frame has taken it. */
static bool mask_restore(struct task *t)
{
	bool restored;

	spin_lock(&t->process->sig_lock);
	restored = t->has_saved_mask;
	if (restored)
		t->sigmask = t->saved_mask;
	t->has_saved_mask = false;
	spin_unlock(&t->process->sig_lock);
	return restored;
}

void signal_mask_begin(uint64_t mask)
{
	struct task *t = task_current();
	bool pending;

	spin_lock(&t->process->sig_lock);
	t->saved_mask = t->sigmask;
	t->has_saved_mask = true;
	t->sigmask = mask & ~(SIGMASK(SIGKILL) | SIGMASK(SIGSTOP));
	pending = deliverable_locked(t) != 0;
	spin_unlock(&t->process->sig_lock);
	if (pending)
		thread_notify(t->thread, THREAD_F_SIGNAL); /* ends the wait before it begins */
}

long signal_mask_end(long ret)
{
	struct task *t = task_current();

	if (ret == -EINTR && signal_pending())
		return ret; /* delivered under this mask, on the way to user mode */
	if (mask_restore(t) && signal_pending())
		thread_notify(t->thread, THREAD_F_SIGNAL);
	return ret;
}

void signal_return_work(struct pt_regs *regs)
{
	struct task *t = task_current();
	struct process *p = t->process;
	struct siginfo_k info;
	struct sigaction_k act;
	bool got, exiting;

	for (;;) {
		spin_lock(&p->sig_lock);
		thread_clear_flags(t->thread, THREAD_F_SIGNAL | THREAD_F_WORK);
		exiting = p->exiting;
		got = !exiting && dequeue_locked(t, &info, &act);
		spin_unlock(&p->sig_lock);
		if (exiting)
			task_exit(p->wait_status);
		if (!got && !mask_restore(t))
			break;
		if (!got)
			continue; /* the old mask may let another one through */
		if (act.handler == SIG_DFL || info.signo == SIGKILL) {
			act_default(p, &info);
		} else if (act.handler != SIG_IGN) {
			signal_restart_fixup(regs, &act);
			run_handler(t, regs, &info, &act);
		}
	}
	signal_restart_fixup(regs, NULL);
}

void signal_reset_handlers(struct process *p)
{
	spin_lock(&p->sig_lock);
	for (int i = 1; i < NR_SIGNALS; i++) {
		if (p->actions[i].handler > SIG_IGN)
			p->actions[i] = (struct sigaction_k){ 0 };
	}
	spin_unlock(&p->sig_lock);
}
