/* SPDX-License-Identifier: MIT */
/*
 * Scheduler: which CPU a thread runs on.
 *
 * Flow:	Waking: the CPU that the thread ran on last if that is idle (its caches may still be
 *		warm), else any idle one; with none idle, one that runs something of a lower
 *		class; else its last.  Waking an idle CPU claims its bit in idle_cpus, so
 *		two wakers do not choose the same one.
 *		Pulling: whenever a CPU chooses what to run next, it looks whether a thread of a
 *		higher class waits elsewhere: an idle CPU therefore takes any.
 *		Offering: a thread that has to wait while some CPU is idle makes that CPU look.  The
 *		CPU sets its idle bit, then looks at all queues, then halts; the other side
 *		queues, then looks at the bits: one of the two sees the other.
 *		Pushing: at the end of a time slice a CPU gives a waiting thread to the one with the
 *		least load (sum of weights), if that is less than what stays.  Only a CPU where
 *		threads share has slices, so a system in balance takes no ticks.
 * Locking:	Moving: between two queues a thread is in the state THREAD_MOVING, its ->cpu names
 *		where it goes, and no lock is held: then no CPU holds two run queue locks,
 *		but for stealing, which only tries the second.
 */
#include "sched_private.h"

#include <arch/clockevent.h>
#include <kernel/counter.h>
#include <kernel/panic.h>
#include <kernel/sched.h>
#include <lib/errno.h>

COUNTER(count_migrations, "sched.migrations", "threads moved to another CPU");
COUNTER(count_pulls, "sched.pulls", "threads that a CPU took from another's queue");
COUNTER(count_pushes, "sched.pushes", "threads that a busy CPU gave to another");

static struct cpu_mask idle_cpus; /* atomic: CPUs about to halt or halted */

static struct runqueue *rq_of(unsigned int cpu)
{
	return per_cpu_ptr(&runqueue, cpu);
}

/* --- choosing ------------------------------------------------------------------------- */

/* A CPU of @allowed that is idle, @first if that is, and now spoken for; MAX_CPUS if none. */
static unsigned int claim_idle(const struct cpu_mask *allowed, unsigned int first)
{
	const unsigned int me = cpu_id(); /* idle when an interrupt came to it */

	if (cpu_mask_test(allowed, first) && cpu_mask_claim(&idle_cpus, first))
		return first;
	if (cpu_mask_test(allowed, me) && cpu_mask_claim(&idle_cpus, me))
		return me;
	for_each_cpu_in(cpu, &idle_cpus)
	{
		if (cpu_mask_test(allowed, cpu) && cpu_mask_claim(&idle_cpus, cpu))
			return cpu;
	}
	return MAX_CPUS;
}

static unsigned int curr_prio(unsigned int cpu)
{
	const struct runqueue *rq = rq_of(cpu);

	/* May change at once; the idle thread's class is the lowest. */
	return READ_ONCE(rq->curr_prio);
}

/* The weights of all that are runnable there; may change at once. */
static uint64_t load_of(const struct runqueue *rq)
{
	uint64_t load = READ_ONCE(rq->curr_weight);

	for (unsigned int i = 0; i < NR_PRIOS; i++)
		load += READ_ONCE(rq->fair[i].weight);
	return load;
}

/* The queue that governs @t is locked: its mask must not change while the CPUs are gone through. */
static unsigned int choose_cpu(const struct thread *t)
{
	const unsigned int last = t->cpu;
	unsigned int best = MAX_CPUS;

	if (cpu_online_count() == 1)
		return last;
	best = claim_idle(&t->allowed, last);
	if (best != MAX_CPUS)
		return best;
	if (may_run_on(t, last) && curr_prio(last) < t->prio)
		return last;
	for_each_cpu(cpu) {
		if (may_run_on(t, cpu) && curr_prio(cpu) < t->prio)
			return cpu;
	}
	if (may_run_on(t, last))
		return last;
	for_each_cpu(cpu) {
		if (may_run_on(t, cpu) &&
		    (best == MAX_CPUS || load_of(rq_of(cpu)) < load_of(rq_of(best))))
			best = cpu;
	}
	BUG_ON(best == MAX_CPUS); /* thread_set_affinity() refuses such masks */
	return best;
}

/* --- moving --------------------------------------------------------------------------- */

/* Queue @t, which is moving to t->cpu; returns that queue, locked. */
static struct runqueue *arrive(struct thread *t) __no_lock_analysis("returns a queue locked")
{
	struct runqueue *rq;

	for (;;) {
		rq = rq_of(t->cpu);
		rq_lock(rq);
		if (likely(may_run_on(t, rq->cpu)))
			break;
		/* Its mask changed on the way. */
		WRITE_ONCE(t->cpu, choose_cpu(t));
		rq_unlock(rq);
	}
	rq_enqueue(rq, t);
	rq_check_preempt(rq, t);
	return rq;
}

/* @t is off @rq's queue: let it go to @cpu.  @rq is unlocked, the queue there locked. */
static struct runqueue *move_to(struct runqueue *rq, struct thread *t, unsigned int cpu)
	__releases(&rq->lock)
{
	assert_rq_held(rq);
	ASSERT(t->queued != THREAD_QUEUED && rq->curr != t);
	counter_inc(&count_migrations);
	fair_detach(&rq->fair[t->prio], &t->fair);
	t->queued = THREAD_MOVING;
	WRITE_ONCE(t->cpu, cpu);
	rq_unlock(rq);
	return arrive(t);
}

struct runqueue *rq_place_woken(struct runqueue *rq, struct thread *t)
	__no_lock_analysis("returns a queue locked, perhaps the same")
{
	const unsigned int cpu = choose_cpu(t);

	if (cpu != rq->cpu)
		return move_to(rq, t, cpu);
	rq_enqueue(rq, t);
	rq_check_preempt(rq, t);
	return rq;
}

void rq_place_moving(struct runqueue *rq, struct thread *t)
{
	rq = move_to(rq, t, choose_cpu(t));
	assert_rq_held(rq);
	rq_unlock(rq);
}

/* The first thread of @rq, of the highest class above @prio, that may run on @cpu. */
static struct thread *first_for(const struct runqueue *rq, unsigned int cpu, unsigned int prio)
	__must_hold(&rq->lock)
{
	for (unsigned int p = NR_PRIOS - 1; p > prio; p--) {
		for (struct fair_entity *e = fair_first(&rq->fair[p]); e; e = fair_next(e)) {
			struct thread *t = thread_of_entity(e);

			if (may_run_on(t, cpu))
				return t;
		}
	}
	return NULL;
}

/* Is anything above @prio waiting there that its own CPU does not take at once? */
static bool worth_a_look(const struct runqueue *rq, unsigned int prio)
{
	return READ_ONCE(rq->bitmap) >> (prio + 1) &&
	       (READ_ONCE(rq->curr_prio) != THREAD_PRIO_IDLE || READ_ONCE(rq->nr_queued) > 1);
}

bool rq_steal(struct runqueue *rq, unsigned int prio)
{
	const unsigned int nr = cpu_online_count();

	for (unsigned int i = 1; i < nr; i++) {
		struct runqueue *from = rq_of((rq->cpu + i) % nr);
		struct thread *t;

		if (!worth_a_look(from, prio) || !rq_trylock(from))
			continue;
		t = first_for(from, rq->cpu, prio);
		if (t) {
			rq_dequeue(from, t);
			/* We hold our queue's lock, so @t is ours at once. */
			WRITE_ONCE(t->cpu, rq->cpu);
		}
		rq_unlock(from);
		if (t) {
			rq_enqueue(rq, t);
			counter_inc(&count_pulls);
			return true;
		}
	}
	return false;
}

void rq_offer(const struct runqueue *rq)
{
	const unsigned int prio = 31u - (unsigned int)__builtin_clz(rq->bitmap);
	const struct thread *t;
	unsigned int cpu;

	smp_mb(); /* they are queued before the look: pairs with sched_idle_enter() */
	if (cpu_mask_empty(&idle_cpus))
		return;
	t = thread_of_entity(fair_first(&rq->fair[prio]));
	cpu = claim_idle(&t->allowed, rq->cpu);
	if (cpu != MAX_CPUS && cpu != cpu_id())
		ipi_resched(cpu);
}

/* --- idle CPUs ------------------------------------------------------------------------- */

bool sched_idle_enter(void)
{
	const unsigned int nr = cpu_online_count();
	const unsigned int me = cpu_id();

	if (nr == 1)
		return false;
	cpu_mask_set(&idle_cpus, me); /* a full barrier: pairs with rq_offer() */
	for (unsigned int i = 1; i < nr; i++) {
		struct runqueue *from = rq_of((me + i) % nr);
		struct thread *t;

		if (!worth_a_look(from, THREAD_PRIO_IDLE))
			continue;
		rq_lock(from);
		t = first_for(from, me, THREAD_PRIO_IDLE);
		if (t) {
			rq_dequeue(from, t);
			counter_inc(&count_pulls);
			from = move_to(from, t, me);
			assert_rq_held(from);
			rq_unlock(from);
			return true;
		}
		rq_unlock(from);
	}
	return false;
}

void sched_idle_leave(void)
{
	if (cpu_mask_test(&idle_cpus, cpu_id()))
		cpu_mask_clear(&idle_cpus, cpu_id());
}

/* --- balance ----------------------------------------------------------------------------- */

/* The CPU with the least to do; @rq's own if none has less. */
static unsigned int lightest_cpu(const struct runqueue *rq)
{
	unsigned int best = rq->cpu;
	uint64_t least = load_of(rq);

	for_each_cpu(cpu) {
		const uint64_t load = load_of(rq_of(cpu));

		if (load < least) {
			least = load;
			best = cpu;
		}
	}
	return best;
}

void sched_slice_end(void)
{
	struct runqueue *rq = this_cpu_ptr(&runqueue);
	unsigned int cpu;
	struct thread *t;

	percpu_write(exit_work.resched, 1);
	if (cpu_online_count() == 1 || !READ_ONCE(rq->nr_queued))
		return;
	cpu = lightest_cpu(rq);
	if (cpu == rq->cpu)
		return;
	rq_lock(rq);
	t = first_for(rq, cpu, THREAD_PRIO_IDLE);
	/* Only if less is left here than it meets there, without it. */
	if (t && load_of(rq_of(cpu)) + t->fair.weight < load_of(rq)) {
		rq_dequeue(rq, t);
		counter_inc(&count_pushes);
		rq = move_to(rq, t, cpu);
		assert_rq_held(rq);
	}
	rq_unlock(rq);
}

/* --- affinity ------------------------------------------------------------------------------ */

static bool has_online(const struct cpu_mask *mask)
{
	return cpu_mask_next(mask, 0) < cpu_online_count();
}

int thread_set_affinity(struct thread *t, const struct cpu_mask *mask)
{
	unsigned long flags;
	struct runqueue *rq;

	if (!has_online(mask))
		return -EINVAL;
	rq = lock_rq_of(t, &flags);
	assert_rq_held(rq);
	t->allowed = *mask;
	if (!may_run_on(t, t->cpu)) {
		if (t->queued == THREAD_QUEUED) {
			rq_dequeue(rq, t);
			rq = move_to(rq, t, choose_cpu(t));
			assert_rq_held(rq);
		} else if (rq->curr == t) {
			resched_cpu(t->cpu);
		}
	}
	unlock_rq(rq, flags);
	return 0;
}

void thread_affinity(const struct thread *t, struct cpu_mask *mask)
{
	unsigned long flags;
	struct runqueue *rq = lock_rq_of(t, &flags);

	assert_rq_held(rq);
	*mask = t->allowed;
	unlock_rq(rq, flags);
}

void thread_pin(unsigned int cpu)
{
	struct cpu_mask mask;

	cpu_mask_only(&mask, cpu);
	BUG_ON(thread_set_affinity(thread_current(), &mask));
}

unsigned int thread_cpu(const struct thread *t)
{
	return READ_ONCE(t->cpu);
}
