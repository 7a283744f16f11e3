/* SPDX-License-Identifier: MIT */
/*
 * SIGALRM again and again, to interrupt a call that waits. A single alarm is not enough, whatever
 * its time: a process that loses the CPU just before its call takes the alarm before the call
 * begins. So a call between alarms_start() and alarms_end() must have no end of its own, or one
 * that is far away.
 */
#pragma once

#include "user.h"

#include <signal.h>
#include <sys/time.h>

#define ALARMS_US   30000L
#define ALARMS_TELL 3

static volatile sig_atomic_t alarms_seen;
static int alarms_fd;

static inline void alarms_handler(int signo)
{
	const int err = errno;

	(void)signo;
	if (++alarms_seen == ALARMS_TELL && alarms_fd >= 0)
		CHECK(write(alarms_fd, "a", 1) == 1);
	errno = err;
}

/*
 * With SA_RESTART in @flags the call goes on, so another process must end it: after some
 * interruptions the handler writes a byte to @tell; -1: no process waits for that.
 */
static inline void alarms_start(int flags, int tell)
{
	const struct sigaction sa = { .sa_handler = alarms_handler, .sa_flags = flags };
	const struct itimerval often = { { 0, ALARMS_US }, { 0, ALARMS_US } };

	alarms_seen = 0;
	alarms_fd = tell;
	CHECK(sigaction(SIGALRM, &sa, NULL) == 0);
	CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
}

/* After the call: its result and errno.  No alarm may interrupt the printing that follows. */
static inline long alarms_end(long ret)
{
	const struct itimerval never = { 0 };
	const int err = errno;

	CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
	CHECK(alarms_seen > 0);
	errno = err;
	return ret;
}
