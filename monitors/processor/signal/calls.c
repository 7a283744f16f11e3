/* SPDX-License-Identifier: MIT */
/*
 * System calls on signals: rt_sigaction, rt_sigprocmask, rt_sigpending, rt_sigsuspend,
 * rt_sigtimedwait, pause, sigaltstack, restart_syscall.
 */
#include <abi/signal.h>
#include <arch/trap.h>
#include <arch/uaccess.h>
#include <kernel/time.h>
#include <kernel/wait.h>
#include <lib/errno.h>
#include <processor/process/process.h>
#include <processor/process/timespec.h>
#include <processor/syscall/syscall.h>

#include "signal.h"
#include "signal_private.h"

#define SIGSET_SIZE 8
/* The flags that a program gets back; others it can see that they are not there. */
#define SA_KNOWN                                                                                   \
	(SA_NOCLDSTOP | SA_NOCLDWAIT | SA_SIGINFO | SA_EXPOSE_TAGBITS | SA_RESTORER | SA_ONSTACK | \
	 SA_RESTART | SA_NODEFER | SA_RESETHAND)

/* rt_sigaction(signo, act, oldact, sigsetsize) */
long sys_rt_sigaction(const struct syscall_args *args)
{
	struct process *p = process_current();
	const int signo = (int)args->a[0];
	struct linux_sigaction act = { 0 }, old;
	struct sighand *sh;

	if (args->a[3] != SIGSET_SIZE)
		return -EINVAL;
	if (args->a[1] && copy_from_user(&act, (const void __user *)args->a[1], sizeof(act)))
		return -EFAULT;
	if (signo < 1 || signo >= NR_SIGNALS)
		return -EINVAL;
	if (args->a[1] && (signo == SIGKILL || signo == SIGSTOP))
		return -EINVAL;
	act.mask &= ~SIGMASK_UNBLOCKABLE;
	act.flags &= SA_KNOWN;
	spin_lock(&p->sig_lock);
	sh = p->sig.sighand;
	spin_lock(&sh->lock);
	old = sh->actions[signo];
	if (args->a[1])
		sh->actions[signo] = act;
	spin_unlock(&sh->lock);
	/* POSIX: setting a signal to be ignored discards what is pending of it. */
	if (args->a[1] && signal_ignored_by(&act, signo))
		signal_drop_locked(p, SIGMASK(signo));
	spin_unlock(&p->sig_lock);
	if (args->a[2])
		return copy_to_user((void __user *)args->a[2], &old, sizeof(old));
	return 0;
}

/* rt_sigprocmask(how, set, oldset, sigsetsize) */
long sys_rt_sigprocmask(const struct syscall_args *args)
{
	const uint64_t old = task_current()->sig.mask; /* only the task itself changes it */
	uint64_t set;

	if (args->a[3] != SIGSET_SIZE)
		return -EINVAL;
	if (args->a[1]) {
		if (get_user_u64(&set, (const void __user *)args->a[1]))
			return -EFAULT;
		switch ((int)args->a[0]) {
		case SIG_BLOCK:
			signal_set_mask(old | set);
			break;
		case SIG_UNBLOCK:
			signal_set_mask(old & ~set);
			break;
		case SIG_SETMASK:
			signal_set_mask(set);
			break;
		default:
			return -EINVAL;
		}
	}
	return args->a[2] ? put_user_u64(old, (void __user *)args->a[2]) : 0;
}

/* rt_sigpending(set, sigsetsize) */
long sys_rt_sigpending(const struct syscall_args *args)
{
	struct task *t = task_current();
	uint64_t set;

	if (args->a[1] > SIGSET_SIZE)
		return -EINVAL;
	spin_lock(&t->process->sig_lock);
	set = (t->sig.pending.set | t->process->sig.pending.set) & t->sig.mask;
	spin_unlock(&t->process->sig_lock);
	return copy_to_user((void __user *)args->a[0], &set, args->a[1]) ? -EFAULT : 0;
}

/* --- waiting for signals ----------------------------------------------------------------- */

/* Sleep until a handler is to run (or whatever else a restart finds out about). */
static long wait_for_signal(void)
{
	struct waitqueue none;

	waitqueue_init(&none);
	(void)wait_event_interruptible(&none, false);
	return -ERESTARTNOHAND;
}

int signal_mask_begin_user(uint64_t umask, uint64_t size)
{
	uint64_t mask;

	if (!umask)
		return 0;
	if (size != SIGSET_SIZE)
		return -EINVAL;
	if (get_user_u64(&mask, (const void __user *)umask))
		return -EFAULT;
	signal_mask_begin(mask);
	return 0;
}

/* rt_sigsuspend(mask, sigsetsize) */
long sys_rt_sigsuspend(const struct syscall_args *args)
{
	uint64_t mask;

	if (args->a[1] != SIGSET_SIZE)
		return -EINVAL;
	if (get_user_u64(&mask, (const void __user *)args->a[0]))
		return -EFAULT;
	signal_mask_begin(mask);
	return signal_mask_end(wait_for_signal());
}

/* pause() */
long sys_pause(const struct syscall_args *args)
{
	return wait_for_signal();
}

/*
 * The signals in @set are let through while the task waits, but are taken here, not delivered.
 * Returns the signal, or 0 when the wait ended otherwise (@err -EINTR or -ETIMEDOUT).
 */
static int wait_and_take(struct task *t, uint64_t set, uint64_t deadline,
			 struct linux_siginfo *info, int *err)
{
	struct process *p = t->process;
	struct waitqueue none;
	int signo;

	waitqueue_init(&none);
	spin_lock(&p->sig_lock);
	signo = signal_take_locked(t, set, info);
	while (!signo && *err == 0) {
		const uint64_t mask = t->sig.mask;

		t->sig.wait_set = set & mask;
		t->sig.mask = mask & ~set;
		spin_unlock(&p->sig_lock);
		*err = wait_event_interruptible_timeout(&none, false, deadline);
		spin_lock(&p->sig_lock);
		t->sig.mask = mask;
		t->sig.wait_set = 0;
		signo = signal_take_locked(t, set, info);
		if (signo || *err != -EINTR || task_ending_locked(t) ||
		    signal_is_to_stop_locked(t) || signal_deliverable_locked(t))
			break;
		/* Another task was faster. */
		thread_clear_flags(t->thread, THREAD_F_SIGNAL);
		*err = 0;
	}
	/* A signal of @set that has come meanwhile may be for another task now. */
	signal_retarget_locked(t, t->sig.mask & set);
	spin_unlock(&p->sig_lock);
	return signo;
}

/* rt_sigtimedwait(set, info, timeout, sigsetsize) */
long sys_rt_sigtimedwait(const struct syscall_args *args)
{
	uint64_t deadline = WAIT_FOREVER, set, ns;
	struct linux_siginfo info;
	int err, signo;

	if (args->a[3] != SIGSET_SIZE)
		return -EINVAL;
	if (get_user_u64(&set, (const void __user *)args->a[0]))
		return -EFAULT;
	if (args->a[2]) {
		err = user_timespec_get(args->a[2], &ns);
		if (err)
			return err;
		deadline = time_after_ns(ns);
	}
	err = 0;
	signo = wait_and_take(task_current(), set & ~SIGMASK_UNBLOCKABLE, deadline, &info, &err);
	if (!signo)
		return err == -ETIMEDOUT ? -EAGAIN : -EINTR;
	if (args->a[1] && siginfo_to_user(args->a[1], &info))
		return -EFAULT;
	return signo;
}

/* restart_syscall(): what a call that had slept for a part of its time goes on with */
long sys_restart_syscall(const struct syscall_args *args)
{
	struct restart_block *rb = &task_current()->sig.restart;

	return rb->fn ? rb->fn(rb->args) : -EINTR;
}

/* --- alternate stacks --------------------------------------------------------------------- */

static bool on_altstack(const struct linux_stack *ss, uint64_t sp)
{
	return !(ss->flags & (SS_DISABLE | SS_AUTODISARM)) && sp > ss->sp &&
	       sp - ss->sp <= ss->size;
}

/* sigaltstack(new, old) */
long sys_sigaltstack(const struct syscall_args *args)
{
	struct task *t = task_current();
	const bool on = on_altstack(&t->sig.altstack, syscall_regs(args)->rsp);
	struct linux_stack old = t->sig.altstack, new;
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
			new = (struct linux_stack){ .flags = SS_DISABLE };
		else if (new.size < MINSIGSTKSZ)
			return -ENOMEM;
		new.flags &= ~SS_ONSTACK;
		new.pad = 0;
		t->sig.altstack = new;
	}
	if (args->a[1])
		return copy_to_user((void __user *)args->a[1], &old, sizeof(old));
	return 0;
}
