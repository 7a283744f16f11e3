/* SPDX-License-Identifier: MIT */
/*
 * sched_setattr(), sched_getattr(): policy, nice value and flags in one structure.
 *
 * Limits:	as of realtime.c. There are no limits of utilisation: EOPNOTSUPP, as on a Linux
 *		without them.
 */
#include "process_private.h"

#include <abi/sched.h>
#include <arch/uaccess.h>
#include <processor/syscall/syscall.h>

#define ATTR_MAX PAGE_SIZE

/* Copy what the caller has; what we do not know of it must be zero. */
static int get_attr(struct linux_sched_attr *a, uint64_t from)
{
	uint8_t rest[64];
	uint32_t size;

	*a = (struct linux_sched_attr){ 0 };
	if (get_user_u32(&size, (const void __user *)from))
		return -EFAULT;
	if (!size)
		size = SCHED_ATTR_SIZE_VER0;
	if (size < SCHED_ATTR_SIZE_VER0 || size > ATTR_MAX)
		return -E2BIG;
	if (copy_from_user(a, (const void __user *)from, MIN(size, (uint32_t)sizeof(*a))))
		return -EFAULT;
	a->size = size;
	for (uint32_t at = sizeof(*a); at < size; at += sizeof(rest)) {
		const size_t n = MIN(size - at, (uint32_t)sizeof(rest));

		if (copy_from_user(rest, (const void __user *)(from + at), n))
			return -EFAULT;
		for (size_t i = 0; i < n; i++) {
			if (rest[i])
				return -E2BIG;
		}
	}
	return 0;
}

static int change(int pid, const struct linux_sched_attr *a)
{
	const uint64_t clamps = SCHED_FLAG_UTIL_CLAMP_MIN | SCHED_FLAG_UTIL_CLAMP_MAX;
	const int nice = MAX(NICE_MIN, MIN(a->nice, NICE_MAX));
	struct sched_want want = {
		.policy = (int)a->policy,
		.keep_params = a->flags & SCHED_FLAG_KEEP_PARAMS,
		.prio = a->priority,
		.fixed = { .runtime_ns = a->runtime,
			   .deadline_ns = a->deadline,
			   .period_ns = a->period },
	};

	if (want.policy < 0 || ((a->flags & clamps) && a->size < SCHED_ATTR_SIZE_VER1))
		return -EINVAL;
	if (a->flags & ~(uint64_t)SCHED_FLAG_ALL)
		return -EINVAL;
	if (a->flags & clamps)
		return -EOPNOTSUPP;
	if (want.policy == SCHED_DEADLINE &&
	    (a->flags & (SCHED_FLAG_RECLAIM | SCHED_FLAG_DL_OVERRUN)))
		return -EINVAL;
	if ((want.policy == SCHED_OTHER || want.policy == SCHED_BATCH) && !want.keep_params)
		want.nice = &nice;
	if (a->flags & SCHED_FLAG_RESET_ON_FORK)
		want.policy |= SCHED_RESET_ON_FORK;
	if (a->flags & (SCHED_FLAG_KEEP_POLICY | SCHED_FLAG_KEEP_PARAMS))
		want.policy = -1;
	return sched_change(pid, &want);
}

/* sched_setattr(pid, attr, flags) */
long sys_sched_setattr(const struct syscall_args *args)
{
	struct linux_sched_attr a;
	int err;

	if (!args->a[1] || (int)args->a[0] < 0 || (uint32_t)args->a[2])
		return -EINVAL;
	err = get_attr(&a, args->a[1]);
	if (err == -E2BIG && put_user_u32(sizeof(a), (void __user *)args->a[1]))
		return -EFAULT;
	if (!err)
		err = change((int)args->a[0], &a);
	return err == -EACCES ? -EPERM : err;
}

/* sched_getattr(pid, attr, size, flags) */
long sys_sched_getattr(const struct syscall_args *args)
{
	const uint32_t size = (uint32_t)args->a[2];
	struct linux_sched_attr a = { .size = MIN(size, (uint32_t)sizeof(a)) };
	uint32_t policy;
	struct task *t;

	if (!args->a[1] || (int)args->a[0] < 0 || size > ATTR_MAX || size < SCHED_ATTR_SIZE_VER0 ||
	    (uint32_t)args->a[3])
		return -EINVAL;
	t = args->a[0] ? task_find(pid_from_vnr((uint32_t)args->a[0])) : task_current();
	if (!t)
		return -ESRCH;
	policy = READ_ONCE(t->policy);
	a.policy = policy_plain(policy);
	a.flags = (policy & SCHED_RESET_ON_FORK) ? SCHED_FLAG_RESET_ON_FORK : 0;
	if (a.policy == SCHED_OTHER || a.policy == SCHED_BATCH)
		a.nice = READ_ONCE(t->nice);
	spin_lock(&t->process->sig_lock);
	a.priority = t->fixed.prio;
	a.runtime = t->fixed.runtime_ns;
	a.deadline = t->fixed.deadline_ns;
	a.period = t->fixed.period_ns;
	spin_unlock(&t->process->sig_lock);
	if (args->a[0])
		task_put(t);
	return copy_to_user((void __user *)args->a[1], &a, a.size) ? -EFAULT : 0;
}
