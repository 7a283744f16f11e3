/* SPDX-License-Identifier: MIT */
/*
 * Processes and tasks: what Linux keeps per process and per thread.
 *
 * Life:	process_run() (the launcher's RUN) makes a process with one task; the task's kernel thread
 *		loads the program and enters user mode; process_exit_group() or a fatal signal ends all
 *		its tasks; the last one frees what the process had and reports the wait status.
 * Locking:	process_table (RANK_PROCESS_TABLE); process.lock (RANK_PROCESS) guards the Linux state that
 *		several tasks share; process.sig_lock (RANK_SPIN_TASK) guards signals and the exit status and
 *		may be taken in polling context.
 */
#pragma once

#include <arch/trap.h>
#include <kernel/mutex.h>
#include <kernel/spinlock.h>
#include <kernel/thread.h>
#include <lib/atomic.h>
#include <lib/list.h>
#include <processor/signal.h>
#include <proto/types.h>

struct aspace;
struct ctl_prog;
struct ctl_run;
struct files;

enum rlimit_kind { /* Linux's numbers */
	RLIM_CPU,
	RLIM_FSIZE,
	RLIM_DATA,
	RLIM_STACK,
	RLIM_CORE,
	RLIM_RSS,
	RLIM_NPROC,
	RLIM_NOFILE,
	RLIM_MEMLOCK,
	RLIM_AS,
	RLIM_LOCKS,
	RLIM_SIGPENDING,
	RLIM_MSGQUEUE,
	RLIM_NICE,
	RLIM_RTPRIO,
	RLIM_RTTIME,
	RLIM_NR,
};
#define RLIM_UNLIMITED UINT64_MAX

struct rlimit {
	uint64_t cur;
	uint64_t max;
};

#define COMM_LEN 16

struct process {
	refcount_t refs;
	uint32_t pid;          /* const */
	uint32_t ppid;         /* const: 0, the launcher's side */
	uint32_t pgid, sid;    /* lock */
	struct list_head link; /* process table */
	struct aspace *as;     /* owner: replaced by exec with one task left */
	struct files *files;   /* const; counted */
	struct ctl_prog *prog; /* const; counted */
	struct mutex lock;     /* RANK_PROCESS */
	struct proto_cred cred __guarded_by(&lock);
	struct rlimit rlimits[RLIM_NR] __guarded_by(&lock);
	char *cwd __guarded_by(&lock);      /* canonical, absolute */
	char *exe_path __guarded_by(&lock); /* canonical, for /proc/self/exe */
	uint32_t umask __guarded_by(&lock);
	char comm[COMM_LEN] __guarded_by(&lock);
	uint64_t start_ns; /* const */

	struct spinlock sig_lock;  /* RANK_SPIN_TASK */
	struct signal_process sig; /* as it says itself */
	struct list_head tasks __guarded_by(&sig_lock);
	uint32_t nr_tasks __guarded_by(&sig_lock);
	bool exiting __guarded_by(&sig_lock);
	uint32_t wait_status __guarded_by(&sig_lock); /* Linux's encoding */
};

struct task {
	struct thread *thread;    /* const */
	struct process *process;  /* const; counted */
	uint32_t tid;             /* const */
	struct list_head link;    /* process.sig_lock */
	struct signal_task sig;   /* as it says itself */
	uint64_t clear_child_tid; /* own */
	uint64_t robust_list;     /* own; user address of its head, or 0 */
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

int process_init(void) __must_check;
/* The launcher's RUN: consumes @prog. Called on a thread of its own. */
void process_run(struct ctl_prog *prog, const struct ctl_run *run);
void process_get(struct process *p);
void process_put(struct process *p);
/* By pid; referenced; NULL if there is none. */
struct process *process_find(uint32_t pid);
/* Call @fn for every process, with the table locked, until it answers false. */
void process_for_each(bool (*fn)(struct process *p, void *arg), void *arg);
/* The launcher's SIGNAL for @prog; one that is still being started gets it when it is. */
void process_signal_prog(struct ctl_prog *prog, int signo);

/* End every task of the calling process with @wait_status; returns for the caller to end too. */
void process_exit_group(struct process *p, uint32_t wait_status);
/* The calling task ends; with the last one the process does. */
void task_exit(uint32_t wait_status) __attribute__((noreturn));

/* Post signal @signo to the process as a whole. Any context. */
void process_kill(struct process *p, int signo);

/* Snapshot of the credentials of the calling process. */
void process_cred(struct proto_cred *cred);
uint64_t process_rlimit(enum rlimit_kind kind);

/* exec.c: load @path into a new space and set up its stack. On success the new registers. */
struct exec_args {
	const char *path; /* canonical */
	size_t argc, envc;
	const char *argv; /* argc strings, each with its NUL, one behind the other */
	size_t argv_len;  /* bytes */
	const char *envp;
	size_t envp_len;
};
int exec_load(struct process *p, const struct exec_args *args, const struct proto_attr *attr,
	      struct aspace **as, struct pt_regs *regs) __must_check;
