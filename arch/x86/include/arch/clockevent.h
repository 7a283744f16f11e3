/* SPDX-License-Identifier: MIT */
/*
 * The one-shot timer interrupt of this CPU (local APIC), and the reschedule
 * interrupt of another.
 */
#pragma once

#include <lib/types.h>

/*
 * Interrupt this CPU at about @deadline_ns (monotonic), never much later; it may
 * come earlier, and the handler then sets it again.  UINT64_MAX: no interrupt.
 * Interrupts off.
 */
void clockevent_set(uint64_t deadline_ns);
/* Make @cpu look at its exit_work.resched. */
void ipi_resched(unsigned int cpu);
