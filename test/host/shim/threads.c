/* SPDX-License-Identifier: MIT */
/*
 * Host shim: threads over POSIX threads, and the sleeping that waits are made of.
 *
 * Locking:	all_lock (list of threads, exited, detached) outside any thread's sleep_lock; both
 *		are leaves for all other threads.
 * Invariants:	a struct thread is freed by thread_join(), by its own end after thread_detach(),
 *		or, for a thread that the shim did not make, when that host thread ends.
 */
#include <stdio.h>
#include <stdlib.h>

#include <kernel/panic.h>
#include <kernel/thread.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <lib/fmt.h>
#include <lib/string.h>
#include <mm/slab.h>
#include <shim/shim.h>

#include "shim_priv.h"

_Thread_local unsigned int shim_preempt_depth;
_Thread_local bool shim_in_interrupt;
bool shim_thread_waits;
bool shim_no_threads;

static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(all_threads); /* all_lock */
static uint32_t next_tid = 1;  /* all_lock */
static size_t nr_created;      /* made by thread_create() and not freed; all_lock */

static pthread_key_t self_key;
static pthread_once_t self_once = PTHREAD_ONCE_INIT;

static void thread_unlink_and_free(struct thread *t)
{
	list_del(&t->all_link);
	pthread_cond_destroy(&t->wakeup);
	pthread_cond_destroy(&t->has_exited);
	pthread_mutex_destroy(&t->sleep_lock);
	kfree(t->fault_hints);
	free(t);
}

/* End of a host thread that the shim did not make. */
static void adopted_end(void *arg)
{
	pthread_mutex_lock(&all_lock);
	thread_unlink_and_free(arg);
	pthread_mutex_unlock(&all_lock);
}

static void make_key(void)
{
	pthread_key_create(&self_key, adopted_end);
}

static struct thread *thread_new(const char *name)
{
	struct thread *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	strlcpy(t->name, name, sizeof(t->name));
	pthread_mutex_init(&t->sleep_lock, NULL);
	shim_cond_init(&t->wakeup);
	shim_cond_init(&t->has_exited);
	pthread_mutex_lock(&all_lock);
	t->tid = next_tid++;
	list_add_tail(&t->all_link, &all_threads);
	pthread_mutex_unlock(&all_lock);
	return t;
}

struct thread *thread_current(void)
{
	struct thread *t;

	pthread_once(&self_once, make_key);
	t = pthread_getspecific(self_key);
	if (!t) {
		t = thread_new("test");
		if (!t)
			abort();
		t->pthread = pthread_self();
		pthread_setspecific(self_key, t);
	}
	return t;
}

void thread_exit(void)
{
	struct thread *t = thread_current();

	BUG_ON(shim_preempt_depth != 0);
	pthread_setspecific(self_key, NULL);
	pthread_mutex_lock(&all_lock);
	t->exited = true;
	if (t->detached) {
		nr_created--;
		pthread_detach(t->pthread);
		thread_unlink_and_free(t);
	} else {
		pthread_cond_signal(&t->has_exited);
	}
	pthread_mutex_unlock(&all_lock);
	pthread_exit(NULL);
}

static void *thread_main(void *arg)
{
	struct thread *t = arg;

	pthread_setspecific(self_key, t);
	t->fn(t->arg);
	thread_exit();
}

struct thread *thread_create_stopped(const char *name, void (*fn)(void *arg), void *arg,
				     enum thread_prio prio)
{
	struct thread *t;

	(void)prio;
	pthread_once(&self_once, make_key);
	t = shim_no_threads ? NULL : thread_new(name);
	if (!t)
		return ERR_PTR(-ENOMEM);
	t->fn = fn;
	t->arg = arg;
	pthread_mutex_lock(&all_lock);
	nr_created++;
	pthread_mutex_unlock(&all_lock);
	return t;
}

void thread_start(struct thread *t)
{
	/* all_lock keeps the new thread from ending before ->pthread is known. */
	pthread_mutex_lock(&all_lock);
	if (pthread_create(&t->pthread, NULL, thread_main, t) != 0) {
		perror("shim: pthread_create");
		abort();
	}
	pthread_mutex_unlock(&all_lock);
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

void thread_join(struct thread *t)
{
	shim_check_may_sleep("thread_join");
	pthread_mutex_lock(&all_lock);
	while (!t->exited)
		pthread_cond_wait(&t->has_exited, &all_lock);
	pthread_mutex_unlock(&all_lock);
	pthread_join(t->pthread, NULL);
	pthread_mutex_lock(&all_lock);
	nr_created--;
	thread_unlink_and_free(t);
	pthread_mutex_unlock(&all_lock);
}

void thread_detach(struct thread *t)
{
	bool over;

	pthread_mutex_lock(&all_lock);
	t->detached = true;
	over = t->exited;
	if (over) {
		pthread_detach(t->pthread);
		nr_created--;
		thread_unlink_and_free(t);
	}
	pthread_mutex_unlock(&all_lock);
}

void thread_set_name(struct thread *t, const char *name)
{
	strlcpy(t->name, name, sizeof(t->name));
}

void thread_yield(void)
{
	sched_yield();
}

void shim_check_may_sleep(const char *what)
{
	if (!preemptible())
		panic("%s: sleeping with a spinlock held or in an interrupt", what);
}

void shim_sleep_locked(struct thread *t, uint64_t deadline_ns)
{
	struct timespec ts;

	while (!t->poked && time_now_ns() < deadline_ns) {
		if (shim_host_deadline(deadline_ns, &ts))
			pthread_cond_timedwait(&t->wakeup, &t->sleep_lock, &ts);
		else
			pthread_cond_wait(&t->wakeup, &t->sleep_lock);
	}
}

void shim_poke(struct thread *t)
{
	pthread_mutex_lock(&t->sleep_lock);
	t->poked = true;
	pthread_cond_signal(&t->wakeup);
	pthread_mutex_unlock(&t->sleep_lock);
}

void shim_poke_all(void)
{
	struct thread *t;

	pthread_mutex_lock(&all_lock);
	list_for_each_entry(t, &all_threads, all_link) {
		pthread_mutex_lock(&t->sleep_lock);
		pthread_cond_signal(&t->wakeup);
		pthread_mutex_unlock(&t->sleep_lock);
	}
	pthread_mutex_unlock(&all_lock);
}

void thread_sleep_until(uint64_t deadline_ns)
{
	struct thread *t = thread_current();

	shim_check_may_sleep("thread_sleep_until");
	pthread_mutex_lock(&t->sleep_lock);
	while (time_now_ns() < deadline_ns) {
		t->poked = false;
		shim_sleep_locked(t, deadline_ns);
	}
	pthread_mutex_unlock(&t->sleep_lock);
}

void thread_prepare_sleep(void)
{
	struct thread *t = thread_current();

	pthread_mutex_lock(&t->sleep_lock);
	t->poked = false;
	pthread_mutex_unlock(&t->sleep_lock);
}

void thread_cancel_sleep(void)
{
}

void schedule(void)
{
	struct thread *t = thread_current();

	shim_check_may_sleep("schedule");
	pthread_mutex_lock(&t->sleep_lock);
	shim_sleep_locked(t, UINT64_MAX);
	pthread_mutex_unlock(&t->sleep_lock);
}

bool thread_wake(struct thread *t)
{
	shim_poke(t);
	return true;
}

void thread_sleep_ns(uint64_t ns)
{
	thread_sleep_until(time_after_ns(ns));
}

void thread_set_user(struct pgtable *pt, struct fpu_state *fpu)
{
	struct thread *t = thread_current();

	if (pt)
		t->user.pgtable = pt;
	if (fpu)
		t->user.fpu = fpu;
}

void thread_clear_user(void)
{
	thread_current()->user = (struct user_context){ 0 };
}

void thread_notify(struct thread *t, uint32_t flags)
{
	__atomic_or_fetch(&t->flags, flags, __ATOMIC_SEQ_CST);
	shim_poke(t);
}

void thread_clear_flags(struct thread *t, uint32_t flags)
{
	__atomic_and_fetch(&t->flags, ~flags, __ATOMIC_SEQ_CST);
}

size_t thread_count(void)
{
	size_t n;

	pthread_mutex_lock(&all_lock);
	n = nr_created;
	pthread_mutex_unlock(&all_lock);
	return n;
}
