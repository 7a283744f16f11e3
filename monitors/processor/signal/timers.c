/* SPDX-License-Identifier: MIT */
/*
 * Timers that raise signals: there are none yet.
 */
#include "private.h"
#include "queue.h"

void ptimer_taken_locked(struct ptimer *t, struct siginfo_k *info)
{
}

void ptimer_dropped_locked(struct ptimer *t)
{
}

void timers_exec(struct process *p)
{
}

void timers_free(struct process *p)
{
}
