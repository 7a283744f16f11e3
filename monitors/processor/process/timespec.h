/* SPDX-License-Identifier: MIT */
/*
 * Times as programs pass them: the one place that checks them.
 */
#pragma once

#include <kernel/time.h>
#include <kernel/wait.h>
#include <lib/compiler.h>
#include <lib/types.h>

/* The longest wait: longer times are cut to it. It can be added to any clock. */
#define TIMESPEC_MAX_NS (UINT64_MAX / 4)

/*
 * A struct timespec as nanoseconds. -EFAULT; -EINVAL: negative, or a billion nanoseconds or more.
 */
int user_timespec_get(uint64_t uts, uint64_t *ns) __must_check;
/* A struct timeval likewise. */
int user_timeval_get(uint64_t utv, uint64_t *ns) __must_check;
int user_timespec_put(uint64_t uts, uint64_t ns) __must_check;
int user_timeval_put(uint64_t utv, uint64_t ns) __must_check;
/*
 * A relative timeout as the monotonic time at which it is over; no timeout (@uts 0): WAIT_FOREVER.
 */
int user_timeout_get(uint64_t uts, uint64_t *deadline) __must_check;
/* A time of CLOCK_REALTIME likewise, as the clock goes now. */
int user_real_deadline_get(uint64_t uts, uint64_t *deadline) __must_check;
/* The time left until @deadline, 0 when it is over. */
static inline uint64_t time_left_ns(uint64_t deadline)
{
	const uint64_t now = time_now_ns();

	return deadline > now ? deadline - now : 0;
}
