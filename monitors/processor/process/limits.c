/* SPDX-License-Identifier: MIT */
/*
 * Limits, use of resources, nice values: getrlimit, setrlimit, prlimit64, getrusage, times,
 * getpriority and setpriority.
 *
 * Limits:	every page fault counts as a minor one, wherever the page came from: there is no
 *		difference between another node's memory and its disk to see here.
 *		A process has one nice value, where Linux has one for each thread. It is the weight
 *		of its threads: a quarter more or less of the CPU a step, beside others.
 */
#include "process_private.h"

#include <abi/resource.h>
#include <arch/cpu.h>
#include <arch/uaccess.h>
#include <kernel/time.h>
#include <lib/errno.h>
#include <processor/syscall/syscall.h>

#define NS_PER_TICK 10000000u /* times() counts in 10 ms */
#define NOFILE_MOST 1048576u

/* --- rlimits ----------------------------------------------------------------------------- */

static int rlimit_set_locked(struct process *p, unsigned int kind, const struct linux_rlimit *new)
{
	assert_mutex_held(&p->lock);
	if (new->cur > new->max)
		return -EINVAL;
	if (kind == RLIMIT_NOFILE && new->max > NOFILE_MOST)
		return -EPERM;
	if (new->max > p->rlimits[kind].max && !capable(CAP_SYS_RESOURCE))
		return -EPERM;
	p->rlimits[kind] = *new;
	return kind == RLIMIT_CPU ? signal_cpu_limit_locked(p, new->cur) : 0;
}

static long rlimit_call(struct process *p, uint32_t kind, uint64_t unew, uint64_t uold)
{
	struct linux_rlimit new, old;
	int err = 0;

	if (kind >= RLIM_NLIMITS)
		return -EINVAL;
	if (unew && copy_from_user(&new, (const void __user *)unew, sizeof(new)))
		return -EFAULT;
	mutex_lock(&p->lock);
	old = p->rlimits[kind];
	if (unew)
		err = rlimit_set_locked(p, kind, &new);
	mutex_unlock(&p->lock);
	if (!err && uold && copy_to_user((void __user *)uold, &old, sizeof(old)))
		err = -EFAULT;
	return err;
}

/* getrlimit(kind, lim) */
long sys_getrlimit(const struct syscall_args *args)
{
	if (!args->a[1])
		return -EFAULT;
	return rlimit_call(process_current(), (uint32_t)args->a[0], 0, args->a[1]);
}

/* setrlimit(kind, lim) */
long sys_setrlimit(const struct syscall_args *args)
{
	if (!args->a[1])
		return -EFAULT;
	return rlimit_call(process_current(), (uint32_t)args->a[0], args->a[1], 0);
}

/* Only for the same user in every respect, or with CAP_SYS_RESOURCE. */
static bool may_limit(struct process *p)
{
	const struct cred *c = cred_current();
	bool may;

	if (p == process_current() || capable(CAP_SYS_RESOURCE))
		return true;
	spin_lock(&p->sig_lock);
	may = c->uid == p->cred->euid && c->uid == p->cred->suid && c->uid == p->cred->uid &&
	      c->gid == p->cred->egid && c->gid == p->cred->sgid && c->gid == p->cred->gid;
	spin_unlock(&p->sig_lock);
	return may;
}

/* The process of task or process @id, 0 the caller's; referenced; NULL: none. */
static struct process *process_of(uint32_t id)
{
	struct process *p = id ? process_find(id) : process_current();
	struct task *t = p ? NULL : task_find(id);

	if (t)
		p = t->process;
	if (p && (t || !id))
		process_get(p);
	if (t)
		task_put(t);
	return p;
}

/* prlimit64(pid, kind, new, old) */
long sys_prlimit64(const struct syscall_args *args)
{
	struct process *p = process_of((uint32_t)args->a[0]);
	long ret = -EPERM;

	if (!p)
		return -ESRCH;
	if (may_limit(p))
		ret = rlimit_call(p, (uint32_t)args->a[1], args->a[2], args->a[3]);
	process_put(p);
	return ret;
}

/* --- use ---------------------------------------------------------------------------------- */

static void put_time(int64_t tv[2], uint64_t ns)
{
	tv[0] = (int64_t)(ns / 1000000000u);
	tv[1] = (int64_t)(ns % 1000000000u / 1000);
}

void rusage_fill(struct linux_rusage *ru, const struct usage *u)
{
	*ru = (struct linux_rusage){
		.maxrss = (int64_t)u->max_rss,
		.minflt = (int64_t)u->faults,
		.nvcsw = (int64_t)u->switches,
	};
	put_time(ru->utime, u->utime_ns);
	put_time(ru->stime, u->stime_ns);
}

static void children_usage(struct process *p, struct usage *u)
{
	spin_lock(&p->vnode->lock);
	*u = p->usage_children;
	spin_unlock(&p->vnode->lock);
}

/* getrusage(who, usage) */
long sys_getrusage(const struct syscall_args *args)
{
	struct linux_rusage ru;
	struct usage u;

	switch ((int)args->a[0]) {
	case RUSAGE_CHILDREN:
		children_usage(process_current(), &u);
		break;
	case RUSAGE_SELF:
		usage_of(process_current(), &u);
		break;
	case RUSAGE_THREAD:
		usage_of_task(task_current(), &u);
		break;
	default:
		return -EINVAL;
	}
	rusage_fill(&ru, &u);
	return copy_to_user((void __user *)args->a[1], &ru, sizeof(ru)) ? -EFAULT : 0;
}

/* times(buf): clock ticks of 10 ms since boot */
long sys_times(const struct syscall_args *args)
{
	struct usage own, children;
	int64_t tms[4];

	usage_of(process_current(), &own);
	children_usage(process_current(), &children);
	tms[0] = (int64_t)(own.utime_ns / NS_PER_TICK);
	tms[1] = (int64_t)(own.stime_ns / NS_PER_TICK);
	tms[2] = (int64_t)(children.utime_ns / NS_PER_TICK);
	tms[3] = (int64_t)(children.stime_ns / NS_PER_TICK);
	if (args->a[0] && copy_to_user((void __user *)args->a[0], tms, sizeof(tms)))
		return -EFAULT;
	return (long)(time_now_ns() / NS_PER_TICK);
}

/* --- nice --------------------------------------------------------------------------------- */

struct nice_call {
	uint32_t which; /* PRIO_* */
	uint32_t id;
	bool set;
	int nice; /* to set, or the best found */
	int ret;  /* -ESRCH until a process is found */
};

static bool nice_concerns(const struct nice_call *n, const struct process *p)
{
	switch (n->which) {
	case PRIO_PROCESS:
		return p->pid == n->id;
	case PRIO_PGRP:
		return p->pgid == n->id;
	default:
		return READ_ONCE(p->uid) == n->id;
	}
}

static int nice_check_locked(const struct process *p, int nice) __must_hold(&p->vnode->lock)
{
	const struct cred *c = cred_current();
	const struct cred *to = READ_ONCE(p->cred); /* changes under vnode.lock too */

	assert_spin_held(&p->vnode->lock);
	if (!to)
		return 0; /* a zombie */
	if (c->euid != to->uid && c->euid != to->euid && !capable(CAP_SYS_NICE))
		return -EPERM;
	/* RLIMIT_NICE counts from 20 downwards. */
	if (nice < p->nice && (uint64_t)(20 - nice) > READ_ONCE(p->rlimits[RLIMIT_NICE].cur) &&
	    !capable(CAP_SYS_NICE))
		return -EACCES;
	return 0;
}

static int nice_set(struct process *p, int nice) __must_hold(&p->vnode->lock)
{
	struct task *t;
	const int err = nice_check_locked(p, nice);

	assert_spin_held(&p->vnode->lock);
	if (err)
		return err;
	WRITE_ONCE(p->nice, nice);
	spin_lock(&p->sig_lock);
	list_for_each_entry(t, &p->tasks, link) {
		assert_spin_held(&t->process->sig_lock); /* it is @p's */
		task_reweigh_locked(t);
	}
	spin_unlock(&p->sig_lock);
	return 0;
}

int nice_may_change(struct process *p, int nice)
{
	int err;

	spin_lock(&p->vnode->lock);
	err = nice_check_locked(p, nice);
	spin_unlock(&p->vnode->lock);
	return err;
}

int nice_change(struct process *p, int nice)
{
	int err;

	spin_lock(&p->vnode->lock);
	err = nice_set(p, nice);
	spin_unlock(&p->vnode->lock);
	return err;
}

static bool nice_one(struct process *p, void *arg)
{
	struct nice_call *n = arg;
	int err = 0;

	assert_spin_held(&p->vnode->lock);
	if (!nice_concerns(n, p))
		return true;
	if (n->set)
		err = nice_set(p, n->nice);
	else if (n->ret == -ESRCH || p->nice < n->nice)
		n->nice = p->nice;
	if (err || n->ret == -ESRCH)
		n->ret = err;
	return true;
}

static int nice_run(struct nice_call *n, uint32_t id)
{
	struct process *me = process_current();

	n->ret = -ESRCH;
	n->id = id;
	if (!id && n->which == PRIO_PROCESS)
		n->id = me->pid;
	else if (!id && n->which == PRIO_PGRP)
		n->id = me->pgid;
	else if (!id)
		n->id = cred_current()->uid;
	process_for_each(nice_one, n);
	/* Pid 1 is the kernel's. */
	if (n->which == PRIO_PROCESS && n->id == INIT_PID) {
		n->nice = 0;
		return n->set ? -EPERM : 0;
	}
	return n->ret;
}

/* getpriority(which, who): 20 - nice, so that it is never negative */
long sys_getpriority(const struct syscall_args *args)
{
	struct nice_call n = { .which = (uint32_t)args->a[0] };
	int err;

	if ((uint32_t)args->a[0] > PRIO_USER)
		return -EINVAL;
	err = nice_run(&n, (uint32_t)args->a[1]);
	return err ? err : 20 - n.nice;
}

/* setpriority(which, who, nice) */
long sys_setpriority(const struct syscall_args *args)
{
	struct nice_call n = { .which = (uint32_t)args->a[0], .set = true };

	if ((uint32_t)args->a[0] > PRIO_USER)
		return -EINVAL;
	n.nice = MAX(MIN((int)args->a[2], NICE_MAX), NICE_MIN);
	return nice_run(&n, (uint32_t)args->a[1]);
}
