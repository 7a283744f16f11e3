/* SPDX-License-Identifier: MIT */
/*
 * Process groups and sessions, and signals to several processes.
 *
 * setpgid(2), setsid(2) and kill(2) follow Linux. A group is orphaned when no member has a parent
 * in another group of the same session; pid 1 does not count as a parent.
 *
 * Locking:	vnode.lock for all of it, held while a group is signalled, so that no child is
 *		missed: a fork is in the table, or its parent has the signal pending and forks again
 *		after it.
 */
#include "process_private.h"

#include <lib/errno.h>
#include <processor/ns/user_ns.h>
#include <processor/syscall/syscall.h>

/* --- orphaned groups ------------------------------------------------------------------------ */

/* Without @ignored, has no member of @group a parent that could continue it? */
static bool orphaned_locked(const struct pid *group, const struct process *ignored)
{
	const struct process *p;

	assert_spin_held(&root_vnode.lock);
	list_for_each_entry(p, &group->group, group_link) {
		if (p == ignored || p->state != PROCESS_ALIVE || !p->parent)
			continue;
		if (p->parent->group != group && p->parent->session == p->session)
			return false;
	}
	return true;
}

bool process_group_orphaned(struct process *p)
{
	bool orphaned;

	spin_lock(&p->vnode->lock);
	orphaned = !p->group || orphaned_locked(p->group, NULL);
	spin_unlock(&p->vnode->lock);
	return orphaned;
}

static bool has_stopped_locked(const struct pid *group)
{
	const struct process *p;

	assert_spin_held(&root_vnode.lock);
	list_for_each_entry(p, &group->group, group_link) {
		if (READ_ONCE(p->sig.stop_done))
			return true;
	}
	return false;
}

static void signal_members_locked(const struct pid *group, const struct linux_siginfo *info)
{
	struct process *p;

	assert_spin_held(&root_vnode.lock);
	list_for_each_entry(p, &group->group, group_link) {
		if (p->state == PROCESS_ALIVE)
			(void)signal_post(p, info);
	}
}

void group_check_orphaned_locked(struct process *p, const struct process *parent)
{
	static const struct linux_siginfo hup = { .signo = SIGHUP, .code = SI_KERNEL };
	static const struct linux_siginfo cont = { .signo = SIGCONT, .code = SI_KERNEL };
	const struct process *ignored = parent ? NULL : p;

	assert_spin_held(&p->vnode->lock);
	if (!parent)
		parent = p->parent;
	/* Only if that was the connection outside. */
	if (!parent || parent->group == p->group || parent->session != p->session)
		return;
	if (!orphaned_locked(p->group, ignored) || !has_stopped_locked(p->group))
		return;
	signal_members_locked(p->group, &hup);
	signal_members_locked(p->group, &cont);
}

int process_signal_group(struct vnode *v, uint32_t pgid, const struct linux_siginfo *info)
{
	const struct pid *group;
	int err = -ESRCH;

	spin_lock(&v->lock);
	group = pid_find_locked(v, pgid);
	if (group && !list_empty(&group->group)) {
		signal_members_locked(group, info);
		err = 0;
	}
	spin_unlock(&v->lock);
	return err;
}

/*
 * --- kill --------------------------------------------------------------------------------------
 */

static bool may_signal_locked(struct process *p, int signo)
{
	const struct cred *c = cred_current();
	struct process *me = process_current();
	bool may;

	assert_spin_held(&p->vnode->lock);
	if (p == me || (signo == SIGCONT && p->session == me->session))
		return true;
	spin_lock(&p->sig_lock);
	may = c->euid == p->cred->suid || c->euid == p->cred->uid || c->uid == p->cred->suid ||
	      c->uid == p->cred->uid || cred_capable(c, p->cred->user_ns, CAP_KILL);
	spin_unlock(&p->sig_lock);
	return may;
}

bool process_may_signal(struct process *p, int signo)
{
	bool may;

	spin_lock(&p->vnode->lock);
	may = may_signal_locked(p, signo);
	spin_unlock(&p->vnode->lock);
	return may;
}

/* A zombie is there, but takes no signal. */
static int kill_locked(struct process *p, const struct linux_siginfo *info)
{
	assert_spin_held(&p->vnode->lock);
	if (!may_signal_locked(p, info->signo))
		return -EPERM;
	return info->signo && p->state == PROCESS_ALIVE ? signal_post(p, info) : 0;
}

int process_signal(struct process *p, const struct linux_siginfo *info)
{
	int err = -ESRCH;

	spin_lock(&p->vnode->lock);
	if (p->state != PROCESS_REAPED)
		err = kill_locked(p, info);
	spin_unlock(&p->vnode->lock);
	return err;
}

/* 0 if any of them got it, else what the last one answered. */
static int kill_group_locked(struct vnode *v, uint32_t pgid, const struct linux_siginfo *info)
{
	const struct pid *group = pid_find_locked(v, pgid);
	int ret = -ESRCH, err;
	struct process *p;

	assert_spin_held(&v->lock);
	if (!group)
		return -ESRCH;
	list_for_each_entry(p, &group->group, group_link) {
		err = kill_locked(p, info);
		if (ret)
			ret = err;
	}
	return ret;
}

/* Everybody but the caller's process: what could not be signalled does not count, as on Linux. */
static int kill_all_locked(struct vnode *v, const struct linux_siginfo *info)
{
	const struct process *me = process_current();
	bool any = false;
	int ret = 0, err;
	struct process *p;

	assert_spin_held(&v->lock);
	list_for_each_entry(p, &v->processes, all_link) {
		/* Of a namespace, what is in it, but its number 1. */
		if (p == me || pid_nr_in(p->pid_entry, me->pid_ns) <= INIT_PID)
			continue;
		err = kill_locked(p, info);
		any = true;
		if (err != -EPERM)
			ret = err;
	}
	return any ? ret : -ESRCH;
}

int process_kill_call(int pid, const struct linux_siginfo *info)
{
	struct process *me = process_current();
	struct vnode *v = me->vnode;
	uint32_t nr = me->pgid;
	struct process *p;
	int ret = -ESRCH;

	if (pid == INT32_MIN)
		return -ESRCH;
	if (pid > 0 || pid < -1)
		nr = pid_from_vnr((uint32_t)(pid > 0 ? pid : -pid));
	spin_lock(&v->lock);
	if (nr == INIT_PID && pid > 0) {
		/* The kernel: it is there, it ignores everything, and it belongs to root. */
		ret = capable(CAP_KILL) || (info->signo == SIGCONT && !me->parent) ? 0 : -EPERM;
	} else if (pid > 0) {
		p = process_find_locked(v, nr);
		if (!p) {
			/* Any thread's number names its process. */
			const struct pid *entry = pid_find_locked(v, nr);

			p = entry && entry->task ? entry->task->process : NULL;
		}
		if (p)
			ret = kill_locked(p, info);
	} else if (pid == -1) {
		ret = kill_all_locked(v, info);
	} else {
		ret = kill_group_locked(v, nr, info);
	}
	spin_unlock(&v->lock);
	return ret;
}

/* --- groups ---------------------------------------------------------------------------------- */

static int setpgid_locked(struct vnode *v, uint32_t pid, uint32_t pgid)
{
	struct process *me = process_current();
	struct process *p = process_find_locked(v, pid);
	struct pid *group;
	const struct process *first;

	assert_spin_held(&v->lock);
	if (!p) {
		const struct pid *entry = pid_find_locked(v, pid);

		return entry && entry->task ? -EINVAL : -ESRCH; /* a thread that is not the first */
	}
	if (p != me && p->parent == me) {
		if (p->session != me->session)
			return -EPERM;
		if (p->execed)
			return -EACCES;
	} else if (p != me) {
		return -ESRCH;
	}
	if (p->session_leader)
		return -EPERM;
	group = pgid == p->pid ? p->pid_entry : pid_find_locked(v, pgid);
	if (pgid != p->pid) {
		if (!group || list_empty(&group->group))
			return -EPERM;
		first = list_first_entry(&group->group, struct process, group_link);
		if (first->session != me->session)
			return -EPERM;
	}
	if (p->group != group)
		process_set_group_locked(p, group);
	return 0;
}

/* setpgid(pid, pgid) */
long sys_setpgid(const struct syscall_args *args)
{
	struct vnode *v = process_current()->vnode;
	const int pid = (int)args->a[0], pgid = (int)args->a[1];
	uint32_t nr, group;
	int err;

	if (pgid < 0)
		return -EINVAL;
	if (pid < 0)
		return -ESRCH;
	nr = pid ? pid_from_vnr((uint32_t)pid) : process_current()->pid;
	group = pgid ? pid_from_vnr((uint32_t)pgid) : nr;
	spin_lock(&v->lock);
	err = setpgid_locked(v, nr, group);
	spin_unlock(&v->lock);
	return err;
}

static long id_of(int pid, bool session)
{
	struct vnode *v = process_current()->vnode;
	const struct process *p;
	long ret = -ESRCH;
	uint32_t nr;

	if (pid < 0)
		return -ESRCH;
	nr = pid ? pid_from_vnr((uint32_t)pid) : process_current()->pid;
	spin_lock(&v->lock);
	p = process_find_locked(v, nr);
	if (p)
		ret = pid_nr_in(session ? p->session : p->group, pid_ns_current());
	else if (nr == INIT_PID)
		ret = 0; /* the kernel is in none */
	spin_unlock(&v->lock);
	return ret;
}

/* getpgrp() */
long sys_getpgrp(const struct syscall_args *args)
{
	return pid_vnr(process_current()->pgid);
}

/* getpgid(pid) */
long sys_getpgid(const struct syscall_args *args)
{
	return id_of((int)args->a[0], false);
}

/* getsid(pid) */
long sys_getsid(const struct syscall_args *args)
{
	return id_of((int)args->a[0], true);
}

/* setsid() */
long sys_setsid(const struct syscall_args *args)
{
	struct process *me = process_current();
	struct vnode *v = me->vnode;
	long ret = -EPERM;

	spin_lock(&v->lock);
	if (!me->session_leader && list_empty(&me->pid_entry->group)) {
		me->session_leader = true;
		process_set_session_locked(me, me->pid_entry);
		process_set_group_locked(me, me->pid_entry);
		ret = process_vpid(me);
	}
	spin_unlock(&v->lock);
	return ret;
}
