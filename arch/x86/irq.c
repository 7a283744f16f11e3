/* SPDX-License-Identifier: MIT */
/*
 * Interrupt vectors: who handles which.
 *
 * Locking:	irq_lock for allocation.  The dispatcher takes no lock: it counts itself
 *		into `running`, then reads the handler; irq_free() clears the handler,
 *		then waits for `running` to drop to zero.
 */
#define PR_FMT "irq: "

#include <arch/cpu.h>
#include <kernel/counter.h>
#include <kernel/irq.h>
#include <kernel/panic.h>
#include <kernel/preempt.h>
#include <kernel/printk.h>
#include <kernel/random.h>
#include <kernel/sched.h>
#include <kernel/spinlock.h>
#include <kernel/time.h>
#include <kernel/timer.h>
#include <lib/errno.h>

#include "apic.h"
#include "arch_private.h"
#include "pgtable_private.h"
#include "smp.h"

COUNTER(count_irqs, "irq.device", "device interrupts taken");
COUNTER(count_spurious, "irq.spurious", "interrupts without a handler");

struct irq_slot {
	irq_handler_t handler; /* atomic */
	void *arg;             /* written before handler */
	const char *name;      /* irq_lock */
	uint32_t running;      /* atomic: CPUs inside the handler */
	bool used;             /* irq_lock */
};

static struct irq_slot slots[256];
static struct spinlock irq_lock = SPINLOCK_INIT("irq", RANK_IRQ);

int irq_alloc(irq_handler_t handler, void *arg, const char *name)
{
	const unsigned long flags = spin_lock_irqsave(&irq_lock);
	int vector = -ENOSPC;

	for (unsigned int v = VECTOR_DEVICE; v < VECTOR_DEV_END; v++) {
		struct irq_slot *s = &slots[v];

		if (s->used)
			continue;
		s->used = true;
		s->arg = arg;
		s->name = name;
		__atomic_store_n(&s->handler, handler, __ATOMIC_RELEASE);
		vector = (int)v;
		break;
	}
	spin_unlock_irqrestore(&irq_lock, flags);
	return vector;
}

void irq_free(unsigned int vector)
{
	struct irq_slot *s = &slots[vector];
	unsigned long flags;

	BUG_ON(vector < VECTOR_DEVICE || vector >= VECTOR_DEV_END || !s->used);
	__atomic_store_n(&s->handler, NULL, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&s->running, __ATOMIC_SEQ_CST))
		cpu_relax();
	flags = spin_lock_irqsave(&irq_lock);
	s->used = false;
	spin_unlock_irqrestore(&irq_lock, flags);
}

uint64_t msi_address(unsigned int vector, unsigned int cpu)
{
	return 0xfee00000ull | (uint64_t)(apic_id_of_cpu(cpu) & 0xff) << 12;
}

uint32_t msi_data(unsigned int vector)
{
	return vector; /* fixed delivery, edge */
}

static void device_irq(unsigned int vector)
{
	struct irq_slot *s = &slots[vector];
	irq_handler_t handler;

	__atomic_add_fetch(&s->running, 1, __ATOMIC_SEQ_CST);
	handler = __atomic_load_n(&s->handler, __ATOMIC_SEQ_CST);
	if (likely(handler)) {
		counter_inc(&count_irqs);
		handler(vector, s->arg);
	} else {
		counter_inc(&count_spurious);
	}
	__atomic_sub_fetch(&s->running, 1, __ATOMIC_SEQ_CST);
}

void irq_dispatch(unsigned int vector, bool user)
{
	switch (vector) {
	case VECTOR_SPURIOUS:
		counter_inc(&count_spurious);
		return; /* no end of interrupt for this one */
	case VECTOR_TIMER:
		apic_eoi();
		if (user)
			tlb_refresh(time_now_ns());
		timer_interrupt(user);
		return;
	case VECTOR_RESCHED:
		apic_eoi();
		sched_interrupt();
		return;
	case VECTOR_CALL:
		apic_eoi();
		ipi_interrupt();
		return;
	default:
		break;
	}
	if (vector < VECTOR_DEVICE) {
		counter_inc(&count_spurious); /* the masked PIC; it needs no answer */
		return;
	}
	apic_eoi(); /* edge-triggered: a new edge during the handler comes after it */
	device_irq(vector);
}
