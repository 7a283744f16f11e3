/* SPDX-License-Identifier: MIT */
/*
 * System calls on signals: rt_sigaction, rt_sigprocmask, kill, tkill, tgkill.
 */
#include <arch/uaccess.h>
#include <lib/errno.h>
#include <processor/process.h>
#include <processor/signal.h>
#include <processor/syscall.h>

#define SIGSET_SIZE 8
#define UNBLOCKABLE (SIGMASK(SIGKILL) | SIGMASK(SIGSTOP))

/* rt_sigaction(signo, act, oldact, sigsetsize) */
long sys_rt_sigaction(const struct syscall_args *args)
{
	struct process *p = process_current();
	const int signo = (int)args->a[0];
	struct sigaction_k act, old;

	if (args->a[3] != SIGSET_SIZE || signo < 1 || signo >= NR_SIGNALS)
		return -EINVAL;
	if (args->a[1] && (signo == SIGKILL || signo == SIGSTOP))
		return -EINVAL;
	if (args->a[1] && copy_from_user(&act, (const void __user *)args->a[1], sizeof(act)))
		return -EFAULT;
	spin_lock(&p->sig_lock);
	old = p->actions[signo];
	if (args->a[1]) {
		act.mask &= ~UNBLOCKABLE;
		p->actions[signo] = act;
		if (act.handler == SIG_IGN)
			p->shared_pending.set &= ~SIGMASK(signo);
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
