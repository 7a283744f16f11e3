/* SPDX-License-Identifier: MIT */
/*
 * Processes: their structures, and the start of a program for the launcher.
 *
 * Flow:	RUN -> process_run(): look the program up, load it, make process and task, start its
 *		kernel thread. Everything else that begins comes from fork.c, and ends in exit.c.
 * Failure:	a program that cannot be started is refused with its errno and one line.
 */
#define PR_FMT "process: "

#include "process.h"

#include <arch/fpu.h>
#include <ctl/ctl.h>
#include <fs/access.h>
#include <kernel/counter.h>
#include <kernel/printk.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <processor/account/account.h>
#include <processor/mm/aspace.h>
#include <processor/ns/user_ns.h>
#include <processor/tty/tty.h>
#include <processor/vfs/file.h>

#include "core.h"
#include "process_private.h"

#define NOFILE_SOFT    1024
#define NOFILE_HARD    1048576
#define STACK_SOFT     (8ull << 20)
#define MSGQUEUE_BYTES 819200 /* as Linux: some messages of the default size */

COUNTER(process_started, "process.started", "programs started");

/* --- structures ----------------------------------------------------------------------- */

static struct program *program_create(struct ctl_prog *prog)
{
	struct program *program = kzalloc(sizeof(*program));

	if (!program)
		return NULL;
	program->kmem = kmem_account_create();
	if (!program->kmem) {
		kfree(program);
		return NULL;
	}
	refcount_set(&program->refs, 1);
	program->prog = prog;
	waitqueue_init(&program->gone);
	return program;
}

static void program_put(struct program *program)
{
	if (!refcount_dec_and_test(&program->refs))
		return;
	kmem_account_put(program->kmem);
	kfree(program);
}

struct process *process_alloc(struct vnode *v, struct program *program)
{
	struct process *p = kmem_alloc(program->kmem, sizeof(*p));

	if (!p)
		return NULL;
	p->ppid = INIT_PID;
	refcount_set(&p->refs, 1);
	p->vnode = v;
	p->program = program;
	refcount_inc(&program->refs);
	p->start_ns = time_now_ns();
	list_init(&p->children);
	list_init(&p->tasks);
	list_init(&p->tracees);
	waitqueue_init(&p->ended);
	waitqueue_init(&p->child_event);
	waitqueue_init(&p->exec_event);
	waitqueue_init(&p->core_done);
	p->core_filter = CORE_FILTER_DEFAULT;
	mutex_init(&p->lock, "process", RANK_PROCESS);
	spin_lock_init(&p->sig_lock, "process.signal", RANK_SPIN_TASK);
	return p;
}

void process_put(struct process *p)
{
	if (!refcount_dec_and_test(&p->refs))
		return;
	lock_not_needed(&p->lock, "the last reference is gone");
	lock_not_needed(&p->sig_lock, "the last reference is gone");
	if (p->cred)
		cred_put(p->cred);
	user_ns_put(p->look_ns);
	if (p->sig.sighand)
		signal_process_free(p);
	program_put(p->program);
	pid_ns_put(p->pid_ns);
	kmem_free(p->exe_path);
	kmem_free(p);
}

#define TIMER_SLACK_NS 50000u /* of the first task of all, as on Linux */

/* Bytes that the thread of a task takes. */
static size_t thread_bytes(void)
{
	return THREAD_STACK_SIZE + sizeof(struct thread) + fpu_size();
}

struct task *task_alloc(struct process *p)
{
	struct task *t = kmem_alloc(process_kmem(p), sizeof(*t));

	if (!t)
		return NULL;
	if (kmem_charge(process_kmem(p), thread_bytes())) {
		kmem_free(t);
		return NULL;
	}
	refcount_set(&t->refs, 1);
	t->process = p;
	trace_task_init(t);
	inherit_init(t);
	t->slack_ns = t->slack_default_ns = TIMER_SLACK_NS;
	t->login_uid = t->login_session = LOGIN_UNSET;
	process_get(p);
	return t;
}

void task_put(struct task *t)
{
	if (!refcount_dec_and_test(&t->refs))
		return;
	seccomp_task_free(t);
	pid_ns_put(t->child_ns);
	kmem_uncharge(process_kmem(t->process), thread_bytes());
	process_put(t->process);
	kmem_free(t);
}

/* --- signals of the launcher ---------------------------------------------------------- */

/*
 * Those that came before the process was in the table wait in the program's private word, a set as
 * in SIGMASK(), under vnode.lock.
 */
static void take_early_signals_locked(struct process *p, struct ctl_prog *prog)
{
	const uint64_t set = (uint64_t)(uintptr_t)ctl_prog_private(prog);

	assert_spin_held(&p->vnode->lock);
	for (int signo = 1; signo < NR_SIGNALS; signo++) {
		if (set & SIGMASK(signo))
			process_kill(p, signo);
	}
}

void process_signal_prog(struct ctl_prog *prog, int signo)
{
	const struct linux_siginfo info = { .signo = signo, .code = SI_USER };
	struct vnode *v = &root_vnode;
	struct process *p, *found = NULL;

	if (signo < 1 || signo >= NR_SIGNALS)
		return;
	spin_lock(&v->lock);
	list_for_each_entry(p, &v->processes, all_link) {
		if (p->program->prog == prog && p->pid == p->program->leader)
			found = p;
	}
	if (found)
		(void)signal_post(found, &info);
	else
		ctl_prog_set_private(prog,
				     (void *)((uintptr_t)ctl_prog_private(prog) | SIGMASK(signo)));
	spin_unlock(&v->lock);
}

/* --- start of a program --------------------------------------------------------------- */

static void set_rlimits(struct process *p)
{
	lock_not_needed(&p->lock, "nothing else knows the process yet");
	for (size_t i = 0; i < RLIM_NLIMITS; i++)
		p->rlimits[i] = (struct linux_rlimit){ RLIM_INFINITY, RLIM_INFINITY };
	p->rlimits[RLIMIT_NOFILE] = (struct linux_rlimit){ NOFILE_SOFT, NOFILE_HARD };
	p->rlimits[RLIMIT_STACK].cur = STACK_SOFT;
	p->rlimits[RLIMIT_CORE].cur = 0;
	p->rlimits[RLIMIT_SIGPENDING] =
		(struct linux_rlimit){ signal_queue_limit(), signal_queue_limit() };
	p->rlimits[RLIMIT_NPROC] =
		(struct linux_rlimit){ fork_max_tasks() / 2, fork_max_tasks() / 2 };
	p->rlimits[RLIMIT_MSGQUEUE] = (struct linux_rlimit){ MSGQUEUE_BYTES, MSGQUEUE_BYTES };
	p->rlimits[RLIMIT_NICE] = (struct linux_rlimit){ 0, 0 };
	p->rlimits[RLIMIT_RTPRIO] = (struct linux_rlimit){ 0, 0 };
}

/* Everything that the task of a new program has of its own; the caller drops an incomplete one. */
static int task_fill(struct task *t, const struct ctl_run *run)
{
	struct process *p = t->process;
	struct fs_state *fs;
	struct files *files;

	if (signal_process_init(p))
		return -ENOMEM;
	signal_task_init(t, NULL, false);
	t->cred = cred_create(run->uid, run->gid);
	if (!t->cred)
		return -ENOMEM;
	files = files_create();
	if (IS_ERR(files))
		return PTR_ERR(files);
	t->files = files;
	fs = fs_state_create(run->umask);
	if (IS_ERR(fs))
		return PTR_ERR(fs); /* of the root file system, perhaps */
	t->fs = fs;
	t->ns = ns_set_first();
	if (!t->ns)
		return -ENOMEM;
	lock_not_needed(&p->sig_lock, "nothing else knows the process yet");
	p->cred = cred_get(t->cred);
	p->uid = t->cred->uid;
	return 0;
}

/* Free an unstarted task. */
static void task_drop(struct task *t)
{
	if (t->cred)
		cred_put(t->cred);
	if (t->fs)
		fs_state_put(t->fs);
	if (t->files)
		files_put(t->files);
	if (t->ns)
		ns_set_put(t->ns);
	task_put(t);
}

static int install(struct task *t, struct file *f, int at)
{
	int fd;

	if (IS_ERR(f))
		return PTR_ERR(f);
	fd = files_install(t->files, f, at, false);
	if (fd < 0)
		file_put(f);
	return MIN(fd, 0);
}

static int open_streams(struct task *t)
{
	static const uint32_t modes[3] = { O_RDONLY, O_WRONLY, O_WRONLY };
	int err = 0;

	for (unsigned int i = 0; i < 3 && !err; i++)
		err = install(t, stream_open(t->process->program->prog, i, modes[i]), (int)i);
	return err;
}

/* -t: one open file of a terminal is all three. */
static int open_terminal(struct task *t, const struct ctl_run *run)
{
	struct tty *tty = tty_console_create(t->process->program->prog, run);
	struct file *f;
	int err;

	if (IS_ERR(tty))
		return PTR_ERR(tty);
	f = tty_open(tty, O_RDWR);
	tty_put(tty);
	err = install(t, f, 0);
	for (int fd = 1; fd < 3 && !err; fd++) {
		file_get(f);
		err = install(t, f, fd);
	}
	return err;
}

static int copy_strings(struct exec_strings *to, const char *s, size_t n)
{
	int err = 0;

	while (!err && n-- > 0) {
		err = exec_strings_add(to, s);
		s = ctl_string_next(s);
	}
	return err;
}

/* Find and load the program that the launcher asks for: everything but the thread. */
static int load_image(struct exec_image *img, struct task *t, const struct ctl_run *run)
{
	struct process *p = t->process;
	struct fs_cred cred;
	int err;

	lock_not_needed(&p->lock, "nothing else knows the process yet");
	img->cred = cred_get(t->cred);
	img->kmem = p->program->kmem;
	img->stack_limit = p->rlimits[RLIMIT_STACK].cur;
	img->path = kstrdup(run->path);
	err = img->path ? copy_strings(&img->argv, run->argv, run->argc) : -ENOMEM;
	if (!err)
		err = copy_strings(&img->envp, run->envp, run->envc);
	cred_to_fs(t->cred, &cred);
	if (!err)
		err = fs_state_chdir(t->fs, &cred, run->cwd);
	if (!err)
		err = run->flags & CTL_RUN_TTY ? open_terminal(t, run) : open_streams(t);
	return err ? err : exec_image_load(img, t->fs);
}

static int load(struct task *t, const struct ctl_run *run, struct pt_regs *regs)
{
	struct exec_image *img = kzalloc(sizeof(*img));
	struct process *p = t->process;
	int err = img ? load_image(img, t, run) : -ENOMEM;

	if (!err) {
		task_set_comm(t, img->execfn);
		lock_not_needed(&p->lock, "nothing else knows the process yet");
		p->exe_path = img->exe_path;
		p->as = img->as;
		*regs = img->regs;
		img->exe_path = NULL;
		img->as = NULL;
	}
	if (img)
		exec_image_free(img);
	kfree(img);
	return err;
}

/* Into the table: from here on the process can be found and signalled. */
static int publish(struct task *t, struct ctl_prog *prog)
{
	struct process *p = t->process;
	struct vnode *v = p->vnode;
	struct pid *pid = pid_alloc(v, NULL, NULL, 0);
	int err;

	if (IS_ERR(pid))
		return PTR_ERR(pid);
	spin_lock(&v->lock);
	err = user_charge_locked(v, t->cred->uid);
	if (err) {
		pid_release_locked(v, pid);
		spin_unlock(&v->lock);
		return err;
	}
	t->user = t->cred->uid;
	p->pid = t->tid = pid->nr;
	p->program->leader = pid->nr;
	p->program->nr_members = 1;
	p->pid_entry = t->pid_entry = pid;
	pid->process = p;
	pid->task = t;
	p->session_leader = true;
	p->execed = true;
	process_set_group_locked(p, pid);
	process_set_session_locked(p, pid);
	list_add_tail(&p->all_link, &v->processes);
	v->nr_processes++;
	v->nr_tasks++;
	p->program->nr_tasks++;
	process_get(p); /* the table's */
	spin_lock(&p->sig_lock);
	list_add_tail(&t->link, &p->tasks);
	p->nr_tasks = 1;
	signal_task_added_locked(t);
	spin_unlock(&p->sig_lock);
	take_early_signals_locked(p, prog);
	spin_unlock(&v->lock);
	return 0;
}

static int start_program(struct task *t, struct ctl_prog *prog, const struct ctl_run *run)
{
	struct process *p = t->process;
	struct task_start *start = NULL;
	struct fpu_state *fpu = NULL;
	struct pt_regs regs;
	int err = task_fill(t, run);

	if (!err)
		err = load(t, run, &regs);
	if (!err) {
		fpu = fpu_alloc();
		start = fpu ? task_prepare(t, &regs, fpu) : NULL;
		err = start ? publish(t, prog) : -ENOMEM;
	}
	if (err) {
		if (start)
			task_discard(start);
		else
			fpu_free(fpu);
		if (p->as)
			aspace_put(p->as);
		p->as = NULL;
		return err;
	}
	if (run->flags & CTL_RUN_TTY)
		tty_begin_session(prog, p);
	if (READ_ONCE(p->as->failed))
		process_kill_failed(); /* a page was lost before there was a task to kill */
	counter_inc(&process_started);
	task_start(start, true);
	return 0;
}

void process_run(struct ctl_prog *prog, const struct ctl_run *run)
{
	struct program *program = program_create(prog);
	struct process *p = program ? process_alloc(&root_vnode, program) : NULL;
	struct task *t = NULL;
	const char *why;
	int err = -ENOMEM;

	if (p) {
		set_rlimits(p);
		t = task_alloc(p);
	}
	if (t)
		err = start_program(t, prog, run);
	if (err) {
		pr_info("%s: cannot be started: error %d\n", run->path, err);
		if (t)
			task_drop(t);
		why = mounts_why();
		if (why)
			ctl_prog_lost(prog, why);
		else
			ctl_prog_refuse(prog, err, run->path);
	}
	/* A started task has references of its own by now. */
	if (p)
		process_put(p);
	if (program)
		program_put(program);
}

/* --- state of the calling process ------------------------------------------------------ */

void process_kill(struct process *p, int signo)
{
	const struct linux_siginfo info = { .signo = signo, .code = SI_KERNEL };

	(void)signal_post(p, &info);
}

uint64_t process_rlimit(unsigned int kind)
{
	/* One word, and asked for with locks of files held: no lock. */
	return READ_ONCE(process_current()->rlimits[kind].cur);
}
