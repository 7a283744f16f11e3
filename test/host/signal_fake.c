/* SPDX-License-Identifier: MIT */
/*
 * What the queues of signals need of timers.
 */
#include <kernel/panic.h>

struct ptimer;
void ptimer_dropped_locked(struct ptimer *t);

void ptimer_dropped_locked(struct ptimer *t)
{
	panic("no test drops the signal of a timer");
}
