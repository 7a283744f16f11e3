/* SPDX-License-Identifier: MIT */
/*
 * ioprio_set, ioprio_get: a class and a level of I/O for each task.
 *
 * Flow:	the value is checked, kept, inherited and told as on Linux. Nothing is scheduled by
 *		it: storage nodes serve requests in the order of their coming, as a Linux disk with
 *		the scheduler "none" does.
 * Locking:	task.ioprio is atomic; tasks are found under vnode.lock and process.sig_lock.
 */
#include "process_private.h"

#include <abi/ioprio.h>
#include <abi/sched.h>
#include <lib/errno.h>
#include <processor/ns/user_ns.h>
#include <processor/syscall/syscall.h>

#define LEVEL_MASK 7u

struct ioprio_call {
	uint32_t which; /* IOPRIO_WHO_* */
	uint32_t id;
	bool set;
	uint16_t value;
	int ret;
};

static bool concerns(const struct ioprio_call *c, const struct process *p)
{
	return c->which == IOPRIO_WHO_PGRP ? p->pgid == c->id : READ_ONCE(p->uid) == c->id;
}

/* The value that counts: without one of its own a task has that of its nice value. */
static uint16_t effective(const struct task *t)
{
	const uint16_t value = READ_ONCE(t->ioprio);
	const uint32_t policy = policy_of(t);
	const int nice = READ_ONCE(t->nice);

	if (IOPRIO_CLASS_OF(value) != IOPRIO_CLASS_NONE)
		return value;
	return IOPRIO_VALUE(policy == SCHED_IDLE  ? IOPRIO_CLASS_IDLE
			    : realtime_is(policy) ? IOPRIO_CLASS_RT
						  : IOPRIO_CLASS_BE,
			    (nice + 20) / 5);
}

static int set_one(struct task *t, uint16_t value)
{
	const struct cred *c = cred_current();
	const uint32_t uid = READ_ONCE(t->process->uid);

	if (uid != c->euid && uid != c->uid && !capable(CAP_SYS_NICE))
		return -EPERM;
	WRITE_ONCE(t->ioprio, value);
	return 0;
}

static bool for_one(struct process *p, void *arg)
{
	struct ioprio_call *c = arg;
	struct task *t;

	assert_spin_held(&p->vnode->lock);
	if (!concerns(c, p))
		return true;
	spin_lock(&p->sig_lock);
	list_for_each_entry(t, &p->tasks, link) {
		if (c->set) {
			c->ret = set_one(t, c->value);
			if (c->ret)
				break;
		} else {
			const int value = effective(t);

			c->ret = c->ret == -ESRCH ? value : MIN(c->ret, value);
		}
	}
	spin_unlock(&p->sig_lock);
	return !c->set || !c->ret || c->ret == -ESRCH;
}

/* One task. */
static int of_task(const struct ioprio_call *c)
{
	struct task *t = c->id ? task_find(pid_from_vnr(c->id)) : task_current();
	int ret;

	if (!t)
		return -ESRCH;
	ret = c->set ? set_one(t, c->value) : READ_ONCE(t->ioprio);
	if (c->id)
		task_put(t);
	return ret;
}

static int run(struct ioprio_call *c)
{
	switch (c->which) {
	case IOPRIO_WHO_PROCESS:
		return of_task(c);
	case IOPRIO_WHO_PGRP:
		c->id = c->id ? pid_from_vnr(c->id) : process_current()->pgid;
		break;
	case IOPRIO_WHO_USER:
		c->id = c->id ? uid_in(c->id) : cred_current()->uid;
		break;
	default:
		return -EINVAL;
	}
	c->ret = -ESRCH;
	process_for_each(for_one, c);
	return c->ret;
}

/* In Linux's order. The bits between class and level are hints for some disks. */
static int check(uint32_t value)
{
	switch (IOPRIO_CLASS_OF(value)) {
	case IOPRIO_CLASS_RT:
		return capable(CAP_SYS_ADMIN) || capable(CAP_SYS_NICE) ? 0 : -EPERM;
	case IOPRIO_CLASS_BE:
	case IOPRIO_CLASS_IDLE:
		return 0;
	case IOPRIO_CLASS_NONE:
		return value & LEVEL_MASK ? -EINVAL : 0;
	default:
		return -EINVAL;
	}
}

/* ioprio_set(which, who, value) */
long sys_ioprio_set(const struct syscall_args *args)
{
	struct ioprio_call c = { .which = (uint32_t)args->a[0],
				 .id = (uint32_t)args->a[1],
				 .set = true,
				 .value = (uint16_t)args->a[2] };
	const int err = check((uint32_t)args->a[2]);

	return err ? err : run(&c);
}

/* ioprio_get(which, who) */
long sys_ioprio_get(const struct syscall_args *args)
{
	struct ioprio_call c = { .which = (uint32_t)args->a[0], .id = (uint32_t)args->a[1] };

	return run(&c);
}
