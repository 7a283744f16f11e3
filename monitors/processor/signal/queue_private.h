/* SPDX-License-Identifier: MIT */
/*
 * Queues of pending signals, and what a user may have in all of them (RLIMIT_SIGPENDING).
 *
 * Locking:	a queue belongs to its process's sig_lock. The accounts have a lock of their own.
 */
#pragma once

#include <lib/compiler.h>

#include "signal.h"

struct ptimer;
struct sig_account;

struct sigentry {
	struct list_head link;
	struct linux_siginfo info;
	struct sig_account *account; /* charged for it */
	struct ptimer *timer;   /* the timer that the entry is part of; NULL: freed when taken */
	struct sigqueue *queue; /* where the timer's entry is queued */
};

/* The user to charge for an entry, up to how many, and the account of the receiver's program. */
struct sig_charge {
	uint32_t uid;
	uint64_t limit;
	struct kmem_account *kmem;
};

void sigqueue_init(struct sigqueue *q);
/*
 * 0; -EAGAIN: the limit is reached, or no memory, and the signal must not lose what is said about
 * it. A standard signal that is pending already is not queued again.
 */
int sigqueue_add(struct sigqueue *q, const struct linux_siginfo *info,
		 const struct sig_charge *charge);
/* The entry of a timer, which is not queued and stays the timer's. */
void sigqueue_add_timer(struct sigqueue *q, struct sigentry *e);
/* Drop all signals in @set. */
void sigqueue_drop(struct sigqueue *q, uint64_t set);
/* The signal of @set that is delivered first: what the CPU raised, then by number. 0: none. */
int sigqueue_first(const struct sigqueue *q, uint64_t set);
/* Take the oldest instance of pending signal @signo. The timer that it came from, or NULL. */
struct ptimer *sigqueue_take(struct sigqueue *q, int signo, struct linux_siginfo *info);
/* Take the entry of a timer out again, if it is queued. */
void sigqueue_remove_timer(struct sigentry *e);

/* Provided by timers.c: the entry of @t has been dropped. */
void ptimer_dropped_locked(struct ptimer *t);

/* An entry that is charged; NULL: over the limit, or no memory. */
struct sigentry *sigentry_alloc(const struct sig_charge *charge, bool over_limit);
void sigentry_free(struct sigentry *e);
/* Signals queued for @uid. */
uint64_t sig_account_count(uint32_t uid);
