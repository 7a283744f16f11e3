/* SPDX-License-Identifier: MIT */
/*
 * System calls on signals: rt_sigaction, rt_sigprocmask, rt_sigpending, rt_sigsuspend, sigaltstack, kill,
 * tkill, tgkill.
 */
#include <arch/trap.h>
#include <arch/uaccess.h>
#include <kernel/wait.h>
#include <lib/errno.h>
#include <processor/process.h>
#include <processor/signal.h>
#include <processor/syscall.h>

#define SIGSET_SIZE 8
#define UNBLOCKABLE (SIGMASK(SIGKILL) | SIGMASK(SIGSTOP))

/* POSIX: setting a signal to be ignored discards what is pending of it. */
static void forget_pending_locked(struct process *p, int signo)
{
	struct task *t;

	p->shared_pending.set &= ~SIGMASK(signo);
	list_for_each_entry(t, &p->tasks, link)
		t->pending.set &= ~SIGMASK(signo);
}

/* rt_sigaction(signo, act, oldact, sigsetsize) */
long sys_rt_sigaction(const struct syscall_args *args)
{
	struct process *p = process_current();
	const int signo = (int)args->a[0];
	struct sigaction_k act, old;

	if (args->a[3] != SIGSET_SIZE)
		return -EINVAL;
	if (args->a[1] && copy_from_user(&act, (const void __user *)args->a[1], sizeof(act)))
		return -EFAULT;
	if (signo < 1 || signo >= NR_SIGNALS)
		return -EINVAL;
	if (args->a[1] && (signo == SIGKILL || signo == SIGSTOP))
		return -EINVAL;
	spin_lock(&p->sig_lock);
	old = p->actions[signo];
	if (args->a[1]) {
		act.mask &= ~UNBLOCKABLE;
		p->actions[signo] = act;
		if (act.handler == SIG_IGN)
			forget_pending_locked(p, signo);
	}
	spin_unlock(&p->sig_lock);
	if (args->a[2])
		return copy_to_user((void __user *)args->a[2], &old, sizeof(old));
	return 0;
}

/* rt_sigprocmask(how, set, oldset, sigsetsize) */
long sys_rt_sigprocmask(const struct syscall_args *args)
{
	struct task *t = task_current();
	uint64_t set = 0, old;

	if (args->a[3] != SIGSET_SIZE)
		return -EINVAL;
	if (args->a[1] && get_user_u64(&set, (const void __user *)args->a[1]))
		return -EFAULT;
	if (args->a[1] && args->a[0] > 2)
		return -EINVAL;
	set &= ~UNBLOCKABLE;
	spin_lock(&t->process->sig_lock);
	old = t->sigmask;
	if (args->a[1]) {
		switch (args->a[0]) {
		case 0:
			t->sigmask |= set;
			break;
		case 1:
			t->sigmask &= ~set;
			break;
		default:
			t->sigmask = set;
			break;
		}
	}
	spin_unlock(&t->process->sig_lock);
	thread_notify(t->thread, THREAD_F_WORK); /* something may have become deliverable */
	if (args->a[2])
		return put_user_u64(old, (void __user *)args->a[2]);
	return 0;
}

/* rt_sigpending(set, sigsetsize) */
long sys_rt_sigpending(const struct syscall_args *args)
{
	struct task *t = task_current();
	uint64_t set;

	if (args->a[1] > SIGSET_SIZE)
		return -EINVAL;
	spin_lock(&t->process->sig_lock);
	set = (t->pending.set | t->process->shared_pending.set) & t->sigmask;
	spin_unlock(&t->process->sig_lock);
	return copy_to_user((void __user *)args->a[0], &set, args->a[1]) ? -EFAULT : 0;
}

/* rt_sigsuspend(mask, sigsetsize) */
long sys_rt_sigsuspend(const struct syscall_args *args)
{
	struct waitqueue none;
	uint64_t mask;

	if (args->a[1] != SIGSET_SIZE)
		return -EINVAL;
	if (get_user_u64(&mask, (const void __user *)args->a[0]))
		return -EFAULT;
	waitqueue_init(&none);
	signal_mask_begin(mask);
	do {
		(void)wait_event_interruptible(&none, signal_pending());
	} while (!signal_pending());
	return signal_mask_end(-EINTR);
}

#define MINSIGSTKSZ 2048u

static bool on_altstack(const struct sigaltstack_k *ss, uint64_t sp)
{
	return !(ss->flags & (SS_DISABLE | SS_AUTODISARM)) && sp > ss->sp &&
	       sp - ss->sp <= ss->size;
}

/* sigaltstack(new, old) */
long sys_sigaltstack(const struct syscall_args *args)
{
	struct task *t = task_current();
	const bool on = on_altstack(&t->altstack, args->regs->rsp);
	struct sigaltstack_k old = t->altstack, new;
	uint32_t mode;

	old.flags |= on ? SS_ONSTACK : 0;
	if (args->a[0]) {
		if (copy_from_user(&new, (const void __user *)args->a[0], sizeof(new)))
			return -EFAULT;
		mode = new.flags & ~SS_AUTODISARM;
		if (on)
			return -EPERM;
		if (mode != 0 && mode != SS_ONSTACK && mode != SS_DISABLE)
			return -EINVAL;
		if (mode == SS_DISABLE)
			new = (struct sigaltstack_k){ .flags = SS_DISABLE };
		else if (new.size < MINSIGSTKSZ)
			return -ENOMEM;
		new.flags &= ~SS_ONSTACK;
		new.pad = 0;
		t->altstack = new;
	}
	if (args->a[1])
		return copy_to_user((void __user *)args->a[1], &old, sizeof(old));
	return 0;
}

static struct siginfo_k sender_info(int signo, int code)
{
	struct process *p = process_current();

	return (struct siginfo_k){
		.signo = signo, .code = code, .pid = p->pid, .uid = p->cred.uid
	};
}

static long kill_process(uint32_t pid, int signo)
{
	const struct siginfo_k info = sender_info(signo, SI_USER);
	struct process *me = process_current();
	struct process *p = process_find(pid);
	long ret = 0;

	if (!p)
		return -ESRCH;
	if (me->cred.uid != 0 && me->cred.uid != p->cred.uid)
		ret = -EPERM;
	else if (signo)
		signal_post(p, &info);
	process_put(p);
	return ret;
}

/* kill(pid, signo) */
long sys_kill(const struct syscall_args *args)
{
	const int pid = (int)args->a[0], signo = (int)args->a[1];
	struct process *me = process_current();

	if (signo < 0 || signo >= NR_SIGNALS)
		return -EINVAL;
	if (pid > 0)
		return kill_process((uint32_t)pid, signo);
	/* Each process is a group of its own until there is fork. */
	if (pid == 0 || pid == -(int)me->pgid)
		return kill_process(me->pid, signo);
	return pid == -1 ? 0 : -ESRCH;
}

static long kill_task(int tgid, int tid, int signo)
{
	const struct siginfo_k info = sender_info(signo, SI_TKILL);
	struct process *me = process_current();
	struct task *t, *target = NULL;

	if (tid <= 0 || signo < 0 || signo >= NR_SIGNALS)
		return -EINVAL;
	if (tgid >= 0 && (uint32_t)tgid != me->pid)
		return -ESRCH;
	spin_lock(&me->sig_lock);
	list_for_each_entry(t, &me->tasks, link) {
		if (t->tid == (uint32_t)tid)
			target = t;
	}
	spin_unlock(&me->sig_lock);
	if (!target)
		return -ESRCH;
	/* A task of the calling process with one task is the caller itself, so it stays. */
	if (signo)
		signal_post_task(target, &info);
	return 0;
}

/* tkill(tid, signo) */
long sys_tkill(const struct syscall_args *args)
{
	return kill_task(-1, (int)args->a[0], (int)args->a[1]);
}

/* tgkill(tgid, tid, signo) */
long sys_tgkill(const struct syscall_args *args)
{
	if ((int)args->a[0] <= 0)
		return -EINVAL;
	return kill_task((int)args->a[0], (int)args->a[1], (int)args->a[2]);
}
