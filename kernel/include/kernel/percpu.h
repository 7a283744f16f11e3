/* SPDX-License-Identifier: MIT */
/*
 * Per-CPU variables.
 *
 *	DEFINE_PERCPU(uint64_t, misses);        at file scope
 *	*this_cpu_ptr(&misses)                  with preemption off
 *	*per_cpu_ptr(&misses, cpu)              another CPU's, as the owner allows
 *
 * Taking &misses itself and using it as a plain pointer is wrong on every CPU
 * but the first.
 */
#pragma once

#include <arch/percpu.h>

/* A variable that no CPU but its own uses, with preemption off.  The host shim has its own. */
#ifndef DEFINE_PERCPU_PRIVATE
# define DEFINE_PERCPU_PRIVATE(type, name) DEFINE_PERCPU(type, name)
#endif
