/* SPDX-License-Identifier: MIT */
/*
 * Kernel threads, the scheduler, and what a user thread adds.
 *
 * Flow:	thread_create() -> runnable -> fn(arg) -> thread_exit() (or return)
 *		-> reaped by thread_join(), or by itself after thread_detach().
 *		Priority: strict between classes, but for the part of the CPU that programs have
 *		whatever happens (sched.c); inside a class shares by weight (fair.h).  A woken
 *		thread of a higher class preempts at once.
 * Locking:	state, cpu and the run queue link belong to the run queue lock of
 *		thread->cpu.  thread->private belongs to whoever created the thread.
 */
#pragma once

#include <arch/cpumask.h>
#include <arch/debugreg.h>
#include <arch/percpu.h>
#include <kernel/fair.h>
#include <kernel/preempt.h>
#include <kernel/spinlock.h>
#include <kernel/timer.h>
#include <lib/compiler.h>
#include <lib/list.h>
#include <lib/types.h>

struct fpu_state;
struct pgtable;
struct pt_regs;

enum thread_prio {
	THREAD_PRIO_IDLE,     /* the idle thread of a CPU */
	THREAD_PRIO_LOW,      /* background: reclaim, zeroing */
	THREAD_PRIO_USER,     /* threads that run user code */
	THREAD_PRIO_REALTIME, /* the same, with a real-time policy */
	THREAD_PRIO_NORMAL,   /* kernel threads */
	THREAD_PRIO_HIGH,     /* latency-sensitive: network poll */
	NR_PRIOS,
};

enum thread_state {
	THREAD_RUNNABLE, /* on a run queue or running */
	THREAD_SLEEPING, /* until thread_wake() */
	THREAD_DEAD,     /* left the CPU for good */
	THREAD_NEW,      /* until thread_start(); nothing else wakes it */
};

/* thread->queued */
enum thread_queued {
	THREAD_UNQUEUED,
	THREAD_QUEUED,
	THREAD_MOVING, /* on its way from one CPU's queue to another's */
};

#define THREAD_NAME_LEN   24
#define THREAD_STACK_SIZE 16384u

/* Bits of thread->flags (atomic). */
#define THREAD_F_SIGNAL 0x1u /* an interruptible wait ends with -EINTR; return_work runs */
#define THREAD_F_KILL   0x2u /* a killable wait ends with -EINTR; return_work runs */
#define THREAD_F_WORK   0x4u /* return_work runs before user mode */
#define THREAD_F_DEBUG  0x8u /* debug registers are in use: user mode is entered the slow way */
#define THREAD_F_SWITCHED \
	0x10u /* of thread_note_switches(): it was switched out; return_work runs */

struct user_context {
	struct pgtable *pgtable; /* NULL: kernel thread */
	struct fpu_state *fpu;
	uint64_t fs_base;
	bool no_tsc;             /* RDTSC in user mode faults */
	uint64_t gs_base;        /* the user's; lives in MSR_KERNEL_GS_BASE while in the kernel */
	struct debug_regs debug; /* of THREAD_F_DEBUG */
	bool notes_switches;     /* thread_note_switches() */
	uint32_t noted_cpu;      /* as thread_take_switch() has told it last */
};

#ifdef CONFIG_DEBUG
# define LOCK_DEBUG_DEPTH 32
struct held_lock {
	const void *lock;
	const char *name;
	uint32_t rank;
	uint32_t irq_level;
	bool shared; /* for reading */
};
#endif

struct thread {
	/* Offsets of the first fields are known to entry.S (static_assert in thread.c). */
	uint64_t kernel_sp;       /* owner cpu, while switched out */
	uint64_t stack_top;       /* const */
	uint32_t flags;           /* atomic: THREAD_F_* */
	uint32_t state;           /* enum thread_state; run queue lock */
	struct user_context user; /* owner thread */
	void *private;            /* owner: the creator (a monitor's task) */
	uint32_t faults_off;      /* owner thread: see user_faults_off() */
	void *fault_hints; /* owner thread: of its page faults; kfree()d at its end, or NULL */
	void *fault_steps; /* owner thread: on its stack, of the fault that is measured, or NULL */

	struct fair_entity fair; /* run queue lock */
	uint32_t prio;           /* run queue lock */
	uint32_t cpu;            /* run queue lock */
	uint8_t queued;          /* enum thread_queued; run queue lock */
	bool is_idle;            /* const */
	struct cpu_mask allowed; /* run queue lock: CPUs it may run on */
	uint64_t run_start_ns;   /* run queue lock: run_ns counts up to here */
	uint64_t run_ns;         /* run queue lock: CPU time so far */
	uint64_t nr_switches;    /* owner cpu: away from it */
	uint64_t nr_forced;      /* owner cpu: of these, while it could have gone on */
	uint64_t nr_fetches;     /* owner thread: lines that it has waited for */
	uint64_t user_ns;        /* run queue lock: of run_ns, what ticks have told apart */
	uint64_t system_ns;      /* run queue lock */
	bool in_system;          /* run queue lock: where the last tick found it */

	struct timer sleep_timer;     /* owner thread */
	vaddr_t stack;                /* const */
	uint32_t tid;                 /* const */
	bool exited, detached;        /* all_threads lock */
	struct list_head all_link;    /* all_threads lock */
	struct list_head zombie_link; /* all_threads lock */
	void (*fn)(void *arg);        /* const */
	void *arg;                    /* const */
	char name[THREAD_NAME_LEN];
#ifdef CONFIG_DEBUG
	unsigned int nr_pins; /* owner thread: of what a user fault may have to wait for */
	unsigned int nr_held; /* owner thread */
	struct held_lock held[LOCK_DEBUG_DEPTH];
#endif
};

DECLARE_PERCPU(struct thread *, current_thread);

static inline struct thread *thread_current(void)
{
	return percpu_read(current_thread);
}

/*
 * Create a thread of THREAD_PRIO_NORMAL and start it.  ERR_PTR(-ENOMEM).  The result
 * stays valid until thread_join() or thread_detach().
 */
struct thread *thread_create(const char *name, void (*fn)(void *arg), void *arg);
struct thread *thread_create_prio(const char *name, void (*fn)(void *arg), void *arg,
				  enum thread_prio prio);
/* Two steps for a creator that must fill in ->private first. */
struct thread *thread_create_stopped(const char *name, void (*fn)(void *arg), void *arg,
				     enum thread_prio prio);
void thread_start(struct thread *t);
/* The creator has changed its mind: @t, never started, is freed. */
void thread_discard(struct thread *t);
void thread_exit(void) __attribute__((noreturn));
/* Wait until @t has exited and free it. */
void thread_join(struct thread *t);
/* No thread will join @t: it frees itself at exit. */
void thread_detach(struct thread *t);

/* The longest time that a thread runs before others of its class have their turn. */
uint64_t thread_slice_ns(void);
/*
 * The share of @t beside others of its class, FAIR_WEIGHT_MEAN at first.  @batch: when it wakes it
 * waits for its turn, whatever it is owed.
 */
void thread_set_weight(struct thread *t, uint32_t weight, bool batch);
/*
 * @t, a thread of a program, gets a place in the fixed order of real-time threads, before all that
 * share; NULL: it shares again.  It runs at once if it comes first.
 */
void thread_set_realtime(struct thread *t, const struct fair_fixed *fixed);
/*
 * Let @t run on the CPUs of @mask only (threads start with all); -EINVAL when none of
 * them is online.  The current thread has moved on return (if it may be preempted); one
 * that runs on another CPU moves as soon as that CPU takes the interrupt.
 */
int thread_set_affinity(struct thread *t, const struct cpu_mask *mask);
void thread_affinity(const struct thread *t, struct cpu_mask *mask);
/* Keep the current thread on @cpu, which is online. */
void thread_pin(unsigned int cpu);
/* Does a thread of a higher class than @prio wait for this CPU? For those who poll. */
bool thread_waits_above(enum thread_prio prio);
void thread_set_name(struct thread *t, const char *name);
void thread_yield(void);
/* Until the absolute monotonic time. */
void thread_sleep_until(uint64_t deadline_ns);
void thread_sleep_ns(uint64_t ns);
/* CPU time used by @t so far. */
uint64_t thread_cpu_ns(const struct thread *t);
/*
 * The same in two parts, user and system, told apart by ticks: exact in their sum, and neither
 * ever shrinks. Time that no tick has seen yet counts for the mode in which the last one found the
 * thread.
 */
void thread_cpu_times(struct thread *t, uint64_t *user_ns, uint64_t *system_ns);

/* For tests: @t changes its class, wherever it runs or waits. */
void thread_set_prio(struct thread *t, enum thread_prio prio);
/* For tests: where @t runs, or ran last. */
unsigned int thread_cpu(const struct thread *t);

/* Low level, for wait.c and friends: see wait.h for the pattern. */
void thread_prepare_sleep(void);
void thread_cancel_sleep(void);
void schedule(void);
/* Returns true if @t was asleep. */
bool thread_wake(struct thread *t);

/* Make the current thread a user thread: NULL leaves that part as it is. */
void thread_set_user(struct pgtable *pt, struct fpu_state *fpu);
/*
 * Stop being one: back to the kernel's tables (exit, before pgtable_destroy() and
 * fpu_free(), which are the owner's to call).  thread_exit() does it too.
 */
void thread_clear_user(void);
void thread_set_fs_base(uint64_t base);
void thread_set_gs_base(uint64_t base);
/* May user code read the time stamp counter (else RDTSC faults: #GP)? */
void thread_set_tsc(bool allowed);
bool thread_tsc_allowed(void);
/* The current values (user code may have changed them with wrfsbase). */
uint64_t thread_fs_base(void);
uint64_t thread_gs_base(void);

/* Set flag bits of @t and wake it if it waits interruptibly (SIGNAL, KILL) or killably (KILL). */
void thread_notify(struct thread *t, uint32_t flags);
void thread_clear_flags(struct thread *t, uint32_t flags);

static inline bool thread_user_work(const struct thread *t)
{
	return (__atomic_load_n(&t->flags, __ATOMIC_ACQUIRE) & ~THREAD_F_DEBUG) != 0;
}

/*
 * @t, the current thread or one that is not started yet, has THREAD_F_SWITCHED set from now on
 * before it enters user mode on another CPU than thread_take_switch() has told last, or goes on
 * between two instructions of its program after another thread may have run. After a switch within
 * a system call on the same CPU it is not set: no program's code was under way.
 */
void thread_note_switches(struct thread *t, bool on);
/* Set it for the current thread, if it notes switches; from an interrupt, too. */
void thread_pretend_switch(void);
/* Clear it; returns the CPU that the current thread is on, or -1: it was not set. */
int thread_take_switch(void);

/* Threads alive, for accounting and leak tests. */
size_t thread_count(void);
/* Visit every thread, for debugging output; @fn must not sleep. */
void thread_for_each(void (*fn)(struct thread *t, void *arg), void *arg);
