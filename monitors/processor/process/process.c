/* SPDX-License-Identifier: MIT */
/*
 * Processes: the table, start of a program for the launcher, end of tasks and processes.
 *
 * Flow:	RUN -> process_run(): look the program up, make process and task, start its kernel thread ->
 *		task_main(): exec_load(), user_enter() -> ... -> task_exit(): the last task gives back
 *		files and memory, then reports the wait status, then the process goes.
 * Locking:	table_lock, process.lock, process.sig_lock, in that order.
 * Failure:	a program that cannot be started is refused with its errno and one line.
 */
#define PR_FMT "process: "

#include <processor/process.h>

#include <arch/fpu.h>
#include <arch/uaccess.h>
#include <ctl/ctl.h>
#include <kernel/counter.h>
#include <kernel/panic.h>
#include <kernel/printk.h>
#include <kernel/random.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/ida.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <net/node.h>
#include <processor/aspace.h>
#include <processor/file.h>
#include <processor/futex.h>
#include <processor/remote.h>

#define NOFILE_SOFT 1024
#define NOFILE_HARD 1048576
#define STACK_SOFT  (8ull << 20)

COUNTER(process_started, "process.started", "programs started");

static struct mutex table_lock = MUTEX_INIT(table_lock, "process.table", RANK_PROCESS_TABLE);
static LIST_HEAD(table);      /* table_lock */
static uint64_t nr_processes; /* table_lock */
static uint32_t next_pid = 1; /* table_lock: pids are not reused before they wrap */

static uint64_t gauge_processes(void)
{
	return __atomic_load_n(&nr_processes, __ATOMIC_RELAXED);
}
GAUGE(process_gauge, "process.processes", "processes alive", gauge_processes);

#define PID_MAX 4194304u

/* --- table --------------------------------------------------------------------------- */

static struct process *find_locked(uint32_t pid)
{
	struct process *p;

	list_for_each_entry(p, &table, link) {
		if (p->pid == pid)
			return p;
	}
	return NULL;
}

struct process *process_find(uint32_t pid)
{
	struct process *p;

	mutex_lock(&table_lock);
	p = find_locked(pid);
	if (p)
		process_get(p);
	mutex_unlock(&table_lock);
	return p;
}

void process_for_each(bool (*fn)(struct process *p, void *arg), void *arg)
{
	struct process *p;

	mutex_lock(&table_lock);
	list_for_each_entry(p, &table, link) {
		if (!fn(p, arg))
			break;
	}
	mutex_unlock(&table_lock);
}

/*
 * Signals that the launcher sent before the process was in the table wait in the program's private word,
 * a set as in SIGMASK(), under table_lock.
 */
static void take_early_signals_locked(struct process *p)
{
	const uint64_t set = (uint64_t)(uintptr_t)ctl_prog_private(p->prog);

	for (int signo = 1; signo < NR_SIGNALS; signo++) {
		if (set & SIGMASK(signo))
			process_kill(p, signo);
	}
}

void process_signal_prog(struct ctl_prog *prog, int signo)
{
	const struct siginfo_k info = { .signo = signo, .code = SI_USER };
	struct process *p, *found = NULL;

	if (signo < 1 || signo >= NR_SIGNALS)
		return;
	mutex_lock(&table_lock);
	list_for_each_entry(p, &table, link) {
		if (p->prog == prog)
			found = p;
	}
	if (found)
		(void)signal_post(found, &info);
	else
		ctl_prog_set_private(prog,
				     (void *)((uintptr_t)ctl_prog_private(prog) | SIGMASK(signo)));
	mutex_unlock(&table_lock);
}

static void table_add(struct process *p)
{
	mutex_lock(&table_lock);
	do {
		p->pid = next_pid++;
		if (next_pid >= PID_MAX)
			next_pid = 2;
	} while (find_locked(p->pid));
	p->pgid = p->pid;
	p->sid = p->pid;
	list_add_tail(&p->link, &table);
	nr_processes++;
	take_early_signals_locked(p);
	mutex_unlock(&table_lock);
}

static void table_remove(struct process *p)
{
	mutex_lock(&table_lock);
	list_del(&p->link);
	nr_processes--;
	mutex_unlock(&table_lock);
}

/* --- life ---------------------------------------------------------------------------- */

void process_get(struct process *p)
{
	refcount_inc(&p->refs);
}

void process_put(struct process *p)
{
	if (!refcount_dec_and_test(&p->refs))
		return;
	signal_process_free(p);
	kfree(p->cwd);
	kfree(p->exe_path);
	kfree(p);
}

static void set_rlimits(struct process *p)
{
	for (size_t i = 0; i < RLIM_NR; i++)
		p->rlimits[i] = (struct rlimit){ RLIM_UNLIMITED, RLIM_UNLIMITED };
	p->rlimits[RLIM_NOFILE] = (struct rlimit){ NOFILE_SOFT, NOFILE_HARD };
	p->rlimits[RLIM_STACK].cur = STACK_SOFT;
	p->rlimits[RLIM_CORE].cur = 0;
	p->rlimits[RLIM_SIGPENDING] = (struct rlimit){ signal_queue_limit(), signal_queue_limit() };
	p->rlimits[RLIM_NICE] = (struct rlimit){ 0, 0 };
	p->rlimits[RLIM_RTPRIO] = (struct rlimit){ 0, 0 };
}

static struct process *process_create(struct ctl_prog *prog, const struct ctl_run *run)
{
	struct process *p = kzalloc(sizeof(*p));

	if (!p)
		return ERR_PTR(-ENOMEM);
	refcount_set(&p->refs, 1);
	mutex_init(&p->lock, "process", RANK_PROCESS);
	spin_lock_init(&p->sig_lock, "process.signal", RANK_SPIN_TASK);
	list_init(&p->tasks);
	p->prog = prog;
	p->cred.uid = run->uid;
	p->cred.gid = run->gid;
	p->umask = run->umask & 0777;
	p->start_ns = time_now_ns();
	set_rlimits(p);
	if (signal_process_init(p)) {
		kfree(p);
		return ERR_PTR(-ENOMEM);
	}
	p->cwd = kmalloc(PROTO_PATH_MAX);
	p->exe_path = kmalloc(PROTO_PATH_MAX);
	p->files = files_create();
	if (!p->cwd || !p->exe_path || IS_ERR(p->files)) {
		if (!IS_ERR(p->files))
			files_put(p->files);
		process_put(p);
		return ERR_PTR(-ENOMEM);
	}
	return p;
}

static int open_streams(struct process *p)
{
	static const uint32_t modes[3] = { O_RDONLY, O_WRONLY, O_WRONLY };

	for (unsigned int i = 0; i < 3; i++) {
		struct file *f = stream_open(p->prog, i, modes[i]);
		int fd;

		if (IS_ERR(f))
			return PTR_ERR(f);
		fd = files_install(p->files, f, (int)i, false);
		if (fd < 0) {
			file_put(f);
			return fd;
		}
	}
	return 0;
}

/* Size in bytes of @n strings, one behind the other. */
static size_t strings_len(const char *s, size_t n)
{
	const char *at = s;

	while (n-- > 0)
		at = ctl_string_next(at);
	return (size_t)(at - s);
}

struct start { /* what the new task's thread begins with */
	struct task *task;
	struct pt_regs regs;
};

static void task_main(void *arg)
{
	struct start *start = arg;
	const struct pt_regs regs = start->regs;
	struct task *t = start->task;
	struct process *p = t->process;

	kfree(start);
	thread_set_user(p->as->pt, fpu_alloc());
	if (!thread_current()->user.fpu)
		task_exit(SIGKILL);
	ctl_prog_started(p->prog, p->pid);
	user_enter(&regs);
}

static struct start *task_create(struct process *p)
{
	struct task *t = kzalloc(sizeof(*t));
	struct start *start = kzalloc(sizeof(*start));

	if (t && start) {
		t->process = p;
		t->tid = p->pid;
		signal_task_init(t, NULL, false);
		start->task = t;
		t->thread = thread_create_stopped(p->comm, task_main, start, PRIO_USER);
		if (!IS_ERR(t->thread)) {
			t->thread->private = t;
			spin_lock(&p->sig_lock);
			list_add_tail(&t->link, &p->tasks);
			p->nr_tasks = 1;
			signal_task_added_locked(t);
			spin_unlock(&p->sig_lock);
			/* Whatever was posted while there was no task is looked at on the way out. */
			thread_notify(t->thread, THREAD_F_SIGNAL);
			process_get(p);
			return start;
		}
	}
	kfree(t);
	kfree(start);
	return NULL;
}

/* Everything up to the point where only the thread is to be started. */
static int prepare(struct process *p, const struct ctl_run *run, struct start **start)
{
	struct exec_args args = {
		.argc = run->argc,
		.envc = run->envc,
		.argv = run->argv,
		.envp = run->envp,
		.argv_len = strings_len(run->argv, run->argc),
		.envp_len = strings_len(run->envp, run->envc),
	};
	struct proto_attr attr;
	struct pt_regs regs;
	int err;

	err = remote_lookup(&p->cred, run->cwd, PS_LOOKUP_DIRECTORY, 1, &attr, p->cwd);
	if (!err)
		err = remote_lookup(&p->cred, run->path, 0, 1, &attr, p->exe_path);
	if (!err && (attr.mode & 0170000) != 0100000)
		err = -EACCES;
	if (!err)
		err = open_streams(p);
	if (err)
		return err;
	args.path = p->exe_path;
	err = exec_load(p, &args, &attr, &p->as, &regs);
	if (err)
		return err;
	*start = task_create(p);
	if (!*start)
		return -ENOMEM;
	(*start)->regs = regs;
	return 0;
}

static void release_resources(struct process *p)
{
	if (p->files)
		files_put(p->files);
	p->files = NULL;
	if (p->as) {
		aspace_set_process(p->as, NULL);
		aspace_put(p->as);
	}
	p->as = NULL;
}

void process_run(struct ctl_prog *prog, const struct ctl_run *run)
{
	struct process *p = process_create(prog, run);
	struct start *start = NULL;
	int err = IS_ERR(p) ? PTR_ERR(p) : 0;

	if (err) {
		ctl_prog_refuse(prog, err, run->path);
		return;
	}
	table_add(p);
	err = prepare(p, run, &start);
	if (err) {
		pr_info("%s: cannot be started: error %d\n", run->path, err);
		release_resources(p);
		table_remove(p);
		process_put(p);
		ctl_prog_refuse(prog, err, run->path);
		return;
	}
	counter_inc(&process_started);
	aspace_set_process(p->as, p);
	if (READ_ONCE(p->as->failed))
		process_kill(p, SIGKILL); /* a page was lost before anybody could be told */
	thread_detach(start->task->thread);
	thread_start(start->task->thread);
}

/* --- the end ------------------------------------------------------------------------- */

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

/* The last task is gone: free what the process had, then say how it ended. */
static void process_finish(struct process *p)
{
	const uint32_t status = p->wait_status;

	signal_process_exit(p);
	table_remove(p);
	release_resources(p);
	ctl_prog_exit(p->prog, status);
	process_put(p); /* the table's reference */
}

static void clear_child_tid(struct task *t)
{
	if (t->clear_child_tid && put_user_u32(0, (void __user *)t->clear_child_tid) == 0)
		futex_wake_addr(t->process->as, t->clear_child_tid, 1);
}

void task_exit(uint32_t wait_status)
{
	struct task *t = task_current();
	struct process *p = t->process;
	struct fpu_state *fpu = thread_current()->user.fpu;
	bool last;

	futex_task_exit(t);
	clear_child_tid(t);
	spin_lock(&p->sig_lock);
	list_del(&t->link);
	last = --p->nr_tasks == 0;
	if (last && !p->exiting) {
		p->exiting = true;
		p->wait_status = wait_status;
	}
	spin_unlock(&p->sig_lock);
	signal_task_exit(t);
	thread_clear_user();
	fpu_free(fpu);
	thread_current()->private = NULL;
	if (last)
		process_finish(p);
	process_put(p);
	kfree(t);
	thread_exit();
}

void process_kill(struct process *p, int signo)
{
	const struct siginfo_k info = { .signo = signo, .code = SI_KERNEL };

	(void)signal_post(p, &info);
}

/* The parent of every process is the launcher, which does not wait for stopped ones. */
void process_report_child(struct process *p, int code, int status)
{
}

bool process_group_orphaned(struct process *p)
{
	return true;
}

void process_cred(struct proto_cred *cred)
{
	struct process *p = process_current();

	mutex_lock(&p->lock);
	*cred = p->cred;
	mutex_unlock(&p->lock);
}

uint64_t process_rlimit(enum rlimit_kind kind)
{
	struct process *p = process_current();
	uint64_t cur;

	mutex_lock(&p->lock);
	cur = p->rlimits[kind].cur;
	mutex_unlock(&p->lock);
	return cur;
}
