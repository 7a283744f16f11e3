/* SPDX-License-Identifier: MIT */
/* How busy this processor is. */
#pragma once

#include <lib/types.h>

/* Threads of programs: runnable, and all. */
void system_threads(uint32_t *running, uint32_t *total);
