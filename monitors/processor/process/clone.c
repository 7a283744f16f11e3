/* SPDX-License-Identifier: MIT */
/*
 * New tasks: clone, clone3, fork, vfork, and the first steps of a task.
 *
 * Flow:	check the flags as Linux does, make or share each part, make the kernel thread, and
 *		only then take a place in the tree, with the tree locked: from there on nothing
 *		fails. A signal that is pending by then is served first (-ERESTARTNOINTR), so that
 *		one sent to a group reaches either the parent before it forks, or parent and child.
 * Limits:	RLIMIT_NPROC for a user; for everybody, a number of tasks that the kernel's memory
 *		can hold: both answer EAGAIN. A program that has had its share of that memory gets
 *		ENOMEM. No namespaces of users, networks and time, no cgroups: EINVAL.
 */
#define PR_FMT "process: "

#include "process_private.h"

#include <abi/ptrace.h>
#include <abi/sched.h>
#include <arch/cpu.h>
#include <arch/fpu.h>
#include <arch/trap.h>
#include <arch/uaccess.h>
#include <ctl/ctl.h>
#include <kernel/counter.h>
#include <kernel/printk.h>
#include <lib/err.h>
#include <lib/string.h>
#include <mm/frame.h>
#include <mm/slab.h>
#include <processor/account/account.h>
#include <processor/ipc/sysv.h>
#include <processor/mm/aspace.h>
#include <processor/ns/ns.h>
#include <processor/ns/user_ns.h>
#include <processor/syscall/syscall.h>
#include <processor/vfs/file.h>

COUNTER(fork_forks, "process.forks", "processes made by fork and its kin");
COUNTER(fork_vforks, "process.vforks", "of these, in the parent's address space");
COUNTER(fork_threads, "process.threads", "threads made");
COUNTER(fork_refused, "process.fork_refused", "forks and threads refused by a limit");

#define CLONE3_ALL (0xffffffffull | CLONE_CLEAR_SIGHAND | CLONE_INTO_CGROUP)

struct clone_spec {
	uint64_t flags; /* without the signal */
	int exit_signal;
	uint64_t stack; /* 0: the parent's */
	uint64_t parent_tid, child_tid, tls;
	uint64_t pidfd;      /* CLONE_PIDFD: where its number goes */
	uint32_t nr_set_tid; /* numbers to have, from the innermost namespace outwards */
	uint32_t set_tid[PID_NS_LEVELS];
};

/* The event that a tracer of the maker may want to hear of; 0: none. */
static unsigned int trace_event_of(const struct clone_spec *spec)
{
	unsigned int event = PTRACE_EVENT_FORK;

	if (spec->flags & CLONE_VFORK)
		event = PTRACE_EVENT_VFORK;
	else if ((spec->flags & CLONE_THREAD) || spec->exit_signal != SIGCHLD)
		event = PTRACE_EVENT_CLONE;
	if ((spec->flags & CLONE_UNTRACED) || !trace_wants(task_current(), event))
		return 0;
	return event;
}

/* --- limits ---------------------------------------------------------------------------- */

/*
 * A process takes about this much of the kernel's memory: stack, page tables, structures. Whatever
 * it is in truth, the accounts of programs are what keeps the monitor alive.
 */
#define BYTES_PER_TASK (64u << 10)
#define MIN_TASKS      64u

static uint64_t max_tasks;

void process_init(void)
{
	const uint64_t free_bytes = frames_free_count() << PAGE_SHIFT;

	max_tasks = MAX(MIN(free_bytes / BYTES_PER_TASK, (uint64_t)PID_MAX / 2), MIN_TASKS);
	pr_info("up to %llu tasks: %u KiB of the node's free memory for each\n",
		(unsigned long long)max_tasks, BYTES_PER_TASK >> 10);
}

uint64_t fork_max_tasks(void)
{
	return max_tasks;
}

/* -EAGAIN when the calling task's user, its program or the vNode has its fill. */
static int check_limits_locked(struct vnode *v, const struct program *program, const struct cred *c,
			       uint64_t nproc)
{
	const uint64_t free_of_it = CAP_BIT(CAP_SYS_RESOURCE) | CAP_BIT(CAP_SYS_ADMIN);

	assert_spin_held(&v->lock);
	if (!kmem_fair(program->nr_tasks, v->nr_tasks, max_tasks))
		return -EAGAIN;
	if (c->uid != 0 && !(!c->user_ns && (c->effective & free_of_it)) &&
	    user_tasks_locked(v, c->uid) >= nproc)
		return -EAGAIN;
	return 0;
}

/* --- the first steps of a task ------------------------------------------------------------ */

struct task_start {
	struct task *task;
	struct fpu_state *fpu;
	uint64_t fs_base, gs_base;
	bool no_tsc;
	bool announce; /* tell the launcher */
	struct pt_regs regs;
};

static void task_main(void *arg)
{
	struct task_start *start = arg;
	const struct task_start s = *start;
	struct task *t = s.task;

	kfree(start);
	thread_set_user(READ_ONCE(t->process->as->pt), s.fpu); /* stays as long as the space */
	thread_set_fs_base(s.fs_base);
	thread_set_gs_base(s.gs_base);
	thread_set_tsc(!s.no_tsc);
	if (s.announce)
		ctl_prog_started(t->process->program->prog, t->process->pid);
	/* Linux does not tell either when this fails. */
	if (t->set_child_tid && put_user_u32(task_vtid(t), (void __user *)t->set_child_tid))
		t->set_child_tid = 0;
	user_enter(&s.regs);
}

struct task_start *task_prepare(struct task *t, const struct pt_regs *regs, struct fpu_state *fpu)
{
	struct task_start *start = kmalloc(sizeof(*start));

	if (!start)
		return NULL;
	*start = (struct task_start){ .task = t, .fpu = fpu, .regs = *regs };
	t->thread = thread_create_stopped(t->comm, task_main, start, THREAD_PRIO_USER);
	if (IS_ERR(t->thread)) {
		t->thread = NULL;
		kfree(start);
		return NULL;
	}
	t->thread->private = t;
	if (thread_current()->user.pgtable) /* not the launcher's */
		sched_inherit(t);
	return start;
}

void task_discard(struct task_start *start)
{
	struct thread *thread = start->task->thread;

	start->task->thread = NULL;
	fpu_free(start->fpu);
	kfree(start);
	thread_discard(thread);
}

void task_start(struct task_start *start, bool announce)
{
	struct thread *thread = start->task->thread;

	start->announce = announce;
	thread_detach(thread);
	thread_start(thread);
}

/* --- parts --------------------------------------------------------------------------------- */

/* With the credentials that @t has. */
static int share_task_parts(struct task *t, struct task *from, uint64_t flags)
{
	struct user_ns *owner = t->cred->user_ns;
	struct files *files = from->files;
	struct fs_state *fs = from->fs;
	struct ns_set *ns;

	t->login_uid = from->login_uid;
	t->login_session = from->login_session;
	memcpy(t->comm, from->comm, sizeof(t->comm));
	if (flags & CLONE_FS)
		fs_state_join(fs);
	else
		fs = (flags & CLONE_NEWNS) ? fs_state_copy_mounts(fs, owner) : fs_state_copy(fs);
	if (IS_ERR(fs))
		return PTR_ERR(fs);
	t->fs = fs;
	ns = ns_set_make(from->ns, flags, owner);
	if (IS_ERR(ns))
		return PTR_ERR(ns);
	t->ns = ns;
	if (flags & CLONE_FILES)
		files_get_table(files);
	else
		files = files_copy(files);
	if (IS_ERR(files))
		return PTR_ERR(files);
	t->files = files;
	return (flags & CLONE_SYSVSEM) ? sem_undos_share(t, from) : 0;
}

static int share_space(struct process *p, struct process *from, uint64_t flags)
{
	if (flags & CLONE_VM) {
		aspace_get(from->as);
		p->as = from->as;
		return 0;
	}
	return aspace_fork(from->as, &p->as);
}

/* The PID namespace of the caller's children, counted; a new one is owned by @owner. */
static struct pid_ns *child_pid_ns(uint64_t flags, struct user_ns *owner)
{
	struct pid_ns *ns = task_current()->child_ns;

	if (!ns)
		ns = process_current()->pid_ns;
	return flags & CLONE_NEWPID ? pid_ns_create(ns, owner, kmem_current()) : pid_ns_get(ns);
}

/* The process of a child: limits, names, handlers, memory. ERR_PTR. */
static struct process *copy_process(struct process *from, uint64_t flags, const struct cred *cred)
{
	struct pid_ns *ns = child_pid_ns(flags, cred->user_ns);
	struct process *p;
	int err = -ENOMEM;

	if (IS_ERR(ns))
		return ERR_PTR(PTR_ERR(ns));
	p = process_alloc(from->vnode, from->program);
	if (!p) {
		pid_ns_put(ns);
		return ERR_PTR(-ENOMEM);
	}
	p->pid_ns = ns;
	lock_not_needed(&p->lock, "nothing else knows the process yet");
	mutex_lock(&from->lock);
	memcpy(p->rlimits, from->rlimits, sizeof(p->rlimits));
	memcpy(p->comm, from->comm, sizeof(p->comm));
	p->oom_adj = READ_ONCE(from->oom_adj);
	p->oom_adj_min = READ_ONCE(from->oom_adj_min);
	p->personality = READ_ONCE(from->personality);
	p->core_filter = READ_ONCE(from->core_filter);
	p->barriers = READ_ONCE(from->barriers);
	p->undumpable = READ_ONCE(from->undumpable);
	lock_not_needed(&p->sig_lock, "nothing else knows the process yet");
	lock_not_needed(&from->sig_lock, "only exec changes it, which ends the other tasks");
	p->look_ns = user_ns_get(from->look_ns);
	p->thp_disabled = READ_ONCE(from->thp_disabled);
	p->exe_path = kmem_strdup(process_kmem(p), from->exe_path);
	mutex_unlock(&from->lock);
	if (p->exe_path)
		err = signal_process_fork(p, from, flags & CLONE_SIGHAND);
	if (!err && (flags & CLONE_CLEAR_SIGHAND))
		signal_reset_handlers(p);
	if (!err)
		err = share_space(p, from, flags);
	if (!err)
		return p;
	process_put(p);
	return ERR_PTR(err);
}

void task_release_parts(struct task *t)
{
	struct process *p = t->process;
	const struct cred *cred = t->cred;
	struct files *files = t->files;
	struct fs_state *fs = t->fs;
	struct ns_set *ns = t->ns;

	sem_undos_put(t);
	spin_lock(&p->sig_lock);
	t->files = NULL;
	t->fs = NULL;
	t->ns = NULL;
	spin_unlock(&p->sig_lock);
	if (files)
		files_put(files);
	if (fs)
		fs_state_leave(fs);
	if (ns)
		ns_set_put(ns);
	if (cred)
		cred_put(cred);
	t->cred = NULL;
}

/* --- into the tree --------------------------------------------------------------------------- */

static void enter_pid_ns_locked(struct process *p)
{
	assert_spin_held(&p->vnode->lock);
	for (struct pid_ns *ns = p->pid_ns; ns; ns = ns->parent)
		ns->nr_alive++;
	if (!p->pid_ns || pid_own_nr(p->pid_entry) != INIT_PID)
		return;
	p->pid_ns->init = p;
	lock_not_needed(&p->sig_lock, "no list has the process yet");
	p->sig.unkillable = true;
}

static void link_process_locked(struct process *p, struct task *t, struct task *from,
				uint64_t flags)
{
	struct process *maker = from->process;
	struct process *parent = (flags & CLONE_PARENT) ? maker->parent : maker;
	struct vnode *v = p->vnode;

	assert_spin_held(&v->lock);
	p->pid = t->tid;
	p->pid_entry = t->pid_entry;
	p->pid_entry->process = p;
	process_set_parent_locked(p, parent);
	p->parent_tid = (flags & CLONE_PARENT) ? maker->parent_tid : from->tid;
	if (parent)
		list_add_tail(&p->sibling, &parent->children);
	process_set_group_locked(p, maker->group);
	process_set_session_locked(p, maker->session);
	lock_not_needed(&p->sig_lock, "no list has the process yet");
	p->cred = cred_get(t->cred);
	p->uid = t->cred->uid;
	p->nice = t->nice;
	list_add_tail(&p->all_link, &v->processes);
	v->nr_processes++;
	p->program->nr_members++;
	enter_pid_ns_locked(p);
	process_get(p); /* the table's */
}

/*
 * With the tree locked: 0, and @t is everywhere that it belongs, or an errno and nothing has
 * changed.
 */
static int publish_locked(struct task *t, struct task *from, struct pid *pid, uint64_t nproc,
			  const struct clone_spec *spec)
{
	struct process *p = t->process;
	struct vnode *v = p->vnode;
	int err;

	assert_spin_held(&v->lock);
	if (signal_pending())
		return -ERESTARTNOINTR;
	err = check_limits_locked(v, p->program, t->cred, nproc);
	if (!err && pid_is_closed_locked(pid))
		err = -ENOMEM;
	if (!err)
		err = user_charge_locked(v, t->cred->uid);
	if (err)
		return err;
	t->user = t->cred->uid;
	t->tid = pid->nr;
	t->pid_entry = pid;
	pid->task = t;
	v->nr_tasks++;
	p->program->nr_tasks++;
	if (!(spec->flags & CLONE_THREAD)) {
		p->exit_signal = (spec->flags & CLONE_PARENT) ? from->process->exit_signal
							      : spec->exit_signal;
		link_process_locked(p, t, from, spec->flags);
	}
	spin_lock(&p->sig_lock);
	list_add_tail(&t->link, &p->tasks);
	p->nr_tasks++;
	signal_task_added_locked(t);
	seccomp_inherit_locked(t, from);
	spin_unlock(&p->sig_lock);
	if (unlikely(from->trace.tracer) && ((spec->flags & CLONE_PTRACE) || trace_event_of(spec)))
		trace_inherit_locked(t, from);
	return 0;
}

static int publish(struct task *t, struct task *from, const struct clone_spec *spec)
{
	struct vnode *v = t->process->vnode;
	const uint64_t nproc = process_rlimit(RLIMIT_NPROC);
	struct pid *pid = pid_alloc(v, t->process->pid_ns, spec->set_tid, spec->nr_set_tid);
	int err;

	if (IS_ERR(pid))
		return PTR_ERR(pid);
	spin_lock(&v->lock);
	err = publish_locked(t, from, pid, nproc, spec);
	if (err)
		pid_release_locked(v, pid);
	spin_unlock(&v->lock);
	return err;
}

static int publish_with_pidfd(struct task *t, const struct clone_spec *spec)
{
	struct pidfd_slot slot;
	int err;

	if (!(spec->flags & CLONE_PIDFD))
		return publish(t, task_current(), spec);
	err = pidfd_reserve(&slot, t->process, spec->pidfd);
	if (err)
		return err;
	err = publish(t, task_current(), spec);
	if (err)
		pidfd_cancel(&slot);
	else
		pidfd_fill(&slot);
	return err;
}

/* --- vfork ----------------------------------------------------------------------------------- */

void vfork_release(struct task *t)
{
	struct vnode *v = t->process->vnode;

	spin_lock(&v->lock);
	if (t->vfork_done)
		complete_all(t->vfork_done);
	t->vfork_done = NULL;
	spin_unlock(&v->lock);
}

/* Until @child has given the address space up, or the caller is killed. */
static void vfork_wait(struct task *child, struct completion *done)
{
	struct vnode *v = child->process->vnode;

	if (!completion_wait_killable(done))
		return;
	spin_lock(&v->lock);
	child->vfork_done = NULL; /* @done is on our stack */
	spin_unlock(&v->lock);
}

/* --- clone ----------------------------------------------------------------------------------- */

static bool is_ns_init(const struct process *p)
{
	return p->pid_ns && process_vpid(p) == INIT_PID;
}

/* Linux's order of checks does not matter: all of them answer EINVAL. */
static int check_flags(const struct clone_spec *spec)
{
	const uint64_t f = spec->flags;
	struct task *t = task_current();

	if (f & CLONE_INTO_CGROUP)
		return -EINVAL; /* none of these here */
	/* A thread belongs to the namespaces of its process. */
	if ((f & CLONE_THREAD) && ((f & (CLONE_NEWPID | CLONE_NEWUSER)) || t->child_ns))
		return -EINVAL;
	/* Number 1 of a namespace has no siblings there: they would outlive it. */
	if ((f & CLONE_PARENT) && is_ns_init(t->process))
		return -EINVAL;
	if ((f & (CLONE_NEWNS | CLONE_NEWUSER)) && (f & CLONE_FS))
		return -EINVAL;
	/* Changes of semaphores are taken back in one namespace. */
	if ((f & CLONE_NEWIPC) && (f & CLONE_SYSVSEM))
		return -EINVAL;
	if ((f & CLONE_PIDFD) && (f & (CLONE_THREAD | CLONE_DETACHED)))
		return -EINVAL;
	if ((f & CLONE_THREAD) && !(f & CLONE_SIGHAND))
		return -EINVAL;
	if ((f & CLONE_SIGHAND) && !(f & CLONE_VM))
		return -EINVAL;
	if ((f & CLONE_SIGHAND) && (f & CLONE_CLEAR_SIGHAND))
		return -EINVAL;
	return 0;
}

static struct task_start *prepare_thread(struct task *t, const struct clone_spec *spec,
					 const struct pt_regs *regs)
{
	struct fpu_state *fpu = fpu_alloc();
	struct pt_regs r = *regs;
	struct task_start *start;

	if (!fpu)
		return NULL;
	fpu_copy(fpu, thread_current()->user.fpu);
	r.rax = 0;
	r.orig_rax = UINT64_MAX; /* nothing to restart */
	if (task_current()->trace.step_set)
		r.rflags &= ~(uint64_t)RFLAGS_TF; /* the maker's tracer steps the maker */
	if (spec->stack)
		r.rsp = spec->stack;
	start = task_prepare(t, &r, fpu);
	if (!start) {
		fpu_free(fpu);
		return NULL;
	}
	start->no_tsc = !thread_tsc_allowed();
	start->fs_base = (spec->flags & CLONE_SETTLS) ? spec->tls : thread_fs_base();
	start->gs_base = thread_gs_base();
	return start;
}

/* Those of a child, referenced. ERR_PTR. */
static const struct cred *child_cred(uint64_t flags)
{
	return flags & CLONE_NEWUSER ? cred_in_new_user_ns() : cred_get(cred_current());
}

/* Everything but the place in the tree. ERR_PTR. */
static struct task_start *build(const struct clone_spec *spec, const struct pt_regs *regs)
{
	struct task *me = task_current();
	const bool thread = spec->flags & CLONE_THREAD;
	const struct cred *cred = child_cred(spec->flags);
	struct task_start *start = NULL;
	struct process *p;
	struct task *t;
	int err = -ENOMEM;

	if (IS_ERR(cred))
		return ERR_PTR(PTR_ERR(cred));
	p = thread ? me->process : copy_process(me->process, spec->flags, cred);
	if (IS_ERR(p)) {
		cred_put(cred);
		return ERR_PTR(PTR_ERR(p));
	}
	t = task_alloc(p);
	if (!t)
		cred_put(cred);
	if (t) {
		t->cred = cred;
		signal_task_init(t, me, !(spec->flags & CLONE_VM) || (spec->flags & CLONE_VFORK));
		err = share_task_parts(t, me, spec->flags);
		if (!err) {
			start = prepare_thread(t, spec, regs);
			err = start ? 0 : -ENOMEM;
		}
		if (err) {
			task_release_parts(t);
			task_put(t);
		}
	}
	if (err && !thread)
		process_abandon(p);
	else if (!thread)
		process_put(p); /* the task has a reference of its own */
	return err ? ERR_PTR(err) : start;
}

static void unbuild(struct task_start *start)
{
	struct task *t = start->task;
	struct process *p = t->process;
	const bool thread = p == process_current();

	task_discard(start);
	task_release_parts(t);
	if (!thread) {
		process_get(p);
		process_abandon(p);
	}
	task_put(t);
}

static void count(uint64_t flags)
{
	if (flags & CLONE_THREAD)
		counter_inc(&fork_threads);
	else
		counter_inc(&fork_forks);
	if ((flags & (CLONE_THREAD | CLONE_VM)) == CLONE_VM)
		counter_inc(&fork_vforks);
}

static long do_clone(const struct clone_spec *spec, const struct pt_regs *regs)
{
	struct completion done = COMPLETION_INIT(done);
	struct task_start *start;
	unsigned int event;
	struct task *t;
	uint32_t tid, vtid;
	int err = check_flags(spec);

	if (err)
		return err;
	err = clone_check_namespaces(spec->flags);
	if (err)
		return err;
	if ((spec->flags & CLONE_SETTLS) && !user_range_ok(spec->tls, 1))
		return -EPERM;
	/* Its reservation of CPU time is its own: it cannot be handed on. */
	if (READ_ONCE(task_current()->policy) == SCHED_DEADLINE)
		return -EAGAIN;
	if (signal_pending())
		return -ERESTARTNOINTR;
	start = build(spec, regs);
	if (IS_ERR(start))
		return PTR_ERR(start);
	t = start->task;
	rseq_clone(t, spec->flags);
	t->clear_child_tid = (spec->flags & CLONE_CHILD_CLEARTID) ? spec->child_tid : 0;
	t->set_child_tid = (spec->flags & CLONE_CHILD_SETTID) ? spec->child_tid : 0;
	t->vfork_done = (spec->flags & CLONE_VFORK) ? &done : NULL;
	err = publish_with_pidfd(t, spec);
	if (err) {
		if (err == -EAGAIN)
			counter_inc(&fork_refused);
		unbuild(start);
		return err;
	}
	tid = t->tid;
	vtid = pid_nr_in(t->pid_entry, pid_ns_current()); /* not started yet: it keeps its number */
	count(spec->flags);
	/* As Linux: a word that cannot be written does not fail the call. */
	if ((spec->flags & CLONE_PARENT_SETTID) &&
	    put_user_u32(vtid, (void __user *)spec->parent_tid))
		err = 0;
	task_get(t);
	event = trace_event_of(spec);
	task_start(start, false);
	if (unlikely(event))
		trace_event_task(task_current(), event, tid);
	if (spec->flags & CLONE_VFORK) {
		vfork_wait(t, &done);
		trace_event_task(task_current(), PTRACE_EVENT_VFORK_DONE, tid);
	}
	task_put(t);
	return vtid;
}

/* clone(flags, stack, parent_tid, child_tid, tls) */
long sys_clone(const struct syscall_args *args)
{
	const struct clone_spec spec = {
		/* As Linux, what is above 32 bits is not looked at. */
		.flags = (uint32_t)args->a[0] & ~CSIGNAL,
		.exit_signal = (int)(args->a[0] & CSIGNAL),
		.stack = args->a[1],
		.parent_tid = args->a[2],
		.child_tid = args->a[3],
		.tls = args->a[4],
		.pidfd = args->a[2],
	};

	/* The two would be written to the same place. */
	if ((spec.flags & CLONE_PIDFD) && (spec.flags & CLONE_PARENT_SETTID))
		return -EINVAL;
	return do_clone(&spec, syscall_regs(args));
}

/* fork() */
long sys_fork(const struct syscall_args *args)
{
	const struct clone_spec spec = { .exit_signal = SIGCHLD };

	return do_clone(&spec, syscall_regs(args));
}

/* vfork() */
long sys_vfork(const struct syscall_args *args)
{
	const struct clone_spec spec = { .flags = CLONE_VM | CLONE_VFORK, .exit_signal = SIGCHLD };

	return do_clone(&spec, syscall_regs(args));
}

/* --- clone3 ---------------------------------------------------------------------------------- */

#define CLONE_ARGS_SIZE_MAX 4096u

/* Copy what the caller knows of the structure; what we do not know of it must be zero. */
static int get_clone_args(struct linux_clone_args *a, uint64_t uargs, uint64_t size)
{
	uint8_t rest[64];

	if (size < CLONE_ARGS_SIZE_VER0)
		return -EINVAL;
	if (size > CLONE_ARGS_SIZE_MAX)
		return -E2BIG;
	memset(a, 0, sizeof(*a));
	if (copy_from_user(a, (const void __user *)uargs, MIN(size, (uint64_t)sizeof(*a))))
		return -EFAULT;
	for (uint64_t at = sizeof(*a); at < size; at += sizeof(rest)) {
		const size_t n = (size_t)MIN(size - at, (uint64_t)sizeof(rest));

		if (copy_from_user(rest, (const void __user *)(uargs + at), n))
			return -EFAULT;
		for (size_t i = 0; i < n; i++) {
			if (rest[i])
				return -E2BIG;
		}
	}
	return 0;
}

/* The namespace of the caller's children. */
static const struct pid_ns *child_or_own(void)
{
	const struct pid_ns *ns = task_current()->child_ns;

	return ns ? ns : process_current()->pid_ns;
}

static int get_set_tid(const struct linux_clone_args *a, struct clone_spec *spec)
{
	const struct pid_ns *ns = child_or_own();
	uint32_t levels;

	if (a->set_tid_size > PID_NS_LEVELS || !a->set_tid != !a->set_tid_size)
		return -EINVAL;
	if (!a->set_tid_size)
		return 0;
	if (copy_from_user(spec->set_tid, (const void __user *)a->set_tid,
			   a->set_tid_size * sizeof(spec->set_tid[0])))
		return -EFAULT;
	levels = pid_ns_level(ns) + (spec->flags & CLONE_NEWPID ? 2 : 1);
	if (a->set_tid_size > levels)
		return -EINVAL;
	spec->nr_set_tid = (uint32_t)a->set_tid_size;
	for (uint32_t i = 0; i < spec->nr_set_tid; i++) {
		if (!spec->set_tid[i] || spec->set_tid[i] >= PID_MAX)
			return -EINVAL;
	}
	/* At each level: a new namespace is the caller's own; above the vNode's there is none. */
	for (uint32_t i = spec->flags & CLONE_NEWPID ? 1 : 0; i < spec->nr_set_tid; i++) {
		if (!ns_capable(pid_ns_owner(ns), CAP_SYS_ADMIN))
			return -EPERM;
		ns = ns ? ns->parent : NULL;
	}
	return ns_capable(pid_ns_owner(child_or_own()), CAP_SYS_ADMIN) ? 0 : -EPERM;
}

static int check_clone_args(const struct linux_clone_args *a)
{
	if (a->exit_signal & ~CSIGNAL || a->exit_signal >= NR_SIGNALS)
		return -EINVAL;
	if ((a->flags & ~CLONE3_ALL) || (a->flags & (CLONE_DETACHED | (CSIGNAL & ~CLONE_NEWTIME))))
		return -EINVAL;
	if ((a->flags & (CLONE_THREAD | CLONE_PARENT)) && a->exit_signal)
		return -EINVAL;
	if (!a->stack != !a->stack_size)
		return -EINVAL;
	if (a->stack && !user_range_ok(a->stack, a->stack_size))
		return -EINVAL;
	return 0;
}

/* clone3(args, size) */
long sys_clone3(const struct syscall_args *args)
{
	struct linux_clone_args a;
	struct clone_spec spec;
	int err = get_clone_args(&a, args->a[0], args->a[1]);

	if (!err)
		err = check_clone_args(&a);
	if (err)
		return err;
	spec = (struct clone_spec){
		.flags = a.flags,
		.exit_signal = (int)a.exit_signal,
		.stack = a.stack ? a.stack + a.stack_size : 0,
		.parent_tid = a.parent_tid,
		.child_tid = a.child_tid,
		.tls = a.tls,
		.pidfd = a.pidfd,
	};
	err = get_set_tid(&a, &spec);
	return err ? err : do_clone(&spec, syscall_regs(args));
}
