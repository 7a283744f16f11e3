/* SPDX-License-Identifier: MIT */
/*
 * Shared by the files of the kernel shim.
 */
#pragma once

#include <pthread.h>

#include <lib/types.h>

struct thread;

/* threads.c */
/* Sleep until poked or the test clock reaches @deadline_ns; sleep_lock of @t is held throughout. */
void shim_sleep_locked(struct thread *t, uint64_t deadline_ns);
void shim_poke(struct thread *t);
/* Wake every sleeper to look at the clock again. */
void shim_poke_all(void);
/* Fail when the caller may not sleep. */
void shim_check_may_sleep(const char *what);

/* clock.c */
/*
 * When, on CLOCK_MONOTONIC, the test clock will read @ns; false when the clock is stopped before.
 */
bool shim_host_deadline(uint64_t ns, struct timespec *ts);
void shim_cond_init(pthread_cond_t *cond);

/* timer.c */
void shim_timers_kick(void);

/* locks.c */
void shim_rank_acquire(const void *lock, const char *name, uint32_t rank, uint32_t how);
void shim_rank_release(const void *lock, const char *name);

/* wait.c */
/* For shim_thread_waits_killable(), around a wait that is none of a wait queue. */
void shim_set_waits_killable(struct thread *t, bool waits);
