/* SPDX-License-Identifier: MIT */
/*
 * Host shim: timers, run one after the other by a host thread that stands for the timer interrupt.
 *
 * Locking:	timers_lock guards the tree, pending and which timer is running; not held in
 *		callbacks.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <kernel/panic.h>
#include <kernel/preempt.h>
#include <kernel/time.h>
#include <kernel/timer.h>
#include <kernel/timer_next.h>

#include "shim_priv.h"

static pthread_mutex_t timers_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t timers_changed; /* the tree, or the clock */
static pthread_cond_t callback_over;
static struct rb_root timers;  /* by deadline, then address; timers_lock */
static struct timer *running;  /* timers_lock */
static pthread_t timer_thread; /* const after start */
static pthread_once_t timer_once = PTHREAD_ONCE_INIT;

static int by_deadline(const struct rb_node *a, const struct rb_node *b)
{
	const struct timer *x = container_of(a, struct timer, node);
	const struct timer *y = container_of(b, struct timer, node);

	if (x->deadline_ns != y->deadline_ns)
		return x->deadline_ns < y->deadline_ns ? -1 : 1;
	if (x == y)
		return 0;
	return (uintptr_t)x < (uintptr_t)y ? -1 : 1;
}

static void run_first_locked(struct timer *t)
{
	void (*fn)(void *arg) = t->fn;
	void *arg = t->arg;

	rb_erase(&t->node, &timers);
	t->pending = false;
	running = t;
	pthread_mutex_unlock(&timers_lock);
	fn(arg); /* may free @t */
	pthread_mutex_lock(&timers_lock);
	running = NULL;
	pthread_cond_broadcast(&callback_over);
}

static void *timer_main(void *arg)
{
	(void)arg;
	shim_in_interrupt = true;
	pthread_mutex_lock(&timers_lock);
	for (;;) {
		struct rb_node *first = rb_first(&timers);
		struct timer *t = first ? container_of(first, struct timer, node) : NULL;
		struct timespec ts;

		if (t && t->deadline_ns <= time_now_ns())
			run_first_locked(t);
		else if (t && shim_host_deadline(t->deadline_ns, &ts))
			pthread_cond_timedwait(&timers_changed, &timers_lock, &ts);
		else
			pthread_cond_wait(&timers_changed, &timers_lock);
	}
	return NULL;
}

static void start_thread(void)
{
	shim_cond_init(&timers_changed);
	shim_cond_init(&callback_over);
	if (pthread_create(&timer_thread, NULL, timer_main, NULL) != 0) {
		perror("shim: timer thread");
		abort();
	}
}

void shim_timers_kick(void)
{
	pthread_once(&timer_once, start_thread);
	pthread_mutex_lock(&timers_lock);
	pthread_cond_signal(&timers_changed);
	pthread_mutex_unlock(&timers_lock);
}

void timer_init(struct timer *t, void (*fn)(void *arg), void *arg)
{
	*t = (struct timer){ .fn = fn, .arg = arg };
}

static bool remove_locked(struct timer *t)
{
	const bool was = t->pending;

	if (was)
		rb_erase(&t->node, &timers);
	t->pending = false;
	return was;
}

void timer_set(struct timer *t, uint64_t deadline_ns)
{
	pthread_once(&timer_once, start_thread);
	pthread_mutex_lock(&timers_lock);
	(void)remove_locked(t);
	t->deadline_ns = deadline_ns;
	t->pending = true;
	(void)rb_insert(&t->node, &timers, by_deadline);
	pthread_cond_signal(&timers_changed);
	pthread_mutex_unlock(&timers_lock);
}

bool timer_cancel_async(struct timer *t)
{
	bool was;

	pthread_mutex_lock(&timers_lock);
	was = remove_locked(t);
	pthread_mutex_unlock(&timers_lock);
	return was;
}

bool timer_cancel(struct timer *t)
{
	bool was;

	pthread_mutex_lock(&timers_lock);
	was = remove_locked(t);
	if (running == t && shim_in_interrupt)
		panic("timer_cancel() from the timer's own callback");
	while (running == t)
		pthread_cond_wait(&callback_over, &timers_lock);
	/* The callback may have set it again. */
	was |= remove_locked(t);
	pthread_mutex_unlock(&timers_lock);
	return was;
}

uint64_t timer_next_ns(void)
{
	return UINT64_MAX;
}

bool timer_pending(const struct timer *t)
{
	bool pending;

	pthread_mutex_lock(&timers_lock);
	pending = t->pending;
	pthread_mutex_unlock(&timers_lock);
	return pending;
}
