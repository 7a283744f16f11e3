/* SPDX-License-Identifier: MIT */
/*
 * One-shot timers.
 *
 * Context:	the callback runs in the timer interrupt: no sleeping, keep it short;
 *		it may set or cancel (its own or other) timers with timer_set() and
 *		timer_cancel_async().
 * Locking:	the tree of each CPU has a lock (RANK_TIMER); not held in callbacks.
 * Ordering:	after timer_cancel() the callback is not running and will not run.
 */
#pragma once

#include <lib/compiler.h>
#include <lib/rbtree.h>
#include <lib/types.h>

struct timer {
	struct rb_node node; /* timer lock of ->cpu */
	uint64_t deadline_ns;
	void (*fn)(void *arg);
	void *arg;
	uint32_t cpu; /* atomic; changed with the timer lock of the old one held */
	bool pending;
};

void timer_init(struct timer *t, void (*fn)(void *arg), void *arg);
/* (Re)arm for the absolute monotonic time; a deadline in the past fires at once. */
void timer_set(struct timer *t, uint64_t deadline_ns);
/* Disarm and wait for a running callback; true if it was pending.  Not from the callback. */
bool timer_cancel(struct timer *t);
/* Disarm without waiting. */
bool timer_cancel_async(struct timer *t);
bool timer_pending(const struct timer *t);

/* For arch, at this CPU's timer interrupt, interrupts off. @user: it interrupted user mode. */
void timer_interrupt(bool user);
