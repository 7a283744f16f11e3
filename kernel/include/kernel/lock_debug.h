/* SPDX-License-Identifier: MIT */
/*
 * Lock checking in debug builds, for the lock implementations and panic.
 */
#pragma once

#include <lib/types.h>

#ifdef CONFIG_DEBUG
void lock_debug_acquire(const void *lock, const char *name, uint32_t rank, bool try_only);
void lock_debug_release(const void *lock, const char *name);
/* The caller is about to sleep: panic when it must not. */
void lock_debug_may_sleep(const char *what);
/* Print the locks that the current thread holds. */
void lock_debug_print_held(void);
/* For tests: count violations instead of panicking; returns the count so far and resets it. */
void lock_debug_expect(bool on);
unsigned int lock_debug_violations(void);
#else
static inline void lock_debug_acquire(const void *lock, const char *name, uint32_t rank,
				      bool try_only)
{
}
static inline void lock_debug_release(const void *lock, const char *name)
{
}
static inline void lock_debug_may_sleep(const char *what)
{
}
static inline void lock_debug_print_held(void)
{
}
#endif
