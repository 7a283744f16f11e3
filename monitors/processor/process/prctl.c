/* SPDX-License-Identifier: MIT */
/*
 * prctl: names, capabilities, and what happens at the end of parents.
 *
 * Limits:	the signal of PR_SET_PDEATHSIG is the process's and comes when the parent process
 *		ends, not one of its threads. An option that is not here answers EINVAL, as on a
 *		Linux without it.
 */
#include "process_private.h"

#include <abi/prctl.h>
#include <arch/uaccess.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <processor/mm/anon_name.h>
#include <processor/ns/user_ns.h>
#include <processor/syscall/syscall.h>

/* --- names --------------------------------------------------------------------------------- */

static long set_name(uint64_t uname)
{
	struct task *t = task_current();
	struct process *p = t->process;
	char name[COMM_LEN];
	const ssize_t len = strncpy_from_user(name, (const char __user *)uname, sizeof(name));

	if (len == -EFAULT)
		return -EFAULT;
	name[COMM_LEN - 1] = '\0';
	mutex_lock(&p->lock);
	strlcpy(t->comm, name, sizeof(t->comm));
	if (t->tid == p->pid)
		strlcpy(p->comm, name, sizeof(p->comm));
	mutex_unlock(&p->lock);
	return 0;
}

static long get_name(uint64_t uname)
{
	struct task *t = task_current();
	char name[COMM_LEN] = { 0 };

	mutex_lock(&t->process->lock);
	strlcpy(name, t->comm, sizeof(name));
	mutex_unlock(&t->process->lock);
	return copy_to_user((void __user *)uname, name, sizeof(name)) ? -EFAULT : 0;
}

/* --- capabilities --------------------------------------------------------------------------- */

static long change_securebits(uint32_t bits)
{
	const struct cred *c = cred_current();
	const uint32_t locked = (c->securebits & SECURE_ALL_LOCKS) >> 1;
	struct cred *n;

	/* A lock holds what it locks, and itself. */
	if ((bits & ~SECBITS_ALL) || ((c->securebits ^ bits) & locked) ||
	    (c->securebits & SECURE_ALL_LOCKS & ~bits) || !capable_here(CAP_SETPCAP))
		return -EPERM;
	n = cred_copy(c);
	if (!n)
		return -ENOMEM;
	n->securebits = bits;
	return cred_install(n);
}

static long set_keepcaps(uint64_t on)
{
	const struct cred *c = cred_current();
	struct cred *n;

	if (on > 1)
		return -EINVAL;
	if (c->securebits & SECBIT_KEEP_CAPS << 1)
		return -EPERM;
	n = cred_copy(c);
	if (!n)
		return -ENOMEM;
	n->securebits = on ? n->securebits | SECBIT_KEEP_CAPS : n->securebits & ~SECBIT_KEEP_CAPS;
	return cred_install(n);
}

static long drop_bounding(uint64_t cap)
{
	struct cred *n;

	if (!capable_here(CAP_SETPCAP))
		return -EPERM;
	if (cap > CAP_LAST_CAP)
		return -EINVAL;
	n = cred_copy(cred_current());
	if (!n)
		return -ENOMEM;
	n->bounding &= ~CAP_BIT(cap);
	return cred_install(n);
}

static long change_ambient(uint64_t what, uint64_t cap)
{
	const struct cred *c = cred_current();
	struct cred *n;

	if (what == PR_CAP_AMBIENT_CLEAR_ALL ? cap != 0 : cap > CAP_LAST_CAP)
		return -EINVAL;
	switch (what) {
	case PR_CAP_AMBIENT_IS_SET:
		return !!(c->ambient & CAP_BIT(cap));
	case PR_CAP_AMBIENT_RAISE:
		if (!(c->permitted & c->inheritable & CAP_BIT(cap)))
			return -EPERM;
		break;
	case PR_CAP_AMBIENT_LOWER:
	case PR_CAP_AMBIENT_CLEAR_ALL:
		break;
	default:
		return -EINVAL;
	}
	n = cred_copy(c);
	if (!n)
		return -ENOMEM;
	if (what == PR_CAP_AMBIENT_RAISE)
		n->ambient |= CAP_BIT(cap);
	else
		n->ambient &= what == PR_CAP_AMBIENT_LOWER ? ~CAP_BIT(cap) : 0;
	return cred_install(n);
}

static long set_no_new_privs(const struct syscall_args *args)
{
	struct cred *n;

	if (args->a[1] != 1 || args->a[2] || args->a[3] || args->a[4])
		return -EINVAL;
	n = cred_copy(cred_current());
	if (!n)
		return -ENOMEM;
	n->no_new_privs = true;
	return cred_install(n);
}

static long cap_option(const struct syscall_args *args)
{
	const struct cred *c = cred_current();

	switch (args->a[0]) {
	case PR_GET_KEEPCAPS:
		return !!(c->securebits & SECBIT_KEEP_CAPS);
	case PR_SET_KEEPCAPS:
		return set_keepcaps(args->a[1]);
	case PR_CAPBSET_READ:
		return args->a[1] > CAP_LAST_CAP ? -EINVAL : !!(c->bounding & CAP_BIT(args->a[1]));
	case PR_CAPBSET_DROP:
		return drop_bounding(args->a[1]);
	case PR_GET_SECUREBITS:
		return c->securebits;
	case PR_SET_SECUREBITS:
		return change_securebits((uint32_t)args->a[1]);
	case PR_SET_NO_NEW_PRIVS:
		return set_no_new_privs(args);
	case PR_GET_NO_NEW_PRIVS:
		return args->a[1] || args->a[2] || args->a[3] || args->a[4] ? -EINVAL
									    : c->no_new_privs;
	case PR_CAP_AMBIENT:
		return args->a[3] || args->a[4] ? -EINVAL : change_ambient(args->a[1], args->a[2]);
	default:
		return -EINVAL;
	}
}

/*
 * --- parents and children -----------------------------------------------------------------------
 */

static long set_pdeath_signal(struct process *p, uint64_t signo)
{
	if (signo >= NR_SIGNALS)
		return -EINVAL;
	spin_lock(&p->vnode->lock);
	p->pdeath_signal = (int)signo;
	spin_unlock(&p->vnode->lock);
	return 0;
}

static long set_subreaper(struct process *p, uint64_t on)
{
	spin_lock(&p->vnode->lock);
	p->child_subreaper = on != 0;
	spin_unlock(&p->vnode->lock);
	return 0;
}

/* --- what is kept and told ------------------------------------------------------------------- */

/*
 * It decides which processes may look into this one, see pseudo_may_trace(). An exec makes it
 * dumpable again, and cred_install() not dumpable.
 */
static long set_dumpable(struct process *p, uint64_t on)
{
	if (on > 1)
		return -EINVAL;
	spin_lock(&p->vnode->lock);
	WRITE_ONCE(p->undumpable, !on);
	spin_unlock(&p->vnode->lock);
	return 0;
}

/* There are no huge pages, so none are used. */
static long set_thp_disable(struct process *p, const struct syscall_args *args)
{
	if (args->a[2] || args->a[3] || args->a[4])
		return -EINVAL;
	spin_lock(&p->vnode->lock);
	p->thp_disabled = args->a[1] != 0;
	spin_unlock(&p->vnode->lock);
	return 0;
}

/* How late a timer may be: timers here are as exact as they can be, which is within any slack. */
static long set_timer_slack(struct task *t, uint64_t ns)
{
	t->slack_ns = (int64_t)ns > 0 ? ns : t->slack_default_ns;
	return 0;
}

static long told_option(struct process *p, const struct syscall_args *args)
{
	const bool more = args->a[1] || args->a[2] || args->a[3] || args->a[4];

	switch (args->a[0]) {
	case PR_GET_DUMPABLE:
		return !p->undumpable;
	case PR_SET_DUMPABLE:
		return set_dumpable(p, args->a[1]);
	case PR_SET_THP_DISABLE:
		return set_thp_disable(p, args);
	case PR_GET_THP_DISABLE:
		return more ? -EINVAL : p->thp_disabled;
	case PR_SET_TIMERSLACK:
		return set_timer_slack(task_current(), args->a[1]);
	case PR_GET_TIMERSLACK:
		return (long)task_current()->slack_ns;
	case PR_GET_TSC:
		return put_user_u32(thread_tsc_allowed() ? PR_TSC_ENABLE : PR_TSC_SIGSEGV,
				    (void __user *)args->a[1]);
	case PR_SET_TSC:
		if (args->a[1] != PR_TSC_ENABLE && args->a[1] != PR_TSC_SIGSEGV)
			return -EINVAL;
		thread_set_tsc(args->a[1] == PR_TSC_ENABLE);
		return 0;
	case PR_GET_TIMING:
		return 0;
	case PR_GET_SECCOMP:
		return task_current()->seccomp.mode;
	case PR_SET_SECCOMP:
		return seccomp_prctl(args->a[1], args->a[2]);
	case PR_SET_TIMING:
		return args->a[1] ? -EINVAL : 0;
	case PR_MCE_KILL_GET:
		return more ? -EINVAL : PR_MCE_KILL_DEFAULT;
	default:
		return cap_option(args);
	}
}

/* prctl(option, a2, a3, a4, a5) */
long sys_prctl(const struct syscall_args *args)
{
	struct process *p = process_current();
	const uint64_t arg = args->a[1];

	switch (args->a[0]) {
	case PR_SET_NAME:
		return set_name(arg);
	case PR_GET_NAME:
		return get_name(arg);
	case PR_SET_PDEATHSIG:
		return set_pdeath_signal(p, arg);
	case PR_GET_PDEATHSIG:
		return put_user_u32((uint32_t)p->pdeath_signal, (void __user *)arg);
	case PR_SET_CHILD_SUBREAPER:
		return set_subreaper(p, arg);
	case PR_GET_CHILD_SUBREAPER:
		return put_user_u32(p->child_subreaper, (void __user *)arg);
	case PR_SET_VMA:
		return arg == PR_SET_VMA_ANON_NAME
			       ? anon_name_set(p->as, args->a[2], args->a[3], args->a[4])
			       : -EINVAL;
	case PR_GET_TID_ADDRESS:
		return put_user_u64(task_current()->clear_child_tid, (void __user *)arg);
	default:
		return told_option(p, args);
	}
}
