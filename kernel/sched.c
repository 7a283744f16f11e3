/* SPDX-License-Identifier: MIT */
/*
 * Scheduler: a run queue per CPU, strict priority between classes, round robin
 * with time slices inside one.
 *
 * Locking:	rq->lock guards the queue and state, cpu, queued and prio of its
 *		threads.  It is held across the switch: taken by the thread that leaves,
 *		dropped by the one that arrives (so lock checking does not follow it).
 * Sleep:	a thread sets its state to SLEEPING, tests its condition, then calls
 *		schedule().  A wake-up in between makes it RUNNABLE again, so none is
 *		lost.  A preempted thread stays queued whatever its state says.
 * Ticks:	none.  A slice timer runs only while another thread of the same class
 *		waits.
 */
#include <kernel/sched.h>

#include <arch/clockevent.h>
#include <arch/cpu.h>
#include <kernel/counter.h>
#include <kernel/lock_debug.h>
#include <kernel/panic.h>
#include <kernel/percpu.h>
#include <kernel/time.h>

#include "sched_private.h"

#define SLICE_NS (10 * NSEC_PER_MSEC)

COUNTER(count_switches, "sched.switches", "context switches");
COUNTER(count_idle_ns, "sched.idle_ns", "nanoseconds that CPUs spent halted");

struct runqueue {
	uint32_t lock; /* raw spinlock, RANK_RUNQUEUE */
	uint32_t nr_queued;
	uint32_t bitmap; /* classes with a thread queued */
	struct thread *curr;
	struct thread *idle;
	struct thread *prev; /* handed over by the switch */
	struct list_head queues[NR_PRIOS];
};

DEFINE_PERCPU(uint32_t, preempt_count);
DEFINE_PERCPU(uint32_t, need_resched);
DEFINE_PERCPU(struct thread *, current_thread);
static DEFINE_PERCPU(struct runqueue, runqueue);
static struct thread boot_idle;
extern char boot_stack[];

void thread_entry(void);

static void rq_lock(struct runqueue *rq)
{
	while (__atomic_exchange_n(&rq->lock, 1, __ATOMIC_ACQUIRE)) {
		while (__atomic_load_n(&rq->lock, __ATOMIC_RELAXED))
			cpu_relax();
	}
}

static void rq_unlock(struct runqueue *rq)
{
	__atomic_store_n(&rq->lock, 0, __ATOMIC_RELEASE);
}

/* Lock the queue that governs @t; interrupts off on return. */
static struct runqueue *lock_rq_of(const struct thread *t, unsigned long *flags)
{
	*flags = local_irq_save();
	for (;;) {
		const uint32_t cpu = READ_ONCE(t->cpu);
		struct runqueue *rq = per_cpu_ptr(&runqueue, cpu);

		rq_lock(rq);
		if (t->cpu == cpu)
			return rq;
		rq_unlock(rq);
	}
}

static void unlock_rq(struct runqueue *rq, unsigned long flags)
{
	rq_unlock(rq);
	local_irq_restore(flags);
	if (percpu_read(need_resched))
		preempt_schedule();
}

static void resched_cpu(unsigned int cpu)
{
	if (cpu == cpu_id())
		percpu_write(need_resched, 1);
	else
		ipi_resched(cpu);
}

static void enqueue(struct runqueue *rq, struct thread *t, bool at_head)
{
	if (at_head)
		list_add(&t->run_link, &rq->queues[t->prio]);
	else
		list_add_tail(&t->run_link, &rq->queues[t->prio]);
	rq->bitmap |= BIT(t->prio);
	rq->nr_queued++;
	t->queued = true;
}

static void dequeue(struct runqueue *rq, struct thread *t)
{
	list_del(&t->run_link);
	if (list_empty(&rq->queues[t->prio]))
		rq->bitmap &= ~BIT(t->prio);
	rq->nr_queued--;
	t->queued = false;
}

static struct thread *pick(struct runqueue *rq)
{
	struct thread *t = rq->idle;

	if (rq->bitmap) {
		const unsigned int prio = 31u - (unsigned int)__builtin_clz(rq->bitmap);

		t = list_first_entry(&rq->queues[prio], struct thread, run_link);
		dequeue(rq, t);
	}
	return t;
}

/* A slice runs only while somebody of the same class waits. */
static void update_slice(struct runqueue *rq, const struct thread *running, uint64_t now)
{
	const bool shared = !running->is_idle && (rq->bitmap & BIT(running->prio));

	timer_slice_set(shared ? now + SLICE_NS : UINT64_MAX);
}

/* @t became runnable on @rq: does that change what runs there? */
static void check_preempt(struct runqueue *rq, const struct thread *t)
{
	const struct thread *curr = rq->curr;

	if (curr->is_idle || t->prio > curr->prio)
		resched_cpu(t->cpu);
	else if (t->prio == curr->prio && t->cpu == cpu_id() && rq->nr_queued == 1)
		timer_slice_set(time_now_ns() + SLICE_NS);
}

/* Runs on the stack of the thread that arrived, interrupts off, queue locked by its predecessor. */
static void finish_switch(void)
{
	struct runqueue *rq = this_cpu_ptr(&runqueue);
	struct thread *prev = rq->prev;
	const bool dead = prev->state == THREAD_DEAD;

	rq->prev = NULL;
	rq_unlock(rq);
	if (dead)
		thread_dead(prev);
}

static void switch_threads(struct runqueue *rq, struct thread *prev, struct thread *next)
{
	const uint64_t now = time_now_ns();

	counter_inc(&count_switches);
	prev->run_ns += now - prev->run_start_ns;
	if (prev->is_idle)
		counter_add(&count_idle_ns, now - prev->run_start_ns);
	next->run_start_ns = now;
	next->nr_switches++;
	rq->curr = next;
	rq->prev = prev;
	percpu_write(current_thread, next);
	thread_switch_arch(prev, next);
	switch_context(&prev->kernel_sp, next->kernel_sp);
	/* Here @prev runs again, perhaps on another CPU. */
	finish_switch();
}

/* Interrupts off, preempt count one. */
static void schedule_locked(bool preempted)
{
	struct runqueue *rq = this_cpu_ptr(&runqueue);
	struct thread *prev = rq->curr;
	struct thread *next;

	rq_lock(rq);
	percpu_write(need_resched, 0);
	if (!prev->is_idle && (preempted || prev->state == THREAD_RUNNABLE))
		enqueue(rq, prev, false);
	next = pick(rq);
	update_slice(rq, next, time_now_ns());
	if (next == prev)
		rq_unlock(rq);
	else
		switch_threads(rq, prev, next);
}

void schedule(void)
{
	unsigned long flags;

	lock_debug_may_sleep("schedule");
	preempt_disable();
	flags = local_irq_save();
	schedule_locked(false);
	local_irq_restore(flags);
	preempt_enable_no_resched();
}

void preempt_schedule_irq(void)
{
	preempt_disable();
	schedule_locked(true);
	preempt_enable_no_resched();
}

void preempt_schedule(void)
{
	unsigned long flags;

	if (!preemptible() || !local_irqs_enabled())
		return;
	flags = local_irq_save();
	preempt_schedule_irq();
	local_irq_restore(flags);
}

void thread_yield(void)
{
	schedule();
}

void thread_prepare_sleep(void)
{
	/* The store must be visible before the caller reads its condition. */
	__atomic_store_n(&thread_current()->state, THREAD_SLEEPING, __ATOMIC_SEQ_CST);
	smp_mb();
}

void thread_cancel_sleep(void)
{
	__atomic_store_n(&thread_current()->state, THREAD_RUNNABLE, __ATOMIC_SEQ_CST);
}

bool thread_wake(struct thread *t)
{
	unsigned long flags;
	struct runqueue *rq;
	bool woken = false;

	smp_mb(); /* the condition's stores before the look at the state */
	rq = lock_rq_of(t, &flags);
	if (t->state == THREAD_SLEEPING) {
		woken = true;
		t->state = THREAD_RUNNABLE;
		if (rq->curr != t && !t->queued) {
			enqueue(rq, t, false);
			check_preempt(rq, t);
		}
	}
	unlock_rq(rq, flags);
	return woken;
}

void sched_kick(const struct thread *t)
{
	unsigned long flags;
	struct runqueue *rq = lock_rq_of(t, &flags);

	if (rq->curr == t && t->cpu != cpu_id())
		ipi_resched(t->cpu);
	unlock_rq(rq, flags);
}

void thread_set_prio(struct thread *t, enum thread_prio prio)
{
	unsigned long flags;
	struct runqueue *rq = lock_rq_of(t, &flags);

	if (t->queued) {
		dequeue(rq, t);
		t->prio = prio;
		enqueue(rq, t, false);
		check_preempt(rq, t);
	} else {
		t->prio = prio;
		if (rq->curr == t)
			resched_cpu(t->cpu);
	}
	unlock_rq(rq, flags);
}

bool thread_waits_above(enum thread_prio prio)
{
	return percpu_read(runqueue.bitmap) >> (prio + 1) != 0;
}

uint64_t thread_cpu_ns(const struct thread *t)
{
	unsigned long flags;
	const struct runqueue *rq = lock_rq_of(t, &flags);
	uint64_t ns = t->run_ns;

	if (rq->curr == t)
		ns += time_now_ns() - t->run_start_ns;
	unlock_rq(per_cpu_ptr(&runqueue, t->cpu), flags);
	return ns;
}

void sched_exit(void)
{
	preempt_disable();
	local_irq_disable();
	thread_current()->state = THREAD_DEAD;
	schedule_locked(false);
	panic("a dead thread runs");
}

/* First code of a new thread, from thread_entry_asm. */
void thread_entry(void)
{
	struct thread *t = thread_current();

	finish_switch();
	local_irq_enable();
	preempt_enable();
	t->fn(t->arg);
	thread_exit();
}

void sched_init(void)
{
	struct runqueue *rq = this_cpu_ptr(&runqueue);
	struct thread *t = &boot_idle;

	for (unsigned int i = 0; i < NR_PRIOS; i++)
		list_init(&rq->queues[i]);
	thread_setup(t, "idle", PRIO_IDLE);
	t->is_idle = true;
	t->cpu = cpu_id();
	t->stack = (vaddr_t)boot_stack;
	t->stack_top = t->stack + THREAD_STACK_SIZE;
	t->run_start_ns = time_now_ns();
	rq->idle = t;
	rq->curr = t;
	percpu_write(current_thread, t);
	thread_switch_arch(t, t);
}

void sched_idle(void)
{
	for (;;) {
		local_irq_disable();
		if (percpu_read(need_resched)) {
			local_irq_enable();
			schedule();
		} else {
			cpu_wait_irq();
		}
	}
}
