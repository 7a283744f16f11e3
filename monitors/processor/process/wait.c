/* SPDX-License-Identifier: MIT */
/*
 * wait4, waitid: what has happened to children.
 *
 * Flow:	look at the caller's children, and at the tasks that it traces, with the tree
 *		locked; the first one with something to report ends the call; else sleep until
 *		something happens to any of them.
 * Locking:	vnode.lock; signal_take_*() inside it.
 */
#include "process_private.h"

#include <abi/sched.h>
#include <arch/uaccess.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <processor/ns/user_ns.h>
#include <processor/syscall/syscall.h>

struct wait {
	uint32_t which; /* P_* */
	uint32_t id;    /* P_PID: as the caller sees it; P_PGID: in the vNode */
	uint32_t options;
	struct process *pidfd; /* P_PIDFD: counted */
	bool nonblock;         /* P_PIDFD: the descriptor says so */
	/* The result. */
	struct process *reaped; /* the table's reference, for the caller to put */
	struct trace_gone gone;
	uint32_t pid, uid;
	int code;             /* CLD_* */
	int status;           /* si_status */
	uint32_t wait_status; /* wait4's */
	struct usage usage;
};

static bool concerns(const struct wait *w, const struct process *c)
{
	if (w->which == P_PID && pid_nr_in(c->pid_entry, pid_ns_current()) != w->id)
		return false;
	if (w->which == P_PIDFD && c != w->pidfd)
		return false;
	if (w->which == P_PGID && c->pgid != w->id)
		return false;
	if ((w->options & __WNOTHREAD) && c->parent_tid != task_current()->tid)
		return false;
	/* Those that do not end with SIGCHLD are "clone children". */
	return (w->options & __WALL) || (c->exit_signal != SIGCHLD) == !!(w->options & __WCLONE);
}

static void report_locked(struct wait *w, struct process *c, int code, int status,
			  uint32_t wait_status) __must_hold(&c->vnode->lock)
{
	assert_spin_held(&c->vnode->lock);
	w->uid = READ_ONCE(c->cred)->uid; /* changes under vnode.lock too */
	w->code = code;
	w->status = status;
	w->wait_status = wait_status;
	usage_of_locked(c, &w->usage);
	usage_add(&w->usage, &c->usage_children);
}

/* A child has its number until it is reaped. */
static void report_child_locked(struct wait *w, struct process *c, int code, int status,
				uint32_t wait_status)
{
	assert_spin_held(&c->vnode->lock);
	report_locked(w, c, code, status, wait_status);
	w->pid = pid_nr_in(c->pid_entry, pid_ns_current());
}

static bool take_zombie_locked(struct wait *w, struct process *c)
{
	const uint32_t st = READ_ONCE(c->wait_status); /* of a zombie: final */
	struct process *me = process_current();

	assert_spin_held(&c->vnode->lock);
	if (c->state != PROCESS_ZOMBIE || c->trace_end) /* its tracer waits for it first */
		return false;
	ASSERT(w->options & WEXITED);
	if (st & 0x7f)
		report_child_locked(w, c, (st & 0x80) ? CLD_DUMPED : CLD_KILLED, (int)(st & 0x7f),
				    st);
	else
		report_child_locked(w, c, CLD_EXITED, (int)(st >> 8 & 0xff), st);
	if (w->options & WNOWAIT)
		return true;
	usage_add(&me->usage_children, &w->usage);
	process_reap_locked(c);
	w->reaped = c;
	return true;
}

static bool take_stop_locked(struct wait *w, struct process *c)
{
	const bool keep = w->options & WNOWAIT;
	int signo = 0;

	assert_spin_held(&c->vnode->lock);
	if (c->state != PROCESS_ALIVE)
		return false;
	if ((w->options & WUNTRACED) && !process_traced_by_locked(c, process_current()))
		signo = signal_take_stopped(c, keep);
	if (signo) {
		report_child_locked(w, c, CLD_STOPPED, signo, (uint32_t)signo << 8 | 0x7f);
		return true;
	}
	if ((w->options & WCONTINUED) && signal_take_continued(c, keep)) {
		report_child_locked(w, c, CLD_CONTINUED, SIGCONT, 0xffff);
		return true;
	}
	return false;
}

/* --- tasks that the caller traces ------------------------------------------------------------ */

static bool concerns_tracee(const struct wait *w, const struct task *t)
{
	const struct process *p = t->process;

	if (w->which == P_PID && t->trace.nr != w->id)
		return false;
	if (w->which == P_PIDFD && (p != w->pidfd || t->tid != p->pid))
		return false;
	if (w->which == P_PGID && p->pgid != w->id)
		return false;
	/* Whether it is a "clone child" does not matter. */
	return !(w->options & __WNOTHREAD) || t->trace.tracer_tid == task_current()->tid;
}

/* Its process may have been reaped before: only the task's own number is certain to be known. */
static void report_task_locked(struct wait *w, struct task *t, int code, int status,
			       uint32_t wait_status)
{
	struct process *p = t->process;

	assert_spin_held(&p->vnode->lock);
	report_locked(w, p, code, status, wait_status);
	w->pid = t->trace.nr;
}

/* The end of a traced task. 1 it is told, 0 not yet, -ECHILD there is nothing to wait for. */
static int take_tracee_end_locked(struct wait *w, struct task *t)
{
	struct process *p = t->process, *told;
	const bool whole = p->trace_end == t;
	const uint32_t st = whole ? READ_ONCE(p->wait_status) : t->trace.wait_status;

	assert_spin_held(&p->vnode->lock);
	if (whole && p->state != PROCESS_ZOMBIE)
		return 0;
	if (!(w->options & WEXITED))
		return -ECHILD;
	if (st & 0x7f)
		report_task_locked(w, t, (st & 0x80) ? CLD_DUMPED : CLD_KILLED, (int)(st & 0x7f),
				   st);
	else
		report_task_locked(w, t, CLD_EXITED, (int)(st >> 8 & 0xff), st);
	if (w->options & WNOWAIT)
		return 1;
	told = trace_forget_locked(t, &w->gone);
	if (told)
		process_tell_end_locked(told, &w->gone.processes);
	return 1;
}

static int take_tracee_locked(struct wait *w, struct task *t)
{
	struct process *p = t->process;
	uint32_t code;

	assert_spin_held(&p->vnode->lock);
	if (t->trace.ended)
		return take_tracee_end_locked(w, t);
	spin_lock(&p->sig_lock);
	code = t->trace.report;
	if (!(w->options & WNOWAIT))
		t->trace.report = 0;
	spin_unlock(&p->sig_lock);
	if (!code)
		return 0;
	report_task_locked(w, t, CLD_TRAPPED, (int)code, code << 8 | 0x7f);
	return 1;
}

static int look_at_tracees_locked(struct wait *w, struct process *me)
{
	struct task *t, *tmp;
	int ret = -ECHILD, one;

	assert_spin_held(&me->vnode->lock);
	list_for_each_entry_safe(t, tmp, &me->tracees, trace.link) {
		if (!concerns_tracee(w, t))
			continue;
		one = take_tracee_locked(w, t);
		if (one > 0)
			return one;
		ret = MAX(ret, one);
	}
	return ret;
}

/* 1 something was found, 0 not yet, -ECHILD there is no such child. */
static int look(struct wait *w)
{
	struct process *me = process_current();
	struct process *c, *tmp;
	int ret = -ECHILD;

	spin_lock(&me->vnode->lock);
	list_for_each_entry_safe(c, tmp, &me->children, sibling) {
		/* A dead child stops and continues no more: without WEXITED it tells nothing. */
		if (!concerns(w, c) || (c->state == PROCESS_ZOMBIE && !(w->options & WEXITED)))
			continue;
		ret = take_zombie_locked(w, c) || take_stop_locked(w, c);
		if (ret)
			break;
	}
	if (ret <= 0 && unlikely(!list_empty(&me->tracees)))
		ret = MAX(ret, look_at_tracees_locked(w, me));
	spin_unlock(&me->vnode->lock);
	return ret;
}

/* 0 nothing (WNOHANG), 1 @w says what, or -ECHILD, -ERESTARTSYS. */
static int do_wait(struct wait *w)
{
	struct process *me = process_current();
	int ret = 0;
	int err = 0;

	trace_gone_init(&w->gone);
	if ((w->options & WNOHANG) || w->nonblock)
		ret = look(w);
	else
		err = wait_event_interruptible(&me->child_event, (ret = look(w)) != 0);
	if (w->reaped)
		process_put(w->reaped);
	trace_put_all(&w->gone);
	if (ret)
		return ret;
	return err == -EINTR ? -ERESTARTSYS : err;
}

static int put_usage(uint64_t uusage, const struct usage *u)
{
	struct linux_rusage ru;

	rusage_fill(&ru, u);
	return copy_to_user((void __user *)uusage, &ru, sizeof(ru));
}

/* wait4(pid, status, options, rusage) */
long sys_wait4(const struct syscall_args *args)
{
	const int pid = (int)args->a[0];
	struct wait w = { .options = (uint32_t)args->a[2] };
	int ret;

	if (w.options & ~(WNOHANG | WUNTRACED | WCONTINUED | __WNOTHREAD | __WCLONE | __WALL))
		return -EINVAL;
	if (pid == INT32_MIN)
		return -ESRCH;
	w.options |= WEXITED;
	if (pid > 0) {
		w.which = P_PID;
		w.id = (uint32_t)pid;
	} else if (pid != -1) {
		w.which = P_PGID;
		w.id = pid ? pid_from_vnr((uint32_t)-pid) : process_current()->pgid;
	}
	ret = do_wait(&w);
	if (ret <= 0)
		return ret;
	if (args->a[1] && put_user_u32(w.wait_status, (void __user *)args->a[1]))
		return -EFAULT;
	if (args->a[3] && put_usage(args->a[3], &w.usage))
		return -EFAULT;
	return w.pid;
}

static int waitid_target(struct wait *w, int which, int id)
{
	w->which = which;
	w->id = (uint32_t)id;
	switch (which) {
	case P_ALL:
		return 0;
	case P_PID:
		return id > 0 ? 0 : -EINVAL;
	case P_PGID:
		w->id = id ? pid_from_vnr((uint32_t)id) : process_current()->pgid;
		return id >= 0 ? 0 : -EINVAL;
	case P_PIDFD:
		if (id < 0)
			return -EINVAL;
		w->pidfd = pidfd_process(id, &w->nonblock);
		return w->pidfd ? 0 : -EBADF;
	default:
		return -EINVAL;
	}
}

/* Only these fields are written, as on Linux. */
static int put_info(uint64_t uinfo, const struct wait *w, bool found)
{
	const struct {
		int32_t signo, err, code;
	} head = { found ? SIGCHLD : 0, 0, found ? w->code : 0 };
	const struct {
		uint32_t pid, uid;
		int32_t status;
	} body = { found ? w->pid : 0, found ? uid_out(w->uid) : 0, found ? w->status : 0 };

	if (copy_to_user((void __user *)uinfo, &head, sizeof(head)) ||
	    copy_to_user((void __user *)(uinfo + offsetof(struct linux_siginfo, pid)), &body,
			 sizeof(body)))
		return -EFAULT;
	return 0;
}

/* waitid(which, id, info, options, rusage) */
long sys_waitid(const struct syscall_args *args)
{
	struct wait w = { .options = (uint32_t)args->a[3] };
	int ret;

	if (w.options & ~(WNOHANG | WNOWAIT | WEXITED | WUNTRACED | WCONTINUED | __WNOTHREAD |
			  __WCLONE | __WALL))
		return -EINVAL;
	if (!(w.options & (WEXITED | WUNTRACED | WCONTINUED)))
		return -EINVAL;
	ret = waitid_target(&w, (int)args->a[0], (int)args->a[1]);
	if (!ret)
		ret = do_wait(&w);
	if (!ret && w.nonblock && !(w.options & WNOHANG))
		ret = -EAGAIN;
	if (w.pidfd)
		process_put(w.pidfd);
	if (ret < 0)
		return ret;
	if (ret && args->a[4] && put_usage(args->a[4], &w.usage))
		return -EFAULT;
	if (args->a[2] && put_info(args->a[2], &w, ret))
		return -EFAULT;
	return 0;
}
