/* SPDX-License-Identifier: MIT */
/*
 * Stops of a traced task: at signals, at system calls, at events, with its process.
 *
 * Flow:	stop() says why, tells the tracer and sleeps. Only the tracer, its end, or the end
 *		of the task itself lets it go on; SIGCONT does not.
 * Context:	the traced task's own thread, no lock held.
 * Ordering:	the task's FPU registers are in its image before the tracer can see it stopped, and
 *		segment bases and debug registers are loaded again afterwards.
 * See:		trace.h
 */
#include "trace.h"

#include <abi/ptrace.h>
#include <arch/cpu.h>
#include <arch/fpu.h>
#include <arch/trap.h>
#include <kernel/panic.h>
#include <lib/errno.h>
#include <processor/ns/user_ns.h>
#include <processor/syscall/syscall.h>

#include "process_private.h"

struct stop {
	uint32_t code;
	int why; /* CLD_* */
	const struct linux_siginfo *info;
	bool is_signal;
	bool names_task; /* the message is a number of the vNode: the tracer hears its own */
	uint64_t message;
};

/* Of a task that need not be there any more. */
static uint64_t number_for_locked(const struct process *tracer, uint64_t nr)
{
	const struct pid *pid;

	assert_spin_held(&tracer->vnode->lock);
	if (!tracer->pid_ns)
		return nr;
	pid = pid_find_locked(tracer->vnode, (uint32_t)nr);
	return pid ? pid_nr_in(pid, tracer->pid_ns) : 0;
}

static void watch_locked(struct task *t, uint32_t bits)
{
	struct task_trace *tr = &t->trace;

	assert_spin_held(&t->process->sig_lock);
	if (!tr->watch && bits)
		syscall_watch_begin();
	else if (tr->watch && !bits)
		syscall_watch_end();
	WRITE_ONCE(tr->watch, bits);
}

void trace_watch_locked(struct task *t, uint32_t bits)
{
	assert_spin_held(&t->process->sig_lock);
	watch_locked(t, (bits & ~TRACE_WATCH_SECCOMP) | (t->trace.watch & TRACE_WATCH_SECCOMP));
}

void trace_watch_seccomp_locked(struct task *t, bool on)
{
	assert_spin_held(&t->process->sig_lock);
	watch_locked(t, (t->trace.watch & ~TRACE_WATCH_SECCOMP) | (on ? TRACE_WATCH_SECCOMP : 0));
}

static bool goes_on(const struct task_trace *tr)
{
	const uint8_t state = READ_ONCE(tr->state);

	return state == TRACE_RUNS || (state == TRACE_LISTENS && READ_ONCE(tr->trap));
}

/* False: it is traced no longer, or is to end. */
static bool stop_begin(struct task *t, const struct stop *s)
{
	struct task_trace *tr = &t->trace;
	struct process *p = t->process;
	bool stops;

	spin_lock(&p->vnode->lock);
	spin_lock(&p->sig_lock);
	stops = tr->tracer && !task_ending_locked(t);
	if (stops) {
		ASSERT(tr->state == TRACE_RUNS && !tr->freezes);
		tr->code = tr->report = s->code;
		tr->has_info = s->info != NULL;
		if (s->info)
			tr->info = *s->info;
		tr->is_signal = s->is_signal;
		tr->message = s->message;
		if (s->names_task)
			tr->message = number_for_locked(tr->tracer, s->message);
		tr->go_on_with = 0;
		tr->state = TRACE_STOPPED;
	}
	spin_unlock(&p->sig_lock);
	if (stops)
		(void)trace_tell_locked(t, s->why, (int)(s->code & 0x7f));
	spin_unlock(&p->vnode->lock);
	return stops;
}

/* The task is to end, but not under the eyes of a tracer that reads its registers. */
static void stop_end(struct task *t)
{
	struct task_trace *tr = &t->trace;
	struct process *p = t->process;

	spin_lock(&p->sig_lock);
	while (tr->freezes) {
		spin_unlock(&p->sig_lock);
		wait_event(&tr->resumed, !READ_ONCE(tr->freezes));
		spin_lock(&p->sig_lock);
	}
	tr->state = TRACE_RUNS;
	tr->report = 0;
	spin_unlock(&p->sig_lock);
}

static bool stop(struct task *t, const struct stop *s)
{
	fpu_park(thread_current()->user.fpu);
	if (!stop_begin(t, s))
		return false;
	/* -EINTR: it is killed, and comes by the test for that on its way to user mode. */
	(void)wait_event_killable(&t->trace.resumed, goes_on(&t->trace));
	stop_end(t);
	thread_set_fs_base(thread_fs_base()); /* the tracer may have changed them */
	thread_set_gs_base(thread_gs_base());
	debug_reload();
	return true;
}

static struct linux_siginfo own_info(const struct task *t, int signo, uint32_t code)
{
	return (struct linux_siginfo){ .signo = signo,
				       .code = (int32_t)code,
				       .pid = task_vtid(t),
				       .uid = uid_out(t->cred->uid) };
}

/* A stop of the kernel's own, which PTRACE_GETSIGINFO shows as a SIGTRAP with its code. */
static void notify_of(struct task *t, uint32_t code, uint64_t message, bool names_task)
{
	const struct linux_siginfo info = own_info(t, SIGTRAP, code);
	const struct stop s = { .code = code,
				.why = CLD_TRAPPED,
				.info = &info,
				.message = message,
				.names_task = names_task };

	(void)stop(t, &s);
}

static void notify(struct task *t, uint32_t code, uint64_t message)
{
	notify_of(t, code, message, false);
}

/* The tracer has let the task go on with a signal from a stop that was at none. */
static void post_given(struct task *t)
{
	const int signo = t->trace.go_on_with;
	const struct linux_siginfo info = { .signo = signo, .code = SI_USER };

	t->trace.go_on_with = 0;
	if (signo > 0 && signo < NR_SIGNALS)
		(void)signal_post_task(t, &info);
}

/* --- signals -------------------------------------------------------------------------- */

bool trace_signal(struct task *t, struct linux_siginfo *info)
{
	const struct stop s = {
		.code = (uint32_t)info->signo, .why = CLD_TRAPPED, .info = info, .is_signal = true
	};
	struct task_trace *tr = &t->trace;

	if (!stop(t, &s))
		return true;
	tr->is_signal = false;
	if (!tr->go_on_with)
		return false;
	*info = tr->info;
	info->signo = tr->go_on_with;
	if (!(t->sig.mask & SIGMASK(info->signo)) || (SIGMASK(info->signo) & SIGMASK_UNBLOCKABLE))
		return true;
	/* The tracer has blocked it, or has chosen one that is blocked: it waits. */
	(void)signal_post_task(t, info);
	return false;
}

void trace_trap(struct task *t)
{
	struct process *p = t->process;
	struct linux_siginfo info;
	struct stop s = { .why = CLD_STOPPED };
	bool seized;
	int signo;

	spin_lock(&p->sig_lock);
	t->trace.trap = false;
	seized = t->trace.seized;
	signo = p->sig.stop_signo;
	spin_unlock(&p->sig_lock);
	if (seized) {
		signo = signo ? signo : SIGTRAP;
		s.code = (uint32_t)signo | PTRACE_EVENT_STOP << 8;
		info = own_info(t, signo, s.code);
		s.info = &info;
	} else {
		s.code = (uint32_t)(signo ? signo : SIGSTOP);
	}
	(void)stop(t, &s);
}

/* --- events --------------------------------------------------------------------------- */

bool trace_wants(const struct task *t, unsigned int event)
{
	return task_is_traced(t) && (READ_ONCE(t->trace.options) & 1u << event);
}

void trace_event(struct task *t, unsigned int event, uint64_t message)
{
	if (!trace_wants(t, event))
		return;
	notify(t, SIGTRAP | event << 8, message);
	post_given(t);
}

void trace_event_task(struct task *t, unsigned int event, uint32_t tid)
{
	if (!trace_wants(t, event))
		return;
	notify_of(t, SIGTRAP | event << 8, tid, true);
	post_given(t);
}

void trace_exec_done(struct task *t, uint32_t old_tid)
{
	struct process *p = t->process;
	struct linux_siginfo info;
	bool trap;

	spin_lock(&p->sig_lock);
	t->trace.step_set = false;
	trace_watch_locked(t, t->trace.watch & ~TRACE_WATCH_STEPS);
	trap = t->trace.tracer && !t->trace.seized && !trace_wants(t, PTRACE_EVENT_EXEC);
	spin_unlock(&p->sig_lock);
	if (trap) {
		info = own_info(t, SIGTRAP, SI_USER);
		(void)signal_post_task(t, &info);
	}
	trace_event_task(t, PTRACE_EVENT_EXEC, old_tid);
}

void trace_exiting(uint32_t wait_status)
{
	struct task *t = task_current();

	if (unlikely(task_is_traced(t)))
		trace_event(t, PTRACE_EVENT_EXIT, wait_status);
}

/* --- system calls and single steps ---------------------------------------------------- */

static uint32_t call_code(const struct task *t)
{
	return SIGTRAP | (READ_ONCE(t->trace.options) & PTRACE_O_TRACESYSGOOD ? 0x80 : 0);
}

bool trace_call_begin(struct task *t, struct pt_regs *regs)
{
	if (!(READ_ONCE(t->trace.watch) & TRACE_WATCH_CALLS))
		return true;
	regs->rax = (uint64_t)-ENOSYS;
	notify(t, call_code(t), PTRACE_EVENTMSG_SYSCALL_ENTRY);
	post_given(t);
	return !(READ_ONCE(t->thread->flags) & THREAD_F_KILL) && (int32_t)regs->orig_rax != -1;
}

void trace_call_end(struct task *t, struct pt_regs *regs)
{
	const uint32_t watch = READ_ONCE(t->trace.watch);
	const struct linux_siginfo step = { .signo = SIGTRAP,
					    .code = TRAP_BRKPT,
					    .addr = regs->rip };

	if (watch & TRACE_WATCH_STEPS) {
		signal_force(t, &step);
	} else if (watch & TRACE_WATCH_CALLS) {
		notify(t, call_code(t), PTRACE_EVENTMSG_SYSCALL_EXIT);
		post_given(t);
	}
}

bool trace_step_end(struct task *t, struct pt_regs *regs)
{
	if (!(READ_ONCE(t->trace.watch) & TRACE_WATCH_STEPS))
		return false;
	if (t->trace.step_set)
		regs->rflags &= ~(uint64_t)RFLAGS_TF;
	t->trace.step_set = false;
	return true;
}

void trace_handler_begins(struct task *t)
{
	notify(t, SIGTRAP, 0);
	post_given(t);
}
