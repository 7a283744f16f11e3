/* SPDX-License-Identifier: MIT */
/*
 * System calls on time: clocks and sleeping.
 */
#include <abi/time.h>
#include <arch/uaccess.h>
#include <kernel/time.h>
#include <kernel/wait.h>
#include <lib/errno.h>
#include <processor/syscall/syscall.h>

#include "clock.h"
#include "process.h"
#include "timespec.h"

#define NS_PER_S NSEC_PER_SEC

static int read_clock(int clock, uint64_t *ns)
{
	struct clock_id id;
	const int err = clock_decode(clock, &id);

	return err ? err : clock_read(&id, ns);
}

/* clock_gettime(clock, ts) */
long sys_clock_gettime(const struct syscall_args *args)
{
	uint64_t ns;
	const int err = read_clock((int)args->a[0], &ns);

	return err ? err : user_timespec_put(args->a[1], ns);
}

/* clock_getres(clock, ts) */
long sys_clock_getres(const struct syscall_args *args)
{
	struct clock_id id;
	const int err = clock_decode((int)args->a[0], &id);

	return err || !args->a[1] ? err : user_timespec_put(args->a[1], 1);
}

/* gettimeofday(tv, tz) */
long sys_gettimeofday(const struct syscall_args *args)
{
	const uint64_t ns = time_real_ns();
	const uint64_t tv[2] = { ns / NS_PER_S, ns % NS_PER_S / 1000 };
	const uint32_t tz[2] = { 0, 0 };

	if (args->a[0] && copy_to_user((void __user *)args->a[0], tv, sizeof(tv)))
		return -EFAULT;
	if (args->a[1] && copy_to_user((void __user *)args->a[1], tz, sizeof(tz)))
		return -EFAULT;
	return 0;
}

/* time(t) */
long sys_time(const struct syscall_args *args)
{
	const uint64_t now = time_real_ns() / NS_PER_S;

	if (args->a[0] && put_user_u64(now, (void __user *)args->a[0]))
		return -EFAULT;
	return (long)now;
}

/* --- sleeping ------------------------------------------------------------------------ */

/* Until the absolute monotonic time; 0 or -EINTR. */
static int sleep_until(uint64_t deadline)
{
	struct waitqueue none;

	waitqueue_init(&none);
	return wait_event_interruptible_timeout(&none, false, deadline) == -EINTR ? -EINTR : 0;
}

enum {
	SLEEP_DEADLINE,
	SLEEP_REMAINING, /* where the program wants to know what is left; 0: it does not */
};

/* A relative sleep, from its start and again after each signal that runs no handler. */
static long sleep_relative(const uint64_t args[RESTART_ARGS])
{
	const uint64_t urem = args[SLEEP_REMAINING];

	if (!sleep_until(args[SLEEP_DEADLINE]))
		return 0;
	if (urem && user_timespec_put(urem, time_left_ns(args[SLEEP_DEADLINE])))
		return -EFAULT;
	return signal_restart_later(sleep_relative, args);
}

/* nanosleep(req, rem) */
long sys_nanosleep(const struct syscall_args *args)
{
	uint64_t sleep[RESTART_ARGS] = { [SLEEP_REMAINING] = args->a[1] };
	const int err = user_timeout_get(args->a[0], &sleep[SLEEP_DEADLINE]);

	if (!args->a[0])
		return -EFAULT;
	return err ? err : sleep_relative(sleep);
}

/* clock_nanosleep(clock, flags, req, rem) */
long sys_clock_nanosleep(const struct syscall_args *args)
{
	const int clock = (int)args->a[0];
	uint64_t sleep[RESTART_ARGS] = { [SLEEP_REMAINING] = args->a[3] };
	uint64_t ns, now;
	int err;

	/* A machine without a clock that wakes it up has no alarms to set. */
	if (clock == CLOCK_THREAD_CPUTIME_ID || clock == CLOCK_REALTIME_ALARM ||
	    clock == CLOCK_BOOTTIME_ALARM)
		return -EOPNOTSUPP;
	if (read_clock(clock, &now))
		return -EINVAL;
	if (clock < 0 || clock == CLOCK_PROCESS_CPUTIME_ID || clock == CLOCK_MONOTONIC_RAW ||
	    clock == CLOCK_REALTIME_COARSE || clock == CLOCK_MONOTONIC_COARSE)
		return -EOPNOTSUPP;
	err = user_timespec_get(args->a[2], &ns);
	if (err)
		return err;
	if (!(args->a[1] & TIMER_ABSTIME)) {
		sleep[SLEEP_DEADLINE] = time_after_ns(ns);
		return sleep_relative(sleep);
	}
	if (ns <= now)
		return 0;
	return sleep_until(time_now_ns() + (ns - now)) ? -ERESTARTNOHAND : 0;
}

/* --- setting clocks ---------------------------------------------------------------------- */

/*
 * The clocks of a node are the cluster's to set: no program has the right, as without CAP_SYS_TIME
 * on Linux.
 */

/* clock_settime(clock, ts) */
long sys_clock_settime(const struct syscall_args *args)
{
	uint64_t ns;
	int err;

	if ((int)args->a[0] != CLOCK_REALTIME)
		return -EINVAL;
	err = user_timespec_get(args->a[1], &ns);
	return err ? err : -EPERM;
}

/* settimeofday(tv, tz) */
long sys_settimeofday(const struct syscall_args *args)
{
	uint64_t ns;
	const int err = args->a[0] ? user_timeval_get(args->a[0], &ns) : 0;

	return err ? err : -EPERM;
}
