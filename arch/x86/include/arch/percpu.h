/* SPDX-License-Identifier: MIT */
/*
 * Per-CPU storage: the GS base of a CPU is the distance from the linked
 * section .percpu to that CPU's copy (0 for the boot CPU, which uses the
 * linked copy), so %gs:symbol is this CPU's variable.
 *
 * Invariants:	all zero, on every CPU; the section has no place for other values.
 * Context:	the one-instruction forms (percpu_read and so on) are safe against
 *		preemption and interrupts.  A pointer from this_cpu_ptr() is only good
 *		while preemption is off.
 */
#pragma once

#include <lib/compiler.h>
#include <lib/types.h>

#define MAX_CPUS 256u /* also the number of 8-bit APIC ids */

/* __percpu: sparse takes the variable itself, and a pointer to it, for no CPU's. */
#define DEFINE_PERCPU(type, name) \
	__attribute__((section(".bss.percpu"))) __percpu __typeof__(type) name
#define DECLARE_PERCPU(type, name) \
	extern __attribute__((section(".bss.percpu"))) __percpu __typeof__(type) name

extern char percpu_start[], percpu_end[];
extern uint64_t percpu_offsets[MAX_CPUS];
DECLARE_PERCPU(uint64_t, percpu_offset); /* = percpu_offsets[this CPU] */
DECLARE_PERCPU(uint32_t, percpu_cpu_id);

/* A linked address, as a plain pointer to what lies @offset further. */
#define PERCPU_SHIFT(p, offset) \
	((__typeof__(*(p)) __kernel __force *)((__force uintptr_t)(p) + (offset)))
/* The operand of an instruction with a %gs prefix. */
#define PERCPU_PLAIN(var) (*(__typeof__(var) __kernel __force *)&(var))

/* Read or write a per-CPU scalar of 4 or 8 bytes in one instruction. */
#define percpu_read(var)                                                                  \
	({                                                                                \
		__typeof__(PERCPU_PLAIN(var)) _pv;                                        \
		__asm__ volatile("mov %%gs:%1, %0" : "=r"(_pv) : "m"(PERCPU_PLAIN(var))); \
		_pv;                                                                      \
	})
#define percpu_write(var, val)                                       \
	__asm__ volatile("mov %1, %%gs:%0"                           \
			 : "=m"(PERCPU_PLAIN(var))                   \
			 : "r"((__typeof__(PERCPU_PLAIN(var)))(val)) \
			 : "memory")

/* Add to this CPU's copy of the 64-bit variable that @p (linked address) names. */
static inline void percpu_add64_at(uint64_t __percpu *p, uint64_t n)
{
	__asm__ volatile("addq %1, %%gs:(%0)" ::"r"(p), "r"(n) : "memory", "cc");
}

#define this_cpu_ptr(p)     PERCPU_SHIFT(p, percpu_read(percpu_offset))
#define per_cpu_ptr(p, cpu) PERCPU_SHIFT(p, percpu_offsets[cpu])

static inline unsigned int cpu_id(void)
{
	return percpu_read(percpu_cpu_id);
}
