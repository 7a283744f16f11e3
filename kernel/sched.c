/* SPDX-License-Identifier: MIT */
/*
 * Scheduler: a run queue per CPU, strict priority between classes, fair shares by weight
 * inside one (fair.c).  Which CPU a thread gets: sched_smp.c.
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
 *		Waking: a program's thread that has had less than its share takes the CPU from
 *		another's at once.  Threads of other classes, which run for short times, wait for
 *		their turn inside their class.
 *		Programs' turn: classes above programs that want all of the CPU leave them a part
 *		of it all the same (turns.h).
 *		Ticks: only while user threads run (timer.c), and only to tell user from system
 *		time: all that a thread has run since the last tick counts for the mode that
 *		this one finds.
 */
#include <kernel/sched.h>

#include <arch/clockevent.h>
#include <arch/cpu.h>
#include <arch/trap.h>
#include <kernel/bootparam.h>
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

#define SLICE_MIN_NS (50 * NSEC_PER_USEC)

static uint32_t slice_us = 3000;
BOOT_PARAM_RANGE("sched.slice_us", u32, slice_us, 100, 1000000,
		 "longest time that a thread runs while others of its class wait");

DEFINE_PERCPU(uint32_t, preempt_count);
DEFINE_PERCPU(struct exit_work, exit_work);
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
	if (percpu_read(exit_work.resched))
		preempt_schedule();
}

void resched_cpu(unsigned int cpu)
{
	if (cpu == cpu_id())
		percpu_write(exit_work.resched, 1);
	else
		ipi_resched(cpu);
}

/* --- time ---------------------------------------------------------------------------------- */

/* Charge the running thread for its time up to @now. */
static __always_inline void account(struct runqueue *rq, uint64_t now) __must_hold(&rq->lock)
{
	struct thread *curr = rq->curr;
	struct fair_queue *q = &rq->fair[curr->prio];
	const uint64_t ns = now - curr->run_start_ns;

	assert_rq_held(rq);
	/* Not one that is leaving the CPU; and the clock of another CPU may be ahead a little. */
	if (unlikely((int64_t)ns <= 0 || (q->curr != &curr->fair && !curr->is_idle)))
		return;
	curr->run_start_ns = now;
	curr->run_ns += ns;
	if (curr->is_idle) {
		counter_add(&count_idle_ns, ns);
		return;
	}
	fair_charge(q, ns);
	if (unlikely(curr->prio == THREAD_PRIO_REALTIME))
		fixed_settle(q, now);
	if (curr->prio > THREAD_PRIO_USER || turns_owed(&rq->turns))
		turns_charge(&rq->turns, curr->prio, rq->bitmap, (int64_t)ns);
}

/*
 * When to look again which thread is to run: there is a time only while one waits that might be the
 * better one then.
 */
static __always_inline void update_slice(struct runqueue *rq, const struct thread *running,
					 uint64_t now) __must_hold(&rq->lock)
{
	const unsigned int prio = running->prio;
	uint64_t ns = UINT64_MAX;

	if (!running->is_idle && rq->bitmap) {
		if (rq->bitmap & BIT(prio))
			ns = MAX(fair_left_ns(&rq->fair[prio]), SLICE_MIN_NS);
		ns = MIN(ns, turns_left_ns(&rq->turns, prio, rq->bitmap));
	}
	timer_slice_set(ns == UINT64_MAX ? UINT64_MAX : now + ns);
}

uint64_t thread_slice_ns(void)
{
	return slice_us * NSEC_PER_USEC;
}

/* --- the queue ------------------------------------------------------------------------------ */

static void queued_locked(struct runqueue *rq, struct thread *t) __must_hold(&rq->lock)
{
	assert_rq_held(rq);
	rq->bitmap |= BIT(t->prio);
	WRITE_ONCE(rq->nr_queued, rq->nr_queued + 1);
	t->queued = THREAD_QUEUED;
}

static void unqueued_locked(struct runqueue *rq, struct thread *t) __must_hold(&rq->lock)
{
	assert_rq_held(rq);
	if (!rq->fair[t->prio].nr)
		rq->bitmap &= ~BIT(t->prio);
	WRITE_ONCE(rq->nr_queued, rq->nr_queued - 1);
	t->queued = THREAD_UNQUEUED;
}

void rq_enqueue(struct runqueue *rq, struct thread *t)
{
	assert_rq_held(rq);
	ASSERT(t->queued != THREAD_QUEUED && t->state != THREAD_DEAD && !t->is_idle);
	ASSERT(t->cpu == rq->cpu && may_run_on(t, rq->cpu));
	/* How old it is depends on how old the others are; and from now on it waits for them. */
	if (!rq->curr->is_idle)
		account(rq, time_now_ns());
	if (unlikely(t->prio == THREAD_PRIO_REALTIME))
		fixed_wake(&t->fair, time_now_ns());
	fair_join(&rq->fair[t->prio], &t->fair);
	queued_locked(rq, t);
}

void rq_dequeue(struct runqueue *rq, struct thread *t)
{
	assert_rq_held(rq);
	ASSERT(t->queued == THREAD_QUEUED && rq->nr_queued > 0);
	fair_leave(&rq->fair[t->prio], &t->fair);
	unqueued_locked(rq, t);
}

static unsigned int best_queued(const struct runqueue *rq) __must_hold(&rq->lock)
{
	return rq->bitmap ? 31u - (unsigned int)__builtin_clz(rq->bitmap) : THREAD_PRIO_IDLE;
}

/* The class whose thread runs next, when @mine is that of the one that might go on. */
static unsigned int choose_class(struct runqueue *rq, unsigned int mine) __must_hold(&rq->lock)
{
	if (cpu_online_count() > 1 && !turns_programs_first(&rq->turns, rq->bitmap | BIT(mine)))
		(void)rq_steal(rq, MAX(best_queued(rq), mine));
	return turns_choose(&rq->turns, rq->bitmap | BIT(mine));
}

/* @next, of the same class as @prev, takes its place. */
static struct thread *replace_locked(struct runqueue *rq, struct thread *prev,
				     struct fair_entity *next) __must_hold(&rq->lock)
{
	struct thread *t = thread_of_entity(next);

	assert_rq_held(rq);
	fair_replace(&rq->fair[prev->prio], next);
	prev->queued = THREAD_QUEUED;
	t->queued = THREAD_UNQUEUED;
	return t;
}

/* Which thread runs next? @prev, NULL: none, may go on, or else waits from now on. */
static struct thread *pick_locked(struct runqueue *rq, struct thread *prev, bool yields)
	__must_hold(&rq->lock)
{
	const unsigned int mine = prev ? prev->prio : THREAD_PRIO_IDLE;
	struct fair_queue *q;
	struct fair_entity *e;
	unsigned int prio;
	struct thread *t;

	assert_rq_held(rq);
	prio = choose_class(rq, mine);
	if (prio == THREAD_PRIO_IDLE)
		return rq->idle;
	q = &rq->fair[prio];
	if (prio == mine) {
		e = yields ? fair_yield(q) : fair_pick(q);
		return e == &prev->fair ? prev : replace_locked(rq, prev, e);
	}
	if (prev) {
		fair_put(&rq->fair[mine], true);
		queued_locked(rq, prev);
	}
	t = thread_of_entity(fair_pick(q));
	ASSERT(t->cpu == rq->cpu && t->prio == prio && t->queued == THREAD_QUEUED);
	fair_take(q, &t->fair);
	unqueued_locked(rq, t);
	return t;
}

/* @t has just been queued: does it come before the thread that runs? */
static bool goes_before_curr(const struct runqueue *rq, const struct thread *t)
	__must_hold(&rq->lock)
{
	const struct thread *curr = rq->curr;

	if (curr->is_idle)
		return true;
	if (t->prio != curr->prio)
		return t->prio > curr->prio && !turns_keep(&rq->turns, curr->prio, t->prio);
	return (t->prio == THREAD_PRIO_USER || t->prio == THREAD_PRIO_REALTIME) &&
	       fair_preempts(&rq->fair[t->prio], &t->fair);
}

void rq_check_preempt(struct runqueue *rq, struct thread *t)
{
	if (goes_before_curr(rq, t)) {
		rq->resched_asked = true;
		resched_cpu(rq->cpu);
		return;
	}
	/* The first of its class to wait: there is a time to look again. */
	if (rq->fair[t->prio].nr == 1) {
		if (rq->cpu != cpu_id())
			ipi_resched(rq->cpu);
		else
			update_slice(rq, rq->curr, rq->curr->run_start_ns);
	}
	if (cpu_online_count() > 1)
		rq_offer(rq);
}

/* --- switching ------------------------------------------------------------------------------ */

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

/* In a system call no program's code is under way: the CPU's number alone can be wrong there. */
static void note_switch(struct thread *t, unsigned int cpu)
{
	if (t->user.noted_cpu != cpu || user_regs_of(t)->vector != TRAP_SYSCALL)
		__atomic_fetch_or(&t->flags, THREAD_F_SWITCHED, __ATOMIC_RELAXED);
}

static void switch_threads(struct runqueue *rq, struct thread *prev, struct thread *next,
			   uint64_t now) __releases(&rq->lock)
	__no_lock_analysis("the next thread drops the lock")
{
	counter_inc(&count_switches);
	next->run_start_ns = now;
	if (prev->is_idle)
		sched_idle_leave();
	if (next->user.pgtable)
		timer_tick_start();
	rq->curr = next;
	WRITE_ONCE(rq->curr_prio, next->prio);
	WRITE_ONCE(rq->curr_weight, next->is_idle ? 0 : next->fair.weight);
	rq->prev = prev;
	percpu_write(current_thread, next);
	if (unlikely(next->user.notes_switches))
		note_switch(next, rq->cpu);
	thread_switch_arch(prev, next);
	switch_context(&prev->kernel_sp, next->kernel_sp);
	/* Here @prev runs again, perhaps on another CPU. */
	finish_switch();
}

enum why {
	SLEEPS, /* unless it was woken meanwhile */
	YIELDS,
	PREEMPTED,
};

/* As Linux counts them: to yield is no sleep. */
static void count_switch(struct thread *prev, enum why why)
{
	prev->nr_switches++;
	if (why != SLEEPS || prev->state == THREAD_RUNNABLE)
		prev->nr_forced++;
}

/* Whether @prev might go on here; else it is off the queues from now on. */
static bool goes_on(struct runqueue *rq, struct thread *prev, enum why why) __must_hold(&rq->lock)
{
	struct fair_queue *q = &rq->fair[prev->prio];

	if (prev->is_idle)
		return false;
	if (why == SLEEPS && prev->state != THREAD_RUNNABLE) {
		fair_sleep(q);
		return false;
	}
	if (likely(may_run_on(prev, rq->cpu)))
		return true;
	fair_detach(q, &prev->fair);
	prev->queued = THREAD_MOVING;
	rq->prev_moves = true;
	return false;
}

/* Interrupts off, preempt count one. */
static void reschedule(enum why why)
{
	const uint64_t now = time_now_ns();
	struct runqueue *rq = this_cpu_ptr(&runqueue);
	struct thread *prev = rq->curr;
	struct thread *next;

	ASSERT(!local_irqs_enabled() && prev == thread_current());
	rq_lock(rq);
	percpu_write(exit_work.resched, 0);
	rq->resched_asked = false;
	account(rq, now);
	next = pick_locked(rq, goes_on(rq, prev, why) ? prev : NULL, why == YIELDS);
	update_slice(rq, next, now);
	if (rq->bitmap && cpu_online_count() > 1)
		rq_offer(rq);
	if (next == prev) {
		rq_unlock(rq);
	} else {
		count_switch(prev, why);
		switch_threads(rq, prev, next, now);
	}
}

static void give_way(enum why why)
{
	unsigned long flags;

	preempt_disable();
	flags = local_irq_save();
	reschedule(why);
	local_irq_restore(flags);
	preempt_enable_no_resched();
}

void schedule(void)
{
	lock_debug_may_sleep("schedule");
	give_way(SLEEPS);
}

void preempt_schedule_irq(void)
{
	preempt_disable();
	reschedule(PREEMPTED);
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
	lock_debug_may_sleep("thread_yield");
	give_way(YIELDS);
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

/* @t changes its class and its place there, wherever it runs or waits. */
static void change_class(struct runqueue *rq, struct thread *t, unsigned int prio,
			 const struct fair_fixed *fixed) __must_hold(&rq->lock)
{
	const struct fair_fixed none = { 0 };

	assert_rq_held(rq);
	if (t->queued == THREAD_QUEUED) {
		rq_dequeue(rq, t);
		t->prio = prio;
		t->fair.fixed = fixed ? *fixed : none;
		rq_enqueue(rq, t);
		rq_check_preempt(rq, t);
		return;
	}
	if (rq->curr == t)
		account(rq, time_now_ns());
	fair_detach(&rq->fair[t->prio], &t->fair);
	t->prio = prio;
	t->fair.fixed = fixed ? *fixed : none;
	if (rq->curr == t) {
		fixed_wake(&t->fair, time_now_ns());
		fair_run(&rq->fair[prio], &t->fair);
		WRITE_ONCE(rq->curr_prio, prio);
		rq->resched_asked = true;
		resched_cpu(t->cpu);
	}
}

void thread_set_prio(struct thread *t, enum thread_prio prio)
{
	unsigned long flags;
	struct runqueue *rq = lock_rq_of(t, &flags);

	assert_rq_held(rq);
	change_class(rq, t, prio, NULL);
	unlock_rq(rq, flags);
}

void thread_set_realtime(struct thread *t, const struct fair_fixed *fixed)
{
	unsigned long flags;
	struct runqueue *rq = lock_rq_of(t, &flags);

	assert_rq_held(rq);
	ASSERT(t->prio == THREAD_PRIO_USER || t->prio == THREAD_PRIO_REALTIME);
	change_class(rq, t, fixed ? THREAD_PRIO_REALTIME : THREAD_PRIO_USER, fixed);
	unlock_rq(rq, flags);
}

void thread_set_weight(struct thread *t, uint32_t weight, bool batch)
{
	unsigned long flags;
	struct runqueue *rq = lock_rq_of(t, &flags);

	assert_rq_held(rq);
	account(rq, time_now_ns());
	fair_set_weight(&rq->fair[t->prio], &t->fair, weight, t->queued == THREAD_QUEUED);
	t->fair.yields_to_woken = batch;
	if (rq->curr == t)
		WRITE_ONCE(rq->curr_weight, weight);
	if (rq->curr == t || t->queued == THREAD_QUEUED) {
		rq->resched_asked = true;
		resched_cpu(rq->cpu);
	}
	unlock_rq(rq, flags);
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

static uint64_t gauge_busy(void)
{
	const uint64_t now = time_now_ns();

	/* Up to now, so that a CPU that has slept for long counts as idle. */
	for_each_cpu(cpu) {
		struct runqueue *rq = per_cpu_ptr(&runqueue, cpu);
		const unsigned long flags = local_irq_save();

		if (READ_ONCE(rq->idle)) {
			rq_lock(rq);
			account(rq, now);
			rq_unlock(rq);
		}
		local_irq_restore(flags);
	}
	return now * cpu_online_count() - counter_read(&count_idle_ns);
}
GAUGE_SUM(busy_gauge, "sched.busy_ns", "nanoseconds that CPUs did not spend halted", gauge_busy);

static uint64_t gauge_queued(void)
{
	uint64_t nr = 0;

	for_each_cpu(cpu)
		nr += READ_ONCE(per_cpu_ptr(&runqueue, cpu)->nr_queued);
	return nr;
}
GAUGE(queued_gauge, "sched.queued", "threads that wait for a CPU", gauge_queued);

void sched_exit(void)
{
	preempt_disable();
	local_irq_disable();
	thread_current()->state = THREAD_DEAD;
	reschedule(SLEEPS);
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
	if (rq->resched_asked || !may_run_on(curr, rq->cpu) || (rq->bitmap && curr->is_idle)) {
		percpu_write(exit_work.resched, 1);
	} else if (rq->bitmap) {
		const uint64_t now = time_now_ns();

		account(rq, now);
		update_slice(rq, curr, now);
	}
	rq_unlock(rq);
}

/* --- idle ------------------------------------------------------------------------------ */

/* The running context becomes @t, the idle thread of this CPU. */
static void init_cpu(struct thread *t)
{
	struct runqueue *rq = this_cpu_ptr(&runqueue);

	for (unsigned int i = 0; i < NR_PRIOS; i++)
		fair_init(&rq->fair[i], thread_slice_ns());
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
		if (percpu_read(exit_work.resched) || sched_idle_enter()) {
			local_irq_enable();
			schedule();
		} else {
			cpu_wait_irq();
		}
	}
}
