/* SPDX-License-Identifier: MIT */
/*
 * struct timespec and struct timeval of programs.
 */
#include "timespec.h"

#include <arch/uaccess.h>
#include <lib/errno.h>

#define NS_PER_S 1000000000ull

/* @unit: nanoseconds of the second field's unit. */
static int get(uint64_t user, uint64_t unit, uint64_t *ns)
{
	uint64_t t[2];

	if (copy_from_user(t, (const void __user *)user, sizeof(t)))
		return -EFAULT;
	if ((int64_t)t[0] < 0 || t[1] >= NS_PER_S / unit)
		return -EINVAL;
	*ns = t[0] >= TIMESPEC_MAX_NS / NS_PER_S ? TIMESPEC_MAX_NS : t[0] * NS_PER_S + t[1] * unit;
	return 0;
}

static int put(uint64_t user, uint64_t unit, uint64_t ns)
{
	const uint64_t t[2] = { ns / NS_PER_S, ns % NS_PER_S / unit };

	return copy_to_user((void __user *)user, t, sizeof(t));
}

int user_timespec_get(uint64_t uts, uint64_t *ns)
{
	return get(uts, 1, ns);
}

int user_timeval_get(uint64_t utv, uint64_t *ns)
{
	return get(utv, 1000, ns);
}

int user_timespec_put(uint64_t uts, uint64_t ns)
{
	return put(uts, 1, ns);
}

int user_timeval_put(uint64_t utv, uint64_t ns)
{
	return put(utv, 1000, ns);
}

int user_timeout_get(uint64_t uts, uint64_t *deadline)
{
	uint64_t ns;
	int err;

	*deadline = WAIT_FOREVER;
	if (!uts)
		return 0;
	err = user_timespec_get(uts, &ns);
	if (!err)
		*deadline = time_after_ns(ns);
	return err;
}

int user_real_deadline_get(uint64_t uts, uint64_t *deadline)
{
	uint64_t ns, real;
	int err;

	*deadline = WAIT_FOREVER;
	if (!uts)
		return 0;
	err = user_timespec_get(uts, &ns);
	if (err)
		return err;
	real = time_real_ns();
	*deadline = time_after_ns(ns > real ? ns - real : 0);
	return 0;
}
