/* SPDX-License-Identifier: MIT */
/*
 * POSIX message queues, for the modules around them: limits as /proc/sys/fs/mqueue has them, of the
 * calling task's namespace.
 */
#pragma once

#include <lib/types.h>

struct mqueue_limits { /* each is read and written as one word */
	uint32_t queues_max;
	uint32_t msg_max, msgsize_max;         /* of a queue; root may ask for more */
	uint32_t msg_default, msgsize_default; /* of a queue whose maker asks for nothing */
};
struct mqueue_limits *mqueue_limits(void);

/* Bounds of the limits, and of root. */
#define MQUEUE_HARD_MSG     65536u
#define MQUEUE_MIN_MSGSIZE  128
#define MQUEUE_HARD_MSGSIZE (16u << 20)
