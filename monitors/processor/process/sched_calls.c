/* SPDX-License-Identifier: MIT */
/*
 * Where and how tasks run: sched_setaffinity and its kin, policies.
 *
 * Flow:	a task has a mask of CPUs, which fork and exec keep; the scheduler obeys it when it
 *		wakes, moves and balances. CPUs that are not there are dropped from it.
 *		Nice values and SCHED_IDLE are weights in the class of all programs; real-time
 *		policies are a class of their own: realtime.c.
 */
#include "process_private.h"

#include <abi/sched.h>
#include <arch/cpu.h>
#include <arch/uaccess.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <processor/syscall/syscall.h>

#include "timespec.h"

/* How @t asks to run: process.sig_lock is held, or only the caller knows the task. */
static struct run_rank rank_of(const struct task *t)
{
	const uint32_t policy = policy_of(t);
	struct run_rank rank = {
		.weight = policy == SCHED_IDLE ? FAIR_WEIGHT_IDLE
					       : fair_nice_weight(READ_ONCE(t->nice)),
		.batch = policy == SCHED_BATCH || policy == SCHED_IDLE,
	};

	if (realtime_is(policy))
		rank.fixed = t->fixed;
	return rank;
}

/* The thread of @t stays: as rank_of(). @anew: as inherit_set_own(). */
static void reweigh(struct task *t, bool anew)
{
	const struct run_rank rank = rank_of(t);

	inherit_set_own(t, &rank, anew);
}

void sched_inherit(struct task *t)
{
	const struct task *me = task_current();
	struct fair_fixed fixed;
	struct cpu_mask mask;
	uint32_t policy;
	int nice;

	thread_affinity(thread_current(), &mask);
	/* Cannot fail: the caller runs on one of them. */
	if (thread_set_affinity(t->thread, &mask))
		cpu_mask_fill(&mask);
	/* All at once: others may change how the caller runs, but not in between. */
	spin_lock(&me->process->sig_lock);
	policy = me->policy;
	nice = me->nice;
	fixed = me->fixed;
	spin_unlock(&me->process->sig_lock);
	t->policy = policy_plain(policy);
	t->nice = nice;
	if (policy & SCHED_RESET_ON_FORK) {
		t->nice = MAX(nice, 0);
		t->policy = realtime_is(t->policy) ? SCHED_OTHER : t->policy;
	}
	/* Set since fork looked, which fails with it: nothing is reserved for a child. */
	if (t->policy == SCHED_DEADLINE)
		t->policy = SCHED_OTHER;
	if (realtime_is(t->policy))
		t->fixed = fixed;
	/* A rank that is lent to its maker stays the maker's. */
	if (t->policy != SCHED_OTHER || t->nice)
		reweigh(t, false);
	t->slack_ns = t->slack_default_ns = task_current()->slack_ns;
	t->ioprio = READ_ONCE(task_current()->ioprio);
	t->mempolicy = task_current()->mempolicy;
}

/*
 * Is there a process without a task? Pid 1 is the kernel's, and a zombie runs no more: both are
 * told to run as plainly as can be.
 */
static bool runs_no_more(int id)
{
	const uint32_t nr = id > 0 ? pid_from_vnr((uint32_t)id) : 0;
	struct process *p;

	if (nr == INIT_PID)
		return true;
	p = nr ? process_find(nr) : NULL;
	if (p)
		process_put(p);
	return p;
}

/* Task @id, 0 being the caller, referenced. */
static int task_of(int id, struct task **out)
{
	if (id < 0)
		return -EINVAL;
	*out = id ? task_find(pid_from_vnr((uint32_t)id)) : task_current();
	if (!*out)
		return -ESRCH;
	if (!id)
		task_get(*out);
	return 0;
}

/* May the caller change how @t runs? @t's process has its sig_lock held. */
static bool may_schedule_locked(const struct task *t)
{
	const struct cred *c = cred_current();
	const struct cred *to;

	assert_spin_held(&t->process->sig_lock);
	to = t->process->cred;
	return c->euid == to->euid || c->euid == to->uid || capable(CAP_SYS_NICE);
}

/* --- CPUs --------------------------------------------------------------------------------- */

/* Only those that are there. False: none of them is. */
static bool only_online(struct cpu_mask *mask)
{
	for_each_cpu_in(cpu, mask)
	{
		if (cpu >= cpu_online_count())
			cpu_mask_clear(mask, cpu);
	}
	return !cpu_mask_empty(mask);
}

/* sched_setaffinity(pid, len, mask) */
long sys_sched_setaffinity(const struct syscall_args *args)
{
	const size_t len = (uint32_t)args->a[1];
	struct cpu_mask mask = { 0 };
	struct task *t;
	int err;

	if (copy_from_user(&mask, (const void __user *)args->a[2], MIN(len, sizeof(mask))))
		return -EFAULT;
	err = task_of((int)args->a[0], &t);
	if (err)
		return -ESRCH;
	spin_lock(&t->process->sig_lock);
	if (list_empty(&t->link))
		err = -ESRCH;
	else if (!may_schedule_locked(t))
		err = -EPERM;
	else if (!only_online(&mask))
		err = -EINVAL;
	else if (t != task_current())
		err = thread_set_affinity(t->thread, &mask);
	spin_unlock(&t->process->sig_lock);
	/* The caller is on one of them when it returns: it may be preempted here. */
	if (!err && t == task_current())
		err = thread_set_affinity(thread_current(), &mask);
	task_put(t);
	return err;
}

/* sched_getaffinity(pid, len, mask): bytes written */
long sys_sched_getaffinity(const struct syscall_args *args)
{
	const unsigned int cpus = cpu_online_count();
	const uint64_t len = (uint32_t)args->a[1];
	const uint64_t bytes = MIN(len, (uint64_t)ALIGN_UP(DIV_ROUND_UP(cpus, 8u), 8u));
	struct cpu_mask mask;
	struct task *t;

	if (len * 8 < cpus || (len & 7))
		return -EINVAL;
	if (task_of((int)args->a[0], &t))
		return -ESRCH;
	spin_lock(&t->process->sig_lock);
	if (list_empty(&t->link))
		cpu_mask_fill(&mask);
	else
		thread_affinity(t->thread, &mask);
	spin_unlock(&t->process->sig_lock);
	task_put(t);
	(void)only_online(&mask);
	return copy_to_user((void __user *)args->a[2], &mask, bytes) ? -EFAULT : (long)bytes;
}

/* --- policies ------------------------------------------------------------------------------- */

/* sched_yield() */
long sys_sched_yield(const struct syscall_args *args)
{
	thread_yield();
	return 0;
}

/* sched_getscheduler(pid) */
long sys_sched_getscheduler(const struct syscall_args *args)
{
	struct task *t;
	long policy = task_of((int)args->a[0], &t);

	if (policy == -ESRCH && runs_no_more((int)args->a[0]))
		return SCHED_OTHER;
	if (policy)
		return policy;
	policy = READ_ONCE(t->policy);
	task_put(t);
	return policy;
}

/* sched_getparam(pid, param) */
long sys_sched_getparam(const struct syscall_args *args)
{
	struct task *t;
	const int err = args->a[1] ? task_of((int)args->a[0], &t) : -EINVAL;
	uint32_t prio = 0;

	if (err && (err != -ESRCH || !runs_no_more((int)args->a[0])))
		return err;
	if (!err) {
		prio = READ_ONCE(t->fixed.prio);
		task_put(t);
	}
	return put_user_u32(prio, (void __user *)args->a[1]);
}

/* The policy and what belongs to it; *@w is complete then. */
static int check_policy(uint32_t policy, struct sched_want *w)
{
	policy = policy_plain(policy);
	switch (policy) {
	case SCHED_OTHER:
	case SCHED_BATCH:
	case SCHED_IDLE:
	case SCHED_FIFO:
	case SCHED_RR:
	case SCHED_DEADLINE:
		return realtime_complete(policy, w) ? 0 : -EINVAL;
	default:
		return -EINVAL;
	}
}

void task_reweigh_locked(struct task *t)
{
	assert_spin_held(&t->process->sig_lock);
	reweigh(t, false);
}

/* The thread of @t follows its policy, unless it has ended. */
static void apply_locked(struct task *t)
{
	assert_spin_held(&t->process->sig_lock);
	if (!list_empty(&t->link))
		reweigh(t, true);
}

static int change_locked(struct task *t, uint32_t policy, struct sched_want *w)
	__must_hold(&t->process->sig_lock)
{
	const uint32_t plain = policy_plain(policy);
	int err;

	assert_spin_held(&t->process->sig_lock);
	if (!may_schedule_locked(t))
		return -EPERM;
	if (w->keep_params) {
		w->prio = t->fixed.prio;
		w->fixed = t->fixed;
	}
	err = check_policy(policy, w);
	if (!err)
		err = realtime_may_locked(t, plain, &w->fixed);
	/* As Linux: without the right to real time the flag stays. */
	if (!err && (t->policy & SCHED_RESET_ON_FORK) && !(policy & SCHED_RESET_ON_FORK) &&
	    !capable(CAP_SYS_NICE))
		err = -EPERM;
	if (!err)
		err = realtime_admit_locked(t, plain, &w->fixed);
	if (err)
		return err;
	WRITE_ONCE(t->policy, policy);
	t->fixed = w->fixed;
	apply_locked(t);
	return 0;
}

int sched_change(int id, const struct sched_want *want)
{
	struct sched_want w = *want;
	uint32_t policy = w.policy < 0 ? SCHED_OTHER : (uint32_t)w.policy;
	struct task *t;
	int err = task_of(id, &t);

	if (err == -ESRCH && runs_no_more(id)) {
		err = check_policy(policy, &w);
		/* Nothing is left of a zombie to run; the kernel is no program's to change. */
		return err ? err : pid_from_vnr((uint32_t)id) == INIT_PID ? -EPERM : 0;
	}
	if (err)
		return err;
	if (w.policy < 0)
		policy = READ_ONCE(t->policy);
	/* Wrong values come before rights. */
	err = w.keep_params ? 0 : check_policy(policy, &w);
	if (!err && w.nice)
		err = nice_may_change(t, *w.nice);
	spin_lock(&t->process->sig_lock);
	if (!err)
		err = change_locked(t, policy, &w);
	spin_unlock(&t->process->sig_lock);
	if (!err && w.nice)
		err = nice_change(t, *w.nice);
	task_put(t);
	return err;
}

/* @policy negative: as it is. */
static long set_policy(int id, int policy, uint64_t uparam)
{
	struct sched_want want = { .policy = policy };

	if (!uparam || id < 0)
		return -EINVAL;
	if (get_user_u32(&want.prio, (const void __user *)uparam))
		return -EFAULT;
	return sched_change(id, &want);
}

/* sched_setscheduler(pid, policy, param) */
long sys_sched_setscheduler(const struct syscall_args *args)
{
	if ((int)args->a[1] < 0)
		return -EINVAL;
	return set_policy((int)args->a[0], (int)args->a[1], args->a[2]);
}

/* sched_setparam(pid, param) */
long sys_sched_setparam(const struct syscall_args *args)
{
	return set_policy((int)args->a[0], -1, args->a[1]);
}

static long prio_limit(int policy, long real_time)
{
	switch (policy) {
	case SCHED_FIFO:
	case SCHED_RR:
		return real_time;
	case SCHED_OTHER:
	case SCHED_BATCH:
	case SCHED_IDLE:
	case SCHED_DEADLINE:
		return 0;
	default:
		return -EINVAL;
	}
}

/* sched_get_priority_max(policy) */
long sys_sched_get_priority_max(const struct syscall_args *args)
{
	return prio_limit((int)args->a[0], 99);
}

/* sched_get_priority_min(policy) */
long sys_sched_get_priority_min(const struct syscall_args *args)
{
	return prio_limit((int)args->a[0], 1);
}

/* sched_rr_get_interval(pid, interval) */
long sys_sched_rr_get_interval(const struct syscall_args *args)
{
	struct task *t;
	const int err = task_of((int)args->a[0], &t);
	uint32_t policy;

	if (err)
		return err;
	policy = policy_of(t);
	task_put(t);
	return user_timespec_put(args->a[1], policy == SCHED_RR    ? FAIR_RR_NS
					     : realtime_is(policy) ? 0
								   : thread_slice_ns());
}
