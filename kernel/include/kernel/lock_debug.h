/* SPDX-License-Identifier: MIT */
/*
 * Lock checking in debug builds, for the lock implementations and panic. Everyone else writes
 * assert_spin_held() and the like, which spinlock.h, mutex.h and rwsem.h declare; release builds
 * compile them out.
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

/*
 * For the analysis only: from here on it takes @lock as held, because no other thread can reach
 * what it guards; @why says so. Checks nothing: where a caller does hold the lock, assert that.
 */
#ifdef CONFIG_CONTEXT_ANALYSIS
struct spinlock;
struct mutex;
struct rwsem;
static inline void lock_analysis_spin(const struct spinlock *l) __asserts_held(l)
{
}
static inline void lock_analysis_mutex(const struct mutex *l) __asserts_held(l)
{
}
static inline void lock_analysis_rwsem(const struct rwsem *l) __asserts_held(l)
{
}
# define lock_not_needed(lock, why)                           \
	 _Generic((lock),                                     \
		 struct spinlock *: lock_analysis_spin,       \
		 const struct spinlock *: lock_analysis_spin, \
		 struct mutex *: lock_analysis_mutex,         \
		 const struct mutex *: lock_analysis_mutex,   \
		 struct rwsem *: lock_analysis_rwsem,         \
		 const struct rwsem *: lock_analysis_rwsem)(lock)
#else
# define lock_not_needed(lock, why) ((void)0)
#endif

/* How a lock is taken. */
#define LOCK_DEBUG_TRY    0x1u /* without waiting, so in any order */
#define LOCK_DEBUG_SHARED 0x2u /* for reading */

#ifdef CONFIG_DEBUG
void lock_debug_acquire(const void *lock, const char *name, uint32_t rank, uint32_t how);
void lock_debug_release(const void *lock, const char *name);
/*
 * Panic unless the caller holds @lock: this thread at this interrupt level, so that what an
 * interrupted thread holds does not count. @how: LOCK_DEBUG_SHARED when reading is enough.
 */
void lock_debug_assert_held(const void *lock, const char *name, uint32_t how);
/* The caller is about to sleep: panic when it must not. */
void lock_debug_may_sleep(const char *what);
/* Print the locks that the current thread holds. */
void lock_debug_print_held(void);
/* For tests: count violations instead of panicking; returns the count so far and resets it. */
void lock_debug_expect(bool on);
unsigned int lock_debug_violations(void);
#else
static inline void lock_debug_acquire(const void *lock, const char *name, uint32_t rank,
				      uint32_t how)
{
}
static inline void lock_debug_release(const void *lock, const char *name)
{
}
static inline void lock_debug_assert_held(const void *lock, const char *name, uint32_t how)
{
}
static inline void lock_debug_may_sleep(const char *what)
{
}
static inline void lock_debug_print_held(void)
{
}
#endif
