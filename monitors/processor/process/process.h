/* SPDX-License-Identifier: MIT */
/*
 * Processes and tasks: what Linux keeps per process and per thread.
 *
 * Flow:	process_run() (the launcher's RUN) makes a process with one task; clone() makes more
 *		of both. A task has a kernel thread of its own. process_exit_group() or a fatal
 *		signal ends all tasks of a process. The last task gives back what the process had,
 *		hands its children to pid 1 and makes the process a zombie, until its parent has
 *		waited for it. A program that the launcher started owns every process that it has
 *		forked. When its first process ends, the others are killed, and the launcher hears
 *		of the end when all are gone.
 * Locking:	vnode.lock (RANK_SPIN_TREE) guards the pid table and the tree; process.lock
 *		(RANK_PROCESS) the Linux state that several tasks share; process.sig_lock
 *		(RANK_SPIN_TASK), inside the tree's lock, signals, the list of tasks and how the
 *		process ends. Objects that a task shares with tasks of its own choice (descriptors,
 *		working directory, handlers) have locks of their own.
 * Invariants:	pid 1 has no process: it stands for the kernel, is the parent of launched programs
 *		and of orphans, and reaps at once.
 */
#pragma once

#include <abi/resource.h>
#include <arch/trap.h>
#include <kernel/fair.h>
#include <kernel/mutex.h>
#include <kernel/spinlock.h>
#include <kernel/thread.h>
#include <kernel/wait.h>
#include <lib/atomic.h>
#include <lib/list.h>
#include <lib/radix.h>
#include <net/spin.h>
#include <processor/client/file_attr.h>
#include <processor/signal/signal.h>
#include <processor/vfs/path.h>

#include "cred.h"
#include "inherit.h"
#include "pid_ns.h"
#include "rseq.h"
#include "seccomp.h"
#include "trace.h"

struct aspace;
struct ctl_prog;
struct ctl_run;
struct file;
struct files;
struct inode;
struct file_attr;
struct kmem_account;
struct ns_set;
struct strace_call;

#define INIT_PID 1u
#define PID_MAX  4194304u /* numbers are below it */

#define COMM_LEN 16

#define NICE_MIN (-20)
#define NICE_MAX 19

/* One container's view: its pids, its processes. */
struct vnode {
	uint32_t id;                                /* const */
	struct spinlock lock;                       /* RANK_SPIN_TREE */
	struct radix_tree pids __guarded_by(&lock); /* nr -> struct pid */
	uint32_t last_pid __guarded_by(&lock); /* numbers are not used again before they wrap */
	struct list_head processes __guarded_by(&lock); /* process.all_link: alive and zombies */
	struct radix_tree users __guarded_by(&lock);    /* uid -> tasks, for RLIMIT_NPROC */
	uint64_t nr_processes __guarded_by(&lock);
	uint64_t nr_tasks __guarded_by(&lock);
	uint64_t nr_zombies __guarded_by(&lock);
};

/* Every node serves one vNode so far. */
extern struct vnode root_vnode;

#define LOST_LINE 160

/* A launched program: the processes that come from one RUN. */
struct program {
	refcount_t refs;
	struct ctl_prog *prog;     /* const; counted until the end is reported */
	uint32_t leader;           /* const: pid of the first process */
	uint32_t nr_members;       /* vnode.lock: processes that still have resources */
	uint64_t nr_tasks;         /* vnode.lock */
	struct kmem_account *kmem; /* const: what its calls make the kernel keep is charged there */
	struct waitqueue gone;     /* nr_members has become smaller */
	char lost[LOST_LINE];      /* vnode.lock: why the system had to end it; empty: it has not */
};

/* Resources that tasks have used; sums are kept for tasks that are gone. */
struct usage {
	uint64_t utime_ns, stime_ns;
	uint64_t faults, major; /* of the program's memory; those that waited for another node */
	uint64_t switches, forced;
	uint64_t max_rss; /* KiB */
};

enum process_state {
	PROCESS_ALIVE,
	PROCESS_ZOMBIE, /* without resources; waits for its parent's wait */
	PROCESS_REAPED,
};

struct process {
	refcount_t refs;
	uint32_t pid;            /* const: its number in the vNode */
	struct vnode *vnode;     /* const */
	struct pid_ns *pid_ns;   /* const; counted: what its tasks see; NULL: the vNode's own */
	struct program *program; /* const; counted */
	uint64_t start_ns;       /* const */

	/* The tree: guarded by vnode.lock; own tasks may read pgid and sid without it. */
	struct process *parent; /* NULL: pid 1; process_set_parent_locked() */
	uint32_t ppid;          /* the same as a number; read without the lock */
	uint32_t parent_tid;    /* the parent's task that made it, for __WNOTHREAD */
	struct list_head children;
	struct list_head sibling; /* of the parent's children; pid 1 keeps no list */
	struct list_head all_link;
	struct list_head tracees; /* task.trace.link: what its tasks trace */
	struct task *trace_end;   /* its first task has ended, and the tracer has not seen it */
	struct pid *pid_entry;
	struct pid *group, *session;
	struct list_head group_link, session_link;
	uint32_t pgid, sid;
	uint8_t state;        /* enum process_state */
	bool session_leader;  /* setsid() made it one, or it was launched */
	bool execed;          /* since it was forked: setpgid() answers EACCES */
	bool child_subreaper; /* prctl(PR_SET_CHILD_SUBREAPER) */
	/* Only who may trace in look_ns may look into it; others read it without. */
	bool undumpable;
	bool thp_disabled;            /* prctl(PR_SET_THP_DISABLE): kept and told */
	int exit_signal;              /* what the parent gets at its end; 0 none */
	int pdeath_signal;            /* what it gets at its parent's end; 0 none */
	struct usage usage_dead;      /* of tasks that are gone */
	struct usage usage_children;  /* of children that were waited for */
	struct waitqueue ended;       /* it has become a zombie, or gone: pidfds */
	struct waitqueue child_event; /* something that wait() reports has happened */

	struct aspace *as; /* own tasks; changes in exec with one task left. Others: vnode.lock */
	struct mutex lock; /* RANK_PROCESS */
	struct linux_rlimit rlimits[RLIM_NLIMITS] __guarded_by(&lock);
	char *exe_path __guarded_by(&lock);      /* canonical, for /proc/self/exe */
	char comm[COMM_LEN] __guarded_by(&lock); /* of the first task */
	int nice;              /* vnode.lock; others read it without: of its first task, nice.c */
	int oom_adj;           /* vnode.lock; others read it without: see oom_score.h */
	int oom_adj_min;       /* vnode.lock: below it, only with CAP_SYS_RESOURCE */
	uint64_t oom_since_ns; /* atomic: when it was chosen to end for its frames; 0: it was not */
	uint32_t personality;  /* atomic */
	uint32_t barriers;     /* atomic: what membarrier() has registered */
	uint32_t core_filter;  /* atomic: CORE_FILTER_*, as /proc/<pid>/coredump_filter has it */

	struct spinlock sig_lock; /* RANK_SPIN_TASK */
	/* The user namespace in which its program began, or around it; counted, NULL: the first */
	struct user_ns *look_ns __guarded_by(&sig_lock);
	const struct cred *
		cred __guarded_by(&sig_lock); /* of the first task; written under vnode.lock too */
	uint32_t uid;              /* atomic: its real uid, for what is counted by user */
	struct signal_process sig; /* as it says itself */
	struct list_head tasks __guarded_by(&sig_lock);
	uint32_t nr_tasks __guarded_by(&sig_lock);
	bool exiting __guarded_by(&sig_lock);
	struct task *
		exec_task __guarded_by(&sig_lock); /* exec ends the others and waits for that */
	struct waitqueue exec_event; /* a task is gone, or stands still for a core file */
	struct task *core_task __guarded_by(&sig_lock); /* writes a core file: core.h; or NULL */
	uint32_t nr_parked __guarded_by(&sig_lock);     /* tasks that stand still for it */
	struct waitqueue core_done;                     /* it has been written */
	uint32_t wait_status __guarded_by(&sig_lock);   /* Linux's encoding */
};

#define LOGIN_UNSET UINT32_MAX /* nobody has logged in: see procfs/proc_login.c */

struct task {
	refcount_t refs;
	struct thread *thread;   /* const; others: sig_lock, while the task is on process.tasks */
	struct process *process; /* const; counted */
	uint32_t tid;            /* vnode.lock; own task: any time. exec gives it the process's */
	struct pid_ns *child_ns; /* own; counted: of its children; NULL: the process's */
	struct pid *pid_entry;   /* vnode.lock */
	struct list_head link;   /* process.sig_lock */
	const struct cred *cred; /* own */
	struct fs_state *fs;     /* own; others: process.sig_lock */
	struct files *files;     /* own; others: process.sig_lock */
	struct ns_set *ns;       /* the same */
	uint64_t ns_ticket;      /* own: ns/nsfs.c frees a namespace; 0: it has none to wait for */
	char comm[COMM_LEN];     /* process.lock */
	uint32_t user;           /* vnode.lock: the uid that it is counted for */
	bool nproc_exceeded;     /* own: setuid() went over RLIMIT_NPROC; exec answers EAGAIN */
	struct completion *vfork_done; /* vnode.lock: a parent waits for it until exec or exit */
	struct signal_task sig;        /* as it says itself */
	uint64_t clear_child_tid;      /* own */
	uint64_t set_child_tid; /* own: written before user mode is entered for the first time */
	uint64_t robust_list;   /* own; user address of its head, or 0 */
	struct task_rseq rseq;  /* own */
	struct sem_undos *sem_undos;         /* own: <processor/ipc/sysv.h>; NULL: none */
	uint64_t faults, major_faults;       /* own */
	int nice;                            /* vnode.lock; others read it without */
	uint32_t policy;                     /* atomic: as sched_getscheduler() tells it */
	struct fair_fixed fixed;             /* process.sig_lock: of a real-time policy, else 0 */
	uint64_t admitted;                   /* process.sig_lock: see realtime.c */
	struct task_inherit inherit;         /* as it says itself */
	uint16_t ioprio;                     /* atomic: ioprio.c */
	uint32_t login_uid, login_session;   /* own; others read them without a lock; LOGIN_UNSET */
	uint64_t slack_ns, slack_default_ns; /* own: prctl(PR_SET_TIMERSLACK) */
	uint64_t mempolicy;                  /* own; others read it: mm/mempolicy.h */
	struct strace_call *strace;          /* own: the call that is being logged */
	struct rpc_spin far_wait;            /* own: of poll() for messages of other nodes */
	struct task_trace trace;             /* as it says itself */
	struct task_seccomp seccomp;         /* the same */
};

/* The task of the running thread; user threads only. */
static inline struct task *task_current(void)
{
	return thread_current()->private;
}

static inline struct process *process_current(void)
{
	return task_current()->process;
}

static inline struct aspace *aspace_current(void)
{
	return process_current()->as;
}

static inline struct files *files_current(void)
{
	return task_current()->files;
}

static inline struct fs_state *fs_current(void)
{
	return task_current()->fs;
}

static inline const struct cred *cred_current(void)
{
	return task_current()->cred;
}

/* The calling task's; NULL: it sees the vNode's own numbers, as a thread of the kernel does. */
static inline struct pid_ns *pid_ns_current(void)
{
	const struct task *t = task_current();

	return t ? t->process->pid_ns : NULL;
}

/* The number of @p, of which a task lives, in its own namespace. */
static inline uint32_t process_vpid(const struct process *p)
{
	return likely(!p->pid_ns) ? p->pid : pid_own_nr(p->pid_entry);
}

/* The number of the calling task, or of one whose process.sig_lock is held, as itself sees it. */
static inline uint32_t task_vtid(const struct task *t)
{
	return likely(!t->process->pid_ns) ? t->tid : pid_own_nr(t->pid_entry);
}

uint32_t pid_vnr_in(uint32_t nr, const struct pid_ns *ns);
uint32_t pid_from_vnr_in(uint32_t vnr, const struct pid_ns *ns);

/* Number @nr of the vNode as the caller sees it; 0: it has none there, or is gone. */
static inline uint32_t pid_vnr(uint32_t nr)
{
	const struct pid_ns *ns = pid_ns_current();

	return likely(!ns) ? nr : pid_vnr_in(nr, ns);
}

/*
 * The number in the vNode of what the caller calls @vnr; 0: it knows nothing of that number. Who
 * sees the vNode's numbers gets @vnr itself, whether or not there is such a task.
 */
static inline uint32_t pid_from_vnr(uint32_t vnr)
{
	const struct pid_ns *ns = pid_ns_current();

	return likely(!ns) ? vnr : pid_from_vnr_in(vnr, ns);
}

/* The account of @p's program. NULL: a process of a test, which has no program. */
static inline struct kmem_account *process_kmem(const struct process *p)
{
	return p->program ? p->program->kmem : NULL;
}

/* Is @t to end, whatever it does? process.sig_lock is held. */
static inline bool task_ending_locked(const struct task *t)
{
	const struct process *p = t->process;

	assert_spin_held(&p->sig_lock);
	return p->exiting || (p->exec_task && p->exec_task != t);
}

/*
 * The account that what the running call makes is charged to: good while the task runs. NULL: a
 * thread of the kernel, which is charged for nothing.
 */
static inline struct kmem_account *kmem_current(void)
{
	const struct task *t = task_current();

	return t ? process_kmem(t->process) : NULL;
}

/* --- programs of the launcher ---------------------------------------------------------- */

/* Once, when the cache has its memory: how many tasks the rest can hold. */
void process_init(void);
/* The launcher's RUN: consumes @prog. Called on a thread of its own. */
void process_run(struct ctl_prog *prog, const struct ctl_run *run);
/* The launcher's SIGNAL for @prog; one that is still being started gets it when it is. */
void process_signal_prog(struct ctl_prog *prog, int signo);

/* --- looking up ------------------------------------------------------------------------- */

static inline void process_get(struct process *p)
{
	refcount_inc(&p->refs);
}
void process_put(struct process *p);
static inline void task_get(struct task *t)
{
	refcount_inc(&t->refs);
}
void task_put(struct task *t);
/* By pid, zombies too; referenced; NULL if there is none. */
struct process *process_find(uint32_t pid);
/*
 * The process whose directory of /proc @inode is; referenced. ERR_PTR(-EBADF): it is another inode;
 * ERR_PTR(-ESRCH): the process is gone.
 */
struct process *proc_dir_process(const struct inode *inode);
/*
 * May the calling task look into @p, and change it? As ptrace_may_access() of Linux by the real
 * ids: the same ids all over, or the right to trace where it is.
 */
bool process_may_look(struct process *p);
/* The same, but by the ids for files, as of /proc, if @by_fs_ids. */
bool process_may_look_as(struct process *p, bool by_fs_ids);
/* Call @fn for every living process, with the tree locked, until it answers false. */
void process_for_each(bool (*fn)(struct process *p, void *arg), void *arg);
/* The pid with number @nr of the vNode; vnode.lock is held. NULL: nothing has it. */
struct pid *pid_find_locked(struct vnode *v, uint32_t nr);
/* By tid; referenced; NULL if there is none. Its process is @task->process. */
struct task *task_find(uint32_t tid);
/*
 * The process with the smallest pid in @ns >= *@pid, referenced, and its pid; NULL at the end. For
 * /proc.
 */
struct process *process_next(const struct pid_ns *ns, uint32_t *pid);
/* The task of @p with the smallest tid in @ns >= *@tid, referenced. For /proc/<pid>/task. */
struct task *process_next_task(struct process *p, const struct pid_ns *ns, uint32_t *tid);
/* The process that descriptor @f is of; good as long as @f. NULL: it is of something else. */
struct process *pidfd_process_of(const struct file *f);
/* The parent's pid; INIT_PID for orphans and launched programs. */
static inline uint32_t process_ppid(const struct process *p)
{
	return READ_ONCE(p->ppid);
}
/* vnode.lock is held. */
static inline void process_set_parent_locked(struct process *p, struct process *parent)
{
	p->parent = parent;
	WRITE_ONCE(p->ppid, parent ? parent->pid : INIT_PID);
}
/*
 * Any living task's table of descriptors and file system state, referenced; NULL: a zombie. For
 * /proc.
 */
struct files *process_files(struct process *p);
struct fs_state *process_fs(struct process *p);
/* The address space, referenced; NULL: a zombie. */
struct aspace *process_aspace(struct process *p);

/* --- the end ---------------------------------------------------------------------------- */

/*
 * End every task of @p with @wait_status; a caller that belongs to it ends on its way to user mode.
 */
void process_exit_group(struct process *p, uint32_t wait_status);
/* The calling task ends; with the last one the process does. */
void task_exit(uint32_t wait_status) __attribute__((noreturn));
/* Post signal @signo to the process as a whole. Not from interrupts. */
void process_kill(struct process *p, int signo);
/*
 * The system has to end the program of @p: all its processes are killed, and the launcher gets the
 * line instead of a status. A program that is ending already ends as it would. Not from interrupts.
 */
void process_lost(struct process *p, const char *fmt, ...) __printf(2, 3);
/* The same for those whose address space has failed. Not from interrupts. */
void process_kill_failed(void);
/* The same for all, as this node serves no more; @why begins the line. Not from interrupts. */
void process_lose_all(const char *why);

/* --- signals to several ------------------------------------------------------------------ */

/*
 * kill(2): @pid as there (a process, 0, -1, -group); @info->signo 0 only looks. -ESRCH, -EPERM, and
 * what signal_post() answers.
 */
int process_kill_call(int pid, const struct linux_siginfo *info);
/* May the calling task send @signo to @p? */
bool process_may_signal(struct process *p, int signo);
/*
 * To every process of a group, without asking for permission (terminals). -ESRCH: there is no such
 * group.
 */
int process_signal_group(struct vnode *v, uint32_t pgid, const struct linux_siginfo *info);
/* Is @p's group orphaned: has no member a parent that could continue it? */
bool process_group_orphaned(struct process *p);
/* Tell the parent that @p has stopped or continued (@code CLD_*, @status the signal). */
void process_report_child(struct process *p, int code, int status);

/* --- state of the calling process --------------------------------------------------------- */

/* For permissions of files: good until the calling task changes its credentials. */
void process_cred(struct fs_cred *cred);
uint64_t process_rlimit(unsigned int kind); /* RLIMIT_* */

/* oom.c: serve memory nodes that have no frame left; once. -ENOMEM. */
int oom_init(void) __must_check;

/* trap.c: register what user code calls; once, before the first program. */
void trap_init(void);
