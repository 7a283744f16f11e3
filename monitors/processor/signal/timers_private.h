/* SPDX-License-Identifier: MIT */
/*
 * Timers of a process that raise signals: POSIX timers, interval timers, RLIMIT_CPU.
 *
 * Flow:	arm -> kernel timer (an interrupt) -> work queue -> expire: the signal is queued, by
 *		an entry that the timer has had from the start -> the signal is taken: a periodic
 *		timer is set again and what was missed meanwhile is its overrun. So a timer costs no
 *		more than its program takes signals.
 * Locking:	process.lock guards the list and the existence of timers; process.sig_lock their
 *		state.
 */
#pragma once

#include <abi/signal.h>
#include <kernel/timer.h>
#include <kernel/work.h>
#include <lib/list.h>
#include <processor/process/clock.h>
#include <processor/process/process.h>

#include "queue_private.h"

enum ptimer_kind {
	PTIMER_POSIX,
	PTIMER_ITIMER,
	PTIMER_CPU_LIMIT,
};

struct ptimer {
	struct list_head link;   /* process.lock: process_timers.posix */
	struct process *process; /* const */
	enum ptimer_kind kind;   /* const */
	struct clock_id clock;   /* const */
	int id;                  /* const */
	int notify;              /* const: SIGEV_* */
	uint32_t tid;            /* const: the task that gets the signal; 0: the process */
	struct timer timer;
	struct work work;
	/* process.sig_lock */
	struct sigentry *entry; /* NULL: SIGEV_NONE, RLIMIT_CPU */
	bool armed;             /* there is a deadline */
	uint64_t deadline;      /* in ns of base_now(): monotonic time, or CPU time */
	uint64_t interval;
	uint64_t before;     /* expirations before the deadline, as it was set in the past */
	uint64_t overrun;    /* expirations that the last signal taken stands for, less one */
	uint64_t last_cpu;   /* CPU clocks: their value when it was last looked at ... */
	uint64_t idle_delay; /* ... and the pause before the next look if it does not move */
};

#define NR_ITIMERS 3 /* ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF */

struct process_timers {
	struct list_head posix; /* struct ptimer by rising id */
	int next_id;
	struct ptimer *itimers[NR_ITIMERS]; /* NULL until used */
	struct ptimer *cpu_limit;           /* NULL until used */
};

/* The setting of a timer, or the time it has left, in ns. */
struct ptimer_value {
	uint64_t value; /* 0: not armed */
	uint64_t interval;
};

/* process.lock held; NULL: no memory. */
struct process_timers *timers_get_locked(struct process *p);
/* A timer of the calling process; @proto's constant fields, its entry. NULL: no memory. */
struct ptimer *ptimer_create(const struct ptimer *proto);
/* Stop it, take its signal back, free it. May sleep; sig_lock not held. */
void ptimer_destroy(struct ptimer *t);
/*
 * Set it; a signal of it that is pending is taken back. @absolute: value is a time of the timer's
 * clock.
 */
void ptimer_set(struct ptimer *t, const struct ptimer_value *v, bool absolute,
		struct ptimer_value *old);
void ptimer_get(struct ptimer *t, struct ptimer_value *v);

/* itimer.c: RLIMIT_CPU has been reached. */
void cpu_limit_expired_locked(struct ptimer *t, uint64_t now);
