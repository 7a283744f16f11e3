/* SPDX-License-Identifier: MIT */
/*
 * Sets of CPUs.
 *
 * Locking:	cpu_mask_set(), _clear(), _test() and _claim() are atomic per bit; the
 *		others see each word whole and are for copies, or where a word that is a
 *		moment old does no harm.
 */
#pragma once

#include <arch/percpu.h>
#include <lib/compiler.h>
#include <lib/types.h>

#define CPU_WORDS DIV_ROUND_UP(MAX_CPUS, 64u)

struct cpu_mask {
	uint64_t bits[CPU_WORDS];
};

static inline void cpu_mask_set(struct cpu_mask *m, unsigned int cpu)
{
	__atomic_fetch_or(&m->bits[cpu / 64], BIT64(cpu % 64), __ATOMIC_SEQ_CST);
}

static inline void cpu_mask_clear(struct cpu_mask *m, unsigned int cpu)
{
	__atomic_fetch_and(&m->bits[cpu / 64], ~BIT64(cpu % 64), __ATOMIC_SEQ_CST);
}

static inline bool cpu_mask_test(const struct cpu_mask *m, unsigned int cpu)
{
	return __atomic_load_n(&m->bits[cpu / 64], __ATOMIC_RELAXED) & BIT64(cpu % 64);
}

/* Clear the bit; true for the one caller that found it set. */
static inline bool cpu_mask_claim(struct cpu_mask *m, unsigned int cpu)
{
	const uint64_t bit = BIT64(cpu % 64);

	return __atomic_fetch_and(&m->bits[cpu / 64], ~bit, __ATOMIC_SEQ_CST) & bit;
}

static inline void cpu_mask_fill(struct cpu_mask *m)
{
	for (unsigned int i = 0; i < CPU_WORDS; i++)
		m->bits[i] = ~0ull;
}

static inline void cpu_mask_only(struct cpu_mask *m, unsigned int cpu)
{
	*m = (struct cpu_mask){ 0 };
	m->bits[cpu / 64] = BIT64(cpu % 64);
}

/* The first CPU from @from on that is in @m; MAX_CPUS when there is none. */
static inline unsigned int cpu_mask_next(const struct cpu_mask *m, unsigned int from)
{
	for (unsigned int w = from / 64; w < CPU_WORDS; w++) {
		uint64_t word = __atomic_load_n(&m->bits[w], __ATOMIC_RELAXED);

		if (w == from / 64)
			word &= ~0ull << from % 64;
		if (word)
			return w * 64 + (unsigned int)__builtin_ctzll(word);
	}
	return MAX_CPUS;
}

static inline bool cpu_mask_empty(const struct cpu_mask *m)
{
	return cpu_mask_next(m, 0) == MAX_CPUS;
}

#define for_each_cpu_in(cpu, mask)                                        \
	for (unsigned int cpu = cpu_mask_next((mask), 0); cpu < MAX_CPUS; \
	     cpu = cpu_mask_next((mask), cpu + 1))
