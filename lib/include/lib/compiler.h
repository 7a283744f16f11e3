/* SPDX-License-Identifier: MIT */
/*
 * Attributes for the compiler, and macros that every layer uses.
 *
 * __TESSERA_HOST__ is defined when a file is built for the host (unit tests,
 * fuzzers, tools); everything here works in both worlds.
 */
#pragma once

#ifndef __ASSEMBLER__

# include <stddef.h>

# define __packed        __attribute__((__packed__))
# define __aligned(n)    __attribute__((__aligned__(n)))
# define __must_check    __attribute__((__warn_unused_result__))
# define __printf(f, a)  __attribute__((__format__(__printf__, f, a)))
# define __noreturn      __attribute__((__noreturn__))
# define __used          __attribute__((__used__))
# define __maybe_unused  __attribute__((__unused__))
# define __section(name) __attribute__((__section__(name)))
# define __weak          __attribute__((__weak__))
# define __cold          __attribute__((__cold__))
# define __pure          __attribute__((__pure__))
# define __const         __attribute__((__const__))
# define __malloc        __attribute__((__malloc__))
# define __noinline      __attribute__((__noinline__))
# ifndef __always_inline
#  define __always_inline inline __attribute__((__always_inline__))
# endif
# define __init /* kept for documentation: the kernel does not free its init text */

# define fallthrough __attribute__((__fallthrough__))

/* Skip a function in UBSan builds; say why beside each use. */
# define __no_ubsan __attribute__((__no_sanitize__("undefined")))
/* Skip a function in ASan builds; say why beside each use. */
# define __no_asan  __attribute__((__no_sanitize_address__))

/* Marks for sparse; plain C sees nothing. */
# ifdef __CHECKER__
#  define __bitwise                     __attribute__((bitwise))
#  define __force                       __attribute__((force))
#  define __user                        __attribute__((noderef, address_space(__user)))
#  define __iomem                       __attribute__((noderef, address_space(__iomem)))
#  define __percpu                      __attribute__((noderef, address_space(__percpu)))
#  define __kernel                      __attribute__((address_space(0)))
/* sparse 0.6.4 knows these for integers and pointers, but not for enums. */
#  define __atomic_load_n(p, order)     ((void)(order), *(p))
#  define __atomic_store_n(p, v, order) ((void)(order), (void)(*(p) = (v)))
# else
#  define __bitwise
#  define __force
#  define __user
#  define __iomem
#  define __percpu
#  define __kernel
# endif

/*
 * Lock rules, checked by clang's -Wthread-safety under CONFIG_CONTEXT_ANALYSIS (make check-locks;
 * docs/locking.md shows each form). Locks are written as addresses: __must_hold(&s->lock).
 */
# ifdef CONFIG_CONTEXT_ANALYSIS
#  define __capability(name)       __attribute__((capability(name)))
#  define __guarded_by(x)          __attribute__((guarded_by(x)))
#  define __must_hold(x...)        __attribute__((requires_capability(x)))
#  define __must_hold_shared(x...) __attribute__((requires_shared_capability(x)))
#  define __acquires(x...)         __attribute__((acquire_capability(x)))
#  define __acquires_shared(x...)  __attribute__((acquire_shared_capability(x)))
#  define __try_acquires(x)        __attribute__((try_acquire_capability(true, x)))
#  define __acquires_if_0(x)       __attribute__((try_acquire_capability(0, x)))
#  define __releases(x...)         __attribute__((release_capability(x)))
#  define __releases_shared(x...)  __attribute__((release_shared_capability(x)))
#  define __releases_any(x...)     __attribute__((release_generic_capability(x)))
#  define __asserts_held(x)        __attribute__((assert_capability(x)))
#  define __asserts_held_shared(x) __attribute__((assert_shared_capability(x)))
#  define __returns_lock(x)        __attribute__((lock_returned(x)))
/* The analysis cannot follow this function; @why says what it misses. */
#  define __no_lock_analysis(why)  __attribute__((no_thread_safety_analysis))
# else
#  define __capability(name)
#  define __guarded_by(x)
#  define __must_hold(x...)
#  define __must_hold_shared(x...)
#  define __acquires(x...)
#  define __acquires_shared(x...)
#  define __try_acquires(x)
#  define __acquires_if_0(x)
#  define __releases(x...)
#  define __releases_shared(x...)
#  define __releases_any(x...)
#  define __asserts_held(x)
#  define __asserts_held_shared(x)
#  define __returns_lock(x)
#  define __no_lock_analysis(why)
# endif

# define likely(x)   __builtin_expect(!!(x), 1)
# define unlikely(x) __builtin_expect(!!(x), 0)

/* The compiler may not move memory accesses across this; the CPU may. */
# define compiler_barrier() __asm__ volatile("" ::: "memory")

# ifndef static_assert
#  define static_assert _Static_assert
# endif

/*
 * One access, which another thread's may meet. To the lock analysis a READ_ONCE() is a look without
 * the lock, on purpose: the value may be old when it is used.
 */
# ifdef CONFIG_CONTEXT_ANALYSIS
#  define READ_ONCE(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)
# else
#  define READ_ONCE(x) (*(const volatile __typeof__(x) *)&(x))
# endif
# define WRITE_ONCE(x, v) (*(volatile __typeof__(x) *)&(x) = (v))

/* Length of a true array; a pointer is a compile error. */
# define ARRAY_SIZE(a)                                                                   \
	 (sizeof(a) / sizeof((a)[0]) +                                                   \
	  0 * sizeof(struct {                                                            \
	   unsigned int not_an_array: 1 -                                                \
		   2 * __builtin_types_compatible_p(__typeof__(a), __typeof__(&(a)[0])); \
	  }))

/* The structure of @type whose @member is at @ptr. Drops const, as offsetof must. */
# define container_of(ptr, type, member)                              \
	 ({                                                           \
	  const __typeof__(((type *)0)->member) *member_ptr_ = (ptr); \
	  (type *)((uintptr_t)member_ptr_ - offsetof(type, member));  \
	 })

/* Names of their own, so that one may stand inside another. */
# define PICK_(a, op, b, va, vb)  \
	 ({                       \
	  __typeof__(a) va = (a); \
	  __typeof__(b) vb = (b); \
	  va op vb ? va : vb;     \
	 })
# ifndef MIN
#  define MIN(a, b) PICK_(a, <, b, CONCAT(pick_a_, __COUNTER__), CONCAT(pick_b_, __COUNTER__))
# endif
# ifndef MAX
#  define MAX(a, b) PICK_(a, >, b, CONCAT(pick_a_, __COUNTER__), CONCAT(pick_b_, __COUNTER__))
# endif

# include <stdint.h>

#endif /* !__ASSEMBLER__ */

/* Alignment must be a power of two. Usable in constant expressions. */
#define ALIGN_DOWN(x, a)   ((x) & ~((__typeof__(x))(a) - 1))
#define ALIGN_UP(x, a)     ALIGN_DOWN((x) + (__typeof__(x))(a) - 1, a)
#define IS_ALIGNED(x, a)   (((x) & ((__typeof__(x))(a) - 1)) == 0)
#define IS_POWER_OF_2(x)   ((x) != 0 && ((x) & ((x) - 1)) == 0)
#define DIV_ROUND_UP(x, d) (((x) + (d) - 1) / (d))

#define BIT(n)            (1U << (n))
#define BIT64(n)          (1ULL << (n))
#define GENMASK64(hi, lo) ((~0ULL >> (63 - (hi))) & (~0ULL << (lo)))

#define STRINGIFY_(x...) #x
#define STRINGIFY(x...)  STRINGIFY_(x)
#define CONCAT_(a, b)    a##b
#define CONCAT(a, b)     CONCAT_(a, b)

/* IS_ENABLED(CONFIG_X): 1 when CONFIG_X is defined as 1, else 0; for use in plain C. */
#define IS_ENABLED_ARG_1             0,
#define IS_ENABLED_SECOND(_, v, ...) v
#define IS_ENABLED__(arg)            IS_ENABLED_SECOND(arg 1, 0, 0)
#define IS_ENABLED_(value)           IS_ENABLED__(IS_ENABLED_ARG_##value)
#define IS_ENABLED(option)           IS_ENABLED_(option)
