/* SPDX-License-Identifier: MIT */
/* Clocks and timers: Linux's <linux/time.h>, <linux/times.h>, <linux/timerfd.h>. */
#pragma once

#include <lib/compiler.h>
#include <stdint.h>

#define CLOCK_REALTIME           0
#define CLOCK_MONOTONIC          1
#define CLOCK_PROCESS_CPUTIME_ID 2
#define CLOCK_THREAD_CPUTIME_ID  3
#define CLOCK_MONOTONIC_RAW      4
#define CLOCK_REALTIME_COARSE    5
#define CLOCK_MONOTONIC_COARSE   6
#define CLOCK_BOOTTIME           7
#define CLOCK_REALTIME_ALARM     8
#define CLOCK_BOOTTIME_ALARM     9
#define CLOCK_TAI                11
#define ITIMER_REAL              0
#define ITIMER_VIRTUAL           1
#define ITIMER_PROF              2

/* clock_nanosleep(), timer_settime(), timerfd_create(), timerfd_settime() */
#define TIMER_ABSTIME           1
#define TFD_TIMER_ABSTIME       0x1u
#define TFD_TIMER_CANCEL_ON_SET 0x2u

#define TFD_CLOEXEC  02000000u
#define TFD_NONBLOCK 04000u

struct linux_timespec {
	int64_t sec, nsec;
};

struct linux_timeval {
	int64_t sec, usec;
};

struct linux_itimerspec {
	struct linux_timespec interval, value;
};

struct linux_itimerval {
	struct linux_timeval interval, value;
};

struct linux_tms { /* in ticks of 10 ms */
	int64_t utime, stime, cutime, cstime;
};
