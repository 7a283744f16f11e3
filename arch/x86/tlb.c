/* SPDX-License-Identifier: MIT */
/*
 * TLB invalidation, here and on other CPUs.
 *
 * Flow:	a page table's `active` set names the CPUs that have it loaded.  A CPU sets
 *		its bit before it loads the table and clears it after it loaded another, so
 *		that a flush which misses the bit comes before the load.
 *		Lazy: a kernel thread keeps the last program's table loaded.  The first flush
 *		that reaches such a CPU makes it load the kernel's own instead, so that it
 *		is not interrupted again.
 * Context:	any but interrupt handlers, spinlocks held or not: see ipi.c for why other
 *		CPUs always answer.
 *		Emulated: QEMU's TCG gives its software TLB a new size only when the guest
 *		flushes it, by how full it was in the last 100 ms, and begins with 256
 *		entries. We flush so seldom that a program with a scattered working set runs
 *		up to three times slower. So a CPU under TCG flushes its TLB every
 *		tlb.refresh_ms while it runs programs. Real CPUs never do.
 * Ordering:	the entry changes, then a full barrier, then the set is read.
 */
#include <arch/cpu.h>
#include <arch/kpgtable.h>
#include <arch/pgtable.h>
#include <kernel/bootparam.h>
#include <kernel/counter.h>
#include <kernel/panic.h>
#include <kernel/preempt.h>
#include <kernel/thread.h>
#include <kernel/time.h>

#include "arch_private.h"
#include "pgtable_private.h"
#include "smp.h"

COUNTER(count_flushes, "tlb.flushes", "TLB invalidations of user page tables");
COUNTER(count_shootdowns, "tlb.shootdowns", "TLB invalidations that had to reach other CPUs");
COUNTER(count_targets, "tlb.targets", "CPUs that those shootdowns reached");
COUNTER(count_lazy, "tlb.lazy_drops", "page tables that a CPU in a kernel thread let go");

COUNTER(count_refreshes, "tlb.refreshes", "TLB flushes for the sake of an emulator");

static unsigned int refresh_ms = 50;
BOOT_PARAM_RANGE("tlb.refresh_ms", u32, refresh_ms, 0, 10000,
		 "milliseconds between TLB flushes while programs run under TCG (0: none)");

#define CR4_PGE BIT64(7)

static DEFINE_PERCPU(struct pgtable *, active_pgtable);
static DEFINE_PERCPU(uint64_t, refresh_at_ns);

static void active_set(struct pgtable *pt, unsigned int cpu, bool on)
{
	if (!pt)
		return;
	if (on)
		cpu_mask_set(&pt->active, cpu);
	else
		cpu_mask_clear(&pt->active, cpu);
}

static void load_cr3(paddr_t cr3)
{
	__asm__ volatile("mov %0, %%cr3" ::"r"(cr3) : "memory");
}

static void invlpg(vaddr_t v)
{
	__asm__ volatile("invlpg (%0)" ::"r"(v) : "memory");
}

void pgtable_activate(struct pgtable *pt)
{
	struct pgtable *old = percpu_read(active_pgtable);
	unsigned long flags;

	/* A shootdown only takes away a table that is not the running thread's. */
	if (old == pt)
		return;
	flags = local_irq_save();
	old = percpu_read(active_pgtable); /* it may have been taken away just now */
	ASSERT(!old || cpu_mask_test(&old->active, cpu_id()));
	if (old != pt) {
		active_set(pt, cpu_id(), true); /* before loading: a flush must not miss this CPU */
		percpu_write(active_pgtable, pt);
		load_cr3(pt ? pt->cr3 : kernel_cr3());
		active_set(old, cpu_id(), false);
	}
	local_irq_restore(flags);
}

void tlb_refresh(uint64_t now_ns)
{
	struct pgtable *pt = percpu_read(active_pgtable);

	ASSERT(!local_irqs_enabled());
	if (!refresh_ms || !pt || now_ns < percpu_read(refresh_at_ns) || !cpu_is_tcg())
		return;
	percpu_write(refresh_at_ns, now_ns + refresh_ms * NSEC_PER_MSEC);
	load_cr3(pt->cr3);
	counter_inc(&count_refreshes);
}

/* --- user tables ------------------------------------------------------------------------ */

struct flush {
	struct pgtable *pt;
	const vaddr_t *pages;
	unsigned int nr; /* 0: everything */
};

static void flush_local(void *arg)
{
	const struct flush *f = arg;

	if (percpu_read(active_pgtable) != f->pt)
		return;
	if (f->nr == 0)
		load_cr3(f->pt->cr3);
	for (unsigned int i = 0; i < f->nr; i++)
		invlpg(f->pages[i]);
}

/* On another CPU, interrupts off. */
static void flush_remote(void *arg)
{
	const struct flush *f = arg;
	const struct thread *t = thread_current();

	if (percpu_read(active_pgtable) == f->pt && (!t || t->user.pgtable != f->pt)) {
		counter_inc(&count_lazy);
		pgtable_activate(NULL);
	} else {
		flush_local(arg);
	}
}

/* CPUs but this one that may have @pt's entries; false when there are none. */
static bool others(const struct pgtable *pt, struct cpu_mask *targets)
{
	const unsigned int me = cpu_id();
	uint64_t any = 0;

	smp_mb(); /* the changed entries before the look: pairs with pgtable_activate() */
	for (unsigned int i = 0; i < CPU_WORDS; i++) {
		targets->bits[i] = __atomic_load_n(&pt->active.bits[i], __ATOMIC_RELAXED);
		if (i == me / 64)
			targets->bits[i] &= ~BIT64(me % 64);
		any |= targets->bits[i];
	}
	return any;
}

static void count_remote(const struct cpu_mask *targets)
{
	counter_inc(&count_shootdowns);
	for (unsigned int i = 0; i < CPU_WORDS; i++)
		counter_add(&count_targets, (uint64_t)__builtin_popcountll(targets->bits[i]));
}

static void flush(struct pgtable *pt, const vaddr_t *pages, unsigned int nr)
{
	struct flush f = { .pt = pt, .pages = pages, .nr = nr };
	struct cpu_mask targets;

	preempt_disable();
	counter_inc(&count_flushes);
	if (cpu_online_count() == 1 || likely(!others(pt, &targets))) {
		flush_local(&f);
	} else {
		count_remote(&targets);
		ipi_tlb_call(&targets, flush_remote, &f, flush_local);
	}
	preempt_enable();
}

void tlb_flush_all(struct pgtable *pt)
{
	flush(pt, NULL, 0);
}

void tlb_flush_range(struct pgtable *pt, vaddr_t start, vaddr_t end)
{
	vaddr_t pages[TLB_BATCH_MAX];
	unsigned int nr = 0;

	ASSERT(start <= end && end <= USER_TOP);
	if ((end - start) >> PAGE_SHIFT >= TLB_BATCH_MAX) {
		tlb_flush_all(pt);
		return;
	}
	for (vaddr_t v = ALIGN_DOWN(start, PAGE_SIZE); v < end; v += PAGE_SIZE)
		pages[nr++] = v;
	if (nr)
		flush(pt, pages, nr);
}

void tlb_batch_flush(struct tlb_batch *b)
{
	ASSERT(b->nr <= TLB_BATCH_MAX);
	if (b->full)
		tlb_flush_all(b->pt);
	else if (b->nr)
		flush(b->pt, b->pages, b->nr);
	tlb_batch_init(b, b->pt);
}

static void drop(void *arg)
{
	struct pgtable *pt = arg;

	if (percpu_read(active_pgtable) != pt)
		return;
	BUG_ON(thread_current() && thread_current()->user.pgtable == pt);
	pgtable_activate(NULL);
}

void pgtable_drop(struct pgtable *pt)
{
	struct cpu_mask targets;

	preempt_disable();
	drop(pt);
	if (others(pt, &targets))
		ipi_tlb_call(&targets, drop, pt, NULL);
	preempt_enable();
	BUG_ON(!cpu_mask_empty(&pt->active));
}

/* --- the kernel's half ------------------------------------------------------------------- */

struct kernel_flush {
	vaddr_t start, end;
};

/* Entries of the kernel's half are global: a new CR3 does not drop them. */
static void flush_global(void)
{
	const unsigned long flags = local_irq_save();
	uint64_t cr4;

	__asm__ volatile("mov %%cr4, %0" : "=r"(cr4));
	__asm__ volatile("mov %0, %%cr4" ::"r"(cr4 ^ CR4_PGE) : "memory");
	__asm__ volatile("mov %0, %%cr4" ::"r"(cr4) : "memory");
	local_irq_restore(flags);
}

static void kernel_flush(void *arg)
{
	const struct kernel_flush *f = arg;

	if ((f->end - f->start) >> PAGE_SHIFT > TLB_BATCH_MAX) {
		flush_global();
		return;
	}
	for (vaddr_t v = f->start; v < f->end; v += PAGE_SIZE)
		invlpg(v);
}

void kpt_flush(vaddr_t start, vaddr_t end)
{
	struct kernel_flush f = { .start = start, .end = end };
	struct cpu_mask targets = { 0 };

	preempt_disable();
	for_each_cpu(cpu) {
		if (cpu != cpu_id())
			targets.bits[cpu / 64] |= BIT64(cpu % 64);
	}
	smp_mb(); /* the changed entries before anybody is told */
	if (cpu_mask_empty(&targets))
		kernel_flush(&f);
	else
		ipi_tlb_call(&targets, kernel_flush, &f, kernel_flush);
	preempt_enable();
}
