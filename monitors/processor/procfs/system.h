/* SPDX-License-Identifier: MIT */
/*
 * How much memory programs can have, and how busy this processor is.
 */
#pragma once

#include <lib/types.h>

/* Bytes at all memory nodes together, as /proc/meminfo says. Asks them: sleeps. */
uint64_t system_memory_total(void);

/* Threads of programs: runnable, and all. */
void system_threads(uint32_t *running, uint32_t *total);
