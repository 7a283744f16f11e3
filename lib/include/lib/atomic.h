/* SPDX-License-Identifier: MIT */
/*
 * Atomic integers and reference counts over the compiler's __atomic builtins.
 *
 * Ordering: read and set are relaxed; operations that return a value are
 * sequentially consistent; those that return nothing are relaxed. The *_acquire and
 * *_release forms pair with each other. refcount_t: get is relaxed, put releases and the
 * last put acquires, so that the last owner sees what the others wrote.
 */
#pragma once

#include <lib/assert.h>
#include <lib/types.h>

typedef struct {
	int v;
} atomic_t;

typedef struct {
	int64_t v;
} atomic64_t;

#define ATOMIC_INIT(n) { (n) }

#define ATOMIC_DEFINE(pfx, type)                                                     \
	static inline type pfx##_read(const pfx##_t *a)                              \
	{                                                                            \
		return __atomic_load_n(&a->v, __ATOMIC_RELAXED);                     \
	}                                                                            \
	static inline type pfx##_read_acquire(const pfx##_t *a)                      \
	{                                                                            \
		return __atomic_load_n(&a->v, __ATOMIC_ACQUIRE);                     \
	}                                                                            \
	static inline void pfx##_set(pfx##_t *a, type v)                             \
	{                                                                            \
		__atomic_store_n(&a->v, v, __ATOMIC_RELAXED);                        \
	}                                                                            \
	static inline void pfx##_set_release(pfx##_t *a, type v)                     \
	{                                                                            \
		__atomic_store_n(&a->v, v, __ATOMIC_RELEASE);                        \
	}                                                                            \
	static inline void pfx##_add(pfx##_t *a, type n)                             \
	{                                                                            \
		__atomic_fetch_add(&a->v, n, __ATOMIC_RELAXED);                      \
	}                                                                            \
	static inline void pfx##_sub(pfx##_t *a, type n)                             \
	{                                                                            \
		__atomic_fetch_sub(&a->v, n, __ATOMIC_RELAXED);                      \
	}                                                                            \
	static inline void pfx##_inc(pfx##_t *a)                                     \
	{                                                                            \
		pfx##_add(a, 1);                                                     \
	}                                                                            \
	static inline void pfx##_dec(pfx##_t *a)                                     \
	{                                                                            \
		pfx##_sub(a, 1);                                                     \
	}                                                                            \
	static inline type pfx##_add_return(pfx##_t *a, type n)                      \
	{                                                                            \
		return __atomic_add_fetch(&a->v, n, __ATOMIC_SEQ_CST);               \
	}                                                                            \
	static inline type pfx##_sub_return(pfx##_t *a, type n)                      \
	{                                                                            \
		return __atomic_sub_fetch(&a->v, n, __ATOMIC_SEQ_CST);               \
	}                                                                            \
	static inline type pfx##_inc_return(pfx##_t *a)                              \
	{                                                                            \
		return pfx##_add_return(a, 1);                                       \
	}                                                                            \
	static inline type pfx##_dec_return(pfx##_t *a)                              \
	{                                                                            \
		return pfx##_sub_return(a, 1);                                       \
	}                                                                            \
	static inline bool pfx##_dec_and_test(pfx##_t *a)                            \
	{                                                                            \
		return pfx##_sub_return(a, 1) == 0;                                  \
	}                                                                            \
	static inline type pfx##_or(pfx##_t *a, type bits)                           \
	{                                                                            \
		return __atomic_fetch_or(&a->v, bits, __ATOMIC_SEQ_CST);             \
	}                                                                            \
	static inline type pfx##_and(pfx##_t *a, type bits)                          \
	{                                                                            \
		return __atomic_fetch_and(&a->v, bits, __ATOMIC_SEQ_CST);            \
	}                                                                            \
	static inline type pfx##_xchg(pfx##_t *a, type v)                            \
	{                                                                            \
		return __atomic_exchange_n(&a->v, v, __ATOMIC_SEQ_CST);              \
	}                                                                            \
	/* Returns what was there: equal to @old when the exchange was made. */      \
	static inline type pfx##_cmpxchg(pfx##_t *a, type old, type v)               \
	{                                                                            \
		__atomic_compare_exchange_n(&a->v, &old, v, false, __ATOMIC_SEQ_CST, \
					    __ATOMIC_SEQ_CST);                       \
		return old;                                                          \
	}

ATOMIC_DEFINE(atomic, int)
ATOMIC_DEFINE(atomic64, int64_t)

/*
 * A count of references. One that overflows sticks at REFCOUNT_SATURATED: the
 * object leaks, which is better than being freed while in use.
 */
typedef struct {
	int v;
} refcount_t;

#define REFCOUNT_INIT(n)   { (n) }
#define REFCOUNT_SATURATED (INT32_MIN / 2)

static inline void refcount_set(refcount_t *r, int n)
{
	__atomic_store_n(&r->v, n, __ATOMIC_RELAXED);
}

static inline int refcount_read(const refcount_t *r)
{
	return __atomic_load_n(&r->v, __ATOMIC_RELAXED);
}

/* The caller must hold a reference already. */
static inline void refcount_inc(refcount_t *r)
{
	const int old = __atomic_fetch_add(&r->v, 1, __ATOMIC_RELAXED);

	ASSERT(old != 0); /* the object may be freed already */
	if (unlikely(old <= 0 || old == INT32_MAX))
		refcount_set(r, REFCOUNT_SATURATED);
}

/* Take a reference unless the last one is gone. */
static inline bool __must_check refcount_inc_not_zero(refcount_t *r)
{
	int old = refcount_read(r);

	do {
		if (old == 0)
			return false;
		if (unlikely(old < 0 || old == INT32_MAX)) {
			refcount_set(r, REFCOUNT_SATURATED);
			return true;
		}
	} while (!__atomic_compare_exchange_n(&r->v, &old, old + 1, true, __ATOMIC_RELAXED,
					      __ATOMIC_RELAXED));
	return true;
}

/* Drop a reference; true for the last one. */
static inline bool __must_check refcount_dec_and_test(refcount_t *r)
{
	const int old = __atomic_fetch_sub(&r->v, 1, __ATOMIC_RELEASE);

	ASSERT(old != 0);
	if (old == 1) {
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		return true;
	}
	if (unlikely(old <= 0))
		refcount_set(r, REFCOUNT_SATURATED);
	return false;
}
