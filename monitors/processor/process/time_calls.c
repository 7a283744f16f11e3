/* SPDX-License-Identifier: MIT */
/*
 * System calls on time: clocks and sleeping.
 */
#include <arch/uaccess.h>
#include <kernel/time.h>
#include <kernel/wait.h>
#include <lib/errno.h>
#include <processor/process.h>
#include <processor/syscall.h>

#define NS_PER_S 1000000000ull

enum clock {
	CLOCK_REALTIME = 0,
	CLOCK_MONOTONIC = 1,
	CLOCK_PROCESS_CPUTIME_ID = 2,
	CLOCK_THREAD_CPUTIME_ID = 3,
	CLOCK_MONOTONIC_RAW = 4,
	CLOCK_REALTIME_COARSE = 5,
	CLOCK_MONOTONIC_COARSE = 6,
	CLOCK_BOOTTIME = 7,
	CLOCK_TAI = 11,
};

static int clock_read(int clock, uint64_t *ns)
{
	switch (clock) {
	case CLOCK_REALTIME:
	case CLOCK_REALTIME_COARSE:
	case CLOCK_TAI:
		*ns = time_real_ns();
		return 0;
	case CLOCK_MONOTONIC:
	case CLOCK_MONOTONIC_RAW:
	case CLOCK_MONOTONIC_COARSE:
	case CLOCK_BOOTTIME:
		*ns = time_now_ns();
		return 0;
	case CLOCK_PROCESS_CPUTIME_ID:
	case CLOCK_THREAD_CPUTIME_ID:
		*ns = thread_cpu_ns(thread_current());
		return 0;
	default:
		return -EINVAL;
	}
}

static int put_timespec(uint64_t ns, uint64_t uts)
{
	const uint64_t ts[2] = { ns / NS_PER_S, ns % NS_PER_S };

	return copy_to_user((void __user *)uts, ts, sizeof(ts));
}

/* clock_gettime(clock, ts) */
long sys_clock_gettime(const struct syscall_args *args)
{
	uint64_t ns;
	const int err = clock_read((int)args->a[0], &ns);

	return err ? err : put_timespec(ns, args->a[1]);
}

/* clock_getres(clock, ts) */
long sys_clock_getres(const struct syscall_args *args)
{
	uint64_t ns;
	const int err = clock_read((int)args->a[0], &ns);

	if (err || !args->a[1])
		return err;
	return put_timespec(1, args->a[1]);
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

static int get_timespec(uint64_t uts, uint64_t *ns)
{
	uint64_t ts[2];

	if (copy_from_user(ts, (const void __user *)uts, sizeof(ts)))
		return -EFAULT;
	if ((int64_t)ts[0] < 0 || ts[1] >= NS_PER_S)
		return -EINVAL;
	/* Nobody waits for longer than the clock lasts. */
	*ns = ts[0] > UINT64_MAX / NS_PER_S / 4 ? UINT64_MAX / 4 : ts[0] * NS_PER_S + ts[1];
	return 0;
}

static long sleep_until(uint64_t deadline, uint64_t urem)
{
	struct waitqueue none;
	uint64_t now;
	int err;

	waitqueue_init(&none);
	err = wait_event_interruptible_timeout(&none, false, deadline);
	if (err != -EINTR)
		return 0;
	now = time_now_ns();
	if (urem && put_timespec(deadline > now ? deadline - now : 0, urem))
		return -EFAULT;
	return -EINTR;
}

/* nanosleep(req, rem) */
long sys_nanosleep(const struct syscall_args *args)
{
	uint64_t ns;
	const int err = get_timespec(args->a[0], &ns);

	return err ? err : sleep_until(time_now_ns() + ns, args->a[1]);
}

#define TIMER_ABSTIME 1u

/* clock_nanosleep(clock, flags, req, rem) */
long sys_clock_nanosleep(const struct syscall_args *args)
{
	const int clock = (int)args->a[0];
	uint64_t ns, now;
	int err;

	if (clock == CLOCK_THREAD_CPUTIME_ID || clock_read(clock, &now))
		return -EINVAL;
	if (clock == CLOCK_PROCESS_CPUTIME_ID)
		return -EOPNOTSUPP;
	err = get_timespec(args->a[2], &ns);
	if (err)
		return err;
	if (!(args->a[1] & TIMER_ABSTIME))
		return sleep_until(time_now_ns() + ns, args->a[3]);
	return ns > now ? sleep_until(time_now_ns() + (ns - now), 0) : 0;
}
