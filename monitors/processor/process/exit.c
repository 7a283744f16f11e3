/* SPDX-License-Identifier: MIT */
/*
 * The end: of tasks, of processes, of programs.
 *
 * Flow:	task_exit(): what the task shares is put, and it leaves its process; the last one
 *		goes on: the address space is given back, children go to a subreaper or to pid 1,
 *		the parent is told, and the process is a zombie until it is waited for, or gone at
 *		once if no parent wants to. Number 1 of a PID namespace first kills all others in it
 *		and waits until they are zombies. The first process of a program also kills all of
 *		it, waits until they are gone, and only then tells the launcher.
 * Locking:	vnode.lock around everything that the tree shows, so that wait() sees a child either
 *		alive or ended. Nothing is freed under it that may sleep.
 */
#include "process_private.h"

#include <arch/fpu.h>
#include <arch/pgtable.h>
#include <arch/uaccess.h>
#include <cluster/cluster.h>
#include <ctl/ctl.h>
#include <kernel/counter.h>
#include <kernel/panic.h>
#include <mm/slab.h>
#include <processor/ipc/futex.h>
#include <processor/mm/aspace.h>
#include <processor/tty/tty.h>
#include <processor/vfs/file.h>

COUNTER(exit_exits, "process.exits", "processes that have ended");
COUNTER(exit_early, "process.early_ends",
	"programs whose end was told before a silent node had freed their memory");

/* --- accounting -------------------------------------------------------------------------- */

void usage_add(struct usage *to, const struct usage *from)
{
	to->utime_ns += from->utime_ns;
	to->stime_ns += from->stime_ns;
	to->faults += from->faults;
	to->major += from->major;
	to->switches += from->switches;
	to->forced += from->forced;
	to->max_rss = MAX(to->max_rss, from->max_rss);
}

uint64_t space_rss(const struct aspace *as)
	__no_lock_analysis("the table is the space's for its life; the count is one word")
{
	return (uint64_t)pgtable_most_pages(as->pt) * (PAGE_SIZE / 1024);
}

void usage_of_task(const struct task *t, struct usage *u)
{
	*u = (struct usage){
		.faults = t->faults,
		.major = t->major_faults,
		.switches = t->thread->nr_switches,
		.forced = t->thread->nr_forced,
	};
	thread_cpu_times(t->thread, &u->utime_ns, &u->stime_ns);
}

void usage_of_locked(struct process *p, struct usage *u)
{
	const struct task *t;
	struct usage one;

	assert_spin_held(&p->vnode->lock);
	*u = p->usage_dead;
	if (p->as)
		u->max_rss = MAX(u->max_rss, space_rss(p->as));
	spin_lock(&p->sig_lock);
	list_for_each_entry(t, &p->tasks, link) {
		usage_of_task(t, &one);
		usage_add(u, &one);
	}
	spin_unlock(&p->sig_lock);
}

void usage_of(struct process *p, struct usage *u)
{
	spin_lock(&p->vnode->lock);
	usage_of_locked(p, u);
	spin_unlock(&p->vnode->lock);
}

/* --- telling the parent -------------------------------------------------------------------- */

static void wake_parent_locked(struct process *p)
{
	assert_spin_held(&p->vnode->lock);
	if (p->parent)
		wake_all(&p->parent->child_event);
}

/* As the parent, which is there, hears of it. */
static struct linux_siginfo child_info(const struct process *p, int signo, int code, int status)
	__must_hold(&p->vnode->lock)
{
	const struct usage *u = &p->usage_dead;

	assert_spin_held(&p->vnode->lock);
	return (struct linux_siginfo){
		.signo = signo,
		.code = code,
		.pid = pid_nr_in(p->pid_entry, p->parent->pid_ns),
		.uid = READ_ONCE(p->cred)->uid, /* changes under vnode.lock too */
		.status = status,
		.utime = (int64_t)(u->utime_ns / 10000000u),
		.stime = (int64_t)(u->stime_ns / 10000000u),
	};
}

static struct linux_siginfo end_info(const struct process *p) __must_hold(&p->vnode->lock)
{
	const uint32_t status = READ_ONCE(p->wait_status); /* final: p is a zombie */

	assert_spin_held(&p->vnode->lock);
	if (status & 0x7f)
		return child_info(p, p->exit_signal, (status & 0x80) ? CLD_DUMPED : CLD_KILLED,
				  (int)(status & 0x7f));
	return child_info(p, p->exit_signal, CLD_EXITED, (int)(status >> 8 & 0xff));
}

/* The end of zombie @p. True: no task will wait for it. */
static bool notify_end_locked(struct process *p)
{
	struct linux_siginfo info;
	bool unwanted = false;

	assert_spin_held(&p->vnode->lock);
	if (!p->parent)
		return true; /* pid 1 */
	info = end_info(p);
	if (p->exit_signal == SIGCHLD)
		unwanted = signal_post_child(p->parent, &info);
	else if (p->exit_signal > 0 && p->exit_signal < NR_SIGNALS)
		(void)signal_post(p->parent, &info);
	wake_parent_locked(p);
	return unwanted;
}

bool process_traced_by_locked(const struct process *p, const struct process *tracer)
{
	const struct task *first = p->pid_entry ? p->pid_entry->task : NULL;

	assert_spin_held(&p->vnode->lock);
	return first && first->trace.tracer == tracer;
}

void process_report_child(struct process *p, int code, int status)
{
	struct linux_siginfo info;

	spin_lock(&p->vnode->lock);
	/* A parent that traces its first task hears of stops as a tracer. */
	if (p->parent && !(code == CLD_STOPPED && process_traced_by_locked(p, p->parent))) {
		info = child_info(p, SIGCHLD, code, status);
		(void)signal_post_child(p->parent, &info);
		wake_parent_locked(p);
	}
	spin_unlock(&p->vnode->lock);
}

/* --- leaving the tree ------------------------------------------------------------------------ */

void process_reap_locked(struct process *p)
{
	struct vnode *v = p->vnode;
	struct pid *pid = p->pid_entry;

	assert_spin_held(&v->lock);
	ASSERT(p->state == PROCESS_ZOMBIE && list_empty(&p->children));
	WRITE_ONCE(p->state, PROCESS_REAPED);
	wake_all(&p->ended);
	v->nr_zombies--;
	v->nr_processes--;
	if (p->parent)
		list_del(&p->sibling);
	process_set_parent_locked(p, NULL);
	list_del(&p->all_link);
	process_set_group_locked(p, NULL);
	process_set_session_locked(p, NULL);
	pid->process = NULL;
	p->pid_entry = NULL;
	pid_release_locked(v, pid);
}

/*
 * The new parent of @p's children: the nearest ancestor in its PID namespace that wants them, or
 * number 1 of that. NULL: pid 1 of the vNode, also for what number 1 of a namespace leaves.
 */
static struct process *reaper_of_locked(const struct process *p)
{
	struct process *init = p->pid_ns ? p->pid_ns->init : NULL;

	assert_spin_held(&p->vnode->lock);
	for (struct process *r = p->parent; r && r->pid_ns == p->pid_ns; r = r->parent) {
		if (r->child_subreaper && r->state == PROCESS_ALIVE)
			return r;
	}
	return init != p ? init : NULL;
}

/*
 * Children of @p go to another parent; those that are to be freed go onto @gone through all_link.
 */
static void reparent_locked(struct process *p, struct list_head *gone)
{
	struct process *reaper = reaper_of_locked(p);
	struct process *c, *tmp;

	assert_spin_held(&p->vnode->lock);
	list_for_each_entry_safe(c, tmp, &p->children, sibling) {
		list_del(&c->sibling);
		process_set_parent_locked(c, reaper);
		c->parent_tid = reaper ? reaper->pid : INIT_PID;
		c->exit_signal = SIGCHLD;
		if (reaper)
			list_add_tail(&c->sibling, &reaper->children);
		if (c->state == PROCESS_ZOMBIE && !c->trace_end && notify_end_locked(c)) {
			process_reap_locked(c);
			list_add_tail(&c->all_link, gone);
			continue;
		}
		if (c->pdeath_signal)
			process_kill(c, c->pdeath_signal);
		group_check_orphaned_locked(c, p);
	}
}

static void put_all(struct list_head *gone)
{
	struct process *p, *tmp;

	list_for_each_entry_safe(p, tmp, gone, all_link) {
		list_del(&p->all_link);
		process_put(p);
	}
}

void process_tell_end_locked(struct process *p, struct list_head *gone)
{
	assert_spin_held(&p->vnode->lock);
	ASSERT(p->state == PROCESS_ZOMBIE && !p->trace_end);
	if (notify_end_locked(p)) {
		process_reap_locked(p);
		list_add_tail(&p->all_link, gone);
	}
}

static void leave_pid_ns_locked(struct process *p)
{
	assert_spin_held(&p->vnode->lock);
	if (p->pid_ns && p->pid_ns->init == p)
		p->pid_ns->init = NULL;
	for (struct pid_ns *ns = p->pid_ns; ns; ns = ns->parent) {
		ASSERT(ns->nr_alive > 0);
		ns->nr_alive--;
		wake_all(&ns->left);
	}
}

/* From a living process to a zombie, or to nothing. */
static void leave_tree(struct process *p)
{
	struct vnode *v = p->vnode;
	struct trace_gone traced;
	LIST_HEAD(gone);

	trace_gone_init(&traced);

	spin_lock(&v->lock);
	reparent_locked(p, &gone);
	group_check_orphaned_locked(p, NULL);
	ASSERT(p->state == PROCESS_ALIVE && READ_ONCE(p->exiting) && !READ_ONCE(p->nr_tasks));
	WRITE_ONCE(p->state, PROCESS_ZOMBIE);
	wake_all(&p->ended);
	v->nr_zombies++;
	leave_pid_ns_locked(p);
	if (!trace_holds_end_locked(p, &traced))
		process_tell_end_locked(p, &gone);
	spin_unlock(&v->lock);
	put_all(&gone);
	trace_put_all(&traced);
}

/*
 * --- programs ----------------------------------------------------------------------------------
 */

static bool is_alone(struct program *program)
{
	return READ_ONCE(program->nr_members) == 1;
}

static void kill_program(struct process *leader)
{
	struct program *program = leader->program;
	struct vnode *v = leader->vnode;
	struct process *p;

	/*
	 * A fork that is under way either is in the table or sees the signal before it gets there.
	 */
	spin_lock(&v->lock);
	list_for_each_entry(p, &v->processes, all_link) {
		if (p->program == program && p != leader && p->state == PROCESS_ALIVE)
			process_kill(p, SIGKILL);
	}
	spin_unlock(&v->lock);
	wait_event(&program->gone, is_alone(program));
}

static bool is_last(struct pid_ns *ns)
{
	return READ_ONCE(ns->nr_alive) == 1;
}

/* If @init is number 1 of a PID namespace, everything else in it ends before it does. */
static void kill_pid_ns(struct process *init)
{
	struct pid_ns *ns = init->pid_ns;
	struct vnode *v = init->vnode;
	struct process *p;

	spin_lock(&v->lock);
	if (!ns || ns->init != init) {
		spin_unlock(&v->lock);
		return;
	}
	ns->closed = true;
	list_for_each_entry(p, &v->processes, all_link) {
		if (p != init && p->state == PROCESS_ALIVE && pid_ns_within(p->pid_ns, ns))
			process_kill(p, SIGKILL);
	}
	spin_unlock(&v->lock);
	wait_event(&ns->left, is_last(ns));
}

static void program_leave(struct process *p)
{
	struct program *program = p->program;

	spin_lock(&p->vnode->lock);
	ASSERT(program->nr_members > 0);
	program->nr_members--;
	wake_all(&program->gone);
	spin_unlock(&p->vnode->lock);
}

/*
 * --- the end of a process ----------------------------------------------------------------------
 */

static void give_back_space(struct process *p)
{
	struct aspace *as;

	spin_lock(&p->vnode->lock);
	as = p->as;
	p->as = NULL;
	if (as)
		p->usage_dead.max_rss = MAX(p->usage_dead.max_rss, space_rss(as));
	spin_unlock(&p->vnode->lock);
	if (as)
		aspace_put(as);
}

/* The controlling terminal of its session is free again. */
static void end_session(const struct process *p)
{
	if (p->session_leader)
		tty_session_ended(p->pid);
}

static void report_end(struct program *program, uint32_t status)
{
	lock_not_needed(&root_vnode.lock, "no process of it is left, and so the line stays");
	if (program->lost[0])
		ctl_prog_lost(program->prog, program->lost);
	/* Programs of a lost node do not end, they are lost: the launcher says so. */
	else if (cluster_lease_holds())
		ctl_prog_exit(program->prog, status);
}

/* The last task is gone: free what the process had, then say how it ended. */
static void process_finish(struct process *p)
{
	const bool leader = p->pid == p->program->leader;
	const uint32_t status = READ_ONCE(p->wait_status); /* final: p->exiting is set */

	counter_inc(&exit_exits);
	signal_process_exit(p);
	give_back_space(p);
	end_session(p);
	if (leader)
		kill_program(p);
	else
		kill_pid_ns(p);
	leave_tree(p);
	program_leave(p);
	if (leader) {
		if (!aspace_drain()) /* the launcher must find the memory free */
			counter_inc(&exit_early);
		report_end(p->program, status);
	}
}

/* @p was never in the table, and its task is gone. */
void process_abandon(struct process *p)
{
	if (p->as)
		aspace_put(p->as);
	p->as = NULL;
	process_put(p);
}

void process_exit_group(struct process *p, uint32_t wait_status)
{
	struct task *t;

	spin_lock(&p->sig_lock);
	if (!p->exiting) {
		p->exiting = true;
		p->wait_status = wait_status;
	}
	list_for_each_entry(t, &p->tasks, link)
		thread_notify(t->thread, THREAD_F_KILL);
	spin_unlock(&p->sig_lock);
}

/*
 * --- the end of a task ---------------------------------------------------------------------------
 */

/* Off the process and out of the table; true for the last one. */
static bool leave_process(struct task *t, uint32_t wait_status)
{
	struct process *p = t->process;
	struct vnode *v = p->vnode;
	struct trace_gone gone;
	struct process *c;
	struct usage u;
	bool last;

	trace_gone_init(&gone);
	usage_of_task(t, &u);
	spin_lock(&v->lock);
	usage_add(&p->usage_dead, &u);
	list_for_each_entry(c, &p->children, sibling) {
		if (c->parent_tid == t->tid)
			c->parent_tid = p->pid;
	}
	spin_lock(&p->sig_lock);
	list_del(&t->link);
	assert_spin_held(&t->process->sig_lock); /* it is @p's */
	realtime_leave_locked(t);
	last = --p->nr_tasks == 0;
	signal_task_left_locked(t);
	seccomp_task_left_locked(t);
	ASSERT(last == list_empty(&p->tasks));
	/* How the last task ends is how the process ends, unless all are made to. */
	if (last && !p->exiting) {
		p->exiting = true;
		p->wait_status = wait_status;
	}
	spin_unlock(&p->sig_lock);
	trace_task_left_locked(t, wait_status, &gone);
	t->pid_entry->task = NULL;
	pid_release_locked(v, t->pid_entry);
	t->pid_entry = NULL;
	user_uncharge_locked(v, t->user);
	v->nr_tasks--;
	p->program->nr_tasks--;
	wake_all(&p->exec_event);
	spin_unlock(&v->lock);
	trace_put_all(&gone);
	return last;
}

/*
 * A task may be waiting for @t's end at the word (pthread_join), if another task can see the word.
 */
static void clear_child_tid(struct task *t)
{
	struct process *p = t->process;
	struct aspace *as = p->as;
	const bool seen = READ_ONCE(p->nr_tasks) > 1 || refcount_read(&as->refs) > 1;
	const uint64_t addr = t->clear_child_tid;

	t->clear_child_tid = 0;
	if (addr && seen && !put_user_u32(0, (void __user *)addr))
		(void)futex_wake_addr(as, addr, 1);
}

void task_release_mm(struct task *t, bool ends)
{
	futex_task_exit(t, ends);
	clear_child_tid(t);
	vfork_release(t);
}

void task_exit(uint32_t wait_status)
{
	struct task *t = task_current();
	struct process *p = t->process;
	struct fpu_state *fpu = thread_current()->user.fpu;
	bool last;

	task_release_mm(t, true);
	/* Off the page table before another CPU could take it for unused. */
	thread_clear_user();
	fpu_free(fpu);
	task_release_parts(t);
	last = leave_process(t, wait_status);
	signal_task_exit(t);
	thread_current()->private = NULL;
	if (last)
		process_finish(p);
	task_put(t);
	thread_exit();
}
