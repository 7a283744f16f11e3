/* SPDX-License-Identifier: MIT */
/* For a CPU that is about to take no interrupt for a while: until when it may. */
#pragma once

#include <lib/types.h>

/* When this CPU's next timer interrupt is due, as far as is known; UINT64_MAX: none is. */
uint64_t timer_next_ns(void);
