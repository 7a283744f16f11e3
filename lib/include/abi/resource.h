/* SPDX-License-Identifier: MIT */
/* Limits and use of resources: Linux's <linux/resource.h>. */
#pragma once

#include <lib/compiler.h>
#include <stdint.h>

/* getrlimit() and its kin. */
#define RLIMIT_CPU        0
#define RLIMIT_FSIZE      1
#define RLIMIT_DATA       2
#define RLIMIT_STACK      3
#define RLIMIT_CORE       4
#define RLIMIT_RSS        5
#define RLIMIT_NPROC      6
#define RLIMIT_NOFILE     7
#define RLIMIT_MEMLOCK    8
#define RLIMIT_AS         9
#define RLIMIT_LOCKS      10
#define RLIMIT_SIGPENDING 11
#define RLIMIT_MSGQUEUE   12
#define RLIMIT_NICE       13
#define RLIMIT_RTPRIO     14
#define RLIMIT_RTTIME     15
#define RLIM_NLIMITS      16

#define RLIM_INFINITY UINT64_MAX

struct linux_rlimit {
	uint64_t cur;
	uint64_t max;
};

/* getpriority(), setpriority(): whose nice value */
#define PRIO_PROCESS 0
#define PRIO_PGRP    1
#define PRIO_USER    2

/* getrusage() */
#define RUSAGE_SELF     0
#define RUSAGE_CHILDREN (-1)
#define RUSAGE_THREAD   1

struct linux_rusage {
	int64_t utime[2], stime[2]; /* seconds, microseconds */
	int64_t maxrss;             /* KiB */
	int64_t ixrss, idrss, isrss;
	int64_t minflt, majflt, nswap, inblock, oublock, msgsnd, msgrcv, nsignals, nvcsw, nivcsw;
};
static_assert(sizeof(struct linux_rusage) == 144, "struct rusage is ABI");
