/* SPDX-License-Identifier: MIT */
/* Host shim of <arch/poll.h>. */
#pragma once

#include <arch/cpu.h>

static inline void cpu_poll_relax(void)
{
	cpu_relax();
}
