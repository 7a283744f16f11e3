/* SPDX-License-Identifier: MIT */
/*
 * Interrupts from CPU to CPU: function calls, TLB invalidation, the stop.
 *
 * Flow:	Calls: each CPU has one call of each kind in flight at most (preemption is off
 *		while it waits).  It describes the call in its own area, sets its bit in
 *		the box of every target, and interrupts those that have no interrupt on
 *		its way yet: calls that come close together share one.  A target takes all
 *		bits out of its box, runs those calls and counts each one's `remaining`
 *		down; the caller's wait ends at zero.
 *		Kinds: TLB calls are harmless anywhere, so a CPU that waits with interrupts off
 *		(for a spinlock, or for its own TLB call) serves them by ipi_poll(): a lock may
 *		therefore be held across a TLB call even when others wait for it with
 *		interrupts off.  Ordinary calls run in the interrupt only, so their caller
 *		must hold nothing.
 *		Waiting: a caller with interrupts on halts after a short spin, and the last target
 *		wakes it.
 * Ordering:	a box bit is set before `sent` is tested; the target clears `sent` before
 *		it takes the bits.  So a bit set too late to be taken finds `sent` clear.
 * Failure:	Stop: by NMI, because a CPU may be anywhere when another panics.
 */
#include <arch/ipi.h>

#include <arch/clockevent.h>
#include <arch/cpu.h>
#include <arch/trap.h>
#include <kernel/counter.h>
#include <kernel/panic.h>
#include <kernel/preempt.h>
#include <kernel/printk.h>
#include <kernel/reboot.h>
#include <kernel/thread.h>
#include <kernel/time.h>

#include "apic.h"
#include "arch_private.h"
#include "smp.h"

#define STOP_LIMIT_NS (1000 * NSEC_PER_MSEC)

COUNTER(count_ipis, "ipi.sent", "interrupts sent to other CPUs for calls");
COUNTER(count_calls, "ipi.calls", "function calls made to other CPUs, once per target");
COUNTER(count_tlb_ipis, "tlb.ipis", "interrupts sent for TLB invalidation");
COUNTER(count_halts, "ipi.halts", "callers that halted until their call was done");
COUNTER(count_polled, "tlb.polled", "TLB calls served while waiting for something else");

enum call_kind {
	CALL_TLB,
	CALL_FUNCTION,
	NR_CALL_KINDS
};

struct call {
	void (*fn)(void *arg);
	void *arg;
	uint32_t remaining; /* atomic: targets that have not run it, and CALL_SLEEPER */
};

/* The caller has halted: the CPU that runs the call last interrupts it. */
#define CALL_SLEEPER (1u << 31)
/*
 * A caller spins so long, then halts. A target that answers is back by then; one that does not is
 * a virtual CPU which the host has put aside, perhaps for the very core on which we spin.
 */
#define SPIN_NS      (30 * NSEC_PER_USEC)

struct call_box {
	struct cpu_mask from[NR_CALL_KINDS]; /* atomic: callers */
	uint32_t sent;                       /* atomic: an interrupt is on its way */
};

struct stopped {
	bool done; /* atomic */
	bool user;
	uint64_t rip, rbp;
	const struct thread *thread;
};

static DEFINE_PERCPU(struct call, calls[NR_CALL_KINDS]);
static DEFINE_PERCPU(struct call_box, call_box);
static DEFINE_PERCPU(struct stopped, stopped);

static unsigned int serve(enum call_kind kind)
{
	struct call_box *box = this_cpu_ptr(&call_box);
	unsigned int served = 0;

	for (unsigned int w = 0; w < CPU_WORDS; w++) {
		uint64_t bits = __atomic_load_n(&box->from[kind].bits[w], __ATOMIC_RELAXED);

		if (!bits)
			continue;
		bits = __atomic_exchange_n(&box->from[kind].bits[w], 0, __ATOMIC_ACQUIRE);
		for (; bits; bits &= bits - 1) {
			const unsigned int cpu = w * 64 + (unsigned int)__builtin_ctzll(bits);
			struct call *c = per_cpu_ptr(&calls[kind], cpu);

			c->fn(c->arg);
			/* The caller may reuse *c from here on. */
			if (__atomic_sub_fetch(&c->remaining, 1, __ATOMIC_ACQ_REL) == CALL_SLEEPER)
				apic_send(cpu, VECTOR_RESCHED);
			served++;
		}
	}
	return served;
}

void ipi_interrupt(void)
{
	struct call_box *box = this_cpu_ptr(&call_box);

	ASSERT(!local_irqs_enabled());
	__atomic_exchange_n(&box->sent, 0, __ATOMIC_SEQ_CST);
	(void)serve(CALL_TLB);
	(void)serve(CALL_FUNCTION);
}

void ipi_poll(void)
{
	const unsigned long flags = local_irq_save();
	const unsigned int served = serve(CALL_TLB);

	if (served)
		counter_add(&count_polled, served);
	local_irq_restore(flags);
}

/* Post to @targets; returns how many there are.  Preemption off. */
static unsigned int post(enum call_kind kind, const struct cpu_mask *targets, void (*fn)(void *arg),
			 void *arg)
{
	struct call *c = this_cpu_ptr(&calls[kind]);
	const unsigned int me = cpu_id();
	unsigned int nr = 0;
	unsigned int sent = 0;

	BUG_ON(in_interrupt() || __atomic_load_n(&c->remaining, __ATOMIC_RELAXED));
	for_each_cpu_in(cpu, targets) nr++;
	c->fn = fn;
	c->arg = arg;
	__atomic_store_n(&c->remaining, nr, __ATOMIC_RELEASE);
	for_each_cpu_in(cpu, targets)
	{
		struct call_box *box = per_cpu_ptr(&call_box, cpu);

		cpu_mask_set(&box->from[kind], me); /* orders the stores above */
		if (__atomic_exchange_n(&box->sent, 1, __ATOMIC_SEQ_CST))
			continue;
		apic_send(cpu, VECTOR_CALL);
		sent++;
	}
	counter_add(kind == CALL_TLB ? &count_tlb_ipis : &count_ipis, sent);
	return nr;
}

/* Halt until the last target has run @c. Interrupts on, preemption off. */
static void halt_until_done(struct call *c)
{
	ASSERT(local_irqs_enabled() && !preemptible());
	__atomic_fetch_or(&c->remaining, CALL_SLEEPER, __ATOMIC_ACQ_REL);
	for (;;) {
		local_irq_disable();
		if (__atomic_load_n(&c->remaining, __ATOMIC_ACQUIRE) == CALL_SLEEPER)
			break;
		/* An interrupt between the test and the halt stays pending and ends the halt. */
		cpu_wait_irq();
	}
	local_irq_enable();
	__atomic_store_n(&c->remaining, 0, __ATOMIC_RELAXED);
	counter_inc(&count_halts);
}

static void wait_done(enum call_kind kind)
{
	struct call *c = this_cpu_ptr(&calls[kind]);
	const bool may_halt = local_irqs_enabled();
	const uint64_t start = time_now_ns();

	while (__atomic_load_n(&c->remaining, __ATOMIC_ACQUIRE)) {
		ipi_poll();
		cpu_relax();
		if (may_halt && time_now_ns() - start > SPIN_NS) {
			halt_until_done(c);
			return;
		}
	}
}

void ipi_tlb_call(const struct cpu_mask *targets, void (*fn)(void *arg), void *arg,
		  void (*local)(void *arg))
{
	(void)post(CALL_TLB, targets, fn, arg);
	if (local)
		local(arg);
	wait_done(CALL_TLB);
}

void smp_call_all(void (*fn)(void *arg), void *arg)
{
	struct cpu_mask targets = { 0 };
	unsigned long flags;

	BUG_ON(!local_irqs_enabled());
	preempt_disable();
	for_each_cpu(cpu) {
		if (cpu != cpu_id())
			cpu_mask_set(&targets, cpu);
	}
	counter_add(&count_calls, post(CALL_FUNCTION, &targets, fn, arg));
	wait_done(CALL_FUNCTION);
	flags = local_irq_save();
	fn(arg);
	local_irq_restore(flags);
	preempt_enable();
}

void ipi_resched(unsigned int cpu)
{
	apic_send(cpu, VECTOR_RESCHED);
}

/* The NMI of smp_stop_others() arrived. */
void smp_stop_this_cpu(struct pt_regs *regs)
{
	struct stopped *s = this_cpu_ptr(&stopped);

	s->user = regs_from_user(regs);
	s->rip = regs->rip;
	s->rbp = regs->rbp;
	s->thread = thread_current();
	__atomic_store_n(&s->done, true, __ATOMIC_RELEASE);
	machine_halt();
}

void smp_stop_others(void)
{
	const uint64_t start = time_now_ns();

	for_each_cpu(cpu) {
		if (cpu != cpu_id())
			apic_send_nmi(cpu);
	}
	for_each_cpu(cpu) {
		const struct stopped *s = per_cpu_ptr(&stopped, cpu);

		while (cpu != cpu_id() && !__atomic_load_n(&s->done, __ATOMIC_ACQUIRE) &&
		       time_now_ns() - start < STOP_LIMIT_NS)
			cpu_relax();
	}
}

void smp_stopped_print(void)
{
	for_each_cpu(cpu) {
		const struct stopped *s = per_cpu_ptr(&stopped, cpu);

		if (cpu == cpu_id())
			continue;
		if (!__atomic_load_n(&s->done, __ATOMIC_ACQUIRE)) {
			printk(LOG_ERR, "cpu %u does not answer\n", cpu);
			continue;
		}
		printk(LOG_ERR, "cpu %u stopped in %s, thread %s (%u)\n", cpu,
		       s->user ? "user mode" : "the kernel", s->thread ? s->thread->name : "none",
		       s->thread ? s->thread->tid : 0);
		if (!s->user)
			backtrace_print_from(s->rip, s->rbp);
	}
}
