/* SPDX-License-Identifier: MIT */
/*
 * Host shim of <kernel/thread.h>: a thread is a POSIX thread. Priorities are accepted and have no
 * effect. A host thread that the shim did not make (the test's own) gets a struct thread the
 * first time it asks.
 */
#pragma once

#include <pthread.h>

#include <arch/percpu.h>
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
	THREAD_PRIO_IDLE,
	THREAD_PRIO_LOW,
	THREAD_PRIO_USER,
	THREAD_PRIO_REALTIME,
	THREAD_PRIO_NORMAL,
	THREAD_PRIO_HIGH,
	NR_PRIOS,
};

#define THREAD_NAME_LEN 24

#define THREAD_F_SIGNAL 0x1u
#define THREAD_F_KILL   0x2u
#define THREAD_F_WORK   0x4u

struct user_context {
	struct pgtable *pgtable;
	struct fpu_state *fpu;
	uint64_t fs_base;
	uint64_t gs_base;
};

struct thread {
	uint32_t flags; /* atomic: THREAD_F_* */
	struct user_context user;
	void *private;
	uint32_t faults_off;
	void *fault_hints, *fault_steps;
	uint64_t nr_fetches;
	unsigned int nr_pins;
	uint32_t tid;
	char name[THREAD_NAME_LEN];

	pthread_t pthread;
	pthread_mutex_t sleep_lock;
	pthread_cond_t wakeup;
	bool poked;          /* sleep_lock: woken, or its flags changed */
	bool waits_killable; /* sleep_lock: asleep in a wait that a kill ends */
	void (*fn)(void *arg);
	void *arg;
	bool exited, detached; /* all_threads lock */
	pthread_cond_t has_exited;
	struct list_head all_link; /* all_threads lock */
};

struct thread *thread_current(void);

struct thread *thread_create(const char *name, void (*fn)(void *arg), void *arg);
struct thread *thread_create_prio(const char *name, void (*fn)(void *arg), void *arg,
				  enum thread_prio prio);
struct thread *thread_create_stopped(const char *name, void (*fn)(void *arg), void *arg,
				     enum thread_prio prio);
void thread_start(struct thread *t);
void thread_exit(void) __noreturn;
void thread_join(struct thread *t);
void thread_detach(struct thread *t);

/* The host has CPUs enough, unless a test says otherwise. */
extern bool shim_thread_waits; /* atomic */
/* There is no memory for another one. */
extern bool shim_no_threads;
static inline bool thread_waits_above(enum thread_prio prio)
{
	(void)prio;
	return __atomic_load_n(&shim_thread_waits, __ATOMIC_RELAXED);
}
/* Where a thread runs is for the host to say. */
static inline void thread_pin(unsigned int cpu)
{
	(void)cpu;
}
/* Not in the shim: of the test whose program has process/inherit.c. */
struct fair_fixed;
void thread_set_weight(struct thread *t, uint32_t weight, bool batch);
void thread_set_realtime(struct thread *t, const struct fair_fixed *fixed);
void thread_set_name(struct thread *t, const char *name);
void thread_yield(void);
void thread_sleep_until(uint64_t deadline_ns);
void thread_sleep_ns(uint64_t ns);

/* As the kernel's: wake-ups since thread_prepare_sleep() keep schedule() from sleeping. */
void thread_prepare_sleep(void);
void thread_cancel_sleep(void);
void schedule(void);
bool thread_wake(struct thread *t);

void thread_set_user(struct pgtable *pt, struct fpu_state *fpu);
void thread_clear_user(void);

void thread_notify(struct thread *t, uint32_t flags);
void thread_clear_flags(struct thread *t, uint32_t flags);

static inline bool thread_user_work(const struct thread *t)
{
	return __atomic_load_n(&t->flags, __ATOMIC_ACQUIRE) != 0;
}

size_t thread_count(void);
