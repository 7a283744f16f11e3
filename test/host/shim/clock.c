/* SPDX-License-Identifier: MIT */
/*
 * Host shim: the test clock, which is CLOCK_MONOTONIC plus what tests have added, or stands still.
 *
 * Locking:	clock_lock, a leaf.
 */
#include <pthread.h>
#include <time.h>

#include <kernel/time.h>
#include <shim/shim.h>

#include "shim_priv.h"

struct tsc_scale tsc_scale = { .mult = 1, .khz = 1000000 };

static pthread_mutex_t clock_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t offset_ns; /* added to the host's clock, never negative; clock_lock */
static bool frozen;        /* clock_lock */
static uint64_t frozen_ns; /* clock_lock */
static uint64_t real_step_ns;

static uint64_t host_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

uint64_t tsc_read(void)
{
	uint64_t now;

	pthread_mutex_lock(&clock_lock);
	now = frozen ? frozen_ns : host_ns(CLOCK_MONOTONIC) + offset_ns;
	pthread_mutex_unlock(&clock_lock);
	return now;
}

void shim_time_advance_ns(uint64_t delta_ns)
{
	pthread_mutex_lock(&clock_lock);
	offset_ns += delta_ns;
	frozen_ns += delta_ns;
	pthread_mutex_unlock(&clock_lock);
	shim_timers_kick();
	shim_poke_all();
}

void shim_time_freeze(bool on)
{
	pthread_mutex_lock(&clock_lock);
	if (on && !frozen)
		frozen_ns = host_ns(CLOCK_MONOTONIC) + offset_ns;
	/*
	 * Real time went on meanwhile: the clock jumps over it rather than run behind the host's.
	 */
	if (!on && frozen && frozen_ns > host_ns(CLOCK_MONOTONIC) + offset_ns)
		offset_ns = frozen_ns - host_ns(CLOCK_MONOTONIC);
	frozen = on;
	pthread_mutex_unlock(&clock_lock);
	shim_timers_kick();
	shim_poke_all();
}

bool shim_host_deadline(uint64_t ns, struct timespec *ts)
{
	uint64_t host;
	bool moving;

	pthread_mutex_lock(&clock_lock);
	moving = !frozen;
	host = ns > offset_ns ? ns - offset_ns : 0;
	pthread_mutex_unlock(&clock_lock);
	if (!moving || ns == UINT64_MAX)
		return false;
	ts->tv_sec = (time_t)(host / NSEC_PER_SEC);
	ts->tv_nsec = (long)(host % NSEC_PER_SEC);
	return true;
}

void shim_cond_init(pthread_cond_t *cond)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(cond, &attr);
	pthread_condattr_destroy(&attr);
}

uint64_t time_real_ns(void)
{
	return host_ns(CLOCK_REALTIME) + __atomic_load_n(&real_step_ns, __ATOMIC_RELAXED);
}

uint64_t time_boot_real_ns(void)
{
	return time_real_ns() - time_now_ns();
}

void time_set_real_ns(uint64_t real_ns)
{
	__atomic_store_n(&real_step_ns, real_ns - host_ns(CLOCK_REALTIME), __ATOMIC_RELAXED);
}

void delay_ns(uint64_t ns)
{
	const struct timespec ts = { .tv_sec = (time_t)(ns / NSEC_PER_SEC),
				     .tv_nsec = (long)(ns % NSEC_PER_SEC) };

	nanosleep(&ts, NULL);
}
