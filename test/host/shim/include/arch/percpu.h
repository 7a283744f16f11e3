/* SPDX-License-Identifier: MIT */
/*
 * Host shim of <arch/percpu.h>: one CPU on which all threads run, so a per-CPU variable is a
 * plain one. Counters are added to atomically.
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

#define MAX_CPUS 1

#define DEFINE_PERCPU(type, name)         __typeof__(type) name
#define DECLARE_PERCPU(type, name)        extern __typeof__(type) name
/*
 * Host threads run at the same time, and preempt_disable() of the shim keeps none of them out:
 * what only its own CPU may use becomes each thread's own.
 */
#define DEFINE_PERCPU_PRIVATE(type, name) _Thread_local __typeof__(type) name

#define percpu_read(var)       (var)
#define percpu_write(var, val) ((void)((var) = (val)))
#define this_cpu_ptr(p)        (p)
#define per_cpu_ptr(p, cpu)    ((void)(cpu), (p))

static inline void percpu_add64_at(uint64_t *p, uint64_t n)
{
	__atomic_fetch_add(p, n, __ATOMIC_RELAXED);
}

static inline unsigned int cpu_id(void)
{
	return 0;
}
