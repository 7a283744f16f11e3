/* SPDX-License-Identifier: MIT */
/*
 * Timers that raise signals: see timers_private.h.
 *
 * Flow:	the scheduler tells no timer that a process has used so much CPU time. A timer on
 *		such a clock looks again when the process could be there at the earliest; while the
 *		process uses none, the looks become rare.
 * Limits:	a timer on a CPU clock is late by some milliseconds, after a long sleep of the
 *		process by up to IDLE_MAX_NS. The more timers there are, the rarer each of them
 *		works without its program doing something.
 */
#define PR_FMT "timers: "

#include "timers_private.h"

#include <kernel/counter.h>
#include <kernel/initcall.h>
#include <kernel/time.h>
#include <lib/err.h>
#include <processor/account/account.h>

#include "signal_private.h"

#define LOOK_MIN_NS (1 * NSEC_PER_MSEC)  /* between two looks at a CPU clock */
#define IDLE_MAX_NS (64 * NSEC_PER_MSEC) /* between two that find it unchanged */
#define DROP_MIN_NS (4 * NSEC_PER_MSEC)  /* between two expirations that no task takes */

#define PACE_TIMERS 16u /* so many keep the times above, twice as many are half as fast */

static uint32_t nr_timers; /* atomic */

static uint64_t gauge_timers(void)
{
	return __atomic_load_n(&nr_timers, __ATOMIC_RELAXED);
}
GAUGE(timers_gauge, "signal.timers", "timers of programs that raise signals", gauge_timers);

/* Timers' own work costs the node little, however many a program makes. */
static uint64_t paced(uint64_t ns)
{
	return ns * (1 + __atomic_load_n(&nr_timers, __ATOMIC_RELAXED) / PACE_TIMERS);
}

/* Expirations take spinlocks only, so one thread serves all, in order. */
static struct workqueue *queue;

static int timers_init(void)
{
	ASSERT_BEFORE(monitor); /* where programs start */
	queue = workqueue_create("timers", 1);
	return IS_ERR(queue) ? (int)PTR_ERR(queue) : 0;
}
INITCALL(core, timers_init);

static bool on_cpu_clock(const struct ptimer *t)
{
	return clock_is_process(&t->clock) || clock_is_thread(&t->clock);
}

/*
 * Deadlines of the wall clock are kept as monotonic times. False: the thread whose clock it is has
 * ended.
 */
static bool base_now_locked(struct ptimer *t, uint64_t *now)
{
	assert_spin_held(&t->process->sig_lock);
	if (on_cpu_clock(t))
		return cpu_clock_read_locked(t->process, &t->clock, now);
	*now = time_now_ns();
	return true;
}

/* How long until a CPU clock at @now can be at the deadline. */
static uint64_t look_again_ns(struct ptimer *t, uint64_t now)
{
	const uint32_t tasks = clock_is_process(&t->clock) ? READ_ONCE(t->process->nr_tasks) : 1;
	const uint64_t left = t->deadline > now ? t->deadline - now : 0;

	if (now == t->last_cpu)
		t->idle_delay = MIN(MAX(t->idle_delay * 2, LOOK_MIN_NS), IDLE_MAX_NS);
	else
		t->idle_delay = 0;
	t->last_cpu = now;
	return MAX(MAX(left / MAX(tasks, 1u), paced(LOOK_MIN_NS)), t->idle_delay);
}

/* Have the hardware come back for the deadline. */
static void start_locked(struct ptimer *t, uint64_t now)
{
	assert_spin_held(&t->process->sig_lock);
	if (!t->armed || t->notify == SIGEV_NONE)
		return;
	timer_set(&t->timer, on_cpu_clock(t) ? time_after_ns(look_again_ns(t, now)) : t->deadline);
}

/* The first deadline of a periodic timer behind @now; returns how many passed by. */
static uint64_t forward(struct ptimer *t, uint64_t now)
{
	const uint64_t n = now >= t->deadline ? (now - t->deadline) / t->interval + 1 : 0;
	const uint64_t before = n ? t->before : 0;

	t->deadline += n * t->interval;
	t->before -= before;
	return n + before;
}

/* Its signal goes to nobody: a periodic timer goes on, but not so often that it costs much. */
void ptimer_dropped_locked(struct ptimer *t)
{
	uint64_t now;

	assert_spin_held(&t->process->sig_lock);
	if (!t->armed)
		return;
	if (!t->interval || !base_now_locked(t, &now)) {
		t->armed = false;
		return;
	}
	(void)forward(t, now);
	if (t->deadline < now + paced(DROP_MIN_NS))
		(void)forward(t, now + paced(DROP_MIN_NS));
	start_locked(t, now);
}

void ptimer_taken_locked(struct ptimer *t, struct linux_siginfo *info)
{
	uint64_t now, n;

	assert_spin_held(&t->process->sig_lock);
	t->overrun = 0;
	if (t->armed && t->interval && base_now_locked(t, &now)) {
		n = forward(t, now);
		t->overrun = n ? n - 1 : 0;
		start_locked(t, now);
	} else {
		t->armed = false;
	}
	if (t->kind == PTIMER_POSIX)
		info->overrun = (int32_t)MIN(t->overrun, (uint64_t)INT32_MAX);
}

static void expire_locked(struct ptimer *t, uint64_t now)
{
	struct process *p = t->process;
	const int signo = t->entry ? t->entry->info.signo : 0;

	assert_spin_held(&p->sig_lock);
	if (t->kind == PTIMER_CPU_LIMIT) {
		cpu_limit_expired_locked(t, now);
		start_locked(t, now);
		return;
	}
	/* An interval timer's signal is an ordinary one: pending once. */
	if (t->kind == PTIMER_ITIMER && (p->sig.pending.set & SIGMASK(signo)))
		ptimer_dropped_locked(t);
	else
		signal_post_timer_locked(p, t->tid, t->entry);
	if (!t->interval)
		t->armed = false;
}

static void look(struct work *w)
{
	struct ptimer *t = container_of(w, struct ptimer, work);
	struct process *p = t->process;
	uint64_t now;

	spin_lock(&p->sig_lock);
	/* It may have been set again, or its signal may be waiting to be taken. */
	if (t->armed && (!t->entry || list_empty(&t->entry->link)) && base_now_locked(t, &now)) {
		if (now >= t->deadline)
			expire_locked(t, now);
		else
			start_locked(t, now);
	}
	spin_unlock(&p->sig_lock);
}

static void interrupt(void *arg)
{
	struct ptimer *t = arg;

	(void)work_queue(queue, &t->work);
}

/* --- for the calls -------------------------------------------------------------------- */

/*
 * After the end of @p another process may still set its limits: timers made then would never be
 * freed, so none are.
 */
struct process_timers *timers_get_locked(struct process *p)
{
	assert_mutex_held(&p->lock);
	if (!p->sig.timers && !p->sig.timers_over) {
		p->sig.timers = kmem_alloc(process_kmem(p), sizeof(*p->sig.timers));
		if (p->sig.timers)
			list_init(&p->sig.timers->posix);
	}
	return p->sig.timers;
}

struct ptimer *ptimer_create(const struct ptimer *proto)
{
	struct ptimer *t = kmem_alloc(process_kmem(proto->process), sizeof(*t));

	if (!t)
		return NULL;
	*t = *proto;
	list_init(&t->link);
	timer_init(&t->timer, interrupt, t);
	work_init(&t->work, look);
	if (t->entry)
		t->entry->timer = t;
	__atomic_add_fetch(&nr_timers, 1, __ATOMIC_RELAXED);
	return t;
}

static void disarm_locked(struct ptimer *t)
{
	assert_spin_held(&t->process->sig_lock);
	t->armed = false;
	t->interval = 0;
	t->before = 0;
	t->overrun = 0;
	(void)timer_cancel_async(&t->timer);
	if (t->entry)
		sigqueue_remove_timer(t->entry);
}

void ptimer_destroy(struct ptimer *t)
{
	struct process *p = t->process;

	spin_lock(&p->sig_lock);
	disarm_locked(t); /* from here on it cannot be set again */
	spin_unlock(&p->sig_lock);
	(void)timer_cancel(&t->timer);
	if (!work_cancel(&t->work))
		work_flush(&t->work);
	if (t->entry)
		sigentry_free(t->entry);
	__atomic_sub_fetch(&nr_timers, 1, __ATOMIC_RELAXED);
	kmem_free(t);
}

static void get_locked(struct ptimer *t, struct ptimer_value *v)
{
	uint64_t now;

	assert_spin_held(&t->process->sig_lock);
	*v = (struct ptimer_value){ .interval = t->interval };
	if (!t->armed || !base_now_locked(t, &now))
		return;
	if (now < t->deadline)
		v->value = t->deadline - now;
	else if (t->interval)
		v->value = t->interval - (now - t->deadline) % t->interval;
	else
		v->value = t->notify == SIGEV_NONE ? 0 : 1; /* just about to */
}

void ptimer_get(struct ptimer *t, struct ptimer_value *v)
{
	spin_lock(&t->process->sig_lock);
	get_locked(t, v);
	spin_unlock(&t->process->sig_lock);
}

/* @value in the timer's clock as a deadline; its interval is set. */
static uint64_t deadline_of(struct ptimer *t, uint64_t value, bool absolute, uint64_t now)
{
	uint64_t real, ago;

	if (!absolute)
		return now + value;
	if (t->clock.kind != CLOCK_KIND_REAL)
		return value;
	real = time_real_ns();
	if (value > real)
		return now + (value - real);
	/* Monotonic time may not reach as far back: the last expiration that is past counts. */
	ago = real - value;
	if (!t->interval)
		return now;
	t->before = ago / t->interval;
	return now - MIN(ago % t->interval, now);
}

void ptimer_set(struct ptimer *t, const struct ptimer_value *v, bool absolute,
		struct ptimer_value *old)
{
	struct process *p = t->process;
	uint64_t now;

	spin_lock(&p->sig_lock);
	get_locked(t, old);
	disarm_locked(t);
	if (v->value && base_now_locked(t, &now)) {
		t->interval = v->interval;
		t->deadline = deadline_of(t, v->value, absolute, now);
		t->armed = true;
		t->last_cpu = 0;
		t->idle_delay = 0;
		start_locked(t, now);
	}
	spin_unlock(&p->sig_lock);
}

/* --- life of a process ------------------------------------------------------------------- */

static void destroy_posix(struct process_timers *timers)
{
	struct ptimer *t, *tmp;

	list_for_each_entry_safe(t, tmp, &timers->posix, link) {
		list_del(&t->link);
		ptimer_destroy(t);
	}
}

void timers_exec(struct process *p)
{
	mutex_lock(&p->lock);
	if (p->sig.timers)
		destroy_posix(p->sig.timers);
	mutex_unlock(&p->lock);
}

void timers_free(struct process *p)
{
	struct process_timers *timers;

	mutex_lock(&p->lock);
	timers = p->sig.timers;
	p->sig.timers = NULL;
	p->sig.timers_over = true;
	mutex_unlock(&p->lock);
	if (!timers)
		return;
	destroy_posix(timers);
	for (size_t i = 0; i < NR_ITIMERS; i++) {
		if (timers->itimers[i])
			ptimer_destroy(timers->itimers[i]);
	}
	if (timers->cpu_limit)
		ptimer_destroy(timers->cpu_limit);
	kmem_free(timers);
}
