/* SPDX-License-Identifier: MIT */
/*
 * Between the files that start and interrupt other CPUs.
 */
#pragma once

#include <arch/cpumask.h>
#include <lib/types.h>

struct pt_regs;

/*
 * tsc_sync.c: is another CPU's TSC that of the boot CPU?  The boot CPU calls _start
 * before it lets the other go, then both sides run at once.
 */
enum tsc_sync {
	TSC_SYNC_GOOD,
	TSC_SYNC_ADJUSTED, /* the other CPU's counter was moved */
	TSC_SYNC_FAILED
};
void tsc_sync_start(unsigned int cpu);
enum tsc_sync tsc_sync_boot_side(unsigned int cpu, int64_t *offset, uint64_t limit_ns);
void tsc_sync_other_side(void);
/* *offset is 0 when it failed because the other CPU did not answer. */

/* One exchange: the boot CPU read t0 and t1 around the other's read of t. */
struct tsc_round {
	uint64_t t0, t, t1;
};
/*
 * The result of @nr exchanges: ticks to add to the other counter (0: it agrees with
 * all of them), and how far off that may still be.  Pure.
 */
int64_t tsc_offset(const struct tsc_round *rounds, unsigned int nr, uint64_t *uncertain);

/* ipi.c: interrupt handlers. */
void ipi_interrupt(void);
void smp_stop_this_cpu(struct pt_regs *regs) __attribute__((noreturn));
/* Run @fn on @targets (without this CPU), meanwhile @local here; wait.  Preemption off. */
void ipi_tlb_call(const struct cpu_mask *targets, void (*fn)(void *arg), void *arg,
		  void (*local)(void *arg));
