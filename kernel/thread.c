/* SPDX-License-Identifier: MIT */
/*
 * Threads: creation, exit, joining, and the table of all of them.
 *
 * Locking:	all_lock guards the list and the exited/detached pair.
 * Flow:	Exit: the last switch away from a dead thread (sched.c) calls
 *		thread_dead(); then either the joiner frees it, or the reaper thread when
 *		it was detached: a stack cannot be freed by the one who stands on it.
 *		Stacks: THREAD_STACK_SIZE from vmalloc, a guard page below; a few freed ones are
 *		kept, because programs create threads in bursts.
 */
#include <kernel/thread.h>

#include <arch/fpu.h>
#include <kernel/counter.h>
#include <kernel/initcall.h>
#include <kernel/panic.h>
#include <kernel/sched.h>
#include <kernel/spinlock.h>
#include <kernel/time.h>
#include <kernel/wait.h>
#include <lib/err.h>
#include <lib/errno.h>
#include <lib/string.h>
#include <mm/kmap.h>
#include <mm/slab.h>

#include "sched_private.h"

static struct spinlock all_lock = SPINLOCK_INIT("threads", RANK_THREADS);
static LIST_HEAD(all_threads);
static size_t nr_threads;
static uint32_t next_tid = 1;

static struct waitqueue join_wq = WAITQUEUE_INIT(join_wq);
static struct waitqueue reap_wq = WAITQUEUE_INIT(reap_wq);
static LIST_HEAD(zombies); /* all_lock; through zombie_link */

#define STACK_CACHE 8u
static void *stack_cache[STACK_CACHE]; /* all_lock */
static unsigned int nr_cached;

static void *stack_alloc(void)
{
	const unsigned long flags = spin_lock_irqsave(&all_lock);
	void *s = nr_cached ? stack_cache[--nr_cached] : NULL;

	spin_unlock_irqrestore(&all_lock, flags);
	return s ? s : vmalloc(THREAD_STACK_SIZE);
}

static void stack_free(void *s)
{
	const unsigned long flags = spin_lock_irqsave(&all_lock);

	if (nr_cached < STACK_CACHE) {
		stack_cache[nr_cached++] = s;
		s = NULL;
	}
	spin_unlock_irqrestore(&all_lock, flags);
	vfree(s);
}

static void wake_sleeper(void *arg)
{
	(void)thread_wake(arg);
}

static void thread_register(struct thread *t)
{
	const unsigned long flags = spin_lock_irqsave(&all_lock);

	t->tid = next_tid++;
	list_add_tail(&t->all_link, &all_threads);
	nr_threads++;
	spin_unlock_irqrestore(&all_lock, flags);
}

void thread_setup(struct thread *t, const char *name, enum thread_prio prio)
{
	list_init(&t->zombie_link);
	timer_init(&t->sleep_timer, wake_sleeper, t);
	strlcpy(t->name, name, sizeof(t->name));
	t->prio = prio;
	fair_entity_init(&t->fair, FAIR_WEIGHT_MEAN, thread_slice_ns());
	cpu_mask_fill(&t->allowed);
}

struct thread *thread_create_stopped(const char *name, void (*fn)(void *arg), void *arg,
				     enum thread_prio prio)
{
	struct thread *t = kzalloc(sizeof(*t));
	void *stack;

	if (!t)
		return ERR_PTR(-ENOMEM);
	stack = stack_alloc();
	if (!stack) {
		kfree(t);
		return ERR_PTR(-ENOMEM);
	}
	thread_setup(t, name, prio);
	t->fn = fn;
	t->arg = arg;
	t->stack = (vaddr_t)stack;
	t->stack_top = t->stack + THREAD_STACK_SIZE;
	t->kernel_sp = thread_stack_init(t->stack_top);
	t->state = THREAD_NEW;
	t->cpu = cpu_id();
	thread_register(t);
	return t;
}

void thread_start(struct thread *t)
{
	ASSERT(t->state == THREAD_NEW);
	/* A thread that was notified before must not run, end and be freed under its creator. */
	__atomic_store_n(&t->state, THREAD_SLEEPING, __ATOMIC_SEQ_CST);
	(void)thread_wake(t);
}

static void thread_free(struct thread *t)
{
	stack_free((void *)t->stack);
	kfree(t->fault_hints);
	kfree(t);
}

void thread_discard(struct thread *t)
{
	const unsigned long flags = spin_lock_irqsave(&all_lock);

	list_del(&t->all_link);
	nr_threads--;
	spin_unlock_irqrestore(&all_lock, flags);
	thread_free(t);
}

struct thread *thread_create_prio(const char *name, void (*fn)(void *arg), void *arg,
				  enum thread_prio prio)
{
	struct thread *t = thread_create_stopped(name, fn, arg, prio);

	if (!IS_ERR(t))
		thread_start(t);
	return t;
}

struct thread *thread_create(const char *name, void (*fn)(void *arg), void *arg)
{
	return thread_create_prio(name, fn, arg, THREAD_PRIO_NORMAL);
}

void thread_exit(void)
{
	struct thread *t = thread_current();

	lock_debug_may_sleep("thread_exit");
	thread_clear_user();
	(void)timer_cancel(&t->sleep_timer);
#ifdef CONFIG_DEBUG
	if (t->nr_held)
		panic("thread %s exits with %u locks held", t->name, t->nr_held);
#endif
	sched_exit();
}

void thread_dead(struct thread *t)
{
	const unsigned long flags = spin_lock_irqsave(&all_lock);
	const bool detached = t->detached;

	ASSERT(t->state == THREAD_DEAD && t->queued == THREAD_UNQUEUED && !t->exited);
	list_del(&t->all_link);
	nr_threads--;
	if (detached)
		list_add_tail(&t->zombie_link, &zombies);
	__atomic_store_n(&t->exited, true, __ATOMIC_RELEASE);
	spin_unlock_irqrestore(&all_lock, flags);
	/* From here on @t may be freed by its joiner. */
	wake_all(detached ? &reap_wq : &join_wq);
}

void thread_join(struct thread *t)
{
	BUG_ON(t == thread_current());
	wait_event(&join_wq, __atomic_load_n(&t->exited, __ATOMIC_ACQUIRE));
	thread_free(t);
}

void thread_detach(struct thread *t)
{
	const unsigned long flags = spin_lock_irqsave(&all_lock);
	const bool exited = t->exited;

	BUG_ON(t->detached);
	t->detached = true;
	spin_unlock_irqrestore(&all_lock, flags);
	if (exited)
		thread_free(t);
}

struct thread *sched_create_idle(void)
{
	struct thread *t = kzalloc(sizeof(*t));
	void *stack = vmalloc(THREAD_STACK_SIZE);

	if (!t || !stack) {
		kfree(t);
		vfree(stack);
		return NULL;
	}
	thread_setup(t, "idle", THREAD_PRIO_IDLE);
	t->stack = (vaddr_t)stack;
	t->stack_top = t->stack + THREAD_STACK_SIZE;
	return t;
}

void sched_free_idle(struct thread *idle)
{
	vfree((void *)idle->stack);
	kfree(idle);
}

static struct thread *next_zombie(void)
{
	const unsigned long flags = spin_lock_irqsave(&all_lock);
	struct thread *t = list_first_entry_or_null(&zombies, struct thread, zombie_link);

	if (t)
		list_del(&t->zombie_link);
	spin_unlock_irqrestore(&all_lock, flags);
	return t;
}

static void reaper(void *arg)
{
	for (;;) {
		struct thread *t = NULL;

		wait_event(&reap_wq, (t = next_zombie()) != NULL);
		thread_free(t);
	}
}

static int reaper_start(void)
{
	struct thread *t;

	ASSERT_BEFORE(driver); /* whose threads end */
	t = thread_create("reaper", reaper, NULL);
	return IS_ERR(t) ? (int)PTR_ERR(t) : 0;
}
INITCALL(core, reaper_start);

void thread_set_name(struct thread *t, const char *name)
{
	strlcpy(t->name, name, sizeof(t->name));
}

void thread_sleep_until(uint64_t deadline_ns)
{
	struct waitqueue wq;

	waitqueue_init(&wq);
	(void)wait_event_timeout(&wq, false, deadline_ns);
}

void thread_sleep_ns(uint64_t ns)
{
	thread_sleep_until(time_after_ns(ns));
}

void thread_notify(struct thread *t, uint32_t flags)
{
	__atomic_fetch_or(&t->flags, flags, __ATOMIC_SEQ_CST);
	if (!thread_wake(t))
		sched_kick(t);
}

void thread_clear_flags(struct thread *t, uint32_t flags)
{
	__atomic_fetch_and(&t->flags, ~flags, __ATOMIC_SEQ_CST);
}

void thread_note_switches(struct thread *t, bool on)
{
	WRITE_ONCE(t->user.notes_switches, on);
	if (on)
		__atomic_fetch_or(&t->flags, THREAD_F_SWITCHED, __ATOMIC_RELAXED);
}

void thread_pretend_switch(void)
{
	struct thread *t = thread_current();

	if (READ_ONCE(t->user.notes_switches))
		__atomic_fetch_or(&t->flags, THREAD_F_SWITCHED, __ATOMIC_RELAXED);
}

int thread_take_switch(void)
{
	struct thread *t = thread_current();
	int cpu;

	if (likely(!(READ_ONCE(t->flags) & THREAD_F_SWITCHED)))
		return -1;
	/* A switch right behind this compares with the CPU that is told here. */
	preempt_disable();
	thread_clear_flags(t, THREAD_F_SWITCHED);
	cpu = (int)cpu_id();
	t->user.noted_cpu = (uint32_t)cpu;
	preempt_enable();
	return cpu;
}

size_t thread_count(void)
{
	return READ_ONCE(nr_threads);
}

static uint64_t gauge_threads(void)
{
	return thread_count();
}
GAUGE(threads_gauge, "threads", "kernel threads alive, user threads included", gauge_threads);

void thread_for_each(void (*fn)(struct thread *t, void *arg), void *arg)
{
	const unsigned long flags = spin_lock_irqsave(&all_lock);
	struct thread *t;

	list_for_each_entry(t, &all_threads, all_link)
		fn(t, arg);
	spin_unlock_irqrestore(&all_lock, flags);
}
