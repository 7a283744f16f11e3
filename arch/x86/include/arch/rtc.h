/* SPDX-License-Identifier: MIT */
/*
 * CMOS real-time clock.
 */
#pragma once

#include <lib/types.h>

/* Nanoseconds since 1970, whole seconds; 0 when the clock makes no sense. */
uint64_t rtc_read_ns(void);
