/* SPDX-License-Identifier: MIT */
/* POSIX message queues: Linux's <linux/mqueue.h>. */
#pragma once

#include <lib/compiler.h>
#include <stdint.h>

#define MQ_PRIO_MAX 32768u

struct linux_mq_attr {
	int64_t flags; /* O_NONBLOCK */
	int64_t maxmsg, msgsize, curmsgs;
	int64_t reserved[4];
};
static_assert(sizeof(struct linux_mq_attr) == 64, "struct mq_attr is ABI");

/* SIGEV_THREAD sends the caller's bytes to the socket; the last one of them says why. */
#define NOTIFY_WOKENUP    1
#define NOTIFY_REMOVED    2
#define NOTIFY_COOKIE_LEN 32u
