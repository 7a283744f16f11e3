/* SPDX-License-Identifier: MIT */
/*
 * Scheduler: a run queue per CPU, strict priority between classes, round robin
 * with time slices inside one.  Which CPU a thread gets: sched_smp.c.
 *
 * Locking:	rq->lock guards the queue and state, cpu, queued, prio and allowed of its
 *		threads.  It is held across the switch: taken by the thread that leaves,
 *		dropped by the one that arrives (so lock checking does not follow it).
 *		Its holder therefore finds every thread but rq->curr off the CPU, with saved
 *		registers, and may give it to another CPU.
 *		Raw: run queue locks are taken with interrupts off and held for a few lines that
 *		wait for nothing, so their waiters need not serve IPIs meanwhile.
 * Ordering:	a thread sets its state to SLEEPING, tests its condition, then calls
 *		schedule().  A wake-up in between makes it RUNNABLE again, so none is
 *		lost.  A preempted thread stays queued whatever its state says.
 * Flow:	Slices: a slice timer runs only while another thread of the same class waits.
 *		Ticks: only while user threads run (timer.c), and only to tell user from system
 *		time: all that a thread has run since the last tick counts for the mode that
 *		this one finds.
 */
#include <kernel/sched.h>

#include <arch/clockevent.h>
#include <arch/cpu.h>
#include <kernel/counter.h>
#include <kernel/lock_debug.h>
#include <kernel/lock_rank.h>
#include <kernel/panic.h>
#include <kernel/percpu.h>
#include <kernel/time.h>

#include "sched_private.h"

COUNTER(count_switches, "sched.switches", "context switches");
COUNTER(count_idle_ns, "sched.idle_ns", "nanoseconds that CPUs spent halted");
COUNTER(count_user_ns, "sched.user_ns", "nanoseconds of user threads in user mode, by ticks");
COUNTER(count_system_ns, "sched.system_ns", "nanoseconds of user threads in the kernel, by ticks");

DEFINE_PERCPU(uint32_t, preempt_count);
DEFINE_PERCPU(uint32_t, need_resched);
DEFINE_PERCPU(struct thread *, current_thread);
DEFINE_PERCPU(struct runqueue, runqueue);
static struct thread boot_idle;
static_assert(RANK_THREADS < RANK_RUNQUEUE && RANK_RUNQUEUE < RANK_TIMER,
	      "threads wake under most locks, slices are set under the queue's");
extern char boot_stack[];

void thread_entry(void);

/* Lock the queue that governs @t; interrupts off on return. */
struct runqueue *lock_rq_of(const struct thread *t, unsigned long *flags)
	__no_lock_analysis("returns the queue locked")
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

void unlock_rq(struct runqueue *rq, unsigned long flags)
{
	rq_unlock(rq);
	local_irq_restore(flags);
	if (percpu_read(need_resched))
		preempt_schedule();
}

void resched_cpu(unsigned int cpu)
{
	if (cpu == cpu_id())
		percpu_write(need_resched, 1);
	else
		ipi_resched(cpu);
}

void rq_enqueue(struct runqueue *rq, struct thread *t)
{
	assert_rq_held(rq);
	ASSERT(t->queued != THREAD_QUEUED && t->state != THREAD_DEAD && !t->is_idle);
	ASSERT(t->cpu == rq->cpu && may_run_on(t, rq->cpu));
	list_add_tail(&t->run_link, &rq->queues[t->prio]);
	rq->bitmap |= BIT(t->prio);
	WRITE_ONCE(rq->nr_queued, rq->nr_queued + 1);
	t->queued = THREAD_QUEUED;
}

void rq_dequeue(struct runqueue *rq, struct thread *t)
{
	assert_rq_held(rq);
	ASSERT(t->queued == THREAD_QUEUED && rq->nr_queued > 0);
	list_del(&t->run_link);
	if (list_empty(&rq->queues[t->prio]))
		rq->bitmap &= ~BIT(t->prio);
	WRITE_ONCE(rq->nr_queued, rq->nr_queued - 1);
	t->queued = THREAD_UNQUEUED;
}

static unsigned int best_queued(const struct runqueue *rq) __must_hold(&rq->lock)
{
	return rq->bitmap ? 31u - (unsigned int)__builtin_clz(rq->bitmap) : THREAD_PRIO_IDLE;
}

static struct thread *pick_locked(struct runqueue *rq) __must_hold(&rq->lock)
{
	unsigned int prio;
	struct thread *t;

	assert_rq_held(rq);
	prio = best_queued(rq);
	t = cpu_online_count() > 1 ? rq_steal(rq, prio) : NULL;
	if (t)
		return t;
	if (!rq->bitmap)
		return rq->idle;
	t = list_first_entry(&rq->queues[prio], struct thread, run_link);
	ASSERT(t->cpu == rq->cpu && t->prio == prio);
	rq_dequeue(rq, t);
	return t;
}

/* A slice runs only while another thread of the same class waits. */
static void update_slice(struct runqueue *rq, const struct thread *running, uint64_t now)
	__must_hold(&rq->lock)
{
	const bool shared = !running->is_idle && (rq->bitmap & BIT(running->prio));

	timer_slice_set(shared ? now + READ_ONCE(running->slice_ns) : UINT64_MAX);
}

static bool waits_alone(const struct thread *t)
{
	return t->run_link.next == t->run_link.prev;
}

void rq_check_preempt(struct runqueue *rq, const struct thread *t)
{
	const struct thread *curr = rq->curr;

	if (curr->is_idle || t->prio > curr->prio) {
		resched_cpu(rq->cpu);
		return;
	}
	/* The first of its class to wait starts the slices. */
	if (t->prio == curr->prio && waits_alone(t)) {
		if (rq->cpu == cpu_id())
			timer_slice_set(time_now_ns() + READ_ONCE(curr->slice_ns));
		else
			ipi_resched(rq->cpu);
	}
	if (cpu_online_count() > 1)
		rq_offer(rq);
}

/* Runs on the stack of the thread that arrived, interrupts off, queue locked by its predecessor. */
static void finish_switch(void)
{
	struct runqueue *rq = this_cpu_ptr(&runqueue);
	struct thread *prev;
	bool dead, moves;

	assert_rq_held(rq);
	prev = rq->prev;
	ASSERT(prev != rq->curr && rq->curr == thread_current());
	dead = prev->state == THREAD_DEAD;
	moves = rq->prev_moves;
	rq->prev = NULL;
	rq->prev_moves = false;
	if (moves)
		rq_place_moving(rq, prev);
	else
		rq_unlock(rq);
	if (dead)
		thread_dead(prev);
}

static void switch_threads(struct runqueue *rq, struct thread *prev, struct thread *next)
	__releases(&rq->lock) __no_lock_analysis("the next thread drops the lock")
{
	const uint64_t now = time_now_ns();

	counter_inc(&count_switches);
	prev->run_ns += now - prev->run_start_ns;
	if (prev->is_idle)
		counter_add(&count_idle_ns, now - prev->run_start_ns);
	next->run_start_ns = now;
	next->nr_switches++;
	if (prev->is_idle)
		sched_idle_leave();
	if (next->user.pgtable)
		timer_tick_start();
	rq->curr = next;
	WRITE_ONCE(rq->curr_prio, next->prio);
	rq->prev = prev;
	percpu_write(current_thread, next);
	thread_switch_arch(prev, next);
	switch_context(&prev->kernel_sp, next->kernel_sp);
	/* Here @prev runs again, perhaps on another CPU. */
	finish_switch();
}

/* Interrupts off, preempt count one. */
static void reschedule(bool preempted)
{
	struct runqueue *rq = this_cpu_ptr(&runqueue);
	struct thread *prev = rq->curr;
	struct thread *next;

	ASSERT(!local_irqs_enabled() && prev == thread_current());
	rq_lock(rq);
	percpu_write(need_resched, 0);
	if (!prev->is_idle && (preempted || prev->state == THREAD_RUNNABLE)) {
		if (likely(may_run_on(prev, rq->cpu))) {
			rq_enqueue(rq, prev);
		} else {
			prev->queued = THREAD_MOVING;
			rq->prev_moves = true;
		}
	}
	next = pick_locked(rq);
	update_slice(rq, next, time_now_ns());
	if (rq->bitmap && cpu_online_count() > 1)
		rq_offer(rq);
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
	reschedule(false);
	local_irq_restore(flags);
	preempt_enable_no_resched();
}

void preempt_schedule_irq(void)
{
	preempt_disable();
	reschedule(true);
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
	assert_rq_held(rq);
	if (t->state == THREAD_SLEEPING) {
		woken = true;
		t->state = THREAD_RUNNABLE;
		if (rq->curr != t && t->queued == THREAD_UNQUEUED)
			rq = rq_place_woken(rq, t);
	}
	assert_rq_held(rq); /* perhaps another one now */
	unlock_rq(rq, flags);
	return woken;
}

void sched_kick(const struct thread *t)
{
	unsigned long flags;
	struct runqueue *rq = lock_rq_of(t, &flags);

	assert_rq_held(rq);
	if (rq->curr == t && t->cpu != cpu_id())
		ipi_resched(t->cpu);
	unlock_rq(rq, flags);
}

void thread_set_prio(struct thread *t, enum thread_prio prio)
{
	unsigned long flags;
	struct runqueue *rq = lock_rq_of(t, &flags);

	assert_rq_held(rq);
	if (t->queued == THREAD_QUEUED) {
		rq_dequeue(rq, t);
		t->prio = prio;
		rq_enqueue(rq, t);
		rq_check_preempt(rq, t);
	} else {
		t->prio = prio;
		if (rq->curr == t) {
			WRITE_ONCE(rq->curr_prio, prio);
			resched_cpu(t->cpu);
		}
	}
	unlock_rq(rq, flags);
}

void thread_set_slice(struct thread *t, uint64_t ns)
{
	WRITE_ONCE(t->slice_ns, ns);
}

bool thread_waits_above(enum thread_prio prio)
{
	return percpu_read(runqueue.bitmap) >> (prio + 1) != 0;
}

static uint64_t cpu_ns_locked(const struct runqueue *rq, const struct thread *t, uint64_t now)
	__must_hold(&rq->lock)
{
	assert_rq_held(rq);
	return t->run_ns + (rq->curr == t ? now - t->run_start_ns : 0);
}

uint64_t thread_cpu_ns(const struct thread *t)
{
	unsigned long flags;
	struct runqueue *rq = lock_rq_of(t, &flags);
	uint64_t ns;

	assert_rq_held(rq);
	ns = cpu_ns_locked(rq, t, time_now_ns());
	unlock_rq(rq, flags);
	return ns;
}

/* Count the time that @t has run since the last call for the kernel, or for user mode. */
static void split_locked(const struct runqueue *rq, struct thread *t, bool in_system, uint64_t now)
	__must_hold(&rq->lock)
{
	uint64_t ns;

	assert_rq_held(rq);
	ns = cpu_ns_locked(rq, t, now) - t->user_ns - t->system_ns;
	t->in_system = in_system;
	if (in_system) {
		t->system_ns += ns;
		counter_add(&count_system_ns, ns);
	} else {
		t->user_ns += ns;
		counter_add(&count_user_ns, ns);
	}
}

void thread_cpu_times(struct thread *t, uint64_t *user_ns, uint64_t *system_ns)
{
	unsigned long flags;
	struct runqueue *rq = lock_rq_of(t, &flags);

	assert_rq_held(rq);
	split_locked(rq, t, t->in_system, time_now_ns());
	*user_ns = t->user_ns;
	*system_ns = t->system_ns;
	unlock_rq(rq, flags);
}

bool sched_tick(bool user, uint64_t now)
{
	struct runqueue *rq = this_cpu_ptr(&runqueue);
	bool is_user;

	rq_lock(rq);
	is_user = rq->curr->user.pgtable != NULL;
	if (is_user)
		split_locked(rq, rq->curr, !user, now);
	rq_unlock(rq);
	return is_user;
}

void sched_exit(void)
{
	preempt_disable();
	local_irq_disable();
	thread_current()->state = THREAD_DEAD;
	reschedule(false);
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

/* --- interrupts ---------------------------------------------------------------------- */

void sched_interrupt(void)
{
	struct runqueue *rq = this_cpu_ptr(&runqueue);
	const struct thread *curr;

	if (!rq->idle)
		return;
	rq_lock(rq);
	curr = rq->curr;
	if (!may_run_on(curr, rq->cpu) ||
	    (rq->bitmap && (curr->is_idle || best_queued(rq) > curr->prio)))
		percpu_write(need_resched, 1);
	else if (rq->bitmap && best_queued(rq) == curr->prio && !timer_slice_active())
		timer_slice_set(time_now_ns() + READ_ONCE(curr->slice_ns));
	rq_unlock(rq);
}

/* --- idle ------------------------------------------------------------------------------ */

/* The running context becomes @t, the idle thread of this CPU. */
static void init_cpu(struct thread *t)
{
	struct runqueue *rq = this_cpu_ptr(&runqueue);

	for (unsigned int i = 0; i < NR_PRIOS; i++)
		list_init(&rq->queues[i]);
	rq->cpu = cpu_id();
	t->is_idle = true;
	t->cpu = cpu_id();
	t->run_start_ns = time_now_ns();
	rq->curr = t;
	percpu_write(current_thread, t);
	thread_switch_arch(t, t);
	rq->idle = t;
}

void sched_init(void)
{
	struct thread *t = &boot_idle;

	thread_setup(t, "idle0", THREAD_PRIO_IDLE);
	t->stack = (vaddr_t)boot_stack;
	t->stack_top = t->stack + THREAD_STACK_SIZE;
	init_cpu(t);
}

void sched_init_cpu(struct thread *idle)
{
	init_cpu(idle);
	timer_start_cpu();
}

void sched_idle(void)
{
	for (;;) {
		local_irq_disable();
		if (percpu_read(need_resched) || sched_idle_enter()) {
			local_irq_enable();
			schedule();
		} else {
			cpu_wait_irq();
		}
	}
}
