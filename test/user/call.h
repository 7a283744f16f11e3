/* SPDX-License-Identifier: MIT */
/*
 * A call's result as text that is the same on Tessera and on Linux. With glibc only: it knows
 * errors by name.
 */
#pragma once

#include "user.h"

/* A call that may fail. */
static inline void call(const char *what, long ret)
{
	const int err = errno;

	printf("%s: %ld", what, ret);
	if (ret < 0)
		printf(" %s", strerrorname_np(err));
	putchar('\n');
}
