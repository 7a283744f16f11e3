/* SPDX-License-Identifier: MIT */
/*
 * Nice values: getpriority and setpriority.
 *
 * Flow:	each task has a nice value of its own, which new tasks take over from their maker.
 *		It is the weight of its thread: a quarter more or less of the CPU a step. The
 *		process repeats that of its first task, which /proc tells also when this task has
 *		ended.
 * Locking:	vnode.lock for all changes; process.sig_lock, inside it, for the list of tasks.
 */
#include "process_private.h"

#include <abi/resource.h>
#include <lib/errno.h>
#include <processor/ns/user_ns.h>
#include <processor/syscall/syscall.h>

struct nice_call {
	uint32_t which; /* PRIO_* */
	uint32_t id;
	bool set;
	int nice; /* to set, or the best found */
	int ret;  /* -ESRCH until a task is found */
};

static int check_locked(const struct process *p, int from, int nice) __must_hold(&p->vnode->lock)
{
	const struct cred *c = cred_current();
	const struct cred *to = READ_ONCE(p->cred); /* changes under vnode.lock too */

	assert_spin_held(&p->vnode->lock);
	if (!to)
		return 0; /* a zombie */
	if (c->euid != to->uid && c->euid != to->euid && !ns_capable(to->user_ns, CAP_SYS_NICE))
		return -EPERM;
	/* RLIMIT_NICE counts from 20 downwards. */
	if (nice < from && (uint64_t)(20 - nice) > READ_ONCE(p->rlimits[RLIMIT_NICE].cur) &&
	    !capable(CAP_SYS_NICE))
		return -EACCES;
	return 0;
}

static int set_locked(struct task *t, int nice) __must_hold(&t->process->sig_lock)
{
	struct process *p = t->process;
	int err;

	assert_spin_held(&p->vnode->lock);
	assert_spin_held(&p->sig_lock);
	err = check_locked(p, t->nice, nice);
	if (err)
		return err;
	WRITE_ONCE(t->nice, nice);
	if (t->tid == p->pid)
		WRITE_ONCE(p->nice, nice);
	if (!list_empty(&t->link))
		task_reweigh_locked(t);
	return 0;
}

int nice_may_change(const struct task *t, int nice)
{
	struct vnode *v = t->process->vnode;
	int err;

	spin_lock(&v->lock);
	assert_spin_held(&t->process->vnode->lock);
	err = check_locked(t->process, t->nice, nice);
	spin_unlock(&v->lock);
	return err;
}

int nice_change(struct task *t, int nice)
{
	struct process *p = t->process;
	int err;

	spin_lock(&p->vnode->lock);
	spin_lock(&p->sig_lock);
	assert_spin_held(&t->process->sig_lock);
	err = set_locked(t, nice);
	spin_unlock(&p->sig_lock);
	spin_unlock(&p->vnode->lock);
	return err;
}

/* Note what was found, @nice, or what a change has answered. An error is not forgotten. */
static void found(struct nice_call *n, int nice, int err)
{
	if (!n->set && (n->ret == -ESRCH || nice < n->nice))
		n->nice = nice;
	if (err || n->ret == -ESRCH)
		n->ret = err;
}

static bool for_process(struct process *p, void *arg)
{
	struct nice_call *n = arg;
	struct task *t;

	assert_spin_held(&p->vnode->lock);
	if (n->which == PRIO_PGRP ? p->pgid != n->id : READ_ONCE(p->uid) != n->id)
		return true;
	spin_lock(&p->sig_lock);
	list_for_each_entry(t, &p->tasks, link) {
		assert_spin_held(&t->process->sig_lock); /* it is @p's */
		found(n, t->nice, n->set ? set_locked(t, n->nice) : 0);
	}
	spin_unlock(&p->sig_lock);
	return true;
}

/* Task @n->id, or a process whose first task has ended. */
static void for_task(struct nice_call *n)
{
	struct vnode *v = process_current()->vnode;
	const struct pid *entry;
	struct process *p;
	struct task *t;

	spin_lock(&v->lock);
	entry = pid_find_locked(v, n->id);
	t = entry ? entry->task : NULL;
	p = t ? t->process : entry ? entry->process : NULL;
	if (t) {
		spin_lock(&p->sig_lock);
		assert_spin_held(&t->process->sig_lock);
		found(n, t->nice, n->set ? set_locked(t, n->nice) : 0);
		spin_unlock(&p->sig_lock);
	} else if (p) {
		int err;

		assert_spin_held(&p->vnode->lock);
		err = n->set ? check_locked(p, p->nice, n->nice) : 0;
		found(n, p->nice, err);
		if (n->set && !err)
			WRITE_ONCE(p->nice, n->nice);
	}
	spin_unlock(&v->lock);
}

static int run(struct nice_call *n, uint32_t id)
{
	n->ret = -ESRCH;
	n->id = id;
	if (n->which == PRIO_PROCESS) {
		n->id = id ? pid_from_vnr(id) : task_current()->tid;
		for_task(n);
	} else {
		if (!id)
			n->id = n->which == PRIO_PGRP ? process_current()->pgid
						      : cred_current()->uid;
		else
			n->id = n->which == PRIO_PGRP ? pid_from_vnr(id) : uid_in(id);
		process_for_each(for_process, n);
	}
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
	err = run(&n, (uint32_t)args->a[1]);
	return err ? err : 20 - n.nice;
}

/* setpriority(which, who, nice) */
long sys_setpriority(const struct syscall_args *args)
{
	struct nice_call n = { .which = (uint32_t)args->a[0], .set = true };

	if ((uint32_t)args->a[0] > PRIO_USER)
		return -EINVAL;
	n.nice = MAX(MIN((int)args->a[2], NICE_MAX), NICE_MIN);
	return run(&n, (uint32_t)args->a[1]);
}
