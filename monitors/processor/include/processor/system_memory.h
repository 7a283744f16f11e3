/* SPDX-License-Identifier: MIT */
/* How much memory programs can have. */
#pragma once

#include <lib/types.h>

/* Bytes at all memory nodes together, as /proc/meminfo says. Asks them: sleeps. */
uint64_t system_memory_total(void);
