/* SPDX-License-Identifier: MIT */
/*
 * Owners of open files (F_SETOWN): naming them and signalling them.
 *
 * Locking:	vnode.lock, held while a group is signalled, as in group.c.
 * Limits:	an owner is kept as a number. A process that gets the same number, after some
 *		million others, is taken for it.
 */
#include "owner.h"

#include <abi/fcntl.h>
#include <lib/errno.h>

#include "process_private.h"

int owner_make(int32_t type, uint32_t nr, struct file_owner *out)
{
	const struct cred *c = cred_current();
	struct vnode *v = process_current()->vnode;
	bool known = true;

	if (type < F_OWNER_TID || type > F_OWNER_PGRP)
		return -EINVAL;
	if (nr) {
		spin_lock(&v->lock);
		known = pid_find_locked(v, nr) != NULL;
		spin_unlock(&v->lock);
	}
	if (!known)
		return -ESRCH;
	*out = (struct file_owner){ .type = type, .nr = nr, .uid = c->uid, .euid = c->euid };
	return 0;
}

uint32_t owner_number(const struct file_owner *o)
{
	struct vnode *v = &root_vnode;
	const struct pid *pid;
	bool there = false;

	spin_lock(&v->lock);
	pid = pid_find_locked(v, o->nr);
	if (pid)
		there = o->type == F_OWNER_TID   ? pid->task != NULL
			: o->type == F_OWNER_PID ? pid->process != NULL
						 : !list_empty(&pid->group);
	spin_unlock(&v->lock);
	return there ? o->nr : 0;
}

/* As Linux's sigio_perm(): by the identity at the time of F_SETOWN. */
static bool may_signal(const struct file_owner *o, struct process *p)
{
	bool may;

	spin_lock(&p->sig_lock);
	may = o->euid == 0 || o->euid == p->cred->suid || o->euid == p->cred->uid ||
	      o->uid == p->cred->suid || o->uid == p->cred->uid;
	spin_unlock(&p->sig_lock);
	return may;
}

/* @tid 0: to the process as a whole. */
static void signal_one_locked(const struct file_owner *o, struct process *p, uint32_t tid,
			      const struct linux_siginfo *info)
{
	static const struct linux_siginfo plain = { .signo = SIGIO, .code = SI_KERNEL };
	int err;

	assert_spin_held(&root_vnode.lock);
	if (p->state != PROCESS_ALIVE || !may_signal(o, p))
		return;
	err = tid ? signal_post_tid(p, tid, info) : signal_post(p, info);
	if (err != -EAGAIN)
		return;
	/* A standard signal is not refused for a full queue. */
	if (tid)
		(void)signal_post_tid(p, tid, &plain);
	else
		(void)signal_post(p, &plain);
}

void owner_signal(const struct file_owner *o, const struct linux_siginfo *info)
{
	struct vnode *v = &root_vnode;
	const struct pid *pid;
	struct process *p;

	if (!o->nr)
		return;
	spin_lock(&v->lock);
	pid = pid_find_locked(v, o->nr);
	if (pid && o->type == F_OWNER_TID && pid->task) {
		signal_one_locked(o, pid->task->process, o->nr, info);
	} else if (pid && o->type == F_OWNER_PID && pid->process) {
		signal_one_locked(o, pid->process, 0, info);
	} else if (pid && o->type == F_OWNER_PGRP) {
		list_for_each_entry(p, &pid->group, group_link)
			signal_one_locked(o, p, 0, info);
	}
	spin_unlock(&v->lock);
}
