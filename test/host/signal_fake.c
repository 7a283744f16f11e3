/* SPDX-License-Identifier: MIT */
/*
 * The timers that queues of signals need, faked.
 */
#include <kernel/panic.h>

struct ptimer;
void ptimer_dropped_locked(struct ptimer *t);

void ptimer_dropped_locked(struct ptimer *t)
{
	panic("no test drops the signal of a timer");
}
