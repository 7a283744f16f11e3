/* SPDX-License-Identifier: MIT */
/*
 * ptrace(): the tracer's side.
 *
 * Flow:	a request on a stopped task freezes it (hold()), does its work with no lock held,
 *		and thaws it. Those that let it go on (CONT and its kin) change its state in the
 *		same step, under sig_lock.
 * Locking:	vnode.lock, inside it the tracee's sig_lock; neither over a copy.
 * Failure:	ESRCH: the caller does not trace the task, or it is not stopped; EPERM: it may not
 *		be traced; EIO: a request, an address or a value that is none.
 * Limits:	no PTRACE_SYSEMU, no PTRACE_SECCOMP_GET_FILTER: EIO. PTRACE_O_SUSPEND_SECCOMP
 *		answers EINVAL.
 * See:		trace.h, docs/design/ptrace.md
 */
#include "ptrace_private.h"

#include <abi/prctl.h>
#include <abi/ptrace.h>
#include <arch/uaccess.h>
#include <kernel/panic.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <processor/mm/aspace.h>
#include <processor/syscall/syscall.h>

#include "process_private.h"

#define OPTIONS_ALL                                                                               \
	(PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE | \
	 PTRACE_O_TRACEEXEC | PTRACE_O_TRACEVFORKDONE | PTRACE_O_TRACEEXIT |                      \
	 PTRACE_O_TRACESECCOMP | PTRACE_O_EXITKILL)

/* --- the beginning -------------------------------------------------------------------- */

static long traceme(void)
{
	struct task *t = task_current();
	struct process *p = t->process;
	long err = -EPERM; /* pid 1, which is the kernel, traces no program */

	spin_lock(&p->vnode->lock);
	if (p->parent)
		err = trace_link_locked(t, p->parent, p->parent_tid, false, 0);
	spin_unlock(&p->vnode->lock);
	return err;
}

/* @t, which was stopped, stops for the calling thread: a debugger's next request finds it so. */
static void wait_until_held(struct task *t)
{
	struct process *me = task_current()->process;

	(void)!wait_event_killable(&me->child_event, READ_ONCE(t->trace.state) != TRACE_RUNS ||
							     READ_ONCE(t->trace.ended) ||
							     READ_ONCE(t->trace.tracer) != me);
}

static long attach(struct task *t, bool seize, uint64_t addr, uint64_t options)
{
	static const struct linux_siginfo stop = { .signo = SIGSTOP, .code = SI_KERNEL };
	const struct task *me = task_current();
	struct process *p = t->process;
	bool was_stopped = false;
	long err;

	if (seize && (addr || (options & ~(uint64_t)OPTIONS_ALL)))
		return -EIO;
	if (p == me->process || !process_may_look(p))
		return -EPERM;
	spin_lock(&p->vnode->lock);
	err = trace_link_locked(t, me->process, me->tid, seize, seize ? (uint32_t)options : 0);
	if (!err) {
		spin_lock(&p->sig_lock);
		/* One that is stopped already stops for its tracer now. */
		was_stopped = t->sig.stopped;
		if (was_stopped) {
			t->trace.trap = true;
			thread_notify(t->thread, THREAD_F_SIGNAL);
			wake_all(&p->sig.go_on);
		}
		spin_unlock(&p->sig_lock);
	}
	spin_unlock(&p->vnode->lock);
	if (!err && was_stopped)
		wait_until_held(t);
	if (!err && !seize)
		err = signal_post_task(t, &stop);
	return err;
}

/* --- a stopped task ------------------------------------------------------------------- */

static bool is_mine_locked(const struct task *t)
{
	const struct task *me = task_current();

	assert_spin_held(&t->process->vnode->lock);
	return t->trace.tracer == me->process && t->trace.tracer_tid == me->tid && !t->trace.ended;
}

/* Freeze @t, which is stopped for the calling thread; thaw() is due. -ESRCH. */
static int hold(struct task *t)
{
	struct process *p = t->process;
	int err = -ESRCH;

	spin_lock(&p->vnode->lock);
	spin_lock(&p->sig_lock);
	if (is_mine_locked(t) && t->trace.state == TRACE_STOPPED) {
		t->trace.freezes++;
		err = 0;
	}
	spin_unlock(&p->sig_lock);
	spin_unlock(&p->vnode->lock);
	return err;
}

static void thaw(struct task *t)
{
	struct process *p = t->process;

	spin_lock(&p->sig_lock);
	ASSERT(t->trace.freezes > 0);
	t->trace.freezes--;
	wake_all(&t->trace.resumed);
	spin_unlock(&p->sig_lock);
}

/*
 * The task goes on with @signo: if that is not the one that it has stopped at, it is the tracer's.
 */
static void choose_signal(struct task *t, int signo)
{
	struct task_trace *tr = &t->trace;

	tr->go_on_with = signo;
	if (signo && tr->is_signal && signo != tr->info.signo)
		tr->info = (struct linux_siginfo){ .signo = signo,
						   .code = SI_USER,
						   .pid = process_vpid(process_current()),
						   .uid = cred_current()->uid };
}

static long go_on(struct task *t, uint64_t signo, uint32_t watch)
{
	struct process *p = t->process;

	if (signo >= NR_SIGNALS)
		return -EIO;
	ptrace_step(t, watch & TRACE_WATCH_STEPS);
	spin_lock(&p->sig_lock);
	choose_signal(t, (int)signo);
	trace_watch_locked(t, watch);
	t->trace.report = 0;
	t->trace.state = TRACE_RUNS;
	spin_unlock(&p->sig_lock);
	return 0;
}

static long detach(struct task *t, uint64_t signo)
{
	struct process *p = t->process;

	if (signo >= NR_SIGNALS)
		return -EIO;
	ptrace_step(t, false);
	choose_signal(t, (int)signo);
	spin_lock(&p->vnode->lock);
	if (is_mine_locked(t)) /* it may have been let go, and not ended: it is frozen */
		trace_unlink_locked(t, (int)signo);
	spin_unlock(&p->vnode->lock);
	return 0;
}

static long listen(struct task *t)
{
	struct process *p = t->process;
	long err = -EIO;

	spin_lock(&p->sig_lock);
	if (t->trace.seized && t->trace.code >> 8 == PTRACE_EVENT_STOP) {
		t->trace.state = TRACE_LISTENS;
		err = 0;
	}
	spin_unlock(&p->sig_lock);
	return err;
}

static long set_options(struct task *t, uint64_t options)
{
	if (options & ~(uint64_t)OPTIONS_ALL)
		return -EINVAL;
	spin_lock(&t->process->sig_lock);
	t->trace.options = (uint32_t)options;
	spin_unlock(&t->process->sig_lock);
	return 0;
}

/* --- memory --------------------------------------------------------------------------- */

static long peek(struct task *t, uint64_t addr, uint64_t udata)
{
	struct aspace *as = process_aspace(t->process);
	uint64_t word;
	size_t got;

	if (!as)
		return -EIO;
	got = aspace_read_forced(as, addr, &word, sizeof(word));
	aspace_put(as);
	if (got != sizeof(word))
		return -EIO;
	return put_user_u64(word, (void __user *)udata) ? -EFAULT : 0;
}

static long poke(struct task *t, uint64_t addr, uint64_t word)
{
	struct aspace *as = process_aspace(t->process);
	size_t put;

	if (!as)
		return -EIO;
	put = aspace_write_forced(as, addr, &word, sizeof(word));
	aspace_put(as);
	return put == sizeof(word) ? 0 : -EIO;
}

/* --- requests ------------------------------------------------------------------------- */

static long serve_regs(struct task *t, uint64_t request, uint64_t addr, uint64_t data)
{
	switch (request) {
	case PTRACE_PEEKUSR:
		return ptrace_peekuser(t, addr, data);
	case PTRACE_POKEUSR:
		return ptrace_pokeuser(t, addr, data);
	case PTRACE_GETREGS:
		return ptrace_getregs(t, data);
	case PTRACE_SETREGS:
		return ptrace_setregs(t, data);
	case PTRACE_GETFPREGS:
		return ptrace_getfpregs(t, data);
	case PTRACE_SETFPREGS:
		return ptrace_setfpregs(t, data);
	case PTRACE_GETREGSET:
		return ptrace_regset(t, addr, data, false);
	case PTRACE_SETREGSET:
		return ptrace_regset(t, addr, data, true);
	case PTRACE_ARCH_PRCTL:
		return ptrace_arch_prctl(t, data, addr);
	default:
		return -EIO;
	}
}

static long serve_info(struct task *t, uint64_t request, uint64_t addr, uint64_t data)
{
	switch (request) {
	case PTRACE_SETOPTIONS:
		return set_options(t, data);
	case PTRACE_GETEVENTMSG:
		return put_user_u64(t->trace.message, (void __user *)data) ? -EFAULT : 0;
	case PTRACE_GETSIGINFO:
		return ptrace_getsiginfo(t, data);
	case PTRACE_SETSIGINFO:
		return ptrace_setsiginfo(t, data);
	case PTRACE_PEEKSIGINFO:
		return ptrace_peeksiginfo(t, addr, data);
	case PTRACE_GETSIGMASK:
		return ptrace_getsigmask(t, addr, data);
	case PTRACE_SETSIGMASK:
		return ptrace_setsigmask(t, addr, data);
	case PTRACE_GET_SYSCALL_INFO:
		return ptrace_syscall_info(t, addr, data);
	default:
		return serve_regs(t, request, addr, data);
	}
}

static long serve(struct task *t, uint64_t request, uint64_t addr, uint64_t data)
{
	switch (request) {
	case PTRACE_PEEKTEXT:
	case PTRACE_PEEKDATA:
		return peek(t, addr, data);
	case PTRACE_POKETEXT:
	case PTRACE_POKEDATA:
		return poke(t, addr, data);
	case PTRACE_CONT:
		return go_on(t, data, 0);
	case PTRACE_SYSCALL:
		return go_on(t, data, TRACE_WATCH_CALLS);
	case PTRACE_SINGLESTEP:
		return go_on(t, data, TRACE_WATCH_STEPS);
	case PTRACE_DETACH:
		return detach(t, data);
	case PTRACE_LISTEN:
		return listen(t);
	default:
		return serve_info(t, request, addr, data);
	}
}

/* PTRACE_KILL and PTRACE_INTERRUPT, which do not need a stopped task. */
static long disturb(struct task *t, uint64_t request)
{
	struct process *p = t->process;
	long err = -ESRCH;
	bool mine;

	spin_lock(&p->vnode->lock);
	mine = is_mine_locked(t);
	if (mine && request == PTRACE_KILL) {
		process_kill(p, SIGKILL);
		err = 0;
	} else if (mine) {
		spin_lock(&p->sig_lock);
		err = t->trace.seized ? 0 : -EIO;
		if (!err) {
			t->trace.trap = true;
			thread_notify(t->thread, THREAD_F_SIGNAL);
			wake_all(&t->trace.resumed);
		}
		spin_unlock(&p->sig_lock);
	}
	spin_unlock(&p->vnode->lock);
	return err;
}

/* ptrace(request, pid, addr, data) */
long sys_ptrace(const struct syscall_args *args)
{
	const uint64_t request = args->a[0];
	struct task *t;
	long ret;

	if (request == PTRACE_TRACEME)
		return traceme();
	t = task_find(pid_from_vnr((uint32_t)args->a[1]));
	if (!t)
		return -ESRCH;
	if (request == PTRACE_ATTACH || request == PTRACE_SEIZE) {
		ret = attach(t, request == PTRACE_SEIZE, args->a[2], args->a[3]);
	} else if (request == PTRACE_KILL || request == PTRACE_INTERRUPT) {
		ret = disturb(t, request);
	} else {
		ret = hold(t);
		if (!ret) {
			ret = serve(t, request, args->a[2], args->a[3]);
			thaw(t);
		}
	}
	task_put(t);
	return ret;
}
