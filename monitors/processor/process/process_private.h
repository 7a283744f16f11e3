/* SPDX-License-Identifier: MIT */
/*
 * Shared by the files of process management only.
 */
#pragma once

#include <abi/sched.h>
#include <processor/vfs/path.h>

#include "process.h"

struct exec_program;
struct exec_args;

/* --- pid.c: numbers and the tree. "_locked": vnode.lock is held ------------------------- */

/*
 * Fresh numbers in @ns and all around it; from the innermost outwards @wanted has @nr_wanted of
 * them. ERR_PTR(-EAGAIN, -EEXIST, -EINVAL, -ENOMEM).
 */
struct pid *pid_alloc(struct vnode *v, struct pid_ns *ns, const uint32_t *wanted,
		      uint32_t nr_wanted);
/* Forget the number if nothing is named by it any more. */
void pid_release_locked(struct vnode *v, struct pid *pid);
struct process *process_find_locked(struct vnode *v, uint32_t pid);
/* Count a task for @uid. -ENOMEM. */
int user_charge_locked(struct vnode *v, uint32_t uid) __must_check;
void user_uncharge_locked(struct vnode *v, uint32_t uid);
uint64_t user_tasks_locked(const struct vnode *v, uint32_t uid);
void process_set_group_locked(struct process *p, struct pid *group);
void process_set_session_locked(struct process *p, struct pid *session);

/* --- process.c: structures ---------------------------------------------------------------- */

/*
 * A process without tasks, in no list; what it shares with its maker is the caller's to add. NULL:
 * no memory.
 */
struct process *process_alloc(struct vnode *v, struct program *program);
/* A task of @p in no list, with one reference. NULL: no memory. */
struct task *task_alloc(struct process *p);

/* --- clone.c: a task begins ------------------------------------------------------------------ */

struct task_start; /* what a new task's thread begins with */

/* The stopped kernel thread of @t, which starts with @regs and takes over @fpu. NULL: no memory. */
struct task_start *task_prepare(struct task *t, const struct pt_regs *regs, struct fpu_state *fpu);
/* It will never run. */
void task_discard(struct task_start *start);
void task_start(struct task_start *start, bool announce);
/* The address space is given up by exec or exit: the parent of a vfork goes on. */
void vfork_release(struct task *t);
uint64_t fork_max_tasks(void);

/* Put the objects that an unstarted or ending task shares with others. */
void task_release_parts(struct task *t);

/* --- unshare.c ------------------------------------------------------------------------------- */

/* Namespaces that there are not: clone() and unshare() answer EINVAL. */
#define CLONE_NEW_NONE (CLONE_NEWNET | CLONE_NEWTIME)

/* May the calling task make the namespaces of @flags? -EPERM, -EINVAL. */
int clone_check_namespaces(uint64_t flags) __must_check;

/* --- pidfd.c --------------------------------------------------------------------------------- */

struct pidfd_slot { /* a descriptor that clone() gives out when everything else has worked */
	struct file *f;
	int fd;
};

/* A descriptor for @p, its number at @ufd of the caller's. -EMFILE, -EFAULT, -ENOMEM. */
int pidfd_reserve(struct pidfd_slot *slot, struct process *p, uint64_t ufd) __must_check;
void pidfd_cancel(struct pidfd_slot *slot);
void pidfd_fill(struct pidfd_slot *slot);
/* The process behind descriptor @fd, referenced; NULL: there is none. */
struct process *pidfd_process(int fd, bool *nonblock);

/* --- exit.c ---------------------------------------------------------------------------------- */

/* @p was never in the table, and its task is gone: consumes the reference. */
void process_abandon(struct process *p);
/*
 * The task stops using its address space, for another one or because it @ends: robust futexes, the
 * word of CLONE_CHILD_CLEARTID, vfork.
 */
void task_release_mm(struct task *t, bool ends);
/*
 * A zombie that no parent will wait for leaves the table; its reference is the caller's to put,
 * unlocked.
 */
void process_reap_locked(struct process *p);
/* Does a task of @tracer trace the first task of @p? */
bool process_traced_by_locked(const struct process *p, const struct process *tracer);
/*
 * The end of zombie @p is told to its parent; if none will wait for it, it goes onto @gone by
 * all_link.
 */
void process_tell_end_locked(struct process *p, struct list_head *gone);
void usage_of(struct process *p, struct usage *u);
void usage_of_locked(struct process *p, struct usage *u);
void usage_of_task(const struct task *t, struct usage *u);
/* The most that @as has had mapped here, in KiB. */
uint64_t space_rss(const struct aspace *as);
void usage_add(struct usage *to, const struct usage *from);

/* --- group.c --------------------------------------------------------------------------------- */

/*
 * @p's group may have lost its last connection outside (POSIX's orphaned process group): stopped
 * members get SIGHUP and SIGCONT. @parent NULL: @p itself ends; else @p is given away by @parent,
 * which ends.
 */
void group_check_orphaned_locked(struct process *p, const struct process *parent);

/* Send to @p as kill() does, or look with signo 0: -EPERM, -ESRCH when it has been reaped. */
int process_signal(struct process *p, const struct linux_siginfo *info);

/* --- limits.c -------------------------------------------------------------------------------- */

void rusage_fill(struct linux_rusage *ru, const struct usage *u);

/* --- exec.c: load a program into a new space ------------------------------------------------- */

struct exec_args {
	const char *path; /* AT_EXECFN, as the program was named */
	size_t argc, envc;
	const char *argv; /* argc strings, each with its NUL, one behind the other */
	size_t argv_len;  /* bytes */
	const char *envp;
	size_t envp_len;
	bool fixed; /* addresses are not drawn: ADDR_NO_RANDOMIZE */
};

/* --- execve.c: a program with its arguments, on the way into a space -------------------------- */

struct exec_strings { /* one behind the other, each with its NUL */
	char *buf;
	size_t len, size; /* bytes used, and there */
	size_t nr;
};

struct exec_image {
	struct kmem_account *kmem; /* of the program that gets it */
	const struct cred *cred;   /* what the new program gets */
	uint64_t stack_limit;
	bool nofollow;
	bool fixed;              /* exec_args.fixed */
	bool unreadable;         /* the caller may execute it, or a script, but not read it */
	struct user_ns *look_ns; /* see struct process; counted */
	char *path;              /* as it was named; a script's interpreter when it is its turn */
	/* How it was named to execveat(), by a descriptor: @rel below @from; or empty. */
	struct path from;
	char *rel;
	struct exec_strings argv, envp;
	/* Found and made: */
	char *execfn;        /* as it was named at first */
	char *exe_path;      /* canonical, of what is really loaded */
	struct files *files; /* the caller's descriptors, if it has to unshare them */
	struct aspace *as;
	struct pt_regs regs;
};

/* Find, follow scripts, load. The image is to be freed whether it works or not. */
int exec_image_load(struct exec_image *img, struct fs_state *fs) __must_check;
void exec_image_free(struct exec_image *img);
int exec_strings_add(struct exec_strings *s, const char *str) __must_check;
void task_set_comm(struct task *t, const char *path);

/*
 * --- cred.c -------------------------------------------------------------------------------------
 */

/* The calling task's new set; takes over the reference. -EAGAIN. */
int cred_install(struct cred *n) __must_check;

#define EXEC_STRING_MAX 131072u /* one argument with its NUL, as Linux */
/* Bytes that arguments and environment, and the pointers to them, may take. */
uint64_t exec_arg_limit(uint64_t stack_limit);
/* On success *@as is the space, and @regs how its program begins. */
int exec_load(const struct cred *cred, uint64_t stack_limit, const struct exec_args *args,
	      const struct exec_program *prog, struct aspace **as, struct pt_regs *regs)
	__must_check;

/* --- exec_interp.c ------------------------------------------------------------------------- */

struct exec_interp {
	char *path;       /* at that storage node; the caller's to kfree(). NULL: there is none */
	uint32_t storage; /* node */
};

/*
 * The interpreter of the program at @at, as PT_INTERP names it for a process of @fs. -ENOENT,
 * -EACCES, -ENOEXEC ...
 */
int exec_interp_find(const struct path *at, struct fs_state *fs, const struct fs_cred *cred,
		     struct exec_interp *in) __must_check;

/* --- nice.c --------------------------------------------------------------------------------- */

/*
 * May the caller give @t nice value @nice, from NICE_MIN to NICE_MAX? -EPERM, or -EACCES as
 * RLIMIT_NICE forbids it.
 */
int nice_may_change(const struct task *t, int nice) __must_check;
int nice_change(struct task *t, int nice) __must_check;

/* --- sched_calls.c ------------------------------------------------------------------------- */

/* New task @t inherits from its maker, the current one: CPUs, policy, nice value, weight. */
void sched_inherit(struct task *t);
struct sched_want {
	int policy;              /* negative: the one that it has */
	bool keep_params;        /* those that it has, too */
	const int *nice;         /* NULL: the one that it has */
	uint32_t prio;           /* of SCHED_FIFO and SCHED_RR */
	struct fair_fixed fixed; /* of SCHED_DEADLINE: the three times */
};

/* Task @id, 0 being the caller. -ESRCH, -EINVAL, -EPERM, -EACCES, -EBUSY. */
int sched_change(int id, const struct sched_want *want) __must_check;
/* Give the thread of @t, which is one of its process's tasks, the weight of its nice value. */
void task_reweigh_locked(struct task *t) __must_hold(&t->process->sig_lock);

/* --- realtime.c ------------------------------------------------------------------------------ */

/* A policy as calls write it, and tasks have it, without its flag. */
static inline uint32_t policy_plain(uint32_t policy)
{
	return policy & ~(uint32_t)SCHED_RESET_ON_FORK;
}

static inline uint32_t policy_of(const struct task *t)
{
	return policy_plain(READ_ONCE(t->policy));
}

/* One of SCHED_FIFO, SCHED_RR, SCHED_DEADLINE. */
bool realtime_is(uint32_t policy);
/* Complete @w->fixed for @policy; false: the priority or the times are wrong. */
bool realtime_complete(uint32_t policy, struct sched_want *w) __must_check;
/* May the caller give @t, of a process of its own user, @policy? -EPERM. */
int realtime_may_locked(const struct task *t, uint32_t policy, const struct fair_fixed *f)
	__must_hold(&t->process->sig_lock) __must_check;
/* @t is to have @policy: -EBUSY there is no CPU time left to reserve. */
int realtime_admit_locked(struct task *t, uint32_t policy, const struct fair_fixed *f)
	__must_hold(&t->process->sig_lock) __must_check;
/* It ends. */
void realtime_leave_locked(struct task *t) __must_hold(&t->process->sig_lock);
