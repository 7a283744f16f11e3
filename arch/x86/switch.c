/* SPDX-License-Identifier: MIT */
/*
 * The CPU state besides the stack that changes when another thread runs: page
 * table, segment bases, entry stack, FPU ownership.
 *
 * Flow:	Lazy: a kernel thread keeps whatever page table is loaded; it touches no user
 *		address.  MSRs are written only when their value changes.
 */
#include <arch/cpu.h>
#include <arch/fpu.h>
#include <arch/pgtable.h>
#include <kernel/panic.h>
#include <kernel/preempt.h>
#include <kernel/sched.h>
#include <kernel/thread.h>

#include "arch_private.h"

static DEFINE_PERCPU(uint64_t, loaded_fs_base);
static DEFINE_PERCPU(uint64_t, loaded_gs_base);
static DEFINE_PERCPU(bool, loaded_no_tsc);

#define CR4_TSD BIT64(2)

/* As switch_context() leaves it: six registers, then the return address. */
uint64_t thread_stack_init(uint64_t top)
{
	uint64_t *sp = (uint64_t *)top;

	*--sp = 0; /* keeps the entry 16-byte aligned */
	*--sp = 0;
	*--sp = (uint64_t)thread_entry_asm;
	for (unsigned int i = 0; i < 6; i++)
		*--sp = 0;
	return (uint64_t)sp;
}

static void load_bases(const struct user_context *u)
{
	if (percpu_read(loaded_fs_base) != u->fs_base) {
		wrmsr(MSR_FS_BASE, u->fs_base);
		percpu_write(loaded_fs_base, u->fs_base);
	}
	if (percpu_read(loaded_gs_base) != u->gs_base) {
		wrmsr(MSR_KERNEL_GS_BASE, u->gs_base);
		percpu_write(loaded_gs_base, u->gs_base);
	}
}

static void load_tsc(bool no_tsc)
{
	uint64_t cr4;

	if (likely(percpu_read(loaded_no_tsc) == no_tsc))
		return;
	__asm__ volatile("mov %%cr4, %0" : "=r"(cr4));
	cr4 = no_tsc ? cr4 | CR4_TSD : cr4 & ~CR4_TSD;
	__asm__ volatile("mov %0, %%cr4" ::"r"(cr4) : "memory");
	percpu_write(loaded_no_tsc, no_tsc);
}

void thread_switch_arch(struct thread *prev, struct thread *next)
{
	ASSERT(!local_irqs_enabled());
	tss_set_kernel_stack(next->stack_top);
	if (unlikely((READ_ONCE(prev->flags) | READ_ONCE(next->flags)) & THREAD_F_DEBUG))
		debug_switch(prev, next);
	/* With one CPU they are saved when another thread wants the registers. */
	if (prev->user.fpu && cpu_online_count() > 1)
		fpu_switch_out(prev->user.fpu);
	if (next->user.pgtable) {
		pgtable_activate(next->user.pgtable);
		load_bases(&next->user);
		load_tsc(next->user.no_tsc);
	}
	if (next->user.fpu)
		fpu_switch_in(next->user.fpu);
}

void thread_set_user(struct pgtable *pt, struct fpu_state *fpu)
{
	struct thread *t = thread_current();
	unsigned long flags;

	preempt_disable();
	if (fpu) {
		t->user.fpu = fpu;
		fpu_switch_in(fpu);
	}
	if (pt) {
		t->user.pgtable = pt;
		pgtable_activate(pt);
		load_bases(&t->user);
		load_tsc(t->user.no_tsc);
		flags = local_irq_save();
		timer_tick_start();
		local_irq_restore(flags);
	}
	preempt_enable();
}

void thread_clear_user(void)
{
	struct thread *t = thread_current();

	if (!t->user.pgtable && !t->user.fpu)
		return;
	debug_clear();
	preempt_disable();
	t->user = (struct user_context){ 0 };
	pgtable_activate(NULL);
	preempt_enable();
}

void thread_set_fs_base(uint64_t base)
{
	struct thread *t = thread_current();

	BUG_ON(base >= USER_TOP); /* a non-canonical base would fault in WRMSR */
	preempt_disable();
	t->user.fs_base = base;
	load_bases(&t->user);
	preempt_enable();
}

void thread_set_gs_base(uint64_t base)
{
	struct thread *t = thread_current();

	BUG_ON(base >= USER_TOP);
	preempt_disable();
	t->user.gs_base = base;
	load_bases(&t->user);
	preempt_enable();
}

void thread_set_tsc(bool allowed)
{
	struct thread *t = thread_current();

	preempt_disable();
	t->user.no_tsc = !allowed;
	load_tsc(!allowed);
	preempt_enable();
}

bool thread_tsc_allowed(void)
{
	return !thread_current()->user.no_tsc;
}

/* User code cannot change the bases by itself: CR4.FSGSBASE is off. */
uint64_t thread_fs_base(void)
{
	return thread_current()->user.fs_base;
}

uint64_t thread_gs_base(void)
{
	return thread_current()->user.gs_base;
}
