/* SPDX-License-Identifier: MIT */
/*
 * The vDSO: code that the kernel maps into every program, so that it reads the clocks without a
 * system call.
 *
 * Context:	user mode, in any program, from any thread and from signal handlers. No relocations,
 *		no writable data: scripts/check-vdso.py looks.
 * Ordering:	a sequence count guards struct vvar, in the page in front of the ELF header.
 * Failure:	as the system calls: 0 or a negative errno.  A bad pointer faults, as on Linux.
 * See:		docs/design/procfs.md
 */
#include <abi/time.h>
#include <generated/syscall_handlers.h> /* __NR_* */
#include <lib/compiler.h>
#include <lib/types.h>

#include "vvar_private.h"

#define NS_PER_S 1000000000ull

/* The clocks served here; all others go to the kernel. */
#define CLOCKS_REAL (BIT(CLOCK_REALTIME) | BIT(CLOCK_REALTIME_COARSE) | BIT(CLOCK_TAI))
#define CLOCKS_MONO                                                                      \
	(BIT(CLOCK_MONOTONIC) | BIT(CLOCK_MONOTONIC_RAW) | BIT(CLOCK_MONOTONIC_COARSE) | \
	 BIT(CLOCK_BOOTTIME))

#define VDSO_EXPORT __attribute__((visibility("default")))

VDSO_EXPORT long __vdso_clock_gettime(int clock, struct linux_timespec *ts);
VDSO_EXPORT long __vdso_clock_getres(int clock, struct linux_timespec *res);
VDSO_EXPORT long __vdso_gettimeofday(struct linux_timeval *tv, uint32_t tz[2]);
VDSO_EXPORT long __vdso_time(int64_t *t);
VDSO_EXPORT long __vdso_getcpu(uint32_t *cpu, uint32_t *node, void *unused);

static long system_call(long nr, uint64_t a, uint64_t b, uint64_t c)
{
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(nr), "D"(a), "S"(b), "d"(c)
			 : "rcx", "r11", "memory");
	return ret;
}

static const volatile struct vvar *vvar(void)
{
	const struct vvar *v;

	__asm__(".hidden __ehdr_start\n\tlea __ehdr_start - 4096(%%rip), %0" : "=r"(v));
	return v;
}

/* Not before the loads in front of it are done: or two threads could see time run backwards. */
static uint64_t tsc_ordered(void)
{
	uint32_t lo, hi;

	__asm__ volatile("lfence; rdtsc" : "=a"(lo), "=d"(hi)::"memory");
	return (uint64_t)hi << 32 | lo;
}

/* x86 keeps loads in order, so that only the compiler needs to be told. */
#define compiler_barrier() __asm__ volatile("" ::: "memory")

/* ticks * mult >> shift; that the shift is below 64 saves the compiler a test. */
static uint64_t scale(uint64_t ticks, uint32_t mult, uint32_t shift)
{
	return (uint64_t)((unsigned __int128)ticks * mult >> (shift & 63));
}

/*
 * Nanoseconds since boot, plus the offset of real time if @real. false: ask the kernel. Inlined, as
 * the call would be a sixth of the work.
 */
static __always_inline bool read_ns(bool real, uint64_t *ns)
{
	const volatile struct vvar *v = vvar();
	uint32_t seq, flags, mult, shift;
	uint64_t base, offset, tsc;

	do {
		while ((seq = v->seq) & 1)
			__asm__ volatile("pause" ::: "memory");
		compiler_barrier();
		flags = v->flags;
		base = v->tsc_base;
		mult = v->mult;
		shift = v->shift;
		offset = v->real_offset;
		tsc = tsc_ordered();
		compiler_barrier();
	} while (v->seq != seq);
	if (!(flags & VVAR_TSC))
		return false;
	*ns = scale(tsc - base, mult, shift) + (real ? offset : 0);
	return true;
}

static bool clock_in(int clock, unsigned long set)
{
	return clock >= 0 && clock < 32 && (set >> clock & 1);
}

long __vdso_clock_gettime(int clock, struct linux_timespec *ts)
{
	uint64_t ns;

	if (!clock_in(clock, CLOCKS_REAL | CLOCKS_MONO) ||
	    !read_ns(clock_in(clock, CLOCKS_REAL), &ns))
		return system_call(__NR_clock_gettime, (uint64_t)clock, (uintptr_t)ts, 0);
	ts->sec = (int64_t)(ns / NS_PER_S);
	ts->nsec = (int64_t)(ns % NS_PER_S);
	return 0;
}

long __vdso_clock_getres(int clock, struct linux_timespec *res)
{
	if (!clock_in(clock, CLOCKS_REAL | CLOCKS_MONO))
		return system_call(__NR_clock_getres, (uint64_t)clock, (uintptr_t)res, 0);
	if (res)
		*res = (struct linux_timespec){ .sec = 0, .nsec = 1 };
	return 0;
}

long __vdso_gettimeofday(struct linux_timeval *tv, uint32_t tz[2])
{
	uint64_t ns;

	if (tv) {
		if (!read_ns(true, &ns))
			return system_call(__NR_gettimeofday, (uintptr_t)tv, (uintptr_t)tz, 0);
		tv->sec = (int64_t)(ns / NS_PER_S);
		tv->usec = (int64_t)(ns % NS_PER_S / 1000);
	}
	if (tz)
		tz[0] = tz[1] = 0;
	return 0;
}

long __vdso_time(int64_t *t)
{
	uint64_t ns;

	if (!read_ns(true, &ns))
		return system_call(__NR_time, (uintptr_t)t, 0, 0);
	ns /= NS_PER_S;
	if (t)
		*t = (int64_t)ns;
	return (long)ns;
}

long __vdso_getcpu(uint32_t *cpu, uint32_t *node, void *unused)
{
	uint32_t lo, hi, aux;

	if (!(vvar()->flags & VVAR_AUX))
		return system_call(__NR_getcpu, (uintptr_t)cpu, (uintptr_t)node, 0);
	__asm__ volatile("rdtscp" : "=a"(lo), "=d"(hi), "=c"(aux));
	if (cpu)
		*cpu = aux;
	if (node)
		*node = 0;
	return 0;
}

/* The names that some programs look for beside the versioned ones. */
#define VDSO_ALIAS(name)                                  \
	VDSO_EXPORT extern __typeof__(__vdso_##name) name \
		__attribute__((weak, alias("__vdso_" #name)))
VDSO_ALIAS(clock_gettime);
VDSO_ALIAS(clock_getres);
VDSO_ALIAS(gettimeofday);
VDSO_ALIAS(time);
VDSO_ALIAS(getcpu);
