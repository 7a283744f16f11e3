/* SPDX-License-Identifier: MIT */
/*
 * Limits and use of resources: getrlimit, setrlimit, prlimit64, getrusage, times.
 *
 * Limits:	every page fault counts as a minor one, wherever the page came from: there is no
 *		difference between another node's memory and its disk to see here.
 */
#include "process_private.h"

#include <abi/resource.h>
#include <arch/cpu.h>
#include <arch/uaccess.h>
#include <kernel/time.h>
#include <lib/errno.h>
#include <processor/ns/user_ns.h>
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

	if (p == process_current())
		return true;
	spin_lock(&p->sig_lock);
	may = ns_capable(p->cred->user_ns, CAP_SYS_RESOURCE);
	may = may ||
	      (c->uid == p->cred->euid && c->uid == p->cred->suid && c->uid == p->cred->uid &&
	       c->gid == p->cred->egid && c->gid == p->cred->sgid && c->gid == p->cred->gid);
	spin_unlock(&p->sig_lock);
	return may;
}

/* The process of task or process @id, 0 the caller's; referenced; NULL: none. */
static struct process *process_of(uint32_t id)
{
	const uint32_t nr = id ? pid_from_vnr(id) : 0;
	struct process *p = id ? process_find(nr) : process_current();
	struct task *t = p ? NULL : task_find(nr);

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
		/* The parts of other threads may have grown since the whole was read. */
		.minflt = (int64_t)(u->faults - MIN(u->major, u->faults)),
		.majflt = (int64_t)u->major,
		.nvcsw = (int64_t)(u->switches - MIN(u->forced, u->switches)),
		.nivcsw = (int64_t)u->forced,
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
