/* SPDX-License-Identifier: MIT */
/*
 * The links between tracers and tracees: the beginning and the end of tracing, and what is left of
 * a traced task that has ended until its tracer has waited for it.
 *
 * Flow:	an ended task stays on its tracer's list ("ended"). That of a process's first task
 *		stands for the end of the process: if the tracer is not the parent, the parent hears
 *		of it only when the tracer has waited (process.trace_end).
 * Locking:	vnode.lock throughout, and the tracee's sig_lock for what its own thread reads. A
 *		reference that may be the last one is put by trace_put_all(), with no lock held.
 */
#include <abi/ptrace.h>
#include <arch/cpu.h>
#include <arch/trap.h>
#include <kernel/panic.h>
#include <lib/errno.h>

#include "process_private.h"
#include "trace.h"

void trace_task_init(struct task *t)
{
	list_init(&t->trace.link);
	waitqueue_init(&t->trace.resumed);
}

int trace_link_locked(struct task *t, struct process *tracer, uint32_t tid, bool seized,
		      uint32_t options)
{
	struct task_trace *tr = &t->trace;
	struct process *p = t->process;
	int err = 0;

	assert_spin_held(&p->vnode->lock);
	spin_lock(&p->sig_lock);
	if (tr->tracer || !t->pid_entry || task_ending_locked(t) || !READ_ONCE(tracer->nr_tasks)) {
		err = -EPERM;
	} else {
		ASSERT(tr->state == TRACE_RUNS && !tr->freezes);
		ASSERT(!(tr->watch & ~TRACE_WATCH_SECCOMP));
		tr->tracer = tracer;
		tr->tracer_tid = tid;
		tr->nr = pid_nr_in(t->pid_entry, tracer->pid_ns);
		tr->seized = seized;
		tr->options = options;
		tr->trap = false;
		tr->report = 0;
		list_add_tail(&tr->link, &tracer->tracees);
	}
	spin_unlock(&p->sig_lock);
	return err;
}

/* vnode.lock is held, and of a living task its sig_lock. */
static void trace_clear(struct task_trace *tr)
{
	list_del(&tr->link);
	tr->tracer = NULL;
	tr->tracer_tid = 0;
	tr->seized = false;
	tr->options = 0;
	tr->trap = false;
	tr->report = 0;
}

void trace_unlink_locked(struct task *t, int signo)
{
	struct task_trace *tr = &t->trace;
	struct process *p = t->process;

	assert_spin_held(&p->vnode->lock);
	spin_lock(&p->sig_lock);
	ASSERT(tr->tracer && !tr->ended);
	trace_clear(tr);
	trace_watch_locked(t, 0);
	if (tr->state != TRACE_RUNS) {
		if (tr->step_set)
			user_regs_of(t->thread)->rflags &= ~(uint64_t)RFLAGS_TF;
		tr->step_set = false;
		tr->go_on_with = signo;
		tr->state = TRACE_RUNS;
		thread_notify(t->thread, THREAD_F_SIGNAL);
	}
	/* It stops again, with its process and without a tracer. */
	if (t->sig.stopped) {
		ASSERT(p->sig.nr_stopped > 0);
		p->sig.nr_stopped--;
		t->sig.stopped = false;
		thread_notify(t->thread, THREAD_F_SIGNAL);
		wake_all(&p->sig.go_on);
	}
	wake_all(&tr->resumed);
	spin_unlock(&p->sig_lock);
}

void trace_inherit_locked(struct task *t, const struct task *from)
{
	const struct task_trace *tr = &from->trace;
	struct process *p = t->process;

	assert_spin_held(&p->vnode->lock);
	if (!tr->tracer || trace_link_locked(t, tr->tracer, tr->tracer_tid, READ_ONCE(tr->seized),
					     READ_ONCE(tr->options)))
		return;
	spin_lock(&p->sig_lock);
	if (t->trace.seized)
		t->trace.trap = true;
	else /* a number without an entry: nothing is known of who sent it */
		t->sig.pending.set |= SIGMASK(SIGSTOP);
	thread_notify(t->thread, THREAD_F_SIGNAL);
	spin_unlock(&p->sig_lock);
}

/* --- telling the tracer --------------------------------------------------------------- */

bool trace_tell_locked(struct task *t, int code, int status)
{
	struct process *tracer = t->trace.tracer;
	const struct linux_siginfo info = {
		.signo = SIGCHLD,
		.code = code,
		.pid = t->trace.nr,
		.uid = READ_ONCE(t->process->cred)->uid, /* changes under vnode.lock too */
		.status = status,
	};
	bool unwanted;

	assert_spin_held(&t->process->vnode->lock);
	unwanted = signal_post_child(tracer, &info);
	wake_all(&tracer->child_event);
	return unwanted;
}

static bool trace_tell_end_locked(struct task *t, uint32_t wait_status)
{
	assert_spin_held(&t->process->vnode->lock);
	if (wait_status & 0x7f)
		return trace_tell_locked(t, (wait_status & 0x80) ? CLD_DUMPED : CLD_KILLED,
					 (int)(wait_status & 0x7f));
	return trace_tell_locked(t, CLD_EXITED, (int)(wait_status >> 8 & 0xff));
}

/* --- ended tasks ---------------------------------------------------------------------- */

struct process *trace_forget_locked(struct task *t, struct trace_gone *gone)
{
	struct process *p = t->process;

	assert_spin_held(&p->vnode->lock);
	ASSERT(t->trace.ended && t->trace.tracer);
	trace_clear(&t->trace);
	list_add_tail(&t->trace.link, &gone->tasks);
	if (p->trace_end != t)
		return NULL;
	p->trace_end = NULL;
	return p->state == PROCESS_ZOMBIE ? p : NULL;
}

void trace_gone_init(struct trace_gone *gone)
{
	list_init(&gone->tasks);
	list_init(&gone->processes);
}

void trace_put_all(struct trace_gone *gone)
{
	struct process *p, *p_tmp;
	struct task *t, *tmp;

	list_for_each_entry_safe(t, tmp, &gone->tasks, trace.link) {
		list_del(&t->trace.link);
		task_put(t);
	}
	list_for_each_entry_safe(p, p_tmp, &gone->processes, all_link) {
		list_del(&p->all_link);
		process_put(p);
	}
}

/* Its tracer ends. The signal of a stop that it has not been told of is not lost. */
static void let_go_locked(struct task *t, struct trace_gone *gone)
{
	struct task_trace *tr = &t->trace;
	struct process *told;
	uint32_t options;
	int signo = 0;

	assert_spin_held(&t->process->vnode->lock);
	if (tr->ended) {
		told = trace_forget_locked(t, gone);
		if (told)
			process_tell_end_locked(told, &gone->processes);
		return;
	}
	spin_lock(&t->process->sig_lock);
	options = tr->options;
	if (tr->state != TRACE_RUNS && tr->is_signal && tr->report)
		signo = tr->info.signo;
	spin_unlock(&t->process->sig_lock);
	trace_unlink_locked(t, signo);
	if (options & PTRACE_O_EXITKILL)
		process_kill(t->process, SIGKILL);
}

void trace_task_left_locked(struct task *t, uint32_t wait_status, struct trace_gone *gone)
{
	struct process *p = t->process;
	struct task *c, *tmp;

	assert_spin_held(&p->vnode->lock);
	list_for_each_entry_safe(c, tmp, &p->tracees, trace.link) {
		if (c->trace.tracer_tid == t->tid || !READ_ONCE(p->nr_tasks))
			let_go_locked(c, gone);
	}
	if (!t->trace.tracer)
		return;
	spin_lock(&p->sig_lock);
	trace_watch_locked(t, 0);
	t->trace.report = 0;
	spin_unlock(&p->sig_lock);
	t->trace.ended = true;
	t->trace.wait_status = wait_status;
	task_get(t);
	if (t->tid == p->pid)
		p->trace_end = t; /* told when the process has ended */
	else if (trace_tell_end_locked(t, wait_status))
		(void)!trace_forget_locked(t, gone);
}

bool trace_holds_end_locked(struct process *p, struct trace_gone *gone)
{
	struct task *t = p->trace_end;

	assert_spin_held(&p->vnode->lock);
	if (!t)
		return false;
	/* A tracer that is the parent hears of it as that, and one that wants no zombies has. */
	if (t->trace.tracer != p->parent && !trace_tell_end_locked(t, READ_ONCE(p->wait_status)))
		return true;
	(void)!trace_forget_locked(t, gone);
	return false;
}

void trace_exec_locked(struct task *t, uint32_t old_tid, struct trace_gone *gone)
{
	struct process *p = t->process;
	struct task *c;

	assert_spin_held(&p->vnode->lock);
	/*
	 * The task that had the number before has not ended for its tracer: it has a new program.
	 */
	if (p->trace_end)
		(void)!trace_forget_locked(p->trace_end, gone);
	if (t->trace.tracer)
		t->trace.nr = pid_nr_in(t->pid_entry, t->trace.tracer->pid_ns);
	list_for_each_entry(c, &p->tracees, trace.link) {
		if (c->trace.tracer_tid == old_tid)
			c->trace.tracer_tid = t->tid;
	}
}
