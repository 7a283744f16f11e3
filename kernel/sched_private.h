/* SPDX-License-Identifier: MIT */
/*
 * Between thread.c, sched.c (one CPU's queue) and sched_smp.c (several).
 */
#pragma once

#include <arch/cpu.h>
#include <kernel/fair.h>
#include <kernel/panic.h>
#include <kernel/percpu.h>
#include <kernel/thread.h>

#include "turns.h"

/* A spinlock that lock_debug.c does not follow: see sched.c. */
struct __capability("run queue lock") rq_lock {
	uint32_t locked; /* atomic; RANK_RUNQUEUE */
#ifdef CONFIG_DEBUG
	uint32_t holder; /* atomic: the CPU that has it, plus one; 0 when free */
#endif
};

struct runqueue {
	struct rq_lock lock;
	uint32_t cpu; /* const */
	uint32_t nr_queued __guarded_by(&lock);
	uint32_t bitmap __guarded_by(&lock);      /* classes with a thread queued */
	uint32_t curr_prio __guarded_by(&lock);   /* of curr; others read it without the lock */
	uint32_t curr_weight __guarded_by(&lock); /* the same; 0: idle */
	struct thread *curr;                      /* written with the lock, by its own CPU */
	struct thread *idle;                      /* NULL: this CPU does not schedule yet */
	struct thread *prev __guarded_by(&lock);  /* handed over by the switch */
	bool prev_moves __guarded_by(&lock);      /* prev may not stay on this CPU */
	bool resched_asked __guarded_by(&lock);   /* curr is to make way, whatever its class */
	struct turns turns __guarded_by(&lock);   /* of programs before higher classes */
	struct fair_queue fair[NR_PRIOS] __guarded_by(&lock); /* by class; their curr is ours */
};

DECLARE_PERCPU(struct runqueue, runqueue);

static inline void rq_set_holder(struct runqueue *rq, uint32_t holder)
{
#ifdef CONFIG_DEBUG
	__atomic_store_n(&rq->lock.holder, holder, __ATOMIC_RELAXED);
#endif
}

/* Debug builds: this CPU holds @rq's lock; the thread may be the one that it is handed over to. */
static inline void assert_rq_held(const struct runqueue *rq) __asserts_held(&rq->lock)
{
#ifdef CONFIG_DEBUG
	ASSERT(__atomic_load_n(&rq->lock.holder, __ATOMIC_RELAXED) == cpu_id() + 1);
#endif
}

static inline void rq_lock(struct runqueue *rq) __acquires(&rq->lock)
	__no_lock_analysis("implements the lock")
{
	while (__atomic_exchange_n(&rq->lock.locked, 1, __ATOMIC_ACQUIRE)) {
		while (__atomic_load_n(&rq->lock.locked, __ATOMIC_RELAXED))
			cpu_relax();
	}
	rq_set_holder(rq, cpu_id() + 1);
}

static inline bool rq_trylock(struct runqueue *rq) __try_acquires(&rq->lock)
	__no_lock_analysis("implements the lock")
{
	if (__atomic_load_n(&rq->lock.locked, __ATOMIC_RELAXED) != 0 ||
	    __atomic_exchange_n(&rq->lock.locked, 1, __ATOMIC_ACQUIRE) != 0)
		return false;
	rq_set_holder(rq, cpu_id() + 1);
	return true;
}

static inline void rq_unlock(struct runqueue *rq) __releases(&rq->lock)
	__no_lock_analysis("implements the lock")
{
	assert_rq_held(rq);
	rq_set_holder(rq, 0);
	__atomic_store_n(&rq->lock.locked, 0, __ATOMIC_RELEASE);
}

static inline struct thread *thread_of_entity(struct fair_entity *e)
{
	return container_of(e, struct thread, fair);
}

static inline bool may_run_on(const struct thread *t, unsigned int cpu)
{
	return cpu_mask_test(&t->allowed, cpu);
}

/* sched.c; queue locked, interrupts off. */
/* @t joins those that wait here, or leaves them for another queue. */
void rq_enqueue(struct runqueue *rq, struct thread *t) __must_hold(&rq->lock);
void rq_dequeue(struct runqueue *rq, struct thread *t) __must_hold(&rq->lock);
/* @t became runnable on @rq: does that change what runs there? */
void rq_check_preempt(struct runqueue *rq, struct thread *t) __must_hold(&rq->lock);
/* Its caller tells the analysis so by assert_rq_held(). */
struct runqueue *lock_rq_of(const struct thread *t, unsigned long *flags);
void unlock_rq(struct runqueue *rq, unsigned long flags) __releases(&rq->lock);
void resched_cpu(unsigned int cpu);
/* Leave the CPU for good. */
void sched_exit(void) __attribute__((noreturn));
/* If @t runs on another CPU, make that CPU pass through its exit path. */
void sched_kick(const struct thread *t);

/* sched_smp.c; interrupts off. */
/* Queue a woken thread where it runs soonest; @rq is its own; returns the queue now locked. */
struct runqueue *rq_place_woken(struct runqueue *rq, struct thread *t) __releases(&rq->lock);
/*
 * Queue @t, which is in the state THREAD_MOVING, on a CPU that it may run on; @rq is its own, and
 * locked; none is on return.
 */
void rq_place_moving(struct runqueue *rq, struct thread *t) __releases(&rq->lock);
/* Take another CPU's waiting thread of a class above @prio into @rq; false: there is none. */
bool rq_steal(struct runqueue *rq, unsigned int prio) __must_hold(&rq->lock);
/* Threads have to wait on @rq: wake an idle CPU that could take the first.  Queue locked. */
void rq_offer(const struct runqueue *rq) __must_hold(&rq->lock);
/* This CPU has nothing to run and is about to halt: true when it found something after all. */
bool sched_idle_enter(void);
void sched_idle_leave(void);

/* thread.c */
void thread_setup(struct thread *t, const char *name, enum thread_prio prio);
/* The switch away from @t is complete: its stack is free. */
void thread_dead(struct thread *t);
