/* SPDX-License-Identifier: MIT */
/*
 * membarrier(): a memory barrier on every CPU, so that the fast side of an algorithm needs none.
 *
 * Flow:	each CPU takes an interrupt, whatever it runs: so a thread that does not run now has
 *		a barrier behind it when it runs again.
 * See:		Linux's membarrier(2)
 */
#include <abi/sched.h>
#include <arch/cpu.h>
#include <arch/ipi.h>
#include <lib/errno.h>
#include <processor/syscall/syscall.h>

#include "process.h"
#include "rseq.h"

/* A process asks for these before it may use them. */
#define REGISTERS                                                                               \
	(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED | MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED | \
	 MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE |                                  \
	 MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ)
/* The command that registers one of these is the next bit. */
#define PRIVATE                                                                          \
	(MEMBARRIER_CMD_PRIVATE_EXPEDITED | MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE | \
	 MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ)
#define ALL                                                                              \
	(MEMBARRIER_CMD_GLOBAL | MEMBARRIER_CMD_GLOBAL_EXPEDITED | REGISTERS | PRIVATE | \
	 MEMBARRIER_CMD_GET_REGISTRATIONS)

static void barrier_here(void *arg)
{
	smp_mb(); /* and the way here and back has others */
}

/* CPUID lets no instruction behind it be fetched earlier: what was written as code is seen. */
static void sync_core_here(void *arg)
{
	(void)cpuid(0, 0);
}

static long private_barrier(uint32_t cmd, int cpu)
{
	const struct process *p = process_current();

	if (!(READ_ONCE(p->barriers) & (cmd << 1)))
		return -EPERM;
	if (cmd == MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ)
		rseq_leave_all(p->as, cpu);
	else if (cmd == MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE)
		smp_call_all(sync_core_here, NULL);
	else
		smp_call_all(barrier_here, NULL);
	return 0;
}

static long registrations(const struct process *p)
{
	const uint32_t all = READ_ONCE(p->barriers);

	/* Linux tells the plain barrier with each of the two, and yet refuses it. */
	return all & (MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE |
		      MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ)
		       ? all | MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED
		       : all;
}

/* membarrier(cmd, flags, cpu) */
long sys_membarrier(const struct syscall_args *args)
{
	const uint32_t cmd = (uint32_t)args->a[0];
	const uint32_t flags = (uint32_t)args->a[1];
	const uint32_t known =
		cmd == MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ ? MEMBARRIER_CMD_FLAG_CPU : 0;
	struct process *p = process_current();

	if (flags & ~known)
		return -EINVAL;
	if (cmd == MEMBARRIER_CMD_QUERY)
		return ALL;
	if ((cmd & (cmd - 1)) || !(cmd & ALL))
		return -EINVAL;
	if (cmd & PRIVATE)
		return private_barrier(cmd, flags ? (int)args->a[2] : -1);
	if (cmd & REGISTERS) {
		__atomic_fetch_or(&p->barriers, cmd, __ATOMIC_RELAXED);
		return 0;
	}
	if (cmd == MEMBARRIER_CMD_GET_REGISTRATIONS)
		return registrations(p);
	smp_call_all(barrier_here, NULL);
	return 0;
}
