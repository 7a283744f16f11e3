/* SPDX-License-Identifier: MIT */
/* Asynchronous I/O, for /proc/sys/fs. */
#pragma once

#include <lib/types.h>

/* Requests that all contexts may have, and have been given. */
extern uint64_t aio_max_nr; /* atomic */
uint64_t aio_nr(void);
